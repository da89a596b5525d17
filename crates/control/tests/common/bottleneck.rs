//! A FIFO queue without a limit that laws share: packets enter, acknowledgements return, nothing
//! is lost. Enough to find equilibria.

use super::MSS;
use leeway_control::{Ack, Law, Path};
use std::collections::VecDeque;

pub struct Bottleneck {
    pub now_us: f64,
    /// Time of one packet on the line. Unit: µs.
    pub packet_us: f64,
    pub rtt_us: f64,
    free_at_us: f64,
    flows: Vec<Flow>,
    /// Acknowledgements in flight, in order of arrival.
    acks: VecDeque<Delivery>,
}

struct Flow {
    law: Law,
    path: Path,
    inflight: u64,
    round_began_us: f64,
    delivered: u64,
}

struct Delivery {
    flow: usize,
    sent_us: f64,
    departed_us: f64,
    arrives_us: f64,
}

impl Bottleneck {
    /// A bottleneck that sends `packets_per_s`.
    pub fn new(packets_per_s: f64, rtt_us: f64) -> Bottleneck {
        let packet_us = 1e6 / packets_per_s;
        Bottleneck {
            now_us: 0.0,
            packet_us,
            rtt_us,
            free_at_us: 0.0,
            flows: Vec::new(),
            acks: VecDeque::new(),
        }
    }

    pub fn add(&mut self, law: &str, initial_packets: u32) {
        let path = Path { srtt_us: 0, min_rtt_us: 0, ..super::path(initial_packets) };
        let law = super::build(law, &path);
        self.flows.push(Flow { law, path, inflight: 0, round_began_us: self.now_us, delivered: 0 });
        self.send(self.flows.len() - 1);
    }

    pub fn law(&self, flow: usize) -> &Law {
        &self.flows[flow].law
    }

    /// Reports a loss to a flow that has not happened.
    pub fn lose(&mut self, flow: usize) {
        self.now_us += 2.0;
        let now_us = self.now_us as u64;
        let flow = &mut self.flows[flow];
        flow.law.on_loss(&super::dupack(now_us, now_us), &flow.path);
    }

    /// Packets in the queue, including the one in service.
    pub fn queue(&self) -> f64 {
        (self.free_at_us - self.now_us).max(0.0) / self.packet_us
    }

    /// Runs for `seconds`. Returns the mean queue in packets, and the packets that each flow
    /// delivered.
    pub fn run(&mut self, seconds: f64) -> (f64, Vec<u64>) {
        let end_us = self.now_us + seconds * 1e6;
        let before: Vec<u64> = self.flows.iter().map(|flow| flow.delivered).collect();
        let mut area = 0.0;
        while self.acks.front().is_some_and(|ack| ack.arrives_us < end_us) {
            let ack = self.acks.pop_front().expect("checked");
            area += self.advance(ack.arrives_us);
            self.acknowledge(&ack);
        }
        area += self.advance(end_us);
        let delivered = self.flows.iter().zip(before).map(|(flow, before)| flow.delivered - before);
        (area / (seconds * 1e6), delivered.collect())
    }

    /// Moves the clock to `to_us`. Returns the integral of the queue over that time, in which the
    /// queue only shrinks.
    fn advance(&mut self, to_us: f64) -> f64 {
        let (span, before) = (to_us - self.now_us, self.queue());
        self.now_us = to_us;
        let busy = span.min(before * self.packet_us);
        (before + self.queue()) / 2.0 * busy
    }

    fn acknowledge(&mut self, delivery: &Delivery) {
        let flow = &mut self.flows[delivery.flow];
        let rtt_us = (self.now_us - delivery.sent_us) as u32;
        let round_start = delivery.sent_us >= flow.round_began_us;
        if round_start {
            flow.round_began_us = self.now_us;
        }
        let path = &mut flow.path;
        path.srtt_us = if path.srtt_us == 0 { rtt_us } else { path.srtt_us - path.srtt_us / 8 + rtt_us / 8 };
        path.min_rtt_us = if path.min_rtt_us == 0 { rtt_us } else { path.min_rtt_us.min(rtt_us) };
        let ack = Ack {
            now_us: self.now_us as u64,
            acked_bytes: u64::from(MSS),
            prior_inflight_bytes: flow.inflight * u64::from(MSS),
            rtt_us,
            last_kind: Ack::LAST_EXACT,
            last_rtt_us: rtt_us,
            owd_us: (delivery.departed_us - delivery.sent_us) as u32,
            owd_resolution_us: 1,
            round_start: u8::from(round_start),
            ..Ack::default()
        };
        flow.inflight -= 1;
        flow.delivered += 1;
        path.inflight_bytes = flow.inflight * u64::from(MSS);
        flow.law.on_ack(&ack, &flow.path);
        self.send(delivery.flow);
    }

    fn send(&mut self, index: usize) {
        let flow = &mut self.flows[index];
        while flow.inflight == 0 || (flow.inflight + 1) * u64::from(MSS) <= flow.law.output().cwnd_q16 >> 16 {
            flow.inflight += 1;
            self.free_at_us = self.free_at_us.max(self.now_us) + self.packet_us;
            self.acks.push_back(Delivery {
                flow: index,
                sent_us: self.now_us,
                departed_us: self.free_at_us,
                arrives_us: self.free_at_us + self.rtt_us,
            });
        }
    }
}
