//! Observations of the home's packets ([`leeway_net::TrafficObserver`]), as the sharing takes
//! them.

use leeway_net::What;
use leeway_share::Observation;

/// The observation for the line towards the home.
pub fn down(what: What) -> Observation {
    match what {
        What::Connects => Observation::Connect,
        What::Sends(_) => Observation::Request,
        What::Brings(bytes) => Observation::Bytes(bytes),
    }
}

/// The observation for the line away from the home; `None` if it has no bytes for that direction.
pub fn up(what: What) -> Option<Observation> {
    match what {
        What::Sends(bytes) => Some(Observation::Bytes(bytes)),
        _ => None,
    }
}
