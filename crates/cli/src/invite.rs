//! `leeway invite`: makes, lists and revokes the invitations of clients to a relay.

use crate::output::stdout;
use crate::relay::{STATE, existing};
use crate::{Failure, given};
use clap::Args;
use leeway_tunnel::Roster;
use leeway_units::Duration;
use std::io::Write;
use std::path::PathBuf;
use std::time::SystemTime;

/// Makes, lists and revokes invitations. A running relay sees the changes at once.
#[derive(Args)]
pub struct Invite {
    /// Folder with the server's key and the list of invited clients. It is made if it does not
    /// exist.
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// The address at which clients reach the server, as host:port.
    #[arg(long, value_name = "ADDRESS", required_unless_present_any = ["list", "revoke"])]
    address: Option<String>,
    /// The name of the client.
    #[arg(long, value_name = "NAME", default_value = "client")]
    name: String,
    /// How long the invitation is valid, such as 30d. Without end by default.
    #[arg(long, value_name = "TIME", value_parser = given::time)]
    expires: Option<Duration>,
    /// List who was invited.
    #[arg(long, conflicts_with_all = ["address", "revoke", "expires"])]
    list: bool,
    /// Revoke the invitation of this client; its connection ends within seconds.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["address", "expires"])]
    revoke: Option<String>,
}

/// Invites, lists or revokes.
pub fn run(invite: &Invite) -> Result<(), Failure> {
    if invite.expires == Some(Duration::ZERO) {
        let words = "--expires 0s: nobody could use the invitation; give a time such as 30d";
        return Err(Failure::Usage(words.to_owned()));
    }
    if invite.list {
        return list(&existing(&invite.state)?);
    }
    if let Some(name) = &invite.revoke {
        return Ok(existing(&invite.state)?.revoke(name)?);
    }
    let roster = Roster::open(&invite.state)?;
    let lasts = invite.expires.map(|expires| std::time::Duration::from_nanos(expires.nanos()));
    let address = invite.address.as_deref().unwrap_or_default();
    let token = roster.invite(&invite.name, address, lasts)?;
    writeln!(stdout(), "{token}")?;
    Ok(())
}

fn list(roster: &Roster) -> Result<(), Failure> {
    let mut out = stdout();
    let now = SystemTime::now();
    for client in roster.list()? {
        let state = match client.admitted(now) {
            Ok(()) => "invited",
            Err(leeway_tunnel::Denied::Expired) => "expired",
            Err(_) => "revoked",
        };
        writeln!(out, "{:<24} {state}", client.name)?;
    }
    Ok(())
}
