//! Suggestions for a word that does not exist.

/// The one of `known` that `word` was probably meant to be.
pub(super) fn closest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Words longer than any name are not typing errors, and the distance is quadratic in length.
    if word.len() > 40 {
        return None;
    }
    let lower = word.to_lowercase();
    known
        .into_iter()
        .map(|candidate| (distance(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(word.len()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `x`? known: `x`, `y`" where there is something close, else only what is known.
pub(super) fn suggest(word: &str, known: &[&str], known_are: &str) -> String {
    let list = || known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match (known, closest(word, known.iter().copied())) {
        ([], _) => format!("{known_are}: none"),
        ([only], _) => format!("{known_are}: `{only}`"),
        (_, Some(close)) => format!("did you mean `{close}`? {known_are}: {}", list()),
        (_, None) => format!("{known_are}: {}", list()),
    }
}

/// Levenshtein distance, a swap of neighbours counting one.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
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
