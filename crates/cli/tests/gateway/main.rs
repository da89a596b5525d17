//! `leeway gateway` as a program: its start and its end, and between network namespaces clients without
//! configuration, a relay, and a home beside it.

mod bed;
mod chaos;
mod clock;
mod control;
mod disk;
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
