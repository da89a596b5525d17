//! `leeway gateway` as a program: its start and its end, and between network namespaces clients without
//! configuration, a relay, and a home beside it.

mod bed;
mod chaos;
mod clock;
mod control;
mod disk;
mod home;
mod inside;
mod leftovers;
#[path = "../live/mod.rs"]
mod live;
mod observe;
mod operator;
mod overload;
mod passwords;
mod scripts;
mod service;
mod setup;
mod transparent;
mod uplink;
mod vouchers;

use bed::{Gateway, PATIENCE, leeway};
use std::io::{Read, Write};
use std::net::TcpStream;

fn usage(arguments: &[&str]) -> String {
    let output = leeway().arg("gateway").args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_wrong_is_explained() {
    assert!(usage(&[]).contains("give `listen`"));
    assert!(usage(&["--listen", "127.0.0.1:0"]).contains("give `clients`"));
    let wrong = usage(&["--listen", "127.0.0.1:0", "--client", "10.0.0.0/40"]);
    assert!(wrong.contains("is not a network"), "{wrong}");
    let wrong = usage(&["--listen", "127.0.0.1:0", "--client", "10.0.0.0/8", "--law", "ledbad"]);
    assert!(wrong.contains("ledbad"), "{wrong}");
    let wrong = usage(&["--listen", "127.0.0.1:0", "--client", "10.0.0.0/8", "--relay", "leeway2_x"]);
    assert!(wrong.contains("not a token of `leeway invite`"), "{wrong}");
    assert!(usage(&["--config", "/nonexistent/gateway.toml"]).contains("/nonexistent/gateway.toml"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = leeway().args(["gateway", "--listen", &address, "--client", "127.0.0.1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&address));
}

/// Each line is an object with its time, its kind and words; a wrong password says whose it was and where from.
#[test]
fn a_log_of_json_is_json_to_the_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let (users, file, log) =
        (folder.path().join("users"), folder.path().join("gateway.toml"), folder.path().join("log"));
    let hash = leeway_gateway::password::Hash::of("a phrase").unwrap();
    std::fs::write(&users, format!("ann:{hash}\n")).unwrap();
    std::fs::set_permissions(&users, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let text = "log = \"json\"\nlisten = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\n";
    std::fs::write(&file, format!("{text}users_file = {users:?}\n")).unwrap();
    let mut command = leeway();
    command.args(["gateway", "--config"]).arg(&file).stderr(std::fs::File::create(&log).unwrap());
    let mut gateway = bed::Program(command.spawn().unwrap());
    let events = || -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(&log).unwrap();
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
    };
    let one = |kind: &str| events().into_iter().find(|event| event["event"] == kind);
    bed::wait("it listens", || one("listening").is_some());
    let address = one("listening").unwrap()["address"].as_str().unwrap().to_owned();
    let mut client = TcpStream::connect(address).unwrap();
    // ann:wrong
    let head = "GET http://9.9.9.9/ HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic YW5uOndyb25n\r\n\r\n";
    client.write_all(head.as_bytes()).unwrap();
    bed::wait("it tells of a wrong password", || one("refused").is_some());
    let refused = one("refused").unwrap();
    assert_eq!([&refused["from"], &refused["user"]], ["127.0.0.1", "ann"]);
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&gateway.0),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert!(gateway.0.wait().unwrap().success());
    let events = events();
    assert_eq!(events.last().unwrap()["event"], "stopping");
    for event in events {
        let at = event["time"].as_str().unwrap().parse::<jiff::Timestamp>();
        assert!(at.is_ok() && !event["message"].as_str().unwrap().is_empty(), "{event}");
    }
}

#[test]
fn it_serves_until_it_is_told_to_stop() {
    let mut command = leeway();
    command.args(["gateway", "--listen", "127.0.0.1:0", "--socks", "127.0.0.1:0", "--client", "127.0.0.1"]);
    let (mut gateway, addresses) = Gateway::start(&mut command, 2);
    let mut client = TcpStream::connect(addresses[0]).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(b"GET http://10.0.0.1/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert!(TcpStream::connect(addresses[0]).is_err());
}
