//! What the gateway reads of its clients, message by message.

use leeway_gateway::dns::is_question;
use leeway_gateway::http::basic;
use leeway_gateway::socks_wire::{self as wire, LONGEST_BYTES, WireError};
use std::net::{IpAddr, SocketAddr};

/// `Proxy-Authorization`: a name has no colon.
pub fn authorization(bytes: &[u8]) {
    if let Some((name, _)) = basic(&String::from_utf8_lossy(bytes)) {
        assert!(!name.contains(':'));
    }
}

/// What clients without configuration ask name servers: judged by the question alone.
pub fn question(bytes: &[u8]) {
    if is_question(bytes) {
        assert_eq!(bytes[2] & 0xf8, 0, "a query");
        assert_eq!(bytes[4..6], [0, 1], "one question");
        // What follows the question (EDNS, RFC 6891) changes nothing.
        assert!(is_question(&[bytes, &[0, 0, 41]].concat()));
    }
}

/// What clients say in SOCKS5: read within what was given, and a part of a message is never a
/// whole one.
pub fn socks(bytes: &[u8]) {
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
        && let Ok(address) = target.host.parse::<IpAddr>()
        && bytes[3] != 3
    {
        // What goes back to the client names the same server.
        let head = wire::datagram_head(SocketAddr::new(address, target.port));
        let (again, _) = wire::datagram(&head).expect("a head that was written is read");
        assert_eq!(again.host.parse(), Ok(address.to_canonical()));
        assert_eq!(again.port, target.port);
    }
}
