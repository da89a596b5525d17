//! `leeway gateway init` and `check`: what is written can be used, and what is wrong is told.

use crate::bed::{Gateway, dialogue, leeway, possible, sh};
use crate::live::{self, has, text};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A box beside the home's router, and a neighbour behind its second interface, in namespaces.
/// The router is the home.
struct Site {
    names: [String; 3],
    folder: tempfile::TempDir,
}

const BOX: usize = 0;
const HOME: usize = 1;
const NEIGHBOUR: usize = 2;

impl Site {
    fn new() -> Site {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{:x}x{:x}", std::process::id() & 0xf_ffff, NEXT.fetch_add(1, Ordering::Relaxed));
        let names = ["b", "h", "n"].map(|what| format!("lwi{what}{id}"));
        let site = Site { names, folder: tempfile::tempdir().unwrap() };
        let [b, h, n] = &site.names;
        sh(&format!(
            "for n in {b} {h} {n}; do ip netns add $n; ip -n $n link set lo up; done
             ip -n {h} link add lan type veth peer name eth0 netns {b}
             ip -n {n} link add eth type veth peer name mesh0 netns {b}
             ip -n {h} addr add 192.168.7.1/24 dev lan; ip -n {b} addr add 192.168.7.2/24 dev eth0
             ip -n {h} addr add 2001:db8:7::1/64 dev lan nodad; ip -n {b} addr add 2001:db8:7::2/64 dev eth0 nodad
             ip -n {b} addr add 10.20.0.1/16 dev mesh0; ip -n {n} addr add 10.20.0.2/16 dev eth
             ip -n {h} link set lan up; ip -n {b} link set eth0 up
             ip -n {n} link set eth up; ip -n {b} link set mesh0 up
             ip -n {b} route add default via 192.168.7.1; ip -n {n} route add default via 10.20.0.1"
        ));
        site
    }

    fn at(&self, place: usize, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[place], program]);
        command
    }

    fn gateway(&self, arguments: &[&str]) -> Command {
        let mut command = self.at(BOX, live::leeway());
        command.arg("gateway").args(arguments);
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a script there prints.
    fn python(&self, place: usize, script: &str) -> String {
        let output = self.at(place, "python3").args(["-c", script]).output().unwrap();
        text(&output.stdout).trim().to_owned() + &text(&output.stderr)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn said(output: &Output) -> String {
    text(&output.stdout) + &text(&output.stderr)
}

/// The status of a GET, or the name of the error.
const GET: &str = "import urllib.request as u, urllib.error as e
def get(url, proxy=None):
    opener = u.build_opener(u.ProxyHandler({'http': proxy} if proxy else {}))
    try:
        return opener.open(url, timeout=20).status
    except e.HTTPError as error:
        return error.code
    except OSError as error:
        return type(error).__name__
";

#[test]
fn what_init_writes_passes_check_and_the_gateway_starts_with_it() {
    if !possible() {
        return;
    }
    let site = Site::new();
    let (config, state) = (site.path("gateway.toml"), site.path("state"));
    let (config, state) = (config.to_str().unwrap(), state.to_str().unwrap());
    let init = ["init", "--yes", "--config", config, "--state", state, "--users", "ann"];
    let output = site.gateway(&init).output().unwrap();
    let written = said(&output);
    assert_eq!(output.status.code(), Some(0), "{written}");
    assert!(written.contains("the configuration is right"), "{written}");
    assert!(
        written.contains("do not pass this machine") && written.contains("http://192.168.7.2:8080"),
        "{written}"
    );
    assert!(written.contains("10.20.0.1 port 3128 as HTTP proxy"), "{written}");
    let password = |name: &str| {
        let line = written.lines().find(|line| line.contains(&format!(": {name}, whose password is ")));
        line.and_then(|line| line.rsplit(' ').next()).expect(&written).to_owned()
    };
    let toml = std::fs::read_to_string(config).unwrap();
    for line in [
        "listen = [\"10.20.0.1:3128\"]",
        "clients = [\"10.20.0.0/16\"]",
        "home = [\"192.168.7.0/24\", \"2001:db8:7::/64\"]",
        "listen = \"192.168.7.2:8080\"",
    ] {
        assert!(toml.lines().any(|found| found == line), "{line}\n{toml}");
    }
    let mode = |name: &str| site.path(name).metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!([mode("gateway.toml"), mode("owners"), mode("users")], [0o644, 0o600, 0o600]);

    // It is not written over by mistake.
    let again = site.gateway(&init).output().unwrap();
    assert!(again.status.code() == Some(2) && said(&again).contains("exists already"), "{}", said(&again));

    // Metrics at every address: clients get none.
    std::fs::write(config, format!("metrics = \"0.0.0.0:9300\"\n{toml}")).unwrap();
    let check = |more: &[&str]| {
        let output = site.gateway(&["check", "--config", config]).args(more).output().unwrap();
        (output.status.code(), said(&output))
    };
    let (code, found) = check(&[]);
    assert!(
        code == Some(0) && found.contains(":1: warning: metrics: 0.0.0.0:9300 is every address"),
        "{found}"
    );
    assert_eq!(check(&["--strict"]).0, Some(1));
    let (_gateway, addresses) = Gateway::start(&mut site.gateway(&["--config", config]), 2);
    assert_eq!(addresses[0].to_string(), "10.20.0.1:3128");
    // The gateway has the addresses itself.
    let (code, found) = check(&[]);
    assert!(code == Some(0) && !found.contains("taken"), "{found}");
    // Another one with the same addresses would not start.
    let other = toml.replace("control.sock", "other.sock");
    std::fs::write(site.path("other.toml"), other).unwrap();
    let output =
        site.gateway(&["check", "--config", site.path("other.toml").to_str().unwrap()]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("error: listen[0]: 10.20.0.1:3128 is taken by another program"),
        "{}",
        said(&output)
    );

    let seen = site.python(
        NEIGHBOUR,
        &format!(
            "{GET}print(get('http://10.0.0.1/', 'http://10.20.0.1:3128'), \
             get('http://10.0.0.1/', 'http://ann:{}@10.20.0.1:3128'), \
             get('http://10.20.0.1:9300/metrics'), get('http://192.168.7.2:8080/login'))",
            password("ann")
        ),
    );
    let closed = "RemoteDisconnected ConnectionResetError".split(' ').collect::<Vec<_>>();
    let seen: Vec<&str> = seen.split(' ').collect();
    assert_eq!(seen[..2], ["407", "403"], "let in, but not to there: {seen:?}");
    assert!(seen[2..].iter().all(|what| closed.contains(what)), "{seen:?}");
    let login = format!(
        "{GET}import http.client, urllib.parse
page = http.client.HTTPConnection('192.168.7.2', 8080, timeout=20)
form = urllib.parse.urlencode({{'name': 'owner', 'password': '{}'}})
page.request('POST', '/login', form, {{'Content-Type': 'application/x-www-form-urlencoded'}})
print(page.getresponse().status, get('http://192.168.7.2:9300/metrics'))",
        password("owner")
    );
    assert_eq!(site.python(HOME, &login), "303 200");
}

/// Runs `init` on a terminal, and answers its questions.
fn on_terminal(site: &Site, arguments: &str, talk: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut command = site.at(BOX, "script");
    let program = format!("{} gateway init {arguments}", live::leeway());
    dialogue(command.args(["--quiet", "--return", "--command", &program, "/dev/null"]), talk)
}

#[test]
fn init_asks_on_a_terminal_and_takes_what_it_is_told() {
    if !live::ready([(has("script"), "script (apt-get install bsdutils)"), (possible(), "namespaces")]) {
        return;
    }
    let site = Site::new();
    let config = site.path("new/gateway.toml");
    let arguments = format!("--config {} --state {}", config.display(), site.path("state").display());
    let neighbours = "Networks of the neighbours [10.20.0.0/16]: ";
    let (owner, again) = ("Password of owner: ", "Again, the password of owner: ");
    let (code, said) = on_terminal(
        &site,
        &arguments,
        &[
            ("Networks of the home [192.168.7.0/24, 2001:db8:7::/64]: ", "\n"),
            (neighbours, "10.20.0.0/40\n"),
            (neighbours, "192.168.7.128/25\n"),
            (neighbours, "10.20.0.0/24, 10.20.1.0/24\n"),
            (owner, "short\n"),
            (again, "short\n"),
            (owner, "a long phrase\n"),
            (again, "a lomg phrase\n"),
            (owner, "a long phrase\n"),
            (again, "a long phrase\n"),
        ],
    );
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("eth0 is in 192.168.7.0/24, 2001:db8:7::/64, the way to the Internet"), "{said}");
    for words in [
        "`10.20.0.0/40` is not a network",
        "192.168.7.128/25 overlaps 192.168.7.0/24",
        "at least 8 characters; try again",
        "the two passwords differ; try again",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("phrase"), "{said}");
    let toml = std::fs::read_to_string(&config).unwrap();
    assert!(toml.contains("clients = [\"10.20.0.0/24\", \"10.20.1.0/24\"]"), "{toml}");
    assert!(std::fs::read_to_string(site.path("new/owners")).unwrap().starts_with("owner:$argon2id$"));
}

#[test]
fn init_asks_for_an_address_where_neighbours_are_further_away() {
    if !live::ready([(has("script"), "script (apt-get install bsdutils)"), (possible(), "namespaces")]) {
        return;
    }
    let site = Site::new();
    let config = site.path("gateway.toml");
    let arguments = format!("--config {} --state {}", config.display(), site.path("state").display());
    let address = "Address where neighbours find the proxy, such as 10.20.0.1: ";
    let talk = [
        ("]: ", "\n"),
        ("]: ", "10.30.0.0/16\n"),
        (address, "10.30.0.1\n"),
        (address, "10.20.0.1\n"),
        ("Password of owner: ", "a long phrase\n"),
        ("Again, the password of owner: ", "a long phrase\n"),
    ];
    let (code, said) = on_terminal(&site, &arguments, &talk);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("10.30.0.1 is no address of this machine"), "{said}");
    let toml = std::fs::read_to_string(&config).unwrap();
    assert!(toml.contains("listen = [\"10.20.0.1:3128\"]"), "{toml}");
}

#[test]
fn init_that_is_ended_half_way_leaves_nothing_and_a_terminal_that_shows_what_is_typed() {
    if !possible() {
        return;
    }
    let site = Site::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/init.py");
    let mut command = site.at(BOX, "python3");
    let config = site.path("new/gateway.toml");
    let output = command.arg(script).args([live::leeway(), config.to_str().unwrap()]).output().unwrap();
    let said = said(&output);
    assert!(output.status.success() && said.lines().count() == 6, "{said}");
    for line in said.lines() {
        // Ctrl-C ends it by the signal, as shells expect; Ctrl-D is an answer that is missing.
        assert!(line.ends_with("| -2 shown nothing left | 2 shown nothing left"), "{said}");
    }
}

#[test]
fn who_may_not_write_the_file_is_told_so_before_any_question() {
    if !live::ready([(has("script"), "script (apt-get install bsdutils)"), (has("setpriv"), "setpriv")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let open = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    open(folder.path(), 0o755);
    let program = folder.path().join("leeway");
    sh(&format!("ln {0} {1} 2>/dev/null || cp {0} {1}", live::leeway(), program.display()));
    let config = folder.path().join("new/gateway.toml");
    let run = format!(
        "setpriv --reuid=65534 --regid=65534 --clear-groups {} gateway init --config {}",
        program.display(),
        config.display()
    );
    let mut command = Command::new("script");
    let (code, said) = dialogue(command.args(["--quiet", "--return", "--command", &run, "/dev/null"]), &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("ermission denied") && said.contains("sudo") && !said.contains("Networks"),
        "{said}"
    );
}

#[test]
fn init_says_what_it_has_to_be_told() {
    if !possible() {
        return;
    }
    let site = Site::new();
    sh(&format!("ip -n {} link set mesh0 down", site.names[BOX]));
    let config = site.path("gateway.toml");
    let run = |more: &[&str]| {
        let mut command = site.gateway(&["init", "--config", config.to_str().unwrap()]);
        let output = command.args(more).stdin(Stdio::null()).output().unwrap();
        assert!(!config.exists(), "{}", said(&output));
        (output.status.code(), said(&output))
    };
    let (code, words) = run(&["--yes"]);
    assert!(
        code == Some(2) && words.contains("give --clients NETWORK") && words.contains("eth0 is in"),
        "{words}"
    );
    let (code, words) = run(&[]);
    assert!(code == Some(2) && words.contains("not a terminal") && words.contains("--yes"), "{words}");
    let (code, words) = run(&["--yes", "--clients", "10.30.0.0/16"]);
    assert!(code == Some(2) && words.contains("no address in 10.30.0.0/16: give --listen"), "{words}");
    let (code, words) = run(&["--yes", "--clients", "10.20.0.0/16", "--owner", "a:b"]);
    assert!(code == Some(2) && words.contains("no colon"), "{words}");
}

#[test]
fn a_configuration_that_is_not_there_can_be_made() {
    for command in [&["check"][..], &["up"], &[]] {
        let output = leeway()
            .arg("gateway")
            .args(command)
            .args(["--config", "/nowhere/gateway.toml"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{command:?}");
        let said = said(&output);
        assert!(
            said.contains("/nowhere/gateway.toml") && said.contains("leeway gateway init"),
            "{command:?}: {said}"
        );
    }
}

/// What `check` says of that file.
fn check(config: &Path, more: &[&str]) -> Output {
    leeway().args(["gateway", "check", "--config"]).arg(config).args(more).output().unwrap()
}

#[test]
fn check_prints_every_finding_for_people_and_for_programs() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("gateway.toml");
    let text = "listen = [\"127.0.0.1:0\", \"192.0.2.1:3128\"]\n\
                clients = [\"127.0.0.1/32\", \"10.20.0.1/16\"]\n\
                home = [\"10.20.0.0/24\"]\n\
                law = \"cubic\"\n\
                conections = 3\n";
    std::fs::write(&config, text).unwrap();
    let output = check(&config, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let name = config.display();
    for (line, what) in [
        (1, "error: listen[1]: 192.0.2.1 is no address of this machine"),
        (2, "warning: clients[1]: 10.20.0.1/16 is an address within a network"),
        (3, "error: home[0]: 10.20.0.0/24 overlaps 10.20.0.1/16"),
        (4, "warning: law: cubic does not yield"),
        (
            5,
            "error: conections: there is no key `conections`\n    right: did you mean `connections` in [limits]?",
        ),
    ] {
        let expected = format!("{name}:{line}: {what}");
        assert!(said(&output).contains(&expected), "{expected}\n{}", said(&output));
    }
    let output = check(&config, &["--json", "--file-only"]);
    let findings: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    let errors = findings.iter().filter(|finding| finding["severity"] == "error").count();
    assert_eq!(
        (output.status.code(), errors),
        (Some(2), 2),
        "not the address of this machine: {findings:#?}"
    );
    assert!(findings.iter().any(|finding| finding["line"] == 4 && finding["key"] == "law"), "{findings:#?}");
    let gone = check(&folder.path().join("none"), &[]);
    assert!(gone.status.code() == Some(2) && said(&gone).contains("cannot read"), "{}", said(&gone));
}

/// systemd gives a service of another user a copy of what only root may read.
#[test]
fn a_service_that_may_not_read_the_file_reads_what_systemd_has_given_it() {
    if !live::ready([(has("setpriv"), "setpriv")]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (config, credentials) = (folder.path().join("gateway.toml"), folder.path().join("credentials"));
    std::fs::create_dir(&credentials).unwrap();
    // The program as well: its own folder may be closed to others. Not written by this process: a child of another
    // test could keep the file open for writing, and nobody could run it meanwhile (ETXTBSY).
    let program = folder.path().join("leeway");
    sh(&format!("ln {0} {1} 2>/dev/null || cp {0} {1}", live::leeway(), program.display()));
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\nhome = [\"127.1.0.0/16\"]\n\
         [control]\nsocket = {:?}\n",
        folder.path().join("none.sock")
    );
    for path in [&config, &credentials.join("gateway.toml")] {
        std::fs::write(path, &text).unwrap();
    }
    let open = |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    open(folder.path(), 0o755);
    open(&config, 0o640);
    let service = |given: bool| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.args(["gateway", "check", "--config"]).arg(&config);
        if given {
            command.env("CREDENTIALS_DIRECTORY", &credentials);
        }
        command.output().unwrap()
    };
    let output = service(false);
    assert!(
        output.status.code() == Some(2) && said(&output).contains("ermission denied"),
        "{}",
        said(&output)
    );
    let output = service(true);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
}
