//! Acts of a peer, in schedules of every kind.
use crate::{
    dice::Dice,
    peer::{NEVER, Peer, Pipe, due},
    sealing::ClientSeal,
};
use regatta_origin::Deadlines;

/// A peer's end of a connection.
pub(crate) struct End<'a>(
    pub(crate) &'a mut Peer,
    pub(crate) &'a mut Pipe,
    pub(crate) &'a mut Option<ClientSeal>,
);

/// Acts of a peer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Acted {
    pub(crate) read: u64,
    pub(crate) sent: u64,
    /// Whether there is a new request to send, or a part of the handshake.
    pub(crate) fresh: bool,
    pub(crate) left: bool,
}

/// Whether a peer has taken too little in the last send window: the server may end the connection.
/// Behind a seal, only bytes of responses count.
pub(crate) fn is_slow(
    pipe: &Pipe,
    seal: Option<&ClientSeal>,
    deadlines: &Deadlines,
    now: u64,
) -> bool {
    let window_ms = deadlines.send_window_ms;
    let had = pipe.acked_before(now.saturating_sub(window_ms) + 1);
    let added = seal.map_or(0, |seal| seal.added_max(had..pipe.acked));
    (pipe.acked - had).saturating_sub(added) < due(deadlines, window_ms)
}

impl End<'_> {
    /// Reads what has arrived, and continues the handshake.
    pub(crate) fn read(self) -> Acted {
        let Self(peer, pipe, seal) = self;
        let read = peer.read(pipe);
        let fresh = seal.as_mut().is_some_and(|seal| seal.answer(pipe.read, &mut peer.out));
        Acted { read, fresh, ..Acted::default() }
    }

    /// Appends a request to what is to be sent.
    pub(crate) fn append(self, plain: &[u8]) {
        match self.2 {
            Some(seal) => seal.seal(plain, &mut self.0.out),
            None => self.0.out.extend(plain),
        }
    }

    /// Sends a piece, leaves if it is time to, and sets the time of the next act. Returns whether
    /// the peer has acted. `answered`: it has read a response to each request.
    pub(crate) fn go_on(
        self,
        acted: &mut Acted,
        answered: bool,
        tick: u64,
        dice: &mut Dice,
    ) -> bool {
        let Self(peer, pipe, seal) = self;
        let later = acted.fresh && dice.one_in(4);
        acted.sent = if later { 0 } else { peer.send(pipe, dice) };
        acted.left = peer.leaves(pipe, answered);
        if acted.left
            && let Some(seal) = seal
        {
            seal.leave(peer, pipe);
        }
        let busy = acted.read > 0 || acted.sent > 0 || acted.fresh || acted.left;
        let waits = !peer.out.is_empty() && pipe.inbound_room() > 0 && peer.left_how.is_none();
        let more = pipe.acked > pipe.read && acted.read > 0;
        let pause = peer.pause(acted.fresh, dice);
        peer.next = if busy || waits || more { tick + pause.max(1) } else { NEVER };
        busy
    }
}
