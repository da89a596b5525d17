//! Lines of a chart on one time axis, with fewer points than samples, but with every peak.

use leeway_sim::results::Series;

/// Buckets along the time axis, with two points each: the smallest and the largest value. A series
/// with at most twice this number of instants is kept whole.
const BUCKETS: usize = 2_000;
/// Parts of the time axis over which rates are means. A rate over less than a round trip is only
/// noise.
const RATE_BINS: usize = 200;

/// Values along the time axis; `None` where there is no value yet.
pub type Line = Vec<Option<f64>>;

/// The common time axis.
pub enum Axis {
    /// Every instant that has a sample.
    Whole(Vec<f64>),
    /// Buckets of equal width.
    Buckets { start: f64, width: f64 },
}

impl Axis {
    /// The axis of a series; `None` without samples.
    pub fn of(series: &Series) -> Option<Axis> {
        let mut times: Vec<f64> = series.flows.time_s.iter().chain(&series.links.time_s).copied().collect();
        times.sort_by(f64::total_cmp);
        times.dedup();
        let (&first, &last) = times.first().zip(times.last())?;
        Some(match times.len() <= 2 * BUCKETS {
            true => Axis::Whole(times),
            false => Axis::Buckets { start: first, width: (last - first) / BUCKETS as f64 },
        })
    }

    /// The place of a sample on the axis. Samples come in order of time, so the search begins at
    /// the last place.
    fn place(&self, time: f64, after: usize) -> usize {
        match self {
            Axis::Whole(times) => after + times[after..].partition_point(|&t| t < time),
            Axis::Buckets { start, width } => (((time - start) / width) as usize).min(BUCKETS - 1).max(after),
        }
    }

    fn ends(&self) -> (f64, f64) {
        match self {
            Axis::Whole(times) => {
                (times.first().copied().unwrap_or(0.0), times.last().copied().unwrap_or(0.0))
            }
            Axis::Buckets { start, width } => (*start, start + width * BUCKETS as f64),
        }
    }

    /// The time over which a rate is the mean, in seconds: a 200th of the axis, rounded up to 1, 2
    /// or 5 times a power of ten.
    pub fn rate_bin(&self) -> f64 {
        let (start, end) = self.ends();
        let exact = (end - start).max(1e-9) / RATE_BINS as f64;
        let decade = 10f64.powf(exact.log10().floor());
        decade
            * [1.0, 2.0, 5.0, 10.0].into_iter().find(|&step| step * decade >= exact * 0.999).unwrap_or(10.0)
    }

    /// The instants of the points.
    pub fn times(&self) -> Vec<f64> {
        let rounded = |t: f64| (t * 1e6).round() / 1e6;
        match self {
            Axis::Whole(times) => times.iter().copied().map(rounded).collect(),
            Axis::Buckets { start, width } => {
                (0..2 * BUCKETS).map(|i| rounded(start + width * i as f64 / 2.0)).collect()
            }
        }
    }
}

/// One line being built.
pub struct Builder<'a> {
    axis: &'a Axis,
    place: usize,
    /// Smallest and largest value in the present place, and whether the smallest came first.
    here: Option<(f64, f64, bool)>,
    last: Option<f64>,
    line: Line,
}

impl<'a> Builder<'a> {
    /// An empty line.
    pub fn new(axis: &'a Axis) -> Self {
        Builder { axis, place: 0, here: None, last: None, line: Vec::new() }
    }

    /// Adds a sample; samples come in order of time.
    pub fn push(&mut self, time: f64, value: f64) {
        let place = self.axis.place(time, self.place);
        while self.place < place {
            self.close();
        }
        let value = Some(value).filter(|v| v.is_finite());
        self.last = value;
        let Some(v) = value else { return };
        self.here = Some(match (self.axis, self.here) {
            (Axis::Whole(_), _) | (_, None) => (v, v, true),
            (_, Some((min, max, _))) if v < min => (v, max, false),
            (_, Some((min, max, _))) if v > max => (min, v, true),
            (_, Some(here)) => here,
        });
    }

    /// Ends the present place with its values, or with the last value before if it has none.
    fn close(&mut self) {
        let (first, second) = match self.here.take() {
            Some((min, max, true)) => (Some(min), Some(max)),
            Some((min, max, false)) => (Some(max), Some(min)),
            None => (self.last, self.last),
        };
        self.line.push(first.map(short));
        if matches!(self.axis, Axis::Buckets { .. }) {
            self.line.push(second.map(short));
        }
        self.place += 1;
    }

    /// The line to the end of the axis.
    pub fn finish(mut self) -> Line {
        let places = match self.axis {
            Axis::Whole(times) => times.len(),
            Axis::Buckets { .. } => BUCKETS,
        };
        while self.place < places {
            self.close();
        }
        self.line
    }
}

/// Rounds to four significant digits. A screen shows no more.
fn short(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let short = (value * scale).round() / scale;
    if short.is_finite() { short } else { value }
}

/// A line with the mean or the sum of several flows. Each sample is of one flow.
pub struct Combined<'a> {
    line: Builder<'a>,
    latest: Vec<f64>,
    known: usize,
    sum: f64,
    mean: bool,
    pending: Option<f64>,
}

impl<'a> Combined<'a> {
    /// Nothing yet of so many flows.
    pub fn new(axis: &'a Axis, flows: usize, mean: bool) -> Self {
        let latest = vec![f64::NAN; flows];
        Combined { line: Builder::new(axis), latest, known: 0, sum: 0.0, mean, pending: None }
    }

    /// Adds a sample of one flow.
    pub fn push(&mut self, time: f64, flow: usize, value: f64) {
        if self.pending.is_some_and(|pending| pending < time) {
            self.settle();
        }
        self.pending = Some(time);
        let Some(latest) = self.latest.get_mut(flow) else { return };
        let before = std::mem::replace(latest, value);
        if before.is_finite() {
            self.sum -= before;
            self.known -= 1;
        }
        if value.is_finite() {
            self.sum += value;
            self.known += 1;
        }
    }

    /// Ends an instant: adds the mean or sum of the latest values to the line.
    fn settle(&mut self) {
        let Some(time) = self.pending.take() else { return };
        let value = match (self.known, self.mean) {
            (0, _) => f64::NAN,
            (1, _) if self.latest.len() == 1 => self.latest[0],
            (known, true) => self.sum / known as f64,
            (_, false) => self.sum,
        };
        self.line.push(time, value);
    }

    /// The line to the end of the axis.
    pub fn finish(mut self) -> Line {
        self.settle();
        self.line.finish()
    }
}

/// A line with the rate of one flow, or the sum of several, as means over parts of the axis.
pub struct RateBuilder<'a> {
    axis: &'a Axis,
    start: f64,
    width: f64,
    /// Bits (rate x time) in each part.
    bins: Vec<f64>,
    /// The time of each flow's last sample.
    latest: Vec<f64>,
    any: bool,
}

impl<'a> RateBuilder<'a> {
    /// Nothing yet of so many flows.
    pub fn new(axis: &'a Axis, flows: usize) -> Self {
        let ((start, end), width) = (axis.ends(), axis.rate_bin());
        let number = ((end - start) / width).ceil() as usize;
        RateBuilder {
            axis,
            start,
            width,
            bins: vec![0.0; number.max(1)],
            latest: vec![start; flows],
            any: false,
        }
    }

    /// Adds a sample: the rate of `flow` since its last one.
    pub fn push(&mut self, time: f64, flow: usize, rate: f64) {
        let Some(latest) = self.latest.get_mut(flow) else { return };
        let mut from = std::mem::replace(latest, time);
        if !rate.is_finite() {
            return;
        }
        self.any |= rate > 0.0;
        let last = self.bins.len() - 1;
        while from < time {
            let bin = (((from - self.start) / self.width + 1e-9) as usize).min(last);
            let end = if bin == last { time } else { self.start + (bin + 1) as f64 * self.width };
            let until = end.min(time);
            if until <= from {
                break;
            }
            self.bins[bin] += rate * (until - from);
            from = until;
        }
    }

    /// The line; without values if no rate was ever above zero.
    pub fn finish(self) -> Line {
        let (_, end) = self.axis.ends();
        let last = self.bins.len() - 1;
        let times = self.axis.times();
        let mean = |time: f64| {
            let bin = (((time - self.start) / self.width) as usize).min(last);
            let from = self.start + bin as f64 * self.width;
            let width = (end - from).min(self.width);
            (width > 0.0).then(|| short(self.bins[bin] / width))
        };
        match self.any {
            true => times.into_iter().map(mean).collect(),
            false => vec![None; times.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(times: impl Iterator<Item = f64>) -> Series {
        let mut series = Series::default();
        series.links.time_s = times.collect();
        series
    }

    #[test]
    fn few_samples_are_kept_whole_and_hold_until_the_next() {
        let axis = Axis::of(&series([0.0, 1.0, 2.0, 3.0].into_iter())).unwrap();
        let mut line = Builder::new(&axis);
        line.push(1.0, 5.0);
        line.push(3.0, f64::INFINITY);
        assert_eq!(line.finish(), [None, Some(5.0), Some(5.0), None]);
        assert!(Axis::of(&Series::default()).is_none());
    }

    #[test]
    fn thinned_out_a_line_keeps_every_peak_and_trough() {
        let number = 1_000_000;
        let axis = Axis::of(&series((0..number).map(f64::from))).unwrap();
        let mut line = Builder::new(&axis);
        for i in 0..number {
            let value = match i {
                123_456 => 99.0,
                654_321 => -99.0,
                _ => f64::from(i % 7),
            };
            line.push(f64::from(i), value);
        }
        let line = line.finish();
        assert_eq!(line.len(), 2 * BUCKETS);
        assert_eq!(line.len(), axis.times().len());
        let bucket = |i: usize| i / (number as usize / BUCKETS) * 2;
        assert!(line[bucket(123_456)..][..2].contains(&Some(99.0)));
        assert!(line[bucket(654_321)..][..2].contains(&Some(-99.0)));
    }

    #[test]
    fn groups_are_drawn_by_their_mean_or_sum() {
        let axis = Axis::of(&series([0.0, 1.0].into_iter())).unwrap();
        for (mean, expected) in [(true, [Some(3.0), Some(4.0)]), (false, [Some(6.0), Some(8.0)])] {
            let mut line = Combined::new(&axis, 2, mean);
            for (time, flow, value) in [(0.0, 0, 2.0), (0.0, 1, 4.0), (1.0, 1, 6.0)] {
                line.push(time, flow, value);
            }
            assert_eq!(line.finish(), expected);
        }
    }

    #[test]
    fn a_mean_rate_moves_as_many_bits_as_its_samples() {
        let axis = Axis::of(&series((0..=1000).map(|i| f64::from(i) / 100.0))).unwrap();
        let mut line = RateBuilder::new(&axis, 2);
        for i in 1..=1000 {
            line.push(f64::from(i) / 100.0, 0, if i % 2 == 0 { 8e6 } else { 0.0 });
            line.push(f64::from(i) / 100.0, 1, 1e6);
        }
        let line = line.finish();
        let mean = line.iter().flatten().sum::<f64>() / line.iter().flatten().count() as f64;
        assert!((mean / 5e6 - 1.0).abs() < 0.01, "{mean}");
        assert!(line.iter().flatten().all(|&rate| (4e6..=6.7e6).contains(&rate)), "an even line: {line:?}");
        assert_eq!(RateBuilder::new(&axis, 1).finish().iter().flatten().count(), 0);
    }

    #[test]
    fn a_short_number_has_four_digits() {
        assert_eq!(
            [short(12345.6), short(0.000123456), short(-7.77777), short(0.0)],
            [12350.0, 0.0001235, -7.778, 0.0]
        );
    }
}
