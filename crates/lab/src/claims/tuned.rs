//! The claim on what tuning leaves of the differences between architectures ([S] §8): S-18.

use super::Finding;
use super::curves::{Curves, Side};
use super::evidence::{ARCHITECTURE, Evidence, Found, ONLY_MAX, option, show};
use crate::experiment::Target;
use crate::stats::middle;

/// By so much the best versions may differ.
const APART: f64 = 0.1;
/// So many options of one server may vary: memory and processors may, too.
const OWN_MAX: usize = ONLY_MAX - 2;

/// One server under one setting of its options that vary.
#[derive(Clone, Debug)]
struct Version<'a> {
    target: &'a Target,
    /// Paths and levels of the factors that are its own.
    own: Vec<(&'a str, &'a str)>,
}

impl<'a> Version<'a> {
    /// Every setting of a target.
    fn all(run: &Evidence<'a>, target: &'a Target) -> Vec<Self> {
        let mut all = vec![Self { target, own: Vec::new() }];
        for factor in &run.run.experiment.factors {
            if factor.of_target().is_some_and(|(name, _)| name == target.name) {
                let with = |one: &Self, level: &'a String| {
                    let mut own = one.own.clone();
                    own.push((factor.path.as_str(), level.as_str()));
                    Self { target, own }
                };
                let each = |one: &Self| -> Vec<Self> {
                    factor.levels.iter().map(|level| with(one, level)).collect()
                };
                all = all.iter().flat_map(each).collect();
            }
        }
        all
    }

    fn architecture(&self) -> &'a str {
        let own = self.own.iter().find(|(path, _)| path.ends_with(ARCHITECTURE));
        own.map_or_else(|| option(self.target, ARCHITECTURE), |(_, level)| *level)
    }

    fn name(&self) -> String {
        let key =
            |path: &'a str| -> &'a str { path.split_once(".config.").map_or(path, |(_, key)| key) };
        let own = self.own.iter().map(|&(path, level)| format!(" {}={level}", key(path)));
        self.target.name.clone() + &own.collect::<String>()
    }

    /// It alone, among the cells that `run` looks at.
    fn side(&self, run: &Evidence<'a>) -> Side<'a, 'a> {
        let own = self.own.iter().fold(*run, |run, &(path, level)| run.with(path, level));
        (own, self.target.name.as_str())
    }
}

/// The settings of each architecture, in the file's order.
fn versions<'a>(run: &Evidence<'a>) -> Found<Vec<(&'a str, Vec<Version<'a>>)>> {
    let mut all: Vec<(&str, Vec<Version<'_>>)> = Vec::new();
    for version in run.regattas().flat_map(|target| Version::all(run, target)) {
        if version.own.len() > OWN_MAX {
            return Err(format!("{OWN_MAX} options of one server that vary, at most"));
        }
        let architecture = version.architecture();
        match all.iter_mut().find(|(name, _)| *name == architecture) {
            Some((_, versions)) => versions.push(version),
            None => all.push((architecture, vec![version])),
        }
    }
    Ok(all)
}

/// The one that looks best, for its name.
fn best<'v, 'a>(run: &Evidence<'a>, versions: &'v [Version<'a>]) -> Found<&'v Version<'a>> {
    let peaks = Curves::of(&sides(run, versions))?.each_peak();
    let best = versions.iter().zip(&peaks).max_by(|a, b| middle(a.1).total_cmp(&middle(b.1)));
    best.map(|(version, _)| version).ok_or_else(|| "settings".to_owned())
}

fn sides<'a>(run: &Evidence<'a>, versions: &[Version<'a>]) -> Vec<Side<'a, 'a>> {
    versions.iter().map(|version| version.side(run)).collect()
}

/// Tuned, the best of each architecture differ by a tenth at most, with every amount of memory.
pub(super) fn s18(run: &Evidence<'_>) -> Found<Finding> {
    let (tuned, alone): (Vec<_>, Vec<_>) =
        versions(run)?.into_iter().partition(|(_, versions)| versions.len() > 1);
    if tuned.len() < 2 {
        return Err("architectures with several settings each: two at least".to_owned());
    }
    let (mut told, mut asked) = (Vec::new(), Vec::new());
    for (place, run) in &run.memories() {
        let best: Found<Vec<_>> = tuned.iter().map(|(_, versions)| best(run, versions)).collect();
        let best = best?;
        for (at, one) in best.iter().enumerate() {
            for (beside, other) in best.iter().enumerate().skip(at + 1) {
                // Not of those that look best: that would choose and test by the same blocks.
                let [one_s, other_s] = [at, beside].map(|at| sides(run, &tuned[at].1));
                let ratio = Evidence::best_of(&one_s, &other_s)?;
                let what = format!("{} over {}{place}", one.name(), other.name());
                told.push(format!("{what}: {}", show(&ratio)));
                asked.push(ratio.equal(APART, what));
            }
        }
    }
    let settings = |(name, versions): &(&str, Vec<_>)| format!("{} of {name}", versions.len());
    let settings: Vec<String> = tuned.iter().map(settings).collect();
    let left: Vec<&str> = alone.iter().map(|(name, _)| *name).collect();
    let left = match left.as_slice() {
        [] => String::new(),
        left => format!("; with one setting and left out: {}", left.join(", ")),
    };
    let why = format!(
        "all that may be the best of an architecture stand for it, of the settings {}; equal \
         within 10 %{left}",
        settings.join(", ")
    );
    Ok(Finding::all(told.join("; "), why, &asked).on(run.processors(4)))
}
