//! What clients say in SOCKS5: reads without panicking, within what was given, and a part of a message is never a whole one.
#![no_main]

use leeway_gateway::socks_wire::{self as wire, LONGEST_BYTES, WireError};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    type Parser = fn(&[u8]) -> Result<usize, WireError>;
    let parsers: [Parser; 4] = [
        |bytes| wire::greeting(bytes).map(|(_, length)| length),
        |bytes| wire::password(bytes).map(|(.., length)| length),
        |bytes| wire::request(bytes).map(|(.., length)| length),
        |bytes| wire::datagram(bytes).map(|(_, length)| length),
    ];
    for parse in parsers {
        if let Ok(length) = parse(bytes) {
            assert!(length <= bytes.len() && length <= LONGEST_BYTES);
            assert_eq!(parse(&bytes[..length]), Ok(length));
            assert_eq!(parse(&bytes[..length - 1]), Err(WireError::Short));
        }
    }
    if let Ok((target, _)) = wire::datagram(bytes)
        && let Ok(address) = target.host.parse::<std::net::IpAddr>()
        && bytes[3] != 3
    {
        // What goes back to the client names the same server.
        let head = wire::datagram_head(std::net::SocketAddr::new(address, target.port));
        let (again, _) = wire::datagram(&head).expect("a head that was written is read");
        assert_eq!(again.host.parse(), Ok(address.to_canonical()));
        assert_eq!(again.port, target.port);
    }
});
