//! Rules, files and peers of the tests of this program.
pub(crate) use crate::env::{PATIENCE, ask, connect, head};

use regatta_arch::{
    conn::{
        accept::{AcceptRules, WhenFull},
        step::{Leaves, TurnRules},
        worker::WorkerEnv,
    },
    drive::FileCx,
};
use regatta_metrics::{Arena, Tally};
use regatta_origin::{Cache, ClearHttp1, NoLog, Scratch, Site};
use regatta_sys::{Bell, StaticFile, socket::Mode};
use std::{
    fs,
    io::{Read, Write},
    path::Path,
    thread,
};

/// Rules that accept all at once, until a worker is full.
pub(crate) const ACCEPTS: AcceptRules = AcceptRules {
    count: 0,
    events_per_accept: 0,
    eager_read: true,
    on_close: false,
    when_full: WhenFull::Pause,
    connections_max: 100,
    mode: Mode::Nonblocking,
    exclusive: false,
};

/// Rules of turns that leave nothing to others.
pub(crate) const TURNS: TurnRules = TurnRules {
    bytes_max: 2 << 20,
    ops_max: 64,
    handshakes_per_round: 8,
    full_read: false,
    eager_write: true,
    edge: false,
    patience: None,
    leaves: Leaves::NONE,
};

/// Environment of a worker that logs nothing and shares no table of descriptors.
pub(crate) fn around<'a>(
    site: &'a Site,
    cache: &'a dyn Cache<StaticFile>,
    scratch: &'a Scratch<StaticFile>,
    tally: Tally<'a>,
    arena: Arena<'a>,
    bell: &'a Bell,
) -> WorkerEnv<'a> {
    WorkerEnv {
        cx: FileCx { site, cache, tally, log: &NoLog, scratch, links: &ClearHttp1 },
        slot: tally.slot(),
        control: arena.control(),
        bell,
        log: &NoLog,
        stall_ns: u64::MAX,
        shared: None,
        root: None,
    }
}

/// Ends a worker, also after the client has failed.
pub(crate) struct Stop<'a>(pub(crate) Arena<'a>, pub(crate) &'a Bell);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.control().stop();
        self.1.ring();
    }
}

/// A served file: its body follows from both.
#[derive(Clone, Copy)]
pub(crate) struct TestFile {
    pub(crate) name: &'static str,
    pub(crate) bytes: usize,
}

impl TestFile {
    pub(crate) fn body(self) -> Vec<u8> {
        let salt: usize = self.name.bytes().map(usize::from).sum();
        let period = (0..3 * 251).map(|at| u8::try_from((at / 3 + salt) % 251).unwrap());
        let period: Vec<u8> = period.collect();
        let mut body = period.repeat(self.bytes.div_ceil(period.len()));
        body.truncate(self.bytes);
        body
    }

    pub(crate) fn write(self, folder: &Path) {
        fs::write(folder.join(self.name), self.body()).unwrap();
    }
}

/// Reads the response that has this file.
pub(crate) fn answer(peer: &mut impl Read, file: TestFile) {
    let TestFile { name, bytes } = file;
    let head = head(peer);
    let length = format!("\r\nContent-Length: {bytes}\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains(&length), "{name}: {head}");
    let mut found = vec![0; bytes];
    peer.read_exact(&mut found).unwrap_or_else(|error| panic!("{name}: {error} in the body"));
    assert!(found == file.body(), "{name}: other bytes");
}

pub(crate) fn get(peer: &mut (impl Read + Write), file: TestFile) {
    ask(peer, &[file.name]);
    answer(peer, file);
}

/// Runs clients at the same time, each with its number.
pub(crate) fn at_once(clients: usize, run: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for client in 0..clients {
            let run = &run;
            scope.spawn(move || run(client));
        }
    });
}
