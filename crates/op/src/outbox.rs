//! Bytes and file ranges waiting to go out (nginx's chain, h2o's sendvec).
use crate::File;
use alloc::{boxed::Box, collections::VecDeque, sync::Arc, vec::Vec};
use core::{mem, ops::Range};

/// A piece of the bytes behind the head.
#[derive(Clone, Debug)]
pub enum Segment<F> {
    /// Shared memory: a cached body, or a range of it; [`Segment::mem`] makes one. With numbers of
    /// 32 bits it is no larger than a range of a file.
    Mem {
        /// The bytes, and perhaps others around them.
        bytes: Arc<[u8]>,
        /// Offset of the next byte to send.
        at: u32,
        /// Offset behind the last byte to send; not below `at`.
        end: u32,
    },
    /// A range of a file.
    File {
        /// The file.
        file: F,
        /// Offset of the next byte to send.
        at: u64,
        /// Bytes left to send from there; more than 0.
        len: u64,
    },
}

impl<F> Segment<F> {
    /// All of some memory.
    ///
    /// # Panics
    /// If there are 4 GiB of it.
    #[must_use]
    #[inline]
    pub fn mem(bytes: impl Into<Arc<[u8]>>) -> Self {
        let bytes = bytes.into();
        let all = 0..bytes.len();
        Self::mem_range(bytes, all)
    }

    /// A range of some memory, which is shared.
    ///
    /// # Panics
    /// If the range is not within the memory, or ends beyond 4 GiB.
    #[must_use]
    #[inline]
    pub fn mem_range(bytes: Arc<[u8]>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= bytes.len(), "a range of the memory");
        let offset = |at: usize| u32::try_from(at).expect("bodies in memory are below 4 GiB");
        Self::Mem { bytes, at: offset(range.start), end: offset(range.end) }
    }

    /// Returns the bytes left to send, if they are in memory.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> Option<&[u8]> {
        match self {
            Self::Mem { bytes, at, end } => Some(&bytes[*at as usize..*end as usize]),
            Self::File { .. } => None,
        }
    }

    /// Bytes left to send.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Mem { at, end, .. } => u64::from(end - at),
            Self::File { len, .. } => *len,
        }
    }

    /// True if nothing is left to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Bytes that go to the peer next: a head in a buffer of its own, then segments.
///
/// The head's buffer stays in the outbox when its bytes are gone, so that its owner can use it
/// again: a response on a cache hit allocates nothing. One segment is held in place; only multipart
/// responses have more.
#[derive(Debug)]
pub struct Outbox<F> {
    head: Vec<u8>,
    head_at: u32,
    ends: bool,
    pauses: bool,
    first: Option<Segment<F>>,
    #[expect(clippy::box_collection, reason = "8 bytes instead of 32 in every connection")]
    rest: Option<Box<VecDeque<Segment<F>>>>,
}

impl<F> Default for Outbox<F> {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl<F> Outbox<F> {
    /// An outbox that starts with `head`, which may be empty.
    #[must_use]
    pub const fn new(head: Vec<u8>) -> Self {
        debug_assert!(head.len() <= u32::MAX as usize, "heads are short");
        Self { head, head_at: 0, ends: false, pauses: false, first: None, rest: None }
    }

    /// Starts an empty outbox again with `head`.
    ///
    /// # Panics
    /// If it is not empty, in debug builds: unsent segments would go out after `head`.
    #[inline]
    pub fn start(&mut self, head: Vec<u8>) {
        debug_assert!(self.is_empty(), "one response at a time");
        self.head = head;
        self.head_at = 0;
        (self.ends, self.pauses) = (false, false);
    }

    /// Adds a segment after all others. Empty segments are dropped.
    #[inline(always)]
    pub fn push(&mut self, segment: Segment<F>) {
        if segment.is_empty() {
            return;
        }
        if self.first.is_none() {
            debug_assert!(self.rest.is_none(), "segments move up when the first is gone");
            self.first = Some(segment);
        } else {
            self.rest.get_or_insert_default().push_back(segment);
        }
    }

    /// Sets whether `Shut` follows at once when all of it has been sent. The kernel may then hold
    /// the last bytes, to send them together with the end of the stream.
    #[inline]
    pub const fn set_ends(&mut self, ends: bool) {
        self.ends = ends;
    }

    /// True if `Shut` follows at once when all of it has been sent ([`Outbox::set_ends`]).
    #[must_use]
    #[inline]
    pub const fn ends(&self) -> bool {
        self.ends
    }

    /// Sets whether the connection has nothing to do when all of it has been sent, until its peer
    /// sends more. A driver may then complete the `Send` a little later.
    #[inline]
    pub const fn set_pauses(&mut self, pauses: bool) {
        self.pauses = pauses;
    }

    /// True if the connection has nothing to do when all of it has been sent, until its peer sends
    /// more ([`Outbox::set_pauses`]).
    #[must_use]
    #[inline]
    pub const fn pauses(&self) -> bool {
        self.pauses
    }

    /// True if everything has been sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head_at() == self.head.len() && self.first.is_none()
    }

    /// Bytes left to send.
    #[must_use]
    pub fn len(&self) -> u64 {
        let rest: u64 = self.rest.iter().flat_map(|rest| rest.iter()).map(Segment::len).sum();
        (self.head.len() - self.head_at()) as u64
            + self.first.as_ref().map_or(0, Segment::len)
            + rest
    }

    /// Lets an outbox without a buffer carry one, for [`Outbox::into_buffer`] to find.
    pub fn carry(&mut self, buffer: impl FnOnce() -> Vec<u8>) {
        if self.head.capacity() == 0 {
            self.head = buffer();
            debug_assert!(self.head.is_empty(), "nothing of it is sent");
        }
    }

    /// The rest of the head.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        &self.head[self.head_at()..]
    }

    /// The segments, in order; the head comes before them.
    pub fn segments(&self) -> impl Iterator<Item = &Segment<F>> {
        self.first.iter().chain(self.rest.iter().flat_map(|rest| rest.iter()))
    }

    /// The memory before the first file range, for a gathering write. No slice is empty.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        let head = self.head();
        let head = (!head.is_empty()).then_some(head);
        head.into_iter().chain(self.segments().map_while(Segment::memory))
    }

    /// The head and the one segment behind it; `None` if there is more than one segment.
    ///
    /// Drivers try this first: nearly every response is a head and at most one segment.
    #[must_use]
    pub fn simple(&self) -> Option<(&[u8], Option<&Segment<F>>)> {
        self.rest.is_none().then_some((&self.head[self.head_at()..], self.first.as_ref()))
    }

    /// Drops the first `n` bytes: the kernel has them.
    ///
    /// # Panics
    /// If there are fewer than `n`: only a driver that miscounts could do that.
    pub fn advance(&mut self, mut n: u64) {
        let head = (self.head.len() - self.head_at()) as u64;
        let used = n.min(head);
        self.head_at += u32::try_from(used).expect("no more than the head's length");
        n -= used;
        while n > 0 {
            let segment = self.first.as_mut().expect("advanced within the outbox");
            let used = n.min(segment.len());
            match segment {
                Segment::Mem { at, .. } => {
                    *at += u32::try_from(used).expect("no more than the segment's length");
                }
                Segment::File { at, len, .. } => {
                    *at += used;
                    *len -= used;
                }
            }
            n -= used;
            if segment.is_empty() {
                self.move_up();
            }
        }
    }

    /// Separates the file from its ranges, which stay in place. A response has one file at most.
    #[must_use]
    pub fn split_file(self) -> (Outbox<()>, Option<F>) {
        let Self { head, head_at, ends, pauses, first, rest } = self;
        let mut found = None;
        let mut split = |segment: Segment<F>| match segment {
            Segment::Mem { bytes, at, end } => Segment::Mem { bytes, at, end },
            Segment::File { file, at, len } => {
                found = Some(file);
                Segment::File { file: (), at, len }
            }
        };
        let first = first.map(&mut split);
        let rest = rest.map(|rest| Box::new(rest.into_iter().map(&mut split).collect()));
        (Outbox { head, head_at, ends, pauses, first, rest }, found)
    }

    /// Takes the head's buffer for another use, if its bytes are gone.
    pub fn take_used_head(&mut self) -> Option<Vec<u8>> {
        let is_used = self.head_at() == self.head.len() && self.head.capacity() > 0;
        is_used.then(|| {
            self.head_at = 0;
            mem::take(&mut self.head)
        })
    }

    /// Takes the head's buffer for another use and drops unsent bytes.
    #[must_use]
    #[inline]
    pub fn into_buffer(self) -> Vec<u8> {
        // Checked here, because nearly always there is nothing to drop.
        if let Some(rest) = self.rest {
            drop(rest);
        }
        self.head
    }

    const fn head_at(&self) -> usize {
        self.head_at as usize
    }

    fn move_up(&mut self) {
        self.first = self.rest.as_mut().and_then(|rest| rest.pop_front());
        if self.rest.as_ref().is_some_and(|rest| rest.is_empty()) {
            self.rest = None;
        }
    }
}

impl<F: File> Outbox<F> {
    /// True if the next byte to send is in a file.
    #[must_use]
    pub fn at_file(&self) -> bool {
        self.head_at() == self.head.len() && matches!(self.first, Some(Segment::File { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;

    #[derive(Clone, Debug)]
    struct Nothing;
    impl File for Nothing {
        fn id(&self) -> FileId {
            FileId::default()
        }
    }

    fn outbox() -> Outbox<Nothing> {
        let mut outbox = Outbox::new(b"head".to_vec());
        outbox.push(Segment::mem(&b""[..]));
        outbox.push(Segment::mem_range(Arc::from(&b"-body-"[..]), 1..5));
        outbox.push(Segment::File { file: Nothing, at: 10, len: 5 });
        outbox.push(Segment::mem(&b"end"[..]));
        outbox
    }

    #[test]
    fn every_split_of_an_outbox_sends_each_byte_once() {
        for first in 0..=16 {
            let mut outbox = outbox();
            assert_eq!(outbox.len(), 16);
            outbox.advance(first);
            assert_eq!(outbox.len(), 16 - first);
            outbox.advance(16 - first);
            assert!(outbox.is_empty());
            assert_eq!(outbox.into_buffer(), b"head");
        }
    }

    #[test]
    fn each_response_says_anew_whether_the_stream_ends() {
        let mut outbox = outbox();
        assert!(!outbox.ends() && !outbox.pauses());
        outbox.set_ends(true);
        outbox.set_pauses(true);
        outbox.advance(16);
        assert!(outbox.ends() && outbox.pauses());
        outbox.start(b"head".to_vec());
        assert!(!outbox.ends() && !outbox.pauses());
    }

    #[test]
    fn a_file_is_separated_from_its_ranges() {
        let mut outbox = outbox();
        outbox.advance(9);
        let (mut ranges, file) = outbox.split_file();
        assert!(file.is_some());
        assert_eq!(ranges.len(), 7);
        let range = ranges.segments().next();
        assert!(matches!(range, Some(Segment::File { file: (), at: 11, len: 4 })), "{range:?}");
        ranges.advance(4);
        assert!(ranges.slices().eq([&b"end"[..]]));
        assert_eq!(ranges.into_buffer(), b"head");
        assert!(Outbox::<Nothing>::new(b"head".to_vec()).split_file().1.is_none());
    }

    #[test]
    fn slices_stop_at_the_first_file_range() {
        let mut outbox = outbox();
        assert!(outbox.slices().eq([&b"head"[..], b"body"]));
        assert!(outbox.simple().is_none());
        outbox.advance(6);
        assert!(outbox.slices().eq([&b"dy"[..]]));
        outbox.advance(2);
        assert!(outbox.at_file());
        assert_eq!(outbox.slices().count(), 0);
        outbox.advance(5);
        assert!(matches!(outbox.simple(), Some((b"", Some(Segment::Mem { .. })))));
    }
}
