//! A protocol on a connection, as its driver sees it, and the environment that it uses.
use crate::{Cache, ListenerClass, Log, Peer, Scratch, Seal, Site, Sites};
use alloc::boxed::Box;
use core::{cell::Ref, fmt};
use regatta_http::Fields;
use regatta_metrics::Tally;
use regatta_op::{Abandoned, CloseReason, Done, Now, Op, Tick};

/// State machine of a connection, from its first byte to its close, without any I/O.
///
/// Call [`next_op`](Self::next_op) at the beginning and after every [`complete`](Self::complete),
/// perform the operation, and pass its outcome. After [`Op::Close`] the connection is not called
/// again. `docs/seam.md` has the rules.
pub trait Protocol<F> {
    /// The next operation to start, or `None` until something is completed.
    fn next_op(&mut self) -> Option<Op<F>>;

    /// Takes the outcome of an operation in flight. Never waits.
    ///
    /// # Panics
    /// If that operation is not in flight: only a driver that breaks rule 3 of the seam does that.
    fn complete(&mut self, done: Done<'_, F>, now: Now, cx: &Cx<'_, F>);

    /// Time to call [`expire`](Self::expire), if nothing else happens before; [`Tick::NEVER`] when
    /// the connection is over.
    #[must_use]
    fn deadline(&self) -> Tick;

    /// Time has passed: the connection checks its deadline. Before the deadline, nothing happens.
    ///
    /// `queued` is the number of bytes that the kernel holds for this socket and the peer has not
    /// acknowledged (`SIOCOUTQ`). Bytes sent less `queued` are those that the peer has. 0 is the
    /// lenient answer of a driver that cannot know.
    ///
    /// * Idle: the connection ends silently ([`CloseReason::IdleDeadline`]).
    /// * Part of a head, or of content to be discarded: 408, then the end
    ///   ([`CloseReason::HeadDeadline`]).
    /// * A response is going out: the connection ends if the peer took less than `send_rate_min`
    ///   since the last check ([`CloseReason::SendDeadline`]). Otherwise another window begins. The
    ///   same holds for bytes of earlier responses that the kernel still has when an idle or
    ///   lingering connection expires.
    /// * Lingering: the connection is over.
    /// * A file could not be opened: it is tried again.
    /// * Waiting for the disk: 503, then the end. The end comes at once if a response is going out
    ///   already ([`CloseReason::DiskDeadline`]), or if the peer had closed its half
    ///   ([`CloseReason::PeerAborted`]).
    ///
    /// Afterwards the operation in flight either remains, with a later deadline, or counts as
    /// dropped. In the second case [`abandoned`](Self::abandoned) reports it, and
    /// [`next_op`](Self::next_op) offers another. The driver then forgets the operation that it had
    /// parked. Or it cancels the operation, and waits until the kernel has let go. It must not
    /// complete it.
    fn expire(&mut self, queued: u64, now: Now, cx: &Cx<'_, F>);

    /// The `Send` in flight waits for the disk: the peer is not to blame until
    /// [`disk_answered`](Self::disk_answered).
    fn wait_for_disk(&mut self, now: Now, cx: &Cx<'_, F>);

    /// The `Send` that waited for the disk can be performed. The peer has a whole window for it.
    fn disk_answered(&mut self, now: Now, cx: &Cx<'_, F>);

    /// The peer sends no more while an operation waits for the disk: it may have left. The
    /// connection waits a little longer ([`crate::Deadlines::half_closed_ms_max`]). If the peer is
    /// surely gone, the driver calls [`cut`](Self::cut).
    fn peer_ended(&mut self, now: Now, cx: &Cx<'_, F>);

    /// The disk held the driver up for this long: all deadlines move by as much. For drivers that
    /// perform disk operations themselves.
    fn held_up(&mut self, ms: u64);

    /// The peer has begun its handshake, and its bytes wait for their turn in the driver. From now
    /// on a [`drain`](Self::drain) does not end the connection for the peer's silence. The deadline
    /// of the handshake stays.
    fn peer_began(&mut self) {}

    /// The server is going away: finish the exchange in progress, then close.
    ///
    /// The next request on a persistent connection may already be on its way. An idle connection
    /// stays open for [`crate::Deadlines::drain_idle_ms`], a new one for
    /// [`crate::Deadlines::drain_first_ms`]. The response to a request that comes meanwhile is
    /// marked as the last. Even if the time is 0, [`expire`](Self::expire) ends the connection:
    /// closing it with unread bytes could destroy a response that the peer has not received yet
    /// (RFC 9112 §9.6).
    fn drain(&mut self, now: Now, cx: &Cx<'_, F>);

    /// The driver cannot continue: the connection ends now, for `reason`, and counts and logs an
    /// exchange in progress as cut short. A connection that is closing already is left alone.
    ///
    /// Operations in flight are given up, as after [`expire`](Self::expire). If an idle connection
    /// makes room for another ([`CloseReason::Displaced`]), a `Send` may precede `Close`: the alert
    /// that closes TLS. The driver performs it at once, or not at all.
    fn cut(&mut self, reason: CloseReason, now: Now, cx: &Cx<'_, F>);

    /// The server has too much to do. The request that waits for the disk, or else the next one, is
    /// answered with 503 and without a file. HTTP/1 then ends the connection
    /// ([`CloseReason::Refused`]). A response in progress and a handshake are not affected. A
    /// protocol with several exchanges gives up the disk operation that has been out longest, and
    /// continues with the others.
    ///
    /// A driver that has received bytes calls this before it completes the `Recv`: afterwards their
    /// request may have been answered. A disk operation in flight is given up, as after
    /// [`expire`](Self::expire).
    fn turn_away(&mut self, now: Now, cx: &Cx<'_, F>);

    /// The operations in flight that [`expire`](Self::expire) gave up, until
    /// [`next_op`](Self::next_op) is called.
    #[must_use]
    fn abandoned(&self) -> Option<Abandoned>;

    /// True if no byte of a request has come since the last response.
    #[must_use]
    fn is_idle(&self) -> bool;

    /// True if these bytes, received next, belong to a request that [`turn_away`](Self::turn_away)
    /// would refuse. They are not content of one, nor discarded, nor of a handshake alone. No bytes
    /// stand for unknown ones: true if a request is what they most likely belong to.
    #[must_use]
    fn awaits_request(&self, bytes: &[u8]) -> bool;

    /// True while its next `Recv` may continue a handshake, which takes as long as a dozen cached
    /// replies. False for a connection in the clear. Once false, it stays false.
    #[must_use]
    fn is_shaking_hands(&self) -> bool {
        false
    }

    /// True if the last `Send` was a piece of one of the protocol above, and more of that follows.
    /// False for a connection in the clear.
    #[must_use]
    fn sends_on(&self) -> bool {
        false
    }

    /// True if the file that is asked for could not be opened now, and will be tried again when the
    /// deadline has passed: nothing has been answered.
    #[must_use]
    fn tries_again(&self) -> bool;

    /// Requests that have come.
    #[must_use]
    fn requests(&self) -> u32;

    /// Checks what must hold between calls; for tests.
    ///
    /// # Panics
    /// If it does not.
    fn check_invariants(&self);
}

/// Decision about a client's new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Served, and counted.
    Admitted,
    /// Served but not counted: there is no room to note its client.
    Untracked,
    /// Counted, and one too many: its first request is answered with 429.
    Limited,
    /// Closed and not counted: the client has twice its limit.
    Refused,
}

/// Decisions about a connection that are made outside of it. They are its protocol, by the class of
/// the listener that accepted it ([`Peer::class`]), and how much its client may have. The protocol
/// is asked for when the connection is accepted and when its handshake is complete.
pub trait Links<F> {
    /// Whether this peer's connection begins with a PROXY header, and if so, whether the peer may
    /// speak for others; asked when it has been accepted.
    fn greets(&self, _peer: Peer) -> Option<bool> {
        None
    }

    /// A connection has been accepted, and is a descriptor of this number. If it counts,
    /// [`closing`](Self::closing) is called before that is closed.
    #[expect(unused_variables, reason = "no client is limited")]
    fn opened(&self, peer: Peer, fd: i32, now: Now) -> Admission {
        Admission::Admitted
    }

    /// The connection of this descriptor is about to be closed.
    fn closing(&self, _fd: i32) {}

    /// True if the client may have another answer now; asked for each request if
    /// [`crate::Limits::client_rate`] is not 0.
    #[expect(unused_variables, reason = "no client is limited")]
    fn may_ask(&self, peer: Peer, now: Now) -> bool {
        true
    }

    /// The client of a request that the peer sends; asked for each if [`Site::forwarded`].
    #[expect(unused_variables, reason = "everybody speaks for themselves")]
    fn client(&self, peer: Peer, fields: &Fields<'_>) -> Peer {
        peer
    }

    /// The encryption of connections to listeners of this class, if any.
    fn seal(&self, _class: ListenerClass) -> Option<Box<dyn Seal>> {
        None
    }

    /// The protocol of a connection just accepted, or of a sealed one with a handshake that agreed
    /// on this name (ALPN, RFC 7301). The name may be empty. `None` is HTTP/2 if the name is `h2`,
    /// otherwise HTTP/1.
    #[expect(unused_variables, reason = "HTTP on every listener")]
    fn protocol(
        &self,
        peer: Peer,
        agreed: &[u8],
        now: Now,
        cx: &Cx<'_, F>,
    ) -> Option<Box<dyn Protocol<F> + Send>> {
        None
    }
}

/// HTTP/1 in the clear, or HTTP/2 by its preface, on every listener.
#[derive(Clone, Copy, Debug)]
pub struct ClearHttp1;

impl<F> Links<F> for ClearHttp1 {}

/// Everything that a connection or an exchange may use besides its own state.
///
/// All shared references, so a driver can hold one across a wait.
pub struct Cx<'a, F> {
    /// The site and the limits; fixed after start-up. For a request: those of its host.
    pub site: &'a Site,
    /// Private to the worker or shared: the origin cannot tell.
    pub cache: &'a dyn Cache<F>,
    /// The worker's counters.
    pub tally: Tally<'a>,
    /// Takes finished records.
    pub log: &'a dyn Log,
    /// The worker's buffers.
    pub scratch: &'a Scratch<F>,
    /// The protocol of each class of listeners.
    pub links: &'a dyn Links<F>,
}

impl<F> Cx<'_, F> {
    /// The sites that changed with their roots, if any has.
    #[inline(always)]
    pub(crate) fn changed_sites(&self) -> Option<Ref<'_, Sites>> {
        self.scratch.releases.as_ref()?.current()
    }

    /// Context of a request to the host of this number; it is put together in `room` if its site
    /// is another than that of the first host at the start. `changed`: [`Cx::changed_sites`].
    #[inline(always)]
    pub(crate) fn of_host<'c>(
        &'c self,
        host: u16,
        changed: &'c Option<Ref<'_, Sites>>,
        room: &'c mut Option<Cx<'c, F>>,
    ) -> &'c Cx<'c, F> {
        let changed = changed.as_deref().and_then(|sites| sites.get(usize::from(host)));
        let changed = changed.and_then(Option::as_deref);
        match changed.or_else(|| self.site.of_host(host)) {
            None => self,
            Some(site) => room.insert(Cx { site, ..*self }),
        }
    }
}

impl<F> Clone for Cx<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Cx<'_, F> {}

impl<F> fmt::Debug for Cx<'_, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cx").field("site", &self.site).finish_non_exhaustive()
    }
}
