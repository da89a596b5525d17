//! The network of a client of several relays: a device for each relay, one of which gets new
//! flows.
//!
//! A flow stays in the tunnel in which it started. Routes choose the device of its first packet.
//! The flow's conntrack entry stores a mark for the device, and later packets follow the mark.
//! Addresses are not translated, and two relays may give the client the same address.

use crate::Error;
use crate::host::{MARK, PRIORITY, Route, has_v6, remove_rules};
use crate::wire::Welcome;
use leeway_net::{Family, Table, ip, ip_of, sysctl};

/// Most devices of one client.
pub const MOST: usize = 16;

/// Devices, addresses, routes and rules of a client of several relays.
#[derive(Debug)]
pub struct SeveralHost {
    devices: Vec<String>,
    routes: Vec<Route>,
    _rules: Table,
}

impl SeveralHost {
    /// Sets up the rules for the devices, for traffic to `routes`; empty `routes` stand for all
    /// traffic. No traffic is led into a device before [`SeveralHost::lead`].
    ///
    /// # Errors
    /// [`Error::Options`] for more than [`MOST`] devices, [`Error::Net`].
    pub fn new(devices: &[&str], routes: &[Route]) -> Result<Self, Error> {
        if devices.len() > MOST {
            return Err(Error::Options(format!("{} relays: at most {MOST} can be joined", devices.len())));
        }
        let devices: Vec<String> = devices.iter().map(|&device| device.to_owned()).collect();
        let table = format!("lwjoin_{}", std::process::id());
        let _rules = Table::own("inet", &table, &script(&table, &devices))?;
        remove_rules();
        // Responses to marked packets arrive on an interface that unmarked packets would not use.
        let _ = sysctl("net/ipv4/conf/all/src_valid_mark", "1");
        let host = SeveralHost { devices, routes: routes.to_vec(), _rules };
        for family in Family::ALL {
            let flows = (0..host.devices.len()).map(mark);
            let mut batch: String = flows
                .map(|mark| format!("rule add fwmark {mark} table {mark} priority {PRIORITY}\n"))
                .collect();
            batch += &format!(
                "rule add table main suppress_prefixlength 0 priority {PRIORITY}\n\
                 rule add not fwmark {MARK} table {MARK} priority {}\n",
                PRIORITY + 1
            );
            if family == Family::V4 || host.devices.iter().any(|device| has_v6(device)) {
                ip_of(family, &batch)?;
            }
        }
        Ok(host)
    }

    /// Gives a device the addresses of its relay. Flows that started in the device stay in it.
    ///
    /// # Errors
    /// [`Error::Net`].
    pub fn settle(&self, device: usize, welcome: &Welcome) -> Result<(), Error> {
        let Some(name) = self.devices.get(device) else { return Ok(()) };
        let Welcome { v4, v6, mtu, .. } = welcome;
        // Responses arrive on a device to which routes of unmarked packets may not lead.
        let _ = sysctl(&format!("net/ipv4/conf/{name}/rp_filter"), "2");
        ip(&format!(
            "addr flush dev {name} scope global\naddr add {v4}/32 dev {name}\n\
             link set dev {name} up mtu {mtu} txqueuelen 1000\n"
        ))?;
        if has_v6(name) {
            ip_of(Family::V6, &format!("addr add {v6}/128 dev {name} nodad\n"))?;
        }
        self.route(name, mark(device))
    }

    /// Leads new flows into the device. [`SeveralHost::settle`] has to be called before.
    ///
    /// # Errors
    /// [`Error::Net`].
    pub fn lead(&self, device: usize) -> Result<(), Error> {
        let Some(name) = self.devices.get(device) else { return Ok(()) };
        self.route(name, MARK)
    }

    fn route(&self, name: &str, table: u32) -> Result<(), Error> {
        for family in Family::ALL.into_iter().filter(|&family| family == Family::V4 || has_v6(name)) {
            let own = self.routes.iter().filter(|route| route.family() == family).map(Route::text);
            let everything = self.routes.is_empty().then_some("default");
            let replace = |route: &str| format!("route replace {route} dev {name} table {table}\n");
            ip_of(family, &own.chain(everything).map(replace).collect::<String>())?;
        }
        Ok(())
    }
}

impl Drop for SeveralHost {
    fn drop(&mut self) {
        remove_rules();
    }
}

/// The mark of flows in the device, which is also the number of its routing table.
fn mark(device: usize) -> u32 {
    MARK + 1 + device as u32
}

/// A flow without a mark gets the mark of the device by which its packet leaves. The kernel routes
/// packets of marked flows again, by their mark.
fn script(table: &str, devices: &[String]) -> String {
    let mut script = format!(
        "add table inet {table} {{ flags owner; }}\n\
         add chain inet {table} out {{ type route hook output priority -150; }}\n\
         add rule inet {table} out meta mark {MARK} return\n"
    );
    for (n, name) in devices.iter().enumerate() {
        let mark = mark(n);
        script += &format!("add rule inet {table} out oifname \"{name}\" ct mark 0 ct mark set {mark}\n");
    }
    for mark in (0..devices.len()).map(mark) {
        script += &format!("add rule inet {table} out ct mark {mark} meta mark set {mark}\n");
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_marked_by_its_first_device_and_led_by_its_mark() {
        let script = script("t", &["lwjoin0".into(), "lwjoin1".into()]);
        let rules: Vec<&str> = script.lines().filter(|line| line.starts_with("add rule")).collect();
        assert_eq!(
            rules,
            [
                "add rule inet t out meta mark 126522 return",
                "add rule inet t out oifname \"lwjoin0\" ct mark 0 ct mark set 126523",
                "add rule inet t out oifname \"lwjoin1\" ct mark 0 ct mark set 126524",
                "add rule inet t out ct mark 126523 meta mark set 126523",
                "add rule inet t out ct mark 126524 meta mark set 126524",
            ]
        );
    }
}
