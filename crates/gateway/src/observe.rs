//! Observes how much of the line could be shared, without serving anybody and without sending
//! anything.
//!
//! It counts bytes of the interfaces that lead to the Internet. If the home's packets pass this
//! machine, these are what the line carries. The rate of the line is not known until the line is
//! full. So the throughput of the busiest second is a lower bound of the rate, and what the mean
//! leaves of it is a lower bound of the spare capacity.

use crate::notes::{HOME_UNKNOWN, LOAD_UNKNOWN, Note, QUEUE_UNKNOWN, RATE_UNKNOWN, in_english};
use crate::setup;
use ipnet::IpNet;
use leeway_net::{Error, interfaces, uplinks};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::time::MissedTickBehavior;
use utoipa::ToSchema;

/// What was observed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Observation {
    /// Seconds of observation.
    pub seconds: u64,
    /// The interfaces that lead to the Internet.
    pub interfaces: Vec<String>,
    /// Whether the home's packets pass this machine. If not, their bytes are not counted.
    pub sees_home: bool,
    /// Seconds in which the home sent a request or received data; none if its packets cannot be
    /// seen.
    pub home_busy_s: Option<u64>,
    /// From the Internet.
    pub down: Direction,
    /// To the Internet.
    pub up: Direction,
    /// What cannot be known without sending, or without seeing the home's packets, as sentences.
    pub unknown: Vec<String>,
}

/// One direction of the line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Direction {
    /// Bytes carried.
    pub bytes: u64,
    /// Mean throughput, in bit/s.
    pub mean_bps: f64,
    /// Throughput of the busiest second, in bit/s. The line's rate is at least this.
    pub busiest_bps: f64,
    /// Spare capacity on average, in bit/s: at least the busiest second less the mean. None if the
    /// home's packets do not pass this machine, or before anything was carried.
    pub spare_bps: Option<f64>,
}

/// Reads the counters of the line once a second.
#[derive(Debug)]
pub struct Observer {
    interfaces: Vec<String>,
    sees_home: bool,
    began: Instant,
    tally: Mutex<Tally>,
}

impl Observer {
    /// Starts an observation. `home` has the home's networks; if it is empty, those of this
    /// machine's interfaces count.
    ///
    /// # Errors
    /// The kernel does not list its interfaces.
    pub fn new(home: &[IpNet]) -> Result<Observer, Error> {
        let (interfaces, uplinks) = (interfaces()?, uplinks()?);
        let sees_home = setup::passes(&interfaces, &uplinks, home, setup::forwards());
        let names: BTreeSet<String> = uplinks.into_iter().map(|uplink| uplink.interface).collect();
        let (began, tally) = (Instant::now(), Mutex::default());
        Ok(Observer { interfaces: names.into_iter().collect(), sees_home, began, tally })
    }

    /// Records that a packet of the home was seen.
    pub fn home_seen(&self) {
        self.lock().home_seen = true;
    }

    /// Sets whether the home's packets can be seen, once that is known.
    pub fn can_see(&self, possible: bool) {
        self.lock().can_see = possible;
    }

    /// Reads the counters once a second. Never ends.
    pub async fn drive(&self) {
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        // After a late tick, the next interval is a whole second again. So a late interval counts
        // as a mean over its length, and not as the peak of one second.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let now = self.began.elapsed();
            let text = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
            self.lock().look(now, counters(&text, &self.interfaces));
        }
    }

    /// What was observed until now.
    pub fn observation(&self) -> Observation {
        let tally = self.lock();
        let seconds = tally.seconds;
        let direction = |way: usize| {
            let (bytes, busiest_bps) = (tally.bytes[way], tally.busiest_bps[way]);
            let mean_bps = if seconds > 0.0 { 8.0 * bytes as f64 / seconds } else { 0.0 };
            let spare_bps = (busiest_bps - mean_bps).max(0.0);
            let known = self.sees_home && bytes > 0;
            Direction { bytes, mean_bps, busiest_bps, spare_bps: known.then_some(spare_bps) }
        };
        Observation {
            seconds: seconds as u64,
            interfaces: self.interfaces.clone(),
            sees_home: self.sees_home,
            home_busy_s: (tally.can_see && self.sees_home).then_some(tally.busy_s),
            down: direction(0),
            up: direction(1),
            unknown: in_english(&self.unknown()),
        }
    }

    /// What cannot be known without sending, or without seeing the home.
    pub(crate) fn unknown(&self) -> Vec<Note> {
        let mut unknown = Vec::new();
        if self.interfaces.is_empty() {
            unknown.push(Note::new(&LOAD_UNKNOWN, []));
        } else if !self.sees_home {
            unknown.push(Note::new(&HOME_UNKNOWN, []));
        }
        unknown.extend([&RATE_UNKNOWN, &QUEUE_UNKNOWN].map(|phrase| Note::new(phrase, [])));
        unknown
    }

    fn lock(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sums of an observation.
#[derive(Debug, Default)]
struct Tally {
    /// Seconds until the last reading.
    seconds: f64,
    before: Option<(Duration, Option<[u64; 2]>)>,
    bytes: [u64; 2],
    busiest_bps: [f64; 2],
    busy_s: u64,
    home_seen: bool,
    can_see: bool,
}

impl Tally {
    /// Adds a reading after about one second. `counters` are the bytes received from and sent to
    /// the Internet since an unknown time; `None` if no interface is there.
    fn look(&mut self, now: Duration, counters: Option<[u64; 2]>) {
        let busy = std::mem::take(&mut self.home_seen);
        let Some((then, before)) = self.before.replace((now, counters)) else { return };
        let seconds = now.saturating_sub(then).as_secs_f64();
        if seconds <= 0.0 {
            return;
        }
        self.seconds += seconds;
        self.busy_s += u64::from(busy);
        // After an interface was removed or its counters restarted, counting goes on from the new
        // value.
        for ((before, after), way) in
            before.zip(counters).into_iter().flat_map(|(a, b)| a.into_iter().zip(b)).zip(0..)
        {
            let bytes = after.saturating_sub(before);
            self.bytes[way] += bytes;
            let bps = 8.0 * bytes as f64 / seconds;
            self.busiest_bps[way] = self.busiest_bps[way].max(bps);
        }
    }
}

/// Sums of the bytes received and sent by `interfaces`, from the text of `/proc/net/dev`
/// (proc(5)); `None` if none of them is there.
pub(crate) fn counters(text: &str, interfaces: &[String]) -> Option<[u64; 2]> {
    let line = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let mut numbers = numbers.split_whitespace().map(str::parse::<u64>);
        let received = numbers.next()?.ok()?;
        // Seven more columns about receiving, then the bytes sent.
        let sent = numbers.nth(7)?.ok()?;
        interfaces.iter().any(|wanted| wanted == name.trim()).then_some([received, sent])
    };
    text.lines().filter_map(line).reduce(|[a, b], [c, d]| [a + c, b + d])
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEV: &str = "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier\n    \
         lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n  \
         eth0: 1000 5 0 0 0 0 0 0 200 4 0 0 0 0 0 0\n  \
         ppp0:30 5 0 0 0 0 0 0 7 4 0 0 0 0 0 0\n";

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn counters_are_of_the_interfaces_that_lead_to_the_internet() {
        assert_eq!(counters(DEV, &names(&["eth0"])), Some([1000, 200]));
        assert_eq!(counters(DEV, &names(&["eth0", "ppp0"])), Some([1030, 207]));
        assert_eq!(counters(DEV, &names(&["eth1"])), None);
        assert_eq!(counters("eth0: 1 2", &names(&["eth0"])), None);
    }

    fn observer(sees_home: bool) -> Observer {
        let tally = Mutex::default();
        Observer { interfaces: names(&["eth0"]), sees_home, began: Instant::now(), tally }
    }

    /// Reads these counters at these times, in milliseconds.
    fn look(observer: &Observer, looks: &[(u64, Option<[u64; 2]>)]) {
        for &(at, counters) in looks {
            observer.lock().look(Duration::from_millis(at), counters);
        }
    }

    #[test]
    fn what_the_busiest_second_leaves_could_be_shared() {
        let observer = observer(true);
        look(&observer, &[(0, Some([500, 100])), (1000, Some([500, 100])), (2000, Some([3_500, 350]))]);
        let seen = observer.observation();
        assert_eq!((seen.seconds, seen.down.bytes, seen.up.bytes), (2, 3000, 250));
        assert_eq!((seen.down.mean_bps, seen.down.busiest_bps), (12_000.0, 24_000.0));
        assert_eq!((seen.down.spare_bps, seen.up.spare_bps), (Some(12_000.0), Some(1000.0)));
    }

    #[test]
    fn a_late_look_is_a_mean_and_no_peak() {
        let observer = observer(true);
        look(&observer, &[(0, Some([0, 0])), (4000, Some([4000, 0]))]);
        assert_eq!(observer.observation().down.busiest_bps, 8000.0);
    }

    #[test]
    fn an_interface_that_goes_and_comes_back_adds_nothing_that_was_not_carried() {
        let observer = observer(true);
        let looks = [Some([9_000, 9]), Some([9_100, 9]), None, Some([50, 0]), Some([80, 0]), Some([10, 0])];
        look(&observer, &(0..).step_by(1000).zip(looks).collect::<Vec<_>>());
        let seen = observer.observation();
        assert_eq!((seen.seconds, seen.down.bytes), (5, 130));
    }

    #[test]
    fn the_home_is_at_work_in_seconds_in_which_it_was_seen() {
        let observer = observer(true);
        assert_eq!(observer.observation().home_busy_s, None, "nobody can see it yet");
        observer.can_see(true);
        look(&observer, &[(0, None)]);
        observer.home_seen();
        observer.home_seen();
        look(&observer, &[(1000, None), (2000, None)]);
        assert_eq!(observer.observation().home_busy_s, Some(1));
    }

    #[test]
    fn a_machine_beside_the_router_says_that_it_does_not_know() {
        let observer = observer(false);
        observer.can_see(true);
        look(&observer, &[(0, Some([0, 0])), (1000, Some([5000, 50]))]);
        let seen = observer.observation();
        assert_eq!((seen.down.bytes, seen.down.spare_bps, seen.home_busy_s), (5000, None, None));
        assert!(seen.unknown[0].contains("do not pass this machine"), "{:?}", seen.unknown);
    }
}
