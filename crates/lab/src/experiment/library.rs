//! The experiments that come with the program.

/// Files of a folder, each by its name.
macro_rules! files {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../../", $folder, "/", $name, ".toml")))),*]
    };
}

/// Each by its name and its file's text, in the order in which they are listed.
pub const EXPERIMENTS: &[(&str, &str)] = files! { "experiments":
    "quick" "bench" "bench-servers" "bench-fields" "bench-connections" "bench-tls"
    "bench-handshakes" "bench-http2" "bench-uring" "arena-h1" "arena-h2" "layouts" "knee"
    "twice-saturation" "processes" "disk" "both-worlds"
    "eurosys07-fig1" "eurosys07-fig2" "eurosys07-fig3" "eurosys07-fig4" "eurosys07-fig5"
    "eurosys07-fig6" "eurosys07-writers" "eurosys07-fig7" "eurosys07-knot" "eurosys07-fig8"
    "eurosys07-memory" "eurosys07-caps" "eurosys07-table1" "profile" "hpl01" "hpl01-fig4"
    "hpl01-limits" "hpl01-fig13" "hpl01-fig13-2k" "systor12-fig1" "systor12-fig2"
    "systor12-fig3" "systor12-fig4" "systor12-fig5" "systor12-writers" "systor12-pollers"
    "systor12-table2" "systor12-table3" "geneves-cores" "geneves-fig1" "geneves-fig2"
    "geneves-fig4" "geneves-table3" "geneves-table1" "geneves-backlog" "azzedin-fig5"
    "azzedin-fig7" "azzedin-altered" "azzedin-pool" "azzedin-disk" "accept-strategies"
    "think-times" "threads-short" "threads-many" "architectures" "means" "hybrid-think"
    "hybrid-keepalive" "stages-cost" "stages-fair" "stages-burst" "seda-disk" "seda-overload"
    "cohort" "pollers" "residency" "amped-misses" "memory" "template-builds"
    "template-configurations" "template-site" "course-disk" "course-accept" "course-helpers"
    "course-idle" "course-barrier" "course-overload"
};

/// The text of the experiment `name`.
pub fn find(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Bases that several experiments extend, by name; a base is no experiment itself.
pub(super) const BASES: &[(&str, &str)] = files! { "experiments/base":
    "azzedin-base" "costs" "course" "course-cold" "disk-base" "ethernet" "eurosys07-base"
    "full-think" "geneves-base" "hpl01-base" "one-processor" "overload" "page-cache"
    "replica-disk" "slow-disk" "systor12-base" "systor12-disk" "think-base"
};

/// Everything that a file may extend.
pub(super) fn all() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    EXPERIMENTS.iter().chain(BASES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::evidence::{ARCHITECTURE, option};
    use crate::claims::functions::cap;
    use crate::claims::model;
    use crate::env::spec::size;
    use crate::experiment::plan;
    use crate::experiment::{Experiment, Mode, Program, RATE, Scale, Target, Warm, parse};
    use crate::programs::Other;
    use crate::stats::{Verdict, compare};
    use std::collections::BTreeSet;
    use std::ops::RangeInclusive;

    /// Every experiment at every scale.
    fn each() -> impl Iterator<Item = (&'static str, Scale, Experiment)> {
        EXPERIMENTS.iter().flat_map(|(name, text)| {
            Scale::ALL.map(|scale| (*name, scale, parse(name, text, scale).unwrap()))
        })
    }

    #[test]
    fn every_experiment_is_listed_and_right_at_every_scale() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .filter(|name| name != "claims")
            .collect();
        let listed: BTreeSet<String> = EXPERIMENTS.iter().map(|(n, _)| (*n).to_owned()).collect();
        assert_eq!(files, listed);
        for (name, _, experiment) in each() {
            assert_eq!(experiment.name, name);
        }
    }

    #[test]
    fn every_scale_has_blocks_enough_to_tell_something() {
        let tells = |blocks: u32| {
            let pair = |block| (10.0 + f64::from(block), 10.0);
            let pairs: Vec<(f64, f64)> = (0..blocks).map(pair).collect();
            compare(&pairs).is_some_and(|one| one.verdict() != Verdict::CannotTell)
        };
        for (name, scale, Experiment { measure, .. }) in each() {
            // An experiment of hours does not depend on a single trial that does not count.
            let lost = if scale == Scale::Full { 2 } else { 0 };
            let enough = measure.mode == Mode::Knee || tells(measure.blocks - lost);
            assert!(enough, "{name} at {}: {} blocks", scale.name(), measure.blocks);
        }
    }

    /// Warm-up is found, as the time that a page cache takes to fill is not known before.
    #[test]
    fn warm_up_is_found_where_there_is_a_disk_and_time_to_tell() {
        let mut found = 0;
        for (name, scale, experiment) in each() {
            let disk = experiment.specs().iter().any(|spec| spec.disk.is_some());
            let measure = &experiment.measure;
            let long = measure.warm_s + measure.window_s >= 20.0;
            let finds = measure.warm == Warm::Found;
            // Below that a request for each file warms before it.
            let wanted = disk && long && (finds || scale == Scale::Full);
            assert_eq!(finds, wanted, "{name} at {}", scale.name());
            found += u32::from(finds);
        }
        assert!(found > 10, "{found}");
    }

    /// Counters would burden each arm differently next to a server with thousands of threads.
    #[test]
    fn nobody_is_counted_beside_a_thread_for_each_connection() {
        let mut found = 0;
        for (name, text) in EXPERIMENTS {
            let experiment = parse(name, text, Scale::Replica).unwrap();
            let many = |one: &Target| cap(one) > 128;
            let threads = |one: &Target| match one.program {
                Program::Regatta => {
                    many(one) && ["knot-nptl", "mt"].contains(&option(one, ARCHITECTURE))
                }
                ref other => *other == Program::Other(Other::ApacheWorker),
            };
            if experiment.targets.iter().any(threads) {
                assert!(!experiment.measure.counters, "{name}");
                found += 1;
            }
        }
        assert!(found >= 6, "{found}");
    }

    /// The targets with a cache of their own, and what share of the files it may hold.
    fn caches(experiment: &Experiment) -> Vec<(&str, f64)> {
        let items = model::items(&experiment.workload).unwrap();
        let files: f64 = items.iter().map(|item| item.bytes as f64).sum();
        let share = |one: &'_ Target| {
            Some(size(one.config.get("cache.bytes_max")?).unwrap() as f64 / files)
        };
        let all = experiment.targets.iter();
        all.filter_map(|one| Some((one.name.as_str(), share(one)?))).collect()
    }

    /// A server's cache takes memory from the page cache, which needs some of it.
    #[test]
    fn caches_leave_room_for_the_page_cache_at_every_scale() {
        for name in ["eurosys07-fig1", "eurosys07-knot", "eurosys07-table1"] {
            for scale in Scale::ALL {
                let experiment = parse(name, find(name).unwrap(), scale).unwrap();
                let memory = experiment.environment.memory_share.unwrap();
                let all = caches(&experiment);
                assert!(!all.is_empty(), "{name}");
                for (arm, share) in all {
                    assert!(share < memory, "{name} at {}: {arm}, {share}", scale.name());
                }
            }
        }
    }

    /// Shares of the files that a cache may hold: about a third, a thirtieth or more, next to none.
    const LARGEST: RangeInclusive<f64> = 0.2..=0.45;
    const LARGE: f64 = 0.02;
    const TINY: f64 = 0.005;

    #[test]
    fn caches_have_the_sizes_that_are_asked_for_at_every_scale() {
        for scale in Scale::ALL {
            let experiment = parse("x", find("eurosys07-fig1").unwrap(), scale).unwrap();
            let all = caches(&experiment);
            let [(_, most), large @ .., (_, tiny)] = &all[..] else { panic!("{all:?}") };
            let at = scale.name();
            assert!(LARGEST.contains(most) && *tiny < TINY, "{at}: {all:?}");
            let right = |(_, share): &(&str, f64)| (LARGE..*most).contains(share);
            assert!(large.len() == 2 && large.iter().all(right), "{at}: {all:?}");
        }
    }

    /// A curve of a figure has five rates at every scale.
    #[test]
    fn a_figure_has_five_rates_at_every_scale() {
        let drawn = |name: &str| {
            let papers = ["eurosys07-fig", "systor12-fig", "hpl01-fig", "geneves-fig"];
            let others = ["eurosys07-knot", "hpl01", "azzedin-fig5", "azzedin-fig7"];
            papers.iter().any(|paper| name.starts_with(paper)) || others.contains(&name)
        };
        let mut found = 0;
        for (name, scale, experiment) in each().filter(|(name, ..)| drawn(name)) {
            let rates = experiment.factors.iter().find(|factor| factor.path == RATE);
            let rates = rates.map_or(0, |factor| factor.levels.len());
            assert!(rates >= 5, "{name} at {}: {rates} rates", scale.name());
            found += 1;
        }
        assert_eq!(found, 3 * 23);
    }

    #[test]
    fn quick_takes_less_than_three_hours_and_a_replica_six() {
        for (name, scale, experiment) in each() {
            let most = match scale {
                Scale::Quick if name == "quick" => 1.5,
                Scale::Quick => 150.0,
                Scale::Replica => 360.0,
                Scale::Full => continue,
            };
            let minutes = plan::whole_s(&experiment) / 60.0;
            assert!(minutes <= most, "{name} at {}: {minutes}", scale.name());
        }
    }
}
