//! What people paste behind `leeway join`.
#![no_main]

use leeway_tunnel::Token;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(token) = text.parse::<Token>() {
        assert_eq!(token.to_string().parse::<Token>(), Ok(token));
    }
});
