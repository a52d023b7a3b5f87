//! The papers' rules of verification (\[E\] §3.4, \[S\] §5): what is kept of them for each trial.

use regatta_load::engine::Ruling;
use serde::{Deserialize, Serialize};

/// The papers that have such rules: their name in results, and their mark.
pub const PAPERS: [(&str, &str); 2] = [("eurosys07", "[E]"), ("systor12", "[S]")];

/// What one paper's rules say of a trial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruled {
    /// One of [`PAPERS`].
    pub paper: String,
    /// The rules that it breaks; empty: the paper would have published it.
    pub broken: Vec<Broken>,
}

/// A rule that a trial breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// Its name, such as `E-2`.
    pub rule: String,
    /// In how many places: sizes of files, and clients.
    pub places: usize,
    /// The last of them in words. Sizes go up, so it is of the largest file, which fails first
    /// (\[E\] §3.4).
    pub last: String,
}

/// What is kept of the rulings of a load, whose breaches can be a thousand.
pub(crate) fn kept(rulings: &[Ruling]) -> Vec<Ruled> {
    rulings
        .iter()
        .map(|ruling| {
            let mut ruled = Ruled { paper: ruling.paper.clone(), broken: Vec::new() };
            for breach in &ruling.breaches {
                let (rule, words) = breach.split_once(": ").unwrap_or(("", breach));
                match ruled.broken.iter_mut().find(|broken| broken.rule == rule) {
                    Some(broken) => {
                        broken.places += 1;
                        words.clone_into(&mut broken.last);
                    }
                    None => {
                        let (rule, last) = (rule.to_owned(), words.to_owned());
                        ruled.broken.push(Broken { rule, places: 1, last });
                    }
                }
            }
            ruled
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// What a load says that breaks these rules of a paper, in these words.
    pub(crate) fn ruled(paper: &str, breaches: &[&str]) -> Vec<Ruled> {
        let breaches = breaches.iter().map(|breach| (*breach).to_owned()).collect();
        kept(&[Ruling { paper: paper.to_owned(), breaches }])
    }

    #[test]
    fn of_many_breaches_the_largest_files_is_kept() {
        let breaches = [
            "E-1: 12.00 % timed out, not 10.00 (12/100)",
            "E-2: 20.00 % timed out, not 14.00 (2/10, files of 102 bytes)",
            "E-2: 50.00 % timed out, not 14.00 (5/10, files of 921600 bytes)",
        ];
        let ruled = &ruled("eurosys07", &breaches)[0];
        let names: Vec<(&str, usize)> =
            ruled.broken.iter().map(|one| (one.rule.as_str(), one.places)).collect();
        assert_eq!(names, [("E-1", 1), ("E-2", 2)]);
        assert!(ruled.broken[1].last.ends_with("files of 921600 bytes)"), "{ruled:?}");
        assert!(kept(&[]).is_empty());
        let text = serde_json::to_string(ruled).unwrap();
        assert_eq!(serde_json::from_str::<Ruled>(&text).unwrap(), *ruled);
    }
}
