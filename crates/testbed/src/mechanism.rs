//! The mechanisms to share a line, by name.

pub use crate::paths::Tunnel;
use leeway_queue::QueueSpec;
use std::fmt;
use std::str::FromStr;

/// A mechanism: the path of the secondaries' traffic, and the line's queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Mechanism {
    /// The path of the secondaries' traffic.
    pub path: Path,
    /// The queue of the line, for all traffic, instead of the line's own.
    pub queue: Option<QueueSpec>,
}

/// The path of the secondaries' traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// No traffic of secondaries.
    PrimaryOnly,
    /// Beside the primary's, as if it were the same.
    BestEffort,
    /// Through the kernel's HTB on the gateway, which knows the rate of the line.
    Borrowing,
    /// Through the line's own queue of classes.
    BorrowingLine,
    /// Through a tunnel between the gateway and a relay on the Internet.
    Tunnel(Tunnel),
    /// Through the gateway's proxy, under this law or its own.
    Proxy(Option<String>),
    /// Through the gateway's proxy, and from there through a relay on the Internet.
    ProxyRelay,
}

/// The names and their meanings.
pub const NAMES: &[(&str, &str)] = &[
    ("prim_only", "there are no secondaries: what everything else is compared with"),
    ("best_effort", "secondaries beside the primary, as if they were the same"),
    (
        "borrowing",
        "HTB of the kernel on the gateway, which knows the rate; the primary first, what it leaves is lent",
    ),
    ("borrowing-line", "the same by our queue `borrowing`, at the head of the line itself"),
    ("sfq", "best effort with fair queueing at the line"),
    ("codel", "best effort with CoDel at the line"),
    ("fq_codel", "best effort with fair queueing and CoDel at the line"),
    ("tcpcubic", "a TCP tunnel between the gateway and a relay, under the kernel's CUBIC"),
    ("tcpvegas", "the same under Vegas"),
    ("tcplp", "the same under TCP-LP"),
    ("ipip", "a tunnel of IP in IP between the two, which holds nothing back"),
    (
        "relay",
        "a QUIC tunnel between the gateway and a relay, under a law of Leeway's that does not know the rate",
    ),
    ("proxy", "the gateway's proxy, which holds downloads back and does not know the rate"),
    (
        "proxy-relay",
        "the gateway's proxy with a relay: what it fetches comes through a tunnel, under the relay's law",
    ),
];

/// Further forms of names, for lists of mechanisms.
pub const VARIANTS: &str = "any queue by its name; a queue behind a mechanism: tcplp+codel, best_effort+pie; \
    a law of choice: relay:LAW, proxy:LAW, tcp:LAW";

/// An invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MechanismError {
    /// Unknown mechanism.
    #[error("there is no mechanism `{name}`; there are {}, and {}",
        NAMES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "), VARIANTS)]
    Unknown {
        /// The name in the request.
        name: String,
    },
    /// The suffix behind `+` is not a queue.
    #[error("`{name}`: {why}")]
    Queue {
        /// The name in the request.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The mechanism is a queue of the line already.
    #[error("`{name}`: borrowing-line is the line's queue; it cannot have another")]
    TwoQueues {
        /// The name in the request.
        name: String,
    },
}

impl FromStr for Mechanism {
    type Err = MechanismError;

    fn from_str(name: &str) -> Result<Self, MechanismError> {
        let queue = |text: &str| {
            let wrong = |why: String| MechanismError::Queue { name: name.into(), why };
            text.parse::<QueueSpec>().map_err(|error| wrong(error.to_string()))
        };
        let (path, behind) = match name.split_once('+') {
            Some((path, behind)) => (path, Some(queue(behind)?)),
            None => (name, None),
        };
        let path = match path {
            "prim_only" => Path::PrimaryOnly,
            "best_effort" => Path::BestEffort,
            "borrowing" => Path::Borrowing,
            "borrowing-line" if behind.is_some() => {
                return Err(MechanismError::TwoQueues { name: name.into() });
            }
            "borrowing-line" => Path::BorrowingLine,
            "tcpcubic" => Path::Tunnel(Tunnel::Tcp("cubic".into())),
            "tcpvegas" => Path::Tunnel(Tunnel::Tcp("vegas".into())),
            "tcplp" | "lp" => Path::Tunnel(Tunnel::Tcp("lp".into())),
            "ipip" => Path::Tunnel(Tunnel::IpInIp),
            "relay" => Path::Tunnel(Tunnel::Quic(None)),
            "proxy" => Path::Proxy(None),
            "proxy-relay" => Path::ProxyRelay,
            _ if path.starts_with("tcp:") => Path::Tunnel(Tunnel::Tcp(path[4..].into())),
            _ if path.starts_with("relay:") => Path::Tunnel(Tunnel::Quic(Some(path[6..].into()))),
            _ if path.starts_with("proxy:") => Path::Proxy(Some(path[6..].into())),
            // A queue without a mechanism in front.
            _ if behind.is_none() && queue(name).is_ok() => {
                return Ok(Mechanism { path: Path::BestEffort, queue: Some(queue(name)?) });
            }
            _ => return Err(MechanismError::Unknown { name: name.into() }),
        };
        Ok(Mechanism { path, queue: behind })
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = match &self.path {
            Path::PrimaryOnly => "prim_only".into(),
            Path::BestEffort => "best_effort".into(),
            Path::Borrowing => "borrowing".into(),
            Path::BorrowingLine => "borrowing-line".into(),
            Path::Tunnel(Tunnel::Tcp(law)) => match law.as_str() {
                "cubic" | "vegas" | "lp" => format!("tcp{law}"),
                other => format!("tcp:{other}"),
            },
            Path::Tunnel(Tunnel::IpInIp) => "ipip".into(),
            Path::Tunnel(Tunnel::Quic(None)) => "relay".into(),
            Path::Tunnel(Tunnel::Quic(Some(law))) => format!("relay:{law}"),
            Path::Proxy(None) => "proxy".into(),
            Path::ProxyRelay => "proxy-relay".into(),
            Path::Proxy(Some(law)) => format!("proxy:{law}"),
        };
        match (&self.path, &self.queue) {
            (Path::BestEffort, Some(queue)) => write!(f, "{queue}"),
            (_, Some(queue)) => write!(f, "{path}+{queue}"),
            (_, None) => f.write_str(&path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (name, _) in NAMES {
            let mechanism: Mechanism = name.parse().unwrap();
            assert_eq!(mechanism.to_string(), *name);
        }
        let pie: Mechanism = "best_effort+pie".parse().unwrap();
        assert_eq!(pie.to_string(), "pie");
        let both: Mechanism = "borrowing+codel".parse().unwrap();
        assert_eq!((both.path.clone(), both.to_string().as_str()), (Path::Borrowing, "borrowing+codel"));
        let tunnel: Mechanism = "lp+codel".parse().unwrap();
        assert_eq!(tunnel.to_string(), "tcplp+codel");
        for name in ["relay:ledbat:target=10ms", "proxy:fledbat", "tcp:flower+sfq", "tcp:bbr"] {
            assert_eq!(name.parse::<Mechanism>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_wrong_name_says_what_there_is() {
        for (name, why) in [
            ("squid", "prim_only, best_effort"),
            ("borrowing+fast", "borrowing+fast"),
            ("borrowing-line+codel", "cannot have another"),
        ] {
            let error = name.parse::<Mechanism>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
