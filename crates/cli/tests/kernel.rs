//! `leeway kernel`, `top` and `doctor` with the real kernel: need root, `python3`, `nft` and `unshare`.

mod live;

use live::{Law, Running, leeway, possible, send, succeed, text, unique};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn run(arguments: &[&str]) -> Output {
    Command::new(leeway()).args(arguments).output().unwrap()
}

/// The program as a user without rights, and where such a user can read it.
fn as_nobody(arguments: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("leeway");
    std::fs::copy(leeway(), &program).unwrap();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let user = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    Command::new("setpriv").args(user).arg(&program).args(arguments).output().unwrap()
}

/// A program that sends over the loopback device under a law until it is killed.
const SENDER: &str = "
import socket, sys, threading, time
listener = socket.create_server(('127.0.0.1', 0))
s = socket.socket()
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, sys.argv[1].encode())
s.connect(listener.getsockname())
peer = listener.accept()[0]
def read():
    while peer.recv(65536):
        pass
threading.Thread(target=read, daemon=True).start()
print('sending', flush=True)
while True:
    s.sendall(bytes(20000))
    time.sleep(0.01)
";

fn sender(law: &Law) -> Running {
    Running::start(Command::new("python3").args(["-c", SENDER, &law.0]))
}

#[test]
fn top_prints_a_table_or_json_where_there_is_no_terminal() {
    if !possible(&["python3"]) {
        return;
    }
    let law = Law::load("ledbat:target=25ms", "topt");
    let running = sender(&law);
    let json = succeed(Command::new(leeway()).args(["top", "--json", "--interval", "0.5", &law.0]));
    let rows: Value = serde_json::from_slice(&json.stdout).unwrap();
    let [row] = &rows.as_array().unwrap()[..] else { panic!("one socket, not {rows}") };
    assert_eq!((&row["name"], &row["law"]), (&Value::from(&*law.0), &Value::from("ledbat:target=25ms")));
    assert_eq!(row["pid"], Value::from(running.child.id()));
    assert!(row["program"].as_str().unwrap().starts_with("python"), "{row}");
    assert!(row["window_pkt"].as_f64().unwrap() > 0.0 && row["srtt_us"].as_u64().unwrap() > 0, "{row}");
    assert!(row["rate_bps"].as_f64().unwrap() > 10_000.0, "{row}");
    let table = text(&succeed(Command::new(leeway()).args(["top", "--interval", "0.2", &law.0])).stdout);
    let [header, line] = table.lines().collect::<Vec<_>>()[..] else { panic!("{table}") };
    assert!(header.starts_with("law") && header.ends_with("Mbit/s"), "{table}");
    assert!(line.starts_with(&*law.0) && line.contains(&format!("({})", running.child.id())), "{table}");
    drop(running);
    let deadline = Instant::now() + Duration::from_secs(20);
    while !text(&run(&["top", &law.0]).stdout).contains("no socket is under a law") {
        assert!(Instant::now() < deadline, "the socket stays");
    }
    let unknown = run(&["top", "ledbad"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(text(&unknown.stderr).contains("neither a law nor the name of one that is loaded"));
}

/// Runs a command in a pseudo-terminal: waits for a text, types or signals, and sees what is left of the terminal.
const TERMINAL: &str = "
import fcntl, os, pty, select, signal, struct, sys, termios, time
wanted, end, command = sys.argv[1].encode(), sys.argv[2], sys.argv[3:]
master, slave = pty.openpty()
fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack('HHHH', 30, 150, 0, 0))
before = termios.tcgetattr(slave)
pid = os.fork()
if pid == 0:
    os.close(master)
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.environ['TERM'] = 'xterm'
    os.execv(command[0], command)
said, asked, deadline = b'', False, time.monotonic() + 40
status = None
while status is None:
    if time.monotonic() > deadline:
        os.kill(pid, signal.SIGKILL)
        sys.exit('it did not end; it said: %r' % said)
    if select.select([master], [], [], 0.05)[0]:
        said += os.read(master, 65536)
    if wanted in said and not asked:
        asked = True
        if end == 'TERM':
            os.kill(pid, signal.SIGTERM)
        else:
            for key in end:
                mark = len(said)
                os.write(master, key.encode())
                # A key that follows at once belongs to the Escape: wait until the filter is gone.
                while key == '\\x1b' and command[2].encode() not in said[mark:] and time.monotonic() < deadline:
                    if select.select([master], [], [], 0.05)[0]:
                        said += os.read(master, 65536)
                time.sleep(0.1)
    done, code = os.waitpid(pid, os.WNOHANG)
    if done:
        status = os.waitstatus_to_exitcode(code)
while select.select([master], [], [], 0.1)[0]:
    said += os.read(master, 65536)
assert status == 0, (status, said)
assert asked, said
assert b'\\x1b[?1049h' in said and b'\\x1b[?1049l' in said, said
assert said.rindex(b'\\x1b[?1049l') > said.rindex(b'\\x1b[?1049h'), said
assert termios.tcgetattr(slave) == before, 'the terminal is not as before'
sys.stdout.buffer.write(said)
";

#[test]
fn top_is_live_in_a_terminal_and_leaves_it_as_it_was() {
    if !possible(&["python3"]) {
        return;
    }
    let law = Law::load("lp", "topl");
    let _running = sender(&law);
    let name = law.0.clone();
    let in_terminal = |end: &str| {
        let mut python = Command::new("python3");
        python.args(["-c", TERMINAL, "python", end, leeway(), "top", &name, "--interval", "0.3"]);
        text(&succeed(&mut python).stdout)
    };
    // Another order, a filter that nothing passes, without it again, held; then the end.
    let said = in_terminal("w/xyz\u{1b} q");
    assert!(said.contains("leeway top: 1 sockets"), "{said}");
    assert!(
        said.contains("window") && said.contains("no socket matches the filter") && said.contains("held"),
        "{said}"
    );
    in_terminal("\u{3}");
    in_terminal("TERM");
}

#[test]
fn without_rights_there_is_one_clear_line() {
    if !possible(&["setpriv"]) {
        return;
    }
    let _loaded = Law::load("lp", "wor");
    let kernel = "error: congestion control in the kernel needs root";
    // An ordinary user sees his own sockets through the helper: how to get it is told, too.
    let top = "error: controlling and seeing traffic needs root, or the helper for ordinary users";
    for (arguments, begin, lines) in
        [(&["kernel", "list"][..], kernel, 1), (&["kernel", "load", "ledbat"], kernel, 1), (&["top"], top, 2)]
    {
        let output = as_nobody(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with(begin), "{arguments:?}: {said}");
        assert_eq!(said.lines().count(), lines, "{arguments:?}: {said}");
    }
}

#[test]
fn a_kernel_without_btf_is_named() {
    if !possible(&[]) {
        return;
    }
    let load = Command::new(leeway())
        .args(["kernel", "load", "ledbat", "--name", &unique("btf")])
        .env("LEEWAY_BTF", "/nonexistent/vmlinux")
        .output()
        .unwrap();
    assert_eq!(load.status.code(), Some(1));
    assert!(
        text(&load.stderr).starts_with("error: this kernel has no BTF (/nonexistent/vmlinux is missing)")
    );
}

#[test]
fn the_laws_of_a_file_are_loaded_once_and_changed_where_the_file_changes() {
    if !possible(&[]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("laws.conf");
    let (near, rtt) = (Law(unique("fna")), Law(unique("frt")));
    let write = |near_target: &str| {
        let text = format!("# test\nledbat:target={near_target} {}\nlp {} no-timestamps\n", near.0, rtt.0);
        std::fs::write(&file, text).unwrap();
    };
    let path = file.to_str().unwrap();
    let load = || text(&succeed(Command::new(leeway()).args(["kernel", "load", "--file", path])).stdout);
    write("5ms");
    assert_eq!(load(), format!("ledbat:target=5ms is loaded as {}\nlp is loaded as {}\n", near.0, rtt.0));
    let loaded_again = load();
    assert_eq!(loaded_again.matches(" already").count(), 2, "{loaded_again}");
    write("7ms");
    let changed = load();
    assert!(
        changed.contains(&format!("ledbat:target=7ms is loaded as {}, replacing the one before", near.0)),
        "{changed}"
    );
    let list = text(&run(&["kernel", "list"]).stdout);
    assert!(list.contains("ledbat:target=7ms") && list.contains(&rtt.0), "{list}");
    let show = text(&run(&["kernel", "show", &rtt.0]).stdout);
    assert!(show.contains("timestamps: ignored"), "{show}");
    // A mistake changes nothing.
    std::fs::write(&file, format!("ledbat:target=9ms {}\nledbad\n", near.0)).unwrap();
    let wrong = run(&["kernel", "load", "--file", path]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("laws.conf:2: "), "{}", text(&wrong.stderr));
    assert!(text(&run(&["kernel", "list"]).stdout).contains("ledbat:target=7ms"));
    write("7ms");
    for _ in 0..2 {
        succeed(Command::new(leeway()).args(["kernel", "unload", "--file", path]));
    }
    let list = text(&run(&["kernel", "list"]).stdout);
    assert!(!list.contains(&near.0) && !list.contains(&rtt.0), "{list}");
}

#[test]
fn systemd_takes_the_unit() {
    let analyze = Command::new("systemd-analyze").arg("--version").output();
    if !analyze.is_ok_and(|output| output.status.success()) {
        eprintln!("systemd-analyze is not there to check the unit");
        return;
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let unit = std::fs::read_to_string(root.join("packaging/systemd/leeway-kernel.service")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("leeway-kernel.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/leeway", leeway())).unwrap();
    let output = Command::new("systemd-analyze").arg("verify").arg(&file).output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && !said.contains("leeway-kernel.service"), "{said}");
}

#[test]
fn doctor_tells_what_is_there_and_what_is_missing() {
    if !possible(&["nft", "setpriv"]) {
        return;
    }
    let healthy = run(&["doctor"]);
    let said = text(&healthy.stdout);
    assert_eq!(healthy.status.code(), Some(0), "{said}{}", text(&healthy.stderr));
    assert!(said.ends_with("the laws can run in this machine's kernel\n"), "{said}");
    assert!(said.contains("a law was loaded and unloaded again"), "{said}");
    let mut doctor = Command::new(leeway());
    let broken =
        doctor.args(["doctor", "--json"]).env("LEEWAY_BTF", "/nonexistent/vmlinux").output().unwrap();
    assert_eq!(broken.status.code(), Some(1));
    let answer: Value = serde_json::from_slice(&broken.stdout).unwrap();
    assert_eq!(answer["ok"], Value::from(false));
    let kernel = &answer["checks"][0];
    assert!(kernel["found"].as_str().unwrap().contains("without BTF"), "{kernel}");
    assert!(kernel["remedy"].as_str().unwrap().contains("CONFIG_DEBUG_INFO_BTF"), "{kernel}");
    let nobody = as_nobody(&["doctor"]);
    let said = text(&nobody.stdout);
    assert_eq!(nobody.status.code(), Some(1), "{said}");
    assert!(said.contains("without CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF"), "{said}");
    assert!(
        said.ends_with(
            "you cannot use the laws in this machine's kernel; root can, if nothing else is missing\n"
        ),
        "{said}"
    );
    // The device is there, so the module is.
    assert!(!std::path::Path::new("/dev/net/tun").exists() || !said.contains("modprobe tun"), "{said}");
    assert_eq!(text(&nobody.stderr), "");
}

#[test]
fn doctor_cleans_up_what_nobody_uses_and_nothing_else() {
    if !possible(&["nft", "unshare"]) {
        return;
    }
    // In a namespace of its own: a table of a process that has ended, one of a process that lives, somebody
    // else's.
    let script = "sleep 0 & dead=$!; wait
        for name in leeway7_$dead leeway8_$$ mine_$dead; do nft add table ip $name; done
        $0 doctor; $0 doctor --clean; $0 doctor --clean; nft list tables; echo $dead $$";
    let mut unshare = Command::new("unshare");
    let output = succeed(unshare.args(["--net", "sh", "-c", script, leeway()]));
    let said = text(&output.stdout);
    let (dead, alive) = said.lines().last().unwrap().split_once(' ').unwrap();
    assert!(said.contains(&format!("left     nftables table ip leeway7_{dead}")), "{said}");
    assert_eq!(said.matches("removed  nftables").count(), 1, "{said}");
    assert_eq!(said.matches("there was nothing to remove").count(), 1, "{said}");
    let after = &said[said.rfind("there was nothing to remove").unwrap()..];
    assert!(!after.contains("leeway7_"), "{said}");
    for table in [format!("table ip leeway8_{alive}"), format!("table ip mine_{dead}")] {
        assert!(after.contains(&table), "{said}");
    }
}

#[test]
fn a_link_that_is_killed_leaves_nothing_for_the_doctor() {
    if !possible(&["nft"]) {
        return;
    }
    let mut link = Command::new(leeway());
    link.args(["link", "--delay", "5ms", "--", "sh", "-c", "echo up; exec sleep 60"]);
    let mut running = Running::start(&mut link);
    let table = format!("_{}\n", running.child.id());
    let tables = || text(&succeed(Command::new("nft").args(["list", "tables"])).stdout);
    assert!(tables().contains(&table), "{}", tables());
    assert!(!text(&run(&["doctor"]).stdout).contains(table.trim_end()), "what is in use is no leftover");
    send("-KILL", running.child.id());
    running.child.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while tables().contains(&table) {
        assert!(Instant::now() < deadline, "{}", tables());
        run(&["doctor", "--clean"]);
    }
}

#[test]
fn a_law_is_unloaded_by_what_it_was_loaded_by() {
    if !possible(&[]) {
        return;
    }
    // The only test that loads one under its default name.
    succeed(Command::new(leeway()).args(["kernel", "load", "vegas"]));
    let said = text(&succeed(Command::new(leeway()).args(["kernel", "unload", "vegas"])).stdout);
    assert!(said.contains("leeway_vegas is unloaded"), "{said}");
    let again = run(&["kernel", "unload", "vegas"]);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again.stderr));
}
