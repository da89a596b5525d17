//! A stack of one's own under a law: a sender on a link of 10 Mbit/s and 50 ms with a drop-tail queue
//! of 100 packets.
//!
//! ```text
//! cargo run --release -p leeway-control --example toy -- ledbat:target=25ms 20
//! ```
//!
//! The network is a toy: lost data is not sent again. What counts is how a program builds a law,
//! reports acknowledgements and losses to the law, and reads the window back.

use leeway_control::sender::{self, Sender};
use leeway_control::{Ack, Law, LawSpec, Loss, Path};
use std::collections::VecDeque;
use std::process::ExitCode;

const MSS: u32 = 1448;
const PACKET_US: u64 = 1_200;
const PATH_US: u64 = 50_000;
const BUFFER_PACKETS: u64 = 100;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(law), Some(seconds)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: toy LAW SECONDS, for example: toy ledbat:target=25ms 20");
        return ExitCode::from(2);
    };
    // A law that does not exist is explained by the error, with those that do.
    match (law.parse::<LawSpec>(), seconds.parse::<u64>()) {
        (Ok(law), Ok(seconds)) => run(&law, seconds),
        (Err(error), _) => return complain(&error.to_string()),
        (_, Err(error)) => return complain(&format!("{seconds}: {error}; give whole seconds, such as 20")),
    }
    ExitCode::SUCCESS
}

fn complain(what: &str) -> ExitCode {
    eprintln!("toy: {what}");
    ExitCode::from(2)
}

fn run(law: &LawSpec, seconds: u64) {
    let mut connection = Connection::new(law);
    println!("{:>5} {:>10} {:>10} {:>10} phase", "s", "Mbit/s", "window B", "queue ms");
    let mut now_us = 0;
    for second in 1..=seconds {
        let before = connection.delivered_bytes;
        while now_us < second * 1_000_000 {
            connection.send(now_us);
            now_us = connection.next_event(now_us);
        }
        let output = connection.law.output();
        println!(
            "{second:>5} {:>10.2} {:>10} {:>10.1} {}",
            (connection.delivered_bytes - before) as f64 * 8.0 / 1e6,
            output.cwnd_q16 >> 16,
            f64::from(output.queuing_delay_us) / 1000.0,
            output.phase(),
        );
    }
}

struct Packet {
    number: u64,
    sent_us: u64,
    /// When the sender hears of it.
    returns_us: u64,
    is_lost: bool,
}

struct Connection {
    law: Law,
    path: Path,
    common: Sender,
    under_way: VecDeque<Packet>,
    /// When the link has sent what waits before it.
    free_at_us: u64,
    next: u64,
    round_end: u64,
    recovery_end: u64,
    delivered_bytes: u64,
}

impl Connection {
    fn new(law: &LawSpec) -> Self {
        let path = Path { mss_bytes: MSS, initial_window_bytes: 10 * MSS, ..Path::default() };
        Connection {
            law: law.build(&path),
            path,
            common: Sender::default(),
            under_way: VecDeque::new(),
            free_at_us: 0,
            next: 0,
            round_end: 0,
            recovery_end: 0,
            delivered_bytes: 0,
        }
    }

    /// Fills the window.
    fn send(&mut self, now_us: u64) {
        let mss = u64::from(MSS);
        let window = self.common.window(self.law.output(), MSS).max(mss);
        while self.path.inflight_bytes + mss <= window {
            let wait_us = self.free_at_us.saturating_sub(now_us);
            let is_lost = wait_us >= BUFFER_PACKETS * PACKET_US;
            let leaves_us = now_us + wait_us + if is_lost { 0 } else { PACKET_US };
            self.free_at_us = leaves_us;
            let returns_us = leaves_us + PATH_US;
            self.under_way.push_back(Packet { number: self.next, sent_us: now_us, returns_us, is_lost });
            self.next += 1;
            self.path.inflight_bytes += mss;
        }
    }

    /// Plays the next acknowledgement or loss, and returns its time.
    fn next_event(&mut self, now_us: u64) -> u64 {
        let Some(packet) = self.under_way.pop_front() else { return now_us + PACKET_US };
        if packet.is_lost {
            self.lost(&packet)
        } else {
            self.acknowledged(&packet)
        }
        packet.returns_us
    }

    fn acknowledged(&mut self, packet: &Packet) {
        let prior_inflight_bytes = self.path.inflight_bytes;
        let rtt_us = (packet.returns_us - packet.sent_us) as u32;
        let path = &mut self.path;
        path.inflight_bytes -= u64::from(MSS);
        path.srtt_us = if path.srtt_us == 0 { rtt_us } else { (7 * path.srtt_us + rtt_us) / 8 };
        path.min_rtt_us = if path.min_rtt_us == 0 { rtt_us } else { path.min_rtt_us.min(rtt_us) };
        let round_start = packet.number >= self.round_end;
        if round_start {
            self.round_end = self.next;
        }
        let recovering = packet.number < self.recovery_end;
        let used_bytes = prior_inflight_bytes + u64::from(MSS);
        let ack = Ack {
            now_us: packet.returns_us,
            acked_bytes: MSS.into(),
            prior_inflight_bytes,
            rtt_us,
            // One host has both clocks here, so a one-way sample is a subtraction.
            owd_us: rtt_us,
            owd_resolution_us: 1,
            app_limited: u8::from(!sender::uses_window(self.law.output(), used_bytes)),
            round_start: u8::from(round_start),
            recovering: u8::from(recovering),
            last_kind: self.common.last_kind(MSS.into(), MSS, recovering),
            last_rtt_us: rtt_us,
            ..Ack::default()
        };
        self.delivered_bytes += u64::from(MSS);
        self.law.on_ack(&ack, &self.path);
    }

    fn lost(&mut self, packet: &Packet) {
        self.path.inflight_bytes -= u64::from(MSS);
        // One reaction a round trip.
        if packet.number < self.recovery_end {
            return;
        }
        self.recovery_end = self.next;
        let loss = Loss {
            now_us: packet.returns_us,
            lost_bytes: MSS.into(),
            sent_us: packet.sent_us,
            kind: Loss::DUPACK,
            timeouts: 0,
        };
        self.law.on_loss(&loss, &self.path);
    }
}
