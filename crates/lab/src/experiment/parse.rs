//! Reads an experiment's file.

use super::file::{File, Layer, lay, layers, leaves, word};
use super::multiples::is_multiple;
use super::{
    CONNECTIONS, Experiment, Factor, LAYOUT, PROCESSORS, Program, RATE, Rules, Scale, THINK,
    Target, check, environment, read_claims,
};
use crate::experiment::client::{FIELDS, STREAMS, TARGET, TLS};
use crate::programs::Other;
use crate::record::target_option;
use regatta_load::workload::presets;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

/// Values of the keys that a file leaves out, and the ranges of numbers.
const DEFAULTS: &str = include_str!("../../assets/defaults.toml");
/// Levels of one factor at most.
const LEVELS_MAX: usize = 64;
/// Factors that are no key of the environment and no option of a target.
const FACTORS: [&str; 9] =
    [RATE, CONNECTIONS, THINK, TARGET, FIELDS, TLS, STREAMS, PROCESSORS, LAYOUT];
/// Reads the experiment in `text` at a scale; or all that is wrong with it, each with its place,
/// in which `name` stands.
pub fn parse(name: &str, text: &str, at_scale: Scale) -> Result<Experiment, Vec<String>> {
    parse_by(None, name, text, at_scale)
}

/// The same, with options and their values held against the rules of the measured program; None:
/// they are taken as they are.
pub fn parse_by(
    rules: Option<Rules>,
    name: &str,
    text: &str,
    at_scale: Scale,
) -> Result<Experiment, Vec<String>> {
    let layers = layers(name, text)?;
    let texts: Vec<String> = layers.iter().map(Layer::placed).collect();
    let mut file = File::new(layers, &texts);
    let mut defaults = DeTable::parse(DEFAULTS).expect("the defaults are TOML").into_inner();
    let ranges = defaults.remove("ranges").and_then(|ranges| file.read("ranges", ranges));
    let usual = sections(&file, defaults.clone()).expect("the defaults are an experiment");
    file.take_unknown(&known(&usual));
    file.apply(at_scale);
    check_ranges(&file, &ranges.expect("the defaults have ranges"));
    let experiment = experiment(&file, defaults, rules);
    file.end(experiment)
}

fn known(usual: &Experiment) -> Value {
    let config = json!({ "*": 0 });
    let mut known = json!({
        "experiment":
            { "name": 0, "question": 0, "expect": 0, "baseline": 0, "papers": 0, "claims": 0 },
        "targets": { "*": { "program": 0, "command": 0, "binary": 0, "config": config } },
        "regatta": { "config": config },
        "factors": { "*": 0 },
        "workload": usual.workload,
        "calibrate": usual.calibrate,
        "machine": usual.machine,
        "environment": environment::known(),
        "measure": usual.measure,
        "guards": usual.guards,
        "knee": usual.knee,
        "claim": read_claims::known(),
    });
    known["measure"]["profile_at"] = json!({ "*": 0 });
    let scale = known.clone();
    for name in Scale::ALL.map(Scale::name) {
        known["scale"][name] = scale.clone();
    }
    known
}

/// Holds numbers against the least and the most that they may be.
fn check_ranges(file: &File<'_>, ranges: &BTreeMap<String, (f64, f64)>) {
    for (key, (least, most)) in ranges {
        let value = file.find(key).cloned().map(ValueDeserializer::from);
        let number = value.and_then(|value| f64::deserialize(value).ok());
        if number.is_some_and(|number| !(*least..=*most).contains(&number)) {
            file.say(format!("{key}: expected a number from {least} to {most}"));
        }
    }
}

/// Reads all but targets and factors, which have names of their own, and rows of claims.
fn sections(file: &File<'_>, mut whole: DeTable<'_>) -> Option<Experiment> {
    for name in ["targets", "factors", "regatta", "claim"] {
        whole.remove(name);
    }
    let about = whole.remove("experiment").map(Spanned::into_inner);
    if let Some(DeValue::Table(about)) = about {
        whole.extend(about);
    }
    file.read("experiment", Spanned::new(0..0, DeValue::Table(whole)))
}

fn experiment<'t>(
    file: &File<'t>,
    defaults: DeTable<'t>,
    rules: Option<Rules>,
) -> Option<Experiment> {
    let mut whole = defaults;
    lay(file.table.clone(), &mut whole);
    if file.find("calibrate").is_none() {
        whole.remove("calibrate");
    }
    let targets = targets(file, rules);
    let mut experiment = sections(file, whole)?;
    let own = experiment.machine.server_cpus.len();
    experiment.factors = factors(file, &targets, own, rules);
    if let (true, Some(first)) = (experiment.baseline.is_empty(), targets.first()) {
        experiment.baseline.clone_from(&first.name);
    }
    experiment.targets = targets;
    read_claims::add(file, &mut experiment);
    if let Some(calibrate) = experiment.calibrate.as_mut().filter(|one| one.target.is_empty()) {
        calibrate.target.clone_from(&experiment.baseline);
    }
    // A preset that has to warm up does, unless the file says for how long.
    let preset = experiment.workload.preset.as_deref().and_then(presets::find);
    let warms = preset.map(|preset| preset.offer.warm_up_s).filter(|seconds| *seconds > 0);
    if let (None, Some(seconds)) = (file.find("measure.warm_s"), warms) {
        experiment.measure.warm_s = seconds.into();
    }
    // If all requests may fail, their connections may, too.
    if file.find("guards.syn_drops_max").is_none() && experiment.guards.errors_max >= 1.0 {
        experiment.guards.syn_drops_max = 1.0;
    }
    check::faults(&experiment).into_iter().for_each(|fault| file.say(fault));
    Some(experiment)
}

/// A target as written. `[regatta]` has the options alone.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TargetTable {
    program: Option<String>,
    command: Vec<String>,
    binary: Option<String>,
    config: Map<String, Value>,
}

fn targets(file: &File<'_>, rules: Option<Rules>) -> Vec<Target> {
    let mut targets = Vec::new();
    for (name, value) in file.entries("targets") {
        let path = format!("targets.{name}");
        let Some(table) = file.read::<TargetTable>(&path, value.clone()) else { continue };
        let program = match table.program.as_deref().unwrap_or("regatta") {
            "regatta" => Program::Regatta,
            "null" => Program::Null,
            "null-uring" => Program::NullUring,
            "command" if !table.command.is_empty() => Program::Command(table.command),
            "command" => {
                file.say(format!("{path}: the program `command` needs `command = [...]`"));
                continue;
            }
            other => {
                let Some(other) = Other::named(other) else {
                    let others = Other::ALL.map(Other::name).join(", ");
                    let known = format!("regatta, null, null-uring, {others}, command");
                    file.say(format!("{path}: program {other:?} is none of {known}"));
                    continue;
                };
                Program::Other(other)
            }
        };
        // Another build has options of its own.
        let rules = rules.filter(|_| table.binary.is_none());
        let config = options(file, &path, &table.config, rules);
        if program != Program::Regatta && !config.is_empty() {
            file.say(format!("{path}: only the program `regatta` takes `config`"));
        }
        targets.push(Target { name: name.to_owned(), program, config, binary: table.binary });
    }
    if targets.is_empty() {
        file.say("there is no target: give [targets.NAME]".to_owned());
    }
    // Options of all; a target's own go first.
    let common = file.find("regatta").and_then(|value| file.read("regatta", value.clone()));
    let common: TargetTable = common.unwrap_or_default();
    let rules = rules.filter(|_| targets.iter().any(Target::is_ours));
    let common = options(file, "regatta", &common.config, rules);
    for target in targets.iter_mut().filter(|target| target.program == Program::Regatta) {
        for (key, value) in &common {
            target.config.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    targets
}

/// `config.server.architecture = "sped"` as `server.architecture`: `sped`.
fn options(
    file: &File<'_>,
    path: &str,
    config: &Map<String, Value>,
    rules: Option<Rules>,
) -> BTreeMap<String, String> {
    let (mut options, mut all) = (BTreeMap::new(), Vec::new());
    config.iter().for_each(|(key, value)| leaves(key, value, &mut all));
    for (key, value) in all {
        let fault = match word(value) {
            None => Some("expected a value that an option can have".to_owned()),
            Some(word) => {
                let fault = option_fault(rules, &key, &word);
                options.insert(key.clone(), word);
                fault
            }
        };
        if let Some(fault) = fault {
            file.say(format!("{path}.config.{key}: {fault}"));
        }
    }
    options
}

fn option_fault(rules: Option<Rules>, key: &str, value: &str) -> Option<String> {
    let rules = rules.filter(|_| !is_multiple(key, value))?;
    (rules.fault)(key, value)
}

fn factors(file: &File<'_>, targets: &[Target], own: usize, rules: Option<Rules>) -> Vec<Factor> {
    let mut factors = Vec::new();
    for (path, value) in file.entries("factors") {
        let say = |fault: &str| file.say(format!("factors.{path}: {fault}"));
        let option = target_option(path);
        if !FACTORS.contains(&path) && !environment::is_factor(path) && option.is_none() {
            let known = FACTORS.join(", ");
            say(&format!("not a factor: {known}, environment.KEY or targets.NAME.config.KEY"));
        }
        let name = format!("factors.{path}");
        let Some(items) = file.read::<Vec<Value>>(&name, value.clone()) else { continue };
        if items.is_empty() || items.len() > LEVELS_MAX {
            say(&format!("expected 1 to {LEVELS_MAX} levels"));
        }
        let levels: Vec<String> = items.iter().filter_map(word).collect();
        if levels.iter().collect::<BTreeSet<_>>().len() < items.len() {
            say("levels are single values, each once");
        }
        let faults = levels.iter().filter_map(|level| check::level_fault(path, level, own));
        faults.for_each(|fault| say(&fault));
        // A name of no target is reported once all are known.
        let target = targets.iter().find(|one| option.is_some_and(|(name, _)| name == one.name));
        if target.is_some_and(|target| target.program != Program::Regatta) {
            say("only the program `regatta` takes options");
        } else if let (Some((_, key)), true) = (option, target.is_some_and(Target::is_ours)) {
            let faults = levels.iter().filter_map(|level| option_fault(rules, key, level));
            faults.for_each(|fault| say(&fault));
        }
        factors.push(Factor { path: path.to_owned(), levels });
    }
    factors
}
