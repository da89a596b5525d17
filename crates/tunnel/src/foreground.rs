//! How the packets of the home's machines ([`leeway_net::TrafficObserver`]) are seen by the sharing.

use leeway_net::What;
use leeway_share::Observation;

/// What the packet of a machine of the home says of what comes to it.
pub fn down(what: What) -> Observation {
    match what {
        What::Connects => Observation::Connect,
        What::Sends(_) => Observation::Request,
        What::Brings(bytes) => Observation::Bytes(bytes),
    }
}

/// And of what leaves it.
pub fn up(what: What) -> Option<Observation> {
    match what {
        What::Sends(bytes) => Some(Observation::Bytes(bytes)),
        _ => None,
    }
}
