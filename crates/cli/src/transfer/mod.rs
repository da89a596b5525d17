//! `leeway send` and `leeway recv`: move a file over uTP, under a law that yields to all other
//! traffic.

mod frame;
mod meter;
mod pace;
mod part;
mod place;
mod talk;

pub mod recv;
pub mod send;

/// Default UDP port of `leeway recv`.
const PORT: u16 = 4434;
/// Bytes that are read from a file or a stream at a time.
const CHUNK_BYTES: usize = 1 << 17;
/// Bytes in flight or waiting to be read: the BDP of 160 Mbit/s at a round trip of 100 ms.
const BUFFER_BYTES: usize = 2 << 20;

/// Settings of the uTP connection.
fn config() -> leeway_utp::Config {
    let mut config = leeway_utp::Config::default();
    config.send_bytes = BUFFER_BYTES;
    config.receive_bytes = BUFFER_BYTES;
    config
}
