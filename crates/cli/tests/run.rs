//! `leeway run` with real programs: needs root, BTF, cgroup v2, `python3` and `iperf3`.

mod confined;
mod live;

use confined::{Talk, ends, is_loaded, listed, own_law, possible, run, script, succeed, wait_for};
use live::{leeway, text};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

#[test]
fn both_ends_are_under_the_law_whatever_the_program_chooses() {
    if !possible() {
        return;
    }
    let law = own_law();
    let hosts = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];
    let output = succeed(run(&format!("--law {law}"), &["python3", &script("ends.py")]).args(hosts));
    let ends = ends(&output);
    assert_eq!(ends.len(), hosts.len());
    for (_, laws) in ends {
        assert!(laws.iter().all(|name| name.starts_with("run_ledbat")), "{laws:?}");
    }
    wait_for("the law goes with the command", || !is_loaded(&law) && listed(&law).is_empty());
}

/// What `capture.py` printed about the connections to a port.
fn captured(capture: &Talk, port: u16, least: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while bytes.len() < least {
        let line = capture.line();
        let words: Vec<u16> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        if words[..2].contains(&port) {
            bytes.push(words[2] as u8);
        }
    }
    bytes
}

#[test]
fn every_segment_is_marked_from_the_first() {
    if !possible() {
        return;
    }
    for (options, tos) in [("", 0x04), ("--dscp 8", 0x20), ("--dscp none", 0xb8)] {
        let capture = Talk::start(Command::new("python3").arg(script("capture.py")));
        assert_eq!(capture.line(), "ready");
        let hosts = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];
        let output = succeed(run(options, &["python3", &script("ends.py")]).args(hosts));
        for (port, _) in ends(&output) {
            // Handshake, two writes and their acknowledgements.
            let bytes = captured(&capture, port, 7);
            let marked: Vec<u8> = bytes.iter().map(|byte| byte & !3).collect();
            if options == "--dscp none" {
                // What the program itself chose, which the listener did not.
                assert!(marked.contains(&tos), "{bytes:x?}");
            } else {
                assert!(marked.iter().all(|byte| *byte == tos), "{options}: {bytes:x?}");
            }
        }
    }
}

#[test]
fn datagrams_are_marked_and_keep_their_bits_of_ecn() {
    if !possible() {
        return;
    }
    let capture = Talk::start(Command::new("python3").arg(script("capture.py")));
    assert_eq!(capture.line(), "ready");
    let output = succeed(&mut run("", &["python3", &script("datagrams.py")]));
    let mut cases = 0;
    for line in output.lines() {
        let (name, port) = line.rsplit_once(' ').expect("a name and a port");
        let bytes = captured(&capture, port.parse().expect("a port"), 3);
        let expected = if name.ends_with("own ECN") { [6; 3] } else { [4; 3] };
        assert_eq!(bytes, expected, "{name}");
        cases += 1;
    }
    assert_eq!(cases, 12, "{output}");
}

#[test]
fn iperf3_with_a_congestion_control_of_its_own_succeeds_and_is_overruled() {
    if !possible() {
        return;
    }
    let mut server = Command::new("iperf3");
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let server = Talk::start(server.args(["-s", "-1", "--forceflush", "-B", "127.0.0.1", "-p", &port]));
    while !server.line().contains("Server listening") {}
    let client = ["iperf3", "-c", "127.0.0.1", "-p", &port, "-C", "reno", "-S", "0xb8", "-n", "1M", "-J"];
    let report: serde_json::Value =
        serde_json::from_str(&succeed(&mut run("--law flower", &client))).unwrap();
    let law = report["end"]["sender_tcp_congestion"].as_str().expect("iperf3 asked the kernel");
    assert!(law.starts_with("run_flower"), "{law}");
    assert!(report["end"]["sum_sent"]["bytes"].as_u64().expect("a count") >= 1 << 20);
}

#[test]
fn the_end_of_the_command_is_its_own() {
    if !possible() {
        return;
    }
    for code in [0, 1, 7, 255] {
        let status = run("", &["sh", "-c", &format!("exit {code}")]).status().unwrap();
        assert_eq!(status.code(), Some(code));
    }
    // Not SIGINT: whoever runs the tests in the background may have it ignored.
    for signal in [9, 10, 15] {
        let status = run("", &["sh", "-c", &format!("kill -{signal} $$")]).status().unwrap();
        assert_eq!(status.signal(), Some(signal), "a shell shows it as 128 + {signal}");
    }
    for (command, code) in [("/nowhere/at-all", 127), ("no-such-command-at-all", 127), ("/etc/passwd", 126)] {
        let output = run("", &[command]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{command}");
        assert!(
            text(&output.stderr).contains(&format!("cannot run `{command}`")),
            "{}",
            text(&output.stderr)
        );
    }
    // Options of the command are its own, also without `--`.
    assert_eq!(
        succeed(Command::new(leeway()).args(["run", "--dscp", "le", "echo", "--law", "x", "-n"])),
        "--law x -n\n"
    );
}

#[test]
fn the_command_is_the_process_that_was_started_and_has_no_foreign_children() {
    if !possible() {
        return;
    }
    let program = "
import os, sys
try:
    os.wait()
    sys.exit('a child that it did not start')
except ChildProcessError:
    print(os.getpid(), os.getppid(), *os.listdir('/proc/self/fd'), flush=True)
input()
";
    let mut descriptors = Vec::new();
    for mut command in [Command::new("python3"), run("", &["python3"])] {
        let mut talk = Talk::start(command.args(["-c", program]));
        let line = talk.line();
        let mut words = line.splitn(3, ' ');
        assert_eq!(words.next(), Some(&*talk.child.id().to_string()));
        assert_eq!(words.next(), Some(&*std::process::id().to_string()));
        descriptors.push(words.next().expect("descriptors").to_owned());
        talk.say("");
        assert!(talk.child.wait().unwrap().success());
    }
    assert_eq!(descriptors[0], descriptors[1], "the same descriptors without leeway and with it");
}

#[test]
fn signals_reach_the_command_and_children_are_included() {
    if !possible() {
        return;
    }
    let law = own_law();
    let inner = format!(
        "python3 {} & wait; trap 'exit 42' TERM; echo ready; while :; do sleep 0.05; done",
        script("ends.py")
    );
    let mut talk = Talk::start(&mut run(&format!("--law {law}"), &["sh", "-c", &inner]));
    for (_, laws) in ends(&format!("{}\n{}", talk.line(), talk.line())) {
        assert!(laws.iter().all(|name| name.starts_with("run_ledbat")), "{laws:?}");
    }
    assert_eq!(talk.line(), "ready");
    rustix::process::kill_process(pid(talk.child.id()), rustix::process::Signal::TERM).unwrap();
    assert_eq!(talk.child.wait().unwrap().code(), Some(42));
}

fn pid(number: u32) -> rustix::process::Pid {
    rustix::process::Pid::from_raw(number as i32).expect("not zero")
}

/// The reaper of a process.
fn reaper(command: u32) -> Option<u32> {
    let wanted = format!("run-reap\0run-{command}\0");
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.find(|pid| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.ends_with(&wanted))
    })
}

#[test]
fn two_commands_have_laws_of_their_own_and_killing_them_leaves_nothing() {
    if !possible() {
        return;
    }
    let laws = [own_law(), own_law()];
    let program = format!("python3 {} 127.0.0.1; exec sleep 1000", script("ends.py"));
    let mut talks: Vec<Talk> = laws
        .iter()
        .map(|law| Talk::start(&mut run(&format!("--law {law}"), &["sh", "-c", &program])))
        .collect();
    let names: Vec<String> = talks.iter().map(|talk| ends(&talk.line())[0].1[0].clone()).collect();
    assert_ne!(names[0], names[1]);
    for law in &laws {
        assert!(is_loaded(law) && listed(law).len() == 1, "{law}");
    }
    for talk in &mut talks {
        talk.child.kill().unwrap();
    }
    for law in &laws {
        wait_for("nothing is left", || !is_loaded(law) && listed(law).is_empty());
    }
}

#[test]
fn without_its_reaper_a_command_stays_confined_and_what_is_left_is_swept() {
    if !possible() {
        return;
    }
    let law = own_law();
    let program = format!("read go; python3 {} 127.0.0.1; exec sleep 1000", script("ends.py"));
    let mut talk = Talk::start(&mut run(&format!("--law {law}"), &["sh", "-c", &program]));
    let command = talk.child.id();
    wait_for("a reaper", || reaper(command).is_some());
    let reaper_pid = reaper(command).expect("a reaper");
    rustix::process::kill_process(pid(reaper_pid), rustix::process::Signal::KILL).unwrap();
    wait_for("it ends", || !Path::new(&format!("/proc/{reaper_pid}")).exists());
    talk.say("go");
    let laws = &ends(&talk.line())[0].1;
    assert!(laws.iter().all(|name| name.starts_with("run_ledbat")), "{laws:?}");
    let line = listed(&law).pop().expect("it is listed");
    let cgroup = line.split_whitespace().next().expect("a path").to_owned();
    drop(talk);
    // Another test's command may sweep before this one does.
    wait_for("the sweep", || {
        let doctor = Command::new(leeway()).args(["doctor", "--clean"]).output().unwrap();
        assert!(doctor.status.code().is_some_and(|code| code < 2), "{}", text(&doctor.stderr));
        !is_loaded(&law) && listed(&law).is_empty()
    });
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mount = mounts.lines().find(|line| line.contains(" cgroup2 ")).expect("checked");
    let mount = mount.split(' ').nth(1).expect("a mount point");
    assert!(!Path::new(&format!("{mount}{cgroup}")).exists(), "{cgroup}");
}

#[test]
fn a_law_that_others_loaded_is_used_and_left() {
    if !possible() {
        return;
    }
    let law = own_law();
    let name = format!("mine{}", std::process::id());
    succeed(Command::new(leeway()).args(["kernel", "load", &law, "--name", &name]));
    let program = format!("python3 {} 127.0.0.1; read go; python3 {0} 127.0.0.1", script("ends.py"));
    let mut talk = Talk::start(&mut run(&format!("--law {law}"), &["sh", "-c", &program]));
    assert_eq!(ends(&talk.line())[0].1[0], name);
    // Whoever unloads it does not take it from those that use it.
    succeed(Command::new(leeway()).args(["kernel", "unload", &name]));
    talk.say("go");
    assert_eq!(ends(&talk.line())[0].1[0], name);
    assert!(talk.child.wait().unwrap().success());
}

#[test]
fn bad_usage_says_what_would_be_right() {
    for (options, why) in [
        ("--law ledbatt", "ledbat"),
        ("--law ledbat:aim=3ms", "target"),
        ("--dscp 64", "0 to 63"),
        ("--dscp low", "le"),
        ("--lwa ledbat", "--lwa"),
    ] {
        let output = run(options, &["true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{options}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(why), "{options}: {}", text(&output.stderr));
    }
}

#[test]
fn the_innermost_of_nested_commands_decides() {
    if !possible() {
        return;
    }
    let ends_of = script("ends.py");
    let program =
        [leeway(), "run", "--law", "flower", "--dscp", "8", "--receive=none", "--", "python3", &ends_of];
    let capture = Talk::start(Command::new("python3").arg(script("capture.py")));
    assert_eq!(capture.line(), "ready");
    for (port, laws) in ends(&succeed(run("--law newreno", &program).args(["::1", "::ffff:127.0.0.1"]))) {
        assert!(laws.iter().all(|name| name.starts_with("run_flower")), "{laws:?}");
        let bytes = captured(&capture, port, 7);
        assert!(bytes.iter().all(|byte| byte & !3 == 0x20), "{bytes:x?}");
    }
}

#[test]
fn it_works_behind_a_link_and_in_a_namespace_that_hides_sys() {
    if !possible() || !live::possible(&["ip", "nft"]) {
        return;
    }
    let law = own_law();
    let program = [leeway(), "run", "--law", &law, "--", "python3", &script("ends.py"), "127.0.0.1"];
    let namespace = format!("lwrun{}", std::process::id());
    succeed(Command::new("ip").args(["netns", "add", &namespace]));
    succeed(Command::new("ip").args(["-n", &namespace, "link", "set", "lo", "up"]));
    let outputs = [
        Command::new(leeway()).args(["link", "--delay", "1ms", "--"]).args(program).output().unwrap(),
        Command::new("ip").args(["netns", "exec", &namespace]).args(program).output().unwrap(),
    ];
    succeed(Command::new("ip").args(["netns", "del", &namespace]));
    for output in outputs {
        assert!(output.status.success(), "{}", text(&output.stderr));
        let laws = &ends(&text(&output.stdout))[0].1;
        assert!(laws.iter().all(|name| name.starts_with("run_ledbat")), "{laws:?}");
    }
    wait_for("nothing is left", || !is_loaded(&law) && listed(&law).is_empty());
}

/// A test network ends with all processes of its hosts, but the reaper has work to do then.
#[test]
fn nothing_is_left_where_a_test_network_ends_with_the_command() {
    if !possible() || !live::possible(&["ip", "nft"]) {
        return;
    }
    let law = own_law();
    let network = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/testnets/home.toml");
    let program = [leeway(), "run", "--no-report", "--law", &law, "--", "true"];
    succeed(Command::new(leeway()).args(["testnet", network, "--"]).args(program));
    wait_for("nothing is left", || !is_loaded(&law) && listed(&law).is_empty());
}

#[test]
fn the_terminal_is_the_commands_own() {
    if !possible() {
        return;
    }
    let output = succeed(Command::new("python3").args([&script("terminal.py"), leeway()]));
    assert_eq!(output, "interrupted 3\nstopped, continued and ended\n");
}

#[test]
fn a_reaper_ends_when_somebody_else_has_swept() {
    if !possible() {
        return;
    }
    let mut talk = Talk::start(&mut run("", &["sh", "-c", "echo ready; read end"]));
    assert_eq!(talk.line(), "ready");
    let command = talk.child.id();
    wait_for("a reaper", || reaper(command).is_some());
    let reaper_pid = pid(reaper(command).expect("a reaper"));
    rustix::process::kill_process(reaper_pid, rustix::process::Signal::STOP).unwrap();
    talk.say("end");
    talk.child.wait().unwrap();
    succeed(&mut run("", &["true"]));
    rustix::process::kill_process(reaper_pid, rustix::process::Signal::CONT).unwrap();
    wait_for("it ends", || reaper(command).is_none());
}

#[test]
fn the_end_tells_what_went_and_came_and_follows_the_command() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("account.json");
    let options = format!("--report --json {}", file.display());
    let program = format!("python3 {} 127.0.0.1; exit 7", script("ends.py"));
    let output = run(&options, &["sh", "-c", &program]).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(text(&output.stderr).contains("leeway: sent "), "{}", text(&output.stderr));
    let account: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    // Two handshakes' worth of headers at least; both ends are in the cgroup.
    for way in ["sent_bytes", "received_bytes"] {
        let bytes = account[way].as_u64().expect("a count");
        assert!((200..100_000).contains(&bytes), "{account}");
    }
    assert_eq!((&account["exit_code"], &account["down"]), (&7.into(), &serde_json::Value::Null));
    let output = run("--report", &["sh", "-c", "kill -TERM $$"]).output().unwrap();
    assert_eq!(output.status.signal(), Some(15));
    // A command of hours is not started for a file that cannot be written at its end.
    let output = run("--json /nowhere/account.json", &["echo", "started"]).output().unwrap();
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(1), ""));
    assert!(text(&output.stderr).contains("/nowhere/account.json"), "{}", text(&output.stderr));
    // Without a terminal nothing is said unless it is asked for.
    let output = run("", &["true"]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_law_of_downloads_may_stand_apart_from_its_option() {
    if !possible() {
        return;
    }
    let output =
        Command::new(leeway()).args(["run", "--receive", "none", "--", "echo", "x"]).output().unwrap();
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), "x\n"));
    let output = Command::new(leeway()).args(["run", "--receive", "echo", "--", "x"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--receive"), "{}", text(&output.stderr));
}
