//! What users ask the helper about what is their own, and what it tells them: a line of JSON each.

use crate::account::Told;
use crate::sockets::Snapshot;
use serde::{Deserialize, Serialize};

/// Grows with each change of these texts.
const VERSION: u32 = 1;

/// Asks for something to be told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    version: u32,
    pub tell: Tell,
}

/// About what.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tell {
    /// Whether the helper can run laws here: it tries.
    Ready,
    /// What the command that the sender belongs to has sent and received.
    Account,
    /// The user's connections under these laws; none: under any.
    Sockets(Vec<String>),
}

/// What is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// Nothing, and why.
    Refused(String),
    /// To [`Tell::Ready`]: what was tried.
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

    /// A line, taken apart; none where it is another kind of request.
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
