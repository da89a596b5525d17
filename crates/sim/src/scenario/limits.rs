//! Bounds on what a scenario may ask for, so that no file, however hostile, hangs a machine or fills its memory.
//! All are far beyond what the literature simulates.

use leeway_units::{Bytes, Duration, Rate};

/// Length of a scenario file, in bytes.
pub const FILE_BYTES: usize = 4_000_000;
/// Length of a trace file, in bytes.
pub const TRACE_BYTES: u64 = 64_000_000;
/// Simulated time (11 days).
pub const DURATION: Duration = Duration::from_secs(1_000_000);
/// Any delay, pause or timeout.
pub const DELAY: Duration = Duration::from_secs(1_000);
/// Any rate: 1 Tbit/s.
pub const RATE: Rate = Rate::from_bits_per_sec(1_000_000_000_000);
/// Flows of all groups together.
pub const FLOWS: u64 = 100_000;
/// Flow groups.
pub const GROUPS: usize = 10_000;
/// Links in a file.
pub const LINKS: usize = 1_000;
/// Links altogether, like ones counted.
pub const LIKE_LINKS: u64 = 20_000;
/// Events, entries of a rate list, intervals of a group.
pub const ENTRIES: usize = 100_000;
/// Windows.
pub const WINDOWS: usize = 100;
/// Windows times links and groups.
pub const WINDOW_ROWS: usize = 20_000;
/// Packets that all links can carry in the duration.
pub const PACKETS: f64 = 2e10;
/// Packets that can be inside the network at once, in queues and on the way.
pub const PACKETS_INSIDE: f64 = 2e7;
/// Connections and transfers that begin in the duration.
pub const TRANSFERS: f64 = 5e6;
/// Rows of recorded series.
pub const SERIES_ROWS: f64 = 5e7;
/// Runs with different seeds.
pub const REPETITIONS: u32 = 100_000;
/// Points of a sweep.
pub const SWEEP_POINTS: usize = 100_000;
/// Runs altogether.
pub const RUNS: u64 = 1_000_000;
/// A buffer given in multiples of the BDP.
pub const BDP_MILLIONTHS: u64 = 1_000_000_000;
/// Size of a packet on the wire.
pub const PACKET: Bytes = Bytes::new(65_535);
/// Length of a name, in characters.
pub const NAME: usize = 60;
