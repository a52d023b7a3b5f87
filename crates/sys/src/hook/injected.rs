//! Faults on demand: short reads and writes, interruptions, full tables and slow disks.
use super::{Call, Held};
use crate::{Root, shm};
use rustix::{
    fs::{AtFlags, statat},
    io::Errno,
    process::{Pid, Signal, getpid, kill_process, test_kill_process},
};
use std::{
    fmt,
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

/// Kinds and rates of faults. Rates count in 1,000 calls of their kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Start of the sequence of faults. With the same seed, a thread that makes the same calls gets
    /// the same faults.
    pub seed: u64,
    /// Receives and sends that move fewer bytes than they could. Receives do not once this process
    /// waits for edges: no edge announces what a short one leaves behind. Such a process may take a
    /// short one for an empty socket (epoll(7), question 9).
    pub short_per_mille: u32,
    /// Calls, waits included, that a signal seems to interrupt. At most 900 count.
    pub eintr_per_mille: u32,
    /// Receives, sends and accepts that seem to find nothing to do. None once this process waits
    /// for edges: there would be no further one. Leave it 0 with blocking sockets.
    pub eagain_per_mille: u32,
    /// Accepts that seem to find the table of descriptors full.
    pub emfile_accept_per_mille: u32,
    /// Opens that take `slow_open_us` longer.
    pub slow_open_per_mille: u32,
    /// Duration of a slow open, microseconds.
    pub slow_open_us: u64,
    /// Files in 1,000 that are on a slow disk, and not in memory at first. Reading or sending from
    /// one takes `slow_read_us` longer until one read has waited for it. Until then a query says
    /// that it is not in memory.
    pub slow_read_per_mille: u32,
    /// Duration of the first read of such a file, microseconds.
    pub slow_read_us: u64,
    /// Points in the middle of a change of shared data at which this process is killed while it
    /// holds the locks.
    pub die_locked_per_mille: u32,
    /// Time for which it holds the locks before, microseconds, so that others wait for them.
    pub die_locked_us: u64,
    /// Connections that a thread of a stage takes out of its queue, and then panics.
    pub panic_in_visit_per_mille: u32,
    /// Number, from 1 on, of the visit to a stage whose thread loops for ever. 0: none.
    pub spin_at_visit: u64,
    /// Number of the visit whose thread sleeps for ever. 0: none.
    pub sleep_at_visit: u64,
    /// 1: scouts hang at roots that have a file named `hang`.
    pub hang_at_mark: u32,
    /// A port of this machine on which the test listens. Each worker reports before it works the
    /// results of what it should not be able to do. 0: no report.
    pub probe_port: u16,
}

/// Words of the map of files that a read has waited for, one bit for each.
const WARM_WORDS: usize = 1 << 14;

static PLAN: OnceLock<Plan> = OnceLock::new();
static EDGE: AtomicBool = AtomicBool::new(false);
static HANG: OnceLock<(Held, &AtomicU64)> = OnceLock::new();
static ROLLS: AtomicU64 = AtomicU64::new(0);
static STRUCK: AtomicU64 = AtomicU64::new(0);
static VISITS: AtomicU64 = AtomicU64::new(0);
/// Shared with processes forked later, like the page cache that it models.
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

/// Variable with the faults to inject, in a build that has them: a [`Plan`] as text.
const VARIABLE: &str = "REGATTA_INJECT";

/// [`inject`] with the plan of the environment; does nothing without one.
///
/// # Panics
/// If the plan is malformed.
pub fn inject_as_told() {
    if let Ok(text) = std::env::var(VARIABLE) {
        inject(text.parse().unwrap_or_else(|error| panic!("{VARIABLE}: {error}")));
    }
}

/// Number of faults that have struck this process.
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
            // Half of them are very short, so that heads are cut everywhere.
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

/// Makes this process stop at its next point of this kind, while it holds the locks. It then sets
/// `reached` to 1.
///
/// # Panics
/// If it was called before.
pub fn hang_locked(held: Held, reached: &'static AtomicU64) {
    assert!(HANG.set((held, reached)).is_ok(), "one such point per process");
}

/// Marks a point in the middle of a change of shared data: the process may hang or die here.
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
        // The kill does not return, and a process may always kill itself.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

/// Marks that a thread of a stage has taken a connection: it may panic here.
///
/// # Panics
/// If the plan says so.
pub fn panic_in_visit() {
    let strikes = PLAN.get().is_some_and(|plan| strikes(plan, plan.panic_in_visit_per_mille));
    assert!(!strikes, "a test wants this thread to panic");
}

/// Marks that a thread of a stage has taken a connection: it may hang here.
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

/// Marks that a scout, in which no plan is installed, has opened a root: it may hang here.
pub fn hang_at_mark(root: &Root) {
    let plan = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<Plan>().ok());
    let marks = plan.is_some_and(|plan| plan.hang_at_mark > 0);
    if marks && statat(root, "hang", AtFlags::empty()).is_ok() {
        loop {
            thread::park();
        }
    }
}

/// Reports the errors, 0 for none, of a worker that is about to work: it opens a file outside the
/// root, connects, signals the master, and runs a program. Writes them to standard error.
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
    // Returns only if it could not be run.
    let run = errno(Err(Command::new("/bin/sh").args(["-c", "exit 99"]).exec()));
    // One write: other workers report at the same time.
    let line = format!("probe: open {open}, connect {connect}, signal {kill}, run {run}\n");
    eprint!("{line}");
}

/// Whether an open that must not block finds that it would.
pub(crate) fn blocks() -> bool {
    PLAN.get().is_some_and(|plan| strikes(plan, plan.slow_open_per_mille))
}

/// Duration of a slow open, microseconds.
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

/// Time that a read of the file would wait, microseconds.
pub(crate) fn cold_us(inode: u64) -> u64 {
    let Some((plan, (word, bit))) = PLAN.get().zip(place(inode)) else { return 0 };
    let slow = mix(inode.wrapping_add(plan.seed)) % 1000 < u64::from(plan.slow_read_per_mille);
    if slow && word.load(Relaxed) & bit == 0 { plan.slow_read_us } else { 0 }
}

/// Notes that a read has waited for the file.
pub(crate) fn warm(inode: u64) {
    if let Some((word, bit)) = place(inode) {
        word.fetch_or(bit, Relaxed);
        STRUCK.fetch_add(1, Relaxed);
    }
}

/// Word and bit of the map for the file.
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

/// Keys of a plan, one on each line with its meaning.
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

/// Fault of the text of a [`Plan`].
#[derive(Debug, PartialEq, Eq)]
pub enum PlanError {
    /// A part is not `key=value`.
    NoPair(String),
    /// A key is there twice.
    Twice(String),
    /// No such key.
    UnknownKey(String),
    /// The value of a key is no whole number.
    NoNumber(String, String),
    /// The value of a rate is more than 1,000.
    NoRate(String, String),
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPair(part) => write!(f, "\"{part}\" is not key=value\n{KEYS}"),
            Self::Twice(key) => write!(f, "{key} is there twice"),
            Self::UnknownKey(key) => write!(f, "there is no key \"{key}\"\n{KEYS}"),
            Self::NoNumber(key, value) => {
                write!(f, "{key}: expected a whole number, got \"{value}\"")
            }
            Self::NoRate(key, value) => {
                write!(f, "{key}: expected 0 to 1000, got \"{value}\"")
            }
        }
    }
}

impl std::error::Error for PlanError {}

impl FromStr for Plan {
    type Err = PlanError;

    /// Parses `key=value,…`; faults without a key do not strike.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut plan = Self::default();
        let mut given = Vec::new();
        for part in text.split(',') {
            let pair = part.split_once('=');
            let (key, value) = pair.ok_or_else(|| PlanError::NoPair(part.to_owned()))?;
            if given.contains(&key) {
                return Err(PlanError::Twice(key.to_owned()));
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
                _ => return Err(PlanError::UnknownKey(key.to_owned())),
            }
        }
        Ok(plan)
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, PlanError> {
    let fault = |_| PlanError::NoNumber(key.to_owned(), value.to_owned());
    value.parse().map_err(fault)
}

fn rate(key: &str, value: &str) -> Result<u32, PlanError> {
    match number(key, value)? {
        rate @ 0..=1000 => Ok(rate),
        _ => Err(PlanError::NoRate(key.to_owned(), value.to_owned())),
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
            let message = text.parse::<Plan>().expect_err(text).to_string();
            assert!(message.contains(part), "{message}");
        }
        for key in all.split(',').filter_map(|part| part.split('=').next()) {
            assert!(KEYS.contains(&format!("\n  {key} ")), "{key} is not explained");
        }
    }
}
