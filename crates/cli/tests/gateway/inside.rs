//! The home's public addresses of IPv6: no firewall of a router stands between them and a gateway in the same
//! network.

use crate::bed::*;
use std::path::Path;

/// Public addresses of the home's machine; the gateway is in the second network later only.
const INSIDE: &str = "2a00:7::2";
const LATER: &str = "2a00:8::2";

/// The only name that there is, `home.test`, has that address.
const NAMES: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(('198.18.40.2', 5300))
print('ready', flush=True)
while True:
    q, sender = s.recvfrom(2000)
    end = q.index(b'\\x00', 12) + 5
    aaaa = q[end - 4:end - 2] == b'\\x00\\x1c'
    answer = b'\\xc0\\x0c\\x00\\x1c\\x00\\x01' + bytes(4) + b'\\x00\\x10' + socket.inet_pton(socket.AF_INET6, '2a00:7::2')
    s.sendto(q[:2] + b'\\x81\\x80\\x00\\x01' + bytes([0, aaaa]) + bytes(4) + q[12:end] + answer * aaaa, sender)
";

/// Whom the server at the address takes the user for, by the proxy's way of the first argument.
const BY_PROXY: &str = "
import socket, sys
way, address = sys.argv[1:3]
def connected(port):
    s = socket.create_connection(('10.20.0.1', port), 5)
    s.settimeout(10)
    return s
if way == 'socks':
    s = connected(1080)
    s.sendall(b'\\x05\\x01\\x00')
    assert s.recv(2) == b'\\x05\\x00'
    s.sendall(b'\\x05\\x01\\x00\\x04' + socket.inet_pton(socket.AF_INET6, address) + (80).to_bytes(2, 'big'))
    answer = s.recv(100)
    refused = answer[1] == 2
    good = answer[1] == 0
else:
    s = connected(3128)
    host = 'home.test' if way == 'name' else f'[{address}]'
    s.sendall(f'CONNECT {host}:80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())
    answer = s.recv(1000)
    refused = answer.startswith(b'HTTP/1.1 403')
    good = answer.startswith(b'HTTP/1.1 200')
assert refused or good, answer
if good:
    s.sendall(b'hello')
print(s.recv(100).decode() if good else 'refused')
";

fn configuration(folder: &Path, more: &str) -> std::path::PathBuf {
    let file = folder.join("gateway.toml");
    let text = format!(
        "clients = [\"10.20.0.0/24\", \"fd20::/64\"]\nallow = [\"198.18.40.0/24\"{more}]\nports = [80]\n\
         udp_ports = [443]\nupload = []\ndns = [\"198.18.40.2:5300\"]\nhome = [\"192.168.7.0/24\"]\n\
         listen = [\"10.20.0.1:3128\"]\nsocks = [\"10.20.0.1:1080\"]\n[transparent]\ninterface = \"mesh\"\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

/// What each way to that address gives: the address that the server sees, or why not.
fn five_ways(bed: &Testbed, address: &str) -> [String; 5] {
    let by_proxy = |way| bed.ask(BY_PROXY, &[way, address]);
    // Port 80 has words for a refusal.
    let refused = |answer: &str| answer.is_empty() || answer.starts_with("HTTP/1.1 403 ");
    let transparent = |answer: String| if refused(&answer) { "refused".to_owned() } else { answer };
    // A datagram may be lost: one of three tells.
    let reached = |_: u32| (!bed.silent(address, 443)).then(|| bed.echo(address, 443, 1));
    let datagram = (0..3).find_map(|n| reached(n).filter(|answer| !answer.is_empty())).unwrap_or_default();
    [
        by_proxy("address"),
        by_proxy("name"),
        by_proxy("socks"),
        transparent(bed.fetch(address, 80)),
        transparent(datagram),
    ]
}

#[test]
fn users_do_not_reach_the_homes_public_addresses() {
    if !possible() {
        return;
    }
    let mut bed = Testbed::new();
    let [_, g, i, _, h] = &bed.names;
    sh(&format!(
        "ip -n {g} addr add 2a00:7::1/64 dev home nodad; ip -n {h} addr add {INSIDE}/64 dev lan nodad
         ip -n {h} addr add {LATER}/64 dev lan nodad; ip -n {h} route add default via 2a00:7::1
         ip -n {i} addr add {LATER}/128 dev lo nodad"
    ));
    bed.serve(&[INTERNET, HOME]);
    let mut names = bed.start(INTERNET, NAMES, &[]);
    ready(&mut names);
    let _names = Program(names);
    let seen_at_gateway = |address: &str| bed.ask_at(GATEWAYS, crate::scripts::FETCH, &[address, "80"]);
    wait("the home's server answers", || seen_at_gateway(INSIDE) == "2a00:7::1");

    // The owner may open a network of the home: then each way leads there.
    let folder = tempfile::tempdir().unwrap();
    let (gateway, _) =
        Gateway::start(&mut bed.gateway(&configuration(folder.path(), ", \"2a00:7::/64\"")), 4);
    assert_eq!(five_ways(&bed, INSIDE), ["2a00:7::1"; 5]);
    drop(gateway);

    let (gateway, _) = Gateway::start(&mut bed.gateway(&configuration(folder.path(), "")), 4);
    gateway.says("2a00:7::/64 (home)", 1);
    gateway.says("give it as `wan`", 1);
    assert_eq!(five_ways(&bed, INSIDE), ["refused"; 5]);

    // An address that comes while it runs: until then it is somebody's on the Internet.
    let by_address = || bed.ask(BY_PROXY, &["address", LATER]);
    assert_eq!(by_address(), GATEWAY[1]);
    sh(&format!("ip -n {} addr add 2a00:8::1/64 dev home nodad", bed.names[GATEWAYS]));
    wait("the new network is the home's", || by_address() == "refused");
    assert_eq!(seen_at_gateway(LATER), "2a00:8::1", "it is there all the same");
    let ways = five_ways(&bed, LATER);
    assert_eq!(ways, ["refused"; 5]);
    assert_eq!(bed.ask(BY_PROXY, &["address", "2a00:8::1"]), "refused", "also the gateway's own");
}
