//! `regatta lab`: flags to the options of the library.
use crate::{FAILED, USAGE, say};
use clap::{Args, Subcommand};
use regatta_lab_core::{
    best::{self, BestOptions},
    cli::{self, CompareOptions, Form, PricesOptions, RunOptions},
    experiment,
    film::{self, FilmOptions},
    programs::OwnPrograms,
};
use regatta_server::{
    Failure, Sources,
    config::{
        environment::Environment,
        raw::{Arguments, Problem, read},
    },
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// List the built-in experiments, or print the file of one.
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
    Run {
        #[command(flatten)]
        options: RunOptions,
        /// Print the answer with every number and claim, or the plan, as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Find the best settings for the files of a directory on this machine.
    ///
    /// Races architectures and options; prints a configuration file, or "keep the default".
    #[command(after_help = BEST_HELP)]
    Best(Box<Best>),
    /// Write the report of a run, finished or interrupted: a page, Markdown, JSON.
    #[command(after_help = "Example: regatta lab report ./first")]
    Report {
        /// The run's directory.
        run: PathBuf,
        /// Print the answer with every number and claim as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Judge every claim of the papers by the runs below some directories.
    #[command(after_help = "Example: regatta lab verdicts ./runs > verdicts.md")]
    Verdicts {
        /// Directories of runs, or with runs below them; files of `--keep`.
        #[arg(required = true)]
        directories: Vec<PathBuf>,
        /// Keep the runs in FILE.jsonl.zst, from which the page is made again.
        #[arg(long, value_name = "FILE")]
        keep: Option<PathBuf>,
        /// Print a JSON object instead of Markdown.
        #[arg(long)]
        json: bool,
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
    /// Measure the prices of system calls and switches here, or check a run by them.
    ///
    /// Prints TOML, in the form of the papers' prices. Micro-loops use the loopback device alone.
    #[command(after_help = "Example: regatta lab prices > today.toml")]
    Prices {
        #[command(flatten)]
        options: PricesOptions,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show the differences between two runs, or race two builds of regatta.
    ///
    /// Builds run at the same time, in a run of their own.
    #[command(after_help = "Example: regatta lab compare ./regatta-old ./regatta")]
    Compare {
        #[command(flatten)]
        options: CompareOptions,
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

/// Runs the command and returns its exit code.
pub(crate) fn run(lab: Lab) -> u8 {
    match lab {
        Lab::List { name: None, json } => cli::list(form(json)),
        Lab::List { name: Some(name), .. } => cli::print_file(&name),
        Lab::Run { options, json } => with_server(options.any_version, |programs, stop| {
            cli::run(&RunOptions { programs, rules: RULES, form: form(json), ..options }, stop)
        }),
        Lab::Best(asked) => with_server(asked.options.any_version, |programs, stop| {
            let Best { options, json } = *asked;
            best::best(&BestOptions { programs, form: form(json), ..options }, stop)
        }),
        Lab::Report { run, json } => cli::report(&run, form(json)),
        Lab::Verdicts { directories, keep, json } => {
            cli::verdicts(&directories, keep.as_deref(), form(json))
        }
        Lab::Flame { run, arms, json } => cli::flame(&run, &arms, form(json)),
        Lab::Prices { options, json } => {
            begun(|_, stop| cli::prices(&PricesOptions { form: form(json), ..options }, stop))
        }
        Lab::Compare { options, json } => begun(|lab, stop| {
            // The command line names two programs; two runs need none.
            let programs = OwnPrograms { regatta: options.after.clone(), lab };
            let options = CompareOptions { programs, rules: RULES, form: form(json), ..options };
            cli::compare(&options, stop)
        }),
    }
}

/// Films a scene and returns the exit code.
pub(crate) fn film(options: FilmOptions, json: bool) -> u8 {
    with_server(options.any_version, |programs, stop| {
        film::film(&FilmOptions { programs, rules: RULES, form: form(json), ..options }, stop)
    })
}

fn form(json: bool) -> Form {
    if json { Form::Json } else { Form::Text }
}

/// Does work that needs this program's path and may be stopped, and returns its exit code.
fn begun(work: impl FnOnce(PathBuf, &AtomicBool) -> u8) -> u8 {
    begin().map_or_else(|why| failed(&why), |(stop, lab)| work(lab, &stop))
}

/// [`begun`] for work that needs a server, too: one of this version, unless `any_version`.
fn with_server(any_version: bool, work: impl FnOnce(OwnPrograms, &AtomicBool) -> u8) -> u8 {
    begun(|lab, stop| match OwnPrograms::find(lab, env!("REGATTA_VERSION"), any_version) {
        Ok(programs) => work(programs, stop),
        Err(why) => {
            say(&format!("regatta lab: {why}\n"));
            USAGE
        }
    })
}

/// Listens for signals and finds this program, which is the load generator.
fn begin() -> Result<(Arc<AtomicBool>, PathBuf), String> {
    let stop = listen()?;
    let lab = std::env::current_exe();
    let lab = lab.map_err(|error| format!("cannot find this program: {error}"))?;
    Ok((stop, lab))
}

/// Rules of this program for the options in an experiment.
const RULES: experiment::Rules = experiment::Rules { fault: option_fault, refused };

fn option_fault(key: &str, value: &str) -> Option<String> {
    let sets = vec![format!("{key}={value}")];
    let arguments = Arguments { flags: Vec::new(), sets };
    let (_, problems) = read(&[], &arguments, &Environment::default());
    let said = problems.first().map(said)?;
    // The experiment's reader names the key itself.
    Some(said.strip_prefix(&format!("{key}: ")).map_or(said.clone(), str::to_owned))
}

fn refused(options: &BTreeMap<String, String>) -> Vec<String> {
    let sets = options.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let arguments = Arguments { flags: Vec::new(), sets };
    match regatta_server::print_config(&Sources { arguments, ..Sources::default() }) {
        Err(Failure::Configuration(problems)) => problems.iter().map(said).collect(),
        Err(Failure::Usage(fault)) => vec![fault.to_string()],
        Err(Failure::Work(fault)) => vec![fault.to_string()],
        Ok(_) => Vec::new(),
    }
}

fn said(problem: &Problem) -> String {
    let hint = problem.hint.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
    format!("{}{hint}", problem.message)
}

/// Becomes true at the first SIGINT, SIGTERM or SIGHUP; the second ends this process at once.
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

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_lab_core::race::{
        Site,
        space::{Means, Space},
    };

    #[test]
    fn the_options_of_every_experiment_are_options() {
        for (name, text) in experiment::library::EXPERIMENTS {
            for scale in experiment::Scale::ALL {
                if let Err(problems) = experiment::parse_by(Some(RULES), name, text, scale) {
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
