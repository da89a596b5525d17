//! One target of libFuzzer for all harnesses: `LEEWAY_FUZZ` names the one to play. `tools/fuzz.sh`
//! builds and runs it.
#![no_main]

use leeway_fuzz::Harness;
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

static HARNESS: LazyLock<&Harness> = LazyLock::new(|| {
    let name = std::env::var("LEEWAY_FUZZ").unwrap_or_default();
    leeway_fuzz::named(&name).unwrap_or_else(|unknown| panic!("LEEWAY_FUZZ: {unknown}"))
});

fuzz_target!(|bytes: &[u8]| (HARNESS.play)(bytes));
