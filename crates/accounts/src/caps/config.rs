//! The limits that the owner of a line sets, as TOML.

use jiff::tz::TimeZone;
use leeway_units::{Bytes, Rate};
use serde::{Deserialize, Deserializer, de::Error};
use std::collections::BTreeMap;

/// Caps of a line. Without any, nothing is limited.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CapsConfig {
    /// Time zone of days, months and hours, such as `Europe/Madrid`. That of the machine unless
    /// given.
    #[serde(deserialize_with = "time_zone")]
    pub time_zone: TimeZone,
    /// Day of the month on which a billing month begins, 1 to 31. In a month without this day, the
    /// last day.
    pub billing_day: i8,
    /// Volume of the line in a billing month.
    pub month: Option<MonthConfig>,
    /// Transit that is billed by the 95th percentile.
    pub percentile: Option<PercentileConfig>,
    /// Limits for all neighbours together.
    pub all: LimitConfig,
    /// Limits for each neighbour.
    pub user: LimitConfig,
    /// Neighbours with limits of their own, which replace those of `user`.
    pub users: BTreeMap<String, LimitConfig>,
    /// Hours in which neighbours are slowed or paused.
    pub hours: Vec<HoursConfig>,
}

/// A volume that the home and its neighbours share, both directions together.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonthConfig {
    /// Volume that the tariff includes.
    #[serde(deserialize_with = "volume")]
    pub volume: Bytes,
    /// Volume that neighbours leave to the home, whether the home uses it or not.
    #[serde(default, deserialize_with = "volume")]
    pub keep_for_home: Bytes,
    /// Part of the neighbours' volume after which they are slowed, so that the rest lasts.
    #[serde(default = "slow_at")]
    pub slow_at: f64,
}

/// Transit billing. Of the 5-minute samples of a month, the highest 5 % are free, and the next
/// sample is billed.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PercentileConfig {
    /// How the two directions are combined.
    pub billing: Billing,
    /// Part of the forecast level that neighbours may reach, 0 to 1. With 0, the default, there is
    /// no forecast: neighbours may reach only the level that the home has already set.
    pub caution: f64,
}

/// How a provider combines the two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Billing {
    /// The 95th percentile of each direction; the greater one is billed.
    Greater,
    /// The 95th percentile of their sum.
    Sum,
}

/// Limits for one neighbour or for all.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitConfig {
    /// Bytes from midnight to midnight, both directions together.
    #[serde(deserialize_with = "some_volume")]
    pub daily: Option<Bytes>,
    /// Rate in each direction.
    pub rate: Option<Rate>,
    /// Part of `daily` after which the rest is spread over the rest of the day.
    pub slow_at: f64,
}

/// A time of the day on some days of the week.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoursConfig {
    /// Days on which the time begins; every day unless given.
    #[serde(default = "every_day")]
    pub days: Vec<Day>,
    /// Beginning, such as `08:00`, in minutes since midnight.
    #[serde(deserialize_with = "minute")]
    pub from: u16,
    /// End, such as `18:30`, in minutes since midnight. On the next day if it is not after the
    /// beginning.
    #[serde(deserialize_with = "minute")]
    pub to: u16,
    /// Rate of all neighbours in each direction. Without it, neighbours are paused.
    pub rate: Option<Rate>,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Day {
    /// Monday.
    Mon,
    /// Tuesday.
    Tue,
    /// Wednesday.
    Wed,
    /// Thursday.
    Thu,
    /// Friday.
    Fri,
    /// Saturday.
    Sat,
    /// Sunday.
    Sun,
}

impl CapsConfig {
    /// Checks what the types cannot express.
    ///
    /// # Errors
    /// The first contradiction and how to resolve it.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=31).contains(&self.billing_day) {
            return Err(format!("caps.billing_day is {}; it goes from 1 to 31", self.billing_day));
        }
        let part = |name: &str, part: f64| {
            let right = (0.0..=1.0).contains(&part);
            right.then_some(()).ok_or_else(|| format!("caps.{name} is {part}; it goes from 0 to 1"))
        };
        if let Some(month) = &self.month {
            part("month.slow_at", month.slow_at)?;
            if month.keep_for_home >= month.volume {
                return Err(format!(
                    "caps.month.keep_for_home ({}) leaves nothing of caps.month.volume ({}): make it smaller",
                    month.keep_for_home, month.volume
                ));
            }
        }
        if let Some(percentile) = &self.percentile {
            part("percentile.caution", percentile.caution)?;
        }
        let own = self.users.iter().map(|(name, limit)| (format!("users.{name}"), limit));
        let all = [("all".to_owned(), &self.all), ("user".to_owned(), &self.user)];
        for (name, limit) in all.into_iter().chain(own) {
            part(&format!("{name}.slow_at"), limit.slow_at)?;
            if limit.rate.is_some_and(|rate| rate.bits_per_sec() == 0) {
                return Err(format!("caps.{name}.rate is 0: leave it out, or give at least \"1 kbit/s\""));
            }
        }
        for (n, hours) in self.hours.iter().enumerate() {
            if hours.from >= 24 * 60 {
                return Err(format!("caps.hours {}: `from` goes to 23:59; \"24:00\" is for `to`", n + 1));
            }
            if hours.days.is_empty() {
                return Err(format!("caps.hours {}: `days` is empty, so it never holds", n + 1));
            }
            if hours.rate.is_some_and(|rate| rate.bits_per_sec() == 0) {
                return Err(format!("caps.hours {}: `rate` is 0: leave it out to pause", n + 1));
            }
        }
        Ok(())
    }
}

impl Default for CapsConfig {
    fn default() -> CapsConfig {
        CapsConfig {
            time_zone: TimeZone::system(),
            billing_day: 1,
            month: None,
            percentile: None,
            all: LimitConfig::default(),
            user: LimitConfig::default(),
            users: BTreeMap::new(),
            hours: vec![],
        }
    }
}

impl Default for LimitConfig {
    fn default() -> LimitConfig {
        LimitConfig { daily: None, rate: None, slow_at: slow_at() }
    }
}

impl Default for PercentileConfig {
    fn default() -> PercentileConfig {
        PercentileConfig { billing: Billing::Greater, caution: 0.0 }
    }
}

fn slow_at() -> f64 {
    0.8
}

fn every_day() -> Vec<Day> {
    use Day::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};
    vec![Mon, Tue, Wed, Thu, Fri, Sat, Sun]
}

fn time_zone<'de, D: Deserializer<'de>>(deserializer: D) -> Result<TimeZone, D::Error> {
    let name = String::deserialize(deserializer)?;
    TimeZone::get(&name).map_err(|_| {
        D::Error::custom(format!(
            "there is no time zone `{name}`: give one of the IANA database, such as \"Europe/Madrid\" or \"UTC\""
        ))
    })
}

/// Reads an amount of data. Also reads terabytes.
fn volume<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = || {
        D::Error::custom(format!(
            "`{text}` is not an amount of data such as \"500 GB\", \"1.5 TB\" or \"200 MB\""
        ))
    };
    match text.trim().strip_suffix("TB") {
        Some(number) => {
            let giga = format!("{number}GB").parse::<Bytes>().map_err(|_| wrong())?;
            giga.get().checked_mul(1000).map(Bytes::new).ok_or_else(wrong)
        }
        None => text.parse().map_err(|_| wrong()),
    }
}

fn some_volume<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Bytes>, D::Error> {
    volume(deserializer).map(Some)
}

/// Reads a time of day, as minutes since midnight.
fn minute<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u16, D::Error> {
    let text = String::deserialize(deserializer)?;
    let two = |text: &str| text.parse::<u16>().ok().filter(|_| text.len() == 2);
    text.split_once(':')
        .and_then(|(hour, minute)| Some((two(hour)?, two(minute)?)))
        .filter(|&(hour, minute)| minute < 60 && (hour < 24 || (hour, minute) == (24, 0)))
        .map(|(hour, minute)| hour * 60 + minute)
        .ok_or_else(|| {
            D::Error::custom(format!("`{text}` is no time of the day: give one such as \"08:00\""))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        match toml::from_str::<CapsConfig>(text) {
            Err(error) => error.to_string(),
            Ok(config) => config.check().expect_err("it is wrong"),
        }
    }

    #[test]
    fn everything_can_be_said() {
        let config: CapsConfig = toml::from_str(
            r#"
            time_zone = "Europe/Madrid"
            billing_day = 31
            month = { volume = "1.5 TB", keep_for_home = "500 GB", slow_at = 0.9 }
            percentile = { billing = "sum", caution = 0 }
            all = { daily = "20 GB", rate = "50 Mbit/s" }
            user = { daily = "2 GB", rate = "5 Mbit/s" }
            users.ann = { rate = "10 Mbit/s" }
            [[hours]]
            days = ["mon", "fri"]
            from = "22:00"
            to = "24:00"
            rate = "1 Mbit/s"
            "#,
        )
        .unwrap();
        config.check().unwrap();
        assert_eq!(config.month.unwrap().volume.get(), 1_500_000_000_000);
        assert_eq!((config.hours[0].from, config.hours[0].to), (22 * 60, 24 * 60));
        assert_eq!(config.user.slow_at, 0.8);
        toml::from_str::<CapsConfig>("").unwrap().check().unwrap();
    }

    #[test]
    fn what_is_wrong_is_said_with_what_would_be_right() {
        let cases = [
            ("time_zone = \"Madrid\"", "no time zone `Madrid`: give one of the IANA database"),
            ("billing_day = 0", "caps.billing_day is 0; it goes from 1 to 31"),
            ("month = { volume = \"500\" }", "`500` is not an amount of data such as \"500 GB\""),
            (
                "month = { volume = \"1 GB\", keep_for_home = \"1 GB\" }",
                "leaves nothing of caps.month.volume",
            ),
            ("month = { volume = \"1 GB\", slow_at = 80 }", "caps.month.slow_at is 80; it goes from 0 to 1"),
            ("percentile = { billing = \"max\" }", "expected `greater` or `sum`"),
            ("user = { dayly = \"1 GB\" }", "unknown field `dayly`, expected"),
            ("user = { rate = \"0 kbit/s\" }", "caps.user.rate is 0"),
            ("users.ann = { slow_at = -1.0 }", "caps.users.ann.slow_at is -1"),
            ("hours = [{ from = \"8:00\", to = \"09:00\" }]", "`8:00` is no time of the day"),
            ("hours = [{ from = \"24:00\", to = \"09:00\" }]", "caps.hours 1: `from` goes to 23:59"),
            ("hours = [{ from = \"08:00\", to = \"09:60\" }]", "`09:60` is no time of the day"),
            (
                "hours = [{ from = \"08:00\", to = \"09:00\", days = [\"monday\"] }]",
                "unknown variant `monday`",
            ),
        ];
        for (text, part) in cases {
            let message = wrong(text);
            assert!(message.contains(part), "{text}:\n{message}");
        }
        assert!(wrong("\n\nbilling_day = \"x\"").contains("line 3"));
    }
}
