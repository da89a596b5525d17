//! What libbpf says. Its printing is one setting of the whole process, so only one piece of work listens at a time.

use libbpf_rs::PrintLevel;
use std::sync::{Mutex, MutexGuard, PoisonError};

static SAID: Mutex<String> = Mutex::new(String::new());
static LISTENING: Mutex<()> = Mutex::new(());

/// Does the work, and returns with its result what libbpf and the verifier would have printed meanwhile.
pub(crate) fn heard<T>(work: impl FnOnce() -> T) -> (T, String) {
    let _one = lock(&LISTENING);
    lock(&SAID).clear();
    let before = libbpf_rs::set_print(Some((PrintLevel::Warn, listen)));
    let result = work();
    libbpf_rs::set_print(before);
    (result, std::mem::take(&mut *lock(&SAID)))
}

/// Does work whose errors say enough.
pub(crate) fn quiet<T>(work: impl FnOnce() -> T) -> T {
    heard(work).0
}

fn listen(_: PrintLevel, text: String) {
    lock(&SAID).push_str(&text);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
