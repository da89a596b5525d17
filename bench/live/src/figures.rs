//! Computes the figures of a case from the traffic at the bottleneck, for live and simulated runs
//! alike.

use crate::case::Case;
use serde::{Deserialize, Serialize};

/// Length of a bin of [`Passed`], in seconds.
pub const BIN_S: f64 = 0.02;
/// The part of the link's rate above which a flow counts as having the link.
const MOST: f64 = 0.9;

/// The figures of one run. Shares are of the link's rate, headers included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Share of the background flow when it is alone.
    pub alone: Option<f64>,
    /// Queuing delay when the background flow is alone: median.
    pub alone_p50_ms: Option<f64>,
    /// 95th percentile.
    pub alone_p95_ms: Option<f64>,
    /// Share of the background flow with the other flow.
    pub background: Option<f64>,
    /// Share of the other flow.
    pub primary: Option<f64>,
    /// Queuing delay with both flows: median.
    pub beside_p50_ms: Option<f64>,
    /// 95th percentile.
    pub beside_p95_ms: Option<f64>,
    /// Time from the start of the other flow until it has 90 % of the link.
    pub yield_s: Option<f64>,
    /// Time from the stop of the other flow until the background flow has 90 % of the link.
    pub reclaim_s: Option<f64>,
    /// Delay that the queue adds to a voice packet, at the receiver: median.
    pub voice_p50_ms: Option<f64>,
    /// 95th percentile.
    pub voice_p95_ms: Option<f64>,
    /// Lost voice packets.
    pub voice_loss: Option<f64>,
}

/// The traffic that left the bottleneck. Time 0 is the start of the first flow.
#[derive(Debug, Clone, Default)]
pub struct Passed {
    /// Bits in each bin: of the background flow, and of the other flow.
    pub bits: [Vec<f64>; 2],
    /// When the other flow started and stopped.
    pub other: (f64, f64),
}

impl Passed {
    /// Adds bits of a flow at a time. Bits before the start are ignored.
    pub fn add(&mut self, flow: usize, at_s: f64, bits: f64) {
        if at_s >= 0.0 {
            let bin = (at_s / BIN_S) as usize;
            let bins = &mut self.bits[flow];
            if bins.len() <= bin {
                bins.resize(bin + 1, 0.0);
            }
            bins[bin] += bits;
        }
    }

    /// Fills in the figures that come from rates.
    pub fn rates(&self, case: &Case, figures: &mut Figures) {
        let (schedule, link) = (&case.schedule, case.network.bits_per_s());
        let share = |flow: usize, from: f64, to: f64| self.between(flow, from, to) / (link * (to - from));
        let (start, stop) = self.other;
        if case.law.is_some() {
            figures.alone = Some(share(0, schedule.alone_from_s, start));
            figures.background = Some(share(0, start + schedule.beside_from_s, stop));
        }
        figures.primary = Some(share(1, start + schedule.beside_from_s, stop));
        let rtt = case.network.delay_s() * 2.0;
        figures.yield_s = self.reaches(1, start, stop, rtt, link);
        if schedule.after_s > 0.0 {
            figures.reclaim_s = self.reaches(0, stop, stop + schedule.after_s, rtt, link);
        }
    }

    fn between(&self, flow: usize, from: f64, to: f64) -> f64 {
        let at = |time: f64| ((time / BIN_S).round() as usize).min(self.bits[flow].len());
        self.bits[flow][at(from).min(at(to))..at(to)].iter().sum()
    }

    /// Time from `from` to the end of the first two round trips (0.2 s at least) in which a flow
    /// has had [`MOST`] of the link.
    fn reaches(&self, flow: usize, from: f64, to: f64, rtt: f64, link: f64) -> Option<f64> {
        let span = ((2.0 * rtt).max(0.2) / BIN_S).ceil() as usize;
        let wanted = MOST * link * span as f64 * BIN_S;
        let first = (from / BIN_S).ceil() as usize;
        let bins = &self.bits[flow];
        let last = ((to / BIN_S) as usize).min(bins.len());
        (first + span..=last).find_map(|end| {
            let had: f64 = bins[end - span..end].iter().sum();
            (had >= wanted).then_some(end as f64 * BIN_S - from)
        })
    }
}

/// The value that `permille` of the values do not exceed; `None` without values.
pub fn quantile(values: &mut [f64], permille: usize) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    Some(values[last * permille / 1000])
}

/// The median; `None` without values.
pub fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some((values[low] + values[high]) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{BASE, Beside};

    #[test]
    fn a_flow_that_yields_and_reclaims_by_hand() {
        let case = Case::new(BASE, Some("ledbat"), Beside::Cubic);
        let mut passed = Passed { other: (15.0, 33.0), ..Passed::default() };
        for bin in 0..2000 {
            let at = f64::from(bin) * BIN_S + BIN_S / 2.0;
            // It yields to all but a tenth a second late, and is back half a second after the
            // other has gone.
            let background = if (16.0..33.5).contains(&at) { 0.05 } else { 0.95 };
            passed.add(0, at, background * 10e6 * BIN_S);
            passed.add(
                1,
                at,
                if (15.0..33.0).contains(&at) { (1.0 - background) * 10e6 * BIN_S } else { 0.0 },
            );
        }
        let mut figures = Figures::default();
        passed.rates(&case, &mut figures);
        let near = |value: Option<f64>, wanted: f64| (value.unwrap() - wanted).abs() < 0.01;
        assert!(near(figures.alone, 0.95) && near(figures.background, 0.05) && near(figures.primary, 0.95));
        // Almost all of the 0.2 s that are looked at have to be after the change.
        assert!((1.17..1.21).contains(&figures.yield_s.unwrap()), "{figures:?}");
        assert!((0.67..0.71).contains(&figures.reclaim_s.unwrap()), "{figures:?}");
    }

    #[test]
    fn medians_and_quantiles() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), Some(2.5));
        assert_eq!(median(std::iter::empty()), None);
        assert_eq!(quantile(&mut [5.0, 1.0, 3.0], 500), Some(3.0));
        assert_eq!(quantile(&mut [], 500), None);
    }
}
