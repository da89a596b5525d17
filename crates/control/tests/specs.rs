//! Laws by name: accepted texts, the laws that they select, and the words of errors.

use leeway_control::{Ack, LawError, LawSpec, Path, laws};
use proptest::prelude::*;

fn parse(text: &str) -> Result<LawSpec, LawError> {
    text.parse()
}

fn error(text: &str) -> String {
    parse(text).expect_err(text).to_string()
}

#[test]
fn only_what_differs_is_shown() {
    for (text, shown) in [
        ("ledbat", "ledbat"),
        ("ledbat:target=100ms", "ledbat"),
        ("ledbat:gain_down=10,target=5ms", "ledbat:target=5ms,gain_down=10"),
        (" ledbat : target = 0.1 s , gain_down = 10.50", "ledbat:gain_down=10.5"),
        ("ledbat:target=1500us", "ledbat:target=1.5ms"),
        ("flower:and=product,floor=2", "flower:and=product,floor=2"),
        ("fledbat:zeta=5,floor=0.02", "fledbat:zeta=5,floor=0.02"),
        ("fledbat:zeta=0.0001,alpha=1.000001", "fledbat:alpha=1.000001,zeta=0.0001"),
        ("newreno:ssthresh=unlimited", "newreno"),
        ("newreno:ssthresh=64", "newreno:ssthresh=64"),
        (
            "ledbat:base_history=0,filter_length=1,target=25ms,floor=1",
            "ledbat:target=25ms,floor=1,base_history=0,filter_length=1",
        ),
    ] {
        let spec = parse(text).expect(text);
        assert_eq!(spec.to_string(), shown);
        assert_eq!(parse(shown).expect(shown), spec);
        assert_eq!(format!("{spec:?}"), format!("LawSpec({shown})"));
    }
    assert_eq!(format!("[{:>12}]", parse("ledbat").expect("known")), "[      ledbat]");
}

#[test]
fn errors_say_what_would_be_right() {
    assert_eq!(
        error("bbr1"),
        "there is no law \"bbr1\"; there are: newreno, cubic, bbr, vegas, nice, lp, ledbat, fledbat, ledbatpp, flower, proteus, flexis, ebb"
    );
    assert_eq!(
        error("newreno:target=5ms"),
        "newreno has no parameter \"target\"; it has: beta, floor, slow_start, ssthresh, abc_limit"
    );
    assert_eq!(
        error("ledbat:target=fast"),
        "ledbat: target=fast is not a duration in whole microseconds, such as 5ms"
    );
    assert_eq!(
        error("ledbat:target=5ns"),
        "ledbat: target=5ns is not a duration in whole microseconds, such as 5ms"
    );
    assert_eq!(error("ledbat:target=11s"), "ledbat: target=11s is outside 100us to 10s");
    assert_eq!(error("ledbat:target=2h"), "ledbat: target=2h is outside 100us to 10s");
    assert_eq!(error("ledbat:gain_up=0"), "ledbat: gain_up=0 is outside 0.001 to 100");
    assert_eq!(error("ledbat:gain_up=0.0001"), "ledbat: gain_up=0.0001 is outside 0.001 to 100");
    assert_eq!(
        error("fledbat:zeta=0.0000001"),
        "fledbat: zeta=0.0000001 is not a number with at most six decimals, such as 0.0001 or 10"
    );
    assert_eq!(
        error("newreno:beta=0.5001"),
        "newreno: beta=0.5001 is not a number with at most three decimals, such as 0.1 or 10"
    );
    assert_eq!(
        error("ledbat:floor=unlimited"),
        "ledbat: floor=unlimited is not a number of packets with at most three decimals, such as 2 or 0.02"
    );
    assert_eq!(
        error("newreno:ssthresh=many"),
        "newreno: ssthresh=many is not a number of packets or \"unlimited\""
    );
    assert_eq!(error("newreno:ssthresh=0.5"), "newreno: ssthresh=0.5 is outside 1 to unlimited");
    assert_eq!(error("newreno:abc_limit=2.5"), "newreno: abc_limit=2.5 is not a whole number");
    assert_eq!(
        error("newreno:abc_limit=999999999999999999"),
        "newreno: abc_limit=999999999999999999 is outside 1 to 255"
    );
    assert_eq!(error("flower:and=or"), "flower: and=or is not one of minimum, product");
    assert_eq!(error("ledbat:target=5ms,target=6ms"), "ledbat: target is given twice");
    for text in ["ledbat:", "ledbat:target", "ledbat:target=5ms,", "ledbat:,"] {
        assert_eq!(
            error(text),
            format!(
                "{text:?} is not a law with parameters, such as \"ledbat\" or \"ledbat:target=5ms,gain_down=10\""
            )
        );
    }
    for text in ["", ":", "LEDBAT", "ledbat target=5ms"] {
        assert!(matches!(parse(text), Err(LawError::UnknownLaw { .. })), "{text}");
    }
    for text in [
        "ledbat:gain_up=",
        "ledbat:gain_up=.5",
        "ledbat:gain_up=1.",
        "ledbat:gain_up=+1",
        "ledbat:gain_up=-1",
        "ledbat:gain_up=1e3",
    ] {
        assert!(matches!(parse(text), Err(LawError::BadValue { .. })), "{text}");
    }
}

#[test]
fn values_are_set_and_read_by_name() {
    let mut spec = LawSpec::new("nice").expect("known");
    spec.set("fraction", "0.2").expect("in range");
    let spec = spec.with("slow_start", "none").expect("a choice");
    assert_eq!(
        (spec.get("fraction").expect("known"), spec.get("threshold").expect("known")),
        ("0.2".into(), "0.2".into())
    );
    assert_eq!((spec.name(), spec.law().name), ("nice", "nice"));
    assert!(spec.get("nothing").is_err() && spec.clone().with("nothing", "1").is_err());
    assert_eq!(spec, parse("nice:slow_start=none,fraction=0.2").expect("known"));
    assert_ne!(spec, LawSpec::new("nice").expect("known"));
    assert_ne!(LawSpec::new("vegas"), LawSpec::new("nice"));
}

/// The table of laws is consistent.
#[test]
fn the_table_is_sound() {
    let mut names: Vec<_> = laws().iter().map(|law| law.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 13);
    for law in laws() {
        assert!(law.state_bytes <= 512, "{}: {}", law.name, law.state_bytes);
        for param in &law.params {
            let text = format!("{}.{}", law.name, param.name);
            assert!((param.min..=param.max).contains(&param.default), "{text}");
            assert!(!param.doc.is_empty() && !param.source.is_empty(), "{text}");
            assert!(!param.doc.ends_with('.') && param.doc.len() < 110, "{text}: {}", param.doc);
            assert_eq!(law.params.iter().filter(|other| other.name == param.name).count(), 1, "{text}");
            for raw in [param.min, param.default, param.max] {
                let set = LawSpec::new(law.name).expect("listed").with(param.name, &param.show(raw));
                assert_eq!(set.expect("in range").get(param.name).expect("known"), param.show(raw), "{text}");
            }
        }
        assert!(law.param("slow_start").is_some() && law.param("floor").is_some());
        assert!(law.param("").is_none());
    }
}

/// Each parameter reaches the law: no two parameters share a word, and each one changes something.
#[test]
fn every_parameter_has_its_own_word() {
    for law in laws() {
        for param in &law.params {
            let other = if param.default == param.max { param.min } else { param.max };
            let changed = LawSpec::new(law.name)
                .expect("listed")
                .with(param.name, &param.show(other))
                .expect("in range");
            let differing: Vec<_> = law
                .params
                .iter()
                .filter(|p| changed.get(p.name).expect("known") != p.show(p.default))
                .collect();
            assert_eq!(differing.len(), 1, "{}.{}", law.name, param.name);
        }
    }
}

#[test]
fn every_law_is_driven_the_same_way() {
    let path = Path { mss_bytes: 1000, initial_window_bytes: 4000, ..Path::default() };
    for info in laws() {
        let mut law = LawSpec::new(info.name).expect("listed").build(&path);
        law.on_ack(
            &Ack { acked_bytes: 1000, rtt_us: 1000, prior_inflight_bytes: 4000, ..Ack::default() },
            &path,
        );
        assert!(law.window_bytes() >= 4000, "{}", law.name());
        assert_eq!(law.output().pacing_bytes_per_s, 0);
        let mut probes = 0;
        law.probe(&mut |info, value| {
            assert!(!info.name.is_empty() && value.is_finite());
            probes += 1;
        });
        assert!(probes > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_answered(text in "[a-z:=,. 0-9_]{0,40}") {
        if let Ok(spec) = parse(&text) {
            prop_assert_eq!(parse(&spec.to_string()), Ok(spec));
        }
    }

    #[test]
    fn specifications_survive_their_text(law in 0..9usize, values in prop::collection::vec((any::<u16>(), any::<u32>()), 0..5)) {
        let law = &laws()[law];
        let mut spec = LawSpec::new(law.name).expect("listed");
        for (which, raw) in values {
            let param = &law.params[usize::from(which) % law.params.len()];
            let raw = param.min + (u64::from(raw) % (u64::from(param.max - param.min) + 1)) as u32;
            spec.set(param.name, &param.show(raw)).expect("in range");
        }
        prop_assert_eq!(parse(&spec.to_string()), Ok(spec));
    }
}

#[cfg(feature = "serde")]
#[test]
fn specifications_are_text_in_files() {
    let spec = parse("ledbat:target=5ms").expect("known");
    let json = serde_json::to_string(&spec).expect("serialises");
    assert_eq!(json, "\"ledbat:target=5ms\"");
    assert_eq!(serde_json::from_str::<LawSpec>(&json).expect("reads"), spec);
    let error = serde_json::from_str::<LawSpec>("\"bbr1\"").expect_err("unknown").to_string();
    assert!(error.contains("there are: newreno"), "{error}");
}
