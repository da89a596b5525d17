//! The texts between ordinary users and the helper that confines their commands.

use crate::{Policy, Receive};
use leeway_control::LawSpec;
use serde::{Deserialize, Serialize};

/// Version of these texts; it grows with each change.
const VERSION: u32 = 1;

/// Request to confine the sender's process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    version: u32,
    law: String,
    dscp: Option<String>,
    receive: Option<String>,
    /// The command, for people.
    pub what: String,
}

/// The response.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The sender is in a cgroup under the policy.
    Confined,
    /// The request failed, and why.
    Refused(String),
}

impl Request {
    /// The request for `policy` for the command `what`.
    pub fn new(policy: &Policy, what: &str) -> Request {
        Request {
            version: VERSION,
            law: policy.law.to_string(),
            dscp: policy.dscp.map(|dscp| dscp.to_string()),
            receive: policy.receive.as_ref().map(|receive| receive.spec().to_string()),
            // The kernel keeps this much of the name.
            what: what.chars().take(64).collect(),
        }
    }

    /// Parses a line.
    ///
    /// # Errors
    /// What is wrong with it, in words for whoever sent it.
    pub fn parse(line: &[u8]) -> Result<Request, String> {
        let request: Request =
            serde_json::from_slice(line).map_err(|error| format!("this is no request: {error}"))?;
        match request.version {
            VERSION => Ok(request),
            other => Err(format!("the helper speaks version {VERSION} of requests, not {other}; restart it")),
        }
    }

    /// How the user wants to send and receive.
    ///
    /// # Errors
    /// What is wrong with it, in words for whoever sent it.
    pub fn policy(&self) -> Result<Policy, String> {
        let law = |text: &str| text.parse::<LawSpec>().map_err(|error| error.to_string());
        let receive = self.receive.as_deref().map(|text| {
            let receive = Receive::new(law(text)?);
            receive.map_err(|error| error.to_string())
        });
        let dscp = self.dscp.as_deref().map(|text| text.parse().map_err(|error| format!("{error}")));
        Ok(Policy { law: law(&self.law)?, dscp: dscp.transpose()?, receive: receive.transpose()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn request() -> Request {
        let policy = Policy {
            law: "ledbat:target=5ms".parse().expect("a law"),
            dscp: Some("le".parse().expect("a mark")),
            receive: None,
        };
        Request::new(&policy, "rsync")
    }

    #[test]
    fn a_request_is_read_as_it_was_written() {
        let line = serde_json::to_vec(&request()).expect("JSON");
        let policy = Request::parse(&line).and_then(|request| request.policy()).expect("a request");
        assert_eq!(policy.law.to_string(), "ledbat:target=5ms");
        assert_eq!(policy.dscp.map(|dscp| dscp.codepoint()), Some(1));
        assert!(policy.receive.is_none());
    }

    #[test]
    fn what_is_wrong_is_refused() {
        let good = serde_json::to_string(&request()).expect("JSON");
        for (from, to, why) in [
            ("\"version\":1", "\"version\":2", "version 1"),
            ("\"version\":1", "\"version\":1,\"pid\":1", "unknown field"),
            ("ledbat:target=5ms", "ledbatt", "ledbat"),
            ("ledbat:target=5ms", "ledbat:target=-1", "target"),
            ("\"le\"", "\"64\"", "0 to 63"),
            ("\"receive\":null", "\"receive\":\"cubic\"", "ledbatpp"),
            ("}", "}}", "no request"),
        ] {
            assert!(good.contains(from), "{good}");
            let line = good.replacen(from, to, 1);
            let error = Request::parse(line.as_bytes()).and_then(|request| request.policy()).map(|_| ());
            assert!(error.as_ref().is_err_and(|error| error.contains(why)), "{line}: {error:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_refused_without_a_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Request::parse(&line).is_err());
        }

        #[test]
        fn changed_requests_do_not_panic(at in 0usize..100, byte in any::<u8>()) {
            let mut line = serde_json::to_vec(&request()).expect("JSON");
            let at = at % line.len();
            line[at] = byte;
            let _ = Request::parse(&line).and_then(|request| request.policy());
        }
    }
}
