//! DNS questions of clients without a configured proxy. One of the gateway's own name servers
//! answers them, whatever server they were sent to. Only questions of resolvers are passed on: no
//! zone transfers (RFC 5936, RFC 1995), notifications (RFC 1996) or updates (RFC 2136).

use crate::upstream::Upstream;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The port of DNS.
pub const PORT: u16 = 53;
/// Longest time for an answer, and for a connection to wait for its next question (RFC 7766,
/// 6.2.3).
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a message is one question for records (RFC 1035, 4.1).
pub fn is_question(message: &[u8]) -> bool {
    // ID, flags, number of questions, and three numbers of other records.
    let [_, _, flags, _, 0, 1, _, _, _, _, _, _, question @ ..] = message else { return false };
    // A query (QR 0) of the standard kind (OPCODE 0).
    flags & 0xf8 == 0 && kind(question).is_some_and(|kind| kind != IXFR && kind != AXFR)
}

/// The question of a message without anything else. Kept are the ID, RD and CD, one name, type and
/// class, and if the message has an OPT record (RFC 6891), a new one with its size and DO. The
/// rest is removed, so a question carries no data to the Internet but the name. `None` if the
/// message is no question for records.
pub fn trimmed(message: &[u8]) -> Option<Vec<u8>> {
    let question = message.get(HEAD_BYTES..).filter(|_| is_question(message))?;
    let question = &question[..question_bytes(question)?];
    let opt = opt(&message[HEAD_BYTES + question.len()..], u16::from_be_bytes([message[10], message[11]]));
    let mut bytes = vec![message[0], message[1], message[2] & RD, message[3] & (AD | CD)];
    bytes.extend([0, 1, 0, 0, 0, 0, 0, u8::from(opt.is_some())]);
    bytes.extend(question);
    if let Some([size_high, size_low, dnssec]) = opt {
        // The root, OPT, the size, no extended code, version 0, flags, no options.
        bytes.extend([0, 0, OPT as u8, size_high, size_low, 0, 0, dnssec, 0, 0, 0]);
    }
    Some(bytes)
}

/// The name of a question, without the last dot; `None` if the message is no question.
pub fn name(question: &[u8]) -> Option<String> {
    let mut rest = question.get(HEAD_BYTES..)?;
    let mut labels = Vec::new();
    while let (&length @ 1..=63, after) = rest.split_first()? {
        let (label, after) = after.split_at_checked(length.into())?;
        labels.push(String::from_utf8_lossy(label));
        rest = after;
    }
    Some(labels.join("."))
}

/// The answer to a question (as [`trimmed`] returns it) for a blocked name: NXDOMAIN, and the
/// reason for clients that sent an OPT record (RFC 8914, 4.16, code 15). It has no SOA record, so
/// resolvers do not cache it (RFC 2308, 5).
pub fn blocked(question: &[u8]) -> Vec<u8> {
    let mut answer = question.to_vec();
    let Some([_, _, flags, more, ..]) = answer.get_mut(..HEAD_BYTES) else { return answer };
    *flags = *flags & RD | QR;
    *more = *more & CD | RA | NO_SUCH_NAME;
    if answer[HEAD_BYTES - 1] == 1 {
        // Removes the length of the options, which is written anew.
        answer.truncate(answer.len() - 2);
        let words = b"blocked by the owner of this line";
        let (option, length) = (4 + 2 + words.len() as u8, 2 + words.len() as u8);
        answer.extend([0, option, 0, EXTENDED_ERROR, 0, length, 0, BLOCKED]);
        answer.extend(words);
    }
    answer
}

/// Flags of a response: QR (it is a response), RA (recursion available). Response code NXDOMAIN
/// (RFC 1035, 4.1.1).
const QR: u8 = 0x80;
const RA: u8 = 0x80;
const NO_SUCH_NAME: u8 = 3;
/// The option "extended error" and its code for blocked names (RFC 8914).
const EXTENDED_ERROR: u8 = 15;
const BLOCKED: u8 = 15;
/// Length of the header: ID, flags and four counts (RFC 1035, 4.1.1).
const HEAD_BYTES: usize = 12;
/// Flags: recursion desired; authentic data, checking disabled (RFC 4035, 3.2).
const RD: u8 = 0x01;
const AD: u8 = 0x20;
const CD: u8 = 0x10;
/// DNSSEC OK (RFC 3225).
const DO: u8 = 0x80;
/// Longest name, in bytes (RFC 1035, 2.3.4).
const NAME_BYTES: usize = 255;
const OPT: u16 = 41;
const IXFR: u16 = 251;
const AXFR: u16 = 252;

/// The type of a question, which follows its name.
fn kind(question: &[u8]) -> Option<u16> {
    let end = question_bytes(question)?;
    Some(u16::from_be_bytes([question[end - 4], question[end - 3]]))
}

/// Length of a question: a name, a type and a class.
fn question_bytes(question: &[u8]) -> Option<usize> {
    let mut name_bytes = 0;
    loop {
        match *question.get(name_bytes)? {
            0 => break,
            // A label. Compression pointers are refused, because there is no earlier name to point
            // to.
            length @ 1..=63 => name_bytes += 1 + usize::from(length),
            _ => return None,
        }
    }
    let end = name_bytes + 5;
    (name_bytes < NAME_BYTES && end <= question.len()).then_some(end)
}

/// The size and the flag DO of an OPT record, if it is the first of the `records` additional
/// records, as resolvers send it.
fn opt(additional: &[u8], records: u16) -> Option<[u8; 3]> {
    match additional {
        &[0, 0, 41, size_high, size_low, _, 0, flags, _, _, _, ..] if records > 0 => {
            Some([size_high, size_low, flags & DO])
        }
        _ => None,
    }
}

/// Carries questions and answers over TCP, one at a time, until one end closes or sends something
/// else. A question for which `answer` returns an answer is not sent to the server.
pub async fn carry(
    mut client: TcpStream,
    mut server: Upstream,
    answer: impl Fn(&[u8]) -> Option<Vec<u8>>,
) -> io::Result<()> {
    loop {
        let question = message(&mut client).await?;
        let Some(question) = trimmed(&question[2..]) else { return Ok(()) };
        if let Some(answer) = answer(&question) {
            client.write_all(&framed(&answer)?).await?;
            continue;
        }
        server.write_all(&framed(&question)?).await?;
        client.write_all(&message(&mut server).await?).await?;
    }
}

/// A message with its length in front, in two bytes (RFC 1035, 4.2.2).
fn framed(message: &[u8]) -> io::Result<Vec<u8>> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    Ok([&length.to_be_bytes()[..], message].concat())
}

/// Reads a message with the two bytes of its length in front (RFC 1035, 4.2.2).
async fn message(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let read = async {
        let length = stream.read_u16().await?;
        let mut bytes = length.to_be_bytes().to_vec();
        // The buffer grows with what arrives, not with what the length promises.
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
        for cut in 0..whole.len() {
            assert!(!is_question(&whole[..cut]), "{cut} bytes");
        }
    }

    #[test]
    fn nothing_goes_on_but_the_question() {
        let plain = message(1, 1, 1);
        assert_eq!(trimmed(&plain).unwrap(), plain);
        assert_eq!(trimmed(&[&plain[..], &[7; 1200]].concat()).unwrap(), plain, "what stands behind it");
        let mut counted = [&plain[..], &[7; 1200]].concat();
        counted[7..12].copy_from_slice(&[3, 0, 3, 0, 3]);
        assert_eq!(trimmed(&counted).unwrap(), plain, "records of any section");
        // RFC 6891: 1232 bytes, DO, and padding (RFC 7830).
        let opt = [0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];
        let mut with_opt = plain.clone();
        with_opt[11] = 1;
        with_opt.extend(opt);
        assert_eq!(trimmed(&with_opt).unwrap(), with_opt);
        let mut padded = with_opt.clone();
        padded[plain.len() + 9..].copy_from_slice(&[4, 180]);
        padded.extend([&[0, 12, 4, 176][..], &[0; 1200]].concat());
        assert_eq!(trimmed(&padded).unwrap(), with_opt);
        let long = [&plain[..12], &[63; 64].repeat(4), &[0, 0, 1, 0, 1]].concat();
        assert!(trimmed(&long).is_none(), "a name of 257 bytes");
    }

    #[test]
    fn a_blocked_name_is_none_and_says_why() {
        let plain = message(1, 1, 1);
        assert_eq!(name(&plain).as_deref(), Some("www.example"));
        assert_eq!(name(&plain[..20]), None);
        let answer = blocked(&plain);
        assert_eq!(answer[..4], [1, 2, 0x81, 0x83], "the ID, an answer, NXDOMAIN");
        assert_eq!(answer[4..], plain[4..], "and the question");
        let mut asked = [&plain[..], &[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0]].concat();
        asked[11] = 1;
        let answer = blocked(&trimmed(&asked).unwrap());
        let opt = &answer[plain.len()..];
        assert_eq!(opt[..9], [0, 0, 41, 4, 208, 0, 0, 0x80, 0]);
        assert_eq!(usize::from(opt[10]), opt.len() - 11, "the length of the options");
        assert_eq!(opt[11..17], [0, 15, 0, opt[10] - 4, 0, 15]);
        assert!(opt.ends_with(b"the owner of this line"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_judged(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            assert_eq!(is_question(&bytes), trimmed(&bytes).is_some());
        }

        #[test]
        fn a_question_is_short_whatever_is_behind_it(rest in proptest::collection::vec(any::<u8>(), 0..600)) {
            let question = trimmed(&[&message(1, 1, 1)[..], &rest].concat()).unwrap();
            assert!(question.len() <= HEAD_BYTES + NAME_BYTES + 5 + 11);
            assert_eq!(trimmed(&question).unwrap(), question);
            assert_eq!(name(&question).as_deref(), Some("www.example"));
            assert!(blocked(&question).len() <= question.len() + 39);
        }
    }
}
