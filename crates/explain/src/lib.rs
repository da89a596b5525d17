//! Errors in scenarios for people: the line, what is wrong with it, what would be right.

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
            "" => write!(f, "{}: {}", self.error.file(), self.error.message()),
            _ => f.write_str(self.error.message()),
        }
    }
}

impl std::error::Error for Explained<'_> {}

impl Diagnostic for Explained<'_> {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.error.help().map(|help| Box::new(help) as Box<dyn fmt::Display>)
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
    let plain = |text: &str| text.replace(|c: char| c.is_control() && c != '\n' && c != '\t', "\u{fffd}");
    let source = match error.text().contains(|c: char| c.is_control() && c != '\n' && c != '\t') {
        // The replacement is longer than what it replaces: spaces keep the span in place.
        true => error.text().replace(|c: char| c.is_ascii_control() && c != '\n' && c != '\t', " "),
        false => error.text().to_owned(),
    };
    let source = NamedSource::new(plain(error.file()), source);
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
