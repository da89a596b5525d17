//! Harm to primary flows, and use of spare capacity: this run against one without the background.

use crate::results::{GroupSummary, Harm, HarmSummary, Run, WindowSummary};

/// Adds harm and spare use to each window of `beside`. `alone` is the same run without background.
pub fn add(beside: &mut Run, alone: &Run) {
    for (window, reference) in beside.windows.iter_mut().zip(&alone.windows) {
        let groups = reference.groups.iter().filter_map(|before| {
            let after = window.groups.iter().find(|group| group.name == before.name)?;
            Some(harm(before, after))
        });
        let groups = groups.collect();
        window.harm = Some(HarmSummary { groups, spare_use: spare_use(window, reference) });
    }
}

/// Harm (Ware et al. 2019): the part of its performance alone that a flow loses in company.
fn harm(alone: &GroupSummary, beside: &GroupSummary) -> Harm {
    Harm {
        name: alone.name.clone(),
        throughput: more_is_better(alone.throughput_bps, beside.throughput_bps),
        delay: Option::zip(alone.owd, beside.owd).and_then(|(a, b)| less_is_better(a.p95_s, b.p95_s)),
        completion: Option::zip(alone.completion, beside.completion)
            .and_then(|(a, b)| less_is_better(a.mean_s, b.mean_s)),
    }
}

fn more_is_better(alone: f64, beside: f64) -> Option<f64> {
    (alone > 0.0).then(|| ((alone - beside) / alone).clamp(0.0, 1.0))
}

fn less_is_better(alone: f64, beside: f64) -> Option<f64> {
    (beside > 0.0).then(|| ((beside - alone) / beside).clamp(0.0, 1.0))
}

/// Use of spare capacity: background throughput over capacity less what the primaries take when
/// alone. `None` if less than 1 % of the first link is spare.
fn spare_use(window: &WindowSummary, alone: &WindowSummary) -> Option<f64> {
    let link = alone.links.first().or(window.links.first())?;
    let of = |window: &WindowSummary, role: &str| {
        window.groups.iter().filter(|group| group.role == role).map(|group| group.throughput_bps).sum::<f64>()
    };
    let spare = link.capacity_bps - of(alone, "primary");
    (spare > 0.01 * link.capacity_bps).then(|| of(window, "background") / spare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harm_is_a_share_of_what_was_there() {
        assert_eq!(more_is_better(10.0, 7.5), Some(0.25));
        assert_eq!(more_is_better(10.0, 11.0), Some(0.0), "company that helps does no harm");
        assert_eq!(more_is_better(0.0, 1.0), None);
        assert_eq!(less_is_better(0.05, 0.1), Some(0.5));
    }
}
