//! Each user's part of the window: what a user has under way that does not move is no more than an equal part.
//!
//! Deficit round robin makes users equal in what they are granted. A user whose servers send slowly would still hold most of the
//! window, because what is granted stays granted until it arrives. So a user may have under way an equal part of the window, or twice
//! what has arrived for it in a round trip (which a slow start needs), whichever is more.

use crate::id::{ById, UserId};

/// What users have under way, and how it moves.
#[derive(Debug, Default)]
pub struct Parts {
    /// Those who have something under way.
    users: ById<UserId, Part>,
    round: u64,
}

#[derive(Debug, Default)]
struct Part {
    granted_bytes: u64,
    /// In this round trip and in the one before.
    arrived_bytes: [u64; 2],
    round: u64,
}

impl Parts {
    /// A round trip has begun.
    pub fn begin_round(&mut self) {
        self.round += 1;
    }

    /// `bytes` are granted to `user`.
    pub fn grant(&mut self, user: UserId, bytes: u64) {
        let round = self.round;
        let part = self.users.entry(user).or_insert_with(|| Part { round, ..Part::default() });
        part.granted_bytes += bytes;
    }

    /// `bytes` of what was granted to `user` have arrived.
    pub fn arrived(&mut self, user: UserId, bytes: u64) {
        let round = self.round;
        if let Some(part) = self.users.get_mut(&user) {
            part.turn_to(round);
            part.arrived_bytes[0] += bytes;
        }
        self.gone(user, bytes);
    }

    /// `bytes` of what was granted to `user` will not come, or have.
    pub fn gone(&mut self, user: UserId, bytes: u64) {
        let Some(part) = self.users.get_mut(&user) else { return };
        part.granted_bytes = part.granted_bytes.saturating_sub(bytes);
        if part.granted_bytes == 0 {
            self.users.remove(&user);
        }
    }

    /// Whether `user` may have `bytes` more of a window of `window_bytes` under way.
    pub fn may(&self, user: UserId, bytes: u64, window_bytes: u64) -> bool {
        let Some(part) = self.users.get(&user) else { return true };
        let moves = match self.round - part.round {
            0 => part.arrived_bytes[0].max(part.arrived_bytes[1]),
            1 => part.arrived_bytes[0],
            _ => 0,
        };
        let equal = window_bytes / self.users.len() as u64;
        part.granted_bytes + bytes <= equal.max(2 * moves)
    }
}

impl Part {
    fn turn_to(&mut self, round: u64) {
        match round - self.round {
            0 => {}
            1 => self.arrived_bytes = [0, self.arrived_bytes[0]],
            _ => self.arrived_bytes = [0; 2],
        }
        self.round = round;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: UserId = UserId(1);
    const BOB: UserId = UserId(2);

    #[test]
    fn what_does_not_move_is_an_equal_part() {
        let mut parts = Parts::default();
        assert!(parts.may(ANN, 50_000, 10_000), "one grant in any case");
        parts.grant(ANN, 6_000);
        assert!(parts.may(ANN, 4_000, 10_000), "nobody else is there");
        parts.grant(BOB, 1_000);
        assert!(!parts.may(ANN, 1_000, 10_000) && parts.may(BOB, 4_000, 10_000));
        assert!(!parts.may(BOB, 4_001, 10_000));
        parts.gone(BOB, 1_000);
        assert!(parts.may(ANN, 4_000, 10_000), "he has gone");
    }

    #[test]
    fn what_moves_may_double_in_a_round_trip() {
        let mut parts = Parts::default();
        parts.grant(ANN, 12_000);
        parts.grant(BOB, 1_000);
        parts.arrived(ANN, 8_000);
        assert!(parts.may(ANN, 12_000, 10_000) && !parts.may(ANN, 12_001, 10_000));
        parts.begin_round();
        assert!(parts.may(ANN, 12_000, 10_000), "what came in the last one counts");
        parts.arrived(ANN, 1_000);
        parts.begin_round();
        assert!(parts.may(ANN, 2_000, 10_000) && !parts.may(ANN, 3_000, 10_000), "it has become slow");
        parts.begin_round();
        parts.begin_round();
        assert!(parts.may(ANN, 2_000, 10_000) && !parts.may(ANN, 2_001, 10_000), "and stopped");
    }
}
