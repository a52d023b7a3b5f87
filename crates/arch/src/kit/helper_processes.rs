//! Helpers that are processes, as in Flash: forked by the worker, each with a channel of its own.
//!
//! A helper's notice is a record of [`NOTICE_BYTES`] bytes: what has been found, never what is in
//! it. Files travel as descriptors: those to be read with the errand, those that were opened with
//! the notice, if asked for.
use super::helpers::{Crew, Errand, Outcome};
use crate::drive::perform::Below;
use regatta_metrics::{Counter, Tally};
use regatta_op::{Coding, Codings, OpenFault, OpenReq, Opened};
use regatta_sys::{
    OpenRules, Root, StaticFile,
    channel::Channel,
    process::{Child, fork_worker},
    residency::touch,
    wait::{Epoll, Event, Interest, Poller, Trigger},
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

/// The length of a notice, bytes.
pub const NOTICE_BYTES: usize = 8;
/// What comes before the path in an errand, bytes.
const ERRAND_HEAD_BYTES: usize = 24;
/// The longest errand, bytes: paths are shorter than `PATH_MAX`.
const ERRAND_BYTES_MAX: usize = ERRAND_HEAD_BYTES + 4096;
/// Keys of processes that are ending have this bit; helpers' channels have their numbers.
const ENDING: u64 = 1 << 32;

const OPEN: u8 = b'o';
const TOUCH: u8 = b't';

/// Helper processes.
#[derive(Debug)]
pub struct Processes<'a> {
    root: &'a Root,
    rules: OpenRules,
    /// Helpers pass what they have opened, instead of saying that it can be.
    pass: bool,
    poller: Epoll,
    events: Vec<Event>,
    helpers: Vec<Option<Helper>>,
    /// Processes that have been let go, or are gone: to be reaped.
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

    /// What a helper that may have something to say says.
    fn listen(&mut self, at: usize) -> Option<(usize, Option<Outcome>)> {
        let helper = self.helpers.get(at)?.as_ref()?;
        let (mut notice, mut files) = ([0; NOTICE_BYTES], Vec::new());
        let outcome = match helper.channel.recv(&mut notice, &mut files, false) {
            Ok(NOTICE_BYTES) => {
                self.tally.add(Counter::HelperCompletionBytes, NOTICE_BYTES as u64);
                self.tally.add(Counter::HelperDescriptors, files.len() as u64);
                outcome(notice, files)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            // We have no room for the files that it has opened.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                Some(Outcome::Opened(Err(OpenFault::Exhausted)))
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

impl Crew for Processes<'_> {
    fn hire(&mut self) -> io::Result<usize> {
        let free = self.helpers.iter().position(Option::is_none);
        let at = free.unwrap_or(self.helpers.len());
        let (ours, theirs) = Channel::pair()?;
        // Before there is a process that would have to be reaped if this fails.
        self.poller.add(ours.as_fd(), at as u64, Interest::READ)?;
        let keep = [self.root.as_fd(), theirs.as_fd()];
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

    fn give(&mut self, helper: usize, errand: &mut Errand) -> io::Result<()> {
        let helper = self.helpers[helper].as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut record = [0; ERRAND_HEAD_BYTES];
        match errand {
            Errand::Open(req) => {
                record[0] = OPEN;
                record[1] = mask(|coding| req.siblings.has(coding));
                // No longer path exists; one is reported as what it is by the helper.
                let len = req.path.len().min(ERRAND_BYTES_MAX - ERRAND_HEAD_BYTES);
                helper.channel.send(&[&record[..], &req.path[..len]].concat(), &[])
            }
            Errand::Touch(req) | Errand::Read(req) => {
                record[0] = TOUCH;
                record[8..16].copy_from_slice(&req.at.to_ne_bytes());
                record[16..24].copy_from_slice(&req.len.to_ne_bytes());
                helper.channel.send(&record, &[req.file.as_fd()])
            }
        }
    }

    fn dismiss(&mut self, helper: usize) {
        let Some(Helper { channel, child }) = self.helpers[helper].take() else { return };
        // Closing the channel is what tells it to go.
        let _ = self.poller.remove(channel.as_fd());
        drop(channel);
        // One that cannot be watched is reaped with the next.
        let _ = self.poller.add(child.as_fd(), ENDING, Interest::READ);
        self.ending.push(child);
    }

    fn hear(&mut self) -> Option<(usize, Option<Outcome>)> {
        loop {
            while let Some(event) = self.events.pop() {
                if event.key & ENDING != 0 {
                    self.reap();
                } else if let Ok(at) = usize::try_from(event.key)
                    && let Some(said) = self.listen(at)
                {
                    return Some(said);
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

/// A helper's life. Ends when its channel does.
fn help(root: &Root, rules: OpenRules, pass: bool, channel: &Channel) -> i32 {
    let mut record = [0; ERRAND_BYTES_MAX];
    let (mut files, mut scratch) = (Vec::new(), vec![0; super::helper_threads::SCRATCH_BYTES]);
    loop {
        files.clear();
        let (notice, opened) = match channel.recv(&mut record, &mut files, true) {
            Ok(0) => return 0,
            Ok(n) if n >= ERRAND_HEAD_BYTES && record[0] == OPEN => {
                let siblings = Coding::ALL.into_iter().fold(Codings::NONE, |set, coding| {
                    if record[1] & (1 << coding as u8) != 0 { set.with(coding) } else { set }
                });
                let req = OpenReq { path: record[ERRAND_HEAD_BYTES..n].into(), siblings };
                notice_of(Below { root, rules }.open(&req), pass)
            }
            Ok(n) if n >= ERRAND_HEAD_BYTES => {
                run_touch(&record, files.pop(), &mut scratch);
                ([TOUCH, 0, 0, 0, 0, 0, 0, 0], Vec::new())
            }
            Ok(_) | Err(_) => return 1,
        };
        let files: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
        if channel.send(&notice, &files).is_err() {
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

/// The notice of an open, and the files that go with it.
fn notice_of(
    found: Result<Opened<StaticFile>, OpenFault>,
    pass: bool,
) -> ([u8; NOTICE_BYTES], Vec<StaticFile>) {
    let mut notice = [0; NOTICE_BYTES];
    match found {
        Ok(Opened::File { file, siblings }) if pass => {
            notice[0] = PASSED;
            notice[1] = mask(|coding| siblings[coding as usize].is_some());
            return (notice, [file].into_iter().chain(siblings.into_iter().flatten()).collect());
        }
        Ok(Opened::File { .. }) => notice[0] = FILE,
        Ok(Opened::Directory) => notice[0] = DIRECTORY,
        Err(fault) => {
            notice[0] = FAULT;
            let (code, errno) = fault.code();
            notice[1] = code;
            notice[4..].copy_from_slice(&errno.to_ne_bytes());
        }
    }
    (notice, Vec::new())
}

/// What a notice says; `None` if it says nothing that a helper of ours would.
fn outcome(notice: [u8; NOTICE_BYTES], files: Vec<OwnedFd>) -> Option<Outcome> {
    let errno = i32::from_ne_bytes([notice[4], notice[5], notice[6], notice[7]]);
    Some(match notice[0] {
        TOUCH => Outcome::Touched,
        FILE => Outcome::Found,
        DIRECTORY => Outcome::Opened(Ok(Opened::Directory)),
        PASSED => {
            let mut files = files.into_iter().map(StaticFile::adopt);
            let file = match files.next()? {
                Ok(file) => file,
                Err(fault) => return Some(Outcome::Opened(Err(fault))),
            };
            let siblings = Coding::ALL.map(|coding| {
                let there = notice[1] & (1 << coding as u8) != 0;
                there.then(|| files.next()).flatten().and_then(Result::ok)
            });
            Outcome::Opened(Ok(Opened::File { file, siblings }))
        }
        FAULT => Outcome::Opened(Err(OpenFault::from_code(notice[1], errno))),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_say_what_was_found() {
        for fault in (0..8).map(|code| OpenFault::from_code(code, 5)) {
            let (notice, files) = notice_of(Err(fault), true);
            assert!(files.is_empty());
            let said = outcome(notice, Vec::new());
            assert!(matches!(said, Some(Outcome::Opened(Err(same))) if same == fault));
        }
        let (notice, _) = notice_of(Ok(Opened::Directory), false);
        let said = outcome(notice, Vec::new());
        assert!(matches!(said, Some(Outcome::Opened(Ok(Opened::Directory)))));
        assert!(outcome([0; NOTICE_BYTES], Vec::new()).is_none());
        assert!(outcome([PASSED, 0, 0, 0, 0, 0, 0, 0], Vec::new()).is_none());
    }
}
