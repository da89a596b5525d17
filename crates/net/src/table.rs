//! A table of nftables that ends with the process that made it, however that ends.

use crate::Error;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A table with an owner, a process `nft` that this one keeps: the kernel removes the table when
/// its owner ends, and the owner ends when its input does. Removed when this is dropped.
#[derive(Debug)]
pub struct Table {
    owner: Child,
    /// Closed with this process, however it ends; the owner then ends too.
    commands: Option<ChildStdin>,
    /// Kept open so that the owner may write until it ends.
    answers: BufReader<PipeReader>,
}

impl Table {
    /// Makes the table `family name` by `script`, whose `add table` says `flags owner`, and
    /// returns when it is there.
    ///
    /// The shell of `nft` takes a line at a time, and each line is one transaction.
    ///
    /// # Errors
    /// [`Error::Missing`] without `nft`, [`Error::Program`] with what it says.
    pub fn own(family: &str, name: &str, script: &str) -> Result<Table, Error> {
        let of = |what| move |error| Error::System { what, error };
        let (reader, writer) = io::pipe().map_err(of("make a pipe"))?;
        let errors = writer.try_clone().map_err(of("make a pipe"))?;
        let mut owner = Command::new("nft")
            .arg("-i")
            // It would keep a history of its commands there.
            .env("HOME", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(writer)
            .stderr(errors)
            // Away from the terminal's signals: Ctrl-C is for us.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Missing { program: "nft", package: "nftables", error })?;
        let commands = owner.stdin.take();
        let mut table = Table { owner, commands, answers: BufReader::new(reader) };
        let script = format!("{script}list table {family} {name}\n");
        let pipe = table.commands.as_mut();
        let sent = pipe.map(|pipe| pipe.write_all(script.as_bytes()).and_then(|()| pipe.flush()));
        // If it is not there to hear, what it has said says why.
        let heard = table.confirm(&format!("table {family} {name}"));
        heard.and_then(|()| sent.transpose().map(drop).map_err(of("tell nft its rules")))?;
        Ok(table)
    }

    /// Waits until the table is listed whole.
    fn confirm(&mut self, title: &str) -> Result<(), Error> {
        let mut said = String::new();
        loop {
            let from = said.len();
            let read = self
                .answers
                .read_line(&mut said)
                .map_err(|error| Error::System { what: "hear from nft", error })?;
            let line = &said[from..];
            if read == 0 || line.contains("Error") || line.contains("not permitted") {
                return Err(Error::Program { program: "nft", message: said.trim().to_owned() });
            }
            // What it repeats of its input begins with a prompt.
            if line.starts_with('}') && said.contains(title) {
                return Ok(());
            }
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.commands = None;
        // It ends at the end of its input; nothing can be done if it does not.
        let _ = self.owner.wait();
    }
}
