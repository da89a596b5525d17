//! Replay: gives the events that the kernel's law has recorded to the same law in user space.
//! Every byte of both states has to be equal.

use crate::spec;
use crate::testbed::{Flow, unique};
use leeway_control::{Ack, Law, LawSpec, Path};
use leeway_kernel::{Event, Load, Record, Recording};
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};

/// A law whose events are recorded, and the same law in user space.
pub struct Replayed {
    /// The law's name in the kernel.
    pub name: String,
    /// What the records have shown so far.
    pub seen: Seen,
    spec: LawSpec,
    recording: Recording,
    sockets: HashMap<u64, Socket>,
    deadline: Instant,
}

/// The law in user space of one connection.
struct Socket {
    law: Law,
    /// Number of the last event.
    number: u32,
    /// Time of the last acknowledgement.
    acked_us: Option<u64>,
}

/// Counters of what the records have shown.
#[derive(Default)]
pub struct Seen {
    pub acks: usize,
    pub losses: usize,
    /// Losses found by a retransmission timeout.
    pub timeouts: usize,
    pub marks: usize,
    pub undos: usize,
    /// The first acknowledgement of a connection after 250 ms without one, and the connection's
    /// initial window.
    pub restarts: Vec<(Ack, u32)>,
    /// The acknowledgements after which the window was below two segments.
    pub below_two: Vec<(Ack, Path)>,
    pub most_inflight_bytes: u64,
    pub app_limited: usize,
    /// One-way delays of the acknowledgements that have one.
    pub owd_us: Vec<u32>,
    /// Resolutions of the one-way delays (0, 1 or 1000 µs), in order.
    pub resolutions_us: Vec<u32>,
    /// Time of the last event.
    pub now_us: u64,
}

impl Replayed {
    pub fn new(law: &str) -> Replayed {
        let spec = spec(law);
        let name = unique(spec.name());
        let load = Load { name: name.clone(), ..Load::new(spec.clone()) };
        let recording = load.recorded().unwrap_or_else(|error| panic!("{error}"));
        let deadline = Instant::now() + Duration::from_secs(180);
        Replayed { name, spec, recording, sockets: HashMap::new(), seen: Seen::default(), deadline }
    }

    /// Sends until the records show `enough`.
    pub fn send_until(&mut self, flow: &mut Flow, enough: impl Fn(&Seen) -> bool) {
        while !enough(&self.seen) {
            flow.send();
            assert!(
                !self.late(),
                "{}: in three minutes only {}, on a connection of {flow}",
                self.spec,
                self.seen
            );
            self.read();
        }
    }

    fn late(&self) -> bool {
        Instant::now() > self.deadline
    }

    /// Waits until all bytes that were sent have arrived.
    pub fn drain(&mut self, flow: &Flow) {
        while !flow.drained() {
            std::thread::sleep(Duration::from_millis(5));
            self.read();
        }
    }

    /// Reads new records, and compares the states.
    pub fn read(&mut self) {
        assert!(!self.late(), "{}: in three minutes only {}", self.spec, self.seen);
        // A panic inside the callback would pass through libbpf, and could not be reported.
        let mut records = Vec::new();
        self.recording.read(Duration::ZERO, |record| records.push(record)).expect("the ring buffer");
        for record in records {
            compare(&self.spec, &mut self.sockets, &mut self.seen, &record);
        }
    }

    /// Prints one line for the test's log.
    pub fn report(&self) {
        eprintln!("{}: {} lead to equal states", self.spec, self.seen);
    }
}

fn compare(spec: &LawSpec, sockets: &mut HashMap<u64, Socket>, seen: &mut Seen, record: &Record) {
    let Record { socket, number, path, .. } = record;
    if let Event::Init = record.event {
        assert_eq!(*number, 1, "{spec}: a connection begins once");
        sockets.insert(*socket, Socket { law: spec.build_zeroed(path), number: 0, acked_us: None });
    }
    let Socket { law, number: last, acked_us } =
        sockets.get_mut(socket).expect("a connection begins with its init");
    assert_eq!(*number, *last + 1, "{spec}: an event was not recorded");
    *last = *number;
    match &record.event {
        Event::Init => {}
        Event::Ack(ack) => {
            if acked_us.replace(ack.now_us).is_some_and(|last| ack.now_us - last > 250_000) {
                seen.restarts.push((*ack, path.initial_window_bytes));
            }
            seen.take(ack);
            law.on_ack(ack, path);
            if law.window_bytes() < 2 * u64::from(path.mss_bytes) {
                seen.below_two.push((*ack, *path));
            }
        }
        Event::Loss(loss) => {
            seen.losses += 1;
            seen.timeouts += usize::from(loss.timeouts > 0);
            law.on_loss(loss, path);
        }
        Event::Undo => {
            seen.undos += 1;
            let word =
                |at: usize| u64::from_ne_bytes(record.state[at..at + 8].try_into().expect("eight bytes"));
            law.set_window(word(0), word(8));
        }
    }
    let bytes = law.state();
    assert!(
        bytes == record.state[..bytes.len()],
        "{spec}: event {number} ({:?}) left another state in the kernel:\n{:?}\nthan here:\n{bytes:?}",
        record.event,
        &record.state[..bytes.len()]
    );
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { acks, losses, timeouts, marks, undos, .. } = self;
        write!(
            f,
            "{acks} acks, {losses} losses ({timeouts} by timeout), {marks} marks and {undos} undone losses"
        )
    }
}

impl Seen {
    fn take(&mut self, ack: &Ack) {
        self.acks += 1;
        self.marks += usize::from(ack.ce_bytes > 0);
        self.now_us = ack.now_us;
        self.most_inflight_bytes = self.most_inflight_bytes.max(ack.prior_inflight_bytes);
        self.app_limited += usize::from(ack.app_limited != 0);
        if ack.owd_resolution_us > 0 {
            self.owd_us.push(ack.owd_us);
        }
        if !self.resolutions_us.contains(&ack.owd_resolution_us) {
            self.resolutions_us.push(ack.owd_resolution_us);
        }
    }
}
