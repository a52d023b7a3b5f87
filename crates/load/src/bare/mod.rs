//! The bare loop: the same bytes for whatever comes. It parses nothing, and is what a server is
//! measured against.
//!
//! One read is taken as one request if it ends with a blank line; what is in it is not looked at.
mod epoll;
mod uring;

use clap::{Args, ValueEnum};
use regatta_sys::{
    StaticFile,
    socket::{self, ListenSpec},
};
use std::{
    fs::{self, File},
    io::{self, Write},
    net::{SocketAddr, ToSocketAddrs},
    os::fd::{AsFd, BorrowedFd},
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
    /// A file to send. epoll sends it from memory below 64 KiB, else with sendfile; uring always
    /// from memory.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// Way of the kernel to perform its operations.
    #[arg(long, value_enum, default_value = "epoll")]
    pub engine: Engine,
}

/// Way of the kernel to perform operations of the bare loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Engine {
    /// Readiness: epoll, and a receive and a send for each request.
    Epoll,
    /// Completion: io_uring, and one call for all that a round receives and sends.
    Uring,
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
    #[error(
        "--engine uring: io_uring is not available: {0}\n  hint: it needs Linux 6.1, and may be \
         forbidden by kernel.io_uring_disabled or by a container"
    )]
    Ring(io::Error),
    #[error("the bare loop cannot continue: {0}")]
    Loop(io::Error),
}

impl BareFault {
    /// Exit code of the command: 2 for a wrong option, 1 for failed work.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Listen { .. } | Self::Body(_) | Self::File { .. } => 2,
            Self::Bind { .. } | Self::Ring(_) | Self::Loop(_) => 1,
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
    match options.engine {
        Engine::Epoll => {
            let own = epoll::Loop::new(&listener, canned).map_err(BareFault::Loop)?;
            announce(listener.as_fd()).and_then(|()| own.run())
        }
        Engine::Uring => {
            let own = uring::Loop::new(&listener, canned.bytes).map_err(BareFault::Ring)?;
            announce(listener.as_fd()).and_then(|()| own.run())
        }
    }
    .map_err(BareFault::Loop)
}

/// Prints the address, as a server does.
fn announce(listener: BorrowedFd<'_>) -> io::Result<()> {
    let place = socket::place(listener)?;
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "listening on http://{place}").and_then(|()| out.flush());
    Ok(())
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
            Some(path) => from_file(path, options.engine)
                .map_err(|source| BareFault::File { path: path.clone(), source })?,
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

/// A file's bytes, or a large file with its length for an engine that has sendfile.
fn from_file(path: &Path, engine: Engine) -> io::Result<(Vec<u8>, Option<SizedFile>)> {
    let len = fs::metadata(path)?.len();
    if engine == Engine::Uring && len > BODY_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    if len < SENDFILE_BYTES_MIN || engine == Engine::Uring {
        let body = fs::read(path)?;
        let is_empty = io::Error::new(io::ErrorKind::InvalidInput, "the file is empty");
        return if body.is_empty() { Err(is_empty) } else { Ok((body, None)) };
    }
    let file = StaticFile::adopt(File::open(path)?.into());
    let file = file.map_err(|_| io::Error::from(io::ErrorKind::IsADirectory))?;
    Ok((Vec::new(), Some((file, len))))
}
