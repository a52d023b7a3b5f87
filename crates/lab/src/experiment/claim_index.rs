//! Index of claims (systems.md §9), in its order, with those that take an architecture or a machine
//! that is not here. Behind them the bars of this project.

use regatta_load::named;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::LazyLock;

/// A claim of a paper, or a bar of ours.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// Name.
    pub id: String,
    /// Sentence, with `{}` for each range.
    gist: String,
    /// Ranges that it says something is in, which are those that are asked for.
    #[serde(default)]
    pub ranges: Vec<Range>,
    /// Resources that decide it, in words.
    pub needs: String,
    /// Resources among those that a machine may lack.
    #[serde(default)]
    pub takes: Vec<Resource>,
    /// Processors that the server has to have for itself, at least; 0: any.
    #[serde(default)]
    pub processors: usize,
    /// The paper's number.
    pub paper: String,
    /// Whether it takes something that is not built.
    #[serde(default)]
    pub not_built: bool,
    /// Whether it is said of several workloads, so that one refutes it.
    #[serde(default)]
    pub each_workload: bool,
}

named! {
    /// Part of an environment or a machine that decides a claim.
    pub enum Resource {
        /// A simulated disk.
        Disk = "disk",
        /// A limit on memory.
        Memory = "memory",
        /// A network of the server's own.
        Network = "network",
        /// Counters of the processor.
        Counters = "counters",
    }
}

/// Range in which a claim says that a number lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Range {
    /// More than this.
    Above(f64),
    /// Less than this.
    Below(f64),
    /// Between these.
    Within(f64, f64),
    /// 1, but for this share either way: from 1 / (1 + share) to 1 + share.
    Equal(f64),
    /// Less or more than that.
    Unequal(f64),
}

use Range::{Above, Below, Equal, Unequal, Within};

/// Text that is no range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeError(String);

impl Display for RangeError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no range: expected one such as \">1.05\", \"<0.9\", \"0.6..0.9\", \"=3%\" or \
             \"!=3%\"",
            self.0
        )
    }
}

impl Error for RangeError {}

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
    pub(crate) fn parse(text: &str) -> Result<Self, RangeError> {
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
        range.ok_or_else(|| RangeError(text.to_owned()))
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

impl TryFrom<String> for Range {
    type Error = RangeError;

    fn try_from(text: String) -> Result<Self, RangeError> {
        Self::parse(&text)
    }
}

impl From<Range> for String {
    fn from(range: Range) -> Self {
        range.to_string()
    }
}

impl Claim {
    /// Sentence with its ranges.
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

    /// Claim of that name.
    pub(crate) fn named(id: &str) -> Option<&'static Self> {
        CLAIMS.iter().find(|claim| claim.id == id)
    }

    /// Whether it takes a resource.
    pub(crate) fn takes(&self, resource: Resource) -> bool {
        self.takes.contains(&resource)
    }
}

/// A range of a claim, by its place among them.
pub(crate) fn range(id: &str, at: usize) -> Range {
    Claim::named(id).expect("predicates are of claims").ranges[at]
}

/// File of the index.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Index {
    claim: Vec<Claim>,
}

/// All claims.
pub static CLAIMS: LazyLock<Vec<Claim>> = LazyLock::new(|| {
    let text = include_str!("../../../../experiments/claims.toml");
    toml::from_str::<Index>(text).expect("a test reads it").claim
});

#[cfg(test)]
mod tests {
    use super::*;

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
