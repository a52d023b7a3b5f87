//! The papers' verification rules, as pure functions over counts of requests and time-outs (§4.2).
//!
//! A run counts only when every rule holds at every rate of its line (\[E\] §3.4, \[S\] §5).

use crate::number::share;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    pub client: u32,
    pub bytes: u64,
    pub requests: u64,
    pub timeouts: u64,
    /// Time-outs of requests that the server never accepted or read. \[S\] does not count them;
    /// \[E\] does.
    pub unseen: u64,
}

impl Cell {
    /// Counts for \[S\]: without the requests that the server never saw.
    fn seen(&self) -> Self {
        let unseen = self.unseen.min(self.timeouts);
        let requests = self.requests.saturating_sub(unseen);
        Self { requests, timeouts: self.timeouts - unseen, ..*self }
    }
}

/// Breach of a rule: the one-sided 95 % lower bound of the share exceeds the limit. A single
/// time-out among few requests does not condemn a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Breach {
    /// The paper and its rule: "E-1".."E-3", "S-1".."S-3".
    pub rule: &'static str,
    /// The client, when the rule is about one.
    pub client: Option<u32>,
    /// The file size, when the rule is about one, bytes.
    pub bytes: Option<u64>,
    pub requests: u64,
    pub timeouts: u64,
    /// The most that was allowed, as a share.
    pub limit: f64,
}

impl Breach {
    pub fn share(&self) -> f64 {
        share(self.timeouts, self.requests)
    }
}

/// \[E\] §3.4: at most 10 % of all time out; per size at most 2 points above the mean; per client
/// and size at most 5 %. Answers every breach; a run without one may be published.
pub fn eurosys07(cells: &[Cell]) -> Vec<Breach> {
    let sums = Sums::of(cells);
    let mut judge = Judge(Vec::new());
    judge.limit("E-1", None, None, sums.total, 0.10);
    let mean = sums.mean();
    for (&bytes, &sum) in &sums.sizes {
        judge.limit("E-2", None, Some(bytes), sum, mean + 0.02);
    }
    for (&(client, bytes), &sum) in &sums.cells {
        judge.limit("E-3", Some(client), Some(bytes), sum, 0.05);
    }
    judge.0
}

/// \[S\] §5 allows time-outs of at most 10 % of all; per size, of 5 % at one client and of 2 % over
/// all. Per size they are at most 5 points above the mean, at one client (against its own mean) and
/// over all. Answers as [`eurosys07`].
pub fn systor12(cells: &[Cell]) -> Vec<Breach> {
    let cells: Vec<Cell> = cells.iter().map(Cell::seen).collect();
    let sums = Sums::of(&cells);
    let mut judge = Judge(Vec::new());
    judge.limit("S-1", None, None, sums.total, 0.10);
    let limit = sums.mean() + 0.05;
    for (&bytes, &sum) in &sums.sizes {
        judge.limit("S-2", None, Some(bytes), sum, 0.02);
        judge.limit("S-3", None, Some(bytes), sum, limit);
    }
    let clients: BTreeSet<u32> = sums.cells.keys().map(|key| key.0).collect();
    for client in clients {
        let mine: Vec<Cell> = cells.iter().filter(|c| c.client == client).copied().collect();
        let mine = Sums::of(&mine);
        let limit = mine.mean() + 0.05;
        for (&bytes, &sum) in &mine.sizes {
            judge.limit("S-2", Some(client), Some(bytes), sum, 0.05);
            judge.limit("S-3", Some(client), Some(bytes), sum, limit);
        }
    }
    judge.0
}

type Sum = (u64, u64);

#[derive(Default)]
struct Sums {
    total: Sum,
    sizes: BTreeMap<u64, Sum>,
    cells: BTreeMap<(u32, u64), Sum>,
}

impl Sums {
    fn of(cells: &[Cell]) -> Self {
        let mut sums = Self::default();
        for cell in cells {
            for sum in [
                &mut sums.total,
                sums.sizes.entry(cell.bytes).or_default(),
                sums.cells.entry((cell.client, cell.bytes)).or_default(),
            ] {
                sum.0 += cell.requests;
                sum.1 += cell.timeouts;
            }
        }
        sums
    }

    /// Time-outs over requests, whatever the size: the papers do not say which mean theirs is
    /// (§11-6).
    fn mean(&self) -> f64 {
        share(self.total.1, self.total.0)
    }
}

struct Judge(Vec<Breach>);

impl Judge {
    fn limit(
        &mut self,
        rule: &'static str,
        client: Option<u32>,
        bytes: Option<u64>,
        (requests, timeouts): Sum,
        limit: f64,
    ) {
        let breach = Breach { rule, client, bytes, requests, timeouts, limit };
        if breach.share() > limit && exceeds_surely(requests, timeouts, limit) {
            self.0.push(breach);
        }
    }
}

/// Whether the one-sided 95 % lower bound (Clopper and Pearson's) of `found` in `n` exceeds
/// `limit`: whether that many or more would happen with probability below 5 % at the limit.
pub fn exceeds_surely(n: u64, found: u64, limit: f64) -> bool {
    if limit >= 1.0 || found == 0 {
        return false;
    }
    if limit <= 0.0 {
        return true;
    }
    // ln C(n, found) p^found q^(n−found), one factor after another: counts are small.
    let (p, q) = (limit.ln(), (-limit).ln_1p());
    let (n, found) = (n as f64, found.min(n));
    let choose: f64 = (1..=found).map(|i| ((n - found as f64 + i as f64) / i as f64).ln()).sum();
    let mut ln_term = choose + found as f64 * p + (n - found as f64) * q;
    let mut tail = 0.0;
    let mut at = found as f64;
    while at <= n && tail < 0.05 {
        let term = ln_term.exp();
        tail += term;
        // Past the mean terms only fall; what is below 10^-9 of the answer cannot change it.
        if at > n * limit && term < 1e-12 {
            break;
        }
        ln_term += ((n - at) / (at + 1.0)).ln() + p - q;
        at += 1.0;
    }
    tail < 0.05
}

#[cfg(test)]
mod tests {
    use super::*;

    type Row = (u32, u64, u64, u64, u64);

    /// Rules broken by rows of (client, bytes, requests, time-outs, unseen), under both papers.
    fn check(what: &str, rows: &[Row], expected: [&[&str]; 2]) {
        let cells: Vec<Cell> = rows
            .iter()
            .map(|&(client, bytes, requests, timeouts, unseen)| Cell {
                client,
                bytes,
                requests,
                timeouts,
                unseen,
            })
            .collect();
        let broken = |breaches: Vec<Breach>| -> Vec<&str> {
            let rules: BTreeSet<&str> = breaches.iter().map(|b| b.rule).collect();
            rules.into_iter().collect()
        };
        let e = eurosys07(&cells);
        let s = systor12(&cells);
        assert_eq!(broken(e), expected[0], "{what}: EuroSys'07");
        assert_eq!(broken(s), expected[1], "{what}: SYSTOR'12");
    }

    #[test]
    fn rules_are_the_papers() {
        check("nothing", &[], [&[], &[]]);
        check("no time-out", &[(0, 102, 1000, 0, 0)], [&[], &[]]);
        check("at 10 %", &[(0, 1, 100, 10, 0)], [&["E-3"], &["S-2"]]);
        let over = [(0, 1, 100_000, 10_500, 0)];
        check("over 10 %", &over, [&["E-1", "E-3"], &["S-1", "S-2"]]);
        check("unseen do not count", &[(0, 1, 1000, 500, 500)], [&["E-1", "E-3"], &[]]);
        let large = [(0, 1, 100_000, 0, 0), (0, 2, 1_000, 45, 0)];
        check("one size at 4.5 %", &large, [&["E-2"], &["S-2"]]);
        let large = [(0, 1, 10_000_000, 0, 0), (0, 2, 100_000, 6_000, 0)];
        check("one size at 6 %", &large, [&["E-2", "E-3"], &["S-2", "S-3"]]);
        let lonely = [(0, 1, 100_000, 6_000, 0), (1, 1, 900_000, 0, 0)];
        check("one client at 6 %", &lonely, [&["E-3"], &["S-2"]]);
        let few = [(0, 1, 100_000, 0, 0), (0, 2, 10, 1, 0)];
        check("1 of 10 says little", &few, [&[], &[]]);
    }

    #[test]
    fn the_mean_is_over_all_requests() {
        let row =
            |bytes, requests, timeouts| Cell { client: 0, bytes, requests, timeouts, unseen: 0 };
        let cells = [row(1, 100_000, 0), row(2, 1_000, 40)];
        assert!(!eurosys07(&cells).is_empty(), "mean 0.04 %, limit 2.04 %");
    }

    /// Against tables of the exact binomial test.
    #[test]
    fn lower_bounds_are_exact() {
        for (n, found, limit, expected) in [
            (10, 1, 0.05, false),
            (10, 2, 0.05, false),
            (10, 3, 0.05, true),
            (100, 8, 0.05, false),
            (100, 10, 0.05, true),
            (1_000_000, 50_000, 0.05, false),
            (1_000_000, 50_300, 0.05, false),
            (1_000_000, 50_400, 0.05, true),
            (1_000_000, 1_000_000, 0.10, true),
            (5, 5, 1.0, false),
            (5, 0, 0.0, false),
            (5, 1, 0.0, true),
        ] {
            assert_eq!(exceeds_surely(n, found, limit), expected, "{found} of {n} at {limit}");
        }
    }
}
