//! Facts about the streams of a connection that hold between calls.
use super::{Slot, Stage, Streams, load::LOADED_BYTES_MAX};
use regatta_op::{DISK_OPS_MAX, Segment, Tick};

impl<F> Streams<F> {
    /// Checks what must hold between calls; for tests.
    pub(crate) fn check_invariants(&self) {
        assert!(self.open.len() <= u32::from(self.streams_max));
        assert_eq!(self.places.len(), self.open.span());
        let mut tickets = [None; DISK_OPS_MAX];
        let mut unsent = self.loads.iter().copied().map(u64::from).sum::<u64>();
        for at in self.open.places() {
            let stream = self.get(at);
            unsent += stream.loaded_bytes();
            assert!(stream.window > 0 || stream.loaded_bytes() == 0, "what is read can be sent");
            if let Some(ticket) = stream.stage.ticket() {
                let held = &mut tickets[usize::from(ticket.0)];
                assert!(held.replace(at).is_none(), "one stream has a ticket");
            }
            let may_send = self.heads.or(self.bodies).contains(at);
            let can_send = stream.rest() == 0 || stream.sendable(u64::MAX) > 0;
            assert_eq!(may_send, stream.stage == Stage::Sends && can_send, "{stream:?}");
            assert_eq!(self.wanting.contains(at), stream.stage == Stage::Wants);
            assert_eq!(self.waiting.contains(at), stream.until != Tick::NEVER);
            let waits = stream.stage.ticket().is_some()
                || matches!(stream.stage, Stage::Held | Stage::Retries | Stage::Lingers);
            assert!(waits || stream.until == Tick::NEVER, "only a wait has a deadline");
            self.check_file(at);
        }
        assert_eq!(tickets, self.tickets);
        assert_eq!(self.deadline, self.earliest());
        assert_eq!(unsent, self.unsent);
        assert!(unsent <= LOADED_BYTES_MAX, "bytes of files in memory are bounded");
        let sets = [self.reset, self.sending, self.wanting, self.waiting, self.holding];
        assert!(sets.iter().all(|set| set.without(self.open).is_empty()));
        let sets = [self.heads, self.bodies, self.files];
        assert!(sets.iter().all(|set| set.without(self.sending).is_empty()));
        assert!(self.heads.and(self.bodies.or(self.files)).is_empty());
        let at_disk = |at| self.get(at).stage.ticket().is_some();
        assert!(self.reset.places().all(at_disk), "what was reset stays for its operation alone");
    }

    /// Checks what must hold for the file of a stream.
    fn check_file(&self, at: Slot) {
        let stream = self.get(at);
        let is_range = |segment: &Segment<()>| matches!(segment, Segment::File { .. });
        let has_range = stream.out.segments().any(is_range);
        assert_eq!(stream.file.exists(), has_range, "a file is kept for its ranges: {stream:?}");
        let is_open = stream.file.open().is_some();
        assert_eq!(self.holding.contains(at), is_open, "{stream:?}");
        assert_eq!(self.closable.contains(at), stream.file.can_close());
        let reopens = matches!(stream.stage, Stage::Reopens(_) | Stage::Retries);
        assert_eq!(self.reopening.contains(at), reopens, "{stream:?}");
        assert!(!(reopens && is_open), "an open file is not opened again: {stream:?}");
    }
}
