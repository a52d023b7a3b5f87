//! Faults on demand: short reads and writes, interruptions, full tables and slow disks.
use super::{Call, Held};
use crate::{Root, shm};
use rustix::{
    fs::{AtFlags, statat},
    io::Errno,
    process::{Pid, Signal, getpid, kill_process, test_kill_process},
};
use std::{
    fs::File,
    hint, io,
    net::TcpStream,
    os::unix::process::CommandExt as _,
    process::Command,
    str::FromStr,
    sync::{
        OnceLock,
        atomic::{
            AtomicBool, AtomicU64,
            Ordering::{Relaxed, SeqCst},
        },
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
    /// Time for which it holds the locks before, microseconds: others come to wait for them.
    pub die_locked_us: u64,
    /// Connections that a thread of a stage takes out of its queue, and panics with in its hands.
    pub panic_in_visit_per_mille: u32,
    /// Which connection that a stage of a process takes, counted from 1, has its thread go round in
    /// circles. 0: none.
    pub spin_at_visit: u64,
    /// Which has its thread sleep for ever. 0: none.
    pub sleep_at_visit: u64,
    /// 1: scouts hang at roots in which there is a file of the name `hang`.
    pub hang_at_mark: u32,
    /// A port of this machine on which the test listens: each worker says before it works what
    /// becomes of what it should not be able to do. 0: none does.
    pub probe_port: u16,
}

/// Words of the map of files that have been waited for, one bit for each.
const WARM_WORDS: usize = 1 << 14;

static PLAN: OnceLock<Plan> = OnceLock::new();
static EDGE: AtomicBool = AtomicBool::new(false);
static HANG: OnceLock<(Held, &AtomicU64)> = OnceLock::new();
static ROLLS: AtomicU64 = AtomicU64::new(0);
static STRUCK: AtomicU64 = AtomicU64::new(0);
static VISITS: AtomicU64 = AtomicU64::new(0);
/// Shared with processes that are forked later, as the memory is for which it stands.
static WARM: OnceLock<&[AtomicU64]> = OnceLock::new();

/// Starts the faults, in this process and those that it forks.
///
/// # Panics
/// If a plan has been installed already, or there is no memory left.
pub fn inject(plan: Plan) {
    if plan.slow_read_per_mille > 0 {
        let memory = shm::create_named("regatta-injected", WARM_WORDS);
        WARM.get_or_init(|| memory.expect("there is memory for a test's faults").words());
    }
    assert!(PLAN.set(plan).is_ok(), "one plan per process");
}

/// The variable that says which faults are to strike, in a build that has them: a [`Plan`] as text.
const VARIABLE: &str = "REGATTA_INJECT";

/// [`inject`], as the environment says; nothing if it says nothing.
///
/// # Panics
/// If that is no plan.
pub fn inject_as_told() {
    if let Ok(text) = std::env::var(VARIABLE) {
        inject(text.parse().unwrap_or_else(|error| panic!("{VARIABLE}: {error}")));
    }
}

/// How many faults have struck this process so far.
#[must_use]
pub fn struck() -> u64 {
    STRUCK.load(Relaxed)
}

pub(crate) fn fault(call: Call) -> Option<Errno> {
    let plan = PLAN.get()?;
    if strikes(plan, plan.eintr_per_mille.min(900)) {
        return Some(Errno::INTR);
    }
    let peer = matches!(call, Call::Recv | Call::Send | Call::SendFile | Call::Accept);
    if peer && !EDGE.load(Relaxed) && strikes(plan, plan.eagain_per_mille) {
        return Some(Errno::AGAIN);
    }
    let full = call == Call::Accept && strikes(plan, plan.emfile_accept_per_mille);
    full.then_some(Errno::MFILE)
}

pub(crate) fn shorten(call: Call, len: usize) -> usize {
    debug_assert!(!matches!(call, Call::Accept | Call::Open | Call::Wait), "no bytes there");
    match PLAN.get() {
        Some(_) if call == Call::Recv && EDGE.load(Relaxed) => len,
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

/// Has this process stop at its next point of this kind, with the locks in its hand. It reports
/// that with a 1 in `reached`.
///
/// # Panics
/// If it has been called before.
pub fn hang_locked(held: Held, reached: &'static AtomicU64) {
    assert!(HANG.set((held, reached)).is_ok(), "one such point per process");
}

/// A point in the middle of a change of what processes share: perhaps the last.
pub fn die_locked(held: Held) {
    if let Some((at, reached)) = HANG.get()
        && *at == held
    {
        reached.store(1, SeqCst);
        loop {
            thread::park();
        }
    }
    if let Some(plan) = PLAN.get()
        && strikes(plan, plan.die_locked_per_mille)
    {
        thread::sleep(Duration::from_micros(plan.die_locked_us));
        // Nothing comes after it; that a process may kill itself is certain.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

/// A thread of a stage has taken a connection: perhaps its last.
///
/// # Panics
/// If the plan says so.
pub fn panic_in_visit() {
    let strikes = PLAN.get().is_some_and(|plan| strikes(plan, plan.panic_in_visit_per_mille));
    assert!(!strikes, "a test wants this thread to panic");
}

/// A thread of a stage has taken a connection: perhaps it does not come back.
pub fn hang_in_visit() {
    let Some(Plan { spin_at_visit, sleep_at_visit, .. }) = PLAN.get() else { return };
    let visit = VISITS.fetch_add(1, Relaxed) + 1;
    if visit == *spin_at_visit {
        loop {
            hint::spin_loop();
        }
    }
    if visit == *sleep_at_visit {
        loop {
            thread::park();
        }
    }
}

/// A scout, in which no plan is installed, has opened a root: perhaps it does not come back.
pub fn hang_at_mark(root: &Root) {
    let plan = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<Plan>().ok());
    let marks = plan.is_some_and(|plan| plan.hang_at_mark > 0);
    if marks && statat(root, "hang", AtFlags::empty()).is_ok() {
        loop {
            thread::park();
        }
    }
}

/// In a worker that is about to work: says on standard error what errors it gets, 0 for none, who
/// opens a file outside the root, connects, signals the master, and runs a program.
pub fn probe(master: u32) {
    let Some(port) = PLAN.get().map(|plan| plan.probe_port).filter(|port| *port > 0) else {
        return;
    };
    let errno = |result: io::Result<()>| match result {
        Ok(()) => 0,
        Err(error) => error.raw_os_error().unwrap_or(-1),
    };
    let open = errno(File::open("/etc/passwd").map(drop));
    let connect = errno(TcpStream::connect(("127.0.0.1", port)).map(drop));
    let master = i32::try_from(master).ok().and_then(Pid::from_raw);
    let kill = master.map_or(Err(Errno::SRCH), test_kill_process);
    let kill = errno(kill.map_err(io::Error::from));
    // Returns if it could not be run.
    let run = errno(Err(Command::new("/bin/sh").args(["-c", "exit 99"]).exec()));
    // In one write: other workers say theirs at the same time.
    let line = format!("probe: open {open}, connect {connect}, signal {kill}, run {run}\n");
    eprint!("{line}");
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

/// What a plan may say, one key on each line with what it means.
pub const KEYS: &str = "\
Keys, whose values are whole numbers:
  seed                     where the sequence of faults starts
  short_per_mille          receives and sends that move less than they could
  eintr_per_mille          calls that a signal seems to interrupt
  eagain_per_mille         calls that seem to find nothing to do
  emfile_accept_per_mille  accepts that seem to find no free descriptor
  slow_open_per_mille      opens that take slow_open_us longer
  slow_open_us             how long a slow open takes, microseconds
  slow_read_per_mille      files on a slow disk, and not in memory before their first read
  slow_read_us             how long that read takes, microseconds
  die_locked_per_mille     points in a change of a shared cache at which a worker is killed
  die_locked_us            how long it holds its locks before, microseconds
  panic_in_visit_per_mille connections with which a thread of a stage panics
  spin_at_visit            which connection has the thread of a stage go round in circles
  sleep_at_visit           which connection has the thread of a stage sleep for ever
  hang_at_mark             1: scouts hang at roots with a file of the name hang
  probe_port               workers say whether they can connect to it, and do other mischief";

impl FromStr for Plan {
    type Err = String;

    /// Reads `key=value,…`; what is not named does not strike.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut plan = Self::default();
        let mut given = Vec::new();
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("\"{part}\" is not key=value\n{KEYS}"))?;
            if given.contains(&key) {
                return Err(format!("{key} is there twice"));
            }
            given.push(key);
            match key {
                "seed" => plan.seed = number(key, value)?,
                "short_per_mille" => plan.short_per_mille = rate(key, value)?,
                "eintr_per_mille" => plan.eintr_per_mille = rate(key, value)?,
                "eagain_per_mille" => plan.eagain_per_mille = rate(key, value)?,
                "emfile_accept_per_mille" => plan.emfile_accept_per_mille = rate(key, value)?,
                "slow_open_per_mille" => plan.slow_open_per_mille = rate(key, value)?,
                "slow_open_us" => plan.slow_open_us = number(key, value)?,
                "slow_read_per_mille" => plan.slow_read_per_mille = rate(key, value)?,
                "slow_read_us" => plan.slow_read_us = number(key, value)?,
                "die_locked_per_mille" => plan.die_locked_per_mille = rate(key, value)?,
                "die_locked_us" => plan.die_locked_us = number(key, value)?,
                "panic_in_visit_per_mille" => plan.panic_in_visit_per_mille = rate(key, value)?,
                "spin_at_visit" => plan.spin_at_visit = number(key, value)?,
                "sleep_at_visit" => plan.sleep_at_visit = number(key, value)?,
                "hang_at_mark" => plan.hang_at_mark = number(key, value)?,
                "probe_port" => plan.probe_port = number(key, value)?,
                _ => return Err(format!("there is no key \"{key}\"\n{KEYS}")),
            }
        }
        Ok(plan)
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{key}: expected a whole number, got \"{value}\""))
}

fn rate(key: &str, value: &str) -> Result<u32, String> {
    match number(key, value)? {
        rate @ 0..=1000 => Ok(rate),
        _ => Err(format!("{key}: expected 0 to 1000, got \"{value}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_or_explained() {
        let plan = Plan { seed: 7, short_per_mille: 1000, ..Plan::default() };
        assert_eq!("seed=7,short_per_mille=1000".parse(), Ok(plan));
        let all = "seed=1,short_per_mille=2,eintr_per_mille=3,eagain_per_mille=4,\
                   emfile_accept_per_mille=5,slow_open_per_mille=6,slow_open_us=7,\
                   slow_read_per_mille=8,slow_read_us=9,\
                   die_locked_per_mille=10,panic_in_visit_per_mille=11,probe_port=12,\
                   spin_at_visit=13,sleep_at_visit=14,die_locked_us=15,hang_at_mark=16";
        let expect = Plan {
            seed: 1,
            short_per_mille: 2,
            eintr_per_mille: 3,
            eagain_per_mille: 4,
            emfile_accept_per_mille: 5,
            slow_open_per_mille: 6,
            slow_open_us: 7,
            slow_read_per_mille: 8,
            slow_read_us: 9,
            die_locked_per_mille: 10,
            die_locked_us: 15,
            panic_in_visit_per_mille: 11,
            probe_port: 12,
            spin_at_visit: 13,
            sleep_at_visit: 14,
            hang_at_mark: 16,
        };
        assert_eq!(all.parse(), Ok(expect));
        for (text, part) in [
            ("", "\"\" is not key=value"),
            ("seed", "\"seed\" is not key=value"),
            ("sed=1", "there is no key \"sed\""),
            ("sed=1", "slow_open_us"),
            ("seed=-1", "seed: expected a whole number, got \"-1\""),
            ("eintr_per_mille=1001", "eintr_per_mille: expected 0 to 1000"),
            ("seed=1,seed=2", "seed is there twice"),
        ] {
            let message = text.parse::<Plan>().expect_err(text);
            assert!(message.contains(part), "{message}");
        }
        for key in all.split(',').filter_map(|part| part.split('=').next()) {
            assert!(KEYS.contains(&format!("\n  {key} ")), "{key} is not explained");
        }
    }
}
