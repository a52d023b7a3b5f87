//! The experiments that come with the program.

/// Each by its name and its file's text, in the order in which they are listed.
pub const EXPERIMENTS: &[(&str, &str)] = &[
    ("quick", include_str!("../../../../experiments/quick.toml")),
    ("bench", include_str!("../../../../experiments/bench.toml")),
    ("bench-fields", include_str!("../../../../experiments/bench-fields.toml")),
    ("bench-connections", include_str!("../../../../experiments/bench-connections.toml")),
    ("layouts", include_str!("../../../../experiments/layouts.toml")),
    ("knee", include_str!("../../../../experiments/knee.toml")),
    ("processes", include_str!("../../../../experiments/processes.toml")),
    ("disk", include_str!("../../../../experiments/disk.toml")),
    ("eurosys07-fig1", include_str!("../../../../experiments/eurosys07-fig1.toml")),
    ("eurosys07-fig2", include_str!("../../../../experiments/eurosys07-fig2.toml")),
    ("eurosys07-fig3", include_str!("../../../../experiments/eurosys07-fig3.toml")),
    ("eurosys07-fig4", include_str!("../../../../experiments/eurosys07-fig4.toml")),
    ("eurosys07-fig5", include_str!("../../../../experiments/eurosys07-fig5.toml")),
    ("eurosys07-fig7", include_str!("../../../../experiments/eurosys07-fig7.toml")),
    ("eurosys07-knot", include_str!("../../../../experiments/eurosys07-knot.toml")),
    ("eurosys07-fig8", include_str!("../../../../experiments/eurosys07-fig8.toml")),
    ("eurosys07-memory", include_str!("../../../../experiments/eurosys07-memory.toml")),
    ("eurosys07-caps", include_str!("../../../../experiments/eurosys07-caps.toml")),
    ("eurosys07-table1", include_str!("../../../../experiments/eurosys07-table1.toml")),
    ("profile", include_str!("../../../../experiments/profile.toml")),
    ("hpl01", include_str!("../../../../experiments/hpl01.toml")),
    ("hpl01-fig4", include_str!("../../../../experiments/hpl01-fig4.toml")),
    ("hpl01-limits", include_str!("../../../../experiments/hpl01-limits.toml")),
    ("hpl01-fig13", include_str!("../../../../experiments/hpl01-fig13.toml")),
    ("hpl01-fig13-2k", include_str!("../../../../experiments/hpl01-fig13-2k.toml")),
    ("systor12-fig1", include_str!("../../../../experiments/systor12-fig1.toml")),
    ("systor12-fig2", include_str!("../../../../experiments/systor12-fig2.toml")),
    ("systor12-fig3", include_str!("../../../../experiments/systor12-fig3.toml")),
    ("systor12-fig4", include_str!("../../../../experiments/systor12-fig4.toml")),
    ("systor12-fig5", include_str!("../../../../experiments/systor12-fig5.toml")),
    ("systor12-table2", include_str!("../../../../experiments/systor12-table2.toml")),
    ("systor12-table3", include_str!("../../../../experiments/systor12-table3.toml")),
    ("geneves-cores", include_str!("../../../../experiments/geneves-cores.toml")),
    ("geneves-fig1", include_str!("../../../../experiments/geneves-fig1.toml")),
    ("geneves-fig2", include_str!("../../../../experiments/geneves-fig2.toml")),
    ("geneves-fig4", include_str!("../../../../experiments/geneves-fig4.toml")),
    ("geneves-table3", include_str!("../../../../experiments/geneves-table3.toml")),
    ("geneves-table1", include_str!("../../../../experiments/geneves-table1.toml")),
    ("geneves-backlog", include_str!("../../../../experiments/geneves-backlog.toml")),
    ("azzedin-fig5", include_str!("../../../../experiments/azzedin-fig5.toml")),
    ("azzedin-fig7", include_str!("../../../../experiments/azzedin-fig7.toml")),
    ("azzedin-altered", include_str!("../../../../experiments/azzedin-altered.toml")),
    ("azzedin-pool", include_str!("../../../../experiments/azzedin-pool.toml")),
    ("azzedin-disk", include_str!("../../../../experiments/azzedin-disk.toml")),
    ("accept-strategies", include_str!("../../../../experiments/accept-strategies.toml")),
    ("think-times", include_str!("../../../../experiments/think-times.toml")),
    ("threads-short", include_str!("../../../../experiments/threads-short.toml")),
    ("threads-many", include_str!("../../../../experiments/threads-many.toml")),
    ("threads-cost", include_str!("../../../../experiments/threads-cost.toml")),
    ("means", include_str!("../../../../experiments/means.toml")),
    ("hybrid-think", include_str!("../../../../experiments/hybrid-think.toml")),
    ("hybrid-keepalive", include_str!("../../../../experiments/hybrid-keepalive.toml")),
    ("pollers", include_str!("../../../../experiments/pollers.toml")),
    ("residency", include_str!("../../../../experiments/residency.toml")),
    ("amped-misses", include_str!("../../../../experiments/amped-misses.toml")),
    ("memory", include_str!("../../../../experiments/memory.toml")),
    ("template-builds", include_str!("../../../../experiments/template-builds.toml")),
    (
        "template-configurations",
        include_str!("../../../../experiments/template-configurations.toml"),
    ),
    ("template-site", include_str!("../../../../experiments/template-site.toml")),
];

/// The text of the experiment `name`.
pub fn find(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// What several of them share, by name: they extend it, and it is none itself.
pub(super) const BASES: &[(&str, &str)] = &[
    ("azzedin-base", include_str!("../../../../experiments/base/azzedin-base.toml")),
    ("disk-base", include_str!("../../../../experiments/base/disk-base.toml")),
    ("eurosys07-base", include_str!("../../../../experiments/base/eurosys07-base.toml")),
    ("geneves-base", include_str!("../../../../experiments/base/geneves-base.toml")),
    ("hpl01-base", include_str!("../../../../experiments/base/hpl01-base.toml")),
    ("one-processor", include_str!("../../../../experiments/base/one-processor.toml")),
    ("overload", include_str!("../../../../experiments/base/overload.toml")),
    ("replica-disk", include_str!("../../../../experiments/base/replica-disk.toml")),
    ("systor12-base", include_str!("../../../../experiments/base/systor12-base.toml")),
    ("systor12-disk", include_str!("../../../../experiments/base/systor12-disk.toml")),
    ("think-base", include_str!("../../../../experiments/base/think-base.toml")),
];

/// Everything that a file may extend.
pub(super) fn all() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    EXPERIMENTS.iter().chain(BASES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::arms::cap;
    use crate::claims::evidence::{ARCHITECTURE, option};
    use crate::claims::model;
    use crate::claims::threads::{LARGE, LARGEST, TINY};
    use crate::env::spec::size;
    use crate::experiment::plan;
    use crate::experiment::{Experiment, Mode, Program, Scale, Target, Warm, parse};
    use crate::programs::Other;
    use crate::stats::{Verdict, compare, judged_together};
    use std::collections::BTreeSet;

    #[test]
    fn every_experiment_is_listed_and_right_at_every_scale() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file())
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        let listed: BTreeSet<String> = EXPERIMENTS.iter().map(|(n, _)| (*n).to_owned()).collect();
        assert_eq!(files, listed);
        for (name, text) in EXPERIMENTS {
            for scale in Scale::ALL {
                let experiment = parse(name, text, scale).unwrap();
                assert_eq!(experiment.name, *name);
            }
        }
    }

    #[test]
    fn every_scale_has_blocks_enough_to_tell_something() {
        let tells = |blocks: u32| {
            let pair = |block| (10.0 + f64::from(block), 10.0);
            let pairs: Vec<(f64, f64)> = (0..blocks).map(pair).collect();
            compare(&pairs)
                .is_some_and(|one| judged_together(&[(one, 0.0)], 1)[0].1 != Verdict::CannotTell)
        };
        for (name, text) in EXPERIMENTS {
            for scale in Scale::ALL {
                let measure = parse(name, text, scale).unwrap().measure;
                // What takes hours does not hang on one trial that does not count.
                let lost = if scale == Scale::Full { 2 } else { 0 };
                let enough = measure.mode == Mode::Knee || tells(measure.blocks - lost);
                assert!(enough, "{name} at {}: {} blocks", scale.name(), measure.blocks);
            }
        }
    }

    /// How long a page cache takes to fill is not known before.
    #[test]
    fn warm_up_is_found_where_there_is_a_disk_and_time_to_tell() {
        let mut found = 0;
        for (name, text) in EXPERIMENTS {
            for scale in Scale::ALL {
                let experiment = parse(name, text, scale).unwrap();
                let disk = experiment.specs().iter().any(|spec| spec.disk.is_some());
                let measure = &experiment.measure;
                let long = measure.warm_s + measure.window_s >= 20.0;
                let finds = measure.warm == Warm::Found;
                assert_eq!(finds, disk && long, "{name} at {}", scale.name());
                found += u32::from(finds);
            }
        }
        assert!(found > 10, "{found}");
    }

    /// Beside a server with thousands of threads, counters would be a burden of each arm's own.
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

    /// What a server's cache takes, the page cache loses: some has to be left for it.
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

    #[test]
    fn quick_is_quick() {
        for (name, text) in EXPERIMENTS {
            let experiment = parse(name, text, Scale::Quick).unwrap();
            let trials = plan::order(&experiment, plan::cells(&experiment).len()).len();
            let minutes = plan::predicted_s(&experiment, trials) / 60.0;
            let most = if *name == "quick" { 1.5 } else { 14.0 };
            assert!(minutes < most, "{name}: {minutes}");
        }
    }

    #[test]
    fn a_replica_is_done_within_half_an_hour() {
        for (name, text) in EXPERIMENTS {
            let experiment = parse(name, text, Scale::Replica).unwrap();
            let trials = plan::order(&experiment, plan::cells(&experiment).len()).len();
            let minutes = plan::predicted_s(&experiment, trials) / 60.0;
            assert!(minutes <= 30.0, "{name}: {minutes}");
        }
    }
}
