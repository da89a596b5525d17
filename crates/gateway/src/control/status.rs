//! Results of the operations, in the form of their JSON.

use crate::budget::State;
use crate::gate::{Closed, Gate, Pause};
use crate::home_speed::HomeSpeed;
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

/// The state of a gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Addresses that it listens on, including the page's.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
    /// When it was started.
    pub started: Timestamp,
    /// Seconds since the start.
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
    /// Windows that neighbours share: `direct` or `relay` for downloads, `uplink` for what is
    /// sent.
    pub windows: Vec<Window>,
    /// The home's speed while neighbours use the line, and while no neighbour does.
    #[serde(default)]
    pub home_speed: HomeSpeed,
    /// State of the tunnel to the relay, if there is one.
    pub relay: Option<String>,
    /// State of the accounts, if there are any.
    pub accounts: Option<String>,
    /// The volumes that all neighbours share.
    pub volumes: Vec<Volume>,
    /// Users whose access the owner has revoked.
    #[serde(default)]
    pub revoked: Vec<String>,
    /// The gateways of `peers`.
    #[serde(default)]
    pub peers: Vec<PeerStatus>,
    /// Notices for the owner.
    pub notices: Vec<String>,
    /// What could be shared, if the gateway only observes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observation>,
}

/// Whether neighbours are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", tag = "state")]
pub enum Sharing {
    /// Neighbours are served.
    On,
    /// The gateway only observes the line, and serves nobody.
    Observing,
    /// The owner has paused sharing.
    Paused {
        /// When the pause began.
        since: Timestamp,
        /// When it ends; none if the owner ends it.
        until: Option<Timestamp>,
    },
}

/// A window that neighbours share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Window {
    /// Which window: `direct`, `relay` or `uplink`.
    pub path: String,
    /// The window of the law, in bytes.
    pub window_bytes: u64,
    /// Bytes that were requested or sent and have not arrived yet.
    pub outstanding_bytes: u64,
    /// The law's estimate of the queuing delay, in milliseconds.
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
    /// The name in the configuration, or the client's address.
    pub name: String,
    /// Connections to the Internet that the gateway has for the neighbour now.
    pub connections: usize,
    /// Bytes from the Internet since the gateway's start.
    pub down_bytes: u64,
    /// Bytes to the Internet since the gateway's start.
    pub up_bytes: u64,
    /// Requests and tunnels.
    pub requests: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// `free`, `slowed`, `paused` or `revoked` by the owner or a cap. `invited` before the first
    /// use of a code, `over` or `void` after its time.
    pub standing: String,
    /// `standing` as a sentence.
    pub words: String,
    /// The neighbour's own volumes.
    pub volumes: Vec<Volume>,
    /// When the voucher ends, if it does.
    pub expires: Option<Timestamp>,
    /// Time of the last request. It is exact to five minutes for a neighbour who has not come
    /// since the gateway's start.
    pub last_seen: Option<Timestamp>,
}

/// A cap on a volume of data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Volume {
    /// Name of the cap: `month`, `all_daily`, `user_daily` or `voucher`.
    pub cap: String,
    /// Bytes that neighbours have used.
    pub used_bytes: u64,
    /// Bytes that neighbours may use.
    pub limit_bytes: u64,
    /// When it begins anew, or ends.
    pub until: Timestamp,
}

/// The body of a request to `/v1/pause`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PauseRequest {
    /// Length of the pause; none: until it is ended.
    #[serde(default)]
    pub seconds: Option<i64>,
}

/// The body of a request to `/v1/revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RevokeRequest {
    /// A user's name, or a client's address.
    pub user: String,
    /// Whether to give the access back.
    #[serde(default)]
    pub undo: bool,
}

/// The result of revoking a user's access, or giving it back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {
    /// The user's name.
    pub user: String,
    /// Whether the user has no access now.
    pub revoked: bool,
}

/// The body of a request to `/v1/reload`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReloadRequest {
    /// Texts of files with secrets, by path: files that the gateway may not read, or of which it
    /// only has copies that systemd made at its start. The configuration may be one of them.
    #[serde(default)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub secrets: BTreeMap<PathBuf, String>,
}

impl std::fmt::Debug for ReloadRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.secrets.keys()).finish()
    }
}

/// The result of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reloaded {
    /// That the configuration was read, and notices about it.
    pub words: Vec<String>,
}

/// The query of `/v1/export`. Without days, everything is exported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExportRange {
    /// The first day.
    #[serde(default)]
    pub from: Option<Date>,
    /// The day after the last day.
    #[serde(default)]
    pub to: Option<Date>,
    /// Format of the file.
    #[serde(default)]
    pub format: ExportFormat,
}

/// The query of `/v1/history`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryRange {
    /// Number of days until today, 1 to 366.
    #[serde(default = "a_month")]
    pub days: u16,
}

fn a_month() -> u16 {
    30
}

/// What one user has used on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DayUsage {
    /// The day, in the time zone of the line.
    #[schema(value_type = String)]
    pub day: Date,
    /// Name of the user; empty for the home.
    pub user: String,
    /// Bytes from the Internet.
    pub down_bytes: u64,
    /// Bytes to the Internet.
    pub up_bytes: u64,
}

/// What was used at a gateway on the last days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PastDays {
    /// Today, in the time zone of the line.
    #[schema(value_type = String)]
    pub today: Date,
    /// Number of days, today included.
    pub days: u16,
    /// What was used, the newest day first, then by user.
    pub usage: Vec<DayUsage>,
}

impl PastDays {
    /// Numbers of days of the sums.
    pub fn spans(&self) -> [u16; 3] {
        [1, self.days.min(7), self.days]
    }

    /// What each user used in each of the spans, in bytes, both directions together. The home,
    /// with an empty name, is the first.
    pub fn sums(&self) -> BTreeMap<&str, [u64; 3]> {
        let mut all = BTreeMap::<&str, [u64; 3]>::new();
        for DayUsage { day, user, down_bytes, up_bytes } in &self.usage {
            let age = self.today.since(*day).map_or(0, |span| span.get_days());
            let sums = all.entry(user).or_default().iter_mut().zip(self.spans());
            sums.filter(|(_, span)| age < i32::from(*span))
                .for_each(|(sum, _)| *sum += down_bytes + up_bytes);
        }
        all
    }
}

/// Format of a file of the accounts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExportFormat {
    /// Text for people and spreadsheets.
    #[default]
    Csv,
    /// Columns with types, for programs.
    Parquet,
}

/// The response of `/healthz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether neighbours could be served.
    pub ok: bool,
    /// Why not, or `ok`.
    pub words: String,
}

impl Sharing {
    /// The state for the pause of a gate.
    pub fn of(pause: Option<Pause>) -> Sharing {
        pause.map_or(Sharing::On, |Pause { since, until }| Sharing::Paused { since, until })
    }
}

impl Window {
    /// The state of a window.
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
    /// The volume of a cap.
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
    /// The status of a user who has not come since the gateway's start.
    pub fn absent(name: String, gate: &Gate) -> UserStatus {
        UserStatus::counted(name, gate.meter(), [0; 4])
    }

    /// The status of a user.
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

    /// The status with the standing `revoked`, if the owner has revoked the user's access.
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

    /// The status with these counts: bytes down and up, requests, and refused requests.
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

/// The volumes of one neighbour alone. A voucher that has only days has no volume.
pub fn own_volumes(meter: &Meter, name: &str) -> Vec<Volume> {
    let own = |left: &Left| {
        matches!(left.reason, Reason::UserDaily | Reason::Voucher | Reason::VoucherOver)
            && left.limit < u64::MAX
    };
    meter.left(name).into_iter().filter(own).map(Volume::of).collect()
}
