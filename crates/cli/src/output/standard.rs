//! The standard output, with errors that name it. The usual error is a full disk.

use super::atomic::cannot_write;
use std::io::{self, StdoutLock, Write};

/// The name in errors.
const NAME: &str = "/dev/stdout";

/// The standard output of this process, locked.
pub struct Standard(StdoutLock<'static>);

/// Locks the standard output.
pub fn stdout() -> Standard {
    Standard(io::stdout().lock())
}

/// Adds the name of the standard output to an error.
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
