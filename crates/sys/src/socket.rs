//! TCP sockets: listening, accepting, and options and state of a connection.
use crate::{hook, hook::Call, retry_interrupted};
use rustix::{
    io::Errno,
    net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use std::{
    ffi::OsStr,
    fmt, io,
    net::{IpAddr, SocketAddr},
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::PathBuf,
    time::Duration,
};

/// Prefix of a path, which distinguishes it from an address.
pub const UNIX: &str = "unix:";

/// Place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// An internet address.
    Inet(SocketAddr),
    /// A path ([`crate::unix`]).
    Unix(PathBuf),
}

impl Place {
    /// False if the kernel chooses the port: two such places differ.
    #[must_use]
    pub const fn is_definite(&self) -> bool {
        !matches!(self, Self::Inet(address) if address.port() == 0)
    }
}

impl From<SocketAddr> for Place {
    fn from(address: SocketAddr) -> Self {
        Self::Inet(address)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Whether operations on a socket wait for the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Operations fail with `WouldBlock` instead.
    Nonblocking,
    /// Operations wait.
    Blocking,
}

/// Options of a listener. Accepted sockets inherit everything from `send_buffer_bytes` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenSpec {
    /// Address and port; port 0 lets the kernel choose one.
    pub addr: SocketAddr,
    /// An IPv6 wildcard address takes IPv4 connections too.
    pub dual_stack: bool,
    /// Connections that may wait to be accepted; the kernel caps it at `net.core.somaxconn`.
    pub backlog: u32,
    /// Several sockets share the port, and the kernel spreads connections over them.
    pub reuse_port: bool,
    /// Time to wait for the first bytes before offering a connection, seconds; 0 does not wait
    /// (`TCP_DEFER_ACCEPT`).
    pub defer_accept_s: u32,
    /// Send buffer of a connection, bytes; 0 leaves it to the kernel (`SO_SNDBUF`).
    pub send_buffer_bytes: u32,
    /// Receive buffer of a connection, bytes; 0 leaves it to the kernel (`SO_RCVBUF`).
    pub receive_buffer_bytes: u32,
    /// Bytes per second that a connection sends at most; 0 is no limit (`SO_MAX_PACING_RATE`).
    pub pacing_rate: u64,
    /// Unsent bytes in the kernel from which a connection takes no more; 0 leaves it to the kernel
    /// (`TCP_NOTSENT_LOWAT`).
    pub unsent_bytes_max: u32,
    /// Send small segments at once (`TCP_NODELAY`).
    pub nodelay: bool,
    /// Calls that wait for at most a step.
    pub steps: Steps,
}

/// Calls that wait for at most a step before they fail with `WouldBlock` (`SO_RCVTIMEO`,
/// `SO_SNDTIMEO`), and the length of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// None: the listener does not block, and calls on a connection that blocks wait for its peer.
    None,
    /// Calls on a connection that blocks, unless [`set_timeouts`] differs. The listener does not
    /// block.
    Connections(Duration),
    /// The same, and `accept`: the listener blocks.
    All(Duration),
}

impl ListenSpec {
    /// Defaults of a server.
    #[must_use]
    pub const fn new(addr: SocketAddr) -> Self {
        Self {
            addr,
            dual_stack: false,
            backlog: 1024,
            reuse_port: false,
            defer_accept_s: 0,
            send_buffer_bytes: 0,
            receive_buffer_bytes: 0,
            pacing_rate: 0,
            unsent_bytes_max: 0,
            nodelay: true,
            steps: Steps::None,
        }
    }
}

/// Makes a listening socket.
///
/// # Errors
/// The address is in use, not ours, or not permitted; or an option is refused.
pub fn listen(spec: &ListenSpec) -> io::Result<OwnedFd> {
    let fd = bind(spec)?;
    rustix::net::listen(&fd, i32::try_from(spec.backlog).unwrap_or(i32::MAX))?;
    Ok(fd)
}

/// Applies `spec` to a listening socket that other processes may still accept from. If it was
/// non-blocking it stays so whatever `spec` says: the others would block, too.
///
/// # Errors
/// An option is refused.
pub fn adopt(listener: BorrowedFd<'_>, spec: &ListenSpec) -> io::Result<()> {
    if spec.reuse_port {
        sockopt::set_socket_reuseport(listener, true)?;
        // A previous owner may have steered the connections of this port.
        let _ = set_option(listener, libc::SOL_SOCKET, libc::SO_DETACH_REUSEPORT_BPF, &0);
    }
    set_inherited(listener, spec)?;
    if spec.pacing_rate == 0 {
        // A previous limit may be set. Sizes of buffers that were set stay.
        set_option(listener, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &u64::MAX)?;
    }
    if spec.unsent_bytes_max == 0 {
        // The same holds for unsent bytes; 0 is the kernel's own limit.
        limit_unsent(listener, 0)?;
    }
    let seconds = libc::c_int::try_from(spec.defer_accept_s).unwrap_or(libc::c_int::MAX);
    set_option(listener, libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds)?;
    if !matches!(spec.steps, Steps::All(_)) {
        set_mode(listener, Mode::Nonblocking)?;
    }
    Ok(rustix::net::listen(listener, i32::try_from(spec.backlog).unwrap_or(i32::MAX))?)
}

/// Tries, at a port of the kernel's choice, whether a socket that listens alone can share its port
/// later. socket(7) demands `SO_REUSEPORT` before the first bind. Linux compares the sockets'
/// options when another one binds, and groups them when that listens.
///
/// # Errors
/// This kernel demands it before; or as [`listen`].
pub fn try_sharing(ip: IpAddr) -> io::Result<OwnedFd> {
    let alone = listen(&ListenSpec::new(SocketAddr::new(ip, 0)))?;
    let addr = local_addr(alone.as_fd())?;
    sockopt::set_socket_reuseport(&alone, true)?;
    listen(&ListenSpec { reuse_port: true, ..ListenSpec::new(addr) })
}

/// Checks that no socket listens at an address, with or without sharing its port. A caller about to
/// share it would otherwise share it with strangers.
///
/// # Errors
/// As [`listen`].
pub fn is_free(addr: SocketAddr) -> io::Result<()> {
    bind(&ListenSpec::new(addr)).map(drop)
}

/// Server's end of a TCP connection, with the options that its listener sets on every one.
///
/// Only [`accept`] makes one, and drivers take nothing else: an option that one of them forgot,
/// such as `TCP_NODELAY`, would look like a property of its architecture. The field stays private.
#[derive(Debug)]
pub struct Connection(OwnedFd);

impl AsFd for Connection {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<Connection> for OwnedFd {
    fn from(connection: Connection) -> Self {
        connection.0
    }
}

/// Binds a socket that could [`listen`]: others that share the port get all connections.
///
/// # Errors
/// As [`listen`].
pub fn bind(spec: &ListenSpec) -> io::Result<OwnedFd> {
    let family = if spec.addr.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = match spec.steps {
        Steps::None | Steps::Connections(_) => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Steps::All(_) => SocketFlags::CLOEXEC,
    };
    let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if spec.reuse_port {
        sockopt::set_socket_reuseport(&fd, true)?;
    }
    if spec.addr.is_ipv6() {
        sockopt::set_ipv6_v6only(&fd, !spec.dual_stack)?;
    }
    set_inherited(fd.as_fd(), spec)?;
    if spec.defer_accept_s > 0 {
        let seconds = libc::c_int::try_from(spec.defer_accept_s).unwrap_or(libc::c_int::MAX);
        set_option(fd.as_fd(), libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, &seconds)?;
    }
    rustix::net::bind(&fd, &spec.addr)?;
    Ok(fd)
}

/// Sets the options that accepted sockets inherit.
fn set_inherited(fd: BorrowedFd<'_>, spec: &ListenSpec) -> io::Result<()> {
    sockopt::set_tcp_nodelay(fd, spec.nodelay)?;
    if spec.send_buffer_bytes > 0 {
        let bytes = usize::try_from(spec.send_buffer_bytes).unwrap_or(usize::MAX);
        sockopt::set_socket_send_buffer_size(fd, bytes)?;
    }
    if spec.receive_buffer_bytes > 0 {
        let bytes = usize::try_from(spec.receive_buffer_bytes).unwrap_or(usize::MAX);
        sockopt::set_socket_recv_buffer_size(fd, bytes)?;
    }
    if spec.pacing_rate > 0 {
        set_option(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &spec.pacing_rate)?;
    }
    if spec.unsent_bytes_max > 0 {
        limit_unsent(fd, spec.unsent_bytes_max)?;
    }
    match spec.steps {
        Steps::None => Ok(()),
        Steps::Connections(step) | Steps::All(step) => set_timeouts(fd, Some(step), Some(step)),
    }
}

/// Limits the unsent bytes of the connections of a listener (`TCP_NOTSENT_LOWAT`, tcp(7)). A
/// connection that has this much takes no more. The kernel reports it as writable again below half
/// of the limit. Where the socket is not TCP, or the system lacks the option, nothing changes.
fn limit_unsent(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    match set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, &bytes) {
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::ENOPROTOOPT | libc::EOPNOTSUPP)) =>
        {
            Ok(())
        }
        set => set,
    }
}

/// Unsent bytes in the kernel from which a connection takes no more (`TCP_NOTSENT_LOWAT`), for
/// tests.
///
/// # Errors
/// The descriptor is not a TCP socket.
#[cfg(feature = "test-hooks")]
pub fn unsent_limit(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    let mut len = libc::socklen_t::try_from(size_of_val(&bytes)).expect("it is short");
    // SAFETY: the kernel writes at most `len` bytes, which `bytes` has, and any bytes are a number;
    // both live across the call. The descriptor is open because it is borrowed.
    let result = unsafe {
        let (bytes, len) = ((&raw mut bytes).cast(), &raw mut len);
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes, len)
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.cast_unsigned())
}

/// Makes the kernel choose among the sockets of a port by the processor that handles a connection's
/// first packet, rather than by hash (`SO_ATTACH_REUSEPORT_CBPF`, socket(7)).
///
/// `places` are pairs of a processor and a place. A place is a socket's number in the order in
/// which they began to listen, valid as long as none of them is closed. Packets on other processors
/// go to the first socket. `listener` is any of the sockets; they have `reuse_port`.
///
/// # Errors
/// The socket does not share its port, or the pairs exceed the room of a program (2,000).
pub fn steer_by_cpu(listener: BorrowedFd<'_>, places: &[(u32, u32)]) -> io::Result<()> {
    let mut program = steering(places);
    let len = u16::try_from(program.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let program = libc::sock_fprog { len, filter: program.as_mut_ptr() };
    // SAFETY: the filter has `len` instructions and lives across the call, which only reads them.
    unsafe {
        set_any(listener, libc::SOL_SOCKET, libc::SO_ATTACH_REUSEPORT_CBPF, &raw const program)
    }
}

/// Program of [`steer_by_cpu`] in classic BPF: load the processor; for each pair compare and
/// return.
fn steering(places: &[(u32, u32)]) -> Vec<libc::sock_filter> {
    let does = |code: u32, k: u32, jf: u8| libc::sock_filter {
        code: u16::try_from(code).expect("operations have 16 bits"),
        jt: 0,
        jf,
        k,
    };
    // The kernel's own facts are loaded from negative offsets.
    let cpu = (libc::SKF_AD_OFF + libc::SKF_AD_CPU).cast_unsigned();
    let ret = |place| does(libc::BPF_RET | libc::BPF_K, place, 0);
    let mut program = vec![does(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, cpu, 0)];
    for &(cpu, place) in places {
        program.push(does(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, cpu, 1));
        program.push(ret(place));
    }
    program.push(ret(0));
    program
}

/// Takes one connection from the listener's queue, and returns its peer's address: `None` if it
/// came to a path.
///
/// The socket is close-on-exec and has the listener's options.
///
/// # Errors
/// See [`accept_fault`].
#[inline]
pub fn accept(
    listener: BorrowedFd<'_>,
    mode: Mode,
) -> io::Result<(Connection, Option<SocketAddr>)> {
    let flags = match mode {
        Mode::Nonblocking => SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        Mode::Blocking => SocketFlags::CLOEXEC,
    };
    if let Some(errno) = hook::accept_fault() {
        return Err(errno.into());
    }
    let (fd, peer) =
        retry_interrupted(Call::Accept, || rustix::net::acceptfrom_with(listener, flags))?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    if peer.is_none() {
        inherit(listener, fd.as_fd())?;
    }
    hook::accepted(&fd);
    Ok((Connection(fd), peer))
}

/// Gives a connection what only TCP connections inherit from their listener.
fn inherit(listener: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let step = sockopt::socket_timeout(listener, sockopt::Timeout::Recv)?;
    set_timeouts(fd, step, step)?;
    let bytes = sockopt::socket_send_buffer_size(listener)?;
    if bytes != sockopt::socket_send_buffer_size(fd)? {
        // The kernel doubles the size that is set, and returns the double (socket(7)).
        sockopt::set_socket_send_buffer_size(fd, bytes / 2)?;
    }
    Ok(())
}

/// Class of a failed [`accept`], by what its caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptFault {
    /// No connection is waiting.
    WouldBlock,
    /// The socket no longer listens: [`stop_listening`] was called.
    Closed,
    /// The connection was gone before it was accepted; try the next one (accept(2)).
    Aborted,
    /// No descriptors or memory left: the connection stays in the queue, so stop accepting for a
    /// while or a level-triggered loop spins.
    Exhausted,
    /// The listener is broken.
    Other(i32),
}

/// Classifies a failed [`accept`].
#[must_use]
pub fn accept_fault(error: &io::Error) -> AcceptFault {
    let errno = error.raw_os_error().unwrap_or(0);
    match errno {
        libc::EAGAIN => AcceptFault::WouldBlock,
        libc::EINVAL => AcceptFault::Closed,
        libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM => AcceptFault::Exhausted,
        libc::ECONNABORTED
        | libc::EPERM
        | libc::EPROTO
        | libc::ENOPROTOOPT
        | libc::ENETDOWN
        | libc::ENETUNREACH
        | libc::EHOSTDOWN
        | libc::EHOSTUNREACH
        | libc::ENONET
        | libc::EOPNOTSUPP
        | libc::ETIMEDOUT => AcceptFault::Aborted,
        _ => AcceptFault::Other(errno),
    }
}

/// Makes operations on the socket wait, or not.
///
/// This is a property of the open file, not of the descriptor: it affects every process with it.
///
/// # Errors
/// None that a valid descriptor could have.
pub fn set_mode(fd: impl AsFd, mode: Mode) -> io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, mode == Mode::Nonblocking)?)
}

/// Sets the time after which a blocking receive or send fails with `WouldBlock`. `None` leaves it
/// unchanged; without any setting it is unlimited.
///
/// # Errors
/// The duration is too long for the kernel.
pub fn set_timeouts(
    fd: BorrowedFd<'_>,
    recv: Option<Duration>,
    send: Option<Duration>,
) -> io::Result<()> {
    let both = [(sockopt::Timeout::Recv, recv), (sockopt::Timeout::Send, send)];
    for (of, time) in both.into_iter().filter(|(_, time)| time.is_some()) {
        sockopt::set_socket_timeout(fd, of, time)?;
    }
    Ok(())
}

/// Longest wait of `accept`: the step of [`Steps::All`]; `None` if the listener does not block.
///
/// # Errors
/// None that a valid socket could have.
pub fn wait_max(listener: BorrowedFd<'_>) -> io::Result<Option<Duration>> {
    if rustix::fs::fcntl_getfl(listener)?.contains(rustix::fs::OFlags::NONBLOCK) {
        return Ok(None);
    }
    Ok(sockopt::socket_timeout(listener, sockopt::Timeout::Recv)?)
}

/// Sends nothing more: the peer sees the end of our stream (RFC 9112 §9.6).
///
/// # Errors
/// `NotConnected` if the peer is gone already.
pub fn shutdown_write(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::shutdown(fd, Shutdown::Write)?)
}

/// Refuses connections from now on, in every process that has this listener: closing a descriptor
/// ends listening only if it is the last. Connections still in the queue are reset.
///
/// # Errors
/// `NotConnected` if the socket is not listening.
pub fn stop_listening(listener: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::shutdown(listener, Shutdown::Read)?)
}

/// Makes closing the socket reset the connection and free what the peer has not taken, instead of
/// delivering it in the background (`SO_LINGER` of 0, socket(7)).
///
/// # Errors
/// None that a valid socket could have.
pub fn reset_on_close(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_socket_linger(fd, Some(Duration::ZERO))?)
}

/// Bytes that arrived and have not been received (`FIONREAD`).
///
/// # Errors
/// The descriptor is not a socket, or it is listening.
pub fn unread_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    Ok(rustix::io::ioctl_fionread(fd)?)
}

/// Bytes sent that the peer has not acknowledged yet (`SIOCOUTQ`).
///
/// # Errors
/// The descriptor is not a socket, or it is listening.
pub fn queued_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: TIOCOUTQ (the same number as SIOCOUTQ) writes one int; `bytes` is one, and lives
    // across the call. The descriptor is open because it is borrowed.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(u64::try_from(bytes).unwrap_or(0))
}

/// Time since the last bytes arrived from the peer, received or not, milliseconds: in steps of the
/// kernel's timer, which are 1 to 10 (`TCP_INFO`, tcp(7)).
///
/// # Errors
/// The descriptor is not a TCP socket.
pub fn last_bytes_ms_ago(fd: BorrowedFd<'_>) -> io::Result<u32> {
    /// Word of `tcpi_last_data_recv`.
    const LAST_DATA_RECV: usize = 13;
    Ok(tcp_info::<{ LAST_DATA_RECV + 1 }>(fd)?[LAST_DATA_RECV])
}

/// Segments that arrived from the peer, with or without bytes (`TCP_INFO`, tcp(7)), for tests.
///
/// # Errors
/// The descriptor is not a TCP socket.
#[cfg(feature = "test-hooks")]
pub fn segments_received(fd: BorrowedFd<'_>) -> io::Result<u32> {
    /// Word of `tcpi_segs_in`.
    const SEGS_IN: usize = 35;
    Ok(tcp_info::<{ SEGS_IN + 1 }>(fd)?[SEGS_IN])
}

/// First words, of 4 bytes each, of the kernel's `struct tcp_info`.
fn tcp_info<const WORDS: usize>(fd: BorrowedFd<'_>) -> io::Result<[u32; WORDS]> {
    let mut told = [0_u32; WORDS];
    let mut len = libc::socklen_t::try_from(size_of_val(&told)).expect("it is short");
    // SAFETY: the kernel writes at most `len` bytes, which `told` has, and any bytes are numbers;
    // both live across the call. The descriptor is open because it is borrowed.
    let result = unsafe {
        let (told, len) = (told.as_mut_ptr().cast(), &raw mut len);
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, told, len)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(told) }
}

/// True for a listening stream socket.
///
/// # Errors
/// The descriptor is not a socket.
pub fn is_listening(fd: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(sockopt::socket_type(fd)? == SocketType::STREAM && sockopt::socket_acceptconn(fd)?)
}

/// Place that the socket is bound to.
///
/// # Errors
/// The socket is bound neither to an address nor to a path.
pub fn place(fd: BorrowedFd<'_>) -> io::Result<Place> {
    let address = rustix::net::getsockname(fd)?;
    let Ok(unix) = SocketAddrUnix::try_from(address.clone()) else {
        return Ok(Place::Inet(SocketAddr::try_from(address)?));
    };
    let path = unix.path_bytes().ok_or(Errno::AFNOSUPPORT)?;
    Ok(Place::Unix(OsStr::from_bytes(path).into()))
}

/// Address that the socket is bound to.
///
/// # Errors
/// The socket is not an internet socket.
pub fn local_addr(fd: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    Ok(SocketAddr::try_from(rustix::net::getsockname(fd)?)?)
}

/// Sets an option whose value is a number and that rustix does not know.
pub(crate) fn set_option<T: Number>(
    fd: BorrowedFd<'_>,
    layer: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the value lives across the call, and no option takes a number for a pointer.
    unsafe { set_any(fd, layer, name, std::ptr::from_ref(value)) }
}

/// Number that is the value of an option.
pub(crate) trait Number {}
impl Number for i32 {}
impl Number for u64 {}

/// Sets any option.
///
/// # Safety
/// `value` leads to a value that can be read during the call, as do all pointers in it which the
/// option follows.
unsafe fn set_any<T>(
    fd: BorrowedFd<'_>,
    layer: libc::c_int,
    name: libc::c_int,
    value: *const T,
) -> io::Result<()> {
    let len = libc::socklen_t::try_from(size_of::<T>()).expect("options are short");
    // SAFETY: the pointer leads to `len` bytes, by contract.
    let result = unsafe { libc::setsockopt(fd.as_raw_fd(), layer, name, value.cast(), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
