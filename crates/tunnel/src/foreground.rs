//! How the packets of the home's machines ([`leeway_net::Lookout`]) are seen by the sharing.

use leeway_net::What;
use leeway_share::Sight;

/// What the packet of a machine of the home says of what comes to it.
pub fn down(what: What) -> Sight {
    match what {
        What::Connects => Sight::Connect,
        What::Sends(_) => Sight::Request,
        What::Brings(bytes) => Sight::Bytes(bytes),
    }
}

/// And of what leaves it.
pub fn up(what: What) -> Option<Sight> {
    match what {
        What::Sends(bytes) => Some(Sight::Bytes(bytes)),
        _ => None,
    }
}
