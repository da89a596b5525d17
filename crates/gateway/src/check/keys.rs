//! Every key of a configuration and the values that it takes, to explain mistakes.

use strsim::osa_distance;

/// A key of the configuration.
#[derive(Debug)]
pub(super) struct Key {
    /// The key's name, with the names of its tables.
    pub path: &'static str,
    /// What kind of value it takes. For a list, the kind of its entries.
    pub what: &'static str,
    /// An example of a value. It begins with `[` for a list.
    pub example: &'static str,
}

const fn key(path: &'static str, what: &'static str, example: &'static str) -> Key {
    Key { path, what, example }
}

const ADDRESS: &str = "an address with a port";
const NETWORK: &str = "a network";
const NUMBER: &str = "a number";
const SECONDS: &str = "a number of seconds";
const PORT: &str = "a port, a number from 0 to 65535";
const LAW: &str = "the name of a law (`leeway laws`) or \"none\"";
const PATH: &str = "the path of a file";
const VOLUME: &str = "a volume of data";
const RATE: &str = "a rate";
const PART: &str = "a part from 0 to 1";
const TABLE: &str = "a table of its own";

/// All keys.
pub(super) const KEYS: &[Key] = &[
    key("listen", ADDRESS, "[\"10.20.0.1:3128\"]"),
    key("socks", ADDRESS, "[\"10.20.0.1:1080\"]"),
    key("peers", "another gateway, as http://address:port", "[\"http://192.0.2.7:3128\"]"),
    key("peers.url", "another gateway, as http://address:port", "\"http://192.0.2.7:3128\""),
    key("peers.name", "a name", "\"attic\""),
    key("clients", NETWORK, "[\"10.20.0.0/16\"]"),
    key("home", NETWORK, "[\"192.168.1.0/24\"]"),
    key("wan", "an address or a network", "[\"203.0.113.7\"]"),
    key("allow", NETWORK, "[\"10.1.0.0/16\"]"),
    key("ports", PORT, "[80, 443]"),
    key("udp_ports", PORT, "[53, 443]"),
    key("law", LAW, "\"ledbat:target=28ms\""),
    key("uplink", LAW, "\"ledbat:target=6ms\""),
    key("upload", "the name of a congestion control of the kernel", "[\"leeway_ledbat\", \"lp\"]"),
    key("dns", "a name server", "[\"9.9.9.9\"]"),
    key("metrics", ADDRESS, "\"127.0.0.1:9300\""),
    key("log", "\"text\" or \"json\"", "\"json\""),
    key("users_file", PATH, "\"/etc/leeway/users\""),
    key("vouchers", "true or false", "true"),
    key("user", "in a file of its own", "\"\""),
    key("transparent", TABLE, "{ interface = \"mesh0\" }"),
    key("transparent.interface", "the name of an interface", "\"mesh0\""),
    key("transparent.port", PORT, "3129"),
    key("relay", TABLE, "{ token_file = \"/etc/leeway/relay.token\" }"),
    key("relay.token_file", PATH, "\"/etc/leeway/relay.token\""),
    key("relay.transport", "\"quic\" or \"tcp\"", "\"quic\""),
    key("relay.law", "the name of a law (`leeway laws`)", "\"ledbat\""),
    key("relay.queue", "a queue discipline (`leeway queues`)", "\"fq_codel\""),
    key("relay.window", LAW, "\"ledbat:target=100ms\""),
    key("control", TABLE, "{ socket = \"/run/leeway/gateway/control.sock\" }"),
    key("control.socket", PATH, "\"/run/leeway/gateway/control.sock\""),
    key("control.state", "the path of a folder", "\"/var/lib/leeway/gateway\""),
    key("page", TABLE, "{ listen = \"192.168.1.2:8080\", users_file = \"/etc/leeway/owners\" }"),
    key("page.listen", ADDRESS, "\"192.168.1.2:8080\""),
    key("page.users_file", PATH, "\"/etc/leeway/owners\""),
    key("accounts", TABLE, "{ gateway = \"attic\" }"),
    key(
        "accounts.url",
        "the path of a file, or postgresql://user@host/database",
        "\"/var/lib/leeway/gateway/accounts.db\"",
    ),
    key("accounts.gateway", "a name", "\"attic\""),
    key("accounts.patience_s", SECONDS, "3600"),
    key("caps", TABLE, "{ user = { daily = \"5 GB\" } }"),
    key("caps.time_zone", "a time zone", "\"Europe/Madrid\""),
    key("caps.billing_day", "a number from 1 to 31", "15"),
    key("caps.month", TABLE, "{ volume = \"1 TB\", keep_for_home = \"600 GB\" }"),
    key("caps.month.volume", VOLUME, "\"1 TB\""),
    key("caps.month.keep_for_home", VOLUME, "\"600 GB\""),
    key("caps.month.slow_at", PART, "0.8"),
    key("caps.percentile", TABLE, "{ billing = \"greater\" }"),
    key("caps.percentile.billing", "\"greater\" or \"sum\"", "\"greater\""),
    key("caps.percentile.caution", PART, "0.9"),
    key("caps.all", TABLE, "{ daily = \"20 GB\" }"),
    key("caps.all.daily", VOLUME, "\"20 GB\""),
    key("caps.all.rate", RATE, "\"50 Mbit/s\""),
    key("caps.all.slow_at", PART, "0.8"),
    key("caps.user", TABLE, "{ daily = \"5 GB\" }"),
    key("caps.user.daily", VOLUME, "\"5 GB\""),
    key("caps.user.rate", RATE, "\"20 Mbit/s\""),
    key("caps.user.slow_at", PART, "0.8"),
    key("caps.users", TABLE, "{ ann = { daily = \"9 GB\" } }"),
    key("caps.hours", TABLE, "[{ from = \"08:00\", to = \"18:30\" }]"),
    key("caps.hours.days", "a day: mon, tue, wed, thu, fri, sat or sun", "[\"mon\", \"tue\"]"),
    key("caps.hours.from", "a time of the day", "\"08:00\""),
    key("caps.hours.to", "a time of the day", "\"18:30\""),
    key("caps.hours.rate", RATE, "\"5 Mbit/s\""),
    key("destinations", TABLE, "{ keep_days = 180 }"),
    key("destinations.folder", "the path of a folder", "\"/var/lib/leeway/gateway/destinations\""),
    key("destinations.keep_days", "a number of days", "180"),
    key("block", TABLE, "{ domains = [\"example.org\"] }"),
    key("block.domains", "a name, or the path of a file", "[\"example.org\", \"/etc/leeway/ads.txt\"]"),
    key(
        "block.networks",
        "a network, or the path of a file",
        "[\"198.51.100.0/24\", \"/etc/leeway/drop.txt\"]",
    ),
    key("block.ports", PORT, "[6881]"),
    key("limits", TABLE, "{ connections = 12000 }"),
    key("limits.connections", NUMBER, "12000"),
    key("limits.connections_per_user", NUMBER, "1000"),
    key("limits.upstream_per_user", NUMBER, "256"),
    key("limits.head_bytes", NUMBER, "16384"),
    key("limits.head_s", SECONDS, "10"),
    key("limits.idle_s", SECONDS, "60"),
    key("limits.connect_s", SECONDS, "10"),
    key("limits.answer_s", SECONDS, "120"),
    key("limits.tunnel_s", SECONDS, "600"),
];

impl Key {
    /// The key of a path. Entries of lists, and users with limits of their own, have no rows of
    /// their own.
    pub fn of(path: &str) -> Option<&'static Key> {
        let mut plain = String::new();
        for (n, step) in path.split('.').enumerate() {
            let step = step.split('[').next().unwrap_or(step);
            plain += if n == 0 { "" } else { "." };
            plain += step;
        }
        if let Some((name, field)) = plain.strip_prefix("caps.users.").and_then(|own| own.rsplit_once('.')) {
            plain = if name.is_empty() { plain } else { format!("caps.user.{field}") };
        } else if plain.starts_with("caps.users.") {
            plain = "caps.user".into();
        }
        KEYS.iter().find(|key| key.path == plain)
    }

    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// The table that contains the key; empty for the top of the file.
    fn table(&self) -> &'static str {
        self.path.rsplit_once('.').map_or("", |(table, _)| table)
    }

    fn is_list(&self) -> bool {
        self.example.starts_with('[')
    }

    /// The key with its example, as a line of the file.
    fn line(&self) -> String {
        format!("{} = {}", self.name(), self.example)
    }
}

/// The key that was probably meant by the unknown key at `path`, if the message is about an
/// unknown key.
pub(super) fn unknown(message: &str, path: &str) -> Option<&'static Key> {
    message.starts_with("unknown field").then(|| nearest(path)).flatten()
}

/// The field that is missing at `path`, if the message is about a missing field.
pub(super) fn missing(message: &str, path: &str) -> Option<&'static Key> {
    let name = message.strip_prefix("missing field `")?.split('`').next()?;
    Key::of(&format!("{path}.{name}"))
}

/// Explains the error of a value: what is wrong, and what would be right. `value` is the text of
/// the value.
pub(super) fn explain(message: &str, path: &str, value: &str) -> (String, String) {
    if message.starts_with("unknown field") {
        return explain_unknown(path);
    }
    if let Some(key) = missing(message, path) {
        return (format!("`{}` is missing", key.name()), key.line());
    }
    let Some(key) = Key::of(path) else { return (message.to_owned(), String::new()) };
    let right = key.line();
    // Errors of Leeway's own types explain themselves. Errors of serde and of the parsers of
    // addresses are written for programmers.
    let foreign = [
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
        "invalid socket",
        "invalid IP",
    ];
    if !foreign.iter().any(|start| message.starts_with(start)) {
        return (message.to_owned(), right);
    }
    let value = value.split('\n').next().unwrap_or_default().trim();
    let value = if value.len() > 60 || value.is_empty() { "this value" } else { value };
    let whole_list = key.is_list() && !path.ends_with(']');
    let what = match whole_list {
        true => format!("{value} is not a list in [ ]; each entry has to be {}", key.what),
        false => format!("{value} is not {}", key.what),
    };
    (what, right)
}

fn explain_unknown(path: &str) -> (String, String) {
    let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
    let what = match table {
        "" => format!("there is no key `{name}`"),
        table => format!("there is no key `{name}` in [{table}]"),
    };
    let right = match nearest(path) {
        Some(key) if key.table() == plain_table(table) => format!("did you mean `{}`?", key.name()),
        Some(key) if key.table().is_empty() => {
            format!("`{}` belongs above the first line with a [table]", key.name())
        }
        Some(key) if key.name() == name => format!("it belongs in [{}]", key.table()),
        Some(key) => format!("did you mean `{}` in [{}]?", key.name(), key.table()),
        None => {
            let all = KEYS.iter().filter(|key| key.table() == plain_table(table)).map(Key::name);
            format!("the keys here are {}", all.collect::<Vec<_>>().join(", "))
        }
    };
    (what, right)
}

/// The name of a table in the form that the rows have.
fn plain_table(table: &str) -> &'static str {
    Key::of(table).map_or("", |key| key.path)
}

/// The key with nearly this name in the same table; else a key of another table with this name, or
/// a name that differs by one letter.
fn nearest(path: &str) -> Option<&'static Key> {
    let (table, name) = path.rsplit_once('.').unwrap_or(("", path));
    let table = plain_table(table);
    let near = |key: &&Key| osa_distance(&key.name().to_lowercase(), &name.to_lowercase());
    let beside = KEYS.iter().filter(|key| key.table() == table && key.path != "user").min_by_key(near);
    let beside = beside.filter(|key| near(key) <= (name.chars().count() / 3).clamp(1, 3));
    let elsewhere =
        || KEYS.iter().min_by_key(near).filter(|key| near(key) <= usize::from(name.chars().count() > 3));
    beside.or_else(elsewhere)
}

/// The name of the list that is nearest to `name`, if it is near.
pub(super) fn nearest_of<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let best = names.into_iter().min_by_key(|known| osa_distance(known, name))?;
    (osa_distance(best, name) <= (name.chars().count() / 3).clamp(1, 3)).then_some(best)
}

/// Explains a syntax error of TOML. `line` is the line with the error.
pub(super) fn syntax(message: &str, line: Option<&str>) -> (String, String) {
    let name = line.and_then(|line| line.split('=').next()).map(str::trim).unwrap_or_default();
    if message.contains("duplicate key") {
        return (
            format!("`{name}` is in the file twice"),
            "one line for each key, one line for each [table]".into(),
        );
    }
    let right = "a line is KEY = VALUE; put text in double quotes, and a list in [ ] with commas".to_owned();
    let example = KEYS.iter().find(|key| key.path == name).map(|key| format!(", such as: {}", key.line()));
    (format!("this line cannot be read ({message})"), right + &example.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    /// A configuration with `value` at a path, which may be in tables.
    fn with(path: &str, value: &str) -> String {
        let steps: Vec<&str> = path.split('.').collect();
        match steps[..] {
            ["page", _] => {
                let rest =
                    if path.ends_with("listen") { "users_file = \"/u\"" } else { "listen = \"127.0.0.1:1\"" };
                format!("[page]\n{rest}\n{} = {value}\n", steps[1])
            }
            ["destinations", "folder"] => format!("[destinations]\nkeep_days = 1\nfolder = {value}\n"),
            ["transparent", "port"] => format!("[transparent]\ninterface = \"a\"\nport = {value}\n"),
            ["caps", "month", name] if name != "volume" => {
                format!("[caps.month]\nvolume = \"1 TB\"\n{name} = {value}\n")
            }
            ["peers", "name"] => format!("[[peers]]\nurl = \"http://192.0.2.7:3128\"\nname = {value}\n"),
            ["peers", name] => format!("[[peers]]\n{name} = {value}\n"),
            ["caps", "hours", name] => {
                let rest = ["from = \"08:00\"", "to = \"09:00\""];
                let rest = rest.iter().filter(|line| !line.starts_with(name)).map(|line| format!("{line}\n"));
                format!("[[caps.hours]]\n{}{name} = {value}\n", rest.collect::<String>())
            }
            _ => format!("{path} = {value}\n"),
        }
    }

    #[test]
    fn every_example_is_right() {
        for Key { path, example, .. } in KEYS.iter().filter(|key| key.path != "user") {
            let text = with(path, example);
            Config::parse(&text).unwrap_or_else(|error| panic!("{text}{error}"));
        }
    }

    /// serde lists the fields of a table if it meets an unknown field.
    #[test]
    fn every_key_of_the_configuration_has_a_row_and_no_other() {
        let tables = [
            "",
            "transparent",
            "relay",
            "control",
            "page",
            "accounts",
            "caps",
            "destinations",
            "block",
            "limits",
        ];
        let inner = ["caps.month", "caps.percentile", "caps.all", "caps.user"];
        for table in tables.iter().chain(&inner) {
            let head = if table.is_empty() { String::new() } else { format!("[{table}]\n") };
            let error = toml::from_str::<Config>(&format!("{head}nonsense = 1\n")).unwrap_err();
            let known: Vec<&str> = error.message().split('`').skip(3).step_by(2).collect();
            let rows = KEYS.iter().filter(|key| key.table() == *table).map(Key::name);
            let (mut known, mut rows) = (known, rows.collect::<Vec<_>>());
            known.sort_unstable();
            rows.sort_unstable();
            assert_eq!(known, rows, "[{table}]");
        }
    }

    #[test]
    fn a_wrong_type_is_explained_at_every_key() {
        for Key { path, .. } in KEYS.iter().filter(|key| key.path != "user") {
            let wrong = if path.ends_with("gateway") || *path == "vouchers" { "1" } else { "true" };
            let message = Config::parse(&with(path, wrong)).expect_err(path);
            assert!(!message.contains("expected") && !message.contains("invalid type"), "{path}: {message}");
        }
    }

    #[test]
    fn near_names_are_found() {
        for (given, meant) in [
            ("lisen", "listen"),
            ("client", "clients"),
            ("Homes", "home"),
            ("upload_", "upload"),
            ("page.listn", "page.listen"),
        ] {
            assert_eq!(nearest(given).map(|key| key.path), Some(meant), "{given}");
        }
        assert!(nearest("whatever").is_none());
        assert_eq!(nearest("volume").map(|key| key.path), Some("caps.month.volume"));
    }
}
