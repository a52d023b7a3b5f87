//! Environments of worker processes, their options, and their peers.
use regatta_arch::{
    Env, Share,
    options::{OptionSpec, Settings},
    releases::Releases,
};
use regatta_metrics::Arena;
use regatta_origin::{ClearHttp1, ListenerClass, NoLog, Site};
use regatta_sys::{Bell, OpenRules, Root, channel::Channel, shm};
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    ops::Range,
    os::fd::OwnedFd,
    path::Path,
    sync::Arc,
    time::Duration,
};

/// Time that the machine may take for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// These options, some of them with other values than their defaults.
pub(crate) fn settings(specs: &[&OptionSpec], sets: &[(&str, &str)]) -> Settings {
    let mut settings = Settings::defaults(specs.iter().copied());
    for (key, value) in sets {
        let spec = specs.iter().find(|spec| spec.key == *key).unwrap();
        settings.set(spec, spec.kind.parse(value).unwrap()).unwrap();
    }
    settings
}

/// Share of a process that may run on any processor.
pub(crate) fn share(slots: Range<usize>, listeners: Range<usize>, connections_max: usize) -> Share {
    Share { slots, listeners, connections_max, cpus: Vec::new() }
}

/// Environment of processes that serve this root at these sockets, in the clear.
pub(crate) fn env(
    root: &Path,
    settings: Settings,
    sockets: Vec<OwnedFd>,
    shares: Vec<Share>,
) -> Env {
    let slots = shares.iter().map(|share| share.slots.end).max().unwrap();
    let words = Box::leak(Box::new(shm::create(Arena::count_words(slots)).unwrap()));
    Env {
        classes: vec![ListenerClass::CLEAR; sockets.len()],
        sockets,
        root: Arc::new(Root::open(root).unwrap()),
        root_channels: shares.iter().map(|_| Channel::pair().unwrap().0).collect(),
        releases: Releases::new(1, Box::new(|_, _, _| Arc::default())),
        rules: OpenRules::default(),
        site: Site::default(),
        links: Box::new(ClearHttp1),
        files: Arc::default(),
        deriver: None,
        lister: None,
        arena: Arena::create(words.words(), slots),
        bells: shares.iter().map(|_| Bell::new().unwrap()).collect(),
        shares,
        settings,
        shared: None,
        open_log: Box::new(|_| Box::new(NoLog)),
        end_process: || {},
    }
}

/// Connects a peer, whose calls fail in the end.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let peer = TcpStream::connect(address).unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    peer.set_write_timeout(Some(PATIENCE)).unwrap();
    peer
}

/// Requests these files, all at once.
pub(crate) fn ask(peer: &mut impl Write, names: &[&str]) {
    let requests = names.iter().map(|name| format!("GET /{name} HTTP/1.1\r\nHost: a\r\n\r\n"));
    peer.write_all(requests.collect::<String>().as_bytes()).unwrap();
}

/// Reads the head of a response.
pub(crate) fn head(peer: &mut impl Read) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        let read = peer.read_exact(&mut byte);
        read.unwrap_or_else(|error| panic!("{error} after {}", head.escape_ascii()));
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}
