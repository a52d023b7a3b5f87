//! What can become of a request: a closed list, of which each has exactly one.

use serde::{Deserialize, Serialize};
use std::io;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Answered in time with a status below 400, and the right bytes where they are verified.
    Good,
    /// Answered as it should be, but after its deadline.
    Late,
    /// Answered with a status that is not wanted.
    Status,
    /// The content has another length than it should.
    WrongLength,
    /// The content has other bytes than it should.
    WrongBytes,
    /// The content is an older version than had been served before.
    Stale,
    /// The reply is not HTTP/1.1, or nobody asked for it.
    Malformed,
    /// The connection ended in the middle of the reply.
    Truncated,
    /// The connection ended or was reset before the reply.
    Reset,
    /// Nobody listens (httperf `connrefused`).
    Refused,
    /// The time-out passed while connecting, sending, waiting or receiving (httperf
    /// `client-timo`).
    Timeout,
    /// The kernel gave up (`ETIMEDOUT`; httperf `socket-timo`).
    SocketTimeout,
    /// This process has no descriptors left (httperf `fd-unavail`): the client's fault.
    NoDescriptor,
    /// No port is left (httperf `addrunavail`): the client's fault.
    NoAddress,
    /// Its deadline passed, or too many were waiting, before it could be sent.
    Expired,
    /// The run ended first.
    Unfinished,
    /// Any other error of the system.
    Other,
}

impl Fate {
    /// Every fate, in the order in which they are counted.
    pub const ALL: [Self; 17] = [
        Self::Good,
        Self::Late,
        Self::Status,
        Self::WrongLength,
        Self::WrongBytes,
        Self::Stale,
        Self::Malformed,
        Self::Truncated,
        Self::Reset,
        Self::Refused,
        Self::Timeout,
        Self::SocketTimeout,
        Self::NoDescriptor,
        Self::NoAddress,
        Self::Expired,
        Self::Unfinished,
        Self::Other,
    ];

    /// How it is called in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Late => "late",
            Self::Status => "status",
            Self::WrongLength => "wrong-length",
            Self::WrongBytes => "wrong-bytes",
            Self::Stale => "stale",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::Reset => "reset",
            Self::Refused => "refused",
            Self::Timeout => "timeout",
            Self::SocketTimeout => "socket-timeout",
            Self::NoDescriptor => "no-descriptor",
            Self::NoAddress => "no-address",
            Self::Expired => "expired",
            Self::Unfinished => "unfinished",
            Self::Other => "other",
        }
    }

    /// Whether the whole reply arrived, right or wrong, so that its time is known.
    pub fn is_answer(self) -> bool {
        matches!(self, Self::Good | Self::Late)
    }

    /// Whether the reply was not what the server should have sent.
    pub fn is_lie(self) -> bool {
        matches!(self, Self::WrongLength | Self::WrongBytes | Self::Stale | Self::Malformed)
    }

    /// What a failed connect, send or receive means.
    pub(super) fn of(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        if matches!(error.raw_os_error(), Some(EMFILE | ENFILE)) {
            return Self::NoDescriptor;
        }
        match error.kind() {
            Kind::AddrNotAvailable => Self::NoAddress,
            Kind::ConnectionRefused => Self::Refused,
            Kind::ConnectionReset | Kind::BrokenPipe | Kind::ConnectionAborted => Self::Reset,
            Kind::TimedOut => Self::SocketTimeout,
            _ => Self::Other,
        }
    }
}

/// Linux's numbers for these, which have no `ErrorKind` (errno(3)).
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;

/// A count for every fate.
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
    /// How many had this fate.
    pub fn get(&self, fate: Fate) -> u64 {
        self.0[fate as usize]
    }

    /// Counts one.
    #[inline]
    pub fn count(&mut self, fate: Fate) {
        self.0[fate as usize] += 1;
    }

    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, count)| *sum += count);
    }

    /// All together.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those for which `which` holds.
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
