//! The pages as HTML. Askama escapes every value.

use super::neighbour::terms;
use super::words::Words;
use crate::control::{self, Entrance, IssuedCode, LimitStatus, Now, Sharing, Volume};
use crate::home_speed::{HomeSpeed, Seen};
use crate::language::Language;
use crate::notes::Note;
use crate::observe::Observation;
use crate::peers::{Document, PeerStatus, Standing};
use crate::qr::Qr;
use askama::Template;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Pauses that have a button, in seconds. The empty one has no end.
const PAUSES: [&str; 3] = ["3600", "28800", ""];

/// The login form.
#[derive(Template)]
#[template(path = "login.html")]
pub struct Login {
    words: &'static Words,
    languages: [(Language, &'static str, &'static str); 3],
    problem: Option<&'static str>,
}

impl Login {
    /// The form, with a problem if there is one.
    pub fn new(language: Language, problem: Option<&'static str>) -> Login {
        Login { words: language.words(), languages: Language::ALL, problem }
    }
}

/// The owner's page, as it is before the first event.
#[derive(Template)]
#[template(path = "home.html")]
pub struct Home {
    words: &'static Words,
    languages: [(Language, &'static str, &'static str); 3],
    words_json: String,
    /// Name of the time zone in the IANA database; empty for that of the browser.
    zone: String,
    csrf: String,
    message: Option<Message>,
    observed: Option<Observed>,
    paused: bool,
    state: String,
    pauses: [(&'static str, &'static str); 3],
    notice: &'static str,
    latency_now: String,
    latency_off: String,
    speed: [String; 4],
    speed_words: String,
    rate_down: String,
    rate_up: String,
    volumes: Vec<VolumeRow>,
    users: Vec<UserRow>,
    peers: Vec<PeerRow>,
    notices: Vec<String>,
    limits: Vec<LimitRow>,
    codes: bool,
}

/// A limit with its form. The last one is for a neighbour without a limit.
struct LimitRow {
    label: String,
    whose: &'static str,
    user: String,
    daily: String,
    rate: String,
    set: bool,
}

impl LimitRow {
    fn new(words: &Words, limit: LimitStatus) -> LimitRow {
        let (whose, label) = match (&limit.user, limit.all) {
            (Some(name), _) => ("user", name.clone()),
            (None, true) => ("all", words.limit_all.to_owned()),
            (None, false) => ("each", words.limit_each.to_owned()),
        };
        let in_units = |number: Option<u64>, unit: f64| {
            number.map_or(String::new(), |number| {
                (number as f64 / unit).to_string().replace('.', words.decimal_mark)
            })
        };
        LimitRow {
            label,
            whose,
            daily: in_units(limit.daily_bytes, 1e9),
            rate: in_units(limit.rate_bps, 1e6),
            user: limit.user.unwrap_or_default(),
            set: limit.set,
        }
    }

    /// The form for a neighbour without a limit of its own.
    fn another(words: &Words) -> LimitRow {
        let label = words.user.to_owned();
        let (user, daily, rate) = Default::default();
        LimitRow { label, whose: "user", user, daily, rate, set: false }
    }
}

/// A volume of data, as texts.
pub struct VolumeRow {
    /// Name of the volume.
    pub name: &'static str,
    /// Data used.
    pub used: String,
    /// Data left.
    pub left: String,
    /// Data that may be used.
    pub limit: String,
    /// The used part, in thousandths.
    pub permille: u64,
    /// When it begins anew, or ends; empty if it does neither.
    pub until: String,
}

struct UserRow {
    name: String,
    connections: usize,
    down: String,
    up: String,
    refused: u64,
    standing: &'static str,
    revoked: bool,
}

/// Another gateway.
struct PeerRow {
    /// Name that the owner gave it; empty without one.
    name: String,
    address: String,
    standing: String,
    /// Why it does not answer.
    error: String,
    users: String,
    load: String,
    left: String,
    seen: String,
}

impl PeerRow {
    fn new(words: &Words, zone: &TimeZone, peer: PeerStatus) -> PeerRow {
        let dash = || "–".to_owned();
        let standing = match &peer.says {
            None => words.peer_gone.to_owned(),
            Some(Document { sharing: Standing::On, .. }) => words.peer_on.to_owned(),
            Some(Document { until: Some(until), .. }) => {
                format!("{} {} {}", words.paused, words.until, when(*until, words, zone))
            }
            Some(_) => words.paused.to_owned(),
        };
        let (load, spare) = peer.says.as_ref().map_or((None, None), |says| (says.load, says.spare_bps));
        let free = |spare: u64| {
            let free = spare as f64 * (1.0 - load.unwrap_or(0.0).clamp(0.0, 1.0));
            format!("{} {} {}", rate(words, free), words.of, rate(words, spare as f64))
        };
        PeerRow {
            name: peer.name.unwrap_or_default(),
            address: peer.address.to_string(),
            standing,
            error: peer.error.unwrap_or_default(),
            users: peer
                .says
                .as_ref()
                .and_then(|says| says.users)
                .map_or_else(dash, |users| users.to_string()),
            load: load.map_or_else(dash, |load| format!("{} %", number(words, 100.0 * load, 0))),
            left: spare.map_or_else(dash, free),
            seen: peer.last_seen.map_or_else(|| words.never.to_owned(), |at| when(at, words, zone)),
        }
    }
}

/// What could be shared, for a gateway that only observes.
struct Observed {
    seconds: u64,
    sees_home: bool,
    /// For down and up: the mean, the busiest second, and the spare rate.
    rates: [String; 6],
    unknown: Vec<String>,
}

impl Observed {
    fn new(words: &Words, seen: Observation, unknown: Vec<String>) -> Observed {
        let Observation { seconds, sees_home, down, up, .. } = seen;
        let rate = |bps| rate(words, bps);
        let spare = |bps: Option<f64>| bps.map_or("?".to_owned(), &rate);
        let rates = [
            rate(down.mean_bps),
            rate(up.mean_bps),
            rate(down.busiest_bps),
            rate(up.busiest_bps),
            spare(down.spare_bps),
            spare(up.spare_bps),
        ];
        Observed { seconds, sees_home, rates, unknown }
    }
}

/// The result of a form.
pub struct Message {
    problem: bool,
    lines: Vec<String>,
}

impl Message {
    /// Says that nothing has changed, and why.
    pub fn problem(words: &str) -> Message {
        Message { problem: true, lines: vec![words.to_owned()] }
    }

    /// Says that it is done, with notices for the owner.
    pub fn done(language: Language, words: &str, notes: &[Note]) -> Message {
        let notes = notes.iter().map(|note| note.words(language));
        Message { problem: false, lines: [words.to_owned()].into_iter().chain(notes).collect() }
    }
}

impl Home {
    /// The page of the state `now`, with notices, with what an observing gateway cannot know, and
    /// with times in `zone`.
    pub fn new(
        language: Language,
        csrf: String,
        message: Option<Message>,
        now: Now,
        [notices, unknown]: [&[Note]; 2],
        zone: &TimeZone,
    ) -> Home {
        let words = language.words();
        let spoken = |notes: &[Note]| notes.iter().map(|note| note.words(language)).collect::<Vec<_>>();
        let state = match now.sharing {
            Sharing::On => words.sharing_on.to_owned(),
            Sharing::Observing => words.observing.to_owned(),
            Sharing::Paused { until: None, .. } => {
                format!("{} {}", words.sharing_paused, words.until_resumed)
            }
            Sharing::Paused { until: Some(until), .. } => {
                format!("{} {} {}", words.sharing_paused, words.until, when(until, words, zone))
            }
        };
        let [hour, night, open] = PAUSES;
        Home {
            words,
            languages: Language::ALL,
            // `<` would end the element that contains the JSON.
            words_json: serde_json::to_string(words).unwrap_or_default().replace('<', "\\u003c"),
            zone: zone.iana_name().unwrap_or_default().to_owned(),
            csrf,
            message,
            paused: now.sharing != Sharing::On,
            observed: now.observed.map(|seen| Observed::new(words, seen, spoken(unknown))),
            state,
            pauses: [(hour, words.pause_1h), (night, words.pause_8h), (open, words.pause_open)],
            notice: match now.notice.answer {
                "notice_no" => words.notice_no,
                "notice_little" => words.notice_little,
                "notice_yes" => words.notice_yes,
                _ => words.notice_idle,
            },
            latency_now: milliseconds(words, now.notice.now_ms),
            latency_off: milliseconds(words, now.notice.off_ms),
            speed: speeds(words, &now.home_speed),
            speed_words: speed_words(words, &now.home_speed),
            rate_down: rate(words, now.sample.down_bps),
            rate_up: rate(words, now.sample.up_bps),
            volumes: now.volumes.into_iter().map(|volume| VolumeRow::new(words, zone, volume)).collect(),
            users: now
                .users
                .into_iter()
                .map(|user| UserRow {
                    revoked: user.standing == "revoked",
                    name: user.name,
                    connections: user.connections,
                    down: bytes(words, user.down_bytes),
                    up: bytes(words, user.up_bytes),
                    refused: user.refused,
                    standing: match user.standing.as_str() {
                        "slowed" => words.slowed,
                        "paused" => words.paused,
                        "revoked" => words.revoked,
                        _ => words.free,
                    },
                })
                .collect(),
            peers: now.peers.into_iter().map(|peer| PeerRow::new(words, zone, peer)).collect(),
            notices: spoken(notices),
            limits: vec![],
            codes: false,
        }
    }

    /// Adds the forms for limits, if the gateway keeps accounts.
    pub fn with_limits(self, limits: Option<Vec<LimitStatus>>) -> Home {
        let rows = limits.map(|limits| {
            let rows = limits.into_iter().map(|limit| LimitRow::new(self.words, limit));
            rows.chain([LimitRow::another(self.words)]).collect()
        });
        Home { limits: rows.unwrap_or_default(), ..self }
    }

    /// Adds the forms for codes, if the gateway takes codes.
    pub fn with_codes(self, codes: bool) -> Home {
        Home { codes, ..self }
    }
}

/// New codes, shown once.
#[derive(Template)]
#[template(path = "issued.html")]
pub struct Issued {
    words: &'static Words,
    languages: [(Language, &'static str, &'static str); 3],
    terms: String,
    entrance: Entrance,
    codes: Vec<(IssuedCode, Option<String>)>,
}

impl Issued {
    /// The codes, each with the picture of its link.
    pub fn new(language: Language, issued: &control::Issued) -> Issued {
        let qr = |link: &String| Qr::of(link).map(|qr| qr.svg());
        let codes = issued.codes.iter().map(|code| (code.clone(), code.link.as_ref().and_then(qr)));
        let (days, bytes) = (issued.days, issued.bytes);
        // An invitation without days and data has no limit until it is revoked.
        let terms =
            if (days, bytes) == (None, None) { String::new() } else { terms(language.words(), days, bytes) };
        Issued {
            words: language.words(),
            languages: Language::ALL,
            terms,
            entrance: issued.entrance,
            codes: codes.collect(),
        }
    }
}

impl VolumeRow {
    /// A volume as texts in the language of `words`.
    pub fn new(words: &Words, zone: &TimeZone, volume: Volume) -> VolumeRow {
        VolumeRow {
            name: match volume.cap.as_str() {
                "month" => words.cap_month,
                "all_daily" => words.cap_all_daily,
                "voucher" => words.cap_voucher,
                _ => words.cap_user_daily,
            },
            used: bytes(words, volume.used_bytes),
            left: bytes(words, volume.limit_bytes.saturating_sub(volume.used_bytes)),
            limit: bytes(words, volume.limit_bytes),
            permille: volume.used_bytes.saturating_mul(1000) / volume.limit_bytes.max(1),
            until: if volume.until < Timestamp::MAX {
                when(volume.until, words, zone)
            } else {
                String::new()
            },
        }
    }
}

/// A time in the time zone of the line, as people of the language write it.
pub fn when(at: Timestamp, words: &Words, zone: &TimeZone) -> String {
    let at = zone.to_datetime(at);
    format!("{}, {:02}:{:02}", date(at.date(), words), at.hour(), at.minute())
}

/// A day, as people of the language write it.
pub fn date(day: Date, words: &Words) -> String {
    let month = words.months.split(' ').nth(day.month() as usize - 1).unwrap_or_default();
    format!("{} {month} {}", day.day(), day.year())
}

/// A number with the decimal mark of the language.
fn number(words: &Words, value: f64, digits: usize) -> String {
    format!("{value:.digits$}").replace('.', words.decimal_mark)
}

/// An amount of data with its unit.
pub fn bytes(words: &Words, bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1e9 => format!("{} MB", number(words, bytes / 1e6, 1)),
        bytes => format!("{} GB", number(words, bytes / 1e9, 2)),
    }
}

/// A rate with its unit.
pub fn rate(words: &Words, bps: f64) -> String {
    match bps {
        bps if bps < 1e6 => format!("{} kbit/s", number(words, bps / 1e3, 0)),
        bps => format!("{} Mbit/s", number(words, bps / 1e6, 1)),
    }
}

/// The speeds of the home: down with and without neighbours, then up.
fn speeds(words: &Words, speed: &HomeSpeed) -> [String; 4] {
    let HomeSpeed { down, up, .. } = speed;
    [down.with_bps, down.without_bps, up.with_bps, up.without_bps]
        .map(|bps| bps.map_or(words.none.to_owned(), |bps| rate(words, bps)))
}

/// What these speeds say, as a sentence.
fn speed_words(words: &Words, speed: &HomeSpeed) -> String {
    let said = |text: &str, values: [String; 2]| {
        values.iter().fold(text.to_owned(), |text, value| text.replacen("{}", value, 1))
    };
    let HomeSpeed { seen, down, .. } = speed;
    match (seen, down.ratio) {
        (Seen::No, _) => words.speed_unseen.to_owned(),
        (Seen::NotYet, _) => words.speed_silent.to_owned(),
        (Seen::Yes, None) => said(words.speed_few, [down.pairs, down.needed].map(|pairs| pairs.to_string())),
        (Seen::Yes, Some(ratio)) => {
            said(words.speed_known, [number(words, 100.0 * ratio, 0), down.pairs.to_string()])
        }
    }
}

fn milliseconds(words: &Words, value: Option<f64>) -> String {
    let digits = |value| if value < 10.0 { 1 } else { 0 };
    value.map_or(words.none.to_owned(), |value| format!("{} ms", number(words, value, digits(value))))
}
