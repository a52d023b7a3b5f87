//! Crews of real processes. A program of its own, with one thread: the usual harness has several.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use regatta_sys::{
    StaticFile,
    crew::{self, Crew, Member, SweepOutcome},
    process::{Child, Exit, clone_worker},
    signal::Signal,
};
use regatta_testkit::{folder::Folder, waits::eventually};
use rustix::io::fcntl_dupfd_cloexec;
use std::{
    fs::{self, File},
    io::Read,
    os::{
        fd::{AsFd, AsRawFd},
        unix::net::{UnixListener, UnixStream},
    },
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

const WORKERS: usize = 4;

/// A crew and some shared words for the test.
fn crew() -> (Crew, &'static [AtomicU64]) {
    let books = Crew::count_words(WORKERS, 1024);
    let memory = crew::create_words(books + 64).unwrap();
    let (books, words) = memory.words().split_at(books);
    // Its descriptor stays open for the rest of the program, like its mapping.
    std::mem::forget(memory);
    (Crew::create(books, WORKERS, 1024).unwrap(), words)
}

fn member(crew: Crew, worker: usize, work: impl FnOnce(&'static Member) + Copy) -> Child {
    clone_worker(move || {
        work(crew.enter(worker).unwrap());
        0
    })
    .unwrap()
}

fn main() {
    let tests: [(&str, fn()); 10] = [
        ("a_descriptor_is_of_all", a_descriptor_is_of_all),
        ("a_connection_at_a_path_is_of_all", a_connection_at_a_path_is_of_all),
        ("the_kernel_marks_the_dead", the_kernel_marks_the_dead),
        ("a_lock_excludes", a_lock_excludes),
        ("a_lock_outlives_its_holder", a_lock_outlives_its_holder),
        ("files_are_closed_by_the_last_user", files_are_closed_by_the_last_user),
        ("what_the_dead_had_open_is_closed", what_the_dead_had_open_is_closed),
        ("what_the_dead_had_given_up_is_closed", what_the_dead_had_given_up_is_closed),
        ("what_the_master_takes_stays_open", what_the_master_takes_stays_open),
        ("a_stale_number_is_not_closed", a_stale_number_is_not_closed),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    println!("test result: ok. {} passed; 0 failed; 0 ignored", tests.len());
}

/// True if a process sleeps: one that only takes a lock waits for it.
fn sleeps(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
}

fn link(number: i32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/self/fd/{number}")).ok()
}

fn a_descriptor_is_of_all() {
    let (crew, words) = crew();
    let child = member(crew, 0, |_| {
        let file = File::open("/proc/self/status").unwrap();
        words[0].store(u64::from(file.as_raw_fd().unsigned_abs()), SeqCst);
        std::mem::forget(file);
    });
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
    let number = i32::try_from(words[0].load(SeqCst)).unwrap();
    assert!(link(number).is_some_and(|link| link.ends_with("status")), "what a child opens");
    assert_eq!(crew.bury(0, &child), SweepOutcome::Done);
    assert_eq!(link(number), None, "and had not entered is found");
}

/// A client that waits at the other end sees the connection end.
fn a_connection_at_a_path_is_of_all() {
    let folder = Folder::new("crew-path");
    let listener = UnixListener::bind(folder.join("socket")).unwrap();
    let mut client = UnixStream::connect(folder.join("socket")).unwrap();
    let (crew, _words) = crew();
    let child = member(crew, 0, |_| std::mem::forget(listener.accept().unwrap()));
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
    assert_eq!(crew.bury(0, &child), SweepOutcome::Done);
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
}

fn the_kernel_marks_the_dead() {
    let (crew, words) = crew();
    for kill in [false, true] {
        let child = member(crew, 1, |me| {
            words[0].store(me.stamp().into(), SeqCst);
            if kill {
                thread::sleep(Duration::from_secs(100));
            }
        });
        eventually(|| words[0].load(SeqCst) != 0);
        let stamp = u32::try_from(words[0].swap(0, SeqCst)).unwrap();
        if kill {
            assert!(crew.lives(1) && !crew.is_dead(stamp));
            child.kill(Signal::Kill).unwrap();
        }
        // Not reaped yet: the kernel marks the death.
        eventually(|| crew.is_dead(stamp) && !crew.lives(1));
        child.wait().unwrap();
    }
    assert_eq!(crew.incarnation(1), 2);
}

/// Two words that are equal whenever no process is inside; under a lock, or with readers.
fn a_lock_excludes() {
    let (crew, words) = crew();
    const ROUNDS: u64 = 20_000;
    let (lock, table) = (&words[0], &words[16]);
    let children: Vec<_> = (0..WORKERS)
        .map(|worker| {
            member(crew, worker, |me| {
                for round in 0..ROUNDS {
                    let grip = me.lock(lock);
                    assert!(!grip.died);
                    let sum = words[1].load(SeqCst);
                    words[2].store(sum + 1, SeqCst);
                    words[1].store(sum + 1, SeqCst);
                    drop(grip);
                    let grip = if round % 16 == 0 { me.write(table) } else { me.read(table) };
                    let (a, b) = (words[17].load(SeqCst), words[18].load(SeqCst));
                    assert_eq!(a, b, "nobody writes meanwhile");
                    if round % 16 == 0 {
                        words[17].store(a + 1, SeqCst);
                        words[18].store(a + 1, SeqCst);
                    }
                    drop(grip);
                }
            })
        })
        .collect();
    for child in children {
        assert_eq!(child.wait().unwrap(), Exit::Code(0));
    }
    let workers = WORKERS as u64;
    assert_eq!(words[1].load(SeqCst), workers * ROUNDS);
    assert_eq!(words[18].load(SeqCst), workers * ROUNDS.div_ceil(16));
}

fn a_lock_outlives_its_holder() {
    let (crew, words) = crew();
    let lock = &words[0];
    for (worker, how) in ["lock", "read", "write"].into_iter().enumerate() {
        let child = member(crew, worker, |me| {
            let grip = match how {
                "lock" => me.lock(lock),
                "read" => me.read(lock),
                _ => me.write(lock),
            };
            words[1].store(1, SeqCst);
            thread::sleep(Duration::from_secs(100));
            drop(grip);
        });
        eventually(|| words[1].swap(0, SeqCst) == 1);
        let other = member(crew, 3, |me| {
            let start = Instant::now();
            let grip = me.write(lock);
            assert!(start.elapsed() > Duration::from_millis(40), "it was held: {how}");
            assert_eq!(grip.died, how != "read", "{how}");
            assert!(grip.waited.contended && grip.waited.ns > 0);
            drop(grip);
            let grip = me.read(lock);
            assert!(!grip.died);
        });
        eventually(|| sleeps(other.pid()));
        thread::sleep(Duration::from_millis(50));
        child.kill(Signal::Kill).unwrap();
        assert_eq!(other.wait().unwrap(), Exit::Code(0), "{how}");
        child.wait().unwrap();
    }
}

fn open(folder: &Folder) -> StaticFile {
    StaticFile::adopt(File::open(folder.join("file")).unwrap().into()).unwrap()
}

fn folder() -> Folder {
    let folder = Folder::new("crew");
    fs::write(folder.join("file"), "hello").unwrap();
    folder
}

fn files_are_closed_by_the_last_user() {
    let folder = folder();
    let (crew, words) = crew();
    // One worker opens and gives to the cache; another borrows, and keeps it longer than the cache.
    let opener = member(crew, 0, |me| {
        let file = me.acquire(|| me.lend(open(&folder)));
        let number = file.shared_number().unwrap();
        assert!(me.owns(number));
        me.adopt(number);
        words[0].store(number.into(), SeqCst);
        drop(file);
        eventually(|| words[1].load(SeqCst) == 1);
        me.retire(number);
        me.close_unused(number);
        words[1].store(2, SeqCst);
    });
    let user = member(crew, 1, |me| {
        eventually(|| words[0].load(SeqCst) != 0);
        let number = u32::try_from(words[0].load(SeqCst)).unwrap();
        let file = me.lease(number).unwrap().file(regatta_op::FileId::default());
        let clone = file.clone();
        words[1].store(1, SeqCst);
        eventually(|| words[1].load(SeqCst) == 2);
        assert!(me.lease(number).is_none(), "given up");
        drop(file);
        let raw = clone.as_fd().as_raw_fd();
        assert!(link(raw).is_some(), "still in use");
        drop(clone);
        assert_eq!(link(raw), None);
        let own = me.acquire(|| me.lend(open(&folder)));
        let raw = own.as_fd().as_raw_fd();
        drop(own);
        assert_eq!(link(raw), None, "a file that nobody adopts is closed at once");
    });
    for child in [opener, user] {
        assert_eq!(child.wait().unwrap(), Exit::Code(0));
    }
    assert_eq!(crew.files(), (0, 0));
}

fn what_the_dead_had_open_is_closed() {
    let folder = folder();
    let (crew, words) = crew();
    let before = fs::read_dir("/proc/self/fd").unwrap().count();
    let child = member(crew, 2, |me| {
        let entered = me.acquire(|| me.lend(open(&folder)));
        let cached = me.acquire(|| me.lend(open(&folder)));
        me.adopt(cached.shared_number().unwrap());
        let unknown = open(&folder);
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        drop(socket);
        me.acquire(|| {
            words[0].store(1, SeqCst);
            thread::sleep(Duration::from_secs(100));
        });
        drop((entered, cached, unknown, peer));
    });
    eventually(|| words[0].load(SeqCst) == 1);
    assert_eq!(crew.sweep(), SweepOutcome::Later, "a worker is at it");
    child.kill(Signal::Kill).unwrap();
    child.wait().unwrap();
    assert_eq!(crew.bury(2, &child), SweepOutcome::Done);
    assert_eq!(crew.files(), (1, 0), "the cache has not lost its file");
    let open = fs::read_dir("/proc/self/fd").unwrap().count();
    assert_eq!(open, before + 2, "but for that, and a pidfd");
}

/// A file that the cache releases under a lock is closed after it. A worker that dies in between
/// leaves it open, and so does one that dies with a use of it.
fn what_the_dead_had_given_up_is_closed() {
    let folder = folder();
    let (crew, words) = crew();
    let child = member(crew, 0, |me| {
        for word in &words[..2] {
            let file = me.acquire(|| me.lend(open(&folder)));
            let number = file.shared_number().unwrap();
            me.adopt(number);
            drop(file);
            word.store(number.into(), SeqCst);
        }
        let [unused, used] = [0, 1].map(|at| u32::try_from(words[at].load(SeqCst)).unwrap());
        std::mem::forget(me.lease(used));
        me.retire(unused);
        me.retire(used);
    });
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
    let links = || {
        let number = |word: &AtomicU64| i32::try_from(word.load(SeqCst)).unwrap();
        words[..2].iter().filter(|word| link(number(word)).is_some()).count()
    };
    assert_eq!((crew.files(), links()), ((0, 2), 2));
    assert_eq!(crew.bury(0, &child), SweepOutcome::Done);
    assert_eq!((crew.files(), links()), ((0, 0), 0));
}

/// A worker that dies right after a close leaves the number under its name; the master may be the
/// next to get it.
fn what_the_master_takes_stays_open() {
    let (crew, words) = crew();
    let child = member(crew, 0, |member| {
        let file = File::open("/dev/null").unwrap();
        member.acquire(|| member.claim(file.as_fd()));
        words[0].store(u64::try_from(file.as_raw_fd()).unwrap(), SeqCst);
        std::mem::forget(member.closing(file.as_fd()));
    });
    assert_eq!(child.wait().unwrap(), Exit::Code(0));
    let mine = File::open("/proc/self/exe").unwrap();
    assert_eq!(u64::try_from(mine.as_raw_fd()).unwrap(), words[0].load(SeqCst), "the same number");
    crew.keep(mine.as_fd());
    assert_eq!(crew.bury(0, &child), SweepOutcome::Done);
    assert!(link(mine.as_raw_fd()).is_some(), "still open");
    crew.give_up(mine.as_fd());
}

/// A worker closes a descriptor without reporting it. Another gets the number, and has not entered
/// it yet when the keeper buries the first.
fn a_stale_number_is_not_closed() {
    let (crew, words) = crew();
    // A number that nothing else gets.
    let open = || fcntl_dupfd_cloexec(File::open("/proc/self/exe").unwrap(), 900).unwrap();
    let first = member(crew, 0, |me| {
        let file = me.acquire(|| {
            let file = open();
            me.claim(file.as_fd());
            file
        });
        words[0].store(u64::try_from(file.as_raw_fd()).unwrap(), SeqCst);
    });
    assert_eq!(first.wait().unwrap(), Exit::Code(0));
    let second = member(crew, 1, |me| {
        let file = me.acquire(|| {
            let file = open();
            let number = u64::try_from(file.as_raw_fd()).unwrap();
            assert_eq!(number, words[0].load(SeqCst), "the same number");
            words[1].store(1, SeqCst);
            eventually(|| words[1].load(SeqCst) == 2);
            me.claim(file.as_fd());
            file
        });
        words[1].store(3, SeqCst);
        eventually(|| words[1].load(SeqCst) == 4);
        assert!(link(file.as_raw_fd()).is_some(), "it is closed");
        drop(me.closing(file.as_fd()));
    });
    eventually(|| words[1].load(SeqCst) == 1);
    assert_eq!(crew.bury(0, &first), SweepOutcome::Later, "a worker is at it");
    words[1].store(2, SeqCst);
    eventually(|| words[1].load(SeqCst) == 3 && crew.sweep() == SweepOutcome::Done);
    words[1].store(4, SeqCst);
    assert_eq!(second.wait().unwrap(), Exit::Code(0));
}
