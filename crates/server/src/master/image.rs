//! Execution of the next image of the master: its program and arguments, and the report of a trial.
use crate::{
    Failure,
    findings::Sent,
    given,
    handover::{HandoverError, INHERIT},
};
use regatta_sys::{
    channel::Channel,
    exec,
    process::{Child, end},
    signal::Signal,
};
use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, PipeReader, PipeWriter, Write},
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    process,
};

/// Limit of a trial's report, bytes: a pipe takes this much without a reader.
pub(super) const REPORT_BYTES_MAX: usize = 60_000;

/// Becomes `program`, with these arguments, the name included, and this process's environment.
/// Sockets from the service manager are handed over as all others are.
pub(super) fn run(
    program: &Path,
    mut arguments: Vec<OsString>,
    memory: &OwnedFd,
    keep: &[BorrowedFd<'_>],
) -> io::Error {
    let inherit = format!("{INHERIT}{}", memory.as_raw_fd());
    arguments.insert(arguments.len().min(2), inherit.into());
    let env = env::vars_os().filter(|(name, _)| given::VARIABLES.iter().all(|of| name != of));
    exec::exec(program, &arguments, &env.collect::<Vec<_>>(), keep)
}

/// Arguments of this image, its name included, without the handover.
pub(super) fn own_arguments() -> Vec<OsString> {
    // Only images pass it: it is not documented.
    env::args_os().filter(|word| !word.to_string_lossy().starts_with(INHERIT)).collect()
}

/// Path of this program: an upgrade executes what lies there then.
pub(super) fn own_program() -> PathBuf {
    fs::read_link("/proc/self/exe")
        .unwrap_or_else(|_| env::args_os().next().unwrap_or_default().into())
}

/// Takes a descriptor that the image before has handed over.
pub(super) fn take(raw: RawFd) -> Result<OwnedFd, HandoverError> {
    exec::take(raw).map_err(HandoverError::Descriptor)
}

/// A trial in progress.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) child: Child,
    pub(super) report: PipeReader,
    pub(super) channel: Channel,
    /// Part of the findings that has been received.
    pub(super) found: Sent,
    /// Whether more may arrive; then the poller watches for it.
    pub(super) is_open: bool,
}

impl Trial {
    /// Kills the trial, and all processes that it has started.
    pub(super) fn kill(&self) {
        // The trial may have ended, or may not lead a group yet.
        let _ = self.child.kill_group();
        let _ = self.child.kill(Signal::Kill);
    }
}

/// Report of a trial without faults. Success alone proves nothing: any program may exit with it.
/// And a program that delegates the work would not be the process that continues as the master.
pub(super) fn approval(pid: u32) -> String {
    format!("process {pid} can serve")
}

/// Ends a trial without faults: reports success.
pub(super) fn approve(mut report: &PipeWriter) -> ! {
    // The reader may be gone.
    let _ = report.write_all(approval(process::id()).as_bytes());
    end(0)
}

/// Ends a trial with faults: reports them.
pub(super) fn refuse(mut report: &PipeWriter, failure: &Failure) -> ! {
    // The reader may be gone.
    let said = lines(failure).join("\n");
    let bytes = said.len().min(REPORT_BYTES_MAX);
    let _ = report.write_all(&said.as_bytes()[..bytes]);
    end(2)
}

/// Lists faults, one per line.
pub(super) fn lines(failure: &Failure) -> Vec<String> {
    match failure {
        Failure::Usage(fault) => split_lines(&fault.to_string()),
        Failure::Work(fault) => split_lines(&fault.to_string()),
        Failure::Configuration(problems) => {
            problems.iter().map(|of| in_a_line(&of.to_string())).collect()
        }
    }
}

fn split_lines(message: &str) -> Vec<String> {
    in_a_line(message).lines().map(str::to_owned).collect()
}

fn in_a_line(message: &str) -> String {
    message.replace("\n  hint:", ";")
}
