//! Classes of listeners: under every driver, connections get the links of their listener's class.
//!
//! Flash is tested in schedules alone: its helpers are processes, and nothing here forks.
use crate::{
    env::{env, settings, share},
    rig::{TestFile, connect, get},
    sealed::{SealedClient, Sealing},
};
use regatta_arch::{ARCHITECTURES, Driver, Env, conn::accept, find};
use regatta_origin::{ClearHttp1, ListenerClass};
use regatta_sys::socket::{ListenSpec, listen, local_addr};
use regatta_testkit::folder::Folder;
use std::{os::fd::AsFd, path::Path, thread};

/// An architecture of each driver but flash's.
const NAMES: [&str; 16] = [
    "sped",
    "hybrid-adapt",
    "sped-readahead",
    "coloured",
    "amped",
    "laio",
    "uring",
    "auto",
    "cohort",
    "mp",
    "mt",
    "hybrid",
    "knot-c",
    "watpipe5",
    "seda",
    "bio",
];
const CLASSES: [ListenerClass; 3] = [ListenerClass::CLEAR, ListenerClass(1), ListenerClass::CLEAR];
/// Sockets that a process accepts from: it has other numbers for them than the server.
const SEALED_AT: usize = 1;
const CLEAR_AT: usize = 2;
const FILE: TestFile = TestFile { name: "file", bytes: 22 };

/// Clients of both listeners, several at each.
#[test]
fn every_driver_gives_connections_the_links_of_their_class() {
    for name in NAMES {
        println!("{name}");
        let folder = Folder::new("classes");
        FILE.write(&folder);
        let driver = find(name).unwrap().driver;
        let env: &'static Env = Box::leak(Box::new(classes(driver, &folder)));
        let process = |process| thread::spawn(move || (driver.work)(env, process));
        let work: Vec<_> = (0..env.shares.len()).map(process).collect();
        for client in 0..3 {
            let peer = |socket: usize| connect(local_addr(env.sockets[socket].as_fd()).unwrap());
            let mut sealed = SealedClient::new(peer(SEALED_AT), client);
            let mut clear = peer(CLEAR_AT);
            for _ in 0..2 {
                get(&mut sealed, FILE);
                get(&mut clear, FILE);
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
}

/// Environment whose processes accept from a sealed listener and one in the clear.
fn classes(driver: &Driver, root: &Path) -> Env {
    let specs = ARCHITECTURES.iter().flat_map(|one| one.driver.options).chain(accept::OPTIONS);
    let settings = settings(&specs.collect::<Vec<_>>(), &[("accept.when_full", "pause")]);
    // A process of mp has one connection, from one of the listeners.
    let (processes, connections_max) = if driver.takes("mp.step_ms") { (2, 1) } else { (1, 100) };
    let (slots, steps) = ((driver.slots)(&settings), (driver.steps)(&settings));
    let shares = (0..processes).map(|process| {
        let slots = process * slots..(process + 1) * slots;
        share(slots, SEALED_AT..CLEAR_AT + 1, connections_max)
    });
    let spec = ListenSpec { steps, ..ListenSpec::new("127.0.0.1:0".parse().unwrap()) };
    let sockets = CLASSES.iter().map(|_| listen(&spec).unwrap()).collect();
    Env {
        classes: CLASSES.to_vec(),
        links: Box::new(Sealing::new(ClearHttp1, Some(CLASSES[SEALED_AT]))),
        ..env(root, settings, sockets, shares.collect())
    }
}
