//! The proxy auto-configuration file (PAC): a JavaScript function that a browser calls for each
//! address.

use std::fmt::Write;
use std::net::SocketAddr;

/// Media type of a PAC file. It is in no RFC; browsers know it.
pub const TYPE: &str = "application/x-ns-proxy-autoconfig";

/// A PAC file that tries the gateways of `order` one after the other. The gateways of `all` are
/// reached directly, for their own pages. `DIRECT` is not in the list: most neighbours have no
/// other connection, and where they have one, requests would leak to it.
pub fn text(order: &[SocketAddr], all: &[SocketAddr]) -> String {
    let mut hosts: Vec<String> = Vec::new();
    for gateway in all {
        // Browsers give an IPv6 address with or without brackets.
        hosts.push(format!("\"{}\"", gateway.ip()));
        if gateway.is_ipv6() {
            hosts.push(format!("\"[{}]\"", gateway.ip()));
        }
    }
    hosts.sort();
    hosts.dedup();
    let proxies: Vec<String> = order.iter().map(|gateway| format!("PROXY {gateway}")).collect();
    let mut text = String::from("function FindProxyForURL(url, host) {\n");
    let _ = writeln!(text, "  if (isPlainHostName(host)) return \"DIRECT\";");
    let _ = writeln!(text, "  if ([{}].indexOf(host) >= 0) return \"DIRECT\";", hosts.join(", "));
    let _ = writeln!(text, "  return \"{}\";\n}}", proxies.join("; "));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gateways_stand_in_their_order_and_are_reached_directly() {
        let all = ["10.20.0.1:3128", "[2001:db8::1]:3128"].map(|text| text.parse().unwrap());
        let text = text(&[all[1], all[0]], &all);
        assert_eq!(
            text,
            "function FindProxyForURL(url, host) {\n  if (isPlainHostName(host)) return \"DIRECT\";\n  \
             if ([\"10.20.0.1\", \"2001:db8::1\", \"[2001:db8::1]\"].indexOf(host) >= 0) return \"DIRECT\";\n  \
             return \"PROXY [2001:db8::1]:3128; PROXY 10.20.0.1:3128\";\n}\n"
        );
    }
}
