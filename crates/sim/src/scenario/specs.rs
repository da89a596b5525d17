//! What laws and queues a scenario gets where it names none.

use leeway_control::LawSpec;
use leeway_queue::QueueSpec;

/// The law of a group that names none.
pub(super) fn newreno() -> LawSpec {
    LawSpec::new("newreno").expect("the table of laws begins with it")
}

/// The queue of a channel that names none.
pub(super) fn droptail() -> QueueSpec {
    QueueSpec::default()
}
