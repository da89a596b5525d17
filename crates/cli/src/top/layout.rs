//! Chooses the columns that fit into a terminal: numbers are shown whole or not at all, texts are
//! shortened.

/// Number of columns.
pub const COLUMNS: usize = 10;
/// The first columns are texts, aligned to the left.
pub const TEXTS: usize = 5;
pub const HEADER: [&str; COLUMNS] = [
    "law",
    "program",
    "connection",
    "way",
    "phase",
    "window pkt",
    "in flight",
    "delay ms",
    "RTT ms",
    "Mbit/s",
];
const CONNECTION: usize = 2;
/// Columns that are left out if there is no room, in this order.
const DISPENSABLE: [usize; 5] = [6, 4, 0, 5, 8];
/// The least width at which a text column is useful.
const LEAST: [usize; TEXTS] = [8, 8, 15, 4, 8];
/// Text columns that get the room that is left, in this order.
const STRETCH: [usize; 4] = [2, 1, 0, 4];
/// Spaces between two columns.
pub const GAP: usize = 2;

/// The columns that fit into `width`, with their widths.
pub fn fit(rows: &[[String; COLUMNS]], width: usize) -> Vec<(usize, usize)> {
    let natural: Vec<usize> = (0..COLUMNS)
        .map(|column| {
            let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            longest.max(HEADER[column].chars().count())
        })
        .collect();
    let least = |column: usize| match LEAST.get(column) {
        Some(least) => natural[column].min(*least),
        None => natural[column],
    };
    let mut kept: Vec<usize> = (0..COLUMNS).collect();
    let needed =
        |kept: &[usize]| kept.iter().map(|column| least(*column) + GAP).sum::<usize>().saturating_sub(GAP);
    for column in DISPENSABLE {
        if needed(&kept) <= width {
            break;
        }
        kept.retain(|one| *one != column);
    }
    let mut left = width.saturating_sub(needed(&kept));
    let mut widths: Vec<(usize, usize)> = kept.iter().map(|column| (*column, least(*column))).collect();
    for column in STRETCH {
        if let Some((_, width)) = widths.iter_mut().find(|(one, _)| *one == column) {
            let more = (natural[column] - *width).min(left);
            *width += more;
            left -= more;
        }
    }
    widths
}

/// Shortens a text to its column. Of a connection the remote end is kept, of other texts the
/// beginning.
pub fn cut(column: usize, text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width || column >= TEXTS {
        return text.to_owned();
    }
    if column == CONNECTION
        && let Some((_, remote)) = text.split_once(" > ").filter(|_| width > 2)
    {
        let far = format!("> {remote}");
        let skip = far.chars().count().saturating_sub(width);
        return match skip {
            0 => far,
            _ => format!("…{}", far.chars().skip(skip + 1).collect::<String>()),
        };
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// A line of cells.
pub fn line(cells: &[String; COLUMNS], columns: &[(usize, usize)]) -> String {
    let mut line = String::new();
    for &(column, width) in columns {
        let text = cut(column, &cells[column], width);
        let cell = if column < TEXTS { format!("{text:width$}") } else { format!("{text:>width$}") };
        line.push_str(&cell);
        line.push_str(&" ".repeat(GAP));
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> [String; COLUMNS] {
        [
            "run_ledbat",
            "rsync (1234567)",
            "[2001:db8:1234:5678::1]:43210 > [2001:db8:ffff::25]:443",
            "up",
            "avoidance",
            "12345.67",
            "12345",
            "1234.5",
            "1234.5",
            "12345.67",
        ]
        .map(str::to_owned)
    }

    #[test]
    fn numbers_are_whole_at_every_width_and_lines_fit_from_60_on() {
        for width in 60..200 {
            let rows = [row()];
            let columns = fit(&rows, width);
            let header = line(&HEADER.map(str::to_owned), &columns);
            let text = line(&rows[0], &columns);
            assert!(text.chars().count() <= width && header.chars().count() <= width, "{width}: {text}");
            for (column, cell) in rows[0].iter().enumerate().skip(TEXTS) {
                let shown = columns.iter().any(|(one, _)| *one == column);
                assert!(
                    !shown || text.split_whitespace().any(|word| word == cell),
                    "{width}: {cell} in {text}"
                );
            }
            // The most important columns are never left out.
            for column in [1, 2, 3, 7, 9] {
                assert!(columns.iter().any(|(one, _)| *one == column), "{width}: {}", HEADER[column]);
            }
        }
        assert_eq!(fit(&[row()], 300).len(), COLUMNS);
    }

    #[test]
    fn of_a_connection_the_far_end_is_kept() {
        assert_eq!(cut(2, "10.0.0.1:5 > 10.0.0.2:443", 15), "> 10.0.0.2:443");
        assert_eq!(cut(2, "10.0.0.1:5 > 192.168.100.200:443", 15), "…68.100.200:443");
        assert_eq!(cut(1, "chromium (77)", 8), "chromiu…");
        assert_eq!(cut(9, "12345.67", 3), "12345.67");
    }
}
