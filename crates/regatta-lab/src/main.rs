//! The command line of the lab: arguments and exit codes of each command.
#![forbid(unsafe_code)]

mod habits;
mod lab;
mod load;
mod pages;
mod workload;

use clap::{CommandFactory, Parser, Subcommand};
use regatta_lab_core::film::FilmOptions;
use regatta_load::bare::{self, BareOptions};
use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Measures servers: experiments, loads, workloads, and the bare loop as their baseline.
#[derive(Debug, Parser)]
#[command(name = "regatta-lab", version = env!("REGATTA_VERSION"), arg_required_else_help = true)]
#[command(after_help = HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const HELP: &str = "Example: regatta-lab lab run quick\n\n\
    The server's program runs these commands, too: regatta lab run quick";

#[derive(Debug, Subcommand)]
enum Command {
    /// Run experiments: compare servers on this machine, with confidence intervals.
    #[command(subcommand, after_help = "Example: regatta lab run quick")]
    Lab(lab::Lab),
    /// Film a ready scene in several architectures, on one page.
    ///
    /// Each serves the same two files. One is in memory; the other is on a slow disk that is made
    /// for the film. Root has that disk in a process of its own.
    #[command(after_help = "Example: regatta-lab film sped amped mt --out film.html")]
    Film {
        #[command(flatten)]
        options: FilmOptions,
        /// Print the times, counters and films as a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Send load to any HTTP server, and report how it did.
    #[command(args_conflicts_with_subcommands = true)]
    #[command(after_help = "Example: regatta load http://127.0.0.1:8080/ --rate 2000 -d 30s \
                            --slo 'p99<50ms'")]
    Load(Box<load::Load>),
    /// Make, inspect and predict workloads: file sets and session logs.
    #[command(subcommand, after_help = "Example: regatta workload new quick ./w")]
    Workload(workload::Workload),
    /// Run the bare loop, the baseline of measurements.
    ///
    /// It sends the same bytes for every request, and parses nothing.
    #[command(after_help = "Example: regatta null --listen 127.0.0.1:0 --body 4096")]
    Null(BareOptions),
    /// Write manual pages, and completions for bash, fish and zsh.
    #[command(after_help = "Example: regatta-lab pages ./pages && man -l ./pages/regatta-lab.1")]
    Pages {
        /// The directory to write them into.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Exit code: done.
const DONE: u8 = 0;
/// Exit code: the work failed.
const FAILED: u8 = 1;
/// Exit code: bad usage or configuration.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    end_on_panic();
    regatta_sys::signal::keep_children();
    // The lab's environments are kept by processes of this program.
    if let Some(code) = regatta_lab_core::env::child_main() {
        return code;
    }
    let parsed = Cli::try_parse();
    let cli = parsed.unwrap_or_else(|error| {
        let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
        habits::explain(error, &words.collect::<Vec<_>>()).exit()
    });
    ExitCode::from(match cli.command {
        Command::Lab(command) => lab::run(command),
        Command::Film { options, json } => lab::film(options, json),
        Command::Load(load) => load::run(*load),
        Command::Workload(command) => workload::run(command),
        Command::Null(options) => null(&options),
        Command::Pages { directory } => write_pages(&directory),
    })
}

/// Makes a panic of any thread end its process, as release builds do.
fn end_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

fn null(options: &BareOptions) -> u8 {
    bare::run(options).map_or_else(
        |fault| {
            say(&format!("regatta null: {fault}\n"));
            fault.exit_code()
        },
        |()| DONE,
    )
}

fn write_pages(directory: &Path) -> u8 {
    pages::write(Cli::command(), directory).map_or_else(
        |error| {
            say(&format!("regatta-lab: {}: {error}\n", directory.display()));
            FAILED
        },
        |()| DONE,
    )
}

/// Prints on standard error, which may be closed.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_testkit::commands;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// Options of loads and workloads are described, with an example, in their pages.
    #[test]
    fn every_option_of_loads_stands_in_their_pages() {
        let command = Cli::command();
        let load = command.find_subcommand("load").expect("it is there");
        let workload = command.find_subcommand("workload").expect("it is there");
        let pages = [
            (vec![load], include_str!("../../../docs/load.md")),
            (workload.get_subcommands().collect(), include_str!("../../../docs/workload.md")),
        ];
        for (commands, page) in pages {
            for command in commands {
                let name = command.get_name();
                for long in command.get_arguments().filter_map(|argument| argument.get_long()) {
                    let whole =
                        |at: &&str| !at.starts_with(|c: char| c.is_alphanumeric() || c == '-');
                    let found = page.split(&format!("--{long}")).skip(1).filter(whole).count();
                    assert!(found > 0 || long == "help", "{name} --{long} is not described");
                }
            }
        }
    }

    #[test]
    fn the_page_names_every_command_and_no_flag_that_is_not() {
        commands::page_names_all(include_str!("../../../docs/commands.md"), &Cli::command());
    }

    /// The exceptions write files, or serve or rewrite a file until they are stopped.
    #[test]
    fn every_command_that_prints_results_does_so_as_json() {
        commands::all_print_json(&Cli::command(), &["pages", "null", "alter"]);
    }

    #[test]
    fn every_command_has_an_example() {
        commands::all_have_examples(&Cli::command());
    }
}
