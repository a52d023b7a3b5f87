//! `regatta lab`: flags to the options of the library.
use crate::{FAILED, say};
use clap::{Args, Subcommand, ValueEnum};
use regatta_lab::{
    cli::{self, RunOptions},
    spec,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicBool},
};

#[derive(Debug, Subcommand)]
pub(crate) enum Lab {
    /// List the experiments that come with the program, or print the file of one.
    #[command(after_help = "Example: regatta lab list template-site > mine.toml")]
    List {
        /// Print this one's file, to be changed and run.
        name: Option<String>,
    },
    /// Run an experiment, or go on with one that was interrupted.
    #[command(after_help = "Example: regatta lab run quick --out ./first")]
    Run(Run),
    /// Write the report of a run, whole or interrupted: a page, Markdown, CSV, JSON.
    #[command(after_help = "Example: regatta lab report ./first")]
    Report {
        /// The run's directory.
        run: PathBuf,
    },
    /// Say what differs between two runs.
    #[command(after_help = "Example: regatta lab compare ./before ./after")]
    Compare {
        /// The run to compare with.
        before: PathBuf,
        /// The run that is compared.
        after: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// The name of an experiment, or a file that holds one (docs/lab.md).
    which: String,
    /// How long it may take: minutes, the papers' scaled to this machine, or the papers' own.
    #[arg(long, value_enum, default_value = "quick")]
    scale: Scale,
    /// The run's directory. One that has this experiment's run already goes on.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Only say what would be done, and how long it takes.
    #[arg(long)]
    plan: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Scale {
    /// Minutes.
    Quick,
    /// The papers' set-up, scaled to this machine.
    Replica,
    /// The papers' own sizes.
    Full,
}

/// Runs the command and returns its exit code.
pub(crate) fn run(lab: Lab) -> u8 {
    match lab {
        Lab::List { name: None } => cli::list(),
        Lab::List { name: Some(name) } => cli::print_file(&name),
        Lab::Run(run) => run.run(),
        Lab::Report { run } => cli::report(&run),
        Lab::Compare { before, after } => cli::compare(&before, &after),
    }
}

impl Run {
    fn run(self) -> u8 {
        let stop = match listen() {
            Ok(stop) => stop,
            Err(why) => return failed(&why),
        };
        // Server and load generator are this very program.
        let regatta = match std::env::current_exe() {
            Ok(regatta) => regatta,
            Err(error) => return failed(&format!("cannot find this program: {error}")),
        };
        let scale = match self.scale {
            Scale::Quick => spec::Scale::Quick,
            Scale::Replica => spec::Scale::Replica,
            Scale::Full => spec::Scale::Full,
        };
        let Self { which, out, plan, .. } = self;
        cli::run(&RunOptions { which, scale, out, plan, regatta }, &stop)
    }
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
