//! Every constant of the sharing, with its unit and its reason.
//!
//! `cargo run --release -p leeway-sim --example sharing -- sensitivity` shows what each is worth.

use crate::error::ShareError;

/// Least time that a receiver waits for a second segment before it acknowledges a single one, in
/// microseconds: 40 ms in Linux (`TCP_DELACK_MIN`). RFC 5681, 4.2 allows up to 500 ms.
pub(crate) const LATE_ACK_US: u32 = 40_000;

/// The part of the uplink's rate that acknowledgements of downloads may take while the foreground
/// uploads, in thousandths. A twentieth, so that the foreground has 0.95 of the rate.
pub(crate) const ACKS_PERMILLE: u64 = 50;

/// Length of an acknowledgement, in bytes: headers of IPv4 and TCP with timestamps (RFC 791, RFC
/// 9293, RFC 7323). One leaves for each segment, because windows are small.
pub(crate) const ACK_BYTES: u64 = 52;

/// One constant of a [`Policy`].
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Name of the field of [`Policy`].
    pub name: &'static str,
    /// The default value.
    pub default: u64,
    /// The least allowed value.
    pub least: u64,
    /// The largest allowed value.
    pub most: u64,
    /// Unit of the values.
    pub unit: &'static str,
    /// What the constant does, and why it has its default value.
    pub reason: &'static str,
}

macro_rules! policy {
    ($($name:ident = $default:literal, $least:literal..=$most:literal, $unit:literal, $reason:literal;)*) => {
        /// What a line's owner decides, and the constants of the mechanism. See
        /// [`Policy::CONSTANTS`].
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

            /// Returns the value of a constant.
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
        "Least part of the line's rate for background that waits, whatever the foreground does, \
         over `min_share_us`. With 1 %, most transfers of text end in the time that a person \
         waits, and the foreground loses 1 %.";
    min_share_us = 10_000_000, 100_000..=600_000_000, "microseconds",
        "Time over which `min_share_permille` holds. Ten seconds are shorter than the timeouts of \
         programs.";
    segment_bytes = 1460, 536..=9000, "bytes",
        "Length of a full segment, in which windows are counted. 1460 bytes fit into a packet of \
         1500 bytes (Ethernet, IPv4 and TCP).";
    initial_segments = 4, 1..=100, "segments",
        "First window of the law, first reach of a flow, and the least window under \
         `pipe_percent`. Bytes granted beyond what a server sends lie idle, and a new line may be \
         slow. So it is the four of RFC 3390, not the ten of RFC 6928.";
    turn_bytes = 15_000, 1460..=1_000_000, "bytes",
        "Quantum of the deficit round robin for a new flow, and the most that is saved up. A \
         server sends ten segments at once (RFC 6928), so an object of ten segments is one turn, \
         and ends before another object begins.";
    window_parts = 4, 1..=64, "parts of the window",
        "A grant is at most this part of the window. With one grant for the whole window, the \
         line would be idle for a round trip.";
    grant_segments = 2, 1..=64, "segments",
        "Length of a grant. Two segments, because a sender cuts its segments to half of a smaller \
         window (RFC 9293, 3.8.6.2.1).";
    pacing_percent = 125, 100..=400, "hundredths of a window per round trip",
        "Rate of grants. Above 100, so that the window limits the rate, not the pacing (RFC 9002, \
         7.7). Only a little above, because a burst of grants comes back as a burst of data and \
         looks like a queue.";
    start_pacing_percent = 200, 100..=400, "hundredths of a window per round trip",
        "Rate of grants in slow start, in which the window doubles in a round trip (Linux: \
         tcp_pacing_ss_ratio).";
    burst_us = 1_000, 0..=100_000, "microseconds",
        "Grants that are late by up to this time are given together, because a timer has no finer \
         resolution.";
    hold_percent = 200, 100..=2000, "hundredths of a round trip",
        "A grant of which nothing arrived in this time is given to others, and a delay older than \
         this is not used. Two round trips, because senders acknowledge late and retransmit.";
    hold_least_us = 50_000, 0..=10_000_000, "microseconds",
        "Added to `hold_percent`: a delayed acknowledgement (40 ms in Linux) and a tick of a \
         timer.";
    first_hold_us = 1_000_000, 1_000..=60_000_000, "microseconds",
        "Time for which a grant is held before the first round-trip sample (RFC 6298, 2.1: \
         initial RTO of 1 s).";
    base_us = 300_000_000, 1_000_000..=3_600_000_000, "microseconds",
        "Half of the memory of a path's base delay (RFC 6817, 4.2: ten minutes).";
    flows_max = 100_000, 1..=10_000_000, "flows",
        "Largest number of open flows. Bounds the memory.";
    rate_span_us = 500_000, 10_000..=10_000_000, "microseconds",
        "Time over which a rate is measured. Bytes that waited behind a lost segment come all at \
         once; the span is longer than that wait.";
    rate_memory_us = 5_000_000, 100_000..=600_000_000, "microseconds",
        "Half of the memory of the highest rate. A line that became slower is known after ten \
         seconds.";
    round_parts = 4, 1..=64, "parts of a round trip",
        "The samples of each part of a round trip give one delay. The law reacts over a round \
         trip, so it needs few delays.";
    part_samples = 4, 1..=1000, "samples",
        "A part with fewer samples lasts until it has as many, or for a round trip. A single \
         sample may be of a packet that was late for reasons of its own.";
    quantile_percent = 40, 0..=99, "hundredths of the samples",
        "Percentile of a part's samples that is its delay. Not a high one, because programs read \
         late and servers are slow. Not the least sample, because behind a fair queue some flow \
         always meets no queue.";
    answers = 8, 1..=1000, "answers",
        "Number of the foreground's responses over which the usual length is averaged: the \
         objects of a page.";
    answer_max_bytes = 262_144, 1_460..=16_777_216, "bytes",
        "Length with which a longer response counts in the usual length. A longer response is a \
         transfer, and is expected by its rate.";
    wait_percent = 300, 100..=10_000, "hundredths of a round trip",
        "The response to a foreground request is expected for this time if nothing of it arrives. \
         After that the server is slow, or the foreground uploads.";
    gap_percent = 150, 100..=10_000, "hundredths of a round trip",
        "A response of which nothing arrived for this time is over. A sender in slow start pauses \
         for up to a round trip.";
    remembered_max = 4096, 1..=1_000_000, "entries",
        "Number of paths, and of connections of the foreground, that are remembered. Beyond that \
         one is forgotten: the path used longest ago, the connection that most likely is over.";
    transfer_percent = 200, 100..=1000, "hundredths of a round trip's bytes",
        "Expected bytes of a transfer, relative to what arrived of it in the last round trip. \
         Slow start doubles the rate in a round trip (RFC 5681), so background never holds a \
         transfer up.";
    pipe_percent = 150, 100..=10_000, "hundredths of what the line brings in a round trip",
        "Largest window while the foreground is present, relative to what the line delivers in a \
         round trip without a queue. The additional half tests whether the line can deliver more.";
    away_segments = 3, 0..=1000, "segments",
        "Queue that background may keep beyond the law's target while the foreground is away. \
         Grants come in bursts, and this queue keeps the line busy between them. The first \
         response of a returning foreground waits for it.";
    lossless_us = 30_000_000, 0..=3_600_000_000, "microseconds",
        "After a loss the queue stays within the law's target for this time, because the buffer \
         is short, or an AQM drops waiting packets. Longer than a window takes to recover from a \
         loss.";
    away_us = 500_000, 10_000..=600_000_000, "microseconds",
        "The foreground counts as away after this time without a packet. Longer than the gap \
         between two requests of a page.";
}

impl Policy {
    /// Returns the policy with one constant changed.
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

    /// Returns the policy for bytes that this end sends, instead of requesting them. Such bytes
    /// leave one segment at a time when they are granted, so they come in no bursts for which the
    /// line would need a queue. Each sample counts alone, because no server has paused in it.
    pub fn for_sending(self) -> Policy {
        Policy { grant_segments: 1, part_samples: 1, away_segments: 0, ..self }
    }

    /// Returns the policy for a program whose timer ticks once per millisecond, and is up to 2 ms
    /// late.
    pub fn for_timers(self) -> Policy {
        Policy { burst_us: 2_000, ..self }
    }

    /// `percent` hundredths of a round trip of `srtt_us`, in microseconds.
    pub(crate) fn round_trips(percent: u64, srtt_us: u64) -> u64 {
        srtt_us.saturating_mul(percent) / 100
    }

    /// How long a grant is held if nothing of it arrives, in microseconds.
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
