//! Forked workers. A program of its own, with one thread: the usual harness has several.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use regatta_sys::{
    Bell, Root,
    fiber::{self, Guard, STACK_BYTES_MIN, Stacks, has_light_guards},
    process::{Child, Exit, User, fork_worker, set_user, threads},
    sandbox::{Confine, Sandbox, confine, landlock_version},
    shm::{self, AttachError},
    signal::{ReceivedSignal, Signal, Signals},
    simulated_disk::{self, Model},
    wait::{Interest, Poll, Poller},
};
use regatta_testkit::{folder::Folder, waits::eventually};
use std::{
    fs,
    io::{self, ErrorKind, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
    process,
    sync::atomic::{AtomicU64, Ordering::SeqCst},
    thread,
    time::{Duration, Instant},
};

fn main() {
    let tests: &[(&str, fn())] = &[
        ("a_worker_that_cannot_be_watched_is_reaped", a_worker_that_cannot_be_watched_is_reaped),
        ("fork_with_threads_is_refused", fork_with_threads_is_refused),
        ("exit_codes_and_signals_are_told_apart", exit_codes_and_signals_are_told_apart),
        ("what_a_worker_does_is_known_without_files", what_a_worker_does_is_known_without_files),
        ("a_panic_aborts_the_worker_only", a_panic_aborts_the_worker_only),
        ("an_overflow_of_a_stack_ends_the_worker", an_overflow_of_a_stack_ends_the_worker),
        ("only_what_is_kept_stays_open", only_what_is_kept_stays_open),
        ("memory_is_shared_with_workers", memory_is_shared_with_workers),
        ("memory_is_found_by_process_number", memory_is_found_by_process_number),
        ("memory_of_another_user_is_denied", memory_of_another_user_is_denied),
        ("workers_die_with_their_master", workers_die_with_their_master),
        ("workers_that_become_another_user_die_too", workers_that_become_another_user_die_too),
        ("signals_are_read", signals_are_read),
        ("a_bell_wakes_another_process", a_bell_wakes_another_process),
        ("a_head_is_shared_and_never_lost", a_head_is_shared_and_never_lost),
        ("privileges_are_gone_for_good", privileges_are_gone_for_good),
        (CONFINED, a_confined_worker_reaches_what_it_is_given),
    ];
    let is_root = rustix::process::geteuid().is_root();
    let mut passed = 0;
    for (name, test) in tests {
        // In the words of the usual harness.
        if NEED_ROOT.contains(name) && !is_root {
            println!("test {name} ... ignored, needs root");
            continue;
        }
        if *name == CONFINED && landlock_version() == 0 {
            println!("test {name} ... ignored, needs Landlock");
            continue;
        }
        test();
        println!("test {name} ... ok");
        passed += 1;
    }
    println!("test result: ok. {passed} passed; 0 failed; {} ignored", tests.len() - passed);
}

/// Tests that change the user.
const NEED_ROOT: [&str; 3] = [
    "memory_of_another_user_is_denied",
    "workers_that_become_another_user_die_too",
    "privileges_are_gone_for_good",
];

/// Test that needs Landlock.
const CONFINED: &str = "a_confined_worker_reaches_what_it_is_given";

fn child(work: impl FnOnce() -> i32) -> Child {
    fork_worker::<OwnedFd>(&[], work).unwrap()
}

/// Work of a child that is to be killed.
fn wait_for_ever() -> i32 {
    loop {
        thread::sleep(Duration::from_secs(1));
    }
}

fn is_running(pid: u32) -> bool {
    // The third field is the state; the second is in parentheses.
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.starts_with(" Z"))
}

fn fork_with_threads_is_refused() {
    let worker = child(|| {
        std::panic::set_hook(Box::new(|_| {}));
        thread::spawn(thread::park);
        assert_eq!(threads().unwrap(), 2);
        // Panics, hence aborts this process.
        fork_worker::<OwnedFd>(&[], || 0).map_or(1, |_| 0)
    });
    assert_eq!(worker.wait().unwrap(), Exit::Signal(libc::SIGABRT));
}

fn exit_codes_and_signals_are_told_apart() {
    for code in [0, 1, 200] {
        let worker = child(move || code);
        assert_ne!(worker.pid(), process::id());
        assert_eq!(worker.wait().unwrap(), Exit::Code(code));
        assert!(worker.try_wait().is_err(), "reaped once");
        assert!(worker.kill(Signal::Terminate).is_err(), "and nobody else gets the signal");
    }
    let worker = child(wait_for_ever);
    assert_eq!(worker.try_wait().unwrap(), None);
    let mut poller = Poll::new();
    poller.add(worker.as_fd(), 1, Interest::READ).unwrap();
    let mut events = Vec::new();
    assert_eq!(poller.wait(&mut events, Some(Duration::ZERO)).unwrap(), 0);
    worker.kill(Signal::Kill).unwrap();
    assert_eq!(poller.wait(&mut events, Some(Duration::from_secs(30))).unwrap(), 1);
    assert_eq!(worker.try_wait().unwrap(), Some(Exit::Signal(libc::SIGKILL)));
}

fn what_a_worker_does_is_known_without_files() {
    let worker = child(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    eventually(|| worker.busy().unwrap() >= Duration::from_millis(20));
    assert!(!worker.is_stopped().unwrap());
    let signal = |which| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(worker.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, which).unwrap();
    };
    signal(rustix::process::Signal::STOP);
    eventually(|| worker.is_stopped().unwrap());
    assert!(worker.is_stopped().unwrap(), "it is told as often as it is asked");
    assert_eq!(worker.try_wait().unwrap(), None);
    signal(rustix::process::Signal::CONT);
    eventually(|| !worker.is_stopped().unwrap());
    worker.kill(Signal::Kill).unwrap();
    assert_eq!(worker.wait().unwrap(), Exit::Signal(libc::SIGKILL));
    assert!(worker.busy().is_err() && worker.is_stopped().is_err(), "reaped");
}

/// Takes ever more of a stack.
fn descend(from: usize) -> usize {
    let here = std::hint::black_box([from; 64]);
    if from == 0 { 0 } else { descend(from - 1) + here[1] }
}

fn an_overflow_of_a_stack_ends_the_worker() {
    let overflow = |guard, depth| {
        let worker = child(move || {
            let stacks = Stacks::new(2, STACK_BYTES_MIN, guard).unwrap();
            fiber::scope(stacks, |fibers| {
                // Without a guard the upper stack would overflow into the lower one.
                for _ in 0..2 {
                    let life = move |turns: &fiber::Turns<'_, (), usize>, ()| {
                        turns.wait(descend(depth));
                    };
                    fibers.start(life).unwrap();
                }
                fibers.resume(1, ());
                fibers.resume(1, ());
            });
            0
        });
        worker.wait().unwrap()
    };
    for guard in [Guard::Light, Guard::Mapping] {
        if guard == Guard::Light && !has_light_guards() {
            continue;
        }
        assert_eq!(overflow(guard, 4), Exit::Code(0), "{guard:?}");
        assert_eq!(overflow(guard, 60), Exit::Signal(libc::SIGSEGV), "{guard:?}");
    }
}

fn a_panic_aborts_the_worker_only() {
    let worker = child(|| {
        std::panic::set_hook(Box::new(|_| {}));
        panic!("in the worker")
    });
    assert_eq!(worker.wait().unwrap(), Exit::Signal(libc::SIGABRT));
}

fn only_what_is_kept_stays_open() {
    let bells: Vec<_> = (0..6).map(|_| Bell::new().unwrap()).collect();
    let keep = [bells[4].as_fd(), bells[1].as_fd(), bells[4].as_fd()];
    let worker = fork_worker(&keep, || {
        let numbers = |bells: &[&Bell]| -> Vec<_> {
            bells.iter().map(|bell| bell.as_fd().as_raw_fd()).collect()
        };
        let mut open: Vec<_> = (0..1000)
            .filter(|number| fs::read_link(format!("/proc/self/fd/{number}")).is_ok())
            .collect();
        open.retain(|&number| number > 2);
        i32::from(open != numbers(&[&bells[1], &bells[4]]))
    })
    .unwrap();
    assert_eq!(worker.wait().unwrap(), Exit::Code(0));
    assert!(!bells[0].clear(), "still open here");
}

/// A worker for which no descriptor is left is killed and reaped.
fn a_worker_that_cannot_be_watched_is_reaped() {
    use regatta_sys::hook::denied::{Call, deny};
    use rustix::{io::Errno, process::WaitOptions};
    let limited = child(|| {
        deny(Call::PidfdOpen, 24).unwrap();
        let worker = fork_worker::<OwnedFd>(&[], wait_for_ever);
        let error = worker.err().and_then(|error| error.raw_os_error());
        let left = rustix::process::wait(WaitOptions::NOHANG).err();
        i32::from((error, left) != (Some(24), Some(Errno::CHILD)))
    });
    assert_eq!(limited.wait().unwrap(), Exit::Code(0));
}

fn memory_is_shared_with_workers() {
    let shared = shm::create(1000).unwrap();
    let words = shared.words();
    assert_eq!(words.len(), 1000);
    assert!(words.iter().all(|word| word.load(SeqCst) == 0));
    let workers: Vec<_> = (1..=4)
        .map(|number| {
            child(move || {
                for _ in 0..1000 {
                    words[999].fetch_add(number, SeqCst);
                }
                0
            })
        })
        .collect();
    assert!(workers.iter().all(|worker| worker.wait().unwrap() == Exit::Code(0)));
    assert_eq!(words[999].load(SeqCst), 10_000);
    assert!(shm::create(usize::MAX).is_err());
}

fn memory_is_found_by_process_number() {
    let shared = shm::create(600).unwrap();
    shared.words()[0].store(1, SeqCst);
    let master = process::id();
    let reader = child(move || {
        let found = |pid| shm::attach_all(pid).unwrap().pop().unwrap();
        let shm::Foreign { words, id, uid } = found(master);
        assert_eq!((id, uid), (found(master).id, rustix::process::geteuid().as_raw()));
        assert_eq!((words.len(), words[0].load(SeqCst)), (600, 1));
        // A store stays in this process.
        words[599].store(7, SeqCst);
        // A store of the master arrives.
        eventually(|| words[0].load(SeqCst) == 2);
        0
    });
    thread::sleep(Duration::from_millis(20));
    shared.words()[0].store(2, SeqCst);
    assert_eq!(reader.wait().unwrap(), Exit::Code(0));
    assert_eq!(shared.words()[599].load(SeqCst), 0);

    drop(shared);
    assert!(matches!(shm::attach_all(master), Err(AttachError::NotAServer(_))));
    assert!(matches!(shm::attach_all(u32::MAX), Err(AttachError::NoProcess(_))));

    // Memory that could shrink is not mapped.
    let unsealed = rustix::fs::memfd_create(shm::NAME, rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&unsealed, 4096).unwrap();
    assert!(matches!(shm::attach_all(master), Err(AttachError::NotAServer(_))));
}

fn memory_of_another_user_is_denied() {
    let stranger = child(|| {
        set_user(&User { uid: 65534, gid: 65534, groups: vec![] }).unwrap();
        i32::from(!matches!(shm::attach_all(1), Err(AttachError::Denied(1))))
    });
    assert_eq!(stranger.wait().unwrap(), Exit::Code(0));
}

fn workers_die_with_their_master() {
    dies_with_its_master(|| {});
}

fn workers_that_become_another_user_die_too() {
    // The kernel forgets the parent-death signal here.
    let nobody = User { uid: 65534, gid: 65534, groups: vec![] };
    dies_with_its_master(move || set_user(&nobody).unwrap());
}

fn dies_with_its_master(first: impl FnOnce()) {
    let shared = shm::create(1).unwrap();
    let pid: &AtomicU64 = &shared.words()[0];
    let master = child(|| {
        let _worker = child(|| {
            first();
            pid.store(process::id().into(), SeqCst);
            wait_for_ever()
        });
        wait_for_ever()
    });
    eventually(|| pid.load(SeqCst) != 0);
    let worker = u32::try_from(pid.load(SeqCst)).unwrap();
    assert!(is_running(worker));
    master.kill(Signal::Kill).unwrap();
    master.wait().unwrap();
    eventually(|| !is_running(worker));
}

fn signals_are_read() {
    let worker = child(|| {
        let signals = Signals::block(&[Signal::Terminate, Signal::User1]).unwrap();
        assert_eq!(signals.read().unwrap(), None);
        let me = rustix::process::getpid();
        let raise = |signal| rustix::process::kill_process(me, signal).unwrap();
        raise(rustix::process::Signal::USR1);
        raise(rustix::process::Signal::TERM);
        raise(rustix::process::Signal::TERM);
        let mut poller = Poll::new();
        poller.add(signals.as_fd(), 1, Interest::READ).unwrap();
        assert_eq!(poller.wait(&mut Vec::new(), None).unwrap(), 1);
        assert_eq!(signals.read().unwrap(), Some(ReceivedSignal::Known(Signal::User1)));
        assert_eq!(signals.read().unwrap(), Some(ReceivedSignal::Known(Signal::Terminate)));
        assert_eq!(signals.read().unwrap(), None);

        // Signals pending for the master are not for its workers, and they inherit the block.
        raise(rustix::process::Signal::USR1);
        let grandchild = fork_worker(&[signals.as_fd()], || {
            let mine = signals.read().unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
                .unwrap();
            i32::from(
                (mine, signals.read().unwrap())
                    != (None, Some(ReceivedSignal::Known(Signal::Terminate))),
            )
        })
        .unwrap();
        assert_eq!(grandchild.wait().unwrap(), Exit::Code(0));
        assert_eq!(signals.read().unwrap(), Some(ReceivedSignal::Known(Signal::User1)));
        0
    });
    assert_eq!(worker.wait().unwrap(), Exit::Code(0));
}

fn a_bell_wakes_another_process() {
    let bell = Bell::new().unwrap();
    let worker = fork_worker(&[bell.as_fd()], || {
        let mut poller = Poll::new();
        poller.add(bell.as_fd(), 1, Interest::READ).unwrap();
        let n = poller.wait(&mut Vec::new(), Some(Duration::from_secs(30))).unwrap();
        i32::from(n != 1 || !bell.clear())
    })
    .unwrap();
    thread::sleep(Duration::from_millis(10));
    bell.ring();
    assert_eq!(worker.wait().unwrap(), Exit::Code(0));
}

/// The head of a simulated disk serves one request at a time, of all processes. It continues when a
/// process that waits for it dies.
fn a_head_is_shared_and_never_lost() {
    const SEEK: Duration = Duration::from_millis(5);
    const OWN: u32 = 6;
    simulated_disk::install(Model { seek_us: 5000, bandwidth: 0, heads: 1 }).unwrap();
    let shared = shm::create(1).unwrap();
    let word = &shared.words()[0];
    let other = child(|| {
        loop {
            simulated_disk::wait_for_block();
            word.fetch_add(1, SeqCst);
        }
    });
    eventually(|| word.load(SeqCst) > 2);
    let (before, start) = (word.load(SeqCst), Instant::now());
    (0..OWN).for_each(|_| simulated_disk::wait_for_block());
    let theirs = u32::try_from(word.load(SeqCst) - before).unwrap();
    // One may have been over before, and one may not have been over yet.
    let most = start.elapsed() + 2 * SEEK;
    assert!(most >= SEEK * (OWN + theirs), "{theirs} and {OWN} took {most:?}");
    other.kill(Signal::Kill).unwrap();
    assert_eq!(other.wait().unwrap(), Exit::Signal(9));
    (0..OWN).for_each(|_| simulated_disk::wait_for_block());
}

fn privileges_are_gone_for_good() {
    let worker = child(|| {
        let user = User::find("65534:65534").unwrap();
        set_user(&user).unwrap();
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let row = |name: &str| {
            let row = status.lines().find_map(|line| line.strip_prefix(name));
            row.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(row("Uid:"), "65534 65534 65534 65534");
        assert_eq!(row("Gid:"), "65534 65534 65534 65534");
        assert_eq!(row("Groups:"), "");
        assert_eq!(row("CapEff:"), "0000000000000000");
        assert_eq!(row("CapPrm:"), "0000000000000000");
        let shadow = fs::File::open("/etc/shadow").unwrap_err();
        assert_eq!(shadow.kind(), ErrorKind::PermissionDenied);
        let root = User { uid: 0, gid: 0, groups: vec![] };
        assert_eq!(set_user(&root).unwrap_err().kind(), ErrorKind::PermissionDenied);
        // Becoming the current user is allowed.
        set_user(&User { groups: vec![], ..user }).unwrap();
        0
    });
    assert_eq!(worker.wait().unwrap(), Exit::Code(0));
}

/// The worker has the test's user, root or not: only the sandbox stops it.
fn a_confined_worker_reaches_what_it_is_given() {
    const ACCESS: Option<i32> = Some(13);
    let home = Folder::new("sandbox");
    let [site, logs, other] = ["site", "logs", "other"].map(|name| home.join(name));
    for folder in [&site, &logs, &other] {
        fs::create_dir(folder).unwrap();
        fs::write(folder.join("there"), "there").unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let root = Root::open(&site).unwrap();
    let worker = fork_worker(&[root.as_fd()], || {
        let of = Confine { read: &[root.as_fd()], append: std::slice::from_ref(&logs) };
        let effect = confine(&of, Sandbox::Required).unwrap();
        assert!(effect.no_new_privileges && effect.no_capabilities, "{effect}");
        // Allowed.
        assert_eq!(fs::read(site.join("there")).unwrap(), b"there");
        let append = |path: &Path| fs::File::options().append(true).create(true).open(path);
        for name in ["there", "another"] {
            append(&logs.join(name)).unwrap().write_all(b" and more").unwrap();
        }
        append(&logs.join("another")).unwrap().set_len(4).expect("a torn line is taken back");
        assert_eq!(threads().unwrap(), 1, "/proc is listed");
        // Denied.
        let errno = |result: io::Result<()>| result.err().and_then(|error| error.raw_os_error());
        assert_eq!(errno(fs::read(other.join("there")).map(drop)), ACCESS);
        assert_eq!(errno(fs::read("/etc/passwd").map(drop)), ACCESS);
        assert_eq!(errno(fs::read(logs.join("there")).map(drop)), ACCESS);
        assert_eq!(errno(append(&site.join("there")).map(drop)), ACCESS);
        assert_eq!(errno(append(&site.join("new")).map(drop)), ACCESS);
        assert_eq!(errno(fs::remove_file(logs.join("there"))), ACCESS);
        assert_eq!(errno(fs::create_dir(logs.join("folder"))), ACCESS);
        assert_eq!(errno(process::Command::new("/bin/sh").status().map(drop)), ACCESS);
        if effect.landlock >= 4 {
            assert_eq!(errno(TcpStream::connect(address).map(drop)), ACCESS);
            assert_eq!(errno(TcpListener::bind("127.0.0.1:0").map(drop)), ACCESS);
        }
        if effect.landlock >= 6 {
            let parent = rustix::process::getppid().unwrap();
            let killed = rustix::process::test_kill_process(parent);
            assert_eq!(killed, Err(rustix::io::Errno::PERM));
            // Its own children are not out of reach.
            let helper = child(wait_for_ever);
            helper.kill(Signal::Kill).unwrap();
            assert_eq!(helper.wait().unwrap(), Exit::Signal(9));
        }
        0
    });
    assert_eq!(worker.unwrap().wait().unwrap(), Exit::Code(0));
    assert_eq!(fs::read(logs.join("there")).unwrap(), b"there and more");
    assert_eq!(fs::read(logs.join("another")).unwrap(), b" and");
    // The parent is not confined.
    assert!(TcpStream::connect(address).is_ok() && fs::read(other.join("there")).is_ok());
}
