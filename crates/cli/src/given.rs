//! Values that several commands are given.

use crate::Failure;
use ipnet::IpNet;
use leeway_tunnel::{Token, TokenError};
use std::net::IpAddr;
use std::path::Path;

/// A network; an address is a network of one.
pub fn network(text: &str) -> Result<IpNet, Failure> {
    let alone = || text.parse::<IpAddr>().map(IpNet::from);
    let wrong = |_| Failure::Usage(format!("`{text}` is not a network, such as 192.168.1.0/24"));
    text.parse().or_else(|_| alone()).map_err(wrong)
}

/// A token; `-` is the standard input.
pub fn token(text: &str) -> Result<Token, Failure> {
    let read = if text == "-" { std::io::read_to_string(std::io::stdin())? } else { text.to_owned() };
    read.parse().map_err(|error: TokenError| Failure::Usage(error.to_string()))
}

/// Tokens, one a line in the file and in the standard input, which is `-`. No relay is there twice.
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
                    "{whence}, line {n}: a second token of {address}: give one"
                )));
            }
            tokens.push(token);
        }
    }
    if tokens.is_empty() {
        return Err(Failure::Usage("there is no token; `leeway invite` prints one on the relay".into()));
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
    fn tokens_are_one_a_line_and_each_relay_is_there_once() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = format!("# at home\n{}\n\n  {}  \n", token("a.example:1"), token("b.example:1"));
        std::fs::write(file.path(), text).unwrap();
        let all = tokens(&[token("c.example:1")], Some(file.path())).ok().unwrap();
        let addresses: Vec<&str> = all.iter().map(|token| token.address.as_str()).collect();
        assert_eq!(addresses, ["c.example:1", "a.example:1", "b.example:1"]);
        let twice = wrong(&[token("b.example:1")], Some(file.path()));
        assert!(twice.contains("line 4: a second token of b.example:1"), "{twice}");
        assert!(!twice.contains("leeway1_"), "a token is a password");
        std::fs::write(file.path(), "# nothing\n").unwrap();
        assert!(wrong(&[], Some(file.path())).contains("there is no token"));
        std::fs::write(file.path(), "\nleeway1_x\n").unwrap();
        assert!(wrong(&[], Some(file.path())).contains("line 2: "));
        file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(wrong(&[], Some(file.path())).contains("chmod 06"));
    }
}
