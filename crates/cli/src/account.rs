//! The account of a command's traffic, printed at its end: bytes sent and received, how long the
//! traffic yielded, and its mean queue.

use crate::Failure;
use crate::output::atomic::AtomicFile;
use leeway_kernel::{Account, Confinement, Direction, Share, confinements};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::path::Path;

/// The numbers of an account, as JSON: for other programs, and between the helper and its users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Told {
    /// Bytes of IP packets that left, headers included.
    pub sent_bytes: u64,
    /// Bytes of IP packets that arrived, headers included.
    pub received_bytes: u64,
    /// The law of uploads.
    pub up: DirectionTotals,
    /// The law of downloads; `None` when they are not limited.
    pub down: Option<DirectionTotals>,
    /// Present when the uploads perhaps sat behind a fair queue, with a share of their own.
    pub share: Option<Part>,
}

/// Totals of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DirectionTotals {
    /// The law with its parameters.
    pub law: String,
    /// Seconds for which there was more to send than the law let through.
    pub busy_s: f64,
    /// The part of `busy_s` in which the window was less than half of its largest value.
    pub gave_way_s: f64,
    /// Mean queuing delay of the busy seconds, in milliseconds.
    pub mean_queue_ms: f64,
}

/// A steady part of the best rate, with a queue of its own: the sign of a fair queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// For how long, in seconds.
    pub seconds: u32,
    /// Part of the best rate, in percent.
    pub percent: f64,
    /// The queuing delay in this time, in milliseconds.
    pub queue_ms: f64,
}

impl Told {
    /// The account of a confinement.
    pub fn of(confinement: &Confinement) -> Result<Told, leeway_kernel::KernelError> {
        let Account { sent_bytes, received_bytes, up, down, share } = confinement.account()?;
        let law = confinement.spec.as_ref().map_or_else(|| confinement.law.clone(), ToString::to_string);
        let receive = confinement.receive.as_ref().map(ToString::to_string).unwrap_or_default();
        Ok(Told {
            sent_bytes,
            received_bytes,
            up: DirectionTotals::new(law, &up),
            down: down.map(|down| DirectionTotals::new(receive, &down)),
            share: share.as_ref().map(Part::new),
        })
    }
}

impl DirectionTotals {
    fn new(law: String, direction: &Direction) -> DirectionTotals {
        let seconds = |us: u64| us as f64 * 1e-6;
        DirectionTotals {
            law,
            busy_s: seconds(direction.watched_us),
            gave_way_s: seconds(direction.held_us),
            mean_queue_ms: direction.mean_queue_us as f64 * 1e-3,
        }
    }
}

impl Part {
    pub fn new(share: &Share) -> Part {
        let Share { seconds, permille, queue_us } = *share;
        Part { seconds, percent: f64::from(permille) / 10.0, queue_ms: f64::from(queue_us) / 1000.0 }
    }

    /// The possible causes as text; docs/run.md says more.
    pub fn explained(&self, who: &str) -> String {
        format!(
            "{who} has had a steady {:.0} % of its best rate, with a queue of its own of {:.1} ms. \
             Perhaps a fair queue gives each connection its own share. \
             Behind such a queue the law cannot see what others need. A router that honours DSCP LE (CAKE with diffserv3, 4 or 8; not fq_codel) serves this \
             traffic last. Or the line has become slower, or its buffer is \
             shorter than the law's target.",
            self.percent, self.queue_ms
        )
    }
}

/// The innermost confinement of a command that contains the process.
pub fn confinement_of(pid: u32) -> Result<Option<Confinement>, leeway_kernel::KernelError> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::/")) else { return Ok(None) };
    let path = Path::new(path);
    let inside = |one: &Confinement| !one.persistent && path.starts_with(&one.cgroup);
    Ok(confinements()?.into_iter().filter(inside).max_by_key(|one| one.cgroup.components().count()))
}

/// The file of `--json`.
#[derive(Serialize)]
struct File<'a> {
    command: Vec<String>,
    seconds: f64,
    /// The command's exit code; `None` when a signal ended the command.
    exit_code: Option<i32>,
    signal: Option<i32>,
    #[serde(flatten)]
    told: &'a Told,
}

/// How a command ended.
pub struct End {
    pub command: Vec<String>,
    pub seconds: f64,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
}

/// Writes the numbers to a file. The file appears only when it is complete.
pub fn write_json(mut to: AtomicFile, told: &Told, end: &End) -> Result<(), Failure> {
    let file = File {
        command: end.command.clone(),
        seconds: end.seconds,
        exit_code: end.exit_code,
        signal: end.signal,
        told,
    };
    serde_json::to_writer_pretty(&mut to, &file).map_err(io::Error::from)?;
    to.write_all(b"\n")?;
    Ok(to.commit()?)
}

/// The account in words.
pub fn words(told: &Told, seconds: f64) -> String {
    let (sent, came) = (bytes(told.sent_bytes), bytes(told.received_bytes));
    let mut text = format!("leeway: sent {sent}, received {came} in {}\n", duration(seconds));
    let directions = [("uploads", Some(&told.up)), ("downloads", told.down.as_ref())];
    for (what, totals) in directions.into_iter().filter_map(|(what, totals)| Some((what, totals?))) {
        if totals.busy_s >= 0.1 {
            text.push_str(&format!(
                "leeway: {what} gave way for {} of {}; mean queue {:.1} ms ({})\n",
                duration(totals.gave_way_s),
                duration(totals.busy_s),
                totals.mean_queue_ms,
                totals.law
            ));
        }
    }
    if let Some(share) = &told.share {
        text.push_str(&format!("leeway: {}\n", share.explained("it")));
    }
    text
}

/// A number of bytes with its unit.
pub fn bytes(count: u64) -> String {
    let count = count as f64;
    match count {
        ..1e3 => format!("{count} B"),
        1e3..1e6 => format!("{:.1} kB", count * 1e-3),
        1e6..1e9 => format!("{:.1} MB", count * 1e-6),
        _ => format!("{:.2} GB", count * 1e-9),
    }
}

/// A time in seconds, with a unit that suits its size.
pub fn duration(seconds: f64) -> String {
    match seconds {
        ..60.0 => format!("{seconds:.1} s"),
        60.0..3600.0 => format!("{} min {:.0} s", (seconds / 60.0) as u64, (seconds % 60.0).floor()),
        _ => format!("{} h {} min", (seconds / 3600.0) as u64, (seconds % 3600.0 / 60.0) as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Told {
        let up = DirectionTotals { law: "ebb".into(), busy_s: 125.0, gave_way_s: 43.21, mean_queue_ms: 1.44 };
        let down = DirectionTotals { law: "ledbat".into(), busy_s: 0.0, gave_way_s: 0.0, mean_queue_ms: 0.0 };
        Told { sent_bytes: 1_240_000_000, received_bytes: 3_140_000, up, down: Some(down), share: None }
    }

    #[test]
    fn an_account_is_told_in_words() {
        assert_eq!(
            words(&told(), 7325.0),
            "leeway: sent 1.24 GB, received 3.1 MB in 2 h 2 min\n\
             leeway: uploads gave way for 43.2 s of 2 min 5 s; mean queue 1.4 ms (ebb)\n"
        );
        let share = Some(Part { seconds: 12, percent: 49.4, queue_ms: 3.0 });
        let text = words(&Told { share, ..told() }, 9.0);
        for word in ["steady 49 %", "3.0 ms", "Perhaps", "DSCP LE", "CAKE", "not fq_codel"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[test]
    fn the_file_has_units_in_its_names_and_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("account.json");
        std::fs::write(&path, "before").expect("a file");
        let end = End { command: vec!["true".into()], seconds: 1.5, exit_code: Some(3), signal: None };
        let file = AtomicFile::create(&path).expect("a file");
        assert!(write_json(file, &told(), &end).is_ok());
        let read: serde_json::Value =
            serde_json::from_slice(&std::fs::read(&path).expect("a file")).expect("JSON");
        assert_eq!(read["sent_bytes"], 1_240_000_000);
        assert_eq!(read["up"]["gave_way_s"], 43.21);
        assert_eq!((&read["exit_code"], &read["command"][0]), (&3.into(), &"true".into()));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing beside it");
    }
}
