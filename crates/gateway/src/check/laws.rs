//! Checks which control laws exist, and which of them yield to the home.

use super::Findings;
use super::keys::nearest_of;
use crate::config::{Carrier, Config};
use leeway_control::LawSpec;

/// Laws of `leeway laws` that yield: those made for it, and Vegas, which leaves a queue to the
/// flows that fill it.
const YIELDING: [&str; 10] =
    ["vegas", "nice", "lp", "ledbat", "fledbat", "ledbatpp", "flower", "ebb", "proteus", "flexis"];

/// Congestion controls of Linux 6.18 (net/ipv4/Kconfig).
const LINUX: [&str; 17] = [
    "bbr",
    "bic",
    "cdg",
    "cubic",
    "dctcp",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "reno",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
];
/// Congestion controls of Linux that yield.
const YIELDING_IN_LINUX: [&str; 2] = ["lp", "vegas"];
/// Prefix of the laws' names in the kernel, where `leeway kernel load` loads them.
const OURS: &str = "leeway_";

/// Whether a law yields to the home.
fn yields(law: &str) -> bool {
    YIELDING.contains(&law)
}

fn kernel_yields(name: &str) -> bool {
    YIELDING_IN_LINUX.contains(&name) || name.strip_prefix(OURS).is_some_and(yields)
}

/// Adds what is wrong with the laws. `kernel` has the congestion controls that this machine's
/// kernel has at the moment.
pub(super) fn judge(config: &Config, kernel: &[String], findings: &mut Findings) {
    let example = |key: &str| format!("leave `{key}` out, or take one of {}", YIELDING.join(", "));
    for (key, law, what) in
        [("law", &config.law, "downloads"), ("uplink", &config.uplink, "what neighbours send")]
    {
        match law.as_ref().map(name) {
            None => findings.warning(
                key,
                format!("nothing limits {what}, so the home will notice them"),
                format!("leave `{key}` out, unless this is for a comparison"),
            ),
            Some(law) if !yields(law) => findings.warning(
                key,
                format!("{law} does not yield: it takes its share of the line from the home"),
                example(key),
            ),
            Some(_) => {}
        }
    }
    if config.upload.is_empty() && config.uplink.is_none() {
        findings.warning(
            "upload",
            "uploads use the kernel's default congestion control, which does not yield",
            "upload = [\"leeway_ledbat\", \"lp\"]",
        );
    }
    for (n, name) in config.upload.iter().enumerate() {
        judge_kernel(&format!("upload[{n}]"), name, kernel, findings);
    }
    let Some(relay) = &config.relay else { return };
    match (&relay.law, relay.transport) {
        (Some(law), Carrier::Tcp) => judge_kernel("relay.law", law, kernel, findings),
        (Some(law), Carrier::Quic) => {
            // An unknown law is reported by the checks of the values.
            if let Some(law) = law.parse::<LawSpec>().ok().filter(|law| !yields(name(law))) {
                findings.warning(
                    "relay.law",
                    format!("{} does not yield to the home", name(&law)),
                    example("law"),
                );
            }
        }
        (None, _) => {}
    }
    if let Some(law) = relay.window.as_ref().map(name).filter(|law| !yields(law)) {
        findings.warning("relay.window", format!("{law} does not yield to the home"), example("window"));
    }
}

fn judge_kernel(key: &str, name: &str, kernel: &[String], findings: &mut Findings) {
    let ours: Vec<String> = leeway_control::laws().iter().map(|law| format!("{OURS}{}", law.name)).collect();
    let known = || LINUX.into_iter().chain(ours.iter().map(String::as_str));
    let here = kernel.iter().any(|here| here == name);
    if !here && !known().any(|known| known == name) {
        let near = nearest_of(name, known()).map(|near| format!("did you mean \"{near}\"? "));
        findings.warning(
            key,
            format!("there is no congestion control \"{name}\", neither in Linux nor of Leeway"),
            near.unwrap_or_default() + "\"leeway_ledbat\" (leeway kernel load ledbat) and \"lp\" yield",
        );
    } else if !kernel_yields(name) {
        findings.warning(
            key,
            format!(
                "\"{name}\" does not yield: uploads of neighbours take their share of the line from the home"
            ),
            "\"leeway_ledbat\", \"leeway_ledbatpp\", \"lp\" or \"vegas\"",
        );
    }
}

fn name(law: &LawSpec) -> &'static str {
    law.law().name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        judge(&Config::parse(text).unwrap(), &["bbr3".to_owned(), "cubic".to_owned()], &mut findings);
        findings
            .0
            .iter()
            .map(|finding| format!("{:?} {}: {}", finding.severity, finding.key, finding.words()))
            .collect()
    }

    #[test]
    fn every_law_of_the_table_is_one_that_yields_or_is_named_here_as_one_that_does_not() {
        let others: Vec<&str> =
            leeway_control::laws().iter().map(|law| law.name).filter(|law| !yields(law)).collect();
        assert_eq!(others, ["newreno", "cubic", "bbr"]);
        assert!(YIELDING.iter().all(|name| leeway_control::laws().iter().any(|law| law.name == *name)));
    }

    #[test]
    fn a_law_that_does_not_yield_is_found() {
        assert!(said("").is_empty(), "{:?}", said(""));
        for (text, key) in [
            ("law = \"cubic\"", "Warning law: cubic does not yield"),
            ("law = \"bbr\"", "Warning law: bbr does not yield"),
            ("uplink = \"newreno\"", "Warning uplink: newreno does not yield"),
            ("law = \"none\"", "Warning law: nothing limits downloads"),
            ("uplink = \"none\"", "Warning uplink: nothing limits"),
            ("upload = [\"lp\", \"bbr\"]", "Warning upload[1]: \"bbr\" does not yield"),
            ("upload = [\"reno\"]", "Warning upload[0]: \"reno\" does not yield"),
            ("upload = [\"leeway_cubic\"]", "Warning upload[0]: \"leeway_cubic\" does not yield"),
            ("upload = [\"bbr3\"]", "Warning upload[0]: \"bbr3\" does not yield"),
            ("[relay]\nlaw = \"cubic\"", "Warning relay.law: cubic does not yield"),
            ("upload = [\"leeway_bbr\"]", "Warning upload[0]: \"leeway_bbr\" does not yield"),
            ("[relay]\nlaw = \"bbr\"", "Warning relay.law: bbr does not yield"),
            ("[relay]\nwindow = \"cubic\"", "Warning relay.window: cubic does not yield"),
            ("[relay]\ntransport = \"tcp\"\nlaw = \"bbr\"", "Warning relay.law: \"bbr\" does not yield"),
        ] {
            let said = said(text);
            assert!(said.len() == 1 && said[0].starts_with(key), "{text}: {said:?}");
        }
        assert_eq!(said("upload = []\nuplink = \"none\"").len(), 2);
    }

    #[test]
    fn an_unknown_law_for_uploads_is_found() {
        let said = said("upload = [\"leeway_ledbat\", \"leeway_ledbta\", \"vegsa\", \"whatever\"]");
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            said[0].starts_with("Warning upload[1]: there is no") && said[0].contains("\"leeway_ledbat\"?"),
            "{said:?}"
        );
        assert!(said[1].contains("\"vegas\"?") && !said[2].contains("did you mean"), "{said:?}");
    }
}
