//! The account of bytes that were granted and have not arrived, by flow.
//!
//! Each direction has one ledger. A grant fits if granted bytes, expected foreground bytes and
//! the grant together are at most the window.

use crate::id::{ById, FlowId};
use std::collections::BTreeSet;

/// The ledger of one direction.
#[derive(Debug)]
pub struct Ledger {
    segment_bytes: u64,
    accounts: ById<FlowId, Account>,
    granted_bytes: u64,
    /// Time at which each account was last heard of, and its flow.
    waiting: BTreeSet<(u64, FlowId)>,
}

#[derive(Debug, Default)]
struct Account {
    granted_bytes: u64,
    /// Time at which an empty account was last granted bytes, or the last full segment arrived.
    heard_us: u64,
    /// Bytes that arrived since then.
    came_bytes: u64,
}

impl Ledger {
    /// An empty ledger. A flow counts as heard when `segment_bytes` of it have arrived. So the
    /// grants of a flow that sends less in the time that grants are held are given up.
    pub fn new(segment_bytes: u64) -> Ledger {
        Ledger { segment_bytes, accounts: ById::default(), granted_bytes: 0, waiting: BTreeSet::new() }
    }

    /// Bytes granted to all flows that have not arrived.
    pub fn granted_bytes(&self) -> u64 {
        self.granted_bytes
    }

    /// Number of flows with bytes in flight.
    pub fn flows(&self) -> usize {
        self.accounts.len()
    }

    /// Bytes granted to `flow` that have not arrived.
    pub fn granted_to(&self, flow: FlowId) -> u64 {
        self.accounts.get(&flow).map_or(0, |account| account.granted_bytes)
    }

    /// Bytes that still fit into a window of `window_bytes` beside `foreground_bytes`.
    pub fn room(&self, window_bytes: u64, foreground_bytes: u64) -> u64 {
        window_bytes.saturating_sub(self.granted_bytes.saturating_add(foreground_bytes))
    }

    /// Adds a grant of `bytes` to `flow`.
    pub fn grant(&mut self, now_us: u64, flow: FlowId, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let account = self.accounts.entry(flow).or_default();
        if account.granted_bytes == 0 {
            (account.heard_us, account.came_bytes) = (now_us, 0);
            self.waiting.insert((now_us, flow));
        }
        account.granted_bytes += bytes;
        self.granted_bytes += bytes;
    }

    /// Records that `bytes` of `flow` have arrived. Returns how many of them had been granted.
    pub fn arrived(&mut self, now_us: u64, flow: FlowId, bytes: u64) -> u64 {
        let taken = self.forgo(flow, bytes);
        if let Some(account) = self.accounts.get_mut(&flow) {
            account.came_bytes += bytes;
            if account.came_bytes >= self.segment_bytes {
                self.waiting.remove(&(account.heard_us, flow));
                (account.heard_us, account.came_bytes) = (now_us, 0);
                self.waiting.insert((now_us, flow));
            }
        }
        taken
    }

    /// Removes `bytes` of `flow` that will not arrive. Returns how many of them had been granted.
    /// An account without bytes is closed.
    pub fn forgo(&mut self, flow: FlowId, bytes: u64) -> u64 {
        let Some(account) = self.accounts.get_mut(&flow) else { return 0 };
        let gone = bytes.min(account.granted_bytes);
        account.granted_bytes -= gone;
        self.granted_bytes -= gone;
        if account.granted_bytes == 0 {
            self.waiting.remove(&(account.heard_us, flow));
            self.accounts.remove(&flow);
        }
        gone
    }

    /// Removes all bytes of `flow`. Returns how many they were.
    pub fn close(&mut self, flow: FlowId) -> u64 {
        self.forgo(flow, u64::MAX)
    }

    /// Gives up the grants of flows that were not heard of after `until_us`. Returns these flows,
    /// with the bytes of each.
    pub fn expire(&mut self, until_us: u64) -> Vec<(FlowId, u64)> {
        let mut expired = Vec::new();
        while let Some(&(heard_us, flow)) = self.waiting.first() {
            if heard_us > until_us {
                break;
            }
            expired.push((flow, self.close(flow)));
        }
        expired
    }

    /// The time at which the longest silent flow was last heard of, in microseconds.
    pub fn oldest_us(&self) -> Option<u64> {
        self.waiting.first().map(|&(heard_us, _)| heard_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_arrives_makes_room() {
        let (mut ledger, flow) = (Ledger::new(1000), FlowId::new(1));
        ledger.grant(10, flow, 1000);
        ledger.grant(20, flow, 1000);
        assert_eq!(ledger.arrived(30, flow, 1500), 1500);
        assert_eq!((ledger.granted_bytes(), ledger.room(2000, 700)), (500, 800));
        assert_eq!(ledger.arrived(50, flow, 600), 500);
        assert_eq!(ledger.arrived(60, flow, 600), 0, "more than was granted is not on the books");
    }

    #[test]
    fn the_silent_are_given_up_and_those_who_are_heard_are_not() {
        let (mut ledger, [silent, heard]) = (Ledger::new(1000), [1, 2].map(FlowId::new));
        ledger.grant(10, silent, 1000);
        ledger.grant(10, heard, 3000);
        ledger.arrived(90, heard, 1000);
        assert_eq!(ledger.expire(50), [(silent, 1000)]);
        assert_eq!(
            (ledger.granted_bytes(), ledger.granted_to(heard), ledger.oldest_us()),
            (2000, 2000, Some(90))
        );
        assert_eq!(ledger.expire(90), [(heard, 2000)]);
    }

    proptest! {
        /// Bytes are conserved, for each flow and in the sum: granted = arrived + forgone +
        /// expired + outstanding.
        #[test]
        fn bytes_are_conserved(steps in proptest::collection::vec((0u8..5, 0u64..5, 0u64..5000), 1..400)) {
            let mut ledger = Ledger::new(1000);
            let mut outstanding = [0u64; 5];
            for (now_us, (step, number, bytes)) in steps.into_iter().enumerate() {
                let (now_us, flow) = (now_us as u64, FlowId::new(number));
                let due = &mut outstanding[number as usize];
                match step {
                    0 | 1 => { ledger.grant(now_us, flow, bytes); *due += bytes; }
                    2 => {
                        let taken = ledger.arrived(now_us, flow, bytes);
                        prop_assert_eq!(taken, bytes.min(*due));
                        *due -= taken;
                    }
                    3 => *due -= ledger.forgo(flow, bytes),
                    _ => for (flow, gone) in ledger.expire(now_us.saturating_sub(bytes % 50)) {
                        outstanding[flow.number() as usize] -= gone;
                    },
                }
                prop_assert_eq!(ledger.granted_bytes(), outstanding.iter().sum::<u64>());
                for (number, &due) in outstanding.iter().enumerate() {
                    prop_assert_eq!(ledger.granted_to(FlowId::new(number as u64)), due);
                }
                prop_assert_eq!(ledger.waiting.len(), ledger.accounts.len());
            }
        }
    }
}
