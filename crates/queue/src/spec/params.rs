//! Named sets of parameters. One declaration gives the struct, its defaults, its text form and its
//! list.

use super::value::Value;

/// One parameter, for lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamInfo {
    /// The name in the text form; `classN` stands for `class0`, `class1`, ...
    pub name: &'static str,
    /// The default in the text form.
    pub default: String,
    /// The allowed values.
    pub bounds: String,
    /// Its meaning.
    pub about: String,
}

/// A named set of parameters, for lists: a discipline or a loss model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// The name in the text form.
    pub name: &'static str,
    /// Its meaning, in a sentence.
    pub summary: &'static str,
    /// Where it is specified.
    pub source: &'static str,
    /// Its parameters.
    pub params: Vec<ParamInfo>,
}

/// A set of parameters with a name, spelled `name:param=value,param=value`.
pub trait Params: Default {
    /// The name of the set.
    const NAME: &'static str;
    /// Its meaning, in a sentence.
    const SUMMARY: &'static str;
    /// Where it is specified.
    const SOURCE: &'static str;

    /// The parameters with their defaults and bounds.
    fn list() -> Vec<ParamInfo>;

    /// Sets one parameter: `None` if the name is unknown, otherwise whether the value is valid.
    fn set(&mut self, name: &str, text: &str) -> Option<Result<(), String>>;

    /// Every parameter with its value in the text form.
    fn entries(&self) -> Vec<(String, String)>;
}

/// Why a text such as `codel:target=5ms` cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SpecError {
    /// The name does not exist.
    #[error("there is no {what} `{given}`; there are: {known}")]
    UnknownName {
        /// The kind of thing: a queue discipline or a loss model.
        what: &'static str,
        /// The name that was given.
        given: String,
        /// All names.
        known: String,
    },
    /// The set has no parameter with this name.
    #[error("{name} has no parameter `{given}`; {known}")]
    UnknownParam {
        /// Name of the set.
        name: &'static str,
        /// The parameter that was given.
        given: String,
        /// All parameters.
        known: String,
    },
    /// A value cannot be read or is out of bounds.
    #[error("{name}: {param}: {why}")]
    Value {
        /// Name of the set.
        name: &'static str,
        /// The parameter.
        param: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// A parameter is given twice.
    #[error("{name}: {param} is given twice")]
    Twice {
        /// Name of the set.
        name: &'static str,
        /// The parameter.
        param: String,
    },
    /// A part is not of the form `param=value`.
    #[error("{name}: `{given}` is not of the form param=value")]
    Form {
        /// Name of the set.
        name: &'static str,
        /// The part.
        given: String,
    },
}

/// The name before the colon and the parameters after it.
pub fn split(text: &str) -> (&str, &str) {
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    (name.trim(), params.trim())
}

/// Text from outside, shortened for a message.
pub fn short(text: &str) -> String {
    text.chars().take(60).collect()
}

/// Reads `param=value,param=value` over the defaults.
pub fn read<P: Params>(text: &str) -> Result<P, SpecError> {
    let (name, mut params, mut given) = (P::NAME, P::default(), Vec::new());
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((param, value)) = part.split_once('=').map(|(p, v)| (p.trim(), v.trim())) else {
            return Err(SpecError::Form { name, given: short(part) });
        };
        if given.contains(&param) {
            return Err(SpecError::Twice { name, param: short(param) });
        }
        given.push(param);
        match params.set(param, value) {
            Some(Ok(())) => {}
            Some(Err(why)) => return Err(SpecError::Value { name, param: short(param), why }),
            None => {
                let names: Vec<_> = P::list().iter().map(|param| param.name).collect();
                let known = if names.is_empty() {
                    "it has none".to_owned()
                } else {
                    format!("it has: {}", names.join(", "))
                };
                return Err(SpecError::UnknownParam { name, given: short(param), known });
            }
        }
    }
    Ok(params)
}

/// Writes the name, and the parameters that differ from their defaults.
pub fn write<P: Params>(params: &P, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
    let defaults = P::default().entries();
    f.write_str(P::NAME)?;
    let mut separator = ':';
    for entry in params.entries() {
        if !defaults.contains(&entry) {
            write!(f, "{separator}{}={}", entry.0, entry.1)?;
            separator = ',';
        }
    }
    Ok(())
}

/// Sets `field` if `name` is its name or, for a list, the name of an entry.
pub fn set_field<T: Value>(
    field: &mut T,
    own_name: &str,
    name: &str,
    text: &str,
    allow: impl Fn(&T) -> bool,
    bounds: &str,
) -> Option<Result<(), String>> {
    if name == own_name {
        return Some(T::read(&short(text)).and_then(|value| {
            if !allow(&value) {
                return Err(format!("`{}` is out of bounds: {bounds}", short(text)));
            }
            *field = value;
            Ok(())
        }));
    }
    let index = name.strip_prefix(own_name)?.parse().ok()?;
    field.set_entry(index, &short(text))
}

/// Declares a struct of parameters: documentation, name, type, default and bounds of each.
#[macro_export]
#[doc(hidden)]
macro_rules! params {
    (
        $(#[$meta:meta])*
        pub struct $type:ident: $name:literal, $summary:literal, $source:literal {
            $($(#[doc = $about:literal])+ $field:ident: $kind:ty = $default:expr, $bounds:expr;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub struct $type {
            $($(#[doc = $about])+ pub $field: $kind,)*
        }

        impl Default for $type {
            fn default() -> Self {
                $type { $($field: $default,)* }
            }
        }

        impl $crate::spec::Params for $type {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const SOURCE: &'static str = $source;

            fn list() -> Vec<$crate::spec::ParamInfo> {
                vec![$($crate::spec::ParamInfo {
                    name: stringify!($field),
                    default: $crate::spec::Value::show(&{ let default: $kind = $default; default }),
                    bounds: $crate::spec::Bounds::<$kind>::text(&$bounds),
                    about: concat!($($about),+).trim().to_owned(),
                },)*]
            }

            fn set(&mut self, _name: &str, _text: &str) -> Option<Result<(), String>> {
                $({
                    let bounds = $bounds;
                    let set = $crate::spec::set_field(
                        &mut self.$field,
                        stringify!($field),
                        _name,
                        _text,
                        |value| $crate::spec::Bounds::<$kind>::allow(&bounds, value),
                        &$crate::spec::Bounds::<$kind>::text(&bounds),
                    );
                    if set.is_some() {
                        return set;
                    }
                })*
                None
            }

            fn entries(&self) -> Vec<(String, String)> {
                let parts: Vec<Vec<(String, String)>> =
                    vec![$($crate::spec::Value::entries(&self.$field, stringify!($field)),)*];
                parts.concat()
            }
        }
    };
}

/// Declares an enumeration of named sets of parameters with its text form. With the feature
/// `serde` of the crate that uses it, files have the same text.
#[macro_export]
#[doc(hidden)]
macro_rules! named {
    (
        $(#[$meta:meta])*
        pub enum $type:ident: $schema:literal, $what:literal, $example:literal {
            $($(#[$about:meta])* $variant:ident($params:ty),)+
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq)]
        pub enum $type {
            $($(#[$about])* $variant($params),)+
        }

        impl $type {
            /// The name in the text form.
            pub fn name(&self) -> &'static str {
                match self {
                    $($type::$variant(_) => <$params as $crate::spec::Params>::NAME,)+
                }
            }

            /// All sets, with their parameters.
            pub fn list() -> Vec<$crate::spec::Info> {
                vec![$($crate::spec::Info {
                    name: <$params as $crate::spec::Params>::NAME,
                    summary: <$params as $crate::spec::Params>::SUMMARY,
                    source: <$params as $crate::spec::Params>::SOURCE,
                    params: <$params as $crate::spec::Params>::list(),
                },)+]
            }
        }

        impl std::str::FromStr for $type {
            type Err = $crate::spec::SpecError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let (name, params) = $crate::spec::split(text);
                match name {
                    $(<$params as $crate::spec::Params>::NAME => {
                        $crate::spec::read(params).map($type::$variant)
                    })+
                    _ => Err($crate::spec::SpecError::UnknownName {
                        what: $what,
                        given: $crate::spec::short(name),
                        known: [$(<$params as $crate::spec::Params>::NAME),+].join(", "),
                    }),
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $($type::$variant(params) => $crate::spec::write(params, f),)+
                }
            }
        }

        #[cfg(feature = "serde")]
        const _: () = {
            $crate::text_in_files!($type, $schema, concat!("A ", $what, ", such as ", $example), {
                let names: Vec<_> = $type::list().iter().map(|info| info.name).collect();
                format!("^ *({}) *(:.*)?$", names.join("|"))
            });
        };
    };
}

/// Makes a type with a text form use that text in files.
#[macro_export]
#[doc(hidden)]
macro_rules! text_in_files {
    ($type:ident, $schema:literal, $about:expr, $pattern:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'_, str> as serde::Deserialize>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $schema.into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $about, "pattern": $pattern })
            }
        }
    };
}
