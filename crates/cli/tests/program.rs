//! The program as people use it: what it prints, what it writes, how it ends.

use assert_cmd::Command;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn leeway() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("leeway"))
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

fn all_examples() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![examples()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension() {
                // Networks for real programs; they are tested with these.
                _ if path.ends_with("testnets") => {}
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "toml" => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

const SHORT: &str = r#"
title = "Two <flows> & a queue"
duration = "3 s"
[dumbbell.bottleneck]
rate = "5 Mbit/s"
delay = "10 ms"
[[flow]]
name = "tcp"
start = { uniform = ["0 s", "500 ms"] }
[[flow]]
name = "backup"
role = "background"
law = "ledbat"
[series]
every = "20 ms"
"#;

/// A folder with `short.toml` in it.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("short.toml"), SHORT).unwrap();
    folder
}

fn stdout(command: &mut Command) -> String {
    String::from_utf8(command.assert().success().get_output().stdout.clone()).unwrap()
}

#[test]
fn help_is_there_for_every_command() {
    for command in [
        &[][..],
        &["sim"],
        &["laws"],
        &["queues"],
        &["schema"],
        &["completions"],
        &["man"],
        &["link"],
        &["testnet"],
        &["kernel"],
        &["top"],
        &["doctor"],
        &["relay"],
        &["invite"],
        &["join"],
    ] {
        let help = stdout(leeway().args(command).arg("--help"));
        assert!(help.contains("Example"), "{command:?}: {help}");
        assert!(!help.contains('\u{1b}'), "no colour where there is no terminal");
    }
    assert!(stdout(leeway().args(["--help"])).contains("Exit codes"));
}

#[test]
fn exit_codes_tell_bad_input_from_failed_runs() {
    let folder = folder();
    let code =
        |arguments: &[&str]| leeway().current_dir(&folder).args(arguments).output().unwrap().status.code();
    assert_eq!(code(&["sim", "short.toml", "--quiet"]), Some(0));
    assert_eq!(code(&["sim"]), Some(2));
    assert_eq!(code(&["sim", "short.toml", "--nonsense"]), Some(2));
    assert_eq!(code(&["sim", "absent.toml"]), Some(2));
    assert_eq!(code(&["sim", "short.toml", "--set", "duration=never"]), Some(2));
    assert_eq!(code(&["sim", "short.toml", "--repetitions", "0"]), Some(2));
    assert_eq!(code(&["laws", "nosuchlaw"]), Some(2));
    assert_eq!(code(&["sim", "short.toml", "--out", "short.toml/inside"]), Some(1));
    let trace = SHORT.replace("rate = \"5 Mbit/s\"", "trace = \"absent.trace\"");
    std::fs::write(folder.path().join("trace.toml"), trace).unwrap();
    assert_eq!(code(&["sim", "trace.toml"]), Some(2), "a trace that is not there is the scenario's mistake");
}

#[test]
fn tables_name_links_and_flows() {
    let folder = folder();
    let text = stdout(leeway().current_dir(&folder).args(["sim", "short.toml"]));
    for word in ["Two <flows> & a queue", "bottleneck", "tcp", "backup", "ledbat", "Mbit/s", "seed 1"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains('\u{1b}'));
    let hostile = SHORT.replace("Two <flows>", "gpj\\u001b[2J\\u202ex");
    std::fs::write(folder.path().join("hostile.toml"), hostile).unwrap();
    let text = stdout(leeway().current_dir(&folder).args(["sim", "hostile.toml"]));
    assert!(text.contains("gpj\u{fffd}[2J\u{fffd}x"), "{text:?}");
    let quiet = leeway().current_dir(&folder).args(["sim", "short.toml", "-q"]).output().unwrap();
    assert!(quiet.stdout.is_empty() && quiet.stderr.is_empty());
    let text = stdout(leeway().current_dir(&folder).args(["sim", "short.toml", "--repetitions", "5"]));
    assert!(text.contains("means of 5 runs") && text.contains('±'), "{text}");
}

#[test]
fn json_holds_runs_statistics_and_scenario() {
    let folder = folder();
    let sweep = [
        "sim",
        "short.toml",
        "--json",
        "--repetitions",
        "3",
        "--seed",
        "7",
        "--sweep",
        "flow.backup.law=ledbat,newreno",
    ];
    let json: serde_json::Value =
        serde_json::from_str(&stdout(leeway().current_dir(&folder).args(sweep))).unwrap();
    let points = json["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    assert_eq!(points[1]["values"]["flow.backup.law"], "newreno");
    let seeds: Vec<_> =
        points[0]["runs"].as_array().unwrap().iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [7, 8, 9]);
    let throughput = &points[0]["statistics"][0]["groups"][0]["throughput_bps"];
    assert_eq!(throughput["n"], 3);
    assert!(throughput["mean"].as_f64().unwrap() > 0.0 && throughput["ci95"].as_f64().is_some());
    assert_eq!(points[0]["scenario"]["flow"][1]["law"], "ledbat");
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn the_same_seed_writes_the_same_bytes_on_any_number_of_threads() {
    let folder = folder();
    let apart = "[[link]]\nname = \"other\"\nfrom = \"a\"\nto = \"b\"\nforward = { rate = \"2 Mbit/s\" }\n\
        [[flow]]\nname = \"apart\"\nfrom = \"a\"\nto = \"b\"\n";
    std::fs::write(folder.path().join("parts.toml"), format!("{SHORT}\n{apart}")).unwrap();
    let run = |file: &str, repetitions: &str, jobs: &str| {
        let arguments = ["sim", file, "-q", "--repetitions", repetitions, "--jobs", jobs, "--out", jobs];
        leeway().current_dir(&folder).args(arguments).assert().success();
        files(&folder.path().join(jobs))
    };
    for (file, repetitions) in [("short.toml", "6"), ("parts.toml", "2")] {
        let (one, many) = (run(file, repetitions, "1"), run(file, repetitions, "7"));
        let names: Vec<&str> = one.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["flows.parquet", "links.parquet", "report.html", "summary.json"]);
        assert!(one == many, "the bytes of {file} differ");
    }
}

#[test]
fn the_page_stands_alone_and_nothing_in_it_can_break_out() {
    let folder = folder();
    let hostile = SHORT.replace("Two <flows> & a queue", "</script><script>alert(1)</script> {{data}}");
    std::fs::write(folder.path().join("hostile.toml"), hostile).unwrap();
    leeway().current_dir(&folder).args(["sim", "hostile.toml", "-q", "--out", "out"]).assert().success();
    let page = std::fs::read_to_string(folder.path().join("out/report.html")).unwrap();
    assert!(!page.contains("<script>alert") && page.contains("\\u003c/script>"));
    assert_eq!(page.matches("</script>").count(), 4);
    for attribute in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(attribute), "{attribute} would need the network");
    }
}

#[test]
fn parquet_files_can_be_read_back() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let folder = folder();
    leeway()
        .current_dir(&folder)
        .args(["sim", "short.toml", "-q", "--out", "out", "--repetitions", "2"])
        .assert()
        .success();
    for (name, columns) in [("flows.parquet", 11), ("links.parquet", 8)] {
        let file = std::fs::File::open(folder.path().join("out").join(name)).unwrap();
        let reader = SerializedFileReader::new(file).unwrap();
        let metadata = reader.metadata();
        assert_eq!(metadata.num_row_groups(), 2, "a row group a run");
        assert_eq!(metadata.file_metadata().schema_descr().num_columns(), columns);
        assert!(metadata.file_metadata().num_rows() > 100);
        let keys: Vec<_> =
            metadata.file_metadata().key_value_metadata().unwrap().iter().map(|k| k.key.clone()).collect();
        assert!(keys.contains(&"leeway.units".to_owned()) && keys.contains(&"leeway.points".to_owned()));
    }
}

#[test]
fn an_invitation_that_is_over_at_once_is_refused() {
    let folder = folder();
    let arguments = ["invite", "--state", "relay", "--address", "relay.example.org:4433", "--expires", "0s"];
    let output = leeway().current_dir(&folder).args(arguments).output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("nobody could use the invitation") && output.stdout.is_empty(), "{words}");
    assert!(!folder.path().join("relay").exists());
}

#[test]
fn a_mistyped_folder_of_a_relay_is_not_made() {
    let folder = folder();
    for arguments in [["invite", "--list"], ["invite", "--revoke=ann"], ["relay", "resume"]] {
        let output =
            leeway().current_dir(&folder).args(arguments).args(["--state", "relya"]).output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?} {words}");
        assert!(words.contains("relya: this is not the folder of a relay"), "{arguments:?} {words}");
        assert!(!folder.path().join("relya").exists(), "{arguments:?}");
    }
}

#[test]
fn a_voucher_for_nothing_is_refused_with_all_that_it_can_be_for() {
    let output = leeway().args(["gateway", "voucher"]).output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("--days, --gb or both"), "{words}");
}

#[test]
fn a_neighbour_who_is_named_twice_would_have_a_password_that_does_not_hold() {
    let folder = folder();
    let arguments = ["gateway", "init", "--yes", "--config", "g.toml", "--users", "ann", "--users", "ann"];
    let output = leeway().current_dir(&folder).args(arguments).output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("--users ann is given twice"), "{words}");
    assert!(!folder.path().join("g.toml").exists());
}

#[test]
fn a_failure_leaves_old_results_alone() {
    let folder = folder();
    leeway().current_dir(&folder).args(["sim", "short.toml", "-q", "--out", "out"]).assert().success();
    let before = files(&folder.path().join("out"));
    std::fs::write(folder.path().join("bad.toml"), SHORT.replace("delay", "dealy")).unwrap();
    leeway()
        .current_dir(&folder)
        .args(["sim", "short.toml", "bad.toml", "-q", "--out", "out"])
        .assert()
        .code(2);
    assert!(files(&folder.path().join("out")) == before);
}

#[test]
fn a_result_that_cannot_be_written_is_named() {
    let folder = folder();
    std::fs::create_dir_all(folder.path().join("out/report.html")).unwrap();
    let output =
        leeway().current_dir(&folder).args(["sim", "short.toml", "-q", "--out", "out"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let words = String::from_utf8(output.stderr).unwrap();
    assert!(words.contains("cannot write out/report.html: "), "{words}");
}

#[test]
fn a_full_disk_behind_the_standard_output_is_named() {
    let folder = folder();
    let answers: [&[&str]; 6] = [
        &["sim", "short.toml", "--json"],
        &["laws"],
        &["doctor", "--json"],
        &["--version"],
        &["--help"],
        &["gateway", "users", "--help"],
    ];
    for arguments in answers {
        let full = std::fs::File::create("/dev/full").unwrap();
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("leeway"));
        let output = command.current_dir(&folder).args(arguments).stdout(full).output().unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?} {words}");
        assert!(words.contains("cannot write /dev/stdout: "), "{arguments:?} {words}");
    }
}

/// As behind `leeway ... 2>&1 | head`, and where the disk of a log is full.
#[test]
fn a_standard_error_that_cannot_be_written_changes_no_exit_code() {
    let folder = folder();
    std::fs::write(folder.path().join("bad.toml"), SHORT.replace("delay", "dealy")).unwrap();
    for arguments in [&["sim", "bad.toml"][..], &["nonsense"], &["laws", "nonsense"], &["gateway", "status"]]
    {
        let program = || std::process::Command::new(assert_cmd::cargo::cargo_bin!("leeway"));
        let full = std::fs::File::create("/dev/full").unwrap();
        let seen = program().current_dir(&folder).args(arguments).output().unwrap().status;
        let unseen = program().current_dir(&folder).args(arguments).stderr(full).output().unwrap().status;
        assert_eq!(unseen.code(), seen.code(), "{arguments:?}");
    }
}

/// `leeway gateway up` writes the log to a file, and a full disk ends no service.
#[test]
fn a_gateway_serves_on_without_its_log() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let folder = folder();
    let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("leeway"));
    let address = format!("127.0.0.1:{port}");
    let place = folder.path().display();
    let text = format!(
        "listen = [\"{address}\"]\nclients = [\"127.0.0.0/8\"]\n\
         [control]\nsocket = \"{place}/control.sock\"\nstate = \"{place}\"\n"
    );
    std::fs::write(folder.path().join("gateway.toml"), text).unwrap();
    command.args(["gateway", "--config", "gateway.toml"]).current_dir(&folder);
    command.stderr(std::fs::File::create("/dev/full").unwrap());
    let mut child = command.spawn().unwrap();
    let start = Instant::now();
    let answer = loop {
        if let Some(status) = child.try_wait().unwrap() {
            panic!("it has ended: {status}");
        }
        if let Ok(mut stream) = std::net::TcpStream::connect(&address) {
            stream.write_all(b"GET http://10.0.0.1/ HTTP/1.0\r\n\r\n").unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            break answer;
        }
        assert!(start.elapsed() < Duration::from_secs(20), "it does not listen");
        std::thread::sleep(Duration::from_millis(20));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.") && answer.contains(" 403 "), "{answer}");
}

#[test]
fn killed_it_leaves_nothing_partial() {
    let folder = folder();
    let out = folder.path().join("out");
    let arguments = ["sim", "short.toml", "-q", "--out", "out", "--repetitions", "100000"];
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin!("leeway"))
        .current_dir(&folder)
        .args(arguments)
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !out.exists() && start.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(500));
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success(), "it was to be killed on the way");
    let left = files(&out).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    // Linux has files without a name; elsewhere a hidden temporary may stay, never one of the results.
    assert!(left.iter().all(|name| !cfg!(target_os = "linux") && name.starts_with('.')), "{left:?}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let folder = folder();
    let sim = ["sim", "short.toml", "--json", "--repetitions", "20"];
    for arguments in [sim.as_slice(), &["--version"], &["run", "--help"]] {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        drop(reader);
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin!("leeway"));
        let output = command.current_dir(&folder).args(arguments).stdout(writer).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?} {output:?}");
    }
}

#[test]
fn lists_and_generated_texts_are_there() {
    let laws = stdout(leeway().arg("laws"));
    for law in leeway_control::laws() {
        assert!(laws.contains(&format!("{}: ", law.name)), "{}", law.name);
        for param in &law.params {
            assert!(laws.contains(param.name));
        }
    }
    let queues = stdout(leeway().arg("queues"));
    assert!(leeway_queue::disciplines().iter().all(|queue| queues.contains(queue.name)));
    assert!(stdout(leeway().args(["completions", "bash"])).contains("leeway"));
    let man = stdout(leeway().arg("man"));
    assert!(man.starts_with(".ie") && man.contains("LEEWAY SIM") && man.contains("repetitions"));
}

#[test]
fn a_manual_page_shows_which_arguments_take_several_values() {
    let folder = tempfile::tempdir().unwrap();
    leeway().arg("man").arg("--out").arg(folder.path()).assert().success();
    for (page, argument) in [
        ("run", "[\\fICOMMAND...\\fR]"),
        ("link", "[\\fI\\-\\- COMMAND...\\fR]"),
        ("sim", "<\\fIFILE...\\fR>"),
    ] {
        let text = std::fs::read_to_string(folder.path().join(format!("leeway-{page}.1"))).unwrap();
        let synopsis = text.split(".SH").find(|section| section.starts_with(" SYNOPSIS")).unwrap();
        assert!(synopsis.contains(argument), "{synopsis}");
    }
}

#[test]
fn every_example_follows_the_schema_and_can_be_run() {
    let schema: serde_json::Value = serde_json::from_str(&stdout(leeway().arg("schema"))).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let examples = all_examples();
    assert!(examples.len() >= 18, "{examples:?}");
    for path in examples {
        let text = std::fs::read_to_string(&path).unwrap();
        let value: serde_json::Value = toml_edit::de::from_str(&text).unwrap();
        let wrong: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", path.display());
        let points = leeway_sim::scenario::ScenarioFile::load(&path).unwrap().points().unwrap();
        for point in points {
            let value = serde_json::to_value(&point.scenario).unwrap();
            assert!(validator.is_valid(&value), "{} written out", path.display());
        }
    }
}

#[test]
fn the_schema_refuses_what_the_program_refuses() {
    let schema: serde_json::Value = serde_json::from_str(&stdout(leeway().arg("schema"))).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let good: serde_json::Value = toml_edit::de::from_str(SHORT).unwrap();
    assert!(validator.is_valid(&good));
    for (from, to) in [
        ("delay", "dealy"),
        ("\"10 ms\"", "10"),
        ("\"5 Mbit/s\"", "\"fast\""),
        ("\"background\"", "\"backstage\""),
        ("law = \"ledbat\"", "law = \"ledbta\""),
        ("uniform", "unifrom"),
        ("duration = \"3 s\"", ""),
    ] {
        let text = SHORT.replace(from, to);
        assert_ne!(text, SHORT, "{from}");
        let bad: serde_json::Value = toml_edit::de::from_str(&text).unwrap();
        assert!(!validator.is_valid(&bad), "{from} -> {to}");
    }
}
