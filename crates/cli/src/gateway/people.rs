//! `leeway gateway voucher`, `invite`, `users`: the users of the line.

use super::control::{Ask, local, megabytes};
use crate::Failure;
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use leeway_accounts::vouchers::gigabytes;
use leeway_gateway::control::{
    DayUsage, InviteRequest, Issued, IssuedCode, PastDays, UserStatus, VoucherRequest, VoucherStatus,
};
use leeway_gateway::page::{Language, sheet};
use leeway_gateway::qr::Qr;
use leeway_guard::steady;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use tokio::runtime::Runtime;

const VOUCHER_HELP: &str = "Examples:\n  \
    leeway gateway voucher --days 7 --gb 5 --count 20\n      \
    20 vouchers, and vouchers.html to print: ten a page of A4, with QR codes\n  \
    leeway gateway voucher --gb 1 --valid-days 90 --sheet fair.html --language ca\n      \
    one voucher of 1 GB that has to be used first within 90 days, on paper in Catalan\n  \
    leeway gateway voucher --list\n      \
    all that were made, without their codes\n\n\
    A neighbour gives the code as user name of the proxy, and any password. The first use begins the days. \
    The gateway needs `vouchers = true` and [accounts]. Codes are in no other place than the sheet.\n\n\
    Exit codes: 0 done, 1 no gateway is running here or the sheet cannot be written, 2 bad usage.";

const INVITE_HELP: &str = "Examples:\n  \
    leeway gateway invite ann\n      \
    a code for ann, a link to her page, and the link as QR code\n  \
    leeway gateway invite ann --days 30 --gb 50\n      \
    the same for 30 days from the first use on, and 50 GB\n\n\
    Ann gives the code as user name of the proxy, and any password. It is shown once.\n\n\
    Exit codes: 0 done, 1 no gateway is running here, 2 bad usage or a name that is invited already.";

const HISTORY_HELP: &str = "Examples:\n  \
    leeway gateway history\n      \
    what the home and each neighbour used today, in 7 and in 30 days\n  \
    leeway gateway history --user ann --days 14\n      \
    what ann used on each of 14 days\n\n\
    The accounts keep it, also over restarts. The home is there if its packets pass this machine.\n\n\
    Exit codes: 0 done, 1 no gateway is running here, 2 bad usage, or a gateway without [accounts].";

const USERS_HELP: &str = "Example:\n  \
    leeway gateway users\n      \
    who uses the line, what each has left of a volume, until when, and when each came last\n\n\
    Exit codes: 0 done, 1 no gateway is running here, 2 bad usage.";

/// The users of the line.
#[derive(Subcommand)]
pub enum PeopleCommand {
    /// Make vouchers for some days, some data or both, and a sheet of them to print.
    #[command(after_help = VOUCHER_HELP)]
    Voucher(Voucher),
    /// Invite a neighbour by name: make a code, and show it with a QR code, once.
    #[command(after_help = INVITE_HELP)]
    Invite(Invite),
    /// List the neighbours: what each uses and has left, until when, and when each last used the
    /// line.
    #[command(after_help = USERS_HELP)]
    Users(Ask),
    /// Show what the home and each neighbour used on the last days, from the accounts.
    #[command(after_help = HISTORY_HELP)]
    History(Past),
}

/// Which days, and whose.
#[derive(Args)]
pub struct Past {
    /// Number of days until today, 1 to 366.
    #[arg(long, value_name = "DAYS", default_value_t = 30)]
    days: u16,
    /// Show each day of this neighbour instead of sums.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    #[command(flatten)]
    ask: Ask,
}

/// What the vouchers give.
#[derive(Args)]
pub struct Voucher {
    /// Days that a voucher is valid, from its first use.
    #[arg(long, value_name = "DAYS")]
    days: Option<u32>,
    /// Gigabytes that a voucher gives, both directions together, such as 5 or 0.5.
    #[arg(long, value_name = "GB")]
    gb: Option<f64>,
    /// Number of vouchers.
    #[arg(long, value_name = "N", default_value_t = 1)]
    count: usize,
    /// Days until which the first use has to happen. Without it, a voucher that is not used never
    /// expires.
    #[arg(long, value_name = "DAYS")]
    valid_days: Option<u32>,
    /// New file for the sheet. By default vouchers.html, or no sheet with --json.
    #[arg(long, value_name = "FILE")]
    sheet: Option<PathBuf>,
    /// Language of the sheet: en, es or ca.
    #[arg(long, value_name = "CODE", default_value = "en", value_parser = language)]
    language: Language,
    /// List all vouchers and invitations instead, without their codes.
    #[arg(long, conflicts_with_all = ["days", "gb", "count", "valid_days", "sheet"])]
    list: bool,
    #[command(flatten)]
    ask: Ask,
}

/// The invited person, and what the invitation gives.
#[derive(Args)]
pub struct Invite {
    /// Name of the neighbour.
    #[arg(value_name = "NAME")]
    name: String,
    /// Days from the first use. Without it, the invitation is valid until it is revoked.
    #[arg(long, value_name = "DAYS")]
    days: Option<u32>,
    /// Gigabytes, both directions together. Without it, as much as the caps allow.
    #[arg(long, value_name = "GB")]
    gb: Option<f64>,
    #[command(flatten)]
    ask: Ask,
}

/// Runs a command.
pub fn run(command: &PeopleCommand, runtime: &Runtime) -> Result<(), Failure> {
    match command {
        PeopleCommand::Voucher(Voucher { list: true, ask, .. }) => {
            let all: Vec<VoucherStatus> = runtime.block_on(ask.client().get("/v1/vouchers"))?;
            ask.print(&all, |all, out| vouchers(all, out))
        }
        PeopleCommand::Voucher(voucher) => make(voucher, runtime),
        PeopleCommand::Invite(Invite { name, days, gb, ask }) => {
            let request =
                InviteRequest { name: name.clone(), days: *days, bytes: gb.map(bytes).transpose()? };
            let issued: Issued = runtime.block_on(ask.client().post("/v1/invitations", &request))?;
            ask.print(&issued, invited)
        }
        PeopleCommand::Users(ask) => {
            let known: Vec<UserStatus> = runtime.block_on(ask.client().get("/v1/users"))?;
            ask.print(&known, |known, out| users(known, out))
        }
        PeopleCommand::History(Past { days, user, ask }) => {
            let path = format!("/v1/history?days={days}");
            let mut past: PastDays = runtime.block_on(ask.client().get(&path))?;
            past.usage.retain(|usage| user.as_ref().is_none_or(|name| usage.user == *name));
            ask.print(&past, if user.is_some() { each_day } else { sums })
        }
    }
}

/// Makes vouchers. Creates the file first: vouchers whose codes nobody has seen would be lost.
fn make(voucher: &Voucher, runtime: &Runtime) -> Result<(), Failure> {
    let Voucher { days, gb, count, valid_days, sheet: path, language, ask, .. } = voucher;
    if days.is_none() && gb.is_none() {
        let words = "a voucher is for days, data or both: give --days, --gb or both";
        return Err(Failure::Usage(words.to_owned()));
    }
    let bytes = gb.map(bytes).transpose()?;
    let path = path.clone().or_else(|| (!ask.json).then(|| "vouchers.html".into()));
    let file = path.as_deref().map(create).transpose()?;
    let request = VoucherRequest { days: *days, bytes, count: *count, valid_days: *valid_days };
    let issued = runtime.block_on(ask.client().post::<Issued>("/v1/vouchers", &request));
    let issued = issued.inspect_err(|_| {
        // The file is empty.
        let _ = path.as_deref().map(std::fs::remove_file);
    })?;
    if let Some((mut file, path)) = file.zip(path.as_deref()) {
        let written = file
            .write_all(sheet::html(&issued, *language, &TimeZone::system()).as_bytes())
            .and_then(|()| file.sync_all());
        if let Err(error) = written {
            let codes = issued.codes.iter().map(|code| &code.code[..]).collect::<Vec<_>>().join("\n");
            return Err(Failure::Run(format!(
                "cannot write {}: {error}; these vouchers were made all the same:\n{codes}",
                path.display()
            )));
        }
    }
    ask.print(&issued, |issued, out| {
        let many = issued.codes.len();
        writeln!(
            out,
            "{many} voucher{} of {}",
            if many == 1 { "" } else { "s" },
            worth(issued.days, issued.bytes)
        )?;
        path.as_deref().map_or(Ok(()), |path| {
            writeln!(
                out,
                "to print: {} (only you can read it; the codes are in no other place)",
                path.display()
            )
        })
    })
}

/// Creates a file that only this user can read.
fn create(path: &Path) -> Result<File, Failure> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(|error| {
        let path = path.display();
        if error.kind() == io::ErrorKind::AlreadyExists {
            return Failure::Usage(format!(
                "{path} exists already, perhaps with vouchers in it: give another --sheet"
            ));
        }
        Failure::Run(format!("cannot write {path}: {error}"))
    })
}

fn invited(issued: &Issued, out: &mut dyn Write) -> io::Result<()> {
    for IssuedCode { code, holder, link } in &issued.codes {
        writeln!(out, "{} is invited: {}", steady(holder), worth(issued.days, issued.bytes))?;
        if let Some(http) = issued.entrance.http {
            writeln!(out, "HTTP proxy: {} port {}", http.ip(), http.port())?;
        }
        if let Some(socks) = issued.entrance.socks {
            writeln!(out, "SOCKS5 proxy: {} port {}", socks.ip(), socks.port())?;
        }
        writeln!(out, "user name: {code} (shown once; the password may be anything)")?;
        let Some(link) = link else { continue };
        writeln!(out, "page: {link}")?;
        if io::stdout().is_terminal()
            && let Some(qr) = Qr::of(link)
        {
            write!(out, "{}", qr.terminal())?;
        }
    }
    Ok(())
}

fn vouchers(all: &[VoucherStatus], out: &mut dyn Write) -> io::Result<()> {
    let width = width(all.iter().map(|voucher| &voucher.holder));
    writeln!(out, "{:width$}  {:8}  {:24}  {:>12}  expires", "holder", "state", "for", "used")?;
    all.iter().try_for_each(|voucher| {
        writeln!(
            out,
            "{:width$}  {:8}  {:24}  {:>12}  {}",
            steady(&voucher.holder),
            voucher.standing,
            worth(voucher.days, voucher.bytes),
            megabytes(voucher.used_bytes),
            voucher.expires.map_or("-".into(), local)
        )
    })
}

fn users(users: &[UserStatus], out: &mut dyn Write) -> io::Result<()> {
    let width = width(users.iter().map(|user| &user.name));
    writeln!(
        out,
        "{:width$}  {:>11}  {:>12}  {:>12}  {:>8}  {:>7}  {:7}  {:>12}  {:>12}  {:23}  last seen",
        "user", "connections", "down", "up", "requests", "refused", "state", "quota", "left", "expires"
    )?;
    users.iter().try_for_each(|user| {
        // The volume that ends first.
        let tightest =
            user.volumes.iter().min_by_key(|volume| volume.limit_bytes.saturating_sub(volume.used_bytes));
        let volume = |of: fn(u64, u64) -> u64| {
            tightest.map_or("-".into(), |volume| megabytes(of(volume.limit_bytes, volume.used_bytes)))
        };
        writeln!(
            out,
            "{:width$}  {:>11}  {:>12}  {:>12}  {:>8}  {:>7}  {:7}  {:>12}  {:>12}  {:23}  {}",
            steady(&user.name),
            user.connections,
            megabytes(user.down_bytes),
            megabytes(user.up_bytes),
            user.requests,
            user.refused,
            user.standing,
            volume(|limit, _| limit),
            volume(u64::saturating_sub),
            user.expires.map_or("-".into(), local),
            user.last_seen.map_or("never".into(), local)
        )
    })
}

fn each_day(past: &PastDays, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{:10}  {:>14}  {:>14}", "day", "down", "up")?;
    past.usage.iter().try_for_each(|DayUsage { day, down_bytes, up_bytes, .. }| {
        writeln!(out, "{day}  {:>14}  {:>14}", megabytes(*down_bytes), megabytes(*up_bytes))
    })
}

fn sums(past: &PastDays, out: &mut dyn Write) -> io::Result<()> {
    let name = |user: &str| if user.is_empty() { "(the home)".to_owned() } else { steady(user) };
    let rows: Vec<_> = past.sums().into_iter().map(|(user, sums)| (name(user), sums)).collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(6);
    let [today, week, whole] =
        past.spans().map(|days| if days == 1 { "today".into() } else { format!("{days} days") });
    writeln!(out, "{:width$}  {today:>14}  {week:>14}  {whole:>14}", "user")?;
    rows.iter().try_for_each(|(name, sums)| {
        let [today, week, whole] = sums.map(megabytes);
        writeln!(out, "{name:width$}  {today:>14}  {week:>14}  {whole:>14}")
    })
}

fn width<'a>(names: impl Iterator<Item = &'a String>) -> usize {
    names.map(|name| steady(name).chars().count()).max().unwrap_or(0).max(6)
}

/// Days and data as text.
fn worth(days: Option<u32>, bytes: Option<u64>) -> String {
    let days = days.map(|days| format!("{days} day{}", if days == 1 { "" } else { "s" }));
    let all: Vec<String> = days.into_iter().chain(bytes.map(crate::account::bytes)).collect();
    if all.is_empty() { "until it is revoked".into() } else { all.join(" and ") }
}

fn bytes(gb: f64) -> Result<u64, Failure> {
    let wrong = || Failure::Usage(format!("--gb {gb}: give a number of gigabytes, such as 5 or 0.5"));
    gigabytes(gb).ok_or_else(wrong)
}

fn language(code: &str) -> Result<Language, String> {
    Language::of(code).ok_or_else(|| "it is en, es or ca".into())
}
