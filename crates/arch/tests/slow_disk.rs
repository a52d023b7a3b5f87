//! systems.md §8.6: while one request waits for a slow disk, a request for a cached file is
//! answered at once by AMPED and LAIO, and waits in SPED. A program of its own, with one thread:
//! workers fork.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use regatta_arch::{
    ARCHITECTURES, Env, WorkerLog, find,
    layout::Share,
    options::{Kind, OptionSpec, Settings},
};
use regatta_metrics::{Arena, Counter};
use regatta_op::Now;
use regatta_origin::{Log, Record, Site};
use regatta_sys::{
    Bell, OpenRules, Root,
    chaos::{self, Plan},
    process::fork_worker,
    shm,
    socket::{ListenSpec, listen, local_addr},
};
use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Long enough that a busy machine answers from memory within it.
const SLOW: Duration = Duration::from_millis(1000);

fn main() {
    chaos::install(Plan {
        slow_open_per_mille: 1000,
        slow_open_us: u64::try_from(SLOW.as_micros()).unwrap(),
        ..Plan::default()
    });
    let path = std::env::temp_dir().join(format!("regatta-slow-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    for name in ["warm", "cold"] {
        fs::write(path.join(name), name).unwrap();
    }
    let cases = [
        ("sped", &[][..], true),
        ("amped", &[("amped.helpers_as", "threads")], false),
        ("amped", &[("amped.helpers_as", "processes")], false),
        ("laio", &[("laio.engine", "uring")], false),
        ("laio", &[("laio.engine", "nowait")], false),
    ];
    for (name, options, waits) in cases {
        one(&path, name, options, waits);
        println!("test {name} {options:?} ... ok");
    }
    fs::remove_dir_all(path).unwrap();
    println!("test result: ok. {} passed; 0 failed; 0 ignored", cases.len());
}

/// Asks for a cached file while another is being opened.
fn one(path: &Path, name: &str, options: &[(&str, &str)], waits: bool) {
    let env = env(path, options);
    let address = local_addr(env.sockets[0].as_fd()).unwrap();
    let driver = find(name).unwrap().driver;
    let keep = [env.sockets[0].as_fd(), env.root.as_fd(), env.bells[0].as_fd()];
    let child = fork_worker(&keep, || match (driver.work)(&env, 0) {
        Ok(()) => 0,
        Err(why) => {
            eprintln!("{why}");
            1
        }
    });
    let child = child.unwrap();
    let mut client = connect(address);
    assert_eq!(ask(&mut client, "warm"), "warm");
    let mut other = connect(address);
    let begin = Instant::now();
    write!(other, "GET /cold HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    thread::sleep(SLOW / 10);
    assert_eq!(ask(&mut client, "warm"), "warm");
    let waited = begin.elapsed() >= SLOW;
    assert_eq!(waited, waits, "answered after {:?}", begin.elapsed());
    assert_eq!(answer(&mut other), "cold");
    assert!(begin.elapsed() >= SLOW, "the open was slow");
    let counter = |counter| env.arena.slot(0).get(counter);
    let stalls = counter(Counter::StallOpen);
    assert_eq!(stalls > 0, waits, "{stalls} stalls of an open");
    assert_eq!(counter(Counter::DiskNewsDropped), 0);
    // A client that leaves while its file is opened: nothing of it stays.
    fs::write(path.join("gone"), "gone").unwrap();
    write!(connect(address), "GET /gone HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    thread::sleep(SLOW / 10);
    env.arena.control().stop();
    env.bells[0].ring();
    let begin = Instant::now();
    assert_eq!(child.wait().unwrap(), regatta_sys::process::Exit::Code(0));
    assert!(waits || begin.elapsed() < SLOW, "left after {:?}", begin.elapsed());
}

fn env(path: &Path, options: &[(&str, &str)]) -> Env {
    let shared = Box::leak(Box::new(shm::create(Arena::words(1)).unwrap()));
    let mut specs: Vec<_> = ARCHITECTURES.iter().flat_map(|one| one.driver.options).collect();
    specs.extend(SERVER);
    let mut settings = Settings::defaults(specs.iter().copied());
    for (key, value) in options {
        let spec = specs.iter().find(|spec| spec.key == *key).unwrap();
        settings.set(spec, spec.kind.parse(value).unwrap()).unwrap();
    }
    let mut site = Site::default();
    site.caching.revalidate_ms = 60_000;
    Env {
        sockets: vec![listen(&ListenSpec::new("127.0.0.1:0".parse().unwrap())).unwrap()],
        root: Root::open(path).unwrap(),
        rules: OpenRules::default(),
        site,
        arena: Arena::create(shared.words(), 1),
        bells: vec![Bell::new().unwrap()],
        shares: vec![Share { listeners: 0..1, connections_max: 100, cpu: None }],
        settings,
        shared: None,
        open_log: Box::new(|_| Box::new(Quiet)),
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).unwrap()
}

fn ask(client: &mut TcpStream, name: &str) -> String {
    write!(client, "GET /{name} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    answer(client)
}

/// The four bytes of the body.
fn answer(client: &mut TcpStream) -> String {
    let mut text = String::new();
    loop {
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        text.push(char::from(byte[0]));
        if let Some((_, body)) = text.split_once("\r\n\r\n")
            && body.len() == 4
        {
            return body.to_owned();
        }
    }
}

struct Quiet;

impl Log for Quiet {
    fn wants(&self) -> bool {
        false
    }
    fn record(&self, _: &Record<'_>) {}
}

impl WorkerLog for Quiet {
    fn tick(&self, _: Now) {}
    fn flush(&self) {}
    fn is_due(&self) -> bool {
        false
    }
    fn each_own(&self, _: &mut dyn FnMut(BorrowedFd<'_>)) {}
}

const fn option(key: &'static str, kind: Kind, default: &'static str) -> OptionSpec {
    OptionSpec { key, kind, default, doc: "", long: "", since: "0.1" }
}

/// The server's options that the event loop reads.
const SERVER: &[OptionSpec] = &[
    option("accept.count", Kind::Count { min: 0, max: 1000 }, "0"),
    option("accept.eager_read", Kind::Bool, "false"),
    option("accept.eager_write", Kind::Bool, "true"),
    option("accept.full_read", Kind::Bool, "false"),
    option("accept.on_close", Kind::Bool, "false"),
    option("accept.when_full", Kind::Choice(&["leave", "stop"]), "stop"),
    option("limits.send_window_ms", Kind::Millis { min: 0, max: 1_000_000 }, "10000"),
];
