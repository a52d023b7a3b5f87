//! One client connection, from its first byte to its close, without doing any I/O.
use crate::{Cache, Log, Peer, Scratch, Site};
use core::fmt;
use regatta_metrics::Tally;
use regatta_op::{CloseReason, Done, File, Now, Op, OpKind, Tick};

/// Everything a connection may consult besides itself.
///
/// All shared references, so a driver can hold one across a wait.
#[derive(Clone, Copy)]
pub struct Cx<'a, F> {
    /// What is served and the limits; fixed after start-up.
    pub site: &'a Site,
    /// Private to the worker or shared: the origin cannot tell.
    pub cache: &'a dyn Cache<F>,
    /// The worker's counters.
    pub tally: Tally<'a>,
    /// Takes finished records.
    pub log: &'a dyn Log,
    /// The worker's buffers.
    pub scratch: &'a Scratch,
}

impl<F> fmt::Debug for Cx<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("site", &self.site).finish_non_exhaustive()
    }
}

/// One connection.
///
/// Call [`next_op`](Self::next_op) after [`new`](Self::new) and after every
/// [`complete`](Self::complete), perform what it says, and tell the outcome. One operation is out
/// at a time. After [`Op::Close`] the connection is not called again. The connection counts why it
/// closed; that it was opened and that it is gone is counted by the driver.
#[derive(Debug)]
pub struct Conn<F> {
    lent: Option<OpKind>,
    closing: Option<CloseReason>,
    deadline: Tick,
    abandoned: bool,
    peer: Peer,
    out: regatta_op::Outbox<F>,
}

impl<F: File> Conn<F> {
    /// A connection that was accepted just now.
    #[must_use]
    pub fn new(peer: Peer, now: Now, cx: &Cx<'_, F>) -> Self {
        Self {
            lent: None,
            closing: None,
            deadline: now.tick.after(cx.site.deadlines.idle_ms_max),
            abandoned: false,
            peer,
            out: regatta_op::Outbox::default(),
        }
    }

    /// The next operation to start, or `None` while one is out.
    pub fn next_op(&mut self) -> Option<Op<F>> {
        if self.lent.is_some() {
            return None;
        }
        let op = self.closing.map_or(Op::Recv, Op::Close);
        self.lent = Some(op.kind());
        Some(op)
    }

    /// Takes the outcome of the operation that is out and moves on. Runs to the end; never waits.
    ///
    /// # Panics
    /// If that operation is not out: only a driver that breaks rule 4 of the seam could do that.
    pub fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>) {
        assert_eq!(self.lent.take(), Some(done.kind()), "an operation is completed once");
        self.deadline = now.tick.after(cx.site.deadlines.idle_ms_max);
        self.closing = Some(CloseReason::Failed);
    }

    /// When [`expire`](Self::expire) is to be called, if nothing else happens before;
    /// [`Tick::NEVER`] while the disk is at work.
    #[must_use]
    pub fn deadline(&self) -> Tick {
        self.deadline
    }

    /// Time has passed: the connection looks at its deadline and decides. Before the deadline,
    /// nothing happens.
    ///
    /// `queued` is how many bytes the kernel holds for this socket that the peer has not
    /// acknowledged (`SIOCOUTQ`): what was sent less `queued` is what the peer has. Afterwards
    /// either the operation that was out still is, with a later deadline, or it counts as dropped
    /// ([`abandoned`](Self::abandoned) is true, [`next_op`](Self::next_op) offers another): the
    /// driver then forgets the operation that it had parked, or cancels it and waits until the
    /// kernel has let go, and must not complete it.
    pub fn expire(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>) {
        let _ = (queued, cx);
        if now.tick >= self.deadline && self.lent.take().is_some() {
            self.abandoned = true;
            self.closing = Some(CloseReason::IdleDeadline);
        }
    }

    /// The server is going away: finish the exchange in progress, then close. A connection that is
    /// idle closes at once, and the `Recv` that was out counts as dropped, as in
    /// [`expire`](Self::expire).
    pub fn drain(&mut self, now: Now, cx: &Cx<'_, F>) {
        let _ = (now, cx);
        self.abandoned = self.lent.take().is_some();
        self.closing = Some(CloseReason::Drained);
    }

    /// True if [`expire`](Self::expire) or [`drain`](Self::drain) dropped the operation that was
    /// out, and [`next_op`](Self::next_op) has not been called since.
    #[must_use]
    pub fn abandoned(&self) -> bool {
        self.abandoned
    }

    /// True if no byte of a request has come since the last response.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        !self.is_busy()
    }

    /// True if a request is being answered, or part of one has come.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.out.is_empty() && self.peer == self.peer
    }
}
