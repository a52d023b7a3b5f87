//! Answers of several arms over the same rates.
//!
//! A trial that does not count leaves a hole, more often at high rates. The peak of the rest would
//! be compared with another arm's at a rate at which the first was not measured.

use super::evidence::{Evidence, Found, GOOD};
use super::shown::{RATIO_MAX, Shown};
use crate::analysis::by_block;
use crate::stats::{BLOCKS_MIN, Best, Blocks, mean, peak, with};
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

    /// The logarithms of what a side answers at each rate, in their order.
    fn logs(&self, side: usize) -> Vec<Blocks> {
        let all = self.sides.iter().flat_map(BTreeMap::values).flat_map(Blocks::values);
        let least = all.copied().fold(0.0, f64::max) / RATIO_MAX;
        let log = |(block, good): (&u32, &f64)| (*block, good.max(least).ln());
        self.sides[side].values().map(|values| values.iter().map(log).collect()).collect()
    }

    /// The peak of some sides over the peak of others, whichever side has it.
    pub(super) fn peaks(&self, above: &[usize], below: &[usize]) -> Option<Best> {
        let all = |sides: &[usize]| -> Vec<Blocks> {
            sides.iter().flat_map(|side| self.logs(*side)).collect()
        };
        Best::of(&all(above), &all(below))
    }

    /// The same of the first side over the second, over what is expected of that ratio.
    pub(super) fn peaks_over(&self, expected: &Blocks) -> Option<Best> {
        let over = |rate: &Blocks| with(rate, expected, |log, expected| log - expected.ln());
        let above: Vec<Blocks> = self.logs(0).iter().map(over).collect();
        Best::of(&above, &self.logs(1))
    }

    /// The logarithm of each side's peak in each block.
    pub(super) fn each_peak(&self) -> Vec<Blocks> {
        (0..self.sides.len()).map(|side| peak(&self.logs(side))).collect()
    }

    /// Share of its peak that the first side still answers at the highest rate, over the same share
    /// of the second. Computed as the second's peak over its last, over the same of the first.
    pub(super) fn kept(&self) -> Option<Best> {
        let over_last = |side: usize| -> Vec<Blocks> {
            let rates = self.logs(side);
            let Some(last) = rates.last() else { return Vec::new() };
            rates.iter().map(|rate| with(rate, last, |good, last| good - last)).collect()
        };
        Best::of(&over_last(1), &over_last(0))
    }

    /// Answers of the first side at the highest rate over its peak.
    pub(super) fn last_over_peak(&self) -> Option<Best> {
        let rates = self.logs(0);
        Best::of(&rates[rates.len() - 1..], &rates)
    }

    /// Mean of each side over all rates: the area under its curve, in the blocks in which all sides
    /// have all rates.
    pub(super) fn areas(&self) -> Vec<Blocks> {
        let rates: Vec<u64> = self.sides.iter().flat_map(BTreeMap::keys).copied().collect();
        let each = rates.iter().map(|rate| self.blocks_at(*rate));
        let blocks = each.reduce(|one, other| &one & &other).unwrap_or_default();
        let side = |curve: &BTreeMap<u64, Blocks>| -> Blocks {
            let mean = |block: &u32| {
                let goods: Vec<f64> =
                    curve.values().filter_map(|good| good.get(block).copied()).collect();
                (*block, mean(&goods))
            };
            blocks.iter().map(mean).collect()
        };
        self.sides.iter().map(side).collect()
    }
}

impl<'a> Evidence<'a> {
    pub(crate) fn peak_ratio(&self, arm: &str, baseline: &str) -> Found<Shown> {
        Self::best_of(&[(*self, arm)], &[(*self, baseline)])
    }

    /// The peaks of two arms compared, over what is expected of that ratio in each block.
    pub(super) fn peak_ratio_over(
        &self,
        arm: &str,
        baseline: &str,
        expected: &Blocks,
    ) -> Found<Shown> {
        best(&self.sides(arm, baseline), |curves| curves.peaks_over(expected))
    }

    /// The best peak of some arms over the best of others, all over the same rates.
    pub(crate) fn best_of(above: &[Side<'_, '_>], below: &[Side<'_, '_>]) -> Found<Shown> {
        let sides = [above, below].concat();
        let places: Vec<usize> = (0..sides.len()).collect();
        let (one, other) = places.split_at(above.len());
        best(&sides, |curves| curves.peaks(one, other))
    }

    fn sides<'s>(&self, arm: &'s str, baseline: &'s str) -> [Side<'a, 's>; 2] {
        [(*self, arm), (*self, baseline)]
    }

    /// Share of its peak that an arm still answers at the highest rate, over the same share of
    /// another.
    pub(crate) fn kept_ratio(&self, arm: &str, baseline: &str) -> Found<Shown> {
        best(&self.sides(arm, baseline), Curves::kept)
    }

    /// Share of its peak that an arm still answers at the highest rate.
    pub(crate) fn kept(&self, arm: &str) -> Found<Shown> {
        best(&[(*self, arm)], Curves::last_over_peak)
    }

    pub(crate) fn area_ratio(&self, arm: &str, baseline: &str) -> Found<Shown> {
        let (above, below) = two(Curves::of(&self.sides(arm, baseline))?.areas())?;
        self.compared((arm, &above), (baseline, &below))
    }
}

/// The curves of some sides, compared.
fn best(sides: &[Side<'_, '_>], of: impl FnOnce(&Curves) -> Option<Best>) -> Found<Shown> {
    let best = of(&Curves::of(sides)?).ok_or_else(|| {
        let arms: Vec<&str> = sides.iter().map(|(_, arm)| *arm).collect();
        let arms = arms.join(", ");
        format!("blocks with valid trials of {arms} at their best rates: four at least")
    })?;
    Ok(Shown::best(best).among(sides[0].0.looks))
}

fn two(sides: Vec<Blocks>) -> Found<(Blocks, Blocks)> {
    let [above, below] = <[Blocks; 2]>::try_from(sides).map_err(|_| "two arms".to_owned())?;
    Ok((above, below))
}
