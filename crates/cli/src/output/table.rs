//! The tables of `leeway sim` on the terminal.

use super::collect::{Collector, Outcome};
use super::columns::Shown;
use super::format;
use super::summary::{Cells, Row, Window};
use leeway_guard::steady;
use std::io::{self, Write};

/// Prints the results of every file: for each window the links and the flow groups, with swept
/// values in front. Tables are folded to `width` characters if a width is given.
pub fn print(results: &Collector, width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let outcomes = results.outcomes();
    let mut rest = outcomes;
    let mut first = true;
    while let Some(head) = rest.first() {
        // Points of one file follow each other.
        let same = |o: &&Outcome| o.point.file == head.point.file && o.windows.len() == head.windows.len();
        let number = rest.iter().take_while(same).count();
        if !first {
            writeln!(out)?;
        }
        first = false;
        print_file(&rest[..number], width, out)?;
        rest = &rest[number..];
    }
    Ok(())
}

fn print_file(outcomes: &[Outcome], width: Option<usize>, out: &mut impl Write) -> io::Result<()> {
    let head = &outcomes[0];
    writeln!(out, "{}", steady(head.point.title()))?;
    for (i, window) in head.windows.iter().enumerate() {
        let (from, to) = (format::seconds(window.from_s), format::seconds(window.to_s));
        let runs = match head.runs.as_slice() {
            [only] => format!("seed {}", only.seed),
            runs => format!("means of {} runs with 95 % confidence intervals", runs.len()),
        };
        writeln!(out, "\n{}: {from} to {to}, {runs}", window.name)?;
        for overall in outcomes.iter().filter_map(|o| overall(&o.windows[i].overall, &o.point.label())) {
            writeln!(out, "{overall}")?;
        }
        for (name, rows) in [("link", links as fn(&Window) -> &[Row]), ("flows", groups)] {
            let rows: Vec<(&Outcome, &Row)> =
                outcomes.iter().flat_map(|o| rows(&o.windows[i]).iter().map(move |row| (o, row))).collect();
            let text = lay_out(&grid(name, &rows), width.unwrap_or(usize::MAX));
            write!(out, "\n{text}")?;
        }
    }
    Ok(())
}

fn links(window: &Window) -> &[Row] {
    &window.links
}

fn groups(window: &Window) -> &[Row] {
    &window.groups
}

/// The metrics of all flows together, in one line.
fn overall(cells: &Cells, label: &str) -> Option<String> {
    let parts: Vec<String> = cells
        .0
        .iter()
        .filter_map(|cell| Some(format!("{} {}", cell.heading, format::estimate(&cell.value?, cell.unit))))
        .collect();
    let label = if label.is_empty() { String::new() } else { format!("{label}: ") };
    (!parts.is_empty()).then(|| format!("{label}{}", parts.join(", ")))
}

/// Headings and rows of text; the number of leading columns that are names.
struct Grid {
    rows: Vec<Vec<String>>,
    names: usize,
}

fn grid(name: &str, rows: &[(&Outcome, &Row)]) -> Grid {
    let Some((outcome, first)) = rows.first() else { return Grid { rows: Vec::new(), names: 0 } };
    // Swept laws are in front already, as swept values.
    let swept = outcome.point.values.iter().any(|(path, _)| path.ends_with(".law"));
    let has_law = !swept && rows.iter().any(|(_, row)| row.law.is_some());
    let mut heads: Vec<String> = outcome
        .point
        .values
        .iter()
        .map(|(path, _)| path.rsplit('.').next().unwrap_or(path).to_owned())
        .collect();
    heads.push(name.to_owned());
    if has_law {
        heads.push("law".to_owned());
    }
    let names = heads.len();
    let shown: Vec<usize> = (0..first.cells.0.len()).filter(|&i| is_shown(rows, i)).collect();
    heads.extend(shown.iter().map(|&i| first.cells.0[i].heading.to_owned()));
    let body = rows.iter().map(|(outcome, row)| {
        let mut texts: Vec<String> =
            outcome.point.values.iter().map(|(_, value)| value.to_string()).collect();
        texts.push(match row.flows {
            Some(flows) if flows > 1 => format!("{} x{flows}", row.name),
            _ => row.name.clone(),
        });
        if has_law {
            texts.push(row.law.clone().unwrap_or_default());
        }
        texts.extend(shown.iter().map(|&i| {
            let cell = &row.cells.0[i];
            cell.value.map_or_else(|| "-".into(), |value| format::estimate(&value, cell.unit))
        }));
        texts
    });
    Grid { rows: std::iter::once(heads).chain(body).collect(), names }
}

fn is_shown(rows: &[(&Outcome, &Row)], column: usize) -> bool {
    let mut values =
        rows.iter().filter_map(|(_, row)| Some((row.cells.0[column].shown, row.cells.0[column].value?)));
    values.any(|(shown, value)| match shown {
        Shown::Always => true,
        Shown::Nonzero => value.max > 0.0,
        Shown::Never => false,
    })
}

/// Lays out the columns: names aligned to the left, numbers to the right. Columns that do not fit
/// into `width` follow below, with the names repeated.
fn lay_out(grid: &Grid, width: usize) -> String {
    const GAP: usize = 3;
    let columns = grid.rows.first().map_or(0, Vec::len);
    let widest = |i: usize| grid.rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(widest).collect();
    let names: usize = widths[..grid.names].iter().map(|w| w + GAP).sum();
    let mut text = String::new();
    let mut next = grid.names;
    while next < columns {
        let mut used = names;
        let fits = |&i: &usize| {
            used += widths[i] + GAP;
            used < width
        };
        // At least one number column, even if `width` is too small for it.
        let end = next + (next..columns).take_while(fits).count().max(1);
        for row in &grid.rows {
            let mut line = String::new();
            for i in (0..grid.names).chain(next..end) {
                let pad = " ".repeat(widths[i] - row[i].chars().count());
                line += if i == 0 { "  " } else { "   " };
                line += &if i < grid.names { format!("{}{pad}", row[i]) } else { format!("{pad}{}", row[i]) };
            }
            text += line.trim_end();
            text.push('\n');
        }
        next = end;
    }
    text
}
