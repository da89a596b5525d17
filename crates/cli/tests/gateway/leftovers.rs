//! What a gateway leaves that is killed, by the name that `leeway doctor` gives it.

use crate::bed::*;
use std::process::Command;

/// What `doctor` finds on the gateway of such.
fn left(bed: &Testbed, arguments: &[&str]) -> Vec<String> {
    let mut doctor = Command::new("ip");
    doctor.args(["netns", "exec", &bed.names[GATEWAYS], env!("CARGO_BIN_EXE_leeway"), "doctor"]);
    let output = doctor.args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter(|line| line.contains("that was killed")).map(str::to_owned).collect()
}

#[test]
fn doctor_names_what_a_killed_gateway_left_and_removes_it() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let before = bed.rules();
    let folder = tempfile::tempdir().unwrap();
    let (state, token) = (folder.path().join("state"), folder.path().join("token"));
    // Nobody is there: a relay that is looked for has its device and rules all the same.
    let mut invite = leeway();
    invite.args(["invite", "--name", "gateway", "--address", "198.18.50.9:4433", "--state"]).arg(&state);
    write_secret(&token, &invite.output().unwrap().stdout);
    let file = folder.path().join("gateway.toml");
    let text = format!(
        "clients = [\"10.20.0.0/24\"]\nupload = []\ndns = [\"198.18.40.2\"]\nrelay = {{ token_file = {token:?} }}\n\
         [transparent]\ninterface = \"mesh\"\n"
    );
    std::fs::write(&file, text).unwrap();
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
    assert_eq!(left(&bed, &[]), [""; 0], "what is in use was not left");
    gateway.signal(rustix::process::Signal::KILL);
    wait("the tables with an owner go", || !bed.rules().contains("tproxy"));
    wait("the device goes", || !bed.rules().contains("oifname \"lwrelay0\""));

    let found = left(&bed, &[]);
    for words in [
        "nftables table inet leeway_guard_mesh, by which a gateway that was killed still refuses",
        "IPv4 routing rule 30999 to table",
        "IPv6 routing rule 30999 to table",
        "IPv4 routes in table",
        "IPv6 routes in table",
    ] {
        assert_eq!(found.iter().filter(|line| line.contains(words)).count(), 1, "{words}: {found:#?}");
    }
    assert_eq!(found.iter().filter(|line| line.contains("routing rule")).count(), 4, "{found:#?}");
    assert!(found.iter().all(|line| line.ends_with("leeway doctor --clean")), "{found:#?}");

    let removed = left(&bed, &["--clean"]);
    assert_eq!(removed.len(), found.len(), "{removed:#?}");
    assert_eq!(left(&bed, &[]), [""; 0]);
    assert_eq!(bed.rules(), before, "nothing stays behind");

    // One that is told to stop while it still looks for the relay takes its rules along.
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
    assert_ne!(bed.rules(), before);
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert_eq!(bed.rules(), before, "nothing stays behind");
}
