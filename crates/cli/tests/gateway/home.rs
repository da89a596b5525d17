//! On the home's router the gateway counts the home's bytes, on which the bill and its caps depend.

use crate::bed::*;
use crate::live;
use crate::overload::{OBJECTS, spawn};
use leeway_accounts::Store;
use leeway_accounts::time::Slot;
use leeway_gateway::control::Status;
use leeway_gateway::home_speed::Compared;
use rustix::process::Signal;
use std::process::Stdio;
use std::time::Duration;

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

/// Downloads, and prints the speed in bit/s.
const TIMED: &str = "
import sys, time, urllib.request
began = time.monotonic()
got = len(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=60).read())
print(8 * got / (time.monotonic() - began))
";

fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Without a law the home loses much of its speed to a neighbour. The gateway says as much as the
/// home has measured.
#[test]
fn the_homes_speed_with_and_without_neighbours_is_what_the_home_gets() {
    if !possible() {
        return;
    }
    let bed = Testbed::new();
    sh(&format!(
        "tc -n {} qdisc add dev inet root tbf rate 20mbit burst 20kb limit 100000",
        bed.names[INTERNET]
    ));
    let _server = spawn(&bed, INTERNET, OBJECTS, Stdio::null());
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("gateway.toml"), folder.path().join("control.sock"));
    let text = format!(
        "clients = [\"10.20.0.0/24\"]\nallow = [\"198.18.40.0/24\"]\nports = [80]\nupload = []\nlaw = \"none\"\n\
         uplink = \"none\"\ndns = [\"198.18.40.2\"]\nlisten = [\"10.20.0.1:3128\"]\nhome = [\"192.168.7.0/24\"]\n\
         metrics = \"127.0.0.1:9300\"\n[control]\nsocket = {socket:?}\nstate = {:?}\n",
        folder.path().join("state")
    );
    std::fs::write(&file, text).unwrap();
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
    let asked = |json: &[&str]| {
        let output =
            leeway().args(["gateway", "status", "--socket"]).arg(&socket).args(json).output().unwrap();
        live::text(&output.stdout)
    };
    let speed = || serde_json::from_str::<Status>(&asked(&["--json"])).unwrap().home_speed;
    assert!(asked(&[]).contains("no packet of the home has passed this machine yet"), "{}", asked(&[]));
    wait("the server answers", || bed.ask_at(HOME, &download(SERVERS[0], 0, ""), &[]) == "0");

    let url = format!("http://{}/2000000", SERVERS[0]);
    let timed = || bed.ask_at(HOME, TIMED, &[&url]).parse::<f64>().unwrap();
    let endless = format!(
        "while True:\n {}",
        download(SERVERS[0], 4, "'http': 'http://10.20.0.1:3128'").replace('\n', "\n ")
    );
    let mut measured = [const { Vec::new() }; 2];
    let [alone, beside] = &mut measured;
    while speed().down.ratio.is_none() {
        assert!(alone.len() < 20, "{:?}", speed());
        std::thread::sleep(Duration::from_millis(1500));
        alone.push(timed());
        let neighbour = spawn(&bed, USERS, &endless, Stdio::null());
        std::thread::sleep(Duration::from_millis(1500));
        beside.push(timed());
        drop(neighbour);
    }
    let Compared { pairs, with_bps: Some(with), without_bps: Some(without), ratio: Some(ratio), .. } =
        speed().down
    else {
        panic!("{:?}", speed())
    };
    let [alone, beside] = measured.map(|speeds| median(&speeds));
    println!("home: {alone:.0} alone, {beside:.0} beside; gateway: {without:.0}, {with:.0}, {ratio:.3}");
    assert!(beside / alone < 0.8, "the neighbours take something: {beside} of {alone}");
    // The gateway counts headers, 66 of 1514 bytes, and leaves out the handshake.
    for (said, got) in [(without, alone), (with, beside), (ratio, beside / alone)] {
        assert!((0.9..1.2).contains(&(said / got)), "{said} for {got}, {pairs} pairs");
    }
    let words = asked(&[]);
    assert!(
        words.contains("home's speed down: ") && words.contains(" while neighbours use the line, "),
        "{words}"
    );
    assert!(words.contains("home's speed up: not known yet (0 of 10 comparisons)"), "{words}");
    let metrics = bed.ask_at(
        GATEWAYS,
        "import urllib.request as u\nprint(u.urlopen('http://127.0.0.1:9300/metrics').read().decode())",
        &[],
    );
    let line = format!("leeway_gateway_home_speed_ratio{{direction=\"down\"}} {ratio}");
    assert!(metrics.contains(&line), "{line}: {metrics}");
    assert!(gateway.signal(Signal::TERM).success());
}
