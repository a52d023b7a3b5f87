//! Claims as rows of an experiment's file: `[[claim]]` (docs/adding-a-claim.md).
//!
//! A row names arms of its own file. It says which of their numbers are compared, and the range
//! that the claim asks for. `claims::by_row` judges it.

use regatta_load::named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::LazyLock;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// Name of a claim of the papers, or of the user's own.
    pub id: String,
    /// Sentence of a claim that is the user's own.
    pub says: Option<String>,
    /// Facts without which nothing is decided.
    pub needs: Vec<Need>,
    /// Facts in numbers: the middle of each has to be in its range, whatever its interval is.
    pub given: Vec<Comparison>,
    /// Asks of the claim; all have to be so.
    pub asks: Vec<ClaimAsk>,
    pub tells: Vec<Tell>,
    /// Missing part of the claim: what is here can refute the claim, and cannot confirm it.
    pub half: Option<String>,
    /// Other arms that would do as well: what is here can confirm the claim, and cannot refute it.
    pub untried: Option<String>,
    /// Numbers of the scale page that decide it: far from the paper's, nothing here refutes it.
    #[serde(default)]
    pub decided_by: Vec<ScaleNumber>,
}

named! {
    /// Number of the scale page: a paper's machine and load, and ours.
    pub enum ScaleNumber {
        /// Share of the time for which one event loop waits for the disk.
        DiskWait = "disk_wait",
        /// Time at the disk over time of the processor, of each request.
        DiskOverCpu = "disk_over_cpu",
        /// Share of its processor time that a server spends in poll.
        PollOverCpu = "poll_over_cpu",
        /// Connections that may wait to be accepted, over those that are allowed.
        QueueOverCap = "queue_over_cap",
        /// Connections that are allowed, over those that arrive within the clients' patience.
        CapOverDemand = "cap_over_demand",
        /// Processes that a blocking send holds at saturation, over all.
        BlockedOverProcesses = "blocked_over_processes",
        /// Requests of a window over the characteristic time of the page cache.
        WindowOverCache = "window_over_cache",
        /// Memory of the server over the page cache.
        FootprintOverCache = "footprint_over_cache",
        /// Files opened for each reply.
        OpensPerReply = "opens_per_reply",
        /// Time of a select, or of a switch of user threads, over the processor time of a reply.
        SwitchOverCpu = "switch_over_cpu",
    }
}

named! {
    /// Fact of a run without which a row decides nothing.
    pub enum Need {
        /// Processes wait for a disk.
        Disk = "disk",
        /// No process waits for a disk.
        Cached = "cached",
        /// The server has one processor.
        OneProcessor = "one-processor",
        /// The server shares no processor with the load.
        OwnProcessors = "own-processors",
    }
}

/// Thing that a claim asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ClaimAsk {
    One(Box<Comparison>),
    /// Candidates; one is enough. All comparisons of a candidate have to be so.
    Any(Vec<Vec<Comparison>>),
}

/// Numbers of arms, and the range that they have to be in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub of: Compared,
    /// Rate at which they are compared; peaks have none.
    pub at: RatePlace,
    pub levels: BTreeMap<String, LevelChoice>,
    pub is: Range,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Compared {
    /// Best peak of some arms over the best peak of others.
    Peak([Vec<String>; 2]),
    Ratio(ArmNumber, [ArmAt; 2]),
    /// Like `Ratio`, tested as a difference: the second number may be 0.
    Times(ArmNumber, [ArmAt; 2]),
    Value(ArmNumber, ArmAt),
    /// Peak at the highest level of a factor over that at the lowest: of one arm over another.
    Change(String, [String; 2]),
    /// Ratio of a number of two arms over the ratio of two others.
    Gap(ArmNumber, [[String; 2]; 2]),
    /// Difference of a number of two arms over that of two others. It is tested as a difference, as
    /// `Times` is.
    Rise(ArmNumber, [[String; 2]; 2]),
    /// Throughput of an arm at the highest rate over its peak; of two arms, one over the other.
    Kept(String, Option<String>),
}

/// A number of each trial: one over another, times a factor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArmNumber {
    pub times: f64,
    /// Name of a metric or a counter, or a derived number.
    pub name: TrialNumber,
    pub over: Option<TrialNumber>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialNumber {
    Derived(DerivedNumber),
    /// A metric, or else a counter of the server.
    Named(String),
}

named! {
    /// Number that is computed of several metrics and counters of a trial.
    pub enum DerivedNumber {
        /// Share of the time in which processors idle for a disk.
        IdleForDisk = "idle_for_disk",
        /// Share of the time in which one process waits for a disk.
        WaitingForDisk = "waiting_for_disk",
        /// Share of its processors that the server uses.
        ServerShare = "server_share",
        /// Share of its processors that the server leaves unused.
        ServerIdle = "server_idle",
        /// Share of one process's busy time that is inside of `select`.
        SelectShare = "select_share",
        /// Replies for each second in which one process is busy.
        RepliesPerBusySecond = "replies_per_busy_s",
        /// Cycles that stall on memory for each instruction, less half of all that it takes.
        MemoryStallsLessHalf = "memory_stalls_less_half",
        /// Share of the reads that are decided to be asynchronous.
        AsynchronousShare = "asynchronous_share",
        /// Share of LAIO's operations that complete at once.
        LaioInlineShare = "laio_inline_share",
        /// Tasks of helpers.
        HelperTasks = "helper_tasks",
        /// Most threads of a stage other than that of the disk.
        OtherStagesThreads = "threads_of_other_stages",
    }
}

/// An arm, perhaps at a rate of its own: `NAME` or `NAME@RATE`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmAt {
    pub arm: String,
    /// Rate, if it differs from that of the comparison.
    pub at: Option<RatePlace>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum RatePlace {
    #[default]
    Highest,
    Lowest,
    /// The nearest to a multiple of the calibrated rate.
    Near(f64),
    /// Each between two multiples.
    Between(f64, f64),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LevelChoice {
    First,
    Last,
    Is(String),
}

/// A number that is printed with a verdict, and decides nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tell {
    pub of: ArmNumber,
    /// Arms, each at its highest rate.
    pub arms: Vec<String>,
    pub says: String,
}

impl ClaimRow {
    /// Claim of a user, in the words of its row; `None` if the row is of another claim.
    pub(crate) fn own(&self) -> Option<Claim> {
        let says = self.says.as_ref().filter(|_| Claim::named(&self.id).is_none())?;
        Some(Claim::of_user(&self.id, says))
    }

    pub(crate) fn comparisons(&self) -> impl Iterator<Item = &Comparison> {
        self.asks.iter().flat_map(|ask| match ask {
            ClaimAsk::One(one) => vec![&**one],
            ClaimAsk::Any(any) => any.iter().flatten().collect(),
        })
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range> {
        self.comparisons().map(|one| one.is)
    }
}

impl Compared {
    /// Number that is compared; throughput has no name here.
    pub(crate) fn number(&self) -> Option<&ArmNumber> {
        match self {
            Self::Ratio(of, _)
            | Self::Times(of, _)
            | Self::Value(of, _)
            | Self::Gap(of, _)
            | Self::Rise(of, _) => Some(of),
            Self::Peak(_) | Self::Change(..) | Self::Kept(..) => None,
        }
    }
}

/// Text that stands for nothing, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimTextError(String);

impl Display for ClaimTextError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ClaimTextError {}

/// Types that are read from a text and written as one.
macro_rules! as_texts {
    ($($type:ty),*) => {$(
        impl TryFrom<String> for $type {
            type Error = ClaimTextError;

            fn try_from(text: String) -> Result<Self, ClaimTextError> {
                Self::parse(&text)
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    )*};
}
as_texts!(ArmNumber, Range);

impl ArmNumber {
    /// Number that a text such as `100*opens/replies` names.
    pub(super) fn parse(text: &str) -> Result<Self, ClaimTextError> {
        let error = || {
            ClaimTextError(format!(
                "{text:?} names no number: expected one such as \"p99_ms\", \"opens/replies\" or \
                 \"1000*disk_requests_per_s/good_per_s\""
            ))
        };
        let (times, rest) = match text.split_once('*') {
            Some((times, rest)) => (times.trim().parse::<f64>().map_err(|_| error())?, rest),
            None => (1.0, text),
        };
        let (name, over) = match rest.split_once('/') {
            Some((name, over)) => (name, Some(over)),
            None => (rest, None),
        };
        let name = TrialNumber::parse(name).ok_or_else(error)?;
        let over = over.map(|over| TrialNumber::parse(over).ok_or_else(error)).transpose()?;
        let is_factor = times.is_finite() && times > 0.0;
        if is_factor { Ok(Self { times, name, over }) } else { Err(error()) }
    }
}

impl TrialNumber {
    fn parse(text: &str) -> Option<Self> {
        let name = text.trim();
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&c));
        let derived = || DerivedNumber::named(name).map(Self::Derived);
        is_name.then(|| derived().unwrap_or_else(|| Self::Named(name.to_owned())))
    }
}

impl Display for TrialNumber {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Derived(derived) => derived.name(),
            Self::Named(name) => name,
        })
    }
}

impl Display for ArmNumber {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.times != 1.0 {
            write!(f, "{}*", self.times)?;
        }
        write!(f, "{}", self.name)?;
        self.over.as_ref().map_or(Ok(()), |over| write!(f, "/{over}"))
    }
}

impl ArmAt {
    /// Arm that a text such as `cm` or `cm@1.67x` names; `None` if its rate is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let Some((arm, at)) = text.rsplit_once('@') else {
            return Some(Self { arm: text.to_owned(), at: None });
        };
        Some(Self { arm: arm.to_owned(), at: Some(RatePlace::parse(at)?) })
    }
}

impl RatePlace {
    /// Place that a text names: `highest`, `lowest`, `1.2x` or `1x..1.25x`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let multiple = |text: &str| {
            let number = text.trim().strip_suffix('x')?.parse().ok();
            number.filter(|number: &f64| number.is_finite() && *number > 0.0)
        };
        match text.trim() {
            "highest" => Some(Self::Highest),
            "lowest" => Some(Self::Lowest),
            text => match text.split_once("..") {
                Some((from, to)) => {
                    let (from, to) = (multiple(from)?, multiple(to)?);
                    (from < to).then_some(Self::Between(from, to))
                }
                None => multiple(text).map(Self::Near),
            },
        }
    }
}

impl LevelChoice {
    /// Level that a word names.
    pub(super) fn parse(word: &str) -> Self {
        match word {
            "first" => Self::First,
            "last" => Self::Last,
            level => Self::Is(level.to_owned()),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    pub id: String,
    /// Sentence, with `{}` for each range.
    gist: String,
    /// Ranges that it says something is in, which are those that are asked for.
    #[serde(default)]
    pub ranges: Vec<Range>,
    pub needs: String,
    /// Resources among those that a machine may lack.
    #[serde(default)]
    pub takes: Vec<Resource>,
    /// Processors that the server has to have for itself, at least; 0: any.
    #[serde(default)]
    pub processors: usize,
    pub paper: String,
    /// Whether it is said of several workloads, so that one refutes it.
    #[serde(default)]
    pub each_workload: bool,
}

named! {
    pub enum Resource {
        Disk = "disk",
        Memory = "memory",
        Network = "network",
        Counters = "counters",
    }
}

/// Range in which a claim says that a number lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Range {
    Above(f64),
    Below(f64),
    Within(f64, f64),
    /// 1, but for this share either way: from 1 / (1 + share) to 1 + share.
    Equal(f64),
    /// Less or more than that.
    Unequal(f64),
}

use Range::{Above, Below, Equal, Unequal, Within};

impl Range {
    /// Limits: the lower and the upper.
    pub fn limits(self) -> (f64, f64) {
        match self {
            Above(low) => (low, f64::INFINITY),
            Below(high) => (f64::NEG_INFINITY, high),
            Within(low, high) => (low, high),
            Equal(share) | Unequal(share) => (1.0 / (1.0 + share), 1.0 + share),
        }
    }

    /// Whether the range is inside of its limits.
    pub(crate) fn is_inside(self) -> bool {
        !matches!(self, Unequal(_))
    }

    /// Sentence's part that says it.
    pub fn words(self) -> String {
        match self {
            Above(low) => format!("above {low}"),
            Below(high) => format!("below {high}"),
            Within(low, high) => format!("from {low} to {high}"),
            Equal(share) => format!("1 within {:.0} %", 100.0 * share),
            Unequal(share) => format!("not 1 within {:.0} %", 100.0 * share),
        }
    }

    /// Range that a text such as `>1.05` says.
    pub(crate) fn parse(text: &str) -> Result<Self, ClaimTextError> {
        let text = text.trim();
        let range = if let Some(low) = text.strip_prefix('>') {
            number(low).map(Above)
        } else if let Some(high) = text.strip_prefix('<') {
            number(high).map(Below)
        } else if let Some(part) = text.strip_prefix("!=") {
            share(part).map(Unequal)
        } else if let Some(part) = text.strip_prefix('=') {
            share(part).map(Equal)
        } else {
            let ends = text.split_once("..").and_then(|(a, b)| Some((number(a)?, number(b)?)));
            ends.filter(|(low, high)| low < high).map(|(low, high)| Within(low, high))
        };
        range.ok_or_else(|| {
            ClaimTextError(format!(
                "{text:?} is no range: expected one such as \">1.05\", \"<0.9\", \"0.6..0.9\", \
                 \"=3%\" or \"!=3%\""
            ))
        })
    }
}

/// A number, or a fraction such as `1/3`.
fn number(text: &str) -> Option<f64> {
    let parse = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
    match text.split_once('/') {
        Some((part, whole)) => Some(parse(part)? / parse(whole).filter(|whole| *whole != 0.0)?),
        None => parse(text),
    }
}

/// A share above 0, such as `3%` or `0.03`.
fn share(text: &str) -> Option<f64> {
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent)? / 100.0,
        None => number(text)?,
    };
    (share > 0.0).then_some(share)
}

impl Display for Range {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Above(low) => write!(f, ">{low}"),
            Below(high) => write!(f, "<{high}"),
            Within(low, high) => write!(f, "{low}..{high}"),
            Equal(share) => write!(f, "={share}"),
            Unequal(share) => write!(f, "!={share}"),
        }
    }
}

impl Claim {
    pub fn sentence(&self) -> String {
        let mut sentence = self.gist.clone();
        for range in &self.ranges {
            sentence = sentence.replacen("{}", &range.words(), 1);
        }
        sentence
    }

    /// Claim of a user, in the user's words.
    pub(crate) fn of_user(id: &str, says: &str) -> Self {
        Self { id: id.to_owned(), gist: says.to_owned(), ..Self::default() }
    }

    pub(crate) fn named(id: &str) -> Option<&'static Self> {
        CLAIMS.iter().find(|claim| claim.id == id)
    }

    pub(crate) fn takes(&self, resource: Resource) -> bool {
        self.takes.contains(&resource)
    }
}

/// A range of a claim, by its place among them.
pub(crate) fn range(id: &str, at: usize) -> Range {
    Claim::named(id).expect("predicates are of claims").ranges[at]
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    claim: Vec<Claim>,
}

pub static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| {
    let text = include_str!("../../../../experiments/claims.toml");
    toml::from_str::<Index>(text).expect("a test reads it").claim
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_written_as_it_is_read() {
        for text in ["p99_ms", "opens/replies", "1000*disk_requests_per_s/good_per_s", "a.b-c"] {
            assert_eq!(ArmNumber::parse(text).unwrap().to_string(), text);
        }
        let idle = ArmNumber::parse(" idle_for_disk ").unwrap();
        assert_eq!(idle.name, TrialNumber::Derived(DerivedNumber::IdleForDisk));
        for text in ["", "a b", "x*a", "0*a", "-1*a", "a/", "a/b/c", "a*b"] {
            let error = ArmNumber::parse(text).unwrap_err().to_string();
            assert!(error.contains("names no number"), "{text}: {error}");
        }
    }

    #[test]
    fn rates_and_arms_are_what_their_texts_say() {
        for (text, place) in [
            ("highest", Some(RatePlace::Highest)),
            ("lowest", Some(RatePlace::Lowest)),
            ("1.67x", Some(RatePlace::Near(1.67))),
            ("1.02x..1.25x", Some(RatePlace::Between(1.02, 1.25))),
            ("1.67", None),
            ("0x", None),
            ("2x..1x", None),
            ("top", None),
        ] {
            assert_eq!(RatePlace::parse(text), place, "{text}");
        }
        let arm = |text: &str| ArmAt::parse(text).map(|one| (one.arm, one.at));
        assert_eq!(arm("a@b"), None);
        assert_eq!(arm("eager+close"), Some(("eager+close".to_owned(), None)));
        assert_eq!(arm("cm@0.7x"), Some(("cm".to_owned(), Some(RatePlace::Near(0.7)))));
    }

    #[test]
    fn a_range_is_what_its_text_says() {
        for (text, range) in [
            (">1.05", Above(1.05)),
            ("< 0.9", Below(0.9)),
            ("<1/4", Below(0.25)),
            ("0.6..0.9", Within(0.6, 0.9)),
            ("=3%", Equal(0.03)),
            ("=1.5 %", Equal(0.015)),
            ("!=5%", Unequal(0.05)),
        ] {
            assert_eq!(Range::parse(text), Ok(range), "{text}");
            assert_eq!(Range::parse(&range.to_string()), Ok(range), "{text}");
        }
        for text in ["", "1", ">", ">x", "<1/0", "0.9..0.6", "=0%", "=-3%", "!3%", ">inf"] {
            let error = Range::parse(text).unwrap_err().to_string();
            assert!(error.contains("is no range: expected one such as"), "{text}: {error}");
        }
    }
}
