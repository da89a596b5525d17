//! The state that a gateway reports to those who may use it.

use jiff::Timestamp;
use leeway_selection::Status;
use leeway_units::{Bytes, Duration, Rate, Time};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The state of a gateway, for clients that choose among several. It has no names, and nothing
/// about the home.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Document {
    /// Whether new connections are taken.
    pub sharing: Standing,
    /// When sharing begins again, if that is known.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// Seconds until sharing begins again, for clients whose clock differs.
    #[serde(default)]
    pub resumes_s: Option<u64>,
    /// Part of the spare capacity that is in use, 0 to 1; none if downloads have no window.
    #[serde(default)]
    pub load: Option<f64>,
    /// What the home leaves to neighbours, in use or not, in bit/s; none before it was measured.
    #[serde(default)]
    pub spare_bps: Option<u64>,
    /// Neighbours who have traffic now.
    #[serde(default)]
    pub users: Option<u32>,
    /// Bytes that the client who asks may still transfer; none if there is no limit, or the
    /// gateway does not know the client.
    #[serde(default)]
    pub left_bytes: Option<u64>,
}

/// Whether new connections are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// New connections are taken.
    On,
    /// New connections are refused, because of the owner or a cap.
    Paused,
}

impl Document {
    /// The state in the form that the choice among gateways needs. `now` is the time on its clock.
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
