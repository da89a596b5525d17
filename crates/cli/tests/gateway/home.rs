//! On the home's router the gateway counts the home's bytes, on which the bill and its caps depend.

use crate::bed::*;
use crate::overload::{OBJECTS, spawn};
use leeway_accounts::Store;
use leeway_accounts::time::Slot;
use leeway_gateway::control::Status;
use rustix::process::Signal;
use std::process::Stdio;

const MEGABYTE: u64 = 1_000_000;

/// Downloads from a server, perhaps by a proxy, and prints the number of bytes.
fn download(host: &str, megabytes: u64, proxy: &str) -> String {
    format!(
        "import urllib.request as u\nproxy = u.ProxyHandler({{{proxy}}})\n\
         print(len(u.build_opener(proxy).open('http://{host}/{}', timeout=60).read()))",
        megabytes * MEGABYTE
    )
}

#[test]
fn the_homes_bytes_are_counted_without_those_of_neighbours_and_of_this_machine() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    let _servers = [INTERNET, GATEWAYS].map(|at| spawn(&bed, at, OBJECTS, Stdio::null()));
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("gateway.toml"), folder.path().join("control.sock"));
    let accounts = folder.path().join("accounts.db").display().to_string();
    let text = format!(
        "clients = [\"10.20.0.0/24\"]\nallow = [\"198.18.40.0/24\"]\nports = [80]\nupload = []\nlaw = \"none\"\n\
         uplink = \"none\"\ndns = [\"198.18.40.2\"]\nlisten = [\"10.20.0.1:3128\"]\nhome = [\"192.168.7.0/24\"]\n\
         [control]\nsocket = {socket:?}\nstate = {:?}\n[accounts]\nurl = {accounts:?}\ngateway = \"g\"\n\
         [caps]\nmonth = {{ volume = \"100 MB\", keep_for_home = \"10 MB\" }}\n",
        folder.path().join("state")
    );
    std::fs::write(&file, text).unwrap();
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 1);
    let status = || -> Status {
        let output =
            leeway().args(["gateway", "status", "--json", "--socket"]).arg(&socket).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    wait("the servers answer", || bed.ask_at(HOME, &download(SERVERS[0], 0, ""), &[]) == "0");
    wait("the other server answers", || bed.ask_at(HOME, &download("192.168.7.1", 0, ""), &[]) == "0");
    let limit = || status().volumes[0].limit_bytes;
    assert_eq!(limit(), 90 * MEGABYTE, "what is kept for the home is not used yet");
    assert_eq!(bed.ask(&download(SERVERS[0], 8, "'http': 'http://10.20.0.1:3128'"), &[]), "8000000");
    assert_eq!(bed.ask_at(HOME, &download("192.168.7.1", 8, ""), &[]), "8000000");
    assert_eq!(bed.ask_at(HOME, &download(SERVERS[0], 20, ""), &[]), "20000000");
    wait("the home's bytes are counted", || limit() < 80 * MEGABYTE);
    assert!(gateway.signal(Signal::TERM).success());

    let mut store = Store::reading(&accounts).unwrap();
    let (first, last) = store.range().unwrap().unwrap();
    let home = store.usage_of_home("g", first, last.next()).unwrap();
    let down: u64 =
        home.iter().filter(|usage| usage.direction.name() == "down").map(|usage| usage.bytes).sum();
    // Packets have headers, 66 of 1514 bytes.
    assert!((20 * MEGABYTE..22 * MEGABYTE).contains(&down), "{down} of 20 MB: {home:?}");
    let neighbours = store.usage_of_neighbours("g", first, Slot::next(last)).unwrap();
    assert!(neighbours.iter().all(|usage| usage.user == "10.20.0.2"), "{neighbours:?}");
}
