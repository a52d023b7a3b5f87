//! Liveness: one robust futex per worker, which the kernel marks when its process ends.
use super::{BERTH_WORDS, Crew, GATE, INCARNATION, LIFE, LINK, READING, WORKERS_MAX, futex};
use std::{
    ffi::c_long,
    io, ptr,
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

/// Bits of a stamp for a worker's number plus one. The incarnation is above them.
const WORKER_BITS: u32 = 10;
const INCARNATION_BITS: u32 = 20;
/// Stamp that names no worker, and counts as that of a dead one.
pub(super) const DEAD: u32 = 1 << WORKER_BITS;
const _: () = assert!(WORKERS_MAX < 1 << WORKER_BITS);

/// `struct robust_list_head` (set_robust_list(2)).
#[repr(C)]
struct RobustList {
    first: *const AtomicU64,
    futex_offset: c_long,
    pending: *const AtomicU64,
}

impl Crew {
    /// Takes a place: starts its new incarnation, and registers the futex that shows that the
    /// worker lives.
    ///
    /// The C library's robust mutexes would need the thread number that it keeps privately, and
    /// only its own `fork` updates that. A process made by clone(2) must do without them.
    pub(super) fn sign_on(&self, worker: usize) -> io::Result<u32> {
        let berth = self.berth(worker);
        berth[INCARNATION].fetch_add(1, SeqCst);
        futex(&berth[READING]).store(0, SeqCst);
        berth[GATE].store(0, SeqCst);
        let link: &'static AtomicU64 = &berth[LINK];
        let list = Box::leak(Box::new(RobustList {
            first: link,
            futex_offset: ((LIFE - LINK) * size_of::<AtomicU64>()) as c_long
                + if cfg!(target_endian = "big") { 4 } else { 0 },
            pending: ptr::null(),
        }));
        // The list has this single entry: its link leads back to the head.
        link.store(ptr::from_ref(list).addr() as u64, SeqCst);
        let tid = crate::thread::number();
        futex(&berth[LIFE]).store(tid, SeqCst);
        // SAFETY: the head and its only entry are never freed or unmapped, and the entry leads
        // back to the head, so the kernel's walk at exit stays within them.
        let result = unsafe {
            libc::syscall(libc::SYS_set_robust_list, ptr::from_ref(list), size_of::<RobustList>())
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(self.stamp(worker))
    }

    fn stamp(&self, worker: usize) -> u32 {
        let incarnation = self.berth(worker)[INCARNATION].load(SeqCst) % (1 << INCARNATION_BITS);
        let incarnation = u32::try_from(incarnation).expect("below the modulus");
        incarnation << WORKER_BITS | u32::try_from(worker + 1).expect("few workers")
    }

    /// True if the worker that a stamp names has ended.
    #[must_use]
    pub fn is_dead(&self, stamp: u32) -> bool {
        let worker = stamp % (1 << WORKER_BITS);
        let Some(worker) = (worker as usize).checked_sub(1).filter(|at| *at < self.workers) else {
            return true;
        };
        self.stamp(worker) != stamp || !self.lives(worker)
    }

    /// True if the worker reads under a [`Member::read`](super::Member::read).
    #[cfg(feature = "test-hooks")]
    #[must_use]
    pub fn reads(&self, worker: usize) -> bool {
        futex(&self.berth(worker)[READING]).load(SeqCst) != 0
    }

    /// True if a worker has this place and lives.
    #[must_use]
    pub fn lives(&self, worker: usize) -> bool {
        let life = futex(&self.berth(worker)[LIFE]).load(SeqCst);
        life != 0 && life & libc::FUTEX_OWNER_DIED == 0
    }

    /// Marks a worker as ended, as the kernel does. For a reaped one that never signed on.
    pub(super) fn mark_ended(&self, worker: usize) {
        futex(&self.berth(worker)[LIFE]).store(libc::FUTEX_OWNER_DIED, SeqCst);
    }

    /// [`Crew::mark_ended`], for tests of what follows.
    #[cfg(feature = "test-hooks")]
    pub fn mark_dead(&self, worker: usize) {
        self.mark_ended(worker);
    }

    /// True if no process other than `pid` may have this place now.
    pub(super) fn was(&self, worker: usize, pid: u32) -> bool {
        let life = futex(&self.berth(worker)[LIFE]).load(SeqCst);
        life & libc::FUTEX_TID_MASK == pid || !self.lives(worker)
    }

    /// Number of workers that have had this place.
    #[must_use]
    pub fn incarnation(&self, worker: usize) -> u64 {
        self.berths[worker * BERTH_WORDS + INCARNATION].load(Relaxed)
    }
}
