//! Every law against its formulas in floating point, event by event, over the same events.
//!
//! The bound holds for the whole trajectory and not for a step, so that rounding errors may not
//! add up. It is 1/1000 packet plus 1/10000 of the window, unless a test says otherwise.

#[path = "../common/mod.rs"]
mod common;
mod flower;
mod formula;

use common::drive::{Weather, drive};
use common::{MSS, build};
use formula::*;
use leeway_control::Path;

const ABSOLUTE: f64 = 1e-3;
const RELATIVE: f64 = 1e-4;

/// Events without trouble; with delay, losses, marks and pauses; and with all of these.
fn weathers(seed: u64) -> Vec<Weather> {
    let clear = Weather { seed, ..Weather::default() };
    vec![
        clear,
        Weather { queue_us: 260_000, ..clear },
        Weather { loss: 400, queue_us: 150_000, ..clear },
        Weather { mark: 300, ..clear },
        Weather { pause: 200, queue_us: 120_000, ..clear },
        Weather { loss: 700, timeout: 900, mark: 800, pause: 400, queue_us: 180_000, acks: 8000, ..clear },
    ]
}

fn with<O>(mut oracle: O, set: impl Fn(&mut O)) -> O {
    set(&mut oracle);
    oracle
}

fn compare<O: Oracle>(text: &str, oracle: impl Fn(&Path) -> O, relative: f64) {
    for seed in 1..=4 {
        for weather in weathers(seed) {
            let start = common::path(10);
            let mut law = build(text, &start);
            let mut oracle = oracle(&start);
            let (mut events, mut unsure) = (0, 0);
            drive(&mut law, &weather, |event, path, law| {
                oracle.on_event(event, path);
                events += 1;
                let (is, should) = (law.output().window_bytes_f64(), oracle.window());
                let slow = law.output().ssthresh_bytes as f64;
                if oracle.unsure() {
                    unsure += 1;
                    return oracle.adopt(is, if slow > 1e15 { f64::INFINITY } else { slow });
                }
                let bound = ABSOLUTE * f64::from(MSS) + relative * should;
                assert!(
                    (is - should).abs() <= bound,
                    "{text}, event {events} of {weather:?}: window {is:.3}, by the formula {should:.3}, {event:?}"
                );
                let unset = slow > 1e15 && oracle.ssthresh().is_infinite();
                assert!(
                    unset || (slow - oracle.ssthresh()).abs() <= 1.0 + bound + relative * slow,
                    "{text}, event {events}: ssthresh {slow}, by the formula {}",
                    oracle.ssthresh()
                );
            });
            assert!(events >= 4000 && unsure * 20 < events, "{text}: {unsure} of {events} unsure");
        }
    }
}

#[test]
fn newreno() {
    compare("newreno", |path| NewReno(Window::new(path, 1.0, true)), RELATIVE);
    compare("newreno:slow_start=none", |path| NewReno(Window::new(path, 1.0, false)), RELATIVE);
}

#[test]
fn ledbat() {
    compare("ledbat", Ledbat::new, RELATIVE);
    compare(
        "ledbat:target=25ms,gain_down=10",
        |path| Ledbat { target_us: 25e3, gain_down: 10.0, ..Ledbat::new(path) },
        RELATIVE,
    );
    compare(
        "ledbat:target=5ms,gain_up=0.5,gain_down=3,clamp=on",
        |path| Ledbat { target_us: 5e3, gain_up: 0.5, gain_down: 3.0, clamp: true, ..Ledbat::new(path) },
        RELATIVE,
    );
    compare(
        "ledbat:slow_start=standard,floor=1",
        |path| Ledbat { window: Window::new(path, 1.0, true), ..Ledbat::new(path) },
        RELATIVE,
    );
    compare(
        "ledbat:delay=rtt,base_history=3,base_interval=1s,filter_length=2,target=40ms",
        |path| {
            let mut oracle = Ledbat { target_us: 40e3, ..Ledbat::new(path) };
            oracle.delay.use_rtt = true;
            (oracle.delay.history, oracle.delay.interval_us, oracle.delay.length) = (3, 1_000_000, 2);
            oracle
        },
        RELATIVE,
    );
}

#[test]
fn fledbat() {
    compare("fledbat", FLedbat::new, RELATIVE);
    compare(
        "fledbat:zeta=5,floor=0.05,target=30ms",
        |path| FLedbat {
            zeta: 5.0,
            target_us: 30e3,
            window: Window::new(path, 0.05, false),
            ..FLedbat::new(path)
        },
        RELATIVE,
    );
    compare(
        "fledbat:alpha=2,slow_start=standard",
        |path| FLedbat { alpha: 2.0, window: Window::new(path, 2.0, true), ..FLedbat::new(path) },
        RELATIVE,
    );
}

#[test]
fn vegas() {
    compare("vegas", Vegas::new, RELATIVE);
    compare(
        "vegas:alpha=1,beta=3,sample=mean",
        |path| with(Vegas::new(path), |o| (o.alpha, o.beta, o.mean) = (1.0, 3.0, true)),
        RELATIVE,
    );
}

#[test]
fn nice() {
    compare("nice", Nice::new, RELATIVE);
    compare(
        "nice:threshold=0.1,fraction=0.2",
        |path| with(Nice::new(path), |o| (o.threshold, o.fraction) = (0.1, 0.2)),
        RELATIVE,
    );
}

#[test]
fn lp() {
    compare("lp", Lp::new, RELATIVE);
    compare(
        "lp:indication=ack,threshold=0.4",
        |path| with(Lp::new(path), |o| (o.per_ack, o.threshold) = (true, 0.4)),
        RELATIVE,
    );
}

/// K has a resolution of 1/4096 s, and the cube one of 1/1000 packet.
#[test]
fn cubic() {
    compare("cubic", |path| Cubic::new(path, false), 2e-3);
    compare("cubic:flavour=2010,ack_ratio=exact", |path| Cubic::new(path, true), 2e-3);
    compare(
        "cubic:c=0.04,fast_convergence=off,friendly=off",
        |path| {
            with(Cubic::new(path, false), |o| (o.c, o.fast_convergence, o.friendly) = (0.04, false, false))
        },
        2e-3,
    );
}

#[test]
fn ledbatpp() {
    compare("ledbatpp", LedbatPp::new, RELATIVE);
    compare("ledbatpp:target=20ms", |path| with(LedbatPp::new(path), |o| o.target_us = 20e3), RELATIVE);
    compare(
        "ledbatpp:ramp=scaled,target=40ms",
        |path| with(LedbatPp::new(path), |o| (o.scaled_ramp, o.target_us) = (true, 40e3)),
        RELATIVE,
    );
}

/// Means have 8 fractional bits, memberships 16.
#[test]
fn flower() {
    compare("flower", Flower::new, 1e-3);
    compare(
        "flower:and=product,target=40ms,floor=2",
        |path| with(Flower::new(path), |o| (o.product, o.target, o.window.floor) = (true, 40.0, 2.0)),
        1e-3,
    );
}
