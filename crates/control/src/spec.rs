//! A law with its parameters, written as text: `ledbat`, `ledbat:target=5ms,gain_down=10`.

use crate::abi::Path;
use crate::error::LawError;
use crate::info::{LawInfo, ParamInfo};
use crate::law::Law;
use crate::value;
use std::fmt;
use std::str::FromStr;

/// A law and the values of its parameters.
#[derive(Clone)]
pub struct LawSpec {
    law: &'static LawInfo,
    /// The words of the law's params struct.
    words: Box<[u32]>,
}

impl LawSpec {
    /// The law `name` with default parameters.
    ///
    /// # Errors
    /// [`LawError::UnknownLaw`].
    pub fn new(name: &str) -> Result<LawSpec, LawError> {
        let law = LawInfo::find(name)?;
        let mut words = vec![0; law.raw.params_bytes() / size_of::<u32>()].into_boxed_slice();
        for param in &law.params {
            words[param.index] = param.default;
        }
        Ok(LawSpec { law, words })
    }

    /// Sets a parameter to a value in text: a time with its unit, a decimal number or a word, by
    /// the parameter's kind.
    ///
    /// # Errors
    /// [`LawError::UnknownParam`], [`LawError::BadValue`], [`LawError::OutOfRange`].
    pub fn set(&mut self, param: &str, value: &str) -> Result<(), LawError> {
        let info = self.info_of(param)?;
        self.words[info.index] = value::parse(self.law.name, info, value)?;
        Ok(())
    }

    /// This specification with one parameter set.
    ///
    /// # Errors
    /// Those of [`LawSpec::set`].
    pub fn with(mut self, param: &str, value: &str) -> Result<LawSpec, LawError> {
        self.set(param, value)?;
        Ok(self)
    }

    /// The value of a parameter, as text.
    ///
    /// # Errors
    /// [`LawError::UnknownParam`].
    pub fn get(&self, param: &str) -> Result<String, LawError> {
        let info = self.info_of(param)?;
        Ok(info.show(self.words[info.index]))
    }

    /// The raw value of one of the law's parameters; see [`ParamInfo`].
    pub fn raw(&self, param: &ParamInfo) -> u32 {
        self.words.get(param.index).copied().unwrap_or(param.default)
    }

    /// The law of this specification.
    pub fn law(&self) -> &'static LawInfo {
        self.law
    }

    /// The name of the law.
    pub fn name(&self) -> &'static str {
        self.law.name
    }

    /// The words of the law's params struct, which its `init` reads in user space and in the kernel.
    /// They are in the order of the C fields, as raw numbers (see [`ParamInfo`]). A field that is not
    /// a parameter is 0.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The law of a new flow on `path`.
    pub fn build(&self, path: &Path) -> Law {
        // Memory filled with a pattern shows what an `init` forgets to set.
        Law::new(self.law, &self.words, path, 0xa5a5_a5a5_a5a5_a5a5)
    }

    /// The same in memory filled with zeros, as in the kernel, so that the bytes of padding are
    /// equal too.
    pub fn build_zeroed(&self, path: &Path) -> Law {
        Law::new(self.law, &self.words, path, 0)
    }

    fn info_of(&self, param: &str) -> Result<&'static ParamInfo, LawError> {
        self.law.param(param).ok_or_else(|| LawError::UnknownParam {
            law: self.law.name,
            param: param.to_owned(),
            known: self.law.params.iter().map(|param| param.name).collect::<Vec<_>>().join(", "),
        })
    }
}

impl FromStr for LawSpec {
    type Err = LawError;

    fn from_str(text: &str) -> Result<LawSpec, LawError> {
        let malformed = || LawError::Malformed { text: text.to_owned() };
        let (name, params) = match text.split_once(':') {
            Some((name, params)) => (name, Some(params)),
            None => (text, None),
        };
        let mut spec = LawSpec::new(name.trim())?;
        let mut seen = Vec::new();
        for pair in params.into_iter().flat_map(|params| params.split(',')) {
            let (param, value) = pair.split_once('=').ok_or_else(malformed)?;
            let param = param.trim();
            spec.set(param, value)?;
            if seen.contains(&param) {
                return Err(LawError::Repeated { law: spec.law.name, param: param.to_owned() });
            }
            seen.push(param);
        }
        Ok(spec)
    }
}

impl fmt::Display for LawSpec {
    /// The name, and the parameters that differ from their defaults. Parsing the text gives an
    /// equal specification.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.law.name.to_owned();
        let mut separator = ':';
        for param in self.law.params.iter().filter(|param| self.words[param.index] != param.default) {
            text.push(separator);
            text.push_str(param.name);
            text.push('=');
            text.push_str(&param.show(self.words[param.index]));
            separator = ',';
        }
        f.pad(&text)
    }
}

impl fmt::Debug for LawSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LawSpec({self})")
    }
}

impl PartialEq for LawSpec {
    fn eq(&self, other: &LawSpec) -> bool {
        self.law.name == other.law.name && self.words == other.words
    }
}

impl Eq for LawSpec {}

#[cfg(feature = "serde")]
mod serial {
    use super::LawSpec;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
    use std::borrow::Cow;

    impl Serialize for LawSpec {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for LawSpec {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Cow::<str>::deserialize(deserializer)?.parse().map_err(D::Error::custom)
        }
    }

    impl schemars::JsonSchema for LawSpec {
        fn schema_name() -> Cow<'static, str> {
            "LawSpec".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            let names = crate::laws().iter().map(|law| law.name).collect::<Vec<_>>().join("|");
            schemars::json_schema!({
                "type": "string",
                "description": "A control law with parameters: \"ledbat\", \"ledbat:target=5ms,gain_down=10\"",
                "pattern": format!("^({names})(:[a-z0-9_]+=[^,=]+(,[a-z0-9_]+=[^,=]+)*)?$"),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_the_parameters_and_a_zeroed_state_decides_the_same() {
        let path = Path { mss_bytes: 1448, initial_window_bytes: 14_480, ..Path::default() };
        for law in crate::laws() {
            let mut spec = LawSpec::new(law.name).expect("a law of the table");
            let raised: Vec<_> = law.params.iter().filter(|param| param.default < param.max).collect();
            for param in &raised {
                spec.set(param.name, &param.show(param.default + 1)).expect("a value within its bounds");
            }
            for param in raised {
                assert_eq!(spec.words()[param.index], param.default + 1, "{}: {}", law.name, param.name);
            }
            let (mut zeroed, law) = (spec.build_zeroed(&path), spec.build(&path));
            assert_eq!(zeroed.output(), law.output(), "{spec}");
            assert_eq!(zeroed.state().len(), law.info().state_bytes);
            zeroed.set_window(1 << 32, 70_000);
            assert_eq!((zeroed.output().cwnd_q16, zeroed.output().ssthresh_bytes), (1 << 32, 70_000));
        }
    }
}
