//! Reads a scenario from TOML.

use super::error::{ErrorKind, Problem, ScenarioError};
use super::path::{path_at, span};
use super::{Scenario, limits, words};
use std::ops::Range;
use std::path::Path;
use toml_edit::{Document, Table};

impl Scenario {
    /// Reads a scenario from TOML. `file_name` appears in errors, and its folder is where trace
    /// files are looked for.
    pub fn parse(text: &str, file_name: &str) -> Result<Scenario, ScenarioError> {
        if text.len() > limits::FILE_BYTES {
            let message = format!("the file is larger than {} MB", limits::FILE_BYTES / 1_000_000);
            return Err(ScenarioError::new(ErrorKind::Meaning, (file_name, ""), 0..0, message, None));
        }
        let document = Document::parse(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let message = error.message().replace('\n', "; ");
            ScenarioError::new(ErrorKind::Syntax, (file_name, text), span, message, None)
        })?;
        let mut scenario: Scenario = toml_edit::de::from_str(text).map_err(|error| {
            let span = error.span().unwrap_or(0..0);
            let (message, help) = explain(error.message(), document.as_table(), &span);
            let span = narrowed(span, text, error.message());
            ScenarioError::new(ErrorKind::Field, (file_name, text), span, message, help)
        })?;
        scenario.validate().map_err(|problem| {
            located(ErrorKind::Meaning, problem, (file_name, text), document.as_table())
        })?;
        if let Some(folder) = Path::new(file_name).parent() {
            for channel in scenario.channels_mut() {
                channel.trace = channel.trace.as_ref().map(|trace| folder.join(trace));
            }
        }
        Ok(scenario)
    }

    /// Reads a scenario file.
    pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
        super::ScenarioFile::load(path)?.scenario()
    }

    /// The scenario as TOML, with defaults written out.
    pub fn to_toml(&self) -> Result<String, toml_edit::ser::Error> {
        toml_edit::ser::to_string_pretty(self)
    }

    /// The JSON Schema of scenario files.
    pub fn json_schema() -> serde_json::Value {
        let mut schema = schemars::schema_for!(Scenario);
        schema.insert("title".into(), "Leeway scenario".into());
        schema.to_value()
    }
}

/// `problem` as an error with its place in `text`.
pub(super) fn located(
    kind: ErrorKind,
    problem: Problem,
    (file, text): (&str, &str),
    root: &Table,
) -> ScenarioError {
    // The span of an absent field is that of its nearest parent, so the message has to name the
    // field.
    let (at, there) = span(root, &problem.path);
    let message = match there {
        true => problem.message,
        false => format!("{}: {}", problem.path, problem.message),
    };
    ScenarioError::new(kind, (file, text), at, message, problem.help)
}

/// Explains serde's `message` to the author of the file, with what would be right.
fn explain(message: &str, root: &Table, at: &Range<usize>) -> (String, Option<String>) {
    let message = message.trim_end();
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let path = path_at(root, at);
    let field = path.as_ref().and_then(|path| match path.steps().last() {
        Some(super::path::Step::Key(key)) => Some(key.as_str()),
        _ => None,
    });
    // Messages about laws, queues and applications end with a list of what exists.
    if let Some((message, known)) = message.split_once("; there are: ").or(message.split_once("; it has: ")) {
        let known: Vec<&str> = known.split(", ").collect();
        return (message.to_owned(), Some(words::suggest(unknown_word(message), &known, "there are")));
    }
    match quoted.split_first() {
        Some((word, known)) if message.starts_with("unknown field") => {
            (format!("there is no field `{word}` here"), Some(words::suggest(word, known, "the fields are")))
        }
        Some((word, known)) if message.starts_with("unknown variant") => {
            let what = field.map(|field| format!(" for `{field}`")).unwrap_or_default();
            (format!("`{word}` is no choice{what}"), Some(words::suggest(word, known, "the choices are")))
        }
        Some((word, _)) if message.starts_with("missing field") => {
            let rest = message.strip_prefix(&format!("missing field `{word}`")).unwrap_or("");
            (format!("`{word}` is missing{rest}"), example(word).map(|line| format!("add `{word} = {line}`")))
        }
        _ if message.starts_with("invalid type: integer") || message.starts_with("invalid type: float") => {
            let given = quoted.first().copied().unwrap_or("");
            let right = field.and_then(|field| Some(format!("{field} = {}", with_unit(field, given)?)));
            match right {
                Some(right) => {
                    let message = format!("the number {given} has no unit");
                    (message, Some(format!("quantities are text with their unit, such as `{right}`")))
                }
                None => (expected(message), None),
            }
        }
        _ if message.starts_with("invalid type: string") && message.contains("expected struct") => {
            (expected(message), Some("it is a table with fields of its own".into()))
        }
        _ => (expected(message), None),
    }
}

/// The word that a message calls unknown: the last one in quotes or backticks.
fn unknown_word(message: &str) -> &str {
    let quoted = |quote: char| message.trim_end_matches(quote).rsplit_once(quote).map(|(_, word)| word);
    quoted('"').or(quoted('`')).unwrap_or("")
}

/// The part of `span` that holds the word which a message about a law, a queue or an application
/// calls unknown.
fn narrowed(span: Range<usize>, text: &str, message: &str) -> Range<usize> {
    let message = match message.split_once("; there are: ").or(message.split_once("; it has")) {
        Some((message, _)) => message,
        None => return span,
    };
    let word = unknown_word(message.split(" in an application").next().unwrap_or(message));
    match text.get(span.clone()).and_then(|inside| inside.find(word)) {
        Some(at) if !word.is_empty() => span.start + at..span.start + at + word.len(),
        _ => span,
    }
}

/// serde's message, with Rust's types renamed to those of TOML.
fn expected(message: &str) -> String {
    message
        .replace("invalid type: ", "found ")
        .replace("invalid value: ", "found ")
        .replace("expected struct ", "expected the table ")
        .replace("expected a boolean", "expected true or false")
        .replace("expected u32", "expected a whole number from 0 to 4294967295")
        .replace("expected u64", "expected a whole number from 0")
        .replace("expected f64", "expected a number")
        .replace("expected a string", "expected text in quotes")
        .replace("expected a sequence", "expected a list")
}

/// An example value of the field `name`.
fn example(name: &str) -> Option<&'static str> {
    Some(match name {
        "duration" => "\"60 s\"",
        "name" => "\"backup\"",
        "rate" => "\"10 Mbit/s\"",
        "delay" | "gap" | "timeout" | "max" => "\"20 ms\"",
        "at" | "to" => "\"30 s\"",
        "bottleneck" | "forward" => "{ rate = \"10 Mbit/s\", delay = \"25 ms\" }",
        "size" => "\"100 kB\"",
        "arrivals_per_s" => "2.0",
        "on" | "off" => "{ exponential = \"5 s\" }",
        "kind" => "\"bulk\"",
        "every" => "\"10 ms\"",
        "shape" => "1.2",
        "tries" => "3",
        "pieces" => "64",
        "p" | "r" => "0.01",
        _ => return None,
    })
}

/// `number` with a likely unit for the field `field`. `None` if the field is no quantity.
fn with_unit(field: &str, number: &str) -> Option<String> {
    let unit = match field {
        "rate" | "access_rate" => "Mbit/s",
        "buffer" | "receive_window" => "pkt",
        "packet" | "header" | "request" | "block" => "B",
        "size" | "piece" => "kB",
        "duration" | "at" | "from" | "to" | "start" | "stop" | "on" | "off" | "initial_rto" | "max_rto" => {
            "s"
        }
        "delay"
        | "every"
        | "max"
        | "gap"
        | "stay"
        | "think"
        | "timeout"
        | "min_rto"
        | "rto_granularity"
        | "offset"
        | "timestamp_resolution"
        | "access_delay"
        | "stagger" => "ms",
        _ => return None,
    };
    Some(format!("\"{number} {unit}\""))
}
