//! The experiments that come with the program.

/// Each by its name and its file's text, in the order in which they are listed.
pub const EXPERIMENTS: &[(&str, &str)] = &[
    ("quick", include_str!("../../../experiments/quick.toml")),
    ("processes", include_str!("../../../experiments/processes.toml")),
    ("hpl01", include_str!("../../../experiments/hpl01.toml")),
];

/// The text of the experiment `name`.
pub fn find(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan;
    use crate::spec::{Scale, parse};
    use std::collections::BTreeSet;

    #[test]
    fn every_experiment_is_listed_and_right_at_every_scale() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments");
        let files: BTreeSet<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
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
    fn quick_is_quick() {
        for (name, text) in EXPERIMENTS {
            let experiment = parse(name, text, Scale::Quick).unwrap();
            let trials = plan::order(&experiment, plan::cells(&experiment).len()).len();
            let minutes = plan::predicted_s(&experiment, trials) / 60.0;
            assert!(minutes < 14.0, "{name}: {minutes}");
        }
    }
}
