//! The fuzzy rules of FLOWER alone, so that tests and plots can show them.
//! `control/leeway_flower.h` has the law that uses them.

use crate::ffi;

/// One cell of FLOWER's rule table: the output for linguistic values of the error and of its
/// change. Values are from -5 (very large, negative) to 5 (very large, positive).
///
/// # Panics
/// If a value is out of this range.
pub fn rule(error: i32, change: i32) -> i32 {
    assert!(error.abs() <= 5 && change.abs() <= 5, "FLOWER has linguistic values from -5 to 5");
    ffi::flower_rule(error, change)
}

/// The output of all rules, combined by product or by minimum, for the error and its change as
/// linguistic values between -5 and 5 with 16 fractional bits.
///
/// # Panics
/// If a value is out of this range.
pub fn infer_q16(error_q16: i32, change_q16: i32, product: bool) -> i32 {
    assert!(
        error_q16.abs() <= 5 << 16 && change_q16.abs() <= 5 << 16,
        "FLOWER has linguistic values from -5 to 5"
    );
    ffi::flower_infer_q16(error_q16, change_q16, product)
}
