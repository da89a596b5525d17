//! Sessions of visitors who are logged in.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A session ends after this time without a request.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Most sessions at a time. For one more, the session that was silent longest ends.
const MOST: usize = 32;

/// One browser that has given the password.
#[derive(Debug, Clone)]
struct Session {
    owner: String,
    csrf: String,
    seen: Instant,
}

/// All sessions. A restart of the gateway ends them.
#[derive(Debug, Default)]
pub struct Sessions {
    open: Mutex<BTreeMap<String, Session>>,
}

impl Sessions {
    /// Begins a session of `owner`, and returns its name for the cookie.
    pub fn begin(&self, owner: &str) -> String {
        let (now, name, csrf) = (Instant::now(), random(), random());
        let mut open = lock(&self.open);
        if open.len() >= MOST
            && let Some(oldest) = open.iter().min_by_key(|(_, session)| session.seen)
        {
            let oldest = oldest.0.clone();
            open.remove(&oldest);
        }
        open.insert(name.clone(), Session { owner: owner.to_owned(), csrf, seen: now });
        name
    }

    /// The token for the forms of a session, if there is such a session. Sessions of owners who
    /// are not `known` any more end.
    pub fn csrf(&self, name: &str, known: impl Fn(&str) -> bool) -> Option<String> {
        let now = Instant::now();
        let mut open = lock(&self.open);
        open.retain(|_, session| now.duration_since(session.seen) < IDLE && known(&session.owner));
        let session = open.get_mut(name)?;
        session.seen = now;
        Some(session.csrf.clone())
    }

    /// Ends a session.
    pub fn end(&self, name: &str) {
        lock(&self.open).remove(name);
    }
}

/// A random text of 256 bits, which nobody can guess.
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
        let open = |name: &str| sessions.csrf(name, |_| true).is_some();
        let first = sessions.begin("ann");
        assert!(open(&first) && !open(""));
        let more: Vec<String> = (0..MOST).map(|n| sessions.begin(["ann", "bob"][n % 2])).collect();
        assert!(!open(&first), "the oldest has ended");
        sessions.end(&more[5]);
        assert!(!open(&more[5]) && open(&more[6]));
        assert!(sessions.csrf(&more[8], |owner| owner != "bob").is_some());
        assert!(!open(&more[7]) && open(&more[8]), "bob is no owner any more");
    }
}
