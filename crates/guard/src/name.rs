//! Names of users and clients.

/// Most bytes of a name.
const NAME_BYTES: usize = 60;

/// Whether a name can be listed: 1 to 60 bytes, of characters that are [steady](is_steady).
pub fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES).contains(&name.len()) && name.chars().all(is_steady)
}

/// Whether a name can be a user's. A file of users has lines `NAME:HASH` and comments, so the name
/// has no space, no colon and no # at its start.
pub fn is_user(name: &str) -> bool {
    is_name(name) && !name.starts_with('#') && !name.contains(|c: char| c.is_whitespace() || c == ':')
}

/// Whether a character leaves the text around it in place. Control characters do not, nor do
/// characters that change the direction of text or break a line (Unicode Standard Annex 9). With
/// those, `gpj.exe` is displayed as `exe.jpg`.
pub fn is_steady(c: char) -> bool {
    let turns = matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !c.is_control() && !turns
}

/// Somebody else's text for a terminal: characters that are not [steady](is_steady) are replaced by
/// U+FFFD.
pub fn steady(text: &str) -> String {
    text.chars().map(|c| if is_steady(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// The same for a text of several lines: line ends and tabs stay.
pub fn steady_lines(text: &str) -> String {
    let kept = |c: char| is_steady(c) || c == '\n' || c == '\t';
    text.chars().map(|c| if kept(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
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
        assert_eq!(
            steady("größe \u{1b}]0;x\u{7}\ngpj\u{202e}"),
            "größe \u{fffd}]0;x\u{fffd}\u{fffd}gpj\u{fffd}"
        );
        assert!(is_user("ann") && is_user("a#"));
    }
}
