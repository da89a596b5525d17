//! Quantities in files: always text with a unit, because a number without a unit can be misread.

use crate::{Bytes, Duration, Rate, Size, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::borrow::Cow;

macro_rules! as_text {
    ($type:ident, $pattern:literal, $about:literal) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(D::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": $about, "pattern": $pattern })
            }
        }
    };
}

as_text!(Time, r"^[0-9._]+ *(ns|us|µs|ms|s|min|h)?$", "An instant as a span since the start: \"10 s\"");
as_text!(
    Duration,
    r"^[0-9._]+ *(ns|us|µs|ms|s|min|h)?$",
    "A span of time with its unit: \"50 ms\", \"1.5 s\""
);
as_text!(Bytes, r"^[0-9._]+ *(B|kB|MB|GB|KiB|MiB|GiB)?$", "An amount of data with its unit: \"12.5 kB\"");
as_text!(Rate, r"^[0-9._]+ *([kKMmGg]?(bit|b)(/s|ps)?|[kMG]?B/s)?$", "A rate with its unit: \"10 Mbit/s\"");
as_text!(
    Size,
    r"^(unlimited|[0-9._]+ *(pkts?|packets?|BDP|bdp|B|kB|MB|GB|KiB|MiB|GiB)?)$",
    "A buffer size: \"84 pkt\", \"150 kB\", \"1.5 BDP\" or \"unlimited\""
);
