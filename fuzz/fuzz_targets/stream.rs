//! The stream over TCP, and the first stream of QUIC: frames one after the other.
#![no_main]

use leeway_tunnel::wire::{self, FRAME_LIMIT, Frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut at = 0;
    while let Ok(Some((body, used))) = wire::frame(&bytes[at..]) {
        assert!(!body.is_empty() && body.len() <= FRAME_LIMIT && used == body.len() + 2);
        match Frame::read(body) {
            Ok(Frame::Greeting(greeting)) => assert_eq!(greeting.to_frame(), &bytes[at..at + used]),
            Ok(Frame::Packet(packet)) => assert_eq!(packet.len() + 1, body.len()),
            Ok(Frame::Alive) => assert_eq!(body.len(), 1),
            Err(_) => {}
        }
        at += used;
    }
});
