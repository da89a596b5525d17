//! Kuhn, Mehani, Sathiaseelan, Lochin: LEDBAT over large bandwidth-delay product paths, VTC Fall 2013.

use super::{claim, example, group, play, window};

/// The paper reports no outcome for this case. In an endless queue CUBIC never loses a packet. The
/// queue is above any target from the start, and LEDBAT stays at one packet, whose ACK takes
/// minutes.
#[test]
fn table1_case4() {
    let run = play(&example("kuhn2013/table1-case4.toml", &[]));
    let shared = window(&run, "shared");
    let share = |name| 100.0 * group(shared, name).capacity_share.unwrap();
    claim("table 1, case 4: CUBIC (% of C)", "open", share("primary"), 95.0..=100.1);
    claim("table 1, case 4: LEDBAT (% of C)", "open", share("secondary"), 0.0..=2.0);
}
