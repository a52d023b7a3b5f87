//! Files of bodies: open, or closed while their streams wait.
//!
//! A stream that waits for its client can close the file of its body, if it knows the name. When a
//! part of the body can be read, the file is opened again, and must be the same one.
use super::{Slot, Slots, Stage, Streams};
use alloc::{boxed::Box, sync::Arc};
use core::hash::{Hash as _, Hasher as _};
use regatta_op::{Codings, File, FileId, Op, OpenFault, OpenReq, Opened, Segment, Tick};
use siphasher::sip::SipHasher24;

/// Most tries to open a file again, ten seconds in all.
const TRIES_MAX: u8 = 200;

/// The file that a body is read from, if any. It is open, or has a name, or both.
pub(super) struct BodyFile<F> {
    open: Option<F>,
    /// The name by which it is opened again; `None`: it stays open.
    name: Option<Arc<BodyName>>,
}

/// Name of a file, and the content that it had. Streams of a connection with the same file share
/// it.
#[derive(PartialEq, Eq)]
struct BodyName {
    /// Hash of the file's [`FileId`]. Two of them have the same one with a probability of 2⁻⁶⁴.
    content: u64,
    path: Box<[u8]>,
}

impl BodyName {
    fn is_of(&self, id: FileId) -> bool {
        self.content == hash(id)
    }
}

fn hash(id: FileId) -> u64 {
    let mut hasher = SipHasher24::new();
    id.hash(&mut hasher);
    hasher.finish()
}

impl<F> BodyFile<F> {
    pub(super) const NONE: Self = Self { open: None, name: None };

    pub(super) const fn new(open: Option<F>) -> Self {
        Self { open, name: None }
    }

    /// The file, if it is open.
    pub(super) const fn open(&self) -> Option<&F> {
        self.open.as_ref()
    }

    /// True if there is a file, which may be closed now.
    pub(super) const fn exists(&self) -> bool {
        self.open.is_some() || self.name.is_some()
    }

    /// True if it is open, and can be closed for a while.
    pub(super) const fn can_close(&self) -> bool {
        self.open.is_some() && self.name.is_some()
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

    /// Drops the file of a body whose last range is in frames.
    pub(super) fn drop_used_file(&mut self, at: Slot) {
        let stream = self.get_mut(at);
        let is_range = |segment: &Segment<()>| matches!(segment, Segment::File { .. });
        if stream.file.exists() && !stream.out.segments().any(is_range) {
            stream.file = BodyFile::NONE;
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
        let path = self.get(at).file.name.as_ref()?.path.clone();
        let ticket = self.assign(free, at);
        self.enter(at, Stage::Reopens(free), until);
        Some(Op::Open(ticket, OpenReq { path, siblings: Codings::NONE }))
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
    /// Names the file of a body, so that it can be closed while the stream waits.
    pub(crate) fn name_file(&mut self, at: Slot, path: Box<[u8]>) {
        let Some(open) = self.get(at).file.open() else { return };
        let name = BodyName { content: hash(open.id()), path };
        let mut known = self.in_use().places().filter_map(|at| self.get(at).file.name.as_ref());
        let known = known.find(|known| ***known == name).map(Arc::clone);
        self.get_mut(at).file.name = Some(known.unwrap_or_else(|| Arc::new(name)));
        self.update(at);
    }

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
        let file = &mut self.get_mut(at).file;
        debug_assert!(file.can_close(), "a closed file has a name");
        file.open = None;
        self.update(at);
    }

    /// The file of a body has been opened again, or could not be.
    pub(crate) fn reopened(&mut self, at: Slot, found: Result<Opened<F>, OpenFault>) -> Reopening {
        let stream = self.get_mut(at);
        let Some(name) = &stream.file.name else { return Reopening::Changed };
        match found {
            Ok(Opened::File { file: open, .. }) if name.is_of(open.id()) => {
                (stream.file.open, stream.reopen_tries) = (Some(open), 0);
                (self.recent, self.is_fresh) = (Some(at), true);
                self.enter(at, Stage::Sends, Tick::NEVER);
                Reopening::Done
            }
            Err(fault @ (OpenFault::Exhausted | OpenFault::Busy | OpenFault::RootReplaced))
                if stream.reopen_tries < TRIES_MAX =>
            {
                stream.reopen_tries += 1;
                Reopening::Later(fault)
            }
            Ok(_) | Err(_) => Reopening::Changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use regatta_http::priority::Priority;
    use regatta_op::Outbox;

    struct Numbered(u64);

    impl Clone for Numbered {
        fn clone(&self) -> Self {
            Self(self.0)
        }
    }

    impl File for Numbered {
        fn id(&self) -> FileId {
            FileId { inode: self.0, ..FileId::default() }
        }
    }

    /// A hundred stalled streams of one file would keep its name a hundred times.
    #[test]
    fn streams_of_one_file_share_its_name() {
        let mut streams = Streams::new(9);
        let rows = [(1, 7, "a.bin"), (3, 7, "a.bin"), (5, 8, "a.bin"), (7, 7, "b.bin")];
        let places = rows.map(|(id, number, path)| {
            let at = streams.open(id, Priority::default(), 0).expect("there is room");
            let mut out = Outbox::new(Vec::new());
            out.push(Segment::File { file: Numbered(number), at: 0, len: 9 });
            streams.send(at, out, 0);
            streams.name_file(at, path.as_bytes().into());
            streams.check_invariants();
            at
        });
        let shares = |streams: &Streams<Numbered>, at: Slot| {
            Arc::strong_count(streams.get(at).file.name.as_ref().expect("it has a name"))
        };
        assert_eq!(places.map(|at| shares(&streams, at)), [2, 2, 1, 1]);
        assert_eq!(streams.close_files(9, 0, true), 4);
        assert_eq!(places.map(|at| shares(&streams, at)), [2, 2, 1, 1]);
        drop(streams.close(places[0]));
        assert_eq!(shares(&streams, places[1]), 1);
    }
}
