//! Helpers that are processes, as in Flash: forked by the worker, each with a channel of its own.
//!
//! A helper replies with a record of [`REPLY_BYTES`] bytes, never with a file's contents. Files are
//! passed as descriptors: those to read with the task, opened ones with the reply, if wanted.
use crate::disk::helpers::{HelperPool, HelperTask, TaskResult};
use crate::drive::perform::Below;
use regatta_metrics::{Counter, Tally};
use regatta_op::{Coding, Codings, OpenFault, OpenReq, Opened};
use regatta_sys::{
    OpenRules, Root, StaticFile,
    channel::Channel,
    process::{Child, fork_worker},
    touch,
    wait::{Epoll, Event, Interest, Poller, Trigger},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// The length of a reply, bytes.
pub const REPLY_BYTES: usize = 8;
/// Bytes of a task before its path.
const TASK_HEAD_BYTES: usize = 24;
/// The longest task, bytes: paths are shorter than `PATH_MAX`.
const TASK_BYTES_MAX: usize = TASK_HEAD_BYTES + 4096;
/// Keys of processes that are ending have this bit; helpers' channels have their numbers.
const ENDING: u64 = 1 << 32;

const OPEN: u8 = b'o';
const TOUCH: u8 = b't';

/// Helper processes.
#[derive(Debug)]
pub struct Processes<'a> {
    root: &'a Root,
    rules: OpenRules,
    /// Helpers pass what they have opened, instead of only saying that it can be opened.
    pass: bool,
    poller: Epoll,
    events: Vec<Event>,
    helpers: Vec<Option<Helper>>,
    /// Processes that have been stopped, or have died: to be reaped.
    ending: Vec<Child>,
    tally: Tally<'a>,
}

#[derive(Debug)]
struct Helper {
    channel: Channel,
    child: Child,
}

impl<'a> Processes<'a> {
    /// No processes yet.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(root: &'a Root, rules: OpenRules, pass: bool, tally: Tally<'a>) -> io::Result<Self> {
        let poller = Epoll::new(Trigger::Level)?;
        let (events, helpers, ending) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { root, rules, pass, poller, events, helpers, ending, tally })
    }

    /// Receives from a helper that may have a result.
    fn receive(&mut self, at: usize) -> Option<(usize, Option<TaskResult>)> {
        let helper = self.helpers.get(at)?.as_ref()?;
        let (mut reply, mut files) = ([0; REPLY_BYTES], Vec::new());
        let outcome = match helper.channel.recv(&mut reply, &mut files, false) {
            Ok(REPLY_BYTES) => {
                self.tally.add(Counter::HelperCompletionBytes, REPLY_BYTES as u64);
                self.tally.add(Counter::HelperDescriptors, files.len() as u64);
                parse_reply(reply, files)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            // We have no descriptors left for the files that it has opened.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Some(TaskResult::Opened(Err(OpenFault::Exhausted)))
            }
            Ok(_) | Err(_) => None,
        };
        Some((at, outcome))
    }

    fn reap(&mut self) {
        let poller = &mut self.poller;
        self.ending.retain(|child| {
            let over = !matches!(child.try_wait(), Ok(None));
            if over {
                // Closing the descriptor would do as well.
                let _ = poller.remove(child.as_fd());
            }
            !over
        });
    }
}

impl HelperPool for Processes<'_> {
    fn start(&mut self) -> io::Result<usize> {
        let free = self.helpers.iter().position(Option::is_none);
        let at = free.unwrap_or(self.helpers.len());
        let (ours, theirs) = Channel::pair()?;
        // First, so that no process must be reaped if this fails.
        self.poller.add(ours.as_fd(), at as u64, Interest::READ)?;
        let roots = self.root.all().map(AsFd::as_fd);
        let keep: Vec<_> = roots.chain([theirs.as_fd()]).collect();
        let child = match fork_worker(&keep, || help(self.root, self.rules, self.pass, &theirs)) {
            Ok(child) => child,
            Err(error) => {
                let _ = self.poller.remove(ours.as_fd());
                return Err(error);
            }
        };
        drop(theirs);
        if free.is_none() {
            self.helpers.push(None);
        }
        self.helpers[at] = Some(Helper { channel: ours, child });
        Ok(at)
    }

    fn assign(&mut self, helper: usize, task: &mut HelperTask) -> io::Result<()> {
        let helper = self.helpers[helper].as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut record = [0; TASK_HEAD_BYTES];
        match task {
            HelperTask::Open(req) => {
                record[0] = OPEN;
                record[1] = mask(|coding| req.siblings.has(coding));
                // No longer path exists; one is reported as what it is by the helper.
                let len = req.path.len().min(TASK_BYTES_MAX - TASK_HEAD_BYTES);
                helper.channel.send(&[&record[..], &req.path[..len]].concat(), &[])
            }
            HelperTask::Touch(req) | HelperTask::Read(req) => {
                record[0] = TOUCH;
                record[8..16].copy_from_slice(&req.at.to_ne_bytes());
                record[16..24].copy_from_slice(&req.len.to_ne_bytes());
                helper.channel.send(&record, &[req.file.as_fd()])
            }
        }
    }

    fn stop(&mut self, helper: usize) {
        let Some(Helper { channel, child }) = self.helpers[helper].take() else { return };
        // The helper ends when its channel is closed.
        let _ = self.poller.remove(channel.as_fd());
        drop(channel);
        // If it cannot be watched, it is reaped with the next one.
        let _ = self.poller.add(child.as_fd(), ENDING, Interest::READ);
        self.ending.push(child);
    }

    fn next_result(&mut self) -> Option<(usize, Option<TaskResult>)> {
        loop {
            while let Some(event) = self.events.pop() {
                if event.key & ENDING != 0 {
                    self.reap();
                } else if let Ok(at) = usize::try_from(event.key)
                    && let Some(result) = self.receive(at)
                {
                    return Some(result);
                }
            }
            match self.poller.wait(&mut self.events, Some(Duration::ZERO)) {
                Ok(n) if n > 0 => {}
                _ => return None,
            }
        }
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}

/// Runs a helper, until its channel is closed.
fn help(root: &Root, rules: OpenRules, pass: bool, channel: &Channel) -> i32 {
    let mut record = [0; TASK_BYTES_MAX];
    let (mut files, mut scratch) =
        (Vec::new(), vec![0; crate::disk::helper_threads::SCRATCH_BYTES]);
    loop {
        files.clear();
        let (reply, opened) = match channel.recv(&mut record, &mut files, true) {
            Ok(0) => return 0,
            Ok(n) if n >= TASK_HEAD_BYTES && record[0] == OPEN => {
                let siblings = Coding::ALL.into_iter().fold(Codings::NONE, |set, coding| {
                    if record[1] & (1 << coding as u8) != 0 { set.with(coding) } else { set }
                });
                let req = OpenReq { path: record[TASK_HEAD_BYTES..n].into(), siblings };
                reply_to_open(Below { root, rules }.open(&req), pass)
            }
            Ok(n) if n >= TASK_HEAD_BYTES => {
                run_touch(&record, files.pop(), &mut scratch);
                ([TOUCH, 0, 0, 0, 0, 0, 0, 0], Vec::new())
            }
            Ok(_) | Err(_) => return 1,
        };
        let files: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
        if channel.send(&reply, &files).is_err() {
            return 0;
        }
    }
}

fn run_touch(record: &[u8], file: Option<OwnedFd>, scratch: &mut [u8]) {
    let number = |at: usize| record[at..at + 8].try_into().map_or(0, u64::from_ne_bytes);
    if let Some(Ok(file)) = file.map(StaticFile::adopt) {
        // A range that cannot be read is reported by the send or read that it was for.
        let _ = touch(&file, number(8), number(16), scratch);
    }
}

const FILE: u8 = b'f';
const PASSED: u8 = b'p';
const DIRECTORY: u8 = b'd';
const FAULT: u8 = b'!';

fn mask(has: impl Fn(Coding) -> bool) -> u8 {
    Coding::ALL.into_iter().fold(0, |mask, coding| mask | u8::from(has(coding)) << coding as u8)
}

/// The reply to an open, and the files that go with it.
fn reply_to_open(
    found: Result<Opened<StaticFile>, OpenFault>,
    pass: bool,
) -> ([u8; REPLY_BYTES], Vec<StaticFile>) {
    let mut reply = [0; REPLY_BYTES];
    match found {
        Ok(Opened::File { file, siblings }) if pass => {
            reply[0] = PASSED;
            reply[1] = mask(|coding| siblings[coding as usize].is_some());
            return (reply, [file].into_iter().chain(siblings.into_iter().flatten()).collect());
        }
        Ok(Opened::File { .. }) => reply[0] = FILE,
        Ok(Opened::Directory) => reply[0] = DIRECTORY,
        Err(fault) => {
            reply[0] = FAULT;
            let (code, errno) = fault.code();
            reply[1] = code;
            reply[4..].copy_from_slice(&errno.to_ne_bytes());
        }
    }
    (reply, Vec::new())
}

/// Parses a reply; `None` if it is malformed.
fn parse_reply(reply: [u8; REPLY_BYTES], files: Vec<OwnedFd>) -> Option<TaskResult> {
    let errno = i32::from_ne_bytes([reply[4], reply[5], reply[6], reply[7]]);
    Some(match reply[0] {
        TOUCH => TaskResult::Touched,
        FILE => TaskResult::Found,
        DIRECTORY => TaskResult::Opened(Ok(Opened::Directory)),
        PASSED => {
            let mut files = files.into_iter().map(StaticFile::adopt);
            let file = match files.next()? {
                Ok(file) => file,
                Err(fault) => return Some(TaskResult::Opened(Err(fault))),
            };
            let siblings = Coding::ALL.map(|coding| {
                let there = reply[1] & (1 << coding as u8) != 0;
                there.then(|| files.next()).flatten().and_then(Result::ok)
            });
            TaskResult::Opened(Ok(Opened::File { file, siblings }))
        }
        FAULT => TaskResult::Opened(Err(OpenFault::from_code(reply[1], errno))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_say_what_was_found() {
        for fault in (0..8).map(|code| OpenFault::from_code(code, 5)) {
            let (reply, files) = reply_to_open(Err(fault), true);
            assert!(files.is_empty());
            let result = parse_reply(reply, Vec::new());
            assert!(matches!(result, Some(TaskResult::Opened(Err(same))) if same == fault));
        }
        let (reply, _) = reply_to_open(Ok(Opened::Directory), false);
        let result = parse_reply(reply, Vec::new());
        assert!(matches!(result, Some(TaskResult::Opened(Ok(Opened::Directory)))));
        assert!(parse_reply([0; REPLY_BYTES], Vec::new()).is_none());
        assert!(parse_reply([PASSED, 0, 0, 0, 0, 0, 0, 0], Vec::new()).is_none());
    }
}
