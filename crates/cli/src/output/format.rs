//! Formats numbers for people: unit, scale and decimals.

use super::columns::Unit;
use crate::stats::Estimate;

/// The estimate with its unit: `9.81 ± 0.02 Mbit/s`.
pub fn estimate(estimate: &Estimate, unit: Unit) -> String {
    let (scale, suffix) = scale(estimate.mean, unit);
    let mean = estimate.mean * scale;
    let decimals = decimals(mean, unit, estimate.n);
    match estimate.ci95 {
        // An interval that would be printed as 0 is left out.
        Some(ci) if (ci * scale) >= 0.5 * 10f64.powi(-(decimals as i32)) => {
            format!("{mean:.decimals$} ± {:.decimals$}{suffix}", ci * scale)
        }
        _ => format!("{mean:.decimals$}{suffix}"),
    }
}

/// The factor from a value to the printed number, and the printed unit.
fn scale(value: f64, unit: Unit) -> (f64, &'static str) {
    match unit {
        Unit::Rate if value.abs() >= 1e9 => (1e-9, " Gbit/s"),
        Unit::Rate if value.abs() >= 1e6 => (1e-6, " Mbit/s"),
        Unit::Rate if value.abs() >= 1e3 => (1e-3, " kbit/s"),
        Unit::Rate => (1.0, " bit/s"),
        Unit::Share => (100.0, " %"),
        Unit::Time if value.abs() >= 10.0 => (1.0, " s"),
        Unit::Time => (1e3, " ms"),
        Unit::Packets => (1.0, " pkt"),
        Unit::Number | Unit::Count => (1.0, ""),
    }
}

/// Decimals for about three significant digits. A count in a single run has none.
fn decimals(shown: f64, unit: Unit, n: usize) -> usize {
    match (unit, shown.abs()) {
        (Unit::Count, _) if n == 1 => 0,
        (Unit::Number, _) => 3,
        (Unit::Share, x) if x >= 10.0 || x == 0.0 => 1,
        (_, x) if x >= 100.0 || x == 0.0 => 0,
        (_, x) if x >= 10.0 => 1,
        _ => 2,
    }
}

/// A time in seconds, with up to three decimals.
pub fn seconds(value: f64) -> String {
    let text = format!("{value:.3}");
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let one = |mean, unit| estimate(&Estimate { n: 1, mean, ci95: None, min: mean, max: mean }, unit);
        assert_eq!(one(9_812_345.0, Unit::Rate), "9.81 Mbit/s");
        assert_eq!(one(58_000.0, Unit::Rate), "58.0 kbit/s");
        assert_eq!(one(0.9812, Unit::Share), "98.1 %");
        assert_eq!(one(0.0012, Unit::Share), "0.12 %");
        assert_eq!(one(0.0123, Unit::Time), "12.3 ms");
        assert_eq!(one(12.3, Unit::Time), "12.3 s");
        assert_eq!(one(1234.0, Unit::Count), "1234");
        let several = Estimate { n: 3, mean: 9.8e6, ci95: Some(21_000.0), min: 9.7e6, max: 9.9e6 };
        assert_eq!(estimate(&several, Unit::Rate), "9.80 ± 0.02 Mbit/s");
        assert_eq!((seconds(20.0), seconds(0.25)), ("20 s".into(), "0.25 s".into()));
    }
}
