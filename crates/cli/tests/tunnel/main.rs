//! `leeway relay`, `invite` and `join` with real packets: needs root, TUN devices, `ip`, `nft`, `ping` and
//! `python3`.

mod bed;
#[path = "../live/mod.rs"]
mod live;
mod peers;
mod reach;
mod several;

use bed::*;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// At the web server: TCP that sends back what it got, UDP that echoes, TCP that only takes.
const WEB: &str = "
import socket, sys, threading
def serve(port, what):
    s = socket.create_server(('::', port), family=socket.AF_INET6, dualstack_ipv6=True)
    def run():
        while True:
            c, _ = s.accept()
            threading.Thread(target=what, args=(c,), daemon=True).start()
    threading.Thread(target=run, daemon=True).start()
def back(c):
    got = b''
    while block := c.recv(65536):
        got += block
    c.sendall(got[::-1])
    c.close()
def take(c):
    while c.recv(65536):
        pass
serve(5201, back)
serve(5202, take)
u = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
u.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
u.bind(('::', 5203))
print('ready', file=sys.stderr, flush=True)
while True:
    data, whom = u.recvfrom(65536)
    u.sendto(data, whom)
";

/// At the client: a megabyte over TCP and datagrams of several lengths over UDP, there and back.
const EXCHANGE: &str = "
import os, socket, sys
host = sys.argv[1]
family = socket.AF_INET6 if ':' in host else socket.AF_INET
s = socket.create_connection((host, 5201), timeout=20)
sent = os.urandom(1_000_000)
s.sendall(sent)
s.shutdown(socket.SHUT_WR)
got = b''
while block := s.recv(65536):
    got += block
assert got == sent[::-1], len(got)
u = socket.socket(family, socket.SOCK_DGRAM)
u.settimeout(1)
# The last one takes several packets of IP.
for length in (1, 100, 1300, 1372, 1373, 4000):
    sent = os.urandom(length)
    for attempt in range(20):
        u.sendto(sent, (host, 5203))
        try:
            got = u.recv(65536)
        except TimeoutError:
            continue
        if got == sent:
            break
    else:
        raise SystemExit(f'{length} bytes over UDP: no answer')
";

#[test]
fn the_whole_of_ip_goes_through() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, web) = (bed.client.clone(), bed.web.clone());
    bed.python(&web, "web", WEB);
    bed.relay("--private --ports any --tcp cubic");
    let token = bed.invite("bob");
    assert!(!bed.pings(&client, "10.77.2.1"), "there is another way");
    for options in ["--transport quic", "--transport tcp --law cubic"] {
        let join = bed.join("join", &token, options);
        for address in ["10.77.2.1", "fd77:2::1", "10.213.0.1"] {
            bed.reaches(&client, address);
        }
        for address in ["10.77.2.1", "fd77:2::1"] {
            succeed(bed.at(&client, "python3").args(["-c", EXCHANGE, address]));
        }
        assert_eq!(bed.signal(join, "INT"), Some(0), "{}", bed.said("join"));
        let rules = text(&succeed(Command::new("ip").args(["-n", &client, "rule"])).stdout);
        assert!(!rules.contains("fwmark"), "{rules}");
        assert!(!bed.pings(&client, "10.77.2.1"), "the tunnel has gone");
    }
}

#[test]
fn clients_reach_the_internet_and_nothing_else() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, relay) = (bed.client.clone(), bed.relay.clone());
    // A service of the relay's own, at every address.
    let service = "
import socket, sys
s = socket.create_server(('', 8080))
print('ready', file=sys.stderr, flush=True)
while True:
    s.accept()[0].close()
";
    bed.python(&relay, "service", service);
    bed.relay("");
    let token = bed.invite("bob");
    bed.join("join", &token, "");
    bed.reaches(&client, "11.22.33.1");
    bed.reaches(&client, "10.213.0.1");
    for inside in ["10.77.2.1", "fd77:2::1", "169.254.169.254", "10.213.0.77"] {
        assert!(!bed.pings(&client, inside), "{inside} was reached");
    }
    let connect = "
import socket, sys
try:
    socket.create_connection((sys.argv[1], 8080), timeout=2)
    print('connected')
except OSError:
    print('refused')
";
    for (address, outcome) in
        [("10.213.0.1", "refused"), ("10.77.2.2", "refused"), ("10.77.1.2", "connected")]
    {
        // The last is the way of old, outside the tunnel: a network of the client's own.
        let output = succeed(bed.at(&client, "python3").args(["-c", connect, address]));
        assert_eq!(text(&output.stdout).trim(), outcome, "{address}");
    }
}

#[test]
fn killed_ends_leave_nothing_that_blocks() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, relay) = (bed.client.clone(), bed.relay.clone());
    let server = bed.relay("--private --ports any");
    let token = bed.invite("bob");
    let join = bed.join("join", &token, "");
    bed.reaches(&client, "10.77.2.1");

    bed.signal(server, "KILL");
    let tables =
        || text(&succeed(Command::new("ip").args(["netns", "exec", &relay, "nft", "list", "tables"])).stdout);
    let links = |netns: &str| text(&succeed(Command::new("ip").args(["-n", netns, "link"])).stdout);
    until(|| !tables().contains("lwrelay"), tables);
    until(|| !links(&relay).contains("lwrelay"), || links(&relay));
    assert_eq!(bed.left(&relay, &[]), [""; 0], "a relay leaves nothing");
    assert_eq!(bed.left(&client, &[]), [""; 0], "the client still runs");
    bed.relay("--private --ports any");
    // The client notices and comes back by itself.
    bed.reaches(&client, "10.77.2.1");

    bed.signal(join, "KILL");
    until(|| !links(&client).contains("lwjoin"), || links(&client));
    // Its own network, and the way around the tunnel.
    bed.reaches(&client, "10.77.1.2");
    bed.reaches(&client, "10.77.2.2");
    let found = bed.left(&client, &[]);
    for rule in [
        "IPv4 routing rule 31000",
        "IPv4 routing rule 31001",
        "IPv6 routing rule 31000",
        "IPv6 routing rule 31001",
    ] {
        assert_eq!(found.iter().filter(|line| line.contains(rule)).count(), 1, "{rule}: {found:#?}");
    }
    assert_eq!(bed.left(&client, &["--clean"]).len(), 4);
    assert_eq!(bed.left(&client, &[]), [""; 0]);
    let join = bed.join("again", &token, "");
    bed.reaches(&client, "10.77.2.1");
    let rules = text(&succeed(Command::new("ip").args(["-n", &client, "rule"])).stdout);
    assert_eq!(rules.matches("fwmark").count(), 1, "{rules}");
    assert_eq!(bed.signal(join, "TERM"), Some(0));
    let rules = text(&succeed(Command::new("ip").args(["-n", &client, "rule"])).stdout);
    assert!(!rules.contains("fwmark"), "{rules}");
}

#[test]
fn a_client_may_change_its_address() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let client = bed.client.clone();
    bed.relay("--private --ports any");
    let token = bed.invite("bob");
    bed.join("join", &token, "");
    bed.reaches(&client, "10.77.2.1");
    sh(&format!(
        "ip -n {client} addr add 10.77.1.9/24 dev out; ip -n {client} addr del 10.77.1.1/24 dev out
         ip -n {client} addr replace 10.77.1.9/24 dev out; ip -n {client} route replace default via 10.77.1.2"
    ));
    bed.reaches(&client, "10.77.2.1");
    let said = bed.said("relay");
    assert_eq!(said.matches("bob joined").count(), 1, "the connection moved, it was not made anew: {said}");
    assert!(!bed.said("join").contains("trying again"), "{}", bed.said("join"));
}

#[test]
fn refusals_are_clear_and_have_their_exit_codes() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    bed.relay("--private --ports any");
    let run = |bed: &Bed, token: &str, options: &str| {
        let mut command = bed.at(&bed.client, leeway());
        let output = command.arg("join").args(options.split_whitespace()).arg(token).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let token = bed.invite("bob");
    let mut typo = token.clone();
    typo.replace_range(20..21, if &token[20..21] == "x" { "y" } else { "x" });
    for (token, options, code, words) in [
        ("hello", "", 2, "leeway1_"),
        (typo.as_str(), "", 2, "typing error"),
        (token.as_str(), "--law codle", 2, "there is no law"),
        (token.as_str(), "--transport tcp --law codle", 2, "it has: "),
        (token.as_str(), "--transport tcp --home 192.168.1.0/24", 2, "needs --transport quic"),
        (token.as_str(), "--home 192.168.1", 2, "is not a network"),
        (token.as_str(), "--route 10.0.0.0", 2, "192.0.2.0/24"),
    ] {
        let (status, said) = run(&bed, token, options);
        assert!(status == Some(code) && said.contains(words), "{options}: {status:?} {said}");
    }
    let mut revoke = Command::new(leeway());
    succeed(revoke.args(["invite", "--revoke", "bob", "--state"]).arg(bed.state()));
    let (status, said) = run(&bed, &token, "");
    assert!(status == Some(1) && said.contains("revoked"), "{status:?} {said}");
    let mut list = Command::new(leeway());
    let listed = text(&succeed(list.args(["invite", "--list", "--state"]).arg(bed.state())).stdout);
    assert!(listed.contains("bob") && listed.contains("revoked"), "{listed}");

    let bounded = ["--bounding-set", "-net_admin", "--inh-caps", "-net_admin", leeway()];
    for arguments in
        [vec!["join", token.as_str()], vec!["relay", "--listen", "127.0.0.1:0", "--state", "/tmp/none"]]
    {
        let output = Command::new("setpriv").args(bounded).args(arguments).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains("sudo"), "{said}");
    }
    let _ = std::fs::remove_dir_all("/tmp/none");

    // Another user's folder cannot be read without root's rights, so a revocation would not be seen.
    let state = tempfile::tempdir().unwrap();
    std::fs::set_permissions(state.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::chown(state.path(), Some(65_534), Some(65_534)).unwrap();
    let mut relay = bed.at(&bed.relay, leeway());
    relay.args(["relay", "--private", "--listen", "127.0.0.1:0", "--state"]).arg(state.path());
    let relay = bed.start("unreadable", relay);
    assert_eq!(bed.ends(relay), Some(2), "{}", bed.said("unreadable"));
    let said = bed.said("unreadable");
    assert!(said.contains("clients.toml") && !said.contains("listening"), "{said}");
}

/// Behind a link of 10 Mbit/s and 25 ms each way: an upload through the tunnel alone, then beside one past
/// it, each in bits per second, and round trips through the tunnel in milliseconds.
const SHARE: &str = "
import socket, statistics, struct, threading, time
def flow(host):
    s = socket.create_connection((host, 5202), timeout=60)
    def run():
        try:
            while True:
                s.sendall(bytes(65536))
        except OSError:
            pass
    threading.Thread(target=run, daemon=True).start()
    return s
def acked(s):
    # tcpi_bytes_acked of struct tcp_info.
    return struct.unpack_from('Q', s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 120)[0]
def trips(count):
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    u.settimeout(3)
    took = []
    for i in range(count):
        start = time.monotonic()
        u.sendto(b'%d' % i, ('10.77.2.1', 5203))
        try:
            u.recv(100)
            took.append(1000 * (time.monotonic() - start))
        except TimeoutError:
            took.append(3000)
        time.sleep(0.1)
    return statistics.median(took)
background = flow('10.77.2.1')
time.sleep(3)
before, start = acked(background), time.monotonic()
alone_ms = trips(20)
alone = 8 * (acked(background) - before) / (time.monotonic() - start)
primary = flow('10.77.2.129')
time.sleep(3)
before, first, start = acked(background), acked(primary), time.monotonic()
time.sleep(5)
span = time.monotonic() - start
print(alone, alone_ms, 8 * (acked(background) - before) / span, 8 * (acked(primary) - first) / span)
";

#[test]
fn it_yields_to_cubic_and_keeps_its_own_delay_low() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (relay, web) = (bed.relay.clone(), bed.web.clone());
    bed.python(&web, "web", WEB);
    bed.relay("--private --ports any");
    let log = bed.folder.path().join("join");
    let script = format!(
        "set -e; export PATH=$PATH:/usr/sbin:/sbin
         token=$({leeway} invite --name bob --address $LEEWAY_GATEWAY:4433 --state {state})
         {leeway} join --route 10.77.2.0/25 $token 2>{log} & join=$!
         trap 'kill $join' EXIT
         for i in $(seq 200); do grep -q 'joined as' {log} && break; sleep 0.1; done
         python3 -c \"$0\"",
        leeway = leeway(),
        state = bed.state().display(),
        log = log.display(),
    );
    let mut link = bed.at(&relay, leeway());
    link.args("link --up 10mbit --down 10mbit --delay 25ms --buffer 150kB --".split_whitespace());
    let output = succeed(link.args(["bash", "-c", &script, SHARE]));
    let numbers: Vec<f64> =
        text(&output.stdout).split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [alone, alone_ms, beside, primary] = numbers[..] else { panic!("{numbers:?}") };
    eprintln!("alone {alone:.0} bit/s at {alone_ms:.1} ms, beside CUBIC {beside:.0} bit/s to {primary:.0}");
    // Generous: on a busy machine a late packet looks like a queue, to which the law yields.
    assert!(alone > 2.5e6, "alone {alone} bit/s of 10 Mbit/s");
    // 50 ms of propagation and 25 ms of target; a full buffer would be 120 ms more.
    assert!(alone_ms < 130.0, "{alone_ms} ms");
    assert!(primary > 6.5e6 && beside < 2e6, "{beside} bit/s beside {primary}");
}
