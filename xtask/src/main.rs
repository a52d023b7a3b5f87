//! The project's own tools: everything that a contributor or CI runs besides plain cargo.
#![forbid(unsafe_code)]

mod command;
mod dashboard;
mod environment;
#[cfg(test)]
use regatta_testkit::folder;
mod fuzz;
mod generate;
mod memory;
mod package;
mod served;
mod simulate;
mod task_error;
mod test;
mod tidy;
mod tls_storm;

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use std::process::ExitCode;

/// Regatta's own tools.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", args_override_self = true)]
#[command(after_help = "Example: cargo xtask test")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything that CI checks, in order; ends with the omissions, and a count.
    Test,
    /// Run every case of the conformance suite for every variant: the tests of CI leave out cases
    /// that variants have in common.
    Matrix {
        /// Only the cases with this in their name.
        filter: Option<String>,
    },
    /// Check the house rules: lengths, unsafe, arrows between crates, documents.
    Tidy,
    /// Rewrite the documents that are made from sources.
    Gen {
        /// Files to make instead of them.
        what: Option<generate::What>,
    },
    /// Run the simulator and whole event loops in an optimised build.
    Sim(simulate::Options),
    /// Fuzz one target, or each in turn.
    Fuzz(fuzz::Options),
    /// Run a command in a separate environment (network, memory limit, simulated disk, processors),
    /// and clean up after earlier ones.
    #[command(subcommand)]
    Env(environment::Action),
    /// Make Debian packages of both programs, and an image of the server for containers, in
    /// target/package, which is emptied before. docs/operating.md lists their contents.
    Package(package::Options),
    /// Measure the cost of connections, processes and cache entries in each architecture.
    ///
    /// Measures the memory of each architecture (PSS of all processes without the program's own
    /// pages, /proc/PID/smaps_rollup). Varies the numbers of processes, idle connections and cache
    /// entries, and fits a line to each. docs/memory.md has the results. Kernel memory (sockets,
    /// page tables, stacks) is not included. Takes a few minutes.
    Memory(memory::Options),
    /// Shake hands by TLS with every architecture while workers are killed.
    ///
    /// Performs 10,000 handshakes with one architecture of each driver, and 1,000 with each other.
    /// Clients keep session tickets or not, and compare the file that they receive. Fails if a
    /// server repeats a random, a byte is wrong, a connection ends early without a kill, a ticket
    /// does not resume its session, or descriptors or memory leak. Takes some minutes.
    TlsStorm(tls_storm::Options),
}

fn main() -> ExitCode {
    if let Some(code) = regatta_lab_core::env::child_main() {
        return code;
    }
    let outcome = match Cli::parse().command {
        Command::Test => Ok(test::run()),
        Command::Matrix { filter } => Ok(test::matrix(filter.as_deref())),
        Command::Tidy => Ok(tidy::run()),
        Command::Gen { what } => generate::run(what),
        Command::Sim(options) => simulate::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Env(action) => environment::run(action),
        Command::Package(options) => package::run(options),
        Command::Memory(options) => memory::run(options),
        Command::TlsStorm(options) => tls_storm::run(options),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(1)
        }
    }
}

/// Reports wrong usage and exits with code 2.
fn usage(message: &str) -> ! {
    Cli::command().error(ErrorKind::ValueValidation, message).exit()
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
