//! What laws exist and which parameters they take: the table of `control/leeway_laws.h`.

use crate::error::LawError;
use crate::ffi::{self, RawLaw};
use crate::value;
use std::sync::LazyLock;

/// One law: everything that `leeway laws` prints.
#[derive(Debug)]
pub struct LawInfo {
    /// As it is spelt in scenarios and on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The RFC or paper that defines it.
    pub source: &'static str,
    /// Size of the state of one flow.
    pub state_bytes: usize,
    /// In the order in which they are shown.
    pub params: Vec<ParamInfo>,
    /// Numbers of the state worth plotting.
    pub probes: Vec<ProbeInfo>,
    pub(crate) raw: &'static RawLaw,
}

/// One parameter of a law.
#[derive(Debug)]
pub struct ParamInfo {
    /// As it is spelt.
    pub name: &'static str,
    /// What a value is.
    pub kind: ParamKind,
    /// The default as a raw number of its kind; [`ParamInfo::show`] makes text of it.
    pub default: u32,
    /// The smallest raw value.
    pub min: u32,
    /// The largest raw value.
    pub max: u32,
    /// The words of a choice, in the order of their raw values.
    pub choices: Vec<&'static str>,
    /// One line.
    pub doc: &'static str,
    /// Where the parameter comes from.
    pub source: &'static str,
    pub(crate) index: usize,
}

/// What the values of a parameter are, and how their raw numbers read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParamKind {
    /// A span of time, in microseconds: `5ms`.
    Duration,
    /// Packets, in thousandths: `2`, `0.02`, or `unlimited` where the maximum is `u32::MAX`.
    Packets,
    /// A part or a multiple of something, in thousandths: `0.1`, `10`.
    Ratio,
    /// What an acknowledgement or a round trip adds or takes, in millionths: `1`, `0.0001`.
    Gain,
    /// A whole number.
    Count,
    /// One of a list of words, by its index.
    Choice,
}

/// One number of a law's state.
#[derive(Debug)]
pub struct ProbeInfo {
    /// As it is spelt in series.
    pub name: &'static str,
    /// Of the value passed to a visitor.
    pub unit: &'static str,
    pub(crate) offset: usize,
    pub(crate) size: usize,
    pub(crate) signed: bool,
    /// What the raw integer is divided by to be in the unit.
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

    /// A word for people.
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
    /// A raw value as it is written in a specification: `100ms`, `0.02`, `standard`.
    pub fn show(&self, raw: u32) -> String {
        value::show(self, raw)
    }

    /// The bounds for people: `0.1ms to 10s`, or the words of a choice.
    pub fn range(&self) -> String {
        match self.kind {
            ParamKind::Choice => self.choices.join(" | "),
            _ => format!("{} to {}", self.show(self.min), self.show(self.max)),
        }
    }
}

impl LawInfo {
    /// Whether the law with these parameters looks at delivery rates; see
    /// [`Law::needs_rate`](crate::Law::needs_rate).
    pub(crate) fn needs_rate(&self, words: &[u32]) -> bool {
        let segments = self.param("segments").map_or(0, |param| words[param.index]);
        self.raw.needs & 1 != 0 || self.raw.needs & 2 != 0 && segments != 0
    }

    /// Whether the law looks at delays; see [`Law::needs_delay`](crate::Law::needs_delay).
    pub(crate) fn needs_delay(&self) -> bool {
        self.raw.needs & 4 != 0
    }

    /// The parameter of that name.
    pub fn param(&self, name: &str) -> Option<&ParamInfo> {
        self.params.iter().find(|param| param.name == name)
    }

    /// The law of that name.
    ///
    /// # Errors
    /// [`LawError::UnknownLaw`], with the names that exist.
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

/// Every law there is, in the order in which they are shown.
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
