//! `leeway testbed` for real, in its quick form: needs root, TUN devices, `ip`, `tc` and `nft`.

mod live;

use live::{leeway, possible, succeed, text};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAMS: [&str; 2] = ["tc", "nft"];

fn testbed(arguments: &[&str]) -> Command {
    let mut command = Command::new(leeway());
    command.arg("testbed").args(arguments);
    command
}

#[test]
fn borrowing_keeps_from_the_primary_what_best_effort_does_to_it() {
    if !possible(&PROGRAMS) {
        return;
    }
    let asked = ["overload", "--quick", "--json", "-m", "prim_only", "-m", "best_effort", "-m", "borrowing"];
    let output = succeed(&mut testbed(&asked));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = said[0]["points"][0]["rows"].as_array().unwrap();
    let of = |row: usize, what: &str| {
        rows[row]["median"][what].as_f64().unwrap_or_else(|| panic!("{what}: {}", rows[row]["median"]))
    };
    // An object takes 60 ms on the line, two round trips 40 ms more; a full queue is 700 ms long.
    let [alone, beside, lent] = [0, 1, 2].map(|row| of(row, "primary_mean_s"));
    assert!(alone > 0.09, "{alone} s is faster than the line");
    assert!(beside > 1.5 * alone, "{beside} s beside {alone} s alone");
    assert!(lent < beside, "{lent} s with borrowing, {beside} s without");
    assert!(rows[0]["median"]["secondary_per_s"].is_null());
    assert!(of(1, "secondary_per_s") > 1.0 && of(2, "secondary_per_s") > 1.0);
    assert!(of(1, "ping_p99_s") > of(0, "ping_p99_s"));
    for row in 0..3 {
        assert!(of(row, "down_bps") < 1.75e6, "the line carries 1.72 Mbit/s");
    }
    let ratio = rows[1]["of_prim_only"]["primary_mean"].as_f64().unwrap();
    assert!((ratio - beside / alone).abs() < 0.01, "of one round the median ratio is the ratio");
}

/// The promise of the gateway is a mean of at most 1.35 times the home's alone, and measured is 1.14
/// (docs/testbed.md). The margin to 2 is for a busy machine: a process that waits 50 ms for its turn adds
/// that to an answer of 100 ms. Without a law the queue of the line is full, and the same requests take 8
/// times as long or more.
#[test]
fn the_home_keeps_what_the_gateway_promises() {
    const MOST: f64 = 2.0;
    if !possible(&PROGRAMS) {
        return;
    }
    // LEEWAY_TEST_PROXY=proxy:none shows what happens without a law.
    let proxy = std::env::var("LEEWAY_TEST_PROXY").unwrap_or("proxy".into());
    let time = ["--warmup", "3s", "--duration", "8s", "--repetitions", "1"];
    let mut asked = testbed(&["overload", "--json", "-m", "prim_only", "-m", &proxy]);
    let output = succeed(asked.args(time));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = said[0]["points"][0]["rows"].as_array().unwrap();
    let ratio = rows[1]["of_prim_only"]["primary_mean"].as_f64().unwrap();
    // An object is 0.1 Mbit, and the home leaves 1.2 Mbit/s of the line: users have some of it, or nothing
    // was tested.
    let secondaries = rows[1]["median"]["secondary_per_s"].as_f64().unwrap();
    println!("the home's mean is {ratio:.2} times that alone, users have {secondaries:.1} objects a second");
    assert!(ratio <= MOST, "{ratio} times the mean alone");
    assert!(secondaries > 2.0, "{secondaries} objects a second for users");
}

/// Its delay is below the law's target when it is full: what says so are losses, which a receiver sees as
/// segments that come early.
#[test]
fn a_short_queue_is_not_kept_full_by_the_proxy() {
    if !possible(&PROGRAMS) {
        return;
    }
    let line =
        ["--rate", "10 Mbit/s", "--buffer", "20pkt", "--primary-rate", "30", "--secondary-rate", "150"];
    let time = ["--warmup", "3s", "--duration", "5s", "--repetitions", "1"];
    let mut asked = testbed(&["overload", "--json", "-m", "best_effort", "-m", "proxy"]);
    let output = succeed(asked.args(line).args(time));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = said[0]["points"][0]["rows"].as_array().unwrap();
    let [beside, proxy] = [0, 1].map(|row| rows[row]["median"]["primary_mean_s"].as_f64().unwrap());
    // Alone it is 0.05 s; where the proxy hears of no losses it is longer than with best effort.
    assert!(proxy < beside / 2.0, "{proxy} s by proxy, {beside} s with best effort");
    let goodput = rows[1]["rounds"][0]["secondary"]["goodput_bps"].as_f64().unwrap();
    assert!(goodput > 1e5, "{goodput} bit/s for the secondaries by proxy");
}

#[test]
fn a_congestion_control_that_is_not_there_is_named() {
    if !possible(&PROGRAMS) {
        return;
    }
    let output = testbed(&["overload", "--quick", "--congestion", "nonesuch"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let said = text(&output.stderr);
    assert!(said.contains("`nonesuch`") && said.contains("reno"), "{said}");
}

#[test]
fn uploads_calls_and_greedy_users_are_measured() {
    if !possible(&PROGRAMS) {
        return;
    }
    let asked = ["leeway:greedy", "--json", "--upload", "--call", "-m", "fq_codel"];
    // 200 connections that begin together have 12.5 kB each through a line of 1.72 Mbit/s within 11.6 s; the
    // quick form is over before the first has.
    let time = ["--warmup", "2s", "--duration", "10s", "--repetitions", "1"];
    let output = succeed(testbed(&asked).args(time));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &said[0]["points"][0]["rows"][0];
    assert_eq!(row["mechanism"], "fq_codel");
    let mos = row["median"]["mos"].as_f64().unwrap();
    // Downloads are the primary's alone: the call is on a line that is nearly empty.
    assert!((2.0..=4.5).contains(&mos), "{mos}");
    let goodput = row["rounds"][0]["secondary"]["goodput_bps"].as_f64().unwrap();
    // They upload, and the line is theirs but for acknowledgements and the call: 1.1 to 1.3 Mbit/s is
    // finished in this time. A tenth of the line is a machine at its limits, and nothing is no measurement.
    assert!((1.7e5..1.75e6).contains(&goodput), "{goodput}");
}

/// All that the secondaries fetch goes through the tunnel: where that does not work they have nothing.
#[test]
fn ip_in_ip_carries_what_best_effort_does() {
    if !possible(&PROGRAMS) {
        return;
    }
    let asked = ["idle", "--json", "-m", "best_effort", "-m", "ipip", "--warmup", "2s"];
    let mut asked = testbed(&asked);
    let output = succeed(asked.args(["--duration", "5s", "--repetitions", "1"]));
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = said[0]["points"][0]["rows"].as_array().unwrap();
    let [open, tunnel] = [0, 1].map(|row| rows[row]["median"]["secondary_goodput_bps"].as_f64().unwrap());
    assert!(tunnel > 0.8 * open, "{tunnel} bit/s through the tunnel, {open} in the open");
}

#[test]
fn nothing_stays_behind_when_it_is_killed() {
    if !possible(&PROGRAMS) {
        return;
    }
    let mut testbed = testbed(&["overload", "-m", "proxy-relay", "--duration", "60s"]);
    let mut child = testbed.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let found = || {
        let mut all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let is_ours = |path: &PathBuf| {
            let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
            let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
            status.contains(&format!("\nPPid:\t{}\n", child.id())) && text(&line).contains("\0gateway\0")
        };
        all.find(is_ours)
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let until = |what: &str, done: &mut dyn FnMut() -> bool| {
        while !done() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let mut gateway = None;
    until("a gateway runs", &mut || {
        gateway = found();
        gateway.is_some()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    until("it ends", &mut || !gateway.as_ref().unwrap().exists());
}

#[test]
fn what_there_is_not_is_said_with_what_there_is() {
    for (arguments, why) in [
        (vec!["overlode"], "dimogerontakis2017:overload"),
        (vec!["overload", "-m", "squid"], "best_effort"),
        (vec![], "EXPERIMENT"),
    ] {
        let output = testbed(&arguments).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(why), "{error}");
    }
    let list = text(&succeed(&mut testbed(&["--list"])).stdout);
    assert!(list.contains("dimogerontakis2017:overload") && list.contains("tcplp"), "{list}");
}
