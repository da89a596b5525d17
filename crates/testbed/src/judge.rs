//! Comparison of the outcome with published and required values.

use crate::experiment::{Claim, Outcome};

/// Leeway's mechanisms.
const OURS: &[&str] = &["relay", "proxy", "proxy-relay"];

/// A figure of a mechanism at one point.
fn figure(outcome: &Outcome, mechanism: &str, of: fn(&crate::Row) -> Option<f64>) -> Option<f64> {
    of(outcome.comparison.rows.iter().find(|row| row.mechanism == mechanism)?)
}

fn mean_ratio(row: &crate::Row) -> Option<f64> {
    row.of_prim_only.as_ref()?.primary_mean
}

/// A claim about a figure; open if there is no figure.
fn claim(
    text: String,
    published: &str,
    found: Option<f64>,
    unit: &str,
    holds: impl Fn(f64) -> bool,
) -> Claim {
    Claim {
        text,
        published: published.into(),
        found: found.map(|found| format!("{found:.2}{unit}")).unwrap_or_default(),
        holds: found.map(holds),
    }
}

pub(crate) fn overload(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for outcome in outcomes {
        let ratio = |mechanism| figure(outcome, mechanism, mean_ratio);
        let best = ratio("best_effort");
        for mechanism in ["borrowing", "borrowing-line", "tcplp", "tcpvegas"] {
            let text = format!("{mechanism} brings the primary's mean service time close to prim_only");
            claims.push(claim(
                text,
                "close (taken as: at most 2 times)",
                ratio(mechanism),
                " times",
                |found| found <= 2.0,
            ));
        }
        for (mechanism, published) in [("codel", "helps slightly"), ("sfq", "hardly helps")] {
            let of_best = ratio(mechanism).zip(best).map(|(one, best)| one / best);
            let text = format!("{mechanism} for everybody helps the primary little");
            let published = format!("{published} (taken as: stays above 0.5 of best effort)");
            claims.push(claim(text, &published, of_best, " of best effort", |found| found > 0.5));
        }
        let retransmitted = |mechanism| figure(outcome, mechanism, |row| row.median.retransmitted);
        let most = retransmitted("codel").zip(retransmitted("borrowing"));
        claims.push(claim(
            "codel retransmits more than borrowing".into(),
            "few retransmissions but under codel",
            most.map(|(codel, borrowing)| codel / borrowing.max(1.0)),
            " times as many",
            |found| found > 1.0,
        ));
        let paid = figure(outcome, "borrowing", |row| row.median.secondary_per_s).zip(figure(
            outcome,
            "best_effort",
            |row| row.median.secondary_per_s,
        ));
        claims.push(claim(
            "the secondaries pay for borrowing with a part of their requests".into(),
            "about 20 % (taken as: 5 to 40 %)",
            paid.map(|(one, best)| 100.0 * (1.0 - one / best)),
            " %",
            |found| (5.0..=40.0).contains(&found),
        ));
    }
    claims.extend(ours(outcomes));
    claims
}

pub(crate) fn underload(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for outcome in outcomes {
        let others = |mechanism| figure(outcome, mechanism, |row| row.median.secondary_per_s);
        for row in outcome.comparison.rows.iter().filter(|row| row.mechanism != "prim_only") {
            let name = &row.mechanism;
            claims.push(claim(
                format!("with {name} the primary hardly notices secondaries below the capacity"),
                "all mechanisms alike (taken as: at most 1.5 times)",
                mean_ratio(row),
                " times",
                |x| x <= 1.5,
            ));
            if OURS.contains(&name.as_str()) {
                let of_best = others(name).zip(others("best_effort")).map(|(one, best)| one / best);
                claims.extend([
                    claim(
                        format!("{name}: the primary's mean service time"),
                        "at most 1.03 times",
                        mean_ratio(row),
                        " times",
                        |x| x <= 1.03,
                    ),
                    claim(
                        format!("{name}: requests of secondaries"),
                        "at least 0.9 of best effort",
                        of_best,
                        " of best effort",
                        |x| x >= 0.9,
                    ),
                ]);
            }
        }
    }
    claims
}

pub(crate) fn close(outcomes: &[Outcome]) -> Vec<Claim> {
    let range = |mechanism: &str| {
        let all: Vec<f64> = outcomes.iter().filter_map(|o| figure(o, mechanism, mean_ratio)).collect();
        let (least, most) = (all.iter().copied().reduce(f64::min)?, all.iter().copied().reduce(f64::max)?);
        Some(most / least)
    };
    let text = "borrowing depends on sizes and ratios: the primary's worst ratio is so many times its best"
        .to_owned();
    let mut claims =
        vec![claim(text, "sensitive (taken as: above 1.2)", range("borrowing"), " times", |found| {
            found > 1.2
        })];
    for mechanism in ["tcplp", "tcpvegas"] {
        let worst = outcomes.iter().filter_map(|o| figure(o, mechanism, mean_ratio)).reduce(f64::max);
        let text = format!("{mechanism} stays close to prim_only at its worst point");
        claims.push(claim(text, "close (taken as: at most 2 times)", worst, " times", |found| found <= 2.0));
    }
    claims
}

pub(crate) fn ping(outcomes: &[Outcome]) -> Vec<Claim> {
    let Some(outcome) = outcomes.first() else { return Vec::new() };
    let ping = |mechanism| figure(outcome, mechanism, |row| row.median.ping_mean_s);
    let alone = ping("prim_only");
    let both = ["tcplp+codel", "tcplp+sfq"].map(|mechanism| {
        let of_alone = ping(mechanism).zip(alone).map(|(one, alone)| one / alone);
        let text = format!("with {mechanism} the ping is shorter than that of prim_only");
        claim(text, "better than prim_only", of_alone, " of prim_only", |found| found < 1.0)
    });
    both.into()
}

pub(crate) fn tunnel(outcomes: &[Outcome]) -> Vec<Claim> {
    let Some(outcome) = outcomes.first() else { return Vec::new() };
    let mean = |mechanism| figure(outcome, mechanism, |row| row.median.primary_mean_s);
    let published = "nothing (taken as: at most 1.1)";
    [("ipip", "IP in IP"), ("tcpcubic", "a TCP tunnel under CUBIC")]
        .map(|(mechanism, name)| {
            let of_best = mean(mechanism).zip(mean("best_effort")).map(|(tunnel, open)| tunnel / open);
            let text = format!("{name} by itself adds nothing to the primary's service time");
            claim(text, published, of_best, " of best effort", |found| found <= 1.1)
        })
        .into()
}

/// Targets of Leeway's mechanisms under overload.
pub(crate) fn ours(outcomes: &[Outcome]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for outcome in outcomes {
        let label = if outcome.label.is_empty() { String::new() } else { format!(" ({})", outcome.label) };
        for mechanism in OURS {
            let name = format!("{mechanism}{label}");
            let mean = figure(outcome, mechanism, mean_ratio);
            let tail = figure(outcome, mechanism, |row| row.of_prim_only.as_ref()?.primary_p99);
            let others = figure(outcome, mechanism, |row| row.median.secondary_per_s);
            claims.extend([
                claim(
                    format!("{name}: the primary's mean service time"),
                    "at most 1.35 times",
                    mean,
                    " times",
                    |x| x <= 1.35,
                ),
                claim(format!("{name}: its 99th percentile"), "at most 1.6 times", tail, " times", |x| {
                    x <= 1.6
                }),
                claim(
                    format!("{name}: requests of secondaries"),
                    "at least 10 a second",
                    others,
                    " a second",
                    |x| x >= 10.0,
                ),
            ]);
        }
    }
    claims
}

pub(crate) fn call(outcomes: &[Outcome]) -> Vec<Claim> {
    let rows = outcomes.iter().flat_map(|outcome| &outcome.comparison.rows);
    rows.filter(|row| OURS.contains(&row.mechanism.as_str()))
        .flat_map(|row| {
            let lost = row.of_prim_only.as_ref().and_then(|ratios| ratios.mos_lost);
            let added = row.of_prim_only.as_ref().and_then(|ratios| ratios.ping_p99_added_s);
            let name = &row.mechanism;
            [
                claim(format!("{name} keeps the call's score"), "within 0.1", lost, " lost", |x| x <= 0.1),
                claim(
                    format!("{name} keeps the ping's 99th percentile"),
                    "within 15 ms",
                    added.map(|s| s * 1e3),
                    " ms added",
                    |x| x <= 15.0,
                ),
            ]
        })
        .collect()
}

pub(crate) fn idle(outcomes: &[Outcome]) -> Vec<Claim> {
    let rows =
        outcomes.iter().flat_map(|outcome| outcome.comparison.rows.iter().map(|row| (row, outcome.rate_bps)));
    rows.map(|(row, rate_bps)| {
        // Without headers; a line full of whole packets has 0.965.
        let used =
            row.median.secondary_goodput_bps.zip(rate_bps).map(|(bps, line_bps)| bps / line_bps as f64);
        let text = format!("{} lets secondaries use the line that the primary leaves", row.mechanism);
        claim(text, "at least 0.90", used, " of the line in objects", |found| found >= 0.9)
    })
    .collect()
}

pub(crate) fn nothing(_: &[Outcome]) -> Vec<Claim> {
    Vec::new()
}
