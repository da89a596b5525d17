//! The standard output, whose errors say what cannot be written: a full disk, as a rule.

use super::atomic::cannot_write;
use std::io::{self, StdoutLock, Write};

/// What its errors call it.
const NAME: &str = "/dev/stdout";

/// The standard output of this process, locked.
pub struct Standard(StdoutLock<'static>);

/// What this process answers goes there.
pub fn stdout() -> Standard {
    Standard(io::stdout().lock())
}

/// An error of the standard output, with its name.
pub fn unwritten(error: io::Error) -> io::Error {
    cannot_write(NAME.as_ref(), &error)
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(unwritten)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(unwritten)
    }
}
