//! `regatta lab`: flags to the options of the library.
use crate::{FAILED, say};
use clap::{Args, Subcommand};
use regatta_lab::{
    best::{self, BestOptions},
    cli::{self, CompareOptions, Form, RunOptions},
    experiment,
    journal::manifest::Half,
    machines::{self, destination},
};
use regatta_load::engine::parse_time;
use regatta_server::{
    Failure, Sources,
    config::raw::{Arguments, Problem, read},
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// List the experiments that come with the program, or print the file of one.
    #[command(after_help = "Example: regatta lab list template-site > mine.toml")]
    List {
        /// Print the file of this experiment, to change it and run that.
        name: Option<String>,
        /// Print a JSON array.
        #[arg(long, conflicts_with = "name")]
        json: bool,
    },
    /// Run an experiment, or continue one that was interrupted.
    #[command(after_help = "Example: regatta lab run quick --out ./first")]
    Run(Run),
    /// Find the best settings for the files of a directory on this machine: architectures and
    /// options are raced against each other; prints a configuration file, or "keep the default".
    #[command(after_help = BEST_HELP)]
    Best(Box<Best>),
    /// Write the report of a run, finished or interrupted: a page, Markdown, CSV, JSON.
    #[command(after_help = "Example: regatta lab report ./first")]
    Report {
        /// The run's directory.
        run: PathBuf,
        /// Print the answer with every number and claim as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show what became of every claim of the papers in the runs of some directories.
    #[command(after_help = "Example: regatta lab verdicts ./runs --html verdicts.html")]
    Verdicts {
        /// Directories of runs, or with runs below them.
        #[arg(required = true)]
        directories: Vec<PathBuf>,
        /// Write a page of it, too.
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        /// Print a JSON object instead of Markdown.
        #[arg(long)]
        json: bool,
    },
    /// The side of `run --server` and `run --load` on the other machine.
    #[command(hide = true)]
    Agent {
        /// Where this program lies and its files go; removed at the end.
        directory: PathBuf,
    },
    /// Show the flame graph of a profiled arm, or draw the difference between two arms.
    #[command(after_help = "Example: regatta lab flame ./first sped symped-2")]
    Flame {
        /// The run's directory.
        run: PathBuf,
        /// Without any, list the arms; with one, its graph; with two, how the second differs.
        #[arg(num_args = 0..=2)]
        arms: Vec<String>,
        /// Print a JSON object with the graph's path, or an array of all arms.
        #[arg(long)]
        json: bool,
    },
    /// Show the differences between two runs, or between two builds of regatta, which then run
    /// at the same time, in a run of their own.
    #[command(after_help = "Example: regatta lab compare ./regatta-old ./regatta --fail-over 3%")]
    Compare {
        /// What to compare with: a run's directory, a file of `lab run --save-baseline`, or a
        /// program.
        before: PathBuf,
        /// What to compare with the first: a run, or a program if the first is one.
        after: PathBuf,
        /// Of two programs: the run's directory. If it has their run already, that is continued.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
        /// Exit with 1 if anything is surely worse by more than this.
        #[arg(long, value_name = "3%", value_parser = parse_percent)]
        fail_over: Option<f64>,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
}

const BEST_HELP: &str = "Example: regatta lab best ./public --budget 20m > regatta.toml\n\n\
    Over the site's own files, by Zipf's law or as an access log asks for them. Every candidate's \
    highest rate within the service level is searched for beside the default's; who is surely \
    behind leaves. What is left is searched again, and then has to keep the level in eight fresh \
    runs at the rate that is printed. Interrupted, the same command with --out goes on.";

#[derive(Debug, Args)]
pub(crate) struct Best {
    #[command(flatten)]
    options: BestOptions,
    /// Print a JSON object: the configuration, its gain, and the finalists.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The name of an experiment, or the file of one (docs/lab.md).
    which: String,
    /// The size: minutes, the papers' set-up scaled to this machine, or the papers' own sizes.
    #[arg(long, value_enum, default_value = "quick")]
    scale: experiment::Scale,
    /// The run's directory. If it has a run of this experiment already, that is continued.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Run the servers on another machine, over ssh; the load runs here (docs/lab.md).
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT]", value_parser = destination)]
    #[arg(conflicts_with_all = ["load", "plan"])]
    server: Option<String>,
    /// Run the load on another machine, over ssh; the servers run here (docs/lab.md).
    #[arg(long, value_name = "ssh://[USER@]HOST[:PORT]", value_parser = destination)]
    #[arg(conflicts_with = "plan")]
    load: Option<String>,
    /// Go on, block by block, until every claim of the experiment is decided.
    #[arg(long, conflicts_with = "plan")]
    until_decided: bool,
    /// The most time that --until-decided may take.
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "until_decided",
        value_parser = parse_time)]
    budget: Duration,
    /// Only print what would be done, and how long it would take.
    #[arg(long)]
    plan: bool,
    /// Exit with 1 if a claim of the experiment fails.
    #[arg(long, conflicts_with = "plan")]
    fail_on_claims: bool,
    /// Keep what later runs can be compared with in this file (`regatta lab compare FILE DIR`).
    #[arg(long, value_name = "FILE")]
    save_baseline: Option<PathBuf>,
    /// Print the answer with every number and claim, or the plan, as a JSON object.
    #[arg(long)]
    json: bool,
}

/// Runs the command and returns its exit code.
pub(crate) fn run(lab: Lab) -> u8 {
    match lab {
        Lab::List { name: None, json } => cli::list(form(json)),
        Lab::List { name: Some(name), .. } => cli::print_file(&name),
        Lab::Run(run) => run.run(),
        Lab::Best(best) => best.run(),
        Lab::Agent { directory } => agent(&directory),
        Lab::Report { run, json } => cli::report(&run, form(json)),
        Lab::Verdicts { directories, html, json } => {
            cli::verdicts(&directories, html.as_deref(), form(json))
        }
        Lab::Flame { run, arms, json } => cli::flame(&run, &arms, form(json)),
        Lab::Compare { before, after, out, fail_over, json } => match begin() {
            Ok((stop, regatta)) => {
                let (allowed, form) = (fail_over, form(json));
                let options =
                    CompareOptions { before, after, allowed, out, regatta, rules: RULES, form };
                cli::compare(&options, &stop)
            }
            Err(why) => failed(&why),
        },
    }
}

fn form(json: bool) -> Form {
    if json { Form::Json } else { Form::Text }
}

impl Best {
    fn run(self) -> u8 {
        let (stop, regatta) = match begin() {
            Ok(begun) => begun,
            Err(why) => return failed(&why),
        };
        let options = BestOptions { regatta, form: form(self.json), ..self.options };
        best::best(&options, &stop)
    }
}

/// Listens for signals and finds server and load generator, which are this very program.
fn begin() -> Result<(Arc<AtomicBool>, PathBuf), String> {
    let stop = listen()?;
    let regatta = std::env::current_exe();
    let regatta = regatta.map_err(|error| format!("cannot find this program: {error}"))?;
    Ok((stop, regatta))
}

impl Run {
    fn run(self) -> u8 {
        let (stop, regatta) = match begin() {
            Ok(begun) => begun,
            Err(why) => return failed(&why),
        };
        let Self { which, scale, out, plan, save_baseline: baseline, json, server, load, .. } =
            self;
        let server = server.map(|other| (Half::Server, other));
        let other = server.or(load.map(|other| (Half::Load, other)));
        let options = RunOptions {
            which,
            scale,
            out,
            other,
            plan,
            regatta,
            rules: RULES,
            until_decided: self.until_decided.then_some(self.budget),
            baseline,
            fail_on_claims: self.fail_on_claims,
            form: form(json),
        };
        cli::run(&options, &stop)
    }
}

fn agent(directory: &Path) -> u8 {
    let ran = begin().and_then(|(stop, regatta)| machines::agent(directory, &regatta, &stop));
    ran.map_or_else(|why| failed(&why), |()| 0)
}

/// What this program says of the options in an experiment.
const RULES: experiment::Rules = experiment::Rules { fault: option_fault, refused };

fn option_fault(key: &str, value: &str) -> Option<String> {
    let sets = vec![format!("{key}={value}")];
    let (_, problems) = read(None, &Arguments { flags: Vec::new(), sets });
    let said = problems.first().map(said)?;
    // The experiment's reader names the key itself.
    Some(said.strip_prefix(&format!("{key}: ")).map_or(said.clone(), str::to_owned))
}

fn refused(options: &BTreeMap<String, String>) -> Vec<String> {
    let sets = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let arguments = Arguments { flags: Vec::new(), sets };
    match regatta_server::print_config(&Sources { arguments, ..Sources::default() }) {
        Err(Failure::Configuration(problems)) => problems.iter().map(said).collect(),
        Err(Failure::Work(why)) => vec![why],
        Ok(_) => Vec::new(),
    }
}

fn said(problem: &Problem) -> String {
    let hint = problem.hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
    format!("{}{hint}", problem.message)
}

/// Becomes true at the first SIGINT, SIGTERM or SIGHUP; the second ends us at once.
fn listen() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| format!("signals: {error}"))?;
    }
    Ok(stop)
}

fn failed(why: &str) -> u8 {
    say(&format!("regatta lab: {why}\n"));
    FAILED
}

/// `3%` as a share.
fn parse_percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.filter(|number| (0.0..=1_000.0).contains(number)).map(|n| n / 100.0);
    share.ok_or_else(|| "write it as a percentage, such as 3%".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_lab::race::{
        Site,
        space::{Means, Space},
    };

    #[test]
    fn the_options_of_every_experiment_are_options() {
        for (name, text) in experiment::library::EXPERIMENTS {
            for scale in experiment::Scale::ALL {
                if let Err(problems) = experiment::parse_by(RULES, name, text, scale) {
                    panic!("{problems:#?}");
                }
            }
        }
    }

    #[test]
    fn every_configuration_of_a_race_is_one_that_serves() {
        let site = Site { files: 50_000, bytes: 1 << 30, largest: 1 << 20, sizes: Vec::new() };
        let descriptors = regatta_sys::limits::descriptors().hard;
        let space = Space::of(&site, Means { cpus: 2, memory: 8 << 30, descriptors });
        let mut wrong = Vec::new();
        for first in &space.first {
            let all = space.neighbours(first).into_iter().chain([first.clone()]);
            wrong.extend(all.flat_map(|one| refused(&one.config)));
        }
        assert_eq!(wrong, Vec::<String>::new());
    }

    #[test]
    fn shares_are_written_as_percentages() {
        assert_eq!(["3%", "0.5 %"].map(parse_percent), [Ok(0.03), Ok(0.005)]);
        for wrong in ["3", "%", "-1%", "NaN%", "much%"] {
            assert!(parse_percent(wrong).unwrap_err().contains("such as 3%"), "{wrong}");
        }
    }

    #[test]
    fn options_are_read_as_the_server_reads_them() {
        assert_eq!(option_fault("event.processes", "2"), None);
        assert_eq!(option_fault("server.architecture", "symped"), None);
        for (key, value, part) in [
            ("event.procesess", "2", "did you mean event.processes?"),
            ("event.processes", "many", "expected a whole number"),
            ("server.architecture", "sp\u{eb}d", "there is no architecture"),
        ] {
            let said = option_fault(key, value).unwrap();
            assert!(said.contains(part) && !said.starts_with(key), "{said}");
        }
        let options = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(refused(&options(&[("server.architecture", "sped")])), Vec::<String>::new());
        let said = refused(&options(&[("limits.connections_max", "4294967295")]));
        assert!(said.len() == 1 && said[0].contains("descriptors (RLIMIT_NOFILE)"), "{said:?}");
    }
}
