//! An invitation as one line to copy: the server's address, the server's fingerprint, and the
//! client's key.

use crate::identity::{Fingerprint, Secret};
use data_encoding::BASE64URL_NOPAD;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

const PREFIX: &str = "leeway1_";
const CHECK: usize = 4;
/// Most characters of an address: a host name has at most 253 (RFC 1035, 3.1), a port five.
const ADDRESS_LIMIT: usize = 260;

/// What `leeway invite` makes and `leeway join` takes.
///
/// A token is a password: whoever has it is the client.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// The server's address, `host:port`.
    pub address: String,
    /// The server's public key.
    pub server: Fingerprint,
    /// The client's key.
    pub secret: Secret,
}

/// Why a text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The text does not start with the prefix.
    #[error("this is not a token of `leeway invite`: those begin with {PREFIX}")]
    Prefix,
    /// The text is incomplete or has a typing error.
    #[error(
        "the token is incomplete or has a typing error; copy the whole line that `leeway invite` printed"
    )]
    Damaged,
    /// The address is not valid.
    #[error("an address is a host and a port, such as relay.example.org:4433 or [2001:db8::1]:4433")]
    Address,
}

impl Token {
    /// An invitation to the server at `address`.
    ///
    /// # Errors
    /// [`TokenError::Address`].
    pub fn new(address: &str, server: Fingerprint, secret: Secret) -> Result<Self, TokenError> {
        let (host, port) = address.rsplit_once(':').ok_or(TokenError::Address)?;
        let plain = |c: char| c.is_ascii_graphic() && c != '/';
        let fits = !host.is_empty() && address.len() <= ADDRESS_LIMIT && host.chars().all(plain);
        // The last group of a bare IPv6 address would be read as the port.
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let port = port.parse::<u16>().is_ok_and(|port| port != 0);
        if !fits || !port || (host.contains(':') && !bracketed) {
            return Err(TokenError::Address);
        }
        Ok(Token { address: address.to_owned(), server, secret })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [self.server.0.as_slice(), self.secret.as_bytes(), self.address.as_bytes()].concat();
        bytes.extend_from_slice(&check(&bytes));
        write!(f, "{PREFIX}{}", BASE64URL_NOPAD.encode(&bytes))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("address", &self.address).finish_non_exhaustive()
    }
}

impl FromStr for Token {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(TokenError::Prefix)?;
        if encoded.len() > 2 * (64 + ADDRESS_LIMIT + CHECK) {
            return Err(TokenError::Damaged);
        }
        let bytes = BASE64URL_NOPAD.decode(encoded.as_bytes()).map_err(|_| TokenError::Damaged)?;
        let (bytes, sum) = bytes.split_last_chunk::<CHECK>().ok_or(TokenError::Damaged)?;
        let (server, rest) = bytes.split_first_chunk::<32>().ok_or(TokenError::Damaged)?;
        let (secret, address) = rest.split_first_chunk::<32>().ok_or(TokenError::Damaged)?;
        let address = std::str::from_utf8(address).map_err(|_| TokenError::Damaged)?;
        if *sum != check(bytes) {
            return Err(TokenError::Damaged);
        }
        Token::new(address, Fingerprint(*server), Secret::from_bytes(*secret))
    }
}

/// The first bytes of the SHA-256, to find typing errors.
fn check(bytes: &[u8]) -> [u8; CHECK] {
    let digest = Sha256::digest(bytes);
    std::array::from_fn(|index| digest[index])
}
