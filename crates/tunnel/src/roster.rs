//! Invited clients: a folder with the server's key and a file of clients.
//!
//! The file has only fingerprints of the clients' public keys. Whoever reads it learns no secret
//! and cannot join. A running server sees a change of the file at the next handshake.

use crate::Error;
use crate::identity::{Admission, Denied, Fingerprint, Secret};
use crate::token::Token;
use leeway_guard::{SecretError, is_name, read_secret};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most invited clients. Each has a number, from which its addresses follow.
const MOST_CLIENTS: u32 = 60_000;

/// An invited client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invited {
    /// The client's name, for people.
    pub name: String,
    /// The fingerprint of its public key, in hexadecimal.
    key: String,
    /// The client's number, from 1. Its addresses follow from it.
    pub number: u32,
    /// Time of the invitation, in seconds since 1970.
    pub created: u64,
    /// End of the invitation, in seconds since 1970; `None` for no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Whether the invitation was revoked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revoked: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clients {
    #[serde(default)]
    client: Vec<Invited>,
}

/// A pause of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paused {
    /// End of the pause; `None` if only [`Roster::resume`] ends it.
    pub until: Option<SystemTime>,
}

/// Name of the file of a pause.
const PAUSE: &str = "pause.toml";

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PauseFile {
    /// End of the pause, in seconds since 1970.
    until: Option<u64>,
}

/// The folder of a server.
#[derive(Debug)]
pub struct Roster {
    folder: PathBuf,
    secret: Secret,
    /// The clients as last read, and the stamp of the file then.
    read: Mutex<(Option<Stamp>, Vec<Invited>)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// A change replaces the file, so the inode differs.
    inode: u64,
}

impl Invited {
    /// Whether the client may join at this time.
    ///
    /// # Errors
    /// Why it may not.
    pub fn admitted(&self, now: SystemTime) -> Result<(), Denied> {
        if self.revoked {
            return Err(Denied::Revoked);
        }
        match self.expires {
            Some(expires) if seconds(now) >= expires => Err(Denied::Expired),
            _ => Ok(()),
        }
    }
}

impl Roster {
    /// Opens the folder, or makes it with a new server key.
    ///
    /// # Errors
    /// [`Error::File`] and [`Error::State`].
    pub fn open(folder: &Path) -> Result<Self, Error> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(Error::file(folder))?;
        let _lock = lock(folder)?;
        let secret = key(&folder.join("server.key"))?;
        let roster = Roster { folder: folder.to_owned(), secret, read: Mutex::new((None, Vec::new())) };
        roster.refresh()?;
        Ok(roster)
    }

    /// The server's key.
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// Invites a client to the server at `address`.
    ///
    /// # Errors
    /// [`Error::Options`] if the name is taken or the address is not valid; [`Error::File`],
    /// [`Error::State`].
    pub fn invite(&self, name: &str, address: &str, lasts: Option<Duration>) -> Result<Token, Error> {
        if !is_name(name) {
            return Err(Error::Options(NAME.into()));
        }
        let secret = Secret::generate()?;
        let token = Token::new(address, self.secret.fingerprint()?, secret.clone())
            .map_err(|error| Error::Options(format!("{address:?}: {error}")))?;
        let now = SystemTime::now();
        let key = secret.fingerprint()?.to_string();
        self.change(|clients| {
            if clients.iter().any(|client| client.name == name && client.admitted(now).is_ok()) {
                return Err(Error::Options(format!(
                    "{name:?} is invited already; revoke that first (leeway invite --revoke), or choose another name"
                )));
            }
            let number = free_number(clients)?;
            clients.retain(|client| client.name != name);
            let expires = lasts.map(|lasts| seconds(now).saturating_add(lasts.as_secs()));
            let created = seconds(now);
            clients.push(Invited {
                name: name.to_owned(),
                key: key.clone(),
                number,
                created,
                expires,
                revoked: false,
            });
            Ok(())
        })?;
        Ok(token)
    }

    /// Revokes an invitation. A running server ends the client's connection within seconds.
    ///
    /// # Errors
    /// [`Error::Options`] if no client has the name; [`Error::File`], [`Error::State`].
    pub fn revoke(&self, name: &str) -> Result<(), Error> {
        self.change(|clients| match clients.iter_mut().find(|client| client.name == name) {
            Some(client) => {
                client.revoked = true;
                Ok(())
            }
            None => Err(Error::Options(format!(
                "nobody is invited as {name:?}; leeway invite --list shows who is"
            ))),
        })
    }

    /// All invited clients, in the order of invitation.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::State`].
    pub fn list(&self) -> Result<Vec<Invited>, Error> {
        self.refresh()?;
        Ok(self.known().1.clone())
    }

    /// Refuses new connections for `lasts`, or until [`Roster::resume`]. Existing connections go
    /// on. A running server tells its clients within seconds.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn pause(&self, lasts: Option<Duration>) -> Result<Paused, Error> {
        let until = lasts.map(|lasts| seconds(SystemTime::now()).saturating_add(lasts.as_secs().max(1)));
        let text = until.map_or_else(String::new, |until| format!("until = {until}\n"));
        let (path, _lock) = (self.folder.join(PAUSE), lock(&self.folder)?);
        leeway_guard::replace(&path, text.as_bytes()).map_err(Error::file(&path))?;
        Ok(Paused { until: until.and_then(at) })
    }

    /// Accepts new connections again. Returns whether there was a pause.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn resume(&self) -> Result<bool, Error> {
        let (path, _lock) = (self.folder.join(PAUSE), lock(&self.folder)?);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::file(&path)(error)),
        }
    }

    /// The pause that was requested, which may be over. A file that cannot be read as a pause
    /// counts as a pause without an end.
    pub fn paused(&self) -> Option<Paused> {
        let text = std::fs::read_to_string(self.folder.join(PAUSE)).ok()?;
        let until = toml::from_str::<PauseFile>(&text).ok().and_then(|file| file.until);
        Some(Paused { until: until.and_then(at) })
    }

    /// The client with this key, if it may join now.
    ///
    /// # Errors
    /// Why it may not.
    pub fn find(&self, key: &Fingerprint) -> Result<Invited, Denied> {
        // If the file cannot be read, for instance during an edit, the clients of the last reading
        // count.
        let _ = self.refresh();
        let key = key.to_string();
        let known = self.known();
        let client = known.1.iter().find(|client| client.key == key).ok_or(Denied::Unknown)?;
        client.admitted(SystemTime::now()).map(|()| client.clone())
    }

    fn known(&self) -> std::sync::MutexGuard<'_, (Option<Stamp>, Vec<Invited>)> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self) -> PathBuf {
        self.folder.join("clients.toml")
    }

    /// Reads the file again if it has changed.
    fn refresh(&self) -> Result<(), Error> {
        let path = self.path();
        let stamp = match std::fs::metadata(&path) {
            Ok(metadata) => Some(Stamp {
                modified: metadata.modified().ok(),
                bytes: metadata.len(),
                inode: metadata.ino(),
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(Error::file(&path)(error)),
        };
        if self.known().0 == stamp && stamp.is_some() {
            return Ok(());
        }
        let clients = read(&path)?;
        *self.known() = (stamp, clients);
        Ok(())
    }

    fn change(&self, change: impl FnOnce(&mut Vec<Invited>) -> Result<(), Error>) -> Result<(), Error> {
        let _lock = lock(&self.folder)?;
        let path = self.path();
        let mut client = read(&path)?;
        change(&mut client)?;
        let text = toml::to_string(&Clients { client })
            .map_err(|error| Error::State { path: path.display().to_string(), message: error.to_string() })?;
        leeway_guard::replace(&path, text.as_bytes()).map_err(Error::file(&path))
    }
}

impl Admission for Roster {
    fn check(&self, client: &Fingerprint) -> Result<(), Denied> {
        self.find(client).map(|_| ())
    }
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn at(second: u64) -> Option<SystemTime> {
    UNIX_EPOCH.checked_add(Duration::from_secs(second))
}

/// The smallest free number. A new client with an old name gets new addresses, because the old
/// client may still be connected.
fn free_number(clients: &[Invited]) -> Result<u32, Error> {
    (1..=MOST_CLIENTS).find(|number| clients.iter().all(|client| client.number != *number)).ok_or_else(|| {
        Error::Options(format!("{MOST_CLIENTS} clients are invited; there are no addresses left"))
    })
}

fn read(path: &Path) -> Result<Vec<Invited>, Error> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file(path)(error)),
    };
    parse_clients(&text).map_err(|message| Error::State { path: path.display().to_string(), message })
}

/// Reads the text of `clients.toml`.
///
/// # Errors
/// The mistake, with the client's name. Two clients must not have the same key, nor the same
/// number, because a number stands for addresses.
pub fn parse_clients(text: &str) -> Result<Vec<Invited>, String> {
    let clients: Clients = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
    let clients = clients.client;
    let (mut names, mut keys, mut numbers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for client in &clients {
        let wrong = |what: &str| Err(format!("client {:?}: {what}", client.name));
        if !is_name(&client.name) {
            return wrong(NAME);
        }
        if client.key.len() != 64 || !client.key.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        {
            return wrong("`key` is no fingerprint: 64 hexadecimal digits, in lower case");
        }
        if !(1..=MOST_CLIENTS).contains(&client.number) {
            return wrong(&format!("`number` is {}; it goes from 1 to {MOST_CLIENTS}", client.number));
        }
        if !names.insert(&client.name) {
            return wrong("two clients have this name");
        }
        if !keys.insert(&client.key) {
            return wrong("another client has the same `key`");
        }
        if !numbers.insert(client.number) {
            return wrong(&format!("another client has the number {} and its addresses", client.number));
        }
    }
    Ok(clients)
}

/// The rule for names of clients.
const NAME: &str =
    "a client's name is one to 60 bytes of printable characters, none of which turns text around";

/// A lock of the folder until it is dropped.
fn lock(folder: &Path) -> Result<File, Error> {
    let path = folder.join("lock");
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(&path)
        .map_err(Error::file(&path))?;
    give_to_owner(&file, &path).map_err(Error::file(&path))?;
    file.lock().map_err(Error::file(&path))?;
    Ok(file)
}

/// The key in the file, or a new one.
fn key(path: &Path) -> Result<Secret, Error> {
    match read_secret(path) {
        Ok(text) => {
            let bytes = data_encoding::HEXLOWER.decode(text.trim().as_bytes()).ok();
            let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
            bytes.map(Secret::from_bytes).ok_or_else(|| Error::State {
                path: path.display().to_string(),
                message: "a key has 64 hexadecimal digits".into(),
            })
        }
        Err(SecretError::File { error, .. }) if error.kind() == ErrorKind::NotFound => {
            let secret = Secret::generate()?;
            let text = format!("{}\n", data_encoding::HEXLOWER.encode(secret.as_bytes()));
            write_new(path, text.as_bytes()).map_err(Error::file(path))?;
            Ok(secret)
        }
        Err(SecretError::File { error, .. }) => Err(Error::file(path)(error)),
        Err(open) => Err(Error::Options(open.to_string())),
    }
}

/// Writes a new file that only its owner can read.
fn write_new(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    give_to_owner(&file, path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives a file of root to the owner of the folder, who is the relay's user.
fn give_to_owner(file: &File, path: &Path) -> std::io::Result<()> {
    let Some(folder) = path.parent() else { return Ok(()) };
    let (folder, own) = (std::fs::metadata(folder)?, file.metadata()?);
    if folder.uid() == own.uid() {
        return Ok(());
    }
    fchown(file, Some(folder.uid()), Some(folder.gid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(changes: &[(&str, &str)]) -> String {
        let one = |name: &str, digit: &str, number: u32| {
            format!(
                "[[client]]\nname = {name:?}\nkey = \"{}\"\nnumber = {number}\ncreated = 1\n",
                digit.repeat(64)
            )
        };
        let text = one("ann", "a", 1) + &one("bob", "b", 2);
        changes.iter().fold(text, |text, (from, to)| text.replacen(from, to, 1))
    }

    /// As `leeway invite` by root, for a relay with another user.
    #[test]
    fn what_root_writes_is_the_folders_owners() {
        let folder = tempfile::tempdir().unwrap();
        if folder.path().metadata().unwrap().uid() != 0 {
            return;
        }
        std::os::unix::fs::chown(folder.path(), Some(65_534), Some(65_534)).unwrap();
        let roster = Roster::open(folder.path()).unwrap();
        roster.invite("bob", "192.0.2.1:4433", None).unwrap();
        for name in ["server.key", "clients.toml", "lock"] {
            let file = folder.path().join(name).metadata().unwrap();
            assert_eq!((file.uid(), file.mode() & 0o7777), (65_534, 0o600), "{name}");
        }
    }

    #[test]
    fn a_file_in_which_two_clients_are_one_is_refused_in_words() {
        assert_eq!(parse_clients(&file(&[])).map(|all| all.len()), Ok(2));
        let (bob, ann) = ("b".repeat(64), "a".repeat(64));
        for (from, to, why) in [
            ("number = 2", "number = 1", "\"bob\": another client has the number 1"),
            ("number = 2", "number = 0", "from 1 to 60000"),
            ("number = 2", "number = 60001", "from 1 to 60000"),
            (bob.as_str(), ann.as_str(), "same `key`"),
            (bob.as_str(), "b", "64 hexadecimal digits"),
            (bob.as_str(), &"B".repeat(64), "lower case"),
            ("\"bob\"", "\"ann\"", "two clients have this name"),
            ("\"bob\"", "\"\\u001b[2J\"", "printable"),
            ("\"bob\"", "\"bo\\u202eb\"", "turns text around"),
            ("created", "made", "unknown field `made`"),
        ] {
            let error = parse_clients(&file(&[(from, to)])).expect_err(to);
            assert!(error.contains(why), "{from} -> {to}: {error}");
        }
    }
}
