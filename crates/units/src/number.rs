//! Decimal numbers with a unit, read exactly.

/// Why a quantity cannot be read: what was given, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {expected}")]
pub struct ParseError {
    given: String,
    expected: &'static str,
}

impl ParseError {
    pub(crate) fn new(given: &str, expected: &'static str) -> Self {
        // Shortened, so that the text of a hostile file is not printed in full.
        ParseError { given: given.chars().take(60).collect(), expected }
    }
}

/// Splits `text` into a non-negative decimal number and its unit: `"12.5 kB"` is `("12.5", "kB")`.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// `number` × `scale`: exact if the product is an integer, and rounded half up if it is not.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    // Eighteen decimals are less than a nanosecond in a year. More would make no difference, and
    // could overflow.
    let fraction = &fraction[..fraction.len().min(18)];
    let (mut digits, mut denominator) = (0u128, 1u128);
    for c in whole.chars() {
        digits = push_digit(digits, c)?;
    }
    for c in fraction.chars() {
        digits = push_digit(digits, c)?;
        denominator = if c == '_' { denominator } else { denominator * 10 };
    }
    let product = digits.checked_mul(u128::from(scale))?;
    u64::try_from((product + denominator / 2) / denominator).ok()
}

fn push_digit(value: u128, c: char) -> Option<u128> {
    match c {
        '_' => Some(value),
        _ => value.checked_mul(10)?.checked_add(u128::from(c.to_digit(10)?)),
    }
}

/// Reads `text` as a number with one of `units`. A number without a unit has to be zero.
pub(crate) fn parse(text: &str, units: &[(&str, u64)], expected: &'static str) -> Result<u64, ParseError> {
    let error = || ParseError::new(text, expected);
    let (number, unit) = split(text);
    let scale = match units.iter().find(|(name, _)| *name == unit) {
        Some((_, scale)) => *scale,
        None if unit.is_empty() && scaled(number, 1) == Some(0) => 1,
        None => return Err(error()),
    };
    scaled(number, scale).ok_or_else(error)
}

/// Writes `value` in the largest of `units` that shows it exactly with at most three decimals.
/// `units` begins with the largest.
pub(crate) fn display(
    value: u64,
    units: &[(&str, u64)],
    f: &mut std::fmt::Formatter<'_>,
) -> std::fmt::Result {
    let &(smallest, _) = units.last().expect("a unit list is never empty");
    for &(name, scale) in units {
        if value < scale {
            continue;
        }
        let (whole, rest) = (value / scale, u128::from(value % scale) * 1000);
        if rest % u128::from(scale) == 0 {
            let milli = rest / u128::from(scale);
            let text = match milli {
                0 => format!("{whole} {name}"),
                _ => format!("{whole}.{} {name}", format!("{milli:03}").trim_end_matches('0')),
            };
            return f.pad(&text);
        }
    }
    f.pad(&format!("{value} {smallest}"))
}
