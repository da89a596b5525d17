//! Numbers of users and flows.

/// Somebody who has a share of his own, whatever number of flows he has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserId(pub u64);

/// One connection, or one port for datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

impl FlowId {
    pub(crate) fn new(number: u64) -> FlowId {
        FlowId(number)
    }

    /// The number, for logs.
    pub fn number(self) -> u64 {
        self.0
    }
}
