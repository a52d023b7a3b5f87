//! Judges a claim by its row in the experiment's file.

use super::curves::Side;
use super::derived::{derive, needs_cached, waits};
use super::evidence::{Evidence, Found, GOOD, Shown, counted, number, show};
use super::shown::{Asked, Part, all_among, located_ratio};
use super::{Claim, Finding, Verdict};
use crate::analysis::pairing::both;
use crate::analysis::pairs;
use crate::experiment::claim_row::Range;
use crate::experiment::{
    ArmAt, ArmNumber, ClaimAsk, ClaimRow, Compared, Comparison, LevelChoice, Need, RatePlace, Tell,
    TrialNumber,
};
use crate::record::{AGAIN, Cell, Record};
use crate::stats::{Best, Blocks, Located, middle, with};

/// Metric that stands for peaks where the load shares the server's processors.
const SHARED: &str = "cpu_us_per_reply";

/// State of a row that is being judged.
struct Judging<'a> {
    run: Evidence<'a>,
    /// Whether the claim is about processors that the load shares. Their peaks say nothing, so the
    /// row compares processor time, and decides nothing.
    is_shared: bool,
    /// Whether each comparison prints its noise floor.
    tells_floors: bool,
    ours: Vec<String>,
    why: Vec<String>,
    /// Numbers that candidates lack; one candidate would do.
    left_out: Vec<String>,
}

pub(super) fn judge(row: &ClaimRow, claim: &Claim, run: &Evidence<'_>) -> Found<Finding> {
    if let Some(range) = unasked(row, claim) {
        return Err(format!("what the claim asks for: no ask of its row is {}", range.words()));
    }
    for need in &row.needs {
        require(run, *need)?;
    }
    let mut judging = Judging {
        run: *run,
        is_shared: claim.processors > 0 && run.processors(1).is_err(),
        tells_floors: row.says.is_some(),
        ours: Vec::new(),
        why: row.ranges().map(Range::words).collect(),
        left_out: Vec::new(),
    };
    let parts = judging.parts(&row.asks)?;
    for tell in &row.tells {
        judging.tell(tell);
    }
    if let Some(finding) = judging.facts(&row.given)? {
        return Ok(finding);
    }
    let Judging { ours, why, left_out, .. } = judging;
    let others = if left_out.is_empty() { row.untried.clone() } else { Some(left_out.join(", ")) };
    let finding = Finding::parts(ours.join("; "), unique(why).join("; "), parts);
    let finding = finding.untried(others).without(row.half.as_ref());
    let own = usize::from(row.needs.contains(&Need::OwnProcessors));
    Ok(match claim.processors.max(own) {
        0 => finding,
        wanted => finding.on(run.processors(wanted)),
    })
}

/// The same lines, each once.
fn unique(lines: Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in lines {
        if !all.contains(&line) {
            all.push(line);
        }
    }
    all
}

/// A range of a claim that its row does not ask for. Half of a claim asks for some of them.
pub(super) fn unasked(row: &ClaimRow, claim: &Claim) -> Option<Range> {
    let is_asked = |range: &&Range| row.ranges().any(|asked| asked == **range);
    let mut missing = claim.ranges.iter().filter(|range| !is_asked(range));
    match row.half {
        Some(_) if claim.ranges.iter().any(|range| is_asked(&range)) => None,
        _ => missing.next().copied(),
    }
}

/// An error where a fact is missing.
fn require(run: &Evidence<'_>, need: Need) -> Found<()> {
    match need {
        Need::Disk => waits(run).map(drop),
        Need::Cached => needs_cached(run),
        Need::OneProcessor => run.on_one_processor(),
        // The finding says it.
        Need::OwnProcessors => Ok(()),
    }
}

/// Times of answers: without one there is none.
const TIMES: [&str; 7] =
    ["mean_ms", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "answered_p90_ms", "service_p50_ms"];

fn of_trial(run: &Evidence<'_>, name: &TrialNumber, record: &Record) -> Option<f64> {
    match name {
        TrialNumber::Named(name) => {
            let found = number(record, name).or_else(|| counted(record, name));
            let found = found.or_else(|| configured(run, name, record));
            found.filter(|value| *value != 0.0 || !TIMES.contains(&name.as_str()))
        }
        TrialNumber::Derived(derived) => derive(run, *derived, record),
    }
}

fn configured(run: &Evidence<'_>, name: &str, record: &Record) -> Option<f64> {
    let mut targets = run.run.experiment.targets.iter();
    let target = targets.find(|target| target.name == record.cell.target)?;
    target.config.get(name)?.parse().ok()
}

/// Number of a trial as a comparison names it. No number has a divisor of 0.
fn value(run: &Evidence<'_>, of: &ArmNumber, record: &Record) -> Option<f64> {
    let whole = match &of.over {
        None => 1.0,
        Some(over) => of_trial(run, over, record).filter(|whole| *whole > 0.0)?,
    };
    Some(of.times * of_trial(run, &of.name, record)? / whole)
}

fn words(of: &ArmNumber) -> String {
    match of.to_string().as_str() {
        GOOD => "throughput".to_owned(),
        "mean_ms" => "mean response time".to_owned(),
        SHARED => "processor time per reply".to_owned(),
        "cycles_per_reply" => "cycles per reply".to_owned(),
        other => match other.strip_suffix("/replies") {
            Some(counter) => format!("{counter} for each reply"),
            None => other.to_owned(),
        },
    }
}

fn at_words(at: RatePlace) -> String {
    match at {
        RatePlace::Highest => String::new(),
        RatePlace::Lowest => " at the lowest rate".to_owned(),
        RatePlace::Near(multiple) => format!(" at {multiple} S"),
        RatePlace::Between(from, to) => format!(" from {from} to {to} S"),
    }
}

/// Cells of several arms at a rate that they have in common.
fn cells<const N: usize>(run: &Evidence<'_>, arms: [&str; N], at: RatePlace) -> Found<[Cell; N]> {
    match at {
        RatePlace::Highest => run.tops(arms),
        RatePlace::Lowest => run.bottoms(arms),
        RatePlace::Near(multiple) => run.near(arms, multiple),
        RatePlace::Between(from, to) => run.near(arms, (from * to).sqrt()),
    }
}

/// Cells of two arms, each perhaps at a rate of its own, and words for these rates.
fn two(
    run: &Evidence<'_>,
    [one, other]: &[ArmAt; 2],
    at: RatePlace,
) -> Found<([Cell; 2], [String; 2])> {
    if one.at.is_none() && other.at.is_none() {
        let cells = cells(run, [&one.arm, &other.arm], at)?;
        return Ok((cells, [at_words(at), String::new()]));
    }
    let places = [one, other].map(|arm| arm.at.unwrap_or(at));
    let [above] = cells(run, [&one.arm], places[0])?;
    let [below] = cells(run, [&other.arm], places[1])?;
    Ok(([above, below], places.map(at_words)))
}

fn sides<'a, 's>(run: &Evidence<'a>, names: &'s [String]) -> Vec<Side<'a, 's>> {
    names.iter().map(|name| (*run, name.as_str())).collect()
}

/// The best of some arms over the best of others: at their peaks, or at the rate that the row
/// names. There each is compared with each, block by block.
fn best_at(run: &Evidence<'_>, above: &[String], below: &[String], at: RatePlace) -> Found<Shown> {
    if at == RatePlace::Highest {
        return Evidence::best_of(&sides(run, above), &sides(run, below));
    }
    let pair = |arm: &String, other: &String| -> Found<Located> {
        let [one, two] = cells(run, [arm, other], at)?;
        let [a, b] = both(run.run, [&one, &two], |record| number(record, GOOD));
        located_ratio(&pairs(&a, &b)).ok_or_else(|| {
            format!("blocks with valid trials of both {arm} and {other}: four at least")
        })
    };
    let row = |arm: &String| -> Found<Vec<Located>> {
        below.iter().map(|other| pair(arm, other)).collect()
    };
    let rows: Found<Vec<Vec<Located>>> = above.iter().map(row).collect();
    Ok(Shown::best(Best::Pairs(rows?)).among(run.looks))
}

fn side(names: &[String]) -> String {
    match names {
        [name] => format!("{name}'s"),
        names => format!("the best of {}", names.join(", ")),
    }
}

impl<'a> Judging<'a> {
    /// Parts of a claim, which asks for all of them.
    fn parts(&mut self, asks: &[ClaimAsk]) -> Found<Vec<Part>> {
        let (mut alone, mut parts) = (Vec::new(), Vec::new());
        for ask in asks {
            match ask {
                ClaimAsk::One(one) => alone.extend(self.asked(one)?),
                ClaimAsk::Any(any) => parts.push(self.any(any)?),
            }
        }
        if !alone.is_empty() {
            parts.insert(0, all_among(&alone, 1));
        }
        Ok(parts)
    }

    /// A part that one of these candidates decides. A candidate without trials is left out.
    fn any(&mut self, candidates: &[Vec<Comparison>]) -> Found<Part> {
        let (mut all, mut missing) = (Vec::new(), Vec::new());
        for candidate in candidates {
            let each: Found<Vec<Vec<Asked>>> =
                candidate.iter().map(|one| self.asked(one)).collect();
            match (each, candidate.len()) {
                // Each rate is a candidate.
                (Ok(each), 1) => all.extend(each.into_iter().flatten().map(|one| vec![one])),
                (Ok(each), _) => all.push(each.into_iter().flatten().collect()),
                (Err(why), _) => missing.push(why),
            }
        }
        if all.is_empty() {
            return Err(missing.join(", "));
        }
        self.left_out.extend(missing);
        Ok(Part::some(all.iter().map(|asked| all_among(asked, all.len())).collect()))
    }

    fn asked(&mut self, one: &Comparison) -> Found<Vec<Asked>> {
        let (run, levels) = self.with(one)?;
        let mut asked = Vec::new();
        for at in places(&run, one)? {
            let (shown, what) = self.shown(&run, one, at)?;
            let what = what + &levels;
            if !matches!(one.of, Compared::Times(..) | Compared::Rise(..)) {
                let floor = self.noise_floor(&run, one, at);
                let floor = floor.map(|share| format!(", noise floor {:.1} %", 100.0 * share));
                let floor = floor.unwrap_or_default();
                self.ours.push(format!("{what}: {}{floor}", show(&shown)));
            }
            asked.push(ask(one, &shown, what));
        }
        Ok(asked)
    }

    /// Distance of the baseline from itself by the same number, as a share; `None` unless a user
    /// states the claim.
    fn noise_floor(&self, run: &Evidence<'a>, one: &Comparison, at: RatePlace) -> Option<f64> {
        let baseline = self.run.run.experiment.baseline.as_str();
        let again = format!("{baseline}{AGAIN}");
        let itself = match &one.of {
            _ if !self.tells_floors => return None,
            Compared::Peak(_) => best_at(run, &[again], &[baseline.to_owned()], at),
            Compared::Ratio(of, _) => {
                let [again, first] = cells(run, [&again, baseline], at).ok()?;
                run.times((&again, &first), |record| value(run, of, record))
            }
            _ => return None,
        };
        Some(itself.ok()?.typical().ln().abs().exp_m1())
    }

    /// The cells that have the levels of a comparison, and words for these.
    fn with(&self, one: &Comparison) -> Found<(Evidence<'a>, String)> {
        let (mut run, mut words) = (self.run, String::new());
        for (path, level) in &one.levels {
            let factor = run.run.experiment.factors.iter().find(|factor| factor.path == *path);
            let factor = factor.ok_or_else(|| format!("levels of {path}"))?;
            let level = match level {
                LevelChoice::First => factor.levels.first(),
                LevelChoice::Last => factor.levels.last(),
                LevelChoice::Is(level) => factor.levels.iter().find(|one| *one == level),
            };
            let level = level.ok_or_else(|| format!("that level of {path}"))?;
            run = run.with(&factor.path, level);
            words += &format!(" at {path}={level}");
        }
        Ok((run, words))
    }

    fn shown(
        &mut self,
        run: &Evidence<'a>,
        one: &Comparison,
        at: RatePlace,
    ) -> Found<(Shown, String)> {
        match &one.of {
            Compared::Peak([above, below]) => self.peak(run, above, below, at),
            Compared::Ratio(of, arms) => {
                let ([above, below], [at, below_at]) = two(run, arms, at)?;
                let [arm, baseline] = [&above.arm, &below.arm];
                let what = format!("{arm}'s {}{at} over {baseline}'s{below_at}", words(of));
                self.missed(run, of, &[&above, &below]);
                Ok((run.times((&above, &below), |record| value(run, of, record))?, what))
            }
            Compared::Times(of, arms) => self.times(run, of, arms, one.is, at),
            Compared::Value(of, arm) => {
                let at = arm.at.unwrap_or(at);
                let [cell] = cells(run, [&arm.arm], at)?;
                let what = format!("{}'s {}{}", arm.arm, words(of), at_words(at));
                self.missed(run, of, &[&cell]);
                Ok((run.shown(&what, &cell, |record| value(run, of, record))?, what))
            }
            Compared::Change(_, [arm, baseline]) if self.is_shared => {
                processor_time(run, [arm, baseline])
            }
            Compared::Change(factor, [arm, baseline]) => change(run, factor, [arm, baseline]),
            Compared::Gap(of, arms) => gap(run, of, arms, at),
            Compared::Rise(of, arms) => self.rise(run, of, arms, one.is, at),
            Compared::Kept(arm, None) => {
                let what = format!("{arm}'s throughput at the highest rate over its peak");
                Ok((run.kept(arm)?, what))
            }
            Compared::Kept(arm, Some(baseline)) => {
                let what = format!("the share that {arm} keeps of its peak over {baseline}'s");
                Ok((run.kept_ratio(arm, baseline)?, what))
            }
        }
    }

    fn peak(
        &self,
        run: &Evidence<'a>,
        above: &[String],
        below: &[String],
        at: RatePlace,
    ) -> Found<(Shown, String)> {
        if self.is_shared {
            return processor_time(run, [&above[0], &below[0]]);
        }
        let what = match above {
            [name] => format!("{name}'s peak over {}", side(below)),
            names => format!("the best peak of {} over {}", names.join(", "), side(below)),
        };
        Ok((best_at(run, above, below, at)?, what + &at_words(at)))
    }

    /// The number of one arm less a multiple of another's.
    fn times(
        &mut self,
        run: &Evidence<'a>,
        of: &ArmNumber,
        arms: &[ArmAt; 2],
        is: Range,
        at: RatePlace,
    ) -> Found<(Shown, String)> {
        let limit = multiple(is)?;
        let ([one, other], [at, other_at]) = two(run, arms, at)?;
        let of_trial = |record: &Record| value(run, of, record);
        let words = words(of);
        let shown = run.between(&words, (&one, &other), of_trial, |a, b| a - limit * b)?;
        let [arm, baseline] = [&one.arm, &other.arm];
        let above = run.middle(&words, &one, of_trial)?;
        let below = run.middle(&words, &other, of_trial)?;
        self.ours
            .push(format!("{arm}'s {words}{at} {above:.3}, {baseline}'s{other_at} {below:.3}"));
        let what = format!("{arm}'s {words}{at} less {limit} times {baseline}'s{other_at}");
        Ok((shown, what))
    }

    /// The difference of a number of two arms less a multiple of that of two others.
    fn rise(
        &mut self,
        run: &Evidence<'a>,
        of: &ArmNumber,
        [one, other]: &[[String; 2]; 2],
        is: Range,
        at: RatePlace,
    ) -> Found<(Shown, String)> {
        let limit = multiple(is)?;
        let [a, b, c, d] = four(run, of, [one, other], at)?;
        let less = |above: f64, below: f64| above - below;
        let rises = [with(&a, &b, less), with(&c, &d, less)];
        let values = with(&rises[0], &rises[1], |one, other| one - limit * other);
        let values: Vec<f64> = values.into_values().collect();
        let (words, at) = (words(of), at_words(at));
        let names = [one, other].map(|[to, from]| format!("from {from} to {to}"));
        let missing = || format!("{words} {} and {} in the same four blocks", names[0], names[1]);
        let shown = run.of_values(&values).ok_or_else(missing)?;
        let each =
            names.iter().zip(&rises).map(|(name, rise)| format!("{name} {:.3}", middle(rise)));
        self.ours.push(format!("{words}{at} rises {}", each.collect::<Vec<_>>().join(", ")));
        let [rise, baseline] = &names;
        Ok((shown, format!("the rise of {words}{at} {rise} less {limit} times that {baseline}")))
    }

    /// Tells which requests times are not of.
    fn missed(&mut self, run: &Evidence<'a>, of: &ArmNumber, cells: &[&Cell]) {
        if matches!(&of.name, TrialNumber::Named(name) if TIMES.contains(&name.as_str())) {
            let missed: Vec<String> = cells.iter().map(|cell| run.unanswered(cell)).collect();
            let missed = missed.join(" and ");
            self.why.push(format!("times are of the answered: not answered were {missed}"));
        }
    }

    fn tell(&mut self, tell: &Tell) {
        for arm in &tell.arms {
            let run = &self.run;
            let of = |record: &Record| value(run, &tell.of, record);
            let Ok(cell) = run.top(arm) else { continue };
            if let Ok(middle) = run.middle(&tell.says, &cell, of) {
                self.why.push(format!("{arm}: {middle:.2} {}", tell.says));
            }
        }
    }

    /// A finding where a fact in numbers is not so.
    fn facts(&mut self, given: &[Comparison]) -> Found<Option<Finding>> {
        for one in given {
            let (run, levels) = self.with(one)?;
            let (shown, what) = self.shown(&run, one, one.at)?;
            let what = what + &levels;
            let told = format!("{what} is {}", show(&shown));
            let asked = ask(one, &shown, what);
            if asked.has_middle() {
                self.why.push(told);
                continue;
            }
            let (ours, why) = (self.ours.join("; "), self.why.join("; "));
            if asked.verdict(1) == Verdict::CannotTell {
                return Ok(Some(Finding::all(ours, why, &[asked])));
            }
            let needs = format!("{told}, which has to be {}", one.is.words());
            return Ok(Some(Finding::undecided(ours, format!("{needs}; {why}"))));
        }
        Ok(None)
    }
}

/// Asks what a comparison asks. Multiples are tested as a difference: the second number may be 0.
fn ask(one: &Comparison, shown: &Shown, what: String) -> Asked {
    match (&one.of, one.is) {
        (Compared::Times(..) | Compared::Rise(..), Range::Below(_)) => shown.below(0.0, what),
        (Compared::Times(..) | Compared::Rise(..), _) => shown.above(0.0, what),
        _ => shown.asks(one.is, what),
    }
}

fn places(run: &Evidence<'_>, one: &Comparison) -> Found<Vec<RatePlace>> {
    let RatePlace::Between(from, to) = one.at else { return Ok(vec![one.at]) };
    let rates: Vec<f64> = match &one.of {
        Compared::Ratio(_, [one, other]) | Compared::Times(_, [one, other]) => {
            run.common([&one.arm, &other.arm])?.into_iter().map(|(rate, _)| rate).collect()
        }
        Compared::Value(_, arm) => run.rates(&arm.arm)?.into_iter().map(|(rate, _)| rate).collect(),
        Compared::Peak(_) => return Ok(vec![one.at]),
        Compared::Change(..) | Compared::Gap(..) | Compared::Rise(..) | Compared::Kept(..) => {
            return Ok(vec![RatePlace::Highest]);
        }
    };
    let here = rates.into_iter().filter(|rate| (from..=to).contains(rate));
    let here: Vec<RatePlace> = here.map(RatePlace::Near).collect();
    if here.is_empty() { Err(format!("rates from {from} to {to} S")) } else { Ok(here) }
}

fn processor_time(run: &Evidence<'_>, [arm, baseline]: [&String; 2]) -> Found<(Shown, String)> {
    let [one, other] = run.tops([arm, baseline])?;
    let what = format!("{arm}'s processor time per reply over {baseline}'s");
    Ok((run.ratio(&one, &other, SHARED)?, what))
}

/// Number that a difference is a multiple by.
fn multiple(is: Range) -> Found<f64> {
    match is {
        Range::Above(limit) | Range::Below(limit) => Ok(limit),
        _ => Err("a comparison that is above or below a number".to_owned()),
    }
}

/// A number of the arms of two pairs, block by block.
fn four(
    run: &Evidence<'_>,
    of: &ArmNumber,
    [one, other]: [&[String; 2]; 2],
    at: RatePlace,
) -> Found<[Blocks; 4]> {
    let cells = cells(run, [&one[0], &one[1], &other[0], &other[1]], at)?;
    Ok(cells.each_ref().map(|cell| run.blocks(cell, |record| value(run, of, record))))
}

/// Ratio of a number of two arms over the ratio of two others, block by block.
fn gap(
    run: &Evidence<'_>,
    of: &ArmNumber,
    [one, other]: &[[String; 2]; 2],
    at: RatePlace,
) -> Found<(Shown, String)> {
    let [a, b, c, d] = four(run, of, [one, other], at)?;
    let ratio = |above: f64, below: f64| above / below;
    let ratios = [with(&a, &b, ratio), with(&c, &d, ratio)];
    let names = [one, other].map(|[above, below]| format!("{above} over {below}"));
    let shown = run.compared((&names[0], &ratios[0]), (&names[1], &ratios[1]))?;
    let what = format!("{}{}, {} compared with {}", words(of), at_words(at), names[0], names[1]);
    Ok((shown, what))
}

/// Growth of two arms' peaks from the lowest level of a factor to the highest, one over the other.
fn change(
    run: &Evidence<'_>,
    factor: &str,
    [arm, baseline]: [&String; 2],
) -> Found<(Shown, String)> {
    let all = Evidence::everywhere(run.run);
    let (path, levels) = all.levels(factor)?;
    let mut levels: Vec<&str> = levels.iter().map(String::as_str).collect();
    levels.sort_by_key(|level| level.parse::<u32>().unwrap_or_default());
    let (least, most) = (levels[0], levels[levels.len() - 1]);
    let gain = |arm: &str| -> Found<Blocks> {
        let [few, many] = [least, most].map(|level| all.with(path, level).peaks(arm, GOOD));
        let (few, many) = (few?, many?);
        Ok(with(&many, &few, |many, few| many / few))
    };
    let ratio = run.compared((arm, &gain(arm)?), (baseline, &gain(baseline)?))?;
    let what = format!("peak with {path}={most} over that with {least}");
    Ok((ratio, format!("{arm}'s {what}, over {baseline}'s")))
}

#[cfg(test)]
mod tests {
    use crate::claims::rows::{Numbers, World, but, check_text, good, nothing, quiet, run_in};
    use crate::claims::{Judged, Open, Verdict, judge};
    use Verdict::{CannotTell as Cannot, Fails, Holds};

    /// An experiment of three arms at three rates, with a row of a user's claim.
    fn with(row: &str) -> String {
        format!(
            "experiment = {{ name = \"x\", question = \"?\", expect = \"!\" }}\n\
             workload = {{ root = \".\", loop = \"open\" }}\n\
             calibrate = {{}}\n\
             measure.blocks = 8\n\
             targets = {{ old = {{}}, new = {{}}, other = {{}} }}\n\
             factors.\"workload.rate\" = [\"0.5x\", \"1x\", \"1.2x\"]\n\
             [[claim]]\nid = \"mine\"\nsays = \"the new build is no slower\"\n{row}\n"
        )
    }

    fn judged(row: &str, world: World) -> Judged {
        judge(&run_in(&with(row), world)).remove(0)
    }

    const P99: &str = r#"asks = [{ ratio = ["new", "old"], of = "p99_ms", is = "<1.02" }]"#;

    fn p99(arm: &str, new: f64) -> Numbers {
        vec![("p99_ms", if arm == "new" { new } else { 10.0 })]
    }

    #[test]
    fn a_claim_of_a_user_has_a_verdict_a_noise_floor_and_the_blocks_that_it_takes() {
        let rows: [(&str, Verdict, World); 3] = [
            ("mine", Holds, |arm, _, _| p99(arm, 9.0)),
            ("mine", Fails, |arm, _, _| p99(arm, 12.0)),
            ("mine", Cannot, nothing),
        ];
        check_text(&with(P99), &rows);
        let told = judged(P99, |arm, _, _| p99(arm, 9.0));
        let said = "new's p99_ms over old's: 0.90 (0.90 to 0.90), noise floor 0.0 %";
        assert_eq!((told.ours.as_str(), told.paper.as_str()), (said, ""));
        assert_eq!(told.sentences()[0], "the new build is no slower.");
        assert!(told.why.starts_with("below 1.02; times are of the answered: "), "{told:?}");
        // Half of the blocks say yes, and half say no.
        let mut run = quiet(&with(P99), |arm, _, _| p99(arm, 10.0));
        for record in run.records.iter_mut().filter(|record| record.cell.target == "new") {
            let new = [15.0, 8.0, 12.0, 9.0][usize::try_from(record.block % 4).unwrap()];
            record.metrics.insert("p99_ms".to_owned(), new);
        }
        let told = judge(&run).remove(0);
        assert!(matches!(told.open, Some(Open::Noise { enough: Some(_), .. })), "{told:?}");
        assert!(told.why.contains("blocks would tell"), "{told:?}");
    }

    /// Numbers of each arm: the most that it answers, and the cost of a reply of `other`.
    fn peaks(arm: &str, rate: f64, [new, other]: [f64; 2], cost: f64) -> Numbers {
        match arm {
            "new" => good(rate, new),
            "other" => but(good(rate, other), &[("cpu_us_per_reply", cost)]),
            _ => good(rate, 1.0),
        }
    }

    #[test]
    fn one_candidate_is_enough_with_all_that_it_asks_for() {
        let any = r#"asks = [{ any = [
            { peak = ["new", "old"], is = ">1.1" },
            { all = [
                { peak = ["other", "old"], is = ">1.1" },
                { ratio = ["other", "old"], of = "cpu_us_per_reply", is = "<0.9" },
            ] },
        ] }]"#;
        let neither: World = |arm, rate, _| peaks(arm, rate, [1.0, 1.3], 100.0);
        let rows: [(&str, Verdict, World); 3] = [
            ("mine", Holds, |arm, rate, _| peaks(arm, rate, [1.3, 1.0], 100.0)),
            ("mine", Holds, |arm, rate, _| peaks(arm, rate, [1.0, 1.3], 50.0)),
            ("mine", Fails, neither),
        ];
        check_text(&with(any), &rows);
        let untried = format!("{any}\nuntried = \"a fourth build\"");
        let told = judged(&untried, neither);
        assert!(told.verdict == Cannot && told.why.starts_with("it takes a fourth"), "{told:?}");
        check_text(&with(&untried), &rows[..2]);
        let half = format!("{any}\nhalf = \"the other half is missing\"");
        check_text(&with(&half), &[("mine", Cannot, rows[0].2), ("mine", Fails, neither)]);
        // A candidate without trials leaves open what the others do not decide.
        let lost = |world: World| {
            let mut run = run_in(&with(any), world);
            run.records.retain(|record| record.cell.target != "other");
            judge(&run).remove(0)
        };
        assert_eq!(lost(rows[0].2).verdict, Holds);
        let told = lost(neither);
        assert!(told.verdict == Cannot && told.why.contains("valid trials of other"), "{told:?}");
    }

    #[test]
    fn facts_of_the_setting_are_no_verdicts() {
        let row = r#"given = [{ value = "old", of = "100*opens/replies", is = ">50" }]
            asks = [{ peak = ["new", "old"], is = "=5%" }]
            tells = [{ of = "opens", arms = ["old", "new"], says = "opens" }]"#;
        check_text(&with(row), &[("mine", Holds, |_, _, _| vec![("opens", 900.0)])]);
        let told = judged(row, |_, _, _| vec![("opens", 400.0)]);
        assert!(matches!(told.open, Some(Open::Unmeasured { .. })), "{told:?}");
        let why = "old's 100*opens for each reply is 40.00 (40.00 to 40.00), which has to be above";
        assert!(told.why.starts_with(why), "{told:?}");
        assert!(told.why.contains("old: 400.00 opens; new: 400.00 opens"), "{told:?}");
        // A multiple is a difference: 3 - 2 * 1 is above 0, and below 2.
        let multiple = r#"given = [{ times = ["new", "old"], of = "wait_ns", is = ">2" }]
            asks = [{ peak = ["new", "old"], is = "=5%" }]"#;
        let world: World = |arm, _, _| vec![("wait_ns", if arm == "new" { 3.0 } else { 1.0 })];
        check_text(&with(multiple), &[("mine", Holds, world)]);
        // A disk, all cached, processors of the server's own.
        for (need, open) in [("disk", Cannot), ("cached", Holds), ("own-processors", Cannot)] {
            let row = format!(
                "needs = [{need:?}]\nasks = [{{ peak = [\"new\", \"old\"], is = \"=5%\" }}]"
            );
            assert_eq!(judged(&row, nothing).verdict, open, "{need}");
        }
    }

    #[test]
    fn a_rise_is_compared_with_another() {
        // From 1 to 7 and from 1 to 3: three times as much.
        let world: World = |arm, _, _| {
            let waits = match arm {
                "new" => 7.0,
                "other" => 3.0,
                _ => 1.0,
            };
            vec![("wait_ns", waits)]
        };
        for (is, verdict) in [(">2", Holds), (">4", Fails), ("<4", Holds), ("<2", Fails)] {
            let rise = r#"rise = [["new", "old"], ["other", "old"]], of = "wait_ns""#;
            let row = format!("asks = [{{ {rise}, is = {is:?} }}]");
            let told = judged(&row, world);
            assert_eq!(told.verdict, verdict, "{is}: {told:?}");
            let ours = "wait_ns rises from old to new 6.000, from old to other 2.000";
            assert_eq!(told.ours, ours);
        }
    }

    /// At 1x the new build waits five times as long as at any other rate.
    fn waits(arm: &str, rate: f64, elsewhere: f64) -> Numbers {
        let is_slow = arm == "new" && rate == 1.0;
        vec![("wait_ns", if is_slow { 5.0 } else { elsewhere })]
    }

    #[test]
    fn rates_and_levels_say_which_trials_are_compared() {
        for (ask, verdict, elsewhere) in [
            (r#"ratio = ["new", "old"], at = "1x", is = ">4""#, Holds, 1.0),
            (r#"ratio = ["new", "old"], is = ">4""#, Fails, 1.0),
            (r#"ratio = ["new@1x", "new@lowest"], is = ">4""#, Holds, 1.0),
            (r#"times = ["new@1x", "old@highest"], is = ">4""#, Holds, 1.0),
            (r#"times = ["new@1x", "old@highest"], is = ">6""#, Fails, 1.0),
            (r#"times = ["new@1x", "old@highest"], is = "<6""#, Holds, 1.0),
            // 5 are more than any multiple of 0.
            (r#"times = ["new@1x", "old@highest"], is = ">6""#, Holds, 0.0),
            (r#"value = "new@1x", is = "4..6""#, Holds, 1.0),
            (r#"value = "new@1.2x", is = "4..6""#, Fails, 1.0),
            (r#"value = "new", at = "0.4x..0.6x", is = "4..6""#, Fails, 1.0),
            (r#"value = "new", at = "0.6x..0.8x", is = "4..6""#, Cannot, 1.0),
            (r#"value = "new", where = { "workload.rate" = "last" }, is = "<2""#, Holds, 1.0),
        ] {
            let row = format!("asks = [{{ of = \"wait_ns\", {ask} }}]");
            let world: World = match elsewhere {
                0.0 => |arm, rate, _| waits(arm, rate, 0.0),
                _ => |arm, rate, _| waits(arm, rate, 1.0),
            };
            let told = judged(&row, world);
            assert_eq!(told.verdict, verdict, "{ask}: {told:?}");
        }
        let any = r#"asks = [{ any = [
            { ratio = ["new", "old"], of = "wait_ns", at = "0.9x..1.3x", is = ">4" },
        ] }]"#;
        check_text(&with(any), &[("mine", Holds, |arm, rate, _| waits(arm, rate, 1.0))]);
    }

    /// At 1x the new build answers a fifth more than both others, elsewhere as much.
    #[test]
    fn the_best_of_several_is_compared_at_the_rate_that_a_row_names() {
        let ahead: World = |arm, rate, _| {
            let times = if arm == "new" && rate == 1.0 { 1.2 } else { 1.0 };
            vec![("good_per_s", 1_000.0 * times)]
        };
        for (ask, verdict) in [
            (r#"peak = ["new", ["old", "other"]], at = "1x", is = ">1.05""#, Holds),
            (r#"peak = ["new", ["old", "other"]], at = "1.2x", is = ">1.05""#, Fails),
            (r#"peak = ["new", ["old", "other"]], at = "1.2x", is = "=3%""#, Holds),
            (r#"peak = [["new", "other"], "old"], at = "1x", is = "1.1..1.3""#, Holds),
            (r#"peak = [["old", "other"], "new"], at = "1x", is = "<0.95""#, Holds),
        ] {
            let told = judged(&format!("asks = [{{ {ask} }}]"), ahead);
            assert_eq!(told.verdict, verdict, "{ask}: {told:?}");
            assert!(told.ours.contains("noise floor"), "{told:?}");
        }
    }

    #[test]
    fn a_row_of_a_paper_s_claim_asks_for_what_the_claim_says() {
        let row = |is: &str| {
            let row = format!("asks = [{{ peak = [\"new\", \"old\"], is = {is:?} }}]");
            with(&row)
                .replace("id = \"mine\"\nsays = \"the new build is no slower\"", "id = \"A-6\"")
        };
        let told = |is: &str| judge(&run_in(&row(is), nothing)).remove(0);
        assert_eq!(
            (told(">0.95").verdict, told(">0.95").paper.as_str()),
            (Holds, "- (a critique)")
        );
        let other = told(">0.9");
        assert!(other.verdict == Cannot && other.why.contains("no ask of its row is above 0.95"));
    }
}
