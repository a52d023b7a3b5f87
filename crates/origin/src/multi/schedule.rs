//! Order in which the streams of a connection send (RFC 9218 §10).
use core::iter;
use regatta_http::priority::{Priority, URGENCIES};

/// Place of a stream in the table of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(u8);

impl Slot {
    /// The number of places.
    pub(crate) const COUNT: u8 = 128;
    /// The last place.
    const LAST: Self = Self(Self::COUNT - 1);

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    const fn bit(self) -> u128 {
        1 << self.0
    }
}

/// Set of places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots(u128);

impl Slots {
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) const fn contains(self, at: Slot) -> bool {
        self.0 & at.bit() != 0
    }

    pub(crate) const fn set(&mut self, at: Slot, is_member: bool) {
        if is_member {
            self.0 |= at.bit();
        } else {
            self.0 &= !at.bit();
        }
    }

    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The places for which this is so.
    pub(crate) fn filter(mut self, mut is_so: impl FnMut(Slot) -> bool) -> Self {
        for at in self.places() {
            self.set(at, is_so(at));
        }
        self
    }

    /// The first place that is not in the set.
    pub(crate) fn first_vacant(self) -> Option<Slot> {
        Self(!self.0).first()
    }

    /// The number of places up to the last one in the set.
    pub(crate) const fn span(self) -> usize {
        (u128::BITS - self.0.leading_zeros()) as usize
    }

    /// The places, in order.
    pub(crate) fn places(mut self) -> impl Iterator<Item = Slot> {
        iter::from_fn(move || {
            let at = self.first()?;
            self.set(at, false);
            Some(at)
        })
    }

    fn first(self) -> Option<Slot> {
        let at = u8::try_from(self.0.trailing_zeros()).ok()?;
        (at < Slot::COUNT).then_some(Slot(at))
    }

    /// The next place after `last`, and after the end the first.
    fn after(self, last: Slot) -> Option<Slot> {
        let behind = u128::MAX.checked_shl(u32::from(last.0) + 1).unwrap_or(0);
        self.and(Self(behind)).first().or_else(|| self.first())
    }
}

/// The number of urgencies, as a length.
const LEVELS: usize = URGENCIES as usize;

/// The streams of a connection, by the priorities of their responses.
#[derive(Debug)]
pub(crate) struct Schedule {
    by_urgency: [Slots; LEVELS],
    incremental: Slots,
    /// The place that sent last, of each urgency.
    last_sent: [Slot; LEVELS],
    /// The place for which a body was read last, of each urgency.
    last_read: [Slot; LEVELS],
    /// True if the last operation of the disk was a read of a body.
    has_just_read: bool,
}

impl Default for Schedule {
    fn default() -> Self {
        let (by_urgency, last) = ([Slots::default(); LEVELS], [Slot::LAST; LEVELS]);
        let (last_sent, last_read) = (last, last);
        let (incremental, has_just_read) = (Slots::default(), false);
        Self { by_urgency, incremental, last_sent, last_read, has_just_read }
    }
}

impl Schedule {
    pub(crate) fn enter(&mut self, at: Slot, priority: Priority) {
        let urgency = priority.urgency.min(URGENCIES - 1);
        self.by_urgency[usize::from(urgency)].set(at, true);
        self.incremental.set(at, priority.is_incremental);
    }

    pub(crate) fn leave(&mut self, at: Slot) {
        self.by_urgency.iter_mut().for_each(|slots| slots.set(at, false));
        self.incremental.set(at, false);
    }

    /// The stream of `ready` that sends next; `id` is the number of a stream, by age. It keeps its
    /// turn until it [has sent](Self::has_sent).
    ///
    /// The most urgent ones send first. Of one urgency, incremental responses send round-robin. The
    /// others send one after the other, and all of them have one place among the incremental ones.
    pub(crate) fn next(&self, ready: Slots, id: impl Fn(Slot) -> u64) -> Option<Slot> {
        let level = self.most_urgent_level(ready)?;
        self.in_round(level, ready, id).after(self.last_sent[level])
    }

    /// The stream has sent: others of its urgency are next.
    pub(crate) fn has_sent(&mut self, at: Slot) {
        let mut urgencies = self.by_urgency.iter().zip(&mut self.last_sent);
        if let Some((_, last)) = urgencies.find(|(slots, _)| slots.contains(at)) {
            *last = at;
        }
    }

    /// The stream of `ready` whose body is read next, by the same order as [`Self::next`]. Reads
    /// have a round of their own: they take no turn of those that send.
    pub(crate) fn next_read(&mut self, ready: Slots, id: impl Fn(Slot) -> u64) -> Option<Slot> {
        let (level, at) = self.reader(ready, id)?;
        (self.last_read[level], self.has_just_read) = (at, true);
        Some(at)
    }

    /// The stream that [`Self::next_read`] would choose, and its level.
    pub(super) fn reader(&self, ready: Slots, id: impl Fn(Slot) -> u64) -> Option<(usize, Slot)> {
        let level = self.most_urgent_level(ready)?;
        Some((level, self.in_round(level, ready, id).after(self.last_read[level])?))
    }

    fn most_urgent_level(&self, ready: Slots) -> Option<usize> {
        self.by_urgency.iter().position(|slots| !slots.and(ready).is_empty())
    }

    /// Streams of this urgency that have turns in a round: all incremental ones of `ready`, and the
    /// oldest of the others.
    fn in_round(&self, level: usize, ready: Slots, id: impl Fn(Slot) -> u64) -> Slots {
        let ready = self.by_urgency[level].and(ready);
        let mut round = ready.and(self.incremental);
        let whole = ready.without(self.incremental);
        if let Some(oldest) = whole.places().min_by_key(|at| id(*at)) {
            round.set(oldest, true);
        }
        round
    }

    /// The stream of `wanting` whose exchange has the next operation of the disk: the oldest of the
    /// most urgent ones, whether incremental or not.
    pub(crate) fn next_wanted(&mut self, wanting: Slots, id: impl Fn(Slot) -> u64) -> Option<Slot> {
        let level = self.most_urgent_level(wanting)?;
        self.has_just_read = false;
        self.by_urgency[level].and(wanting).places().min_by_key(|at| id(*at))
    }

    /// True if the disk reads for one of `files` next, and not for an exchange of `wanting`: the
    /// most urgent one is first, and those of one urgency alternate.
    pub(crate) fn reads_next(&self, files: Slots, wanting: Slots) -> bool {
        match (self.most_urgent_level(files), self.most_urgent_level(wanting)) {
            (Some(read), Some(wanted)) => read < wanted || read == wanted && !self.has_just_read,
            (read, _) => read.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{vec, vec::Vec};

    fn slots(places: &[u8]) -> Slots {
        let mut slots = Slots::default();
        places.iter().for_each(|at| slots.set(Slot(*at), true));
        slots
    }

    #[test]
    fn places_are_found_in_order_and_round_the_end() {
        let set = slots(&[0, 5, 127]);
        assert_eq!(set.places().collect::<Vec<_>>(), [Slot(0), Slot(5), Slot(127)]);
        for (last, next) in [(0, 5), (4, 5), (5, 127), (126, 127), (127, 0)] {
            assert_eq!(set.after(Slot(last)), Some(Slot(next)), "{last}");
        }
        assert_eq!((set.len(), set.span(), set.first_vacant()), (3, 128, Some(Slot(1))));
        let none = Slots::default();
        assert_eq!((none.len(), none.span(), none.first_vacant()), (0, 0, Some(Slot(0))));
        assert_eq!((none.first(), none.after(Slot(127))), (None, None));
        assert_eq!(Slots(u128::MAX).first_vacant(), None);
        assert!(set.contains(Slot(127)) && !set.contains(Slot(1)));
        assert_eq!(set.or(slots(&[1])).without(slots(&[0, 5])).and(slots(&[1, 2])), slots(&[1]));
    }

    /// The stream that sends next, which has sent then.
    fn send(schedule: &mut Schedule, ready: Slots, id: impl Fn(Slot) -> u64) -> Option<Slot> {
        let next = schedule.next(ready, id);
        next.into_iter().for_each(|at| schedule.has_sent(at));
        next
    }

    /// Streams in the order of their places, each with number, urgency, and whether it is
    /// incremental. `expected`: the numbers that send, one after the other, while all are ready.
    fn check(streams: &[(u64, u8, bool)], expected: &[u64]) {
        let mut schedule = Schedule::default();
        let mut ready = Slots::default();
        for (at, &(_, urgency, is_incremental)) in (0..).zip(streams) {
            schedule.enter(Slot(at), Priority { urgency, is_incremental });
            ready.set(Slot(at), true);
        }
        let id = |at: Slot| streams[at.index()].0;
        let sent: Vec<_> =
            expected.iter().map(|_| send(&mut schedule, ready, id).map(id)).collect();
        let expected: Vec<_> = expected.iter().copied().map(Some).collect();
        assert_eq!(sent, expected, "{streams:?}");
    }

    #[test]
    fn urgent_streams_send_first_and_incremental_ones_alternate() {
        check(&[(1, 3, false), (3, 0, false), (5, 7, false)], &[3, 3, 3]);
        check(&[(1, 3, true), (3, 0, true), (5, 7, true)], &[3, 3, 3]);
        // Whole responses by the age of their streams, whatever their places.
        check(&[(7, 3, false), (5, 3, false), (9, 3, false)], &[5, 5, 5]);
        check(&[(7, 3, true), (5, 3, true), (9, 3, true)], &[7, 5, 9, 7, 5, 9]);
        // All whole ones together have one place in the round.
        let mixed = [(9, 3, false), (5, 3, true), (7, 3, false), (3, 3, true)];
        check(&mixed, &[5, 7, 3, 5, 7, 3]);
        check(&[], &[]);
    }

    #[test]
    fn the_next_one_sends_when_one_ends_or_cannot() {
        let mut schedule = Schedule::default();
        let ids = [1, 3, 5, 7];
        let urgencies = [3, 3, 1, 3];
        for (at, urgency) in (0..).zip(urgencies) {
            schedule.enter(Slot(at), Priority { urgency, is_incremental: false });
        }
        let id = |at: Slot| ids[at.index()];
        let mut next = |ready: &[u8]| send(&mut schedule, slots(ready), id).map(|at| at.0);
        assert_eq!(next(&[0, 1, 2, 3]), Some(2));
        assert_eq!(next(&[0, 1, 3]), Some(0));
        assert_eq!(next(&[1, 3]), Some(1));
        assert_eq!(next(&[0, 1, 3]), Some(0));
        assert_eq!(next(&[]), None);
        // A place without a stream.
        assert_eq!(next(&[9]), None);
        schedule.leave(Slot(2));
        schedule.enter(Slot(2), Priority { urgency: 5, is_incremental: true });
        assert_eq!(schedule.next(slots(&[1, 2]), id), Some(Slot(1)));
        assert_eq!(schedule.next_wanted(slots(&[2, 3, 1]), id), Some(Slot(1)));
        assert_eq!(schedule.next_wanted(slots(&[2]), id), Some(Slot(2)));
        assert_eq!(schedule.next_wanted(slots(&[]), id), None);
    }

    #[test]
    fn only_what_has_been_sent_takes_a_turn() {
        let mut schedule = Schedule::default();
        let id = |at: Slot| u64::from(at.0);
        (0..4).for_each(|at| {
            schedule.enter(Slot(at), Priority { urgency: 3, is_incremental: true });
        });
        let (senders, readers) = (slots(&[0, 1, 2]), slots(&[2, 3]));
        assert_eq!(send(&mut schedule, senders, id), Some(Slot(0)));
        // There was no room for it.
        assert_eq!(schedule.next(senders, id), Some(Slot(1)));
        assert_eq!(schedule.next_read(readers, id), Some(Slot(2)));
        assert_eq!(send(&mut schedule, senders, id), Some(Slot(1)));
        assert_eq!(schedule.next_read(readers, id), Some(Slot(3)));
        assert_eq!(send(&mut schedule, senders, id), Some(Slot(2)));
        assert_eq!(schedule.next_read(readers, id), Some(Slot(2)));
        assert_eq!(schedule.next_read(slots(&[]), id), None);
        schedule.leave(Slot(2));
        schedule.has_sent(Slot(2));
        assert_eq!(send(&mut schedule, senders, id), Some(Slot(0)));
    }

    #[test]
    fn reads_of_bodies_and_exchanges_share_the_disk() {
        let mut schedule = Schedule::default();
        let id = |at: Slot| u64::from(at.0);
        for (at, urgency) in (0..).zip([3, 3, 1]) {
            schedule.enter(Slot(at), Priority { urgency, is_incremental: false });
        }
        let [file, same, urgent, none] = [&[0][..], &[1], &[2], &[]].map(slots);
        assert!(schedule.reads_next(file, none) && !schedule.reads_next(none, same));
        assert!(!schedule.reads_next(file, urgent) && !schedule.reads_next(none, none));
        for _ in 0..2 {
            assert!(schedule.reads_next(file, same));
            assert_eq!(schedule.next_read(file, id), Some(Slot(0)));
            assert!(!schedule.reads_next(file, same) && schedule.reads_next(file, none));
            assert!(schedule.reads_next(urgent, same));
            assert_eq!(schedule.next_wanted(none, id), None);
            assert!(!schedule.reads_next(file, same));
            assert_eq!(schedule.next_wanted(same, id), Some(Slot(1)));
        }
    }

    #[test]
    fn no_incremental_stream_starves() {
        let mut schedule = Schedule::default();
        for at in 0..Slot::COUNT {
            schedule.enter(Slot(at), Priority { urgency: 3, is_incremental: at % 3 == 0 });
        }
        let mut sent = vec![0; usize::from(Slot::COUNT)];
        // 43 incremental ones, and one place for all others.
        for _ in 0..440 {
            let at = send(&mut schedule, Slots(u128::MAX), |at| at.0.into());
            sent[at.expect("all are ready").index()] += 1;
        }
        let expected = (0..Slot::COUNT).map(|at| if at % 3 == 0 || at == 1 { 10 } else { 0 });
        assert_eq!(sent, expected.collect::<Vec<_>>());
    }
}
