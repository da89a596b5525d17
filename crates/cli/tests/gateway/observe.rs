//! `leeway gateway --observe`: what the home leaves of its line, without a neighbour and without a packet.

use crate::bed::{GATEWAY, GATEWAYS, HOME, INTERNET, Program, SERVERS, Testbed, leeway, possible, wait};
use crate::live::text;
use crate::scripts::DATAGRAMS;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

/// Datagrams of the home, each with an answer of the same length: 1200 bytes and headers of 28.
const COUNT: u64 = 300;
const BYTES: u64 = COUNT * 1228;

/// What the control socket answers to that command.
fn asked(socket: &Path, what: &[&str]) -> (Option<i32>, String) {
    let output = leeway().arg("gateway").args(what).arg("--socket").arg(socket).output().unwrap();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn what_the_home_leaves_is_seen_and_nobody_is_let_through() {
    if !possible() {
        return;
    }
    let mut bed = Testbed::new();
    bed.serve(&[INTERNET]);
    let folder = tempfile::tempdir().unwrap();
    let [config, socket] = ["gateway.toml", "control.sock"].map(|name| folder.path().join(name));
    let state = folder.path().join("state");
    std::fs::write(
        &config,
        format!(
            "listen = [\"10.20.0.1:3128\"]\nclients = [\"10.20.0.0/16\"]\nhome = [\"192.168.7.0/24\"]\n\
             [accounts]\nurl = {:?}\n[transparent]\ninterface = \"mesh\"\n[control]\nsocket = {socket:?}\n\
             state = {state:?}\n",
            folder.path().join("accounts.db")
        ),
    )
    .unwrap();
    let rules = bed.rules();
    let mut command = Command::new("ip");
    command.args([
        "netns",
        "exec",
        &bed.names[GATEWAYS],
        env!("CARGO_BIN_EXE_leeway"),
        "gateway",
        "--config",
    ]);
    command.arg(&config).args(["--observe", "--json"]);
    let mut observer = Program(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let status = || -> Option<Value> {
        let (code, said) = asked(&socket, &["status", "--json"]);
        (code == Some(0)).then(|| serde_json::from_str(&said).expect(&said))
    };
    let observed = |name: &str| status().map_or(Value::Null, |status| status["observed"][name].clone());
    wait("it has looked twice", || observed("seconds").as_u64() >= Some(1));

    let script = format!("{DATAGRAMS}\nprint(echo())");
    let home = || bed.ask_at(HOME, &script, &[SERVERS[0], "443", &COUNT.to_string()]);
    assert_eq!(home(), "192.168.7.2", "the home uses its line");
    wait("it has seen it", || observed("down")["bytes"].as_u64() >= Some(BYTES));
    let quiet = "import socket\ntry: socket.create_connection(('10.20.0.1', 3128), 5)\n\
                 except ConnectionRefusedError: print('refused')";
    assert_eq!(bed.ask(quiet, &[]), "refused", "no neighbour is let through");
    assert_eq!(bed.rules(), rules, "and no rule is made");
    assert!(!folder.path().join("accounts.db").exists(), "and nothing is written down");

    let (code, words) = asked(&socket, &["status"]);
    assert_eq!(code, Some(0), "{words}");
    for said in [
        "sharing: off, the line is only observed",
        "s on wan\n",
        "could be shared on average, at least: ",
        "not known: the line's rate",
    ] {
        assert!(words.contains(said), "{said} in {words}");
    }
    let (code, words) = asked(&socket, &["pause", "1h"]);
    assert!(code == Some(2) && words.contains("nothing to pause"), "{words}");

    kill_process(Pid::from_child(&observer.0), Signal::INT).unwrap();
    let mut said = String::new();
    observer.0.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(observer.0.wait().unwrap().success());
    let seen: Value = serde_json::from_str(&said).expect(&said);
    assert_eq!((&seen["sees_home"], &seen["interfaces"][0]), (&true.into(), &"wan".into()), "{said}");
    assert!(seen["home_busy_s"].as_u64() >= Some(1), "{said}");
    for way in ["down", "up"] {
        // Besides: neighbour discovery of both ends. The observer itself sends nothing.
        let bytes = seen[way]["bytes"].as_u64().unwrap();
        assert!((BYTES..BYTES * 11 / 10).contains(&bytes), "{way}: {said}");
        let [mean, busiest, spare] =
            ["mean_bps", "busiest_bps", "spare_bps"].map(|name| seen[way][name].as_f64());
        assert!(busiest > mean && spare > Some(0.0), "{way}: {said}");
    }
}

#[test]
fn it_needs_no_configuration_ends_by_itself_and_says_what_it_does_not_know() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let mut command = Command::new("ip");
    let program = env!("CARGO_BIN_EXE_leeway");
    command.args(["netns", "exec", &bed.names[HOME], program, "gateway", "--observe", "--time", "3s"]);
    let output = command.output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    for words in ["s on lan\n", "could be shared: not known\n", "do not pass this machine"] {
        assert!(said.contains(words), "{words} in {said}");
    }
    assert!(!said.contains(GATEWAY[0]), "{said}");
}
