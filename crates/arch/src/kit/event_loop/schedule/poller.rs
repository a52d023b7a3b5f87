//! A poller that tells the truth late, in any order and more than once, and lies a little: over a
//! real one.
use super::{
    super::{DISK, LISTENERS},
    edges::Edges,
    place::UNIX,
    world::{Stage, World},
};
use crate::kit::dice::Dice;
use regatta_sys::{
    clock, hook,
    wait::{Event, Interest, Poller},
};
use std::{
    fmt, io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    time::Duration,
};

/// What sockets have room for, bytes. Linux makes of 1 the least that it allows.
const ROOMS: [usize; 3] = [1, 8 << 10, 200 << 10];
/// What the dice for that begin with.
const ROOMS_STREAM: u64 = 0x0072_6f6f_6d73;

/// A poller that the dice move.
pub(super) struct Moved<'s, 'a, P> {
    stage: &'s Stage<'a>,
    me: usize,
    poller: P,
    /// What is watched, in the order in which it came.
    keys: Vec<(RawFd, u64)>,
    /// Events that are told later.
    held: Vec<Event>,
    /// Events as the real poller has told them.
    fresh: Vec<Event>,
    /// If it tells of edges.
    edges: Option<Edges>,
    /// Says what sockets have room for.
    rooms: Dice,
}

impl<P: Poller> fmt::Debug for Moved<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Moved").field("poller", &self.poller).finish_non_exhaustive()
    }
}

impl<'s, 'a, P: Poller> Moved<'s, 'a, P> {
    /// The poller of loop `me` in the schedule of this seed.
    pub(super) fn new(stage: &'s Stage<'a>, me: usize, seed: u64, poller: P) -> Self {
        let (keys, held, fresh) = (Vec::new(), Vec::new(), Vec::new());
        let edges = poller.edge().then(Edges::default);
        let rooms = Dice::new(seed ^ ROOMS_STREAM ^ me as u64);
        Self { stage, me, poller, keys, held, fresh, edges, rooms }
    }

    /// Looks what is there, and tells some of it; true if that is something which the loop has to
    /// get somewhere with.
    fn tell(&mut self, world: &mut World<'_>, events: &mut Vec<Event>) -> io::Result<bool> {
        self.poller.wait(&mut self.fresh, Some(Duration::ZERO))?;
        // The order is the poller's, and numbers of descriptors are the process's.
        self.fresh.sort_unstable_by_key(|event| event.key);
        if let Some(edges) = &mut self.edges {
            let mut events = std::mem::take(&mut self.fresh);
            for event in events.drain(..) {
                if edges.tells(&event)? {
                    self.fresh.push(event);
                }
            }
        }
        let in_vain = world.leaves_listeners(self.me);
        if world.is_watched(self.me) {
            self.fresh.retain(|event| !in_vain || event.key < LISTENERS);
            events.append(&mut self.fresh);
            return Ok(!events.is_empty());
        }
        let mut pushed = false;
        for event in self.fresh.drain(..) {
            if world.dice.once_in(4) {
                self.held.push(event);
                world.sums.late += 1;
            } else {
                pushed |= !in_vain || event.key < LISTENERS;
                events.push(event);
            }
        }
        if world.dice.once_in(2) {
            events.append(&mut self.held);
        }
        self.lie(world, events);
        for last in (1..events.len()).rev() {
            events.swap(last, world.dice.below(last + 1));
        }
        Ok(pushed)
    }

    /// Does not tell of a descriptor any more.
    fn keep_silent(&mut self, fd: BorrowedFd<'_>) {
        let number = fd.as_raw_fd();
        if let Some(at) = self.keys.iter().position(|(of, _)| *of == number) {
            let (_, key) = self.keys.remove(at);
            self.held.retain(|event| event.key != key);
            self.edges.iter_mut().for_each(|edges| edges.remove(key));
        }
    }

    /// Tells of what is not there, and of what is there twice.
    fn lie(&self, world: &mut World<'_>, events: &mut Vec<Event>) {
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

impl<P: Poller> Poller for Moved<'_, '_, P> {
    fn name(&self) -> &'static str {
        "moved"
    }

    fn edge(&self) -> bool {
        self.poller.edge()
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
        self.keep_silent(fd);
        self.poller.remove(fd)
    }

    fn forget(&mut self, fd: BorrowedFd<'_>) {
        self.keep_silent(fd);
        self.poller.forget(fd);
    }

    fn wait(&mut self, events: &mut Vec<Event>, timeout: Option<Duration>) -> io::Result<usize> {
        events.clear();
        let (stage, me) = (self.stage, self.me);
        let mut world = stage.enter(me);
        world.look_back(me);
        self.edges.iter_mut().try_for_each(Edges::look)?;
        let patience =
            timeout.map_or(u64::MAX, |time| u64::try_from(time.as_nanos()).expect("short"));
        let until = clock::nanos().saturating_add(patience);
        let mut pushed = patience == 0;
        // Who always has something to do is not alone in the world.
        if !world.is_watched(me) && world.dice.once_in(2) {
            world = stage.pass(world, me);
        }
        loop {
            if !world.is_watched(me) {
                world.go_on(until);
            }
            pushed |= self.tell(&mut world, events)?;
            // The time is up, or there is something, or a signal has come.
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
        world.enter_round(me, (notified, events.len() as u64), pushed, timed_out);
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
