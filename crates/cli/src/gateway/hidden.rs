//! Passwords that are typed at a terminal without being shown.

use super::passwd::LINE_BYTES;
use crate::Failure;
use nix::sys::signal::{Signal, raise};
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::io::{self, Read};

/// Exit code of a program that Ctrl-C has ended, as shells define it: 128 plus the number of
/// SIGINT.
const INTERRUPTED: u8 = 130;

/// Asks for a password two times. `None` if the two differ.
///
/// Ctrl-C ends this process, after the terminal has its old settings again.
pub fn twice(name: &str) -> Result<Option<String>, Failure> {
    let terminal =
        Silent::new().map_err(|error| Failure::Run(format!("cannot turn off the echo: {error}")))?;
    let ask = |what: &str| {
        eprint!("{what} {name}: ");
        let typed = typed(io::stdin().lock().bytes(), &terminal.keys);
        eprintln!();
        typed
    };
    let read = match ask("Password of") {
        Ok(Typed::Line(first)) => ask("Again, the password of").map(|second| (Typed::Line(first), second)),
        other => other.map(|typed| (typed, Typed::End)),
    };
    drop(terminal);
    match read? {
        (Typed::Line(first), Typed::Line(second)) => Ok((first == second).then_some(first)),
        (Typed::Interrupt, _) | (_, Typed::Interrupt) => {
            // If the signal is ignored, the process continues.
            let _ = raise(Signal::SIGINT);
            Err(Failure::Command(INTERRUPTED))
        }
        _ => Err(Failure::Usage("no password was given; nothing was changed".into())),
    }
}

/// What was typed.
#[derive(Debug, PartialEq)]
enum Typed {
    Line(String),
    /// Ctrl-D at the beginning of a line, or the terminal is gone.
    End,
    /// Ctrl-C.
    Interrupt,
}

/// The terminal's keys that edit a line or end a program.
struct Keys {
    erase: u8,
    kill: u8,
    end: u8,
    interrupts: [u8; 2],
}

/// Reads one line byte by byte. Meanwhile the terminal neither edits the line nor sends signals.
fn typed(bytes: impl Iterator<Item = io::Result<u8>>, keys: &Keys) -> io::Result<Typed> {
    let mut line = Vec::new();
    let text = |line: &[u8]| Ok(Typed::Line(String::from_utf8_lossy(line).into_owned()));
    for byte in bytes {
        let byte = byte?;
        if byte == b'\n' || byte == b'\r' {
            return text(&line);
        } else if keys.interrupts.contains(&byte) {
            return Ok(Typed::Interrupt);
        } else if byte == keys.end && line.is_empty() {
            return Ok(Typed::End);
        } else if byte == keys.kill {
            line.clear();
        } else if byte == keys.erase || byte == 0x08 {
            // Removes one UTF-8 character: back to the last byte that is not a continuation byte.
            let begin = line.iter().rposition(|byte| byte & 0xc0 != 0x80);
            line.truncate(begin.unwrap_or(0));
        } else if !byte.is_ascii_control() && (line.len() as u64) < LINE_BYTES {
            line.push(byte);
        }
    }
    if line.is_empty() { Ok(Typed::End) } else { text(&line) }
}

/// Makes the terminal show nothing and hand over each key. Dropping it restores the old settings.
struct Silent {
    before: Termios,
    keys: Keys,
}

impl Silent {
    fn new() -> rustix::io::Result<Silent> {
        let before = tcgetattr(io::stdin())?;
        let mut silent = before.clone();
        // Without ISIG: a program that Ctrl-C ended would leave a terminal without echo.
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG);
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(io::stdin(), OptionalActions::Flush, &silent)?;
        let key = |index| before.special_codes[index];
        let keys = Keys {
            erase: key(SpecialCodeIndex::VERASE),
            kill: key(SpecialCodeIndex::VKILL),
            end: key(SpecialCodeIndex::VEOF),
            interrupts: [key(SpecialCodeIndex::VINTR), key(SpecialCodeIndex::VQUIT)],
        };
        Ok(Silent { before, keys })
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_the_line_as_a_terminal_does() {
        let keys = Keys { erase: 0x7f, kill: 0x15, end: 0x04, interrupts: [0x03, 0x1c] };
        let line = |text: &str| Typed::Line(text.to_owned());
        for (bytes, expected) in [
            (&b"a long phrase\n"[..], line("a long phrase")),
            (b"abc\r", line("abc")),
            (b"\x7fabX\x7fc\n", line("abc")),
            ("aé\x7fb\n".as_bytes(), line("ab")),
            (b"wrong\x15right\n", line("right")),
            (b"a\x1a\x04b\n", line("ab")),
            (b"abc", line("abc")),
            (b"\x04", Typed::End),
            (b"", Typed::End),
            (b"abc\x03\n", Typed::Interrupt),
            (b"\x1c", Typed::Interrupt),
        ] {
            assert_eq!(typed(bytes.bytes(), &keys).unwrap(), expected, "{bytes:?}");
        }
        let endless = typed(std::iter::repeat_n(b'a', 10_000).map(Ok), &keys).unwrap();
        assert_eq!(endless, line(&"a".repeat(4096)));
    }
}
