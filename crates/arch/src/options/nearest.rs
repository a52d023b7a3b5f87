//! Guesses misspelt words.

/// The word nearest to `text`, if it is near enough to be meant.
///
/// Distance is edits (insert, remove, replace, swap neighbours); at most a third of the length,
/// rounded.
pub fn nearest<'a>(text: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, word) =
        words.into_iter().map(|word| (edits(text, word), word)).min_by_key(|(n, _)| *n)?;
    (distance <= (word.chars().count().max(3) + 1) / 3).then_some(word)
}

/// Texts longer than this are not compared: the work is quadratic, and text may come from a peer
/// of the parser such as a fuzzer.
const NEAREST_CHARS_MAX: usize = 64;

fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().take(NEAREST_CHARS_MAX + 1).collect();
    let b: Vec<char> = b.chars().take(NEAREST_CHARS_MAX + 1).collect();
    if a.len() > NEAREST_CHARS_MAX || b.len() > NEAREST_CHARS_MAX {
        return usize::MAX;
    }
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut best = (rows[i][j] + usize::from(from != to)).min(rows[i][j + 1] + 1);
            best = best.min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                best = best.min(rows[i - 1][j - 1] + 1);
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
    fn the_nearest_word_is_near() {
        let words = ["idle_ms_max", "head_ms_max", "poll"];
        assert_eq!(nearest("idel_ms_max", words), Some("idle_ms_max"));
        assert_eq!(nearest("pool", words), Some("poll"));
        assert_eq!(nearest("something", words), None);
        assert_eq!(nearest(&"x".repeat(10_000), words), None);
    }
}
