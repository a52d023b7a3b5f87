//! Bytes in: heads and contents, found in what came, and what is kept until more comes.
use crate::{
    Conn, Cx, Refusal, Supply,
    h1::{
        conn::State,
        course::{After, head_limits},
        work::{Content, ContentFault},
    },
};
use alloc::vec::Vec;
use core::mem;
use regatta_http::h1::{HeadFault, RequestHead, Scan, scan_head};
use regatta_op::{CloseReason, File, Now};

/// What became of the head that bytes start with.
enum Headed {
    /// Its exchange has started, or what came is refused: so many bytes are done with.
    Taken(usize),
    /// Its end has not come.
    More,
}

/// How far [`Conn::advance`] came.
struct Advance {
    /// Bytes that are done with.
    used: usize,
    /// How many of the others have been looked at for the end of a head.
    seen: usize,
}

impl<F: File> Conn<F> {
    /// Takes bytes from the peer: there is at least one.
    #[inline]
    pub(crate) fn on_recv(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) {
        match self.state() {
            State::Linger => return self.on_lingering(bytes.len(), now, cx),
            State::Hold => return self.on_early(bytes, now, cx),
            _ => {}
        }
        if self.has_stash() {
            let work = self.work_mut(cx);
            work.stash.drain(..mem::take(&mut work.at));
            work.stash.extend_from_slice(bytes);
            return self.advance_stash(now, cx);
        }
        // The common case: a whole head in one piece is read where the driver put it.
        let Advance { used, seen } = self.advance(bytes, 0, now, cx);
        if used < bytes.len() || self.work().is_some() {
            self.keep(&bytes[used..], seen, cx);
        }
    }

    /// Goes on with `bytes`, of which `seen` have been looked at before, until another operation
    /// than `Recv` is next or more bytes are needed.
    #[inline(always)]
    fn advance(&mut self, bytes: &[u8], seen: usize, now: Now, cx: &Cx<'_, F>) -> Advance {
        let (mut used, mut seen) = (0, seen);
        while used < bytes.len() {
            let rest = &bytes[used..];
            match self.state() {
                State::Head => match self.next_head(rest, seen, now, cx) {
                    Headed::Taken(len) => {
                        seen = 0;
                        used += len;
                    }
                    Headed::More => {
                        seen = rest.len();
                        break;
                    }
                },
                State::Content => used += self.on_content(rest, now, cx),
                _ => break,
            }
        }
        Advance { used, seen }
    }

    /// Starts on the request that `bytes` start with. `seen` of them have been looked at before.
    #[inline(never)]
    fn next_head(&mut self, bytes: &[u8], seen: usize, now: Now, cx: &Cx<'_, F>) -> Headed {
        let limits = head_limits(cx.site);
        // What comes in small pieces is scanned once and parsed once.
        let mut head = RequestHead::unread();
        let parsed = if seen > 0 && scan_head(bytes, seen) == Scan::Partial {
            Ok(false)
        } else {
            cx.scratch.seen.borrow_mut().parse_into(bytes, &limits, &mut head)
        };
        let fault = match parsed {
            Ok(true) => {
                self.on_head(&head, now, cx);
                return Headed::Taken(head.head_bytes);
            }
            Ok(false) if bytes.len() <= limits.head_bytes_max => {
                if seen == 0 {
                    self.set_state(State::Head, now.tick.after(cx.site.deadlines.head_ms_max));
                }
                return Headed::More;
            }
            Ok(false) => HeadFault::oversized(bytes, &limits),
            Err(fault) => fault,
        };
        self.on_no_head(Refusal::Head(fault), CloseReason::BadRequest, now, cx);
        Headed::Taken(bytes.len())
    }

    /// Discards content from the front of `bytes`, and returns how much.
    fn on_content(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) -> usize {
        let work = self.work_mut(cx);
        let discarded = work.content.discard(bytes);
        let complete = work.content == Content::None;
        match discarded {
            Ok(used) => {
                if complete {
                    work.head_only = false;
                    let window = cx.site.deadlines.send_window_ms;
                    self.set_state(State::Send, now.tick.after(window));
                }
                used
            }
            Err(fault) => {
                let head_only = self.drop_content(cx);
                self.drop_out(cx);
                let (refusal, reason) = match fault {
                    ContentFault::TooLarge => (Refusal::ContentTooLarge, CloseReason::Finished),
                    ContentFault::Malformed => (Refusal::Chunks, CloseReason::BadRequest),
                };
                self.refuse(refusal, reason, head_only, now, cx);
                0
            }
        }
    }

    /// Goes on with the bytes in the stash.
    pub(crate) fn advance_stash(&mut self, now: Now, cx: &Cx<'_, F>) {
        let work = self.work_mut(cx);
        let (stash, at, seen) = (mem::take(&mut work.stash), work.at, work.seen);
        let Advance { used, seen } = self.advance(&stash[at..], seen, now, cx);
        self.keep_stash(stash, at + used, seen, cx);
    }

    /// Keeps what comes while a descriptor is awaited; too much of it ends the waiting.
    #[cold]
    fn on_early(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) {
        let work = self.work_mut(cx);
        work.stash.extend_from_slice(bytes);
        if work.stash.len() - work.at > cx.site.limits.head_bytes_max {
            self.resume(Supply::GivenUp, now, cx);
        }
    }

    /// Keeps a copy of what was received and is not done with.
    fn keep(&mut self, rest: &[u8], seen: usize, cx: &Cx<'_, F>) {
        let mut stash = mem::take(&mut self.work_mut(cx).stash);
        stash.clear();
        stash.extend_from_slice(rest);
        self.keep_stash(stash, 0, seen, cx);
    }

    /// Puts the stash back, with the bytes from `at` on not done with.
    fn keep_stash(&mut self, mut stash: Vec<u8>, mut at: usize, mut seen: usize, cx: &Cx<'_, F>) {
        let unread = at < stash.len();
        if unread && !self.reads_on() && self.after == After::Close {
            // It said that it was done and went on: closing at once could destroy the response.
            self.after = After::Linger;
        }
        if !unread || !self.reads_on() {
            stash.clear();
            (at, seen) = (0, 0);
        }
        if stash.is_empty() && self.work().is_none() {
            return cx.scratch.give_buffer(stash);
        }
        let work = self.work_mut(cx);
        (work.stash, work.at, work.seen) = (stash, at, seen);
        self.settle(cx);
    }

    /// True if what comes after the request in progress will be looked at.
    fn reads_on(&self) -> bool {
        match self.state() {
            State::Head | State::Disk | State::Hold | State::Content => true,
            State::Send | State::Warm => self.after == After::KeepAlive,
            State::Shut | State::Linger | State::Close => false,
        }
    }
}
