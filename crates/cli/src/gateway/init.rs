//! `leeway gateway init`: writes a first configuration, from the networks of this machine and the
//! owner's answers.

use super::check;
use super::passwd::{change, choose};
use super::questions::{address, ask, networks, words};
use super::service::has_unit;
use crate::output::atomic::{AtomicFile, cannot_write};
use crate::output::stdout;
use crate::{BAD_INPUT, Failure, given};
use clap::Args;
use ipnet::IpNet;
use leeway_gateway::check::Severity;
use leeway_gateway::password::{Hash, SHORTEST, check_name, fresh, parse_users};
use leeway_gateway::setup::{self, Setup};
use leeway_net::{Interface, Uplink};
use rustix::fs::{Access, access};
use std::fs::Permissions;
use std::io::{self, IsTerminal, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Examples and exit codes.
pub const HELP: &str = "Examples:\n  \
    sudo leeway gateway init\n      \
    asks, and proposes what this machine shows\n  \
    sudo leeway gateway init --yes\n      \
    takes what this machine shows, and prints a password for your page\n  \
    sudo leeway gateway init --yes --clients 10.20.0.0/16 --home 192.168.1.0/24 --users ann\n      \
    neighbours need names and passwords; the first is ann\n\n\
    It writes the configuration and the files of users, and then runs `leeway gateway check`. It overwrites \
    a configuration only with --force.\n\n\
    Exit codes: 0 written, 1 it could not be written, 2 bad usage, a value is missing, or `check` finds an \
    error in the written file.";

/// Default port of the proxy.
const PROXY: u16 = 3128;
/// Default port of the page.
const PAGE: u16 = 8080;

/// What to write. What is not given is asked for, or with --yes taken from this machine.
#[derive(Args)]
pub struct Init {
    /// File to write.
    #[arg(long, short, value_name = "FILE", default_value = check::CONFIG)]
    config: PathBuf,
    /// Ask no questions.
    #[arg(long, short)]
    yes: bool,
    /// Overwrite an existing configuration, and give the owner a new password.
    #[arg(long)]
    force: bool,
    /// Network of the home, to which the line belongs. May be repeated.
    #[arg(long, value_name = "NETWORK")]
    home: Vec<String>,
    /// Network of the neighbours, who may use the gateway. May be repeated.
    #[arg(long, value_name = "NETWORK")]
    clients: Vec<String>,
    /// Address of the HTTP proxy, such as 10.20.0.1:3128. May be repeated.
    #[arg(long, value_name = "ADDRESS", value_parser = given::address)]
    listen: Vec<SocketAddr>,
    /// Address of your page in the home's network, such as 192.168.1.2:8080.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "no_page", value_parser = given::address)]
    page: Option<SocketAddr>,
    /// Configure no page.
    #[arg(long)]
    no_page: bool,
    /// Your name on the page.
    #[arg(long, value_name = "NAME", default_value = "owner")]
    owner: String,
    /// Neighbours need names and passwords, and this is the name of one. May be repeated.
    #[arg(long, value_name = "NAME")]
    users: Vec<String>,
    /// Read passwords from the standard input, one on each line: the owner's, then those of
    /// --users.
    #[arg(long)]
    password_stdin: bool,
    /// Folder for all files of the gateway, including its control socket. For a gateway that
    /// systemd does not start.
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
}

/// One side of the gateway: the home, or the neighbours.
struct Side {
    flag: &'static str,
    what: &'static str,
    why: &'static str,
}

const HOME: Side = Side {
    flag: "home",
    what: "Networks of the home",
    why: "The home has the line. Neighbours never reach its machines.",
};
const CLIENTS: Side = Side {
    flag: "clients",
    what: "Networks of the neighbours",
    why: "The neighbours get what the home leaves of the line.",
};

/// The networks of this machine.
struct Here {
    interfaces: Vec<Interface>,
    uplinks: Vec<Uplink>,
}

/// A user for a file of users.
struct Login {
    file: PathBuf,
    name: String,
    /// `None` if the file already has a password for this name. It is kept.
    hash: Option<Hash>,
    /// The password, if it was generated.
    made: Option<String>,
}

/// Asks, writes, checks, and prints the next steps.
pub fn run(init: &Init) -> Result<(), Failure> {
    if init.config.exists() && !init.force {
        return Err(Failure::Usage(format!(
            "{} exists already; `leeway gateway check` checks it, --force overwrites it",
            init.config.display()
        )));
    }
    if !init.yes && !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "the standard input is not a terminal, so no question can be asked: give --yes".into(),
        ));
    }
    for (i, name) in init.users.iter().enumerate() {
        if init.users[..i].contains(name) {
            return Err(Failure::Usage(format!(
                "--users {name} is given twice: each neighbour has one password"
            )));
        }
    }
    for name in init.users.iter().chain([&init.owner]) {
        check_name(name).map_err(Failure::Usage)?;
    }
    writable(&init.config).map_err(|error| {
        Failure::Run(format!(
            "cannot write {}: {error}; run it with sudo, or name another file with --config",
            init.config.display()
        ))
    })?;
    let failed = |error: leeway_net::Error| Failure::Run(error.to_string());
    let here = Here {
        interfaces: leeway_net::interfaces().map_err(failed)?,
        uplinks: leeway_net::uplinks().map_err(failed)?,
    };
    // All questions come first, so that nothing is written if the owner stops in between.
    let setup = init.setup(&here)?;
    let logins = init.logins(&setup)?;
    let folder = init.config.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    for Login { file, name, hash, .. } in &logins {
        hash.as_ref().map_or(Ok(()), |hash| change(file, name, Some(hash)))?;
    }
    write(&init.config, &setup.toml())?;
    let findings = check::look(&init.config, false)?;
    let mut out = stdout();
    writeln!(out, "\nwritten: {}", init.config.display())?;
    for Login { file, name, hash, made } in &logins {
        let made = made.as_ref().map(|made| format!(", whose password is {made}")).unwrap_or_default();
        match hash {
            Some(_) => writeln!(out, "written: {}: {name}{made}", file.display())?,
            None => writeln!(
                out,
                "kept:    {}: {name} has a password; --force gives another one",
                file.display()
            )?,
        }
    }
    writeln!(out, "\n`leeway gateway check --config {}` says:", init.config.display())?;
    check::print(&findings, &mut out)?;
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        writeln!(out, "\nCorrect that in {}, and check it again.", init.config.display())?;
        out.flush()?;
        return Err(Failure::Command(BAD_INPUT));
    }
    next(init, &setup, &here, &mut out)?;
    Ok(out.flush()?)
}

impl Init {
    fn setup(&self, here: &Here) -> Result<Setup, Failure> {
        let Here { interfaces, uplinks } = here;
        let (given_home, given_clients) = (given(&self.home)?, given(&self.clients)?);
        if !self.yes {
            eprintln!("This machine:\n{}", here.words("  "));
            eprintln!("Enter takes what is in brackets. Ctrl-C ends, and nothing is written.\n");
        }
        let home = match given_home.is_empty() {
            false => given_home,
            true => {
                self.settle(&HOME, setup::home(interfaces, uplinks, &given_clients), &given_clients, here)?
            }
        };
        let clients = match given_clients.is_empty() {
            false => given_clients,
            true => self.settle(&CLIENTS, setup::clients(interfaces, uplinks, &home), &home, here)?,
        };
        let mut listen = match self.listen.is_empty() {
            false => self.listen.clone(),
            true => at(setup::addresses(interfaces, &clients), PROXY),
        };
        if listen.is_empty() {
            let missing = format!("this machine has no address in {}", words(&clients));
            if self.yes {
                return Err(Failure::Usage(format!(
                    "{missing}: give --listen, such as --listen 0.0.0.0:{PROXY}"
                )));
            }
            eprintln!("  {missing}");
            let own = here.addresses();
            let mut others = own.iter().filter(|own| !home.iter().any(|home| home.contains(*own)));
            let example = others.next().copied().unwrap_or(Ipv4Addr::UNSPECIFIED.into());
            let prompt = format!("Address where neighbours find the proxy, such as {example}");
            listen = vec![ask(&prompt, |text| address(text, PROXY, &own))?];
        }
        let folder = self.config.parent().unwrap_or(Path::new(""));
        let mut page = self.page.or_else(|| at(setup::addresses(interfaces, &home), PAGE).first().copied());
        if page.is_none() && !self.no_page {
            let missing = format!("this machine has no address in {}", words(&home));
            if self.yes {
                return Err(Failure::Usage(format!("{missing}: give --page ADDRESS or --no-page")));
            }
            eprintln!("  {missing}");
            page = ask("Address of your page; Enter for no page", |text| match text.is_empty() {
                true => Ok(None),
                false => address(text, PAGE, &here.addresses()).map(Some),
            })?;
        }
        let page = page.filter(|_| !self.no_page).map(|page| (page, folder.join("owners")));
        let users_file = (!self.users.is_empty()).then(|| folder.join("users"));
        Ok(Setup { home, clients, listen, page, users_file, state: self.state.clone() })
    }

    /// The networks of one side: those that this machine shows, or those that the owner enters.
    /// They must not overlap the `others`.
    fn settle(
        &self,
        Side { flag, what, why }: &Side,
        shown: Vec<IpNet>,
        others: &[IpNet],
        here: &Here,
    ) -> Result<Vec<IpNet>, Failure> {
        if self.yes {
            return match shown.is_empty() {
                false => Ok(shown),
                true => Err(Failure::Usage(format!(
                    "the interfaces of this machine do not show which network that is: give --{flag} NETWORK. {}",
                    here.words("").trim_end().replace('\n', "; ")
                ))),
            };
        }
        let proposed = if shown.is_empty() { String::new() } else { format!(" [{}]", words(&shown)) };
        eprintln!("{why}");
        ask(&format!("{what}{proposed}"), |text| match text.is_empty() {
            true if shown.is_empty() => Err("a network is needed, such as 192.168.1.0/24".into()),
            true => Ok(shown.clone()),
            false => networks(text, others),
        })
    }

    /// The users with their passwords, which are generated or asked for. Writes nothing.
    fn logins(&self, setup: &Setup) -> Result<Vec<Login>, Failure> {
        let owner = setup.page.iter().map(|(_, file)| (file, &self.owner));
        let users = setup.users_file.iter().flat_map(|file| self.users.iter().map(move |name| (file, name)));
        let mut logins = Vec::new();
        for (file, name) in owner.chain(users) {
            let there = std::fs::read_to_string(file).ok().and_then(|text| parse_users(&text).ok());
            if !self.force && there.is_some_and(|users| users.iter().any(|(known, _)| known == name)) {
                logins.push(Login { file: file.clone(), name: name.clone(), hash: None, made: None });
                continue;
            }
            if !self.yes && logins.is_empty() {
                eprintln!(
                    "\nA password has at least {SHORTEST} characters. It is not shown while you type it."
                );
                setup.page.iter().for_each(|_| eprintln!("`{}` is you, on your page.", self.owner));
            }
            let made = (self.yes && !self.password_stdin).then(fresh).transpose().map_err(Failure::Run)?;
            let hash = match &made {
                Some(made) => Hash::of(made).map_err(Failure::Usage)?,
                None => choose(name)?,
            };
            logins.push(Login { file: file.clone(), name: name.clone(), hash: Some(hash), made });
        }
        Ok(logins)
    }
}

impl Here {
    /// One line for each interface.
    fn words(&self, indent: &str) -> String {
        let mut text = String::new();
        for interface in self.interfaces.iter().filter(|interface| interface.up && !interface.loopback) {
            let own: Vec<IpNet> = interface.networks().collect();
            let up = self.uplinks.iter().any(|uplink| uplink.interface == interface.name);
            let up = if up { ", the way to the Internet" } else { "" };
            if !own.is_empty() {
                text += &format!("{indent}{} is in {}{up}\n", interface.name, words(&own));
            }
        }
        text
    }

    /// The machine's own addresses.
    fn addresses(&self) -> Vec<IpAddr> {
        let up = self.interfaces.iter().filter(|interface| interface.up && !interface.loopback);
        let all = up.flat_map(|interface| interface.addresses.iter().map(IpNet::addr));
        all.filter(|own| !matches!(own, IpAddr::V6(v6) if v6.is_unicast_link_local())).collect()
    }
}

fn given(texts: &[String]) -> Result<Vec<IpNet>, Failure> {
    texts.iter().map(|text| given::network(text)).collect()
}

fn at(addresses: Vec<IpAddr>, port: u16) -> Vec<SocketAddr> {
    addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

/// Whether a file of this name can be created, in folders that may not exist yet.
fn writable(path: &Path) -> io::Result<()> {
    let there = path.ancestors().skip(1).find(|folder| folder.as_os_str().is_empty() || folder.exists());
    let folder = there.filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(access(folder, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Writes all of the file or nothing. Everybody may read the file: it has no secrets, and the
/// service runs without privileges.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.commit()?;
    let readable = std::fs::set_permissions(path, Permissions::from_mode(0o644));
    Ok(readable.map_err(|error| cannot_write(path, &error))?)
}

fn next(init: &Init, setup: &Setup, here: &Here, out: &mut impl Write) -> io::Result<()> {
    let passes = setup::passes(&here.interfaces, &here.uplinks, &setup.home, setup::forwards());
    let seen = match passes {
        true => {
            "The home's packets pass this machine: neighbours yield as soon as the home asks for something."
        }
        false => {
            "The home's packets do not pass this machine, so it does not see them: neighbours yield \
             once the home's traffic makes a queue on the line. On the home's router, the gateway would see them."
        }
    };
    writeln!(out, "\n{seen}\n\nNext:")?;
    match init.config == Path::new(check::CONFIG) && setup.state.is_none() {
        true if has_unit() => writeln!(
            out,
            "  sudo systemctl enable --now leeway-gateway   starts it, now and with the machine"
        )?,
        true => writeln!(out, "  sudo leeway gateway up   starts it in the background")?,
        false => writeln!(out, "  sudo leeway gateway --config {}   starts it", init.config.display())?,
    }
    if let Some((page, _)) = &setup.page {
        writeln!(out, "  http://{page}   your page, for {}", init.owner)?;
    }
    let proxies = setup.listen.iter().map(|address| format!("{} port {}", address.ip(), address.port()));
    let proxies = proxies.collect::<Vec<_>>().join(" or ");
    writeln!(out, "  neighbours set {proxies} as HTTP proxy")
}
