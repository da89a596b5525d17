//! Configuration of the control socket.

use serde::Deserialize;
use std::path::PathBuf;

/// Path of the control socket, unless the configuration names another.
pub const SOCKET: &str = "/run/leeway/gateway/control.sock";

/// The section `[control]` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// Folder of the files that are kept over a restart: the pause, and the revoked users.
    pub state: PathBuf,
    /// Whether the gateway refuses to start without the socket. False if `[control]` is not in the
    /// configuration: two gateways of one machine have the same default path.
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
