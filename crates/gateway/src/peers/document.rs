//! What a gateway says of itself to those who may use it.

use jiff::Timestamp;
use leeway_selection::Status;
use leeway_units::{Bytes, Duration, Rate, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How a gateway stands, for those who choose among several. It names nobody and nothing of the home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Document {
    /// Whether new connections are taken.
    pub sharing: Standing,
    /// When sharing goes on, where that is known.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// The same as seconds from now, for those whose clock differs.
    #[serde(default)]
    pub resumes_s: Option<u64>,
    /// Part of the spare capacity that is in use, 0 to 1; none where downloads have no window.
    #[serde(default)]
    pub load: Option<f64>,
    /// What the home leaves to neighbours, in use or not, in bit/s; none before it was measured.
    #[serde(default)]
    pub spare_bps: Option<u64>,
    /// Neighbours with traffic now.
    #[serde(default)]
    pub users: Option<u32>,
    /// Bytes that whoever asks may still transfer; none where there is no limit or the gateway does not know
    /// who it is.
    #[serde(default)]
    pub left_bytes: Option<u64>,
}

/// Whether new connections are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// They are.
    On,
    /// They are not, because of the owner or a cap.
    Paused,
}

impl Document {
    /// The same for the choice among gateways, on a clock that shows `now`.
    pub fn status(&self, now: Time) -> Status {
        let after = |seconds: u64| now.checked_add(Duration::from_secs(seconds.min(10 * 366 * 86_400)));
        Status {
            open: self.sharing == Standing::On,
            paused_until: self.resumes_s.and_then(after),
            load: self.load,
            users: self.users,
            spare: self.spare_bps.map(Rate::from_bits_per_sec),
            left: self.left_bytes.map(Bytes::new),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_or_newer_gateway_says_is_understood() {
        let document: Document = serde_json::from_str("{\"sharing\": \"on\", \"colour\": 7}").unwrap();
        assert_eq!(document.status(Time::ZERO), Status::open());
        let text = "{\"sharing\": \"paused\", \"resumes_s\": 18446744073709551615}";
        let paused: Document = serde_json::from_str(text).unwrap();
        let status = paused.status(Time::from_secs(5));
        assert!(!status.open && status.paused_until > Some(Time::from_secs(86_400)));
        assert!(serde_json::from_str::<Document>("{\"sharing\": \"maybe\"}").is_err());
    }
}
