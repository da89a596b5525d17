//! `leeway run` of an ordinary user, with the helper and without: needs root, BTF, cgroup v2, `python3` and
//! `setpriv`.

mod confined;
mod live;

use confined::{Talk, ends, is_loaded, listed, own_law, possible, script, wait_for};
use live::{has, leeway, text};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// An ordinary user and group, which every machine has.
const NOBODY: u32 = 65534;

/// A helper with a socket of its own.
struct Helper {
    folder: tempfile::TempDir,
    group: String,
    options: Vec<&'static str>,
    child: Child,
}

impl Helper {
    fn start(options: &[&'static str]) -> Helper {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let group = group();
        let child = spawn(&folder, &group, options);
        Helper { folder, group, options: options.to_vec(), child }
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("helper.sock")
    }

    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn start_again(&mut self) {
        self.child = spawn(&self.folder, &self.group, &self.options);
    }

    /// `leeway run` as an ordinary user.
    fn run(&self, options: &str, command: &[&str]) -> Command {
        let mut run = ordinary(&self.folder.path().join("helper.sock").display().to_string());
        run.arg("run").args(options.split_whitespace()).arg("--").args(command);
        run
    }
}

/// The group of the ordinary user.
fn group() -> String {
    let groups = std::fs::read_to_string("/etc/group").unwrap();
    let line = groups.lines().find(|line| line.split(':').nth(2) == Some("65534")).expect("a group");
    line.split(':').next().expect("a name").to_owned()
}

fn spawn(folder: &tempfile::TempDir, group: &str, options: &[&str]) -> Child {
    let socket = folder.path().join("helper.sock");
    let mut helper = Command::new(leeway());
    helper.arg("helper").arg("--socket").arg(&socket).args(["--group", group]).args(options);
    let child = helper.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the helper listens", || UnixStream::connect(&socket).is_ok());
    child
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The program as an ordinary user, with the helper there.
fn ordinary(socket: &str) -> Command {
    let mut setpriv = Command::new("setpriv");
    let user = format!("--reuid={NOBODY}");
    let group = format!("--regid={NOBODY}");
    setpriv.args([&user, &group, "--clear-groups", "--", leeway()]).env("LEEWAY_HELPER", socket);
    setpriv
}

fn lines(output: &Output) -> String {
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn an_ordinary_user_runs_a_command_by_the_helper() {
    if !possible() {
        return;
    }
    let helper = Helper::start(&[]);
    let law = own_law();
    let program = format!("id -u; exec python3 {}", script("ends.py"));
    let output = lines(&helper.run(&format!("--law {law}"), &["sh", "-c", &program]).output().unwrap());
    let (uid, rest) = output.split_once('\n').expect("lines");
    assert_eq!(uid, NOBODY.to_string());
    for (_, laws) in ends(rest) {
        assert!(laws.iter().all(|name| name.starts_with("run_ledbat")), "{laws:?}");
    }
    wait_for("the helper cleans up", || listed(&law).is_empty() && !is_loaded(&law));
    let code = helper.run("", &["sh", "-c", "exit 7"]).status().unwrap().code();
    assert_eq!(code, Some(7));
}

#[test]
fn a_helper_that_was_killed_leaves_commands_confined_and_the_next_looks_after_them() {
    if !possible() {
        return;
    }
    let mut helper = Helper::start(&[]);
    let law = own_law();
    let program = format!("echo ready; read go; python3 {} 127.0.0.1; read end", script("ends.py"));
    let mut talk = Talk::start(&mut helper.run(&format!("--law {law}"), &["sh", "-c", &program]));
    assert_eq!(talk.line(), "ready");
    let list = listed(&law);
    assert!(list.len() == 1 && list[0].contains(&format!("user {NOBODY}")), "{list:?}");
    helper.stop();
    talk.say("go");
    let laws = &ends(&talk.line())[0].1;
    assert!(laws.iter().all(|name| name.starts_with("run_ledbat")), "{laws:?}");
    helper.start_again();
    talk.say("end");
    assert!(talk.child.wait().unwrap().success());
    wait_for("the next helper cleans up", || listed(&law).is_empty() && !is_loaded(&law));
}

/// A backup that fails is to be seen as one that fails, and one that succeeds as one that succeeds.
#[test]
fn the_end_of_a_command_counts_although_the_helper_has_gone() {
    if !possible() {
        return;
    }
    let mut helper = Helper::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let json = format!("--json {}", folder.path().join("account.json").display());
    for (options, end, code) in
        [("--report", "exit 0", 0), ("--report", "exit 7", 7), (&json, "exit 7", 7), (&json, "exit 0", 1)]
    {
        let mut command = helper.run(options, &["sh", "-c", &format!("echo ready; read go; {end}")]);
        let mut talk = Talk::start(&mut command);
        assert_eq!(talk.line(), "ready");
        helper.stop();
        talk.say("go");
        assert_eq!(talk.child.wait().unwrap().code(), Some(code), "{options} {end}");
        helper.start_again();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no account, no file");
}

/// The root of a hierarchy of cgroups that can limit the number of threads, of version 1 or 2.
fn with_pids() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().find_map(|line| {
        let [_, place, kind, options, ..] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        let root = PathBuf::from(place);
        let control = || std::fs::read_to_string(root.join("cgroup.subtree_control")).unwrap_or_default();
        let can = match kind {
            "cgroup" => options.split(',').any(|one| one == "pids"),
            "cgroup2" => control().split_whitespace().any(|one| one == "pids"),
            _ => false,
        };
        can.then_some(root)
    })
}

/// Connections that come faster than the system has threads are sent away.
#[test]
fn a_flood_of_connections_does_not_end_the_helper() {
    if !possible() {
        return;
    }
    let mut helper = Helper::start(&[]);
    let Some(root) = with_pids() else { return eprintln!("skipped: no cgroup controller `pids`") };
    let group = root.join(format!("leeway-test-few-{}", std::process::id()));
    std::fs::create_dir(&group).unwrap();
    std::fs::write(group.join("pids.max"), "4").unwrap();
    std::fs::write(group.join("cgroup.procs"), helper.child.id().to_string()).unwrap();
    let held: Vec<_> = (0..20).map(|_| UnixStream::connect(helper.socket()).unwrap()).collect();
    std::thread::sleep(Duration::from_secs(1));
    assert!(helper.child.try_wait().unwrap().is_none(), "it has ended");
    drop(held);
    wait_for("an answer", || helper.run("", &["true"]).status().unwrap().success());
    helper.stop();
    wait_for("an empty cgroup", || std::fs::remove_dir(&group).is_ok());
}

#[test]
fn a_user_has_a_limit() {
    if !possible() {
        return;
    }
    let helper = Helper::start(&["--per-user", "0"]);
    let output = helper.run("", &["true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("limit"), "{}", text(&output.stderr));
}

#[test]
fn without_a_helper_it_says_what_to_grant() {
    if !possible() {
        return;
    }
    let output = ordinary("/nowhere/helper.sock").args(["run", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    for word in
        ["/nowhere/helper.sock", "leeway-helper.socket", "leeway helper", "usermod -aG leeway", "sudo"]
    {
        assert!(error.contains(word), "{word}: {error}");
    }
    let helper = Helper::start(&[]);
    std::fs::set_permissions(helper.socket(), PermissionsExt::from_mode(0o600)).unwrap();
    let output = helper.run("", &["true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("you have no right to use it"), "{}", text(&output.stderr));
    let output = ordinary("/nowhere").args(["attach", "--list"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("needs root"), "{}", text(&output.stderr));
    let taken = Command::new(leeway()).args(["helper", "--group", "no-such-group-at-all"]).output().unwrap();
    assert_eq!(taken.status.code(), Some(2));
    assert!(text(&taken.stderr).contains("groupadd"), "{}", text(&taken.stderr));
}

#[test]
fn garbage_is_refused_and_the_helper_goes_on() {
    if !possible() {
        return;
    }
    let helper = Helper::start(&[]);
    let long = vec![b'x'; 100_000];
    let foreign = br#"{"version":1,"law":"ledbat","dscp":null,"receive":null,"what":"x","pid":1}"#;
    let binary = [0, 255, 10];
    for request in
        [&b"\n"[..], b"{}\n", b"null\n", &binary, &[&foreign[..], b"\n"].concat(), &long, b"", b"{"]
    {
        let mut stream = UnixStream::connect(helper.socket()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // It may have closed before it has read all.
        let _ = stream.write_all(request);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = text(&answer);
        assert!(answer.is_empty() || answer.starts_with("{\"refused\":"), "{request:?}: {answer}");
        assert!(!answer.is_empty() || request.len() > 4096, "{request:?} was not answered");
    }
    // Silent ones do not keep others out for long, and are told.
    let mut silent = UnixStream::connect(helper.socket()).unwrap();
    assert!(helper.run("", &["true"]).status().unwrap().success());
    silent.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut answer = String::new();
    silent.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("refused"), "{answer}");
    // Nobody here was confined.
    let own = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    assert!(!own.contains("leeway-run-"), "{own}");
}

#[test]
fn a_user_is_told_by_the_helper() {
    if !possible() {
        return;
    }
    let helper = Helper::start(&[]);
    let program = format!("exec python3 {} 127.0.0.1", script("ends.py"));
    let output = helper.run("--report", &["sh", "-c", &program]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    let sent = said.lines().find(|line| line.starts_with("leeway: sent ")).expect("an account");
    assert!(!sent.contains("sent 0 B"), "{sent}");
    let socket = helper.socket().display().to_string();
    let doctor = ordinary(&socket).args(["doctor", "--json"]).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let checks = answer["checks"].as_array().expect("checks");
    for name in ["rights", "trial", "helper"] {
        let check = checks.iter().find(|check| check["name"] == name).expect(name);
        assert_eq!(check["ok"], true, "{check}");
    }
    assert_eq!(doctor.status.code(), Some(0), "{answer}");
    let top = ordinary(&socket).args(["top", "--once"]).output().unwrap();
    // Laws that other tests have loaded have no connections of this user.
    assert!(
        top.status.success() && text(&top.stdout).contains("no socket of yours"),
        "{}",
        text(&top.stderr)
    );
    // What is not under it has no account.
    let stranger = ordinary("/nowhere").args(["top", "--once"]).output().unwrap();
    assert!(text(&stranger.stderr).contains("usermod -aG leeway"), "{}", text(&stranger.stderr));
}

/// Between the look at who asks and the move there is a second in which programs are loaded.
#[test]
fn a_process_that_gets_the_number_of_who_asked_stays_where_it_is() {
    if !possible() || !live::ready([(has("unshare"), "unshare (util-linux)")]) {
        return;
    }
    let group = group();
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--kill-child", "--mount-proc", "python3", &script("reuse.py")]);
    let output = unshare.args([leeway(), &group]).stdin(Stdio::null()).output().unwrap();
    let seen: Vec<String> = serde_json::from_str(&lines(&output)).expect("a list of cgroups");
    assert_eq!(seen.len(), 1, "it was moved: {seen:?}");
    assert!(seen[0].starts_with("/leeway-test-victim-"), "{seen:?}");
}
