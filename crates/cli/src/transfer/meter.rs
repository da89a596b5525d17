//! The progress bar of a transfer, and its account at the end.

use crate::account::{bytes, duration};
use crate::output::stdout;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use leeway_kernel::Way;
use leeway_utp::Stream;
use serde::Serialize;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Time between two samples of the connection's state.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Watches one transfer.
pub struct Meter {
    bar: ProgressBar,
    began: Instant,
    looked: Instant,
    watch: Watch,
}

/// What a sender's law did so far.
#[derive(Default)]
struct Watch {
    way: Way,
    busy_us: u64,
    acknowledged_bytes: u64,
    sending: Sending,
}

/// What the law did; only the sender has this.
#[derive(Clone, Default, Serialize)]
pub struct Sending {
    /// The law with its parameters.
    law: String,
    /// Payload bytes that were sent again, because they were lost or late.
    resent_bytes: u64,
    /// Seconds with more to send than the law let leave.
    busy_s: f64,
    /// The part of `busy_s` in seconds with less than half of the best second's rate so far.
    gave_way_s: f64,
    /// Mean queuing delay of the busy seconds, in milliseconds.
    mean_queue_ms: f64,
    /// Smoothed round-trip time at the end, in milliseconds.
    srtt_ms: f64,
}

/// The account of a transfer.
#[derive(Serialize)]
pub struct Account {
    pub file: String,
    pub peer: String,
    /// Bytes of the file.
    pub size_bytes: u64,
    /// Bytes that were already there from an earlier transfer.
    pub resumed_bytes: u64,
    pub seconds: f64,
    pub blake3: String,
    #[serde(flatten)]
    pub sending: Option<Sending>,
}

impl Meter {
    /// Begins with `offset_bytes` of `size_bytes`. With `show`, a bar is drawn if the standard
    /// error is a terminal.
    pub fn new(size_bytes: u64, offset_bytes: u64, show: bool) -> Meter {
        let bar = match show && io::stderr().is_terminal() {
            true => ProgressBar::new(size_bytes),
            false => ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()),
        };
        let template =
            "{wide_bar} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_position(offset_bytes);
        bar.reset_eta();
        let now = Instant::now();
        Meter { bar, began: now, looked: now, watch: Watch::default() }
    }

    /// Counts bytes that were moved.
    pub fn moved(&self, more_bytes: usize) {
        self.bar.inc(more_bytes as u64);
    }

    /// Samples the connection's state, if [`LOOK_EVERY`] has passed.
    pub fn look(&mut self, stream: &Stream) {
        let span = self.looked.elapsed();
        if span < LOOK_EVERY {
            return;
        }
        self.looked = Instant::now();
        let Some(steering) = stream.steering() else { return };
        let sending = &mut self.watch.sending;
        sending.resent_bytes = steering.resent_bytes;
        sending.srtt_ms = steering.srtt_us as f64 * 1e-3;
        // Until a lost packet is sent again it counts as acknowledged.
        let outstanding_bytes = steering.resent_bytes + steering.in_flight_bytes;
        let acknowledged_bytes = steering.sent_bytes.saturating_sub(outstanding_bytes);
        let busy = steering.limited.then_some(steering.queuing_delay_us);
        self.watch.take(self.began.elapsed(), span, acknowledged_bytes, busy);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }

    pub fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// What the law did during the whole transfer.
    pub fn sending(&mut self, stream: &Stream, law: String) -> Sending {
        self.looked -= LOOK_EVERY;
        self.look(stream);
        Sending { law, ..self.watch.sending.clone() }
    }
}

impl Watch {
    /// Takes a sample `at` a time, a `span` after the last one. `busy` is the queuing delay in
    /// microseconds; `None` if the law did not limit the sender.
    fn take(&mut self, at: Duration, span: Duration, acknowledged_bytes: u64, busy: Option<u32>) {
        let sending = &mut self.sending;
        if let Some(queue_us) = busy {
            let (seconds, queue_ms) = (span.as_secs_f64(), f64::from(queue_us) * 1e-3);
            sending.busy_s += seconds;
            sending.mean_queue_ms += (queue_ms - sending.mean_queue_ms) * seconds / sending.busy_s;
            self.busy_us += span.as_micros() as u64;
        }
        // A loss may take back a little.
        self.acknowledged_bytes = self.acknowledged_bytes.max(acknowledged_bytes);
        self.way.look(at.as_micros() as u64, self.acknowledged_bytes, self.busy_us);
        sending.gave_way_s = self.way.held_us() as f64 * 1e-6;
    }
}

impl Account {
    /// Prints the account: as JSON on the standard output, or as text on the standard error.
    pub fn tell(&self, json: bool, quiet: bool) -> io::Result<()> {
        if json {
            let mut out = stdout();
            serde_json::to_writer_pretty(&mut out, self)?;
            return writeln!(out);
        }
        if !quiet {
            eprint!("{}", self.words());
        }
        Ok(())
    }

    fn words(&self) -> String {
        let moved = self.size_bytes - self.resumed_bytes;
        let (verb, from) = if self.sending.is_some() { ("sent", "to") } else { ("received", "from") };
        let rate = bytes((moved as f64 / self.seconds.max(1e-6)) as u64);
        let mut text = format!(
            "leeway: {verb} {} {from} {}: {} in {}, {rate}/s\n",
            self.file,
            self.peer,
            bytes(moved),
            duration(self.seconds)
        );
        if self.resumed_bytes > 0 {
            text += &format!("leeway: {} were there already\n", bytes(self.resumed_bytes));
        }
        if let Some(sending) = self.sending.as_ref().filter(|sending| sending.busy_s >= 0.1) {
            text += &format!(
                "leeway: gave way for {} of {}; mean queue {:.1} ms, round trip {:.1} ms, {} sent again ({})\n",
                duration(sending.gave_way_s),
                duration(sending.busy_s),
                sending.mean_queue_ms,
                sending.srtt_ms,
                bytes(sending.resent_bytes),
                sending.law
            );
        }
        text + &format!("leeway: BLAKE3 {}\n", self.blake3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_law_gives_way_while_less_comes_through_whatever_its_window() {
        let mut watch = Watch::default();
        let (span, mut at, mut bytes) = (LOOK_EVERY, Duration::ZERO, 0);
        let mut pass = |watch: &mut Watch, seconds: u32, rate: u64, busy| {
            for _ in 0..10 * seconds {
                at += span;
                bytes += rate / 10;
                watch.take(at, span, bytes, busy);
            }
        };
        // Alone on the line, after a slow start that left the window at four times of what the line carries.
        pass(&mut watch, 10, 1_200_000, Some(25_000));
        assert_eq!(watch.sending.gave_way_s, 0.0);
        pass(&mut watch, 3, 12_000, Some(80_000));
        assert!((2.9..=3.1).contains(&watch.sending.gave_way_s), "{}", watch.sending.gave_way_s);
        // The peer does not read: nobody else has the line.
        pass(&mut watch, 5, 0, None);
        assert!(watch.sending.gave_way_s <= 3.1, "{}", watch.sending.gave_way_s);
        assert!((watch.sending.busy_s - 13.0).abs() < 0.01, "{}", watch.sending.busy_s);
    }

    #[test]
    fn the_account_is_told_in_words() {
        let sending = Sending {
            law: "ledbat".into(),
            resent_bytes: 3000,
            busy_s: 124.0,
            gave_way_s: 43.21,
            mean_queue_ms: 21.44,
            srtt_ms: 52.1,
        };
        let account = Account {
            file: "a.iso".into(),
            peer: "192.0.2.7:4434".into(),
            size_bytes: 1_250_000_000,
            resumed_bytes: 10_000_000,
            seconds: 125.0,
            blake3: "af13".into(),
            sending: Some(sending),
        };
        assert_eq!(
            account.words(),
            "leeway: sent a.iso to 192.0.2.7:4434: 1.24 GB in 2 min 5 s, 9.9 MB/s\n\
             leeway: 10.0 MB were there already\n\
             leeway: gave way for 43.2 s of 2 min 4 s; mean queue 21.4 ms, round trip 52.1 ms, 3.0 kB sent again (ledbat)\n\
             leeway: BLAKE3 af13\n"
        );
    }
}
