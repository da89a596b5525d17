//! `leeway gateway init`: a first configuration, from what this machine shows and what its owner
//! says.

use super::check;
use super::passwd::{ask as ask_password, change};
use crate::output::atomic::AtomicFile;
use crate::{BAD_INPUT, Failure, given};
use clap::Args;
use ipnet::IpNet;
use leeway_gateway::check::Severity;
use leeway_gateway::password::{Hash, check_name, fresh, parse_users};
use leeway_gateway::setup::{self, Setup};
use leeway_net::{Interface, Uplink};
use std::fs::Permissions;
use std::io::{self, BufRead, IsTerminal, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Examples, and exit codes.
pub const HELP: &str = "Examples:\n  \
    sudo leeway gateway init\n      \
    asks, and proposes what this machine shows\n  \
    sudo leeway gateway init --yes\n      \
    takes what this machine shows, and prints a password for your page\n  \
    sudo leeway gateway init --yes --clients 10.20.0.0/16 --home 192.168.1.0/24 --users ann\n      \
    neighbours need names and passwords; the first is ann\n\n\
    It writes the configuration and the files of users, never over a configuration that is there (--force \
    does), and then does `leeway gateway check`.\n\n\
    Exit codes: 0 written, 1 it could not be written, 2 bad usage, something has to be told, or `check` finds an \
    error in what was written.";

/// The port of the proxy, if nothing else is said.
const PROXY: u16 = 3128;
/// The port of the page.
const PAGE: u16 = 8080;

/// What to write. What is not given is asked for, or taken from this machine with --yes.
#[derive(Args)]
pub struct Init {
    /// File to write.
    #[arg(long, short, value_name = "FILE", default_value = check::CONFIG)]
    config: PathBuf,
    /// Ask nothing.
    #[arg(long, short)]
    yes: bool,
    /// Write over a configuration that is there, and give the owner another password.
    #[arg(long)]
    force: bool,
    /// Network of the home, whose line this is. May be repeated.
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
    /// No page.
    #[arg(long)]
    no_page: bool,
    /// Your name on the page.
    #[arg(long, value_name = "NAME", default_value = "owner")]
    owner: String,
    /// Neighbours need names and passwords, and this is one of them. May be repeated.
    #[arg(long, value_name = "NAME")]
    users: Vec<String>,
    /// Take passwords from the standard input, a line each: the owner's, then those of --users.
    #[arg(long)]
    password_stdin: bool,
    /// Folder of all that the gateway keeps, its control socket among it, for one that systemd
    /// does not start.
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,
}

/// This machine, as far as it matters here.
struct Here {
    interfaces: Vec<Interface>,
    uplinks: Vec<Uplink>,
}

/// A file of users, a name, and the password that was made for it, if one was.
type Login = (PathBuf, String, Option<String>);

/// Asks, writes, checks, and says what comes next.
pub fn run(init: &Init) -> Result<(), Failure> {
    if init.config.exists() && !init.force {
        return Err(Failure::Usage(format!(
            "{} is there already; `leeway gateway check` judges it, --force writes over it",
            init.config.display()
        )));
    }
    if !init.yes && !io::stdin().is_terminal() {
        return Err(Failure::Usage(
            "the standard input is no terminal, so nothing can be asked: give --yes".into(),
        ));
    }
    for name in init.users.iter().chain([&init.owner]) {
        check_name(name).map_err(Failure::Usage)?;
    }
    let failed = |error: leeway_net::Error| Failure::Run(error.to_string());
    let here = Here {
        interfaces: leeway_net::interfaces().map_err(failed)?,
        uplinks: leeway_net::uplinks().map_err(failed)?,
    };
    let setup = init.setup(&here)?;
    let folder = init.config.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder {
        std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    }
    let logins = init.logins(&setup)?;
    write(&init.config, &setup.toml())?;
    let findings = check::look(&init.config, false)?;
    let mut out = io::stdout().lock();
    writeln!(out, "written: {}", init.config.display())?;
    for (file, name, made) in &logins {
        let made = made.as_ref().map(|made| format!(", whose password is {made}")).unwrap_or_default();
        writeln!(out, "written: {}: {name}{made}", file.display())?;
    }
    writeln!(out, "\nleeway gateway check --config {}", init.config.display())?;
    check::print(&findings, &mut out)?;
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        writeln!(out, "\nMend that in {}, and check it again.", init.config.display())?;
        out.flush()?;
        return Err(Failure::Command(BAD_INPUT));
    }
    next(init, &setup, &here, &mut out)?;
    Ok(out.flush()?)
}

impl Init {
    fn setup(&self, here: &Here) -> Result<Setup, Failure> {
        let Here { interfaces, uplinks } = here;
        let (given_home, given_clients) = (networks(&self.home)?, networks(&self.clients)?);
        if !self.yes {
            eprint!("{}", here.words());
        }
        let home = match given_home.is_empty() {
            false => given_home,
            true => self.settle(
                "home",
                "Networks of the home",
                setup::home(interfaces, uplinks, &given_clients),
                here,
            )?,
        };
        let clients = match given_clients.is_empty() {
            false => given_clients,
            true => self.settle(
                "clients",
                "Networks of the neighbours",
                setup::clients(interfaces, uplinks, &home),
                here,
            )?,
        };
        let listen = match self.listen.is_empty() {
            false => self.listen.clone(),
            true => at(setup::addresses(interfaces, &clients), PROXY),
        };
        if listen.is_empty() {
            return Err(Failure::Usage(format!(
                "this machine has no address in {}: give --listen, such as --listen 0.0.0.0:{PROXY}",
                words(&clients)
            )));
        }
        let folder = self.config.parent().unwrap_or(Path::new(""));
        let page = self.page.or_else(|| at(setup::addresses(interfaces, &home), PAGE).first().copied());
        if page.is_none() && !self.no_page {
            return Err(Failure::Usage(format!(
                "this machine has no address in {}: give --page ADDRESS or --no-page",
                words(&home)
            )));
        }
        let page = page.filter(|_| !self.no_page).map(|page| (page, folder.join("owners")));
        let users_file = (!self.users.is_empty()).then(|| folder.join("users"));
        Ok(Setup { home, clients, listen, page, users_file, state: self.state.clone() })
    }

    /// What the machine shows, or what its owner says instead.
    fn settle(&self, flag: &str, what: &str, shown: Vec<IpNet>, here: &Here) -> Result<Vec<IpNet>, Failure> {
        if self.yes {
            return match shown.is_empty() {
                false => Ok(shown),
                true => Err(Failure::Usage(format!(
                    "this machine does not show which network that is: give --{flag} NETWORK. {}",
                    here.words().trim_end().replace('\n', "; ")
                ))),
            };
        }
        loop {
            let proposed = if shown.is_empty() { String::new() } else { format!(" [{}]", words(&shown)) };
            eprint!("{what}{proposed}: ");
            let mut line = String::new();
            if io::stdin().lock().read_line(&mut line)? == 0 {
                return Err(Failure::Usage("nothing was written".into()));
            }
            let given: Vec<String> = line
                .split([',', ' ', '\t', '\n'])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect();
            match networks(&given) {
                Ok(given) if !given.is_empty() => return Ok(given),
                Ok(_) if !shown.is_empty() => return Ok(shown),
                Ok(_) => eprintln!("such as 192.168.1.0/24"),
                Err(Failure::Usage(why)) => eprintln!("{why}"),
                Err(failure) => return Err(failure),
            }
        }
    }

    /// Writes the files of users.
    fn logins(&self, setup: &Setup) -> Result<Vec<Login>, Failure> {
        let owner = setup.page.iter().map(|(_, file)| (file, &self.owner));
        let users = setup.users_file.iter().flat_map(|file| self.users.iter().map(move |name| (file, name)));
        let mut done = Vec::new();
        for (file, name) in owner.chain(users) {
            let there = std::fs::read_to_string(file).ok().and_then(|text| parse_users(&text).ok());
            if !self.force && there.is_some_and(|users| users.iter().any(|(known, _)| known == name)) {
                continue;
            }
            let made = (self.yes && !self.password_stdin).then(fresh).transpose().map_err(Failure::Run)?;
            let password = made.clone().map_or_else(|| ask_password(name), Ok)?;
            change(file, name, Some(&Hash::of(&password).map_err(Failure::Usage)?))?;
            done.push((file.clone(), name.clone(), made));
        }
        Ok(done)
    }
}

impl Here {
    fn words(&self) -> String {
        let mut text = String::new();
        for interface in self.interfaces.iter().filter(|interface| interface.up && !interface.loopback) {
            let own: Vec<IpNet> = interface.networks().collect();
            let up = self.uplinks.iter().any(|uplink| uplink.interface == interface.name);
            let up = if up { ", the way to the Internet" } else { "" };
            if !own.is_empty() {
                text += &format!("{} is in {}{up}\n", interface.name, words(&own));
            }
        }
        text
    }
}

fn networks(texts: &[String]) -> Result<Vec<IpNet>, Failure> {
    texts.iter().map(|text| given::network(text)).collect()
}

fn words(networks: &[IpNet]) -> String {
    networks.iter().map(IpNet::to_string).collect::<Vec<_>>().join(", ")
}

fn at(addresses: Vec<IpAddr>, port: u16) -> Vec<SocketAddr> {
    addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Run(format!("cannot write {}: {error}", path.display()))
}

/// All of it or nothing, for everybody to read: it has no secrets, and the service has no rights
/// of its own.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let write = || -> io::Result<()> {
        let mut file = AtomicFile::create(path)?;
        file.write_all(text.as_bytes())?;
        file.commit()?;
        std::fs::set_permissions(path, Permissions::from_mode(0o644))
    };
    write().map_err(|error| cannot_write(path, &error))
}

fn next(init: &Init, setup: &Setup, here: &Here, out: &mut impl Write) -> io::Result<()> {
    let passes = setup::passes(&here.interfaces, &here.uplinks, &setup.home, setup::forwards());
    let seen = match passes {
        true => {
            "The home's packets pass this machine: neighbours stand aside as soon as the home asks for something."
        }
        false => {
            "The home's packets do not pass this machine, so it does not see them: neighbours yield to what the \
             home does to the line. As the home's router it would see them."
        }
    };
    writeln!(out, "\n{seen}\n\nNext:")?;
    match init.config == Path::new(check::CONFIG) && setup.state.is_none() {
        true => writeln!(
            out,
            "  sudo systemctl enable --now leeway-gateway   starts it, now and with the machine"
        )?,
        false => writeln!(out, "  sudo leeway gateway --config {}   starts it", init.config.display())?,
    }
    if let Some((page, _)) = &setup.page {
        writeln!(out, "  http://{page}   your page, for {}", init.owner)?;
    }
    let proxies = setup.listen.iter().map(|address| format!("{} port {}", address.ip(), address.port()));
    let proxies = proxies.collect::<Vec<_>>().join(" or ");
    writeln!(out, "  neighbours set {proxies} as HTTP proxy")
}
