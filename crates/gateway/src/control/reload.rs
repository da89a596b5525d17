//! Replaces the configuration without closing a connection: all of it, or nothing.

use super::{OperationError, Operations, ReloadRequest, Reloaded};
use crate::block::Blocklist;
use crate::config::{Config, ConfigError};
use crate::login::People;
use crate::notes::{COPY_OLD, Note, Value, in_english};
use crate::policy::Policy;
use crate::refusals as phrase;
use leeway_guard::{SecretError, credential, read_secret};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};

/// Reads the configuration again. The argument has the texts that were handed over for files, by
/// path.
pub type Source = Box<dyn Fn(&BTreeMap<PathBuf, String>) -> Result<Config, ConfigError> + Send + Sync>;

/// The configuration in use, and how it is read again.
pub struct Running {
    config: Config,
    source: Option<Source>,
    /// Texts that root handed over, of files of which the gateway has only old copies.
    secrets: BTreeMap<PathBuf, String>,
}

impl Running {
    /// The configuration at the start.
    pub fn new(config: &Config) -> Running {
        Running { config: config.clone(), source: None, secrets: BTreeMap::new() }
    }
}

impl Operations {
    /// Sets how the configuration is read again.
    pub fn read_from(&self, source: Source) {
        self.running().source = Some(source);
    }

    /// Reads the configuration again. Users, owners of the page, clients, ports, networks and caps
    /// are replaced, and no connection ends.
    ///
    /// # Errors
    /// What is wrong, or which change needs a restart. Nothing has changed then.
    pub fn reload(&self, request: &ReloadRequest) -> Result<Reloaded, OperationError> {
        let notes = self.reread(request)?;
        let done = std::iter::once("the configuration was read again and is in use".to_owned());
        Ok(Reloaded { words: done.chain(in_english(&notes)).collect() })
    }

    /// [`Operations::reload`] with notes as the result.
    pub(crate) fn reread(&self, request: &ReloadRequest) -> Result<Vec<Note>, OperationError> {
        let mut running = self.running();
        let none = || OperationError::Wrong(Note::new(&phrase::NO_FILE, []));
        let source = running.source.as_ref().ok_or_else(none)?;
        let config = source(&request.secrets).map_err(wrong)?;
        config.check().map_err(wrong)?;
        let fixed = changed(&running.config, &config);
        if !fixed.is_empty() {
            let fixed = Value::Notes(fixed);
            return Err(OperationError::Wrong(Note::new(&phrase::NEEDS_RESTART, [fixed])));
        }
        let mut secrets = running.secrets.clone();
        secrets.extend(request.secrets.clone());
        let people = |path: &Path| {
            let text = secret(path, &secrets).map_err(wrong)?;
            People::parse(path, &text).map_err(wrong)
        };
        let users = config.users_file.as_deref().map(people).transpose()?;
        let owners = config.page.as_ref().map(|page| people(&page.users_file)).transpose()?;
        let connector = &self.proxy.connector;
        let block = Arc::new(Blocklist::read(&config.block).map_err(wrong)?);
        let policy = Policy { block: block.clone(), ..config.policy(connector.policy().attached.clone()) };
        // The last steps that can fail.
        self.divert(&config)?;
        if let Some(meter) = self.gate().meter() {
            let replaced = meter.reload(&config.caps.clone().unwrap_or_default());
            replaced.inspect_err(|_| drop(self.divert(&running.config)))?;
        }
        connector.set_policy(policy);
        self.proxy.peers.set(&config.peers);
        for (logins, people) in [(self.proxy.users.logins(), users), (self.owners.as_deref(), owners)] {
            if let Some((logins, people)) = logins.zip(people) {
                logins.replace(people);
            }
        }
        secrets.retain(|path, _| credential(path).is_some());
        (running.config, running.secrets) = (config, secrets);
        let mut notes = block.notes();
        let files = config_files(&running.config);
        let copies = files.iter().filter(|path| is_copy(path, request, credential));
        notes.extend(copies.map(|path| Note::new(&COPY_OLD, [Value::same(path.display())])));
        Ok(notes)
    }

    /// Has only the clients of `config` diverted.
    fn divert(&self, config: &Config) -> Result<(), OperationError> {
        let Some(caretaker) = &self.diverting else { return Ok(()) };
        caretaker.serve(&config.clients).map_err(|error| wrong(format!("clients: {error}")))
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The error for a wrong file. Its text exists only in English.
fn wrong(error: impl ToString) -> OperationError {
    OperationError::Wrong(Note::new(&phrase::CONFIGURATION, [Value::said(error)]))
}

/// The text of a file with secrets. If systemd made a copy of the file at the start, the text that
/// was handed over later, if there is one.
fn secret(path: &Path, handed: &BTreeMap<PathBuf, String>) -> Result<String, SecretError> {
    match handed.get(path).filter(|_| credential(path).is_some()) {
        Some(text) => Ok(text.clone()),
        None => read_secret(path),
    }
}

/// The files of users, and of owners of the page.
fn config_files(config: &Config) -> Vec<PathBuf> {
    let owners = config.page.as_ref().map(|page| page.users_file.clone());
    config.users_file.iter().cloned().chain(owners).collect()
}

/// Whether the gateway still uses systemd's copy of a file, because the request has no newer text
/// for it.
fn is_copy(path: &Path, request: &ReloadRequest, credential: fn(&Path) -> Option<PathBuf>) -> bool {
    credential(path).is_some() && !request.secrets.contains_key(path)
}

/// The settings that differ and cannot change at run time. They were used to open sockets or to
/// make rules, or need privileges that the gateway has dropped.
fn changed(now: &Config, new: &Config) -> Vec<Note> {
    let page = |config: &Config| config.page.as_ref().map(|page| page.listen);
    [
        ("listen", now.listen == new.listen),
        ("socks", now.socks == new.socks),
        ("[transparent]", now.transparent == new.transparent),
        ("[relay]", now.relay == new.relay),
        ("home", now.home == new.home),
        ("law", now.law == new.law),
        ("uplink", now.uplink == new.uplink),
        ("upload", now.upload == new.upload),
        ("dns", now.dns == new.dns),
        ("metrics", now.metrics == new.metrics),
        ("log", now.log == new.log),
        ("[control]", now.control == new.control),
        ("page.listen", page(now) == page(new)),
        ("[accounts]", now.accounts == new.accounts),
        ("[destinations]", now.destinations == new.destinations),
        ("vouchers", now.vouchers == new.vouchers),
        ("[limits]", now.limits == new.limits),
    ]
    .into_iter()
    .filter(|(_, same)| !same)
    .map(|(name, _)| Note::of(Value::same(name)))
    .chain((now.users_file.is_some() != new.users_file.is_some()).then(|| Note::new(&phrase::USERS_FILE, [])))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_only_root_hands_over_is_a_copy_until_it_is_handed_over() {
        let (users, credential) = (Path::new("/etc/leeway/users"), |path: &Path| Some(path.to_owned()));
        let handed = ReloadRequest { secrets: [(users.to_owned(), String::new())].into() };
        assert!(is_copy(users, &ReloadRequest::default(), credential));
        assert!(!is_copy(users, &handed, credential));
        assert!(!is_copy(users, &ReloadRequest::default(), |_| None));
    }

    #[test]
    fn what_needs_a_restart_is_named() {
        let config = |text: &str| Config::parse(text).unwrap();
        let now = config(
            "listen = [\"127.0.0.1:3128\"]\nclients = [\"10.0.0.0/8\"]\n[page]\n\
             listen = \"10.1.1.1:80\"\nusers_file = \"a\"",
        );
        assert!(changed(&now, &now.clone()).is_empty());
        let new = config(
            "listen = [\"127.0.0.1:3129\"]\nclients = [\"11.0.0.0/8\"]\nwan = [\"203.0.113.7\"]\nports = [80]\n\
             users_file = \"b\"\n[page]\nlisten = \"10.1.1.1:81\"\nusers_file = \"b\"\n\
             [limits]\nconnections = 3\n[transparent]\ninterface = \"mesh0\"",
        );
        let fixed = ["listen", "[transparent]", "page.listen", "[limits]", "whether there is a `users_file`"];
        assert_eq!(in_english(&changed(&now, &new)), fixed);
    }
}
