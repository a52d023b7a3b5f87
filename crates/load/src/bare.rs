//! The bare loop: epoll, and the same bytes for whatever comes. It parses nothing, and is what a
//! server is measured against.
//!
//! One read is taken as one request if it ends with a blank line; what is in it is not looked at.
use clap::Args;
use regatta_sys::{
    StaticFile, recv, send_last, send_more, send_range,
    socket::{self, Connection, ListenSpec, Mode},
    wait::{Epoll, Event, Interest, Poller, Trigger},
};
use std::{
    fs::{self, File},
    io::{self, Write},
    net::{SocketAddr, ToSocketAddrs},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// The longest request that is taken whole, bytes.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Address and answer of the bare loop.
#[derive(Args, Clone, Debug)]
pub struct BareOptions {
    /// The address to listen on.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
    pub listen: String,
    /// Bytes to send, from memory.
    #[arg(long, value_name = "BYTES", default_value = "4096", conflicts_with = "file")]
    pub body: u64,
    /// A file to send: from memory below 64 KiB, else with sendfile.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
}

/// Reason for which the bare loop ends or does not begin.
#[derive(Debug, thiserror::Error)]
pub enum BareFault {
    #[error(
        "--listen: \"{listen}\" is no address: {source}\n  hint: a host and a port, as in \
         127.0.0.1:8080"
    )]
    Listen { listen: String, source: io::Error },
    #[error(
        "--body: {0} is more than {most} bytes\n  hint: --file sends larger bodies",
        most = BODY_BYTES_MAX
    )]
    Body(u64),
    #[error("--file: \"{}\" cannot be sent: {source}", .path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("cannot listen on {address}: {source}{}", hint(.address, .source))]
    Bind { address: SocketAddr, source: io::Error },
    #[error("the bare loop cannot continue: {0}")]
    Loop(io::Error),
}

impl BareFault {
    /// Exit code of the command: 2 for a wrong option, 1 for failed work.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Listen { .. } | Self::Body(_) | Self::File { .. } => 2,
            Self::Bind { .. } | Self::Loop(_) => 1,
        }
    }
}

fn hint(address: &SocketAddr, source: &io::Error) -> String {
    if source.kind() != io::ErrorKind::AddrInUse {
        return String::new();
    }
    let port = address.port();
    format!("\n  hint: another process has it: `ss -ltnp sport = :{port}` shows which")
}

/// Length from which a file is sent with `sendfile`: below, a copy is cheaper.
const SENDFILE_BYTES_MIN: u64 = 64 << 10;
/// The largest body from memory, bytes.
pub const BODY_BYTES_MAX: u64 = 1 << 30;

/// Runs the bare loop until the process is killed.
///
/// # Errors
/// An option is wrong, or a system call failed.
pub fn run(options: &BareOptions) -> Result<(), BareFault> {
    let wrong = |source| BareFault::Listen { listen: options.listen.clone(), source };
    let mut addresses = options.listen.to_socket_addrs().map_err(wrong)?;
    let address = addresses.next().ok_or_else(|| wrong(io::ErrorKind::NotFound.into()))?;
    let canned = Canned::new(options)?;
    let listener = socket::listen(&ListenSpec::new(address))
        .map_err(|source| BareFault::Bind { address, source })?;
    regatta_sys::signal::ignore_failed_writes();
    let place = socket::place(listener.as_fd()).map_err(BareFault::Loop)?;
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "listening on http://{place}").and_then(|()| out.flush());
    drop(out);
    Loop::new(&listener, canned).and_then(Loop::run).map_err(BareFault::Loop)
}

type SizedFile = (StaticFile, u64);

struct Canned {
    /// Status line, fields, and the body if it is in memory.
    bytes: Vec<u8>,
    file: Option<SizedFile>,
}

impl Canned {
    fn new(options: &BareOptions) -> Result<Self, BareFault> {
        let (body, file) = match &options.file {
            Some(path) => {
                from_file(path).map_err(|source| BareFault::File { path: path.clone(), source })?
            }
            None if options.body > BODY_BYTES_MAX => return Err(BareFault::Body(options.body)),
            None => (vec![b'x'; usize::try_from(options.body).expect("below a GiB")], None),
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

/// A small file's bytes, or a large file with its length.
fn from_file(path: &Path) -> io::Result<(Vec<u8>, Option<SizedFile>)> {
    let len = fs::metadata(path)?.len();
    if len < SENDFILE_BYTES_MIN {
        let body = fs::read(path)?;
        let is_empty = io::Error::new(io::ErrorKind::InvalidInput, "the file is empty");
        return if body.is_empty() { Err(is_empty) } else { Ok((body, None)) };
    }
    let file = StaticFile::adopt(File::open(path)?.into());
    let file = file.map_err(|_| io::Error::from(io::ErrorKind::IsADirectory))?;
    Ok((Vec::new(), Some((file, len))))
}

struct Peer {
    socket: Connection,
    /// Bytes of the answer that the kernel has, if it did not take it whole.
    sent: Option<u64>,
}

enum Turn {
    /// The next request may come.
    Done,
    /// The peer must read some first; this many bytes are sent.
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
