//! Values of parameters: how each type is read, written and bounded.

use leeway_units::{Bytes, Duration, Rate, Size};
use std::collections::BTreeMap;
use std::ops::{RangeFull, RangeInclusive};

/// A value of a parameter.
pub trait Value: Sized {
    /// Reads the value. The error says what would be right.
    fn read(text: &str) -> Result<Self, String>;

    /// Writes the value without spaces. [`read`](Value::read) reads it back.
    fn show(&self) -> String;

    /// The possible values, for people.
    fn kind() -> String;

    /// Sets an entry of a list by its number; `None` if this is not a list.
    fn set_entry(&mut self, _index: u8, _text: &str) -> Option<Result<(), String>> {
        None
    }

    /// The parameter as it is spelled: one entry, or one for each element of a list.
    fn entries(&self, name: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), self.show())]
    }
}

macro_rules! from_units {
    ($($type:ty: $kind:literal),+) => {$(
        impl Value for $type {
            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|error: leeway_units::ParseError| error.to_string())
            }

            fn show(&self) -> String {
                self.to_string().replace(' ', "")
            }

            fn kind() -> String {
                $kind.into()
            }
        }
    )+};
}

from_units!(Duration: "a duration", Bytes: "an amount of data", Rate: "a rate");

impl Value for Size {
    fn read(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(Size::Bdp(_)) => Err(format!("`{text}` depends on a path: give packets or bytes here")),
            Ok(size) => Ok(size),
            Err(error) => Err(error.to_string()),
        }
    }

    fn show(&self) -> String {
        self.to_string().replace(' ', "")
    }

    fn kind() -> String {
        "packets, bytes or unlimited".into()
    }
}

macro_rules! from_numbers {
    ($($type:ty: $kind:literal),+) => {$(
        impl Value for $type {
            fn read(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!("`{text}` is not {}", $kind))
            }

            fn show(&self) -> String {
                self.to_string()
            }

            fn kind() -> String {
                $kind.into()
            }
        }
    )+};
}

from_numbers!(u32: "a whole number", bool: "true or false");

impl Value for f64 {
    /// Reads `0.1` or `10%`.
    fn read(text: &str) -> Result<Self, String> {
        let (number, scale) = match text.strip_suffix('%') {
            Some(percent) => (percent.trim_end(), 100.0),
            None => (text, 1.0),
        };
        match number.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(value / scale),
            _ => Err(format!("`{text}` is not a number or a percentage")),
        }
    }

    fn show(&self) -> String {
        self.to_string()
    }

    fn kind() -> String {
        "a number or a percentage".into()
    }
}

/// `auto`: chosen by the other parameters and the link.
impl<T: Value> Value for Option<T> {
    fn read(text: &str) -> Result<Self, String> {
        if text == "auto" { Ok(None) } else { T::read(text).map(Some) }
    }

    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "auto".into(), Value::show)
    }

    fn kind() -> String {
        format!("auto or {}", T::kind())
    }
}

/// One value for each of some traffic classes, spelled `class0=...,class1=...`.
#[derive(Debug, Clone, PartialEq)]
pub struct Classes<T>(pub BTreeMap<u8, T>);

impl<T> Default for Classes<T> {
    fn default() -> Self {
        Classes(BTreeMap::new())
    }
}

impl<T: Value> Value for Classes<T> {
    fn read(_: &str) -> Result<Self, String> {
        Err("one class at a time is set, such as class0=...".into())
    }

    fn show(&self) -> String {
        "none".into()
    }

    fn kind() -> String {
        format!("for each class N: {}", T::kind())
    }

    fn set_entry(&mut self, index: u8, text: &str) -> Option<Result<(), String>> {
        Some(T::read(text).map(|value| {
            self.0.insert(index, value);
        }))
    }

    fn entries(&self, name: &str) -> Vec<(String, String)> {
        self.0.iter().map(|(index, value)| (format!("{name}{index}"), value.show())).collect()
    }
}

/// The allowed values of a parameter.
pub trait Bounds<T> {
    /// Whether `value` is allowed.
    fn allow(&self, value: &T) -> bool;

    /// The allowed values, for people.
    fn text(&self) -> String;
}

impl<T: Value> Bounds<T> for RangeFull {
    fn allow(&self, _: &T) -> bool {
        true
    }

    fn text(&self) -> String {
        T::kind()
    }
}

impl<T: Value + PartialOrd> Bounds<T> for RangeInclusive<T> {
    fn allow(&self, value: &T) -> bool {
        self.contains(value)
    }

    fn text(&self) -> String {
        format!("{} to {}", self.start().show(), self.end().show())
    }
}

impl<T: Value + PartialOrd> Bounds<Option<T>> for RangeInclusive<T> {
    fn allow(&self, value: &Option<T>) -> bool {
        value.as_ref().is_none_or(|value| self.contains(value))
    }

    fn text(&self) -> String {
        format!("auto or {} to {}", self.start().show(), self.end().show())
    }
}

/// Makes an enumeration a [`Value`], with a spelling for each variant.
#[macro_export]
#[doc(hidden)]
macro_rules! choice {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$about:meta])* $variant:ident = $text:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type { $($(#[$about])* $variant,)+ }

        impl $crate::spec::Value for $type {
            fn read(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok($type::$variant),)+
                    _ => Err(format!("`{text}` is not {}", Self::kind())),
                }
            }

            fn show(&self) -> String {
                match self { $($type::$variant => $text.into(),)+ }
            }

            fn kind() -> String {
                [$($text),+].join(" or ")
            }
        }
    };
}
