//! Records time series of flows and links: at fixed intervals, or at every event.

use crate::books::LinkCounts;
use crate::flow::Flow;
use crate::results::{FlowSeries, Series};
use leeway_units::{Duration, Time};

/// Fills the columns of a [`Series`].
#[derive(Debug, Default)]
pub struct Recorder {
    /// What was recorded.
    pub series: Series,
    /// Time between samples; `None` records every event.
    pub every: Option<Duration>,
    /// For each link whether its samples are left out; empty if none is.
    pub omitted: Vec<bool>,
    flows: Vec<Last>,
    links: Vec<Last>,
}

/// The last sample of a flow or link, from which rates are computed.
#[derive(Debug, Clone, Copy, Default)]
struct Last {
    time: Time,
    bytes: u64,
    dropped: u64,
    rate_bps: f64,
}

impl Last {
    /// Bit/s since the last sample. A second sample at the same instant repeats the rate.
    fn rate(&mut self, now: Time, bytes: u64) -> f64 {
        let span = (now - self.time).secs_f64();
        if span > 0.0 {
            self.rate_bps = (bytes - self.bytes) as f64 * 8.0 / span;
            self.time = now;
            self.bytes = bytes;
        }
        self.rate_bps
    }
}

fn entry(list: &mut Vec<Last>, index: u32) -> &mut Last {
    if list.len() <= index as usize {
        list.resize(index as usize + 1, Last::default());
    }
    &mut list[index as usize]
}

impl Recorder {
    /// Samples once in each interval `every`, or at every event.
    pub fn new(every: Option<Duration>) -> Self {
        Recorder { every, ..Recorder::default() }
    }

    /// Reserves memory for the given numbers of samples, so that the columns do not grow during
    /// the run.
    pub fn reserve(&mut self, flows: usize, links: usize) {
        let (f, l) = (&mut self.series.flows, &mut self.series.links);
        let FlowSeries {
            time_s,
            flow,
            cwnd_pkt,
            ssthresh_pkt,
            inflight_pkt,
            queuing_delay_ms,
            srtt_ms,
            phase,
            rate_bps,
        } = f;
        for column in [time_s, cwnd_pkt, ssthresh_pkt, inflight_pkt, queuing_delay_ms, srtt_ms, rate_bps] {
            column.reserve(flows);
        }
        flow.reserve(flows);
        phase.reserve(flows);
        l.time_s.reserve(links);
        l.link.reserve(links);
        l.queue_pkt.reserve(links);
        l.queue_bytes.reserve(links);
        l.rate_bps.reserve(links);
        l.dropped.reserve(links);
    }

    /// Records flow `index`.
    pub fn flow(&mut self, now: Time, index: u32, flow: &Flow, mss: u16) {
        let rate = entry(&mut self.flows, index).rate(now, flow.counts.delivered_bytes);
        let segments = 1.0 / f64::from(mss);
        let law = flow.sender.law.output();
        let columns = &mut self.series.flows;
        columns.time_s.push(now.secs_f64());
        columns.flow.push(index);
        columns.cwnd_pkt.push(law.cwnd_q16 as f64 / 65536.0 * segments);
        columns.ssthresh_pkt.push(match law.ssthresh_bytes {
            u64::MAX => f64::INFINITY,
            bytes => bytes as f64 * segments,
        });
        columns.inflight_pkt.push(flow.sender.inflight() as f64 * segments);
        columns.queuing_delay_ms.push(f64::from(law.queuing_delay_us) / 1e3);
        columns.srtt_ms.push(flow.sender.srtt().millis_f64());
        columns.phase.push(law.phase as u8);
        columns.rate_bps.push(rate);
    }

    /// Records link `index`, unless its samples are left out.
    pub fn link(&mut self, now: Time, index: u32, packets: usize, bytes: u64, counts: &LinkCounts) {
        if self.omitted.get(index as usize) == Some(&true) {
            return;
        }
        let last = entry(&mut self.links, index);
        let rate = last.rate(now, counts.departed_bytes);
        let dropped = counts.dropped - last.dropped;
        last.dropped = counts.dropped;
        let columns = &mut self.series.links;
        columns.time_s.push(now.secs_f64());
        columns.link.push(index);
        columns.queue_pkt.push(packets as u32);
        columns.queue_bytes.push(bytes);
        columns.rate_bps.push(rate);
        columns.dropped.push(dropped);
    }
}
