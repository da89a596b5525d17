//! Metrics as Prometheus reads them, by its own checker.

mod common;

use common::{Running, objects, text};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Whether Debian's `promtool` is here; fails where everything has to be tested.
fn promtool() -> bool {
    let there = Command::new("promtool").arg("--version").output().is_ok();
    assert!(there || std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "no promtool: tools/setup.sh test");
    there
}

/// A gateway with accounts and caps, and its metrics after one request.
async fn metrics() -> String {
    let (folder, objects) = (tempfile::tempdir().unwrap(), objects().await);
    let more = format!(
        "[accounts]\nurl = \"{}/accounts.db\"\n[caps]\nmonth = {{ volume = \"1 GB\" }}\nall = {{ daily = \"2 GB\" }}\n",
        folder.path().display()
    );
    let gateway = Running::start(&[objects.port()], &more).await;
    assert_eq!(gateway.status(&format!("http://{objects}/1000")).await, 200);
    let mut stream = TcpStream::connect(gateway.metrics).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
    text(&mut stream).await.split_once("\r\n\r\n").unwrap().1.to_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_units_and_kinds_are_as_prometheus_wants_them() {
    let metrics = metrics().await;
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
    let said = said(&checked);
    assert!(checked.status.success() && said.trim().is_empty(), "{said}\n{metrics}");
}

/// Files that Prometheus and Grafana are given.
fn packaged(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

/// Names of our metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("leeway_gateway_")).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn alerts_and_dashboard_name_what_a_gateway_has() {
    let metrics = metrics().await;
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let there: BTreeSet<String> = lines.flat_map(named).collect();
    for (file, least) in [("prometheus/leeway-gateway.rules.yml", 6), ("grafana/leeway-gateway.json", 15)] {
        let names = named(&std::fs::read_to_string(packaged(file)).unwrap());
        let missing: Vec<_> = names.difference(&there).collect();
        assert!(
            names.len() >= least && missing.is_empty(),
            "{file} names {missing:?}, the gateway has {there:?}"
        );
    }
}

#[test]
fn a_dashboard_is_one_for_grafana() {
    let text = std::fs::read_to_string(packaged("grafana/leeway-gateway.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<u64> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "each has its own number");
    // Panels side by side do not overlap: 24 columns.
    let mut cells = BTreeSet::new();
    for panel in panels {
        assert!(panel["title"].is_string() && panel["description"].is_string(), "{panel}");
        assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{panel}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}");
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        assert!(x + w <= 24);
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(cells.insert(cell), "{panel}");
        }
    }
}

/// Each query of the dashboard as a rule, which Prometheus' checker reads.
#[test]
fn queries_and_alerts_are_read_by_prometheus() {
    if !promtool() {
        return eprintln!("skipped: no promtool (apt-get install prometheus)");
    }
    let text = std::fs::read_to_string(packaged("grafana/leeway-gateway.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&text).unwrap();
    let targets =
        dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries = targets.map(|target| target["expr"].as_str().unwrap().replace("$__rate_interval", "1m"));
    let rules: Vec<_> = queries
        .enumerate()
        .map(|(n, query)| serde_json::json!({ "record": format!("query:{n}"), "expr": query }))
        .collect();
    assert!(rules.len() > 15, "{rules:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("queries.yml");
    let groups = serde_json::json!({ "groups": [{ "name": "queries", "rules": rules }] });
    std::fs::write(&file, groups.to_string()).unwrap();
    for arguments in [
        ["check", "rules", file.to_str().unwrap()],
        ["check", "rules", packaged("prometheus/leeway-gateway.rules.yml").to_str().unwrap()],
        ["test", "rules", packaged("prometheus/leeway-gateway.test.yml").to_str().unwrap()],
    ] {
        let output = Command::new("promtool").args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    }
}
