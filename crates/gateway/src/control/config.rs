//! Configuration of the control socket.

use serde::Deserialize;
use std::path::PathBuf;

/// The control socket, if nothing else is said.
pub const SOCKET: &str = "/run/leeway/gateway/control.sock";

/// `[control]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// The Unix socket.
    pub socket: PathBuf,
    /// Folder of what outlives a restart: the pause.
    pub state: PathBuf,
    /// Whether the gateway starts only with it. Not if nobody asked for it: two gateways of one
    /// machine have the same default.
    #[serde(skip, default = "yes")]
    pub required: bool,
}

impl Default for ControlConfig {
    fn default() -> ControlConfig {
        ControlConfig { socket: SOCKET.into(), state: "/var/lib/leeway/gateway".into(), required: true }
    }
}

fn yes() -> bool {
    true
}
