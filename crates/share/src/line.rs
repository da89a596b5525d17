//! One direction of the line: what is known goes in, grants come out.

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

/// The law where nothing else is asked for. The target is one segment at the line's rate, and 2 ms at least:
/// on a fast line a foreground's request of two round trips is 4 ms longer then. Of five samples the median
/// counts: behind a fair queue some flow always meets no queue at all, and a burst of the foreground is a few
/// samples.
pub const LAW: &str = "ledbat:delay=queue,target=2ms,segments=1,gain_up=0.25,gain_down=0.25,floor=1,\
                       filter_length=1,slow_start=delay,accelerate=0.1";

/// A base round trip for laws that go by round-trip times: they are told this and the queuing delay.
const TOLD_BASE_US: u32 = 1_000_000;

/// Bytes that came to the foreground since a report that is older than this came at an unknown time: they say
/// nothing.
const RECENT_US: u64 = 1_000_000;

/// See the module.
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
    /// A round trip has begun of which the law was not told yet.
    round_start: bool,
    /// What has arrived in this round trip and in the one before, of background and foreground.
    round_bytes: [u64; 2],
    /// What has arrived for the foreground since the law was told last.
    foreground_bytes: u64,
    /// Bytes modulo 2^32 that have come to the foreground by its own end's last report, and the time of that.
    reported: Option<(u32, u64)>,
    /// The last delay sample.
    sampled_us: Option<u64>,
    expired_bytes: u64,
    expired: Vec<FlowId>,
    lost_us: Option<u64>,
    /// Of all bytes under way, the part of the flows that lost something since the law was told of a
    /// loss, in millionths.
    lost_ppm: u64,
    /// The highest rate of grants, in bytes per second.
    most_bytes_per_s: u64,
    /// Granted bytes that no announcement covers yet.
    idle_bytes: u64,
    yielded_us: u64,
    /// Somebody waits since then while the foreground expects something.
    yielding_since_us: Option<u64>,
}

impl Line {
    /// A line of which nothing is known, under the law of `spec`.
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

    /// A flow of `user` begins.
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

    /// A flow ends, and what it has under way with it.
    pub fn close(&mut self, flow: FlowId) {
        self.ledger.close(flow);
        self.scheduler.close(flow);
        self.flows.remove(&flow);
        self.expired.retain(|&expired| expired != flow);
    }

    /// `flow` wants `bytes` more under way. The answer is how many of them it waits for now: no more than its
    /// sender can send at once, and than one grant. 0: ask again when something has arrived.
    ///
    /// # Errors
    /// [`ShareError::UnknownFlow`].
    pub fn ask(&mut self, flow: FlowId, bytes: u64) -> Result<u64, ShareError> {
        let segment = self.policy.segment_bytes;
        let granted = self.ledger.granted_to(flow);
        let reach = self.flows.get_mut(&flow).ok_or(ShareError::UnknownFlow(flow.number()))?;
        let reach_bytes = reach.bytes(self.estimator.queuing_us(), self.estimator.srtt_us(), &self.policy);
        // A window is several grants: one that waits for all of another to arrive leaves the line idle for a
        // round trip.
        let part = self.window_bytes() / self.policy.window_parts / segment * segment;
        let burst_bytes = self.burst_bytes();
        self.set_quantum(burst_bytes);
        // Who has nothing needs enough to begin with.
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

    /// The same of a datagram that is in hand: it goes whole or not at all, and its sender can send it.
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

    /// `bytes` of `flow` were let through beyond what it was granted: they are under way as well, and its user
    /// has had them. What it asked for is withdrawn.
    pub fn charge(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        if self.flows.contains_key(&flow) {
            self.scheduler.grant(flow, bytes);
            self.ledger.grant(now_us, flow, bytes);
        }
    }

    /// `flow` wants nothing now.
    pub fn withdraw(&mut self, flow: FlowId) {
        self.scheduler.withdraw(flow);
    }

    /// `bytes` that were granted to `flow` will not come.
    pub fn forgo(&mut self, flow: FlowId, bytes: u64) {
        self.ledger.forgo(flow, bytes);
    }

    /// What `flow` can have under way, in bytes, as far as is known.
    pub fn reach_bytes(&self, flow: FlowId) -> u64 {
        let (queuing_us, srtt_us) = (self.estimator.queuing_us(), self.estimator.srtt_us());
        self.flows.get(&flow).map_or(0, |reach| reach.bytes(queuing_us, srtt_us, &self.policy))
    }

    /// `flow` has what it wanted: `unused` granted bytes will not come, and its turn is over.
    pub fn rest(&mut self, flow: FlowId, unused_bytes: u64) {
        self.ledger.forgo(flow, unused_bytes);
        self.scheduler.rest(flow);
        if let Some(reach) = self.flows.get_mut(&flow) {
            *reach = Reach::default(); // RFC 5681, 4.1
        }
    }

    /// `bytes` of `flow` have arrived, and show this delay, if any.
    pub fn arrived(&mut self, now_us: u64, flow: FlowId, bytes: u64, sample: Option<Sample>) -> Heard {
        let prior =
            self.ledger.granted_bytes() + self.foreground.expected_bytes(now_us, self.estimator.srtt_us());
        let mean = self.estimator.rate_now_bytes_per_s() / (self.ledger.flows() as u64).max(1);
        let mut heard = Heard::Nothing;
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
        // After the sample: what came with it did not delay it.
        self.estimator.arrived(now_us, bytes);
        self.ledger.arrived(now_us, flow, bytes);
        let queuing_us = if let Heard::New(queuing_us) = heard { Some(queuing_us) } else { None };
        self.tell(now_us, bytes, prior, queuing_us);
        heard
    }

    /// `bytes` of `flow`, sent at `sent_us` at the earliest, were lost. Without a flow, they are of one
    /// sender that sends for all flows.
    ///
    /// While the foreground is there, the law is told of each loss: the queue that overflowed may drop
    /// the foreground's packets as well. While the foreground is away, the law reduces the window by as
    /// much as senders would that react to their own losses only: it is told of a loss when the flows
    /// that lost something had as much under way as all flows together.
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

    /// The foreground was seen on one of its connections.
    pub fn foreground(&mut self, now_us: u64, connection: u64, observation: Observation) {
        let (srtt_us, base_us) = (self.estimator.srtt_us(), self.estimator.base_us());
        self.foreground.observed(now_us, connection, observation, srtt_us, base_us);
        if let Observation::Bytes(bytes) = observation {
            self.foreground_came(now_us, bytes);
        }
    }

    /// A report of the foreground's own end of the line came.
    pub fn foreground_reported(&mut self, now_us: u64, report: ForegroundReport) {
        let before = self.reported.replace((report.came_bytes, now_us));
        let more = before
            .filter(|(_, at_us)| now_us < at_us + RECENT_US)
            .map_or(0, |(before, _)| report.came_bytes.wrapping_sub(before));
        self.foreground.told(now_us, report.expected_bytes.into(), self.estimator.srtt_us());
        self.foreground_came(now_us, more.into());
    }

    /// `bytes` have come to the foreground.
    fn foreground_came(&mut self, now_us: u64, bytes: u64) {
        self.estimator.foreground(now_us, bytes);
        self.begin_round(now_us);
        self.round_bytes[0] += bytes;
        self.foreground_bytes += bytes;
    }

    /// The next grant. Call it after anything has happened and at the time that it names, until it grants nothing.
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
        // Without a sample nothing is known of the line, so until the first one something is always under
        // way. A window of one segment has no room beside a foreground that always expects a few bytes, and
        // nothing would come that opens it.
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

    /// How long a grant of which nothing arrives is held, in microseconds. Where no delay was heard of for a
    /// while nothing is known of the line, as in the beginning.
    pub fn hold_us(&self, now_us: u64) -> u64 {
        let hold_us = self.policy.hold_us(self.estimator.srtt_us());
        match self.sampled_us {
            Some(sampled_us) if now_us > sampled_us + self.policy.first_hold_us => {
                hold_us.max(self.policy.first_hold_us)
            }
            _ => hold_us,
        }
    }

    /// Flows whose grants were given up since this was asked last: those that still want something ask again.
    pub fn take_expired(&mut self) -> Vec<FlowId> {
        std::mem::take(&mut self.expired)
    }

    /// How it stands.
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

    /// Whether `flow` waits.
    pub fn asks(&self, flow: FlowId) -> bool {
        self.scheduler.wants(flow).is_some()
    }

    /// What all flows have under way, in bytes.
    pub fn granted_bytes(&self) -> u64 {
        self.ledger.granted_bytes()
    }

    /// Flows that wait.
    pub fn asking(&self) -> usize {
        self.scheduler.asking()
    }

    /// Smoothed round-trip time in microseconds; 0 before the first sample.
    pub fn srtt_us(&self) -> u64 {
        self.estimator.srtt_us()
    }

    /// The base delay of `path`, in microseconds; nothing before its first exact sample.
    pub fn base_us(&self, path: u64) -> Option<u32> {
        self.estimator.path_base_us(path)
    }

    /// Whether the foreground sent or received something in the last 500 ms (`away_us`).
    pub fn is_present(&self, now_us: u64) -> bool {
        self.foreground.is_present(now_us)
    }

    /// What `flow` has under way, in bytes.
    pub fn granted_to(&self, flow: FlowId) -> u64 {
        self.ledger.granted_to(flow)
    }

    /// The law's window, never below a segment: what foreground and background may have under way together,
    /// in bytes.
    pub fn window_bytes(&self) -> u64 {
        (self.law.output().cwnd_q16 >> 16).max(self.policy.segment_bytes)
    }

    /// The largest window: while the foreground is there little more than what the line brings in a round
    /// trip without a queue. On a line with one queue the law sees to that. Behind a fair queue a flow waits
    /// for its own packets only, so many flows keep the line from the foreground at a delay that the law allows.
    fn most_bytes(&self, now_us: u64) -> u64 {
        match self.estimator.pipe_bytes() {
            pipe if pipe > 0 && self.foreground.is_present(now_us) => {
                (pipe.saturating_mul(self.policy.pipe_percent) / 100)
                    .max(self.policy.initial_segments * self.policy.segment_bytes)
            }
            _ => u64::MAX,
        }
    }

    /// The bytes that `flow` may be granted before its server hears of the grant, which the server does when
    /// bytes of the flow come: a burst, the flow's deficit in the scheduler, and the bytes by which the flow has
    /// less under way than the mean of all flows. Without this a flow with few bytes under way gets no turn: bytes
    /// that come make the room, and the flow to which they came asks for it.
    pub fn ahead_bytes(&self, flow: FlowId) -> u64 {
        let missing = (self.ledger.granted_bytes() / (self.ledger.flows() as u64).max(1))
            .saturating_sub(self.ledger.granted_to(flow));
        self.burst_bytes() + self.scheduler.saved_bytes(flow).max(missing.min(self.policy.turn_bytes))
    }

    /// What is granted together: what a sender needs, and on a fast line what a timer cannot resolve.
    fn burst_bytes(&self) -> u64 {
        let timer = self.estimator.rate_bytes_per_s().saturating_mul(self.policy.burst_us) / 1_000_000;
        (timer / self.policy.segment_bytes).max(self.policy.grant_segments) * self.policy.segment_bytes
    }

    /// Turns are of two segments at least, where one is granted at a time too: a receiver acknowledges a
    /// single one late (RFC 5681, 4.2).
    fn set_quantum(&mut self, burst_bytes: u64) {
        self.scheduler.set_quantum(burst_bytes.max(2 * self.policy.segment_bytes));
    }

    /// Tells how many granted bytes no announcement covers yet: they are in the ledger, and not under
    /// way. Such bytes do not count in the bound of the window while the foreground is there, so that
    /// the bound is on what the line carries.
    pub fn set_idle_bytes(&mut self, bytes: u64) {
        self.idle_bytes = bytes;
    }

    /// Grants go at this rate at most from now on, in bytes per second.
    pub fn set_most_bytes_per_s(&mut self, bytes_per_s: u64) {
        self.most_bytes_per_s = bytes_per_s;
    }

    /// Of the uplink: the rate of downloads, in bytes per second, whose acknowledgements leave a transfer of the
    /// foreground what it should have. There is no limit while the foreground sends little, and
    /// before the rate is known.
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

    /// 1.25 windows a round trip, 2 in slow start; 0 before the first round-trip time.
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

    /// Grants of which nothing comes are given to others.
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

    /// Tells the law what has arrived, of `prior` bytes that were under way or expected, and the delay. A
    /// delay of long ago says nothing of what arrives now, and then the law is told nothing.
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
        // A queue of what the foreground asked for is not the background's: the ledger makes room for it.
        let queuing_us = self.estimator.background_us(now_us).saturating_sub(self.allowed_us(now_us));
        let slow_start = self.law.output().phase() == Phase::SlowStart;
        let waiting = self.scheduler.asking() > 0 && !self.estimator.is_limited();
        // A sender that sends less than it may does not use the window, whatever was granted.
        let used = prior.min(self.round_bytes[0].max(self.round_bytes[1]));
        let nearly = (used + 2 * self.policy.segment_bytes) * if slow_start { 2 } else { 1 };
        let limited = !waiting && nearly < self.window_bytes();
        // Who waits does so because the next grant does not fit: the window is used as far as grants go.
        let prior = if waiting { prior.max(self.window_bytes()) } else { prior.max(bytes) };
        let rtt_us = TOLD_BASE_US.saturating_add(queuing_us);
        // The window is that of both, so what came for both moves it; of a long silence no more than a window.
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

    /// The queue beyond the law's target that harms nobody, in microseconds: some segments while the
    /// foreground is away.
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
