//! The live view of `leeway top` in a terminal.

use super::layout::{COLUMNS, GAP, HEADER, TEXTS, cut, fit};
use super::{Order, Row, Sampler, sort};
use crate::Failure;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Table, TableState, Wrap};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::{SIGHUP, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The longest time until a signal is noticed.
const PATIENCE: Duration = Duration::from_millis(200);
/// Help lines for the keys; the longest that fits is shown.
const KEYS: [&str; 2] = [
    "sort: r rate  w window  d delay  t RTT  l law  p program   / filter   space hold   q quit",
    "sort r w d t l p  / filter  space hold  q quit",
];

/// Shows the sockets until the user quits. The terminal is restored at the end, also after
/// SIGTERM.
pub fn run(sampler: &mut Sampler, order: Order, interval: Duration) -> Result<(), Failure> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    let mut terminal = ratatui::try_init()?;
    let result = Screen::new(order).live(&mut terminal, sampler, interval, &ended);
    ratatui::restore();
    result
}

struct Screen {
    order: Order,
    rows: Vec<Row>,
    filter: String,
    /// Whether the user is typing the filter.
    typing: bool,
    held: bool,
    place: TableState,
}

impl Screen {
    fn new(order: Order) -> Screen {
        let (rows, filter, place) = (Vec::new(), String::new(), TableState::new());
        Screen { order, rows, filter, typing: false, held: false, place }
    }

    fn live(
        &mut self,
        terminal: &mut DefaultTerminal,
        sampler: &mut Sampler,
        interval: Duration,
        ended: &AtomicBool,
    ) -> Result<(), Failure> {
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                if !self.held {
                    self.rows = sampler.sample()?;
                }
                next = Instant::now() + interval;
            }
            let empty = if self.rows.is_empty() {
                sampler.nothing()
            } else {
                "no socket matches the filter".to_owned()
            };
            terminal.draw(|frame| self.draw(frame, &empty, sampler.notes()))?;
            let wait = next.saturating_duration_since(Instant::now()).min(PATIENCE);
            if event::poll(wait)?
                && let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && !self.press(key)
            {
                return Ok(());
            }
            if ended.load(Ordering::Relaxed) {
                return Ok(());
            }
        }
    }

    /// Handles a key. Returns `false` to quit.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return false;
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(letter) => self.filter.push(letter),
                _ => {}
            }
            return true;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return false,
            KeyCode::Char('r') => self.order = Order::Rate,
            KeyCode::Char('w') => self.order = Order::Window,
            KeyCode::Char('d') => self.order = Order::Delay,
            KeyCode::Char('t') => self.order = Order::RoundTrip,
            KeyCode::Char('l') => self.order = Order::Law,
            KeyCode::Char('p') => self.order = Order::Program,
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ') => self.held = !self.held,
            KeyCode::Down | KeyCode::Char('j') => self.place.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.place.select_previous(),
            KeyCode::Home => self.place.select_first(),
            KeyCode::End => self.place.select_last(),
            _ => {}
        }
        true
    }

    fn draw(&mut self, frame: &mut Frame<'_>, empty: &str, notes: &[String]) {
        sort(&mut self.rows, self.order);
        let shown: Vec<&Row> = self.rows.iter().filter(|row| row.has(&self.filter)).collect();
        let width = usize::from(frame.area().width);
        // Lines break between words, which takes about 10 % more room than the characters alone.
        let lines: usize = notes.iter().map(|note| note.chars().count() * 10 / 9 / width.max(1) + 1).sum();
        let lines = lines.min(usize::from(frame.area().height) / 3) as u16;
        let notes = Paragraph::new(notes.join("\n")).wrap(Wrap { trim: true });
        let [head, body, said, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Fill(1),
            Constraint::Length(lines),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        frame.render_widget(Line::styled(self.summary(&shown), bold), head);
        if shown.is_empty() {
            frame.render_widget(Paragraph::new(empty).wrap(Wrap { trim: true }), body);
        } else {
            let cells: Vec<[String; COLUMNS]> = shown.iter().map(|row| row.cells()).collect();
            let columns = fit(&cells, width);
            let line = |cells: &[String; COLUMNS]| {
                TableRow::new(columns.iter().map(|&(column, width)| {
                    let side = if column < TEXTS { Alignment::Left } else { Alignment::Right };
                    Cell::from(Text::from(cut(column, &cells[column], width)).alignment(side))
                }))
            };
            let header =
                line(&HEADER.map(str::to_owned)).style(Style::new().add_modifier(Modifier::REVERSED));
            let widths = columns.iter().map(|(_, width)| Constraint::Length(*width as u16));
            let table = Table::new(cells.iter().map(line), widths)
                .header(header)
                .column_spacing(GAP as u16)
                .row_highlight_style(bold);
            frame.render_stateful_widget(table, body, &mut self.place);
        }
        frame.render_widget(notes, said);
        let keys = KEYS.into_iter().find(|keys| keys.len() <= width).unwrap_or(KEYS[1]);
        let keys = if self.typing { format!("filter: {}_", self.filter) } else { keys.to_owned() };
        frame.render_widget(Line::from(keys), foot);
    }

    fn summary(&self, shown: &[&Row]) -> String {
        let mbps = together_mbps(shown.iter().filter_map(|row| row.rate_bps));
        let mut text = format!("leeway top: {} sockets, {mbps:.2} Mbit/s", shown.len());
        text.push_str(&format!(", by {}", format!("{:?}", self.order).to_lowercase()));
        if !self.filter.is_empty() {
            text.push_str(&format!(", with \"{}\"", self.filter));
        }
        if self.held {
            text.push_str(", held");
        }
        text
    }
}

/// The sum of rates in Mbit/s. That of none is 0, not -0.0 as by `sum`, which would be shown with
/// its sign.
fn together_mbps(rates_bps: impl Iterator<Item = f64>) -> f64 {
    rates_bps.fold(0.0, |sum, rate| sum + rate) * 1e-6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rates_are_zero_without_a_sign() {
        assert_eq!(format!("{:.2}", together_mbps(std::iter::empty())), "0.00");
        assert_eq!(format!("{:.2}", together_mbps([1e6, 2.5e6].into_iter())), "3.50");
    }
}
