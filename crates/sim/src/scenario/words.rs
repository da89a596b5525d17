//! Suggestions for a name that does not exist.

/// The name in `known` that is most similar to `word`, if it may be a typing error.
pub(super) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The time for a distance is quadratic in length, and a long word is no typing error.
    if word.len() > 40 {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Help for an unknown word: "did you mean `x`? known: `x`, `y`", or only the known words if none
/// is similar.
pub(super) fn suggest(word: &str, known: &[&str], known_are: &str) -> String {
    let list = || known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (known, closest(word, known.iter().copied())) {
        ([], _) => format!("{known_are}: none"),
        ([only], _) => format!("{known_are}: `{only}`"),
        (_, Some(close)) => format!("did you mean `{close}`? {known_are}: {}", list()),
        (_, None) => format!("{known_are}: {}", list()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_are_recognised() {
        let known = ["duration", "description", "dumbbell", "flow"];
        assert_eq!(closest("durration", known), Some("duration"));
        assert_eq!(closest("dumbell", known), Some("dumbbell"));
        assert_eq!(closest("folw", known), Some("flow"));
        assert_eq!(closest("flows", known), Some("flow"));
        assert_eq!(closest("zzz", known), None);
    }
}
