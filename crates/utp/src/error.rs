//! Why a connection ended.

/// Why a connection ended before it was finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UtpError {
    /// Nobody answered the SYN.
    #[error("nobody answered; is a uTP program listening at that address and port?")]
    Unanswered,
    /// The peer sent a RESET: it refuses the connection or does not know it.
    #[error("the peer has reset the connection")]
    Reset,
    /// The peer acknowledged nothing for `Config::stall_us`.
    #[error("the peer has acknowledged nothing for a long time")]
    Stalled,
    /// The peer was silent for `Config::idle_us`.
    #[error("the peer has said nothing for a long time")]
    Silent,
    /// This side reset the connection.
    #[error("the connection was given up by this side")]
    Aborted,
    /// This side has ended its stream.
    #[error("this side of the connection was finished; nothing more can be written")]
    Finished,
}
