//! The questions that users ask the helper about their own traffic, and its replies: one line of
//! JSON each.

use crate::account::Told;
use crate::sockets::Snapshot;
use serde::{Deserialize, Serialize};

/// Version of the questions and replies. Each change of their format increases it.
const VERSION: u32 = 1;

/// A question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    version: u32,
    pub tell: Tell,
}

/// The subject of a question.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tell {
    /// Whether the helper can run laws on this machine. It tries to load one.
    Ready,
    /// The account of the command that the sender belongs to.
    Account,
    /// The user's connections under these laws; an empty list means any law.
    Sockets(Vec<String>),
}

/// A reply.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The helper refuses, for this reason.
    Refused(String),
    /// To [`Tell::Ready`]: what was tried successfully.
    Ready(String),
    /// To [`Tell::Account`].
    Account(Told),
    /// To [`Tell::Sockets`].
    Sockets(Snapshot),
}

impl Question {
    pub fn new(tell: Tell) -> Question {
        Question { version: VERSION, tell }
    }

    /// Parses a line; `None` if it is another kind of request.
    pub fn parse(line: &[u8]) -> Result<Option<Question>, String> {
        match serde_json::from_slice::<Question>(line) {
            Ok(question) if question.version == VERSION => Ok(Some(question)),
            Ok(question) => Err(format!(
                "the helper speaks version {VERSION} of questions, not {}; restart it",
                question.version
            )),
            Err(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_told_from_a_request() {
        let line = serde_json::to_vec(&Question::new(Tell::Sockets(vec![]))).expect("JSON");
        assert!(matches!(Question::parse(&line), Ok(Some(Question { tell: Tell::Sockets(_), .. }))));
        assert!(leeway_kernel::Request::parse(&line).is_err());
        let request = br#"{"version":1,"law":"ledbat","dscp":null,"receive":null,"what":"x"}"#;
        assert!(matches!(Question::parse(request), Ok(None)));
        let newer = Question::parse(br#"{"version":2,"tell":"account"}"#);
        assert!(newer.is_err_and(|why| why.contains("version 1")));
    }
}
