//! Fates of requests: a closed list. Each request has exactly one.

use serde::{Deserialize, Serialize};
use std::io;

crate::named! {
    /// Fate of a request.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum Fate {
        /// Answered in time with a status below 400, and the right bytes where they are verified.
        Good = "good",
        /// Answered as it should be, but after its deadline.
        Late = "late",
        /// Answered with a status that is not wanted.
        Status = "status",
        WrongLength = "wrong-length",
        WrongBytes = "wrong-bytes",
        /// The content is an older version than had been served before.
        Stale = "stale",
        /// The reply is not HTTP/1.1, or belongs to no request.
        Malformed = "malformed",
        /// The connection ended in the middle of the reply.
        Truncated = "truncated",
        /// The connection ended or was reset before the reply.
        Reset = "reset",
        /// The handshake of TLS failed, or a record is not the server's.
        Tls = "tls",
        /// No process listens (httperf `connrefused`).
        Refused = "refused",
        /// The time-out passed while connecting, sending, waiting or receiving (httperf
        /// `client-timo`).
        Timeout = "timeout",
        /// The kernel gave up (`ETIMEDOUT`; httperf `socket-timo`).
        SocketTimeout = "socket-timeout",
        /// This process has no descriptors left (httperf `fd-unavail`): the client's fault.
        NoDescriptor = "no-descriptor",
        /// No port is left (httperf `addrunavail`): the client's fault.
        NoAddress = "no-address",
        /// The deadline passed, or too many were waiting, before the request could be sent.
        Expired = "expired",
        /// The run ended first.
        Unfinished = "unfinished",
        Other = "other",
    }
}

impl Fate {
    /// Whether the whole reply arrived, right or wrong, so that its time is known.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Good | Self::Late)
    }

    /// Whether the client stopped waiting for the reply, so that its time is longer than it waited.
    pub fn is_given_up(self) -> bool {
        matches!(self, Self::Timeout | Self::SocketTimeout | Self::Expired | Self::Unfinished)
    }

    /// Whether the reply was not what the server should have sent.
    pub fn is_lie(self) -> bool {
        matches!(self, Self::WrongLength | Self::WrongBytes | Self::Stale | Self::Malformed)
    }

    /// Fate that a failed connect, send or receive means.
    pub(super) fn of(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
            return Self::NoDescriptor;
        }
        match error.kind() {
            Kind::AddrNotAvailable => Self::NoAddress,
            // A Unix socket that does not exist, too.
            Kind::ConnectionRefused | Kind::NotFound => Self::Refused,
            Kind::InvalidData => Self::Tls,
            Kind::UnexpectedEof
            | Kind::ConnectionReset
            | Kind::BrokenPipe
            | Kind::ConnectionAborted => Self::Reset,
            Kind::TimedOut => Self::SocketTimeout,
            _ => Self::Other,
        }
    }
}

/// Linux's numbers for these, which have no `ErrorKind` (errno(3)).
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Named", into = "Named")]
pub struct Fates([u64; Fate::ALL.len()]);

type Named = std::collections::BTreeMap<Fate, u64>;

impl From<Named> for Fates {
    fn from(named: Named) -> Self {
        let mut fates = Self::default();
        named.into_iter().for_each(|(fate, count)| fates.0[fate as usize] += count);
        fates
    }
}

impl From<Fates> for Named {
    fn from(fates: Fates) -> Self {
        Fate::ALL.into_iter().map(|fate| (fate, fates.get(fate))).collect()
    }
}

impl Fates {
    pub fn get(&self, fate: Fate) -> u64 {
        self.0[fate as usize]
    }

    #[inline]
    pub fn count(&mut self, fate: Fate) {
        self.0[fate as usize] += 1;
    }

    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub fn sum(&self, which: impl Fn(Fate) -> bool) -> u64 {
        Fate::ALL.into_iter().filter(|&fate| which(fate)).map(|fate| self.get(fate)).sum()
    }

    /// All that are not good, except those that the end of the run cut off.
    pub fn errors(&self) -> u64 {
        self.sum(|fate| !matches!(fate, Fate::Good | Fate::Unfinished))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_are_in_order_and_named_as_they_are_stored() {
        for (at, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, at);
            assert_eq!(serde_json::to_string(&fate).unwrap(), format!("\"{}\"", fate.name()));
        }
        let mut fates = Fates::default();
        fates.count(Fate::Good);
        fates.count(Fate::Timeout);
        fates.count(Fate::Unfinished);
        let again: Fates = serde_json::from_str(&serde_json::to_string(&fates).unwrap()).unwrap();
        assert_eq!((again, again.errors(), again.total()), (fates, 1, 3));
    }
}
