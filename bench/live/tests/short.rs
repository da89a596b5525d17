//! One case in a few seconds, so that the campaign cannot rot: root, namespaces, a kernel with
//! BTF.

use leeway_live::case::{BASE, Beside, Case, Network, Schedule};
use leeway_live::laws::Laws;
use leeway_live::{live, simulated};
use std::path::Path;

/// Whether it can run; says why not, and fails where everything has to be tested.
fn possible() -> bool {
    let missing = if !rustix::process::geteuid().is_root() {
        "root"
    } else if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        "a kernel with BTF"
    } else if !Path::new("/dev/net/tun").exists() {
        "/dev/net/tun"
    } else {
        return true;
    };
    assert!(std::env::var("LEEWAY_REQUIRE_ALL").as_deref() != Ok("1"), "this test needs {missing}");
    eprintln!("skipped: this test needs {missing}");
    false
}

#[test]
fn a_background_flow_uses_the_link_and_yields_as_simulated() {
    if !possible() {
        return;
    }
    let law = "ledbat:target=25ms";
    let mut case = Case::new(BASE, Some(law), Beside::Cubic);
    case.schedule =
        Schedule { alone_s: 6.0, beside_s: 7.0, after_s: 2.0, alone_from_s: 4.0, beside_from_s: 3.0 };
    let laws = Laws::load([law]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let live = live::run(&case, &laws, folder.path()).unwrap();
    let simulated = simulated::run(&case, 1).unwrap().expect("the simulator has both laws");
    eprintln!("live {live:?}\nsimulated {simulated:?}");
    for figures in [live.figures, simulated] {
        assert!(figures.alone.unwrap() > 0.8, "{figures:?}");
        assert!((10.0..60.0).contains(&figures.alone_p50_ms.unwrap()), "{figures:?}");
        assert!(figures.primary.unwrap() > figures.background.unwrap(), "{figures:?}");
    }
}

/// Their windows fall to one segment, whose acknowledgement waits for the receiver's timer: 40 ms,
/// which would look like a queue for ever. A busy machine looks like a queue as well, for a while.
#[test]
fn laws_with_a_window_of_one_segment_do_not_stand_still() {
    if !possible() {
        return;
    }
    let names = ["flower:target=25ms", "lp"];
    let laws = Laws::load(names).unwrap();
    for law in names {
        let mut case = Case::new(Network { rtt_ms: 20, ..BASE }, Some(law), Beside::Cubic);
        case.schedule =
            Schedule { alone_s: 10.0, beside_s: 0.5, after_s: 0.5, alone_from_s: 3.0, beside_from_s: 0.1 };
        let simulated = simulated::run(&case, 1).unwrap().expect("the simulator has both laws");
        assert!(simulated.alone.unwrap() > 0.5, "{law}: {simulated:?}");
        let folder = tempfile::tempdir().unwrap();
        let mut live = || live::run(&case, &laws, folder.path()).unwrap().figures.alone.unwrap();
        let shares: Vec<f64> = (0..4).map(|_| live()).take_while(|share| *share < 0.5).collect();
        assert!(shares.len() < 4, "{law} stands still: {shares:?} of the link, simulated {simulated:?}");
    }
}
