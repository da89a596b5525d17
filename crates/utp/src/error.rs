//! Why a connection ended.

/// Why a connection ended before it was finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UtpError {
    /// Nobody answered the request for a connection.
    #[error("nobody answered; is a uTP program listening at that address and port?")]
    Unanswered,
    /// The peer answered that it does not want, or does not know, the connection.
    #[error("the peer has reset the connection")]
    Reset,
    /// Nothing of what waits was acknowledged for a long time.
    #[error("the peer has acknowledged nothing for a long time")]
    Stalled,
    /// The peer was silent for a long time.
    #[error("the peer has said nothing for a long time")]
    Silent,
    /// This side gave the connection up.
    #[error("the connection was given up by this side")]
    Aborted,
    /// This side has said that it writes nothing more.
    #[error("this side of the connection was finished; nothing more can be written")]
    Finished,
}
