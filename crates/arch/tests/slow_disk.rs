//! systems.md §8.6: one request waits for a slow disk, in an open, a read or a sendfile. AMPED and
//! LAIO meanwhile answer a request for a cached file at once. In SPED the request waits, and the
//! ledger gives the cause. A program of its own: workers fork.
//!
//! Slow are injected faults, and the simulated disk once the page cache has lost the files.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "arch/env.rs"]
mod env;

use env::{ask, connect, env, head, settings, share};
use regatta_arch::{ARCHITECTURES, Env, conn::accept, find};
use regatta_metrics::{Arena, Counter};
use regatta_origin::{CachingRules, Site};
use regatta_sys::{
    Bell, Resident, StaticFile, by_mincore,
    hook::{self, Plan},
    process::{Child, Exit, fork_worker},
    simulated_disk::{self, Model},
    socket::{ListenSpec, listen, local_addr},
};
use regatta_testkit::folder::Folder;
use rustix::fs::{Advice, fadvise};
use std::{
    collections::HashMap,
    fs,
    io::Read,
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

/// Long enough that a busy machine answers from memory within it.
const SLOW: Duration = Duration::from_millis(1000);

/// A slow operation, and where its time is counted.
#[derive(Clone, Copy)]
struct SlowCase {
    /// Name of the operation.
    slow: &'static str,
    /// The requested file.
    file: &'static str,
    /// Counter of the stalls in the ledger.
    stall: Counter,
    /// Counter of the time.
    time: Counter,
}

const SLOW_OPEN: SlowCase =
    SlowCase { slow: "open", file: "cold", stall: Counter::StallOpen, time: Counter::OpensNs };
const SLOW_READ: SlowCase =
    SlowCase { slow: "read", file: "cold", stall: Counter::StallRead, time: Counter::ReadsNs };
const SLOW_SEND: SlowCase =
    SlowCase { slow: "read", file: "large", stall: Counter::StallSend, time: Counter::SendfileNs };

const FAULTS: [SlowCase; 5] = [
    SLOW_OPEN,
    SLOW_READ,
    SLOW_SEND,
    SlowCase { slow: STAND_IN, ..SLOW_READ },
    SlowCase { slow: STAND_IN, ..SLOW_SEND },
];

/// Slow reads of what is no longer in the page cache.
const STAND_IN: &str = "stand-in";

/// An architecture, its options, and whether a request for a cached file waits for the disk.
type Row = (&'static str, &'static [(&'static str, &'static str)], bool);

const ROWS: [Row; 10] = [
    ("sped", &[], true),
    ("amped", &[("amped.helper_kind", "threads")], false),
    ("amped", &[("amped.helper_kind", "processes")], false),
    ("flash-1999", &[("flash.residency", "mincore")], false),
    ("flash-linux", &[("flash.residency", "mapped")], false),
    ("laio", &[("laio.engine", "uring")], false),
    ("laio", &[("laio.engine", "nowait")], false),
    ("auto", &[], false),
    ("uring", &[("uring.body", "read")], false),
    ("uring", &[("uring.body", "splice")], false),
];

/// Longer than a body that is kept in memory: sent from the file.
const LARGE_BYTES: usize = 200_000;

fn main() {
    let path = Folder::new("slow");
    let cases = ROWS.iter().flat_map(|row| FAULTS.map(|fault| (row, fault))).enumerate();
    // Each case has files of its own: what one has read would be in memory for all.
    let cases: Vec<_> = cases
        .map(|(case, (row, fault))| (write(&path.join(case.to_string())), row, fault))
        .filter(|(files, _, fault)| fault.slow != STAND_IN || forgets(files))
        .collect();
    // Start all servers first: this process must have one thread while it forks.
    let servers: Vec<_> =
        cases.iter().map(|(files, row, fault)| Server::start(files, row, *fault)).collect();
    thread::scope(|scope| {
        for server in &servers {
            scope.spawn(move || {
                server.check();
                println!("test {} ... ok", server.what);
            });
        }
    });
    println!("test result: ok. {} passed; 0 failed; 0 ignored", servers.len());
}

/// Makes the files of a server.
fn write(folder: &Path) -> PathBuf {
    fs::create_dir(folder).unwrap();
    for name in ["warm", "cold", "gone", "large"] {
        fs::write(folder.join(name), content(name)).unwrap();
    }
    folder.to_owned()
}

/// Makes the page cache lose all files but one; false if the file system does not allow that.
fn forgets(folder: &Path) -> bool {
    ["cold", "gone", "large"].iter().all(|name| {
        let file = fs::File::open(folder.join(name)).unwrap();
        file.sync_all().unwrap();
        fadvise(&file, 0, None, Advice::DontNeed).unwrap();
        let file = StaticFile::adopt(file.into()).unwrap();
        let lost = by_mincore(&file, 0, 1) == Resident::No;
        if !lost {
            println!("without the stand-in: {} stays in memory", folder.join(name).display());
        }
        lost
    })
}

fn content(name: &str) -> Vec<u8> {
    if name == "large" { vec![b'x'; LARGE_BYTES] } else { name.into() }
}

fn install(slow: &str) {
    let us = u64::try_from(SLOW.as_micros()).unwrap();
    match slow {
        STAND_IN => simulated_disk::install(Model { seek_us: us, bandwidth: 0, heads: 2 }).unwrap(),
        "open" => {
            hook::inject(Plan { slow_open_per_mille: 1000, slow_open_us: us, ..Plan::default() })
        }
        _ => hook::inject(Plan { slow_read_per_mille: 1000, slow_read_us: us, ..Plan::default() }),
    }
}

/// Worker whose disk is slow in one way.
struct Server {
    what: String,
    waits: bool,
    /// Whether the loop itself performs the slow operation, sooner or later.
    performs: bool,
    file: &'static str,
    stall: Counter,
    time: Counter,
    address: SocketAddr,
    arena: Arena<'static>,
    bell: Bell,
    child: Child,
}

impl Server {
    fn start(path: &Path, row: &Row, fault: SlowCase) -> Self {
        let SlowCase { slow, file, stall, time } = fault;
        let (name, options, waits) = row;
        let env = patient(path, options);
        let address = local_addr(env.sockets[0].as_fd()).unwrap();
        let driver = find(name).unwrap().driver;
        let channel = env.root_channels[0].as_fd();
        let keep = [env.sockets[0].as_fd(), env.root.as_fd(), channel, env.bells[0].as_fd()];
        let child = fork_worker(&keep, || {
            install(slow);
            match (driver.work)(&env, 0) {
                Ok(()) => 0,
                Err(why) => {
                    eprintln!("{why}");
                    1
                }
            }
        });
        let child = child.unwrap();
        let what = format!("{name} {options:?}, slow {slow}, {file}");
        let Env { arena, mut bells, .. } = env;
        let bell = bells.remove(0);
        // Flash's loop opens again what a helper has opened, so another connection may wait.
        let performs = *waits || slow == "open" && name.starts_with("flash");
        Self { what, waits: *waits, performs, file, stall, time, address, arena, bell, child }
    }

    /// Asks for a cached file while another is being opened, read or sent.
    fn check(&self) {
        let Self { what, waits, performs, file, .. } = self;
        let mut client = connect(self.address);
        let mut warm = || {
            ask(&mut client, &["warm"]);
            assert_eq!(answer(&mut client), content("warm"));
        };
        // A round is entered at its end: by then another has answered.
        warm();
        warm();
        let before = self.stalls();
        let mut other = connect(self.address);
        let begin = Instant::now();
        ask(&mut other, &[*file]);
        thread::sleep(SLOW / 10);
        warm();
        let waited = begin.elapsed() >= SLOW;
        assert_eq!(waited, *waits, "{what}: answered after {:?}", begin.elapsed());
        assert_eq!(answer(&mut other), content(file));
        assert!(begin.elapsed() >= SLOW, "{what}: the disk was slow");
        warm();
        for (counter, stalls) in self.stalls() {
            let more = stalls - before[&counter];
            match counter {
                Counter::StallRound => assert!(!performs || more > 0, "{what}: no round stalled"),
                _ => {
                    let expect = u64::from(*performs && counter == self.stall);
                    assert_eq!(more, expect, "{what}: {}", counter.name());
                }
            }
        }
        let spent = Duration::from_nanos(self.arena.slot(0).get(self.time));
        assert_eq!(spent >= SLOW, *performs, "{what}: the loop has spent {spent:?} on it");
        assert_eq!(self.arena.slot(0).get(Counter::DiskCompletionsDropped), 0);
        self.leave();
    }

    /// Tests a client that leaves while its file is opened or read: nothing of it stays.
    fn leave(&self) {
        ask(&mut connect(self.address), &["gone"]);
        thread::sleep(SLOW / 10);
        self.arena.control().stop();
        self.bell.ring();
        let begin = Instant::now();
        assert_eq!(self.child.wait().unwrap(), Exit::Code(0));
        let took = begin.elapsed();
        assert!(self.waits || took < SLOW, "{}: left after {took:?}", self.what);
    }

    /// Counters of stalls.
    fn stalls(&self) -> HashMap<Counter, u64> {
        use Counter::{StallOpen, StallRead, StallRound, StallSend};
        let slot = self.arena.slot(0);
        [StallOpen, StallRead, StallSend, StallRound].map(|one| (one, slot.get(one))).into()
    }
}

/// Environment of one worker, for which a machine busy with other work is no slow disk.
fn patient(path: &Path, options: &[(&str, &str)]) -> Env {
    let specs = ARCHITECTURES.iter().flat_map(|one| one.driver.options).chain(accept::OPTIONS);
    let sets = [options, &[("event.stall_us", "500 ms")]].concat();
    let settings = settings(&specs.collect::<Vec<_>>(), &sets);
    let listener = listen(&ListenSpec::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let caching = CachingRules { revalidate_ms: 60_000, ..CachingRules::default() };
    Env {
        site: Site { caching, ..Site::default() },
        ..env(path, settings, vec![listener], vec![share(0..1, 0..1, 100)])
    }
}

/// Reads the next response, and returns its body.
fn answer(client: &mut TcpStream) -> Vec<u8> {
    let head = head(client).to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    let mut body = vec![0; length.parse().unwrap()];
    client.read_exact(&mut body).unwrap();
    body
}
