//! Events that a gateway reports to its owner: a sentence for people, fields for programs.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;

/// Receives events.
pub type Log = Arc<dyn Fn(&Event) + Send + Sync>;

/// Format of the lines of the log (`log` in the configuration).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// A sentence for people.
    #[default]
    Text,
    /// A JSON object.
    Json,
}

/// Something that happened. `Display` writes the sentence.
#[derive(Debug, Clone)]
pub struct Event {
    kind: &'static str,
    words: String,
    fields: Map<String, Value>,
}

impl Event {
    /// An event of a kind such as `refused`, with its sentence.
    pub fn new(kind: &'static str, words: impl ToString) -> Event {
        Event { kind, words: words.to_string(), fields: Map::new() }
    }

    /// Adds a field for programs.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl ToString) -> Event {
        self.fields.insert(name.to_owned(), Value::String(value.to_string()));
        self
    }

    /// The event as one line, in the given format.
    pub fn line(&self, format: LogFormat, at: Timestamp) -> String {
        match format {
            LogFormat::Text => format!("leeway gateway: {}", self.words),
            LogFormat::Json => {
                let own = [
                    ("time", format!("{at:.3}")),
                    ("event", self.kind.to_owned()),
                    ("message", self.words.clone()),
                ];
                let own = own.map(|(name, value)| (name.to_owned(), Value::String(value)));
                let line: Map<String, Value> = own.into_iter().chain(self.fields.clone()).collect();
                Value::Object(line).to_string()
            }
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_for_people_or_for_programs_and_is_one_line() {
        let at = "2026-11-28T12:00:07.0125Z".parse().unwrap();
        let event = Event::new("refused", "refused 10.0.0.1: \"a\"\nb").with("from", "10.0.0.1");
        assert_eq!(event.line(LogFormat::Text, at), "leeway gateway: refused 10.0.0.1: \"a\"\nb");
        assert_eq!(
            event.line(LogFormat::Json, at),
            "{\"event\":\"refused\",\"from\":\"10.0.0.1\",\"message\":\"refused 10.0.0.1: \\\"a\\\"\\nb\",\
             \"time\":\"2026-11-28T12:00:07.012Z\"}"
        );
    }
}
