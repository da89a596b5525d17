//! Default law and default queue of a scenario.

use leeway_control::LawSpec;
use leeway_queue::QueueSpec;

/// Law of a flow group without a law.
pub(super) fn newreno() -> LawSpec {
    LawSpec::new("newreno").expect("the table of laws begins with it")
}

/// Queue of a channel without a queue.
pub(super) fn droptail() -> QueueSpec {
    QueueSpec::default()
}
