//! The project's own tools: everything that a contributor or CI runs besides plain cargo.
#![forbid(unsafe_code)]

#[cfg(test)]
use regatta_testkit::folder;
mod fuzz;
mod package;
mod simulate;
mod test;
mod tidy;

use clap::{Args, CommandFactory, Parser, Subcommand, error::ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;
use xtask::{command, course, task_error};

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
    #[command(disable_help_flag = true)]
    Gen(Words),
    /// Run the simulator and whole event loops in an optimised build.
    Sim(simulate::Options),
    /// Fuzz one target, or each in turn.
    Fuzz(fuzz::Options),
    /// Run a command in a separate environment (network, memory limit, simulated disk, processors),
    /// and clean up after earlier ones.
    #[command(disable_help_flag = true)]
    Env(Words),
    /// Run the commands of the course (docs/course) in full, and print the time of each.
    Course,
    /// Make Debian packages of both programs, and an image of the server for containers, in
    /// target/package, which is emptied before. docs/operating.md lists their contents.
    Package(package::Options),
    /// Measure the cost of connections, processes and cache entries in each architecture.
    #[command(disable_help_flag = true)]
    Memory(Words),
    /// Shake hands by TLS with every architecture while workers are killed.
    #[command(disable_help_flag = true)]
    TlsStorm(Words),
}

/// Words of a command that `regatta-tools` has: it needs the project's crates.
#[derive(Debug, Args)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    all: Vec<OsString>,
}

impl Words {
    /// Builds the tools, and becomes the one with this name.
    fn run(self, tool: &str) -> Result<bool, task_error::TaskError> {
        let words = std::iter::once(tool.into()).chain(self.all);
        Err(command::become_tool(words))
    }
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test => Ok(test::run()),
        Command::Matrix { filter } => Ok(test::matrix(filter.as_deref())),
        Command::Tidy => Ok(tidy::run()),
        Command::Gen(words) => words.run("gen"),
        Command::Sim(options) => simulate::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Env(words) => words.run("env"),
        Command::Course => course::run(),
        Command::Package(options) => package::run(options),
        Command::Memory(words) => words.run("memory"),
        Command::TlsStorm(words) => words.run("tls-storm"),
    };
    task_error::exit_code(outcome)
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
