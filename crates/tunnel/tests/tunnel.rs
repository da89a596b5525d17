//! A whole tunnel on the loopback address, for both transports.

mod common;

use common::*;
use leeway_net::{Observation, What};
use leeway_tunnel::{Client, Roster, ServerOptions, Standing};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::{Duration, Instant};

const INTERNET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 99);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_go_both_ways_unchanged() {
    for transport in [quic(), tcp()] {
        let state = tempfile::tempdir().unwrap();
        let mut server = Running::start(state.path(), options(anywhere()));
        let mut bob = join(invite(state.path(), "bob", server.address), transport.clone()).await;
        let own = bob.up().await;
        server.members(1).await;
        // 1400 bytes do not fit into the first datagrams of QUIC, before the path has been probed.
        // They go in halves.
        for (number, length) in [24usize, 100, 1199, 1200, 1399, 1400].into_iter().enumerate() {
            let number = number as u32;
            let there = packet(own, INTERNET, length, number);
            let egress = bob.client.egress();
            let mut heard = until_heard(&mut server.inbox, || egress.push([parcel(&there)])).await;
            while heard[20..24] != number.to_be_bytes() {
                heard = server.inbox.recv().await.unwrap();
            }
            assert_eq!(heard, there, "{transport:?}, {length} bytes up");
            let back = packet(INTERNET, own, length, 100 + number);
            let mut heard = until_heard(&mut bob.inbox, || server.switch.send([parcel(&back)])).await;
            while heard[20..24] != (100 + number).to_be_bytes() {
                heard = bob.inbox.recv().await.unwrap();
            }
            assert_eq!(heard, back, "{transport:?}, {length} bytes down");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_arrives_whole_and_under_the_law() {
    let state = tempfile::tempdir().unwrap();
    let mut server = Running::start(state.path(), options(anywhere()));
    let bob = join(invite(state.path(), "bob", server.address), quic()).await;
    let own = bob.up().await;
    let egress = bob.client.egress();
    let all = 400u32;
    egress.push((0..all).map(|number| parcel(&packet(own, INTERNET, 1300, number))));
    let mut numbers = BTreeSet::new();
    while numbers.len() < all as usize {
        let heard = tokio::time::timeout(PATIENCE, server.inbox.recv()).await.expect("all arrive").unwrap();
        numbers.insert(heard[20..24].to_vec());
    }
    assert_eq!(bob.client.counts().sent(), (400, 400 * 1300));
    let steering = || bob.client.steering().expect("a law over QUIC");
    assert_eq!(steering().law, "newreno");
    assert!(steering().line.srtt_us > 0, "{:?}", steering());
    // On a fast machine a burst may end before the window counts as used.
    let deadline = Instant::now() + PATIENCE;
    while steering().line.window_bytes <= 4 * 1460 {
        assert!(Instant::now() < deadline, "acknowledgements reach the law: {:?}", steering());
        egress.push((0..all).map(|number| parcel(&packet(own, INTERNET, 1300, number))));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Packets to a client whose home never stops. The server tells how long they waited, because the
/// time between two packets also depends on this machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_sends_waits_for_the_home_and_not_for_ever() {
    let state = tempfile::tempdir().unwrap();
    let server = Running::start(state.path(), options(anywhere()));
    let mut bob = join(invite(state.path(), "bob", server.address), quic()).await;
    let own = bob.up().await;
    let member = server.members(1).await.remove(0);
    let back = packet(INTERNET, own, 1000, 1);
    until_heard(&mut bob.inbox, || server.switch.send([parcel(&back)])).await;
    let (client, switch) = (bob.client.clone(), server.switch.clone());
    let sending = tokio::spawn(async move {
        // A transfer of 64 Mbit/s that the home requested.
        let brings = Observation { connection: 1, what: What::Brings(40_000) };
        client.home_observed(&[Observation { connection: 1, what: What::Sends(100) }]);
        loop {
            client.home_observed(&[brings]);
            switch.send([parcel(&back), parcel(&back)]);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    // On a line without a bottleneck the window soon has room for both, and no packet waits.
    let deadline = Instant::now() + 4 * PATIENCE;
    while member.yielded() < Duration::from_millis(20) {
        assert!(Instant::now() < deadline, "it yielded for {:?} only", member.yielded());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Packets go on beside the home.
    while bob.inbox.try_recv().is_ok() {}
    for _ in 0..20 {
        tokio::time::timeout(PATIENCE, bob.inbox.recv()).await.expect("it goes on").unwrap();
    }
    let steering = member.steering().expect("a law over QUIC");
    assert!(steering.line.present && steering.line.expected_bytes > 0, "{steering:?}");
    sending.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_sends_from_its_own_addresses_only() {
    for transport in [quic(), tcp()] {
        let state = tempfile::tempdir().unwrap();
        let mut server = Running::start(state.path(), options(anywhere()));
        let bob = join(invite(state.path(), "bob", server.address), transport).await;
        let own = bob.up().await;
        let member = server.members(1).await.remove(0);
        let egress = bob.client.egress();
        let forged = packet(Ipv4Addr::new(10, 213, 0, 77), INTERNET, 100, 7);
        let right = packet(own, INTERNET, 100, 8);
        let heard = until_heard(&mut server.inbox, || {
            egress.push([parcel(&forged), parcel(&[0x60, 1, 2]), parcel(&right)]);
        });
        assert_eq!(heard.await, right);
        assert!(member.counts.refused() >= 2, "{:?}", member.counts);
        while let Ok(packet) = server.inbox.try_recv() {
            assert_eq!(packet, right);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_have_two_addresses_and_one_token_one_connection() {
    let state = tempfile::tempdir().unwrap();
    let server = Running::start(state.path(), options(anywhere()));
    let (token, other) =
        (invite(state.path(), "bob", server.address), invite(state.path(), "eve", server.address));
    let bob = join(token.clone(), quic()).await;
    let mut eve = join(other, tcp()).await;
    let (bobs, eves) = (bob.up().await, eve.up().await);
    assert_ne!(bobs, eves);
    server.members(2).await;
    let to_eve = packet(INTERNET, eves, 200, 1);
    assert_eq!(until_heard(&mut eve.inbox, || server.switch.send([parcel(&to_eve)])).await, to_eve);
    let second = join(token, tcp()).await;
    assert_eq!(second.up().await, bobs);
    assert!(bob.ended().await.contains("every machine needs its own"));
    server.members(2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_comes_back_when_the_server_does() {
    for transport in [quic(), tcp()] {
        let state = tempfile::tempdir().unwrap();
        let server = Running::start(state.path(), options(anywhere()));
        let address = server.address;
        let bob = join(invite(state.path(), "bob", address), transport).await;
        let own = bob.up().await;
        server.members(1).await;
        server.stop().await;
        let mut status = bob.client.status();
        let down = status.wait_for(|status| matches!(status, leeway_tunnel::Status::Down(_)));
        tokio::time::timeout(PATIENCE, down).await.expect("it hears that the server has gone").unwrap();
        // The port may stay taken for a moment.
        let start = std::time::Instant::now();
        while std::net::UdpSocket::bind(address).is_err() {
            assert!(start.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let mut server = Running::start(state.path(), options(address));
        assert_eq!(bob.up().await, own, "the same addresses as before");
        let egress = bob.client.egress();
        let there = packet(own, INTERNET, 300, 5);
        assert_eq!(until_heard(&mut server.inbox, || egress.push([parcel(&there)])).await, there);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_may_demand_a_law() {
    let state = tempfile::tempdir().unwrap();
    let mut wanted = options(anywhere());
    wanted.demand = Some("ledbat:target=5ms".parse().unwrap());
    wanted.demand_congestion = Some("reno".into());
    let mut server = Running::start(state.path(), wanted);
    let bob = join(invite(state.path(), "bob", server.address), quic()).await;
    let own = bob.up().await;
    let egress = bob.client.egress();
    let there = packet(own, INTERNET, 300, 5);
    until_heard(&mut server.inbox, || egress.push([parcel(&there)])).await;
    assert_eq!(bob.client.steering().unwrap().law, "ledbat:target=5ms");
    let eve = join(invite(state.path(), "eve", server.address), tcp()).await;
    eve.up().await;
    // A congestion control that the kernel does not have. The client reports that it cannot use
    // it.
    let mut impossible = options(anywhere());
    impossible.demand_congestion = Some("no_such_law".into());
    let server = Running::start(state.path(), impossible);
    let tim = join(invite(state.path(), "tim", server.address), tcp()).await;
    let why = tim.ended().await;
    assert!(why.contains("no_such_law") && why.contains("cubic"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoking_ends_a_connection_that_runs() {
    for transport in [quic(), tcp()] {
        let state = tempfile::tempdir().unwrap();
        let server = Running::start(state.path(), options(anywhere()));
        let bob = join(invite(state.path(), "bob", server.address), transport).await;
        bob.up().await;
        Roster::open(state.path()).unwrap().revoke("bob").unwrap();
        let why = bob.ended().await;
        assert!(why.contains("revoked"), "{why}");
        server.members(0).await;
    }
}

/// Files in the server's folder pause and resume it, while one client is connected and another one
/// joins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_hear_how_their_server_stands() {
    for transport in [quic(), tcp()] {
        let state = tempfile::tempdir().unwrap();
        let options = ServerOptions { rate: Some("8Mbit/s".parse().unwrap()), ..options(anywhere()) };
        let mut server = Running::start(state.path(), options);
        let bob = join(invite(state.path(), "bob", server.address), transport.clone()).await;
        let own = bob.up().await;
        let stands = |client: &Arc<Client>, paused: bool| {
            let client = client.clone();
            async move {
                let start = Instant::now();
                // The first standing may be older than the server's first look at its rate.
                let as_asked = |standing: Standing| {
                    standing.paused_s.is_some() == paused && standing.rate_kbps.is_some()
                };
                while !client.standing().is_some_and(as_asked) {
                    assert!(start.elapsed() < PATIENCE, "{:?}", client.standing());
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
                client.standing().unwrap()
            }
        };
        assert_eq!(stands(&bob.client, false).await.rate_kbps, Some(8000));
        let roster = Roster::open(state.path()).unwrap();
        roster.pause(Some(Duration::from_secs(7200))).unwrap();
        let paused_s = stands(&bob.client, true).await.paused_s.unwrap();
        assert!((7100..=7202).contains(&paused_s), "{transport:?}: {paused_s} s");
        // Existing connections go on, and a later client is told at once.
        let there = packet(own, INTERNET, 500, 1);
        let egress = bob.client.egress();
        assert_eq!(until_heard(&mut server.inbox, || egress.push([parcel(&there)])).await, there);
        let ann = join(invite(state.path(), "ann", server.address), transport.clone()).await;
        ann.up().await;
        stands(&ann.client, true).await;
        roster.pause(None).unwrap();
        let start = Instant::now();
        while bob.client.standing().unwrap().paused_s != Some(Standing::OPEN_END) {
            assert!(start.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(roster.resume().unwrap());
        stands(&bob.client, false).await;
        stands(&ann.client, false).await;
        // Traffic is load, and its client counts as a user.
        let start = Instant::now();
        let mut number = 0;
        while bob.client.standing().is_none_or(|standing| standing.load_permille == 0 || standing.users != 1)
        {
            assert!(start.elapsed() < PATIENCE, "{transport:?}: {:?}", bob.client.standing());
            number += 1;
            egress.push((0..5).map(|_| parcel(&packet(own, INTERNET, 1300, number))));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
