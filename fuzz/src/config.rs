//! Files that people write or edit.

use leeway_gateway::{Config, law_or_none};
use leeway_tunnel::{Network4, Pool, Secret, parse_clients};
use std::collections::BTreeSet;

/// `gateway.toml`: refused in words or a configuration, and the same text is the same
/// configuration.
pub fn gateway_toml(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    match Config::parse(&text) {
        Ok(config) => {
            let again = Config::parse(&text).expect("read before");
            assert_eq!(format!("{again:?}"), format!("{config:?}"));
            // The check reads files that the text names: /dev/zero has no end.
            if text.contains("_file") || config.relay.is_some() {
                return;
            }
            if let Err(why) = config.check() {
                assert!(!why.to_string().is_empty());
                return;
            }
            // What passed the check can be built.
            if let Some(law) = &config.law {
                assert!(law_or_none(&law.to_string()).is_ok_and(|again| again.as_ref() == Some(law)));
            }
            let policy = config.policy(leeway_net::Attached::default());
            let _ = policy.check_port(leeway_gateway::policy::Transport::Tcp, 443);
        }
        Err(why) => assert!(!why.is_empty()),
    }
}

/// `clients.toml`: refused in words, or every client has addresses of its own.
pub fn clients_toml(bytes: &[u8]) {
    match parse_clients(&String::from_utf8_lossy(bytes)) {
        Ok(clients) => {
            let pool = Pool::new(Network4::default(), &Secret::from_bytes([1; 32]));
            let mut addresses = BTreeSet::new();
            for client in clients {
                let (v4, v6) = pool.client(client.number).expect("a number that passed has addresses");
                assert!(addresses.insert((v4, v6)), "{} has another one's addresses", client.name);
                assert!((v4, v6) != pool.server());
                assert!(!client.name.chars().any(char::is_control));
            }
        }
        Err(why) => assert!(!why.is_empty()),
    }
}
