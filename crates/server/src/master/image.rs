//! Becoming another image of the program.
use crate::given;
use regatta_sys::exec;
use std::{
    env, fs, io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// The argument by which an image of the master is handed what the one before it had.
const INHERIT: &str = "--inherit=";

/// Becomes `program`, with this process's arguments and environment; sockets that were given are
/// handed over as all others are.
pub(super) fn run(program: &Path, memory: &OwnedFd, keep: &[BorrowedFd<'_>]) -> io::Error {
    let inherit = format!("{INHERIT}{}", memory.as_raw_fd());
    let own = env::args_os().filter(|word| {
        // Nobody else says it: people do not know of it.
        !word.to_string_lossy().starts_with(INHERIT)
    });
    let mut argv: Vec<_> = own.collect();
    argv.insert(argv.len().min(2), inherit.into());
    let env = env::vars_os().filter(|(name, _)| given::VARIABLES.iter().all(|of| name != of));
    exec::exec(program, &argv, &env.collect::<Vec<_>>(), keep)
}

/// The file of this program: of what may lie there later, an upgrade makes the next image.
pub(super) fn own_program() -> PathBuf {
    fs::read_link("/proc/self/exe")
        .unwrap_or_else(|_| env::args_os().next().unwrap_or_default().into())
}
