//! The laws that exist and their parameters: the table of `control/leeway_laws.h`.

use crate::error::LawError;
use crate::ffi::{self, RawLaw};
use crate::value;
use std::sync::LazyLock;

/// One law of the table: all that `leeway laws` prints.
#[derive(Debug)]
pub struct LawInfo {
    /// Name in scenarios and on the command line.
    pub name: &'static str,
    /// One line that describes the law.
    pub summary: &'static str,
    /// The RFC or paper that defines it.
    pub source: &'static str,
    /// Size of the law's state for one flow. Unit: bytes.
    pub state_bytes: usize,
    /// Parameters, in the order in which they are shown.
    pub params: Vec<ParamInfo>,
    /// Variables of the state that are worth plotting.
    pub probes: Vec<ProbeInfo>,
    pub(crate) raw: &'static RawLaw,
}

/// One parameter of a law.
#[derive(Debug)]
pub struct ParamInfo {
    /// Name in scenarios and on the command line.
    pub name: &'static str,
    /// Kind of its values.
    pub kind: ParamKind,
    /// Default, as a raw number of the kind; [`ParamInfo::show`] gives its text.
    pub default: u32,
    /// The smallest raw value.
    pub min: u32,
    /// The largest raw value.
    pub max: u32,
    /// The words of a choice, in the order of their raw values.
    pub choices: Vec<&'static str>,
    /// One line that describes the parameter.
    pub doc: &'static str,
    /// RFC, paper or program that the parameter comes from.
    pub source: &'static str,
    pub(crate) index: usize,
}

/// Kind of a parameter's values, and what their raw numbers mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// Time, such as `5ms`. Raw unit: µs.
    Duration,
    /// Packets: `2`, `0.02`, or `unlimited` if the maximum is `u32::MAX`. Raw unit: 1/1000.
    Packets,
    /// A part or a multiple, such as `0.1` or `10`. Raw unit: 1/1000.
    Ratio,
    /// What an acknowledgement or a round trip adds or takes, such as `1` or `0.0001`. Raw unit:
    /// 1/1000000.
    Gain,
    /// A whole number.
    Count,
    /// One word of a list. The raw number is its index.
    Choice,
}

/// One variable of a law's state.
#[derive(Debug)]
pub struct ProbeInfo {
    /// Name in time series.
    pub name: &'static str,
    /// Unit of the value that [`Law::probe`](crate::Law::probe) gives.
    pub unit: &'static str,
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) signed: bool,
    /// Divisor that brings the raw integer into the unit.
    pub(crate) divisor: f64,
}

impl ParamKind {
    fn from_raw(kind: u32) -> ParamKind {
        match kind {
            0 => ParamKind::Duration,
            1 => ParamKind::Packets,
            2 => ParamKind::Ratio,
            3 => ParamKind::Count,
            5 => ParamKind::Gain,
            _ => ParamKind::Choice,
        }
    }

    /// The kind as a word.
    pub const fn as_str(self) -> &'static str {
        match self {
            ParamKind::Duration => "duration",
            ParamKind::Packets => "packets",
            ParamKind::Ratio => "ratio",
            ParamKind::Gain => "gain",
            ParamKind::Count => "count",
            ParamKind::Choice => "choice",
        }
    }
}

impl ParamInfo {
    /// A raw value as text, as in a specification: `100ms`, `0.02`, `standard`.
    pub fn show(&self, raw: u32) -> String {
        value::show(self, raw)
    }

    /// The bounds as text, such as `0.1ms to 10s`, or the words of a choice.
    pub fn range(&self) -> String {
        match self.kind {
            ParamKind::Choice => self.choices.join(" | "),
            _ => format!("{} to {}", self.show(self.min), self.show(self.max)),
        }
    }
}

impl LawInfo {
    /// Whether the law with the parameters `words` needs delivery rates; see
    /// [`Law::needs_rate`](crate::Law::needs_rate).
    pub(crate) fn needs_rate(&self, words: &[u32]) -> bool {
        let segments = self.param("segments").map_or(0, |param| words[param.index]);
        self.raw.needs & 1 != 0 || self.raw.needs & 2 != 0 && segments != 0
    }

    /// Whether the law reads delays; see [`Law::needs_delay`](crate::Law::needs_delay).
    pub(crate) fn needs_delay(&self) -> bool {
        self.raw.needs & 4 != 0
    }

    /// The parameter `name`.
    pub fn param(&self, name: &str) -> Option<&ParamInfo> {
        self.params.iter().find(|param| param.name == name)
    }

    /// The law `name`.
    ///
    /// # Errors
    /// [`LawError::UnknownLaw`], with the names of all laws.
    pub fn find(name: &str) -> Result<&'static LawInfo, LawError> {
        laws().iter().find(|law| law.name == name).ok_or_else(|| LawError::UnknownLaw {
            name: name.to_owned(),
            known: laws().iter().map(|law| law.name).collect::<Vec<_>>().join(", "),
        })
    }
}

impl std::fmt::Debug for RawLaw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// All laws, in the order in which they are shown.
pub fn laws() -> &'static [LawInfo] {
    static LAWS: LazyLock<Vec<LawInfo>> = LazyLock::new(|| ffi::table().iter().map(law).collect());
    &LAWS
}

fn law(raw: &'static RawLaw) -> LawInfo {
    let param = |param: &'static ffi::RawParam| {
        let kind = ParamKind::from_raw(param.kind);
        let choices: Vec<&str> = param.choices().split('|').filter(|word| !word.is_empty()).collect();
        let max = if kind == ParamKind::Choice { choices.len() as u32 - 1 } else { param.max };
        ParamInfo {
            name: param.name(),
            kind,
            default: param.fallback,
            min: param.min,
            max,
            choices,
            doc: param.doc(),
            source: param.source(),
            index: param.offset as usize / size_of::<u32>(),
        }
    };
    let probe = |probe: &'static ffi::RawProbe| ProbeInfo {
        name: probe.name(),
        unit: probe.unit(),
        offset: probe.offset as usize,
        size: usize::from(probe.size),
        signed: probe.is_signed != 0,
        divisor: f64::from(probe.divisor) * f64::from(probe.divisor_log2).exp2(),
    };
    LawInfo {
        name: raw.name(),
        summary: raw.summary(),
        source: raw.source(),
        state_bytes: raw.state_bytes(),
        params: raw.params().iter().map(param).collect(),
        probes: raw.probes().iter().map(probe).collect(),
        raw,
    }
}
