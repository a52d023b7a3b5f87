//! Files of bodies: open, or closed while their streams wait.
//!
//! A stream that waits for its client can close the file of its body, if it knows the name. When a
//! part of the body can be read, the file is opened again, and must be the same one.
use super::{Slot, Slots, Stage, Streams};
use alloc::boxed::Box;
use regatta_op::{Codings, File, FileId, Op, OpenFault, OpenReq, Opened, Segment, Tick};

/// Most tries to open a file again, ten seconds in all.
const TRIES_MAX: u8 = 200;

/// The file that a body is read from.
pub(super) struct BodyFile<F> {
    state: FileState<F>,
    /// The name by which it is opened again; `None`: it stays open.
    name: Option<Box<[u8]>>,
    /// Number of times that it could not be opened again.
    tries: u8,
}

enum FileState<F> {
    Open(F),
    /// Closed; the identity that it had.
    Closed(Box<FileId>),
}

impl<F> BodyFile<F> {
    pub(super) const fn new(file: F) -> Self {
        Self { state: FileState::Open(file), name: None, tries: 0 }
    }

    /// The file, if it is open.
    pub(super) const fn open(&self) -> Option<&F> {
        match &self.state {
            FileState::Open(file) => Some(file),
            FileState::Closed(_) => None,
        }
    }

    /// True if it is open, and can be closed for a while.
    pub(super) const fn can_close(&self) -> bool {
        self.open().is_some() && self.name.is_some()
    }
}

/// The result of opening the file of a body again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reopening {
    /// The same file: the body continues.
    Done,
    /// No file now, for this reason.
    Later(OpenFault),
    /// Another file, or none: the body cannot continue.
    Changed,
}

impl<F> Streams<F> {
    /// The number of open files.
    pub(crate) const fn open_files(&self) -> u32 {
        self.holding.len()
    }

    /// Names the file of a body, so that it can be closed while the stream waits.
    pub(crate) fn name_file(&mut self, at: Slot, name: Box<[u8]>) {
        if let Some(file) = &mut self.get_mut(at).file {
            file.name = Some(name);
        }
        self.update(at);
    }

    /// Drops the file of a body whose last range is in frames.
    pub(super) fn drop_used_file(&mut self, at: Slot) {
        let stream = self.get_mut(at);
        let is_range = |segment: &Segment<()>| matches!(segment, Segment::File { .. });
        if stream.file.is_some() && !stream.out.segments().any(is_range) {
            stream.file = None;
        }
    }

    /// True while a file is being opened again for a stream that will read it.
    pub(super) fn reopens(&self) -> bool {
        self.tickets
            .iter()
            .flatten()
            .any(|at| matches!(self.get(*at).stage, Stage::Reopens(_)) && !self.reset.contains(*at))
    }

    /// Opens the file of a body again. It must be done at `until`.
    pub(super) fn reopen(&mut self, at: Slot, free: u8, until: Tick) -> Option<Op<F>> {
        let name = self.get(at).file.as_ref()?.name.clone()?;
        let ticket = self.assign(free, at);
        self.enter(at, Stage::Reopens(free), until);
        Some(Op::Open(ticket, OpenReq { path: name, siblings: Codings::NONE }))
    }

    /// The file of a body could not be opened again: it is tried at this time.
    pub(crate) fn hold_file(&mut self, at: Slot, until: Tick) {
        self.enter(at, Stage::Retries, until);
    }

    /// The file of a body is opened again when the body is read next.
    pub(crate) fn retry_file(&mut self, at: Slot) {
        self.enter(at, Stage::Sends, Tick::NEVER);
    }
}

impl<F: File> Streams<F> {
    /// Closes at most `excess` files of streams that wait. Returns the number of those closed.
    ///
    /// One file stays open, of a stream that may continue if there is one. With `is_short`, it
    /// stays only if it can be read now. `window`: bytes of bodies that the client permits for the
    /// connection.
    pub(crate) fn close_files(&mut self, excess: u32, window: u64, is_short: bool) -> u32 {
        let idle = self.closable.and(self.sending);
        let mut rest = idle;
        if let Some(kept) = self.kept_file(idle, window, is_short) {
            rest.set(kept, false);
        }
        let before = self.open_files();
        let most = usize::try_from(excess).unwrap_or(usize::MAX);
        let stalled = rest.without(self.files);
        for at in stalled.places().chain(rest.and(self.files).places()).take(most) {
            self.close_file(at);
        }
        before - self.open_files()
    }

    /// The stream of `idle` whose file stays open.
    fn kept_file(&self, idle: Slots, window: u64, is_short: bool) -> Option<Slot> {
        let next = idle.and(self.files);
        let can_read = !next.is_empty() && self.loadable(window) > 0;
        if is_short && !can_read {
            return None;
        }
        let among = if next.is_empty() { idle } else { next };
        self.recent.filter(|at| among.contains(*at)).or_else(|| among.places().next())
    }

    fn close_file(&mut self, at: Slot) {
        if let Some(file) = &mut self.get_mut(at).file
            && let FileState::Open(open) = &file.state
        {
            file.state = FileState::Closed(Box::new(open.id()));
        }
        self.update(at);
    }

    /// The file of a body has been opened again, or could not be.
    pub(crate) fn reopened(&mut self, at: Slot, found: Result<Opened<F>, OpenFault>) -> Reopening {
        let Some(file) = &mut self.get_mut(at).file else { return Reopening::Changed };
        let FileState::Closed(id) = &file.state else { return Reopening::Changed };
        match found {
            Ok(Opened::File { file: open, .. }) if open.id() == **id => {
                (file.state, file.tries) = (FileState::Open(open), 0);
                (self.recent, self.is_fresh) = (Some(at), true);
                self.enter(at, Stage::Sends, Tick::NEVER);
                Reopening::Done
            }
            Err(fault @ (OpenFault::Exhausted | OpenFault::Busy | OpenFault::RootReplaced))
                if file.tries < TRIES_MAX =>
            {
                file.tries += 1;
                Reopening::Later(fault)
            }
            Ok(_) | Err(_) => Reopening::Changed,
        }
    }
}
