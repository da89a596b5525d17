//! Errors in scenarios: what is wrong, where, and what would be right.

use super::FieldPath;
use std::ops::Range;

/// An error in a scenario, without a place in a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {message}")]
pub struct Problem {
    /// The field that is wrong.
    pub path: FieldPath,
    /// What is wrong with it.
    pub message: String,
    /// What would be right, if that is known.
    pub help: Option<String>,
}

impl Problem {
    pub(super) fn new(path: FieldPath, message: impl Into<String>) -> Self {
        Problem { path, message: message.into(), help: None }
    }

    pub(super) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Kind of an error in a scenario file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file, or a file that it names, cannot be read.
    Unreadable,
    /// The file is not TOML.
    Syntax,
    /// A field does not exist, is missing, or has the wrong type.
    Field,
    /// The fields can be read, but contradict each other or are out of bounds.
    Meaning,
    /// A change from outside (`--set`, `--sweep`) names no field of the scenario.
    Change,
}

/// An error in a scenario file: the place, what is wrong, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.one_line())]
pub struct ScenarioError(Box<Details>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Details {
    kind: ErrorKind,
    file: String,
    text: String,
    span: Range<usize>,
    message: String,
    help: Option<String>,
}

impl ScenarioError {
    pub(super) fn new(
        kind: ErrorKind,
        (file, text): (&str, &str),
        span: Range<usize>,
        message: impl Into<String>,
        help: Option<String>,
    ) -> Self {
        let mut span = span.start.min(text.len())..span.end.min(text.len());
        while !text.is_char_boundary(span.start) {
            span.start -= 1;
        }
        while !text.is_char_boundary(span.end) {
            span.end += 1;
        }
        span.end = span.end.max(span.start);
        let (file, text, message) = (file.to_owned(), text.to_owned(), message.into());
        ScenarioError(Box::new(Details { kind, file, text, span, message, help }))
    }

    /// Kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Name of the file, or of the command's option, that the text comes from.
    pub fn file(&self) -> &str {
        &self.0.file
    }

    /// The text that the span refers to; empty if the file cannot be read.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// Range of bytes in the text that is wrong.
    pub fn span(&self) -> Range<usize> {
        self.0.span.clone()
    }

    /// What is wrong.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What would be right, if that is known.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Line and column of the start of the span, both from 1. A column is a character.
    pub fn line_column(&self) -> (usize, usize) {
        let before = &self.0.text[..self.0.span.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
    }

    /// The same error, reported for `file`.
    pub(super) fn in_file(mut self, file: String) -> Self {
        self.0.file = file;
        self
    }

    fn one_line(&self) -> String {
        let (line, column) = self.line_column();
        let place = match self.0.text.is_empty() {
            true => self.0.file.clone(),
            false => format!("{}:{line}:{column}", self.0.file),
        };
        let help = self.0.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{place}: {}{help}", self.0.message)
    }
}
