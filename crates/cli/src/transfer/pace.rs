//! The least that a sender must do in a time, so that no stranger keeps the receiver's only place.

use super::talk::{self, Stop};
use std::io;
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// A sender must send [`LEAST_BYTES`] in each [`WINDOW`]: 14 bytes a second. A law's lowest window,
/// 0.01 packets of 1,400 bytes, is twice as fast on a path with a round trip of 500 ms.
const LEAST_BYTES: usize = 8192;
const WINDOW: Duration = Duration::from_secs(600);
/// The least speed at which a sender is expected to hash its file, in bytes a second.
const HASHED_PER_S: u64 = 1_000_000;

/// Measures whether bytes arrive fast enough.
pub struct Pace {
    since: Instant,
    bytes: usize,
}

impl Pace {
    pub fn new() -> Self {
        Pace { since: Instant::now(), bytes: 0 }
    }

    /// Waits for bytes, at most until the window ends.
    pub async fn read<T>(&self, read: impl Future<Output = T>) -> io::Result<T> {
        timeout_at(self.since + WINDOW, read).await.map_err(|_| {
            let least = crate::account::bytes(LEAST_BYTES as u64);
            let words = format!("the other side has sent less than {least} in {} min", WINDOW.as_secs() / 60);
            io::Error::new(io::ErrorKind::TimedOut, words)
        })
    }

    /// Counts bytes that came. Enough of them begin the next window.
    pub fn moved(&mut self, bytes: usize) {
        self.bytes += bytes;
        if self.bytes >= LEAST_BYTES {
            *self = Pace::new();
        }
    }
}

/// The most time for a frame before which the sender hashes `bytes` of its file.
pub fn for_hashing(bytes: u64) -> Duration {
    talk::QUIET + Duration::from_secs(bytes / HASHED_PER_S)
}

/// Waits for a frame. WORKING frames do not prolong the time.
pub async fn within<T>(most: Duration, frame: impl Future<Output = Result<T, Stop>>) -> Result<T, Stop> {
    timeout(most, frame).await.unwrap_or_else(|_| {
        let words = format!("the other side has worked for more than {} s", most.as_secs());
        Err(io::Error::new(io::ErrorKind::TimedOut, words).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn who_says_that_it_works_for_ever_is_dropped() {
        let began = Instant::now();
        let frame = async {
            sleep(Duration::from_secs(1_000_000)).await;
            Ok(())
        };
        let end = within(for_hashing(5_000_000_000), frame).await;
        let Err(Stop::Connection(error)) = end else { panic!("{end:?}") };
        assert!(error.to_string().contains("more than 5060 s"), "{error}");
        assert_eq!(began.elapsed().as_secs(), 5060);
    }
}
