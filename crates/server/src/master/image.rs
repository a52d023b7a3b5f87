//! Becoming the next image of the master: what is executed, with which arguments, and what of an
//! image that only tries is reported.
use crate::{Failure, findings::Sent, given};
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

/// The argument by which an image of the master is handed what the one before it had.
const INHERIT: &str = "--inherit=";

/// The most that a trial may report, bytes: what a pipe takes without anybody reading.
pub(super) const REPORT_BYTES_MAX: usize = 60_000;

/// Becomes `program`, with these arguments, the name included, and this process's environment;
/// sockets that were given are handed over as all others are.
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

/// The arguments of this image, its name included, without the handover.
pub(super) fn own_arguments() -> Vec<OsString> {
    // Nobody else says it: people do not know of it.
    env::args_os().filter(|word| !word.to_string_lossy().starts_with(INHERIT)).collect()
}

/// The file of this program: of what may lie there later, an upgrade makes the next image.
pub(super) fn own_program() -> PathBuf {
    fs::read_link("/proc/self/exe")
        .unwrap_or_else(|_| env::args_os().next().unwrap_or_default().into())
}

/// A descriptor that the image before this one has handed over.
pub(super) fn take(raw: RawFd) -> Result<OwnedFd, String> {
    exec::take(raw).map_err(|error| format!("--inherit: {error}"))
}

/// A trial in progress.
#[derive(Debug)]
pub(super) struct Trial {
    pub(super) child: Child,
    pub(super) report: PipeReader,
    pub(super) channel: Channel,
    /// The part of the findings that has been received.
    pub(super) found: Sent,
    /// More may come, and the poller watches for it.
    pub(super) is_open: bool,
}

impl Trial {
    /// Ends it, with all processes that it has started.
    pub(super) fn kill(&self) {
        // It may have ended meanwhile, or not have begun to lead a group.
        let _ = self.child.kill_group();
        let _ = self.child.kill(Signal::Kill);
    }
}

/// What a trial reports that has found nothing. A program that ends with success may be any, and
/// one that has another do the work would not be the process that goes on as the master.
pub(super) fn approval(pid: u32) -> String {
    format!("process {pid} can serve")
}

/// The end of a trial that has found nothing: says so.
pub(super) fn approve(mut report: &PipeWriter) -> ! {
    // As below.
    let _ = report.write_all(approval(process::id()).as_bytes());
    end(0)
}

/// The end of a trial that has found something: says what.
pub(super) fn refuse(mut report: &PipeWriter, failure: &Failure) -> ! {
    // Whoever asked for it may be gone.
    let said = lines(failure).join("\n");
    let bytes = said.len().min(REPORT_BYTES_MAX);
    let _ = report.write_all(&said.as_bytes()[..bytes]);
    end(2)
}

/// What is wrong, each fault in a line.
pub(super) fn lines(failure: &Failure) -> Vec<String> {
    match failure {
        Failure::Work(message) => in_a_line(message).lines().map(str::to_owned).collect(),
        Failure::Configuration(problems) => {
            problems.iter().map(|of| in_a_line(&of.to_string())).collect()
        }
    }
}

fn in_a_line(message: &str) -> String {
    message.replace("\n  hint:", ";")
}
