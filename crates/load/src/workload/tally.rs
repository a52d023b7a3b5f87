//! What session logs contain, counted in one pass: requests per file, session lengths, off times.

use super::files::{FileId, FileSet};
use super::model;
use super::popularity::{Law, Mix, Popularity};
use super::session::{Session, US_PER_S};
use super::specweb::CLASS_PER_MILLE;
use crate::number::{index, share};
use std::collections::BTreeMap;

/// Session lengths are counted one by one up to this many requests, and together above.
pub const LENGTH_MAX: usize = 1_000;

/// Counts over one or many logs of one file set. Eight bytes per file.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    per_file: Vec<u64>,
    /// Sessions per length, shortest first; those above [`LENGTH_MAX`] count as that.
    pub lengths: BTreeMap<usize, u64>,
    /// Sessions.
    pub sessions: u64,
    /// Requests.
    pub requests: u64,
    /// Bursts.
    pub bursts: u64,
    /// Requests for targets that the set does not have.
    pub unknown: u64,
    /// Sum of the think times between bursts, microseconds.
    pub think_us: u64,
}

impl Tally {
    /// Nothing counted yet, for `set`.
    pub fn new(set: &FileSet) -> Self {
        Self { per_file: vec![0; index(set.len().into())], ..Self::default() }
    }

    /// Counts one session.
    pub fn add(&mut self, set: &FileSet, session: &Session) {
        self.sessions += 1;
        self.requests += session.len() as u64;
        self.bursts += session.bursts().count() as u64;
        self.think_us += session.think_total_us();
        *self.lengths.entry(session.len().min(LENGTH_MAX)).or_default() += 1;
        for request in session.requests() {
            match set.find(request.target) {
                Some(file) => self.per_file[index(file.0.into())] += 1,
                None => self.unknown += 1,
            }
        }
    }

    /// Adds the counts of another log of the same set.
    pub fn merge(&mut self, other: &Self) {
        assert_eq!(self.per_file.len(), other.per_file.len(), "tallies of one file set");
        for (mine, theirs) in self.per_file.iter_mut().zip(&other.per_file) {
            *mine += theirs;
        }
        for (&length, &count) in &other.lengths {
            *self.lengths.entry(length).or_default() += count;
        }
        self.sessions += other.sessions;
        self.requests += other.requests;
        self.bursts += other.bursts;
        self.unknown += other.unknown;
        self.think_us += other.think_us;
    }

    /// Requests for one file.
    pub fn of(&self, file: FileId) -> u64 {
        self.per_file[index(file.0.into())]
    }

    /// Files that were asked for, and their bytes.
    pub fn distinct(&self, set: &FileSet) -> (u64, u64) {
        set.ids()
            .filter(|&file| self.of(file) > 0)
            .fold((0, 0), |(files, bytes), file| (files + 1, bytes + set.bytes(file)))
    }

    /// Reply bytes of all requests for files of the set.
    pub fn reply_bytes(&self, set: &FileSet) -> u64 {
        set.ids().map(|file| self.of(file) * set.bytes(file)).sum()
    }

    /// Requests per file size, smallest first.
    pub fn per_size(&self, set: &FileSet) -> BTreeMap<u64, u64> {
        let mut sizes = BTreeMap::new();
        for file in set.ids() {
            *sizes.entry(set.bytes(file)).or_default() += self.of(file);
        }
        sizes
    }

    /// Requests per size class.
    pub fn per_class(&self, set: &FileSet) -> [u64; 4] {
        let mut classes = [0; 4];
        for file in set.ids() {
            classes[usize::from(set.class(file))] += self.of(file);
        }
        classes
    }

    /// Mean requests per session.
    pub fn mean_requests(&self) -> f64 {
        share(self.requests, self.sessions)
    }

    /// Mean off time per request, seconds.
    pub fn off_s_per_request(&self) -> f64 {
        share(self.think_us, self.requests) / US_PER_S as f64
    }

    /// §3.4's acceptance rules: per-size counts within 4σ of `popularity`, class counts exact in
    /// deck mode, distinct files within 1 % of Σ(1 − (1 − p)^N). Empty when all are met. Where
    /// counts are too small for that, chance is given its due: 16/3 requests below 100 expected, 5σ
    /// for more than 36 sizes, 4σ of the distinct files.
    pub fn problems(&self, set: &FileSet, popularity: &Popularity) -> Vec<String> {
        let mut problems = Vec::new();
        if self.unknown > 0 {
            problems.push(format!("{} requests for files outside the set", self.unknown));
        }
        let known = self.requests as f64;
        let mut shares: BTreeMap<u64, f64> = BTreeMap::new();
        for file in set.ids() {
            *shares.entry(set.bytes(file)).or_default() += popularity.share(file);
        }
        let sigmas = if shares.len() > 36 { 5.0 } else { 4.0 };
        for (bytes, count) in self.per_size(set) {
            let share = shares.get(&bytes).copied().unwrap_or(0.0);
            let mean = known * share;
            let sigma = (mean * (1.0 - share)).sqrt();
            let slack = if mean < 100.0 { sigmas * sigmas / 3.0 } else { 1e-6 };
            if (count as f64 - mean).abs() > sigmas * sigma + slack {
                problems.push(format!("{count} requests of {bytes} bytes, not {mean:.0}"));
            }
        }
        if popularity.law() == (Law::Specweb { mix: Mix::Deck }) {
            let classes = self.per_class(set);
            let exact = classes.iter().zip(CLASS_PER_MILLE);
            let rest = self.requests % 1000;
            if exact.clone().any(|(&n, m)| n.abs_diff(self.requests / 1000 * u64::from(m)) > rest) {
                problems.push(format!("the deck dealt {classes:?} of the classes"));
            }
        }
        let expected = model::distinct(&model::items(set, popularity), known);
        let (files, _) = self.distinct(set);
        let slack = (expected.files * 0.01).max(4.0 * expected.files_sigma + 1e-6);
        if (files as f64 - expected.files).abs() > slack {
            problems.push(format!("{files} distinct files, not {:.0}", expected.files));
        }
        problems
    }
}
