//! Scouts: processes that read below roots as the serving user, and report their findings. The
//! master waits for no disk; a scout that hangs holds up one root.
use crate::config::release::{Release, Wanted};
use regatta_op::Tick;
use regatta_sys::{
    Root,
    channel::Channel,
    exec::{read_sealed, sealed},
    hook,
    process::{Child, User, fork_worker, serve_as},
    shm, signal,
    wait::{Interest, ready_within},
};
use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    thread,
    time::Duration,
};

/// Exit code of a scout that cannot become the serving user.
pub(crate) const NOT_THE_USER: i32 = 12;

/// Limit of a report in the record itself, bytes; longer ones have their own memory.
const INLINE_BYTES_MAX: usize = 2048;

/// Bytes before the findings: the number of the root, whether there is one, and in reach.
const HEAD_BYTES: usize = 10;

/// Wait of a scout for its master to read, milliseconds; then it tries again.
const ROOM_MS: u64 = 100;

/// Findings of a scout at one root.
#[derive(Debug)]
pub(crate) struct Sighting {
    /// Number of the root.
    pub of: usize,
    /// Root, if files can be looked up below it.
    pub root: Option<OwnedFd>,
    /// Whether workers may read it.
    pub in_reach: bool,
    /// Findings below it.
    pub release: Release,
}

/// Scout in progress.
#[derive(Debug)]
pub(crate) struct Scout {
    pub child: Child,
    channel: Channel,
    /// Roots that it has not reported, in order.
    pub todo: VecDeque<usize>,
    /// Time at which it began with the first of them.
    pub since: Tick,
}

impl Scout {
    /// Sends a scout to these roots, one after another. In the scout, `judge` adds faults to the
    /// findings, and decides whether workers may read the root.
    ///
    /// # Errors
    /// No processes or descriptors left.
    pub(crate) fn send(
        todo: VecDeque<usize>,
        wanted: &[Wanted],
        user: Option<&User>,
        judge: &dyn Fn(usize, Option<&Root>, &mut Release) -> bool,
        since: Tick,
    ) -> io::Result<Self> {
        let (channel, theirs) = Channel::pair()?;
        let child = fork_worker(&[theirs.as_fd()], || {
            shm::forget_protected();
            if serve_as(user).is_err() {
                return NOT_THE_USER;
            }
            for of in &todo {
                let (root, mut release) = wanted[*of].probe();
                root.as_ref().inspect(|root| hook::hang_at_mark(root));
                let in_reach = judge(*of, root.as_ref(), &mut release);
                if report(&theirs, *of, root.as_ref(), in_reach, &release).is_err() {
                    // Its master does not need it any more.
                    return 0;
                }
            }
            0
        })?;
        Ok(Self { child, channel, todo, since })
    }

    /// Receives the findings at the next root of its list, if any; an error once it reports no
    /// more.
    pub(crate) fn hear(&mut self, now: Tick) -> io::Result<Option<Sighting>> {
        loop {
            let (mut record, mut files) = ([0; HEAD_BYTES + INLINE_BYTES_MAX], Vec::new());
            let bytes = match self.channel.recv(&mut record, &mut files, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                bytes => bytes?,
            };
            let sighting = parse(&record[..bytes], files).ok_or(io::ErrorKind::InvalidData)?;
            self.since = now;
            // Another scout reports roots that were taken off its list.
            if let Some(at) = self.todo.iter().position(|of| *of == sighting.of) {
                self.todo.remove(at);
                return Ok(Some(sighting));
            }
        }
    }

    /// Waits for a report, or the end of the scout.
    pub(crate) fn wait(&self, time: Duration) -> bool {
        ready_within(self.channel.as_fd(), Interest::READ, time).is_ok_and(|event| event.readable)
    }

    /// Channel of the scout, readable after a report or its end.
    pub(crate) fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Kills the scout. It may not end before its disk answers.
    pub(crate) fn kill(&self) {
        // The scout may have ended meanwhile.
        let _ = self.child.kill(signal::Signal::Kill);
    }
}

fn report(
    channel: &Channel,
    of: usize,
    root: Option<&Root>,
    in_reach: bool,
    found: &Release,
) -> io::Result<()> {
    let mut record = (of as u64).to_le_bytes().to_vec();
    record.extend_from_slice(&[u8::from(root.is_some()), u8::from(in_reach)]);
    let encoded = found.encode();
    let mut longer = None;
    if encoded.len() <= INLINE_BYTES_MAX {
        record.extend_from_slice(&encoded);
    } else {
        longer = Some(sealed("regatta-release", &encoded)?);
    }
    let files = root.map(AsFd::as_fd).into_iter().chain(longer.as_ref().map(AsFd::as_fd));
    let files: Vec<_> = files.collect();
    loop {
        match channel.send(&record, &files) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(error),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                _ = ready_within(channel.as_fd(), Interest::WRITE, Duration::from_millis(ROOM_MS));
            }
            // Too many descriptors are on their way.
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn parse(record: &[u8], files: Vec<OwnedFd>) -> Option<Sighting> {
    let (of, rest) = record.split_first_chunk()?;
    let ([has_root, in_reach], inline) = rest.split_first_chunk()?;
    let of = usize::try_from(u64::from_le_bytes(*of)).ok()?;
    let mut files = files.into_iter();
    let root = if *has_root == 1 { Some(files.next()?) } else { None };
    let release = match files.next() {
        None => Release::decode(inline)?,
        Some(longer) => Release::decode(&read_sealed(longer, u64::MAX).ok()?)?,
    };
    Some(Sighting { of, root, in_reach: *in_reach == 1, release })
}
