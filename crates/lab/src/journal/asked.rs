//! What a run asked for, to be compared with what another did.

use super::Run;
use crate::experiment::flatten;
use crate::units::show;
use std::collections::BTreeMap;

impl Run {
    /// The name under which [`Run::asked`] has the calibrated rate.
    pub(crate) const UNIT: &str = "what 1x is, requests per second";

    /// What was asked for, by the experiment's own keys.
    pub(crate) fn asked(&self) -> BTreeMap<String, String> {
        let experiment = &self.experiment;
        let mut all = BTreeMap::new();
        all.insert("experiment".to_owned(), experiment.name.clone());
        all.insert("scale".to_owned(), self.manifest.scale.name().to_owned());
        all.insert("baseline".to_owned(), experiment.baseline.clone());
        if let Some(unit) = self.manifest.unit {
            all.insert(Self::UNIT.to_owned(), show(unit));
        }
        let whole = serde_json::to_value(experiment).unwrap_or_default();
        for name in "workload calibrate machine environment measure guards knee".split(' ') {
            flatten(name, &whole[name], &mut all);
        }
        for target in &experiment.targets {
            let path = format!("targets.{}", target.name);
            flatten(&path, &serde_json::to_value(target).unwrap_or_default(), &mut all);
        }
        for factor in &experiment.factors {
            all.insert(format!("factors.{}", factor.path), factor.levels.join(", "));
        }
        all
    }
}
