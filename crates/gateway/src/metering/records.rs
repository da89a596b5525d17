//! What was used: exports, and sums of days.

use super::{Meter, in_thread};
use crate::control::{DayUsage, ExportFormat, ExportRange, PastDays};
use jiff::civil::Date;
use jiff::{SignedDuration, Timestamp};
use leeway_accounts::caps::Every;
use leeway_accounts::export::{self, ExportError};
use leeway_accounts::store::{Store, StoreError, Usage};
use leeway_accounts::time::Slot;
use std::collections::BTreeMap;
use std::io::Write;

impl Meter {
    /// Writes what was used in a range of days. Without days, everything.
    ///
    /// # Errors
    /// The store cannot be read, or `out` fails.
    pub fn export(&self, range: ExportRange, out: &mut (dyn Write + Send)) -> Result<(), ExportError> {
        let ExportRange { from, to, format } = range;
        let zone = self.zone();
        let midnight =
            |date: Date| date.to_zoned_datetime(zone.clone()).map(|zoned| Slot::of(zoned.timestamp()));
        let day = |date: Option<Date>, without: Timestamp| {
            date.and_then(|date| midnight(date).ok()).unwrap_or(Slot::of(without))
        };
        let (from, to) = (day(from, Timestamp::UNIX_EPOCH), day(to, Timestamp::MAX));
        in_thread(|| {
            let mut store = Store::reading(&self.config.url)?;
            match format {
                ExportFormat::Csv => export::csv(&mut store, from, to, out),
                ExportFormat::Parquet => export::parquet(&mut store, from, to, out),
            }
        })
        .map(drop)
    }

    /// What each user and the home used here on each of the last `days` days.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn days(&self, days: u16) -> Result<PastDays, StoreError> {
        let (now, gateway) = (self.now(), self.config.gateway());
        let zone = self.zone();
        let mut every = Every::Day(zone.clone()).period(now);
        let today = zone.to_datetime(now).date();
        in_thread(|| {
            let (mut store, mut usage) = (Store::reading(&self.config.url)?, Vec::new());
            for _ in 0..days {
                let day = zone.to_datetime(every.start).date();
                let (from, to) = (Slot::of(every.start), Slot::of(every.end));
                let home = store.usage_of_home(&gateway, from, to)?;
                let neighbours = store.usage_of_neighbours(&gateway, from, to)?;
                let mut sums = BTreeMap::<String, [u64; 2]>::new();
                for Usage { user, direction, bytes, .. } in home.into_iter().chain(neighbours) {
                    sums.entry(user).or_default()[direction as usize] += bytes;
                }
                usage.extend(sums.into_iter().map(|(user, [down_bytes, up_bytes])| DayUsage {
                    day,
                    user,
                    down_bytes,
                    up_bytes,
                }));
                let Ok(before) = every.start.checked_sub(SignedDuration::from_secs(1)) else { break };
                every = Every::Day(zone.clone()).period(before);
            }
            Ok(PastDays { today, days, usage })
        })
    }
}
