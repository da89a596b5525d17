//! `leeway gateway passwd`: writes users' passwords in the form that the gateway reads.

use super::hidden;
use crate::Failure;
use crate::output::stdout;
use clap::Args;
use leeway_gateway::password::{Hash, check_name, parse_users, with_user};
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

/// Examples and exit codes.
pub const HELP: &str = "Examples:\n  \
    leeway gateway passwd ann\n      \
    asks twice, and prints the line\n  \
    leeway gateway passwd ann --file /etc/leeway/users\n      \
    the same, and writes it into that file, in place of ann's old line\n  \
    pwgen 20 1 | leeway gateway passwd ann --file /etc/leeway/users\n      \
    the password is a line of the standard input\n  \
    leeway gateway passwd ann --file /etc/leeway/users --remove\n      \
    ann is no user any more\n\n\
    A gateway that runs reads the file again with: systemctl reload leeway-gateway\n\n\
    Exit codes: 0 done, 1 the file cannot be written, 2 bad usage or a password that is too short.";

/// Most bytes of a line that is read; no password is longer.
pub const LINE_BYTES: u64 = 4096;

/// The user, and where to write the line.
#[derive(Args)]
pub struct Passwd {
    /// The user's name.
    #[arg(value_name = "NAME")]
    name: String,
    /// Write the line into this file. The file is created if it does not exist.
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Remove the user's line from the file.
    #[arg(long, requires = "file")]
    remove: bool,
}

/// Makes a line, or removes one.
pub fn run(passwd: &Passwd) -> Result<(), Failure> {
    let Passwd { name, file, remove } = passwd;
    check_name(name).map_err(Failure::Usage)?;
    let hash = match remove {
        true => None,
        false => Some(Hash::of(&ask(name)?).map_err(Failure::Usage)?),
    };
    match (file, hash) {
        (Some(path), hash) => change(path, name, hash.as_ref()),
        (None, Some(hash)) => Ok(writeln!(stdout(), "{name}:{hash}")?),
        (None, None) => Err(Failure::Usage("--remove needs --file".into())),
    }
}

/// Asks on the terminal, two times. If the standard input is no terminal, reads one line of it.
fn ask(name: &str) -> Result<String, Failure> {
    if !io::stdin().is_terminal() {
        return line(&mut io::stdin().lock());
    }
    hidden::twice(name)?.ok_or_else(|| Failure::Usage("the two passwords differ; nothing was changed".into()))
}

/// Asks for a password. On a terminal, asks again until the password is allowed.
pub fn choose(name: &str) -> Result<Hash, Failure> {
    if !io::stdin().is_terminal() {
        return Hash::of(&ask(name)?).map_err(Failure::Usage);
    }
    loop {
        let wrong = match hidden::twice(name)?.as_deref().map(Hash::of) {
            Some(Ok(hash)) => return Ok(hash),
            Some(Err(why)) => why,
            None => "the two passwords differ".into(),
        };
        eprintln!("  {wrong}; try again");
    }
}

fn line(input: &mut impl BufRead) -> Result<String, Failure> {
    let mut line = String::new();
    let read = input.take(LINE_BYTES).read_line(&mut line);
    read.map_err(|error| Failure::Usage(format!("cannot read a password: {error}")))?;
    Ok(line.trim_end_matches(['\r', '\n']).to_owned())
}

/// Replaces the user's line, or removes it.
pub fn change(path: &Path, name: &str, hash: Option<&Hash>) -> Result<(), Failure> {
    let failed =
        |what: &str, error: io::Error| Failure::Run(format!("cannot {what} {}: {error}", path.display()));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed("read", error)),
    };
    let users = parse_users(&text).map_err(|why| Failure::Usage(format!("{}: {why}", path.display())))?;
    if hash.is_none() && !users.iter().any(|(of, _)| of == name) {
        return Err(Failure::Usage(format!("{}: there is no user {name:?}", path.display())));
    }
    leeway_guard::replace(path, with_user(&text, name, hash).as_bytes())
        .map_err(|error| failed("write", error))
}
