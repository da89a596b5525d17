//! Signals that ask this process to end (SIGINT, SIGTERM, SIGHUP), for commands that clean up
//! first.

use crate::Failure;
use crate::attend::ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether a signal has asked this process to end. Signals that are ignored, as under nohup, stay
/// ignored.
pub struct Ending(Arc<AtomicBool>);

impl Ending {
    /// Listens from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn heard() -> Result<Ending, Failure> {
        let ending = Arc::new(AtomicBool::new(false));
        let ignored = ignored();
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0)
        {
            flag::register(signal, ending.clone())?;
        }
        Ok(Ending(ending))
    }

    /// Whether a signal has come.
    pub fn now(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until `at`, or until a signal. Returns `true` if no signal came.
    pub fn sleep_until(&self, at: Instant) -> bool {
        while !self.now() {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        false
    }
}
