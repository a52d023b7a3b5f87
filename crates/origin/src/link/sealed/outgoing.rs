//! Bytes to the peer of a sealed connection: what the protocol above sends, in records.
use super::{
    SEAL_BYTES_MAX, SHORT_REST_BYTES, SMALL_RECORD_BYTES, SMALL_RECORDS_BYTES, Sealed, WIRE,
};
use crate::{Cx, Protocol, RECORD_PLAIN_BYTES_MAX, SealFault};
use alloc::vec::Vec;
use core::mem;
use regatta_metrics::Counter;
use regatta_op::{Done, Fault, File, Now, Op, Outbox, ReadReq, Segment};

impl<F: File> Sealed<F> {
    /// Seals the bytes that the upper protocol sends next; true if it has received an outcome.
    pub(super) fn fill(&mut self, now: Now, cx: &Cx<'_, F>) -> bool {
        let idle = self.sealed == 0 && self.is_silent() && !self.lent.read;
        let Some(source) = self.source.take_if(|_| idle) else { return false };
        if source.is_empty() {
            self.complete_upper(Done::Send(source, Ok(0)), now, cx);
            return true;
        }
        if self.seal_all(source.slices(), source.len(), cx).is_err() {
            self.complete_upper(Done::Send(source, Err(Fault::Record)), now, cx);
            return true;
        }
        let memory: u64 = source.slices().map(|slice| slice.len() as u64).sum();
        let range = source.segments().find_map(|segment| match segment {
            Segment::File { file, at, len } => Some((file.clone(), *at, *len)),
            Segment::Mem { .. } => None,
        });
        self.source = Some(source);
        // A short head waits for the beginning of its body.
        if let Some((file, at, len)) = range
            && self.sealed == memory
            && self.sealed <= SMALL_RECORDS_BYTES
        {
            let most = SEAL_BYTES_MAX - usize::from(memory > 0) * RECORD_PLAIN_BYTES_MAX;
            let most = most.min(cx.site.caching.read_bytes_max.max(1));
            let len = len.min(most as u64);
            let buffer = cx.scratch.take_read_buffer(most);
            self.asks.push(Op::Read(WIRE, ReadReq { file, at, len, buffer }));
            self.lent.read = true;
            if let Some(upper) = &mut self.upper {
                upper.wait_for_disk(now, cx);
            }
        }
        false
    }

    /// Seals the first [`SEAL_BYTES_MAX`] of these bytes. They belong to a `Send` of `len` bytes,
    /// the sealed ones included.
    fn seal_all<'s>(
        &mut self,
        slices: impl Iterator<Item = &'s [u8]>,
        len: u64,
        cx: &Cx<'_, F>,
    ) -> Result<(), SealFault> {
        if self.records.capacity() == self.waiting {
            // Tickets have a small buffer of their own, which is of no use to others.
            let tickets = mem::replace(&mut self.records, cx.scratch.take_buffer());
            self.records.extend_from_slice(&tickets);
        }
        let (before, mut piece) = (self.sealed, cx.scratch.take_buffer());
        let mut left = SEAL_BYTES_MAX;
        let mut sealed = Ok(());
        for mut slice in slices {
            while !slice.is_empty() && left > 0 && sealed.is_ok() {
                let most = self.record_bytes(len);
                let room = most.saturating_sub(piece.len()).min(left).min(slice.len());
                let (now, later) = slice.split_at(room);
                (slice, left) = (later, left - room);
                if piece.is_empty() && now.len() == most {
                    sealed = self.seal_one(now);
                } else {
                    piece.extend_from_slice(now);
                }
                if piece.len() >= most {
                    sealed = self.seal_one(&piece);
                    piece.clear();
                }
            }
        }
        if sealed.is_ok() && !piece.is_empty() {
            sealed = self.seal_one(&piece);
        }
        cx.scratch.give_buffer(piece);
        cx.tally.add(Counter::SealedBytes, self.sealed - before);
        if let Err(fault) = sealed {
            cx.tally.add(fault.counter(), 1);
        }
        sealed
    }

    /// Plain bytes of the next record of a `Send` with `len` bytes, the sealed ones included.
    fn record_bytes(&self, len: u64) -> usize {
        let small = self.position < SMALL_RECORDS_BYTES;
        let most = if small { SMALL_RECORD_BYTES } else { RECORD_PLAIN_BYTES_MAX };
        let rest = usize::try_from(len.saturating_sub(self.sealed)).unwrap_or(usize::MAX);
        let ends = rest > 0 && rest < most + SHORT_REST_BYTES;
        if ends { rest.min(RECORD_PLAIN_BYTES_MAX) } else { most }
    }

    fn seal_one(&mut self, plain: &[u8]) -> Result<(), SealFault> {
        self.seal.seal(plain, &mut self.records)?;
        self.sealed += plain.len() as u64;
        self.position += plain.len() as u64;
        Ok(())
    }

    /// The file range has been read, or not.
    pub(super) fn on_read(
        &mut self,
        buffer: Vec<u8>,
        read: Result<(), Fault>,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        cx.tally.add(Counter::Reads, 1);
        if read.is_ok() {
            cx.tally.add(Counter::ReadBytes, buffer.len() as u64);
        }
        if self.is_over() {
            return cx.scratch.give_read_buffer(buffer);
        }
        if let Some(upper) = &mut self.upper {
            upper.disk_answered(now, cx);
        }
        let before = self.sealed;
        let mut result = read.map(|()| 0);
        if read.is_ok() {
            let len = self.source.as_ref().map_or(0, Outbox::len);
            result = match self.seal_all(core::iter::once(&*buffer), len, cx) {
                Ok(()) => Ok(self.sealed - before),
                Err(_) => Err(Fault::Record),
            };
        }
        cx.scratch.give_read_buffer(buffer);
        // Bytes in front of the range go first.
        if self.sealed == 0
            && let Some(source) = self.source.take()
        {
            self.complete_upper(Done::Send(source, result), now, cx);
        }
    }

    /// The kernel has some of the records, or none.
    pub(super) fn on_sent(
        &mut self,
        out: Outbox<F>,
        sent: Result<u64, Fault>,
        now: Now,
        cx: &Cx<'_, F>,
    ) {
        let n = match sent {
            Ok(n) => n,
            Err(fault) => {
                self.shut = true;
                cx.scratch.give_buffer(out.into_buffer());
                return self.on_send_fault(fault, now, cx);
            }
        };
        self.sent += n;
        let left = out.len();
        // The upper protocol gets credit in proportion to the records sent: a slow peer shows
        // progress.
        let credit = if left == 0 { self.sealed } else { self.sealed * n / (n + left) };
        self.sealed -= credit;
        if left == 0 {
            cx.scratch.give_buffer(out.into_buffer());
        } else {
            self.out = out;
        }
        if credit > 0
            && let Some(mut source) = self.source.take()
        {
            source.advance(credit);
            self.sends_on = left == 0 && !source.is_empty();
            self.complete_upper(Done::Send(source, Ok(credit)), now, cx);
        }
    }

    fn on_send_fault(&mut self, fault: Fault, now: Now, cx: &Cx<'_, F>) {
        self.sealed = 0;
        self.drop_records();
        match (&self.upper, self.source.take(), self.ending) {
            (_, _, Some(_)) => self.stop_lingering(),
            (None, ..) => self.fail(fault.into(), now, cx),
            (Some(_), Some(source), _) => {
                self.complete_upper(Done::Send(source, Err(fault)), now, cx)
            }
            (Some(_), None, _) => {
                self.with_upper(cx, |upper, cx| upper.cut(fault.into(), now, cx));
            }
        }
    }
}
