//! `Proxy-Authorization`: reads without panicking; a name has no colon.
#![no_main]

use leeway_gateway::http::basic;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Some((name, _)) = basic(text) {
        assert!(!name.contains(':'));
    }
});
