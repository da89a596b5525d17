//! What community is simulated.

use leeway_selection::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How clients choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// By `leeway-selection`.
    Selector,
    /// The shortest round trip of those that answer.
    Nearest,
    /// One by lot for each session, and another by lot when it fails.
    Random,
    /// Once a probe interval the one where a newcomer would get most, of all that are known; without hysteresis.
    LeastLoaded,
}

/// A community. Every field has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Community {
    /// Homes that share their lines.
    pub gateways: u32,
    /// People who use what is shared.
    pub users: u32,
    /// Gateways that a client knows: the nearest.
    pub known: u32,
    /// Rate over one hop of the mesh, in bit/s; over n hops of the shared medium an n-th of it.
    pub hop_bps: f64,
    /// How clients choose.
    pub scheme: Scheme,
    /// Constants of the selector that are not its defaults.
    pub policy: BTreeMap<String, f64>,
    /// Hours, from midnight on.
    pub hours: f64,
    /// Seconds of a step. It is also what a client takes to notice that a gateway does not answer.
    pub step_s: f64,
    /// Factor on what users want.
    pub demand: f64,
    /// Mean length of a transfer, and of the time between two, in seconds.
    pub transfer_s: f64,
    /// Failures of a gateway in a day, at random.
    pub failures_per_day: f64,
    /// Announced pauses of a gateway in a day, at random.
    pub pauses_per_day: f64,
    /// Mean length of a failure, in minutes.
    pub failure_min: f64,
    /// Mean length of a pause, in minutes.
    pub pause_min: f64,
    /// Seconds between two probes of the schemes other than the selector.
    pub probe_s: f64,
    /// Time constant of what gateways say of themselves, in seconds.
    pub status_s: f64,
    /// Seconds between two comparisons with the bound.
    pub bound_s: f64,
}

impl Default for Community {
    fn default() -> Community {
        Community {
            gateways: 50,
            users: 2000,
            known: 16,
            hop_bps: 60e6,
            scheme: Scheme::Selector,
            policy: BTreeMap::new(),
            hours: 24.0,
            step_s: 5.0,
            demand: 1.0,
            transfer_s: 120.0,
            failures_per_day: 1.0,
            pauses_per_day: 0.5,
            failure_min: 10.0,
            pause_min: 60.0,
            probe_s: 60.0,
            status_s: 30.0,
            bound_s: 300.0,
        }
    }
}

/// What is wrong with a community.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Wrong {
    /// A number outside its bounds.
    #[error("`{field}` is {value}; it has to be from {least} to {most}")]
    Number {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The least it can be.
        least: f64,
        /// The most it can be.
        most: f64,
    },
    /// A constant of the selector that does not exist, or is outside its bounds.
    #[error("`policy.{name}` cannot be {value}; {right}")]
    Policy {
        /// Its name.
        name: String,
        /// Its value.
        value: f64,
        /// What would be right.
        right: String,
    },
}

impl Community {
    /// The selector's constants.
    ///
    /// # Errors
    /// [`Wrong`] says which field is wrong, and what would be right.
    pub fn check(&self) -> Result<Policy, Wrong> {
        let numbers = [
            ("gateways", f64::from(self.gateways), 1.0, 10_000.0),
            ("users", f64::from(self.users), 1.0, 200_000.0),
            ("known", f64::from(self.known), 1.0, 1000.0),
            ("hop_bps", self.hop_bps, 1e3, 1e12),
            ("hours", self.hours, 0.01, 1000.0),
            ("step_s", self.step_s, 0.5, 60.0),
            ("demand", self.demand, 0.01, 100.0),
            ("transfer_s", self.transfer_s, 1.0, 86_400.0),
            ("failures_per_day", self.failures_per_day, 0.0, 1000.0),
            ("pauses_per_day", self.pauses_per_day, 0.0, 1000.0),
            ("failure_min", self.failure_min, 0.1, 10_000.0),
            ("pause_min", self.pause_min, 0.1, 10_000.0),
            ("probe_s", self.probe_s, 1.0, 3600.0),
            ("status_s", self.status_s, 0.1, 3600.0),
            ("bound_s", self.bound_s, 1.0, 3600.0),
        ];
        for (field, value, least, most) in numbers {
            if !(least..=most).contains(&value) {
                return Err(Wrong::Number { field, value, least, most });
            }
        }
        let mut policy = Policy::default();
        for (name, &value) in &self.policy {
            if !policy.set(name, value) {
                let right = match Policy::CONSTANTS.iter().find(|constant| constant.name == name) {
                    Some(constant) => format!("it has to be from {} to {}", constant.least, constant.most),
                    None => {
                        let names: Vec<&str> =
                            Policy::CONSTANTS.iter().map(|constant| constant.name).collect();
                        format!("the constants are {}", names.join(", "))
                    }
                };
                return Err(Wrong::Policy { name: name.clone(), value, right });
            }
        }
        Ok(policy)
    }
}
