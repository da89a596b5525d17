//! Names by which people are listed.

/// Bytes that a name has at the most.
const NAME_BYTES: usize = 60;

/// Whether a name can be listed: one to 60 bytes, and each character [is seen where it stands](is_steady).
pub fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES).contains(&name.len()) && name.chars().all(is_steady)
}

/// Whether a name can be a user's, who is written as `NAME:HASH` in a file with comments: a name without a
/// space, without a colon, and without # in front.
pub fn is_user(name: &str) -> bool {
    is_name(name) && !name.starts_with('#') && !name.contains(|c: char| c.is_whitespace() || c == ':')
}

/// Whether a character leaves what is around it in its place. A control character does not, and no more does one
/// that turns text around or breaks a line (Unicode Standard Annex 9), with which `exe.jpg` is seen where
/// `gpj.exe` stands.
pub fn is_steady(c: char) -> bool {
    let turns = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_seen_as_it_is() {
        for name in ["ann", "Jürgen M.", "Àlex", "علي", &"n".repeat(NAME_BYTES)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "a\nb", "\u{1b}[2J", "nna\u{202e}", "a\u{2066}b", &"n".repeat(61)] {
            assert!(!is_name(name) && !is_user(name), "{name:?}");
        }
        for name in ["a b", "a:b", "#a"] {
            assert!(is_name(name) && !is_user(name), "{name:?}");
        }
        assert!(is_user("ann") && is_user("a#"));
    }
}
