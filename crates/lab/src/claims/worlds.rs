//! Worlds in which a claim holds and in which it does not, made from the claim's row.
//!
//! At first no arm differs from another. Each comparison that is not as wanted then changes a
//! number of one of its arms, one comparison after the other, until all are as wanted.

use super::evidence::GOOD;
use super::*;
use crate::analysis::tests::synthetic_of;
use crate::experiment::claim_row::Range;
use crate::experiment::{
    ArmAt, ArmNumber, ClaimAsk, Compared, Comparison, DerivedNumber, Experiment, LevelChoice, Need,
    PROCESSORS, RATE, RatePlace, Scale, library, parse, rate,
};
use crate::record::Cell;
use crate::stats::Random;
use std::collections::{BTreeMap, BTreeSet};

/// Distance of a number from its limit, as a factor.
const FAR: f64 = 1.2;
/// The same for facts, whose middles decide.
const FACT: f64 = 1.02;
/// Sweeps over all comparisons.
const SWEEPS: usize = 400;
/// Sweeps between a change of numbers and a change of what divides them.
const TURN: usize = 40;
/// Share of the time in which processes wait for a disk, where a row needs one.
const WAITS: f64 = 0.1;

/// Levels of factors.
type Levels = BTreeMap<String, String>;

/// Comparison with the limits that it has to be within in a world.
#[derive(Clone, Debug)]
struct Wanted {
    one: Comparison,
    low: f64,
    high: f64,
}

impl Wanted {
    /// Limits that are far on the side that the comparison asks for.
    fn so(one: &Comparison, far: f64) -> Self {
        // No arm answers more at the highest rate than at its peak.
        let most = if matches!(one.of, Compared::Kept(_, None)) { 1.0 } else { f64::INFINITY };
        let (low, high) = match one.is {
            Range::Above(low) => ((low * far).min(most), f64::INFINITY),
            Range::Below(high) => (0.0, high / far),
            Range::Within(low, high) => {
                let middle = (low * high).sqrt();
                (middle / 1.01, middle * 1.01)
            }
            Range::Equal(share) => (1.0 / (1.0 + share / 10.0), 1.0 + share / 10.0),
            Range::Unequal(share) => ((1.0 + share) * far, f64::INFINITY),
        };
        Self { one: one.clone(), low, high }
    }

    /// Limits on the other side.
    fn not(one: &Comparison, far: f64) -> Self {
        let is = match one.is {
            Range::Above(low) => Range::Below(low),
            Range::Below(high) | Range::Within(_, high) => Range::Above(high),
            Range::Equal(share) => Range::Unequal(share),
            Range::Unequal(share) => Range::Equal(share),
        };
        let limits = Self::so(&Comparison { is, ..one.clone() }, far);
        Self { one: one.clone(), ..limits }
    }
}

/// Numbers of every cell of an experiment.
#[derive(Clone)]
struct World<'a> {
    experiment: &'a Experiment,
    cells: Vec<Cell>,
    /// Numbers of each cell that were changed.
    numbers: Vec<BTreeMap<String, f64>>,
}

/// Value of a comparison, and cells whose number is lowered where the value is too high or too low.
struct Sides {
    value: f64,
    of: ArmNumber,
    above: Vec<usize>,
    /// `None`: the number above is raised.
    below: Option<Vec<usize>>,
}

/// Rate of a cell as a multiple; 0 without one.
fn rate_of(cell: &Cell) -> f64 {
    cell.levels.get(RATE).and_then(|level| rate(level)).map_or(0.0, |(rate, _)| rate)
}

/// Number of a cell where nothing differs.
fn usual(name: &str, rate: f64) -> f64 {
    match name {
        GOOD if rate > 0.0 => 1_000.0 * rate.min(1.0),
        GOOD => 1_000.0,
        "window_s" => 1.0,
        "memory_stalls_less_half" => 100.0,
        // Most of them are shares.
        name if DerivedNumber::named(name).is_some() => 0.3,
        _ => 100.0,
    }
}

impl<'a> World<'a> {
    fn new(experiment: &'a Experiment) -> Self {
        let cells = cells(experiment);
        let numbers = vec![BTreeMap::new(); cells.len()];
        Self { experiment, cells, numbers }
    }

    /// World in which all is as wanted; `None` if there seems to be none.
    fn with(experiment: &'a Experiment, wanted: &[Wanted]) -> Option<Self> {
        let mut world = Self::new(experiment);
        wanted.iter().for_each(|wanted| world.halve(&wanted.one));
        let is_so = |world: &mut Self, sweep: usize| {
            let divisors = (sweep / TURN) % 2 == 1;
            // All are turned, also after one that cannot be.
            wanted.iter().filter(|one| !world.turn(one, divisors)).count() == 0
        };
        (0..SWEEPS).any(|sweep| is_so(&mut world, sweep)).then_some(world)
    }

    /// Halves the numbers that others rise from.
    fn halve(&mut self, one: &Comparison) {
        let Compared::Rise(of, [[_, from], [_, other]]) = &one.of else { return };
        let levels = self.levels(one);
        let cells = [from, other].map(|arm| self.at(arm, one.at, &levels)).concat();
        for at in cells {
            let name = of.name.to_string();
            let half = usual(&name, rate_of(&self.cells[at])) / 2.0;
            self.numbers[at].insert(name, half);
        }
    }

    fn get(&self, at: usize, name: &str) -> f64 {
        let changed = self.numbers[at].get(name).copied();
        changed.unwrap_or_else(|| usual(name, rate_of(&self.cells[at])))
    }

    fn value(&self, of: &ArmNumber, at: usize) -> f64 {
        let over = of.over.as_ref().map_or(1.0, |over| self.get(at, &over.to_string()));
        of.times * self.get(at, &of.name.to_string()) / over
    }

    /// Cells of an arm at some levels.
    fn of(&self, arm: &str, levels: &Levels) -> Vec<usize> {
        let has = |cell: &Cell| {
            cell.target == arm && levels.iter().all(|(path, one)| cell.levels[path] == *one)
        };
        (0..self.cells.len()).filter(|at| has(&self.cells[*at])).collect()
    }

    /// The same at one rate.
    fn at(&self, arm: &str, place: RatePlace, levels: &Levels) -> Vec<usize> {
        let all = self.of(arm, levels);
        let rate = |at: &usize| rate_of(&self.cells[*at]);
        let distance = |at: &usize| match place {
            RatePlace::Highest => -rate(at),
            RatePlace::Lowest => rate(at),
            RatePlace::Near(multiple) => (rate(at) / multiple).ln().abs(),
            RatePlace::Between(..) => unreachable!("each of them is compared"),
        };
        let nearest = all.iter().map(distance).fold(f64::INFINITY, f64::min);
        all.into_iter().filter(|at| distance(at) == nearest).collect()
    }

    fn arm(&self, arm: &ArmAt, at: RatePlace, levels: &Levels) -> Vec<usize> {
        self.at(&arm.arm, arm.at.unwrap_or(at), levels)
    }

    /// Most that any of some cells answers.
    fn most(&self, cells: &[usize]) -> f64 {
        cells.iter().map(|at| self.get(*at, GOOD)).fold(0.0, f64::max)
    }

    /// Share of its peak that an arm answers at the highest rate.
    fn kept(&self, arm: &str, levels: &Levels) -> f64 {
        let last = self.at(arm, RatePlace::Highest, levels);
        self.most(&last) / self.most(&self.of(arm, levels))
    }

    fn levels(&self, one: &Comparison) -> Levels {
        let level = |(path, choice): (&String, &LevelChoice)| {
            let factor = self.experiment.factors.iter().find(|factor| factor.path == *path);
            let all = &factor.expect("a row names factors of its file").levels;
            let level = match choice {
                LevelChoice::First => &all[0],
                LevelChoice::Last => &all[all.len() - 1],
                LevelChoice::Is(level) => level,
            };
            (path.clone(), level.clone())
        };
        one.levels.iter().map(level).collect()
    }

    /// Levels with the lowest and with the highest of a factor.
    fn ends(&self, path: &str, levels: &Levels) -> [Levels; 2] {
        let factor = self.experiment.factors.iter().find(|factor| factor.path == path);
        let mut all = factor.expect("a row names factors of its file").levels.clone();
        all.sort_by_key(|level| level.parse::<u32>().unwrap());
        [0, all.len() - 1].map(|at| {
            let mut levels = levels.clone();
            levels.insert(path.to_owned(), all[at].clone());
            levels
        })
    }

    fn sides(&self, one: &Comparison) -> Sides {
        let levels = self.levels(one);
        let good = || ArmNumber::try_from(GOOD.to_owned()).unwrap();
        let arms = |arms: &[String]| -> Vec<usize> {
            arms.iter().flat_map(|arm| self.of(arm, &levels)).collect()
        };
        let first = |of: &ArmNumber, cells: &[usize]| self.value(of, cells[0]);
        match &one.of {
            Compared::Peak([above, below]) => {
                let (above, below) = (arms(above), arms(below));
                let value = self.most(&above) / self.most(&below);
                Sides { value, of: good(), above, below: Some(below) }
            }
            Compared::Ratio(of, [above, below]) | Compared::Times(of, [above, below]) => {
                let above = self.arm(above, one.at, &levels);
                let below = self.arm(below, one.at, &levels);
                let value = first(of, &above) / first(of, &below);
                Sides { value, of: of.clone(), above, below: Some(below) }
            }
            Compared::Value(of, arm) => {
                let above = self.arm(arm, one.at, &levels);
                Sides { value: first(of, &above), of: of.clone(), above, below: None }
            }
            Compared::Change(path, [arm, baseline]) => {
                let [few, many] = self.ends(path, &levels);
                let peak = |arm: &str, levels: &Levels| self.most(&self.of(arm, levels));
                let grows = |arm: &str| peak(arm, &many) / peak(arm, &few);
                let value = grows(arm) / grows(baseline);
                let (above, below) = (self.of(arm, &many), self.of(baseline, &many));
                Sides { value, of: good(), above, below: Some(below) }
            }
            Compared::Gap(of, arms) => {
                let [[a, b], [c, d]] = arms
                    .each_ref()
                    .map(|pair| pair.each_ref().map(|arm| self.at(arm, one.at, &levels)));
                let value = first(of, &a) / first(of, &b) / (first(of, &c) / first(of, &d));
                Sides { value, of: of.clone(), above: a, below: Some(b) }
            }
            Compared::Rise(of, [[a, b], [c, d]]) => {
                let [a, b, c, d] = [a, b, c, d].map(|arm| self.at(arm, one.at, &levels));
                let value = (first(of, &a) - first(of, &b)) / (first(of, &c) - first(of, &d));
                Sides { value, of: of.clone(), above: a, below: None }
            }
            Compared::Kept(arm, baseline) => {
                let last = |arm: &String| self.at(arm, RatePlace::Highest, &levels);
                let own = self.kept(arm, &levels);
                let value = own / baseline.as_ref().map_or(1.0, |one| self.kept(one, &levels));
                Sides { value, of: good(), above: last(arm), below: baseline.as_ref().map(last) }
            }
        }
    }

    /// Whether a comparison is as wanted; if not, it is afterwards.
    fn turn(&mut self, wanted: &Wanted, divisors: bool) -> bool {
        let Sides { value, of, above, below } = self.sides(&wanted.one);
        // Numbers that shrink without end contradict each other.
        if !value.is_finite() {
            return false;
        }
        let factor = if value < wanted.low * (1.0 - 1e-9) {
            wanted.low / value
        } else if value > wanted.high * (1.0 + 1e-9) {
            wanted.high / value
        } else {
            return true;
        };
        let (changed, by) = match below {
            Some(below) if factor > 1.0 => (below, 1.0 / factor),
            _ => (above, factor),
        };
        let (name, by) = match &of.over {
            Some(over) if divisors => (over.to_string(), 1.0 / by),
            _ => (of.name.to_string(), by),
        };
        for at in changed {
            let number = self.get(at, &name) * by;
            self.numbers[at].insert(name.clone(), number);
        }
        false
    }

    /// Metrics and counters of a cell. `left` is what the server has of its processors.
    fn shown(&self, at: usize, names: &BTreeSet<String>, waits: bool, left: f64) -> Vec<Shown> {
        let window_s = self.get(at, "window_s");
        let waited = if waits { WAITS * window_s } else { 0.0 };
        let mut all = vec![shown("window_s", window_s), shown("disk_wait_s", waited)];
        for name in names {
            let value = self.get(at, name);
            match DerivedNumber::named(name) {
                None => all.push(shown(name, value)),
                Some(DerivedNumber::MemoryStallsLessHalf) => {
                    let cycles = self.get(at, "cycles_per_instruction");
                    let stalls = 1_000.0 * (value + cycles / 2.0);
                    all.extend([
                        shown("user_instructions", 500.0),
                        shown("kernel_instructions", 500.0),
                    ]);
                    all.push(shown("stalled_memory", stalls));
                }
                Some(derived) => all.extend(parts(derived, value, window_s, left)),
            }
        }
        all
    }

    /// Run of the experiment in this world, with a share of noise in all numbers.
    fn run(&self, row: &ClaimRow, waits: bool, (seed, noise): (u64, f64)) -> Run {
        let mut run = synthetic_of(self.experiment.clone(), &|_| BTreeMap::new());
        run.experiment.claims = vec![row.id.clone()];
        let left = Evidence::new(&run).left();
        let mut names = BTreeSet::from([GOOD.to_owned()]);
        for one in row.comparisons().chain(&row.given) {
            names.extend(numbers_of(one));
        }
        let mut random = Random::new(seed);
        for record in &mut run.records {
            let same =
                |cell: &Cell| cell.arm == record.cell.arm && cell.levels == record.cell.levels;
            let at = self.cells.iter().position(same).unwrap();
            for (name, value) in self.shown(at, &names, waits, left) {
                record.metrics.insert(name, value * (noise * random.normal()).exp());
            }
            record.counters = record.metrics.clone();
        }
        run
    }
}

/// A metric or a counter.
type Shown = (String, f64);

fn shown(name: &str, value: f64) -> Shown {
    (name.to_owned(), value)
}

/// Metrics and counters that a derived number is computed of.
fn parts(derived: DerivedNumber, value: f64, window_s: f64, left: f64) -> Vec<Shown> {
    let busy_s = window_s / 2.0;
    let half = || shown("server_cpu", left / 2.0);
    match derived {
        DerivedNumber::IdleForDisk => vec![shown("waiting_share", value)],
        DerivedNumber::WaitingForDisk => vec![shown("disk_wait_s", value * window_s)],
        DerivedNumber::ServerShare => vec![shown("server_cpu", value * left)],
        DerivedNumber::ServerIdle => vec![shown("server_cpu", (1.0 - value) * left)],
        DerivedNumber::SelectShare => {
            vec![half(), shown("wait_ns", 1e9 * (value * busy_s + window_s - busy_s))]
        }
        DerivedNumber::RepliesPerBusySecond => vec![half(), shown("replies", value * busy_s)],
        DerivedNumber::AsynchronousShare => {
            vec![shown("decided_async", value), shown("decided_blocking", 1.0 - value)]
        }
        DerivedNumber::LaioInlineShare => {
            vec![shown("laio_inline", value), shown("laio_deferred", 1.0 - value)]
        }
        DerivedNumber::MemoryStallsLessHalf => unreachable!("it is made of the cycles, too"),
        DerivedNumber::HelperTasks => vec![shown("helper_tasks_read", value)],
        DerivedNumber::OtherStagesThreads => vec![shown("parse.threads_open_max", value)],
    }
}

/// Names of the numbers that are compared.
fn numbers_of(one: &Comparison) -> Vec<String> {
    let both = one.of.number().map(|of| [Some(&of.name), of.over.as_ref()]);
    both.into_iter().flatten().flatten().map(ToString::to_string).collect()
}

/// A comparison at each of its rates.
fn at_each_rate(experiment: &Experiment, one: &Comparison) -> Vec<Comparison> {
    let RatePlace::Between(from, to) = one.at else { return vec![one.clone()] };
    let factor = experiment.factors.iter().find(|factor| factor.path == RATE);
    let levels = factor.map_or(&[][..], |factor| factor.levels.as_slice());
    let rates = levels.iter().filter_map(|level| rate(level)).map(|(rate, _)| rate);
    let here = rates.filter(|rate| (from..=to).contains(rate));
    here.map(|rate| Comparison { at: RatePlace::Near(rate), ..one.clone() }).collect()
}

/// Parts of a row, which all have to be so. Each has candidates, and one of them has to be so.
fn parts_of(experiment: &Experiment, row: &ClaimRow) -> Vec<Vec<Vec<Comparison>>> {
    let mut parts = Vec::new();
    for ask in &row.asks {
        match ask {
            ClaimAsk::One(one) => {
                parts.extend(at_each_rate(experiment, one).into_iter().map(|one| vec![vec![one]]));
            }
            ClaimAsk::Any(any) => {
                let mut candidates = Vec::new();
                for candidate in any {
                    let each = candidate.iter().flat_map(|one| at_each_rate(experiment, one));
                    match candidate.len() {
                        1 => candidates.extend(each.map(|one| vec![one])),
                        _ => candidates.push(each.collect()),
                    }
                }
                parts.push(candidates);
            }
        }
    }
    parts
}

/// A world by its name, whether processes wait for a disk there, and what the claim is.
type Case<'a> = (String, World<'a>, bool, Verdict);

/// Worlds of a row: one in which its claim holds, one for each thing that may be against it, and
/// some without what it needs.
fn cases<'a>(experiment: &'a Experiment, row: &ClaimRow) -> Vec<Case<'a>> {
    let parts = parts_of(experiment, row);
    let facts: Vec<Wanted> = row.given.iter().map(|one| Wanted::so(one, FACT)).collect();
    let so = |but: Option<usize>| -> Vec<Wanted> {
        let others = parts.iter().enumerate().filter(|(at, _)| Some(*at) != but);
        let first = others.flat_map(|(_, candidates)| &candidates[0]);
        first.map(|one| Wanted::so(one, FAR)).collect()
    };
    let waits = row.needs.contains(&Need::Disk);
    let all = [facts.clone(), so(None)].concat();
    let right = World::with(experiment, &all);
    let right = right.unwrap_or_else(|| panic!("{}: no world in which it holds", row.id));
    let holds = if row.half.is_some() { Verdict::CannotTell } else { Verdict::Holds };
    let fails = if row.untried.is_some() { Verdict::CannotTell } else { Verdict::Fails };
    let mut cases = vec![("as claimed".to_owned(), right.clone(), waits, holds)];
    for (at, candidates) in parts.iter().enumerate() {
        // Something of each candidate is not so.
        for place in 0..candidates.iter().map(Vec::len).max().unwrap_or_default() {
            let against = |far: f64| -> Vec<Wanted> {
                let not = |all: &Vec<Comparison>| Wanted::not(&all[place.min(all.len() - 1)], far);
                facts.iter().cloned().chain(candidates.iter().map(not)).collect()
            };
            // Other numbers may depend on it, and candidates on each other.
            let tried = [FAR, FACT].into_iter().flat_map(|far| {
                let against = against(far);
                [[against.clone(), so(Some(at))].concat(), against]
            });
            let world = tried.into_iter().find_map(|all| World::with(experiment, &all));
            let name = format!("without {place} of part {at}");
            let world = world.unwrap_or_else(|| panic!("{}: no world {name}", row.id));
            cases.push((name, world, waits, fails));
        }
    }
    for (at, one) in row.given.iter().enumerate() {
        let others = facts.iter().enumerate().filter(|(other, _)| *other != at);
        let others: Vec<Wanted> = others.map(|(_, one)| one.clone()).collect();
        let wanted = [vec![Wanted::not(one, FAR)], others, so(None)].concat();
        if let Some(world) = World::with(experiment, &wanted) {
            cases.push((format!("without fact {at}"), world, waits, Verdict::CannotTell));
        }
    }
    let own = DerivedNumber::WaitingForDisk.name().to_owned();
    let says_waits = row.comparisons().chain(&row.given).any(|one| numbers_of(one).contains(&own));
    if (waits || row.needs.contains(&Need::Cached)) && !says_waits {
        cases.push(("without its disk or cache".to_owned(), right, !waits, Verdict::CannotTell));
    }
    cases
}

/// Gives an experiment the processors that a claim takes.
fn make_room(experiment: &mut Experiment, row: &ClaimRow, claim: &Claim) {
    if claim.processors == 0 && !row.needs.contains(&Need::OwnProcessors) {
        return;
    }
    experiment.machine.server_cpus = (0..8).collect();
    experiment.machine.client_cpus = vec![9];
    for factor in experiment.factors.iter_mut().filter(|factor| factor.path == PROCESSORS) {
        if let Some(most) = factor.levels.last_mut() {
            *most = "8".to_owned();
        }
    }
}

#[test]
fn every_row_holds_and_fails_in_worlds_that_are_made_of_it() {
    let (mut all, mut against) = (0, Vec::new());
    for (name, text) in library::EXPERIMENTS {
        let experiment = parse(name, text, Scale::Replica).unwrap();
        for row in &experiment.rows {
            let own = row.own();
            let claim = Claim::named(&row.id).or(own.as_ref()).unwrap();
            let mut experiment = experiment.clone();
            make_room(&mut experiment, row, claim);
            for (world, numbers, waits, wanted) in cases(&experiment, row) {
                let judged = judge(&numbers.run(row, waits, (5, 0.002))).remove(0);
                assert_eq!(judged.verdict, wanted, "{name}, {world}: {judged:?}");
                // Noise hides what is so, and rarely turns it round.
                let noisy = judge(&numbers.run(row, waits, (7, 0.1))).remove(0).verdict;
                all += 1;
                if noisy != wanted && noisy != Verdict::CannotTell {
                    against.push(format!("{name}, {}, {world}: {noisy:?}", row.id));
                }
            }
        }
    }
    assert!(all > 300, "{all}");
    assert!(20 * against.len() <= all, "{} of {all}: {against:#?}", against.len());
}
