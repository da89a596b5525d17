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

/// What strangers say is parsed by a process that could do nothing with this machine if it was taken over.
#[test]
fn the_process_that_hears_strangers_has_no_rights() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.toml");
    let text = "listen = [\"10.20.0.1:80\"]\nclients = [\"10.20.0.0/24\"]\nhome = [\"192.168.7.0/24\"]\n\
                [transparent]\ninterface = \"mesh\"\n";
    std::fs::write(&file, text).unwrap();
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 3);
    let status = |path: String| std::fs::read_to_string(path).unwrap();
    let line = |status: &str, name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        u64::from_str_radix(line.trim_start_matches(':').trim(), 16).unwrap()
    };
    let mut threads = 0;
    for task in std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).unwrap() {
        let status = status(format!("{}/status", task.unwrap().path().display()));
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb", "CapBnd"] {
            assert_eq!(line(&status, set), 0, "{set}\n{status}");
        }
        assert_eq!(line(&status, "NoNewPrivs"), 1, "{status}");
        threads += 1;
    }
    assert!(threads >= 4, "those that serve, and those that watch: {threads}");
    // CAP_NET_BIND_SERVICE is 10 and CAP_NET_ADMIN 12 (capabilities(7)).
    let status = status(format!("/proc/{}/status", gateway.caretaker()));
    assert_eq!(line(&status, "CapPrm"), 1 << 10 | 1 << 12, "{status}");
    assert_eq!(line(&status, "NoNewPrivs"), 1, "{status}");
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
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
    // The process that keeps the rules is told by the end of the gateway; this one is told by nobody.
    sh(&format!("kill -9 {} {}", gateway.caretaker(), gateway.pid()));
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

    // A gateway that is killed alone leaves the guard, so that nobody slips past the proxy, and nothing else.
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
    let caretaker = gateway.caretaker();
    gateway.signal(rustix::process::Signal::KILL);
    wait("the caretaker ends", || !std::path::Path::new(&format!("/proc/{caretaker}")).exists());
    let found = left(&bed, &[]);
    assert!(found.len() == 1 && found[0].contains("leeway_guard_mesh"), "{found:#?}");
    left(&bed, &["--clean"]);
    assert_eq!(bed.rules(), before, "nothing stays behind");

    // One whose caretaker is killed does not go on without its rules.
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
    sh(&format!("kill -9 {}", gateway.caretaker()));
    assert_eq!(gateway.ended().code(), Some(1));
    left(&bed, &["--clean"]);
    assert_eq!(bed.rules(), before, "nothing stays behind");

    // One that is told to stop while it still looks for the relay takes its rules along.
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
    assert_ne!(bed.rules(), before);
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert_eq!(bed.rules(), before, "nothing stays behind");
}
