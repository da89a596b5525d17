//! Every constant of the sharing, with its unit and its reason.
//!
//! `cargo run --release -p leeway-sim --example sharing -- sensitivity` shows what each is worth.

use crate::error::ShareError;

/// Least time that a receiver waits for a second segment before it acknowledges a lone one, in
/// microseconds: 40 ms in Linux (`TCP_DELACK_MIN`). RFC 5681, 4.2 allows up to 500 ms.
pub(crate) const LATE_ACK_US: u32 = 40_000;

/// What acknowledgements of downloads may take of a line on which the foreground uploads, in
/// thousandths of its rate: a twentieth, so that the foreground has 0.95 of it.
pub(crate) const ACKS_PERMILLE: u64 = 50;

/// An acknowledgement, in bytes: headers of IPv4 and TCP with timestamps (RFC 791, RFC 9293,
/// RFC 7323). One leaves for each segment, because windows are small.
pub(crate) const ACK_BYTES: u64 = 52;

/// One constant of a [`Policy`].
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Its field.
    pub name: &'static str,
    /// Its value where nothing else is said.
    pub default: u64,
    /// The least it can be.
    pub least: u64,
    /// The most it can be.
    pub most: u64,
    /// Of the value.
    pub unit: &'static str,
    /// Why it is there, and why it has this value.
    pub reason: &'static str,
}

macro_rules! policy {
    ($($name:ident = $default:literal, $least:literal..=$most:literal, $unit:literal, $reason:literal;)*) => {
        /// What a line's owner decides, and what the mechanism needs to know. See [`Policy::CONSTANTS`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Policy {
            $(#[doc = $reason] #[doc = concat!("Unit: ", $unit, ".")] pub $name: u64,)*
        }

        impl Default for Policy {
            fn default() -> Policy {
                Policy { $($name: $default,)* }
            }
        }

        impl Policy {
            /// All constants, in the order in which they are shown.
            pub const CONSTANTS: &'static [Constant] = &[$(Constant {
                name: stringify!($name), default: $default, least: $least, most: $most, unit: $unit, reason: $reason,
            },)*];

            /// The value of a constant.
            ///
            /// # Errors
            /// [`ShareError::UnknownConstant`].
            pub fn get(&self, name: &str) -> Result<u64, ShareError> {
                match name {
                    $(stringify!($name) => Ok(self.$name),)*
                    _ => Err(ShareError::unknown_constant(name)),
                }
            }

            fn field(&mut self, name: &str) -> Option<&mut u64> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)*
                    _ => None,
                }
            }
        }
    };
}

policy! {
    min_share_permille = 10, 0..=500, "thousandths of the line's rate",
        "Background that waits gets this part of the line over `min_share_us`, whatever the foreground does. 1 % ends \
         most transfers of text in the time that a person waits, and costs the foreground 1 %.";
    min_share_us = 10_000_000, 100_000..=600_000_000, "microseconds",
        "Time over which `min_share_permille` holds. Ten seconds are shorter than the timeouts of programs.";
    segment_bytes = 1460, 536..=9000, "bytes",
        "A full segment: what windows are counted in. 1460 is that of Ethernet over IPv4.";
    initial_segments = 4, 1..=100, "segments",
        "The law's first window, and the least that `pipe_percent` leaves. Also what a flow is granted of which nothing is known: a \
         grant beyond what a server sends lies idle. A new line may be slow: RFC 3390's four, not RFC 6928's ten.";
    turn_bytes = 15_000, 1460..=1_000_000, "bytes",
        "Quantum of the deficit round robin. What a server sends at once (RFC 6928: ten segments), so that an object \
         of ten segments is one turn and ends before another begins.";
    window_parts = 4, 1..=64, "parts of the window",
        "One grant is this part of the window at most: with one grant for all of it the line would be idle for a round \
         trip.";
    grant_segments = 2, 1..=64, "segments",
        "One grant. A sender cuts its segments to half of a smaller window (RFC 9293, 3.8.6.2.1).";
    pacing_percent = 125, 100..=400, "hundredths of a window per round trip",
        "Rate of grants. Above 100 so that the window stays the limit (RFC 9002, 7.7); little above it, because a \
         burst of grants comes back as a burst and looks like a queue.";
    start_pacing_percent = 200, 100..=400, "hundredths of a window per round trip",
        "The same in slow start, whose window doubles in a round trip (Linux: tcp_pacing_ss_ratio).";
    burst_us = 1_000, 0..=100_000, "microseconds",
        "Grants that are late by up to this long are given together: what a timer cannot resolve.";
    hold_percent = 200, 100..=2000, "hundredths of a round trip",
        "A grant of which nothing has arrived after this is given to others, and a delay of longer ago says nothing: twice \
         the round trip, because senders acknowledge late and retransmit.";
    hold_least_us = 50_000, 0..=10_000_000, "microseconds",
        "Added to `hold_percent`: a delayed acknowledgement (40 ms in Linux) and a timer's tick.";
    first_hold_us = 1_000_000, 1_000..=60_000_000, "microseconds",
        "Before the first round-trip time is known (RFC 6298, 2.1).";
    base_us = 300_000_000, 1_000_000..=3_600_000_000, "microseconds",
        "Half of the memory of a path's base delay (RFC 6817, 4.2: ten minutes).";
    flows_max = 100_000, 1..=10_000_000, "flows",
        "Flows that can be open. Bounds the memory.";
    rate_span_us = 500_000, 10_000..=10_000_000, "microseconds",
        "Over which a rate is measured. Longer than what waits behind a lost segment takes to come at once.";
    rate_memory_us = 5_000_000, 100_000..=600_000_000, "microseconds",
        "Half of the memory of the highest rate: a line that became slower is known after ten seconds.";
    round_parts = 4, 1..=64, "parts of a round trip",
        "How often a delay is made of the samples. The law reacts over a round trip, so it needs few of them.";
    part_samples = 4, 1..=1000, "samples",
        "A part with fewer becomes a whole round trip: a single sample may be of a packet that was late for itself.";
    quantile_percent = 40, 0..=99, "hundredths of the samples",
        "Which of a part's samples is its delay. Programs read late and servers are slow, so it is not the highest; behind \
         a fair queue some flow always meets no queue, so it is not the least.";
    answers = 8, 1..=1000, "answers",
        "Over which the usual length of the foreground's answers is averaged: the objects of a page.";
    answer_max_bytes = 262_144, 1_460..=16_777_216, "bytes",
        "The longest answer that is expected. What is longer is a transfer, and expected by its rate.";
    wait_percent = 300, 100..=10_000, "hundredths of a round trip",
        "A request of the foreground whose answer has not begun after this is not waited for: the server thinks.";
    gap_percent = 150, 100..=10_000, "hundredths of a round trip",
        "An answer of which nothing came for this long is over. A sender in slow start pauses for a round trip.";
    remembered_max = 4096, 1..=1_000_000, "entries",
        "Paths, and connections of the foreground, that are told apart; the one that was used longest ago is forgotten.";
    transfer_percent = 200, 100..=1000, "hundredths of a round trip's bytes",
        "What is expected of a transfer, of what came of it in the last round trip. A transfer that is held up doubles \
         (RFC 5681, slow start): with room for that it is never background that holds it up.";
    pipe_percent = 150, 100..=10_000, "hundredths of what the line brings in a round trip",
        "The largest window while the foreground is there: what the line brings, and half of that more, by which a line shows \
         that it brings more.";
    away_segments = 3, 0..=1000, "segments",
        "Queue that background may keep beyond the law's target while the foreground is away. It keeps a line busy whose \
         grants come in bursts; the first answer of a foreground that comes back waits for it.";
    lossless_us = 30_000_000, 0..=3_600_000_000, "microseconds",
        "After a loss the queue stays within the law's target for this long: the buffer is short, or an AQM drops what \
         waits. Longer than a window takes to come back from a loss.";
    away_us = 500_000, 10_000..=600_000_000, "microseconds",
        "The foreground is away after this time without a packet. Longer than the gap between two requests of a page.";
}

impl Policy {
    /// The same with a constant changed.
    ///
    /// # Errors
    /// [`ShareError::UnknownConstant`], [`ShareError::OutOfBounds`].
    pub fn with(mut self, name: &str, value: u64) -> Result<Policy, ShareError> {
        let constant = Policy::CONSTANTS.iter().find(|constant| constant.name == name);
        let constant = constant.ok_or_else(|| ShareError::unknown_constant(name))?;
        let Constant { name, least, most, unit, .. } = *constant;
        if !(least..=most).contains(&value) {
            return Err(ShareError::OutOfBounds { name, value, least, most, unit });
        }
        *self.field(name).expect("every constant is a field") = value;
        Ok(self)
    }

    /// The same for bytes that are sent here, and not asked for: they leave when they are granted, a segment
    /// at a time, so nothing comes in bursts for which a line needs a queue. Each sample counts alone, because no
    /// server has paused in it.
    pub fn for_sending(self) -> Policy {
        Policy { grant_segments: 1, part_samples: 1, away_segments: 0, ..self }
    }

    /// The same for a program whose timer comes up to 2 ms late: every millisecond, to the millisecond.
    pub fn for_timers(self) -> Policy {
        Policy { burst_us: 2_000, ..self }
    }

    /// `percent` hundredths of a round trip of `srtt_us`, in microseconds.
    pub(crate) fn round_trips(percent: u64, srtt_us: u64) -> u64 {
        srtt_us.saturating_mul(percent) / 100
    }

    /// How long a grant of which nothing arrives is held, in microseconds.
    pub fn hold_us(&self, srtt_us: u64) -> u64 {
        match srtt_us {
            0 => self.first_hold_us,
            _ => Policy::round_trips(self.hold_percent, srtt_us) + self.hold_least_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_few_within_their_bounds_and_reasoned() {
        assert!(Policy::CONSTANTS.len() <= 30);
        for constant in Policy::CONSTANTS {
            assert!((constant.least..=constant.most).contains(&constant.default), "{}", constant.name);
            assert_eq!(Policy::default().get(constant.name), Ok(constant.default));
            assert!(constant.reason.len() > 30 && constant.reason.ends_with('.'), "{}", constant.name);
            let changed = Policy::default().with(constant.name, constant.most).unwrap();
            assert_eq!(changed.get(constant.name), Ok(constant.most));
        }
    }

    #[test]
    fn a_wrong_constant_is_told_with_what_would_be_right() {
        let error = Policy::default().with("min_share", 3).unwrap_err().to_string();
        assert!(error.contains("`min_share`") && error.contains("min_share_permille"), "{error}");
        let error = Policy::default().with("min_share_permille", 501).unwrap_err().to_string();
        assert!(error.contains("from 0 to 500 thousandths of the line's rate"), "{error}");
    }
}
