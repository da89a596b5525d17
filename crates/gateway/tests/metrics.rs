//! Metrics as Prometheus reads them, by its own checker.

mod common;

use common::{Running, objects, text};
use std::process::{Command, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Whether Debian's `promtool` is here; fails where everything has to be tested.
fn promtool() -> bool {
    let there = Command::new("promtool").arg("--version").output().is_ok();
    assert!(there || std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "no promtool: tools/setup.sh test");
    there
}

#[tokio::test(flavor = "multi_thread")]
async fn names_units_and_kinds_are_as_prometheus_wants_them() {
    let (folder, objects) = (tempfile::tempdir().unwrap(), objects().await);
    let more = format!(
        "[accounts]\nurl = \"{}/accounts.db\"\n[caps]\nmonth = {{ volume = \"1 GB\" }}\nall = {{ daily = \"2 GB\" }}\n",
        folder.path().display()
    );
    let gateway = Running::start(&[objects.port()], &more).await;
    assert_eq!(gateway.status(&format!("http://{objects}/1000")).await, 200);
    let mut stream = TcpStream::connect(gateway.metrics).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
    let answer = text(&mut stream).await;
    let (_, metrics) = answer.split_once("\r\n\r\n").unwrap();
    for line in [
        "leeway_gateway_paused 0",
        "leeway_gateway_accounts_up 1",
        "leeway_gateway_cap_limit_bytes{cap=\"month\"} 1000000000",
        "leeway_gateway_cap_limit_bytes{cap=\"all_daily\"} 2000000000",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in\n{metrics}");
    }
    if !promtool() {
        return eprintln!("skipped: no promtool (apt-get install prometheus)");
    }
    let mut checker = Command::new("promtool");
    let checker = checker.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut checker = checker.stdout(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut checker.stdin.take().unwrap(), metrics.as_bytes()).unwrap();
    let checked = checker.wait_with_output().unwrap();
    let said =
        String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.trim().is_empty(), "{said}\n{metrics}");
}
