//! Log of the engine, packet by packet, as lines of comma-separated values.

use crate::{Direction, Error};
use leeway_queue::{Ecn, Reason};
use leeway_units::Time;
use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::str::FromStr;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// The first line of a file.
pub const HEADER: &str = "direction,event,packet,at_ns,due_ns,bytes,flow,ecn,class,reason";

/// One event. Times are since the engine started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// The direction.
    pub direction: Direction,
    /// The packet's number in its direction, from 0.
    pub packet: u64,
    /// When it happened.
    pub at: Time,
    /// What happened.
    pub event: Event,
}

/// What can happen to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Read from its device and offered to the link.
    Arrive {
        /// Its length.
        bytes: u32,
        /// The hash that stands for its flow.
        flow: u32,
        /// Its ECN field.
        ecn: Ecn,
        /// Its traffic class.
        class: u8,
    },
    /// Dropped; the time is that of the link.
    Drop(Reason),
    /// Marked; the time is that of the link.
    Mark(Reason),
    /// Written to the other device.
    Leave {
        /// Departure from the link.
        due: Time,
    },
    /// No packet: the last time that the engine polled its links.
    Stop,
}

const ECN: [(Ecn, &str); 4] = [(Ecn::NotEct, "-"), (Ecn::Ect0, "ect0"), (Ecn::Ect1, "ect1"), (Ecn::Ce, "ce")];

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Record { direction, packet, at, event } = self;
        let (direction, at) = (direction.as_str(), at.nanos());
        match event {
            Event::Arrive { bytes, flow, ecn, class } => {
                let ecn = ECN.iter().find(|(value, _)| value == ecn).map_or("-", |(_, name)| name);
                write!(f, "{direction},arrive,{packet},{at},,{bytes},{flow},{ecn},{class},")
            }
            Event::Drop(reason) => write!(f, "{direction},drop,{packet},{at},,,,,,{reason}"),
            Event::Mark(reason) => write!(f, "{direction},mark,{packet},{at},,,,,,{reason}"),
            Event::Leave { due } => write!(f, "{direction},leave,{packet},{at},{},,,,,", due.nanos()),
            Event::Stop => write!(f, "{direction},stop,{packet},{at},,,,,,"),
        }
    }
}

impl FromStr for Record {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split(',').collect();
        let &[direction, event, packet, at, due, bytes, flow, ecn, class, reason] = fields.as_slice() else {
            return Err(format!("{} fields where there should be 10", fields.len()));
        };
        let reason = || {
            let found = Reason::ALL.into_iter().find(|known| known.as_str() == reason);
            found.ok_or_else(|| format!("`{reason}` is not a known reason"))
        };
        let event = match event {
            "arrive" => Event::Arrive {
                bytes: number(bytes)?,
                flow: number(flow)?,
                ecn: ECN
                    .iter()
                    .find(|(_, name)| *name == ecn)
                    .map(|&(value, _)| value)
                    .ok_or_else(|| format!("`{ecn}` is no ECN field"))?,
                class: number(class)?,
            },
            "drop" => Event::Drop(reason()?),
            "mark" => Event::Mark(reason()?),
            "leave" => Event::Leave { due: Time::from_nanos(number(due)?) },
            "stop" => Event::Stop,
            _ => return Err(format!("`{event}` is not a known event")),
        };
        let direction = Direction::BOTH.into_iter().find(|known| known.as_str() == direction);
        let direction = direction.ok_or("the direction is neither up nor down")?;
        Ok(Record { direction, packet: number(packet)?, at: Time::from_nanos(number(at)?), event })
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that fits"))
}

/// Reads a whole file.
pub fn read(path: &Path) -> Result<Vec<Record>, Error> {
    let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let wrong = |line: usize, message: String| {
        Error::file(path, io::Error::other(format!("line {}: {message}", line + 1)))
    };
    let mut lines = text.lines().enumerate();
    if lines.next().map(|(_, line)| line) != Some(HEADER) {
        return Err(wrong(0, format!("it should be `{HEADER}`")));
    }
    lines.map(|(index, line)| line.parse().map_err(|message| wrong(index, message))).collect()
}

/// Records on their way to a file. A separate thread writes them, so that the engine never waits
/// for a disk.
#[derive(Debug)]
pub struct Writer {
    batch: Vec<Record>,
    sender: Sender<Vec<Record>>,
    thread: JoinHandle<io::Result<()>>,
}

/// Records in one batch.
const BATCH: usize = 1024;

impl Writer {
    /// Starts a file.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|error| Error::file(path, error))?;
        let (sender, receiver) = channel::<Vec<Record>>();
        let thread = std::thread::spawn(move || {
            let mut file = BufWriter::new(file);
            writeln!(file, "{HEADER}")?;
            for batch in receiver {
                batch.iter().try_for_each(|record| writeln!(file, "{record}"))?;
            }
            file.flush()
        });
        Ok(Writer { batch: Vec::with_capacity(BATCH), sender, thread })
    }

    /// Adds a record.
    pub fn add(&mut self, record: Record) {
        self.batch.push(record);
        if self.batch.len() >= BATCH {
            let full = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
            // The thread stops early only when it cannot write; `finish` returns the reason.
            let _ = self.sender.send(full);
        }
    }

    /// Writes the remaining records.
    pub fn finish(self) -> io::Result<()> {
        let _ = self.sender.send(self.batch);
        drop(self.sender);
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that writes has died")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_as_they_were_written() {
        let events = [
            Event::Arrive { bytes: 1500, flow: u32::MAX, ecn: Ecn::Ect0, class: 1 },
            Event::Arrive { bytes: 40, flow: 0, ecn: Ecn::NotEct, class: 0 },
            Event::Drop(Reason::Tail),
            Event::Mark(Reason::Aqm),
            Event::Leave { due: Time::from_nanos(7) },
            Event::Stop,
        ];
        for event in events {
            let record =
                Record { direction: Direction::Down, packet: u64::MAX, at: Time::from_nanos(9), event };
            assert_eq!(record.to_string().parse(), Ok(record));
        }
    }

    #[test]
    fn what_is_no_record_says_why() {
        for (line, why) in [
            ("up,drop,1,2", "should be 10"),
            ("up,drop,1,2,,,,,,bored", "not a known reason"),
            ("up,arrive,1,2,,-5,0,-,0,", "`-5`"),
            ("sideways,stop,1,2,,,,,,", "neither up nor down"),
            ("up,vanish,1,2,,,,,,", "not a known event"),
        ] {
            let error = line.parse::<Record>().unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
