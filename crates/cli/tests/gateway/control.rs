//! `leeway gateway status`, `pause`, `resume`, `users` beside a gateway that runs, and without one.

use crate::bed::{Gateway, PATIENCE, leeway};
use leeway_gateway::password::Hash;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

fn ask(socket: &str, arguments: &[&str]) -> Output {
    leeway().arg("gateway").args(arguments).args(["--socket", socket]).output().unwrap()
}

fn out(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_gateway_is_asked_and_paused_and_a_killed_one_stays_paused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (config, socket) = (path("gateway.toml"), path("control.sock"));
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\n\
         [control]\nsocket = {socket:?}\nstate = {:?}\n",
        path("state")
    );
    std::fs::write(&config, text).unwrap();
    let start = || Gateway::start(leeway().args(["gateway", "--config", &config]), 1).0;

    let nobody = refused(&ask(&socket, &["status"]), 1);
    assert!(nobody.contains("no gateway is running here") && nobody.contains(&socket), "{nobody}");
    let mut gateway = start();
    assert!(out(&ask(&socket, &["status"])).starts_with("sharing: on\nneighbours: 0 with 0 connections\n"));
    assert!(out(&ask(&socket, &["users"])).starts_with("user"));
    let paused = out(&ask(&socket, &["pause", "2h"]));
    assert!(paused.starts_with("sharing: paused until 2"), "{paused}");
    let json: serde_json::Value = serde_json::from_str(&out(&ask(&socket, &["status", "--json"]))).unwrap();
    assert_eq!(json["sharing"]["state"], "paused");
    let wrong = refused(&ask(&socket, &["pause", "0"]), 2);
    assert!(wrong.contains("from 1 s to 366 days"), "{wrong}");
    assert!(refused(&ask(&socket, &["pause", "tomorrow"]), 2).contains("tomorrow"));

    // One more of the same configuration does not take the socket away.
    let second = refused(&leeway().args(["gateway", "--config", &config]).output().unwrap(), 1);
    assert!(second.contains("another gateway uses"), "{second}");

    gateway.signal(rustix::process::Signal::KILL);
    let _gateway = start();
    assert!(out(&ask(&socket, &["status"])).starts_with("sharing: paused until 2"));
    assert_eq!(out(&ask(&socket, &["resume"])), "sharing: on\n");
    assert_eq!(out(&ask(&socket, &["revoke", "127.0.0.1"])), "127.0.0.1 has no access from now on\n");
    assert!(out(&ask(&socket, &["status"])).contains("\nno access: 127.0.0.1\n"));
    assert_eq!(out(&ask(&socket, &["revoke", "127.0.0.1", "--undo"])), "127.0.0.1 has access again\n");
    let nobody = refused(&ask(&socket, &["revoke", "nobody"]), 2);
    assert!(nobody.contains("nobody is called \"nobody\""), "{nobody}");
}

/// The status that the user "bob" with "a long phrase" is answered.
fn bob(proxy: SocketAddr) -> String {
    let mut client = TcpStream::connect(proxy).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = "GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic Ym9iOmEgbG9uZyBwaHJhc2U=\r\n\
                   Connection: close\r\n\r\n";
    client.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer.split(' ').nth(1).unwrap_or_default().to_owned()
}

/// As a service of systemd, which has a copy of the file of users and cannot read the file itself.
#[test]
fn a_reload_hands_over_what_the_gateway_cannot_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (config, socket, users) = (path("gateway.toml"), path("control.sock"), path("users"));
    let hash = Hash::of("a long phrase").unwrap();
    let (both, ann) = (format!("ann:{hash}\nbob:{hash}\n"), format!("ann:{hash}\n"));
    let write = |path: &str, text: &str| leeway_guard::replace(path.as_ref(), text.as_bytes()).unwrap();
    let text = |more: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\nusers_file = {users:?}\n{more}\n\
             [control]\nsocket = {socket:?}\nstate = {:?}\n",
            path("state")
        )
    };
    std::fs::create_dir(path("credentials")).unwrap();
    write(&path("credentials/users"), &both);
    write(&config, &text(""));
    let mut command = leeway();
    command.args(["gateway", "--config", &config]).env("CREDENTIALS_DIRECTORY", path("credentials"));
    let (gateway, addresses) = Gateway::start(&mut command, 1);
    let reload = || ask(&socket, &["reload", "--config", &config]);
    write(&users, &both);
    assert_eq!(out(&reload()), "the configuration was read again and is in use\n");
    assert_eq!(bob(addresses[0]), "403", "let in, but not to there");

    // Wrong, or only after a restart: nothing changes.
    for (users_text, more, why) in [
        ("ann:plain\n", "", "line 1"),
        (&ann[..], "ports = \"all\"", "line 4"),
        (&ann, "socks = [\"127.0.0.1:0\"]", "socks cannot change while the gateway runs"),
    ] {
        write(&users, users_text);
        write(&config, &text(more));
        let said = refused(&reload(), 2);
        assert!(said.contains(why), "{said}");
        assert_eq!(bob(addresses[0]), "403");
    }
    write(&config, &text(""));
    out(&reload());
    assert_eq!(bob(addresses[0]), "407");
    // A signal hands nothing over; the old copy, which has bob, does not come back.
    let pid = rustix::process::Pid::from_raw(gateway.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    gateway.says("the configuration was read again and is in use", 1);
    assert_eq!(bob(addresses[0]), "407");
}

/// As a service of systemd whose configuration only root may read.
#[test]
fn a_reload_hands_over_a_configuration_that_the_gateway_cannot_read() {
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (config, socket) = (path("gateway.toml"), path("run/control.sock"));
    let text = |more: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\n{more}\n\
             [control]\nsocket = {socket:?}\nstate = {:?}\n",
            path("run/state")
        )
    };
    let write = |path: &str, text: &str, mode| {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for name in ["run", "credentials"] {
        std::fs::create_dir(path(name)).unwrap();
        std::os::unix::fs::chown(path(name), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    write(&path("credentials/gateway.toml"), &text(""), 0o644);
    write(&config, &text(""), 0o640);
    // Where that user reaches the program. `cp`, because what other tests start inherits files that this
    // process writes, and a program that is open for writing does not start.
    let copied = Command::new("cp").args([env!("CARGO_BIN_EXE_leeway"), &path("leeway")]).status().unwrap();
    assert!(copied.success());
    let mut command = Command::new(path("leeway"));
    command.args(["gateway", "--config", &config]).env("CREDENTIALS_DIRECTORY", path("credentials"));
    let (gateway, _) = Gateway::start(command.uid(NOBODY).gid(NOBODY), 1);

    write(&config, &text("ports = \"all\""), 0o640);
    let reload = || ask(&socket, &["reload", "--config", &config]);
    let said = refused(&reload(), 2);
    assert!(said.contains("ports"), "what is there now was read: {said}");
    write(&config, &text("ports = [80]"), 0o640);
    assert_eq!(out(&reload()), "the configuration was read again and is in use\n");
    // A signal hands nothing over, and the copy is as old as the start.
    let pid = rustix::process::Pid::from_raw(gateway.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    gateway.says("root hands it over with: leeway gateway reload", 1);
}
