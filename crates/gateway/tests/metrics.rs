//! Metrics as Prometheus reads them, by its own checker.

mod common;

use common::{PATIENCE, Running, objects, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// Whether Debian's `promtool` is here; fails where everything has to be tested.
fn promtool() -> bool {
    let there = Command::new("promtool").arg("--version").output().is_ok();
    assert!(there || std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "no promtool: tools/setup.sh test");
    there
}

/// A gateway with accounts and caps in a folder, after one request.
async fn gateway(folder: &Path) -> Running {
    let objects = objects().await;
    let more = format!(
        "[accounts]\nurl = \"{}/accounts.db\"\n[caps]\nmonth = {{ volume = \"1 GB\" }}\nall = {{ daily = \"2 GB\" }}\n",
        folder.display()
    );
    let gateway = Running::start(&[objects.port()], &more).await;
    assert_eq!(gateway.status(&format!("http://{objects}/1000")).await, 200);
    gateway
}

/// Its metrics.
async fn metrics() -> String {
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path()).await;
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
    let dashboard: Value = serde_json::from_str(&text).unwrap();
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

/// The queries of a dashboard, with the titles of their panels.
fn queries(dashboard: &Value) -> impl Iterator<Item = (&str, &str)> {
    dashboard["panels"].as_array().unwrap().iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().unwrap().iter();
        targets.map(|target| (panel["title"].as_str().unwrap(), target["expr"].as_str().unwrap()))
    })
}

/// Each query of the dashboard as a rule, which Prometheus' checker reads.
#[test]
fn queries_and_alerts_are_read_by_prometheus() {
    if !promtool() {
        return eprintln!("skipped: no promtool (apt-get install prometheus)");
    }
    let text = std::fs::read_to_string(packaged("grafana/leeway-gateway.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let rules: Vec<_> = queries(&dashboard)
        .map(|(_, query)| query.replace("$__rate_interval", "1m"))
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

/// Debian's Prometheus, which scrapes a gateway each second until it is dropped.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(folder: &Path, gateway: SocketAddr) -> Prometheus {
        let rules = packaged("prometheus/leeway-gateway.rules.yml");
        let config = serde_json::json!({
            "global": { "scrape_interval": "1s", "evaluation_interval": "1s" },
            "rule_files": [rules],
            "scrape_configs": [{
                "job_name": "leeway-gateway",
                "static_configs": [{ "targets": [gateway.to_string()] }],
            }],
        });
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut program = Command::new("prometheus");
        program.arg(format!("--config.file={}", file.display()));
        program.arg(format!("--storage.tsdb.path={}", folder.join("series").display()));
        // It does not say which port it was given.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        program.arg(format!("--web.listen-address={address}"));
        let log = std::fs::File::create(folder.join("log")).unwrap();
        let child = program.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Prometheus { child, address }
    }

    /// What its interface answers; nothing before it listens.
    async fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(self.address).await.ok()?;
        // HTTP/1.0, so that the body comes in one piece.
        let request = format!("GET /api/v1/{path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await.ok()?;
        let answer = text(&mut stream).await;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    }

    /// The values that a query has now.
    async fn values(&self, query: &str) -> Vec<f64> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let Some(answer) = self.ask(&format!("query?query={encoded}")).await else { return vec![] };
        assert!(answer["status"] == "success" || answer["errorType"] == "unavailable", "{query}: {answer}");
        let Some(result) = answer["data"]["result"].as_array() else { return vec![] };
        result.iter().map(|row| row["value"][1].as_str().unwrap().parse().unwrap()).collect()
    }
}

/// All that a dashboard shows comes out of what a gateway says, by way of a real Prometheus.
#[tokio::test(flavor = "multi_thread")]
async fn every_panel_has_figures_from_a_prometheus_that_scrapes() {
    if Command::new("prometheus").arg("--version").output().is_err() {
        assert!(std::env::var_os("LEEWAY_REQUIRE_ALL").is_none(), "no prometheus: tools/setup.sh test");
        return eprintln!("skipped: no prometheus (apt-get install prometheus)");
    }
    let folder = tempfile::tempdir().unwrap();
    let gateway = gateway(folder.path()).await;
    let prometheus = Prometheus::start(folder.path(), gateway.metrics);
    let until = Instant::now() + PATIENCE;
    // Rates need two scrapes.
    let scrapes = "count_over_time(up{job=\"leeway-gateway\"}[1m])";
    while prometheus.values(scrapes).await.first().is_none_or(|&scrapes| scrapes < 3.0) {
        let log = || std::fs::read_to_string(folder.path().join("log")).unwrap();
        assert!(Instant::now() < until, "{}", log());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(prometheus.values("up{job=\"leeway-gateway\"}").await, [1.0]);
    let text = std::fs::read_to_string(packaged("grafana/leeway-gateway.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    for (panel, query) in queries(&dashboard) {
        // As Grafana fills it in: all gateways, and four scrapes.
        let query = query.replace("$__rate_interval", "1m").replace("$instance", ".*");
        let values = prometheus.values(&query).await;
        // There is no home here, so its speed is not known.
        let unknown = query.contains("home_speed");
        assert!(
            !values.is_empty() && values.iter().all(|value| value.is_finite() || unknown),
            "{panel}: {query}: {values:?}"
        );
    }
    let volume = "leeway_gateway_cap_limit_bytes{cap=\"month\"}";
    assert_eq!(prometheus.values(volume).await, [1e9]);
    let rules = prometheus.ask("rules").await.unwrap();
    let rules = rules["data"]["groups"][0]["rules"].as_array().unwrap();
    assert!(rules.len() >= 6 && rules.iter().all(|rule| rule["health"] != "err"), "{rules:?}");
    let firing: Vec<_> = rules.iter().filter(|rule| rule["state"] == "firing").collect();
    assert!(firing.is_empty(), "{firing:?}");
}
