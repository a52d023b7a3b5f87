//! `regatta workload`: runs the library's commands, with progress and Ctrl-C.
use crate::{DONE, FAILED, say};
use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use regatta_load::engine::{parse_alter, parse_time};
use regatta_load::workload::{
    cli::{self, FromDirOptions, FromLogOptions, InspectOptions, NewOptions},
    fault::{Fault, Progress},
    manifest::Altered,
};
use std::{
    io::{self, IsTerminal, Write},
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// Time that a command runs before it shows its progress.
const SILENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Subcommand)]
pub(crate) enum Workload {
    /// Make a workload from a preset: files, session logs and a manifest.
    #[command(after_help = "Example: regatta workload new quick ./w && regatta serve ./w/root")]
    New(NewOptions),
    /// Describe a workload, a directory or a log, and predict results.
    #[command(after_help = "Example: regatta workload inspect ./w --rate 2000 --connections 1000")]
    Inspect(InspectOptions),
    /// Rewrite the single file of a workload, version after version, until Ctrl-C.
    ///
    /// Run this where the files are if `regatta load --alter off` runs on another machine.
    #[command(after_help = "Example: regatta workload alter ./w --way renamed@10ms -d 30s")]
    Alter(Alter),
    /// Make a workload over your own content.
    #[command(after_help = "Example: regatta workload from-dir ./public ./w --exponent 0.9")]
    FromDir(FromDirOptions),
    /// Make a workload from a real access log (common, combined or JSON).
    #[command(after_help = "Example: regatta workload from-log access.log ./w --session-gap 60")]
    FromLog(FromLogOptions),
}

#[derive(Debug, Args)]
pub(crate) struct Alter {
    /// The directory of a workload of one file, such as 10k-altered.
    workload: PathBuf,
    /// Way: literal, renamed or forced, with @TIME between versions; by default the workload's.
    #[arg(long, value_name = "WAY@TIME", value_parser = way)]
    way: Option<Altered>,
    /// Time to rewrite for; by default until Ctrl-C.
    #[arg(long, short = 'd', value_name = "TIME", value_parser = parse_time)]
    duration: Option<Duration>,
}

fn way(text: &str) -> Result<Altered, String> {
    let off = || "off alters nothing: say literal, renamed or forced".to_owned();
    parse_alter(text)?.ok_or_else(off)
}

/// Runs one command and returns its exit code.
pub(crate) fn run(command: Workload) -> u8 {
    let watcher = match Watcher::new() {
        Ok(watcher) => watcher,
        Err(error) => {
            say(&format!("regatta: cannot take Ctrl-C: {error}\n"));
            return FAILED;
        }
    };
    let watch = |progress: Progress| watcher.see(&progress);
    let mut out = io::stdout().lock();
    let done = match command {
        Workload::New(new) => cli::new(&new, &watch, &mut out),
        Workload::Inspect(inspect) => cli::inspect(&inspect, &watch, &mut out),
        Workload::Alter(alter) => {
            cli::alter(&alter.workload, alter.way, alter.duration, &watch, &mut out)
        }
        Workload::FromDir(from) => cli::from_dir(&from, &watch, &mut out),
        Workload::FromLog(from) => cli::from_log(&from, &watch, &mut out),
    };
    watcher.bar.finish_and_clear();
    let flushed = out.flush();
    match done {
        // A reader that has closed the pipe is no failure.
        Ok(code) if flushed.as_ref().is_err_and(is_enough) || flushed.is_ok() => code,
        Err(Fault::Io { source, .. }) if is_enough(&source) => DONE,
        Ok(_) => FAILED,
        Err(fault @ (Fault::Usage(_) | Fault::Unread(_))) => {
            fault.to_string().lines().for_each(|line| say(&format!("regatta: {line}\n")));
            fault.exit_code()
        }
        Err(fault) => {
            say(&format!("regatta: {fault}\n"));
            fault.exit_code()
        }
    }
}

fn is_enough(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Shows progress on a terminal, and notices Ctrl-C.
struct Watcher {
    bar: ProgressBar,
    started: Instant,
    interrupted: Arc<AtomicBool>,
}

impl Watcher {
    fn new() -> io::Result<Self> {
        let interrupted = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
        }
        Ok(Self { bar: ProgressBar::hidden(), started: Instant::now(), interrupted })
    }

    fn see(&self, progress: &Progress) -> ControlFlow<()> {
        if self.interrupted.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if self.bar.is_hidden() && io::stderr().is_terminal() && self.started.elapsed() > SILENCE {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}% {eta} left");
            self.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            self.bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        self.bar.set_message(progress.what);
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
        ControlFlow::Continue(())
    }
}
