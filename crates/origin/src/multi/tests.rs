//! Tables of streams: places, tickets, deadlines, windows, and all of them at random.
use super::*;
use alloc::{collections::BTreeMap, vec};
use regatta_op::{Codings, File, FileId, OpenFault, OpenReq, Opened, Segment};

/// A file that is a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Numbered(u64);

impl File for Numbered {
    fn id(&self) -> FileId {
        FileId { inode: self.0, ..FileId::default() }
    }
}

type Table = Streams<Numbered>;

/// The largest window of HTTP/2.
const WINDOW_MAX: i64 = (1 << 31) - 1;
const LIMIT: Tick = Tick(30_000);

fn open(streams: &mut Table, id: u64) -> Slot {
    streams.open(id, Priority::default(), 100).expect("there is room")
}

/// Has the exchange of a stream ask for a file.
fn want(streams: &mut Table, at: Slot) {
    let req = OpenReq { path: (*b"a").into(), siblings: Codings::NONE };
    let op = Some(Op::Open(Ticket::default(), req));
    streams.get_mut(at).ongoing = Some(Box::new(Ongoing { op, ..Ongoing::default() }));
    streams.want(at);
    streams.check_invariants();
}

fn ticket(op: Option<Op<Numbered>>) -> Option<u16> {
    op.map(|op| match op {
        Op::Open(ticket, _) => ticket.0,
        other => panic!("nothing else is asked for: {other:?}"),
    })
}

fn response(head_bytes: usize, body_bytes: usize) -> Outbox<Numbered> {
    let mut out = Outbox::new(vec![b'h'; head_bytes]);
    out.push(Segment::mem(vec![b'b'; body_bytes]));
    out
}

fn is_open(waiter: &Waiter<Numbered>, at: Slot) -> bool {
    matches!(waiter, Waiter::Open(open) if *open == at)
}

#[test]
fn places_are_bounded_and_used_again() {
    let mut streams = Table::new(3);
    assert!(streams.all().is_empty());
    let [first, second, third] = [1, 3, 5].map(|id| open(&mut streams, id));
    assert_eq!(streams.open(7, Priority::default(), 100), None);
    assert_eq!(streams.find(3), Some(second));
    let closed = streams.close(second);
    assert_eq!((closed.id, closed.status, closed.received, closed.framed()), (3, 0, 0, 0));
    assert_eq!((streams.find(3), streams.find(5)), (None, Some(third)));
    assert_eq!(open(&mut streams, 7), second);
    for at in [third, first, second] {
        streams.close(at);
        streams.check_invariants();
    }
    assert!(streams.all().is_empty() && streams.find(7).is_none());
    // Never more than there are places.
    let mut streams = Table::new(u8::MAX);
    let opened = (0..200).filter_map(|id| streams.open(id, Priority::default(), 0));
    assert_eq!(opened.count(), usize::from(Slot::COUNT));
    streams.check_invariants();
    streams.all().places().for_each(|at| drop(streams.close(at)));
    assert!(streams.places.capacity() <= KEPT_PLACES, "a burst leaves no memory");
    // There is memory for no more than may be open.
    let mut streams = Table::new(100);
    for id in 0..100 {
        open(&mut streams, id);
    }
    assert_eq!(streams.places.capacity(), 100);
}

#[test]
fn tickets_go_to_the_most_urgent_streams() {
    let mut streams = Table::new(100);
    let slots = [1, 3, 5, 7, 9, 11].map(|id| open(&mut streams, id));
    let urgent = Priority { urgency: 0, is_incremental: true };
    streams.set_priority(slots[5], urgent);
    slots.iter().for_each(|at| want(&mut streams, *at));
    for ticket_number in 0..4 {
        assert_eq!(ticket(streams.disk_op(LIMIT)), Some(ticket_number));
        streams.check_invariants();
    }
    assert_eq!(ticket(streams.disk_op(LIMIT)), None, "no ticket is free");
    assert!(is_open(&streams.disk_done(Ticket(0)), slots[5]));
    assert!(is_open(&streams.disk_done(Ticket(2)), slots[1]));
    assert_eq!(ticket(streams.disk_op(LIMIT)), Some(0));
    assert_eq!(ticket(streams.disk_op(LIMIT)), Some(2));
    assert_eq!(ticket(streams.disk_op(LIMIT)), None, "nothing is wanted");
    assert!(is_open(&streams.disk_done(Ticket(0)), slots[3]));
    assert!(is_open(&streams.disk_done(Ticket(2)), slots[4]));
    streams.check_invariants();
}

#[test]
fn a_reset_stream_stays_until_its_operation_is_done() {
    let mut streams = Table::new(1);
    let at = open(&mut streams, 1);
    want(&mut streams, at);
    assert_eq!(ticket(streams.disk_op(LIMIT)), Some(0));
    assert!(streams.reset(at).is_none() && streams.is_reset(at));
    assert_eq!(streams.find(1), None);
    assert_eq!(streams.open(3, Priority::default(), 100), None, "it counts as long as it works");
    streams.check_invariants();
    let Waiter::Reset(closed) = streams.disk_done(Ticket(0)) else { panic!("it was reset") };
    assert_eq!(closed.id, 1);
    assert_eq!((streams.all().len(), streams.deadline()), (0, Tick::NEVER));
    // Nothing in flight: it is closed at once. A ticket is not wanted for it any more.
    let at = open(&mut streams, 3);
    want(&mut streams, at);
    assert_eq!(streams.reset(at).map(|stream| stream.id), Some(3));
    assert_eq!(ticket(streams.disk_op(LIMIT)), None);
    // Given up: the ticket is free, and the stream can be closed.
    let at = open(&mut streams, 5);
    want(&mut streams, at);
    assert_eq!(ticket(streams.disk_op(LIMIT)), Some(0));
    assert!(streams.reset(at).is_none());
    assert_eq!(streams.give_up(at), Some(Ticket(0)));
    assert_eq!(streams.give_up(at), None);
    assert_eq!(streams.close(at).id, 5);
    streams.check_invariants();
}

#[test]
fn the_earliest_deadline_is_known() {
    let mut streams = Table::new(100);
    let [first, second, third] = [1, 3, 5].map(|id| open(&mut streams, id));
    assert_eq!(streams.deadline(), Tick::NEVER);
    assert_eq!(streams.overdue(Tick::NEVER), None);
    streams.hold(first, Tick(50));
    want(&mut streams, second);
    assert_eq!(ticket(streams.disk_op(Tick(40))), Some(0));
    streams.hold(third, Tick(60));
    assert_eq!(streams.deadline(), Tick(40));
    assert_eq!(streams.overdue(Tick(39)), None);
    assert_eq!(streams.overdue(Tick(40)), Some(Overdue::Disk(second)));
    streams.held_up(5);
    assert_eq!((streams.overdue(Tick(44)), streams.deadline()), (None, Tick(45)));
    streams.check_invariants();
    assert!(is_open(&streams.disk_done(Ticket(0)), second));
    assert_eq!((streams.overdue(Tick(54)), streams.deadline()), (None, Tick(55)));
    assert_eq!(streams.overdue(Tick(55)), Some(Overdue::Retry(first)));
    streams.close(first);
    assert_eq!(streams.deadline(), Tick(65));
    streams.hold(third, Tick(70));
    assert_eq!(streams.deadline(), Tick(70));
    streams.send(third, response(10, 0), 10);
    assert_eq!(streams.deadline(), Tick::NEVER);
    streams.check_invariants();
}

#[test]
fn bodies_need_windows_and_heads_do_not() {
    let mut streams = Table::new(100);
    let [first, second] = [1, 3].map(|id| open(&mut streams, id));
    assert_eq!(streams.next_sender(1000), None);
    streams.send(first, response(10, 150), 10);
    assert_eq!(streams.get(first).body_bytes, 150);
    assert_eq!(streams.next_sender(0), Some(first));
    assert_eq!((streams.get(first).sendable(0), streams.get(first).sendable(1000)), (10, 110));
    assert_eq!(streams.frame(first, 10), 0);
    assert_eq!((streams.next_sender(0), streams.has_sender(0)), (None, false));
    assert_eq!(streams.get(first).sendable(30), 30);
    assert_eq!(streams.frame(first, 30), 30);
    // The client lowers its limit below what it has got already.
    assert_eq!(streams.widen_all(-80, WINDOW_MAX), Ok(()));
    assert_eq!((streams.next_sender(1000), streams.is_stalled(1000)), (None, true));
    streams.send(second, response(5, 0), 5);
    assert_eq!(streams.next_sender(0), Some(second));
    assert_eq!(streams.frame(second, 5), 0);
    assert_eq!(streams.next_sender(0), Some(second), "the end alone needs no window");
    streams.close(second);
    assert_eq!(streams.widen(first, 9, WINDOW_MAX), Ok(()));
    assert_eq!(streams.next_sender(1000), None);
    assert_eq!(streams.widen(first, 2, WINDOW_MAX), Ok(()));
    assert_eq!((streams.next_sender(1000), streams.is_stalled(1000)), (Some(first), false));
    assert!(!streams.has_stalled(1000) && streams.has_stalled(0) && streams.is_stalled(0));
    assert_eq!(streams.get(first).sendable(1000), 1);
    assert_eq!(streams.widen(first, WINDOW_MAX, WINDOW_MAX), Err(WindowOverflow));
    assert_eq!(streams.widen(first, WINDOW_MAX - 1, WINDOW_MAX), Ok(()));
    assert_eq!(streams.widen_all(1, WINDOW_MAX), Err(WindowOverflow));
    assert_eq!(streams.frame(first, 120), 120);
    assert_eq!((streams.get(first).out().len(), streams.get(first).head_bytes()), (0, 0));
    assert_eq!(streams.close(first).framed(), 160);
    streams.check_invariants();
}

/// A response with a body in a file, behind and before bytes in memory.
fn in_file(head_bytes: usize, file_bytes: u64) -> Outbox<Numbered> {
    let mut out = Outbox::new(vec![b'h'; head_bytes]);
    out.push(Segment::mem(*b"--"));
    out.push(Segment::File { file: Numbered(7), at: 100, len: file_bytes });
    out.push(Segment::mem(*b"end"));
    out
}

/// Begins the next read: its ticket, its place in the file, and its length.
fn load(streams: &mut Table, window: u64) -> Option<(u16, u64, u64)> {
    let op = streams.load(window, LIMIT, &mut Some(Vec::new()));
    streams.check_invariants();
    op.map(|op| match op {
        Op::Read(ticket, req) => {
            assert_eq!(req.file, Numbered(7));
            (ticket.0, req.at, req.len)
        }
        other => panic!("a body is read: {other:?}"),
    })
}

#[test]
fn files_are_read_before_they_are_sent() {
    let mut streams = Table::new(100);
    let at = open(&mut streams, 1);
    assert_eq!(streams.widen(at, 200_000, WINDOW_MAX), Ok(()));
    streams.send(at, in_file(10, 100_000), 10);
    assert_eq!(load(&mut streams, 500_000), None, "memory comes first");
    assert_eq!(streams.get(at).sendable(500_000), 12);
    assert_eq!(streams.frame(at, 12), 2);
    assert!(!streams.has_sender(500_000) && !streams.is_stalled(500_000));
    assert!(streams.is_stalled(0) && streams.loadable(0) == 0);
    streams.land();
    assert_eq!((streams.loadable(500_000), streams.loadable(9)), (LOAD_BYTES_MAX, 9));
    assert_eq!(load(&mut streams, 60_000), Some((0, 100, 60_000)));
    assert_eq!(streams.unsent(), 60_000);
    assert!(streams.loads(at) && streams.is_sending() && streams.deadline() == LIMIT);
    let other = open(&mut streams, 3);
    streams.send(other, in_file(0, 1_000), 0);
    assert_eq!(streams.frame(other, 2), 2);
    assert!(matches!(streams.disk_done(Ticket(0)), Waiter::Body(done, 60_000) if done == at));
    assert_eq!(streams.unsent(), 0);
    assert_eq!(streams.loaded(at, vec![b'f'; 60_000]).len(), 0);
    streams.check_invariants();
    // Neither window is needed for what was read.
    assert_eq!((streams.get(at).sendable(0), streams.next_sender(0)), (60_000, Some(at)));
    let mut frame = Vec::new();
    streams.get(at).copy_to(&mut frame, 3);
    assert_eq!((frame, streams.frame(at, 50_000)), (b"fff".to_vec(), 50_000));
    assert_eq!(streams.get_mut(at).take_used(), None);
    assert_eq!(streams.frame(at, 10_000), 10_000);
    assert_eq!(streams.get_mut(at).take_used().map(|used| used.len()), Some(60_000));
    streams.check_invariants();
    streams.land();
    // Both continue, the one behind the other.
    let [first, second] = [0, 0].map(|_| load(&mut streams, 40_000).expect("there is room"));
    let [first, second] = [first, second].map(|(_, start, bytes)| (start, bytes));
    let expected = [(60_100, 40_000), (100, 98)];
    assert!(expected.contains(&first) && expected.contains(&second), "{first:?} {second:?}");
    // A stream that is reset meanwhile leaves no trace of its bytes.
    assert!(streams.reset(other).is_none());
    let oldest = if first == expected[0] { at } else { other };
    assert_eq!(streams.oldest().map(|(_, of)| of), Some(oldest));
    let ticket = streams.ticket(other).expect("it reads");
    assert!(matches!(streams.disk_done(ticket), Waiter::Reset(closed) if closed.id == 3));
    assert_eq!(streams.unsent(), 40_000);
    assert!(streams.give_up(at).is_some());
    assert_eq!(streams.unsent(), 0);
    streams.close(at);
    streams.check_invariants();
}

/// A client that takes its windows back could have each connection hold what was read for them.
#[test]
fn a_window_that_is_taken_back_leaves_no_bytes() {
    // Before the read is done, and when some of its bytes are in frames.
    for (framed, window) in [(0, 98), (10, 88)] {
        let mut streams = Table::new(100);
        let at = open(&mut streams, 1);
        streams.send(at, in_file(0, 1_000), 0);
        assert_eq!(streams.frame(at, 2), 2);
        assert_eq!(load(&mut streams, 1 << 20), Some((0, 100, 98)));
        if framed == 0 {
            assert_eq!(streams.widen_all(-window, WINDOW_MAX), Ok(()));
        }
        assert!(matches!(streams.disk_done(Ticket(0)), Waiter::Body(done, 98) if done == at));
        assert_eq!(streams.loaded(at, vec![b'f'; 98]).len(), 0);
        if framed > 0 {
            assert_eq!(streams.frame(at, framed), framed);
            assert_eq!((streams.unsent(), streams.get(at).rest()), (88, 993));
            assert_eq!(streams.widen_all(-window, WINDOW_MAX), Ok(()));
        }
        streams.check_invariants();
        assert_eq!((streams.unsent(), streams.get(at).loaded.capacity()), (0, 0));
        assert!(streams.is_stalled(1 << 20) && !streams.has_sender(1 << 20));
        assert_eq!(streams.get(at).rest(), 1_003 - framed);
        // It opens again: the same bytes are read.
        assert_eq!(streams.widen(at, 50, WINDOW_MAX), Ok(()));
        assert_eq!(load(&mut streams, 1 << 20), Some((0, 100 + framed, 50)));
    }
}

#[test]
fn a_slow_read_leaves_room_for_others() {
    let mut streams = Table::new(100);
    let [_, other, third] = [1, 3, 5].map(|id| {
        let at = open(&mut streams, id);
        assert_eq!(streams.widen(at, 1 << 20, WINDOW_MAX), Ok(()));
        streams.send(at, in_file(0, 1 << 20), 0);
        assert_eq!(streams.frame(at, 2), 2);
        at
    });
    streams.land();
    let room = load::LOADED_BYTES_MAX - LOAD_BYTES_MAX;
    assert_eq!(load(&mut streams, 1 << 20).map(|(.., bytes)| bytes), Some(LOAD_BYTES_MAX));
    assert_eq!(load(&mut streams, 1 << 20).map(|(.., bytes)| bytes), Some(room));
    assert_eq!(load(&mut streams, 1 << 20), None, "the memory of a connection is bounded");
    assert!(streams.loads(other) && !streams.loads(third));
    streams.check_invariants();
}

/// Frames in flight and what is read ahead of the next ones are the memory of a connection whose
/// client takes nothing.
#[test]
fn less_is_read_while_frames_are_in_flight() {
    let mut streams = Table::new(100);
    let at = open(&mut streams, 1);
    assert_eq!(streams.widen(at, 1 << 20, WINDOW_MAX), Ok(()));
    streams.send(at, in_file(0, 1 << 20), 0);
    assert_eq!(streams.frame(at, 2), 2);
    assert_eq!(streams.loadable(1 << 20), 48 << 10);
    assert_eq!(load(&mut streams, 1 << 20).map(|(.., bytes)| bytes), Some(48 << 10));
    assert_eq!(streams.loadable(1 << 20), 0);
    streams.land();
    assert_eq!(streams.loadable(1 << 20), 0, "one read of a stream at once");
    assert!(matches!(streams.disk_done(Ticket(0)), Waiter::Body(..)));
    drop(streams.loaded(at, vec![b'f'; 48 << 10]));
    assert_eq!(streams.frame(at, 48 << 10), 48 << 10);
    streams.land();
    assert_eq!(streams.loadable(1 << 20), LOAD_BYTES_MAX);
    streams.check_invariants();
}

/// A head that waited for a window would keep its buffer, of up to 128 KiB.
#[test]
fn a_head_in_frames_leaves_no_buffer() {
    let mut streams = Table::new(100);
    let at = open(&mut streams, 1);
    streams.send(at, in_file(10, 1_000), 10);
    assert_eq!(streams.get_mut(at).take_used_head(), None);
    assert_eq!(streams.frame(at, 9), 0);
    assert_eq!(streams.get_mut(at).take_used_head(), None);
    assert_eq!(streams.frame(at, 1), 0);
    assert_eq!(streams.get_mut(at).take_used_head().map(|head| head.len()), Some(10));
    assert_eq!(streams.get_mut(at).take_used_head(), None);
    assert_eq!((streams.get(at).rest(), streams.frame(at, 2)), (1_005, 2));
    streams.check_invariants();
}

#[test]
fn a_stream_waits_for_the_rest_of_its_request() {
    let mut streams = Table::new(100);
    let at = open(&mut streams, 1);
    assert!(streams.get(at).owes_response());
    streams.linger(at, Tick(50));
    assert!(!streams.get(at).owes_response() && !streams.is_sending());
    assert_eq!(streams.find(1), Some(at));
    assert_eq!((streams.overdue(Tick(49)), streams.deadline()), (None, Tick(50)));
    assert_eq!(streams.overdue(Tick(50)), Some(Overdue::Request(at)));
    streams.check_invariants();
}

/// Opens the file of a body again: the ticket, if that is next.
fn reopen(streams: &mut Table) -> Option<u16> {
    let op = streams.load(1 << 20, LIMIT, &mut Some(Vec::new()));
    streams.check_invariants();
    match op? {
        Op::Open(ticket, req) => {
            assert_eq!((&*req.path, req.siblings), (&b"seven"[..], Codings::NONE));
            Some(ticket.0)
        }
        other => panic!("its file is closed: {other:?}"),
    }
}

/// The result of an open.
fn opened(number: u64) -> Result<Opened<Numbered>, OpenFault> {
    Ok(Opened::File { file: Numbered(number), siblings: [None; 3] })
}

/// Streams whose bodies begin in a file. Those with a name can close it.
fn with_files(streams: &mut Table, named: &[bool]) -> Vec<Slot> {
    let rows = (0..).zip(named);
    let places = rows.map(|(number, is_named)| {
        let at = open(streams, 2 * number + 1);
        streams.send(at, in_file(0, 1_000), 0);
        if *is_named {
            streams.name_file(at, (*b"seven").into());
        }
        assert_eq!(streams.frame(at, 2), 2);
        at
    });
    let places = places.collect();
    streams.land();
    streams.check_invariants();
    places
}

#[test]
fn files_of_streams_that_wait_are_closed() {
    let mut streams = Table::new(100);
    let slots = with_files(&mut streams, &[true, false, true, true]);
    assert_eq!((streams.open_files(), streams.close_files(0, 1 << 20, true)), (4, 0));
    // The last one has no window: it is first.
    assert_eq!(streams.widen(slots[3], -98, WINDOW_MAX), Ok(()));
    assert_eq!(streams.close_files(1, 1 << 20, false), 1);
    let file = &streams.get(slots[3]).file;
    assert!(file.exists() && !file.can_close());
    streams.check_invariants();
    // One that can be read stays open, and so does the one that has no name.
    assert_eq!((streams.close_files(9, 1 << 20, true), streams.open_files()), (1, 2));
    assert_eq!((streams.close_files(9, 0, false), streams.open_files()), (0, 2));
    // The window of the connection is shut.
    assert_eq!((streams.close_files(9, 0, true), streams.open_files()), (1, 1));
    streams.check_invariants();
    slots.into_iter().for_each(|at| drop(streams.close(at)));
    assert_eq!(streams.open_files(), 0);
    streams.check_invariants();
}

/// A round has few reads, also where each is of few bytes.
#[test]
fn parts_in_memory_are_few_where_windows_are_small() {
    let mut streams = Table::new(100);
    let _places = with_files(&mut streams, &[true; 60]);
    let mut read = 0;
    while let Some((ticket, _, bytes)) = load(&mut streams, 10) {
        assert_eq!(bytes, 10);
        let Waiter::Body(at, _) = streams.disk_done(Ticket(ticket)) else { panic!("of a body") };
        drop(streams.loaded(at, vec![b'f'; 10]));
        read += 1;
    }
    assert_eq!(read, 24);
    let at = streams.next_sender(0).expect("24 may send");
    assert_eq!(streams.frame(at, 10), 10);
    streams.land();
    assert!(load(&mut streams, 10).is_some());
}

#[test]
fn a_closed_file_is_opened_before_it_is_read() {
    let mut streams = Table::new(100);
    let at = with_files(&mut streams, &[true])[0];
    assert_eq!(streams.close_files(1, 0, true), 1);
    assert!(streams.is_sending() && !streams.is_stalled(1 << 20));
    assert_eq!(reopen(&mut streams), Some(0));
    assert!(streams.loads(at) && streams.is_sending() && streams.deadline() == LIMIT);
    assert!(streams.body_awaits_disk(0) && !streams.has_stalled(0));
    assert_eq!((streams.loadable(1 << 20), streams.unsent()), (0, 0));
    assert!(matches!(streams.disk_done(Ticket(0)), Waiter::File(done) if done == at));
    // No descriptor is left for it.
    let busy = OpenFault::Exhausted;
    assert_eq!(streams.reopened(at, Err(busy)), Reopening::Later(busy));
    streams.hold_file(at, Tick(50));
    streams.check_invariants();
    assert!(streams.is_sending() && streams.loadable(1 << 20) == 0);
    assert_eq!((streams.overdue(Tick(49)), streams.deadline()), (None, Tick(50)));
    assert_eq!(streams.overdue(Tick(50)), Some(Overdue::Reopen(at)));
    streams.retry_file(at);
    assert_eq!(reopen(&mut streams), Some(0));
    assert!(matches!(streams.disk_done(Ticket(0)), Waiter::File(_)));
    assert_eq!(streams.reopened(at, opened(7)), Reopening::Done);
    streams.check_invariants();
    // It is read now, whatever else is closed.
    assert_eq!(streams.close_files(9, 1 << 20, true), 0);
    assert_eq!(load(&mut streams, 1 << 20), Some((0, 100, 98)));
    assert_eq!(streams.close_files(9, 1 << 20, true), 0, "the disk has it");
    assert!(matches!(streams.disk_done(Ticket(0)), Waiter::Body(_, 98)));
    drop(streams.loaded(at, vec![b'f'; 98]));
    assert_eq!((streams.close_files(9, 1 << 20, true), streams.frame(at, 98)), (1, 98));
    streams.check_invariants();
    assert_eq!(streams.widen(at, 2_000, WINDOW_MAX), Ok(()));
    assert_eq!(reopen(&mut streams), Some(0));
    // It is reset meanwhile, and keeps no other from the disk.
    let other = with_files(&mut streams, &[false])[0];
    assert_eq!(load(&mut streams, 1 << 20), None);
    assert!(streams.reset(at).is_none());
    assert_eq!(load(&mut streams, 1 << 20), Some((1, 100, 98)));
    assert!(matches!(streams.disk_done(Ticket(0)), Waiter::Reset(closed) if closed.id == 1));
    assert_eq!((streams.give_up(other), streams.open_files()), (Some(Ticket(1)), 1));
    streams.check_invariants();
}

#[test]
fn only_the_same_file_is_read_on() {
    let missing = Err(OpenFault::NotFound);
    for found in [opened(8), Ok(Opened::Directory), missing, Err(OpenFault::Busy)] {
        let is_busy = matches!(found, Err(OpenFault::Busy));
        let mut streams = Table::new(100);
        let at = with_files(&mut streams, &[true])[0];
        assert_eq!(streams.close_files(1, 0, true), 1);
        let mut tries = 0;
        let last = loop {
            assert_eq!(reopen(&mut streams), Some(0));
            assert!(matches!(streams.disk_done(Ticket(0)), Waiter::File(_)));
            match streams.reopened(at, found.clone()) {
                Reopening::Later(_) => streams.retry_file(at),
                last => break last,
            }
            tries += 1;
        };
        assert_eq!(last, Reopening::Changed);
        assert_eq!(tries, if is_busy { 200 } else { 0 });
        streams.close(at);
        streams.check_invariants();
    }
}

#[test]
fn a_file_is_dropped_behind_its_last_range() {
    let mut streams = Table::new(100);
    let at = with_files(&mut streams, &[true])[0];
    assert_eq!(streams.widen(at, 2_000, WINDOW_MAX), Ok(()));
    assert_eq!(load(&mut streams, 1 << 20), Some((0, 100, 1_000)));
    assert!(matches!(streams.disk_done(Ticket(0)), Waiter::Body(..)));
    drop(streams.loaded(at, vec![b'f'; 1_000]));
    assert_eq!((streams.frame(at, 999), streams.open_files()), (999, 1));
    assert_eq!((streams.frame(at, 1), streams.open_files()), (1, 0));
    streams.check_invariants();
    assert_eq!(streams.get(at).rest(), 3);
}

/// Random numbers of a fixed seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    fn slot(&mut self, slots: Slots) -> Option<Slot> {
        let count = u64::from(slots.len());
        let at = usize::try_from(self.roll(count.max(1))).ok()?;
        slots.places().nth(at)
    }

    fn priority(&mut self) -> Priority {
        let urgency = u8::try_from(self.roll(8)).expect("less than 8");
        Priority { urgency, is_incremental: self.roll(2) == 0 }
    }
}

/// A table, and what must become of its streams.
struct Model {
    streams: Table,
    dice: Dice,
    now: Tick,
    /// Bytes of each response, by the number of its stream.
    lengths: BTreeMap<u64, u64>,
    finished: usize,
}

impl Model {
    /// Does something that a client, the disk or the clock may do.
    fn act(&mut self, id: u64) {
        let Self { streams, dice, .. } = self;
        let open = streams.all().without(streams.reset);
        match (dice.roll(13), dice.slot(open)) {
            (0..=2, _) => {
                let window = i64::try_from(dice.roll(300)).expect("less than 300");
                if let Some(at) = streams.open(id, dice.priority(), window) {
                    want(streams, at);
                }
            }
            (3, Some(at)) => streams.set_priority(at, dice.priority()),
            (4, Some(at)) => drop(streams.reset(at)),
            (5 | 6, Some(at)) => {
                let _ = streams.widen(at, 100, WINDOW_MAX);
            }
            (7, _) => {
                let bytes = i64::try_from(dice.roll(40)).expect("less than 40") - 20;
                assert_eq!(streams.widen_all(bytes, WINDOW_MAX), Ok(()));
            }
            (8, _) => streams.held_up(3),
            (9, _) => {
                let most = u32::try_from(dice.roll(4)).expect("less than 4");
                let (window, is_short) = (dice.roll(200), dice.roll(2) == 0);
                assert!(streams.close_files(most, window, is_short) <= most);
            }
            _ => self.serve(),
        }
        self.streams.check_invariants();
    }

    /// Continues what waits or sends.
    fn serve(&mut self) {
        self.now = self.now.after(5);
        let Self { streams, dice, now, .. } = self;
        let _ = streams.disk_op(now.after(100));
        let _ = streams.load(dice.roll(200), now.after(100), &mut Some(Vec::new()));
        let held: Vec<u16> = (0..)
            .zip(streams.tickets)
            .filter(|(_, at)| at.is_some())
            .map(|(ticket, _)| ticket)
            .collect();
        let done = held.get(usize::try_from(dice.roll(4)).expect("less than 4"));
        match done.map(|ticket| streams.disk_done(Ticket(*ticket))) {
            Some(Waiter::Open(at)) => self.answer(at),
            Some(Waiter::Body(at, bytes)) => {
                let bytes = vec![b'f'; usize::try_from(bytes).expect("short")];
                self.streams.loaded(at, bytes);
            }
            Some(Waiter::File(at)) => self.reopened(at),
            Some(Waiter::Reset(_)) | None => {}
        }
        match self.streams.overdue(self.now) {
            Some(Overdue::Disk(at)) => {
                self.streams.give_up(at);
                self.streams.close(at);
            }
            Some(Overdue::Retry(at)) => want(&mut self.streams, at),
            Some(Overdue::Reopen(at)) => self.streams.retry_file(at),
            Some(Overdue::Request(at)) => panic!("no request lingers: {at:?}"),
            None => {}
        }
        for _ in 0..3 {
            self.send();
        }
    }

    /// The disk has tried to open a file again.
    fn reopened(&mut self, at: Slot) {
        let found = match self.dice.roll(6) {
            0 => Err(OpenFault::Busy),
            1 => opened(8),
            _ => opened(7),
        };
        match self.streams.reopened(at, found) {
            Reopening::Done => {}
            Reopening::Later(_) => self.streams.hold_file(at, self.now.after(50)),
            Reopening::Changed => drop(self.streams.close(at)),
        }
    }

    /// The disk has answered a stream.
    fn answer(&mut self, at: Slot) {
        if self.dice.roll(5) == 0 {
            return self.streams.hold(at, self.now.after(50));
        }
        let [head, body] = [100, 400].map(|most| usize::try_from(self.dice.roll(most) + 1));
        let (head, body) = (head.expect("short"), body.expect("short"));
        let id = self.streams.get(at).id;
        let out =
            if self.dice.roll(4) == 0 { in_file(head, body as u64) } else { response(head, body) };
        self.lengths.insert(id, out.len());
        self.streams.send(at, out, head as u64);
        if self.dice.roll(2) == 0 {
            self.streams.name_file(at, (*b"seven").into());
        }
    }

    /// Puts a frame of the next stream together.
    fn send(&mut self) {
        let window = self.dice.roll(100);
        let Some(at) = self.streams.next_sender(window) else { return };
        assert!(self.streams.has_sender(window));
        let bytes = self.streams.get(at).sendable(window);
        let loaded = self.streams.get(at).loaded_bytes().min(bytes);
        let body = self.streams.frame(at, bytes);
        assert!(bytes > 0 && body - loaded <= window, "only bytes with the right to be sent");
        if self.streams.get(at).rest() == 0 {
            let closed = self.streams.close(at);
            assert_eq!(self.lengths.get(&closed.id), Some(&closed.framed()));
            self.finished += 1;
        }
    }
}

#[test]
fn every_stream_ends_whatever_happens() {
    for seed in 1..40 {
        let (streams, dice) = (Table::new(20), Dice(seed * 0x9e37_79b9));
        let (lengths, finished) = (BTreeMap::new(), 0);
        let mut model = Model { streams, dice, now: Tick(0), lengths, finished };
        for step in 0..2_000 {
            model.act(2 * step + 1);
        }
        assert!(model.finished > 20, "seed {seed}: {}", model.finished);
        let mut steps = 0;
        while !model.streams.all().is_empty() {
            let _ = model.streams.widen_all(10, WINDOW_MAX);
            model.serve();
            model.streams.check_invariants();
            steps += 1;
            assert!(steps < 10_000, "seed {seed}: {:?}", model.streams);
        }
    }
}
