//! The files of the OpenWrt package, under busybox's shell with stand-ins for OpenWrt's libraries.

use leeway_gateway::Config;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/openwrt/net/leeway/files");
const FUNCTIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/openwrt/functions.sh");

/// Whether there is a busybox; fails where everything has to be tested.
fn possible() -> bool {
    let there = Command::new("busybox").arg("true").status().is_ok_and(|status| status.success());
    let all = std::env::var("LEEWAY_REQUIRE_ALL").is_ok_and(|value| value == "1");
    assert!(there || !all, "LEEWAY_REQUIRE_ALL=1, but there is no busybox");
    if !there {
        eprintln!("skipped: there is no busybox");
    }
    there
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// busybox's shell, with `config` as /etc/config/leeway in `folder`.
fn shell(folder: &Path, config: &str) -> Command {
    std::fs::write(folder.join("leeway"), config).unwrap();
    let mut shell = Command::new("busybox");
    shell.arg("sh").env("UCI_CONFIG_DIR", folder).env("LEEWAY_FUNCTIONS", FUNCTIONS);
    shell
}

fn convert(config: &str) -> Output {
    let folder = tempfile::tempdir().unwrap();
    shell(folder.path(), config).arg(format!("{FILES}/gateway-toml")).output().unwrap()
}

/// What it says of a configuration that is wrong.
fn refusal(config: &str) -> String {
    let output = convert(config);
    assert_eq!(output.status.code(), Some(1), "{config}: {}", text(&output.stdout));
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    text(&output.stderr)
}

/// Runs the init script's `start_service`, where `program` is Leeway; what procd is told.
fn start(folder: &Path, config: &str, program: &str) -> Output {
    let script = format!(". {FUNCTIONS}; . {FILES}/leeway.init; start_service; service_triggers");
    let mut shell = shell(folder, config);
    shell
        .args(["-c", &script])
        .env("LEEWAY_PROGRAM", program)
        .env("LEEWAY_TOML", folder.join("gateway.toml"));
    shell.env("LEEWAY_STATE", folder.join("relay")).env("LEEWAY_CONVERT", format!("{FILES}/gateway-toml"));
    shell.output().unwrap()
}

#[test]
fn uci_becomes_a_configuration_that_the_gateway_takes() {
    if !possible() {
        return;
    }
    let output = convert(
        r#"
config limits
	option connections '2000'

config gateway 'gateway'
	option enabled '1'
	list listen '0.0.0.0:3128'
	list listen '[::]:3128'
	list clients '10.20.0.0/16'
	list ports '80'
	list ports '443'
	option law 'ledbat:target=28ms'
	option metrics ''

config transparent
	option interface 'br-"guests"\'
	option port '3129'
"#,
    );
    let expected = r#"listen = ["0.0.0.0:3128", "[::]:3128"]
clients = ["10.20.0.0/16"]
ports = [80, 443]
law = "ledbat:target=28ms"

[transparent]
interface = "br-\"guests\"\\"
port = 3129

[limits]
connections = 2000
"#;
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
    let config = Config::parse(expected).unwrap();
    assert_eq!(config.transparent.unwrap().interface, r#"br-"guests"\"#);
}

#[test]
fn the_configuration_that_comes_with_the_package_is_right() {
    if !possible() {
        return;
    }
    let output = convert(&std::fs::read_to_string(format!("{FILES}/leeway.config")).unwrap());
    Config::parse(&text(&output.stdout)).unwrap().check().unwrap();
}

#[test]
fn mistakes_in_uci_are_named_with_their_place() {
    if !possible() {
        return;
    }
    let said = refusal("config gateway 'g'\n\toption lisen '1'\n");
    assert!(said.contains("/etc/config/leeway: gateway 'g': no option 'lisen'; there are listen"), "{said}");
    let said = refusal("config gateway 'g'\n\tlist ports '80'\n\tlist ports '8o'\n");
    assert!(said.contains("gateway 'g': 'ports' is '8o', which is no number"), "{said}");
    let said = refusal("config gateway 'g'\n\toption listen '0.0.0.0:1'\n\tlist law 'ledbat'\n");
    assert!(said.contains("'listen' is a list: write list listen '0.0.0.0:1'"), "{said}");
    assert!(said.contains("'law' is no list: write option law 'ledbat'"), "{said}");
    let said = refusal("config gatway 'g'\n\toption enabled '1'\n");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("gatway 'g': no such section; there are gateway, transparent"), "{said}");
    let said = refusal("config gateway 'g'\n\toption law 'a\nb'\n");
    assert!(said.contains("'law' has a control character in it"), "{said}");
}

#[test]
fn procd_starts_what_is_enabled() {
    if !possible() {
        return;
    }
    let as_installed = std::fs::read_to_string(format!("{FILES}/leeway.config")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let nothing = start(folder, &as_installed, "true");
    assert_eq!(text(&nothing.stdout), "reload leeway\n", "{}", text(&nothing.stderr));

    let enabled = as_installed.replace("enabled '0'", "enabled '1'").replace(
        "option listen '0.0.0.0:4433'",
        "option listen '0.0.0.0:4433'\n\toption law 'ledbat'\n\toption udp_ports '443'",
    );
    let both = start(folder, &enabled, "true");
    let said = text(&both.stdout);
    let config = folder.join("gateway.toml");
    let gateway = format!("instance gateway\ncommand true gateway --config {}\n", config.display());
    assert!(said.contains(&gateway), "{said}\n{}", text(&both.stderr));
    let relay = format!("instance relay\ncommand true relay --state {}\n", folder.join("relay").display());
    let options = "command --listen 0.0.0.0:4433\ncommand --law ledbat\ncommand --udp-ports 443\n";
    assert!(said.contains(&format!("{relay}{options}")), "{said}");
    let mode = std::fs::metadata(config).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "others do not read it");

    // Neither where UCI is wrong, nor where the program says so.
    let wrong = start(folder, "config gateway 'gateway'\n\toption enabled '1'\n\toption lw 'x'\n", "true");
    assert!(!text(&wrong.stdout).contains("instance"), "{}", text(&wrong.stdout));
    assert!(text(&wrong.stderr).contains("no option 'lw'"), "{}", text(&wrong.stderr));
    let refused = start(folder, &enabled, "false");
    assert!(!text(&refused.stdout).contains("instance gateway"), "{}", text(&refused.stdout));
}
