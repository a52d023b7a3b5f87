//! Micro-loops: the prices of operations on this machine today.
//!
//! Everything runs in one thread, pinned to one processor, and over the loopback device alone. A
//! round runs each loop once. What differs in one thing (bytes, descriptors, a switch of threads)
//! is compared within the round, so a price is a median over pairs. Only processor time counts: a
//! thread that others displace loses nothing.

use super::list::{Price, PriceBasis, PriceList, PriceUnit};
use crate::analysis::{Summary, summarise};
use crate::stats::count;
use crate::units::real;
use regatta_http::Status;
use regatta_http::h1::{
    HeadLimits, end_head, parse_request, write_date_field, write_decimal_field, write_status_line,
};
use regatta_sys::fiber::{self, Guard, Stacks, Turns};
use regatta_sys::socket::{self, Connection, Mode};
use regatta_sys::thread::cpu_nanos;
use regatta_sys::wait::{Epoll, Interest, Poll, Poller, Select, Trigger};
use regatta_sys::{StaticFile, affinity, clock, recv, send_last, send_range};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, ResolveFlags, fstat, openat2};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Operations between two readings of the clock.
const BATCH: usize = 64;
/// The same of operations without a system call.
const LIGHT_BATCH: usize = 4_096;
/// Connections that stay open, and the most descriptors that a wait watches.
const MANY: usize = 128;
/// The least.
const FEW: usize = 8;
/// Descriptors that are ready at once in one of the loops.
const READY: usize = 32;
/// Round trips between two threads.
const HOPS: usize = 200;
/// Bytes of the shorter and the longer reply; the second is the papers' mean.
const REPLY_BYTES: [usize; 2] = [256, 14_906];
/// Most rounds: each leaves 64 ended connections with the kernel for a minute.
const ROUNDS_MAX: usize = 100;
/// Head of a request as the load generator sends it.
const REQUEST: &[u8] = b"GET /file_set/dir00042/class1_3 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

/// Loops of a round: each price by its name, and what its loop does.
fn loops() -> BTreeMap<PriceBasis, BTreeMap<String, String>> {
    toml::from_str(include_str!("../../assets/loops.toml")).expect("a test measures them")
}

/// Measures all prices, for about `limit` at most, and one round at least.
///
/// # Errors
/// The loopback device, a temporary file or a descriptor is refused, or `stop` is set.
pub fn measure(limit: Duration, stop: &AtomicBool) -> io::Result<PriceList> {
    // The pin stays with the thread.
    let done = thread::scope(|scope| scope.spawn(|| rounds(limit, stop)).join());
    let samples = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let price = |(name, what): (String, String), basis: PriceBasis| {
        let taken = samples.get(name.as_str())?;
        let Summary { median, interval, .. } = summarise(taken);
        let source = format!("{what}; median of {} rounds, 95 % interval", taken.len());
        let (value, spread) = (rounded(median), [interval.low, interval.high].map(rounded));
        let (unit, scaled) = (PriceUnit::Nanoseconds, String::new());
        Some((name, Price { unit, value, spread, basis, scaled, source }))
    };
    let of = |(basis, loops): (PriceBasis, BTreeMap<String, String>)| {
        loops.into_iter().filter_map(|one| price(one, basis)).collect::<Vec<_>>()
    };
    Ok(PriceList {
        mark: "today".to_owned(),
        title: "micro-loops on this machine, over loopback".to_owned(),
        processors: 1,
        like: String::new(),
        price: loops().into_iter().flat_map(of).collect(),
    })
}

/// A price in at most four decimals.
fn rounded(ns: f64) -> f64 {
    (ns * 1e4).round() / 1e4
}

/// Time of each loop in each round, ns.
type Samples = BTreeMap<&'static str, Vec<f64>>;

fn rounds(limit: Duration, stop: &AtomicBool) -> io::Result<Samples> {
    if let Some(cpu) = affinity::allowed()?.last() {
        affinity::pin(&[*cpu])?;
    }
    let (rig, started) = (Loops::new()?, Instant::now());
    let mut samples = Samples::new();
    for round in 0..=ROUNDS_MAX {
        if stop.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let taken = rig.round()?;
        // The first warms caches.
        if round > 0 {
            taken.into_iter().for_each(|(name, ns)| samples.entry(name).or_default().push(ns));
            if started.elapsed() >= limit {
                break;
            }
        }
    }
    Ok(samples)
}

/// Processor time of each of `times` calls, ns.
fn timed(times: usize, mut call: impl FnMut(usize) -> io::Result<()>) -> io::Result<f64> {
    let started = cpu_nanos();
    for at in 0..times {
        call(at)?;
    }
    Ok(real(cpu_nanos().saturating_sub(started)) / count(times))
}

/// Ends a call whose value is not used, and which the compiler has to make.
fn done<T>(value: T) -> io::Result<()> {
    let _ = black_box(value);
    Ok(())
}

/// Difference of two loops for each of the things in which they differ.
fn each(more: f64, less: f64, things: usize) -> f64 {
    (more - less).max(0.0) / count(things)
}

/// A file of its own, which goes with it.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Sockets and files that the loops use.
struct Loops {
    listener: TcpListener,
    /// The client's end, and the server's.
    pairs: Vec<(TcpStream, Connection)>,
    scratch: Scratch,
    folder: File,
    file: StaticFile,
    body: Vec<u8>,
}

impl Loops {
    fn new() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut pairs = Vec::with_capacity(MANY);
        for _ in 0..MANY {
            let client = TcpStream::connect(address)?;
            client.set_nodelay(true)?;
            pairs.push((client, socket::accept(listener.as_fd(), Mode::Nonblocking)?.0));
        }
        let body = vec![b'x'; REPLY_BYTES[1]];
        let folder = std::env::temp_dir();
        let name = format!("regatta-prices-{}-{}", std::process::id(), address.port());
        let scratch = Scratch(folder.join(name));
        File::create_new(&scratch.0)?.write_all(&body)?;
        let file = StaticFile::adopt(File::open(&scratch.0)?.into());
        let file = file.map_err(|fault| io::Error::other(format!("{fault:?}")))?;
        Ok(Self { listener, pairs, scratch, folder: File::open(folder)?, file, body })
    }

    fn round(&self) -> io::Result<Vec<(&'static str, f64)>> {
        let mut taken = vec![
            ("clock", timed(LIGHT_BATCH, |_| done(clock::nanos()))?),
            ("reply", reply_ns()?),
            ("user_switch", user_switch_ns()?),
        ];
        taken.extend(self.accepting()?);
        taken.extend(self.receiving()?);
        taken.extend(self.sending()?);
        taken.extend(self.waiting()?);
        taken.extend(self.reading()?);
        taken.extend(handing_over()?);
        Ok(taken)
    }

    fn accepting(&self) -> io::Result<[(&'static str, f64); 3]> {
        let address = self.listener.local_addr()?;
        let connect = |_| TcpStream::connect(address);
        let clients = (0..BATCH).map(connect).collect::<io::Result<Vec<_>>>()?;
        let accept = || socket::accept(self.listener.as_fd(), Mode::Nonblocking);
        let mut accepted = Vec::with_capacity(BATCH);
        let ok = timed(BATCH, |_| {
            accepted.push(accept()?.0);
            Ok(())
        })?;
        let empty = timed(BATCH, |_| done(accept()))?;
        let mut accepted = accepted.into_iter();
        let close = timed(BATCH, |_| done(accepted.next()))?;
        drop(clients);
        Ok([("accept", ok), ("accept_empty", empty), ("connection", close)])
    }

    fn receiving(&self) -> io::Result<[(&'static str, f64); 2]> {
        self.write_from_clients(BATCH, REQUEST)?;
        let mut buffer = [0; 4_096];
        let mut receive = |at: usize| recv(self.server(at), &mut buffer);
        let read = timed(BATCH, |at| receive(at).map(drop))?;
        let empty = timed(BATCH, |at| done(receive(at)))?;
        Ok([("read", read), ("read_empty", empty)])
    }

    fn sending(&self) -> io::Result<[(&'static str, f64); 4]> {
        let send = |bytes: usize| self.sent(|fd| send_last(fd, &self.body[..bytes]));
        let send_file = |bytes: usize| self.sent(|fd| send_range(fd, &self.file, 0, bytes as u64));
        let [few, many] = REPLY_BYTES;
        let (short_file, long_file) = (send_file(few)?, send_file(many)?);
        let (short, long) = (send(few)?, send(many)?);
        let network = each(long_file, short_file, many - few);
        let copy = each(each(long, short, many - few), network, 1);
        let bytes = count(few);
        Ok([
            ("send", each(short, bytes * (network + copy), 1)),
            ("sendfile", each(short_file, bytes * network, 1)),
            ("copy_byte", copy),
            ("network_byte", network),
        ])
    }

    /// Sends one reply on each connection, and empties the clients' sockets.
    fn sent(&self, send: impl Fn(BorrowedFd<'_>) -> io::Result<u64>) -> io::Result<f64> {
        let mut sent = [0; BATCH];
        let ns = timed(BATCH, |at| {
            sent[at] = send(self.server(at))?;
            Ok(())
        })?;
        for ((client, _), sent) in self.pairs.iter().zip(sent) {
            io::copy(&mut client.take(sent), &mut io::sink())?;
        }
        Ok(ns)
    }

    fn waiting(&self) -> io::Result<[(&'static str, f64); 8]> {
        let epoll = |watched, ready| self.waits(&mut Epoll::new(Trigger::Level)?, watched, ready);
        let one = epoll(MANY, 1)?;
        let event = each(epoll(MANY, READY)?, one, READY - 1);
        let more = MANY - FEW;
        let (few_epoll, few_poll) = (epoll(FEW, 1)?, self.waits(&mut Poll::new(), FEW, 1)?);
        let poll = each(self.waits(&mut Poll::new(), MANY, 1)?, few_poll, more);
        let few_select = self.waits(&mut Select::new(), FEW, 1)?;
        let select = each(self.waits(&mut Select::new(), MANY, 1)?, few_select, more);
        let mut changed = Epoll::new(Trigger::Level)?;
        for at in 0..BATCH {
            changed.add(self.server(at), at as u64, Interest::READ)?;
        }
        let change = timed(BATCH, |at| changed.set(self.server(at), at as u64, Interest::BOTH))?;
        Ok([
            ("wait_epoll", one),
            ("wait_poll", each(few_poll, count(FEW) * poll, 1)),
            ("wait_select", each(few_select, count(FEW) * select, 1)),
            ("wait_descriptor_epoll", each(one, few_epoll, more)),
            ("wait_descriptor_poll", poll),
            ("wait_descriptor_select", select),
            ("wait_event", event),
            ("wait_change_epoll", change),
        ])
    }

    /// A wait on the first `watched` connections; the first `ready` of these have something.
    fn waits(&self, poller: &mut dyn Poller, watched: usize, ready: usize) -> io::Result<f64> {
        for at in 0..watched {
            poller.add(self.server(at), at as u64, Interest::READ)?;
        }
        self.write_from_clients(ready, b"x")?;
        let mut events = Vec::with_capacity(MANY);
        let ns = timed(BATCH, |_| poller.wait(&mut events, Some(Duration::ZERO)).map(drop))?;
        for at in 0..ready {
            recv(self.server(at), &mut [0; 16])?;
        }
        Ok(ns)
    }

    fn reading(&self) -> io::Result<[(&'static str, f64); 2]> {
        let name = self.scratch.0.file_name().unwrap_or_default();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = timed(BATCH, |_| {
            let mode = rustix::fs::Mode::empty();
            let file = openat2(&self.folder, name, flags, mode, ResolveFlags::BENEATH)?;
            done(fstat(&file)?)
        })?;
        let mut buffer = [0; REPLY_BYTES[0]];
        let read = timed(BATCH, |_| done(rustix::io::pread(self.file.as_fd(), &mut buffer, 0)?))?;
        Ok([("open", open), ("file_read", read)])
    }

    fn server(&self, at: usize) -> BorrowedFd<'_> {
        self.pairs[at].1.as_fd()
    }

    fn write_from_clients(&self, clients: usize, bytes: &[u8]) -> io::Result<()> {
        self.pairs[..clients].iter().try_for_each(|(client, _)| {
            let mut client: &TcpStream = client;
            client.write_all(bytes)
        })
    }
}

/// A request's head is parsed, and a reply's written.
fn reply_ns() -> io::Result<f64> {
    let (limits, mut head) = (HeadLimits::default(), Vec::with_capacity(256));
    timed(LIGHT_BATCH, |_| {
        let _ = black_box(parse_request(black_box(REQUEST), &limits));
        head.clear();
        write_status_line(&mut head, Status(200));
        write_date_field(&mut head, "Date", 1_000_000_000);
        write_decimal_field(&mut head, "Content-Length", 14_906);
        end_head(&mut head);
        done(&head)
    })
}

/// A user thread is resumed, and yields.
fn user_switch_ns() -> io::Result<f64> {
    const STACK_BYTES: usize = 256 << 10;
    fiber::scope(Stacks::new(1, STACK_BYTES, Guard::Mapping)?, |fibers| {
        let life = |turns: &Turns<'_, bool, ()>, first: bool| {
            let mut is_on = first;
            while is_on {
                is_on = turns.wait(());
            }
        };
        let number = fibers.start(life)?;
        let ns = timed(LIGHT_BATCH, |_| done(fibers.resume(number, true)))?;
        fibers.resume(number, false);
        Ok(ns)
    })
}

/// A thread hands over to another on the same processor, which hands back.
fn handing_over() -> io::Result<[(&'static str, f64); 5]> {
    let (mut to_reader, mut to_writer) = (io::pipe()?, io::pipe()?);
    let (reader, writer) = (&to_reader.0, &to_writer.1);
    let (back, forth) = (&to_writer.0, &to_reader.1);
    let pipe = hop_ns(|_| pass(reader, writer), |_| answer(forth, back))?;
    let own = timed(BATCH, |_| {
        to_reader.1.write_all(b"x")?;
        to_reader.0.read_exact(&mut [0])?;
        to_writer.1.write_all(b"x")?;
        to_writer.0.read_exact(&mut [0])
    })? / 2.0;
    let bell = || eventfd(0, EventfdFlags::CLOEXEC);
    let (there, here) = (bell()?, bell()?);
    let ring = |bell: BorrowedFd<'_>| -> io::Result<()> {
        done(rustix::io::write(bell, &1_u64.to_ne_bytes())?)
    };
    let hear =
        |bell: BorrowedFd<'_>| -> io::Result<()> { done(rustix::io::read(bell, &mut [0_u8; 8])?) };
    let event = hop_ns(
        |_| hear(there.as_fd()).and_then(|()| ring(here.as_fd())),
        |_| ring(there.as_fd()).and_then(|()| hear(here.as_fd())),
    )?;
    let turn = AtomicU32::new(0);
    let give = |to: &Thread, whose: u32| {
        turn.store(whose, Ordering::Release);
        to.unpark();
    };
    let take = |own: u32| -> io::Result<()> {
        while turn.load(Ordering::Acquire) != own {
            thread::park();
        }
        Ok(())
    };
    let futex = hop_ns(
        |first| take(1).map(|()| give(first, 0)),
        |second| {
            give(second, 1);
            take(0)
        },
    )?;
    let switch = each(pipe, own, 1);
    Ok([
        ("hand_over_pipe", pipe),
        ("hand_over_eventfd", event),
        ("hand_over_futex", futex),
        ("kernel_switch", switch),
        ("wake", each(futex, switch, 1)),
    ])
}

/// Waits for a byte, and hands back.
fn pass(mut from: &io::PipeReader, mut to: &io::PipeWriter) -> io::Result<()> {
    from.read_exact(&mut [0])?;
    to.write_all(b"x")
}

/// Hands over, and waits for the byte that comes back.
fn answer(mut to: &io::PipeWriter, mut from: &io::PipeReader) -> io::Result<()> {
    to.write_all(b"x")?;
    from.read_exact(&mut [0])
}

/// Time of one way between two threads. Each side receives the handle of the other thread.
fn hop_ns(
    other: impl Fn(&Thread) -> io::Result<()> + Send,
    own: impl Fn(&Thread) -> io::Result<()>,
) -> io::Result<f64> {
    let first = thread::current();
    thread::scope(|scope| {
        let second = scope.spawn(move || timed(HOPS, |_| other(&first)));
        let own = timed(HOPS, |_| own(second.thread()))?;
        let other = second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok((own + other) / 2.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_price_is_measured_within_its_time() {
        let started = Instant::now();
        let list = measure(Duration::from_millis(100), &AtomicBool::new(false)).unwrap();
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        for (basis, loops) in loops() {
            for (name, what) in loops {
                let price = &list.price[&name];
                let [low, high] = price.spread;
                let is_within = low <= price.value && price.value <= high;
                assert!(0.0 <= low && is_within, "{name}: {price:?}");
                let is_so = price.basis == basis && price.source.starts_with(&what);
                assert!(is_so, "{name}: {price:?}");
            }
        }
        // System calls take time; differences may be nothing within few rounds.
        for name in ["accept", "read", "open", "wait_epoll", "hand_over_pipe", "user_switch"] {
            assert!(list.price[name].value > 0.0, "{name}");
        }
        assert_eq!(PriceList::parse(&list.to_toml()), Ok(list));
    }

    #[test]
    fn a_stop_ends_it() {
        let ended = measure(Duration::from_secs(20), &AtomicBool::new(true)).unwrap_err();
        assert_eq!(ended.kind(), io::ErrorKind::Interrupted);
    }
}
