//! Faults on demand: short reads and writes, interruptions, full tables and slow disks.
//!
//! Without the cargo feature `chaos` every hook is a constant, and nothing of it is left in the
//! program.
#[cfg(not(feature = "chaos"))]
use off as now;
#[cfg(feature = "chaos")]
use on as now;

pub use now::die_locked;
pub(crate) use now::{
    blocks, cold_us, edge_triggered, fault, is_cold, shorten, slow_open, slow_open_us, slow_read,
    warm,
};
#[cfg(feature = "chaos")]
pub use on::{Plan, install, struck};

/// The places where faults strike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// Receiving from a peer.
    Recv,
    /// Sending memory to a peer.
    Send,
    /// Sending a file range to a peer.
    SendFile,
    /// Reading a file.
    Read,
    /// Accepting a connection.
    Accept,
    /// Opening a path below the root.
    Open,
    /// Waiting for readiness.
    Wait,
}

#[cfg(not(feature = "chaos"))]
mod off {
    use super::Hook;
    use rustix::io::Errno;

    #[inline]
    pub(crate) const fn fault(_: Hook) -> Option<Errno> {
        None
    }

    #[inline]
    pub(crate) const fn shorten(_: Hook, len: usize) -> usize {
        len
    }

    #[inline]
    pub(crate) const fn slow_open() {}

    #[inline]
    pub(crate) const fn slow_read(_inode: u64) {}

    #[inline]
    pub(crate) const fn is_cold(_inode: u64) -> bool {
        false
    }

    #[inline]
    pub(crate) const fn cold_us(_inode: u64) -> u64 {
        0
    }

    #[inline]
    pub(crate) const fn slow_open_us() -> u64 {
        0
    }

    #[inline]
    pub(crate) const fn warm(_inode: u64) {}

    /// Does nothing: this program was built without faults.
    #[inline]
    pub const fn die_locked() {}

    #[inline]
    pub(crate) const fn blocks() -> bool {
        false
    }

    #[inline]
    pub(crate) const fn edge_triggered() {}
}

#[cfg(feature = "chaos")]
mod on {
    use super::Hook;
    use crate::shm;
    use rustix::{
        io::Errno,
        process::{Signal, getpid, kill_process},
    };
    use std::{
        sync::{
            OnceLock,
            atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        },
        thread,
        time::Duration,
    };

    /// Which faults strike how often. Rates count in 1,000 calls of their kind.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Plan {
        /// Where the sequence of faults starts. The same seed gives a thread that makes the same
        /// calls the same faults.
        pub seed: u64,
        /// Receives and sends that move fewer bytes than they could. Receives do not once this
        /// process waits for edges: what a short one leaves behind has no edge to announce it, and
        /// whoever waits for edges may take a short one for an empty socket (epoll(7), question 9).
        pub short_per_mille: u32,
        /// Calls, waits included, that a signal seems to interrupt. At most 900 count.
        pub eintr_per_mille: u32,
        /// Receives, sends and accepts that seem to find nothing to do. None once this process
        /// waits for edges: there would not be another. Leave it 0 with blocking sockets.
        pub eagain_per_mille: u32,
        /// Accepts that seem to find the table of descriptors full.
        pub emfile_accept_per_mille: u32,
        /// Opens that take `slow_open_us` longer.
        pub slow_open_per_mille: u32,
        /// How long a slow open takes, microseconds.
        pub slow_open_us: u64,
        /// How many of 1,000 files are on a slow disk, and in nobody's memory at first: reading or
        /// sending from one takes `slow_read_us` longer until somebody has waited for it, and who
        /// asks whether it is in memory is told that it is not.
        pub slow_read_per_mille: u32,
        /// How long the first read of such a file takes, microseconds.
        pub slow_read_us: u64,
        /// Points in the middle of a change of what processes share at which this one is killed,
        /// the locks of that in its hand.
        pub die_locked_per_mille: u32,
    }

    /// Words of the map of files that have been waited for, one bit for each.
    const WARM_WORDS: usize = 1 << 14;

    static PLAN: OnceLock<Plan> = OnceLock::new();
    static EDGE: AtomicBool = AtomicBool::new(false);
    static ROLLS: AtomicU64 = AtomicU64::new(0);
    static STRUCK: AtomicU64 = AtomicU64::new(0);
    /// Shared with processes that are forked later, as the memory is for which it stands.
    static WARM: OnceLock<&[AtomicU64]> = OnceLock::new();

    /// Starts the faults, in this process and those that it forks.
    ///
    /// # Panics
    /// If a plan has been installed already, or there is no memory left.
    pub fn install(plan: Plan) {
        if plan.slow_read_per_mille > 0 {
            let memory = shm::create_named("regatta-chaos", WARM_WORDS);
            WARM.get_or_init(|| memory.expect("there is memory for a test's faults").words());
        }
        assert!(PLAN.set(plan).is_ok(), "one plan per process");
    }

    /// How many faults have struck this process so far.
    #[must_use]
    pub fn struck() -> u64 {
        STRUCK.load(Relaxed)
    }

    pub(crate) fn fault(hook: Hook) -> Option<Errno> {
        let plan = PLAN.get()?;
        if strikes(plan, plan.eintr_per_mille.min(900)) {
            return Some(Errno::INTR);
        }
        let peer = matches!(hook, Hook::Recv | Hook::Send | Hook::SendFile | Hook::Accept);
        if peer && !EDGE.load(Relaxed) && strikes(plan, plan.eagain_per_mille) {
            return Some(Errno::AGAIN);
        }
        let full = hook == Hook::Accept && strikes(plan, plan.emfile_accept_per_mille);
        full.then_some(Errno::MFILE)
    }

    pub(crate) fn shorten(hook: Hook, len: usize) -> usize {
        debug_assert!(!matches!(hook, Hook::Accept | Hook::Open | Hook::Wait), "no bytes there");
        match PLAN.get() {
            Some(_) if hook == Hook::Recv && EDGE.load(Relaxed) => len,
            Some(plan) if len > 1 && strikes(plan, plan.short_per_mille) => {
                // Half of the time very short, so that heads are cut everywhere.
                let most = if roll(plan).is_multiple_of(2) { len.min(16) } else { len };
                1 + usize::try_from(roll(plan) % (most as u64 - 1)).expect("below most")
            }
            _ => len,
        }
    }

    pub(crate) fn slow_open() {
        if let Some(plan) = PLAN.get()
            && strikes(plan, plan.slow_open_per_mille)
        {
            thread::sleep(Duration::from_micros(plan.slow_open_us));
        }
    }

    /// A point in the middle of a change of what processes share: perhaps the last.
    pub fn die_locked() {
        if let Some(plan) = PLAN.get()
            && strikes(plan, plan.die_locked_per_mille)
        {
            // Nothing comes after it; that a process may kill itself is certain.
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }

    /// Whether an open that must not block finds that it would.
    pub(crate) fn blocks() -> bool {
        PLAN.get().is_some_and(|plan| strikes(plan, plan.slow_open_per_mille))
    }

    /// How long a slow open takes, microseconds.
    pub(crate) fn slow_open_us() -> u64 {
        PLAN.get().map_or(0, |plan| plan.slow_open_us)
    }

    /// Waits for a file that is not in memory.
    pub(crate) fn slow_read(inode: u64) {
        let us = cold_us(inode);
        if us > 0 {
            thread::sleep(Duration::from_micros(us));
            warm(inode);
        }
    }

    /// Whether reading the file would have to wait.
    pub(crate) fn is_cold(inode: u64) -> bool {
        cold_us(inode) > 0
    }

    /// How long reading the file would have to wait, microseconds.
    pub(crate) fn cold_us(inode: u64) -> u64 {
        let Some((plan, (word, bit))) = PLAN.get().zip(place(inode)) else { return 0 };
        let slow = mix(inode.wrapping_add(plan.seed)) % 1000 < u64::from(plan.slow_read_per_mille);
        if slow && word.load(Relaxed) & bit == 0 { plan.slow_read_us } else { 0 }
    }

    /// Notes that the file has been waited for.
    pub(crate) fn warm(inode: u64) {
        if let Some((word, bit)) = place(inode) {
            word.fetch_or(bit, Relaxed);
            STRUCK.fetch_add(1, Relaxed);
        }
    }

    /// Where the map says whether the file has been waited for.
    fn place(inode: u64) -> Option<(&'static AtomicU64, u64)> {
        let words: &'static [AtomicU64] = WARM.get()?;
        let at = usize::try_from(inode / 64 % words.len() as u64).expect("below their number");
        Some((&words[at], 1 << (inode % 64)))
    }

    pub(crate) fn edge_triggered() {
        EDGE.store(true, Relaxed);
    }

    fn strikes(plan: &Plan, per_mille: u32) -> bool {
        let strikes = per_mille > 0 && roll(plan) % 1000 < u64::from(per_mille);
        STRUCK.fetch_add(u64::from(strikes), Relaxed);
        strikes
    }

    fn roll(plan: &Plan) -> u64 {
        mix(ROLLS.fetch_add(1, Relaxed).wrapping_add(plan.seed))
    }

    /// Number `count` of a sequence (SplitMix64; Steele, Lea, Flood 2014).
    fn mix(count: u64) -> u64 {
        let mut z = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
