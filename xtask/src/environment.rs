//! `cargo xtask env`: a command in an environment of its own, and what earlier ones left.

use crate::arguments::Arguments;
use crate::command::interrupt;
use regatta_lab::env::{Environment, Fault, Place, Record, Spec, clean, ledgers, list};
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const HELP: &str = "\
Runs a command in an environment of its own, which is undone afterwards, also after Ctrl-C or a
crash.

Usage: cargo xtask env run [options] -- COMMAND...
       cargo xtask env list           environments that have left something, and what
       cargo xtask env clean          undo what is left of those whose keeper is gone

  --network KEY=VALUE,..   a network namespace; `--network ''` for one with the defaults. Keys:
                           mtu (1500), layout (loopback, pair), addresses (10.9.1.1 to 10.9.N.1),
                           tcp_wmem, tcp_rmem ('4096 16384 131072'), rate (bytes per second, tbf),
                           delay_ms (netem), single_packets (true: no segmentation offload)
  --mtu BYTES              the same as --network mtu=BYTES
  --profile geneves        kernel settings of [G], in that namespace
  --memory SIZE            the most memory, page cache included, such as 256M
  --quota PERCENT          the most processor time, per cent of one processor
  --slow PERCENT           what is left of the processors of --server-cpus: slower ones
  --server-cpus LIST       where the command runs, such as 0 or 0-3
  --client-cpus LIST       where the simulated disk runs
  --nice N                 the priority
  --realtime N             the real-time priority, which goes before all others
  --files DIR              the files; the command finds them in $REGATTA_FILES
  --pages cold|warm        what the page cache holds of them at the start
  --disk KEY=VALUE,..      a simulated disk with the files. Keys: seek_ms (3), seek (fixed,
                           distance), bandwidth (100MB), heads (1), queue (fifo, nearest),
                           writable, size, read_ahead_kb (128), image, log (a file)
  --accounting             have the kernel account waits for the disk
  --record FILE            write down what the environment turned out to be, as JSON
  --check                  only say what this machine does not allow

Exit code: the command's; 1 if this machine does not allow it; 2 for bad usage.

Example: cargo xtask env run --memory 256M --disk seek_ms=4,bandwidth=50MB --files ./site -- ls
";

/// Runs, lists or cleans; false if the command failed or is not allowed here.
pub(crate) fn run(words: &[String]) -> Result<bool, String> {
    let mut arguments = Arguments::new(words);
    let command = arguments.after_dashes();
    if arguments.flag("--help") {
        print!("{HELP}");
        return Ok(true);
    }
    match arguments.word().as_deref() {
        Some("list") => arguments.finish().map(|()| print_list()),
        Some("clean") => {
            arguments.finish()?;
            let done = clean().inspect(|done| {
                done.iter().for_each(|id| println!("undone: {id}"));
            })?;
            println!("{} undone", done.len());
            Ok(true)
        }
        Some("run") => inside(arguments, &command),
        _ => Err(format!("run, list or clean?\n\n{HELP}")),
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

fn inside(mut arguments: Arguments, words: &[String]) -> Result<bool, String> {
    let spec = specification(&mut arguments)?;
    let record = arguments.text("--record")?;
    let check = arguments.flag("--check");
    arguments.finish()?;
    if check {
        return Ok(say_lacks(&spec));
    }
    let [program, words @ ..] = words else {
        return Err("a command is missing, after `--`".to_owned());
    };
    let environment = match Environment::make(&spec) {
        Ok(environment) => environment,
        Err(Fault::Lacking(lacks)) => {
            lacks.iter().for_each(|lack| eprintln!("not allowed here: {lack}"));
            return Ok(false);
        }
        Err(fault) => return Err(fault.to_string()),
    };
    if let Some(file) = record {
        write_record(environment.record(), Path::new(&file))?;
    }
    let stop = interrupt()?;
    let mut command = environment.command(Place::Server, Path::new(program));
    command.args(words);
    if let Some(root) = environment.root() {
        command.env("REGATTA_FILES", root);
    }
    let child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let succeeded = wait(child, &stop);
    environment.end()?;
    succeeded
}

/// Waits for the command. After Ctrl-C, which the command got too, it ends with the environment.
fn wait(mut child: Child, stop: &AtomicBool) -> Result<bool, String> {
    while !stop.load(Ordering::Relaxed) {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            Ok(Some(status)) => return Ok(status.success()),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(false)
}

/// Says what is wrong with a specification and what this machine lacks; true if nothing.
fn say_lacks(spec: &Spec) -> bool {
    let (faults, lacks) = (spec.faults(), regatta_lab::env::lacks(spec));
    faults.iter().for_each(|fault| println!("wrong: {fault}"));
    lacks.iter().for_each(|lack| println!("not allowed here: {lack}"));
    faults.is_empty() && lacks.is_empty()
}

fn write_record(record: &Record, file: &Path) -> Result<(), String> {
    let text = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    std::fs::write(file, text).map_err(|error| format!("{}: {error}", file.display()))
}

/// Flags that give a key of a specification its value.
const FLAGS: [(&str, &str); 10] = [
    ("--mtu", "network.mtu"),
    ("--profile", "settings"),
    ("--memory", "memory"),
    ("--quota", "cpu.quota_percent"),
    ("--slow", "cpu.left_percent"),
    ("--server-cpus", "cpu.server"),
    ("--client-cpus", "cpu.client"),
    ("--nice", "cpu.nice"),
    ("--realtime", "cpu.realtime"),
    ("--pages", "pages"),
];

fn specification(arguments: &mut Arguments) -> Result<Spec, String> {
    let mut spec = Spec { accounting: arguments.flag("--accounting"), ..Spec::default() };
    spec.files = arguments.text("--files")?.map(Into::into);
    for section in ["network", "disk"] {
        if let Some(text) = arguments.text(&format!("--{section}"))? {
            spec.set_section(section, &text)?;
        }
    }
    for (flag, key) in FLAGS {
        if let Some(text) = arguments.text(flag)? {
            spec.set(key, &text).map_err(|why| format!("{flag} {text}: {why}"))?;
        }
    }
    Ok(spec)
}

#[cfg(test)]
mod tests {
    use super::specification;
    use crate::arguments::Arguments;
    use regatta_lab::env::spec::Pages;

    #[test]
    fn an_environment_is_read_from_the_command_line() {
        let words = "--memory 256M --disk seek_ms=4 --mtu 9000 --pages warm --server-cpus 0-1";
        let read = |words: &str| {
            let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
            specification(&mut Arguments::new(&words))
        };
        let spec = read(words).unwrap();
        assert_eq!((spec.memory_bytes, spec.pages), (256 << 20, Pages::Warm));
        assert_eq!(spec.network.unwrap().mtu, 9_000);
        assert_eq!(spec.cpu.server, [0, 1]);
        for wrong in ["--memory x", "--disk x", "--pages x", "--nice x", "--quota 99999999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
