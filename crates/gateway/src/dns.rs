//! Questions for names by clients without configuration. Whatever server they were for, one of the gateway's answers,
//! and it is asked nothing but what resolvers ask: no transfers of zones, no updates (RFC 1996, RFC 2136).

use crate::upstream::Upstream;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Where questions go.
pub const PORT: u16 = 53;
/// How long an answer may take, and a connection wait for its next question (RFC 7766, 6.2.3).
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a message is one question about records (RFC 1035, 4.1).
pub fn is_question(message: &[u8]) -> bool {
    // ID, flags, how many questions, and how many of three kinds of answers.
    let [_, _, flags, _, 0, 1, _, _, _, _, _, _, question @ ..] = message else { return false };
    // A query (QR 0) of the standard kind (OPCODE 0).
    flags & 0xf8 == 0 && kind(question).is_some_and(|kind| kind != IXFR && kind != AXFR)
}

const IXFR: u16 = 251;
const AXFR: u16 = 252;

/// What a question asks for: the type after the name.
fn kind(mut question: &[u8]) -> Option<u16> {
    loop {
        match question {
            [0, high, low, ..] => return Some(u16::from_be_bytes([*high, *low])),
            // A label; there is nothing before it that it could point to.
            [length @ 1..=63, rest @ ..] => question = rest.get(usize::from(*length)..)?,
            _ => return None,
        }
    }
}

/// Carries questions and answers over TCP, one at a time, until one end has no more or says something else.
pub async fn carry(mut client: TcpStream, mut server: Upstream) -> io::Result<()> {
    loop {
        let question = message(&mut client).await?;
        if !is_question(&question[2..]) {
            return Ok(());
        }
        server.write_all(&question).await?;
        client.write_all(&message(&mut server).await?).await?;
    }
}

/// A message with the two bytes of its length in front (RFC 1035, 4.2.2).
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let read = async {
        let length = stream.read_u16().await?;
        let mut bytes = length.to_be_bytes().to_vec();
        // No more is held than has come.
        stream.take(length.into()).read_to_end(&mut bytes).await?;
        if bytes.len() == 2 + usize::from(length) {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    };
    tokio::time::timeout(PATIENCE, read).await?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(flags: u8, count: u8, kind: u8) -> Vec<u8> {
        let head = [1, 2, flags, 0, 0, count, 0, 0, 0, 0, 0, 0];
        [&head[..], b"\x03www\x07example\x00", &[0, kind, 0, 1]].concat()
    }

    #[test]
    fn only_questions_about_records_go_on() {
        assert!(is_question(&message(1, 1, 1)), "a recursive question for an address");
        assert!(is_question(&message(0, 1, 255)), "for anything");
        assert!(!is_question(&message(0x81, 1, 1)), "an answer");
        assert!(!is_question(&message(0x28, 1, 6)), "an update");
        assert!(!is_question(&message(0x20, 1, 6)), "a notification");
        assert!(!is_question(&message(1, 2, 1)), "two at once");
        assert!(!is_question(&message(0, 1, 252)) && !is_question(&message(0, 1, 251)), "transfers");
        let whole = message(1, 1, 1);
        for cut in 0..whole.len() - 2 {
            assert!(!is_question(&whole[..cut]), "{cut} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            is_question(&bytes);
        }
    }
}
