//! The text form of queues.

mod common;

use leeway_queue::{QueueSpec, SpecError, disciplines};

#[test]
fn text_goes_round() {
    for text in common::ALL {
        let spec: QueueSpec = text.parse().unwrap();
        let shown = spec.to_string();
        assert_eq!(shown.parse::<QueueSpec>().unwrap(), spec, "{text} shown as {shown}");
        assert_eq!(spec.name(), text.split(':').next().unwrap());
    }
    let spaced: QueueSpec = " codel : target = 7 ms , ecn = true , ".parse().unwrap();
    assert_eq!(spaced.to_string(), "codel:target=7ms,ecn=true");
    assert_eq!("codel:target=5ms".parse::<QueueSpec>().unwrap().to_string(), "codel");
    assert_eq!("red:max_p=7%".parse::<QueueSpec>().unwrap().to_string(), "red:max_p=0.07");
    assert_eq!(
        "red:min=2.5pkt,max=33.3%".parse::<QueueSpec>().unwrap().to_string(),
        "red:min=2.5pkt,max=33.3%"
    );
    let text = "borrowing:class0=1Mbit/s..2Mbit/s@3,class7=500kbit/s@0";
    assert_eq!(text.parse::<QueueSpec>().unwrap().to_string(), text);
}

#[test]
fn errors_say_what_exists() {
    let fails = |text: &str| text.parse::<QueueSpec>().unwrap_err().to_string();
    assert_eq!(
        fails("fifo"),
        "there is no queue discipline `fifo`; there are: droptail, red, codel, pie, sfq, fq_codel, drr, \
         priority, borrowing"
    );
    assert_eq!(
        fails("codel:tagret=5ms"),
        "codel has no parameter `tagret`; it has: limit, target, interval, variant, ecn"
    );
    assert_eq!(
        fails("codel:target=5"),
        "codel: target: `5` is not a duration such as \"50 ms\", \"1.5 s\" or \"10 us\""
    );
    assert_eq!(fails("codel:target=0s"), "codel: target: `0s` is out of bounds: 1us to 100s");
    assert_eq!(fails("codel:ecn"), "codel: `ecn` is not of the form param=value");
    assert_eq!(fails("codel:ecn=true,ecn=false"), "codel: ecn is given twice");
    assert_eq!(fails("codel:variant=2013"), "codel: variant: `2013` is not rfc8289 or 2012");
    assert_eq!(fails("red:weight=2"), "red: weight: `2` is out of bounds: auto or 0 to 1");
    assert_eq!(
        fails("droptail:limit=1BDP"),
        "droptail: limit: `1BDP` depends on a path: give packets or bytes here"
    );
    assert_eq!(
        fails("borrowing:class0=2Mbit/s..1Mbit/s"),
        "borrowing: class0: `2Mbit/s..1Mbit/s`: the ceiling is below the guaranteed rate"
    );
    for text in ["borrowing:class0=1Mbit/s@x", "borrowing:class300=1Mbit/s", "borrowing:class=1Mbit/s"] {
        fails(text);
    }
    let long = fails(&"x".repeat(10_000));
    assert!(long.len() < 300, "{long}");
}

#[test]
fn the_listing_is_complete_and_its_defaults_are_the_defaults() {
    let names: Vec<_> = disciplines().iter().map(|info| info.name).collect();
    assert_eq!(names.len(), 9);
    for info in disciplines() {
        assert!(!info.summary.is_empty() && !info.source.is_empty(), "{}", info.name);
        for param in &info.params {
            assert!(!param.about.is_empty() && !param.bounds.is_empty(), "{}: {}", info.name, param.name);
            if param.default == "none" {
                continue;
            }
            let text = format!("{}:{}={}", info.name, param.name, param.default);
            let spec: QueueSpec = text.parse().unwrap();
            assert_eq!(spec.to_string(), info.name, "{text} is the default");
        }
    }
    assert_eq!(QueueSpec::default().to_string(), "droptail");
}

#[test]
fn an_error_is_typed() {
    let error = "pie:alpha=no".parse::<QueueSpec>().unwrap_err();
    assert!(matches!(error, SpecError::Value { name: "pie", .. }));
}

#[cfg(feature = "serde")]
#[test]
fn files_hold_the_text() {
    let spec: QueueSpec = serde_json::from_str("\"sfq:variant=ns2\"").unwrap();
    assert_eq!(serde_json::to_string(&spec).unwrap(), "\"sfq:variant=ns2\"");
    let error = serde_json::from_str::<QueueSpec>("\"nope\"").unwrap_err().to_string();
    assert!(error.contains("there is no queue discipline `nope`"), "{error}");
    let schema = serde_json::to_value(schemars::schema_for!(QueueSpec)).unwrap();
    assert!(schema["pattern"].as_str().unwrap().contains("droptail|red|codel"), "{schema}");
}
