//! `leeway gateway status`, `pause`, `resume`, `users` beside a gateway that runs, and without one.

use crate::bed::{Gateway, leeway};
use std::process::Output;

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
    assert!(nobody.contains("no gateway runs here") && nobody.contains(&socket), "{nobody}");
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
    assert!(second.contains("another gateway has"), "{second}");

    gateway.signal(rustix::process::Signal::KILL);
    let _gateway = start();
    assert!(out(&ask(&socket, &["status"])).starts_with("sharing: paused until 2"));
    assert_eq!(out(&ask(&socket, &["resume"])), "sharing: on\n");
}
