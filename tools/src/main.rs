//! Tools of `cargo xtask` that need the project's crates. `xtask` builds and runs them.
#![forbid(unsafe_code)]

mod dashboard;
mod environment;
mod generate;
mod memory;
mod served;
mod tls_storm;

use clap::{CommandFactory, Parser, Subcommand, error::ErrorKind};
use rustix::process::Signal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use xtask::{command, task_error};

/// Regatta's own tools.
#[derive(Debug, Parser)]
#[command(bin_name = "cargo xtask", args_override_self = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Rewrite the documents that are made from sources.
    Gen {
        /// Files to make instead of them.
        what: Option<generate::What>,
    },
    /// Run a command in a separate environment (network, memory limit, simulated disk, processors),
    /// and clean up after earlier ones.
    #[command(subcommand)]
    Env(environment::Action),
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
        Command::Gen { what } => generate::run(what),
        Command::Env(action) => environment::run(action),
        Command::Memory(options) => memory::run(options),
        Command::TlsStorm(options) => tls_storm::run(options),
    };
    task_error::exit_code(outcome)
}

/// Reports wrong usage and exits with code 2.
fn usage(message: &str) -> ! {
    Cli::command().error(ErrorKind::ValueValidation, message).exit()
}

/// Becomes true when the user or the system asks us to stop (SIGINT, SIGTERM, SIGHUP); the second
/// signal ends us at once.
fn interrupt() -> Result<Arc<AtomicBool>, task_error::TaskError> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let number = signal.as_raw();
        signal_hook::flag::register_conditional_shutdown(number, 130, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(number, Arc::clone(&flag)))
            .map_err(task_error::TaskError::attempting("take", "signals"))?;
    }
    Ok(flag)
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
