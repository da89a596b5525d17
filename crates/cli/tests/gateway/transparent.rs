//! Clients without configuration, and the relay.

use crate::bed::*;
use crate::scripts::{DATAGRAMS, FETCH, WAIT};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

/// Of a gateway for clients without configuration at the interface of the mesh.
fn transparent(folder: &Path, more: &str) -> PathBuf {
    let file = folder.join("gateway.toml");
    let text = format!(
        "clients = [\"10.20.0.0/24\", \"fd20::/64\"]\nallow = [\"198.18.40.0/24\", \"2001:db8:40::/64\"]\n\
         ports = [80, 82, 8080]\nudp_ports = [443]\nupload = []\ndns = [\"198.18.40.2\"]\n{more}\n\
         [transparent]\ninterface = \"mesh\"\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[test]
fn clients_without_configuration_are_served_and_never_slip_past() {
    if !possible() {
        return;
    }
    let bed = Testbed::serving();
    let before = bed.rules();
    let folder = tempfile::tempdir().unwrap();
    let mut command = bed.gateway(&transparent(folder.path(), ""));
    let (mut gateway, _) = Gateway::start(&mut command, 2);
    for v in 0..2 {
        assert_eq!(bed.fetch(SERVERS[v], 80), GATEWAY[v], "the proxy fetches");
        assert_eq!(bed.fetch(SERVERS[v], 81), "", "a closed port is refused");
        // Port 80 has words for it.
        let private = bed.fetch(PRIVATE[v], 80);
        assert!(private.starts_with("HTTP/1.1 403 Forbidden"), "and what is not public: {private}");
        let own = bed.fetch(MESH[v], 80);
        assert!(own.is_empty() || own.starts_with("HTTP/1.1 403"), "and the gateway itself: {own}");
    }

    gateway.signal(rustix::process::Signal::KILL);
    wait("the table that diverts goes with its owner", || !bed.rules().contains("tproxy"));
    for server in SERVERS.into_iter().chain(MESH) {
        assert_eq!(bed.fetch(server, 80), "", "after a crash the user is refused");
        assert!(bed.silent(server, 443), "also his datagrams");
    }
    let (mut gateway, _) = Gateway::start(&mut command, 2);
    assert_eq!(bed.fetch(SERVERS[0], 80), GATEWAY[0], "a restart serves again");
    assert_eq!(bed.echo(SERVERS[1], 443, 1), GATEWAY[1]);
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert_eq!(bed.rules(), before, "nothing stays behind");
}

/// The gateway answers a connection in the name of a server for its clients only. Routes lead back to
/// the others here, so that an answer would arrive. A deprecated address is no default source.
#[test]
fn nobody_but_a_client_is_answered_in_the_name_of_a_server() {
    if !possible() {
        return;
    }
    let bed = Testbed::serving();
    let [users, gateways, ..] = &bed.names;
    let other = ["10.99.0.9", "fd99::9"];
    sh(&format!(
        "ip -n {users} addr add 10.99.0.9/32 dev lan; ip -n {users} addr add fd99::9/128 dev lan nodad preferred_lft 0
         ip -n {gateways} route add 10.99.0.9/32 via 10.20.0.2; ip -n {gateways} route add fd99::9/128 via fd20::2"
    ));
    let folder = tempfile::tempdir().unwrap();
    let file = transparent(folder.path(), "");
    let socket = folder.path().join("control.sock");
    let control = format!("[control]\nsocket = {socket:?}\nstate = {:?}\n", folder.path());
    let text = std::fs::read_to_string(&file).unwrap() + &control;
    std::fs::write(&file, &text).unwrap();
    let (_gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
    let script = "
import socket, sys
family = socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET
s = socket.socket(family)
s.settimeout(3)
s.bind((sys.argv[1], 0))
try:
    s.connect((sys.argv[2], 80))
    print('connected')
except OSError:
    print('nothing')
";
    let connects = |from: usize| bed.ask(script, &[other[from], SERVERS[from]]);
    for v in 0..2 {
        assert_eq!(bed.fetch(SERVERS[v], 80), GATEWAY[v], "a client is served");
        assert_eq!(connects(v), "nothing", "{} is no client", other[v]);
        assert_eq!(bed.fetch(SERVERS[v], 80), GATEWAY[v], "the client of the same machine still is");
    }
    // Many networks, two of which overlap.
    let many: String = (0..1000).map(|n| format!("\"10.{}.{}.0/25\", ", 100 + n / 256, n % 256)).collect();
    let more = format!("clients = [{many}\"10.99.0.0/16\", \"10.99.0.9/32\", \"fd99::/64\", ");
    std::fs::write(&file, text.replace("clients = [", &more)).unwrap();
    let reload =
        leeway().args(["gateway", "reload", "--socket"]).arg(&socket).arg("--config").arg(&file).output();
    let reload = reload.unwrap();
    assert!(reload.status.success(), "{}", String::from_utf8_lossy(&reload.stderr));
    for v in 0..2 {
        assert_eq!(connects(v), "connected", "{} is a client since the reload", other[v]);
        assert_eq!(bed.fetch(SERVERS[v], 80), GATEWAY[v]);
    }
}

#[test]
fn where_ipv6_is_off_it_is_refused_and_ipv4_is_served() {
    if !possible() {
        return;
    }
    let bed = Testbed::serving();
    sh(&format!("ip netns exec {} sysctl -qw net.ipv6.conf.lo.disable_ipv6=1", bed.names[GATEWAYS]));
    let before = bed.rules();
    let folder = tempfile::tempdir().unwrap();
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&transparent(folder.path(), "")), 1);
    assert_eq!(bed.fetch(SERVERS[0], 80), GATEWAY[0]);
    assert_eq!(bed.fetch(SERVERS[1], 80), "", "nothing goes past the proxy");
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert_eq!(bed.rules(), before, "nothing stays behind");
}

/// A gateway whose users have three ways out at a time; none where it cannot be tested.
fn three_at_once() -> Option<(Testbed, Gateway)> {
    possible().then(|| {
        let bed = Testbed::serving();
        let folder = tempfile::tempdir().unwrap();
        let file = transparent(folder.path(), "limits = { upstream_per_user = 3 }");
        let (gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
        (bed, gateway)
    })
}

#[test]
fn datagrams_of_clients_without_configuration_take_the_same_way() {
    let Some((bed, _gateway)) = three_at_once() else { return };
    for v in 0..2 {
        assert_eq!(bed.echo(SERVERS[v], 443, 20), GATEWAY[v], "as many as one likes");
        assert!(bed.silent(SERVERS[v], 444), "a closed port is refused");
        assert!(bed.silent(PRIVATE[v], 443), "and what is not public");
        assert!(bed.silent(MESH[v], 443), "and the gateway itself");
    }
    // Four at once are one too many.
    let script = format!(
        "{DATAGRAMS}\nattempts = 2\nfor s in [datagrams() for n in range(4)]:\n    print(ask(s, b'?')[:1])\n"
    );
    assert_eq!(bed.ask(&script, &[SERVERS[0], "443", "1"]).lines().count(), 2, "the first test has one");
}

#[test]
fn names_are_found_whatever_server_is_asked() {
    let Some((bed, _gateway)) = three_at_once() else { return };
    for address in [MESH[0], MESH[1], PRIVATE[0], "9.9.9.9", "2620:fe::9"] {
        assert_eq!(bed.name("udp", address), GATEWAY[0], "the gateway asks its own server, not {address}");
        assert_eq!(bed.name("tcp", address), GATEWAY[0], "over TCP, too");
    }
    let script = format!("{DATAGRAMS}\nattempts = 1\nprint(update())");
    assert_eq!(bed.ask(&script, &["9.9.9.9", "53", "1"]), "", "it is told nothing");
}

#[test]
fn what_is_blocked_is_refused_to_clients_without_configuration() {
    if !possible() {
        return;
    }
    let bed = Testbed::serving();
    let folder = tempfile::tempdir().unwrap();
    let network = SERVERS[0];
    let block = format!("block = {{ domains = [\"test\"], networks = [\"{network}\"], ports = [443] }}");
    let file = transparent(folder.path(), &block);
    let (_gateway, _) = Gateway::start(&mut bed.gateway(&file), 2);
    let udp = format!("{DATAGRAMS}\nanswer = ask(datagrams(), question())\nprint(answer[2], answer[3])");
    let tcp = format!(
        "{DATAGRAMS}\ns = socket.create_connection((address, port), 5)\ns.settimeout(5)\nfor turn in range(2):\n    \
         s.sendall(len(question()).to_bytes(2, 'big') + question())\n    answer = s.recv(2000)\nprint(answer[4], answer[5])"
    );
    for address in [MESH[0], "9.9.9.9", "2620:fe::9"] {
        for script in [&udp, &tcp] {
            // An answer to a question that wanted recursion, which is available: no such name.
            assert_eq!(bed.ask(script, &[address, "53", "1"]), "129 131", "{address}");
        }
    }
    let blocked = bed.fetch(network, 80);
    assert!(blocked.starts_with("HTTP/1.1 403 Forbidden"), "{blocked}");
    assert_eq!(bed.fetch(network, 82), "", "no words there");
    assert_eq!(bed.fetch(SERVERS[1], 80), GATEWAY[1], "another network");
    assert!(bed.silent(SERVERS[1], 443), "a blocked port");
}

#[test]
fn connections_go_through_the_relay_while_it_is_there() {
    if !possible() {
        return;
    }
    let bed = Testbed::serving();
    let before = bed.rules();
    let folder = tempfile::tempdir().unwrap();
    let (state, token) = (folder.path().join("state"), folder.path().join("token"));
    let mut invite = leeway();
    invite.args(["invite", "--name", "gateway", "--address", "198.18.50.2:4433", "--state"]).arg(&state);
    write_secret(&token, &invite.output().unwrap().stdout);
    let relay = bed.relay(&state);

    let more = format!(
        "listen = [\"10.20.0.1:3128\"]\nmetrics = \"127.0.0.1:9300\"\nrelay = {{ token_file = {token:?} }}"
    );
    let file = transparent(folder.path(), &more);
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 4);
    let all = |expected: [&str; 2]| {
        for v in 0..2 {
            assert_eq!(bed.fetch(SERVERS[v], 80), expected[v]);
            assert_eq!(bed.echo(SERVERS[v], 443, 5), expected[v], "datagrams, too");
        }
        assert_eq!(bed.fetch_by_proxy(), expected[0]);
        assert_eq!(bed.fetch_by_proxy(), expected[0], "on a connection that was kept");
    };
    let metric = || {
        let script =
            "import urllib.request\nprint(urllib.request.urlopen('http://127.0.0.1:9300/').read().decode())";
        let text = bed.ask_at(GATEWAYS, script, &[]);
        text.lines()
            .find_map(|line| line.strip_prefix("leeway_gateway_relay_up "))
            .unwrap_or_default()
            .to_owned()
    };
    gateway.says("the relay is there", 1);
    all(RELAY);
    assert_eq!(metric(), "1");
    let private = bed.fetch(PRIVATE[0], 80);
    assert!(
        private.starts_with("HTTP/1.1 403"),
        "who may go where is decided here, whatever the relay allows"
    );
    assert_eq!(bed.name("udp", MESH[0]), GATEWAY[0], "names are asked for directly");
    assert_eq!(bed.ask_at(GATEWAYS, FETCH, &[SERVERS[0], "80"]), GATEWAY[0], "the host keeps its own way");

    let mut waiting = bed.start(USERS, WAIT, &[SERVERS[0], "82"]);
    let mut lines = BufReader::new(waiting.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), RELAY[0]);
    drop(relay);
    gateway.says("no relay", 1);
    assert_eq!(lines.next().unwrap().unwrap(), "closed", "who waits is told that nothing will come");
    waiting.wait().unwrap();
    all(GATEWAY);
    assert_eq!(metric(), "0");

    let _relay = bed.relay(&state);
    gateway.says("the relay is there", 2);
    all(RELAY);

    gateway.signal(rustix::process::Signal::KILL);
    let (mut gateway, _) = Gateway::start(&mut bed.gateway(&file), 4);
    gateway.says("the relay is there", 1);
    assert_eq!(bed.fetch(SERVERS[0], 80), RELAY[0], "what a crash has left is no hindrance");
    assert_eq!(gateway.signal(rustix::process::Signal::TERM).code(), Some(0));
    assert_eq!(bed.rules(), before, "nothing stays behind");
}
