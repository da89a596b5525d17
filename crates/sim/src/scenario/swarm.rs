//! File sharing among peers: the file, and what all peers have in common. The peers themselves are
//! flow groups with the application [`App::Peer`].

use super::check::{at_most, between, positive};
use super::error::Problem;
use super::{App, FieldPath, FlowGroup, Scenario, limits};
use leeway_units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The file that the peers of a scenario share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Swarm {
    /// Pieces of the file. A peer can pass on whole pieces only.
    pub pieces: u32,
    /// Size of a piece: a whole number of blocks.
    #[serde(default = "quarter_mebibyte")]
    pub piece: Bytes,
    /// Size of a block, which is what one request asks for.
    #[serde(default = "sixteen_kibibytes")]
    pub block: Bytes,
    /// Connections that a peer opens when it arrives. It accepts connections of others until it
    /// has twice as many.
    #[serde(default = "twenty")]
    pub neighbours: u32,
    /// Requests that a peer has outstanding with each neighbour that serves it.
    #[serde(default = "five")]
    pub requests: u32,
}

fn quarter_mebibyte() -> Bytes {
    Bytes::new(262_144)
}

fn sixteen_kibibytes() -> Bytes {
    Bytes::new(16_384)
}

fn twenty() -> u32 {
    20
}

fn five() -> u32 {
    5
}

impl Swarm {
    /// Blocks of a piece.
    pub fn blocks(&self) -> u32 {
        (self.piece.get() / self.block.get().max(1)) as u32
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        u64::from(self.pieces) * self.piece.get()
    }
}

impl Scenario {
    /// The flow groups of peers, with their places in the scenario.
    fn peers(&self) -> impl Iterator<Item = (FieldPath, &FlowGroup)> {
        let at = FieldPath::root().key("flow");
        let groups = self.flow.iter().enumerate();
        groups
            .filter(|(_, group)| matches!(group.app, App::Peer { .. }))
            .map(move |(i, group)| (at.index(i), group))
    }

    /// Flows that peers make at most if no peer leaves; a connection is two flows, one in each
    /// direction.
    pub(super) fn peer_flows(&self) -> f64 {
        let peers: f64 = self.peers().map(|(_, group)| f64::from(group.count)).sum();
        self.swarm.as_ref().map_or(0.0, |swarm| 2.0 * peers * f64::from(swarm.neighbours).min(peers))
    }

    pub(super) fn check_swarm(&self) -> Result<(), Problem> {
        let at = FieldPath::root().key("swarm");
        let Some(swarm) = &self.swarm else {
            return match self.peers().next() {
                None => Ok(()),
                Some((group, _)) => {
                    Err(Problem::new(group.key("app"), "there is no file for peers to share")
                        .help("add a table `[swarm]` with a number of `pieces`"))
                }
            };
        };
        if swarm.pieces == 0 {
            return Err(Problem::new(at.key("pieces"), "a file of no pieces leaves nothing to share")
                .help("1 or more"));
        }
        between(at.key("pieces"), swarm.pieces.into(), 1, 100_000)?;
        between(at.key("block"), swarm.block.get(), 1, 1 << 20)?;
        between(at.key("piece"), swarm.piece.get(), 1, 1 << 30)?;
        if !swarm.piece.get().is_multiple_of(swarm.block.get()) {
            let (piece, block) = (swarm.piece, swarm.block);
            return Err(Problem::new(
                at.key("piece"),
                format!("{piece} is no whole number of blocks of {block}"),
            )
            .help("make `piece` a multiple of `block`"));
        }
        between(at.key("piece"), swarm.blocks().into(), 1, 10_000)?;
        between(at.key("neighbours"), swarm.neighbours.into(), 1, 1_000)?;
        between(at.key("requests"), swarm.requests.into(), 1, 1_000)?;
        let flows = self.peer_flows();
        if flows > limits::FLOWS as f64 {
            return Err(Problem::new(
                at.key("neighbours"),
                format!("the peers can have {flows:.0} connections"),
            )
            .help(format!("at most {}, both directions counted", limits::FLOWS)));
        }
        let meet = self.peers().next().map(|(_, group)| &group.to);
        for (group, peer) in self.peers() {
            self.check_peer(&group, peer)?;
            if Some(&peer.to) != meet {
                return Err(Problem::new(group.key("to"), "the peers do not meet at one node")
                    .help("give every group of peers the same `to`"));
            }
        }
        let seeds = self.peers().any(|(_, group)| matches!(group.app, App::Peer { seed: true, .. }));
        match seeds {
            true => Ok(()),
            false => Err(Problem::new(at, "nobody has the file: there is no seed")
                .help("add a flow group with `app = { kind = \"peer\", seed = true }`")),
        }
    }

    fn check_peer(&self, at: &FieldPath, group: &FlowGroup) -> Result<(), Problem> {
        let App::Peer { slots, stay, .. } = group.app else { return Ok(()) };
        between(at.key("app").key("slots"), slots.into(), 0, 1_000)?;
        if let Some(stay) = stay {
            positive(at.key("app").key("stay"), stay)?;
            at_most(at.key("app").key("stay"), stay, limits::DURATION)?;
        }
        if group.access_rate.is_some() {
            return Err(Problem::new(
                at.key("access_rate"),
                "a peer has no access link beside the link at its `from`",
            )
            .help("give the link a `rate`, and a `count` to give each peer a link of its own"));
        }
        match self.gateway_of(group) {
            None => Ok(()),
            Some(_) => Err(Problem::new(at.key("from"), "a gateway cannot limit peers")
                .help("put the peers at another node")),
        }
    }
}
