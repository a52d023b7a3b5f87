//! Reads an experiment's file.

use super::fields::{At, Fields, Report, nearest, number, word};
use super::multiples;
use super::multiples::rate;
use super::plan::at_a_time;
use super::search::{self, Mode, Warm};
use super::{
    Ask, Calibrate, Client, CpuLayout, Encryption, Experiment, Factor, Guards, LAYOUT, Loop,
    Machine, Measure, PROCESSORS, Program, RequestFields, Rules, Scale, Target, Workload, client,
    environment, extends, metrics, scale,
};
use crate::env::spec;
use crate::experiment::claim_index::CLAIMS;
use crate::programs::Other;
use regatta_load::workload::presets;
use std::collections::{BTreeMap, BTreeSet};
use toml::de::{DeTable, DeValue};

/// Levels of one factor at most.
const LEVELS_MAX: usize = 64;
/// Cells of a plan at most, the baseline's second run not counted.
pub const CELLS_MAX: usize = 4_096;
/// What sessions do between their requests.
const THINKS: [&str; 2] = ["kept", "none"];
/// The factor of it.
const THINK: &str = "workload.think";
/// The least share of a processor that the load of an arm among others is to hold, per cent: where
/// twelve had 5 each, loads were late, and looking at the servers took as long as the measurement.
const LOAD_SHARE_MIN: u32 = 10;
/// Times in an experiment, seconds.
const SECONDS_MAX: f64 = 86_400.0;

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
    let layers = extends::layers(name, text)?;
    let texts: Vec<String> = layers.iter().map(extends::placed).collect();
    let start = layers.last().map_or(0, |layer| layer.start);
    let report = Report::new(layers, rules);
    let mut table = extends::merged(texts.iter().map(|text| {
        let (table, faults) = DeTable::parse_recoverable(text);
        for fault in faults {
            report.add(fault.span().unwrap_or(0..0).start, fault.message());
        }
        table.into_inner()
    }));
    check_scales(&table, &report);
    scale::apply(&mut table, at_scale.name());
    let experiment = experiment(Fields::new(&report, &table, "", start));
    let problems = report.finish();
    if problems.is_empty() { Ok(experiment) } else { Err(problems) }
}

/// Names of scales that there are none of would be silently without effect.
fn check_scales(file: &DeTable<'_>, report: &Report<'_>) {
    let Some(DeValue::Table(scales)) = file.get("scale").map(toml::Spanned::get_ref) else {
        return;
    };
    let known = Scale::ALL.map(Scale::name);
    for (key, _) in scales.iter().filter(|(key, _)| !known.contains(&key.get_ref().as_ref())) {
        report.add(key.span().start, format!("no such scale; there are {}", known.join(", ")));
    }
}

fn experiment(file: Fields<'_, '_, '_>) -> Experiment {
    let report = file.report();
    let none = DeTable::new();
    let part = |name: &str| file.table(name).unwrap_or(Fields::new(report, &none, name, 0));
    let about = part("experiment");
    let mut targets = targets(&part("targets"));
    of_all(part("regatta"), &mut targets);
    let workload = workload(part("workload"));
    let measure = measure(part("measure"), &workload);
    let first = targets.first().map(|target| target.name.clone()).unwrap_or_default();
    let baseline = about.text("baseline").unwrap_or(first);
    let experiment = Experiment {
        name: about.needed("name"),
        question: about.needed("question"),
        expect: about.needed("expect"),
        papers: about.texts("papers"),
        claims: claims(&about),
        factors: factors(&part("factors"), &targets),
        workload,
        calibrate: file.table("calibrate").map(|fields| calibrate(fields, &baseline)),
        machine: machine(part("machine")),
        environment: environment::read(part("environment")),
        measure,
        guards: guards(part("guards")),
        knee: search::knee(part("knee")),
        baseline,
        targets,
    };
    check(&experiment, &about);
    let faults = if is_too_large(&experiment) {
        about.report().add(about.at(), format!("the factors cross to over {CELLS_MAX} cells"));
        Vec::new()
    } else {
        environment::faults(&experiment)
    };
    for fault in faults {
        report.add(part("environment").at(), format!("environment: {fault}"));
    }
    about.finish();
    file.finish();
    experiment
}

/// The claims that an experiment names; there is no other than those of the index.
fn claims(about: &Fields<'_, '_, '_>) -> Vec<String> {
    if let Some(DeValue::Array(items)) = about.value("claims").map(toml::Spanned::get_ref) {
        let known = || CLAIMS.iter().map(|claim| claim.id);
        for item in items {
            let DeValue::String(id) = item.get_ref() else { continue };
            if !known().any(|known| known == &**id) {
                let near = nearest(id, known())
                    .map_or(String::new(), |near| format!("; did you mean {near}?"));
                about.wrong(item, "claims", &format!("{id:?} is no claim of the papers{near}"));
            }
        }
    }
    about.texts("claims")
}

/// Whether it has more cells than [`CELLS_MAX`], found without making them.
fn is_too_large(experiment: &Experiment) -> bool {
    let of = |target: &Target| {
        let factors = experiment.factors.iter();
        let own = factors.filter(|f| f.of_target().is_none_or(|(name, _)| name == target.name));
        own.fold(1, |cells: usize, factor| cells.saturating_mul(factor.levels.len()))
    };
    experiment.targets.iter().map(of).fold(0, usize::saturating_add) > CELLS_MAX
}

fn targets(all: &Fields<'_, '_, '_>) -> Vec<Target> {
    let mut targets = Vec::new();
    for (name, value) in all.entries() {
        let Some(fields) = all.table(&name) else { continue };
        let command = fields.texts("command");
        let program = fields.text("program");
        let program = match program.as_deref().unwrap_or("regatta") {
            "regatta" => Program::Regatta,
            "null" => Program::Null,
            "command" if !command.is_empty() => Program::Command(command),
            "command" => {
                all.wrong(value, &name, "the program `command` needs `command = [...]`");
                continue;
            }
            other => match Other::named(other) {
                Some(other) => Program::Other(other),
                None => {
                    let others = Other::ALL.map(Other::name).join(", ");
                    let known = format!("regatta, null, {others}, command");
                    let what = format!("program {other:?} is none of {known}");
                    all.wrong(value, &name, &what);
                    continue;
                }
            },
        };
        let mut config = BTreeMap::new();
        let binary = fields.text("binary");
        if let Some(table) = fields.table("config") {
            // Another build has options of its own.
            let rules = all.report().rules.filter(|_| binary.is_none());
            flatten(&table, "", rules, &mut config);
            if program != Program::Regatta && !config.is_empty() {
                all.wrong(value, &name, "only the program `regatta` takes `config`");
            }
        }
        targets.push(Target { name, program, config, binary });
        fields.finish();
    }
    if targets.is_empty() {
        all.report().add(all.at(), "there is no target: give [targets.NAME]");
    }
    targets
}

/// Options of every `regatta` target; what a target says itself goes first.
fn of_all(fields: Fields<'_, '_, '_>, targets: &mut [Target]) {
    let mut common = BTreeMap::new();
    if let Some(table) = fields.table("config") {
        let rules = fields.report().rules.filter(|_| targets.iter().any(Target::is_ours));
        flatten(&table, "", rules, &mut common);
    }
    fields.finish();
    for target in targets.iter_mut().filter(|target| target.program == Program::Regatta) {
        for (key, value) in &common {
            target.config.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// `config.server.architecture = "sped"` as `server.architecture`: `sped`.
fn flatten(
    table: &Fields<'_, '_, '_>,
    prefix: &str,
    rules: Option<Rules>,
    out: &mut BTreeMap<String, String>,
) {
    for (key, value) in table.entries() {
        let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        if value.get_ref().is_table() {
            if let Some(inner) = table.table(&key) {
                flatten(&inner, &path, rules, out);
            }
        } else if let Some(word) = word(value.get_ref()) {
            let rules = rules.filter(|_| !multiples::is_multiple(&path, &word));
            if let Some(fault) = rules.and_then(|rules| (rules.fault)(&path, &word)) {
                table.wrong(value, &key, &fault);
            }
            out.insert(path, word);
        } else {
            table.wrong(value, &key, "expected a value that an option can have");
        }
    }
}

fn factors(all: &Fields<'_, '_, '_>, targets: &[Target]) -> Vec<Factor> {
    let mut factors = Vec::new();
    for (path, value) in all.entries() {
        let one = [client::TARGET, client::FIELDS, client::TLS, client::STREAMS];
        let plain = ["workload.rate", "workload.connections", THINK, PROCESSORS, LAYOUT];
        let known = plain.iter().chain(&one).any(|known| *known == path)
            || environment::is_factor(&path)
            || (path.starts_with("targets.") && path.contains(".config."));
        if !known {
            let what = "not a factor: workload.rate, workload.connections, workload.think, \
                        workload.target, workload.fields, workload.tls, workload.streams, \
                        machine.processors, machine.layout, environment.KEY or \
                        targets.NAME.config.KEY";
            all.wrong(value, &path, what);
        }
        let levels = levels(all, &path, value);
        let factor = Factor { path, levels };
        for fault in option_faults(&factor, targets, all.report().rules) {
            all.wrong(value, &factor.path, &fault);
        }
        factors.push(factor);
    }
    factors
}

/// What is wrong with a factor that is a target's option.
fn option_faults(factor: &Factor, targets: &[Target], rules: Option<Rules>) -> Vec<String> {
    let Some((name, key)) = factor.of_target() else { return Vec::new() };
    // A name of no target is told once all are known.
    let target = targets.iter().find(|target| target.name == name);
    match (target, rules) {
        (Some(target), _) if target.program != Program::Regatta => {
            vec!["only the program `regatta` takes options".to_owned()]
        }
        (Some(target), Some(rules)) if target.is_ours() => {
            let levels = factor.levels.iter().filter(|level| !multiples::is_multiple(key, level));
            levels.filter_map(|level| (rules.fault)(key, level)).collect()
        }
        _ => Vec::new(),
    }
}

fn levels(all: &Fields<'_, '_, '_>, path: &str, value: At<'_, '_>) -> Vec<String> {
    let DeValue::Array(items) = value.get_ref() else {
        all.wrong(value, path, "expected a list of levels");
        return Vec::new();
    };
    if items.is_empty() || items.len() > LEVELS_MAX {
        all.wrong(value, path, &format!("expected 1 to {LEVELS_MAX} levels"));
    }
    let words: Vec<String> = items.iter().filter_map(|item| word(item.get_ref())).collect();
    let distinct: BTreeSet<&String> = words.iter().collect();
    if words.len() < items.len() || distinct.len() < words.len() {
        all.wrong(value, path, "levels are single values, each once");
    }
    let fault = |word: &String| {
        environment::level_fault(path, word).or_else(|| client::level_fault(path, word))
    };
    for fault in words.iter().filter_map(fault) {
        all.wrong(value, path, &fault);
    }
    if path == THINK && words.iter().any(|word| !THINKS.contains(&word.as_str())) {
        all.wrong(value, path, "think times are \"kept\" or \"none\"");
    }
    if path == "workload.rate" && words.iter().any(|word| rate(word).is_none()) {
        all.wrong(value, path, "a rate is a number above 0 or a multiple such as \"1.5x\"");
    }
    if path == "workload.connections" && words.iter().any(|word| word.parse::<u32>().is_err()) {
        all.wrong(value, path, "connections are whole numbers");
    }
    words
}

fn workload(fields: Fields<'_, '_, '_>) -> Workload {
    let loops = [("closed", Loop::Closed), ("open", Loop::Open), ("partly-open", Loop::PartlyOpen)];
    let asks = [
        ("target", Ask::Target),
        ("files", Ask::Files),
        ("log", Ask::Log),
        ("rotation", Ask::Rotation),
    ];
    let clients = [Client::Regatta, Client::Wrk, Client::H2load].map(|one| (one.name(), one));
    let offered = fields.value("rate").and_then(|value| match value.get_ref() {
        DeValue::String(text) if rate(text).is_some() => Some(text.to_string()),
        plain if number(plain).is_some_and(|rate| rate > 0.0) => word(plain),
        _ => {
            fields.wrong(value, "rate", "expected a number above 0 or a multiple such as \"1.5x\"");
            None
        }
    });
    let time = |key: &str, default: &str| {
        let text = fields.text(key).unwrap_or_else(|| default.to_owned());
        if let Err(why) = regatta_load::engine::parse_time(&text) {
            fields.wrong_at(key, &why);
        }
        text
    };
    let workload = Workload {
        preset: fields.text("preset"),
        dirs: fields.count("dirs", 1..=100_000),
        requests: fields.count("requests", 1..=100_000_000),
        root: fields.text("root"),
        ask: fields.one_of("ask", &asks),
        log: fields.text("log"),
        target: fields.text("target").unwrap_or_else(|| "/".to_owned()),
        client: fields.one_of("client", &clients),
        fields: fields.one_of("fields", &RequestFields::ALL.map(|one| (one.name(), one))),
        tls: fields.one_of("tls", &Encryption::ALL.map(|one| (one.name(), one))),
        streams: fields.count("streams", 1..=client::STREAMS_MAX).unwrap_or(1),
        model: fields.one_of("loop", &loops),
        rate: offered.unwrap_or_else(|| "1000".to_owned()),
        arrivals: fields.choice("arrivals", &["constant", "poisson", "uniform"], "poisson"),
        connections: fields.count("connections", 1..=1_000_000).unwrap_or(64),
        requests_per_connection: fields.count("requests_per_connection", 0..=u32::MAX).unwrap_or(0),
        think: fields.choice("think", &THINKS, "kept"),
        timeout: time("timeout", "10s"),
        slo: slo(&fields),
        verify: fields.flag("verify").unwrap_or(true),
    };
    if workload.preset.is_some() == workload.root.is_some() {
        fields.report().add(fields.at(), "workload needs either `preset` or `root`");
    }
    if (workload.ask == Ask::Log) != workload.log.is_some() {
        fields.report().add(fields.at(), "workload.ask = \"log\" and workload.log go together");
    }
    let of_preset = [Ask::Target, Ask::Rotation].contains(&workload.ask);
    if !of_preset && workload.root.is_none() {
        fields.report().add(fields.at(), "workload.ask is about the files of workload.root");
    }
    if workload.ask == Ask::Rotation && workload.preset.is_none() {
        fields.report().add(fields.at(), "workload.ask = \"rotation\" takes workload.preset");
    }
    if workload.preset.as_deref().is_some_and(|preset| presets::find(preset).is_none()) {
        let names: Vec<&str> = presets::all().iter().map(|preset| preset.name).collect();
        fields.wrong_at("preset", &format!("no such preset; there are {}", names.join(", ")));
    }
    fields.finish();
    workload
}

fn slo(fields: &Fields<'_, '_, '_>) -> Option<String> {
    let text = fields.text("slo")?;
    if let Err(problems) = regatta_load::engine::Slo::parse(&text) {
        problems.iter().for_each(|problem| fields.wrong_at("slo", problem));
    }
    Some(text)
}

fn calibrate(fields: Fields<'_, '_, '_>, baseline: &str) -> Calibrate {
    let calibrate = Calibrate {
        target: fields.text("target").unwrap_or_else(|| baseline.to_owned()),
        connections: fields.count("connections", 1..=100_000).unwrap_or(64),
        seconds: fields.number("seconds", 0.5..=3_600.0).unwrap_or(2.0),
        tries: fields.count("tries", 1..=100).unwrap_or(3),
        each_block: fields.flag("each_block").unwrap_or(false),
    };
    fields.finish();
    calibrate
}

fn machine(fields: Fields<'_, '_, '_>) -> Machine {
    let cpus = |key: &str| {
        let Some(text) = fields.text(key) else { return Vec::new() };
        spec::cpus(&text).unwrap_or_else(|_| {
            fields.wrong_at(key, "expected processors such as \"0\" or \"0-3,6\"");
            Vec::new()
        })
    };
    let machine = Machine {
        layout: fields.one_of("layout", &CpuLayout::ALL.map(|one| (one.name(), one))),
        server_cpus: cpus("server_cpus"),
        client_cpus: cpus("client_cpus"),
        realtime: fields.flag("realtime").unwrap_or(false),
        server_left: fields.count("server_left", 5..=100).unwrap_or(100),
        drop_caches: fields.flag("drop_caches").unwrap_or(false),
    };
    fields.finish();
    machine
}

fn measure(fields: Fields<'_, '_, '_>, workload: &Workload) -> Measure {
    // A preset that has to warm up does, unless the file says for how long.
    let warms = workload.preset.as_deref().and_then(presets::find);
    let warms = warms.map(|preset| preset.offer.warm_up_s).filter(|seconds| *seconds > 0);
    let mut profile_at = BTreeMap::new();
    if let Some(table) = fields.table("profile_at") {
        flatten(&table, "", None, &mut profile_at);
    }
    let metric = fields.text("metric").unwrap_or_else(|| "good_per_s".to_owned());
    if let Some(fault) = metrics::fault(&metric) {
        fields.wrong_at("metric", &fault);
    }
    let also = fields.texts("also");
    if let Some(fault) = also.iter().find_map(|name| metrics::fault(name)) {
        fields.wrong_at("also", &fault);
    }
    let measure = Measure {
        mode: fields.one_of("mode", &[("trials", Mode::Trials), ("knee", Mode::Knee)]),
        warm: fields.one_of("warm", &[("fixed", Warm::Fixed), ("found", Warm::Found)]),
        warm_s: fields
            .number("warm_s", 0.0..=SECONDS_MAX)
            .unwrap_or_else(|| warms.map_or(1.0, f64::from)),
        window_s: fields.number("window_s", 0.5..=SECONDS_MAX).unwrap_or(5.0),
        blocks: fields.count("blocks", 1..=1_000).unwrap_or(6),
        seed: u64::from(fields.count("seed", 0..=u32::MAX).unwrap_or(1)),
        metric,
        also,
        again: fields.flag("again").unwrap_or(true),
        at_once: fields.flag("at_once").unwrap_or(false),
        counters: fields.flag("counters").unwrap_or(true),
        stalls: fields.flag("stalls").unwrap_or(false),
        streaming: fields.flag("streaming").unwrap_or(false),
        profile: fields.flag("profile").unwrap_or(false),
        profile_at,
    };
    fields.finish();
    measure
}

fn guards(fields: Fields<'_, '_, '_>) -> Guards {
    let share = |key, default| fields.number(key, 0.0..=1.0).unwrap_or(default);
    let errors_max = share("errors_max", 0.01);
    // Where all requests may fail, their connections may, too.
    let drops = if errors_max >= 1.0 { 1.0 } else { 0.001 };
    let guards = Guards {
        lag_p99_ms_max: fields.number("lag_p99_ms_max", 0.0..=1e6).unwrap_or(5.0),
        client_busy_max: share("client_busy_max", 0.9),
        foreign_max: share("foreign_max", 0.1),
        steal_max: share("steal_max", 0.02),
        errors_max,
        syn_drops_max: share("syn_drops_max", drops),
        unverified_max: share("unverified_max", 0.01),
        moved_max: fields.number("moved_max", 1.0..=1e6),
        retries: fields.count("retries", 0..=10).unwrap_or(1),
    };
    fields.finish();
    guards
}

/// What prevents a preset whose rate changes over time from being offered as it is meant.
fn phases(experiment: &Experiment) -> Option<String> {
    let Experiment { workload, measure, .. } = experiment;
    let preset = presets::find(workload.preset.as_deref()?)?;
    let name = preset.name;
    let whole: u32 = preset.offer.phases.iter().map(|phase| phase.seconds).sum();
    if whole == 0 {
        return None;
    }
    if workload.model == Loop::Closed {
        return Some(format!(
            "the rate of workload.preset {name:?} changes over time, and connections that wait for \
             replies have none: give workload.loop = \"open\" or \"partly-open\""
        ));
    }
    let trial_s = measure.warm_s + measure.window_s;
    (trial_s < f64::from(whole)).then(|| {
        format!(
            "the phases of workload.preset {name:?} last {whole} s, and a trial {trial_s}: give \
             measure.window_s = {whole}"
        )
    })
}

/// What prevents the arms of a setting from running at once.
fn at_once(experiment: &Experiment) -> Option<String> {
    let Experiment { measure, machine, workload, .. } = experiment;
    // What follows makes all cells.
    if !measure.at_once || is_too_large(experiment) {
        return None;
    }
    let arms = at_a_time(experiment);
    let most = machine.load_share().map_or(0, |share| (share / LOAD_SHARE_MIN) as usize);
    let takes = match () {
        () if machine.layout != CpuLayout::Together => "machine.layout = \"together\"".to_owned(),
        () if machine.server_cpus.len() != 1 => "one processor in machine.server_cpus".to_owned(),
        () if experiment.factors.iter().any(|one| [LAYOUT, PROCESSORS].contains(&&*one.path)) => {
            "the same processor at every level".to_owned()
        }
        () if workload.model == Loop::Closed => "workload.loop = \"open\"".to_owned(),
        () if workload.client != Client::Regatta => "workload.client = \"regatta\"".to_owned(),
        () if measure.mode == Mode::Knee => "measure.mode = \"trials\"".to_owned(),
        () if !experiment.specs().is_empty() => "no [environment]".to_owned(),
        () if arms > most => format!("at most {most} arms, the baseline's second run included"),
        () => return None,
    };
    Some(format!("measure.at_once takes {takes}"))
}

/// A layout by a factor is one of both, and needs to know the server's processors.
fn check_layout(experiment: &Experiment, complain: &dyn Fn(String)) {
    let layouts = experiment.factors.iter().filter(|factor| factor.path == LAYOUT);
    let levels: Vec<&str> = layouts.flat_map(|factor| &factor.levels).map(String::as_str).collect();
    for level in levels.iter().filter(|level| !["apart", "together"].contains(level)) {
        complain(format!("{LAYOUT}: {level} is neither apart nor together"));
    }
    if experiment.machine.server_cpus.is_empty()
        && (experiment.machine.layout != CpuLayout::Apart || !levels.is_empty())
    {
        complain("a layout takes machine.server_cpus, on which the load may run".to_owned());
    }
}

/// What one table cannot know of another.
fn check(experiment: &Experiment, about: &Fields<'_, '_, '_>) {
    let report = about.report();
    let is_target = |name: &str| experiment.targets.iter().any(|target| target.name == name);
    let complain = |what: String| report.add(about.at(), what);
    if !experiment.targets.is_empty() && !is_target(&experiment.baseline) {
        complain(format!("the baseline {:?} is no target", experiment.baseline));
    }
    for factor in &experiment.factors {
        if let Some((name, _)) = factor.of_target().filter(|(name, _)| !is_target(name)) {
            complain(format!("the factor {:?} is about {name:?}, which is no target", factor.path));
        }
    }
    let own = experiment.machine.server_cpus.len();
    for factor in experiment.factors.iter().filter(|factor| factor.path == PROCESSORS) {
        let fits = |level: &String| level.parse().is_ok_and(|count| (1..=own).contains(&count));
        for level in factor.levels.iter().filter(|level| !fits(level)) {
            complain(format!(
                "{PROCESSORS}: {level} is not from 1 to {own}, as many as machine.server_cpus names"
            ));
        }
    }
    check_layout(experiment, &complain);
    for (path, asked) in &experiment.measure.profile_at {
        let factor = experiment.factors.iter().find(|factor| factor.path == *path);
        let levels = factor.map_or(&[][..], |factor| factor.levels.as_slice());
        for level in Measure::each_level(asked).filter(|one| !levels.iter().any(|l| l == one)) {
            complain(format!("measure.profile_at: {path:?} has no level {level:?}"));
        }
    }
    match &experiment.calibrate {
        Some(calibrate) if !is_target(&calibrate.target) => {
            complain(format!("calibrate.target {:?} is no target", calibrate.target));
        }
        Some(_) => {}
        None => {
            let rates = experiment.factors.iter().filter(|factor| factor.path == "workload.rate");
            let rates = rates.flat_map(|factor| &factor.levels);
            if rates.chain([&experiment.workload.rate]).any(|rate| rate.ends_with('x')) {
                complain("a rate such as \"1.5x\" needs [calibrate]".to_owned());
            }
        }
    }
    let Measure { warm, warm_s, window_s, .. } = experiment.measure;
    if warm == Warm::Found && warm_s + window_s < search::FOUND_S_MIN {
        let least = search::FOUND_S_MIN;
        complain(format!("measure.warm = \"found\" takes trials of {least} s: warm_s + window_s"));
    }
    if experiment.measure.stalls && !experiment.measure.counters {
        complain("measure.stalls takes measure.counters".to_owned());
    }
    phases(experiment).into_iter().for_each(&complain);
    at_once(experiment).into_iter().for_each(&complain);
    client::faults(experiment).into_iter().for_each(&complain);
    multiples::fault(experiment).into_iter().for_each(&complain);
    if experiment.measure.mode == Mode::Knee {
        if experiment.workload.slo.is_none() {
            complain("a saturation search needs workload.slo, such as \"p99<50ms\"".to_owned());
        }
        if experiment.workload.model == Loop::Closed {
            complain("a saturation search needs workload.loop open or partly-open".to_owned());
        }
        if experiment.factors.iter().any(|factor| factor.path == "workload.rate") {
            complain("a saturation search finds the rate: it is no factor".to_owned());
        }
    }
    let names = experiment.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_+.".contains(c));
    if !names || experiment.name.starts_with('.') {
        complain("experiment.name takes letters, digits, - _ + . only".to_owned());
    }
}
