//! The facts of a finished exchange, for the access log.
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Who is at the other end, in 18 bytes: an IPv4 address is kept in its IPv4-mapped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    address: [u8; 16],
    port: u16,
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        let octets = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        Self { address: octets, port: address.port() }
    }
}

impl Peer {
    /// The address; an IPv4-mapped one comes back as IPv4.
    #[must_use]
    pub fn address(self) -> SocketAddr {
        SocketAddr::new(Ipv6Addr::from(self.address).to_canonical(), self.port)
    }
}

/// How an exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel has every byte of the response.
    Complete,
    /// The file shrank under the response.
    Truncated,
    /// The peer left before the end.
    Aborted,
    /// The peer took the response too slowly.
    Slow,
}

impl Outcome {
    /// One lower-case word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Truncated => "truncated",
            Self::Aborted => "aborted",
            Self::Slow => "slow",
        }
    }
}

/// The facts of one exchange. Text comes from the peer as it was sent: a log must escape it.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When the response was finished, seconds since 1970-01-01T00:00:00Z.
    pub unix: u64,
    /// Who asked.
    pub peer: Peer,
    /// The method as sent; empty if the request line could not be read.
    pub method: &'a [u8],
    /// The request target as sent; empty if the request line could not be read.
    pub target: &'a [u8],
    /// `HTTP/1.0` or `HTTP/1.1`; empty if the request line could not be read.
    pub version: &'static str,
    /// The status code.
    pub status: u16,
    /// Bytes of the response's body, as promised.
    pub body_bytes: u64,
    /// Bytes of head and body that the kernel has taken.
    pub sent_bytes: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// `Referer`, as sent.
    pub referer: Option<&'a [u8]>,
    /// `User-Agent`, as sent.
    pub user_agent: Option<&'a [u8]>,
    /// From the first look at the request to the end, milliseconds.
    pub duration_ms: u64,
    /// True if the connection was to go on after it.
    pub keep_alive: bool,
}

/// Takes the record of each finished exchange.
pub trait Log {
    /// False: records are not wanted, and nothing is kept to make them.
    fn wants(&self) -> bool;
    /// Takes one record. Must not wait: a log that is behind drops lines and counts them.
    fn record(&self, record: &Record<'_>);
}

/// The log that wants nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLog;

impl Log for NoLog {
    fn wants(&self) -> bool {
        false
    }

    fn record(&self, _: &Record<'_>) {}
}
