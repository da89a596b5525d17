//! The messages of SOCKS5 (RFC 1928, RFC 1929), parsed from bytes. No input or output.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The version byte.
pub const VERSION: u8 = 5;
/// No authentication.
pub const METHOD_NONE: u8 = 0;
/// Name and password (RFC 1929).
pub const METHOD_PASSWORD: u8 = 2;
/// None of the offered methods.
pub const METHOD_REFUSED: u8 = 0xff;
/// Upper bound of a client's message, in bytes. The longest message has a name and a password of
/// 255 bytes each (RFC 1929, 2).
pub const LONGEST_BYTES: usize = 2 + 1 + 255 + 1 + 255;

/// Why bytes cannot be parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// More bytes are needed.
    #[error("the message is not complete")]
    Short,
    /// The version byte is wrong.
    #[error("version {0} where 5 was expected")]
    Version(u8),
    /// The command is not known.
    #[error("command {0} is not supported")]
    Command(u8),
    /// The type of the address is not known.
    #[error("address type {0} is not supported")]
    AddressType(u8),
    /// The name is empty, not ASCII, or has a character that no host name has.
    #[error("the name is not one of a host")]
    Name,
    /// A fragment of a datagram.
    #[error("fragments are not supported")]
    Fragment,
}

/// The command of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// CONNECT: a TCP connection.
    Connect,
    /// UDP ASSOCIATE: datagrams.
    Associate,
}

/// A destination, as an address or a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// An address or a name, as text.
    pub host: String,
    /// The port.
    pub port: u16,
}

/// The reply to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    /// The request succeeded.
    Succeeded = 0,
    /// General failure.
    Failed = 1,
    /// The policy does not allow it.
    NotAllowed = 2,
    /// The server cannot be reached.
    HostUnreachable = 4,
    /// The server refuses.
    Refused = 5,
    /// BIND, or an unknown command.
    CommandNotSupported = 7,
    /// An unknown address type.
    AddressTypeNotSupported = 8,
}

/// The methods that a client offers, and the length of the message in bytes.
///
/// # Errors
/// [`WireError::Short`], [`WireError::Version`].
pub fn greeting(bytes: &[u8]) -> Result<(&[u8], usize), WireError> {
    let [version, count, rest @ ..] = bytes else { return first_is(bytes, VERSION) };
    if *version != VERSION {
        return Err(WireError::Version(*version));
    }
    let methods = rest.get(..usize::from(*count)).ok_or(WireError::Short)?;
    Ok((methods, 2 + methods.len()))
}

/// Name, password and length of an authentication.
///
/// # Errors
/// [`WireError::Short`], [`WireError::Version`].
pub fn password(bytes: &[u8]) -> Result<(&[u8], &[u8], usize), WireError> {
    let [version, rest @ ..] = bytes else { return Err(WireError::Short) };
    if *version != 1 {
        return Err(WireError::Version(*version));
    }
    let (name, rest) = counted(rest)?;
    let (password, _) = counted(rest)?;
    Ok((name, password, 3 + name.len() + password.len()))
}

/// The command, its target and the length of a request.
///
/// # Errors
/// Any [`WireError`] but [`WireError::Fragment`].
pub fn request(bytes: &[u8]) -> Result<(Command, Target, usize), WireError> {
    let [version, command, _reserved, rest @ ..] = bytes else { return first_is(bytes, VERSION) };
    if *version != VERSION {
        return Err(WireError::Version(*version));
    }
    let command = match command {
        1 => Command::Connect,
        3 => Command::Associate,
        other => return Err(WireError::Command(*other)),
    };
    let (target, length) = target(rest)?;
    Ok((command, target, 3 + length))
}

/// The target of a datagram, and where its payload begins.
///
/// # Errors
/// Any [`WireError`] but [`WireError::Version`] and [`WireError::Command`].
pub fn datagram(bytes: &[u8]) -> Result<(Target, usize), WireError> {
    let [_, _, fragment, rest @ ..] = bytes else { return Err(WireError::Short) };
    if *fragment != 0 {
        return Err(WireError::Fragment);
    }
    let (target, length) = target(rest)?;
    Ok((target, 3 + length))
}

/// The reply to a request. `bound` is the gateway's address for it.
pub fn reply(reply: Reply, bound: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![VERSION, reply as u8, 0];
    put(&mut bytes, bound);
    bytes
}

/// The head of a datagram that came from `from`.
pub fn datagram_head(from: SocketAddr) -> Vec<u8> {
    let mut bytes = vec![0, 0, 0];
    put(&mut bytes, from);
    bytes
}

fn put(bytes: &mut Vec<u8>, address: SocketAddr) {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            bytes.push(1);
            bytes.extend(ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(4);
            bytes.extend(ip.octets());
        }
    }
    bytes.extend(address.port().to_be_bytes());
}

fn target(bytes: &[u8]) -> Result<(Target, usize), WireError> {
    let [kind, rest @ ..] = bytes else { return Err(WireError::Short) };
    let (host, length) = match kind {
        1 => (Ipv4Addr::from(*rest.first_chunk::<4>().ok_or(WireError::Short)?).to_string(), 4),
        4 => (Ipv6Addr::from(*rest.first_chunk::<16>().ok_or(WireError::Short)?).to_string(), 16),
        3 => {
            let (name, _) = counted(rest)?;
            (host_name(name)?, 1 + name.len())
        }
        other => return Err(WireError::AddressType(*other)),
    };
    let port = rest.get(length..).and_then(|rest| rest.first_chunk::<2>()).ok_or(WireError::Short)?;
    Ok((Target { host, port: u16::from_be_bytes(*port) }, 1 + length + 2))
}

fn host_name(name: &[u8]) -> Result<String, WireError> {
    // Clients also send addresses as names, hence the colon (IPv6).
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_:".contains(byte);
    if name.is_empty() || !name.iter().all(plain) {
        return Err(WireError::Name);
    }
    String::from_utf8(name.to_vec()).map_err(|_| WireError::Name)
}

fn counted(bytes: &[u8]) -> Result<(&[u8], &[u8]), WireError> {
    let [count, rest @ ..] = bytes else { return Err(WireError::Short) };
    rest.split_at_checked(usize::from(*count)).ok_or(WireError::Short)
}

/// [`WireError::Short`], or [`WireError::Version`] if the first byte is wrong already.
fn first_is<T>(bytes: &[u8], version: u8) -> Result<T, WireError> {
    match bytes.first() {
        Some(&first) if first != version => Err(WireError::Version(first)),
        _ => Err(WireError::Short),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(name: &[u8], port: u16) -> Vec<u8> {
        let mut bytes = vec![5, 1, 0, 3, name.len() as u8];
        bytes.extend(name);
        bytes.extend(port.to_be_bytes());
        bytes
    }

    #[test]
    fn messages_of_the_rfc() {
        assert_eq!(greeting(&[5, 2, 0, 2, 77]), Ok((&[0, 2][..], 4)));
        assert_eq!(password(b"\x01\x03ann\x02pw rest"), Ok((&b"ann"[..], &b"pw"[..], 8)));
        let (command, target, length) = request(&[5, 1, 0, 1, 9, 9, 9, 9, 1, 187, 5]).unwrap();
        assert_eq!(
            (command, target.host.as_str(), target.port, length),
            (Command::Connect, "9.9.9.9", 443, 10)
        );
        let (_, target, length) = request(&named(b"example.org", 80)).unwrap();
        assert_eq!((target.host.as_str(), target.port, length), ("example.org", 80, 18));
        let six = [&[0, 0, 0, 4][..], &[0; 15], &[1, 0, 53], b"payload"].concat();
        assert_eq!(datagram(&six), Ok((Target { host: "::1".into(), port: 53 }, 22)));
    }

    #[test]
    fn what_is_no_message() {
        assert_eq!(greeting(b"GET / HTTP/1.1\r\n"), Err(WireError::Version(b'G')));
        assert_eq!(greeting(b"G"), Err(WireError::Version(b'G')));
        assert_eq!(request(&[5, 2, 0, 1, 9, 9, 9, 9, 1, 187]), Err(WireError::Command(2)));
        assert_eq!(request(&[5, 1, 0, 2, 9, 9, 9, 9, 1, 187]), Err(WireError::AddressType(2)));
        assert_eq!(datagram(&[0, 0, 1, 1, 9, 9, 9, 9, 0, 53]), Err(WireError::Fragment));
        for name in [&b""[..], b"a b", b"a\0b", b"a\r\nHost: b", b"\xff", b"a/b", b"a%b"] {
            assert_eq!(request(&named(name, 80)).unwrap_err(), WireError::Name, "{name:?}");
        }
    }

    proptest! {
        /// Any prefix of a message is incomplete, and bytes after the message do not change it.
        #[test]
        fn every_prefix_is_short(name in "[a-z0-9.-]{1,255}", port: u16, after: Vec<u8>) {
            let whole = named(name.as_bytes(), port);
            for length in 0..whole.len() {
                prop_assert_eq!(request(&whole[..length]).unwrap_err(), WireError::Short);
            }
            let (_, target, length) = request(&[&whole[..], &after].concat()).unwrap();
            prop_assert_eq!((target.host, target.port, length), (name, port, whole.len()));
        }

        /// An address that was written is read back unchanged.
        #[test]
        fn heads_of_datagrams_are_read_back(address: std::net::SocketAddr) {
            let address = SocketAddr::new(address.ip(), address.port());
            let (target, length) = datagram(&[datagram_head(address), b"x".to_vec()].concat()).unwrap();
            prop_assert_eq!(target.host, address.ip().to_canonical().to_string());
            prop_assert_eq!((target.port, length), (address.port(), datagram_head(address).len()));
        }

        /// Every input is parsed or refused, and no parser reads more than its input.
        #[test]
        fn anything_is_read_or_refused(bytes: Vec<u8>) {
            let lengths = [
                greeting(&bytes).map(|(_, length)| length),
                password(&bytes).map(|(.., length)| length),
                request(&bytes).map(|(.., length)| length),
                datagram(&bytes).map(|(_, length)| length),
            ];
            prop_assert!(lengths.into_iter().flatten().all(|length| length <= bytes.len().min(LONGEST_BYTES + 8)));
        }
    }
}
