//! What neighbours use comes into the accounts, and caps hold.

mod common;

use common::{PATIENCE, Running, from, objects, status, text};
use jiff::Timestamp;
use jiff::civil::Date;
use leeway_accounts::Store;
use leeway_accounts::ledger::Direction;
use leeway_accounts::time::Slot;
use leeway_gateway::control::{ExportFormat, ExportRange};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

fn config(folder: &Path, caps: &str) -> String {
    format!("law = \"none\"\n[accounts]\nurl = \"{}/accounts.db\"\ngateway = \"g\"\n{caps}", folder.display())
}

/// Bytes of each user, down and up, that the store has.
fn stored(folder: &Path) -> Vec<(String, [u64; 2])> {
    let mut store = Store::reading(&format!("{}/accounts.db", folder.display())).unwrap();
    let (first, last) = store.range().unwrap().expect("something is stored");
    assert!(Slot::of(first.start()) == first);
    store.totals(first, last.next()).unwrap()
}

/// Asks for `bytes`; returns how many came of the body.
async fn fetch(mut stream: TcpStream, objects: std::net::SocketAddr, bytes: usize) -> usize {
    let request = format!("GET http://{objects}/{bytes} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer = text(&mut stream).await;
    answer.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_used_is_stored_at_the_end_to_the_byte() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), objects().await);
    let gateway = Running::start(&[objects.port()], &config(folder.path(), "")).await;
    for address in ["127.0.0.17", "127.0.0.18"] {
        let body = fetch(from(address, gateway.http).await.unwrap(), objects, 1_000_000).await;
        assert_eq!(body, 1_000_000);
    }
    let metric = |name: String| {
        let gateway = &gateway;
        async move { gateway.metric(&name).await as u64 }
    };
    let mut counted = Vec::new();
    for address in ["127.0.0.17", "127.0.0.18"] {
        let down = metric(format!("leeway_gateway_down_bytes_total{{user=\"{address}\"}}")).await;
        let up = metric(format!("leeway_gateway_up_bytes_total{{user=\"{address}\"}}")).await;
        counted.push((address.to_owned(), [down, up]));
    }
    gateway.stop().await;
    assert_eq!(stored(folder.path()), counted);
    assert!(counted[0].1[Direction::Down as usize] > 1_000_000);
    // Another start goes on, and counts nothing twice. Users who have not come again were last seen before now.
    let gateway = Running::start(&[objects.port()], &config(folder.path(), "")).await;
    let people = gateway.operations.people().unwrap();
    let seen: Vec<_> = people.iter().map(|user| user.last_seen.expect("the accounts know it")).collect();
    assert!(seen.len() == 2 && seen.iter().all(|&at| at <= Timestamp::now()), "{seen:?}");
    gateway.stop().await;
    assert_eq!(stored(folder.path()), counted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daily_volume_holds_within_a_hundredth_whoever_asks_how_often() {
    const LIMIT: u64 = 3_000_000;
    let caps = "[caps]\nuser = { daily = \"3 MB\", slow_at = 1 }\n";
    let (folder, objects) = (tempfile::tempdir().unwrap(), objects().await);
    let more = config(folder.path(), caps) + "[limits]\nanswer_s = 2\n";
    let gateway = Running::start(&[objects.port()], &more).await;
    let greedy = async || fetch(from("127.0.0.17", gateway.http).await.unwrap(), objects, 400_000).await;
    let all = tokio::join!(
        greedy(),
        greedy(),
        greedy(),
        greedy(),
        greedy(),
        greedy(),
        greedy(),
        greedy(),
        greedy(),
        greedy()
    );
    let name = "leeway_gateway_down_bytes_total{user=\"127.0.0.17\"}";
    let up = gateway.metric(&name.replace("down", "up")).await as u64;
    let used = gateway.metric(name).await as u64 + up;
    assert!((LIMIT - LIMIT / 100..=LIMIT + LIMIT / 100).contains(&used), "{used} of {LIMIT}: {all:?}");

    // The next request hears why, and when it goes on; other neighbours have their own volume.
    let mut refused = from("127.0.0.17", gateway.http).await.unwrap();
    let request = format!("GET http://{objects}/10 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    refused.write_all(request.as_bytes()).await.unwrap();
    let answer = text(&mut refused).await;
    assert_eq!(status(&answer), 503, "{answer}");
    assert!(
        answer.contains("you are paused until ")
            && answer.contains("You have used nearly all, or all, of what you may use today"),
        "{answer}"
    );
    assert!(answer.to_lowercase().contains("retry-after: "), "{answer}");
    assert_eq!(fetch(from("127.0.0.18", gateway.http).await.unwrap(), objects, 10).await, 10);

    // A restart does not forget it.
    gateway.stop().await;
    let gateway = Running::start(&[objects.port()], &more).await;
    let mut refused = from("127.0.0.17", gateway.http).await.unwrap();
    refused.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status(&text(&mut refused).await), 503);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_is_never_exceeded() {
    // 16 Mbit/s are 2 MB a second.
    let caps = "[caps]\nall = { rate = \"16 Mbit/s\" }\n";
    let (folder, objects) = (tempfile::tempdir().unwrap(), objects().await);
    let gateway = Running::start(&[objects.port()], &config(folder.path(), caps)).await;
    let began = Instant::now();
    let ask = async |n: u8| {
        let stream = from(&format!("127.0.0.{n}"), gateway.http).await.unwrap();
        fetch(stream, objects, 1_500_000).await
    };
    let all = tokio::join!(ask(17), ask(18), ask(19), ask(20));
    assert_eq!(all, (1_500_000, 1_500_000, 1_500_000, 1_500_000));
    // 6 MB; 50 ms of them may come at once.
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(2900), "{took:?}");
    assert!(took < PATIENCE, "{took:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn days_the_wrong_way_round_are_no_empty_export() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Running::start(&[80], &config(folder.path(), "")).await;
    let export = |from: Date, to: Date| {
        let range = ExportRange { from: Some(from), to: Some(to), format: ExportFormat::Csv };
        let mut file = Vec::new();
        gateway.operations.export(range, &mut file).map(|()| file).map_err(|error| error.to_string())
    };
    let (first, second) = (Date::constant(2026, 11, 1), Date::constant(2026, 12, 1));
    assert!(export(first, second).unwrap().starts_with(b"time,gateway,user"));
    for (from, to) in [(second, first), (first, first)] {
        assert!(export(from, to).unwrap_err().contains("the day after the last one"), "{from} {to}");
    }
}
