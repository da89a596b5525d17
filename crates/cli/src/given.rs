//! Parsers of command-line values that several commands take: networks, times, addresses, tokens.

use crate::Failure;
use ipnet::IpNet;
use jiff::civil::Date;
use leeway_tunnel::{Token, TokenError};
use leeway_units::Duration;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::Path;

/// Parses a network. An address without a prefix length is a network of one address.
pub fn network(text: &str) -> Result<IpNet, Failure> {
    let alone = || text.parse::<IpAddr>().map(IpNet::from);
    let wrong = |_| Failure::Usage(format!("`{text}` is not a network, such as 192.168.1.0/24"));
    text.parse().or_else(|_| alone()).map_err(wrong)
}

/// Parses a time, also in minutes, hours or days.
pub fn time(text: &str) -> Result<Duration, String> {
    let days = || {
        let number: u64 = text.trim().strip_suffix('d')?.trim_end().parse().ok()?;
        number
            .checked_mul(24 * 3600)
            .and_then(|seconds| seconds.checked_mul(1_000_000_000))
            .map(Duration::from_nanos)
    };
    let time = days().or_else(|| text.parse().ok());
    time.ok_or_else(|| format!("`{text}` is not a time such as 30min, 2h or 7d"))
}

/// Parses a number of threads, at least 1.
pub fn at_a_time(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number from 1 up"))
}

/// Parses an address with a port, to listen at.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        format!("`{text}` is not an address with a port, such as 10.20.0.1:3128 or [2001:db8::7]:3128")
    })
}

/// Parses a calendar day.
pub fn day(text: &str) -> Result<Date, String> {
    text.parse().map_err(|_| format!("`{text}` is not a day such as 2026-11-30: a year, a month and a day"))
}

/// Parses a token. `-` reads the token from the standard input.
pub fn token(text: &str) -> Result<Token, Failure> {
    let read = if text == "-" { std::io::read_to_string(std::io::stdin())? } else { text.to_owned() };
    read.parse().map_err(|error: TokenError| Failure::Usage(error.to_string()))
}

/// Parses tokens from arguments, from the standard input (`-`) and from a file, one per line. Two
/// tokens for the address of one relay are an error.
pub fn tokens(given: &[String], file: Option<&Path>) -> Result<Vec<Token>, Failure> {
    let mut texts = Vec::new();
    for text in given {
        let text = if text == "-" { std::io::read_to_string(std::io::stdin())? } else { text.clone() };
        texts.push(("a token".to_owned(), text));
    }
    if let Some(path) = file {
        let text = leeway_guard::read_secret(path).map_err(|error| Failure::Usage(error.to_string()))?;
        texts.push((path.display().to_string(), text));
    }
    let mut tokens: Vec<Token> = Vec::new();
    for (whence, text) in &texts {
        let lines = text.lines().enumerate().map(|(n, line)| (n + 1, line.trim()));
        for (n, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
            let token: Token = line
                .parse()
                .map_err(|error: TokenError| Failure::Usage(format!("{whence}, line {n}: {error}")))?;
            if tokens.iter().any(|other| other.address == token.address) {
                let address = &token.address;
                return Err(Failure::Usage(format!(
                    "{whence}, line {n}: this is a second token for {address}; keep only one of them"
                )));
            }
            tokens.push(token);
        }
    }
    if tokens.is_empty() {
        return Err(Failure::Usage("there is no token; run `leeway invite` on the relay to get one".into()));
    }
    Ok(tokens)
}

#[cfg(test)]
mod tests {
    use super::*;
    use leeway_tunnel::{Fingerprint, Secret};
    use std::os::unix::fs::PermissionsExt;

    fn token(address: &str) -> String {
        Token::new(address, Fingerprint([1; 32]), Secret::from_bytes([2; 32])).unwrap().to_string()
    }

    fn wrong(given: &[String], file: Option<&Path>) -> String {
        match tokens(given, file) {
            Err(Failure::Usage(why)) => why,
            _ => panic!("it is wrong"),
        }
    }

    #[test]
    fn times_addresses_and_days_are_read_or_explained() {
        for (text, seconds) in [("30min", 1800), ("2h", 7200), ("2 h", 7200), ("7d", 604_800), ("90 s", 90)] {
            assert_eq!(time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["2", "d", "-1h", "1.5d", "99999999999d", "tomorrow", ""] {
            assert_eq!(time(text), Err(format!("`{text}` is not a time such as 30min, 2h or 7d")));
        }
        assert_eq!(at_a_time("3").map(NonZeroUsize::get), Ok(3));
        for text in ["0", "-1", "two", ""] {
            assert_eq!(at_a_time(text), Err(format!("`{text}` is not a number from 1 up")));
        }
        assert_eq!(address("[::1]:80").unwrap().port(), 80);
        for text in ["10.20.0.1", "attic:3128", "3128", "::1:80"] {
            assert!(address(text).unwrap_err().contains("such as 10.20.0.1:3128"), "{text}");
        }
        assert_eq!(day("2026-11-30"), Ok(Date::constant(2026, 11, 30)));
        for text in ["2026-13-01", "yesterday", "2026-02-30"] {
            assert!(day(text).unwrap_err().contains("is not a day such as 2026-11-30"), "{text}");
        }
    }

    #[test]
    fn tokens_are_one_a_line_and_each_relay_is_there_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("# at home\n{}\n\n  {}  \n", token("a.example:1"), token("b.example:1"));
        std::fs::write(file.path(), text).unwrap();
        let all = tokens(&[token("c.example:1")], Some(file.path())).ok().unwrap();
        let addresses: Vec<&str> = all.iter().map(|token| token.address.as_str()).collect();
        assert_eq!(addresses, ["c.example:1", "a.example:1", "b.example:1"]);
        let twice = wrong(&[token("b.example:1")], Some(file.path()));
        assert!(twice.contains("line 4: this is a second token for b.example:1"), "{twice}");
        assert!(!twice.contains("leeway1_"), "a token is a password");
        std::fs::write(file.path(), "# nothing\n").unwrap();
        assert!(wrong(&[], Some(file.path())).contains("there is no token"));
        std::fs::write(file.path(), "\nleeway1_x\n").unwrap();
        assert!(wrong(&[], Some(file.path())).contains("line 2: "));
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(wrong(&[], Some(file.path())).contains("chmod 06"));
    }
}
