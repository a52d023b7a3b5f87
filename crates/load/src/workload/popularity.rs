//! Popularity of files: alias tables over SPEC's, Zipf's, equal or given weights.

use super::files::FileId;
use super::specweb::{self, CLASS_PER_MILLE, FILES_PER_CLASS, FILES_PER_DIR, file_share, harmonic};
use crate::number::{id, index, rounded};
use clap::ValueEnum;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use serde::{Deserialize, Serialize};

/// Purpose of a stream of random numbers. A stream per purpose keeps the others unchanged when one
/// draws more often: common random numbers between runs that differ in one respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The directory, or the file of a set without directories.
    Directory,
    /// The class, or the shuffle of the deck.
    Class,
    File,
    Length,
    Gap,
    Think,
    Size,
    Arrival,
}

/// The name of the generator, for manifests.
pub const ALGORITHM: &str = "pcg64 (LCG 128, XSL-RR 64), one stream per client and purpose";

/// The random stream of one client and purpose under `seed`.
pub fn stream(seed: u64, client: u32, purpose: Purpose) -> Pcg64 {
    let state = u128::from(seed) << 64 | u128::from(client) << 32 | 0x5eed;
    let mut random = Pcg64::new(state, 2 * u128::from(client) + ((purpose as u128) << 40));
    // States that differ in few bits stay near each other for the first steps.
    for _ in 0..8 {
        random.next_u64();
    }
    random
}

/// A real in [0, 1) with 53 random bits.
pub fn unit(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// A whole number below `n` (which must not be 0), and the fraction within its cell.
fn below(random: &mut Pcg64, n: u64) -> (u64, u64) {
    let product = u128::from(random.next_u64()) * u128::from(n);
    let low = u64::try_from(product & u128::from(u64::MAX)).expect("masked to 64 bits");
    (u64::try_from(product >> 64).expect("the high half has 64 bits"), low)
}

/// A whole number in `least..=most`.
pub fn between(random: &mut Pcg64, least: u32, most: u32) -> u32 {
    assert!(least <= most, "an empty range has no number");
    let drawn = below(random, u64::from(most - least) + 1).0;
    least + u32::try_from(drawn).expect("below a count that fits 32 bits")
}

/// Vose's alias table: one draw in constant time from any weights.
#[derive(Clone, Debug)]
pub struct Alias {
    keep: Box<[u64]>,
    other: Box<[u32]>,
}

impl Alias {
    /// A table over `weights`, which need not add up to 1. At least one must be positive; negatives
    /// and NaN count as 0. At most 2^32 − 1 of them.
    pub fn new(weights: &[f64]) -> Self {
        let n = weights.len();
        let positive = |w: f64| if w > 0.0 { w } else { 0.0 };
        let total: f64 = weights.iter().map(|&w| positive(w)).sum();
        assert!(total > 0.0 && total.is_finite(), "some weight is positive, none is infinite");
        let mut scaled: Vec<f64> =
            weights.iter().map(|&w| positive(w) / total * n as f64).collect();
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for (at, &w) in scaled.iter().enumerate() {
            if w < 1.0 { &mut small } else { &mut large }.push(id(at));
        }
        let mut keep = vec![u64::MAX; n];
        let mut other: Vec<u32> = (0..id(n)).collect();
        while let (Some(&s), Some(&l)) = (small.last(), large.last()) {
            let (s_at, l_at) = (index(s.into()), index(l.into()));
            small.pop();
            keep[s_at] = rounded(scaled[s_at] * (u64::MAX as f64));
            other[s_at] = l;
            scaled[l_at] -= 1.0 - scaled[s_at];
            if scaled[l_at] < 1.0 {
                large.pop();
                small.push(l);
            }
        }
        Self { keep: keep.into(), other: other.into() }
    }

    pub fn draw(&self, random: &mut Pcg64) -> u32 {
        let (cell, fraction) = below(random, self.keep.len() as u64);
        let at = index(cell);
        if fraction < self.keep[at] { id(at) } else { self.other[at] }
    }
}

/// Choice of the class of each request \[src\].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    // 35 / 50 / 14 / 1 %.
    /// Each draw on its own.
    #[default]
    Iid,
    // A deck of exactly 350, 500, 140 and 10 cards, again and again, with less variance.
    /// From a shuffled deck, SPEC's method.
    Deck,
}

/// Law of popularity, as manifests name it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "law", rename_all = "kebab-case")]
pub enum Law {
    /// Zipf (1.0) over directories, SPEC's class mix, Zipf (1.0) within a class \[src\].
    Specweb {
        mix: Mix,
    },
    /// The file of index `i` has weight `1 / (i + 1)^exponent`: 0 is uniform, 1 the web's usual.
    Zipf {
        exponent: f64,
    },
    Uniform,
    /// The weights of the file list, as counted in a log.
    Counted,
}

/// The popularity of every file of a set, with its tables.
#[derive(Debug)]
pub struct Popularity {
    law: Law,
    shape: Shape,
}

#[derive(Debug)]
enum Shape {
    Specweb { dirs: u32, total: f64, dir: Alias, class: Alias, file: Alias },
    Weighted { share: Vec<f64>, file: Alias },
}

impl Popularity {
    /// SPEC's law over `dirs` directories (1 or more) of 36 files \[src\].
    pub fn specweb(dirs: u32, mix: Mix) -> Self {
        let weights: Vec<f64> = (1..=dirs).map(|d| 1.0 / f64::from(d)).collect();
        let files: Vec<f64> = (0..FILES_PER_CLASS).map(file_share).collect();
        let shape = Shape::Specweb {
            dirs,
            total: harmonic(dirs),
            dir: Alias::new(&weights),
            class: Alias::new(&CLASS_PER_MILLE.map(f64::from)),
            file: Alias::new(&files),
        };
        Self { law: Law::Specweb { mix }, shape }
    }

    /// Zipf over `files` files in the order of their ids.
    pub fn zipf(files: u32, exponent: f64) -> Self {
        let weights = (1..=files).map(|rank| f64::from(rank).powf(-exponent)).collect();
        Self::shares(Law::Zipf { exponent }, weights)
    }

    pub fn uniform(files: u32) -> Self {
        Self::shares(Law::Uniform, vec![1.0; index(files.into())])
    }

    /// Files by weights; at least one is positive.
    pub fn counted(weights: Vec<f64>) -> Self {
        Self::shares(Law::Counted, weights)
    }

    fn shares(law: Law, mut weights: Vec<f64>) -> Self {
        let file = Alias::new(&weights);
        let total: f64 = weights.iter().sum();
        weights.iter_mut().for_each(|w| *w /= total);
        Self { law, shape: Shape::Weighted { share: weights, file } }
    }

    pub fn law(&self) -> Law {
        self.law
    }

    pub fn files(&self) -> u32 {
        match &self.shape {
            Shape::Specweb { dirs, .. } => dirs * FILES_PER_DIR,
            Shape::Weighted { share, .. } => id(share.len()),
        }
    }

    pub fn share(&self, file: FileId) -> f64 {
        match &self.shape {
            Shape::Specweb { total, .. } => {
                let (dir, in_dir) = (file.0 / FILES_PER_DIR, file.0 % FILES_PER_DIR);
                let (class, k) = (in_dir / FILES_PER_CLASS, in_dir % FILES_PER_CLASS);
                specweb::size_share(class, k) / f64::from(dir + 1) / total
            }
            Shape::Weighted { share, .. } => share[index(file.0.into())],
        }
    }

    /// The draws of one client under `seed`.
    pub fn sampler(&self, seed: u64, client: u32) -> Sampler<'_> {
        Sampler {
            popularity: self,
            directory: stream(seed, client, Purpose::Directory),
            class: stream(seed, client, Purpose::Class),
            file: stream(seed, client, Purpose::File),
            deck: Vec::new(),
        }
    }
}

/// Sequence of files of one client.
#[derive(Debug)]
pub struct Sampler<'a> {
    popularity: &'a Popularity,
    directory: Pcg64,
    class: Pcg64,
    file: Pcg64,
    deck: Vec<u8>,
}

impl Sampler<'_> {
    pub fn draw(&mut self) -> FileId {
        match (&self.popularity.shape, self.popularity.law) {
            (Shape::Specweb { dir, class, file, .. }, law) => {
                let d = dir.draw(&mut self.directory);
                let c = match law {
                    Law::Specweb { mix: Mix::Deck } => self.card(),
                    _ => class.draw(&mut self.class),
                };
                FileId(d * FILES_PER_DIR + c * FILES_PER_CLASS + file.draw(&mut self.file))
            }
            (Shape::Weighted { file, .. }, _) => FileId(file.draw(&mut self.directory)),
        }
    }

    fn card(&mut self) -> u32 {
        if self.deck.is_empty() {
            for (class, count) in (0..).zip(CLASS_PER_MILLE) {
                self.deck.extend(core::iter::repeat_n(class, count.into()));
            }
            shuffle(&mut self.deck, &mut self.class);
        }
        u32::from(self.deck.pop().expect("a deck has 1,000 cards"))
    }
}

/// Fisher and Yates's shuffle: every order alike.
pub(crate) fn shuffle<T>(cards: &mut [T], random: &mut Pcg64) {
    for last in (1..cards.len()).rev() {
        cards.swap(last, index(below(random, last as u64 + 1).0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every file's count lies within `sigmas` of what its share says.
    fn check(popularity: &Popularity, draws: u32, sigmas: f64) {
        let mut counts = vec![0_u32; index(popularity.files().into())];
        let mut sampler = popularity.sampler(1, 0);
        for _ in 0..draws {
            counts[index(sampler.draw().0.into())] += 1;
        }
        let mut total = 0.0;
        for (file, &count) in (0..).map(FileId).zip(&counts) {
            let share = popularity.share(file);
            total += share;
            let (mean, draws) = (share * f64::from(draws), f64::from(draws));
            let sigma = (draws * share * (1.0 - share)).sqrt().max(1.0);
            let off = (f64::from(count) - mean).abs() / sigma;
            assert!(off <= sigmas, "{file:?} of {:?}: {count}, not {mean}", popularity.law());
        }
        assert!((total - 1.0).abs() < 1e-9, "shares add up to 1, not {total}");
    }

    #[test]
    fn draws_follow_the_shares() {
        for popularity in [
            Popularity::specweb(13, Mix::Iid),
            Popularity::specweb(13, Mix::Deck),
            Popularity::specweb(1, Mix::Iid),
            Popularity::zipf(100, 1.0),
            Popularity::zipf(10, 0.0),
            Popularity::uniform(7),
            Popularity::uniform(1),
            Popularity::counted(vec![0.0, 3.0, 0.0, 1.0, 1e-3]),
        ] {
            check(&popularity, 200_000, 4.8);
        }
    }

    #[test]
    fn a_deck_is_exact() {
        let popularity = Popularity::specweb(60, Mix::Deck);
        let mut sampler = popularity.sampler(9, 3);
        for _ in 0..20 {
            let mut classes = [0_u16; 4];
            for _ in 0..1000 {
                classes[index(u64::from(sampler.draw().0 % 36 / 9))] += 1;
            }
            assert_eq!(classes, CLASS_PER_MILLE);
        }
    }

    #[test]
    fn streams_differ_by_seed_client_and_purpose() {
        let mut first = std::collections::BTreeSet::new();
        for seed in 0..20 {
            for client in 0..20 {
                for purpose in [Purpose::Class, Purpose::File, Purpose::Arrival] {
                    assert!(first.insert(stream(seed, client, purpose).next_u64()));
                }
            }
        }
    }
}
