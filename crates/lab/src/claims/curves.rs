//! What several arms answer over the same rates.
//!
//! A trial that does not count leaves a hole, more often at high rates. The highest value of what
//! is left would be compared with another arm's at a rate that the first was not seen at.

use super::evidence::{Blocks, Evidence, Found, GOOD};
use crate::analysis::by_block;
use crate::stats::{BLOCKS_MIN, count, median};
use std::collections::{BTreeMap, BTreeSet};

/// An arm among the cells that its evidence looks at.
pub(super) type Side<'a, 's> = (Evidence<'a>, &'s str);

/// The good answers of each side at the rates that all of them have in four blocks or more.
#[derive(Debug)]
pub(super) struct Curves {
    /// By rate (the bits of a positive number are in its order) and block.
    sides: Vec<BTreeMap<u64, Blocks>>,
}

impl Curves {
    pub(super) fn of(sides: &[Side<'_, '_>]) -> Found<Self> {
        let mut all = Vec::new();
        for (run, arm) in sides {
            let mut curve: BTreeMap<u64, Blocks> = BTreeMap::new();
            for (rate, cell) in run.rates(arm)? {
                let values = curve.entry(rate.to_bits()).or_default();
                for (block, good) in by_block(run.run, &cell, GOOD) {
                    let most = values.entry(block).or_insert(good);
                    *most = most.max(good);
                }
            }
            all.push(curve);
        }
        let curves = Self { sides: all };
        let rates: BTreeSet<u64> = curves.sides.iter().flat_map(BTreeMap::keys).copied().collect();
        let shared = |rate: &u64| curves.blocks_at(*rate).len() >= BLOCKS_MIN;
        let rates: BTreeSet<u64> = rates.into_iter().filter(shared).collect();
        if rates.is_empty() {
            let arms: Vec<&str> = sides.iter().map(|(_, arm)| *arm).collect();
            return Err(format!(
                "valid trials of {} at the same rates: in four blocks at least",
                arms.join(" and ")
            ));
        }
        let mut sides = curves.sides;
        sides.iter_mut().for_each(|curve| curve.retain(|rate, _| rates.contains(rate)));
        Ok(Self { sides })
    }

    /// The blocks in which all sides have a valid trial at a rate.
    fn blocks_at(&self, rate: u64) -> BTreeSet<u32> {
        let of = |curve: &BTreeMap<u64, Blocks>| -> BTreeSet<u32> {
            curve.get(&rate).map_or(BTreeSet::new(), |values| values.keys().copied().collect())
        };
        let each = self.sides.iter().map(of);
        each.reduce(|one, other| &one & &other).unwrap_or_default()
    }

    /// In each block the rates at which all sides have a valid trial.
    fn rates(&self) -> BTreeMap<u32, BTreeSet<u64>> {
        let mut found: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for rate in self.sides.first().into_iter().flat_map(BTreeMap::keys) {
            for block in self.blocks_at(*rate) {
                found.entry(block).or_default().insert(*rate);
            }
        }
        found
    }

    /// The rate at which each side usually answers the most.
    fn best(&self) -> BTreeSet<u64> {
        let middle = |values: &Blocks| median(&values.values().copied().collect::<Vec<_>>());
        let best = |curve: &BTreeMap<u64, Blocks>| {
            let by = curve.iter().map(|(rate, values)| (*rate, middle(values)));
            by.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(rate, _)| rate)
        };
        self.sides.iter().filter_map(best).collect()
    }

    /// For each side `of` its answers by rate, in the blocks in which all sides have the rates of
    /// `needed`, and over the rates that all have there.
    fn over(&self, needed: &BTreeSet<u64>, of: impl Fn(&BTreeMap<u64, f64>) -> f64) -> Vec<Blocks> {
        let blocks: Vec<(u32, BTreeSet<u64>)> =
            self.rates().into_iter().filter(|(_, rates)| needed.is_subset(rates)).collect();
        let side = |curve: &BTreeMap<u64, Blocks>| -> Blocks {
            let at = |(block, rates): &(u32, BTreeSet<u64>)| {
                let good = |rate: &u64| Some((*rate, *curve.get(rate)?.get(block)?));
                (*block, of(&rates.iter().filter_map(good).collect()))
            };
            blocks.iter().map(at).collect()
        };
        self.sides.iter().map(side).collect()
    }

    /// Of each side the most that it answers, block by block: over the same rates, those at which
    /// the sides usually answer the most among them.
    pub(super) fn peaks(&self) -> Vec<Blocks> {
        self.over(&self.best(), most)
    }

    /// Of each side what it still answers at the highest rate, as a share of the most.
    pub(super) fn kept(&self) -> Vec<Blocks> {
        let mut needed = self.best();
        needed.extend(self.sides.iter().filter_map(|curve| curve.keys().next_back()));
        self.over(&needed, |good| {
            let last = good.values().next_back().copied().unwrap_or_default();
            last / most(good)
        })
    }

    /// Of each side the mean over all rates: the area under its curve.
    pub(super) fn areas(&self) -> Vec<Blocks> {
        let all: BTreeSet<u64> = self.sides.iter().flat_map(BTreeMap::keys).copied().collect();
        self.over(&all, |good| good.values().sum::<f64>() / count(good.len()))
    }
}

fn most(good: &BTreeMap<u64, f64>) -> f64 {
    good.values().copied().fold(0.0, f64::max)
}
