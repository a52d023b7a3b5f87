//! The ledger of descriptors: by number, the process that may close it.
use super::{Crew, GATE, HIGH, KEEPER, Member, RETIREMENTS, SWEEPING, assert_unlocked, low};
use crate::{clock, exec::open_descriptors, process::Child};
use rustix::{
    fs::{FileType, OFlags},
    net::{AddressFamily, sockopt},
};
use std::{
    fs, io,
    os::fd::{AsRawFd, BorrowedFd, RawFd},
    process,
    sync::atomic::Ordering::{Relaxed, SeqCst},
    thread,
    time::Duration,
};

/// Bits of an entry that hold its state, above a stamp. 0: no entry, or no process has it open.
const SAYS: u64 = !(u32::MAX as u64);
const OWNED: u64 = 1 << 32;
const CLOSING: u64 = 2 << 32;
/// The cache holds the number open.
const CACHED: u64 = 3 << 32;
/// The cache has released the number, and the last user closes it. Contains the number of the
/// retirement in place of a stamp: a closed number may return and be retired again.
const RETIRED: u64 = 4 << 32;
/// The keeper's: the process that made the workers.
const KEPT: u64 = 5 << 32;
/// A worker has opened the number as a file for the cache. Only this ledger closes it, or the
/// cache's later state of it. So the number is never stale, as that of an [`OWNED`] one may be.
const LENT: u64 = 6 << 32;

/// Time that the keeper waits for workers to pause before it tries again later.
const PAUSE_NS_MAX: u64 = 5_000_000;

/// Result of clearing up after a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepOutcome {
    /// All that it held is closed.
    Done,
    /// A worker is about to take descriptors, so owners are undecided: sweep again.
    Later,
}

impl Member {
    /// Takes descriptors that the ledger knows only when `call` returns.
    ///
    /// Every call that may open something goes through here. Before it returns, it enters what it
    /// keeps with [`Member::claim`] or [`Member::lend`]. Not nested.
    pub fn acquire<T>(&self, call: impl FnOnce() -> T) -> T {
        let gate = &self.crew.berth(self.worker)[GATE];
        loop {
            gate.store(1, SeqCst);
            if self.crew.header[SWEEPING].load(SeqCst) == 0 {
                break;
            }
            gate.store(0, SeqCst);
            thread::sleep(Duration::from_micros(20));
        }
        let result = call();
        gate.store(0, SeqCst);
        result
    }

    /// Enters a descriptor as this worker's: if the worker ends, it is closed.
    pub fn claim(&self, fd: BorrowedFd<'_>) {
        self.enter_own(fd, OWNED);
    }

    /// Marks a descriptor that this worker is about to close.
    pub fn closing(&self, fd: BorrowedFd<'_>) -> Closing<'_> {
        self.enter_own(fd, CLOSING);
        Closing { member: self, number: fd.as_raw_fd() }
    }

    /// Enters a file's number as this worker's, with one use: the ledger closes it.
    pub(crate) fn own_in_use(&self, number: u32) {
        self.uses_mine(number).store(1, SeqCst);
        self.enter(RawFd::try_from(number).expect("it was a descriptor"), LENT);
    }

    /// True if the file is this worker's own, and may be given to the cache.
    #[must_use]
    pub fn owns(&self, number: u32) -> bool {
        let owner = self.crew.owners.get(number as usize);
        owner.is_some_and(|owner| owner.load(SeqCst) == self.lent())
    }

    /// Gives a file of this worker's to the cache. Does nothing if this worker has not lent it.
    pub fn adopt(&self, number: u32) {
        if let Some(owner) = self.crew.owners.get(number as usize) {
            let _ = owner.compare_exchange(self.lent(), CACHED, SeqCst, Relaxed);
        }
    }

    /// Enters that the cache holds a number, which need not be open.
    #[cfg(test)]
    pub(super) fn cache(&self, number: usize) {
        self.crew.owners[number].store(CACHED, SeqCst);
    }

    fn lent(&self) -> u64 {
        LENT | u64::from(self.stamp)
    }

    /// Releases a number from the cache: the last user closes it. If it has no user,
    /// [`Member::close_unused`] closes it, or [`Crew::bury`] if the caller dies first. Does nothing
    /// if the cache did not hold it.
    pub fn retire(&self, number: u32) {
        let Some(owner) = self.crew.owners.get(number as usize) else { return };
        let retirement = self.crew.header[RETIREMENTS].fetch_add(1, Relaxed);
        let retired = RETIRED | retirement & u64::from(u32::MAX);
        let _ = owner.compare_exchange(CACHED, retired, SeqCst, Relaxed);
    }

    /// [`Member::retire`] for everything that the cache holds.
    pub fn retire_all(&self) {
        for number in self.crew.numbers() {
            if self.crew.owners[number].load(SeqCst) == CACHED {
                self.retire(u32::try_from(number).expect("numbers are small"));
            }
        }
    }

    /// Closes a retired number if it has no user. Not under a lock.
    pub fn close_unused(&self, number: u32) {
        if (number as usize) < self.crew.owners.len() {
            self.crew.close_retired(number as usize, self.stamp);
        }
    }

    /// [`Member::close_unused`] for all retired numbers.
    pub fn close_all_unused(&self) {
        for number in self.crew.numbers() {
            self.crew.close_retired(number, self.stamp);
        }
    }

    /// Counts a use of what the cache holds open under this number; `None` if it does not.
    ///
    /// Call it under the lock that keeps others from releasing the file.
    #[must_use]
    pub fn lease(&'static self, number: u32) -> Option<Lease> {
        let owner = self.crew.owners.get(number as usize)?;
        let uses = self.uses_mine(number);
        uses.fetch_add(1, SeqCst);
        if owner.load(SeqCst) == CACHED {
            return Some(Lease { member: self, number });
        }
        uses.fetch_sub(1, SeqCst);
        None
    }

    /// Ends a use; the last user closes what is no longer wanted. Not under a lock.
    pub(crate) fn let_go(&self, number: u32) {
        assert_unlocked();
        // No use is left where the keeper has reset the uses.
        let before =
            self.uses_mine(number).fetch_update(SeqCst, SeqCst, |uses| uses.checked_sub(1));
        if before.is_ok_and(|before| before > 1) {
            return;
        }
        let word = self.crew.owners[number as usize].load(SeqCst);
        if word & SAYS == RETIRED {
            self.crew.close_retired(number as usize, self.stamp);
        } else if word == self.lent() {
            self.crew.close_if(number as usize, word, self.stamp);
        }
    }

    fn uses_mine(&self, number: u32) -> &'static std::sync::atomic::AtomicU64 {
        self.crew.uses(self.worker, number as usize)
    }

    /// Enters a descriptor that has an owner. Skips one that the ledger closes.
    fn enter_own(&self, fd: BorrowedFd<'_>, how: u64) {
        let owner = usize::try_from(fd.as_raw_fd()).ok().and_then(|at| self.crew.owners.get(at));
        let says = owner.map_or(0, |owner| owner.load(SeqCst) & SAYS);
        debug_assert!(![LENT, CACHED, RETIRED].contains(&says), "the ledger closes it");
        if ![LENT, CACHED, RETIRED].contains(&says) {
            self.enter(fd.as_raw_fd(), how);
        }
    }

    fn enter(&self, fd: RawFd, how: u64) {
        self.crew.enter_number(fd, how | u64::from(self.stamp));
    }
}

/// Counted use of a file that the cache holds. The file stays open until this, or the file made
/// from it, is dropped. Not under a lock: the drop may close it.
#[derive(Debug)]
#[must_use = "dropping it ends the use"]
pub struct Lease {
    member: &'static Member,
    number: u32,
}

impl Lease {
    /// The number, and the worker that uses it. The caller ends the use ([`Member::let_go`]).
    pub(crate) fn into_parts(self) -> (u32, &'static Member) {
        let parts = (self.number, self.member);
        std::mem::forget(self);
        parts
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.member.let_go(self.number);
    }
}

/// A descriptor that is being closed, until this is dropped.
#[derive(Debug)]
#[must_use = "drop it after the descriptor"]
pub struct Closing<'a> {
    member: &'a Member,
    number: RawFd,
}

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let number = usize::try_from(self.number).expect("a descriptor");
        let closing = CLOSING | u64::from(self.member.stamp);
        if let Some(owner) = self.member.crew.owners.get(number) {
            // Another worker may have got the number already, and entered its own stamp.
            let _ = owner.compare_exchange(closing, 0, SeqCst, Relaxed);
        }
    }
}

impl Crew {
    /// Enters a descriptor that the keeper has opened, before it sweeps. An entry that a worker
    /// left when it died in the middle of a close is no longer true.
    pub fn keep(&self, fd: BorrowedFd<'_>) {
        self.enter_number(fd.as_raw_fd(), KEPT);
    }

    /// Marks a kept descriptor that the keeper is about to close.
    pub fn give_up(&self, fd: BorrowedFd<'_>) {
        self.enter_number(fd.as_raw_fd(), 0);
    }

    pub(super) fn keep_what_is_open(&self) -> io::Result<()> {
        for number in open_descriptors()? {
            // What was open before the limit was lowered may be beyond it, and beyond the ledger.
            if usize::try_from(number).is_ok_and(|number| number < self.owners.len()) {
                self.enter_number(number, KEPT);
            }
        }
        Ok(())
    }

    fn enter_number(&self, fd: RawFd, word: u64) {
        let number = usize::try_from(fd).expect("a descriptor");
        // The limit on descriptors does not exceed the ledger.
        self.owners[number].store(word, SeqCst);
        let high = &self.header[HIGH];
        if number as u64 > high.load(Relaxed) {
            high.fetch_max(number as u64, Relaxed);
        }
    }

    /// Closes what the process `child` held open: above all its sockets, whose peers would wait for
    /// ever. It was worker number `worker` and has been reaped. The keeper must have
    /// [kept](Crew::keep) what it opened since [`Crew::create`].
    ///
    /// # Panics
    /// If this is not the process that created the crew, or another one is the worker.
    pub fn bury(&self, worker: usize, child: &Child) -> SweepOutcome {
        self.assert_keeper();
        assert!(child.is_reaped() && self.was(worker, child.pid()), "it may live");
        self.mark_ended(worker);
        for number in self.numbers() {
            self.uses(worker, number).store(0, SeqCst);
            let owner = self.owners[number].load(SeqCst);
            // An `OWNED` number may be stale, and another worker's by now. The sweep closes those:
            // all workers pause in it.
            if owner & SAYS == LENT && self.is_dead(stamp(owner)) {
                self.close_if(number, owner, 0);
            } else {
                self.close_retired(number, 0);
            }
        }
        self.sweep()
    }

    /// Closes what dead workers had open, had taken without an entry, or were closing.
    ///
    /// # Panics
    /// As [`Crew::bury`].
    pub fn sweep(&self) -> SweepOutcome {
        self.assert_keeper();
        self.header[SWEEPING].store(1, SeqCst);
        let sweep = if self.all_paused() { self.close_orphans() } else { SweepOutcome::Later };
        self.header[SWEEPING].store(0, SeqCst);
        sweep
    }

    /// Only a process that has entered all of its own descriptors may close those without an entry.
    fn assert_keeper(&self) {
        let keeper = self.header[KEEPER].load(Relaxed);
        assert_eq!(keeper, u64::from(process::id()), "the keeper clears up after workers");
    }

    /// Waits briefly until no worker takes descriptors.
    fn all_paused(&self) -> bool {
        let start = clock::nanos();
        (0..self.workers).all(|worker| {
            while self.berth(worker)[GATE].load(SeqCst) != 0 && self.lives(worker) {
                if clock::nanos() - start > PAUSE_NS_MAX {
                    return false;
                }
                thread::sleep(Duration::from_micros(50));
            }
            true
        })
    }

    fn close_orphans(&self) -> SweepOutcome {
        let Ok(open) = open_descriptors() else { return SweepOutcome::Later };
        for fd in open {
            let Some(owner) = usize::try_from(fd).ok().and_then(|at| self.owners.get(at)) else {
                continue;
            };
            let word = owner.load(SeqCst);
            let dead = match word & SAYS {
                OWNED | CLOSING | LENT => self.is_dead(stamp(word)),
                0 => is_worker_like(fd),
                _ => false,
            };
            if dead {
                // No worker takes or closes such a number while all pause.
                close(fd);
                owner.store(0, SeqCst);
            }
        }
        SweepOutcome::Done
    }

    /// Closes a number that the cache has released, if it has no user.
    fn close_retired(&self, number: usize, stamp: u32) {
        // Read before the uses: if the number is closed and returns meanwhile, its uses belong to
        // another retirement.
        let word = self.owners[number].load(SeqCst);
        if word & SAYS != RETIRED {
            return;
        }
        let used = (0..self.workers).any(|worker| self.uses(worker, number).load(SeqCst) > 0);
        if !used {
            self.close_if(number, word, stamp);
        }
    }

    /// Closes a number if its entry is unchanged: of several that try, one does.
    fn close_if(&self, number: usize, says: u64, stamp: u32) {
        let owner = &self.owners[number];
        let closing = CLOSING | u64::from(stamp);
        if owner.compare_exchange(says, closing, SeqCst, Relaxed).is_ok() {
            close(RawFd::try_from(number).expect("it was a descriptor"));
            let _ = owner.compare_exchange(closing, 0, SeqCst, Relaxed);
        }
    }

    /// Counts the descriptors that the cache holds, and the released ones that are still in use.
    #[must_use]
    pub fn files(&self) -> (usize, usize) {
        let says = |at: usize| self.owners[at].load(SeqCst) & SAYS;
        let count = |what| self.numbers().filter(|at| says(*at) == what).count();
        (count(CACHED), count(RETIRED))
    }
}

fn stamp(owner: u64) -> u32 {
    low(&owner.into(), Relaxed)
}

/// True for descriptors that workers open and the keeper, once there are workers, does not:
/// connections, files and directories to be read, epoll instances.
fn is_worker_like(fd: RawFd) -> bool {
    // SAFETY: the descriptor is only inspected. If another process closes it meanwhile, the calls
    // fail, which they may.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let Ok(stat) = rustix::fs::fstat(borrowed) else { return false };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Socket => {
            const CLIENTS: [AddressFamily; 3] =
                [AddressFamily::INET, AddressFamily::INET6, AddressFamily::UNIX];
            let domain = sockopt::socket_domain(borrowed);
            domain.is_ok_and(|family| CLIENTS.contains(&family))
                && sockopt::socket_acceptconn(borrowed) == Ok(false)
        }
        // To be read, or a root.
        FileType::Directory => true,
        FileType::RegularFile => rustix::fs::fcntl_getfl(borrowed)
            .is_ok_and(|flags| !flags.intersects(OFlags::PATH | OFlags::WRONLY | OFlags::RDWR)),
        _ => fs::read_link(format!("/proc/self/fd/{fd}"))
            .is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]"),
    }
}

fn close(fd: RawFd) {
    assert_unlocked();
    // SAFETY: the ledger says that no process uses this number, and that this process may close it.
    // Callers have exchanged its entry, or stopped all workers that could hold it.
    unsafe { libc::close(fd) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{StaticFile, crew};
    use rustix::io::fcntl_getfd;
    use std::{
        fs::File,
        os::fd::{AsFd, OwnedFd},
    };

    fn crew_of_one() -> (Crew, &'static Member) {
        let memory = crew::create_words(Crew::count_words(1, 1024)).unwrap();
        let crew = Crew::create(memory.words(), 1, 1024).unwrap();
        (crew, crew.enter(0).unwrap())
    }

    /// A file that is lent to the cache, and its number.
    fn lent(member: &'static Member) -> (StaticFile, u32) {
        let file = File::open("/proc/self/status").unwrap();
        let file = member.lend(StaticFile::adopt(file.into()).unwrap());
        let number = file.shared_number().unwrap();
        (file, number)
    }

    /// A process that checked the uses of a number before it was closed does not close its
    /// successor, which was retired as well and may be in use.
    #[test]
    fn a_retirement_is_not_taken_for_another() {
        const NUMBER: u32 = 1000;
        let (crew, member) = crew_of_one();
        let owner = &crew.owners[NUMBER as usize];
        let retire = || {
            member.cache(NUMBER as usize);
            member.retire(NUMBER);
            owner.load(SeqCst)
        };
        let (first, second) = (retire(), retire());
        assert_eq!((first & SAYS, second & SAYS), (RETIRED, RETIRED));
        crew.close_if(NUMBER as usize, first, member.stamp());
        assert_eq!(owner.load(SeqCst), second, "it is another's");
        assert!(member.lease(NUMBER).is_none(), "retired");
        owner.store(0, SeqCst);
    }

    /// Safe calls with any number close nothing that has an owner.
    #[test]
    fn only_what_was_lent_is_closed() {
        let (crew, member) = crew_of_one();
        let file = OwnedFd::from(File::open("/proc/self/exe").unwrap());
        let number = file.as_raw_fd().unsigned_abs();
        member.claim(file.as_fd());
        for number in [number, 1023, 1024, u32::MAX] {
            member.adopt(number);
            assert!(member.lease(number).is_none() && !member.owns(number));
            member.retire(number);
            member.close_unused(number);
        }
        assert!(fcntl_getfd(&file).is_ok(), "it is open");
        assert_eq!(crew.files(), (0, 0));
        drop(member.closing(file.as_fd()));
    }

    /// Threads of one member use a file at the same time: no use is lost.
    #[test]
    fn uses_are_counted_by_all_threads() {
        let (crew, member) = crew_of_one();
        let (file, number) = lent(member);
        member.adopt(number);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        drop(member.lease(number).expect("the cache holds it"));
                    }
                });
            }
        });
        assert_eq!(crew.uses(0, number as usize).load(SeqCst), 1, "the file's own");
        member.retire(number);
        drop(file);
        assert_eq!(crew.files(), (0, 0), "the last user has closed it");
    }

    #[test]
    #[should_panic(expected = "the keeper clears up")]
    fn only_the_keeper_sweeps() {
        let (crew, _) = crew_of_one();
        crew.header[KEEPER].store(1, Relaxed);
        let _ = crew.sweep();
    }
}
