//! Gateways: who shares a line that belongs to somebody else, by `leeway-share`.

use super::error::Problem;
use super::{App, FieldPath, FlowGroup, Scenario, words};
use leeway_control::LawSpec;
use leeway_share::Policy;
use leeway_units::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A gateway at a node. Background groups that name it are held by it: those that end at its node by their
/// receive windows, those that begin there by what it sends. Primary groups that begin or end there are the
/// foreground it sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Name that flow groups give; unique.
    pub name: String,
    /// The node where it is: the home's end of the line.
    pub node: String,
    /// The law of what comes to the node; that of the sharing where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub law: Option<LawSpec>,
    /// The law of what leaves the node; that of the sharing where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<LawSpec>,
    /// A relay at this node. What begins there and comes to the gateway is held by what the relay sends, and not
    /// by receive windows; the gateway reports to the relay what the home expects. `leeway relay` and `leeway
    /// join` share a line so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// A program at the gateway reads what has come anywhere up to this long after the packet. Where absent it
    /// reads at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_delay: Option<Duration>,
    /// Whether the gateway has the right to see packets (`CAP_NET_RAW`). Without it the gateway does not see the
    /// home, downloads are timed by what a program reads, and uploads by what the kernel says was acknowledged.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub sees_packets: bool,
    /// Constants of the policy that differ from their defaults, by name; see docs/sharing.md.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policy: BTreeMap<String, u64>,
}

/// Where the packets of a group meet a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Held by receive windows: comes to the node.
    Download,
    /// Held where it is sent: comes to the node from its relay.
    Relayed,
    /// Held where it is sent: leaves the node.
    Upload,
    /// The foreground: comes to the node.
    HomeDownload,
    /// The foreground: leaves the node.
    HomeUpload,
}

impl Part {
    /// The line that it goes by: what comes to the node, or what leaves it.
    pub fn way(self) -> usize {
        usize::from(matches!(self, Part::Upload | Part::HomeUpload))
    }

    /// Whether it is held where it is sent.
    pub fn is_sent(self) -> bool {
        matches!(self, Part::Relayed | Part::Upload)
    }
}

impl Gateway {
    /// The laws of what comes to the node and of what leaves it.
    pub fn laws(&self) -> [LawSpec; 2] {
        let or_shared = |law: &Option<LawSpec>| {
            law.clone().unwrap_or_else(|| leeway_share::LAW.parse().expect("the default law is one"))
        };
        [or_shared(&self.law), or_shared(&self.uplink)]
    }

    /// The policy.
    ///
    /// # Errors
    /// What is wrong with which constant.
    pub fn policy(&self) -> Result<Policy, (String, String)> {
        self.policy.iter().try_fold(Policy::default(), |policy, (name, &value)| {
            policy.with(name, value).map_err(|error| (name.clone(), error.to_string()))
        })
    }
}

impl Scenario {
    /// Which gateway meets the packets of `group`, and how; nothing where none does.
    pub fn gateway_of(&self, group: &FlowGroup) -> Option<(usize, Part)> {
        let from = group.from.as_deref().unwrap_or(super::Dumbbell::LEFT);
        let to = group.to.as_deref().unwrap_or(super::Dumbbell::RIGHT);
        self.gateway.iter().enumerate().find_map(|(index, gateway)| {
            let (ends, begins) = (to == gateway.node, from == gateway.node);
            let part = match (&group.gateway, group.role.is_primary()) {
                (Some(name), _) if *name == gateway.name && ends => match &gateway.relay {
                    Some(relay) if from != relay => return None,
                    Some(_) => Part::Relayed,
                    None => Part::Download,
                },
                (Some(name), _) if *name == gateway.name && begins => Part::Upload,
                (None, true) if ends => Part::HomeDownload,
                (None, true) if begins => Part::HomeUpload,
                _ => return None,
            };
            Some((index, part))
        })
    }

    pub(super) fn check_gateways(&self) -> Result<(), Problem> {
        let at = FieldPath::root().key("gateway");
        super::check::entries(&at, self.gateway.len(), 16)?;
        let links = self.links();
        let mut nodes: Vec<&str> =
            links.iter().flat_map(|link| [link.from.as_str(), link.to.as_str()]).collect();
        nodes.dedup();
        let several: Vec<&str> =
            links.iter().filter(|link| link.count > 1).map(|link| link.from.as_str()).collect();
        for (i, gateway) in self.gateway.iter().enumerate() {
            let at = at.index(i);
            super::check::name(at.key("name"), &gateway.name)?;
            let twice = |other: &Gateway| other.name == gateway.name || other.node == gateway.node;
            if self.gateway[..i].iter().any(twice) {
                return Err(Problem::new(at.key("name"), "another gateway has this name or this node")
                    .help("each gateway has a name and a node of its own"));
            }
            check_node(at.key("node"), &gateway.node, &nodes, &several)?;
            if let Some(relay) = &gateway.relay {
                check_node(at.key("relay"), relay, &nodes, &several)?;
                if *relay == gateway.node {
                    return Err(Problem::new(at.key("relay"), "the relay is where the gateway is")
                        .help("a relay is at the other end of the line"));
                }
                if !gateway.sees_packets {
                    let what = "a gateway with a relay sees the home, for which it reports";
                    return Err(Problem::new(at.key("sees_packets"), what).help("leave `sees_packets` out"));
                }
                if gateway.read_delay.is_some() {
                    let what = "a gateway with a relay sees each packet when it comes";
                    return Err(Problem::new(at.key("read_delay"), what).help("leave `read_delay` out"));
                }
            }
            gateway.policy().map_err(|(name, why)| Problem::new(at.key("policy").key(&name), why))?;
        }
        self.flow.iter().enumerate().try_for_each(|(i, group)| self.check_held(i, group))
    }

    /// The `i`-th group, if a gateway holds it.
    fn check_held(&self, i: usize, group: &FlowGroup) -> Result<(), Problem> {
        let Some(name) = &group.gateway else { return Ok(()) };
        let at = FieldPath::root().key("flow").index(i).key("gateway");
        let names: Vec<&str> = self.gateway.iter().map(|gateway| gateway.name.as_str()).collect();
        if !names.contains(&name.as_str()) {
            return Err(Problem::new(at, format!("there is no gateway `{name}`")).help(words::suggest(
                name,
                &names,
                "the gateways are",
            )));
        }
        if group.role.is_primary() {
            return Err(Problem::new(at, "a gateway holds background, and this group is primary")
                .help("give the group `role = \"background\"`"));
        }
        let met = self.gateway_of(group);
        let held = match group.app {
            App::Bulk | App::Transfer { .. } | App::OnOff { .. } => true,
            App::Request { .. } => !matches!(met, Some((_, Part::Upload))),
            _ => false,
        };
        if !held {
            return Err(Problem::new(at, "a gateway cannot hold this kind of application")
                .help("bulk, transfer, on_off; and request, where the answers come to the gateway"));
        }
        if met.is_none() {
            let what = format!("`{}` neither begins nor ends at the gateway", group.name);
            return Err(Problem::new(at, what).help(
                "its `from` or `to` is the gateway's `node`; what comes through a relay begins at the relay",
            ));
        }
        Ok(())
    }
}

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_yes(value: &bool) -> bool {
    *value
}

/// Whether `node` is one of `nodes`, and one alone.
fn check_node(at: FieldPath, node: &str, nodes: &[&str], several: &[&str]) -> Result<(), Problem> {
    if !nodes.contains(&node) {
        return Err(Problem::new(at, format!("there is no node `{node}`")).help(words::suggest(
            node,
            nodes,
            "the nodes are",
        )));
    }
    if several.contains(&node) {
        return Err(Problem::new(at, format!("`{node}` stands for several nodes"))
            .help("a gateway and a relay are at one node each: give its link no `count`"));
    }
    Ok(())
}
