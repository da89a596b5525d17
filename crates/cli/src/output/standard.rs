//! The standard output, whose errors say what cannot be written: a full disk, as a rule.

use std::io::{self, StdoutLock, Write};

/// The standard output of this process, locked.
pub struct Standard(StdoutLock<'static>);

/// What this process answers goes there.
pub fn stdout() -> Standard {
    Standard(io::stdout().lock())
}

fn named(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write to the standard output: {error}"))
}

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}
