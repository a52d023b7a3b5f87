//! Processor and disk time of a reply: its counts times their prices.

use super::counts::ReplyCounts;
use super::list::{Price, PriceBasis, PriceList};
use crate::stats::Random;
use std::collections::BTreeMap;

/// Prices in seconds: the middle of each, or one draw from its spread.
#[derive(Clone, Debug)]
pub struct PriceDraw<'l> {
    list: &'l PriceList,
    seconds: BTreeMap<&'l str, f64>,
}

impl<'l> PriceDraw<'l> {
    /// Middles of all prices.
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
