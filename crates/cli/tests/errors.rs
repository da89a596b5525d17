//! What people see who write a scenario that cannot be run: each bad input with its error, to be read.

use assert_cmd::Command;
use std::fmt::Write;

const LINK: &str = "duration = \"10 s\"\n\n[dumbbell.bottleneck]\nrate = \"10 Mbit/s\"\ndelay = \"25 ms\"\n";
const FLOW: &str = "\n[[flow]]\nname = \"tcp\"\n";

/// Runs `leeway sim scenario.toml` with more arguments and returns what it says, with the exit code.
fn complaint(text: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scenario.toml"), text).unwrap();
    let output = Command::new(assert_cmd::cargo::cargo_bin!("leeway"))
        .current_dir(folder.path())
        .args(["sim", "scenario.toml"])
        .args(arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    format!("{}exit code {}\n", stderr, output.status.code().unwrap())
}

fn show(cases: &[(&str, &str)]) -> String {
    cases.iter().fold(String::new(), |mut text, (name, scenario)| {
        writeln!(text, "==== {name}\n{}", complaint(scenario, &[])).unwrap();
        text
    })
}

fn with_link(rest: &str) -> String {
    format!("{LINK}{rest}")
}

fn with_flow(rest: &str) -> String {
    format!("{LINK}{FLOW}{rest}")
}

#[test]
fn syntax_and_fields() {
    let cases = [
        ("not TOML", "duration = \"10 s\ntitle = 1\n".to_owned()),
        ("empty file", String::new()),
        ("misspelt table", with_flow("").replace("dumbbell.bottleneck", "dumbell.bottleneck")),
        ("misspelt field", with_flow("").replace("delay", "dealy")),
        ("misspelt field of TCP", with_flow("tcp = { sak = true }\n")),
        ("number without unit", with_flow("").replace("\"25 ms\"", "25")),
        ("unknown unit", with_flow("").replace("25 ms", "25 msec")),
        ("rate in bytes of nothing", with_flow("").replace("10 Mbit/s", "10 Mbites")),
        ("text for a number", with_flow("count = \"three\"\n")),
        ("negative count", with_flow("count = -1\n")),
        ("word that is no choice", with_flow("role = \"backgroud\"\n")),
        ("missing name", with_link("\n[[flow]]\nlaw = \"newreno\"\n")),
        ("table for a text", with_flow("law = { name = \"ledbat\" }\n")),
        ("unknown distribution", with_flow("start = { unifrom = [\"0 s\", \"3 s\"] }\n")),
        ("application without its size", with_flow("app = { kind = \"transfer\" }\n")),
        ("field of another application", with_flow("app = { kind = \"bulk\", size = \"1 MB\" }\n")),
        ("sampling", with_flow("\n[series]\nevery = \"often\"\n")),
    ];
    insta::assert_snapshot!(show(&cases.each_ref().map(|(name, text)| (*name, text.as_str()))));
}

#[test]
fn laws_and_queues() {
    let cases = [
        ("misspelt law", with_flow("law = \"ledbta\"\n")),
        ("misspelt parameter", with_flow("law = \"ledbat:tarket=5ms\"\n")),
        ("value out of bounds", with_flow("law = \"ledbat:target=5h\"\n")),
        ("unknown queue", with_flow("").replace("delay =", "queue = \"codle\"\ndelay =")),
    ];
    insta::assert_snapshot!(show(&cases.each_ref().map(|(name, text)| (*name, text.as_str()))));
}

#[test]
fn meaning() {
    let cases = [
        ("no link", format!("duration = \"10 s\"\n{FLOW}")),
        ("no flow", LINK.to_owned()),
        ("zero duration", with_flow("").replace("\"10 s\"", "\"0 s\"")),
        ("two rates", with_flow("").replace("delay =", "trace = \"lte.trace\"\ndelay =")),
        ("nothing limits the flow", with_flow("").replace("rate = \"10 Mbit/s\"\n", "")),
        ("two groups of one name", format!("{LINK}{FLOW}{FLOW}")),
        ("name that is a number", with_link("\n[[flow]]\nname = \"7\"\n")),
        ("unknown node", with_flow("to = \"rihgt\"\n")),
        ("unknown link of a route", with_flow("via = [\"bottelneck\"]\n")),
        (
            "no route",
            "duration = \"10 s\"\n[[link]]\nname = \"one\"\nfrom = \"a\"\nto = \"b\"\nforward = { rate = \"1 Mbit/s\" }\n\
             [[link]]\nname = \"two\"\nfrom = \"c\"\nto = \"d\"\nforward = { rate = \"1 Mbit/s\" }\n\
             [[flow]]\nname = \"x\"\nfrom = \"a\"\nto = \"d\"\n"
                .to_owned(),
        ),
        ("event on an unknown link", with_flow("\n[[event]]\nat = \"1 s\"\nlink = \"uplink\"\nrate = \"1 Mbit/s\"\n")),
        ("event after the end", with_flow("\n[[event]]\nat = \"11 s\"\nrate = \"1 Mbit/s\"\n")),
        ("event that changes nothing", with_flow("\n[[event]]\nat = \"1 s\"\n")),
        ("window that ends before it begins", with_flow("\n[[window]]\nname = \"w\"\nfrom = \"5 s\"\nto = \"4 s\"\n")),
        ("starts after the end", with_flow("start = \"10 s\"\n")),
        ("probability", with_flow("").replace("delay =", "loss = \"random:p=2\"\ndelay =")),
        ("order of a uniform distribution", with_flow("start = { uniform = [\"3 s\", \"1 s\"] }\n")),
        ("initial window", with_flow("\n[flow.tcp]\ninitial_window = 0\n")),
        ("receive window in BDP", with_flow("tcp.receive_window = \"1 BDP\"\n")),
        ("trace that is not there", with_flow("").replace("rate = \"10 Mbit/s\"", "trace = \"lte.trace\"")),
        ("baseline of nothing", format!("baseline = true\n{}", with_flow(""))),
    ];
    insta::assert_snapshot!(show(&cases.each_ref().map(|(name, text)| (*name, text.as_str()))));
}

#[test]
fn hostile_sizes() {
    let cases = [
        ("too many flows", with_flow("count = 100001\n")),
        ("endless run", with_flow("").replace("10 s", "1000000000 s")),
        ("fast and long", with_flow("").replace("10 Mbit/s", "1000 Gbit/s").replace("10 s", "1000000 s")),
        (
            "bottomless queue",
            with_flow("")
                .replace("delay =", "buffer = \"4000000000 pkt\"\ndelay =")
                .replace("10 Mbit/s", "100 Gbit/s"),
        ),
        ("too much to record", with_flow("\n[series]\nevery = \"1 ns\"\n")),
        (
            "storm of arrivals",
            with_flow("app = { kind = \"poisson\", arrivals_per_s = 1e9, size = \"1 kB\" }\n"),
        ),
        ("periods of no length", with_flow("app = { kind = \"on_off\", on = \"0 s\", off = \"0 s\" }\n")),
        (
            "endless sweep",
            with_flow(&format!(
                "\n[sweep]\nseed = [{0}]\nrepetitions = [{0}]\nduration = [{0}]\n",
                ["1"; 100].join(", ")
            )),
        ),
    ];
    insta::assert_snapshot!(show(&cases.each_ref().map(|(name, text)| (*name, text.as_str()))));
}

#[test]
fn changes_from_outside() {
    let scenario = with_flow("\n[[flow]]\nname = \"backup\"\nlaw = \"ledbat\"\n");
    let swept = format!("{scenario}\n[sweep]\n\"flow.bakcup.law\" = [\"newreno\"]\n");
    let bad_point = format!("{scenario}\n[sweep]\n\"flow.backup.law\" = [\"newreno\", \"ledbta\"]\n");
    let cases = [
        ("no equals sign", scenario.as_str(), vec!["--set", "duration"]),
        ("not a path", &scenario, vec!["--set", "flow..law=ledbat"]),
        ("unknown flow", &scenario, vec!["--set", "flow.bakcup.law=ledbat"]),
        ("index past the end", &scenario, vec!["--set", "flow[5].law=ledbat"]),
        ("unknown field", &scenario, vec!["--set", "dumbbell.bottleneck.bufer=40 pkt"]),
        ("wrong value", &scenario, vec!["--set", "flow.backup.law=ledbta"]),
        ("value without unit", &scenario, vec!["--set", "dumbbell.bottleneck.delay=5"]),
        ("sweep over an unknown flow", &swept, vec![]),
        ("sweep with a wrong value", &bad_point, vec![]),
        (
            "sweep option with a wrong value",
            &scenario,
            vec!["--sweep", "dumbbell.bottleneck.buffer=10 pkt,many"],
        ),
        ("series", &scenario, vec!["--series", "1 ns"]),
    ];
    let text = cases.iter().fold(String::new(), |mut text, (name, scenario, arguments)| {
        writeln!(text, "==== {name}: {}\n{}", arguments.join(" "), complaint(scenario, arguments)).unwrap();
        text
    });
    insta::assert_snapshot!(text);
}

/// A scenario may come from a stranger. Neither its text nor the message about it controls the terminal.
#[test]
fn a_scenario_says_nothing_to_the_terminal() {
    for line in ["\"a\\u001b[2Jb\\u202ec\" = 1", "wrong = \"gpj\u{202e}x\"", "wrong = 1 # \u{2066}"] {
        let text = complaint(&with_flow(&format!("{line}\n")), &[]);
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{2066}']), "{text:?}");
    }
}
