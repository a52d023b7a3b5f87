//! `cargo xtask env`: a command in a separate environment, and leftovers of earlier ones.

use crate::interrupt;
use crate::task_error::TaskError;
use clap::{Args, Subcommand};
use regatta_lab_core::env::{Environment, Fault, Place, Record, Spec, clean, ledgers, list};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// Run a command in a separate environment, which is undone afterwards, even after Ctrl-C.
    #[command(after_help = RUN_HELP)]
    Run(Box<Options>),
    /// Show environments that have left something, and their leftovers.
    List,
    /// Undo the leftovers of those whose keeper is gone.
    Clean,
}

const RUN_HELP: &str = "\
Exit code: 0; 1 if the command fails or this machine does not allow it; 2 for bad usage.

Example: cargo xtask env run --memory 256M --disk seek_ms=4,bandwidth=50MB --files ./site -- ls";

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A network namespace; '' for one with the defaults. Keys: mtu (1500), layout (loopback,
    /// pair), addresses (10.9.1.1 to 10.9.N.1), tcp_wmem, tcp_rmem ('4096 16384 131072'), rate
    /// (bytes per second, tbf), delay_ms (netem), single_packets (true: no segmentation offload).
    #[arg(long, value_name = "KEY=VALUE,..")]
    network: Option<String>,
    /// The same as --network mtu=BYTES.
    #[arg(long, value_name = "BYTES")]
    mtu: Option<String>,
    /// Kernel settings, in that namespace: geneves, those of [G].
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Most memory, page cache included, such as 256M.
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Most processor time, per cent of one processor.
    #[arg(long, value_name = "PERCENT")]
    quota: Option<String>,
    /// Remaining share of the processors of --server-cpus, which makes them slower.
    #[arg(long, value_name = "PERCENT")]
    slow: Option<String>,
    /// Processors of the command, such as 0 or 0-3.
    #[arg(long, value_name = "LIST")]
    server_cpus: Option<String>,
    /// Processors of the simulated disk.
    #[arg(long, value_name = "LIST")]
    client_cpus: Option<String>,
    /// The priority.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    nice: Option<String>,
    /// The real-time priority, which goes before all others.
    #[arg(long, value_name = "N")]
    realtime: Option<String>,
    /// The files; the command finds them in $REGATTA_FILES.
    #[arg(long, value_name = "DIR")]
    files: Option<PathBuf>,
    /// Their state in the page cache at the start: cold or warm.
    #[arg(long, value_name = "STATE")]
    pages: Option<String>,
    /// A simulated disk with the files. Keys: seek_ms (3), seek (fixed, distance), bandwidth
    /// (100MB), heads (1), queue (fifo, nearest, anticipatory, slices), writable, size,
    /// read_ahead_kb (128), image, log (a file).
    #[arg(long, value_name = "KEY=VALUE,..")]
    disk: Option<String>,
    /// Have the kernel account waits for the disk.
    #[arg(long)]
    accounting: bool,
    /// Write the actual environment to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Only report what this machine does not allow.
    #[arg(long)]
    check: bool,
    /// The command and its words.
    #[arg(last = true)]
    command: Vec<String>,
}

/// Runs, lists or cleans; false if the command failed or is not allowed here.
pub(crate) fn run(action: Action) -> Result<bool, TaskError> {
    match action {
        Action::List => Ok(print_list()),
        Action::Clean => {
            let done = clean().map_err(TaskError::lab)?;
            done.iter().for_each(|id| println!("undone: {id}"));
            println!("{} undone", done.len());
            Ok(true)
        }
        Action::Run(options) => inside(&options),
    }
}

fn print_list() -> bool {
    for entry in list() {
        let state = if entry.owner.is_alive() { "in use" } else { "left over" };
        println!("{}  {state}, for process {}", entry.id, entry.asker);
        entry.made.iter().for_each(|made| println!("    {made:?}"));
    }
    println!("(ledgers: {})", ledgers().display());
    true
}

fn inside(options: &Options) -> Result<bool, TaskError> {
    let spec = options.specification()?;
    if options.check {
        return Ok(say_lacks(&spec));
    }
    let [program, words @ ..] = &options.command[..] else {
        crate::usage("a command is missing, after `--`");
    };
    let environment = match Environment::make(&spec) {
        Ok(environment) => environment,
        Err(Fault::Lacking(lacks)) => {
            lacks.iter().for_each(|lack| eprintln!("not allowed here: {lack}"));
            return Ok(false);
        }
        Err(fault) => return Err(TaskError::lab(fault.to_string())),
    };
    if let Some(file) = &options.record {
        write_record(environment.record(), file)?;
    }
    let stop = interrupt()?;
    let mut command = environment.command(Place::Server, Path::new(program));
    command.args(words);
    if let Some(root) = environment.root() {
        command.env("REGATTA_FILES", root);
    }
    let child = command.spawn().map_err(TaskError::attempting("run", program))?;
    let succeeded = wait(child, &stop).map_err(TaskError::attempting("wait for", program));
    environment.end().map_err(TaskError::lab)?;
    succeeded
}

/// Waits for the command. Ctrl-C, which the command receives too, ends it with the environment.
fn wait(mut child: Child, stop: &AtomicBool) -> io::Result<bool> {
    while !stop.load(Ordering::Relaxed) {
        match child.try_wait()? {
            None => std::thread::sleep(Duration::from_millis(5)),
            Some(status) => return Ok(status.success()),
        }
    }
    Ok(false)
}

/// Reports the faults of a specification and the lacks of this machine; true if there are none.
fn say_lacks(spec: &Spec) -> bool {
    let (faults, lacks) = (spec.faults(), regatta_lab_core::env::lacks(spec));
    faults.iter().for_each(|fault| println!("wrong: {fault}"));
    lacks.iter().for_each(|lack| println!("not allowed here: {lack}"));
    faults.is_empty() && lacks.is_empty()
}

fn write_record(record: &Record, file: &Path) -> Result<(), TaskError> {
    let text = serde_json::to_string_pretty(record).map_err(io::Error::from);
    let written = text.and_then(|text| std::fs::write(file, text));
    written.map_err(TaskError::attempting("write", file.display()))
}

impl Options {
    fn specification(&self) -> Result<Spec, TaskError> {
        let (accounting, files) = (self.accounting, self.files.clone());
        let mut spec = Spec { accounting, files, ..Spec::default() };
        for (section, text) in [("network", &self.network), ("disk", &self.disk)] {
            if let Some(text) = text {
                spec.set_section(section, text).map_err(TaskError::lab)?;
            }
        }
        // Flags that give a key of a specification its value.
        let flags = [
            ("--mtu", "network.mtu", &self.mtu),
            ("--profile", "settings", &self.profile),
            ("--memory", "memory", &self.memory),
            ("--quota", "cpu.quota_percent", &self.quota),
            ("--slow", "cpu.left_percent", &self.slow),
            ("--server-cpus", "cpu.server", &self.server_cpus),
            ("--client-cpus", "cpu.client", &self.client_cpus),
            ("--nice", "cpu.nice", &self.nice),
            ("--realtime", "cpu.realtime", &self.realtime),
            ("--pages", "pages", &self.pages),
        ];
        for (flag, key, text) in flags {
            if let Some(text) = text {
                spec.set(key, text)
                    .map_err(|why| TaskError::Flag(flag, text.clone(), why.into()))?;
            }
        }
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Options};
    use crate::{Cli, Command};
    use clap::Parser;
    use regatta_lab_core::env::spec::{Pages, Spec};
    use std::error::Error;

    fn options(words: &[&str]) -> Result<Box<Options>, Box<dyn Error>> {
        let words = ["xtask", "env", "run"].into_iter().chain(words.iter().copied());
        match Cli::try_parse_from(words)?.command {
            Command::Env(Action::Run(options)) => Ok(options),
            other => Err(format!("{other:?}").into()),
        }
    }

    fn read(words: &str) -> Result<Spec, Box<dyn Error>> {
        Ok(options(&words.split(' ').collect::<Vec<_>>())?.specification()?)
    }

    #[test]
    fn an_environment_is_read_from_the_command_line() {
        let words = "--memory 256M --disk seek_ms=4 --mtu 9000 --pages warm --server-cpus 0-1";
        let spec = read(words).unwrap();
        assert_eq!((spec.memory_bytes, spec.pages), (256 << 20, Pages::Warm));
        assert_eq!(spec.network.unwrap().mtu, 9_000);
        assert_eq!(spec.cpu.server, [0, 1]);
        for wrong in ["--memory x", "--disk x", "--pages x", "--nice x", "--quota 99999999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for wrong in ["--memory", "--memory --check", "--odd", "ls"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let last = read("--nice 5 --mtu 9000 --mtu=1400 --nice -5").unwrap();
        assert_eq!((last.network.unwrap().mtu, last.cpu.nice), (1_400, -5));
        for empty in [&["--network", ""][..], &["--network="]] {
            let spec = options(empty).unwrap().specification().unwrap();
            assert_eq!(spec.network.unwrap().mtu, 1_500);
        }
    }

    #[test]
    fn the_words_of_the_command_are_its_own() {
        let found = options(&["--check", "--", "ls", "--check", "--nice", "4", "--", "x"]).unwrap();
        assert_eq!(found.command, ["ls", "--check", "--nice", "4", "--", "x"]);
        assert!(found.check && found.nice.is_none());
    }
}
