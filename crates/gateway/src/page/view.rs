//! The pages as HTML. Askama escapes everything that is put in.

use super::words::{Language, Words};
use crate::control::{Now, Sharing, Volume};
use askama::Template;
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Pauses that have a button: seconds, none for an open end.
const PAUSES: [&str; 3] = ["3600", "28800", ""];

/// The form for the password.
#[derive(Template)]
#[template(path = "login.html")]
pub struct Login {
    words: &'static Words,
    languages: [(Language, &'static str, &'static str); 3],
    problem: Option<&'static str>,
}

impl Login {
    /// With what went wrong, if something did.
    pub fn new(language: Language, problem: Option<&'static str>) -> Login {
        Login { words: language.words(), languages: Language::ALL, problem }
    }
}

/// The page itself, as it is before its first event.
#[derive(Template)]
#[template(path = "home.html")]
pub struct Home {
    words: &'static Words,
    languages: [(Language, &'static str, &'static str); 3],
    words_json: String,
    csrf: String,
    problem: Option<&'static str>,
    paused: bool,
    state: String,
    pauses: [(&'static str, &'static str); 3],
    notice: &'static str,
    latency_now: String,
    latency_off: String,
    rate_down: String,
    rate_up: String,
    volumes: Vec<VolumeRow>,
    users: Vec<UserRow>,
    notices: Vec<String>,
}

struct VolumeRow {
    name: &'static str,
    used: String,
    limit: String,
    permille: u64,
    until: String,
}

struct UserRow {
    name: String,
    connections: usize,
    down: String,
    up: String,
    refused: u64,
    standing: &'static str,
}

impl Home {
    /// Of what is now.
    pub fn new(
        language: Language,
        csrf: String,
        problem: Option<&'static str>,
        now: Now,
        notices: Vec<String>,
    ) -> Home {
        let words = language.words();
        let state = match now.sharing {
            Sharing::On => words.sharing_on.to_owned(),
            Sharing::Paused { until: None, .. } => {
                format!("{} {}", words.sharing_paused, words.until_resumed)
            }
            Sharing::Paused { until: Some(until), .. } => {
                format!("{} {} {}", words.sharing_paused, words.until, when(until))
            }
        };
        let [hour, night, open] = PAUSES;
        let milliseconds =
            |value: Option<f64>| value.map_or(words.none.to_owned(), |value| format!("{value:.0} ms"));
        Home {
            words,
            languages: Language::ALL,
            // `<` would end the element that the words stand in.
            words_json: serde_json::to_string(words).unwrap_or_default().replace('<', "\\u003c"),
            csrf,
            problem,
            paused: now.sharing != Sharing::On,
            state,
            pauses: [(hour, words.pause_1h), (night, words.pause_8h), (open, words.pause_open)],
            notice: match now.notice.answer {
                "notice_no" => words.notice_no,
                "notice_little" => words.notice_little,
                "notice_yes" => words.notice_yes,
                _ => words.notice_idle,
            },
            latency_now: milliseconds(now.notice.now_ms),
            latency_off: milliseconds(now.notice.off_ms),
            rate_down: rate(now.sample.down_bps),
            rate_up: rate(now.sample.up_bps),
            volumes: now.volumes.into_iter().map(|volume| VolumeRow::new(words, volume)).collect(),
            users: now
                .users
                .into_iter()
                .map(|user| UserRow {
                    name: user.name,
                    connections: user.connections,
                    down: bytes(user.down_bytes),
                    up: bytes(user.up_bytes),
                    refused: user.refused,
                    standing: match user.standing.as_str() {
                        "slowed" => words.slowed,
                        "paused" => words.paused,
                        "revoked" => words.revoked,
                        _ => words.free,
                    },
                })
                .collect(),
            notices,
        }
    }
}

impl VolumeRow {
    fn new(words: &Words, volume: Volume) -> VolumeRow {
        VolumeRow {
            name: match volume.cap.as_str() {
                "month" => words.cap_month,
                "all_daily" => words.cap_all_daily,
                "voucher" => words.cap_voucher,
                _ => words.cap_user_daily,
            },
            used: bytes(volume.used_bytes),
            limit: bytes(volume.limit_bytes),
            permille: volume.used_bytes.saturating_mul(1000) / volume.limit_bytes.max(1),
            until: when(volume.until),
        }
    }
}

fn when(at: Timestamp) -> String {
    at.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M").to_string()
}

fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes < 1e9 { format!("{:.1} MB", bytes / 1e6) } else { format!("{:.2} GB", bytes / 1e9) }
}

fn rate(bps: f64) -> String {
    if bps < 1e6 { format!("{:.0} kbit/s", bps / 1e3) } else { format!("{:.1} Mbit/s", bps / 1e6) }
}
