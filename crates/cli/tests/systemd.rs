//! The Debian package under systemd: a fresh Debian boots in namespaces, and its services start,
//! fail, are read anew and go.

mod live;

use live::{has, package, ready, succeed, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const CONFIG: &str = "etc/leeway/gateway.toml";

/// A Debian that has booted.
struct Machine {
    folder: TempDir,
    cgroup: PathBuf,
    /// Ends with all that it has started when it is killed.
    unshare: Child,
    /// Process 1, as it is called out here.
    first: String,
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        // They end a moment later than what held them.
        let until = Instant::now() + PATIENCE;
        while fs::exists(&self.cgroup).unwrap_or(false) && Instant::now() < until {
            remove(&self.cgroup);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Removes a cgroup and those in it.
fn remove(cgroup: &Path) {
    let inner = fs::read_dir(cgroup).into_iter().flatten().flatten().map(|entry| entry.path());
    inner.filter(|path| path.is_dir()).for_each(|path| remove(&path));
    let _ = fs::remove_dir(cgroup);
}

/// Where cgroups of the second version are.
fn cgroups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    mounts.find(|fields| fields[2] == "cgroup2").map(|fields| fields[1].into())
}

impl Machine {
    fn boot(suite: &str) -> Machine {
        let folder = tempfile::tempdir().unwrap();
        let (root, log) = (folder.path().join("root"), folder.path().join("log"));
        let mut make = Command::new("mmdebstrap");
        make.args(["--quiet", "--variant=minbase"]);
        // With what the package depends on, and what talks to the proxy.
        make.arg("--include=systemd,systemd-sysv,dbus,iproute2,nftables,libelf1,curl");
        succeed(make.arg(suite).arg(&root));
        let cgroup = cgroups().unwrap().join(format!("leeway-test-{suite}-{}", std::process::id()));
        fs::create_dir(&cgroup).unwrap();
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$@\"", cgroup.display());
        let mut boot = Command::new("sh");
        boot.args(["-c", &enter, "sh", "unshare", "--pid", "--mount", "--cgroup", "--ipc", "--uts", "--net"]);
        boot.args(["--fork", "--kill-child", "sh"]);
        boot.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/boot.sh")).arg(&root);
        let said = fs::File::create(&log).unwrap();
        let unshare =
            boot.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said).spawn().unwrap();
        let mut machine = Machine { folder, cgroup, unshare, first: String::new() };
        machine.wait("it has booted", |machine| {
            let children = format!("/proc/{0}/task/{0}/children", machine.unshare.id());
            machine.first = fs::read_to_string(children).unwrap_or_default().trim().to_owned();
            let comm = fs::read_to_string(format!("/proc/{}/comm", machine.first)).unwrap_or_default();
            // What of Debian's own cannot be in a container is nothing to us.
            let state = machine.says("systemctl is-system-running");
            comm.trim() == "systemd" && ["running", "degraded"].contains(&state.trim())
        });
        machine
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn run(&self, words: &str) -> Output {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first, "--all", "--", "sh", "-c", words]).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("TERM", "dumb").output().unwrap()
    }

    /// What a command prints, whether it succeeds or not.
    fn says(&self, words: &str) -> String {
        let output = self.run(words);
        text(&output.stdout) + &text(&output.stderr)
    }

    fn succeed(&self, words: &str) -> String {
        let output = self.run(words);
        let journal = || text(&self.run("journalctl --no-pager --lines 40").stdout);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(output.status.success(), "{words}: {}\n{said}\n{}", output.status, journal());
        said
    }

    fn wait(&mut self, what: &str, mut done: impl FnMut(&mut Machine) -> bool) {
        let until = Instant::now() + PATIENCE;
        while !done(self) {
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            assert!(
                Instant::now() < until,
                "{what}:\n{}\n{}",
                log(),
                self.says("systemctl --no-pager status")
            );
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn main_process(&self, unit: &str) -> String {
        self.succeed(&format!("systemctl show --value --property=MainPID {unit}")).trim().to_owned()
    }

    /// That the service runs, and not as root.
    fn runs_without_root(&self, unit: &str) {
        assert_eq!(self.says(&format!("systemctl is-active {unit}")).trim(), "active", "{unit}");
        let status = self.succeed(&format!("cat /proc/{}/status", self.main_process(unit)));
        let line = |name: &str| status.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        assert!(!line("Uid:").contains("\t0\t"), "{unit}: {status}");
        assert_eq!(line("CapEff:"), "CapEff:\t0000000000000000", "{unit}");
        assert_eq!(line("NoNewPrivs:"), "NoNewPrivs:\t1", "{unit}");
    }
}

fn services_live_in(suite: &str, package: &Path) {
    let mut machine = Machine::boot(suite);
    fs::copy(package, machine.root().join("leeway.deb")).unwrap();
    machine.succeed("dpkg --install /leeway.deb");
    the_gateway(&mut machine);
    the_relay(&mut machine);
    the_helper(&machine);
    // Purged while they run: they end, and nothing of them is left.
    machine.succeed("dpkg --purge leeway");
    let left = machine.says("systemctl list-units --no-legend --plain 'leeway*'");
    assert!(left.trim().is_empty(), "{left}");
    assert_eq!(machine.says("grep --files-with-matches leeway /proc/[0-9]*/comm").trim(), "");
    assert!(!machine.root().join("var/lib/leeway").exists());
}

fn the_gateway(machine: &mut Machine) {
    let unit = "leeway-gateway";
    // Nothing shares a line before somebody has said so.
    assert_eq!(machine.says(&format!("systemctl is-active {unit}")).trim(), "inactive");
    let refused = machine.says(&format!("systemctl start {unit}; journalctl --no-pager --unit {unit}"));
    assert!(
        refused.contains("/etc/leeway/gateway.toml") && refused.contains("leeway gateway init"),
        "{refused}"
    );
    machine.succeed("leeway gateway init --yes");
    machine.succeed(&format!("systemctl reset-failed {unit}; systemctl enable --now {unit}"));
    machine
        .wait("the gateway shares", |machine| machine.says("leeway gateway status").contains("sharing: on"));
    machine.runs_without_root(unit);
    let ask = "curl --silent --max-time 20 --interface 10.20.0.1 http://10.20.0.1:3128/";
    assert!(machine.succeed(ask).contains("<html"), "a neighbour's page");
    assert!(
        machine.succeed("curl --silent --location --max-time 20 http://192.168.1.2:8080/").contains("<html"),
        "the owner's"
    );

    // A change of the configuration, with a secret that only root may read.
    let first = machine.main_process(unit);
    let config = fs::read_to_string(machine.root().join(CONFIG)).unwrap();
    fs::write(machine.root().join(CONFIG), format!("{config}\n[caps]\nuser = {{ daily = \"5 GB\" }}\n"))
        .unwrap();
    machine.succeed(&format!("chmod 640 /{CONFIG}; systemctl reload {unit}"));
    assert_eq!(machine.main_process(unit), first, "the same process");

    // A pause outlives a restart, and a crash.
    machine.succeed("leeway gateway pause 2h");
    machine.succeed(&format!("systemctl restart {unit}"));
    machine.wait("it is there again", |machine| {
        machine.says("leeway gateway status").contains("sharing: paused")
    });
    machine.succeed(&format!("systemctl kill --signal=KILL --kill-whom=main {unit}"));
    machine.wait("systemd starts it again", |machine| {
        machine.says("leeway gateway status").contains("sharing: paused")
    });
    assert!(machine.succeed(ask).contains("<html"), "the neighbour is told of it");
    machine.succeed("leeway gateway resume");
    machine.runs_without_root(unit);

    // A mistake stops the start, in words.
    fs::write(machine.root().join(CONFIG), config.replace("clients", "client")).unwrap();
    assert!(!machine.run(&format!("systemctl restart {unit}")).status.success());
    let said = machine.says(&format!("journalctl --no-pager --unit {unit} --lines 20"));
    assert!(said.contains("there is no key `client`") && said.contains("did you mean `clients`?"), "{said}");
    fs::write(machine.root().join(CONFIG), config).unwrap();
    machine.succeed(&format!("systemctl reset-failed {unit}; systemctl restart {unit}"));
    machine.wait("it shares again", |machine| machine.says("leeway gateway status").contains("sharing: on"));
}

fn the_relay(machine: &mut Machine) {
    let token = machine.succeed("leeway invite --name bob --address 192.168.1.2:4433");
    assert!(token.lines().any(|line| line.len() > 60), "{token}");
    machine.succeed("systemctl start leeway-relay");
    machine.wait("the relay listens", |machine| {
        machine.says("journalctl --no-pager --unit leeway-relay").contains("listening at")
    });
    machine.runs_without_root("leeway-relay");
    assert!(machine.succeed("ip -brief link").contains("lwrelay"));
    assert_eq!(machine.succeed("cat /proc/sys/net/ipv4/ip_forward").trim(), "1");
    assert!(machine.succeed("leeway relay pause 1h").contains("new connections go elsewhere until 20"));
    machine.succeed("leeway relay resume");
    machine.succeed("systemctl stop leeway-relay");
    assert!(!machine.succeed("ip -brief link").contains("lwrelay"), "nothing is left");
    assert!(!machine.says("nft list ruleset").contains("leeway_relay"));
    machine.succeed("systemctl start leeway-relay");
}

fn the_helper(machine: &Machine) {
    machine.succeed("systemctl enable --now leeway-helper.socket");
    let socket = machine.succeed("stat --format='%a %U %G' /run/leeway/helper.sock");
    assert_eq!(socket.trim(), "660 root leeway");
}

#[test]
fn services_live_under_the_systemd_of_debian_12_and_13() {
    let cgroups = cgroups().is_some();
    let needed = ["mmdebstrap", "dpkg-deb", "unshare", "nsenter"].map(|program| (has(program), program));
    if !ready(needed.into_iter().chain([(cgroups, "cgroups of version 2")])) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let package = package(folder.path(), "0.0.1");
    std::thread::scope(|scope| {
        for suite in ["bookworm", "trixie"] {
            let live = || services_live_in(suite, &package);
            std::thread::Builder::new().name(suite.to_owned()).spawn_scoped(scope, live).unwrap();
        }
    });
}
