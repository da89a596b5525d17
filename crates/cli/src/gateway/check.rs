//! `leeway gateway check`: prints everything that is wrong with a configuration on this machine.

use super::usage;
use crate::output::stdout;
use crate::{BAD_INPUT, Failure, RUN_FAILED};
use clap::Args;
use leeway_gateway::check::{Document, Finding, Machine, Severity, judge};
use leeway_gateway::config::read_text;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Examples and exit codes.
pub const HELP: &str = "Examples:\n  \
    sudo leeway gateway check\n      \
    checks /etc/leeway/gateway.toml on this machine\n  \
    leeway gateway check --config gateway.toml --strict\n      \
    fails for a warning as well\n  \
    leeway gateway check --config gateway.toml --file-only\n      \
    checks a file for another machine\n  \
    leeway gateway check --json | jq -r '.[] | select(.severity == \"error\") | .what'\n      \
    for other programs\n\n\
    Each finding has its file, line and key, and what would be right. With an error, \
    the gateway does not start or harms somebody. With a warning, it works, but not as its owner expects. A \
    note is for information.\n\n\
    Exit codes: 0 no error, 1 with --strict: a warning and no error, 2 an error, or no such file.";

/// Path of the configuration, unless another is given.
pub const CONFIG: &str = "/etc/leeway/gateway.toml";

/// What to check.
#[derive(Args)]
pub struct Check {
    /// Configuration (TOML).
    #[arg(long, short, value_name = "FILE", default_value = CONFIG)]
    config: PathBuf,
    /// Check only the file: it is for another machine, or this machine is not set up yet.
    #[arg(long)]
    file_only: bool,
    /// Exit with 1 if there are warnings and no errors.
    #[arg(long)]
    strict: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Prints every finding.
pub fn run(check: &Check) -> Result<(), Failure> {
    let findings = look(&check.config, check.file_only)?;
    let mut out = stdout();
    if check.json {
        serde_json::to_writer_pretty(&mut out, &findings).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        print(&findings, &mut out)?;
    }
    out.flush()?;
    match findings.iter().map(|finding| finding.severity).min() {
        Some(Severity::Error) => Err(Failure::Command(BAD_INPUT)),
        Some(Severity::Warning) if check.strict => Err(Failure::Command(RUN_FAILED)),
        _ => Ok(()),
    }
}

/// The findings about a file on this machine, or about the file alone.
pub fn look(path: &Path, file_only: bool) -> Result<Vec<Finding>, Failure> {
    let text = read_text(path).map_err(usage)?;
    let document = Document::read(&text);
    let machine = document.config.as_ref().filter(|_| !file_only).map(|config| Machine::read(path, config));
    let machine = machine.transpose().map_err(|error| Failure::Run(error.to_string()))?;
    Ok(judge(path, &document, machine.as_ref()))
}

/// Prints each finding, and the number of errors and warnings.
pub fn print(findings: &[Finding], out: &mut impl Write) -> io::Result<()> {
    findings.iter().try_for_each(|finding| writeln!(out, "{finding}"))?;
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    match (count(Severity::Error), count(Severity::Warning)) {
        (0, 0) => writeln!(out, "the configuration is right"),
        (0, warnings) => writeln!(out, "the configuration can be used; {}", many(warnings, "warning")),
        (errors, warnings) => writeln!(out, "{}, {}", many(errors, "error"), many(warnings, "warning")),
    }
}
