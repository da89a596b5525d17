//! An nftables table that ends with the process that made it, however the process ends.

use crate::Error;
use std::io::{self, BufRead, BufReader, PipeReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A table with an owner: a child process `nft`. The kernel removes the table when its owner ends,
/// and the owner ends when its input is closed. So the table goes when this is dropped, or when
/// this process ends in any way.
#[derive(Debug)]
pub struct Table {
    /// Family and name, as `nft` lists them.
    title: String,
    owner: Child,
    /// Input of the owner. The system closes it with this process, and the owner then ends.
    commands: Option<ChildStdin>,
    /// Output of the owner, kept open so that the owner can write until it ends.
    answers: BufReader<PipeReader>,
}

impl Table {
    /// Makes the table `family name` by `script`, whose `add table` says `flags owner`, and
    /// returns when it is there.
    ///
    /// The interactive `nft` reads a line at a time, and each line is one transaction.
    ///
    /// # Errors
    /// [`Error::Missing`] without `nft`, [`Error::Program`] with what it says.
    pub fn own(family: &str, name: &str, script: &str) -> Result<Table, Error> {
        let of = |what| move |error| Error::System { what, error };
        let (reader, writer) = io::pipe().map_err(of("make a pipe"))?;
        let errors = writer.try_clone().map_err(of("make a pipe"))?;
        let mut owner = Command::new("nft")
            .arg("-i")
            // Without a home directory `nft` keeps no history of its commands.
            .env("HOME", "/nonexistent")
            .stdin(Stdio::piped())
            .stdout(writer)
            .stderr(errors)
            // A process group of its own: Ctrl-C at the terminal does not reach the owner.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::Missing { program: "nft", package: "nftables", error })?;
        let commands = owner.stdin.take();
        let title = format!("table {family} {name}");
        let mut table = Table { title, owner, commands, answers: BufReader::new(reader) };
        table.tell(script)?;
        Ok(table)
    }

    /// Gives `nft` further commands for this table, and returns when they have been carried out.
    /// Each line is one transaction.
    ///
    /// # Errors
    /// [`Error::Program`] with what `nft` says. The table may then be gone, or be as before.
    pub fn tell(&mut self, script: &str) -> Result<(), Error> {
        let script = format!("{script}list {}\n", self.title);
        let pipe = self.commands.as_mut();
        let sent = pipe.map(|pipe| pipe.write_all(script.as_bytes()).and_then(|()| pipe.flush()));
        // If the owner is gone, its output says why.
        self.confirm()?;
        sent.transpose().map(drop).map_err(|error| Error::System { what: "tell nft its rules", error })
    }

    /// Whether the owner still runs, and so the table exists.
    pub fn exists(&mut self) -> bool {
        matches!(self.owner.try_wait(), Ok(None))
    }

    /// Waits until `nft` lists the whole table.
    fn confirm(&mut self) -> Result<(), Error> {
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
            // Lines that repeat the input begin with a prompt.
            if line.starts_with('}') && said.contains(&self.title) {
                return Ok(());
            }
        }
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.commands = None;
        // The owner ends at the end of its input; nothing can be done if it does not.
        let _ = self.owner.wait();
    }
}
