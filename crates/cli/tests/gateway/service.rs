//! `leeway gateway up` and `down`: in the background, alone or by systemd.

use crate::bed::{leeway, wait};
use crate::live;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A gateway's configuration, in a folder of its own.
struct Home {
    folder: tempfile::TempDir,
    port: u16,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let home = Home { folder, port };
        home.write("");
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, more: &str) {
        let text = format!(
            "listen = [\"127.0.0.1:{}\"]\nclients = [\"127.0.0.0/8\"]\n{more}\n\
             [control]\nsocket = {:?}\nstate = {:?}\n",
            self.port,
            self.path("control.sock"),
            self.path("state"),
        );
        std::fs::write(self.path("gateway.toml"), text).unwrap();
    }

    fn command(&self, what: &str) -> Command {
        let mut command = leeway();
        command.args(["gateway", what, "--config"]).arg(self.path("gateway.toml")).stdin(Stdio::null());
        command
    }

    fn asked(&self, what: &str) -> Output {
        self.command(what).output().unwrap()
    }

    fn pid(&self) -> Pid {
        let text = std::fs::read_to_string(self.path("control.pid")).unwrap();
        Pid::from_raw(text.trim().parse().unwrap()).unwrap()
    }

    fn serves(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.port)).is_ok()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = self.command("down").output();
    }
}

/// Its exit code and its errors.
fn said(output: &Output) -> (Option<i32>, String) {
    let text = live::text(&output.stdout) + &live::text(&output.stderr);
    (output.status.code(), text)
}

#[test]
fn it_is_up_until_it_is_down() {
    let home = Home::new();
    let (code, words) = said(&home.asked("up"));
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains(&format!("listens on 127.0.0.1:{}", home.port)), "{words}");
    assert!(words.contains("sharing: on") && home.serves(), "{words}");
    let pid = home.pid();
    assert!(live::text(&std::fs::read(home.path("state/gateway.log")).unwrap()).contains("listening on"));

    let (code, words) = said(&home.asked("up"));
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("up already") && words.contains(&pid.as_raw_nonzero().to_string()), "{words}");
    assert_eq!(home.pid(), pid);

    let (code, words) = said(&home.asked("down"));
    assert_eq!((code, words.as_str()), (Some(0), "the gateway is down\n"));
    // Nobody may have waited for it yet, whoever has become its parent.
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z "), "{state}");
    assert!(!home.serves());
    assert!(!home.path("control.pid").exists());
    let (code, words) = said(&home.asked("down"));
    assert_eq!(code, Some(1));
    assert!(words.contains("no gateway is running here"), "{words}");
}

#[test]
fn after_a_crash_it_comes_up_again() {
    let home = Home::new();
    assert_eq!(home.asked("up").status.code(), Some(0));
    let killed = home.pid();
    kill_process(killed, Signal::KILL).unwrap();
    wait("it is gone", || !home.serves());
    assert!(home.path("control.sock").exists(), "a killed process removes nothing");
    assert_eq!(home.asked("down").status.code(), Some(1));
    let (code, words) = said(&home.asked("up"));
    assert_eq!(code, Some(0), "{words}");
    assert!(home.pid() != killed && home.serves());
    // By its socket, whatever has become of the file.
    std::fs::write(home.path("gateway.toml"), "listen = 3").unwrap();
    let (code, words) = said(&home.asked("down"));
    assert!(code == Some(2) && words.contains("--socket"), "{words}");
    let mut command = leeway();
    command.args(["gateway", "down", "--socket"]).arg(home.path("control.sock"));
    assert_eq!(command.status().unwrap().code(), Some(0));
}

#[test]
fn a_gateway_that_does_not_start_leaves_nothing() {
    let home = Home::new();
    let taken = TcpListener::bind(("127.0.0.1", home.port)).unwrap();
    let (code, words) = said(&home.asked("up"));
    assert_eq!(code, Some(1), "{words}");
    assert!(words.contains("the gateway has ended") && words.contains(&home.port.to_string()), "{words}");
    assert!(!home.path("control.pid").exists() && !home.path("control.sock").exists());
    drop(taken);
    home.write("law = \"ledbad\"");
    let (code, words) = said(&home.asked("up"));
    assert!(code == Some(2) && words.contains("ledbad"), "{words}");
    let output = leeway().args(["gateway", "up", "--config", "/nonexistent/gateway.toml"]).output().unwrap();
    let (code, words) = said(&output);
    assert!(code == Some(2) && words.contains("/nonexistent/gateway.toml"), "{words}");
    assert!(words.contains("leeway gateway init"), "{words}");
    let output =
        leeway().args(["gateway", "down", "--config", "/nonexistent/gateway.toml"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn several_at_once_start_one() {
    let home = Home::new();
    let children: Vec<_> = (0..4)
        .map(|_| home.command("up").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
        .collect();
    let outcomes: Vec<_> =
        children.into_iter().map(|child| said(&child.wait_with_output().unwrap())).collect();
    let up = outcomes.iter().filter(|(code, _)| *code == Some(0)).count();
    assert_eq!(up, 1, "{outcomes:?}");
    assert!(outcomes.iter().all(|(code, _)| matches!(code, Some(0 | 1))), "{outcomes:?}");
    assert!(home.serves());
}

/// With a systemctl that starts and ends processes as systemd would.
#[test]
fn systemd_keeps_it_where_it_can() {
    if !live::ready([(live::has("unshare"), "unshare")]) {
        return;
    }
    let home = Home::new();
    let fake = home.path("systemctl");
    let script = format!(
        "#!/bin/sh\necho \"$*\" >> {folder}/asked\ncase \"$1\" in\n\
         cat) ;;\n\
         start) setsid {leeway} gateway --config /etc/leeway/gateway.toml > /dev/null 2>&1 & echo $! > {folder}/main ;;\n\
         show) cat {folder}/main ;;\n\
         stop) kill $(cat {folder}/main) ;;\n\
         is-active) echo active ;;\nesac\n",
        folder = home.folder.path().display(),
        leeway = env!("CARGO_BIN_EXE_leeway"),
    );
    std::fs::write(&fake, script).unwrap();
    make_executable(&fake);
    let inside = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/system && mount -t tmpfs none /etc/leeway && \
         cp {folder}/gateway.toml /etc/leeway/ && export PATH={folder}:$PATH && \
         {leeway} gateway up && {leeway} gateway up; test $? = 1 && {leeway} gateway down",
        folder = home.folder.path().display(),
        leeway = env!("CARGO_BIN_EXE_leeway"),
    );
    let etc = Path::new("/etc/leeway");
    let made = !etc.exists();
    std::fs::create_dir_all(etc).unwrap();
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &inside]).output().unwrap();
    if made {
        let _ = std::fs::remove_dir(etc);
    }
    let (code, words) = said(&output);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("up already") && words.contains("the gateway is down"), "{words}");
    let asked = std::fs::read_to_string(home.path("asked")).unwrap();
    assert!(asked.contains("start leeway-gateway.service"), "{asked}");
    assert!(asked.contains("stop leeway-gateway.service"), "{asked}");
    assert!(!home.path("control.pid").exists(), "systemd knows its number");
    wait("it is gone", || !home.serves());
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
