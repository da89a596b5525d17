//! Where clients of a relay get to, and what the relay does to packets of others.

use crate::bed::*;
use std::process::Command;

/// Answers at each address: TCP at 25 and 443, UDP at 443 and 5203. Says whom it has heard by UDP.
const SERVER: &str = "
import socket, sys, threading
def tcp(port):
    s = socket.create_server(('::', port), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        s.accept()[0].close()
def udp(port):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    s.bind(('::', port))
    while True:
        data, control, _, sender = s.recvmsg(2000, 100)
        print('heard', sender[0].removeprefix('::ffff:'), file=sys.stderr, flush=True)
        # From the address that was asked, by whatever device.
        asked = control[0][2][:16] + bytes(4)
        s.sendmsg([data], [(socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, asked)], 0, sender)
for kind, port in [(tcp, 25), (tcp, 443), (udp, 443), (udp, 5203)]:
    threading.Thread(target=kind, args=(port,)).start()
print('ready', file=sys.stderr, flush=True)
";

/// What comes of a connection or a datagram to there: `kind address port`, from an address if one is given.
const TRY: &str = "
import socket, sys
kind, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
family = socket.AF_INET6 if ':' in address else socket.AF_INET
s = socket.socket(family, socket.SOCK_STREAM if kind == 'tcp' else socket.SOCK_DGRAM)
s.settimeout(3)
if len(sys.argv) > 4:
    s.bind((sys.argv[4], 0))
try:
    s.connect((address, port))
    if kind == 'udp':
        s.send(b'hello')
        s.recv(100)
    print('answered')
except ConnectionRefusedError:
    print('refused')
except OSError as error:
    print('nothing' if isinstance(error, TimeoutError) else 'refused')
";

fn tried(bed: &Bed, netns: &str, arguments: &[&str]) -> String {
    let output = succeed(bed.at(netns, "python3").args(["-c", TRY]).args(arguments));
    text(&output.stdout).trim().to_owned()
}

#[test]
fn what_is_not_public_is_refused_and_so_is_mail_between_servers() {
    // 2001::/23 is for protocols; the last three are ISATAP tunnels.
    const REFUSED: [&str; 9] = [
        "168.63.129.16",
        "100.100.100.200",
        "192.88.99.1",
        "3fff::1",
        "2001:2::1",
        "2001:1ff::1",
        "2a00:77::5efe:10.0.0.1",
        "2a00:77::200:5efe:10.0.0.1",
        "2a00:77::200:5efe:8.8.8.8",
    ];
    const OPEN: [&str; 4] = ["11.22.33.1", "168.63.129.17", "3fff:1000::1", "2a00:77::5"];
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, relay, web) = (bed.client.clone(), bed.relay.clone(), bed.web.clone());
    for address in REFUSED.iter().chain(&OPEN).filter(|&&address| address != "11.22.33.1") {
        let via = if address.contains(':') { "fd77:2::1" } else { "10.77.2.1" };
        let nodad = if address.contains(':') { "nodad" } else { "" };
        sh(&format!(
            "ip -n {web} addr add {address} dev lo {nodad}; ip -n {relay} route add {address} via {via}"
        ));
    }
    bed.python(&web, "web", SERVER);
    bed.relay("");
    let token = bed.invite("bob");
    bed.join("join", &token, "");
    for address in OPEN {
        bed.reaches(&client, address);
        assert_eq!(tried(&bed, &client, &["tcp", address, "443"]), "answered", "{address}");
        assert_eq!(tried(&bed, &client, &["udp", address, "443"]), "answered", "{address}");
        // It is told at once.
        assert_eq!(tried(&bed, &client, &["tcp", address, "25"]), "refused", "{address}");
        assert_eq!(tried(&bed, &client, &["udp", address, "5203"]), "refused", "{address}");
    }
    for address in REFUSED {
        bed.reaches(&relay, address);
        assert_eq!(tried(&bed, &relay, &["tcp", address, "443"]), "answered", "{address} is there");
        assert_eq!(tried(&bed, &client, &["tcp", address, "443"]), "refused", "{address}");
        assert!(!bed.pings(&client, address), "{address}");
    }
    assert_eq!(tried(&bed, &relay, &["tcp", "11.22.33.1", "25"]), "answered", "the relay itself may");
}

/// No router's firewall stands between the relay and the hosts in its own networks.
#[test]
fn the_relays_own_networks_are_closed_also_those_that_come_later() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, relay, web) = (bed.client.clone(), bed.relay.clone(), bed.web.clone());
    let both = |first: &str, second: &str| {
        sh(&format!("ip -n {relay} addr add {first} dev right; ip -n {web} addr add {second} dev in"));
    };
    let early = ["9.7.0.9", "2a00:88::9"];
    both("9.7.0.1/24", "9.7.0.9/24");
    both("2a00:88::1/64 nodad", "2a00:88::9/64 nodad");
    bed.python(&web, "web", SERVER);
    bed.relay("");
    let token = bed.invite("bob");
    bed.join("join", &token, "");
    bed.reaches(&client, "11.22.33.1");
    for address in early {
        assert_eq!(tried(&bed, &relay, &["tcp", address, "443"]), "answered", "{address} is there");
        assert_eq!(tried(&bed, &client, &["tcp", address, "443"]), "refused", "{address}");
        assert!(!bed.pings(&client, address), "{address}");
    }
    // As a router's advertisement or DHCP adds them.
    both("9.8.0.1/24", "9.8.0.9/24");
    both("2a00:89::1/64 nodad", "2a00:89::9/64 nodad");
    for address in ["9.8.0.9", "2a00:89::9"] {
        assert_eq!(tried(&bed, &relay, &["tcp", address, "443"]), "answered", "{address} is there");
        let refused = || tried(&bed, &client, &["tcp", address, "443"]) == "refused";
        until(refused, || format!("{address} is reached: {}", bed.said("relay")));
    }
    // A network that has gone is somebody else's, behind a router.
    sh(&format!(
        "ip -n {relay} addr del 9.8.0.1/24 dev right; ip -n {relay} route add 9.8.0.0/24 via 10.77.2.1"
    ));
    until(
        || tried(&bed, &client, &["tcp", "9.8.0.9", "443"]) == "answered",
        || format!("9.8.0.9 is not reached: {}", bed.said("relay")),
    );
    for address in early {
        assert_eq!(tried(&bed, &client, &["tcp", address, "443"]), "refused", "{address}");
    }
}

/// Says from whom it hears messages of ICMP, and of which type.
const ICMP: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
print('ready', file=sys.stderr, flush=True)
while True:
    data, sender = s.recvfrom(2000)
    print('heard', data[20], sender[0], file=sys.stderr, flush=True)
";

/// Sends a router's advertisement, and an error about a packet that nobody has sent.
const UNASKED: &str = "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.sendto(bytes([9, 0, 0xf6, 0xff]) + bytes(4), ('11.22.33.1', 0))
s.sendto(bytes([3, 4, 0xfc, 0xfb]) + bytes(4), ('11.22.33.1', 0))
";

#[test]
fn nothing_leaves_with_an_address_of_the_tunnel() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, web) = (bed.client.clone(), bed.web.clone());
    bed.python(&web, "web", ICMP);
    bed.relay("");
    let token = bed.invite("bob");
    bed.join("join", &token, "");
    bed.reaches(&client, "11.22.33.1");
    succeed(bed.at(&client, "python3").args(["-c", UNASKED]));
    // Later than those.
    assert!(bed.pings(&client, "11.22.33.1"));
    bed.hears("web", "heard 8 10.77.2.2");
    assert!(!bed.said("web").contains("10.213."), "{}", bed.said("web"));
}

/// Without the rules clients would reach everything, and a relay whose rules cannot be changed would open
/// what comes later.
#[test]
fn a_relay_without_its_rules_ends() {
    if !possible() {
        return;
    }
    for (signal, then) in
        [("KILL", ""), ("STOP", "ip -n $0 addr add 9.8.0.1/24 dev right; sleep 1; kill -KILL $nft")]
    {
        let mut bed = Bed::new();
        let relay = bed.relay.clone();
        let child = bed.relay("");
        sh(&format!(
            "for pid in $(ip netns pids {relay}); do grep -qx nft /proc/$pid/comm && nft=$pid; done
             kill -{signal} $nft; {}",
            then.replace("$0", &relay)
        ));
        assert_eq!(bed.ends(child), Some(1), "{}", bed.said("relay"));
        bed.hears("relay", "nft");
    }
}

#[test]
fn ports_are_opened_by_name_and_what_is_no_port_is_explained() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, web) = (bed.client.clone(), bed.web.clone());
    bed.python(&web, "web", SERVER);
    bed.relay("--ports 25 --udp-ports 5203");
    let token = bed.invite("bob");
    bed.join("join", &token, "");
    for (kind, port, outcome) in [
        ("tcp", "25", "answered"),
        ("tcp", "443", "refused"),
        ("udp", "5203", "answered"),
        ("udp", "443", "refused"),
    ] {
        assert_eq!(tried(&bed, &client, &[kind, "11.22.33.1", port]), outcome, "{kind} {port}");
    }
    for ports in ["0", "65536", "80;443", "http", ""] {
        let arguments = ["relay", "--ports", ports, "--listen", "127.0.0.1:0", "--state", "/nonexistent"];
        let output = Command::new(leeway()).args(arguments).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("such as 80,443"), "{ports:?}: {said}");
    }
}

/// A network behind the relay may have the tunnel's addresses, too; what comes from there is none of the
/// relay's business.
#[test]
fn only_what_comes_by_the_tunnel_is_translated() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, relay, web) = (bed.client.clone(), bed.relay.clone(), bed.web.clone());
    sh(&format!(
        "ip -n {client} addr add 10.213.7.7/32 dev lo
         ip netns exec {relay} sh -c 'for f in all left; do echo 0 > /proc/sys/net/ipv4/conf/$f/rp_filter; done'"
    ));
    bed.python(&web, "web", SERVER);
    bed.relay("");
    let token = bed.invite("bob");
    // Everything else goes by the way of old.
    bed.join("join", &token, "--route 11.22.33.0/24");
    assert_eq!(tried(&bed, &client, &["udp", "11.22.33.1", "443"]), "answered");
    assert_eq!(bed.said("web").lines().last(), Some("heard 10.77.2.2"), "translated");
    // The answer finds no way: that there is a packet is enough.
    tried(&bed, &client, &["udp", "10.77.2.1", "443", "10.213.7.7"]);
    bed.hears("web", "heard 10.213.7.7");
    assert_eq!(bed.said("web").matches("heard").count(), 2, "{}", bed.said("web"));
}
