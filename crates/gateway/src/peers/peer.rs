//! Another gateway, as the configuration gives it.

use leeway_guard::is_steady;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::SocketAddr;

/// Longest name, in characters.
const NAME: usize = 40;

/// Another gateway: `"http://address:port"` of its HTTP proxy, or
/// `{ url = "http://address:port", name = "attic" }`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Address of its HTTP proxy.
    pub address: SocketAddr,
    /// Name that the owner of this gateway gives it. It does not come from the other gateway, so
    /// that no stranger's text is shown here.
    pub name: Option<String>,
}

/// The form of a table, which can have a name.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    url: Url,
    #[serde(default)]
    name: Option<Name>,
}

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Url(SocketAddr);

#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Name(String);

impl TryFrom<String> for Url {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not another gateway: give the address and the port of its HTTP proxy, such as \
                 \"http://192.0.2.7:3128\" or \"http://[2001:db8::7]:3128\""
            )
        };
        let address = text.strip_prefix("http://").map(|rest| rest.strip_suffix('/').unwrap_or(rest));
        let address: SocketAddr = address.and_then(|address| address.parse().ok()).ok_or_else(wrong)?;
        let usable = address.port() != 0 && !address.ip().is_unspecified() && !address.ip().is_multicast();
        usable.then_some(Url(address)).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fits = !text.trim().is_empty() && text.chars().count() <= NAME && text.chars().all(is_steady);
        let wrong =
            || format!("{text:?} is no name for a gateway: 1 to {NAME} characters, such as \"attic\"");
        fits.then(|| Name(text.trim().to_owned())).ok_or_else(wrong)
    }
}

impl TryFrom<String> for Peer {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Url::try_from(text).map(|Url(address)| Peer { address, name: None })
    }
}

impl<'de> Deserialize<'de> for Peer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Either)
    }
}

struct Either;

impl<'de> Visitor<'de> for Either {
    type Value = Peer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("another gateway")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Peer, E> {
        Peer::try_from(text.to_owned()).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Peer, A::Error> {
        let Table { url, name } = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Peer { address: url.0, name: name.map(|Name(name)| name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_gateway_is_said() {
        for wrong in ["10.20.0.2:3128", "http://attic:3128", "http://10.20.0.2", "http://10.20.0.2:0", ""] {
            let error = Peer::try_from(wrong.to_owned()).unwrap_err();
            assert!(error.contains("http://192.0.2.7:3128"), "{error}");
        }
        let peer = Peer::try_from("http://[2001:db8::7]:3128/".to_owned()).unwrap();
        assert_eq!(peer.address, "[2001:db8::7]:3128".parse().unwrap());
    }

    #[test]
    fn a_gateway_may_have_a_name() {
        let read = |text: &str| serde_json::from_str::<Peer>(text).map_err(|error| error.to_string());
        let url = "\"url\": \"http://10.20.0.2:3128\"";
        assert_eq!(
            read(&format!("{{{url}, \"name\": \" Ann's attic \"}}")).unwrap().name.unwrap(),
            "Ann's attic"
        );
        assert_eq!(read(&format!("{{{url}}}")), read("\"http://10.20.0.2:3128\""));
        let long = "x".repeat(NAME + 1);
        for name in ["", " ", "a\\u001b[2J", &long] {
            let error = read(&format!("{{{url}, \"name\": \"{name}\"}}")).unwrap_err();
            assert!(error.contains("is no name for a gateway: 1 to 40 characters"), "{error}");
        }
        assert!(read("{\"name\": \"attic\"}").unwrap_err().contains("missing field `url`"));
        assert!(read(&format!("{{{url}, \"nmae\": \"attic\"}}")).unwrap_err().contains("unknown field"));
    }
}
