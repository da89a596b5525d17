//! Paths at the proxy's own address that concern several gateways.

use crate::language::Language;
use std::net::{IpAddr, SocketAddr};

/// Path of a gateway's state (RFC 8615).
pub const DOCUMENT: &str = "/.well-known/leeway";
/// Path of the PAC file.
pub const PAC: &str = "/proxy.pac";
/// Path of the description of these paths.
pub const DESCRIPTION: &str = "/openapi.json";

/// One of the paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// [`DOCUMENT`].
    Document,
    /// [`PAC`].
    Pac,
    /// [`DESCRIPTION`].
    Description,
}

impl Route {
    /// The route of a path, if it has one.
    pub fn of(path: &str) -> Option<Route> {
        match path {
            DOCUMENT => Some(Route::Document),
            PAC => Some(Route::Pac),
            DESCRIPTION => Some(Route::Description),
            _ => None,
        }
    }
}

/// Who asks, and how.
#[derive(Debug)]
pub struct Asker {
    /// The client's address.
    pub client: IpAddr,
    /// Name and password, or a code with anything.
    pub given: Option<(String, String)>,
    /// The address of the proxy at which the client asks.
    pub own: SocketAddr,
    /// The language of a refusal.
    pub language: Language,
}
