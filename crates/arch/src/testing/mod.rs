//! Helpers of tests.
pub(crate) mod dice;
pub(crate) mod notices;
pub(crate) use regatta_testkit::folder;

use crate::options::{OptionSpec, Settings};

/// These options, some of them with other values than their defaults.
pub(crate) fn settings(specs: &[OptionSpec], sets: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults(specs);
    for (key, value) in sets {
        let spec = specs.iter().find(|spec| spec.key == *key).unwrap();
        settings.set(spec, spec.kind.parse(value).unwrap()).unwrap();
    }
    settings
}
