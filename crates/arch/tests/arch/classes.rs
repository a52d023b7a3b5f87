//! Classes of listeners: under every driver, connections get the links of their listener's class.
//!
//! Flash is tested in schedules alone: its helpers are processes, and nothing here forks.
use crate::sealed::{SealedClient, Sealing};
use regatta_arch::{
    ARCHITECTURES, Driver, Env, Share, conn::accept, find, options::Settings, releases::Releases,
};
use regatta_metrics::Arena;
use regatta_origin::{ClearHttp1, ListenerClass, NoLog, Site};
use regatta_sys::{
    Bell, OpenRules, Root,
    channel::Channel,
    shm,
    socket::{ListenSpec, listen, local_addr},
};
use regatta_testkit::folder::Folder;
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

/// Time that the machine may take for anything.
const PATIENCE: Duration = Duration::from_secs(60);
/// An architecture of each driver but flash's.
const NAMES: [&str; 11] =
    ["sped", "amped", "laio", "cohort", "mp", "mt", "hybrid", "knot-c", "watpipe5", "seda", "bio"];
const CLASSES: [ListenerClass; 3] = [ListenerClass::CLEAR, ListenerClass(1), ListenerClass::CLEAR];
/// Sockets that a process accepts from: it has other numbers for them than the server.
const SEALED_AT: usize = 1;
const CLEAR_AT: usize = 2;
const BODY: &str = "what the file contains";

#[test]
fn every_driver_gives_connections_the_links_of_their_class() {
    for name in NAMES {
        serve_both(name);
    }
}

/// Serves clients of both listeners, several at each.
fn serve_both(name: &str) {
    println!("{name}");
    let folder = Folder::new("classes");
    fs::write(folder.join("file"), BODY).unwrap();
    let driver = find(name).unwrap().driver;
    let env: &'static Env = Box::leak(Box::new(env(driver, &folder)));
    let process = |process| thread::spawn(move || (driver.work)(env, process));
    let work: Vec<_> = (0..env.shares.len()).map(process).collect();
    for client in 0..3 {
        let mut sealed = SealedClient::new(connect(env, SEALED_AT), client);
        let mut clear = connect(env, CLEAR_AT);
        for _ in 0..2 {
            get(&mut sealed);
            get(&mut clear);
        }
    }
    env.arena.control().stop();
    for bell in &env.bells {
        bell.ring();
    }
    for work in work {
        work.join().unwrap().unwrap();
    }
}

fn env(driver: &Driver, root: &Path) -> Env {
    let mut specs: Vec<_> = ARCHITECTURES.iter().flat_map(|one| one.driver.options).collect();
    specs.extend(accept::OPTIONS);
    let mut settings = Settings::defaults(specs.iter().copied());
    let spec = specs.iter().find(|spec| spec.key == "accept.when_full").unwrap();
    settings.set(spec, spec.kind.parse("pause").unwrap()).unwrap();
    // A process of mp has one connection, from one of the listeners.
    let (processes, connections_max) = if driver.takes("mp.step_ms") { (2, 1) } else { (1, 100) };
    let slots = (driver.slots)(&settings);
    let share = |process: usize| Share {
        slots: process * slots..(process + 1) * slots,
        listeners: SEALED_AT..CLEAR_AT + 1,
        connections_max,
        cpus: Vec::new(),
    };
    let steps = (driver.steps)(&settings);
    let spec = ListenSpec { steps, ..ListenSpec::new("127.0.0.1:0".parse().unwrap()) };
    let sockets: Vec<OwnedFd> = CLASSES.iter().map(|_| listen(&spec).unwrap()).collect();
    let words = Box::leak(Box::new(shm::create(Arena::count_words(processes * slots)).unwrap()));
    Env {
        sockets,
        classes: CLASSES.to_vec(),
        root: Root::open(root).unwrap(),
        root_channels: (0..processes).map(|_| Channel::pair().unwrap().0).collect(),
        releases: Releases::new(1, Box::new(|_, _, _| Arc::default())),
        rules: OpenRules::default(),
        site: Site::default(),
        links: Box::new(Sealing::of_class(ClearHttp1, CLASSES[SEALED_AT])),
        arena: Arena::create(words.words(), processes * slots),
        bells: (0..processes).map(|_| Bell::new().unwrap()).collect(),
        shares: (0..processes).map(share).collect(),
        settings,
        shared: None,
        open_log: Box::new(|_| Box::new(NoLog)),
        end_process: || {},
    }
}

fn connect(env: &Env, socket: usize) -> TcpStream {
    let address = local_addr(env.sockets[socket].as_fd()).unwrap();
    let peer = TcpStream::connect(address).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer
}

fn get(peer: &mut (impl Read + Write)) {
    peer.write_all(b"GET /file HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (mut response, mut piece) = (Vec::new(), [0; 4096]);
    while !response.ends_with(BODY.as_bytes()) {
        let n = peer.read(&mut piece).unwrap();
        assert!(n > 0, "the end after {} bytes", response.len());
        response.extend_from_slice(&piece[..n]);
    }
    assert!(response.starts_with(b"HTTP/1.1 200 "));
}
