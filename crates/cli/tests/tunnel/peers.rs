//! Congestion controls of the kernel below a tunnel, and peers that stop.

use crate::bed::*;
use crate::live::Law;
use crate::{EXCHANGE, WEB};

#[test]
fn tcp_under_the_laws_of_the_kernel() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let (client, relay, web) = (bed.client.clone(), bed.relay.clone(), bed.web.clone());
    bed.python(&web, "web", WEB);
    for law in ["vegas", "lp", "ledbat"] {
        let Law(name) = &Law::load(law, &format!("lq_{law}"));
        let serving = bed.relay(&format!("--private --ports any --tcp {name}"));
        let token = bed.invite(law);
        let joined = bed.join("join", &token, &format!("--transport tcp --law {name}"));
        bed.reaches(&client, "10.77.2.1");
        succeed(bed.at(&client, "python3").args(["-c", EXCHANGE, "10.77.2.1"]));
        for netns in [&client, &relay] {
            let sockets = bed.at(netns, "ss").args(["-tinH", "( sport = :4433 or dport = :4433 )"]).output();
            let sockets = text(&sockets.unwrap().stdout);
            assert!(sockets.contains(name), "{law} at {netns}: {sockets}");
        }
        assert_eq!(bed.signal(joined, "INT"), Some(0), "{}", bed.said("join"));
        assert_eq!(bed.signal(serving, "TERM"), Some(0), "{}", bed.said("relay"));
    }
}

/// Stopped programs answer nothing and take nothing, while packets for them keep coming.
#[test]
fn clients_that_stop_are_given_up_and_harm_nobody() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    let client = bed.client.clone();
    // The public address and two more are the ways of three clients on one machine.
    bed.relay("--private --ports any --tcp cubic");
    let mut clients = Vec::new();
    for (name, route, options) in [
        ("ann", "10.77.2.1/32", "--transport quic"),
        ("bob", "10.77.2.129/32", "--transport tcp --law cubic"),
        ("eve", "11.22.33.1/32", "--transport quic"),
    ] {
        let token = bed.invite(name);
        clients.push(bed.join(name, &token, &format!("--route {route} {options}")));
    }
    for address in ["10.77.2.1", "10.77.2.129", "11.22.33.1"] {
        bed.reaches(&client, address);
    }
    bed.nudge(clients[0], "-STOP");
    bed.nudge(clients[1], "-STOP");
    assert!(!bed.pings(&client, "10.77.2.1") && !bed.pings(&client, "10.77.2.129"));
    until(
        || ["ann left", "bob left"].iter().all(|words| bed.said("relay").contains(words)),
        || bed.said("relay"),
    );
    assert!(!bed.said("relay").contains("eve left"), "{}", bed.said("relay"));
    bed.reaches(&client, "11.22.33.1");
    // They come back by themselves.
    bed.nudge(clients[0], "-CONT");
    bed.nudge(clients[1], "-CONT");
    bed.reaches(&client, "10.77.2.1");
    bed.reaches(&client, "10.77.2.129");
}

#[test]
fn name_servers_past_the_tunnel_are_named() {
    if !possible() {
        return;
    }
    let mut bed = Bed::new();
    std::fs::create_dir_all(bed.own_files()).unwrap();
    std::fs::write(bed.own_files().join("resolv.conf"), "nameserver 10.77.1.2\nnameserver 9.9.9.9\n")
        .unwrap();
    bed.relay("--private --ports any");
    let token = bed.invite("bob");
    bed.join("join", &token, "");
    let said = bed.said("join");
    assert!(
        said.contains("name server 10.77.1.2 is still") && !said.contains("name server 9.9.9.9"),
        "{said}"
    );
    let token = bed.invite("eve");
    bed.join("some", &token, "--route 192.0.2.0/24");
    assert!(!bed.said("some").contains("name server"), "{}", bed.said("some"));
}
