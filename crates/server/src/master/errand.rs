//! Work on files for the master, which waits for no disk: a process for each piece.
//!
//! `files.rs` starts errands: at SIGUSR1 for the logs, in a reload, an upgrade and at the end for
//! sockets' files and the file with the master's number. At the first start the master writes that
//! file itself, because no worker serves yet.
use super::{Child, EXIT_CANNOT_WORK, fork_worker, signal};
use crate::{
    heartbeat::{Role, Watched},
    log::{AccessLog, ErrorLog},
    pid_file,
};
use regatta_op::Tick;
use regatta_sys::{
    channel::Channel,
    process::Exit,
    unix::SocketFile,
    wait::{Interest, Poll, Poller as _},
};
use std::{
    fmt::Display,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    process,
    time::Duration,
};

/// Keys of the master's poller: errands have this bit, and their process.
pub(super) const ERRAND: u64 = 1 << 49;

/// Limit of an errand, milliseconds; then it is killed, and its work is not done.
const ERRAND_MS_MAX: u64 = 5_000;

/// Limit of the wait for the removal of files at the end of the server, milliseconds.
const END_MS_MAX: u64 = 1_000;

/// Limit of a complaint, bytes.
const COMPLAINT_BYTES_MAX: usize = 1 << 10;

/// The purpose of an errand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Makes the logs, and opens the error log.
    Logs,
    /// Writes the file with the master's number, or removes files.
    Files,
}

/// Process that works on files, and its report.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) purpose: Purpose,
    pub(super) child: Child,
    channel: Channel,
    until: Tick,
    /// True if the errand was killed at its limit.
    is_late: bool,
}

/// The end of an errand.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) purpose: Purpose,
    /// Messages about faults.
    pub(super) complaints: Vec<String>,
    /// File that it has opened.
    pub(super) file: Option<OwnedFd>,
    /// True if the errand was killed at its limit.
    pub(super) is_late: bool,
}

/// Changes of the file with the master's number.
#[derive(Clone, Debug, Default)]
pub(super) struct PidFiles {
    pub(super) write: Option<PathBuf>,
    pub(super) remove: Option<PathBuf>,
}

impl PidFiles {
    /// Applies the changes; `pid` is the master's.
    pub(super) fn apply(&self, pid: u32) -> io::Result<()> {
        let written = self.write.as_deref().map_or(Ok(()), |path| {
            let what =
                |error| io::Error::other(format!("cannot write \"{}\": {error}", path.display()));
            pid_file::write(path, pid).map_err(what)
        });
        self.remove.iter().for_each(|path| pid_file::remove(path, pid));
        written
    }
}

impl Errand {
    fn start(
        purpose: Purpose,
        keep: &[BorrowedFd<'_>],
        now: Tick,
        work: impl FnOnce(&mut Report<'_>),
    ) -> io::Result<Self> {
        let (channel, theirs) = Channel::pair()?;
        let keep: Vec<BorrowedFd<'_>> = keep.iter().copied().chain([theirs.as_fd()]).collect();
        let child = fork_worker(&keep, || {
            let mut report = Report { to: &theirs, failed: false };
            work(&mut report);
            if report.failed { EXIT_CANNOT_WORK } else { 0 }
        })?;
        Ok(Self { purpose, child, channel, until: now.after(ERRAND_MS_MAX), is_late: false })
    }

    /// Makes missing logs, and opens the error log.
    pub(super) fn logs(
        access: Option<&AccessLog>,
        errors: &ErrorLog,
        now: Tick,
    ) -> io::Result<Self> {
        Self::start(Purpose::Logs, &[], now, |report| {
            if let Some(Err(fault)) = access.map(AccessLog::make) {
                report.complain(&fault);
            }
            match errors.make() {
                Ok(Some(file)) => report.send(&[file.as_fd()]),
                Ok(None) => {}
                Err(fault) => report.complain(&fault),
            }
        })
    }

    /// Writes and removes files with the master's number, and removes those of sockets.
    pub(super) fn files(numbers: &PidFiles, sockets: &[SocketFile], now: Tick) -> io::Result<Self> {
        let keep: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        let pid = process::id();
        Self::start(Purpose::Files, &keep, now, |report| {
            sockets.iter().for_each(SocketFile::remove);
            if let Err(fault) = numbers.apply(pid) {
                report.complain(&fault);
            }
        })
    }

    pub(super) fn key(&self) -> u64 {
        ERRAND | u64::from(self.child.pid())
    }

    pub(super) fn wake_at(&self) -> Tick {
        if self.is_late { Tick::NEVER } else { self.until }
    }

    /// Kills the errand at its limit.
    pub(super) fn kill_if_late(&mut self, now: Tick) {
        if !self.is_late && self.until <= now {
            self.is_late = true;
            // It may have ended meanwhile.
            let _ = self.child.kill(signal::Signal::Kill);
        }
    }

    /// Reaps the errand; returns it if it has not ended.
    pub(super) fn reap(self) -> Result<Ended, Self> {
        let Ok(Some(exit)) = self.child.try_wait() else { return Err(self) };
        let (mut complaints, mut files) = (Vec::new(), Vec::new());
        let mut record = [0; COMPLAINT_BYTES_MAX];
        while let Ok(bytes) = self.channel.recv(&mut record, &mut files, false)
            && bytes > 0
        {
            complaints.extend(complaint(&record[..bytes]));
        }
        if self.is_late {
            complaints
                .push(format!("a disk or file server has not answered for {ERRAND_MS_MAX} ms"));
        } else if complaints.is_empty() && exit != Exit::Code(0) {
            complaints.push(format!("the process that works on files {exit}"));
        }
        let Self { purpose, is_late, .. } = self;
        Ok(Ended { purpose, complaints, file: files.pop(), is_late })
    }

    /// Waits for the errand at the end of the server, with a limit.
    pub(super) fn wait(self) {
        let mut poller = Poll::new();
        if poller.add(self.child.as_fd(), 0, Interest::READ).is_ok() {
            let _ = poller.wait(&mut Vec::new(), Some(Duration::from_millis(END_MS_MAX)));
        }
        // The errand ends with this process in any case, which does not wait for it.
        let _ = self.child.kill(signal::Signal::Kill);
        let _ = self.child.try_wait();
    }
}

/// Errands that are in progress.
#[derive(Debug, Default)]
pub(super) struct Errands {
    pub(super) all: Vec<Errand>,
    /// Number of the first errands that the poller watches.
    watched: usize,
    /// Whether the logs are to be made once more: a request arrived during the work.
    pub(super) logs_again: bool,
}

impl Errands {
    pub(super) fn wake_at(&self) -> Tick {
        self.all.iter().map(Errand::wake_at).min().unwrap_or(Tick::NEVER)
    }

    pub(super) fn family(&self) -> impl Iterator<Item = Watched<'_>> {
        self.all.iter().map(|errand| Watched::new(Role::Errand, &errand.child))
    }

    pub(super) fn kill_late(&mut self, now: Tick) {
        self.all.iter_mut().for_each(|errand| errand.kill_if_late(now));
    }

    /// Has the poller report the ends of those that have begun since the last time.
    pub(super) fn watch(&mut self, poller: &mut Poll) -> io::Result<()> {
        for errand in &self.all[self.watched..] {
            poller.add(errand.child.as_fd(), errand.key(), Interest::READ)?;
        }
        self.watched = self.all.len();
        Ok(())
    }

    /// Takes the errand with this key, if it has ended.
    pub(super) fn reap(&mut self, key: u64, poller: &mut Poll) -> io::Result<Option<Ended>> {
        self.watch(poller)?;
        let Some(at) = self.all.iter().position(|errand| errand.key() == key) else {
            return Ok(None);
        };
        let errand = self.all.remove(at);
        self.watched = self.all.len();
        poller.remove(errand.child.as_fd())?;
        match errand.reap() {
            Ok(ended) => Ok(Some(ended)),
            Err(errand) => {
                // The errand has not ended: the poller watches it again.
                self.all.push(errand);
                self.watched -= usize::from(self.watched == self.all.len());
                self.watch(poller)?;
                Ok(None)
            }
        }
    }
}

/// A record is a complaint, unless it only goes with a file.
fn complaint(record: &[u8]) -> Option<String> {
    (record != FILE).then(|| String::from_utf8_lossy(record).into_owned())
}

/// The record that goes with a file.
const FILE: &[u8] = b"\n";

/// The report of an errand.
struct Report<'a> {
    to: &'a Channel,
    failed: bool,
}

impl Report<'_> {
    fn complain(&mut self, what: &dyn Display) {
        self.failed = true;
        let what = what.to_string();
        let bytes = what.len().min(COMPLAINT_BYTES_MAX);
        let _ = self.to.send(&what.as_bytes()[..bytes], &[]);
    }

    fn send(&mut self, files: &[BorrowedFd<'_>]) {
        self.failed |= self.to.send(FILE, files).is_err();
    }
}

/// Removes these in place: nothing serves yet, and a disk may be waited for.
pub(super) fn remove_now(sockets: &[SocketFile], number: Option<&Path>) {
    sockets.iter().for_each(SocketFile::remove);
    number.iter().for_each(|path| pid_file::remove(path, process::id()));
}
