//! State of an exchange in progress, and of the HTTP/1 work that depends on it.
use crate::{Representation, course::Course, record::Note, request::OwnedRequest, resolve::Search};
use alloc::{sync::Arc, vec::Vec};
use core::mem;
use regatta_op::{Coding, Codings, Now, Op, OpenFault, Tick};

/// The state of one exchange from its request to its reply, and the facts for its log record until
/// the reply has been sent.
///
/// [`start`](Self::start) it, perform the step that it returns, and [`resume`](Self::resume) it
/// with the outcome, until the step is [`crate::Step::Reply`]. Between steps it may wait in a
/// queue. The exchange counts opens and reads.
#[derive(Debug)]
pub struct Exchange<F> {
    /// The request, kept while the exchange waits.
    pub(crate) request: OwnedRequest,
    /// The state of the search for the file that answers.
    pub(crate) search: Search,
    /// The file that is being opened again, read, or checked.
    pub(crate) pending: Option<Arc<Representation<F>>>,
    /// The coding of it that is being read or checked.
    pub(crate) coding: Option<Coding>,
    /// The siblings that the last `Open` asked for.
    pub(crate) siblings: Codings,
    /// Time at which the last `Open` was requested.
    pub(crate) requested_at: Now,
    /// Number of times that the open has been tried again.
    pub(crate) tries: u32,
    /// The fault to answer with if trying again does not help.
    pub(crate) held: Option<OpenFault>,
    /// Time at which this exchange requested the pending file; `None` if it was cached before.
    pub(crate) opened: Option<Tick>,
    /// The cache had a stale entry of the current name when it was looked up.
    pub(crate) was_stale: bool,
    /// The file has just been opened or checked.
    pub(crate) is_current: bool,
    /// The kernel can send a file itself to this client.
    pub(crate) takes_files: bool,
    /// Length of the current read, bytes.
    pub(crate) part: u64,
    /// The body so far, if it takes more than one read.
    pub(crate) body: Vec<u8>,
    /// Number of times that a file had changed since it was opened, or was shorter than then.
    pub(crate) changes: u8,
    /// Number of the change of roots that brought the site for this search.
    pub(crate) release: u64,
    /// Facts for the log record.
    pub(crate) note: Note,
}

impl<F> Default for Exchange<F> {
    fn default() -> Self {
        Self {
            request: OwnedRequest::default(),
            search: Search::default(),
            pending: None,
            coding: None,
            siblings: Codings::NONE,
            requested_at: Now::default(),
            tries: 0,
            held: None,
            opened: None,
            was_stale: false,
            is_current: false,
            takes_files: false,
            part: 0,
            body: Vec::new(),
            changes: 0,
            release: 0,
            note: Note::default(),
        }
    }
}

impl<F> Exchange<F> {
    /// Resets it, but keeps its buffers.
    pub(crate) fn clear(&mut self) {
        self.request.clear();
        self.note.clear();
        let (request, note) = (mem::take(&mut self.request), mem::take(&mut self.note));
        *self = Self { request, note, ..Self::default() };
    }

    /// Bytes of memory held by its buffers.
    pub(crate) fn capacity(&self) -> usize {
        self.request.capacity() + self.note.capacity()
    }

    /// True if it holds a file.
    pub(crate) const fn holds_file(&self) -> bool {
        self.pending.is_some()
    }

    /// Drops everything but the facts for its record: it will not be resumed.
    pub(crate) fn abandon(&mut self) {
        self.pending = None;
        self.body = Vec::new();
    }

    /// Reason why the current name is tried, for people.
    pub(crate) fn reason(&self) -> &'static str {
        self.search.reason()
    }
}

/// An exchange that is not answered at once, or will be logged.
#[derive(Debug)]
pub(crate) struct Ongoing<F> {
    pub(crate) exchange: Exchange<F>,
    /// The operation that it waits for, until the driver has taken it.
    pub(crate) op: Option<Op<F>>,
    /// Effects of the request on the connection.
    pub(crate) course: Course,
}

// Memory of a stream that waits for the disk or will be logged, without its text.
const _: () = assert!(size_of::<Ongoing<Arc<u64>>>() <= 688);

impl<F> Default for Ongoing<F> {
    fn default() -> Self {
        Self { exchange: Exchange::default(), op: None, course: Course::default() }
    }
}
