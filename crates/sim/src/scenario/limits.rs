//! Limits of a scenario. They keep a file, however hostile, from using all memory or time of a
//! machine. All are far beyond what the literature simulates.

use leeway_units::{Bytes, Duration, Rate};

/// Size of a scenario file. Unit: bytes.
pub const FILE_BYTES: usize = 4_000_000;
/// Size of a trace file. Unit: bytes.
pub const TRACE_BYTES: u64 = 64_000_000;
/// Simulated time: 11 days.
pub const DURATION: Duration = Duration::from_secs(1_000_000);
/// Any delay, pause or timeout.
pub const DELAY: Duration = Duration::from_secs(1_000);
/// Any rate: 1 Tbit/s.
pub const RATE: Rate = Rate::from_bits_per_sec(1_000_000_000_000);
/// Flows of all groups together.
pub const FLOWS: u64 = 100_000;
/// Flow groups.
pub const GROUPS: usize = 10_000;
/// Entries of the list of links.
pub const LINKS: usize = 1_000;
/// Links in all, each of several like links counted.
pub const LIKE_LINKS: u64 = 20_000;
/// Events, entries of a rate list, intervals of a group.
pub const ENTRIES: usize = 100_000;
/// Windows.
pub const WINDOWS: usize = 100;
/// Windows times the number of links and groups.
pub const WINDOW_ROWS: usize = 20_000;
/// Packets that all links together can carry in the duration.
pub const PACKETS: f64 = 2e10;
/// Packets in the network at one time, in queues and on links.
pub const PACKETS_INSIDE: f64 = 2e7;
/// Connections and transfers that begin in the duration.
pub const TRANSFERS: f64 = 5e6;
/// Rows of the time series.
pub const SERIES_ROWS: f64 = 5e7;
/// Runs with different seeds.
pub const REPETITIONS: u32 = 100_000;
/// Points of a sweep.
pub const SWEEP_POINTS: usize = 100_000;
/// Runs in all: points times repetitions.
pub const RUNS: u64 = 1_000_000;
/// A buffer in BDP. Unit: millionths of a BDP.
pub const BDP_MILLIONTHS: u64 = 1_000_000_000;
/// Size of a packet on the wire.
pub const PACKET: Bytes = Bytes::new(65_535);
/// Length of a name, in characters.
pub const NAME: usize = 60;
