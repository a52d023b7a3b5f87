//! A common set of expectations for all wait mechanisms.
use regatta_sys::{
    Bell, limits,
    wait::{Epoll, Event, Interest, Poll, Poller, Select, Trigger},
};
use regatta_testkit::waits;
use std::{
    collections::BTreeSet,
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd},
    time::{Duration, Instant},
};

const SOON: Option<Duration> = Some(Duration::from_secs(30));
const NOW: Option<Duration> = Some(Duration::ZERO);

fn pollers() -> Vec<Box<dyn Poller>> {
    vec![
        Box::new(Epoll::new(Trigger::Level).unwrap()),
        Box::new(Epoll::new(Trigger::Edge).unwrap()),
        Box::new(Poll::new()),
        Box::new(Select::new()),
    ]
}

/// Name of the poller's type.
fn name(poller: &dyn Poller) -> String {
    let text = format!("{poller:?}");
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (ours, listener.accept().unwrap().0)
}

fn wait(poller: &mut dyn Poller, timeout: Option<Duration>) -> Vec<Event> {
    let mut events = vec![Event::default(); 3];
    let n = poller.wait(&mut events, timeout).unwrap();
    assert_eq!(n, events.len());
    events.sort_by_key(|event| event.key);
    events
}

/// Waits until an event of `key` fulfils `wanted`: under edges others may precede it.
fn until(poller: &mut dyn Poller, key: u64, wanted: impl Fn(&Event) -> bool) {
    let what = format!("{} says so", name(poller));
    waits::until(Duration::from_secs(30), &what, || {
        wait(poller, SOON).iter().any(|event| event.key == key && wanted(event))
    });
}

#[test]
fn only_one_poller_reports_changes_once() {
    let edges: Vec<_> = pollers().iter().map(|poller| poller.edge()).collect();
    assert_eq!(edges, [false, true, false, false]);
}

/// An event that does not fit into one wait is in the next.
#[test]
fn one_wait_returns_as_many_events_as_asked_for() {
    let mut poller = Epoll::new(Trigger::Level).unwrap().returning(2);
    let pairs: Vec<_> = (0..5).map(|_| pair()).collect();
    for (key, (ours, theirs)) in (0..).zip(&pairs) {
        poller.add(ours.as_fd(), key, Interest::READ).unwrap();
        let mut theirs = theirs;
        theirs.write_all(b"hello").unwrap();
    }
    let mut seen = BTreeSet::new();
    let start = Instant::now();
    while seen.len() < pairs.len() {
        let events = wait(&mut poller, SOON);
        assert!((1..=2).contains(&events.len()), "{events:?}");
        seen.extend(events.iter().map(|event| event.key));
        assert!(start.elapsed() < Duration::from_secs(30), "only {seen:?}");
    }
}

#[test]
fn what_arrives_makes_readable_for_as_long_as_it_lasts() {
    for mut poller in pollers() {
        let (ours, mut theirs) = pair();
        poller.add(ours.as_fd(), 7, Interest::READ).unwrap();
        assert_eq!(wait(&mut *poller, NOW), [], "{}", name(&*poller));
        theirs.write_all(b"hello").unwrap();
        until(&mut *poller, 7, |event| event.readable && !event.hangup);
        let again = wait(&mut *poller, NOW);
        if poller.edge() {
            assert_eq!(again, []);
        } else {
            let event = Event { key: 7, readable: true, writable: false, ..Event::default() };
            assert_eq!(again, [event], "{}", name(&*poller));
            let mut ours = &ours;
            assert_eq!(ours.read(&mut [0; 9]).unwrap(), 5);
            assert_eq!(wait(&mut *poller, NOW), [], "{}", name(&*poller));
        }
    }
}

#[test]
fn room_to_send_makes_writable_until_the_buffer_is_full() {
    let asked_later = pollers().into_iter().map(|poller| (poller, Interest::READ));
    let asked_at_once = pollers().into_iter().map(|poller| (poller, Interest::WRITE));
    for (mut poller, first) in asked_at_once.chain(asked_later) {
        let (mut ours, mut theirs) = pair();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        poller.add(ours.as_fd(), 8, first).unwrap();
        if first == Interest::READ {
            assert_eq!(wait(&mut *poller, NOW), [], "{}: nobody asked", name(&*poller));
            poller.set(ours.as_fd(), 8, Interest::READ.and(Interest::WRITE)).unwrap();
        }
        until(&mut *poller, 8, |event| event.writable && !event.readable && !event.hangup);
        while ours.write(&[0; 65536]).is_ok() {}
        assert_eq!(wait(&mut *poller, NOW), [], "{}", name(&*poller));
        let mut bytes = vec![0; 1 << 20];
        waits::until(Duration::from_secs(30), &name(&*poller), || {
            while theirs.read(&mut bytes).is_ok() {}
            wait(&mut *poller, Some(Duration::from_millis(5))).iter().any(|e| e.writable)
        });
    }
}

#[test]
fn the_end_of_a_stream_makes_readable_and_a_reset_both() {
    for mut poller in pollers() {
        let (ours, theirs) = pair();
        poller.add(ours.as_fd(), 1, Interest::READ).unwrap();
        theirs.shutdown(Shutdown::Write).unwrap();
        // An edge comes once, so it must distinguish the end from mere data.
        let edge = poller.edge();
        until(&mut *poller, 1, |event| event.readable && event.hangup == edge);

        // Closing with bytes unread resets the connection.
        let (mut ours, theirs) = pair();
        poller.add(ours.as_fd(), 2, Interest::BOTH).unwrap();
        ours.write_all(b"unread").unwrap();
        drop(theirs);
        let knows = name(&*poller) != "Select";
        until(&mut *poller, 2, |event| event.readable && event.writable && event.hangup == knows);
        assert_eq!(ours.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    }
}

#[test]
fn a_hangup_that_nobody_is_interested_in_does_not_spin() {
    for mut poller in pollers() {
        if poller.edge() {
            continue;
        }
        let (mut ours, theirs) = pair();
        poller.add(ours.as_fd(), 3, Interest::READ).unwrap();
        poller.set(ours.as_fd(), 3, Interest::NONE).unwrap();
        ours.write_all(b"unread").unwrap();
        drop(theirs);
        let first = wait(&mut *poller, Some(Duration::from_millis(50)));
        assert!(first.iter().all(|event| event.hangup), "{}: {first:?}", name(&*poller));
        assert_eq!(wait(&mut *poller, NOW), [], "{}", name(&*poller));
        poller.set(ours.as_fd(), 4, Interest::READ).unwrap();
        until(&mut *poller, 4, |event| event.readable);
    }
}

#[test]
fn a_removed_descriptor_is_silent_and_its_number_can_come_back_with_another_key() {
    for mut poller in pollers() {
        let (ours, mut theirs) = pair();
        let number = ours.as_raw_fd();
        theirs.write_all(b"x").unwrap();
        poller.add(ours.as_fd(), 10, Interest::READ).unwrap();
        until(&mut *poller, 10, |event| event.readable);
        poller.remove(ours.as_fd()).unwrap();
        assert_eq!(wait(&mut *poller, NOW), [], "{}", name(&*poller));
        assert!(poller.is_empty());
        assert!(poller.remove(ours.as_fd()).is_err());

        // Other tests open descriptors too, and may take the number: put it there.
        let (other, mut theirs) = pair();
        drop(ours);
        let again = rustix::io::fcntl_dupfd_cloexec(&other, number).unwrap();
        theirs.write_all(b"x").unwrap();
        poller.add(again.as_fd(), 11, Interest::READ).unwrap();
        until(&mut *poller, 11, |event| event.readable);
        assert_eq!(poller.len(), 1);
    }
}

/// The number may get another owner at once. Epoll needs no call: the kernel forgets it.
#[test]
fn a_descriptor_is_forgotten_when_it_is_closed() {
    for mut poller in pollers() {
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        poller.add(ours.as_fd(), 12, Interest::READ).unwrap();
        let changes = poller.changes();
        poller.forget(ours.as_fd());
        drop(ours);
        assert_eq!(wait(&mut *poller, NOW), [], "{}", name(&*poller));
        assert!(poller.is_empty());
        let calls = u64::from(!name(&*poller).starts_with("Epoll"));
        assert_eq!(poller.changes() - changes, calls, "{}", name(&*poller));
    }
}

#[test]
fn misuse_is_an_error_and_changes_are_counted() {
    for mut poller in pollers() {
        let (ours, theirs) = pair();
        poller.add(ours.as_fd(), 1, Interest::READ).unwrap();
        assert!(poller.add(ours.as_fd(), 1, Interest::READ).is_err(), "{}", name(&*poller));
        assert!(poller.remove(theirs.as_fd()).is_err());
        assert!(poller.set(theirs.as_fd(), 1, Interest::READ).is_err());
        assert_eq!((poller.len(), poller.changes()), (1, 1));
        poller.set(ours.as_fd(), 1, Interest::BOTH).unwrap();
        assert_eq!(poller.changes(), 2);
        poller.remove(ours.as_fd()).unwrap();
        assert_eq!(poller.changes(), 3);
    }
}

#[test]
fn a_wait_lasts_as_long_as_it_was_told() {
    for mut poller in pollers() {
        let start = Instant::now();
        assert_eq!(wait(&mut *poller, Some(Duration::from_millis(20))), []);
        assert!(start.elapsed() >= Duration::from_millis(20), "{}", name(&*poller));
        let bell = Bell::new().unwrap();
        poller.add_level(bell.as_fd(), 5, Interest::READ).unwrap();
        assert_eq!(wait(&mut *poller, NOW), []);
        bell.ring();
        bell.ring();
        // A timeout beyond any clock is no timeout.
        for _ in 0..2 {
            let events = wait(&mut *poller, Some(Duration::MAX));
            assert_eq!(events.len(), 1, "{}: a bell is level-triggered", name(&*poller));
            assert_eq!((events[0].key, events[0].readable), (5, true));
        }
        assert!(bell.clear());
        assert!(!bell.clear());
        assert_eq!(wait(&mut *poller, NOW), []);
    }
}

#[test]
fn all_of_two_thousand_are_watched() {
    // Two for each pair, for one poller after another.
    assert!(limits::raise_descriptors().unwrap() > 5000, "needs a higher hard limit");
    for mut poller in pollers() {
        let bells: Vec<_> = (0..2000).map(|_| Bell::new().unwrap()).collect();
        assert!(bells.iter().any(|bell| bell.as_fd().as_raw_fd() > 1024));
        for (key, bell) in bells.iter().enumerate() {
            poller.add_level(bell.as_fd(), key as u64, Interest::READ).unwrap();
        }
        assert_eq!(poller.len(), 2000);
        let rung = |poller: &mut dyn Poller, waits: usize| {
            bells.iter().for_each(Bell::ring);
            let mut keys = Vec::new();
            // Epoll returns as many as it has room for, then others.
            for _ in 0..waits {
                for Event { key, .. } in wait(poller, NOW) {
                    bells[usize::try_from(key).unwrap()].clear();
                    keys.push(key);
                }
            }
            keys.sort_unstable();
            keys
        };
        assert!(rung(&mut *poller, 2000).into_iter().eq(0..2000), "{}", name(&*poller));

        for bell in bells.iter().rev().step_by(2) {
            poller.remove(bell.as_fd()).unwrap();
        }
        let even = (0..2000).step_by(2);
        assert!(rung(&mut *poller, 1000).into_iter().eq(even), "{}", name(&*poller));

        // Half of the rest: removing must have kept track of the places.
        for bell in bells.iter().step_by(4) {
            poller.remove(bell.as_fd()).unwrap();
        }
        let rest = (2..2000).step_by(4);
        assert!(rung(&mut *poller, 500).into_iter().eq(rest), "{}", name(&*poller));
    }
}
