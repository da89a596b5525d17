//! Small random scenarios: runs end, counters add up, and a second run gives the same result.

mod common;

use leeway_sim::results::Run;
use proptest::prelude::*;

fn check(run: &Run) -> Result<(), TestCaseError> {
    for window in &run.windows {
        for link in &window.links {
            prop_assert!(link.utilisation >= 0.0 && link.utilisation <= 1.05, "{link:?}");
            prop_assert!((0.0..=1.0).contains(&link.loss), "{link:?}");
            prop_assert!(link.queue_fill.is_none_or(|fill| (0.0..=1.3).contains(&fill)), "{link:?}");
        }
        let shares: Vec<f64> = window.groups.iter().filter_map(|group| group.share).collect();
        prop_assert!(shares.is_empty() || (shares.iter().sum::<f64>() - 1.0).abs() < 1e-6, "{shares:?}");
        for group in &window.groups {
            prop_assert!(group.throughput_bps.is_finite() && group.throughput_bps >= 0.0, "{group:?}");
            prop_assert!(group.goodput_bps <= group.throughput_bps * 1.001 + 1e6, "{group:?}");
            prop_assert!(group.retransmitted <= group.sent, "{group:?}");
            // A packet that was sent before a window may be dropped in it.
            prop_assert!(window.name != "run" || group.dropped <= group.sent, "{group:?}");
            prop_assert!(group.jain.is_none_or(|jain| jain > 0.0 && jain <= 1.0 + 1e-9), "{group:?}");
            prop_assert!(group.mos.is_none_or(|mos| (1.0..=4.5).contains(&mos)), "{group:?}");
        }
    }
    for window in run.windows.iter().filter(|window| window.name == "run") {
        let sent: u64 = window.groups.iter().map(|group| group.sent).sum();
        let dropped: u64 = window.groups.iter().map(|group| group.dropped).sum();
        prop_assert!(run.work.delivered_packets + dropped <= sent, "conservation of packets: {run:?}");
    }
    let flows = &run.series.flows;
    prop_assert!(flows.time_s.windows(2).all(|pair| pair[0] <= pair[1]), "series in order of time");
    prop_assert_eq!(flows.time_s.len(), flows.cwnd_pkt.len());
    prop_assert!(flows.cwnd_pkt.iter().all(|window| *window >= 0.0 && window.is_finite()));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn any_small_scenario_runs(scenario in common::scenario()) {
        let run = leeway_sim::run_with_baseline(&scenario, scenario.seed).unwrap();
        check(&run)?;
        let again = leeway_sim::run_with_baseline(&scenario, scenario.seed).unwrap();
        prop_assert_eq!(serde_json::to_string(&run).unwrap(), serde_json::to_string(&again).unwrap());
        prop_assert_eq!(run.series.flows.cwnd_pkt, again.series.flows.cwnd_pkt);
    }
}
