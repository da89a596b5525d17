//! Routes: the links that a flow takes.

use super::error::Problem;
use super::{Channel, Direction, Dumbbell, FieldPath, FlowGroup, Link, Scenario, words};
use std::collections::{BTreeMap, VecDeque};

/// One link of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hop {
    /// Index of the link in [`Scenario::links`].
    pub link: usize,
    /// Direction of the data. ACKs take the opposite direction.
    pub direction: Direction,
}

impl Scenario {
    /// All links: that of the dumbbell first, then the others in the order of the file.
    pub fn links(&self) -> Vec<Link> {
        self.dumbbell.iter().map(Dumbbell::to_link).chain(self.link.iter().cloned()).collect()
    }

    /// The channels of the scenario, with their places, and the number of like links that have
    /// them.
    pub(super) fn channels(&self) -> impl Iterator<Item = (FieldPath, &Channel, u32)> {
        let dumbbell = self.dumbbell.iter().flat_map(|d| {
            let at = FieldPath::root().key("dumbbell");
            let reverse = d.reverse.as_ref().map(|channel| (at.key("reverse"), channel, 1));
            std::iter::once((at.key("bottleneck"), &d.bottleneck, 1)).chain(reverse)
        });
        let links = self.link.iter().enumerate().flat_map(|(i, link)| {
            let at = FieldPath::root().key("link").index(i);
            let reverse = link.reverse.as_ref().map(|channel| (at.key("reverse"), channel, link.count));
            std::iter::once((at.key("forward"), &link.forward, link.count)).chain(reverse)
        });
        dumbbell.chain(links)
    }

    pub(super) fn channels_mut(&mut self) -> impl Iterator<Item = &mut Channel> {
        let dumbbell = self
            .dumbbell
            .iter_mut()
            .flat_map(|d| std::iter::once(&mut d.bottleneck).chain(d.reverse.as_mut()));
        let links = self
            .link
            .iter_mut()
            .flat_map(|link| std::iter::once(&mut link.forward).chain(link.reverse.as_mut()));
        dumbbell.chain(links)
    }

    /// The route of each group over `links`, which are [`Scenario::links`].
    pub fn routes(&self, links: &[Link]) -> Result<Vec<Vec<Hop>>, Problem> {
        let at = FieldPath::root().key("flow");
        let groups = self.flow.iter().enumerate();
        groups.map(|(i, group)| route(links, group, self.dumbbell.is_some(), &at.index(i))).collect()
    }
}

pub(super) fn route(
    links: &[Link],
    group: &FlowGroup,
    dumbbell: bool,
    at: &FieldPath,
) -> Result<Vec<Hop>, Problem> {
    let end = |given: &Option<String>, usual: &str, field: &str| match given {
        Some(node) => match links.iter().any(|link| link.from == *node || link.to == *node) {
            true => Ok(node.clone()),
            false => Err(Problem::new(at.key(field), format!("no link ends at a node `{node}`"))
                .help(words::suggest(node, &nodes(links), "the nodes are"))),
        },
        None if dumbbell => Ok(usual.to_owned()),
        None => Err(Problem::new(
            at.key(field),
            format!("the group `{}` does not say which node it is", group.name),
        )
        .help(format!("only a dumbbell has `left` and `right`; add `{field} = \"...\"`"))),
    };
    let from = end(&group.from, Dumbbell::LEFT, "from")?;
    let to = end(&group.to, Dumbbell::RIGHT, "to")?;
    if from == to {
        return Err(Problem::new(at.key("to"), format!("senders and receivers are both at `{to}`"))
            .help("give `from` and `to` different nodes"));
    }
    match group.via.is_empty() {
        true => shortest(links, &from, &to).ok_or_else(|| {
            Problem::new(at.clone(), format!("no route from `{from}` to `{to}`"))
                .help("add a link between them")
        }),
        false => explicit(links, group, &from, &to, at),
    }
}

fn nodes(links: &[Link]) -> Vec<&str> {
    let mut nodes: Vec<&str> = Vec::new();
    for end in links.iter().flat_map(|link| [link.from.as_str(), link.to.as_str()]) {
        if !nodes.contains(&end) {
            nodes.push(end);
        }
    }
    nodes
}

/// The route with the fewest links. Among several, the one whose links come first in the file.
fn shortest(links: &[Link], from: &str, to: &str) -> Option<Vec<Hop>> {
    let mut out: BTreeMap<&str, Vec<(Hop, &str)>> = BTreeMap::new();
    for (index, link) in links.iter().enumerate() {
        let hop = |direction| Hop { link: index, direction };
        out.entry(&link.from).or_default().push((hop(Direction::Forward), &link.to));
        out.entry(&link.to).or_default().push((hop(Direction::Reverse), &link.from));
    }
    let mut reached: BTreeMap<&str, Option<(Hop, &str)>> = BTreeMap::from([(from, None)]);
    let mut next = VecDeque::from([from]);
    while let Some(node) = next.pop_front() {
        if node == to {
            break;
        }
        for &(hop, neighbour) in out.get(node)? {
            reached.entry(neighbour).or_insert_with(|| {
                next.push_back(neighbour);
                Some((hop, node))
            });
        }
    }
    let mut hops = Vec::new();
    let mut node = to;
    while let Some((hop, before)) = *reached.get(node)? {
        hops.push(hop);
        node = before;
    }
    hops.reverse();
    Some(hops)
}

/// The route along the links of `via`.
fn explicit(
    links: &[Link],
    group: &FlowGroup,
    from: &str,
    to: &str,
    at: &FieldPath,
) -> Result<Vec<Hop>, Problem> {
    let mut node = from;
    let mut hops = Vec::new();
    for (i, name) in group.via.iter().enumerate() {
        let here = at.key("via").index(i);
        let Some((index, link)) = links.iter().enumerate().find(|(_, link)| link.name == *name) else {
            let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
            return Err(Problem::new(here, format!("there is no link `{name}`")).help(words::suggest(
                name,
                &names,
                "the links are",
            )));
        };
        let (direction, end) = match node {
            _ if link.from == node => (Direction::Forward, &link.to),
            _ if link.to == node => (Direction::Reverse, &link.from),
            _ => {
                return Err(Problem::new(here, format!("the link `{name}` does not touch `{node}`"))
                    .help(format!("it joins `{}` and `{}`", link.from, link.to)));
            }
        };
        hops.push(Hop { link: index, direction });
        node = end;
    }
    match node == to {
        true => Ok(hops),
        false => Err(Problem::new(at.key("via"), format!("the links lead to `{node}`, not to `{to}`"))
            .help("list every link from the senders to the receivers, in order")),
    }
}
