//! Messages of libbpf. Printing is one setting of the whole process, so only one piece of work
//! runs at a time.

use crate::error::KernelError;
use libbpf_rs::{ErrorKind, PrintLevel};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The messages of the present work.
static SAID: Mutex<String> = Mutex::new(String::new());
static WORKING: Mutex<()> = Mutex::new(());
/// Lines kept of the verifier's log: its end says what is wrong.
const LOG_LINES: usize = 40;

/// Runs work whose messages libbpf would print to the standard error; the messages go into the
/// error instead.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let _one = lock(&WORKING);
    lock(&SAID).clear();
    let before = libbpf_rs::set_print(Some((PrintLevel::Warn, listen)));
    let result = work();
    libbpf_rs::set_print(before);
    result
}

/// The error for a refusal within [`quietly`].
pub(crate) fn refused(law: &'static str, doing: &str, error: &libbpf_rs::Error) -> KernelError {
    let said = lock(&SAID);
    // The verifier says "permission denied" as well; then it also says why.
    let judged = said.contains("BEGIN PROG LOAD LOG");
    if error.kind() == ErrorKind::PermissionDenied && !judged {
        return KernelError::Permission { doing: doing.to_owned() };
    }
    let lines: Vec<&str> = said.lines().collect();
    let log = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    KernelError::Refused { law, reason: format!("{error:#}"), log }
}

fn listen(_: PrintLevel, text: String) {
    lock(&SAID).push_str(&text);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
