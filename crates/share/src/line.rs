//! One direction of the line: observations go in, grants come out.
//!
//! A [`Line`] joins the scheduler, the ledger, the foreground, the estimator and the pacer under
//! one law of `leeway-control`. `docs/sharing.md` has the equations.

mod state;

use crate::error::ShareError;
use crate::estimator::{Estimator, Heard, Sample};
use crate::foreground::{Foreground, Observation};
use crate::id::{ById, FlowId, UserId};
use crate::ledger::Ledger;
use crate::pacer::{Pacer, Starvation, mul_div};
use crate::policy::{ACK_BYTES, ACKS_PERMILLE, Policy};
use crate::reach::Reach;
use crate::report::ForegroundReport;
use crate::scheduler::Scheduler;
use leeway_control::{Ack, Law, LawSpec, Loss, Path, Phase, Rate};
pub use state::{Next, State};

/// The default law. The target is one segment at the line's rate, and at least 2 ms: on a fast
/// line, 2 ms lengthen a foreground request of two round trips by 4 ms. `filter_length` is 1
/// because the estimator has already made one delay of many samples.
pub const LAW: &str = "ledbat:delay=queue,target=2ms,segments=1,gain_up=0.25,gain_down=0.25,floor=1,\
                       filter_length=1,slow_start=delay,accelerate=0.1";

/// The base RTT that laws are told, in microseconds. They are told the RTT as this plus the
/// queuing delay, so laws that use round-trip times work too.
const TOLD_BASE_US: u32 = 1_000_000;

/// Longest time between two reports of the foreground, in microseconds. After a longer gap the
/// arrival time of the bytes between them is unknown, so they are not counted.
const RECENT_US: u64 = 1_000_000;

/// One direction of a line.
#[derive(Debug)]
pub struct Line {
    policy: Policy,
    law: Law,
    scheduler: Scheduler,
    ledger: Ledger,
    foreground: Foreground,
    estimator: Estimator,
    pacer: Pacer,
    starvation: Starvation,
    flows: ById<FlowId, Reach>,
    opened: u64,
    round_end_us: u64,
    /// A round trip has begun, and the law was not told of it yet.
    round_start: bool,
    /// Bytes of background and foreground that arrived in this round trip and in the one before.
    round_bytes: [u64; 2],
    /// Bytes that arrived for the foreground since the law was last told.
    foreground_bytes: u64,
    /// Total of the foreground's last report, in bytes modulo 2^32, and the time of that report.
    reported: Option<(u32, u64)>,
    /// Time of the last delay that the estimator gave.
    sampled_us: Option<u64>,
    expired_bytes: u64,
    expired: Vec<FlowId>,
    lost_us: Option<u64>,
    /// Sum over the losses since the law was last told of one: the part of the bytes in flight
    /// that belonged to the losing flow, in millionths.
    lost_ppm: u64,
    /// Upper bound on the rate of grants, in bytes per second.
    most_bytes_per_s: u64,
    /// Granted bytes that no announcement covers yet.
    idle_bytes: u64,
    yielded_us: u64,
    /// Since when background has waited while the foreground expected bytes.
    yielding_since_us: Option<u64>,
}

impl Line {
    /// A line under the law of `spec`, without any observation.
    pub fn new(spec: &LawSpec, policy: &Policy) -> Line {
        Line {
            policy: *policy,
            law: spec.build(&path(policy, 0, 0)),
            scheduler: Scheduler::new(policy.turn_bytes),
            ledger: Ledger::new(policy.segment_bytes),
            foreground: Foreground::new(policy),
            estimator: Estimator::new(policy),
            pacer: Pacer::default(),
            starvation: Starvation::default(),
            flows: ById::default(),
            opened: 0,
            round_end_us: 0,
            round_start: false,
            round_bytes: [0; 2],
            foreground_bytes: 0,
            reported: None,
            sampled_us: None,
            expired_bytes: 0,
            expired: Vec::new(),
            lost_us: None,
            lost_ppm: 0,
            most_bytes_per_s: u64::MAX,
            idle_bytes: 0,
            yielded_us: 0,
            yielding_since_us: None,
        }
    }

    /// Opens a flow of `user`.
    ///
    /// # Errors
    /// [`ShareError::TooManyFlows`].
    pub fn open(&mut self, user: UserId) -> Result<FlowId, ShareError> {
        if self.flows.len() as u64 >= self.policy.flows_max {
            return Err(ShareError::TooManyFlows(self.flows.len()));
        }
        self.opened += 1;
        let flow = FlowId::new(self.opened);
        self.flows.insert(flow, Reach::default());
        self.scheduler.open(user, flow);
        Ok(flow)
    }

    /// Ends a flow. Its bytes in flight leave the ledger.
    pub fn close(&mut self, flow: FlowId) {
        self.ledger.close(flow);
        self.scheduler.close(flow);
        self.flows.remove(&flow);
        self.expired.retain(|&expired| expired != flow);
    }

    /// Requests a grant of `bytes` for `flow`. Returns the bytes that the request is for: at most
    /// one burst, one part of the window, and what the flow's reach leaves. After 0 the flow
    /// requests again when some of its bytes have arrived.
    ///
    /// # Errors
    /// [`ShareError::UnknownFlow`].
    pub fn ask(&mut self, flow: FlowId, bytes: u64) -> Result<u64, ShareError> {
        let segment = self.policy.segment_bytes;
        let granted = self.ledger.granted_to(flow);
        let reach = self.flows.get_mut(&flow).ok_or(ShareError::UnknownFlow(flow.number()))?;
        let reach_bytes = reach.bytes(self.estimator.queuing_us(), self.estimator.srtt_us(), &self.policy);
        // A window is several grants. With one grant for all of it, the line would be idle for a
        // round trip until all of it has arrived.
        let part = self.window_bytes() / self.policy.window_parts / segment * segment;
        let burst_bytes = self.burst_bytes();
        self.set_quantum(burst_bytes);
        // A flow with nothing in flight needs a whole grant to begin.
        let least = if granted == 0 { self.policy.grant_segments * segment } else { segment };
        let most = burst_bytes.min(part).max(least);
        let asked = bytes.min(most).min(reach_bytes.saturating_sub(granted));
        if asked == 0 {
            self.scheduler.withdraw(flow);
        } else {
            self.scheduler.ask(flow, asked);
        }
        Ok(asked)
    }

    /// Requests a grant of `bytes` for a datagram that has arrived. It is granted whole, and
    /// without regard to the flow's reach, because its sender has already sent it.
    ///
    /// # Errors
    /// [`ShareError::UnknownFlow`].
    pub fn ask_whole(&mut self, flow: FlowId, bytes: u64) -> Result<u64, ShareError> {
        if !self.flows.contains_key(&flow) {
            return Err(ShareError::UnknownFlow(flow.number()));
        }
        self.set_quantum(self.burst_bytes());
        self.scheduler.ask(flow, bytes);
        Ok(bytes)
    }

    /// Records that `bytes` of `flow` were let through without a grant. They count as in flight
    /// and as given to the flow's user. The flow's request is withdrawn.
    pub fn charge(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        if self.flows.contains_key(&flow) {
            self.scheduler.grant(flow, bytes);
            self.ledger.grant(now_us, flow, bytes);
        }
    }

    /// Withdraws the request of `flow`.
    pub fn withdraw(&mut self, flow: FlowId) {
        self.scheduler.withdraw(flow);
    }

    /// Removes `bytes` granted to `flow` from the ledger, because they will not arrive.
    pub fn forgo(&mut self, flow: FlowId, bytes: u64) {
        self.ledger.forgo(flow, bytes);
    }

    /// The most that `flow` can have in flight, in bytes, as far as is known.
    pub fn reach_bytes(&self, flow: FlowId) -> u64 {
        let (queuing_us, srtt_us) = (self.estimator.queuing_us(), self.estimator.srtt_us());
        self.flows.get(&flow).map_or(0, |reach| reach.bytes(queuing_us, srtt_us, &self.policy))
    }

    /// Ends the turn of `flow`, which has received what it wanted. `unused_bytes` of its grants
    /// will not arrive.
    pub fn rest(&mut self, flow: FlowId, unused_bytes: u64) {
        self.ledger.forgo(flow, unused_bytes);
        self.scheduler.rest(flow);
        if let Some(reach) = self.flows.get_mut(&flow) {
            *reach = Reach::default(); // RFC 5681, 4.1
        }
    }

    /// Records that `bytes` of `flow` have arrived, with the delay sample they gave, if any.
    /// Returns what the estimator made of the sample.
    pub fn arrived(&mut self, now_us: u64, flow: FlowId, bytes: u64, sample: Option<Sample>) -> Heard {
        let prior =
            self.ledger.granted_bytes() + self.foreground.expected_bytes(now_us, self.estimator.srtt_us());
        let mean = self.estimator.rate_now_bytes_per_s() / (self.ledger.flows() as u64).max(1);
        let mut heard = Heard::Nothing;
        // Before the sample: an acknowledgement of two segments comes with the second one, after
        // the line has delivered both.
        self.estimator.arrived(now_us, bytes);
        if let Some(reach) = self.flows.get_mut(&flow) {
            reach.own.bytes += bytes;
            reach.own.little = reach.rate_bytes_per_s().is_some_and(|rate| rate < mean / 2);
            if let Some(sample) = sample {
                heard = self.estimator.observe(now_us, sample, &mut reach.own);
            }
            let rtt_us = sample.and_then(|sample| {
                let late_us = sample.known_us.saturating_sub(sample.rtt_us);
                Some(self.estimator.rtt_us(sample.path)? + u64::from(late_us))
            });
            reach.arrived(now_us, bytes, rtt_us, self.estimator.srtt_us());
        }
        self.ledger.arrived(now_us, flow, bytes);
        let queuing_us = if let Heard::New(queuing_us) = heard { Some(queuing_us) } else { None };
        self.tell(now_us, bytes, prior, queuing_us);
        heard
    }

    /// Records a loss of `bytes` of `flow`, sent at `sent_us` at the earliest. The flow is `None`
    /// where one sender sends for all flows, and where the foreground is never seen. The law is
    /// then told of each loss.
    ///
    /// While the foreground is present, the law is told of each loss: the queue that overflowed
    /// may drop the foreground's packets as well. While the foreground is away, the window
    /// shrinks as much as the windows of separate senders would. For that, each loss counts as
    /// the part of the bytes in flight that the losing flow has. The law is told of a loss when
    /// these parts add up to all bytes in flight.
    pub fn lost(&mut self, now_us: u64, flow: Option<FlowId>, bytes: u64, sent_us: u64) {
        self.lost_us = Some(now_us);
        if let Some(flow) = flow.filter(|_| !self.foreground.is_present(now_us)) {
            let all = self.ledger.granted_bytes() + bytes;
            self.lost_ppm += mul_div(self.ledger.granted_to(flow) + bytes, 1_000_000, all.max(1));
            if self.lost_ppm < 1_000_000 {
                return;
            }
        }
        self.lost_ppm = 0;
        let loss = Loss { now_us, lost_bytes: bytes, sent_us, ..Loss::default() };
        self.law.on_loss(&loss, &self.path());
    }

    /// Records an observation of the foreground on one of its connections.
    pub fn foreground(&mut self, now_us: u64, connection: u64, observation: Observation) {
        let (srtt_us, base_us) = (self.estimator.srtt_us(), self.estimator.base_us());
        self.foreground.observed(now_us, connection, observation, srtt_us, base_us);
        if let Observation::Bytes(bytes) = observation {
            self.foreground_came(now_us, bytes);
        }
    }

    /// Records a report from the foreground's own end of the line.
    pub fn foreground_reported(&mut self, now_us: u64, report: ForegroundReport) {
        let before = self.reported.replace((report.came_bytes, now_us));
        let more = before
            .filter(|(_, at_us)| now_us < at_us + RECENT_US)
            .map_or(0, |(before, _)| report.came_bytes.wrapping_sub(before));
        self.foreground.told(now_us, report.expected_bytes.into(), self.estimator.srtt_us());
        self.foreground_came(now_us, more.into());
    }

    /// Counts `bytes` that arrived for the foreground.
    fn foreground_came(&mut self, now_us: u64, bytes: u64) {
        self.estimator.foreground(now_us, bytes);
        self.begin_round(now_us);
        self.round_bytes[0] += bytes;
        self.foreground_bytes += bytes;
    }

    /// Returns the next grant, or when to call again. Call it after every event and at the time
    /// that [`Next::Wait`] names, until it grants nothing.
    pub fn next(&mut self, now_us: u64) -> Next {
        let rate = self.estimator.rate_bytes_per_s();
        self.starvation.advance(now_us, self.scheduler.asking() > 0, rate, &self.policy);
        self.expire(now_us);
        self.yielded_us +=
            self.yielding_since_us.take().map_or(0, |since_us| now_us.saturating_sub(since_us));
        let Some((flow, bytes)) = self.scheduler.head() else {
            self.estimator.set_limited(false);
            return self.expires_us(now_us).map_or(Next::Blocked, Next::Wait);
        };
        let srtt_us = self.estimator.srtt_us();
        let expected = self.foreground.expected_bytes(now_us, srtt_us);
        // With nothing in flight, one grant is given in any case, if the foreground expects less
        // than a segment. Otherwise a window of one segment would have no room beside a
        // foreground that always expects a few bytes, and no acknowledgement would open the
        // window. Before the first sample the foreground's expectation does not matter: the line
        // has to be measured.
        let little = expected < self.policy.segment_bytes || self.sampled_us.is_none();
        let alone = self.ledger.granted_bytes() == 0 && little;
        let (window_bytes, most_bytes) = (self.window_bytes(), self.most_bytes(now_us));
        let slowed = self.most_bytes_per_s < self.window_bytes_per_s();
        self.estimator.set_limited(slowed || most_bytes < window_bytes);
        let room = self.ledger.room(window_bytes, expected);
        let room = room.min(self.ledger.room(most_bytes.saturating_add(self.idle_bytes), expected));
        let fits = alone || room >= bytes;
        let paced = now_us >= self.pacer.next_us();
        if self.starvation.covers(bytes) || fits && paced {
            self.scheduler.grant(flow, bytes);
            self.ledger.grant(now_us, flow, bytes);
            self.starvation.granted(bytes);
            self.pacer.sent(now_us, bytes, self.pacing_bytes_per_s(), &self.policy);
            return Next::Grant { flow, bytes };
        }
        self.yielding_since_us = Some(now_us).filter(|_| expected > 0);
        let room_us = if fits { Some(self.pacer.next_us()) } else { self.foreground.deadline_us() };
        let due_us = self.starvation.due_us(bytes, rate, &self.policy);
        let wake = [room_us, due_us, self.expires_us(now_us)].into_iter().flatten().min();
        wake.map_or(Next::Blocked, |at_us| Next::Wait(at_us.max(now_us + 1)))
    }

    /// How long a grant is held if nothing of it arrives, in microseconds. After `first_hold_us`
    /// without a delay, the line counts as unknown, as in the beginning.
    pub fn hold_us(&self, now_us: u64) -> u64 {
        let hold_us = self.policy.hold_us(self.estimator.srtt_us());
        match self.sampled_us {
            Some(sampled_us) if now_us > sampled_us + self.policy.first_hold_us => {
                hold_us.max(self.policy.first_hold_us)
            }
            _ => hold_us,
        }
    }

    /// Returns the flows whose grants expired since the last call. Those that still want bytes
    /// request again.
    pub fn take_expired(&mut self) -> Vec<FlowId> {
        std::mem::take(&mut self.expired)
    }

    /// The present state.
    pub fn state(&mut self, now_us: u64) -> State {
        let srtt_us = self.estimator.srtt_us();
        State {
            window_bytes: self.window_bytes(),
            granted_bytes: self.ledger.granted_bytes(),
            expected_bytes: self.foreground.expected_bytes(now_us, srtt_us),
            queuing_us: self.estimator.queuing_us(),
            srtt_us,
            rate_bytes_per_s: self.estimator.rate_bytes_per_s(),
            asking: self.scheduler.asking(),
            present: self.foreground.is_present(now_us),
            expired_bytes: self.expired_bytes,
            yielded_us: self.yielded_us,
        }
    }

    /// Whether `flow` has a request that waits.
    pub fn asks(&self, flow: FlowId) -> bool {
        self.scheduler.wants(flow).is_some()
    }

    /// Bytes of all flows in flight.
    pub fn granted_bytes(&self) -> u64 {
        self.ledger.granted_bytes()
    }

    /// Number of flows with a request that waits.
    pub fn asking(&self) -> usize {
        self.scheduler.asking()
    }

    /// Smoothed round-trip time in microseconds; 0 before the first sample.
    pub fn srtt_us(&self) -> u64 {
        self.estimator.srtt_us()
    }

    /// The base delay of `path`, in microseconds; `None` before its first exact sample.
    pub fn base_us(&self, path: u64) -> Option<u32> {
        self.estimator.path_base_us(path)
    }

    /// Whether the foreground sent or received something in the last 500 ms (`away_us`).
    pub fn is_present(&self, now_us: u64) -> bool {
        self.foreground.is_present(now_us)
    }

    /// Bytes of `flow` in flight.
    pub fn granted_to(&self, flow: FlowId) -> u64 {
        self.ledger.granted_to(flow)
    }

    /// The law's window, in bytes, and at least a segment: what foreground and background may
    /// have in flight together.
    pub fn window_bytes(&self) -> u64 {
        (self.law.output().cwnd_q16 >> 16).max(self.policy.segment_bytes)
    }

    /// The bound on the window, in bytes. While the foreground is present, the bound is
    /// `pipe_percent` of the bytes that the line delivers in a round trip without a queue. On a
    /// line with one queue the law keeps the window near that. Behind a fair queue each flow
    /// waits for its own packets only: many flows fill the line at a delay that the law allows.
    fn most_bytes(&self, now_us: u64) -> u64 {
        match self.estimator.pipe_bytes() {
            pipe if pipe > 0 && self.foreground.is_present(now_us) => {
                (pipe.saturating_mul(self.policy.pipe_percent) / 100)
                    .max(self.policy.initial_segments * self.policy.segment_bytes)
            }
            _ => u64::MAX,
        }
    }

    /// Bytes that `flow` may be granted before its server hears of them. A server hears of a
    /// grant when bytes of the flow arrive and are acknowledged. The bytes are a burst, plus the
    /// larger of two: the flow's deficit in the scheduler, and what it has less in flight than
    /// the mean flow (at most a turn). Without this, the flow whose bytes arrive would always
    /// take the room that they make, and a flow with few bytes in flight would stay slow.
    pub fn ahead_bytes(&self, flow: FlowId) -> u64 {
        let missing = (self.ledger.granted_bytes() / (self.ledger.flows() as u64).max(1))
            .saturating_sub(self.ledger.granted_to(flow));
        self.burst_bytes() + self.scheduler.saved_bytes(flow).max(missing.min(self.policy.turn_bytes))
    }

    /// Bytes that are granted together: `grant_segments`, which a sender needs, or what a fast
    /// line delivers in the `burst_us` that a timer cannot resolve.
    fn burst_bytes(&self) -> u64 {
        let timer = self.estimator.rate_bytes_per_s().saturating_mul(self.policy.burst_us) / 1_000_000;
        (timer / self.policy.segment_bytes).max(self.policy.grant_segments) * self.policy.segment_bytes
    }

    /// Sets the scheduler's quantum: a burst, and at least two segments. A receiver acknowledges
    /// a single segment late (RFC 5681, 4.2).
    fn set_quantum(&mut self, burst_bytes: u64) {
        self.scheduler.set_quantum(burst_bytes.max(2 * self.policy.segment_bytes));
    }

    /// Sets the granted bytes that no announcement covers yet. They are in the ledger, and not in
    /// flight. So they do not count in the bound on the window while the foreground is present:
    /// the bound is on what the line carries.
    pub fn set_idle_bytes(&mut self, bytes: u64) {
        self.idle_bytes = bytes;
    }

    /// Limits the rate of grants from now on, in bytes per second.
    pub fn set_most_bytes_per_s(&mut self, bytes_per_s: u64) {
        self.most_bytes_per_s = bytes_per_s;
    }

    /// For the uplink: the rate of downloads, in bytes per second, whose acknowledgements take
    /// `ACKS_PERMILLE` of the uplink. `u64::MAX` (no limit) while the foreground sends less
    /// than a segment, and before the uplink's rate is known.
    pub fn acknowledged_bytes_per_s(&mut self, now_us: u64) -> u64 {
        let expected = self.foreground.expected_bytes(now_us, self.estimator.srtt_us());
        let rate = self.estimator.rate_bytes_per_s();
        if expected < self.policy.segment_bytes || rate == 0 {
            return u64::MAX;
        }
        let acks_per_s = rate.saturating_mul(ACKS_PERMILLE) / 1000 / ACK_BYTES;
        acks_per_s.saturating_mul(self.policy.segment_bytes).max(1)
    }

    fn pacing_bytes_per_s(&self) -> u64 {
        self.window_bytes_per_s().min(self.most_bytes_per_s)
    }

    /// The pacing rate that the window gives, in bytes per second: 1.25 windows per round trip, 2
    /// in slow start. 0 before the first round-trip sample.
    fn window_bytes_per_s(&self) -> u64 {
        let percent = match self.law.output().phase() {
            Phase::SlowStart => self.policy.start_pacing_percent,
            _ => self.policy.pacing_percent,
        };
        match self.estimator.srtt_us() {
            0 => 0,
            srtt_us => mul_div(self.law.output().cwnd_q16 >> 16, percent * 10_000, srtt_us).max(1),
        }
    }

    fn expires_us(&self, now_us: u64) -> Option<u64> {
        let hold_us = self.hold_us(now_us);
        self.ledger.oldest_us().map(|oldest_us| oldest_us + hold_us)
    }

    /// Gives up the grants of flows of which nothing arrived for [`Line::hold_us`].
    fn expire(&mut self, now_us: u64) {
        let hold_us = self.hold_us(now_us);
        let Some(until_us) = now_us.checked_sub(hold_us) else { return };
        for (flow, bytes) in self.ledger.expire(until_us) {
            self.expired_bytes += bytes;
            self.expired.push(flow);
            self.scheduler.rest(flow); // its turn is over
            if let Some(reach) = self.flows.get_mut(&flow) {
                reach.silent();
            }
        }
    }

    fn begin_round(&mut self, now_us: u64) {
        if now_us >= self.round_end_us {
            self.round_end_us = now_us + self.estimator.srtt_us();
            self.round_bytes = [0, self.round_bytes[0]];
            self.round_start = true;
        }
    }

    /// Tells the law of `bytes` that arrived, and of the delay. `prior` is the number of bytes
    /// that were in flight or expected before. While the last delay is older than two round trips
    /// (`hold_percent`), the law is told nothing: that delay says nothing about bytes that arrive
    /// now.
    fn tell(&mut self, now_us: u64, bytes: u64, prior: u64, queuing_us: Option<u32>) {
        self.begin_round(now_us);
        self.round_bytes[0] += bytes;
        if queuing_us.is_some() {
            self.sampled_us = Some(now_us);
        }
        let stale_us = Policy::round_trips(self.policy.hold_percent, self.estimator.srtt_us());
        if self.sampled_us.is_none_or(|sampled_us| now_us > sampled_us + stale_us) {
            return;
        }
        // The foreground's part of the queue is not the background's: the ledger makes room for
        // it.
        let queuing_us = self.estimator.background_us(now_us).saturating_sub(self.allowed_us(now_us));
        let slow_start = self.law.output().phase() == Phase::SlowStart;
        let waiting = self.scheduler.asking() > 0 && !self.estimator.is_limited();
        // A sender that sends less than it may does not use the window, whatever it was granted.
        let used = prior.min(self.round_bytes[0].max(self.round_bytes[1]));
        let nearly = (used + 2 * self.policy.segment_bytes) * if slow_start { 2 } else { 1 };
        let limited = !waiting && nearly < self.window_bytes();
        // A flow waits because the next grant does not fit, so the window is fully used.
        let prior = if waiting { prior.max(self.window_bytes()) } else { prior.max(bytes) };
        let rtt_us = TOLD_BASE_US.saturating_add(queuing_us);
        // The window is that of foreground and background, so arrivals of both move it. After a
        // long silence, one window of foreground bytes counts at most.
        let acked_bytes = bytes + std::mem::take(&mut self.foreground_bytes).min(self.window_bytes());
        let ack = Ack {
            now_us,
            acked_bytes,
            prior_inflight_bytes: prior,
            rtt_us,
            owd_us: queuing_us,
            owd_resolution_us: 1,
            app_limited: limited.into(),
            round_start: std::mem::take(&mut self.round_start).into(),
            last_kind: Ack::LAST_EXACT,
            last_rtt_us: rtt_us,
            rate: Rate {
                delivered_bytes: self.estimator.rate_bytes_per_s(),
                interval_us: 1_000_000,
                ..Rate::default()
            },
            ..Ack::default()
        };
        self.law.on_ack(&ack, &self.path());
    }

    /// The queuing delay beyond the law's target that is allowed, in microseconds: that of
    /// `away_segments` while the foreground is away and no loss was seen for `lossless_us`.
    fn allowed_us(&self, now_us: u64) -> u32 {
        let rate = self.estimator.rate_bytes_per_s();
        let lossy = self.lost_us.is_some_and(|lost_us| now_us < lost_us + self.policy.lossless_us);
        if rate == 0 || lossy || self.foreground.is_present(now_us) {
            return 0;
        }
        let bytes = self.policy.away_segments * self.policy.segment_bytes;
        u32::try_from(bytes.saturating_mul(1_000_000) / rate).unwrap_or(u32::MAX)
    }

    fn path(&self) -> Path {
        path(&self.policy, self.ledger.granted_bytes(), self.estimator.srtt_us())
    }
}

fn path(policy: &Policy, inflight_bytes: u64, srtt_us: u64) -> Path {
    let mss_bytes = policy.segment_bytes as u32;
    Path {
        inflight_bytes,
        mss_bytes,
        initial_window_bytes: mss_bytes.saturating_mul(policy.initial_segments as u32),
        srtt_us: u32::try_from(srtt_us).unwrap_or(u32::MAX),
        min_rtt_us: if srtt_us == 0 { 0 } else { TOLD_BASE_US },
    }
}
