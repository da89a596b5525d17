//! A datagram of QUIC: reads without panicking, and what was read is what was there.
#![no_main]

use leeway_tunnel::wire::{self, Datagram};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let again = match Datagram::read(bytes) {
        Ok(Datagram::Packet { stamp_us, packet }) => {
            [wire::packet_header(stamp_us).as_slice(), packet].concat()
        }
        Ok(Datagram::Half { stamp_us, id, second, part }) => {
            [wire::half_header(stamp_us, id, second).as_slice(), part].concat()
        }
        Ok(Datagram::AtWork) => wire::AT_WORK_DATAGRAM.to_vec(),
        Ok(Datagram::Report(report)) => wire::report_datagram(&report).to_vec(),
        Err(_) => return,
    };
    assert_eq!(again, bytes);
});
