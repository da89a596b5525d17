//! The table that the demo prints, with a row for each round.

use super::NEIGHBOURS;
use std::io::{self, Write};

/// The figures of one round, or the mean of several.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Name of the row.
    pub label: String,
    /// Time until a page of the home is complete, in seconds: the mean and the 95th percentile.
    pub pages: Option<[f64; 2]>,
    /// Time until a ping of the home is back, in seconds: the median and the 95th percentile.
    pub ping: Option<[f64; 2]>,
    /// Rate of each neighbour in bit/s; `None` while they are silent.
    pub neighbours_bps: Option<Vec<f64>>,
}

/// Prints an explanation and the names of the columns. Lines have at most 80 characters, to fit
/// any terminal.
pub fn heading(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "Times until a page of the home is complete, and until a ping is back.\n95 of 100 take less than the `95 %` column.\n"
    )?;
    let names: String = NEIGHBOURS.iter().map(|one| format!("{:>6}", one.name)).collect();
    writeln!(out, "{:<24}{:^15}{:^16}{:^24}", "", "the home's page", "its ping", "neighbours, Mbit/s")?;
    writeln!(out, "{:<24}{:>7}{:>8}{:>8}{:>8}{names}{:>6}", "", "mean", "95 %", "median", "95 %", "all")
}

impl Figures {
    /// Rate of all neighbours together, in bit/s.
    pub fn together_bps(&self) -> f64 {
        // By `sum`, the sum of no numbers is -0.0, which would be shown with its sign.
        self.neighbours_bps.iter().flatten().fold(0.0, |sum, bps| sum + bps)
    }

    /// Prints the row.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let ms = |pair: Option<[f64; 2]>| match pair {
            Some(pair) => pair.map(|seconds| format!("{:.0} ms", seconds * 1e3)),
            None => ["-", "-"].map(str::to_owned),
        };
        let ([mean, late], [median, long]) = (ms(self.pages), ms(self.ping));
        let rates: String = match &self.neighbours_bps {
            Some(rates) => {
                rates.iter().chain([&self.together_bps()]).map(|bps| format!("{:>6.2}", bps * 1e-6)).collect()
            }
            None => format!("{:>6}", "-").repeat(NEIGHBOURS.len() + 1),
        };
        writeln!(out, "{:<24}{mean:>7}{late:>8}{median:>8}{long:>8}{rates}", self.label)
    }

    /// The mean of several rounds of equal length.
    pub fn mean(label: &str, all: &[Figures]) -> Figures {
        let both = |of: fn(&Figures) -> Option<[f64; 2]>| {
            let known: Vec<[f64; 2]> = all.iter().filter_map(of).collect();
            let mean = |i: usize| known.iter().map(|pair| pair[i]).sum::<f64>() / known.len() as f64;
            (!known.is_empty()).then(|| [mean(0), mean(1)])
        };
        let rates: Vec<&Vec<f64>> = all.iter().filter_map(|one| one.neighbours_bps.as_ref()).collect();
        let rate = |number: usize| rates.iter().map(|all| all[number]).sum::<f64>() / rates.len() as f64;
        Figures {
            label: label.into(),
            pages: both(|one| one.pages),
            ping: both(|one| one.ping),
            neighbours_bps: (!rates.is_empty()).then(|| (0..NEIGHBOURS.len()).map(rate).collect()),
        }
    }
}

/// The result of the demo in two sentences.
pub fn conclusion(alone: &Figures, beside: &Figures, line_bps: f64) -> Option<String> {
    let ([alone_s, _], [beside_s, _]) = (alone.pages?, beside.pages?);
    Some(format!(
        "With neighbours, a page of the home takes {:.2} times as long as without them.\n\
         They get {:.1} Mbit/s of the line's {:.0}.",
        beside_s / alone_s,
        beside.together_bps() * 1e-6,
        line_bps * 1e-6
    ))
}

/// The result without a gateway, in a sentence.
pub fn without(alone: &Figures, unheld: &Figures) -> Option<String> {
    let ([alone_s, _], [unheld_s, _]) = (alone.pages?, unheld.pages?);
    Some(format!("Without a gateway it takes {:.2} times as long.", unheld_s / alone_s))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(page_s: f64, bps: Option<f64>) -> Figures {
        Figures {
            label: "5 s".into(),
            pages: Some([page_s, 2.0 * page_s]),
            ping: None,
            neighbours_bps: bps.map(|bps| vec![bps; NEIGHBOURS.len()]),
        }
    }

    #[test]
    fn rows_stand_below_their_heading() {
        let mut text = Vec::new();
        heading(&mut text).unwrap();
        figures(0.183, None).print(&mut text).unwrap();
        figures(0.2, Some(1.25e6)).print(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        let [.., names, alone, beside] = lines[..] else { panic!("{text}") };
        assert_eq!(names.len(), beside.len(), "{text}");
        assert!(alone.contains(" 183 ms  366 ms") && alone.ends_with('-'), "{text}");
        assert!(beside.ends_with("1.25  1.25  1.25  3.75"), "{text}");
    }

    #[test]
    fn the_mean_skips_what_is_not_known() {
        let all = [figures(0.1, None), figures(0.3, Some(1e6))];
        let mean = Figures::mean("both", &all);
        assert_eq!(mean.pages, Some([0.2, 0.4]));
        assert_eq!((mean.ping, mean.neighbours_bps), (None, Some(vec![1e6; 3])));
        let said = conclusion(&all[0], &all[1], 4e6).unwrap();
        assert!(said.contains("3.00 times") && said.contains("3.0 Mbit/s of the line's 4"), "{said}");
        assert_eq!(without(&all[0], &all[1]).unwrap(), "Without a gateway it takes 3.00 times as long.");
    }
}
