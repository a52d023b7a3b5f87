//! A quantity that blocks show, and its verdict: it surely meets a claim, surely does not, or
//! leaves it open.

use super::{Finding, Open, Verdict};
use crate::experiment::claim_row::Range;
use crate::stats::{Best, Interval, LEVEL, Located, shared};

/// Ratios are cut here, so that a block in which an arm answered nothing counts, and as one block.
pub(super) const RATIO_MAX: f64 = 1e3;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shown {
    best: Best,
    /// Whether it is a ratio, located by its logarithm.
    is_ratio: bool,
    /// Looks at the same experiment among which it has to be sure.
    looks: usize,
}

impl Shown {
    /// Quantity from one value of each block; None below four.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        Some(Self::from(Located::of(values)?.into(), false))
    }

    /// Share of `samples` samples, located by the samples alone.
    pub(crate) fn sampled(share: f64, samples: u64) -> Option<Self> {
        Some(Self::from(Located::sampled(share, samples)?.into(), false))
    }

    /// A pair from each block, as a ratio; None below four.
    pub(crate) fn ratio(pairs: &[(f64, f64)]) -> Option<Self> {
        Some(Self::from(located_ratio(pairs)?.into(), true))
    }

    /// Ratio of the best of some to the best of others, by their logarithms.
    pub(crate) fn best(best: Best) -> Self {
        Self::from(best, true)
    }

    fn from(best: Best, is_ratio: bool) -> Self {
        Self { best, is_ratio, looks: 1 }
    }

    /// Makes it one of `looks` looks at a run that grows.
    pub(crate) fn among(self, looks: usize) -> Self {
        Self { looks, ..self }
    }

    pub(crate) fn typical(&self) -> f64 {
        self.outward(self.best.middle())
    }

    /// Interval, wide enough that `looks` such intervals all contain the truth 19 times in 20.
    pub(crate) fn interval(&self, looks: usize) -> Interval {
        self.best.interval(shared(LEVEL, looks * self.looks)).map(|end| self.outward(end))
    }

    fn outward(&self, value: f64) -> f64 {
        if self.is_ratio { value.exp() } else { value }
    }

    /// About how many blocks would tell on which side of `limit` it is.
    fn enough(&self, limit: f64, looks: usize) -> Option<usize> {
        let limit = if self.is_ratio { limit.ln() } else { limit };
        self.best.enough(limit, shared(LEVEL, looks * self.looks))
    }

    pub(crate) fn above(&self, limit: f64, what: impl Into<String>) -> Asked {
        self.asked(limit, f64::INFINITY, what)
    }

    pub(crate) fn below(&self, limit: f64, what: impl Into<String>) -> Asked {
        self.asked(f64::NEG_INFINITY, limit, what)
    }

    /// Asks for what a claim says, in the index of claims.
    pub(crate) fn asks(&self, range: Range, what: impl Into<String>) -> Asked {
        let (low, high) = range.limits();
        Asked { inside: range.is_inside(), ..self.asked(low, high, what) }
    }

    /// Asks for 1 but for a share either way: from 1 / (1 + `share`) to 1 + `share`.
    pub(crate) fn equal(&self, share: f64, what: impl Into<String>) -> Asked {
        self.asks(Range::Equal(share), what)
    }

    fn asked(&self, low: f64, high: f64, what: impl Into<String>) -> Asked {
        Asked { what: what.into(), shown: self.clone(), low, high, inside: true }
    }
}

/// The logarithm of a ratio, a pair from each block; None below four. Pairs with a number below 0,
/// or with nothing but zeros, have none.
pub(super) fn located_ratio(pairs: &[(f64, f64)]) -> Option<Located> {
    let log = |(above, below): &(f64, f64)| {
        let usable = *above >= 0.0 && *below >= 0.0 && above + below > 0.0;
        usable.then(|| (above / below).clamp(1.0 / RATIO_MAX, RATIO_MAX).ln())
    };
    Located::of(&pairs.iter().filter_map(log).collect::<Vec<f64>>())
}

/// `0.74 (0.72 to 0.77)`.
pub(crate) fn show(shown: &Shown) -> String {
    let Interval { low, high } = shown.interval(1);
    format!("{:.2} ({low:.2} to {high:.2})", shown.typical())
}

/// `33 % (30 to 36)` of a share.
pub(crate) fn percent(shown: &Shown) -> String {
    let Interval { low, high } = shown.interval(1).map(|end| 100.0 * end);
    format!("{:.0} % ({low:.0} to {high:.0})", 100.0 * shown.typical())
}

/// A quantity, and the range that a claim says it has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    what: String,
    shown: Shown,
    low: f64,
    high: f64,
    /// Whether the value must lie between the limits, else outside.
    inside: bool,
}

impl Asked {
    /// Whether it is so, where chance has `looks` occasions to mislead. An interval that holds a
    /// limit tells nothing.
    pub(crate) fn verdict(&self, looks: usize) -> Verdict {
        let Interval { low, high } = self.shown.interval(looks);
        let inside = low > self.low && high < self.high;
        let outside = high < self.low || low > self.high;
        match (inside, outside) {
            (true, _) if self.inside => Verdict::Holds,
            (true, _) => Verdict::Fails,
            (_, true) if self.inside => Verdict::Fails,
            (_, true) => Verdict::Holds,
            _ => Verdict::CannotTell,
        }
    }

    /// Whether its middle is so, whatever its interval is.
    pub(crate) fn has_middle(&self) -> bool {
        (self.low..self.high).contains(&self.shown.typical()) == self.inside
    }

    fn limits(&self) -> impl Iterator<Item = f64> {
        [self.low, self.high].into_iter().filter(|limit| limit.is_finite())
    }

    /// Range that is asked for.
    fn range(&self) -> String {
        let (low, high) = (short(self.low), short(self.high));
        match (self.low.is_finite(), self.high.is_finite()) {
            (true, true) if self.inside => format!("from {low} to {high}"),
            (true, true) => format!("not from {low} to {high}"),
            (true, false) => format!("above {low}"),
            _ => format!("below {high}"),
        }
    }

    /// About how many blocks would tell; None if a thousand would not.
    fn needs(&self, looks: usize) -> Option<usize> {
        let each: Option<Vec<usize>> =
            self.limits().map(|limit| self.shown.enough(limit, looks)).collect();
        each?.into_iter().max()
    }

    /// Objection, or what would decide, if chance has `looks` occasions.
    fn told(&self, verdict: Verdict, looks: usize) -> String {
        let Self { what, shown, .. } = self;
        let range = self.range();
        if verdict == Verdict::Fails {
            return format!("{what} is not {range}");
        }
        let needs = match self.needs(looks) {
            Some(blocks) => format!("about {blocks} blocks would tell"),
            None => "it lies on the limit, and a thousand blocks would not tell".to_owned(),
        };
        let Interval { low, high } = shown.interval(looks);
        let (low, high) = (short(low), short(high));
        format!("open is whether {what}, {low} to {high}, is {range}: {needs}")
    }
}

fn short(number: f64) -> String {
    let digits = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 || size == 0.0 => 2,
        _ => 4,
    };
    let text = format!("{number:.digits$}");
    if digits == 0 { text } else { text.trim_end_matches('0').trim_end_matches('.').to_owned() }
}

/// A part of a claim: what became of it, and in words what is against it or open.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) verdict: Verdict,
    told: Vec<String>,
    /// About how many blocks would tell what is open; the most that there can be if a thousand
    /// would not.
    needs: usize,
    /// The fewest blocks that anything of it is from.
    blocks: usize,
}

impl Part {
    /// Part from one quantity, which holds if it does for `yes` looks, and fails if it does for
    /// `no`.
    fn of(asked: &Asked, (yes, no): (usize, usize)) -> Self {
        let verdict = match (asked.verdict(yes), asked.verdict(no)) {
            (Verdict::Holds, _) => Verdict::Holds,
            (_, Verdict::Fails) => Verdict::Fails,
            _ => Verdict::CannotTell,
        };
        let looks = if asked.verdict(yes) == Verdict::CannotTell { yes } else { no };
        let told = match verdict {
            Verdict::Holds => Vec::new(),
            _ => vec![asked.told(verdict, looks)],
        };
        let needs = asked.needs(looks).unwrap_or(usize::MAX);
        Self { verdict, told, needs, blocks: asked.shown.best.values() }
    }

    /// Requires all parts. Reports the objections, else everything that is open.
    fn every(parts: Vec<Self>) -> Self {
        let verdict = of_parts(&parts, Verdict::Fails, Verdict::Holds);
        let blocks = parts.iter().map(|part| part.blocks).min().unwrap_or_default();
        let wanted = Self::decisive(parts, verdict);
        let needs = wanted.iter().map(|part| part.needs).max().unwrap_or_default();
        let told = wanted.into_iter().flat_map(|part| part.told).collect();
        Self { verdict, told, needs, blocks }
    }

    /// Requires one of the parts. Of those that are open or refuted, reports the one that the
    /// fewest blocks would decide otherwise.
    pub(crate) fn some(parts: Vec<Self>) -> Self {
        let verdict = of_parts(&parts, Verdict::Holds, Verdict::Fails);
        let blocks = parts.iter().map(|part| part.blocks).min().unwrap_or_default();
        let wanted = Self::decisive(parts, verdict);
        let others = wanted.len().saturating_sub(1);
        let soonest = wanted.into_iter().min_by_key(|part| part.needs);
        let (mut told, needs) = soonest.map_or((Vec::new(), 0), |part| (part.told, part.needs));
        if others > 0 {
            told.push(format!("{others} more like that"));
        }
        Self { verdict, told, needs, blocks }
    }

    /// The parts that made the verdict, where it is not that all is well.
    fn decisive(mut parts: Vec<Self>, verdict: Verdict) -> Vec<Self> {
        parts.retain(|part| part.verdict == verdict && verdict != Verdict::Holds);
        parts
    }
}

/// All of it is asked for: it holds where each thing surely is so, and fails where one surely is
/// not.
pub(crate) fn all(asked: &[Asked]) -> Part {
    all_among(asked, 1)
}

/// Requires all of `asked`, as one of `others` alternatives. A single alternative suffices.
pub(crate) fn all_among(asked: &[Asked], others: usize) -> Part {
    Part::every(asked.iter().map(|one| Part::of(one, (others, asked.len()))).collect())
}

/// Requires one of `asked`: it holds if one surely does, and fails if each surely does.
pub(crate) fn any(asked: &[Asked]) -> Part {
    Part::some(asked.iter().map(|one| Part::of(one, (asked.len(), 1))).collect())
}

/// A part with the verdict `first` decides; else one that is open leaves all open. Of nothing
/// nothing can be told.
fn of_parts(parts: &[Part], first: Verdict, last: Verdict) -> Verdict {
    let any = |verdict| parts.iter().any(|part| part.verdict == verdict);
    if any(first) {
        first
    } else if parts.is_empty() || any(Verdict::CannotTell) {
        Verdict::CannotTell
    } else {
        last
    }
}

impl Finding {
    pub(crate) fn all(ours: String, why: impl Into<String>, asked: &[Asked]) -> Self {
        Self::parts(ours, why, vec![all(asked)])
    }

    pub(crate) fn parts(ours: String, why: impl Into<String>, parts: Vec<Part>) -> Self {
        let Part { verdict, mut told, needs, blocks } = Part::every(parts);
        let open = (verdict == Verdict::CannotTell).then(|| Open::Noise {
            whether: told.join("; "),
            blocks,
            enough: Some(needs).filter(|needs| *needs < usize::MAX),
            seconds: None,
        });
        told.push(why.into());
        told.push(format!("{blocks} blocks"));
        Self { ours, verdict, why: told.join("; "), open }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Random;
    use Verdict::{CannotTell, Fails, Holds};

    /// A quantity whose interval is the middle and 1.49 deviations either way (five blocks).
    fn shown(middle: f64, deviation: f64) -> Shown {
        let at = [-1.26, -0.63, 0.0, 0.63, 1.26].map(|step| middle + step * deviation);
        Shown::of(&at).unwrap()
    }

    #[test]
    fn a_limit_within_the_interval_decides_nothing() {
        let low = shown(0.7, 0.01);
        assert_eq!(low.below(0.75, "x").verdict(1), Holds);
        assert_eq!(low.above(0.75, "x").verdict(1), Fails);
        let wide = shown(0.7, 0.1);
        assert_eq!(wide.below(0.75, "x").verdict(1), CannotTell);
        assert_eq!(wide.above(0.75, "x").verdict(1), CannotTell);
        // On the limit itself, however exact.
        assert_eq!(shown(1.0, 0.0).above(1.0, "x").verdict(1), CannotTell);
        assert_eq!(shown(1.0, 0.0).below(1.0, "x").verdict(1), CannotTell);
    }

    #[test]
    fn equal_takes_an_interval_within_the_margin() {
        for (middle, deviation, equal) in
            [(1.01, 0.005, Holds), (1.01, 0.1, CannotTell), (1.1, 0.01, Fails), (0.9, 0.01, Fails)]
        {
            let unequal = match equal {
                Holds => Fails,
                Fails => Holds,
                CannotTell => CannotTell,
            };
            let shown = shown(middle, deviation);
            assert_eq!(shown.equal(0.03, "x").verdict(1), equal, "{middle} {deviation}");
            let not = shown.asks(Range::Unequal(0.03), "x");
            assert_eq!(not.verdict(1), unequal, "{middle} {deviation}");
        }
    }

    #[test]
    fn what_is_open_says_how_many_blocks_would_tell() {
        let open = all(&[shown(0.7, 0.1).below(0.75, "the peak ratio")]);
        assert_eq!(open.verdict, CannotTell);
        let told = open.told.join("");
        assert!(told.starts_with("open is whether the peak ratio, 0.55 to 0.85, is below 0.75"));
        assert!(told.ends_with("about 45 blocks would tell"), "{told}");
        let on_it = all(&[shown(1.0, 0.0).above(1.0, "x")]).told.join("");
        assert!(on_it.ends_with("a thousand blocks would not tell"), "{on_it}");
        let not = all(&[shown(0.7, 0.01).above(0.75, "x"), shown(0.7, 0.1).above(0.75, "y")]);
        assert_eq!((not.verdict, not.told), (Fails, vec!["x is not above 0.75".to_owned()]));
        // Alternatives report the one that the fewest blocks would decide.
        let near = any(&[shown(1.0, 0.1).above(1.05, "x"), shown(1.0, 0.1).above(1.1, "y")]);
        let told = near.told.join("; ");
        assert!(told.contains("whether y") && told.ends_with("; 1 more like that"), "{told}");
    }

    #[test]
    fn the_more_is_looked_at_the_surer_one_has_to_be() {
        // 1.49 deviations either way for one look, 2.6 for six.
        let alone = shown(1.2, 0.1).above(1.0, "x");
        assert_eq!(any(std::slice::from_ref(&alone)).verdict, Holds);
        assert_eq!(any(&vec![alone.clone(); 6]).verdict, CannotTell);
        assert_eq!(all(&vec![alone; 6]).verdict, Holds, "each by itself is sure");
        let not = shown(0.8, 0.1).above(1.0, "x");
        assert_eq!(all(std::slice::from_ref(&not)).verdict, Fails);
        assert_eq!(all(&vec![not.clone(); 6]).verdict, CannotTell);
        assert_eq!(any(&vec![not; 6]).verdict, Fails, "each by itself is sure");
        assert_eq!((all(&[]).verdict, any(&[]).verdict), (CannotTell, CannotTell));
    }

    #[test]
    fn a_block_without_answers_counts_and_one_without_numbers_does_not() {
        let none = [(0.0, 10.0), (0.0, 10.0), (0.0, 10.0), (0.0, 10.0), (0.0, 0.0), (-1.0, 10.0)];
        let shown = Shown::ratio(&none).unwrap();
        assert_eq!((shown.typical() * 1e6).round(), 1e3, "the least that a ratio can be");
        assert_eq!(shown.below(0.5, "x").verdict(1), Holds);
        assert_eq!(Shown::ratio(&none[..3]), None, "three blocks tell nothing");
        assert_eq!(Shown::ratio(&none[2..]), None, "nor do pairs that are none");
    }

    /// Verdicts without a real difference are as rare as promised.
    #[test]
    fn chance_rarely_decides() {
        let mut random = Random::new(11);
        for blocks in [4, 5, 6, 8, 12] {
            let (mut holds, mut fails, mut six) = (0, 0, 0);
            for _ in 0..200 {
                let mut ratio = || {
                    let pairs: Vec<(f64, f64)> = (0..blocks)
                        .map(|_| ((0.1 * random.normal()).exp(), (0.1 * random.normal()).exp()))
                        .collect();
                    Shown::ratio(&pairs).unwrap().above(1.0, "x")
                };
                let verdict = all(&[ratio()]).verdict;
                holds += u32::from(verdict == Holds);
                fails += u32::from(verdict == Fails);
                let many: Vec<Asked> = (0..6).map(|_| ratio()).collect();
                six += u32::from(any(&many).verdict == Holds);
            }
            // Five of each are expected; chance makes 16 once in 10,000.
            assert!(holds < 16 && fails < 16, "{blocks} blocks: {holds} hold, {fails} fail");
            assert!(six < 16, "{blocks} blocks: {six} hold of those with six looks");
        }
    }
}
