//! Lists of prices, as TOML: those of the papers in `experiments/prices`, and measured ones.

use super::counts::{COUNTS, ReplyCounts};
use crate::stats::Random;
use regatta_load::named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const FILES: [&str; 4] = [
    include_str!("../../../../experiments/prices/eurosys07.toml"),
    include_str!("../../../../experiments/prices/hpl01.toml"),
    include_str!("../../../../experiments/prices/geneves.toml"),
    include_str!("../../../../experiments/prices/systor12.toml"),
];

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// Mark of the paper, such as `[E]`; `today` if they were measured.
    pub mark: String,
    /// Source and machine, in words.
    pub title: String,
    /// Processors that the prices are of: one server had all of them.
    pub processors: u32,
    /// Architecture whose replies prices of [`PriceBasis::ReplyLike`] are of; empty: there are
    /// none.
    #[serde(default)]
    pub like: String,
    /// Each price by its name, which is that of a count or says what it is.
    pub price: BTreeMap<String, Price>,
}

/// Time that one event takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub unit: PriceUnit,
    pub value: f64,
    /// Lowest and highest value that the source allows.
    pub spread: [f64; 2],
    /// Event that it is the price of.
    #[serde(default, skip_serializing_if = "PriceBasis::is_each")]
    pub basis: PriceBasis,
    /// Count that [`PriceBasis::ReplyLike`] goes by.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scaled: String,
    /// Line of the paper, or the micro-loop.
    pub source: String,
}

named! {
    pub enum PriceUnit {
        Nanoseconds = "ns",
        Microseconds = "us",
        /// Cycles of the processor for an instruction.
        Cycles = "cycles",
    }
}

named! {
    #[derive(Default, PartialOrd, Ord)]
    pub enum PriceBasis {
        /// Each event of the price's name.
        #[default]
        Each = "each",
        /// Each reply, of any server.
        Reply = "reply",
        /// Each reply of the list's `like`; of other servers as much more as they count more.
        ReplyLike = "reply-like",
        /// Nothing: a fact to compare with.
        Fact = "fact",
    }
}

impl PriceBasis {
    fn is_each(&self) -> bool {
        *self == Self::Each
    }
}

impl PriceUnit {
    /// Seconds of one; `None` if it is no time.
    pub fn seconds(self) -> Option<f64> {
        match self {
            Self::Nanoseconds => Some(1e-9),
            Self::Microseconds => Some(1e-6),
            Self::Cycles => None,
        }
    }
}

impl PriceList {
    /// Reads a list.
    ///
    /// # Errors
    /// No TOML, a key that is missing or unknown, a value outside of its spread or below 0, or a
    /// price without a use.
    pub fn parse(text: &str) -> Result<Self, String> {
        let list: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        let is_count = |name: &String| COUNTS.contains_key(name);
        for (name, price) in &list.price {
            let [low, high] = price.spread;
            if !(0.0 <= low && low <= price.value && price.value <= high && high.is_finite()) {
                let what = "value has to be within spread, which is [low, high]";
                return Err(format!("price.{name}: {what}"));
            }
            let is_used = match price.basis {
                PriceBasis::Each => is_count(name),
                PriceBasis::ReplyLike => is_count(&price.scaled),
                PriceBasis::Reply | PriceBasis::Fact => true,
            };
            if !is_used {
                let names = COUNTS.keys().cloned().collect::<Vec<_>>().join(", ");
                return Err(format!(
                    "price.{name}: no count has that name; expected one of {names}, or a basis"
                ));
            }
        }
        Ok(list)
    }

    /// The list as TOML, which [`PriceList::parse`] reads.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("names, texts and numbers are TOML")
    }
}

pub fn papers() -> Vec<PriceList> {
    FILES.iter().map(|text| PriceList::parse(text).expect("a test reads each")).collect()
}

/// Prices in seconds: the middle of each, or one draw from its spread.
#[derive(Clone, Debug)]
pub struct PriceDraw<'l> {
    list: &'l PriceList,
    seconds: BTreeMap<&'l str, f64>,
}

impl<'l> PriceDraw<'l> {
    pub fn middle(list: &'l PriceList) -> Self {
        Self::with(list, |[_, value, _]| value)
    }

    /// A draw of each price, uniform over its spread.
    pub fn random(list: &'l PriceList, random: &mut Random) -> Self {
        Self::with(list, |[low, _, high]| low + random.unit() * (high - low))
    }

    fn with(list: &'l PriceList, mut draw: impl FnMut([f64; 3]) -> f64) -> Self {
        let priced = |(name, price): (&'l String, &'l Price)| {
            let unit = price.unit.seconds()?;
            let [low, high] = price.spread;
            Some((name.as_str(), unit * draw([low, price.value, high])))
        };
        Self { list, seconds: list.price.iter().filter_map(priced).collect() }
    }

    /// Processor time of a reply, seconds; `like` are the counts of the list's `like`.
    pub fn cpu_s(&self, counts: &ReplyCounts, like: Option<&ReplyCounts>) -> f64 {
        let names = self.seconds.keys().filter(|name| **name != "disk");
        names.map(|name| self.paid(name, counts, like)).sum()
    }

    /// Disk time of a reply, seconds; `None` if the list has no price of the disk.
    pub fn disk_s(&self, counts: &ReplyCounts, like: Option<&ReplyCounts>) -> Option<f64> {
        let is_priced = self.seconds.contains_key("disk");
        is_priced.then(|| match counts.get("disk") {
            0.0 => 0.0,
            _ => self.paid("disk", counts, like),
        })
    }

    fn paid(&self, name: &str, counts: &ReplyCounts, like: Option<&ReplyCounts>) -> f64 {
        let price = &self.list.price[name];
        let events = match price.basis {
            PriceBasis::Each => counts.get(name),
            PriceBasis::Reply => 1.0,
            PriceBasis::ReplyLike => {
                let usual = like.map(|like| like.get(&price.scaled)).filter(|usual| *usual > 0.0);
                usual.map_or(1.0, |usual| counts.get(&price.scaled) / usual)
            }
            PriceBasis::Fact => 0.0,
        };
        events * self.seconds[name]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::median;

    fn near(what: &str, found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{what}: {found} is not {expected}");
    }

    #[test]
    fn every_list_is_read_and_names_its_source() {
        let marks: Vec<String> = FILES
            .iter()
            .map(|text| {
                let list = PriceList::parse(text).unwrap_or_else(|why| panic!("{why}"));
                for (name, price) in &list.price {
                    assert!(price.source.starts_with(&list.mark), "{name}: {}", price.source);
                }
                assert_eq!(PriceList::parse(&list.to_toml()).as_ref(), Ok(&list));
                list.mark
            })
            .collect();
        assert_eq!(marks, ["[E]", "[H]", "[G]", "[S]"]);
    }

    /// The prices add up to what the papers' servers took for a reply.
    #[test]
    fn prices_add_up_to_the_papers_replies() {
        let sum = |mark: &str, counts: &[(&str, f64)]| -> f64 {
            let list = papers().into_iter().find(|list| list.mark == mark).unwrap();
            let of = |(name, count): &(&str, f64)| {
                let price = &list.price[*name];
                1e6 * price.value * price.unit.seconds().unwrap() * count
            };
            counts.iter().map(of).sum()
        };
        let flat = [("file_system", 1.0), ("memory_and_kernel", 1.0), ("application", 1.0)];
        let of = |more: &[(&str, f64)]| sum("[E]", &[flat.as_slice(), more].concat());
        // Without the profiler's part and the waits for the disk: table 1, userver-nb and knot-c.
        let nb = [("network_byte", 14_906.0), ("wait", 1.0), ("copy_byte", 700.0)];
        near("userver-nb", of(&nb), 98.8 * 0.98, 2.0);
        let c = [("network_byte", 14_906.0), ("wait", 0.66), ("user_switch", 1.47)];
        let copied = [("copy_byte", 14_906.0), ("kernel_switch", 0.23)];
        near("knot-c", of(&[c.as_slice(), &copied].concat()), 119.1 * 0.98, 6.0);
        let accepts = [("accept", 1.0), ("accept_empty", 0.136)];
        let rest = [("existing", 1.0), ("connection", 1.0), ("wait", 1.0 / 7.0)];
        near("acceptinf", sum("[H]", &[accepts.as_slice(), &rest].concat()), 238.0, 1.0);
        // Saturated at 3,100 to 3,200 a second.
        let one = [("accept", 1.0), ("existing", 1.0), ("connection", 1.0), ("wait", 1.0)];
        near("accept1", sum("[H]", &one), 317.5, 5.0);
        let whole = [("kernel", 1.0), ("driver", 1.0), ("program", 1.0)];
        near("[S], 4 GB", sum("[S]", &whole), 83.0, 5.0);
        // Two disks share the requests, and are busy at WatPipe's 39,951 replies a second.
        near("[S], disks", sum("[S]", &[("disk", 0.5)]) * 39_951.0 / 1e6, 1.0, 0.1);
    }

    #[test]
    fn faults_are_named() {
        let list = |price: &str| {
            let head = "mark = \"m\"\ntitle = \"t\"\nprocessors = 1\n[price.wait]\n";
            PriceList::parse(&format!("{head}unit = \"us\"\nsource = \"s\"\n{price}\n"))
        };
        assert!(list("value = 1.0\nspread = [1.0, 2.0]").is_ok());
        for (price, part) in [
            ("value = 3.0\nspread = [1.0, 2.0]", "price.wait: value has to be within spread"),
            ("value = -1.0\nspread = [-2.0, 2.0]", "price.wait: value has to be"),
            ("value = 1.0\nspread = [1.0, 2.0]\nmore = 1", "more"),
            ("value = 1.0", "spread"),
            ("value = 1.0\nspread = [1.0, 2.0]\nbasis = \"reply-like\"", "no count has that name"),
            ("value = 1.0\nspread = [1.0, 2.0]\nbasis = \"all\"", "all"),
        ] {
            let said = list(price).unwrap_err().to_string();
            assert!(said.contains(part), "{price}: {said}");
        }
    }

    fn list(prices: &str) -> PriceList {
        let head = "mark = \"m\"\ntitle = \"t\"\nprocessors = 1\nlike = \"sped\"\n";
        PriceList::parse(&format!("{head}{prices}")).unwrap()
    }

    fn price(name: &str, unit: &str, value: f64, rest: &str) -> String {
        let spread = [0.5 * value, 2.0 * value];
        format!(
            "[price.{name}]\nunit = {unit:?}\nvalue = {value:?}\nspread = {spread:?}\n\
             source = \"s\"\n{rest}\n"
        )
    }

    #[test]
    fn a_reply_costs_its_counts_times_their_prices() {
        let counts = ReplyCounts::made_of(&[("wait", 0.5), ("send", 2.0), ("disk", 0.1)]);
        let like = ReplyCounts::made_of(&[("wait", 0.25), ("disk", 0.2)]);
        let scaled = "basis = \"reply-like\"\nscaled = \"wait\"";
        for (prices, cpu_us) in [
            (price("send", "us", 3.0, ""), 6.0),
            (price("send", "ns", 3_000.0, ""), 6.0),
            (price("read", "us", 3.0, ""), 0.0),
            (price("rest", "us", 3.0, "basis = \"reply\""), 3.0),
            (price("rest", "us", 3.0, "basis = \"fact\""), 0.0),
            (price("send", "cycles", 3.0, ""), 0.0),
            (price("polls", "us", 3.0, scaled), 6.0),
            (price("send", "us", 3.0, "") + &price("wait", "us", 2.0, ""), 7.0),
        ] {
            let list = list(&prices);
            let draw = PriceDraw::middle(&list);
            let found = 1e6 * draw.cpu_s(&counts, Some(&like));
            assert!((found - cpu_us).abs() < 1e-9, "{prices}: {found}");
            assert_eq!(draw.disk_s(&counts, Some(&like)), None, "{prices}");
        }
        let disk = list(&price("disk", "us", 8.0, "basis = \"reply-like\"\nscaled = \"disk\""));
        let draw = PriceDraw::middle(&disk);
        for (counts, like, us) in [
            (&counts, Some(&like), 4.0),
            (&counts, None, 8.0),
            (&ReplyCounts::default(), Some(&like), 0.0),
        ] {
            let found = 1e6 * draw.disk_s(counts, like).unwrap();
            assert!((found - us).abs() < 1e-9, "{found} is not {us}");
            assert_eq!(draw.cpu_s(counts, like), 0.0);
        }
    }

    #[test]
    fn draws_cover_the_spread() {
        let list = list(&price("send", "us", 3.0, ""));
        let counts = ReplyCounts::made_of(&[("send", 1.0)]);
        let mut random = Random::new(1);
        let draw = |_| 1e6 * PriceDraw::random(&list, &mut random).cpu_s(&counts, None);
        let draws: Vec<f64> = (0..1_000).map(draw).collect();
        assert!(draws.iter().all(|us| (1.5..6.0).contains(us)));
        assert!((3.5..4.0).contains(&median(&draws)), "{}", median(&draws));
    }
}
