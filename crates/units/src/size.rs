//! Buffer sizes, in packets, in bytes, or in multiples of the bandwidth-delay product.

use crate::data::Bytes;
use crate::number::{self, ParseError};
use std::fmt;
use std::str::FromStr;

const EXPECTED: &str = "a buffer size such as \"84 pkt\", \"150 kB\", \"1.5 BDP\" or \"unlimited\"";

/// One BDP, in millionths.
const BDP: u64 = 1_000_000;

/// The size of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// This many packets, of any length.
    Packets(u32),
    /// This many bytes.
    Bytes(Bytes),
    /// Millionths of the path's bandwidth-delay product. The caller that knows the path computes
    /// it, rounded up to whole packets.
    Bdp(u64),
    /// No limit.
    Unlimited,
}

impl FromStr for Size {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let error = || ParseError::new(text, EXPECTED);
        let trimmed = text.trim();
        if trimmed == "unlimited" {
            return Ok(Size::Unlimited);
        }
        if let Ok(packets) =
            number::parse(trimmed, &[("pkt", 1), ("pkts", 1), ("packets", 1), ("packet", 1)], EXPECTED)
        {
            let fractional = trimmed.contains('.');
            return u32::try_from(packets).ok().filter(|_| !fractional).map(Size::Packets).ok_or_else(error);
        }
        if let Ok(millionths) = number::parse(trimmed, &[("BDP", BDP), ("bdp", BDP)], EXPECTED) {
            return Ok(Size::Bdp(millionths));
        }
        trimmed.parse().map(Size::Bytes).map_err(|_| error())
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Size::Packets(n) => f.pad(&format!("{n} pkt")),
            Size::Bytes(bytes) => bytes.fmt(f),
            Size::Bdp(millionths) => {
                let number = format!("{}.{:06}", millionths / BDP, millionths % BDP);
                f.pad(&format!("{} BDP", number.trim_end_matches('0').trim_end_matches('.')))
            }
            Size::Unlimited => f.pad("unlimited"),
        }
    }
}
