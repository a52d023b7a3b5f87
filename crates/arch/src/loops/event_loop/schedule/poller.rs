//! A poller over a real one that reports events late, in random order and more than once, and a few
//! that are false.
use super::{
    super::{DISK, LISTENERS},
    edges::Edges,
    folder::UNIX,
    world::{Stage, World},
};
use crate::testing::dice::Dice;
use regatta_sys::{
    clock, hook,
    wait::{Event, Interest, Poller},
};
use std::{
    fmt, io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    time::Duration,
};

/// Room of sockets, bytes. Linux raises 1 to the least that it allows.
const ROOMS: [usize; 3] = [1, 8 << 10, 200 << 10];
/// Distinguishes the seed of their dice.
const ROOMS_STREAM: u64 = 0x0072_6f6f_6d73;

/// All functions of a poller but `wait`, passed on to the poller in a field.
macro_rules! forwards {
    ($inner:ident) => {
        fn edge(&self) -> bool {
            self.$inner.edge()
        }

        fn completes(&self) -> bool {
            self.$inner.completes()
        }

        fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
            self.$inner.add(fd, key, interest)
        }

        fn add_level(
            &mut self,
            fd: BorrowedFd<'_>,
            key: u64,
            interest: Interest,
        ) -> io::Result<()> {
            self.$inner.add_level(fd, key, interest)
        }

        fn add_listener(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
            self.$inner.add_listener(fd, key)
        }

        fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
            self.$inner.set(fd, key, interest)
        }

        fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
            self.$inner.remove(fd)
        }

        fn forget(&mut self, fd: BorrowedFd<'_>) {
            self.$inner.forget(fd);
        }

        fn len(&self) -> usize {
            self.$inner.len()
        }

        fn changes(&self) -> u64 {
            self.$inner.changes()
        }
    };
}
pub(super) use forwards;

/// A poller whose reports are random.
pub(super) struct RandomPoller<'s, 'a, P> {
    stage: &'s Stage<'a>,
    me: usize,
    poller: P,
    /// Watched descriptors and their keys, in the order in which they were added.
    keys: Vec<(RawFd, u64)>,
    /// Events that are reported later.
    held: Vec<Event>,
    /// Events that the real poller has just reported.
    fresh: Vec<Event>,
    /// The edges, if it is edge-triggered.
    edges: Option<Edges>,
    /// Chooses what sockets have room for.
    rooms: Dice,
    /// The disk performs the operations of sockets.
    pub(super) completes: bool,
}

impl<P: Poller> fmt::Debug for RandomPoller<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RandomPoller").field("poller", &self.poller).finish_non_exhaustive()
    }
}

impl<'s, 'a, P: Poller> RandomPoller<'s, 'a, P> {
    /// The poller of loop `me` in the schedule of this seed.
    pub(super) fn new(stage: &'s Stage<'a>, me: usize, seed: u64, poller: P) -> Self {
        let (keys, held, fresh) = (Vec::new(), Vec::new(), Vec::new());
        let edges = poller.edge().then(Edges::default);
        let rooms = Dice::new(seed ^ ROOMS_STREAM ^ me as u64);
        Self { stage, me, poller, keys, held, fresh, edges, rooms, completes: false }
    }

    /// Asks the real poller, and reports some of its events; true if the loop must make progress
    /// with one of them.
    fn report(&mut self, world: &mut World<'_>, events: &mut Vec<Event>) -> io::Result<bool> {
        self.poller.wait(&mut self.fresh, Some(Duration::ZERO))?;
        // The order of events differs between runs, as do the numbers of descriptors.
        self.fresh.sort_unstable_by_key(|event| event.key);
        if let Some(edges) = &mut self.edges {
            let mut events = std::mem::take(&mut self.fresh);
            for event in events.drain(..) {
                if edges.reports(&event)? {
                    self.fresh.push(event);
                }
            }
        }
        let keeps_polling = world.leaves_listeners(self.me);
        if world.is_watched(self.me) {
            self.fresh.retain(|event| !keeps_polling || event.key < LISTENERS);
            events.append(&mut self.fresh);
            return Ok(!events.is_empty());
        }
        let mut pushed = false;
        for event in self.fresh.drain(..) {
            if world.dice.once_in(4) {
                self.held.push(event);
                world.sums.late += 1;
            } else {
                pushed |= !keeps_polling || event.key < LISTENERS;
                events.push(event);
            }
        }
        if world.dice.once_in(2) {
            events.append(&mut self.held);
        }
        self.add_false_events(world, events);
        for last in (1..events.len()).rev() {
            events.swap(last, world.dice.below(last + 1));
        }
        Ok(pushed)
    }

    /// Reports nothing more of a descriptor.
    fn unwatch(&mut self, fd: BorrowedFd<'_>) {
        let number = fd.as_raw_fd();
        if let Some(at) = self.keys.iter().position(|(of, _)| *of == number) {
            let (_, key) = self.keys.remove(at);
            self.held.retain(|event| event.key != key);
            self.edges.iter_mut().for_each(|edges| edges.remove(key));
        }
    }

    /// Adds false events and repeated ones.
    fn add_false_events(&self, world: &mut World<'_>, events: &mut Vec<Event>) {
        let has_disk = self.keys.iter().any(|(_, key)| *key == DISK);
        if has_disk && world.dice.once_in(3) {
            events.push(Event { key: DISK, readable: true, ..Event::default() });
        }
        if world.honest {
            return;
        }
        if !self.keys.is_empty() && world.dice.once_in(8) {
            let (_, key) = self.keys[world.dice.below(self.keys.len())];
            let (readable, writable) = (world.dice.once_in(2), world.dice.once_in(2));
            events.push(Event { key, readable, writable, ..Event::default() });
            world.sums.spurious += 1;
        }
        if let Some(event) = events.first().copied()
            && world.dice.once_in(8)
        {
            events.push(event);
        }
    }
}

impl<P: Poller> Poller for RandomPoller<'_, '_, P> {
    fn edge(&self) -> bool {
        self.poller.edge()
    }

    fn completes(&self) -> bool {
        self.completes
    }

    fn add(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.keys.push((fd.as_raw_fd(), key));
        if let Some(edges) = &mut self.edges {
            edges.add(fd, key)?;
        }
        self.poller.add(fd, key, interest)
    }

    fn add_level(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.keys.push((fd.as_raw_fd(), key));
        self.poller.add_level(fd, key, interest)
    }

    fn add_listener(&mut self, fd: BorrowedFd<'_>, key: u64) -> io::Result<()> {
        if self.stage.world().refuses_listener(self.me) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.poller.add_listener(fd, key)?;
        self.keys.push((fd.as_raw_fd(), key));
        Ok(())
    }

    fn set(&mut self, fd: BorrowedFd<'_>, key: u64, interest: Interest) -> io::Result<()> {
        self.poller.set(fd, key, interest)
    }

    fn remove(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.unwatch(fd);
        self.poller.remove(fd)
    }

    fn forget(&mut self, fd: BorrowedFd<'_>) {
        self.unwatch(fd);
        self.poller.forget(fd);
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        events.clear();
        let (stage, me) = (self.stage, self.me);
        let mut world = stage.enter(me);
        world.look_back(me);
        self.edges.iter_mut().try_for_each(Edges::sample)?;
        let patience =
            timeout.map_or(u64::MAX, |time| u64::try_from(time.as_nanos()).expect("short"));
        let until = clock::nanos().saturating_add(patience);
        let mut pushed = patience == 0;
        // A loop that always has something to do lets the others run too.
        if !world.is_watched(me) && world.dice.once_in(2) {
            world = stage.pass(world, me);
        }
        loop {
            if !world.is_watched(me) {
                world.go_on(until);
            }
            pushed |= self.report(&mut world, events)?;
            // The time is up, or there is something, or as if a signal had interrupted the wait.
            if !events.is_empty() || world.now >= until || world.dice.once_in(30) {
                break;
            }
            world.watch_no_longer(me);
            world = stage.pass(world, me);
        }
        let is_listener = |event: &&Event| event.key >= LISTENERS && event.key < DISK;
        let notified = events.iter().filter(is_listener).count() as u64;
        world.note(
            "wait: loop, events, notifications, pushed:",
            [me as u64, events.len() as u64, notified, u64::from(pushed)],
        );
        let timed_out = events.is_empty() && patience > 0 && world.now >= until;
        world.enter_round(me, notified, events.len() as u64, pushed, timed_out);
        hook::set_time(world.now, UNIX);
        hook::set_room(ROOMS[self.rooms.below(ROOMS.len())]);
        Ok(events.len())
    }

    fn len(&self) -> usize {
        self.poller.len()
    }

    fn changes(&self) -> u64 {
        self.poller.changes()
    }
}
