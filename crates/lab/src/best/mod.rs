//! `regatta lab best`: the best settings for a site on this machine, found by racing them.

mod stage;

use crate::env::spec::STANDS_IN;
use crate::experiment::{Experiment, Scale, parse};
use crate::group::INTERRUPTED;
use crate::journal::manifest::Manifest;
use crate::journal::{Run, write_json};
use crate::programs::OwnPrograms;
use crate::race::space::{Means, Space};
use crate::race::{Budget, CONFIGURATION, Decision, SETTLED, Settled, Site, race, sentences};
use crate::report;
use crate::run::Options;
use crate::terminal::{self, FAILED, Form, USAGE};
use crate::units::At;
use clap::Args;
use regatta_load::engine::parse_time;
use regatta_load::with_defaults;
use rustix::process::{Resource, getrlimit};
use serde_json::json;
use stage::Stage;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Options of `regatta lab best`.
#[derive(Args, Clone, Debug)]
pub struct BestOptions {
    /// The directory whose files are to be served.
    pub site: PathBuf,
    /// Time limit, not counting trials that are repeated.
    #[arg(long = "budget", value_name = "TIME", default_value = "20m", value_parser = seconds)]
    pub budget_s: f64,
    /// The service level: the setting that keeps it up to the highest rate is looked for.
    #[arg(long, value_name = "p99<50ms,errors<0.1%", default_value = "p99<50ms")]
    pub slo: String,
    /// An access log, from which the load takes the requested files and their frequency.
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// A file whose `[environment]` the servers run in (docs/lab.md): a limit on memory, a disk.
    #[arg(long, value_name = "FILE")]
    pub environment: Option<PathBuf>,
    /// Connections of the closed loop before the race.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub connections: u32,
    /// Requests on each connection; 0: no limit.
    #[arg(long, default_value_t = 10)]
    pub requests_per_connection: u32,
    /// The server's processors, such as 0-3; by default half of all.
    #[arg(long, value_name = "LIST")]
    pub server_cpus: Option<String>,
    /// The load's processors; by default the other half.
    #[arg(long, value_name = "LIST")]
    pub client_cpus: Option<String>,
    /// Length of a measurement: by default 1s, in an environment 3s.
    #[arg(long = "window", value_name = "TIME", value_parser = seconds)]
    pub window_s: Option<f64>,
    /// The largest share of the server's processors that other programs may use; beyond it a trial
    /// does not count.
    #[arg(long, value_name = "SHARE", default_value_t = 0.25)]
    pub foreign_max: f64,
    /// Seed of the order and of the loads.
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
    /// The run's directory. If it has this race already, the race is continued.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Measure the installed `regatta` though its version differs from that of `regatta-lab`.
    #[arg(long)]
    pub any_version: bool,
    /// The server's program and the lab's.
    #[arg(skip)]
    pub programs: OwnPrograms,
    /// Format of the advice.
    #[arg(skip = Form::Text)]
    pub form: Form,
}

fn seconds(text: &str) -> Result<f64, String> {
    parse_time(text).map(|time| time.as_secs_f64())
}

impl BestOptions {
    /// Twenty minutes for a site, everything else as it comes, without programs.
    pub fn new(site: &Path) -> Self {
        with_defaults(&[site.as_ref()])
    }
}

impl Settled {
    /// Settings that `options` leave open, for the site at `root` on a machine that has `all`: half
    /// of the processors for each side. If half is one processor, server and load share it where
    /// that can be enforced (docs/lab.md, Layouts).
    pub fn new(
        options: &BestOptions,
        root: &Path,
        site: Site,
        all: Means,
        environment: Option<String>,
    ) -> Self {
        let half = all.cpus.div_ceil(2).min(all.cpus.saturating_sub(1));
        let range = |from: usize, to: usize| match to.saturating_sub(from) {
            0 => String::new(),
            1 => from.to_string(),
            _ => format!("{from}-{}", to - 1),
        };
        let rest = || if half == 0 { String::new() } else { range(half, all.cpus) };
        let realtime = rustix::process::geteuid().is_root();
        let chosen = options.server_cpus.is_some() || options.client_cpus.is_some();
        let together = realtime && half == 1 && !chosen;
        let window_s = options.window_s.unwrap_or(if environment.is_some() { 3.0 } else { 1.0 });
        Self {
            root: root.to_string_lossy().into_owned(),
            site,
            means: Means { cpus: half.max(1), ..all },
            budget_s: options.budget_s,
            seed: options.seed,
            server_cpus: options.server_cpus.clone().unwrap_or_else(|| range(0, half)),
            client_cpus: options.client_cpus.clone().unwrap_or_else(rest),
            realtime,
            together,
            left: if together { 50 } else { 100 },
            capacity: 0.0,
            warm_s: window_s * 0.4,
            window_s,
            around_s: 0.0,
            environment,
            slo: options.slo.clone(),
            log: options.log.clone(),
            connections: options.connections,
            requests_per_connection: options.requests_per_connection,
            foreign_max: options.foreign_max,
        }
    }
}

/// The share of the budget that the race itself gets.
const RACING: f64 = 0.92;
/// The searches begin at this share of what the default answers in a closed loop.
pub(crate) const START: f64 = 0.7;

pub fn best(options: &BestOptions, stop: &AtomicBool) -> u8 {
    terminal::code(try_best(options, stop))
}

fn try_best(options: &BestOptions, stop: &AtomicBool) -> Result<u8, (u8, String)> {
    let settled = settle(options).map_err(|why| (USAGE, why))?;
    let directory = options.out.clone().unwrap_or_else(|| terminal::fresh("best"));
    let bar = terminal::progress_bar();
    let tell = |progress: &crate::run::Progress<'_>| terminal::show(&bar, progress);
    let more = &|_: &mut Run| Ok(None);
    let asked = Options { programs: &options.programs, far: None, stop, tell: &tell, more };
    let (mut run, settled) = open(options, settled, &directory)?;
    terminal::warn(&run.manifest);
    let raced = raced(settled, &mut run, &asked);
    bar.finish_and_clear();
    match raced {
        Ok((settled, decision)) => {
            let mut lines = sentences(&settled, &decision);
            let label = run.manifest.label.iter();
            lines.extend(label.map(|label| format!("{label}: {}.", STANDS_IN)));
            let text = stage::configuration(&settled.root, decision.advice.as_ref(), &lines);
            let written = fs::write(run.directory.join(CONFIGURATION), &text)
                .map_err(|error| error.to_string())
                .and_then(|()| report::write(&run));
            let (paths, _) = written.map_err(|why| (FAILED, why))?;
            if let Some(page) = paths.first() {
                terminal::say(&format!("the whole race: {}", page.display()));
            }
            Ok(match options.form {
                Form::Text => terminal::print(&text),
                Form::Json => terminal::print_json(&json!({
                    "directory": run.directory.display().to_string(),
                    "answer": lines,
                    "configuration": text,
                    "decision": decision,
                })),
            })
        }
        Err(why) if why == INTERRUPTED => Err(terminal::cut_short(&run, &why)),
        Err(why) => Err((FAILED, why)),
    }
}

fn settle(options: &BestOptions) -> Result<Settled, String> {
    let root = fs::canonicalize(&options.site).at(&options.site)?;
    let site = Site::scan(&root)?;
    let environment = match &options.environment {
        None => None,
        Some(path) => {
            let text = fs::read_to_string(path).at(path)?;
            if !text.contains("[environment") {
                return Err(format!("{} has no [environment]", path.display()));
            }
            Some(text)
        }
    };
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let all = Means { cpus, memory: memory(), descriptors };
    Ok(Settled::new(options, &root, site, all, environment))
}

/// The machine's memory, bytes.
fn memory() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
    kib.unwrap_or_default() * 1_024
}

/// Begins the run, or opens the one that is there.
fn open(
    options: &BestOptions,
    mut settled: Settled,
    directory: &Path,
) -> Result<(Run, Settled), (u8, String)> {
    let failed = |why: String| (FAILED, why);
    if directory.join("manifest.json").exists() {
        let run = Run::open(directory).map_err(failed)?;
        let text = fs::read_to_string(directory.join(SETTLED)).unwrap_or_default();
        let known: Settled = serde_json::from_str(&text)
            .map_err(|_| failed(format!("{} has another run", directory.display())))?;
        // The findings, and the machine's memory to the last page, may differ.
        settled = Settled {
            left: known.left,
            capacity: known.capacity,
            around_s: known.around_s,
            means: known.means,
            ..settled
        };
        if settled != known {
            return Err(failed(format!(
                "{} has a race of another site, or with other options; give it the same, or \
                 another --out",
                directory.display()
            )));
        }
        run.manifest.same_programs(&options.programs).map_err(failed)?;
        run.mend().map_err(failed)?;
        return Ok((run, settled));
    }
    let text = stage::experiment(&settled, &[]).map_err(failed)?;
    let experiment = experiment(&text)?;
    // With a limit on memory that is what there is.
    let limit = experiment.environment.clone().limited(settled.site.bytes).memory_bytes;
    if limit > 0 {
        settled.means.memory = limit;
    }
    if !experiment.machine.server_cpus.is_empty() {
        settled.means.cpus = experiment.machine.server_cpus.len();
    }
    let mut manifest = Manifest::take(&experiment, Scale::Quick, &options.programs);
    manifest.command = format!("regatta lab best {}", settled.root);
    if let Some(why) = manifest.refusal(&experiment) {
        return Err(failed(why));
    }
    let run = Run::begin(directory, &text, experiment, manifest).map_err(failed)?;
    write_json(&run.directory.join(SETTLED), &settled).map_err(failed)?;
    Ok((run, settled))
}

fn experiment(text: &str) -> Result<Experiment, (u8, String)> {
    let read = parse("the race's experiment", text, Scale::Quick);
    read.map_err(|problems| (USAGE, problems.join("\n")))
}

fn raced(
    settled: Settled,
    run: &mut Run,
    asked: &Options<'_>,
) -> Result<(Settled, Decision), String> {
    let mut stage = Stage::new(settled, run, asked)?;
    stage.scout()?;
    let settled = stage.settled.clone();
    let space = Space::of(&settled.site, settled.means);
    let budget = Budget {
        // The rest is for the work before and after it, and for trials that are repeated.
        seconds: settled.budget_s * RACING,
        trial_s: settled.around_s + settled.window_s,
        start: settled.capacity * START,
    };
    let mut decision = race(&space, budget, u64::from(settled.seed), &mut stage)?;
    decision.verified = Some(stage.verify(decision.advice.as_ref())?);
    stage.end(&decision)?;
    Ok((settled, decision))
}
