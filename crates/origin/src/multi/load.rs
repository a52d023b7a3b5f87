//! Reads of bodies in files, ahead of the frames that they are sent in.
use super::{Slot, Stage, Streams};
use alloc::vec::Vec;
use core::mem;
use regatta_op::{Op, ReadReq, Segment, Tick};

/// The most bytes of files that the streams of a connection have read and not put into frames.
pub(crate) const LOADED_BYTES_MAX: u64 = 112 << 10;
/// The same while frames are in flight. With them, and the records that they are sealed in, a
/// connection whose client takes nothing has 176 KiB.
const LOADED_AHEAD_BYTES_MAX: u64 = 48 << 10;
/// The most bytes of one read. A read that the disk is slow to answer leaves room for others.
pub(crate) const LOAD_BYTES_MAX: u64 = 96 << 10;
/// Room for bytes of files that is too little to begin another read.
const LOADED_ROOM_MIN: u64 = 16 << 10;

/// Parts of bodies that are in memory and in no frame, with which no other is read. Where windows
/// are small, a round would else have a read for each of all streams.
const LOADED_PARTS_MAX: u32 = 24;

impl<F> Streams<F> {
    /// The most bytes that the next read of a body can be for; 0 if there is none now. `window`:
    /// bytes of bodies that the client permits for the connection.
    pub(crate) fn loadable(&self, window: u64) -> u64 {
        let most = if self.flying.is_empty() { LOADED_BYTES_MAX } else { LOADED_AHEAD_BYTES_MAX };
        let room = most.saturating_sub(self.unsent);
        if self.files.is_empty() || room < LOADED_ROOM_MIN || self.free_ticket().is_none() {
            return 0;
        }
        if self.heads.len() >= LOADED_PARTS_MAX && self.loaded_parts() >= LOADED_PARTS_MAX {
            return 0;
        }
        // What is read next has room then, so that no file is opened for nothing.
        if self.reopens() {
            return 0;
        }
        room.min(LOAD_BYTES_MAX).min(window)
    }

    /// Streams with a part in memory.
    fn loaded_parts(&self) -> u32 {
        self.heads.filter(|at| self.get(at).loaded_bytes() > 0).len()
    }

    /// The bytes of the next read, which are also as many as its buffer needs; 0 if there is none.
    pub(crate) fn next_load(&self, window: u64) -> u64 {
        let most = self.loadable(window);
        if most == 0 {
            return 0;
        }
        let reader = || self.schedule.reader(self.files, |at| self.get(at).id);
        let at = self.fresh().or_else(|| reader().map(|(_, at)| at));
        at.map_or(0, |at| self.part(at, most))
    }

    /// The stream that was asked for last, if its body is read first.
    fn fresh(&self) -> Option<Slot> {
        self.recent.filter(|at| self.is_fresh && self.files.contains(*at))
    }

    /// Bytes of the next part of a body, of at most `most`.
    fn part(&self, at: Slot, most: u64) -> u64 {
        let stream = self.get(at);
        most.min(stream.file_bytes()).min(u64::try_from(stream.window).unwrap_or(0))
    }

    /// True if a body is read before another exchange gets a ticket.
    pub(crate) fn prefers_load(&self) -> bool {
        self.schedule.reads_next(self.files, self.wanting)
    }

    /// Reads the next part of a body that is in a file: that of the stream which is next by
    /// priority. It must be done at `until`. The connection's window is charged for it now. If the
    /// file was closed meanwhile, it is opened first, and read as soon as that is done.
    ///
    /// Takes the buffer for a read. Returns `None` if there is nothing to read now
    /// ([`Self::loadable`]).
    pub(crate) fn load(
        &mut self,
        window: u64,
        until: Tick,
        buffer: &mut Option<Vec<u8>>,
    ) -> Option<Op<F>>
    where
        F: Clone,
    {
        let most = self.loadable(window);
        // The buffer may have been taken for another stream. One without memory lets the read fail.
        let most = match buffer.as_ref()?.capacity() as u64 {
            0 => most,
            room => most.min(room),
        };
        if most == 0 {
            return None;
        }
        let (fresh, places) = (self.fresh(), &self.places);
        let next_read = || self.schedule.next_read(self.files, |at| places[at.index()].id);
        let (at, free) = (fresh.or_else(next_read)?, self.free_ticket()?);
        (self.recent, self.is_fresh) = (Some(at), false);
        let stream = self.get(at);
        let bytes = self.part(at, most);
        let Some(Segment::File { at: start, .. }) = stream.out.segments().next() else {
            return None;
        };
        let Some(file) = stream.file.open().cloned() else {
            return self.reopen(at, free, until);
        };
        let req = ReadReq { file, at: *start, len: bytes, buffer: buffer.take()? };
        self.unsent += bytes;
        self.loads[usize::from(free)] = u32::try_from(bytes).unwrap_or(u32::MAX);
        let ticket = self.assign(free, at);
        self.enter(at, Stage::Loads(free), until);
        Some(Op::Read(ticket, req))
    }

    /// A part of a body has been read: it is sent next. Returns the buffer of the part before it.
    pub(crate) fn loaded(&mut self, at: Slot, bytes: Vec<u8>) -> Vec<u8> {
        let stream = self.get_mut(at);
        debug_assert_eq!(stream.loaded_bytes(), 0, "a body is read in order");
        let before = mem::replace(&mut stream.loaded, bytes);
        stream.loaded_at = 0;
        let bytes = stream.loaded_bytes();
        self.unsent += bytes;
        self.enter(at, Stage::Sends, Tick::NEVER);
        before
    }

    /// Drops bytes that were read and cannot be sent, because the client has taken their window
    /// back. They are read again when it is open.
    pub(super) fn unload(&mut self, at: Slot) {
        let stream = self.get_mut(at);
        let bytes = stream.loaded_bytes();
        if bytes > 0 && stream.window <= 0 {
            drop(stream.take_loaded());
            self.unsent -= bytes;
        }
    }
}
