//! `leeway gateway voucher`, `invite`, `users`: codes that neighbours give to a gateway that runs, with curl.

use crate::bed::{Gateway, leeway, object_server, wait};
use rustix::process::Signal;
use serde_json::Value;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

const OBJECT_BYTES: usize = 300_000;

struct Bed {
    folder: tempfile::TempDir,
    server: SocketAddr,
}

impl Bed {
    fn new() -> Bed {
        let (folder, server) = (tempfile::tempdir().unwrap(), object_server(OBJECT_BYTES));
        let at = folder.path().display();
        let text = format!(
            "listen = [\"127.0.0.1:0\"]\nsocks = [\"127.0.0.1:0\"]\nclients = [\"127.0.0.1/32\"]\n\
             allow = [\"127.0.0.2/32\"]\nports = [{}]\nlaw = \"none\"\nuplink = \"none\"\nvouchers = true\n\
             [control]\nsocket = \"{at}/control.sock\"\nstate = \"{at}/state\"\n\
             [accounts]\nurl = \"{at}/accounts.db\"\n\
             [limits]\nanswer_s = 5\n",
            server.port()
        );
        std::fs::write(folder.path().join("gateway.toml"), text).unwrap();
        Bed { folder, server }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn start(&self) -> (Gateway, [SocketAddr; 2]) {
        let config = self.path("gateway.toml");
        let (gateway, addresses) = Gateway::start(leeway().args(["gateway", "--config", &config]), 2);
        (gateway, addresses.try_into().unwrap())
    }

    fn ask(&self, arguments: &[&str]) -> Output {
        let socket = self.path("control.sock");
        let mut command = leeway();
        command.arg("gateway").args(arguments).args(["--socket", &socket]);
        command.current_dir(self.folder.path()).output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.ask(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// What curl gets through a proxy: the status, and the bytes or the words.
    fn fetch(&self, proxy: &str, who: &str) -> (String, String) {
        curl(&["--proxy", proxy, "--proxy-user", who, &format!("http://{}/", self.server)])
    }
}

fn curl(arguments: &[&str]) -> (String, String) {
    let mut command = Command::new("curl");
    command.args(["--silent", "--max-time", "60", "--write-out", "\n%{http_code}"]).args(arguments);
    let output = command.output().expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

/// The codes of a sheet.
fn codes(sheet: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(sheet).unwrap();
    let parts = text.split("<p class=\"code\">").skip(1);
    parts.map(|part| part.split('<').next().unwrap().to_owned()).collect()
}

#[test]
fn a_neighbour_with_a_voucher_is_served_until_it_is_used_and_nothing_shown_is_lost() {
    let bed = Bed::new();
    let (mut gateway, _) = bed.start();
    let made = bed.ask(&["voucher", "--days", "7", "--gb", "0.001", "--count", "12"]);
    // Whatever happens to the gateway when the operator has seen them.
    gateway.signal(Signal::KILL);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(String::from_utf8_lossy(&made.stdout).starts_with("12 vouchers of 7 days and 1.0 MB\n"));
    let sheet = bed.folder.path().join("vouchers.html");
    assert_eq!(sheet.metadata().unwrap().mode() & 0o7777, 0o600);
    let codes = codes(&sheet);
    assert_eq!(codes.len(), 12);
    let again = bed.ask(&["voucher", "--days", "1"]);
    assert_eq!(again.status.code(), Some(2), "a sheet is not written over");
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists already"));

    let (mut gateway, [http, socks]) = bed.start();
    let (proxy, socks) = (format!("http://{http}"), format!("socks5h://{socks}"));
    let (status, words) = bed.fetch(&proxy, "ann:secret");
    assert!(status == "407" && words.contains("the code of a voucher as the name"), "{status} {words}");
    // The page of a voucher begins nothing.
    let page = format!("{proxy}/c/{}", codes[0].replace('-', ""));
    let (status, words) = curl(&["--noproxy", "*", &page]);
    assert!(status == "200" && words.contains("Not used yet"), "{status} {words}");
    let before = bed.json(&["voucher", "--list"]);
    assert!(before.as_array().unwrap().iter().all(|voucher| voucher["standing"] == "new"));
    for (proxy, who) in [
        (&proxy, format!("{}:x", codes[0])),
        (&proxy, format!("{}:x", codes[0].to_lowercase().replace('-', ""))),
        (&socks, format!("{}:x", codes[0])),
        (&socks, format!("neighbour:{}", codes[1])),
    ] {
        let (status, body) = bed.fetch(proxy, &who);
        assert_eq!((status.as_str(), body.len()), ("200", OBJECT_BYTES), "{proxy} {who}");
    }
    let (status, words) = curl(&["--noproxy", "*", "--header", "Accept-Language: ca", &page]);
    assert!(status == "200" && words.contains("El que et queda"), "{status} {words}");
    assert!(words.contains("Val: 0,1 MB queden de 1,0 MB"), "{words}");
    // Its days have begun, once, and its data ends.
    let one = |all: &Value| {
        let holder = format!("voucher-{}", &codes[0][..4]);
        all.as_array().unwrap().iter().find(|voucher| voucher["holder"] == holder.as_str()).cloned().unwrap()
    };
    let begun = one(&bed.json(&["voucher", "--list"]));
    assert_eq!(begun["standing"], "redeemed");
    let cut = bed.fetch(&proxy, &format!("{}:x", codes[0])).1.len();
    assert!(cut < OBJECT_BYTES, "{cut}");
    let used = || one(&bed.json(&["voucher", "--list"]))["used_bytes"].as_u64().unwrap();
    wait("what was used is stored", || used() >= 1_000_000);
    gateway.signal(Signal::KILL);

    let (_gateway, [http, _]) = bed.start();
    let proxy = format!("http://{http}");
    let (status, words) = bed.fetch(&proxy, &format!("{}:x", codes[0]));
    assert!(status == "503" && words.contains("the data of your voucher"), "{status} {words}");
    assert_eq!(one(&bed.json(&["voucher", "--list"]))["redeemed"], begun["redeemed"]);
    assert_eq!(one(&bed.json(&["voucher", "--list"]))["used_bytes"], 1_000_000, "to the byte");
    assert_eq!(bed.fetch(&proxy, &format!("{}:x", codes[1])).0, "200", "others have theirs");
    let users = String::from_utf8(bed.ask(&["users"]).stdout).unwrap();
    let line = users.lines().find(|line| line.contains(&codes[0][..4])).unwrap_or_else(|| panic!("{users}"));
    assert!(line.contains("paused") && line.contains("1.000 MB") && line.contains(" 0.000 MB"), "{users}");
}

#[test]
fn somebody_is_invited_by_name() {
    let bed = Bed::new();
    let (_gateway, [http, _]) = bed.start();
    let said = String::from_utf8(bed.ask(&["invite", "ann"]).stdout).unwrap();
    assert!(said.starts_with("ann is invited: until it is revoked\n"), "{said}");
    let code = said.split_once("user name: ").unwrap().1.split(' ').next().unwrap().to_owned();
    assert!(said.contains(&format!("page: http://{http}/c/{}\n", code.replace('-', ""))), "{said}");
    let ann = || {
        let users = bed.json(&["users"]);
        users.as_array().unwrap().iter().find(|user| user["name"] == "ann").cloned().unwrap()
    };
    assert_eq!(ann()["standing"], "invited");
    let proxy = format!("http://{http}");
    // Access can be taken before the first use of a code.
    assert!(bed.ask(&["revoke", "ann"]).status.success());
    assert_eq!(ann()["standing"], "revoked");
    assert_eq!(bed.fetch(&proxy, &format!("{code}:x")).0, "403");
    assert!(bed.ask(&["revoke", "ann", "--undo"]).status.success());
    assert_eq!(bed.fetch(&proxy, &format!("{code}:x")).0, "200");
    let seen = ann();
    assert!(seen["standing"] == "free" && seen["last_seen"].is_string(), "{seen}");
    // Her page, as the browser that uses the proxy asks for it.
    let (status, page) =
        curl(&["--proxy", &proxy, "--proxy-user", &format!("{code}:x"), &format!("{proxy}/")]);
    assert!(status == "200" && page.contains("<p class=\"small\">ann</p>"), "{status} {page}");
    assert_eq!(curl(&["--noproxy", "*", &format!("{proxy}/")]).0, "401", "nobody else's");
    for (name, words) in
        [("ann", "invited already"), ("10.0.0.1", "cannot be invited"), ("a b", "cannot be invited")]
    {
        let refused = bed.ask(&["invite", name]);
        assert_eq!(refused.status.code(), Some(2), "{name}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains(words), "{name}");
    }
    assert!(String::from_utf8_lossy(&bed.ask(&["voucher"]).stderr).contains("--days"));
    let nothing = bed.ask(&["voucher", "--days", "0", "--sheet", &bed.path("none.html")]);
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("a voucher needs days"));
    assert!(!bed.folder.path().join("none.html").exists());
}

#[test]
fn a_gateway_that_takes_no_codes_says_so() {
    let bed = Bed::new();
    let config = bed.path("gateway.toml");
    let text = std::fs::read_to_string(&config).unwrap().replace("vouchers = true\n", "");
    std::fs::write(&config, text).unwrap();
    let (_gateway, [http, _]) = bed.start();
    for arguments in [&["voucher", "--days", "1", "--sheet", &bed.path("x.html")][..], &["invite", "ann"]] {
        let refused = bed.ask(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains("add `vouchers = true` above"));
    }
    // Who needs no name sees the page of his address.
    let (status, page) = curl(&["--noproxy", "*", &format!("http://{http}/?lang=es")]);
    assert!(status == "200" && page.contains("<p class=\"small\">127.0.0.1</p>"), "{status} {page}");
    assert!(page.contains("Nada limita cuánto puedes usar."), "{page}");
}
