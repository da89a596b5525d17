//! The text of a configuration: its values with their lines, and every syntax error in plain
//! words.

use super::keys::{self, KEYS, Key};
use super::{Finding, Findings};
use crate::config::Config;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

/// The result of reading a configuration.
#[derive(Debug)]
pub struct Document {
    /// What could be read. A value that could not be read is left out, or replaced by an example.
    /// `None` if the text is not TOML.
    pub config: Option<Config>,
    /// What could not be read, and why.
    pub(super) findings: Vec<Finding>,
    /// The keys that could not be read.
    pub(super) broken: Vec<String>,
    lines: BTreeMap<String, usize>,
}

/// The path of a key or entry, and the positions of key and value in the text.
struct Place {
    path: String,
    key: Range<usize>,
    value: Range<usize>,
}

impl Document {
    /// Reads the whole text, and reports all mistakes.
    pub fn read(text: &str) -> Document {
        let (mut table, errors) = DeTable::parse_recoverable(text);
        let mut places = Vec::new();
        note_table(table.get_ref(), "", &mut places);
        let line = |at: usize| line_of(text, at);
        let lines = places.iter().map(|place| (place.path.clone(), line(place.key.start))).collect();
        let mut document = Document { config: None, findings: Vec::new(), broken: Vec::new(), lines };
        for error in &errors {
            let at = error.span().map(|span| line(span.start));
            let (what, right) = keys::syntax(error.message(), at.and_then(|at| text.lines().nth(at - 1)));
            document.find("", at, what, right);
        }
        // After a syntax error, further errors would concern what the parser guessed. Each mistake
        // is mended at most twice: by an example, and by removing the value.
        for _ in 0..2 * places.len() + KEYS.len() {
            if !errors.is_empty() || document.config.is_some() {
                break;
            }
            match Config::deserialize(Deserializer::from(table.clone())) {
                Ok(config) => document.config = Some(config),
                Err(error) => {
                    let span = error.span().unwrap_or_default();
                    let mend = document.explain(error.message(), &span, &places, text);
                    // After this repair, the next round finds the next mistake.
                    if !mend.at(table.get_mut(), &span) {
                        break;
                    }
                }
            }
        }
        document
    }

    /// The configuration, if nothing is wrong with the text.
    ///
    /// # Errors
    /// Everything that cannot be read, one line for each.
    pub fn config(self) -> Result<Config, String> {
        let wrong = self.findings.iter().map(|finding| {
            let line = finding.line.map(|line| format!("line {line}: ")).unwrap_or_default();
            let key = if finding.key.is_empty() { String::new() } else { format!("{}: ", finding.key) };
            format!("{line}{key}{}", finding.words())
        });
        let wrong = wrong.collect::<Vec<_>>().join("\n");
        self.config.filter(|_| wrong.is_empty()).ok_or(wrong)
    }

    /// The line of a key, or of the table that contains it if the key has no line.
    pub fn line(&self, key: &str) -> Option<usize> {
        let mut key = key;
        loop {
            if let Some(line) = self.lines.get(key) {
                return Some(*line);
            }
            key = &key[..key.rfind(['.', '['])?];
        }
    }

    /// Adds a finding that explains the error of a value. Returns the repair that lets the rest be
    /// read.
    fn explain(&mut self, message: &str, span: &Range<usize>, places: &[Place], text: &str) -> Mend {
        let covers = |range: &Range<usize>| range.start <= span.start && span.end <= range.end;
        // The innermost place is the last.
        let place = places.iter().rev().find(|place| covers(&place.key) || covers(&place.value));
        let path = place.map(|place| place.path.as_str()).unwrap_or_default();
        let value = text.get(span.clone()).unwrap_or_default();
        let (what, right) = keys::explain(message, path, value);
        let line = Some(line_of(text, span.start));
        self.find(path, line, what, right);
        // A key that was misspelt is not reported as missing.
        let (unknown, missing) = (keys::unknown(message, path), keys::missing(message, path));
        self.broken.extend(unknown.into_iter().chain(missing).map(|key| key.path.to_owned()));
        let known = Key::of(path)
            .filter(|_| !path.ends_with(']') && !self.broken.iter().any(|broken| broken == path));
        self.broken.push(path.to_owned());
        missing.map(Mend::Add).or(known.map(Mend::Example)).unwrap_or(Mend::Out)
    }

    fn find(&mut self, key: &str, line: Option<usize>, what: String, right: String) {
        let mut findings = Findings::default();
        findings.error(key, what, right);
        for finding in findings.0 {
            self.findings.push(Finding { line, ..finding });
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

fn note_table(table: &DeTable<'_>, above: &str, places: &mut Vec<Place>) {
    for (key, value) in table {
        let dot = if above.is_empty() { "" } else { "." };
        let path = format!("{above}{dot}{}", key.get_ref());
        note(key.span(), value, path, places);
    }
}

fn note(key: Range<usize>, value: &Spanned<DeValue<'_>>, path: String, places: &mut Vec<Place>) {
    places.push(Place { path: path.clone(), key, value: value.span() });
    match value.get_ref() {
        DeValue::Table(table) => note_table(table, &path, places),
        DeValue::Array(entries) => {
            for (n, entry) in entries.iter().enumerate() {
                note(entry.span(), entry, format!("{path}[{n}]"), places);
            }
        }
        _ => {}
    }
}

/// The repair of the innermost value or key that an error concerns.
#[derive(Debug, Clone, Copy)]
enum Mend {
    /// Remove it.
    Out,
    /// Replace it by an example.
    Example(&'static Key),
    /// Add the field that the table lacks.
    Add(&'static Key),
}

impl Mend {
    /// Carries the repair out. Returns whether there was something to repair.
    fn at(self, table: &mut DeTable<'_>, span: &Range<usize>) -> bool {
        let covers = |range: Range<usize>| range.start <= span.start && span.end <= range.end;
        let names: Vec<String> = table.keys().map(|key| key.get_ref().to_string()).collect();
        for name in &names {
            let Some(value) = table.get_mut(name.as_str()).map(Spanned::get_mut) else { continue };
            let done = match value {
                DeValue::Table(inner) => self.at(inner, span),
                DeValue::Array(entries) => {
                    let inner = entries.iter_mut().any(|entry| match entry.get_mut() {
                        DeValue::Table(inner) => self.at(inner, span),
                        _ => false,
                    });
                    let add =
                        |entry: &mut Spanned<DeValue<'_>>| covers(entry.span()) && self.add(entry.get_mut());
                    inner || entries.iter_mut().any(add) || {
                        let before = entries.len();
                        let rest = entries.clone().into_iter().filter(|entry| !covers(entry.span()));
                        *entries = rest.collect();
                        entries.len() < before
                    }
                }
                _ => false,
            };
            if done {
                return true;
            }
        }
        let found = table.iter().find(|(key, value)| covers(key.span()) || covers(value.span()));
        let Some(name) = found.map(|(key, _)| key.get_ref().to_string()) else { return false };
        let Some(value) = table.get_mut(name.as_str()) else { return false };
        match (self, DeValue::parse(self.example())) {
            (Mend::Example(_), Ok(example)) => *value = nowhere(example),
            _ if self.add(value.get_mut()) => {}
            _ => drop(table.remove(name.as_str())),
        }
        true
    }

    fn example(self) -> &'static str {
        match self {
            Mend::Example(key) | Mend::Add(key) => key.example,
            Mend::Out => "",
        }
    }

    /// Adds the missing field. Returns false for another kind of repair.
    fn add(self, value: &mut DeValue<'_>) -> bool {
        match (self, value, DeValue::parse(self.example())) {
            (Mend::Add(key), DeValue::Table(table), Ok(example)) => {
                table.insert(Spanned::new(NOWHERE, key.name().into()), nowhere(example));
                true
            }
            _ => false,
        }
    }
}

/// A position outside of the text.
const NOWHERE: Range<usize> = usize::MAX..usize::MAX;

/// A value without its positions, which belong to another text.
fn nowhere(value: Spanned<DeValue<'_>>) -> Spanned<DeValue<'_>> {
    let value = match value.into_inner() {
        DeValue::Array(entries) => DeValue::Array(entries.into_iter().map(nowhere).collect()),
        DeValue::Table(table) => {
            let keys = table
                .into_iter()
                .map(|(key, value)| (Spanned::new(NOWHERE, key.into_inner()), nowhere(value)));
            DeValue::Table(keys.collect())
        }
        plain => plain,
    };
    Spanned::new(NOWHERE, value)
}

#[cfg(test)]
mod tests {
    use super::super::judge;
    use super::*;
    use std::path::Path;

    /// The errors of a text, one line for each.
    fn said(text: &str) -> Vec<String> {
        let findings = judge(Path::new("g.toml"), &Document::read(text), None);
        let errors = findings.iter().filter(|finding| finding.severity == crate::check::Severity::Error);
        errors.map(|finding| finding.to_string().replace("\n    right: ", " | ")).collect()
    }

    const GOOD: &str = "listen = [\"10.20.0.1:3128\"]\nclients = [\"10.20.0.0/16\"]\n";

    #[test]
    fn every_mistake_is_found_with_its_line_and_what_would_be_right() {
        let text = "lisen = [\"10.20.0.1:3128\"]\n\
                    clients = [\"10.20.0.0/16\", \"10.30.0.0/33\"]\n\
                    metrics = 9300\n\
                    law = \"ledbad\"\n\
                    dns = [\"nine\"]\n\
                    \n\
                    [page]\n\
                    listen = \"192.168.1.2\"\n\
                    [relay]\n\
                    token_file = \"/etc/leeway/relay.token\"\n\
                    transport = \"udp\"\n\
                    [limits]\n\
                    connections = \"many\"\n";
        let said = said(text);
        let expected = [
            ("g.toml:1: error: lisen: there is no key `lisen`", "did you mean `listen`?"),
            (
                "g.toml:2: error: clients[1]: \"10.30.0.0/33\" is not a network",
                "clients = [\"10.20.0.0/16\"]",
            ),
            ("g.toml:3: error: metrics: 9300 is not an address with a port", "metrics = \"127.0.0.1:9300\""),
            ("g.toml:4: error: law: there is no law \"ledbad\"", "law = \"ledbat:target=28ms\""),
            ("g.toml:5: error: dns: `nine` is not a name server", "dns = [\"9.9.9.9\"]"),
            ("g.toml:7: error: page: `users_file` is missing", "users_file = \"/etc/leeway/owners\""),
            (
                "g.toml:8: error: page.listen: \"192.168.1.2\" is not an address with a port",
                "\"192.168.1.2:8080\"",
            ),
            ("g.toml:11: error: relay.transport: \"udp\" is not \"quic\" or \"tcp\"", "transport = \"quic\""),
            ("g.toml:13: error: limits.connections: \"many\" is not a number", "connections = 12000"),
        ];
        assert_eq!(said.len(), expected.len(), "{said:#?}");
        for (line, (what, right)) in said.iter().zip(expected) {
            assert!(line.starts_with(what) && line.contains(right), "{line}\n{what}\n{right}");
        }
    }

    #[test]
    fn a_key_below_the_line_of_a_table_is_told_where_it_belongs() {
        let said = said(&format!("{GOOD}[accounts]\nhome = [\"192.168.1.0/24\"]\nvolume = \"1 GB\"\n"));
        assert_eq!(said.len(), 2, "{said:#?}");
        assert!(
            said[0].starts_with("g.toml:4: error: accounts.home: there is no key `home` in [accounts]"),
            "{said:#?}"
        );
        assert!(said[0].contains("above the first line with a [table]"), "{said:#?}");
        assert!(said[1].contains("g.toml:5") && said[1].contains("it belongs in [caps.month]"), "{said:#?}");
    }

    #[test]
    fn what_is_no_toml_is_told_with_every_line() {
        let said =
            said("listen = 10.20.0.1:3128\nclients = [\"10.20.0.0/16\"\nhome = [\"192.168.1.0/24\"]\n");
        assert!(said[0].starts_with("g.toml:1: error: this line cannot be read"), "{said:#?}");
        assert!(said[0].contains("double quotes"), "{said:#?}");
        let twice = super::tests::said(&format!("{GOOD}listen = [\"10.20.0.1:3129\"]\n"));
        assert!(twice[0].contains("g.toml:3") && twice[0].contains("twice"), "{twice:#?}");
    }

    #[test]
    fn words_of_the_file_cannot_command_a_terminal() {
        let said = said(&format!("{GOOD}\"\\u001b[2J\" = 1\n"));
        assert!(said.len() == 1 && !said[0].contains('\u{1b}'), "{said:?}");
    }
}
