//! Programs, machine and settings of a run, kept with its results.

use crate::env::spec::IN_PROCESS;
use crate::env::{Lack, Record, Spec, lacks};
use crate::experiment::{CpuLayout, Experiment, Program, Scale};
use crate::journal::machine_lacks;
use crate::programs::OwnPrograms;
use crate::servers::{self, process::output_of};
use crate::units::unix_ms;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The version of the run directory's format.
pub(crate) const FORMAT: u32 = 1;

/// A layout, and how much the number that decides scattered in each: the standard deviation of its
/// logarithm over trials of the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LayoutChoice {
    /// The one that is taken.
    pub layout: CpuLayout,
    pub apart: f64,
    pub together: f64,
}

/// The seek of a simulated disk that a run has found, and what it was found for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeekChoice {
    pub seek_ms: f64,
    /// The share of the time for which one event loop waited for the disk.
    pub waits: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    pub scale: Scale,
    /// Start, milliseconds since 1970.
    pub started_unix_ms: u64,
    pub command: String,
    pub regatta_sha256: String,
    /// SHA-256 of the lab's program; empty: the server's was the lab's, too.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lab_sha256: String,
    /// Version lines of both programs, with the commit of a release build, by file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub programs: BTreeMap<String, String>,
    /// Each target's program in its own words.
    pub versions: BTreeMap<String, String>,
    /// Targets that cannot be run here, and why.
    pub left_out: BTreeMap<String, String>,
    pub unit: Option<f64>,
    /// The same of each block, where each has its own; the first is the one above.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub units: BTreeMap<u32, f64>,
    /// Connections that are opened in a second at that rate.
    #[serde(default)]
    pub connections_per_s: Option<f64>,
    /// The layout that was chosen, where the experiment leaves that to a calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<LayoutChoice>,
    /// The seek of the simulated disk, where the experiment leaves that to a calibration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek: Option<SeekChoice>,
    /// The blocks at each look at its claims, of a run that grows until they are decided; empty: it
    /// is looked at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<u32>,
    /// The chances to be misled by runs whose blocks were added to this one's; 0: there are none.
    #[serde(skip)]
    pub(crate) chances_added: usize,
    pub machine: BTreeMap<String, String>,
    /// Requirements of the experiment that this machine does not allow.
    pub lacks: Vec<String>,
    /// The parts of its environments among that: they are done without.
    #[serde(default)]
    pub lacking: Vec<Lack>,
    /// The experiment at its scale, where its file extends another one; None: the file says all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub experiment: Option<Experiment>,
    /// Label of all its numbers; None: it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Actual environments: the first of each setting, by its levels.
    #[serde(default)]
    pub environments: BTreeMap<String, Record>,
    /// The loads' machine; None: servers and loads were on one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other: Option<Other>,
}

impl Manifest {
    /// Puts into an experiment what was found before the first trial.
    pub(crate) fn found_for(&self, experiment: &mut Experiment) {
        let layout = self.layout.map(|choice| choice.layout);
        experiment.take_found(layout, self.seek.map(|choice| choice.seek_ms));
    }
}

/// Name of the time that a connection between two machines takes.
pub(crate) const ROUND_TRIP: &str = "round trip between the machines";

/// Another machine, which has the loads. Facts about it are among those about this one, under names
/// that say so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// `ssh://[USER@]HOST[:PORT]`.
    pub destination: String,
    /// The shortest time that a connection from the load's machine to the server's took.
    pub round_trip_ns: f64,
}

impl Other {
    /// Name of a fact about it.
    #[must_use]
    pub fn names(fact: &str) -> String {
        format!("load's machine: {fact}")
    }
}

/// Factors that mean nothing where the server simulates the disk itself.
const DEVICE_ONLY: [&str; 3] =
    ["environment.disk.seek", "environment.disk.queue", "environment.disk.read_ahead_kb"];

/// Digits of a program's hash that people can tell apart.
const HASH_DIGITS: usize = 12;
/// Kernel settings that change what is measured.
const SETTINGS: &str = "kernel/osrelease kernel/randomize_va_space kernel/perf_event_paranoid \
    kernel/sched_rt_runtime_us net/core/somaxconn net/core/rmem_max net/core/wmem_max \
    net/ipv4/tcp_rmem net/ipv4/tcp_wmem net/ipv4/tcp_max_syn_backlog net/ipv4/tcp_tw_reuse \
    net/ipv4/ip_local_port_range net/ipv4/tcp_congestion_control fs/nr_open";
/// Other files with facts about a machine.
const FACTS: &str = "/proc/cpuinfo /proc/meminfo /proc/loadavg /proc/self/limits \
    /sys/devices/system/clocksource/clocksource0/current_clocksource \
    /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor \
    /sys/kernel/mm/transparent_hugepage/enabled";
const VULNERABILITIES: &str = "/sys/devices/system/cpu/vulnerabilities/";

impl Manifest {
    /// Looks at programs and machine.
    pub(crate) fn take(experiment: &Experiment, scale: Scale, own: &OwnPrograms) -> Self {
        let (mut versions, mut left_out) = (BTreeMap::new(), BTreeMap::new());
        for target in &experiment.targets {
            match servers::version(target, own) {
                Some(version) => versions.insert(target.name.clone(), version),
                None => {
                    let program = servers::binary(target, own);
                    let why = match target.program {
                        Program::Other(other) if target.binary.is_none() => other.needs(),
                        _ => format!("{} cannot be run here", program.display()),
                    };
                    left_out.insert(target.name.clone(), why)
                }
            };
        }
        let lacking = lacking(experiment);
        let simulates = |mut spec: Spec| spec.take_stand_in(&lacking).is_some();
        let label = experiment.specs().into_iter().any(simulates).then(|| IN_PROCESS.to_owned());
        if label.is_some() {
            left_out.extend(without_disk(experiment));
        }
        let said = lacking.iter().map(ToString::to_string);
        Self {
            format: FORMAT,
            scale,
            started_unix_ms: unix_ms(),
            regatta_sha256: sha256(&own.regatta),
            lab_sha256: sha256(&own.lab),
            programs: own.versions(),
            versions,
            left_out,
            machine: machine(),
            lacks: said.chain(machine_lacks::lacks(experiment)).collect(),
            lacking,
            label,
            ..Self::default()
        }
    }

    /// The beginning of the server's hash: what people can tell apart.
    pub(crate) fn hash(&self) -> String {
        hash(&self.regatta_sha256)
    }

    /// Number of chances to be misled that share the one in 20. The k-th look takes 1 / k(k+1) of
    /// it, so that all looks together take no more, however many there are (alpha spending, Lan and
    /// DeMets 1983). The looks add up by Bonferroni, so their dependence does not matter.
    pub(crate) fn chances(&self) -> usize {
        let looks = self.looks.len();
        (looks * (looks + 1)).max(1) * self.chances_added.max(1)
    }

    /// Refuses to continue a run that another build of one of the programs has begun.
    pub(crate) fn same_programs(&self, own: &OwnPrograms) -> Result<(), String> {
        let then = [&self.regatta_sha256, &self.lab_sha256];
        for ((name, path), then) in own.each().into_iter().zip(then) {
            let now = sha256(path);
            if *then != now {
                return Err(format!(
                    "the trials so far are of another build of {name} ({}, and this is {}): \
                     continue with that build, or begin another run with another --out",
                    hash(then),
                    hash(&now)
                ));
            }
        }
        Ok(())
    }

    /// Refuses to continue a run that other machines have begun.
    pub(crate) fn same_machines(&self, now: Option<&str>) -> Result<(), String> {
        let then = self.other.as_ref().map(|other| other.destination.as_str());
        let named = |one: Option<&str>| match one {
            Some(destination) => format!("made with --load {destination}"),
            None => "made on one machine".to_owned(),
        };
        if then == now {
            return Ok(());
        }
        Err(format!(
            "the trials so far are {}, and these would be {}: go on as it began, or begin anew \
             with another --out",
            named(then),
            named(now)
        ))
    }

    /// Reason for which a run of the experiment is not begun here; None: it is. Unlike a lack, what
    /// is missing would leave nothing of the experiment's question.
    pub(crate) fn refusal(&self, experiment: &Experiment) -> Option<String> {
        let Experiment { name, baseline, .. } = experiment;
        if let Some(why) = self.left_out.get(baseline) {
            return Some(format!("the baseline {baseline} cannot run here: {why}"));
        }
        if let Err(why) = experiment.workload.client.program() {
            return Some(why);
        }
        let mut paths = experiment.factors.iter().map(|factor| factor.path.as_str());
        if let Some(label) = &self.label
            && let Some(path) = paths.find(|path| DEVICE_ONLY.contains(path))
        {
            return Some(format!("{label}: a disk in the server's process has no {path} to vary"));
        }
        let lost = |mut spec: Spec| {
            let asked = spec.disk.is_some() && spec.take_stand_in(&self.lacking).is_none();
            asked && spec.without(&self.lacking).is_none_or(|left| left.disk.is_none())
        };
        experiment.specs().into_iter().any(lost).then(|| {
            let why: Vec<String> = self.lacking.iter().map(ToString::to_string).collect();
            format!(
                "no simulated disk is possible here ({}), and from memory alone the experiment \
                 would answer another question. Run it where it is possible: as root, with \
                 /dev/fuse and loop devices (docs/environments.md). Or ask what there is without a \
                 disk: `regatta lab list {name} > mine.toml`, and take [environment.disk] and its \
                 factors out of the file.",
                why.join("; ")
            )
        })
    }
}

/// Targets that would read from the machine's own disk where ours simulate one themselves.
fn without_disk(experiment: &Experiment) -> impl Iterator<Item = (String, String)> {
    let others = experiment.targets.iter().filter(|target| {
        // A program that serves one answer from memory needs no disk.
        target.program != Program::Regatta && !target.program.is_bare()
    });
    let why = format!("no disk can be {IN_PROCESS} in a program that is not regatta");
    others.map(move |target| (target.name.clone(), why.clone()))
}

/// The beginning of a hash: what people can tell apart.
pub(crate) fn hash(sha256: &str) -> String {
    sha256.chars().take(HASH_DIGITS).collect()
}

/// SHA-256 of a program; of nothing where it cannot be read.
pub(crate) fn sha256(program: &Path) -> String {
    regatta_load::workload::sha256_hex(&fs::read(program).unwrap_or_default())
}

/// This machine and its settings, by name.
fn machine() -> BTreeMap<String, String> {
    facts(&output_of(&["sh", "-c", &facts_script()]).unwrap_or_default())
}

/// Shell script that prints the files with facts about a machine, each line after its path.
pub(crate) fn facts_script() -> String {
    let settings = SETTINGS.split_whitespace().map(|name| format!("/proc/sys/{name} "));
    let settings: String = settings.collect();
    format!("grep -sH \"\" {FACTS} {settings} {VULNERABILITIES}*; true")
}

/// Machine and settings, by name, from the output of [`facts_script`].
pub(crate) fn facts(printed: &str) -> BTreeMap<String, String> {
    let mut files: BTreeMap<&str, String> = BTreeMap::new();
    for (path, line) in printed.lines().filter_map(|line| line.split_once(':')) {
        let text = files.entry(path).or_default();
        text.push_str(line);
        text.push('\n');
    }
    let read = |path: &str| files.get(path).map(|text| text.trim().to_owned());
    let mut all = BTreeMap::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), value);
        }
    };
    let cpus = read("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    put("processor", model.map(|(_, name)| name.to_owned()));
    let threads = cpus.lines().filter(|line| line.starts_with("processor")).count();
    put("processors", Some(threads.to_string()));
    let memory = read("/proc/meminfo").unwrap_or_default();
    put("memory", memory.lines().next().map(|line| line.replace("MemTotal:", "").trim().into()));
    put("load average at the start", read("/proc/loadavg"));
    put("clock source", read("/sys/devices/system/clocksource/clocksource0/current_clocksource"));
    put("governor", read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"));
    put("huge pages", read("/sys/kernel/mm/transparent_hugepage/enabled"));
    for name in SETTINGS.split_whitespace() {
        put(&name.replace('/', "."), read(&format!("/proc/sys/{name}")));
    }
    for path in files.keys().copied() {
        if let Some(name) = path.strip_prefix(VULNERABILITIES) {
            put(&format!("vulnerability {name}"), read(path));
        }
    }
    let limits = read("/proc/self/limits").unwrap_or_default();
    let files = limits.lines().find(|line| line.starts_with("Max open files"));
    put("open files", files.map(|line| line.replace("Max open files", "").trim().to_owned()));
    all
}

/// Parts of the experiment's environments that this machine does not allow, each once.
fn lacking(experiment: &Experiment) -> Vec<Lack> {
    let mut all: Vec<Lack> = Vec::new();
    for spec in experiment.specs() {
        for lack in lacks(&spec) {
            if !all.contains(&lack) {
                all.push(lack);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::{Manifest, Other};
    use crate::analysis::tests::synthetic;
    use crate::env::Lack;
    use crate::experiment::{Scale, parse};
    use crate::folder::Folder;
    use crate::programs::OwnPrograms;
    use std::collections::BTreeMap;
    use std::path::Path;

    const TEXT: &str = r#"
experiment = { name = "x", question = "?", expect = "!" }
targets.a.program = "regatta"
targets.b.program = "nginx"
workload.root = "."
machine = { server_cpus = "0", client_cpus = "1" }
[environment]
memory = "84MiB"
"#;

    #[test]
    fn a_run_goes_on_with_the_build_that_began_it() {
        let folder = Folder::new("builds");
        let own = OwnPrograms::in_directory(&folder);
        own.each().into_iter().for_each(|(_, path)| std::fs::write(path, "one build").unwrap());
        let mut run = synthetic(TEXT, &|_| BTreeMap::new());
        run.manifest.regatta_sha256 = super::sha256(&own.regatta);
        run.manifest.lab_sha256 = super::sha256(&own.lab);
        assert_eq!(run.manifest.same_programs(&own), Ok(()));
        for (name, path) in own.each() {
            std::fs::write(path, "another").unwrap();
            let said = run.manifest.same_programs(&own).unwrap_err();
            std::fs::write(path, "one build").unwrap();
            let other = format!("another build of {name} (");
            assert!(said.contains(&other) && said.contains("--out"), "{said}");
        }
        assert_eq!(run.manifest.same_machines(None), Ok(()));
        let said = run.manifest.same_machines(Some("ssh://far")).unwrap_err();
        assert!(said.contains("on one machine") && said.contains("--load ssh://far"), "{said}");
        run.manifest.other =
            Some(Other { destination: "ssh://far".to_owned(), round_trip_ns: 1.0 });
        assert_eq!(run.manifest.same_machines(Some("ssh://far")), Ok(()));
        assert!(run.manifest.same_machines(Some("ssh://farther")).is_err());
    }

    #[test]
    fn facts_about_a_machine_are_read_from_its_files() {
        let facts = super::machine();
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        assert_eq!(facts["kernel.osrelease"], release.trim());
        assert!(facts["processors"].parse::<usize>().unwrap() > 0, "{facts:?}");
        assert!(facts["memory"].ends_with(" kB") && facts.contains_key("open files"), "{facts:?}");
    }

    #[test]
    fn without_its_baseline_or_its_disk_a_run_is_not_begun() {
        let lack = |part: &str| Lack::of(part, "root", "");
        let refusal = |text: &str, lacking: &[Lack], left_out: &[&str]| {
            let mut run = synthetic(text, &|_| BTreeMap::new());
            let out = |name: &&str| ((*name).to_owned(), "it is not there".to_owned());
            run.manifest.left_out = left_out.iter().map(out).collect();
            run.manifest.lacking = lacking.to_vec();
            run.manifest.refusal(&run.experiment)
        };
        let disk = format!("{TEXT}[environment.disk]\n");
        let inside = format!("{disk}kind = \"in-process\"\n");
        assert_eq!(refusal(&inside, &[lack("groups")], &[]), None, "the server simulates it");
        assert_eq!(refusal(&disk, &[], &["b"]), None);
        assert_eq!(refusal(TEXT, &[lack("memory"), lack("disk")], &[]), None, "it asks for none");
        let said = refusal(TEXT, &[], &["a"]).unwrap();
        assert!(said.contains("the baseline a") && said.contains("not there"), "{said}");
        for part in ["disk", "groups"] {
            let said = refusal(&disk, &[lack(part)], &[]).unwrap();
            for words in ["simulated disk", "root", "regatta lab list x", "[environment.disk]"] {
                assert!(said.contains(words), "{words}: {said}");
            }
        }
        // A single level of a factor is enough.
        let factor = format!("{TEXT}[factors]\n\"environment.disk.heads\" = [1, 2]\n");
        assert!(refusal(&factor, &[lack("disk")], &[]).is_some());
        let taken = |text: &str| {
            let experiment = parse("x", text, Scale::Quick).unwrap();
            let own = OwnPrograms::in_directory(Path::new("/nowhere"));
            Manifest::take(&experiment, Scale::Quick, &own)
        };
        let manifest = taken(&inside);
        assert_eq!(manifest.label.as_deref(), Some("simulated-in-process"));
        assert!(manifest.left_out["b"].contains("not regatta"), "{:?}", manifest.left_out);
        assert_eq!(taken(TEXT).label, None);
        let ahead = format!("{inside}[factors]\n\"environment.disk.read_ahead_kb\" = [0, 128]\n");
        let mut manifest = taken(&ahead);
        manifest.left_out.clear();
        let said = manifest.refusal(&parse("x", &ahead, Scale::Quick).unwrap()).unwrap();
        assert!(said.contains("simulated-in-process") && said.contains("read_ahead"), "{said}");
    }
}
