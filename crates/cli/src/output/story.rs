//! One paragraph about a window of a scenario: does the background yield, and what does it do to
//! the others?

use super::format;
use super::summary::{Row, Window};

/// Largest loss of rate that still counts as no harm. Two runs of bursty traffic differ by as much
/// without any background.
const RATE_KEPT: f64 = 0.1;
/// Largest factor on delays and completion times that still counts as no harm. 1.5 is a harm of
/// 1/3.
const TIME_KEPT: f64 = 1.5;
/// Added delay, in seconds, below which no harm is counted: the 20 ms between two packets of a
/// call.
const DELAY_KEPT_S: f64 = 0.02;

/// The paragraph; `None` if no background group sends.
pub fn tell(window: &Window) -> Option<String> {
    let (background, others): (Vec<&Row>, Vec<&Row>) =
        window.groups.iter().partition(|row| row.role.as_deref() == Some("background"));
    let sending: Vec<&&Row> =
        background.iter().filter(|row| mean(row, "throughput_bps").unwrap_or(0.0) > 0.0).collect();
    if sending.is_empty() {
        return None;
    }
    let takes =
        list(sending.iter().map(|row| format!("{} takes {}", row.name, shown(row, "throughput_bps"))));
    let harmed: Vec<String> = others.iter().filter_map(|row| harm(row)).collect();
    let known = others.iter().any(|row| KINDS.iter().any(|kind| mean(row, kind).is_some()));
    if !known {
        return Some(if others.is_empty() {
            format!("{takes}. Nobody else is there.")
        } else {
            format!("{takes}. What that does to the others shows in a run with `baseline = true`.")
        });
    }
    if !harmed.is_empty() {
        return Some(format!("{takes} and does not give way: {}.", list(harmed.into_iter())));
    }
    let names = list(others.iter().map(|row| row.name.clone()));
    let keep = if others.len() == 1 { "keeps its rate" } else { "keep their rates" };
    let lost = others.iter().filter_map(|row| mean(row, "harm_throughput")).fold(0.0, f64::max);
    // Rounded up, so that the statement holds. Less than 1 % is not mentioned.
    let within = if lost < 0.01 { String::new() } else { format!(" within {:.0} %", (lost * 100.0).ceil()) };
    let longest = others
        .iter()
        .filter_map(|row| mean(row, "harm_completion").or_else(|| long_delay(row)))
        .fold(1.0, |longest: f64, harm| longest.max(times(harm)));
    let longest = if longest < 1.01 {
        "nothing takes longer than without it".to_owned()
    } else {
        format!("nothing takes more than {:.0} % longer than without it", ((longest - 1.0) * 100.0).ceil())
    };
    let later = others.iter().filter_map(|row| {
        let added_ms = added_delay_s(row).filter(|_| long_delay(row).is_none())? * 1e3;
        (added_ms >= 1.0)
            .then(|| format!("; packets of {} take up to {:.0} ms longer", row.name, added_ms.ceil()))
    });
    let later: String = later.collect();
    Some(format!("{takes} and gives way: {names} {keep}{within}, and {longest}{later}."))
}

const KINDS: [&str; 3] = ["harm_throughput", "harm_delay", "harm_completion"];

/// The harm to a group as text, if it is above the limits.
fn harm(row: &Row) -> Option<String> {
    let rate = mean(row, "harm_throughput").filter(|harm| *harm >= RATE_KEPT);
    let rate = rate.map(|harm| format!("loses {:.0} % of its rate", harm * 100.0));
    let longer = |harm: f64, what: &str| {
        let times = times(harm);
        (times > TIME_KEPT).then(|| format!("{what} {times:.1} times as long"))
    };
    // People notice the completion times of transfers. For a group without transfers the delay of
    // packets counts.
    let time = mean(row, "harm_completion")
        .and_then(|harm| longer(harm, "takes"))
        .or_else(|| long_delay(row).and_then(|harm| longer(harm, "has delays")));
    let parts: Vec<String> = rate.into_iter().chain(time).collect();
    if parts.is_empty() { None } else { Some(format!("{} {}", row.name, parts.join(" and "))) }
}

/// The delay that the background adds to a group's packets at the 95th percentile, in seconds.
fn added_delay_s(row: &Row) -> Option<f64> {
    Some(mean(row, "owd_p95_s")? * mean(row, "harm_delay")?)
}

/// The harm to a group's delays, if the added delay is long enough to be noticed.
fn long_delay(row: &Row) -> Option<f64> {
    let harm = mean(row, "harm_delay")?;
    added_delay_s(row).is_none_or(|added_s| added_s >= DELAY_KEPT_S).then_some(harm)
}

/// The factor on a time that belongs to a harm: 1 / (1 - harm).
fn times(harm: f64) -> f64 {
    1.0 / (1.0 - harm.min(0.999))
}

fn mean(row: &Row, key: &str) -> Option<f64> {
    row.cells.0.iter().find(|cell| cell.key == key)?.value.map(|value| value.mean)
}

fn shown(row: &Row, key: &str) -> String {
    let cell = row.cells.0.iter().find(|cell| cell.key == key);
    cell.and_then(|cell| Some(format::estimate(&cell.value?, cell.unit))).unwrap_or_default()
}

/// `a, b and c`.
fn list(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    match parts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        Some((last, _)) => last.clone(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::columns::{Shown, Unit};
    use crate::output::summary::{Cell, Cells};
    use crate::stats::Estimate;

    fn row(name: &str, role: &str, values: &[(&'static str, f64)]) -> Row {
        let cell = |&(key, mean): &(&'static str, f64)| {
            let unit = if key.ends_with("bps") { Unit::Rate } else { Unit::Share };
            let value = Estimate::of(&[mean]);
            Cell { key, heading: key, unit, shown: Shown::Always, value }
        };
        let cells = Cells(values.iter().map(cell).collect());
        Row { name: name.into(), law: None, role: Some(role.into()), flows: Some(1), cells }
    }

    fn told(rate: f64, others: Vec<Row>) -> Option<String> {
        let mut groups = others;
        groups.push(row("backup", "background", &[("throughput_bps", rate)]));
        let overall = Cells::default();
        tell(&Window { name: "run".into(), from_s: 0.0, to_s: 1.0, overall, links: vec![], groups })
    }

    #[test]
    fn whether_the_background_gives_way_is_said_with_what_the_others_lose() {
        let video = |rate, time| {
            vec![row("video", "primary", &[("harm_throughput", rate), ("harm_completion", time)])]
        };
        assert_eq!(
            told(6.2e6, video(0.001, 0.003)).unwrap(),
            "backup takes 6.20 Mbit/s and gives way: video keeps its rate, and nothing takes longer than without it."
        );
        assert_eq!(
            told(6.2e6, video(0.024, 0.0293)).unwrap(),
            "backup takes 6.20 Mbit/s and gives way: video keeps its rate within 3 %, and nothing takes more than 4 % \
             longer than without it."
        );
        assert_eq!(
            told(9.5e6, video(0.727, 0.82)).unwrap(),
            "backup takes 9.50 Mbit/s and does not give way: video loses 73 % of its rate and takes 5.6 times as long."
        );
        assert_eq!(
            told(7.6e6, video(0.067, 0.079)).unwrap(),
            "backup takes 7.60 Mbit/s and gives way: video keeps its rate within 7 %, and nothing takes more than 9 % \
             longer than without it."
        );
        assert!(told(9.5e6, video(0.0, 0.3)).unwrap().contains("more than 43 % longer"));
        assert!(told(9.5e6, video(0.0, 0.4)).unwrap().contains("does not give way"));
    }

    #[test]
    fn a_delay_that_nobody_hears_is_no_harm() {
        let call = |p95_s, harm| {
            let values = [("harm_throughput", 0.0), ("harm_delay", harm), ("owd_p95_s", p95_s)];
            told(6.4e6, vec![row("call", "primary", &values)]).unwrap()
        };
        assert_eq!(
            call(0.024, 0.36),
            "backup takes 6.40 Mbit/s and gives way: call keeps its rate, and nothing takes longer than \
             without it; packets of call take up to 9 ms longer."
        );
        assert!(call(0.24, 0.36).contains("does not give way: call has delays 1.6 times as long"));
    }

    #[test]
    fn without_a_baseline_nothing_is_claimed() {
        let alone = row("web", "primary", &[("throughput_bps", 1e6)]);
        assert!(told(1e6, vec![alone]).unwrap().contains("baseline = true"));
        assert!(told(1e6, vec![]).unwrap().contains("Nobody else"));
        assert_eq!(told(0.0, vec![]), None, "it is silent");
    }
}
