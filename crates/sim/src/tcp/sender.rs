//! The sending side of TCP: when segments are sent, and what the control law is told.
//!
//! Loss recovery is RFC 6675 with SACK, and RFC 6582 (NewReno) without. Both are written as "send
//! while the pipe has room", where the pipe leaves out segments that were received or lost. The
//! law alone sets the window.

use super::Options;
use super::delivery::Delivery;
use super::receiver::Block;
use super::rto::{LazyTimer, Rto};
use super::scoreboard::{Newest, Scoreboard};
use crate::flow::Clocks;
use crate::scenario::BackoffUntil;
use leeway_control::{Ack, Law, Loss, Path, sender};
use leeway_units::{Duration, Time};

/// An acknowledgement, as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct AckIn<'a> {
    /// Next segment that the receiver expects (cumulative acknowledgement).
    pub next: u32,
    /// SACK blocks; empty without SACK.
    pub blocks: &'a [Block],
    /// Round-trip time by the echoed timestamp (RFC 7323).
    pub rtt: Duration,
    /// One-way delay of the echoed segment plus the offset of the clocks. Unit: µs modulo 2^32.
    pub owd_us: u32,
    /// When the echoed segment was sent.
    pub echoed: Time,
    /// Clocks of the hosts.
    pub clocks: &'a Clocks,
    /// ECN-echo (RFC 3168).
    pub ece: bool,
}

/// What the sender does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Send segment `seq`.
    Send {
        /// Segment number.
        seq: u32,
        /// Payload bytes.
        payload: u16,
        /// Whether it is a retransmission.
        again: bool,
    },
    /// Nothing before this time: the sender is paced.
    Wait(Time),
    /// Nothing until an acknowledgement arrives or the application writes.
    Idle,
}

/// State of loss recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    Open,
    /// Fast recovery, until `recover` is acknowledged.
    Fast,
    /// Recovery after a timeout, until `recover` is acknowledged.
    Timeout,
}

/// The sending side of one connection.
#[derive(Debug, Clone)]
pub struct Sender {
    /// The law that sets the window.
    pub law: Law,
    /// Retransmission timer.
    pub timer: LazyTimer,
    /// One past the last segment that a gateway's receive window allows, beside the fixed receive
    /// window of the endpoint.
    pub edge: u32,
    /// Payload bytes acknowledged so far.
    pub acked: u64,
    /// Whether the next segment may be sent beyond the window, as a fast retransmit.
    urgent: bool,
    /// Whether the first outstanding segment was just retransmitted, so that the timer starts
    /// anew.
    restart_timer: bool,
    /// Whether the congestion window stopped the last attempt to send, and not the application or
    /// the receiver.
    window_limited: bool,
    /// Whether the next new segment carries CWR (RFC 3168, 6.1.2).
    reduced: bool,
    recovery: Recovery,
    /// Whether this recovery has seen a partial acknowledgement (RFC 6582).
    partial: bool,
    /// Recovery ends when this segment is acknowledged.
    recover: u32,
    /// The timeout stays doubled until this segment is acknowledged, under
    /// [`BackoffUntil::Fresh`].
    backed_off: u32,
    /// Duplicate acknowledgements in a row. Without SACK each one means that a segment has left
    /// the network.
    duplicates: u32,
    /// The present round trip ends when this segment is acknowledged.
    round_end: u32,
    /// When the present round trip began.
    round_began: Time,
    /// Payload bytes that the application has written and the sender has not sent yet; `u64::MAX`
    /// without end.
    unsent: u64,
    path: Path,
    board: Scoreboard,
    rto: Rto,
    last_sent: Time,
    /// Whether the law reads delays, so that the wait of a delayed acknowledgement has to be left
    /// out.
    needs_delay: bool,
    /// Segments sent of the present pair (0 to 2), the latest at `pair_sent`; see
    /// `leaves_in_pairs`.
    of_pair: u8,
    pair_sent: Time,
    /// What this sender has in common with the kernel's: pacing, ECN reaction, the window after
    /// idling.
    common: sender::Sender,
    /// Delivery-rate estimation, for laws that need it.
    delivery: Delivery,
}

impl Sender {
    /// A connection that has sent nothing. `path` has the segment size and the initial window.
    pub fn new(law: Law, path: Path) -> Self {
        Sender {
            delivery: Delivery::new(law.needs_rate()),
            needs_delay: law.needs_delay(),
            law,
            timer: LazyTimer::new(),
            edge: u32::MAX,
            acked: 0,
            urgent: false,
            restart_timer: false,
            window_limited: false,
            reduced: false,
            recovery: Recovery::Open,
            partial: false,
            recover: 0,
            backed_off: 0,
            duplicates: 0,
            round_end: 0,
            round_began: Time::ZERO,
            unsent: 0,
            path,
            board: Scoreboard::default(),
            rto: Rto::new(),
            last_sent: Time::ZERO,
            of_pair: 0,
            pair_sent: Time::ZERO,
            common: sender::Sender::default(),
        }
    }

    /// The handshake is complete. `rtt` is the time from SYN to SYN-ACK, or from SYN-ACK to its
    /// ACK (RFC 6298, 2.2).
    pub fn connected(&mut self, rtt: Duration) {
        self.rto.sample(rtt);
        self.path.min_rtt_us = rtt.micros().clamp(1, u64::from(u32::MAX)) as u32;
        self.update_path();
    }

    /// Timeout of a SYN that was sent `tries` times before (RFC 6298, 5.5).
    pub fn handshake_timeout(tries: u32, options: &Options) -> Duration {
        (options.tcp.initial_rto * (1u64 << tries.min(32))).min(options.tcp.max_rto)
    }

    /// Starts over as a new connection under `law`, and keeps allocated memory.
    pub fn reset(&mut self, law: Law, path: Path) {
        let timer = self.timer; // its entry stays in the calendar
        let mut board = std::mem::take(&mut self.board);
        board.reset();
        *self = Sender { board, timer, ..Sender::new(law, path) };
        self.timer.clear();
    }

    /// The application writes `bytes` bytes more.
    pub fn write(&mut self, bytes: u64) {
        self.unsent = self.unsent.saturating_add(bytes);
    }

    /// The application writes without end, from now on.
    pub fn write_endless(&mut self) {
        self.unsent = u64::MAX;
    }

    /// The application writes nothing more. Bytes that were not sent yet are discarded.
    pub fn stop_writing(&mut self) {
        self.unsent = 0;
    }

    /// Bytes that were written and not sent yet; `u64::MAX` without end.
    pub fn unsent_bytes(&self) -> u64 {
        self.unsent
    }

    /// Whether all bytes that were written have been sent.
    pub fn is_drained(&self) -> bool {
        self.unsent == 0
    }

    /// First unacknowledged segment.
    pub fn first_unacked(&self) -> u32 {
        self.board.una()
    }

    /// Number of segments sent so far, without retransmissions.
    pub fn next_seq(&self) -> u32 {
        self.board.next()
    }

    /// Payload bytes in flight (RFC 6675, `pipe`).
    pub fn inflight(&self) -> u64 {
        self.board.pipe()
    }

    /// Smoothed round-trip time; zero before the first sample.
    pub fn srtt(&self) -> Duration {
        self.rto.srtt()
    }

    /// Whether the next new segment carries CWR. Clears the flag.
    #[inline]
    pub fn take_reduced(&mut self) -> bool {
        std::mem::take(&mut self.reduced)
    }

    /// An acknowledgement arrives. The caller then calls [`Sender::next`] until nothing may be
    /// sent. Returns a time if the timer needs a calendar entry.
    #[inline]
    pub fn on_ack(&mut self, now: Time, ack: &AckIn<'_>, options: &Options) -> Option<Time> {
        let prior = self.board.pipe();
        let (now_us, rtt_us) = (now.micros(), ack.rtt.micros().clamp(1, u64::from(u32::MAX)) as u32);
        self.rto.sample(ack.rtt);
        if rtt_us < self.path.min_rtt_us || self.path.min_rtt_us == 0 {
            self.path.min_rtt_us = rtt_us;
        }
        let was_recovering = self.recovery == Recovery::Fast;
        let nothing_outstanding = self.board.is_empty();
        let progress = self.board.acknowledge(ack.next, ack.blocks);
        let una = self.board.una();
        self.acked += progress.bytes;
        if progress.advanced > 0 {
            let fresh = una > self.backed_off;
            self.rto.progress(fresh || options.tcp.backoff_until == BackoffUntil::Progress);
            if self.recovery != Recovery::Open && una >= self.recover {
                self.recovery = Recovery::Open;
            }
        }
        let loss = if options.tcp.sack {
            self.board.detect_losses(options.tcp.dupthresh)
        } else {
            self.count_duplicates(
                progress.advanced,
                ack.next == una && !nothing_outstanding,
                options.tcp.dupthresh,
            )
        };
        self.update_path();
        self.delivery.lost(loss.map_or(0, |(bytes, _)| bytes));
        if let Some((lost_bytes, sent)) = loss
            && self.recovery != Recovery::Fast
        {
            self.recover(Loss {
                now_us,
                lost_bytes,
                sent_us: sent.micros(),
                kind: Loss::DUPACK,
                timeouts: 0,
            });
        }
        // In recovery the cumulative acknowledgement stands still while the first hole is open,
        // and cannot end a round trip. There, a round trip ends when a segment is echoed that was
        // sent after its beginning.
        let echoed = now - self.round_began >= ack.rtt;
        let round_start = una > self.round_end || self.recovery != Recovery::Open && echoed;
        if round_start {
            self.round_end = self.board.next();
            self.round_began = now;
        }
        let mut ce_bytes = 0;
        if ack.ece && self.common.marked(una, self.board.next()) {
            self.reduced = true;
            ce_bytes = progress.bytes.max(1);
        }
        let recovering = was_recovering || self.recovery == Recovery::Fast;
        let app_limited = self.common.app_limited(self.law.output(), progress.bytes, self.window_limited);
        let kind = self.common.last_kind(progress.bytes, self.path.mss_bytes, recovering);
        let newest = progress.newest.filter(|newest| !newest.again);
        let min_rtt_us = self.path.min_rtt_us;
        let mut told = Ack {
            now_us,
            acked_bytes: progress.bytes,
            prior_inflight_bytes: prior,
            ce_bytes,
            rtt_us,
            owd_us: ack.owd_us,
            owd_resolution_us: options.owd_resolution_us,
            app_limited: u8::from(app_limited),
            round_start: u8::from(round_start),
            recovering: u8::from(recovering),
            last_kind: newest.map_or(Ack::LAST_NONE, |_| kind),
            last_rtt_us: newest.map_or(0, |newest| micros_u32(now - newest.sent)),
            reserved: 0,
            rate: self.delivery.acknowledged(now_us, una, &progress, min_rtt_us),
        };
        if self.needs_delay && options.tcp.delayed_ack.is_some() {
            self.leave_waits_out(&mut told, ack, newest);
        }
        self.law.on_ack(&told, &self.path);
        if progress.advanced == 0 {
            return None;
        }
        self.restart_timer(now, was_recovering, options)
    }

    /// Takes the wait of a delayed acknowledgement out of the delays. Such an acknowledgement
    /// echoes the first segment that it covers (RFC 7323, 4.3), which may have waited for the
    /// newest segment. The sender knows when the newest segment was sent.
    #[inline(never)]
    fn leave_waits_out(&mut self, told: &mut Ack, ack: &AckIn<'_>, newest: Option<Newest>) {
        let mss = self.path.mss_bytes;
        if self.common.waited(told, mss) && self.law.output().cwnd_q16 >> 16 >= u64::from(mss) {
            told.rtt_us = 0;
            told.owd_resolution_us = 0;
        } else if let Some(newest) = newest
            && newest.sent > ack.echoed
        {
            told.owd_us = ack.owd_us.wrapping_sub(ack.clocks.between(ack.echoed, newest.sent));
        }
    }

    /// Begins fast recovery, and tells the law.
    fn recover(&mut self, loss: Loss) {
        self.recovery = Recovery::Fast;
        self.recover = self.board.next();
        self.partial = false;
        self.urgent = true;
        self.law.on_loss(&loss, &self.path);
    }

    /// New data was acknowledged: restarts the timer. Returns a time if the timer needs a calendar
    /// entry.
    #[inline]
    fn restart_timer(&mut self, now: Time, was_recovering: bool, options: &Options) -> Option<Time> {
        if self.board.is_empty() {
            self.timer.clear();
            return None;
        }
        if was_recovering && self.recovery == Recovery::Fast && !options.tcp.sack && self.partial {
            return None; // RFC 6582, 3.2, step 4: only the first partial acknowledgement restarts the timer
        }
        self.partial = was_recovering;
        self.timer.set(now + self.rto.timeout(&options.tcp)) // RFC 6298, 5.3
    }

    /// Counts duplicate acknowledgements and infers losses from them, as NewReno (RFC 6582, 3.2).
    fn count_duplicates(&mut self, advanced: u32, duplicate: bool, dupthresh: u32) -> Option<(u64, Time)> {
        if advanced > 0 {
            if self.recovery == Recovery::Fast {
                // Partial acknowledgement: the next segment is lost too, and is retransmitted at
                // once.
                self.duplicates = self.duplicates.saturating_sub(advanced - 1);
                self.urgent = true;
                return self.board.lose_first();
            }
            self.duplicates = 0;
            return None;
        }
        if !duplicate {
            return None;
        }
        self.duplicates += 1;
        // RFC 6582, 3.2, step 2: the acknowledgement has to cover more than `recover`. One that
        // covers exactly `recover` answers segments that were retransmitted needlessly.
        let fresh = self.recovery == Recovery::Open && (self.board.una() > self.recover || self.recover == 0);
        if self.duplicates == dupthresh && fresh { self.board.lose_first() } else { None }
    }

    #[inline]
    fn update_path(&mut self) {
        self.path.inflight_bytes = self.board.pipe();
        self.path.srtt_us = self.rto.srtt_us();
    }

    /// The retransmission timer has expired. Returns a time if the timer needs a calendar entry.
    pub fn on_timeout(&mut self, now: Time, options: &Options) -> Option<Time> {
        if self.board.is_empty() {
            return None;
        }
        let timeouts = self.rto.expired();
        let sent = self.board.first_sent();
        let lost_bytes = self.board.lose_all().map_or(0, |(bytes, _)| bytes);
        self.delivery.lost(lost_bytes);
        self.recovery = Recovery::Timeout;
        self.recover = self.board.next();
        self.backed_off = self.recover;
        self.duplicates = 0;
        self.urgent = true;
        self.update_path();
        let loss =
            Loss { now_us: now.micros(), lost_bytes, sent_us: sent.micros(), kind: Loss::TIMEOUT, timeouts };
        self.law.on_loss(&loss, &self.path);
        self.timer.set(now + self.rto.timeout(&options.tcp))
    }

    /// What the sender does now. A segment that is returned counts as sent.
    #[inline]
    pub fn next(&mut self, now: Time, options: &Options) -> Next {
        let lost = self.board.next_lost();
        let outstanding = self.board.next() - self.board.una();
        let payload = match lost {
            Some((_, payload)) => u64::from(payload),
            None if self.unsent == 0
                || outstanding >= options.receive_window
                || self.board.next() >= self.edge =>
            {
                if self.unsent == 0
                    && self.board.pipe() < self.common.window(self.law.output(), self.path.mss_bytes)
                {
                    self.delivery.app_limited(self.board.pipe());
                }
                self.window_limited = false;
                return Next::Idle;
            }
            None => self.unsent.min(u64::from(self.path.mss_bytes)),
        };
        if self.board.is_empty()
            && options.tcp.idle_restart
            && now - self.last_sent > self.rto.timeout(&options.tcp)
        {
            self.common.idle(self.path.initial_window_bytes); // RFC 5681, 4.1
        }
        let window = self.common.window(self.law.output(), self.path.mss_bytes);
        let mss = u64::from(self.path.mss_bytes);
        let few = window < 2 * mss;
        if !(self.urgent && lost.is_some()) {
            let pipe = self.believed_in_flight(options);
            let (room, slot) = match few {
                true => self.room_for_few(pipe, payload, window, options),
                false => (pipe + payload <= window, Time::ZERO),
            };
            if !room {
                self.window_limited = true;
                return Next::Idle;
            }
            let earliest = slot.max(Time::from_nanos(self.common.departure_ns(self.law.output())));
            if now < earliest {
                self.window_limited = true;
                return Next::Wait(earliest);
            }
        }
        self.urgent = false;
        if !(few && self.is_of_pair(now, lost.is_none() && self.unsent > payload, options)) {
            self.pace(now, payload, window, options);
        }
        self.last_sent = now;
        let payload = payload as u16; // a segment is never longer than the MSS
        let (seq, again) = match lost {
            Some((seq, _)) => {
                self.delivery.sent(now.micros(), seq, self.board.pipe(), u64::from(payload));
                self.board.send_again(now, seq);
                // RFC 6298 does not say when the timer of a retransmission starts. In ns-2 and in
                // Linux it starts anew, because the acknowledgement is a round trip away again. Only
                // NewReno's timer runs on through a recovery; see `restart_timer`.
                self.restart_timer = seq == self.board.una() && (options.tcp.sack || !self.partial);
                (seq, true)
            }
            None => {
                if self.unsent != u64::MAX {
                    self.unsent -= u64::from(payload);
                }
                let pipe = self.board.pipe();
                let seq = self.board.send(now, payload);
                self.delivery.sent(now.micros(), seq, pipe, u64::from(payload));
                (seq, false)
            }
        };
        Next::Send { seq, payload, again }
    }

    /// Starts the timer if it is off (RFC 6298, 5.1), or if the segment that it guards was
    /// retransmitted. Returns a time if the timer needs a calendar entry.
    #[inline]
    pub fn start_timer(&mut self, now: Time, options: &Options) -> Option<Time> {
        let restart = std::mem::take(&mut self.restart_timer);
        if self.timer.is_set() && !restart {
            return None;
        }
        self.timer.set(now + self.rto.timeout(&options.tcp))
    }

    /// Bytes in flight: the pipe, less the segments that duplicate acknowledgements have shown to
    /// be gone.
    #[inline]
    fn believed_in_flight(&self, options: &Options) -> u64 {
        let mss = u64::from(self.path.mss_bytes);
        let pipe = self.board.pipe();
        match (self.recovery, options.tcp.sack) {
            (Recovery::Open, true) if !options.tcp.limited_transmit => {
                pipe + u64::from(self.board.sacked()) * mss
            }
            // RFC 3042: the first two duplicates release a segment each.
            (Recovery::Open | Recovery::Timeout, false)
                if options.tcp.limited_transmit
                    && (self.recovery == Recovery::Open || options.tcp.limited_retransmit) =>
            {
                pipe.saturating_sub(u64::from(self.duplicates.min(options.tcp.dupthresh - 1)) * mss)
            }
            (Recovery::Open, false) => pipe,
            (Recovery::Fast, false) => pipe.saturating_sub(u64::from(self.duplicates) * mss),
            _ => pipe,
        }
    }

    /// Whether a window of less than two segments has room, and from when on. Below one segment,
    /// and in pairs, a window of W segments is a rate: one segment every 1/W round-trip times, or
    /// two every 2/W, with nothing else in flight.
    #[inline(never)]
    fn room_for_few(&self, pipe: u64, payload: u64, window: u64, options: &Options) -> (bool, Time) {
        let mss = u64::from(self.path.mss_bytes);
        let pairs = self.leaves_in_pairs(options);
        if window >= mss && !pairs {
            return (pipe + payload <= window, Time::ZERO);
        }
        let before = if self.pair_sent == self.last_sent { self.of_pair } else { 0 };
        if pairs && before == 1 && pipe <= mss {
            return (true, Time::ZERO);
        }
        let srtt_ns = self.rto.srtt().nanos();
        let gap_ns = sender::gap_below_one_ns(self.law.output(), self.path.mss_bytes, srtt_ns);
        (pipe == 0, self.last_sent + Duration::from_nanos(gap_ns) * u64::from(before.max(1)))
    }

    /// Notes that a segment of a small window is sent. Returns whether the segment belongs to a
    /// pair. `more`: another segment is waiting.
    #[inline(never)]
    fn is_of_pair(&mut self, now: Time, more: bool, options: &Options) -> bool {
        if !self.leaves_in_pairs(options) {
            self.of_pair = 0;
            return false;
        }
        let follows = self.of_pair == 1 && self.pair_sent == self.last_sent;
        self.of_pair = if follows { 2 } else { u8::from(more) };
        self.pair_sent = now;
        true
    }

    /// Whether two segments are sent together, as the kernel does. A receiver that delays
    /// acknowledgements acknowledges a pair at once.
    fn leaves_in_pairs(&self, options: &Options) -> bool {
        let (srtt_ns, repairs) = (self.rto.srtt().nanos(), self.recovery != Recovery::Open);
        self.needs_delay
            && options.tcp.delayed_ack.is_some()
            && sender::in_pairs(self.law.output(), self.path.mss_bytes, srtt_ns, repairs)
    }

    /// Tells the pacer that a segment is sent, at the rate of the law or of the stack.
    #[inline]
    fn pace(&mut self, now: Time, payload: u64, window: u64, options: &Options) {
        let law = self.law.output();
        let rate = match law.pacing_bytes_per_s {
            0 if !options.tcp.pacing => 0,
            0 => match sender::pace_stack(window, window, law.ssthresh_bytes, self.rto.srtt().micros()) {
                0 if self.rto.srtt() > Duration::ZERO => 1,
                rate => rate,
            },
            rate => rate,
        };
        self.common.sent(law, now.nanos(), payload, rate);
    }
}

fn micros_u32(span: Duration) -> u32 {
    span.micros().clamp(1, u64::from(u32::MAX)) as u32
}
