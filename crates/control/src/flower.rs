//! The rules of FLOWER by themselves, to look inside what it decides: `control/leeway_flower.h` says how they are
//! used.

use crate::ffi;

/// One cell of the rule table: the output for linguistic values of the error and of its change, each -5 (very
/// large, negative) to 5 (very large, positive).
///
/// # Panics
/// For values outside of that.
pub fn rule(error: i32, change: i32) -> i32 {
    assert!(error.abs() <= 5 && change.abs() <= 5, "FLOWER has linguistic values from -5 to 5");
    ffi::flower_rule(error, change)
}

/// The output of all rules for indices with 16 fractional bits, -5 to 5, combined by product or by minimum.
///
/// # Panics
/// For indices outside of that.
pub fn infer_q16(error_q16: i32, change_q16: i32, product: bool) -> i32 {
    assert!(
        error_q16.abs() <= 5 << 16 && change_q16.abs() <= 5 << 16,
        "FLOWER has linguistic values from -5 to 5"
    );
    ffi::flower_infer_q16(error_q16, change_q16, product)
}
