//! The disk of the accounts fills while the gateway serves, and has room again: each byte is counted once.

use crate::bed::{Gateway, leeway, object_server, possible, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

const OBJECT_BYTES: usize = 100_000;

/// A gateway on this machine, and who asks it.
pub struct Bed {
    folder: TempDir,
    server: SocketAddr,
    gateway: Gateway,
    proxy: SocketAddr,
}

impl Bed {
    /// With the accounts at a path, and more lines of the configuration. `around` is the program that starts it.
    pub fn start(accounts: &str, more: &str, around: &[&str], environment: &[(&str, &str)]) -> Bed {
        let (folder, server) = (tempfile::tempdir().unwrap(), object_server(OBJECT_BYTES));
        let at = folder.path().display();
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.1.0/24\"]\nallow = [\"127.0.0.2/32\"]\n\
             ports = [{}]\nlaw = \"none\"\nuplink = \"none\"\n\
             [control]\nsocket = \"{at}/control.sock\"\nstate = \"{at}/state\"\n\
             [limits]\nanswer_s = 5\n[accounts]\nurl = \"{accounts}\"\n{more}",
            server.port()
        );
        let config = folder.path().join("gateway.toml");
        fs::write(&config, text).unwrap();
        let mut command = match around {
            [] => leeway(),
            [program, arguments @ ..] => {
                let mut command = Command::new(program);
                command.args(arguments).arg(env!("CARGO_BIN_EXE_leeway"));
                command
            }
        };
        command.args(["gateway", "--config"]).arg(config).envs(environment.iter().copied());
        let (gateway, addresses) = Gateway::start(&mut command, 1);
        Bed { folder, server, gateway, proxy: addresses[0] }
    }

    /// What a command of `leeway gateway` prints.
    pub fn ask(&self, arguments: &[&str]) -> String {
        let socket = self.folder.path().join("control.sock");
        let output = leeway().arg("gateway").args(arguments).arg("--socket").arg(socket).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.ask(&["status", "--json"])).unwrap()
    }

    /// How the accounts stand, in words.
    fn accounts(&self) -> String {
        self.status()["accounts"].as_str().unwrap().to_owned()
    }

    /// What the neighbour at 127.0.1.`n` gets: the status, and how many bytes with it or the words.
    pub fn fetch(&self, n: u8) -> (u16, usize, String) {
        self.fetch_within(n, 60)
    }

    /// The same, ended after `seconds`.
    pub fn fetch_within(&self, n: u8, seconds: u8) -> (u16, usize, String) {
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", &seconds.to_string(), "--write-out", "\n%{http_code}"]);
        command.args(["--interface", &format!("127.0.1.{n}"), "--proxy", &format!("http://{}", self.proxy)]);
        let output = command.arg(format!("http://{}/", self.server)).output().expect("curl");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let (body, status) = text.rsplit_once('\n').unwrap();
        (status.parse().unwrap(), body.len(), body.to_owned())
    }

    /// Bytes of all neighbours since the start, as the gateway has counted them; nobody is asking meanwhile.
    pub fn counted(&self) -> u64 {
        let status = self.status();
        ["down_bytes", "up_bytes"].map(|way| status[way].as_u64().unwrap()).iter().sum()
    }

    /// The rows of the accounts: the time and the bytes.
    pub fn rows(&self) -> Vec<(String, u64)> {
        let text = self.ask(&["export"]);
        let rows = text.lines().skip(1).map(|row| row.split(',').map(str::to_owned).collect::<Vec<_>>());
        rows.map(|row| (row[0].clone(), row.last().unwrap().parse().unwrap())).collect()
    }

    /// What the accounts have stored.
    pub fn stored(&self) -> u64 {
        self.rows().iter().map(|(_, bytes)| bytes).sum()
    }

    pub fn end(mut self) {
        assert_eq!(self.gateway.signal(Signal::TERM).code(), Some(0));
    }
}

/// With its accounts on a disk of 4 MB that only the gateway sees.
fn on_a_small_disk(patience_s: u64) -> (Bed, PathBuf, TempDir) {
    let disk = tempfile::tempdir().unwrap();
    let at = disk.path().display();
    let mount = format!("mount -t tmpfs -o size=4m tmpfs {at} && exec \"$0\" \"$@\"");
    let around = ["unshare", "--mount", "sh", "-c", &mount];
    let bed = Bed::start(&format!("{at}/accounts.db"), &format!("patience_s = {patience_s}\n"), &around, &[]);
    let seen = format!("/proc/{}/root{at}", bed.gateway.pid());
    assert!(fs::exists(format!("{seen}/accounts.db")).unwrap());
    (bed, format!("{seen}/ballast").into(), disk)
}

#[test]
fn what_a_full_disk_has_not_taken_is_said_at_the_end() {
    if !possible() {
        return;
    }
    let (mut bed, ballast, _disk) = on_a_small_disk(3600);
    fill(&ballast);
    let mut n = 0;
    wait("the disk is full", || {
        n = n % 250 + 1;
        bed.fetch(n);
        bed.accounts().starts_with("behind: ")
    });
    assert_eq!(bed.gateway.signal(Signal::TERM).code(), Some(0));
    bed.gateway.says(" bytes could not be stored, and are in no account: ", 1);
}

fn fill(ballast: &PathBuf) {
    let mut file = File::create(ballast).unwrap();
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn a_full_disk_stops_nobody_and_what_was_moved_meanwhile_is_stored_later() {
    if !possible() {
        return;
    }
    let (bed, ballast, _disk) = on_a_small_disk(3600);
    assert_eq!(bed.fetch(1).0, 200);
    wait("the first bytes are stored", || bed.stored() == bed.counted());
    fill(&ballast);
    let mut n = 1;
    wait("the status says that the disk is full", || {
        n = n % 250 + 1;
        assert_eq!((bed.fetch(n).0, bed.status()["sharing"]["state"].as_str()), (200, Some("on")));
        let words = bed.accounts();
        words.starts_with("behind: ") && words.contains("sharing goes on") && words.contains("full")
    });
    for n in 1..=20 {
        let (status, bytes, _) = bed.fetch(n);
        assert_eq!((status, bytes), (200, OBJECT_BYTES), "sharing goes on");
    }
    fs::remove_file(ballast).unwrap();
    wait("there is room again", || bed.accounts() == "current");
    wait("each byte is stored once", || bed.stored() == bed.counted());
    bed.end();
}

#[test]
fn a_disk_that_stays_full_pauses_sharing_says_why_and_lets_it_go_on() {
    if !possible() {
        return;
    }
    let (bed, ballast, _disk) = on_a_small_disk(1);
    fill(&ballast);
    let mut n = 0;
    wait("sharing pauses", || {
        n = n % 250 + 1;
        bed.fetch(n);
        let words = bed.accounts();
        words.starts_with("stopped: ") && words.contains("sharing pauses") && words.contains("full")
    });
    wait("the neighbour hears why, and nothing passes", || {
        let before = bed.counted();
        let (status, _, words) = bed.fetch(251);
        status == 503 && words.contains("accounts") && bed.counted() < before + OBJECT_BYTES as u64
    });
    fs::remove_file(ballast).unwrap();
    wait("sharing goes on by itself", || bed.accounts() == "current" && bed.fetch(252).0 == 200);
    wait("each byte is stored once", || bed.stored() == bed.counted());
    bed.end();
}
