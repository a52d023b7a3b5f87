//! Bytes from the peer: parsing heads, discarding contents, and keeping incomplete ones.
use crate::{
    Conn, Cx, Refusal, Supply,
    course::{After, head_limits},
    h1::conn::State,
    input::{Content, ContentFault},
};
use alloc::vec::Vec;
use core::mem;
use regatta_http::h1::{HeadFault, RequestHead, Scan, scan_head};
use regatta_op::{CloseReason, File, Now};

/// The result of parsing a head.
enum Headed {
    /// A complete head: its exchange has started, or it was refused. This many bytes were used.
    Taken(usize),
    /// An incomplete head, or the preface of HTTP/2: nothing was used.
    More,
}

/// The result of [`Conn::advance`].
struct Advance {
    /// Bytes that were used.
    used: usize,
    /// Number of the other bytes that have been searched for the end of a head.
    seen: usize,
}

impl<F: File> Conn<F> {
    /// Takes bytes from the peer, at least one.
    #[inline]
    pub(crate) fn on_recv(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) {
        match self.state() {
            State::Linger => return self.on_lingering(bytes.len(), now, cx),
            State::Hold => return self.on_early(bytes, now, cx),
            _ => {}
        }
        if self.has_stash() {
            let input = self.input_mut(cx);
            input.stash.drain(..mem::take(&mut input.at));
            input.stash.extend_from_slice(bytes);
            return self.advance_stash(now, cx);
        }
        // The common case: a complete head is parsed in the driver's buffer.
        let Advance { used, seen } = self.advance(bytes, 0, now, cx);
        if used < bytes.len() || self.input().is_some() {
            self.keep(&bytes[used..], seen, cx);
        }
    }

    /// Processes `bytes` until an operation other than `Recv` is next or more bytes are needed. The
    /// first `seen` of them have been searched before.
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

    /// Parses the request at the front of `bytes`. The first `seen` of them were searched before.
    #[inline(never)]
    fn next_head(&mut self, bytes: &[u8], seen: usize, now: Now, cx: &Cx<'_, F>) -> Headed {
        let limits = head_limits(cx.site);
        // A head that comes in pieces is searched once and parsed once.
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
            Err(HeadFault::Version) if self.begins_http2(bytes, cx) => {
                self.await_http2(bytes, now, cx);
                return Headed::More;
            }
            Err(fault) => fault,
        };
        self.on_no_head(Refusal::Head(fault), CloseReason::BadRequest, now, cx);
        Headed::Taken(bytes.len())
    }

    /// Discards content from the front of `bytes`, and returns how much.
    fn on_content(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) -> usize {
        let input = self.input_mut(cx);
        let discarded = input.content.discard(bytes);
        let complete = input.content == Content::None;
        match discarded {
            Ok(used) => {
                if complete {
                    let window = cx.site.deadlines.send_window_ms;
                    self.set_state(State::Send, now.tick.after(window));
                }
                used
            }
            Err(fault) => {
                let course = self.drop_content(cx);
                self.drop_out(cx);
                let (refusal, reason) = match fault {
                    ContentFault::TooLarge => (Refusal::ContentTooLarge, CloseReason::Finished),
                    ContentFault::Malformed => (Refusal::Chunks, CloseReason::BadRequest),
                };
                self.refuse(refusal, reason, &course, now, cx);
                0
            }
        }
    }

    /// Processes the bytes in the stash.
    pub(crate) fn advance_stash(&mut self, now: Now, cx: &Cx<'_, F>) {
        let input = self.input_mut(cx);
        let (stash, at, seen) = (mem::take(&mut input.stash), input.at, input.seen);
        let Advance { used, seen } = self.advance(&stash[at..], seen, now, cx);
        self.keep_stash(stash, at + used, seen, cx);
    }

    /// Keeps bytes that come while an open is tried again; too many end the wait.
    #[cold]
    fn on_early(&mut self, bytes: &[u8], now: Now, cx: &Cx<'_, F>) {
        let input = self.input_mut(cx);
        input.stash.extend_from_slice(bytes);
        if input.stash.len() - input.at > cx.site.limits.head_bytes_max {
            self.resume(Supply::GivenUp, now, cx);
        }
    }

    /// Keeps a copy of unread bytes.
    fn keep(&mut self, rest: &[u8], seen: usize, cx: &Cx<'_, F>) {
        let mut stash = mem::take(&mut self.input_mut(cx).stash);
        stash.clear();
        stash.extend_from_slice(rest);
        self.keep_stash(stash, 0, seen, cx);
    }

    /// Puts the stash back, unread from `at` on.
    fn keep_stash(&mut self, mut stash: Vec<u8>, mut at: usize, mut seen: usize, cx: &Cx<'_, F>) {
        let unread = at < stash.len();
        if unread && !self.reads_on() && self.after == After::Close {
            // It asked for the end and sent more: closing at once could destroy the response.
            self.after = After::Linger;
        }
        if !unread || !self.reads_on() {
            stash.clear();
            (at, seen) = (0, 0);
        }
        if stash.is_empty() && self.input().is_none() {
            return cx.scratch.give_buffer(stash);
        }
        let input = self.input_mut(cx);
        (input.stash, input.at, input.seen) = (stash, at, seen);
        self.settle(cx);
    }

    /// True if bytes after the request in progress will be parsed.
    fn reads_on(&self) -> bool {
        match self.state() {
            State::Head | State::Preface | State::Disk | State::Hold | State::Content => true,
            State::Send | State::Prefetch => self.after == After::KeepAlive,
            State::Shut | State::Linger | State::Close => false,
        }
    }
}
