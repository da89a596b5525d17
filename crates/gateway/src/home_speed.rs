//! Compares the speed of the home's transfers while neighbours use the line with their speed while
//! no neighbour does.
//!
//! The line, the servers and the sizes of transfers differ from hour to hour, so averages of both
//! cannot be compared. Each transfer of the home under one condition is therefore compared with
//! one transfer like it under the other condition, within an hour. The medians over these pairs
//! are the result. A pair counts only if one of its transfers came near the speed of the line:
//! neighbours cannot slow a transfer that its server holds back.

use crate::accounts::windows;
use crate::upstream::Connector;
use crate::users::Users;
use leeway_net::{Observation, What};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;
use utoipa::ToSchema;

/// Silence after which a transfer of the home has ended. Longer than the gap between two requests
/// of one page.
const GAP: Duration = Duration::from_millis(500);
/// Fewest bytes of a transfer that is compared. Smaller ones are over before TCP has found the
/// speed of the line.
const LEAST_BYTES: u64 = 1_000_000;
/// Time between two looks at the neighbours.
const TICK: Duration = Duration::from_millis(100);
/// Time after a neighbour's last byte for which the neighbour still counts: what is under way
/// arrives, and queues drain.
const HOLD: Duration = Duration::from_secs(1);
/// Time that a transfer has to reach its new speed, after its start and after neighbours come or go.
const SETTLE: Duration = Duration::from_secs(2);
/// Length of a piece of a long transfer, and the least length.
const PIECE: Duration = Duration::from_secs(10);
const LEAST_PIECE: Duration = Duration::from_secs(1);
/// Longest time between the two transfers of a pair.
const APART: Duration = Duration::from_secs(3600);
/// Age at which a pair is forgotten.
const OLD: Duration = Duration::from_secs(24 * 3600);
/// Most pairs that are kept, and most transfers that wait for their like.
const KEPT: usize = 256;
/// Pairs without which nothing is said.
const FEW: usize = 10;

/// The home's speed while neighbours use the line, and while no neighbour does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HomeSpeed {
    /// Whether the home's packets are seen.
    pub seen: Seen,
    /// Transfers to the home.
    pub down: Compared,
    /// Transfers from the home.
    pub up: Compared,
}

/// Whether the home's packets are seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    /// They cannot be seen: the right is missing, or `home` is not given.
    #[default]
    No,
    /// They could be seen, and none has passed this machine yet.
    NotYet,
    /// They are seen.
    Yes,
}

/// Transfers of the home in one direction, compared in pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Compared {
    /// Pairs of the last 24 hours, 256 at most.
    pub pairs: usize,
    /// Pairs without which the rest is not known.
    pub needed: usize,
    /// Median speed while neighbours use the line, in bit/s.
    pub with_bps: Option<f64>,
    /// Median speed while no neighbour does, in bit/s.
    pub without_bps: Option<f64>,
    /// Median over the pairs of the first speed over the second. 1 if the home does not notice.
    pub ratio: Option<f64>,
}

impl Default for Compared {
    fn default() -> Compared {
        Compared { pairs: 0, needed: FEW, with_bps: None, without_bps: None, ratio: None }
    }
}

/// Measures the home's speed.
#[derive(Debug)]
pub struct Speedometer {
    began: Instant,
    tally: Mutex<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    seen: Seen,
    /// Until when neighbours count as using the line.
    neighbours_until: Duration,
    ways: [Track; 2],
}

impl Default for Speedometer {
    fn default() -> Speedometer {
        Speedometer { began: Instant::now(), tally: Mutex::default() }
    }
}

impl Speedometer {
    /// Says that the home's packets can be seen.
    pub fn can_see(&self) {
        let mut tally = self.lock();
        if tally.seen == Seen::No {
            tally.seen = Seen::NotYet;
        }
    }

    /// Adds packets of the home that passed just now.
    pub fn home_observed(&self, observations: &[Observation]) {
        let mut bytes = [0; 2];
        for observation in observations {
            match observation.what {
                What::Brings(more) => bytes[0] += more,
                What::Sends(more) => bytes[1] += more,
                What::Connects => {}
            }
        }
        let now = self.began.elapsed();
        self.lock().home(now, bytes);
    }

    /// Looks at the neighbours ten times a second. Never ends.
    pub async fn drive(&self, connector: &Connector, users: &Users) {
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            ticks.tick().await;
            let bytes = users.all().iter().map(|user| &user.counts).fold(0_u64, |sum, counts| {
                let moved = [&counts.down_bytes, &counts.up_bytes].map(|bytes| bytes.load(Ordering::Relaxed));
                sum.wrapping_add(moved[0]).wrapping_add(moved[1])
            });
            // A neighbour whose flow waits for a grant, because the home is at work, counts as well.
            let waits = windows(connector).iter().any(|(_, window)| window.waiting > 0);
            if before.replace(bytes).is_some_and(|before| before != bytes) || waits {
                self.lock().neighbours(self.began.elapsed());
            }
        }
    }

    /// The comparison until now.
    pub fn speed(&self) -> HomeSpeed {
        let (now, mut tally) = (self.began.elapsed(), self.lock());
        tally.ways.iter_mut().for_each(|way| way.look(now));
        let [down, up] = &tally.ways;
        HomeSpeed { seen: tally.seen, down: down.compared(), up: up.compared() }
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn home(&mut self, now: Duration, bytes: [u64; 2]) {
        self.seen = Seen::Yes;
        let shared = now < self.neighbours_until;
        for (way, bytes) in self.ways.iter_mut().zip(bytes).filter(|(_, bytes)| *bytes > 0) {
            way.moved(now, bytes, shared);
        }
    }

    fn neighbours(&mut self, now: Duration) {
        self.neighbours_until = now + HOLD;
    }
}

/// The home's transfers in one direction.
#[derive(Debug, Default)]
struct Track {
    transfer: Option<Transfer>,
    /// Transfers without their like yet.
    alone: VecDeque<Measured>,
    pairs: VecDeque<Pair>,
}

/// What the home moves at present, over all its connections.
#[derive(Debug)]
struct Transfer {
    began: Duration,
    last: Duration,
    /// Bytes after those of the first packets.
    bytes: u64,
    /// Whether neighbours use the line.
    shared: bool,
    /// When the piece may begin.
    settled: Duration,
    piece: Option<Piece>,
    /// Whether the transfer is compared by its pieces.
    in_pieces: bool,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    began: Duration,
    bytes: u64,
}

/// A transfer, or a piece of one, under one condition.
#[derive(Debug, Clone, Copy)]
struct Measured {
    at: Duration,
    kind: Kind,
    shared: bool,
    bps: f64,
}

/// What is compared with its like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A whole transfer, of 4^n bytes or somewhat more. A short one spends more of its time on
    /// its start.
    Whole(u32),
    /// A piece of a longer one, after its start.
    Piece,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    at: Duration,
    with_bps: f64,
    without_bps: f64,
}

impl Pair {
    fn faster_bps(&self) -> f64 {
        self.with_bps.max(self.without_bps)
    }
}

impl Track {
    /// The home moved `bytes`; `shared` says whether neighbours use the line.
    fn moved(&mut self, now: Duration, bytes: u64, shared: bool) {
        self.look(now);
        let Some(transfer) = &mut self.transfer else {
            let (piece, in_pieces, settled) = (None, false, now + SETTLE);
            let transfer = Transfer { began: now, last: now, bytes: 0, shared, settled, piece, in_pieces };
            self.transfer = Some(transfer);
            return;
        };
        let mut done = None;
        if transfer.shared != shared {
            done = transfer.take_piece();
            (transfer.shared, transfer.settled, transfer.in_pieces) = (shared, now + SETTLE, true);
        }
        (transfer.last, transfer.bytes) = (now, transfer.bytes + bytes);
        match &mut transfer.piece {
            Some(piece) => {
                piece.bytes += bytes;
                if now - piece.began >= PIECE {
                    transfer.in_pieces = true;
                    done = transfer.take_piece();
                    transfer.piece = Some(Piece { began: now, bytes: 0 });
                }
            }
            None if now >= transfer.settled => transfer.piece = Some(Piece { began: now, bytes: 0 }),
            None => {}
        }
        self.add(done);
    }

    /// Ends a transfer that is silent, and forgets what is old.
    fn look(&mut self, now: Duration) {
        if let Some(mut ended) = self.transfer.take_if(|transfer| now - transfer.last > GAP) {
            let done = if ended.in_pieces { ended.take_piece() } else { ended.whole() };
            self.add(done);
        }
        self.pairs.retain(|pair| now - pair.at <= OLD);
        self.alone.retain(|alone| now - alone.at <= APART);
    }

    /// Pairs a transfer with the last one like it under the other condition.
    fn add(&mut self, measured: Option<Measured>) {
        let Some(new) = measured else { return };
        let like = |old: &Measured| old.kind == new.kind && old.shared != new.shared;
        let Some(old) = self.alone.iter().rposition(like).and_then(|at| self.alone.remove(at)) else {
            push(&mut self.alone, new);
            return;
        };
        let (with, without) = if new.shared { (new, old) } else { (old, new) };
        push(&mut self.pairs, Pair { at: new.at, with_bps: with.bps, without_bps: without.bps });
    }

    fn compared(&self) -> Compared {
        // The speed of the line, as far as the home has used it.
        let top_bps = quantile(self.pairs.iter().map(Pair::faster_bps), 0.9).unwrap_or(0.0);
        let limited: Vec<&Pair> =
            self.pairs.iter().filter(|pair| pair.faster_bps() >= top_bps / 2.0).collect();
        let pairs = limited.len();
        if pairs < FEW {
            return Compared { pairs, ..Compared::default() };
        }
        let median = |of: fn(&Pair) -> f64| quantile(limited.iter().map(|pair| of(pair)), 0.5);
        Compared {
            pairs,
            needed: FEW,
            with_bps: median(|pair| pair.with_bps),
            without_bps: median(|pair| pair.without_bps),
            ratio: median(|pair| pair.with_bps / pair.without_bps),
        }
    }
}

impl Transfer {
    /// The piece until the last packet, unless it is too short.
    fn take_piece(&mut self) -> Option<Measured> {
        let piece = self.piece.take()?;
        let lasted = self.last - piece.began;
        (lasted >= LEAST_PIECE).then(|| self.measured(Kind::Piece, piece.bytes, lasted))
    }

    /// The whole transfer, unless it is too small.
    fn whole(&self) -> Option<Measured> {
        let lasted = self.last - self.began;
        let fits = self.bytes >= LEAST_BYTES && lasted > Duration::ZERO;
        fits.then(|| self.measured(Kind::Whole(self.bytes.ilog2() / 2), self.bytes, lasted))
    }

    fn measured(&self, kind: Kind, bytes: u64, lasted: Duration) -> Measured {
        Measured { at: self.last, kind, shared: self.shared, bps: 8.0 * bytes as f64 / lasted.as_secs_f64() }
    }
}

/// Adds to the end, and drops the oldest if there are too many.
fn push<T>(kept: &mut VecDeque<T>, new: T) {
    if kept.len() >= KEPT {
        kept.pop_front();
    }
    kept.push_back(new);
}

/// The quantile `part` of some values; `None` without values.
fn quantile(values: impl Iterator<Item = f64>, part: f64) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    let at = part * last as f64;
    let (low, high) = (values[at.floor() as usize], values[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The home of a line, on which time passes by its transfers.
    #[derive(Default)]
    struct Home {
        now: Duration,
        tally: Tally,
    }

    impl Home {
        /// Downloads for `seconds` at `megabits` per second, in packets of 10 ms. `shared` says
        /// whether neighbours use the line at a time since the beginning.
        fn moves(&mut self, seconds: f64, megabits: f64, shared: impl Fn(f64) -> bool) {
            for step in 0..(seconds * 100.0) as u32 {
                let since = f64::from(step) / 100.0;
                if shared(since) {
                    self.tally.neighbours(self.now);
                }
                self.tally.home(self.now, [(megabits * 1e6 / 8.0 / 100.0) as u64, 0]);
                self.now += Duration::from_millis(10);
            }
        }

        /// Downloads `megabytes`, and is silent for two seconds then.
        fn loads(&mut self, megabytes: f64, megabits: f64, shared: bool) {
            self.moves(8.0 * megabytes / megabits, megabits, |_| shared);
            self.now += Duration::from_secs(2);
        }

        fn down(&mut self) -> Compared {
            self.tally.ways[0].look(self.now);
            self.tally.ways[0].compared()
        }
    }

    fn near(value: Option<f64>, expected: f64) -> bool {
        value.is_some_and(|value| (value / expected - 1.0).abs() < 0.02)
    }

    #[test]
    fn transfers_are_compared_with_their_like() {
        let mut home = Home::default();
        for n in 0..FEW {
            assert_eq!((home.down().pairs, home.down().ratio), (n, None));
            // Small transfers have a lower speed, and more of them are made while nobody is there.
            for _ in 0..3 {
                home.loads(1.2, 5.0, false);
            }
            home.loads(8.0, 30.0, false);
            home.loads(8.0, 20.0, true);
        }
        let down = home.down();
        assert!(near(down.with_bps, 20e6) && near(down.without_bps, 30e6), "{down:?}");
        assert!(near(down.ratio, 2.0 / 3.0) && down.pairs == FEW, "{down:?}");
        assert_eq!(home.tally.ways[1].compared(), Compared::default());
    }

    #[test]
    fn a_long_transfer_is_compared_with_itself_when_neighbours_come_and_go() {
        let mut home = Home::default();
        // Every 8 s neighbours come for 8 s, and take a tenth.
        for _ in 0..FEW + 1 {
            home.moves(8.0, 50.0, |_| false);
            home.moves(8.0, 45.0, |_| true);
        }
        let down = home.down();
        assert!(down.pairs >= FEW && near(down.ratio, 0.9), "{down:?}");
    }

    /// Half of the transfers are held back by their servers, under both conditions.
    #[test]
    fn what_a_server_holds_back_does_not_count() {
        for (shared_megabits, expected) in [(40.0, 1.0), (20.0, 0.5)] {
            let mut home = Home::default();
            for n in 0..16 * FEW {
                // Drawn without a pattern that the conditions follow.
                let held = (n * n / 3 + n / 7) % 2 == 0;
                let shared = n % 2 == 0;
                let line = if shared { shared_megabits } else { 40.0 };
                home.loads(8.0, if held { 5.0 } else { line }, shared);
            }
            let down = home.down();
            assert!(near(down.ratio, expected), "{expected}: {down:?}");
        }
    }

    #[test]
    fn nothing_is_said_of_small_transfers_of_what_lies_apart_and_of_yesterday() {
        let mut home = Home::default();
        for _ in 0..2 * FEW {
            home.loads(0.9, 30.0, false);
            home.loads(0.9, 20.0, true);
        }
        assert_eq!(home.down().pairs, 0, "TCP has not found the speed of the line");
        for _ in 0..2 * FEW {
            home.loads(8.0, 30.0, false);
            home.now += APART;
            home.loads(8.0, 20.0, true);
            home.now += APART;
        }
        assert_eq!(home.down().pairs, 0, "the line may have changed meanwhile");
        for _ in 0..FEW {
            home.loads(8.0, 30.0, false);
            home.loads(8.0, 20.0, true);
        }
        assert!(home.down().ratio.is_some());
        home.now += OLD;
        assert_eq!(home.down().pairs, 0);
    }

    /// A transfer during which neighbours come is not compared as a whole. Neighbours count for 1 s
    /// after their last byte.
    #[test]
    fn a_transfer_under_both_conditions_is_no_whole_one() {
        let mut home = Home::default();
        for _ in 0..2 * FEW {
            home.moves(3.0, 30.0, |since| since > 1.0);
            home.now += Duration::from_secs(2);
            home.loads(10.0, 30.0, false);
        }
        assert_eq!(home.down().pairs, 0);
        home.moves(1.0, 30.0, |since| since < 0.5);
        assert!(home.tally.ways[0].transfer.as_ref().unwrap().shared);
    }

    #[test]
    fn the_home_is_seen_once_a_packet_has_passed() {
        let speedometer = Speedometer::default();
        assert_eq!(speedometer.speed().seen, Seen::No);
        speedometer.can_see();
        assert_eq!(speedometer.speed().seen, Seen::NotYet);
        speedometer.home_observed(&[Observation { connection: 1, what: What::Connects }]);
        speedometer.can_see();
        assert_eq!(speedometer.speed().seen, Seen::Yes);
    }
}
