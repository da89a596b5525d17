//! Errors in scenarios for people: the line, what is wrong with it, what would be right.

use leeway_guard::{is_steady, steady_lines};
use leeway_sim::scenario::ScenarioError;
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, SourceCode};
use std::fmt;

/// A scenario error as miette shows it.
#[derive(Debug)]
struct Explained<'a> {
    error: &'a ScenarioError,
    source: NamedSource<String>,
}

impl fmt::Display for Explained<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error.text() {
            "" => write!(f, "{}: {}", self.error.file(), steady_lines(self.error.message())),
            _ => f.write_str(&steady_lines(self.error.message())),
        }
    }
}

impl std::error::Error for Explained<'_> {}

impl Diagnostic for Explained<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.error.help().map(|help| Box::new(steady_lines(help)) as Box<dyn fmt::Display>)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        (!self.error.text().is_empty()).then_some(&self.source as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new_with_span(None, self.error.span());
        (!self.error.text().is_empty())
            .then(|| Box::new(std::iter::once(label)) as Box<dyn Iterator<Item = LabeledSpan>>)
    }
}

/// The error as text, with the source line it is about; in colour for a terminal.
pub fn render(error: &ScenarioError, colour: bool) -> String {
    let theme = if colour { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
    // Control characters of a hostile file must not reach the terminal.
    // As many spaces as the character has bytes keep the span in place.
    let kept = |c: char| is_steady(c) || c == '\n' || c == '\t';
    let source = error.text().chars().fold(String::new(), |mut text, c| {
        if kept(c) {
            text.push(c)
        } else {
            text.extend(std::iter::repeat_n(' ', c.len_utf8()))
        }
        text
    });
    let source = NamedSource::new(steady_lines(error.file()), source);
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(theme).with_width(100).with_context_lines(1);
    match handler.render_report(&mut text, &Explained { error, source }) {
        Ok(()) => {
            text.split('\n')
                .map(|line| format!("{}\n", line.trim_end()))
                .collect::<String>()
                .trim_end()
                .to_owned()
                + "\n"
        }
        Err(_) => format!("{error}\n"),
    }
}
