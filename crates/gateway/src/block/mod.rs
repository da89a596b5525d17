//! Names, networks and ports that the owner of a line blocks, read from lists in the usual
//! formats.

mod domains;
mod networks;

use crate::config::ConfigError;
use crate::notes::{BLOCKED, LINE_WRONG, LINES_WRONG, NOT_UTF8, Note, Phrase, Value, in_english};
use domains::Domains;
use ipnet::IpNet;
use networks::Networks;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Wrong lines of each file that are reported. The others are counted.
const NAMED: u64 = 3;
/// Characters of a wrong line that are shown.
const SHOWN: usize = 60;

/// The section `[block]` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BlockConfig {
    /// Names, and absolute paths of files with names. A name also blocks the names below it.
    pub domains: Vec<String>,
    /// Networks and addresses, and absolute paths of files with them.
    pub networks: Vec<String>,
    /// Ports, of TCP and of UDP.
    pub ports: BTreeSet<u16>,
}

/// One of the owner's blocklists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// Names.
    Domains,
    /// Networks.
    Networks,
    /// Ports.
    Ports,
}

impl List {
    /// All lists, in order.
    pub const ALL: [List; 3] = [List::Domains, List::Networks, List::Ports];

    /// The list's name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            List::Domains => "domains",
            List::Networks => "networks",
            List::Ports => "ports",
        }
    }
}

/// Everything that is blocked.
#[derive(Debug, Default)]
pub struct Blocklist {
    domains: Domains,
    networks: Networks,
    ports: BTreeSet<u16>,
    notes: Vec<Note>,
}

impl BlockConfig {
    /// The entries that are neither names nor networks nor paths. For each its key, what is wrong,
    /// and what would be right.
    pub fn wrong(&self) -> Vec<(String, String, String)> {
        let wrong = |key: String, list: List, entry: &str| {
            let (why, example) = match list {
                List::Domains => (domains::bare(entry).err()?, "example.org"),
                _ => (networks::network(entry).err()?, "198.51.100.0/24"),
            };
            let right = format!(
                "give something like \"{example}\", or the absolute path of a file, such as \
                 \"/etc/leeway/blocked.txt\""
            );
            Some((key, format!("`{entry}`: {}", why.english()), right))
        };
        let literals = self.entries().filter_map(|(key, list, entry)| match entry {
            Entry::File(_) => None,
            Entry::Literal(entry) => wrong(key, list, entry),
        });
        literals.collect()
    }

    /// The files that cannot be opened, each with its key. No file is read.
    pub fn unreadable(&self) -> Vec<(String, ConfigError)> {
        let files = self.entries().filter_map(|(key, _, entry)| match entry {
            Entry::File(path) => Some((key, open(path).err()?)),
            Entry::Literal(_) => None,
        });
        files.collect()
    }

    /// Checks the entries, and that the files can be opened. No file is read.
    ///
    /// # Errors
    /// An entry is neither a name nor a network nor a file that can be opened.
    pub fn check(&self) -> Result<(), ConfigError> {
        if let Some((key, what, right)) = self.wrong().into_iter().next() {
            return Err(ConfigError::Value(format!("{key}: {what}; {right}")));
        }
        self.unreadable().into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Each entry with its key and its list.
    fn entries(&self) -> impl Iterator<Item = (String, List, Entry<'_>)> {
        let lists = [(List::Domains, &self.domains), (List::Networks, &self.networks)];
        lists.into_iter().flat_map(|(list, entries)| {
            let key = move |n| format!("block.{}[{n}]", list.name());
            entries.iter().enumerate().map(move |(n, entry)| (key(n), list, Entry::of(entry)))
        })
    }
}

impl Blocklist {
    /// Reads all files. A wrong line is skipped, and reported in [`Blocklist::notices`].
    ///
    /// # Errors
    /// A file cannot be read, or an entry of the configuration is wrong.
    pub fn read(config: &BlockConfig) -> Result<Blocklist, ConfigError> {
        config.check()?;
        let (mut names, mut networks) = (domains::Builder::default(), Vec::<IpNet>::new());
        let mut notes = Vec::new();
        for entry in &config.domains {
            match Entry::of(entry) {
                Entry::File(path) => lines(path, &mut notes, |line| names.line(line))?,
                Entry::Literal(name) => drop(names.line(name)),
            }
        }
        for entry in &config.networks {
            match Entry::of(entry) {
                Entry::File(path) => lines(path, &mut notes, |line| {
                    networks.extend(networks::line(line)?);
                    Ok(())
                })?,
                Entry::Literal(network) => networks.extend(networks::network(network)),
            }
        }
        let ports = config.ports.clone();
        let (domains, networks) = (names.build(), Networks::new(&networks));
        let lists = Blocklist { domains, networks, ports, notes };
        Ok(lists)
    }

    /// Whether `name`, or a name above it, is blocked.
    pub fn has_name(&self, name: &str) -> bool {
        self.domains.has(name)
    }

    /// Whether `address` is in a blocked network.
    pub fn has_address(&self, address: IpAddr) -> bool {
        self.networks.has(address)
    }

    /// Whether `port` is blocked.
    pub fn has_port(&self, port: u16) -> bool {
        self.ports.contains(&port)
    }

    /// How much is blocked, if anything, and which lines of the files are wrong.
    pub fn notices(&self) -> Vec<String> {
        in_english(&self.notes())
    }

    /// [`Blocklist::notices`] as notes.
    pub(crate) fn notes(&self) -> Vec<Note> {
        let counts = [self.domains.len(), self.networks.len(), self.ports.len()];
        if counts == [0; 3] {
            return self.notes.clone();
        }
        let blocked = Note::new(&BLOCKED, counts.map(Value::same));
        std::iter::once(blocked).chain(self.notes.iter().cloned()).collect()
    }
}

/// An entry of the configuration.
enum Entry<'a> {
    File(&'a Path),
    Literal(&'a str),
}

impl Entry<'_> {
    fn of(text: &str) -> Entry<'_> {
        if text.starts_with('/') { Entry::File(Path::new(text)) } else { Entry::Literal(text) }
    }
}

/// Opens a regular file.
fn open(path: &Path) -> Result<File, ConfigError> {
    let failed = |error| ConfigError::File { path: path.to_owned(), error };
    // Opening a named pipe would block until another program writes to it.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    File::open(path).map_err(failed)
}

/// Gives each line to `take`, and adds a note for each line that `take` refuses.
fn lines(
    path: &Path,
    notes: &mut Vec<Note>,
    mut take: impl FnMut(&str) -> Result<(), &'static Phrase<0>>,
) -> Result<(), ConfigError> {
    let failed = |error| ConfigError::File { path: PathBuf::from(path), error };
    let mut file = BufReader::with_capacity(1 << 16, open(path)?);
    let (mut line, mut number, mut wrong) = (Vec::new(), 0u64, 0u64);
    loop {
        line.clear();
        if file.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        number += 1;
        let bytes = if number == 1 { line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line) } else { &line[..] };
        let text = std::str::from_utf8(bytes);
        if let Err(why) = text.map_err(|_| &NOT_UTF8).and_then(|text| take(text.trim())) {
            wrong += 1;
            if wrong <= NAMED {
                let shown: String =
                    String::from_utf8_lossy(bytes).trim().chars().take(SHOWN).collect::<String>();
                let [file, number] = [Value::same(path.display()), Value::same(number)];
                let values = [file, number, Value::same(format!("{shown:?}")), Value::of(why)];
                notes.push(Note::new(&LINE_WRONG, values));
            }
        }
    }
    if wrong > NAMED {
        let values = [Value::same(path.display()), Value::same(wrong - NAMED)];
        notes.push(Note::new(&LINES_WRONG, values));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn file(text: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn config(domains: &[&str], networks: &[&str]) -> BlockConfig {
        let own = |entries: &[&str]| entries.iter().map(|&entry| entry.to_owned()).collect();
        BlockConfig { domains: own(domains), networks: own(networks), ports: [6881].into() }
    }

    #[test]
    fn lists_as_people_have_them() {
        let hosts = file(
            b"\xef\xbb\xbf# a hosts file\r\n127.0.0.1 localhost\n::1 ip6-localhost ip6-loopback\n0.0.0.0 0.0.0.0\n\
              0.0.0.0 ads.example.org # why\n127.0.0.1\tTracker.Example.NET  pixel.example.net\n",
        );
        let plain = file(
            b"! of an ad blocker\n[Adblock Plus 2.0]\nexample.com\n*.wild.example\n.dot.example.\n\
              ||bar.example^\nzip\n",
        );
        let networks = file(b"; of Spamhaus\n203.0.113.0/24 ; SBL1\n198.51.100.7\n2001:db8:5::/48 # one\n");
        let path = |file: &tempfile::NamedTempFile| file.path().display().to_string();
        let [hosts, plain, nets] = [&hosts, &plain, &networks].map(path);
        let lists =
            Blocklist::read(&config(&[&hosts, &plain, "literal.example"], &[&nets, "192.0.2.0/25"])).unwrap();
        for name in [
            "ads.example.org",
            "x.ads.example.org",
            "ADS.example.ORG",
            "ads.example.org.",
            "tracker.example.net",
            "pixel.example.net",
            "example.com",
            "www.example.com",
            "wild.example",
            "a.b.wild.example",
            "dot.example",
            "bar.example",
            "any.zip",
            "literal.example",
        ] {
            assert!(lists.has_name(name), "{name}");
        }
        for name in ["example.org", "xads.example.org", "localhost", "example", "com", "", "ip6-localhost"] {
            assert!(!lists.has_name(name), "{name}");
        }
        let address = |text: &str| lists.has_address(text.parse().unwrap());
        assert!(address("203.0.113.255") && address("198.51.100.7") && address("2001:db8:5:1::1"));
        assert!(address("::ffff:203.0.113.1") && address("192.0.2.127"));
        assert!(!address("203.0.114.0") && !address("198.51.100.8") && !address("2001:db8:6::"));
        assert!(!address("192.0.2.128"));
        assert!(lists.has_port(6881) && !lists.has_port(443));
        assert_eq!(lists.notices(), ["blocked: 9 domains, 4 networks or ranges of addresses, 1 ports"]);
    }

    #[test]
    fn a_wrong_line_is_named_and_left_out() {
        let names = file(
            b"good.example\nexample.com##.ad\n@@||x.example^\n192.168.1.5 nas.example\n1.2.3.4\n\
              \xff\xfe\na b\nlast.example",
        );
        let networks = file(b"10.0.0.0/33\n198.51.100.0/24\n");
        let path = |file: &tempfile::NamedTempFile| file.path().display().to_string();
        let (names, networks) = (path(&names), path(&networks));
        let lists = Blocklist::read(&config(&[&names], &[&networks])).unwrap();
        assert!(lists.has_name("good.example") && lists.has_name("last.example"));
        assert!(
            !lists.has_name("example.com") && !lists.has_name("x.example") && !lists.has_name("nas.example")
        );
        let said = lists.notices().join("\n");
        for part in [
            &format!("{names}:2: \"example.com##.ad\""),
            &format!("{names}:3: "),
            &format!("{names}:4: \"192.168.1.5 nas.example\": it gives a name another address"),
            &format!("{names}: 3 more lines are wrong"),
            &format!("{networks}:1: \"10.0.0.0/33\": it is neither a network nor an address"),
        ] {
            assert!(said.contains(part), "{part} in\n{said}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        for (domains, networks, why) in [
            (&["/nonexistent/ads"][..], &[][..], "/nonexistent/ads"),
            (&["/"], &[], "it is not a regular file"),
            (&["two words"], &[], "block.domains[0]: `two words`"),
            (&["1.2.3.4"], &[], "put it into `networks`"),
            (&[], &["example.org"], "block.networks[0]: `example.org`"),
            (&[], &["relative/path"], "absolute path of a file"),
        ] {
            let error = Blocklist::read(&config(domains, networks)).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    /// Prints the times with:
    /// `cargo test --release -p leeway-gateway --lib half_a_million -- --nocapture`
    #[test]
    fn half_a_million_names_take_eight_bytes_each() {
        let mut text = String::new();
        for n in 0..500_000 {
            text += &format!("0.0.0.0 host-{n}.ads-{}.example\n", n % 1000);
        }
        let names = file(text.as_bytes());
        let began = Instant::now();
        let lists = Blocklist::read(&config(&[&names.path().display().to_string()], &[])).unwrap();
        let loaded = began.elapsed();
        assert_eq!((lists.domains.len(), lists.domains.bytes()), (500_000, 4_000_000));
        let began = Instant::now();
        for n in 0..1000 {
            assert!(lists.has_name(&format!("www.host-{n}.ads-{}.example", n % 1000)));
            assert!(!lists.has_name(&format!("www.host-{n}.ads-{}.example", (n + 1) % 1000)));
        }
        println!("500,000 names in {loaded:?}; a question takes {:?}", began.elapsed() / 2000);
    }
}
