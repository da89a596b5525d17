//! Findings about a configuration on a machine, each with its place and what would be right.
//!
//! [`judge`] depends only on its arguments. [`Machine::read`] describes the machine.

mod document;
mod here;
mod keys;
mod laws;
mod machine;
mod values;

pub use document::Document;
pub use machine::{Beside, Bind, Machine, SecretFile};

use crate::config::Config;
use leeway_guard::steady_lines;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The gateway does not start, or harms somebody.
    Error,
    /// The gateway works, but not as its owner expects.
    Warning,
    /// Information for the owner.
    Note,
}

/// A finding of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// The file, if the finding concerns a file.
    pub file: Option<PathBuf>,
    /// The line in the file.
    pub line: Option<usize>,
    /// The key, such as `page.listen` or `clients[1]`; empty if it concerns the whole file.
    pub key: String,
    /// What was found.
    pub what: String,
    /// What would be right; empty if nothing has to change.
    pub right: String,
}

impl Finding {
    /// What was found and what would be right, in one line.
    pub fn words(&self) -> String {
        match self.right.as_str() {
            "" => self.what.clone(),
            right => format!("{}: {right}", self.what),
        }
    }
}

impl fmt::Display for Finding {
    /// Writes the form that compilers use and editors know.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        if let Some(file) = &self.file {
            text += &file.display().to_string();
            text += &self.line.map(|line| format!(":{line}")).unwrap_or_default();
            text += ": ";
        }
        text += match self.severity {
            Severity::Error => "error: ",
            Severity::Warning => "warning: ",
            Severity::Note => "note: ",
        };
        if !self.key.is_empty() {
            text += &format!("{}: ", self.key);
        }
        text += &self.what;
        if !self.right.is_empty() {
            text += &format!("\n    right: {}", self.right);
        }
        f.write_str(&steady_lines(&text))
    }
}

/// The findings that have been collected.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, severity: Severity, key: &str, what: impl Into<String>, right: impl Into<String>) {
        let (key, what, right) = (key.to_owned(), what.into(), right.into());
        self.0.push(Finding { severity, file: None, line: None, key, what, right });
    }

    fn error(&mut self, key: &str, what: impl Into<String>, right: impl Into<String>) {
        self.add(Severity::Error, key, what, right);
    }

    fn warning(&mut self, key: &str, what: impl Into<String>, right: impl Into<String>) {
        self.add(Severity::Warning, key, what, right);
    }

    fn note(&mut self, key: &str, what: impl Into<String>, right: impl Into<String>) {
        self.add(Severity::Note, key, what, right);
    }
}

/// All findings about a configuration on a machine, the most serious first, then by line. Without
/// a machine, only the file is checked.
pub fn judge(path: &Path, document: &Document, machine: Option<&Machine>) -> Vec<Finding> {
    let mut findings = Findings(document.findings.clone());
    if let Some(config) = &document.config {
        let mut more = Findings::default();
        values::judge(config, &mut more);
        laws::judge(config, machine.map_or(&[], |machine| &machine.kernel), &mut more);
        if let Some(machine) = machine {
            here::judge(path, config, machine, &mut more);
        }
        // A consequence of a value that could not be read is no finding of its own.
        let broken: BTreeSet<&str> = document.broken.iter().map(|key| base(key)).collect();
        findings.0.extend(more.0.into_iter().filter(|finding| !broken.contains(base(&finding.key))));
    }
    for finding in &mut findings.0 {
        finding.file.get_or_insert_with(|| path.to_owned());
        finding.line = finding.line.or_else(|| document.line(&finding.key));
    }
    findings.0.sort_by_key(|finding| (finding.severity, finding.line));
    findings.0
}

/// The first error that does not depend on the machine.
pub(crate) fn first_error(config: &Config) -> Option<Finding> {
    let mut findings = Findings::default();
    values::judge(config, &mut findings);
    findings.0.into_iter().find(|finding| finding.severity == Severity::Error)
}

/// The key without the index of an entry.
fn base(key: &str) -> &str {
    key.split('[').next().unwrap_or(key)
}

/// The addresses that the gateway listens on, with their keys.
fn listeners(config: &Config) -> Vec<(String, SocketAddr)> {
    let numbered = |name: &'static str, addresses: &[SocketAddr]| {
        let all = addresses.iter().enumerate().map(|(n, &address)| (format!("{name}[{n}]"), address));
        all.collect::<Vec<_>>()
    };
    let mut all = numbered("listen", &config.listen);
    all.extend(numbered("socks", &config.socks));
    all.extend(config.metrics.map(|address| ("metrics".to_owned(), address)));
    all.extend(config.page.as_ref().map(|page| ("page.listen".to_owned(), page.listen)));
    let transparent = config.transparent.as_ref().map(|transparent| transparent.port);
    all.extend(transparent.map(|port| ("transparent.port".to_owned(), everywhere(port))));
    all
}

/// The unspecified address, which stands for all addresses of a machine.
fn everywhere(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::from([0; 4]), port)
}
