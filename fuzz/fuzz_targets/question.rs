//! What clients without configuration ask name servers: judged without panicking, by the question alone.
#![no_main]

use leeway_gateway::dns::is_question;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if is_question(bytes) {
        assert_eq!(bytes[2] & 0xf8, 0, "a query");
        assert_eq!(bytes[4..6], [0, 1], "one question");
        // What follows the question (EDNS, RFC 6891) changes nothing.
        assert!(is_question(&[bytes, &[0, 0, 41]].concat()));
    }
});
