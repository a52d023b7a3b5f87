//! Faults that strike the workers: nothing, but in a build with the feature `chaos`.
#[cfg(feature = "chaos")]
pub use on::KEYS;

/// What is to strike the workers of a server. The master is spared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    #[cfg(feature = "chaos")]
    plan: Option<regatta_sys::chaos::Plan>,
}

impl Faults {
    /// Lets them strike this process from now on.
    pub(crate) fn strike(self) {
        #[cfg(feature = "chaos")]
        if let Some(plan) = self.plan {
            regatta_sys::chaos::install(plan);
        }
    }
}

#[cfg(feature = "chaos")]
mod on {
    use super::Faults;
    use regatta_sys::chaos::Plan;
    use std::str::FromStr;

    /// What `--chaos` takes, one key on each line with what it means.
    pub const KEYS: &str = "\
Keys of --chaos, whose values are whole numbers:
  seed                     where the sequence of faults starts
  short_per_mille          receives and sends that move less than they could
  eintr_per_mille          calls that a signal seems to interrupt
  eagain_per_mille         calls that seem to find nothing to do
  emfile_accept_per_mille  accepts that seem to find no free descriptor
  slow_open_per_mille      opens that take slow_open_us longer
  slow_open_us             how long a slow open takes, microseconds
  slow_read_per_mille      files on a slow disk, and not in memory before their first read
  slow_read_us             how long that read takes, microseconds
  die_locked_per_mille     points in a change of a shared cache at which a worker is killed";

    impl FromStr for Faults {
        type Err = String;

        /// Reads `key=value,…`; what is not named does not strike.
        fn from_str(text: &str) -> Result<Self, String> {
            parse(text).map(|plan| Self { plan: Some(plan) })
        }
    }

    fn parse(text: &str) -> Result<Plan, String> {
        let mut plan = Plan::default();
        let mut given = Vec::new();
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("\"{part}\" is not key=value\n{KEYS}"))?;
            if given.contains(&key) {
                return Err(format!("{key} is there twice"));
            }
            given.push(key);
            match key {
                "seed" => plan.seed = number(key, value)?,
                "short_per_mille" => plan.short_per_mille = rate(key, value)?,
                "eintr_per_mille" => plan.eintr_per_mille = rate(key, value)?,
                "eagain_per_mille" => plan.eagain_per_mille = rate(key, value)?,
                "emfile_accept_per_mille" => plan.emfile_accept_per_mille = rate(key, value)?,
                "slow_open_per_mille" => plan.slow_open_per_mille = rate(key, value)?,
                "slow_open_us" => plan.slow_open_us = number(key, value)?,
                "slow_read_per_mille" => plan.slow_read_per_mille = rate(key, value)?,
                "slow_read_us" => plan.slow_read_us = number(key, value)?,
                "die_locked_per_mille" => plan.die_locked_per_mille = rate(key, value)?,
                _ => return Err(format!("there is no key \"{key}\"\n{KEYS}")),
            }
        }
        Ok(plan)
    }

    fn number<T: FromStr>(key: &str, value: &str) -> Result<T, String> {
        value.parse().map_err(|_| format!("{key}: expected a whole number, got \"{value}\""))
    }

    fn rate(key: &str, value: &str) -> Result<u32, String> {
        match number(key, value)? {
            rate @ 0..=1000 => Ok(rate),
            _ => Err(format!("{key}: expected 0 to 1000, got \"{value}\"")),
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn plans_are_read_or_explained() {
            let plan = Plan { seed: 7, short_per_mille: 1000, ..Plan::default() };
            assert_eq!(parse("seed=7,short_per_mille=1000"), Ok(plan));
            let all = "seed=1,short_per_mille=2,eintr_per_mille=3,eagain_per_mille=4,\
                       emfile_accept_per_mille=5,slow_open_per_mille=6,slow_open_us=7,\
                       slow_read_per_mille=8,slow_read_us=9,\
                       die_locked_per_mille=10";
            let expect = Plan {
                seed: 1,
                short_per_mille: 2,
                eintr_per_mille: 3,
                eagain_per_mille: 4,
                emfile_accept_per_mille: 5,
                slow_open_per_mille: 6,
                slow_open_us: 7,
                slow_read_per_mille: 8,
                slow_read_us: 9,
                die_locked_per_mille: 10,
            };
            assert_eq!(parse(all), Ok(expect));
            for (text, part) in [
                ("", "\"\" is not key=value"),
                ("seed", "\"seed\" is not key=value"),
                ("sed=1", "there is no key \"sed\""),
                ("sed=1", "slow_open_us"),
                ("seed=-1", "seed: expected a whole number, got \"-1\""),
                ("eintr_per_mille=1001", "eintr_per_mille: expected 0 to 1000"),
                ("seed=1,seed=2", "seed is there twice"),
            ] {
                let message = parse(text).expect_err(text);
                assert!(message.contains(part), "{message}");
            }
            for key in all.split(',').filter_map(|part| part.split('=').next()) {
                assert!(KEYS.contains(&format!("\n  {key} ")), "{key} is not explained");
            }
        }
    }
}
