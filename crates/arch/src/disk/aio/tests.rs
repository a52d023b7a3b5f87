//! All engines over one table of reads, and what is special of glibc's threads.
use super::*;
use crate::{drive::perform, testing::folder};
use regatta_op::Fault;
use regatta_testkit::{skips::skip, waits::until};
use std::{
    collections::HashSet,
    fs,
    os::fd::{AsFd, AsRawFd},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    thread,
    time::Instant,
};

/// Longest time that the machine may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);
const BYTES: usize = 300_000;
const LIMITS: ThreadLimits =
    ThreadLimits { threads_max: 20, idle: Duration::from_secs(1), requests_max: 100 };

struct Folder(folder::Folder);

impl Folder {
    fn new() -> Self {
        let path = folder::Folder::new("aio");
        let bytes: Vec<u8> = (0..BYTES).map(byte).collect();
        fs::write(path.join("file"), bytes).unwrap();
        Self(path)
    }

    /// The file, by a descriptor of its own.
    fn file(&self) -> StaticFile {
        StaticFile::adopt(fs::File::open(self.0.join("file")).unwrap().into()).unwrap()
    }

    /// The file, by a descriptor that cannot read it.
    fn unreadable(&self) -> StaticFile {
        let file = fs::OpenOptions::new().write(true).open(self.0.join("file")).unwrap();
        StaticFile::adopt(file.into()).unwrap()
    }

    /// Every engine that this machine has. Reports those that it lacks.
    fn engines(&self) -> Vec<(&'static str, Box<dyn Aio>)> {
        let mut all: Vec<(&str, Box<dyn Aio>)> =
            vec![("threads", Box::new(AioThreads::new(LIMITS)))];
        let ring = AioRing::new(LIMITS.requests_max).unwrap();
        let has_ring = ring.completions().map(drop);
        match has_ring {
            Ok(()) => all.push(("ring", Box::new(ring))),
            Err(error) => {
                assert!(matches!(error, WorkError::UringForReads(_)), "{error}");
                skip("needs io_uring");
            }
        }
        match AioKernel::new(LIMITS.requests_max) {
            Ok(kernel) => all.push(("kernel", Box::new(kernel))),
            Err(error) => {
                assert!(matches!(error, WorkError::KernelReads(..)), "{error}");
                skip("needs io_submit(2)");
            }
        }
        all
    }
}

fn byte(at: usize) -> u8 {
    u8::try_from(at % 251).unwrap()
}

fn start(aio: &dyn Aio, req: ReadReq<StaticFile>) -> Result<AioRequest, ReadReq<StaticFile>> {
    let (request, of_engine) = AioRequest::pair();
    aio.start(req, of_engine).map(|()| request).map_err(|(req, _)| req)
}

/// Returns the outcomes of all these, in their order, and the order in which they came.
fn complete(completions: &mut dyn Completions, requests: &[AioRequest]) -> (Vec<Read>, Vec<usize>) {
    let since = Instant::now();
    let mut reads: Vec<Option<Read>> = requests.iter().map(|_| None).collect();
    let mut order = Vec::new();
    while order.len() < requests.len() {
        assert!(since.elapsed() < PATIENCE, "{} of {} completed", order.len(), requests.len());
        for (at, request) in requests.iter().enumerate() {
            if let Some(read) = request.status() {
                assert!(reads[at].replace(read).is_none(), "a read completes once");
                order.push(at);
            }
        }
        if order.len() < requests.len() {
            completions.wait(PATIENCE).unwrap();
        }
    }
    (reads.into_iter().flatten().collect(), order)
}

#[test]
fn every_engine_makes_every_read() {
    // Name, offset and length; the offset and length of the bytes that come, unless the read fails.
    type Case = (&'static str, u64, u64, Option<(usize, usize)>);
    let cases: [Case; 8] = [
        ("all of it", 0, BYTES as u64, Some((0, BYTES))),
        ("its first byte", 0, 1, Some((0, 1))),
        ("nothing", 5, 0, Some((5, 0))),
        ("the middle", 65_537, 131_072, Some((65_537, 131_072))),
        ("its last byte", BYTES as u64 - 1, 1, Some((BYTES - 1, 1))),
        ("more than there is", 200_000, 200_000, Some((200_000, 100_000))),
        ("what is behind its end", 1 << 40, 9, Some((0, 0))),
        ("more than there is memory for", 0, u64::MAX, None),
    ];
    let folder = Folder::new();
    for (name, aio) in folder.engines() {
        let mut completions = aio.completions().unwrap();
        // Each by a descriptor of its own, and all by one.
        let one = folder.file();
        for own in [true, false] {
            let file = || if own { folder.file() } else { one.clone() };
            let begin = |&(_, at, len, _): &_| start(&*aio, ReadReq::new(file(), at, len)).unwrap();
            let requests: Vec<AioRequest> = cases.iter().map(begin).collect();
            let (reads, _) = complete(&mut *completions, &requests);
            for ((case, _, _, expect), (buffer, read)) in cases.iter().zip(reads) {
                let what = format!("{name}: {case}");
                match expect {
                    Some((at, len)) => {
                        assert_eq!(read, Ok(()), "{what}");
                        let expect: Vec<u8> = (*at..at + len).map(byte).collect();
                        assert!(buffer == expect, "{what}: {} bytes", buffer.len());
                    }
                    None => assert!(matches!(read, Err(Fault::Other(_))), "{what}: {read:?}"),
                }
            }
        }
        // A read that the system refuses, with the buffer that was lent.
        let mut req = ReadReq::new(folder.unreadable(), 0, 10);
        req.buffer = Vec::with_capacity(4096);
        let request = start(&*aio, req).unwrap();
        let (reads, _) = complete(&mut *completions, &[request]);
        let (buffer, read) = &reads[0];
        assert!(matches!(read, Err(Fault::Other(_))), "{name}: {read:?}");
        assert!(buffer.capacity() >= 4096, "{name}: the buffer comes back");
        assert_eq!(aio.in_flight(), 0, "{name}");
    }
}

/// Many threads start reads and one checks for them, as in [A].
#[test]
fn no_read_is_lost_between_threads() {
    const STARTERS: usize = 8;
    const EACH: usize = 40;
    let folder = Folder::new();
    for (name, aio) in folder.engines() {
        let (give, take) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let aio = &*aio;
            for starter in 0..STARTERS {
                let (give, folder) = (give.clone(), &folder);
                scope.spawn(move || {
                    for n in 0..EACH {
                        let at = (starter * EACH + n) * 300;
                        let mut req = ReadReq::new(folder.file(), at as u64, 1000);
                        let request = loop {
                            match start(aio, req) {
                                Ok(request) => break request,
                                Err(refused) => req = refused,
                            }
                            thread::yield_now();
                        };
                        give.send((at, request)).unwrap();
                    }
                });
            }
            drop(give);
            let mut completions = aio.completions().unwrap();
            let since = Instant::now();
            let (mut tracked, mut over) = (Vec::new(), 0);
            while over < STARTERS * EACH {
                assert!(since.elapsed() < PATIENCE, "{name}: {over} completed");
                tracked.extend(take.try_iter());
                tracked.retain(|(at, request): &(usize, AioRequest)| {
                    let Some((buffer, read)) = request.status() else { return true };
                    assert_eq!((read, buffer.len()), (Ok(()), 1000), "{name}");
                    assert_eq!((buffer[0], buffer[999]), (byte(*at), byte(at + 999)), "{name}");
                    over += 1;
                    false
                });
                // Sometimes it spins.
                completions.wait(Duration::from_millis(5 * (over as u64 % 2))).unwrap();
            }
        });
        assert_eq!(aio.in_flight(), 0, "{name}");
    }
}

/// The thread that asked for a read makes it if the engine has not taken it. The thread that waits
/// for the engine hears of that at once.
#[test]
fn who_waits_hears_of_reads_that_others_have_made() {
    let folder = Folder::new();
    for (name, aio) in folder.engines() {
        let (request, of_engine) = AioRequest::pair();
        let req = ReadReq::new(folder.file(), 1, 1);
        let since = Instant::now();
        thread::scope(|scope| {
            let aio = &*aio;
            scope.spawn(move || {
                thread::sleep(Duration::from_millis(30));
                of_engine.complete(perform::read(req));
                aio.wake();
            });
            let mut completions = aio.completions().unwrap();
            while !request.is_complete() {
                completions.wait(PATIENCE).unwrap();
            }
        });
        assert_eq!(request.status(), Some((vec![byte(1)], Ok(()))), "{name}");
        assert!(since.elapsed() < PATIENCE, "{name}: it has heard nothing");
    }
}

/// The engine drops given-up requests when it has done with them.
#[test]
fn what_is_given_up_is_let_go_of_later() {
    let folder = Folder::new();
    for (name, aio) in folder.engines() {
        let file = folder.file();
        let mut completions = aio.completions().unwrap();
        for _ in 0..20 {
            drop(start(&*aio, ReadReq::new(file.clone(), 0, BYTES as u64)).unwrap());
        }
        let kept = start(&*aio, ReadReq::new(file, 1, 1)).unwrap();
        let (reads, _) = complete(&mut *completions, &[kept]);
        assert_eq!(reads[0], (vec![byte(1)], Ok(())), "{name}");
        until(PATIENCE, &format!("{name}: nothing is in flight"), || {
            completions.wait(Duration::from_millis(1)).unwrap();
            aio.in_flight() == 0
        });
    }
}

/// Reads that last until the test lets them end, and what threads made them.
#[derive(Default)]
struct Gate {
    open: AtomicUsize,
    begun: Mutex<Vec<(i32, u64)>>,
    together: AtomicUsize,
    together_max: AtomicUsize,
    threads: Mutex<HashSet<thread::ThreadId>>,
}

impl Gate {
    fn perform(&self, req: ReadReq<StaticFile>) -> Read {
        lock(&self.begun).push((req.file.as_fd().as_raw_fd(), req.at));
        lock(&self.threads).insert(thread::current().id());
        let together = self.together.fetch_add(1, SeqCst) + 1;
        self.together_max.fetch_max(together, SeqCst);
        while self.open.load(SeqCst) == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        self.together.fetch_sub(1, SeqCst);
        perform::read(req)
    }
}

fn gated(limits: ThreadLimits) -> (Arc<Gate>, AioThreads) {
    let gate = Arc::new(Gate::default());
    let own = Arc::clone(&gate);
    (gate, AioThreads::with(limits, Box::new(move |req| own.perform(req))))
}

#[test]
fn reads_of_one_descriptor_are_made_one_after_another() {
    let folder = Folder::new();
    let (gate, aio) = gated(LIMITS);
    let (one, other) = (folder.file(), folder.file());
    let mut requests: Vec<AioRequest> =
        (0..6).map(|at| start(&aio, ReadReq::new(one.clone(), at, 1)).unwrap()).collect();
    requests.push(start(&aio, ReadReq::new(other.clone(), 0, 1)).unwrap());
    until(PATIENCE, "both descriptors are read from", || gate.together.load(SeqCst) == 2);
    assert_eq!([aio.threads(), aio.in_flight()], [2, 7], "those that wait take no thread");
    gate.open.store(1, SeqCst);
    complete(&mut *aio.completions().unwrap(), &requests);
    assert_eq!(gate.together_max.load(SeqCst), 2);
    let number = one.as_fd().as_raw_fd();
    let begun = lock(&gate.begun);
    let of_one: Vec<u64> =
        begun.iter().filter(|(fd, _)| *fd == number).map(|(_, at)| *at).collect();
    assert_eq!(of_one, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn threads_are_started_up_to_their_number_and_end_when_they_are_idle() {
    let folder = Folder::new();
    let limits = ThreadLimits { threads_max: 4, idle: Duration::from_millis(200), requests_max: 9 };
    let (gate, aio) = gated(limits);
    let begin = || start(&aio, ReadReq::new(folder.file(), 0, 1));
    let requests: Vec<AioRequest> = (0..9).map(|_| begin().unwrap()).collect();
    assert!(begin().is_err(), "there is room for nine");
    until(PATIENCE, "all threads read", || gate.together.load(SeqCst) == 4);
    assert_eq!(aio.threads(), 4);
    gate.open.store(1, SeqCst);
    let mut completions = aio.completions().unwrap();
    complete(&mut *completions, &requests);
    assert_eq!(gate.together_max.load(SeqCst), 4);
    // One is idle now: it is not started again.
    let before = lock(&gate.threads).len();
    for _ in 0..5 {
        complete(&mut *completions, &[begin().unwrap()]);
        until(PATIENCE, "it is idle again", || aio.in_flight() == 0);
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((before, lock(&gate.threads).len()), (4, 4));
    until(PATIENCE, "idle threads end", || aio.threads() == 0);
    complete(&mut *completions, &[begin().unwrap()]);
    assert_eq!(lock(&gate.threads).len(), 5, "one is started when there is something to do");
}

/// Reads that are given up before they begin are not made.
#[test]
fn what_is_given_up_before_it_is_begun_is_not_read() {
    let folder = Folder::new();
    let (gate, aio) = gated(ThreadLimits { threads_max: 1, ..LIMITS });
    let file = folder.file();
    let first = start(&aio, ReadReq::new(file.clone(), 0, 1)).unwrap();
    until(PATIENCE, "the first is begun", || gate.together.load(SeqCst) == 1);
    drop(start(&aio, ReadReq::new(file.clone(), 1, 1)).unwrap());
    let last = start(&aio, ReadReq::new(file, 2, 1)).unwrap();
    gate.open.store(1, SeqCst);
    complete(&mut *aio.completions().unwrap(), &[first, last]);
    let at: Vec<u64> = lock(&gate.begun).iter().map(|(_, at)| *at).collect();
    assert_eq!(at, [0, 2]);
    until(PATIENCE, "nothing is in flight", || aio.in_flight() == 0);
}
