//! Faults on demand: short reads and writes, interruptions, full tables and slow disks.
//!
//! Without the cargo feature `chaos` every hook is a constant, and nothing of it is left in the
//! program.
#[cfg(feature = "chaos")]
pub use on::{Plan, die_locked, install, struck};
#[cfg(feature = "chaos")]
pub(crate) use on::{blocks, edge_triggered, fault, shorten, slow, slow_us};

#[cfg(not(feature = "chaos"))]
pub use off::die_locked;
#[cfg(not(feature = "chaos"))]
pub(crate) use off::{blocks, edge_triggered, fault, shorten, slow};

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
    pub(crate) const fn slow() {}

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
        /// Points in the middle of a change of what processes share at which this one is killed,
        /// the locks of that in its hand.
        pub die_locked_per_mille: u32,
    }

    static PLAN: OnceLock<Plan> = OnceLock::new();
    static EDGE: AtomicBool = AtomicBool::new(false);
    static ROLLS: AtomicU64 = AtomicU64::new(0);
    static STRUCK: AtomicU64 = AtomicU64::new(0);

    /// Starts the faults, in this process and those that it forks.
    ///
    /// # Panics
    /// If a plan has been installed already.
    pub fn install(plan: Plan) {
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

    pub(crate) fn slow() {
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
    pub(crate) fn slow_us() -> u64 {
        PLAN.get().map_or(0, |plan| plan.slow_open_us)
    }

    pub(crate) fn edge_triggered() {
        EDGE.store(true, Relaxed);
    }

    fn strikes(plan: &Plan, per_mille: u32) -> bool {
        let strikes = per_mille > 0 && roll(plan) % 1000 < u64::from(per_mille);
        STRUCK.fetch_add(u64::from(strikes), Relaxed);
        strikes
    }

    /// SplitMix64 (Steele, Lea, Flood 2014): a counter, then a mix.
    fn roll(plan: &Plan) -> u64 {
        let count = ROLLS.fetch_add(1, Relaxed).wrapping_add(plan.seed);
        let mut z = count.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
