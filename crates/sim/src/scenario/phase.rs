//! Warns of phase effects: results that depend on the order in which packets meet.
//!
//! With equal round-trip times, equal packets and no noise, packets reach a full queue in the same
//! order in every round trip. So one order decides for the whole run which flow loses packets
//! (Floyd and Jacobson 1992, "On traffic phase effects in packet-switched gateways").

use super::{App, Dist, FieldPath, FlowGroup, Hop, Link, Problem, Scenario};
use leeway_queue::QueueSpec;
use leeway_units::{Duration, Time};

/// Flows in step from which on [`Scenario::warnings`] warns. Fewer flows that begin together are a
/// common experiment of the literature. With this many, some get next to nothing and others more
/// than twice their share.
pub const IN_STEP: u32 = 8;

/// What flows have in common that are in step.
#[derive(PartialEq)]
struct Step {
    start: Time,
    access: Duration,
    hops: Vec<Hop>,
}

impl Scenario {
    /// What makes the results of a valid scenario doubtful: the field, the reason, and a remedy.
    pub fn warnings(&self) -> Vec<Problem> {
        let links = self.links();
        let Ok(routes) = self.routes(&links) else { return Vec::new() };
        let mut steps: Vec<(Step, u32, usize)> = Vec::new();
        for (index, (group, hops)) in self.flow.iter().zip(routes).enumerate() {
            let Some(step) = self.step(group, hops, &links) else { continue };
            match steps.iter_mut().find(|(known, ..)| *known == step) {
                Some((_, flows, _)) => *flows += group.count,
                None => steps.push((step, group.count, index)),
            }
        }
        let doubtful = steps.into_iter().filter(|(_, flows, _)| *flows >= IN_STEP);
        doubtful
            .map(|(step, flows, index)| {
                let at = FieldPath::root().key("flow").index(index).key("start");
                let message = format!(
                    "{flows} flows start at {} with the same round-trip time and no noise: the phase of their packets \
                     decides which of them get something",
                    step.start
                );
                Problem::new(at, message).help(
                    "draw the starts, `start = { uniform = [\"0 s\", \"1 s\"] }`, or give the hosts a processing delay, \
                     `tcp.overhead = \"1 ms\"`, and compare several seeds",
                )
            })
            .collect()
    }

    /// What the flows of `group` have in common. `None` if the flows differ, or if something on
    /// their path is random.
    fn step(&self, group: &FlowGroup, hops: Vec<Hop>, links: &[Link]) -> Option<Step> {
        let steady = |hop: &Hop, back: bool| {
            let forward = (hop.direction == super::Direction::Forward) != back;
            let link = &links[hop.link];
            let channel = if forward { link.forward.clone() } else { link.backward() };
            channel.loss.is_none()
                && channel.jitter.is_none()
                && (!channel.is_limited() || matches!(channel.queue, QueueSpec::DropTail(_)))
        };
        let Dist::Constant(start) = group.start_times(self.duration) else { return None };
        let access = match group.access_delay {
            None => Duration::ZERO,
            Some(Dist::Constant(delay)) => delay,
            Some(Dist::Drawn(_)) => return None,
        };
        let in_step = group.app == App::Bulk
            && group.stagger.is_zero()
            && group.tcp.resolve(self.profile).overhead.is_zero()
            && hops.iter().all(|hop| steady(hop, false) && steady(hop, true));
        in_step.then_some(Step { start, access, hops })
    }
}
