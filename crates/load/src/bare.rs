//! The bare loop: epoll, and the same bytes for whatever comes. It parses nothing, and is what a
//! server is measured against.
//!
//! One read is taken as one request if it ends with a blank line; what is in it is not looked at.
use crate::{
    Failure, announce,
    config::{
        address,
        raw::{Location, Problem},
    },
    master::listen_fault,
};
use regatta_op::{Codings, File, OpenReq, Opened};
use regatta_sys::{
    OpenRules, Root, StaticFile, open_below, recv, send_last, send_more, send_range,
    socket::{self, Connection, ListenSpec, Mode},
    wait::{Epoll, Event, Interest, Poller, Trigger},
};
use std::{
    ffi::OsStr,
    fmt, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

/// The longest request that is taken whole, bytes.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// What the bare loop does.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen.
    pub listen: String,
    /// What to answer.
    pub body: Body,
}

/// What the bare loop answers.
#[derive(Clone, Debug)]
pub enum Body {
    /// So many bytes, from memory.
    Bytes(u64),
    /// This file: from memory below 64 KiB, else with `sendfile`.
    File(PathBuf),
}

/// A file of at least so many bytes is sent with `sendfile`: below, copying is cheaper.
const SENDFILE_BYTES_MIN: u64 = 64 << 10;
/// The largest body from memory, bytes.
pub const BODY_BYTES_MAX: u64 = 1 << 30;

/// Runs the bare loop until the process is killed.
///
/// # Errors
/// What is wrong with the options, or what failed.
pub fn run(options: &Options) -> Result<(), Failure> {
    let wrong = |name: &str, message: String| {
        Failure::Configuration(vec![Problem::new(Location::Argument(name.to_owned()), message)])
    };
    let address = address::address(&options.listen)
        .map_err(|fault| wrong("--listen", format!("\"{}\": {fault}", options.listen)))?;
    let canned = Canned::new(&options.body).map_err(|(name, message)| wrong(name, message))?;
    let listener = socket::listen(&ListenSpec::new(address))
        .map_err(|error| Failure::Work(listen_fault(&address.into(), &error)))?;
    regatta_sys::signal::ignore_failed_writes();
    let fault = |error: io::Error| Failure::Work(format!("the bare loop cannot go on: {error}"));
    announce(&[socket::place(listener.as_fd()).map_err(fault)?]);
    Loop::new(&listener, canned).and_then(Loop::run).map_err(fault)
}

/// The answer.
struct Canned {
    /// Status line, fields, and the body if it is in memory.
    bytes: Vec<u8>,
    file: Option<(StaticFile, u64)>,
}

impl Canned {
    fn new(body: &Body) -> Result<Self, (&'static str, String)> {
        let (body, file) = match body {
            Body::Bytes(len) if *len <= BODY_BYTES_MAX => {
                (vec![b'x'; usize::try_from(*len).expect("below a GiB")], None)
            }
            Body::Bytes(len) => {
                return Err(("--body", format!("{len} is more than {BODY_BYTES_MAX} bytes")));
            }
            Body::File(path) => {
                let fault = |why: String| ("--file", format!("\"{}\": {why}", path.display()));
                let file = open(path).map_err(fault)?;
                if file.len() < SENDFILE_BYTES_MIN {
                    (std::fs::read(path).map_err(|error| fault(error.to_string()))?, None)
                } else {
                    (Vec::new(), Some((file.clone(), file.len())))
                }
            }
        };
        let len = file.as_ref().map_or(body.len() as u64, |(_, len)| *len);
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {len}\r\n\
             \r\n"
        )
        .into_bytes();
        bytes.extend(body);
        Ok(Self { bytes, file })
    }

    fn file_len(&self) -> u64 {
        self.file.as_ref().map_or(0, |(_, len)| *len)
    }
}

fn open(path: &Path) -> Result<StaticFile, String> {
    let parent = path.parent().filter(|parent| *parent != OsStr::new(""));
    let root = Root::open(parent.unwrap_or(Path::new("."))).map_err(|error| error.to_string())?;
    let name = path.file_name().ok_or("it names no file")?;
    let req = OpenReq { path: name.as_bytes().into(), siblings: Codings::NONE };
    match open_below(&root, &req, OpenRules { symlinks: true }) {
        Ok(Opened::File { file, .. }) if !file.is_empty() => Ok(file),
        Ok(Opened::File { .. }) => Err("it is empty".to_owned()),
        Ok(Opened::Directory) => Err("it is a directory".to_owned()),
        Err(fault) => Err(format!("it cannot be opened: {fault:?}")),
    }
}

struct Peer {
    socket: Connection,
    /// Bytes of the answer that the kernel has, if it did not take it whole.
    sent: Option<u64>,
}

enum Turn {
    /// The next request may come.
    Done,
    /// The peer must take some first; so many bytes are gone.
    Full(u64),
    Gone,
}

struct Loop<'a> {
    poller: Epoll,
    listener: &'a OwnedFd,
    canned: Canned,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
}

impl fmt::Debug for Loop<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loop").field("peers", &self.peers.len()).finish_non_exhaustive()
    }
}

const LISTENER: u64 = u64::MAX;

impl<'a> Loop<'a> {
    fn new(listener: &'a OwnedFd, canned: Canned) -> io::Result<Self> {
        let mut poller = Epoll::new(Trigger::Level)?;
        poller.add(listener.as_fd(), LISTENER, Interest::READ)?;
        let buffer = vec![0; REQUEST_BYTES_MAX];
        Ok(Self { poller, listener, canned, peers: Vec::new(), free: Vec::new(), buffer })
    }

    fn run(mut self) -> io::Result<()> {
        let mut events: Vec<Event> = Vec::new();
        loop {
            self.poller.wait(&mut events, None)?;
            for event in &events {
                match usize::try_from(event.key).ok().filter(|_| event.key != LISTENER) {
                    Some(at) => self.turn(at)?,
                    None => self.accept()?,
                }
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let (socket, _) = match socket::accept(self.listener.as_fd(), Mode::Nonblocking) {
            Ok(accepted) => accepted,
            Err(error) => match socket::accept_fault(&error) {
                socket::AcceptFault::WouldBlock | socket::AcceptFault::Aborted => return Ok(()),
                _ => return Err(error),
            },
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() - 1
        });
        self.poller.add(socket.as_fd(), at as u64, Interest::READ)?;
        self.peers[at] = Some(Peer { socket, sent: None });
        Ok(())
    }

    fn turn(&mut self, at: usize) -> io::Result<()> {
        let Some(peer) = &mut self.peers[at] else { return Ok(()) };
        let fd = peer.socket.as_fd();
        let turn = match peer.sent {
            None => match recv(fd, &mut self.buffer) {
                Ok(0) => Turn::Gone,
                Ok(n) if self.buffer[..n].ends_with(b"\r\n\r\n") => answer(fd, &self.canned, 0),
                Ok(_) => Turn::Done,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Turn::Done,
                Err(_) => Turn::Gone,
            },
            Some(sent) => answer(fd, &self.canned, sent),
        };
        match turn {
            Turn::Done if peer.sent.is_some() => {
                peer.sent = None;
                self.poller.set(fd, at as u64, Interest::READ)
            }
            Turn::Done => Ok(()),
            Turn::Full(sent) => {
                let armed = peer.sent.replace(sent).is_some();
                if armed { Ok(()) } else { self.poller.set(fd, at as u64, Interest::WRITE) }
            }
            Turn::Gone => {
                let removed = self.poller.remove(fd);
                self.peers[at] = None;
                self.free.push(at);
                removed
            }
        }
    }
}

/// Sends the answer from byte `sent` on, until the peer has no room.
#[inline]
fn answer(fd: BorrowedFd<'_>, canned: &Canned, mut sent: u64) -> Turn {
    let in_memory = canned.bytes.len() as u64;
    let total = in_memory + canned.file_len();
    while sent < total {
        let result = match &canned.file {
            None => send_last(fd, rest(&canned.bytes, sent)),
            Some(_) if sent < in_memory => send_more(fd, rest(&canned.bytes, sent)),
            Some((file, _)) => send_range(fd, file, sent - in_memory, total - sent),
        };
        match result {
            Ok(0) => return Turn::Gone,
            Ok(n) => sent += n,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Turn::Full(sent),
            Err(_) => return Turn::Gone,
        }
    }
    Turn::Done
}

fn rest(bytes: &[u8], sent: u64) -> &[u8] {
    &bytes[usize::try_from(sent).expect("less than the length of the bytes")..]
}
