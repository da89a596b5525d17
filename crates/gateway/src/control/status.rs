//! Answers of the operations, as they are written in JSON.

use crate::budget::State;
use crate::gate::{Closed, Gate, Pause};
use crate::metering::Meter;
use crate::observe::Observation;
use crate::peers::PeerStatus;
use crate::users::User;
use jiff::Timestamp;
use jiff::civil::Date;
use leeway_accounts::caps::{Left, Reason, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use utoipa::{IntoParams, ToSchema};

/// How a gateway stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Addresses that it listens on, the page's among them.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
    /// When it was started.
    pub started: Timestamp,
    /// Seconds since then.
    pub uptime_s: u64,
    /// Whether neighbours are served.
    pub sharing: Sharing,
    /// Connections of neighbours to the gateway now.
    pub connections: usize,
    /// Neighbours for whom the gateway has connections to the Internet now.
    pub users: usize,
    /// Bytes from the Internet for neighbours since the start.
    pub down_bytes: u64,
    /// Bytes of neighbours to the Internet since the start.
    pub up_bytes: u64,
    /// What neighbours share: `direct` or `relay` for downloads, `uplink` for what is sent.
    pub windows: Vec<Window>,
    /// How things stand with the relay, if there is one.
    pub relay: Option<String>,
    /// How the accounts stand, if there are any.
    pub accounts: Option<String>,
    /// What is left of volumes that hold for all neighbours.
    pub volumes: Vec<Volume>,
    /// Users whose access the owner has taken back.
    #[serde(default)]
    pub revoked: Vec<String>,
    /// Other gateways of `peers`.
    #[serde(default)]
    pub peers: Vec<PeerStatus>,
    /// What the owner should know.
    pub notices: Vec<String>,
    /// What could be shared, where the line is only observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observation>,
}

/// Whether neighbours are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum Sharing {
    /// They are.
    On,
    /// The line is only observed, and nobody is let through.
    Observing,
    /// The owner has paused.
    Paused {
        /// When the pause began.
        since: Timestamp,
        /// When it ends; none: when the owner says so.
        until: Option<Timestamp>,
    },
}

/// A window that neighbours share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    /// Whose.
    pub path: String,
    /// The law's window.
    pub window_bytes: u64,
    /// Asked for or sent, not arrived.
    pub outstanding_bytes: u64,
    /// The law's estimate of the queue, in milliseconds.
    pub queuing_delay_ms: f64,
    /// Smoothed round-trip time, in milliseconds; none before the first sample.
    pub rtt_ms: Option<f64>,
    /// Transfers that wait for their turn.
    pub waiting: usize,
    /// Seconds for which neighbours have waited for the home.
    pub yielded_s: f64,
}

/// One neighbour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UserStatus {
    /// The name of the configuration, or the address.
    pub name: String,
    /// Connections to the Internet that the gateway has for the neighbour now.
    pub connections: usize,
    /// Bytes from the Internet since the gateway's start.
    pub down_bytes: u64,
    /// Bytes to the Internet.
    pub up_bytes: u64,
    /// Requests and tunnels.
    pub requests: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// What the owner and caps say: `free`, `slowed`, `paused` or `revoked`; `invited` before the first use of
    /// a code, `over` or `void` after it was good.
    pub standing: String,
    /// The same in words.
    pub words: String,
    /// What is left of its own volumes.
    pub volumes: Vec<Volume>,
    /// When its voucher ends, if it does.
    pub expires: Option<Timestamp>,
    /// When it came last; to five minutes for who has not come since the gateway's start.
    pub last_seen: Option<Timestamp>,
}

/// A cap that is a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Which one, in a word.
    pub cap: String,
    /// Bytes that neighbours have used.
    pub used_bytes: u64,
    /// Bytes that they may use.
    pub limit_bytes: u64,
    /// When it begins anew, or ends.
    pub until: Timestamp,
}

/// What `/v1/pause` is given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// For how long; none: until it is ended.
    #[serde(default)]
    pub seconds: Option<i64>,
}

/// What `/v1/revoke` is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// A user's name, or a client's address.
    pub user: String,
    /// Give the access back.
    #[serde(default)]
    pub undo: bool,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {
    /// The user's name.
    pub user: String,
    /// Whether the user has no access now.
    pub revoked: bool,
}

/// What `/v1/reload` is given.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// What is in files with secrets, by their paths: those that the gateway may not read, or of which it has
    /// only the copies that systemd made when it was started. The configuration may be one of them.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub secrets: BTreeMap<PathBuf, String>,
}

impl std::fmt::Debug for ReloadRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.secrets.keys()).finish()
    }
}

/// What a reload has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// That the configuration holds, and then what the owner should know of it.
    pub words: Vec<String>,
}

/// What `/v1/export` is asked for; all without days.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportRange {
    /// The first day.
    #[serde(default)]
    pub from: Option<Date>,
    /// The day after the last.
    #[serde(default)]
    pub to: Option<Date>,
    /// In which form.
    #[serde(default)]
    pub format: ExportFormat,
}

/// Form of a file of the accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// Text for people and spreadsheets.
    #[default]
    Csv,
    /// Columns with types.
    Parquet,
}

/// What `/healthz` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether neighbours could be served.
    pub ok: bool,
    /// Why not.
    pub words: String,
}

impl Sharing {
    /// Of what a gate says.
    pub fn of(pause: Option<Pause>) -> Sharing {
        pause.map_or(Sharing::On, |Pause { since, until }| Sharing::Paused { since, until })
    }
}

impl Window {
    /// Of that window.
    pub fn of(path: &str, state: &State) -> Window {
        Window {
            path: path.into(),
            window_bytes: state.window_bytes,
            outstanding_bytes: state.outstanding_bytes,
            queuing_delay_ms: f64::from(state.queuing_delay_us) / 1e3,
            rtt_ms: (state.srtt_us > 0).then(|| f64::from(state.srtt_us) / 1e3),
            waiting: state.waiting,
            yielded_s: state.yielded_us as f64 / 1e6,
        }
    }
}

impl Volume {
    /// As caps say it.
    pub fn of(left: Left) -> Volume {
        let cap = match left.reason {
            Reason::Month => "month",
            Reason::AllDaily => "all_daily",
            Reason::Voucher | Reason::VoucherOver => "voucher",
            _ => "user_daily",
        };
        Volume { cap: cap.into(), used_bytes: left.used, limit_bytes: left.limit, until: left.until }
    }
}

impl UserStatus {
    /// Of somebody who has not come since the gateway's start.
    pub fn absent(name: String, gate: &Gate) -> UserStatus {
        UserStatus::counted(name, gate.meter(), [0; 4])
    }

    /// Of that user.
    pub fn of(user: &User, gate: &Gate) -> UserStatus {
        let counts =
            [&user.counts.down_bytes, &user.counts.up_bytes, &user.counts.requests, &user.counts.refused];
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        let status = UserStatus {
            connections: user.connections(),
            last_seen: Some(user.seen()),
            ..UserStatus::counted(user.name.clone(), gate.meter(), counts)
        };
        status.judged(gate)
    }

    /// The same, unless the owner has taken the user's access.
    pub fn judged(self, gate: &Gate) -> UserStatus {
        if !gate.is_revoked(&self.name) {
            return self;
        }
        UserStatus {
            standing: "revoked".into(),
            words: Closed::REVOKED.note(&gate.zone()).to_string(),
            ..self
        }
    }

    /// With bytes down and up, requests, and those that were refused.
    fn counted(name: String, meter: Option<&Arc<Meter>>, counts: [u64; 4]) -> UserStatus {
        let [down_bytes, up_bytes, requests, refused] = counts;
        let verdict = meter.map_or(Verdict::Free, |meter| meter.verdict(&name));
        let standing = match verdict {
            Verdict::Free => "free",
            Verdict::Slowed { .. } => "slowed",
            Verdict::Paused { .. } => "paused",
        };
        UserStatus {
            connections: 0,
            down_bytes,
            up_bytes,
            requests,
            refused,
            standing: standing.into(),
            words: meter.map_or(String::new(), |meter| verdict.words(&meter.zone())),
            volumes: meter.map_or(vec![], |meter| own_volumes(meter, &name)),
            expires: meter.and_then(|meter| meter.ends(&name)),
            last_seen: None,
            name,
        }
    }
}

/// How the volumes stand that are a neighbour's alone. A voucher for days without a volume has none.
pub fn own_volumes(meter: &Meter, name: &str) -> Vec<Volume> {
    let own = |left: &Left| {
        matches!(left.reason, Reason::UserDaily | Reason::Voucher | Reason::VoucherOver)
            && left.limit < u64::MAX
    };
    meter.left(name).into_iter().filter(own).map(Volume::of).collect()
}
