//! The metrics of the gateway in the text format of Prometheus: bytes of each user, and the
//! state of the windows.

use crate::budget::State;
use crate::control::Volume;
use crate::gate::Gate;
use crate::home_speed::{Compared, HomeSpeed};
use crate::relay::Relay;
use crate::upstream::Connector;
use crate::users::{Counts, Users};
use leeway_accounts::ledger::Direction;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longest time for reading the request and sending the response.
const PATIENCE: Duration = Duration::from_secs(5);

/// The metrics in Prometheus' text format. The label `path` of a window says what shares the
/// window: downloads that come directly (`direct`) or through the relay (`relay`), or everything
/// that is sent directly (`uplink`).
pub fn text(users: &Users, windows: &[(&str, State)], relay: Option<&Relay>) -> String {
    let mut text = users_text(users);
    windows_text(&mut text, windows);
    let mut gauge = |name: &str, help: &str, value: f64| {
        head(&mut text, "gauge", name, help);
        let _ = writeln!(text, "{name} {value}");
    };
    gauge("leeway_gateway_connections", "Connections of clients.", users.connections() as f64);
    if let Some(relay) = relay {
        let up = f64::from(u8::from(relay.turn().is_some()));
        gauge("leeway_gateway_relay_up", "Whether connections go through the relay.", up);
        if let Some(steering) = relay.steering() {
            gauge(
                "leeway_gateway_relay_upload_window_bytes",
                "The window of what is sent to the relay.",
                steering.line.window_bytes as f64,
            );
            let seconds = f64::from(steering.line.queuing_us) / 1e6;
            gauge(
                "leeway_gateway_relay_upload_queuing_delay_seconds",
                "The estimate of the queue by that window's law.",
                seconds,
            );
        }
    }
    text
}

/// The counters of users, and of refused log-ins.
fn users_text(users: &Users) -> String {
    type Count = fn(&Counts) -> &AtomicU64;
    let counts: [(&str, &str, Count); 4] = [
        ("leeway_gateway_down_bytes_total", "Bytes from the Internet.", |counts| &counts.down_bytes),
        ("leeway_gateway_up_bytes_total", "Bytes to the Internet.", |counts| &counts.up_bytes),
        ("leeway_gateway_requests_total", "Requests and tunnels.", |counts| &counts.requests),
        ("leeway_gateway_refused_total", "Refused by the policy or a limit.", |counts| &counts.refused),
    ];
    let mut text = String::new();
    for (name, help, count) in counts {
        head(&mut text, "counter", name, help);
        users.visit(|user, counts| {
            let value = count(counts).load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}{{user=\"{}\"}} {value}", escaped(user));
        });
    }
    let (wrong, slowed) = users.refused_logins();
    for (name, help, value) in [
        ("leeway_gateway_wrong_logins_total", "Log-ins with a wrong name or password.", wrong),
        (
            "leeway_gateway_slowed_logins_total",
            "Log-ins refused without a check, after too many wrong ones.",
            slowed,
        ),
    ] {
        head(&mut text, "counter", name, help);
        let _ = writeln!(text, "{name} {value}");
    }
    text
}

/// Adds the readings of each window.
fn windows_text(text: &mut String, windows: &[(&str, State)]) {
    type Reading = fn(&State) -> f64;
    let readings: [(&str, &str, &str, Reading); 6] = [
        ("gauge", "leeway_gateway_window_bytes", "The window that is shared.", |state| {
            state.window_bytes as f64
        }),
        (
            "gauge",
            "leeway_gateway_outstanding_bytes",
            "Bytes requested or sent that have not arrived yet.",
            |state| state.outstanding_bytes as f64,
        ),
        ("gauge", "leeway_gateway_queuing_delay_seconds", "The law's estimate of the queue.", |state| {
            f64::from(state.queuing_delay_us) / 1e6
        }),
        ("gauge", "leeway_gateway_rtt_seconds", "Smoothed round-trip time.", |state| {
            f64::from(state.srtt_us) / 1e6
        }),
        ("gauge", "leeway_gateway_waiting_flows", "Flows that wait for their turn.", |state| {
            state.waiting as f64
        }),
        (
            "counter",
            "leeway_gateway_yielded_seconds_total",
            "Time that flows have yielded to the home.",
            |state| state.yielded_us as f64 / 1e6,
        ),
    ];
    for (kind, name, help, reading) in readings.iter().filter(|_| !windows.is_empty()) {
        head(text, kind, name, help);
        for (path, state) in windows {
            let _ = writeln!(text, "{name}{{path=\"{path}\"}} {}", reading(state));
        }
    }
}

/// Number of refusals of each of the owner's blocklists.
fn lists(connector: &Connector) -> String {
    let (mut text, name) = (String::new(), "leeway_gateway_blocked_total");
    head(&mut text, "counter", name, "Requests and datagrams that a list of the owner refused.");
    for (list, count) in connector.blocked() {
        let _ = writeln!(text, "{name}{{list=\"{}\"}} {count}", list.name());
    }
    text
}

/// The home's speed with and without neighbours; NaN as long as it is not known.
fn home(speed: &HomeSpeed) -> String {
    type Reading = (&'static str, fn(&Compared) -> Option<f64>);
    let readings: [(&str, &str, &[Reading]); 3] = [
        (
            "leeway_gateway_home_speed_bytes_per_second",
            "Median speed of the home's transfers while neighbours use the line, and while none does.",
            &[
                (",neighbours=\"active\"", |way| Some(way.with_bps? / 8.0)),
                (",neighbours=\"idle\"", |way| Some(way.without_bps? / 8.0)),
            ],
        ),
        (
            "leeway_gateway_home_speed_ratio",
            "Median of the speed while neighbours use the line over the speed while none does.",
            &[("", |way| way.ratio)],
        ),
        (
            "leeway_gateway_home_speed_pairs",
            "Pairs of the home's transfers that were compared.",
            &[("", |way| Some(way.pairs as f64))],
        ),
    ];
    let mut text = String::new();
    for (name, help, readings) in readings {
        head(&mut text, "gauge", name, help);
        for (direction, way) in [("down", &speed.down), ("up", &speed.up)] {
            for (label, reading) in readings {
                let value = reading(way).unwrap_or(f64::NAN);
                let _ = writeln!(text, "{name}{{direction=\"{direction}\"{label}}} {value}");
            }
        }
    }
    text
}

/// What limits neighbours besides the law: a pause, and the caps. Also counts the home's bytes.
fn gate(gate: &Gate) -> String {
    let mut text = String::new();
    let alone = |value: bool| [(String::new(), u64::from(value))];
    let paused = alone(gate.pause().is_some());
    gauge(&mut text, "leeway_gateway_paused", "Whether the owner has paused sharing.", &paused);
    let Some(meter) = gate.meter() else { return text };
    let up = alone(meter.state() == Some(leeway_accounts::ledger::State::Current));
    let help = "Whether the counts of the accounts can be stored.";
    gauge(&mut text, "leeway_gateway_accounts_up", help, &up);
    let (name, bytes) = ("leeway_gateway_home_bytes_total", meter.home_bytes());
    head(&mut text, "counter", name, "Bytes of the home, where its packets pass this machine.");
    for direction in Direction::ALL {
        let value = bytes[direction as usize];
        let _ = writeln!(text, "{name}{{direction=\"{}\"}} {value}", direction.name());
    }
    let volumes: Vec<Volume> = meter.volumes().into_iter().map(Volume::of).collect();
    let of = |value: fn(&Volume) -> u64| -> Vec<(String, u64)> {
        volumes.iter().map(|volume| (format!("{{cap=\"{}\"}}", volume.cap), value(volume))).collect()
    };
    if !volumes.is_empty() {
        let help = "What neighbours have used of a volume.";
        gauge(&mut text, "leeway_gateway_cap_used_bytes", help, &of(|volume| volume.used_bytes));
        let help = "What neighbours may use of a volume.";
        gauge(&mut text, "leeway_gateway_cap_limit_bytes", help, &of(|volume| volume.limit_bytes));
    }
    text
}

fn gauge(text: &mut String, name: &str, help: &str, values: &[(String, u64)]) {
    head(text, "gauge", name, help);
    for (labels, value) in values {
        let _ = writeln!(text, "{name}{labels} {value}");
    }
}

fn head(text: &mut String, kind: &str, name: &str, help: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// The windows that neighbours share, each with its label `path`.
pub fn windows(connector: &Connector) -> Vec<(&'static str, State)> {
    [("direct", &connector.budget), ("relay", &connector.relay_budget)]
        .into_iter()
        .filter_map(|(path, budget)| Some((path, budget.as_ref()?.state())))
        .chain(connector.upload.as_ref().map(|upload| ("uplink", upload.state())))
        .collect()
}

/// Answers one request, whatever it asks for, with the metrics.
pub async fn serve(mut stream: TcpStream, connector: &Connector, users: &Users) {
    let answered = async {
        let mut request = [0; 2048];
        let mut length = 0;
        while length < request.len() && !request[..length].windows(4).any(|window| window == b"\r\n\r\n") {
            match stream.read(&mut request[length..]).await? {
                0 => break,
                bytes => length += bytes,
            }
        }
        let mut body = text(users, &windows(connector), connector.relay.as_deref());
        body += &lists(connector);
        body += &home(&connector.speedometer.speed());
        body += &gate(&connector.gate);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await?;
        stream.shutdown().await
    };
    // The result is ignored: the client has gone, or is too slow.
    let _ = tokio::time::timeout(PATIENCE, answered).await;
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;
    use crate::config::Config;

    #[test]
    fn what_prometheus_reads() {
        let users = Users::new(&Config::default(), None);
        let user = users.at("10.0.0.7".parse().unwrap());
        user.counts.down_bytes.fetch_add(12_500, Ordering::Relaxed);
        let paths = ["direct", "relay"].map(|path| (path, Budget::new(&"ledbat".parse().unwrap()).state()));
        let text = text(&users, &paths, None);
        for line in [
            "leeway_gateway_down_bytes_total{user=\"10.0.0.7\"} 12500",
            "leeway_gateway_window_bytes{path=\"direct\"} 5840",
            "leeway_gateway_window_bytes{path=\"relay\"} 5840",
            "# TYPE leeway_gateway_yielded_seconds_total counter",
            "leeway_gateway_yielded_seconds_total{path=\"direct\"} 0",
            "leeway_gateway_connections 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        assert!(lines.clone().all(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok()), "{text}");
    }
}
