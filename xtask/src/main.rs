//! The project's own tools: everything a contributor or CI runs besides plain cargo.
#![forbid(unsafe_code)]

mod arguments;
mod command;
mod dashboard;
mod environment;
#[cfg(test)]
#[path = "../folder.rs"]
mod folder;
mod fuzz;
mod generate;
mod memory;
mod package;
mod simulate;
#[cfg(test)]
#[path = "../skips.rs"]
mod skips;
mod test;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
Regatta's own tools.

Usage: cargo xtask COMMAND [options]

  test                 everything that CI checks, in order; ends with what was left out, and a count
  matrix [FILTER]      every case of the conformance suite for every variant: the tests of CI leave
                       out what variants have in common
  tidy                 the house rules: lengths, unsafe, arrows between crates, documents
  gen                  rewrites the documents and example files that are made from sources
  sim  [--seeds N] [--loops N] [--from S]
                       the simulator and whole event loops in an optimised build (defaults: 100000
                       seeds and, for each way to run a loop, 5000; from 0)
  fuzz [TARGET] [--seconds S] [--smoke]
                       fuzz one target, or each in turn (default: 30 s each); --smoke needs no
                       nightly compiler: corpora and mutations of them (default: 1 s each)
  env run|list|clean   a command in an environment of its own (network, memory limit, simulated
                       disk, processors), and what was left of earlier ones; `env --help`
  package [deb|oci]    a Debian package, and an image for containers; `package --help`
  memory [options]     what connections, processes and cache entries cost; `memory --help`

Example: cargo xtask test
";

fn main() -> ExitCode {
    if let Some(code) = regatta_lab::env::child_main() {
        return code;
    }
    let mut words = std::env::args().skip(1);
    let command = words.next().unwrap_or_default();
    let rest: Vec<String> = words.collect();
    let outcome = match command.as_str() {
        "test" => test::run(&rest),
        "matrix" => test::matrix(&rest),
        "tidy" => tidy::run(&rest),
        "gen" => generate::run(&rest),
        "sim" => simulate::run(&rest),
        "fuzz" => fuzz::run(&rest),
        "env" => environment::run(&rest),
        "memory" => memory::run(&rest),
        "package" => package::run(&rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(true)
        }
        "" => Err(format!("a command is missing\n\n{HELP}")),
        other => Err(format!("no command `{other}`\n\n{HELP}")),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}
