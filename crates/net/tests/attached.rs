//! Addresses and networks that come and go: needs root and `ip`.

use leeway_net::{Attached, Attachment, ip};
use nix::sched::{CloneFlags, unshare};
use std::time::{Duration, Instant};

/// Waits until the address has this owner.
fn becomes(attached: &Attached, address: &str, what: Option<Attachment>) {
    let start = Instant::now();
    while attached.of(address.parse().unwrap()) != what {
        assert!(start.elapsed() < Duration::from_secs(20), "{address} is not {what:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn what_is_added_later_belongs_to_the_host_from_then_on() {
    let possible = unshare(CloneFlags::CLONE_NEWNET).is_ok();
    let all = std::env::var("LEEWAY_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(possible || !all, "LEEWAY_REQUIRE_ALL=1, but this test lacks root");
    if !possible {
        return eprintln!("skipped: this test lacks root");
    }
    ip("link set lo up\nlink add lan type veth peer name far\nlink set lan up\nlink set far up\n\
        addr add 9.1.0.5/24 dev lan\n")
    .unwrap();
    let attached = Attached::follow(|_| {}).unwrap();
    let of = |address: &str| attached.of(address.parse().unwrap());
    let (own, on_link) = (Some(Attachment::Own), Some(Attachment::OnLink));
    assert_eq!(of("9.1.0.5"), own);
    assert_eq!(of("::ffff:9.1.0.5"), own);
    assert_eq!(of("9.1.0.6"), on_link);
    assert_eq!(of("9.1.1.6"), None);
    assert_eq!(of("2a00:1::6"), None);

    // As added by DHCP, by privacy extensions, and by PPPoE with the provider at the other end.
    ip("addr add 9.2.0.5/24 dev lan\naddr add 2a00:1::5/64 dev lan nodad\n\
        addr add 9.3.0.5 peer 9.3.0.9/32 dev lan\n")
    .unwrap();
    for (address, what) in [
        ("9.2.0.5", own),
        ("9.2.0.6", on_link),
        ("2a00:1::5", own),
        ("2a00:1::6", on_link),
        ("9.3.0.5", own),
        ("9.3.0.9", on_link),
        ("9.3.0.6", None),
        ("2a00:1:0:1::6", None),
    ] {
        becomes(&attached, address, what);
    }

    // A prefix of a router's advertisement in which this host has no address, a prefix that was
    // delegated to this host, and a route by a router.
    ip(
        "route add 2a00:2::/64 dev lan\nroute add unreachable 2a00:3::/56\nroute add 9.4.0.0/16 via 9.1.0.1\n\
        route add default via 9.1.0.1\nroute add 2a00:4::/48 via 2a00:1::1\n",
    )
    .unwrap();
    becomes(&attached, "2a00:2::7", on_link);
    becomes(&attached, "2a00:3:0:7::7", on_link);
    assert_eq!([of("9.4.0.1"), of("2a00:4::1"), of("9.9.9.9")], [None; 3]);

    ip("addr del 9.2.0.5/24 dev lan\nlink add gone type veth peer name fargone\nlink set gone up\n\
        addr add 9.5.0.5/24 dev gone\n")
    .unwrap();
    becomes(&attached, "9.2.0.6", None);
    becomes(&attached, "9.5.0.6", on_link);
    ip("link del gone\n").unwrap();
    becomes(&attached, "9.5.0.5", None);
}
