//! Gateways of a scenario. A gateway shares its owner's line with neighbours, by `leeway-share`.

use super::error::Problem;
use super::{App, FieldPath, FlowGroup, Scenario, words};
use leeway_control::LawSpec;
use leeway_share::Policy;
use leeway_units::Duration;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A gateway at a node. It limits the background groups that name it: those that end at its node
/// by their receive windows, those that begin there by what they may send. Primary groups that
/// begin or end at the node are the home's traffic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    /// Name of the gateway, which flow groups refer to; unique.
    pub name: String,
    /// The node where it is: the home's end of the line.
    pub node: String,
    /// Control law of downloads; the default of `leeway-share` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub law: Option<LawSpec>,
    /// Control law of uploads; the default of `leeway-share` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<LawSpec>,
    /// Node of a relay. Background groups that begin there and end at the gateway are limited by
    /// what the relay sends, and not by receive windows. The gateway reports to the relay what the
    /// home expects. `leeway relay` and `leeway join` share a line in this way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// A program at the gateway reads arrived bytes up to this long after their packet. It reads
    /// at once if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_delay: Option<Duration>,
    /// Whether the gateway may see packets (`CAP_NET_RAW`). Without this right it does not see the
    /// home's traffic, times downloads by what a program reads, and times uploads by what the
    /// kernel says was acknowledged.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub sees_packets: bool,
    /// Constants of the sharing policy that differ from their defaults, by name; see
    /// docs/sharing.md.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policy: BTreeMap<String, u64>,
}

/// How the traffic of a group passes a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Background that ends at the node; the gateway limits it by receive windows.
    Download,
    /// Background that comes from the relay; the relay limits what it sends.
    Relayed,
    /// Background that begins at the node; the gateway limits what is sent.
    Upload,
    /// Traffic of the home that ends at the node.
    HomeDownload,
    /// Traffic of the home that begins at the node.
    HomeUpload,
}

impl Part {
    /// Direction of the line: 0 towards the node, 1 away from it.
    pub fn way(self) -> usize {
        usize::from(matches!(self, Part::Upload | Part::HomeUpload))
    }

    /// Whether grants limit what is sent, and not a receive window.
    pub fn is_sent(self) -> bool {
        matches!(self, Part::Relayed | Part::Upload)
    }
}

impl Gateway {
    /// The control laws of downloads and of uploads.
    pub fn laws(&self) -> [LawSpec; 2] {
        let or_shared = |law: &Option<LawSpec>| {
            law.clone().unwrap_or_else(|| leeway_share::LAW.parse().expect("the default law is one"))
        };
        [or_shared(&self.law), or_shared(&self.uplink)]
    }

    /// The sharing policy with the scenario's constants.
    ///
    /// # Errors
    /// Name of the wrong constant, and what is wrong with it.
    pub fn policy(&self) -> Result<Policy, (String, String)> {
        self.policy.iter().try_fold(Policy::default(), |policy, (name, &value)| {
            policy.with(name, value).map_err(|error| (name.clone(), error.to_string()))
        })
    }
}

impl Scenario {
    /// Index of the gateway on the path of `group`, and how the group passes it. `None` without a
    /// gateway.
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
                    let what = "a gateway with a relay has to see packets, because it reports on the home";
                    return Err(Problem::new(at.key("sees_packets"), what).help("leave `sees_packets` out"));
                }
                if gateway.read_delay.is_some() {
                    let what = "a gateway with a relay sees each packet when the packet arrives";
                    return Err(Problem::new(at.key("read_delay"), what).help("leave `read_delay` out"));
                }
            }
            gateway.policy().map_err(|(name, why)| Problem::new(at.key("policy").key(&name), why))?;
        }
        self.flow.iter().enumerate().try_for_each(|(i, group)| self.check_held(i, group))
    }

    /// Checks whether a gateway can limit the `i`-th group, if the group names one.
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
            return Err(Problem::new(at, "a gateway limits background groups, and this group is primary")
                .help("give the group `role = \"background\"`"));
        }
        let met = self.gateway_of(group);
        let held = match group.app {
            App::Bulk | App::Transfer { .. } | App::OnOff { .. } => true,
            App::Request { .. } => !matches!(met, Some((_, Part::Upload))),
            _ => false,
        };
        if !held {
            return Err(Problem::new(at, "a gateway cannot limit this kind of application").help(
                "it can limit bulk, transfer and on_off; and request, if the answers come to the gateway",
            ));
        }
        if met.is_none() {
            let what = format!("`{}` neither begins nor ends at the gateway", group.name);
            return Err(Problem::new(at, what).help(
                "make its `from` or `to` the gateway's `node`; with a relay, downloads begin at the relay's node",
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

/// Checks that `node` exists, and that it is not an end of a link with a `count`.
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
