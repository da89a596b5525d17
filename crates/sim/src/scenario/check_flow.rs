//! Checks a flow group.

use super::check::{at_most, between, bounded, dist, entries, positive, within};
use super::error::Problem;
use super::{App, Dist, FieldPath, FlowGroup, Scenario, Tcp, limits};
use crate::packet::Packet;
use leeway_units::{Bytes, Duration, Rate, Size, Time};

type Checked = Result<(), Problem>;

/// Checks the group at `at`. `limited`: whether some channel of its route has a limited rate.
pub(super) fn check(at: &FieldPath, group: &FlowGroup, scenario: &Scenario, limited: bool) -> Checked {
    between(at.key("count"), group.count.into(), 1, limits::FLOWS)?;
    between(at.key("flows_per_user"), group.flows_per_user.into(), 1, limits::FLOWS)?;
    check_times(at, group, scenario.duration)?;
    if group.packet > limits::PACKET || group.header.get() < 1 || group.header >= group.packet {
        let (packet, header) = (group.packet, group.header);
        return Err(Problem::new(at.key("packet"), format!("packets of {packet} with headers of {header}"))
            .help(format!("a packet is larger than its header and at most {}", limits::PACKET)));
    }
    between(at.key("class"), group.class.into(), 0, Packet::MAX_CLASS.into())?;
    if let Some(delay) = &group.access_delay {
        dist(&at.key("access_delay"), delay, limits::DELAY)?;
    }
    match group.access_rate {
        Some(rate) if rate == Rate::ZERO || rate > limits::RATE => {
            return Err(Problem::new(at.key("access_rate"), format!("{rate} is out of bounds"))
                .help(format!("above zero and at most {}", limits::RATE)));
        }
        Some(rate) if !limited => {
            let packets = rate.bits_per_sec() as f64 / group.packet.bits() as f64;
            let packets = packets * f64::from(group.count) * scenario.duration.secs_f64();
            bounded(at.key("access_rate"), packets, limits::PACKETS, "packets in the duration")?;
        }
        None if !limited && !matches!(group.app, App::Voice { .. }) => {
            return Err(Problem::new(at.clone(), format!("nothing limits the rate of `{}`", group.name))
                .help("give a channel on its way a `rate`, or the group an `access_rate`"));
        }
        _ => {}
    }
    for (field, clock) in [("sender_clock", group.sender_clock), ("receiver_clock", group.receiver_clock)] {
        if !(-10_000.0..=10_000.0).contains(&clock.skew_ppm) {
            return Err(Problem::new(
                at.key(field).key("skew_ppm"),
                format!("{} is out of bounds", clock.skew_ppm),
            )
            .help("from -10000 to 10000 (one per cent)"));
        }
    }
    check_app(&at.key("app"), group, scenario.duration)?;
    check_tcp(&at.key("tcp"), group, &group.tcp.resolve(scenario.profile))
}

fn check_times(at: &FieldPath, group: &FlowGroup, duration: Duration) -> Checked {
    let end = Time::ZERO + duration;
    let start = group.start_times(duration);
    dist(&at.key("start"), &start, end)?;
    if start.min() >= end {
        return Err(Problem::new(at.key("start"), "it never starts")
            .help(format!("the run ends at {duration}; start before that")));
    }
    at_most(at.key("stagger"), group.stagger, limits::DURATION)?;
    if let Some(stop) = group.stop {
        within(at.key("stop"), stop, duration)?;
        if stop <= start.min() {
            return Err(Problem::new(at.key("stop"), format!("it stops at {stop}, before it starts")));
        }
    }
    entries(&at.key("intervals"), group.intervals.len(), limits::ENTRIES)?;
    if !group.intervals.is_empty() && group.app != App::Bulk {
        return Err(Problem::new(at.key("intervals"), "only a bulk flow has intervals")
            .help("leave `intervals` out, or make it `app = { kind = \"bulk\" }`"));
    }
    let mut before = Time::ZERO;
    for (i, &[from, to]) in group.intervals.iter().enumerate() {
        if from < before || to <= from {
            return Err(Problem::new(
                at.key("intervals").index(i),
                format!("[{from}, {to}] is out of order"),
            )
            .help("each interval begins where the one before it ended, or later, and ends after it begins"));
        }
        before = to;
    }
    Ok(())
}

fn check_app(at: &FieldPath, group: &FlowGroup, duration: Duration) -> Checked {
    let seconds = duration.secs_f64() * f64::from(group.count);
    let size_limit = Bytes::new(1_000_000_000_000);
    match &group.app {
        App::Bulk | App::Peer { .. } => Ok(()),
        App::Transfer { size, count, gap } => {
            dist(&at.key("size"), size, size_limit)?;
            something(&at.key("size"), size)?;
            at_most(at.key("gap"), *gap, limits::DURATION)?;
            between(at.key("count"), (*count).into(), 1, 1_000_000)?;
            let transfers = f64::from(*count) * f64::from(group.count);
            bounded(at.key("count"), transfers, limits::TRANSFERS, "transfers")
        }
        App::OnOff { on, off } => {
            dist(&at.key("on"), on, limits::DURATION)?;
            dist(&at.key("off"), off, limits::DURATION)?;
            let period = (on.mean() + off.mean()) * 1e-9;
            bounded(at.key("on"), seconds / period, limits::TRANSFERS, "busy periods")
        }
        App::Poisson { arrivals_per_s, size } => {
            dist(&at.key("size"), size, size_limit)?;
            something(&at.key("size"), size)?;
            if arrivals_per_s.is_nan() || *arrivals_per_s <= 0.0 {
                return Err(Problem::new(
                    at.key("arrivals_per_s"),
                    format!("{arrivals_per_s} arrivals per second"),
                )
                .help("a number above zero"));
            }
            bounded(at.key("arrivals_per_s"), arrivals_per_s * seconds, limits::TRANSFERS, "transfers")
        }
        App::Request { size, request, think } => {
            dist(&at.key("size"), size, size_limit)?;
            something(&at.key("size"), size)?;
            dist(&at.key("think"), think, limits::DURATION)?;
            let most = group.packet - group.header;
            between(at.key("request"), request.get(), 1, most.get())
        }
        App::Voice { .. } => bounded(at.clone(), seconds * 50.0, limits::PACKETS / 10.0, "datagrams"),
    }
}

/// Checks that there is something to transfer. Draws below one byte are sent as one byte.
fn something(at: &FieldPath, size: &Dist<Bytes>) -> Checked {
    match size.mean() == 0.0 {
        true => Err(Problem::new(at.clone(), "there is nothing to transfer").help("1 B or more")),
        false => Ok(()),
    }
}

fn check_tcp(at: &FieldPath, group: &FlowGroup, tcp: &Tcp) -> Checked {
    between(at.key("dupthresh"), tcp.dupthresh.into(), 1, 1_000)?;
    between(at.key("initial_window"), tcp.initial_window.into(), 1, 10_000)?;
    if let Some(delayed) = tcp.delayed_ack {
        let at = at.key("delayed_ack");
        between(at.key("every"), delayed.every.into(), 1, 1_000)?;
        positive(at.key("timeout"), delayed.timeout)?;
        at_most(at.key("timeout"), delayed.timeout, Duration::from_secs(10))?;
    }
    let window = match tcp.receive_window {
        Size::Unlimited => u64::MAX,
        Size::Packets(n) => u64::from(n).saturating_mul(group.packet.get()),
        Size::Bytes(bytes) => bytes.get(),
        Size::Bdp(_) => {
            return Err(Problem::new(at.key("receive_window"), "a receiver does not know the path's BDP")
                .help("give packets or bytes, or \"unlimited\""));
        }
    };
    if window < group.packet.get() {
        return Err(Problem::new(at.key("receive_window"), "no packet fits")
            .help(format!("at least one of {}", group.packet)));
    }
    let granularity = tcp.rto_granularity;
    positive(at.key("rto_granularity"), granularity)?;
    at_most(at.key("rto_granularity"), granularity, Duration::from_secs(10))?;
    at_most(at.key("overhead"), tcp.overhead, Duration::from_secs(10))?;
    at_most(at.key("timestamp_resolution"), tcp.timestamp_resolution, Duration::from_secs(10))?;
    at_most(at.key("max_rto"), tcp.max_rto, limits::DELAY)?;
    let least = Duration::from_millis(1);
    for (field, span) in [("min_rto", tcp.min_rto), ("initial_rto", tcp.initial_rto)] {
        if span < least || span > tcp.max_rto {
            return Err(Problem::new(at.key(field), format!("{span} is out of bounds"))
                .help(format!("from {least} to `max_rto`, which is {}", tcp.max_rto)));
        }
    }
    Ok(())
}

/// Size of the smallest packets that a group sends, as far as its application tells. It bounds the
/// number of packets that a rate can carry.
pub(super) fn smallest_packet(scenario: &Scenario) -> Bytes {
    let typical = |group: &FlowGroup| {
        let payload = match &group.app {
            App::Transfer { size, .. } | App::Poisson { size, .. } => size.mean(),
            App::Request { size, request, .. } => size.mean().min(request.get() as f64),
            App::Bulk | App::OnOff { .. } | App::Voice { .. } | App::Peer { .. } => f64::INFINITY,
        };
        group.packet.min(group.header + Bytes::new(payload.max(1.0) as u64))
    };
    scenario.flow.iter().map(typical).min().unwrap_or(Bytes::new(1500))
}
