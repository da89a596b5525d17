//! Parameter values as text: raw numbers to text and back, exactly, without floating point.

use crate::error::LawError;
use crate::info::{ParamInfo, ParamKind};
use leeway_units::Duration;

const UNLIMITED: &str = "unlimited";
/// Decimals of a number of packets, and of a ratio.
const THOUSANDTHS: u32 = 3;
/// Decimals of a gain.
const MILLIONTHS: u32 = 6;

pub(crate) fn show(param: &ParamInfo, raw: u32) -> String {
    match param.kind {
        ParamKind::Duration => Duration::from_micros(u64::from(raw)).to_string().replace(' ', ""),
        ParamKind::Packets if raw == u32::MAX => UNLIMITED.to_owned(),
        ParamKind::Packets | ParamKind::Ratio => show_decimal(raw, THOUSANDTHS),
        ParamKind::Gain => show_decimal(raw, MILLIONTHS),
        ParamKind::Count => raw.to_string(),
        ParamKind::Choice => param.choices.get(raw as usize).copied().unwrap_or("?").to_owned(),
    }
}

fn show_decimal(raw: u32, digits: u32) -> String {
    let scale = 10u32.pow(digits);
    let text = format!("{}.{:02$}", raw / scale, raw % scale, digits as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Description of what [`parse`] accepts, for error messages.
fn expected(param: &ParamInfo) -> String {
    match param.kind {
        ParamKind::Duration => "a duration in whole microseconds, such as 5ms".to_owned(),
        ParamKind::Packets if param.max == u32::MAX => "a number of packets or \"unlimited\"".to_owned(),
        ParamKind::Packets => "a number of packets with at most three decimals, such as 2 or 0.02".to_owned(),
        ParamKind::Ratio => "a number with at most three decimals, such as 0.1 or 10".to_owned(),
        ParamKind::Gain => "a number with at most six decimals, such as 0.0001 or 10".to_owned(),
        ParamKind::Count => "a whole number".to_owned(),
        ParamKind::Choice => format!("one of {}", param.choices.join(", ")),
    }
}

pub(crate) fn parse(law: &'static str, param: &ParamInfo, text: &str) -> Result<u32, LawError> {
    let text = text.trim();
    let raw = match param.kind {
        ParamKind::Duration => duration(text),
        ParamKind::Packets if text == UNLIMITED && param.max == u32::MAX => Some(u64::from(u32::MAX)),
        ParamKind::Packets | ParamKind::Ratio => decimal(text, THOUSANDTHS),
        ParamKind::Gain => decimal(text, MILLIONTHS),
        ParamKind::Count => whole(text),
        ParamKind::Choice => param.choices.iter().position(|word| *word == text).map(|index| index as u64),
    };
    let raw = raw.ok_or_else(|| LawError::BadValue {
        law,
        param: param.name,
        value: text.to_owned(),
        expected: expected(param),
    })?;
    let inside = |raw: &u32| (param.min..=param.max).contains(raw);
    u32::try_from(raw).ok().filter(inside).ok_or_else(|| LawError::OutOfRange {
        law,
        param: param.name,
        value: text.to_owned(),
        range: param.range(),
    })
}

fn duration(text: &str) -> Option<u64> {
    let span: Duration = text.parse().ok()?;
    span.nanos().is_multiple_of(1000).then(|| span.micros())
}

fn whole(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    if digits { text.parse().ok() } else { None }
}

fn decimal(text: &str, digits: u32) -> Option<u64> {
    let (units, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let spare = digits.checked_sub(u32::try_from(fraction.len()).ok()?)?;
    let scale = 10u64.pow(spare);
    whole(units)?.checked_mul(10u64.pow(digits))?.checked_add(whole(fraction)? * scale)
}
