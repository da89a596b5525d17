//! Who is logged in.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A session without a request ends after that.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; the one that was silent longest ends for another.
const MOST: usize = 32;
/// One browser that has given the password.
#[derive(Debug, Clone)]
struct Session {
    csrf: String,
    seen: Instant,
}

/// All of them. A restart of the gateway ends them.
#[derive(Debug, Default)]
pub struct Sessions {
    open: Mutex<BTreeMap<String, Session>>,
}

impl Sessions {
    /// Begins one; returns its name, for the cookie.
    pub fn begin(&self) -> String {
        let (now, name, csrf) = (Instant::now(), random(), random());
        let mut open = lock(&self.open);
        if open.len() >= MOST
            && let Some(oldest) = open.iter().min_by_key(|(_, session)| session.seen)
        {
            let oldest = oldest.0.clone();
            open.remove(&oldest);
        }
        open.insert(name.clone(), Session { csrf, seen: now });
        name
    }

    /// The token of that session's forms, if there is one of that name.
    pub fn csrf(&self, name: &str) -> Option<String> {
        let now = Instant::now();
        let mut open = lock(&self.open);
        open.retain(|_, session| now.duration_since(session.seen) < IDLE);
        let session = open.get_mut(name)?;
        session.seen = now;
        Some(session.csrf.clone())
    }

    /// Ends one.
    pub fn end(&self, name: &str) {
        lock(&self.open).remove(name);
    }
}

/// 256 bits that nobody guesses.
fn random() -> String {
    use std::fmt::Write;
    let mut bytes = [0; 32];
    // The kernel's generator does not fail once the machine has booted.
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_bounded_and_end() {
        let sessions = Sessions::default();
        let first = sessions.begin();
        assert!(sessions.csrf(&first).is_some() && sessions.csrf("").is_none());
        let more: Vec<String> = (0..MOST).map(|_| sessions.begin()).collect();
        assert!(sessions.csrf(&first).is_none(), "the oldest has ended");
        sessions.end(&more[5]);
        assert!(sessions.csrf(&more[5]).is_none() && sessions.csrf(&more[6]).is_some());
    }
}
