//! The protocol of `leeway send` and `leeway recv`: frames over one uTP stream.
//!
//! ```text
//! sender    -> offer     "leewayf1", u16 length of the name, name (UTF-8), u64 size
//! receiver  -> GO        u64 offset, BLAKE3 of what is there up to the offset
//! sender    -> DATA      the file from the offset on
//! sender    -> END       BLAKE3 of the whole file
//! receiver  -> DONE
//! ```
//! Each frame except the offer begins with a byte that gives its type. Any frame may be replaced
//! by REFUSAL (u16 length, reason). WORKING may come before any frame, so that reading a disk does
//! not look like silence. Numbers are big-endian.

use super::part::SUFFIX;
use leeway_guard::{is_steady, steady};
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of an offer: the protocol and its version.
const MAGIC: [u8; 8] = *b"leewayf1";
/// Longest name in bytes: 255, the limit of Linux file systems, less the suffix of an incomplete
/// file.
const NAME_MAX: usize = 255 - SUFFIX.len();
/// Longest reason in bytes.
const REASON_MAX: usize = 500;

const WORKING: u8 = 1;
const REFUSAL: u8 = 2;
const GO: u8 = 3;
const DATA: u8 = 4;
const END: u8 = 5;
const DONE: u8 = 6;

/// A file on offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    pub size_bytes: u64,
}

/// A frame after the offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    Working,
    Refusal(String),
    Go { offset_bytes: u64, hash: blake3::Hash },
    Data,
    End { hash: blake3::Hash },
    Done,
}

/// Why a name from a stranger is refused; `None` if it is accepted.
pub fn bad_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("it is empty"),
        _ if name.len() > NAME_MAX => Some("it is longer than 243 bytes"),
        _ if name.contains('/') => Some("it has a folder in it"),
        _ if name.chars().any(char::is_control) => Some("it has control characters in it"),
        _ if !name.chars().all(is_steady) => Some("it has invisible characters in it that turn text around"),
        // `..`, and files that programs read without being asked, such as .profile.
        _ if name.starts_with('.') => Some("it begins with a dot"),
        _ => None,
    }
}

impl Offer {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.name.len() as u16).to_be_bytes());
        bytes.extend(self.name.as_bytes());
        bytes.extend(self.size_bytes.to_be_bytes());
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// `InvalidData`: it is none, or its name is not taken.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Offer> {
        let mut magic = [0; MAGIC.len()];
        from.read_exact(&mut magic).await?;
        if magic != MAGIC {
            return Err(invalid("the sender does not use the protocol of `leeway send`"));
        }
        let length = usize::from(from.read_u16().await?);
        if length > NAME_MAX {
            return Err(invalid("the name on offer is longer than 243 bytes"));
        }
        let mut name = vec![0; length];
        from.read_exact(&mut name).await?;
        let size_bytes = from.read_u64().await?;
        let name = String::from_utf8(name).map_err(|_| invalid("the name on offer is not UTF-8"))?;
        match bad_name(&name) {
            Some(why) => Err(invalid(&format!("the name on offer, {name:?}, is not taken: {why}"))),
            None => Ok(Offer { name, size_bytes }),
        }
    }
}

impl Frame {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Frame::Working => bytes.push(WORKING),
            Frame::Refusal(reason) => {
                let reason = &reason.as_bytes()[..reason.len().min(REASON_MAX)];
                bytes.push(REFUSAL);
                bytes.extend((reason.len() as u16).to_be_bytes());
                bytes.extend(reason);
            }
            Frame::Go { offset_bytes, hash } => {
                bytes.push(GO);
                bytes.extend(offset_bytes.to_be_bytes());
                bytes.extend(hash.as_bytes());
            }
            Frame::Data => bytes.push(DATA),
            Frame::End { hash } => {
                bytes.push(END);
                bytes.extend(hash.as_bytes());
            }
            Frame::Done => bytes.push(DONE),
        }
        bytes
    }

    /// Reads one.
    ///
    /// # Errors
    /// `InvalidData`: it is none.
    pub async fn read(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
        Ok(match from.read_u8().await? {
            WORKING => Frame::Working,
            REFUSAL => {
                let length = usize::from(from.read_u16().await?);
                if length > REASON_MAX {
                    return Err(invalid("the reason of a refusal is longer than 500 bytes"));
                }
                let mut reason = vec![0; length];
                from.read_exact(&mut reason).await?;
                Frame::Refusal(steady(&String::from_utf8_lossy(&reason)))
            }
            GO => Frame::Go { offset_bytes: from.read_u64().await?, hash: read_hash(from).await? },
            DATA => Frame::Data,
            END => Frame::End { hash: read_hash(from).await? },
            DONE => Frame::Done,
            other => return Err(invalid(&format!("unknown frame type {other}"))),
        })
    }
}

async fn read_hash(from: &mut (impl AsyncRead + Unpin)) -> io::Result<blake3::Hash> {
    let mut hash = [0; blake3::OUT_LEN];
    from.read_exact(&mut hash).await?;
    Ok(hash.into())
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    #[test]
    fn what_was_said_is_heard() {
        let hash = blake3::hash(b"file");
        let reason = "no room".to_owned();
        for frame in [
            Frame::Working,
            Frame::Refusal(reason),
            Frame::Go { offset_bytes: u64::MAX, hash },
            Frame::Data,
            Frame::End { hash },
            Frame::Done,
        ] {
            assert_eq!(wait(Frame::read(&mut &frame.encode()[..])).unwrap(), frame);
        }
        let offer = Offer { name: "Zürich 1.iso".into(), size_bytes: 1 << 40 };
        assert_eq!(wait(Offer::read(&mut &offer.encode()[..])).unwrap(), offer);
    }

    #[test]
    fn names_of_strangers_stay_in_the_folder() {
        for name in [
            "",
            ".",
            "..",
            "../a",
            "/etc/passwd",
            "a/b",
            ".profile",
            "a\nb",
            "\u{1b}[2J",
            "a\0",
            "\u{202e}gpj.exe",
            "a\u{2028}b",
            "\u{2067}a",
            &"x".repeat(244),
        ] {
            let offer = Offer { name: name.into(), size_bytes: 1 };
            let error = wait(Offer::read(&mut &offer.encode()[..])).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name:?}");
            assert!(!error.to_string().contains(|c: char| !is_steady(c)), "{error}");
        }
    }

    #[test]
    fn a_reason_does_not_steer_the_terminal() {
        let frame = Frame::Refusal("\u{1b}]0;title\u{7}\u{202e}".into());
        let Frame::Refusal(reason) = wait(Frame::read(&mut &frame.encode()[..])).unwrap() else { panic!() };
        assert!(!reason.contains(|c: char| !is_steady(c)), "{reason:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let _ = wait(Frame::read(&mut &bytes[..]));
            let mut offer = MAGIC.to_vec();
            offer.extend(&bytes);
            let _ = wait(Offer::read(&mut &offer[..]));
        }
    }
}
