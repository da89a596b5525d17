//! `leeway gateway limit`: lists the limits of neighbours, and changes them while the gateway runs.

use super::control::Ask;
use crate::Failure;
use clap::{ArgGroup, Args};
use leeway_gateway::control::{LimitRequest, LimitStatus};
use leeway_guard::steady;
use leeway_units::{Bytes, Rate};
use std::io::{self, Write};
use tokio::runtime::Runtime;

/// Examples and exit codes.
pub const HELP: &str = "Examples:\n  \
    leeway gateway limit\n      \
    the limits that count now\n  \
    leeway gateway limit ann --daily '2 GB' --rate '5 Mbit/s'\n      \
    a limit of ann's own, instead of that of each neighbour\n  \
    leeway gateway limit --all --rate none\n      \
    no rate limit for all neighbours together; their daily volume stays\n  \
    leeway gateway limit ann --undo\n      \
    ann's limit is that of the configuration again\n\n\
    A limit holds at once, also for running transfers, and outlives a restart. \
    It counts instead of [caps.all], [caps.user] or [caps.users] of the configuration. \
    With PostgreSQL the limits of users hold at all gateways.\n\n\
    Exit codes: 0 done, 1 no gateway runs, 2 bad usage, nobody has that name, or a gateway without [accounts].";

/// Whose limit, and which.
#[derive(Args)]
#[command(group(ArgGroup::new("whose").args(["name", "each", "all"])))]
pub struct SetLimit {
    /// The user's name or the neighbour's address, as `leeway gateway users` prints it.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The limit of each neighbour without a limit of its own.
    #[arg(long)]
    each: bool,
    /// The limit of all neighbours together.
    #[arg(long)]
    all: bool,
    /// Data of a day, both directions together, such as '2 GB'; or `none`.
    #[arg(long, value_name = "DATA", value_parser = data, requires = "whose")]
    daily: Option<Amount>,
    /// Rate in each direction, such as '5 Mbit/s'; or `none`.
    #[arg(long, value_name = "RATE", value_parser = rate, requires = "whose")]
    rate: Option<Amount>,
    /// Give the limit of the configuration back.
    #[arg(long, requires = "whose", conflicts_with_all = ["daily", "rate"])]
    undo: bool,
    #[command(flatten)]
    ask: Ask,
}

/// A number, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Amount(Option<u64>);

fn data(text: &str) -> Result<Amount, String> {
    amount(text, |text| text.parse::<Bytes>().map(Bytes::get).map_err(|error| error.to_string()))
}

fn rate(text: &str) -> Result<Amount, String> {
    amount(text, |text| text.parse::<Rate>().map(Rate::bits_per_sec).map_err(|error| error.to_string()))
}

fn amount(text: &str, read: impl Fn(&str) -> Result<u64, String>) -> Result<Amount, String> {
    if text == "none" { Ok(Amount(None)) } else { read(text).map(|number| Amount(Some(number))) }
}

/// Lists the limits, or sets one.
pub fn run(limit: &SetLimit, runtime: &Runtime) -> Result<(), Failure> {
    let SetLimit { name, each, all, daily, rate, undo, ask } = limit;
    let limits: Vec<LimitStatus> = runtime.block_on(ask.client().get("/v1/limits"))?;
    if name.is_none() && !each && !all {
        return ask.print(&limits, |limits, out| limits.iter().try_for_each(|limit| line(limit, out)));
    }
    if daily.is_none() && rate.is_none() && !undo {
        return Err(Failure::Usage("give --daily, --rate or both, or --undo".into()));
    }
    // What is not given stays as it is. A user without a limit of its own has that of each.
    let of = |user: &Option<String>| limits.iter().find(|limit| limit.all == *all && limit.user == *user);
    let now = of(name).or_else(|| of(&None));
    let amount = |given: Option<Amount>, now: Option<u64>| given.map_or(now, |Amount(number)| number);
    let request = LimitRequest {
        user: name.clone(),
        all: *all,
        daily_bytes: amount(*daily, now.and_then(|now| now.daily_bytes)),
        rate_bps: amount(*rate, now.and_then(|now| now.rate_bps)),
        undo: *undo,
    };
    let set: LimitStatus = runtime.block_on(ask.client().post("/v1/limits", &request))?;
    ask.print(&set, |set, out| line(set, out))
}

fn line(limit: &LimitStatus, out: &mut dyn Write) -> io::Result<()> {
    let whose = match &limit.user {
        Some(name) => steady(name),
        None if limit.all => "all neighbours together".into(),
        None => "each neighbour".into(),
    };
    let daily = limit.daily_bytes.map(|bytes| format!("{} a day", crate::account::bytes(bytes)));
    let rate = limit.rate_bps.map(|bps| Rate::from_bits_per_sec(bps).to_string());
    let both: Vec<String> = daily.into_iter().chain(rate).collect();
    let words = if both.is_empty() { "no limit".into() } else { both.join(" and ") };
    let set = if limit.set { " (set while running)" } else { "" };
    writeln!(out, "{whose}: {words}{set}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_or_explained() {
        assert_eq!(data("2 GB"), Ok(Amount(Some(2_000_000_000))));
        assert_eq!(rate("5 Mbit/s"), Ok(Amount(Some(5_000_000))));
        assert_eq!((data("none"), rate("none")), (Ok(Amount(None)), Ok(Amount(None))));
        assert!(data("2").unwrap_err().contains("such as") && rate("fast").unwrap_err().contains("such as"));
    }
}
