//! The probable meaning of a misspelt word.

use crate::text::escape;

/// The word that was probably meant: a few letters more, fewer, wrong or swapped, and some of them right. A sign such
/// as `?` is not a misspelt word, nor is a word a misspelt sign.
pub fn closest<'g>(typed: &str, spellings: impl Iterator<Item = &'g str>) -> Option<&'g str> {
    let letters = typed.chars().count();
    let tolerance = if letters <= 4 { 1 } else { 2 }.min(letters.saturating_sub(1));
    spellings
        .filter(|name| name.chars().any(char::is_alphanumeric))
        .map(|name| (distance(typed, name), name))
        .filter(|(distance, _)| *distance <= tolerance)
        // If there are several, prefer an unfinished word.
        .min_by_key(|(distance, name)| (*distance, !name.starts_with(typed)))
        .map(|(_, name)| name)
}

/// The question about a name that is probably meant.
pub fn did_you_mean(name: &str) -> String {
    format!("did you mean {}?", escape::line(name))
}

/// The end of a message about a name: the closest known name, if there is one.
pub fn or_else<'g>(typed: &str, names: impl Iterator<Item = &'g str>) -> String {
    closest(typed, names).map(|meant| format!(": {}", did_you_mean(meant))).unwrap_or_default()
}

/// Number of letters that must be added, removed, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: [Vec<usize>; 3] = [Vec::new(), Vec::new(), (0..=b.len()).collect()];
    for (i, from) in a.iter().enumerate() {
        rows.rotate_left(1);
        let [before, above, row] = &mut rows;
        *row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX - 1);
            let changed = at(above, j) + usize::from(from != to);
            let mut least = changed.min(at(above, j + 1) + 1).min(at(row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from);
            if swapped {
                least = least.min(at(before, j - 1) + 1);
            }
            row.push(least);
        }
    }
    rows[2].last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_single_letters_and_signs() {
        let names = ["put", "?", "!", "\\e", "ls", "use"];
        for (typed, meant) in [
            ("x", None),
            ("l", None),
            ("??", None),
            ("", None),
            ("sl", Some("ls")),
            ("lss", Some("ls")),
            ("e", None),
            ("us", Some("use")),
        ] {
            assert_eq!(closest(typed, names.into_iter()), meant, "{typed}");
        }
    }

    #[test]
    fn distance_counts_letters() {
        for (a, b, letters) in [
            ("put", "put", 0),
            ("", "put", 3),
            ("pt", "put", 1),
            ("sttas", "stats", 1),
            ("resrev", "reserve", 2),
            ("use", "kick", 4),
        ] {
            assert_eq!(distance(a, b), letters, "{a} {b}");
            assert_eq!(distance(b, a), letters, "{b} {a}");
        }
    }
}
