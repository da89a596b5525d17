//! Paths at the proxy's own address that concern several gateways.

use crate::language::Language;
use std::net::{IpAddr, SocketAddr};

/// Where a gateway says how it stands (RFC 8615).
pub const DOCUMENT: &str = "/.well-known/leeway";
/// Where browsers get the proxies to use.
pub const PAC: &str = "/proxy.pac";
/// Where these paths are described.
pub const DESCRIPTION: &str = "/openapi.json";

/// What is asked for.
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
    /// The one at that path, if there is one.
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
    /// Name and password, or code and anything.
    pub given: Option<(String, String)>,
    /// The proxy's address that it asks.
    pub own: SocketAddr,
    /// The language of a refusal.
    pub language: Language,
}
