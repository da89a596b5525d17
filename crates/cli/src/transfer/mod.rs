//! `leeway send` and `leeway recv`: a file over uTP, which gives way to everything else.

mod frame;
mod meter;
mod part;
mod place;
mod talk;

pub mod recv;
pub mod send;

/// Where `leeway recv` waits unless it is told otherwise; UDP.
const PORT: u16 = 4434;
/// Bytes that are read from a file, or from a stream, at a time.
const CHUNK_BYTES: usize = 1 << 17;
/// Bytes that may be under way, or wait to be read: at 100 ms as much as 160 Mbit/s need.
const BUFFER_BYTES: usize = 2 << 20;

/// How connections of files are made.
fn config() -> leeway_utp::Config {
    let mut config = leeway_utp::Config::default();
    config.send_bytes = BUFFER_BYTES;
    config.receive_bytes = BUFFER_BYTES;
    config
}
