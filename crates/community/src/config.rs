//! The parameters of a simulated community.

use leeway_selection::Policy;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How clients choose a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// The algorithm of `leeway-selection`.
    Selector,
    /// The gateway with the shortest round trip that answers.
    Nearest,
    /// A random gateway for each session, and another random one when it fails.
    Random,
    /// Once in a probe interval, the known gateway where a newcomer would get most; without
    /// hysteresis.
    LeastLoaded,
}

/// The parameters of a community. Every field has a default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Community {
    /// Homes that share their lines, each with a gateway.
    pub gateways: u32,
    /// People who use the shared lines.
    pub users: u32,
    /// Gateways that a client knows: the nearest ones.
    pub known: u32,
    /// Rate over one hop of the mesh, in bit/s. Over n hops of the shared medium, the rate is
    /// divided by n.
    pub hop_bps: f64,
    /// How clients choose.
    pub scheme: Scheme,
    /// Constants of the selector that differ from its defaults.
    pub policy: BTreeMap<String, f64>,
    /// Simulated hours, from midnight.
    pub hours: f64,
    /// Seconds of a step. A client takes this long to notice that a gateway does not answer.
    pub step_s: f64,
    /// Factor on the rates that users want.
    pub demand: f64,
    /// Mean length of a transfer, and of the pause between two transfers, in seconds.
    pub transfer_s: f64,
    /// Random failures of a gateway in a day.
    pub failures_per_day: f64,
    /// Random announced pauses of a gateway in a day.
    pub pauses_per_day: f64,
    /// Mean length of a failure, in minutes.
    pub failure_min: f64,
    /// Mean length of a pause, in minutes.
    pub pause_min: f64,
    /// Seconds between two probes of the schemes other than the selector.
    pub probe_s: f64,
    /// Time constant of the averages that gateways report, in seconds.
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

/// The error of a community that cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Wrong {
    /// A number is outside its bounds.
    #[error("`{field}` is {value}; it has to be from {least} to {most}")]
    Number {
        /// The field.
        field: &'static str,
        /// Its value.
        value: f64,
        /// The least allowed value.
        least: f64,
        /// The most allowed value.
        most: f64,
    },
    /// A constant of the selector does not exist, or is outside its bounds.
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
    /// Checks the parameters, and returns the selector's constants.
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
