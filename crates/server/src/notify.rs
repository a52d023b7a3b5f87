//! Notices to the service manager (`sd_notify(3)`), without waiting for it.
use regatta_op::Tick;
use std::{
    env,
    ffi::OsStr,
    fmt::{self, Display, Formatter},
    io,
    os::{
        linux::net::SocketAddrExt,
        unix::{
            ffi::OsStrExt,
            net::{SocketAddr, UnixDatagram},
        },
    },
    process,
};

/// Notice to the service manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message<'a> {
    /// All workers serve.
    Ready {
        /// Number of workers.
        workers: usize,
        /// Name of the architecture.
        architecture: &'a str,
        /// Number of their generation.
        generation: u64,
    },
    /// Another generation is requested. Whatever the result, the server is ready again.
    Reloading {
        /// Precise monotonic clock, microseconds: the service manager recognizes the answer to its
        /// request by it.
        monotonic_us: u64,
    },
    /// A requested generation failed, and the serving one continues.
    Unchanged,
    /// The server drains and will exit.
    Stopping,
    /// A worker answers.
    Alive,
}

impl Display for Message<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { workers, architecture, generation } => {
                let plural = if *workers == 1 { "" } else { "s" };
                writeln!(f, "READY=1")?;
                write!(f, "STATUS=serving with {workers} worker{plural} ({architecture})")?;
                writeln!(f, ", generation {generation}")
            }
            Self::Reloading { monotonic_us } => {
                writeln!(f, "RELOADING=1\nMONOTONIC_USEC={monotonic_us}")?;
                writeln!(f, "STATUS=another generation of workers begins")
            }
            Self::Unchanged => {
                writeln!(f, "READY=1")?;
                writeln!(f, "STATUS=serving as before: a reload failed, the error log says why")
            }
            Self::Stopping => writeln!(f, "STOPPING=1"),
            Self::Alive => writeln!(f, "WATCHDOG=1"),
        }
    }
}

/// Times of the notices to the watchdog: each half of its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watchdog {
    /// `None`: no watchdog.
    every_ms: Option<u64>,
    next: Tick,
}

impl Watchdog {
    /// Sends no notices.
    pub(crate) const fn none() -> Self {
        Self { every_ms: None, next: Tick::NEVER }
    }

    /// Reads `WATCHDOG_USEC` and `WATCHDOG_PID` for process `pid`.
    pub(crate) fn new(usec: Option<&str>, for_pid: Option<&str>, pid: u32, now: Tick) -> Self {
        let is_ours = for_pid.is_none_or(|text| text.parse::<u32>() == Ok(pid));
        let usec = usec.and_then(|text| text.parse::<u64>().ok()).filter(|usec| *usec > 0);
        let every_ms = usec.filter(|_| is_ours).map(|usec| (usec / 2_000).max(1));
        Self { every_ms, next: now }
    }

    /// True if a notice is due and a worker answers. Once none does, the service manager is left to
    /// restart the server.
    pub(crate) fn is_due(&mut self, answers: bool, now: Tick) -> bool {
        let due = self.every_ms.filter(|_| answers && self.next <= now);
        if let Some(every_ms) = due {
            self.next = now.after(every_ms);
        }
        due.is_some()
    }

    /// Latest tick of the next check.
    pub(crate) fn wake_at(&self, now: Tick) -> Tick {
        match self.every_ms {
            // A worker may answer before the interval ends.
            Some(every_ms) if self.next <= now => now.after(every_ms.min(LOOK_MS)),
            Some(_) => self.next,
            None => Tick::NEVER,
        }
    }
}

/// Wait for a worker that answers, milliseconds.
const LOOK_MS: u64 = 100;

/// Service manager, if there is one.
#[derive(Debug)]
pub(crate) struct Manager(Option<(UnixDatagram, SocketAddr)>);

impl Manager {
    /// No service manager.
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    /// Finds the service manager that the variable `NOTIFY_SOCKET` names.
    ///
    /// No such manager can be reached.
    pub(crate) fn of_environment() -> io::Result<Self> {
        env::var_os("NOTIFY_SOCKET").map_or(Ok(Self(None)), |name| Self::at(&name))
    }

    /// Finds the service manager at an address: a path, or `@` and an abstract name.
    ///
    /// The address is invalid, or no descriptors are left.
    pub(crate) fn at(name: &OsStr) -> io::Result<Self> {
        let address = match name.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            [b'/', ..] => SocketAddr::from_pathname(name)?,
            _ => {
                let why = "NOTIFY_SOCKET: it takes a path, or @ and a name";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
            }
        };
        let socket = UnixDatagram::unbound()?;
        // The service manager may be stopped, and clients are not to wait for it.
        socket.set_nonblocking(true)?;
        Ok(Self(Some((socket, address))))
    }

    /// Sends a notice.
    ///
    /// The manager does not listen, or not now.
    pub(crate) fn notify(&self, message: Message<'_>) -> io::Result<()> {
        let Some((socket, address)) = &self.0 else { return Ok(()) };
        socket.send_to_addr(message.to_string().as_bytes(), address)?;
        Ok(())
    }
}

/// Watchdog that the environment of this process names.
pub(crate) fn watchdog(now: Tick) -> Watchdog {
    let [usec, pid] = ["WATCHDOG_USEC", "WATCHDOG_PID"].map(|name| env::var(name).ok());
    Watchdog::new(usec.as_deref(), pid.as_deref(), process::id(), now)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::{fs, time::Duration};

    const READY: Message<'_> = Message::Ready { workers: 8, architecture: "symped", generation: 3 };

    #[test]
    fn messages_are_what_systemd_reads() {
        let expected = "READY=1\nSTATUS=serving with 8 workers (symped), generation 3\n";
        assert_eq!(READY.to_string(), expected);
        let one = Message::Ready { workers: 1, architecture: "sped", generation: 1 };
        assert!(one.to_string().contains("=serving with 1 worker (sped), generation 1\n"));
        let reloading = Message::Reloading { monotonic_us: 12_345 }.to_string();
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC=12345\nSTATUS="));
        assert!(Message::Unchanged.to_string().starts_with("READY=1\nSTATUS="));
        assert_eq!(Message::Stopping.to_string(), "STOPPING=1\n");
        assert_eq!(Message::Alive.to_string(), "WATCHDOG=1\n");
    }

    #[test]
    fn the_watchdog_is_told_twice_in_its_interval_while_somebody_answers() {
        let mut watchdog = Watchdog::new(Some("2000000"), Some("7"), 7, Tick(100));
        assert!(watchdog.is_due(true, Tick(100)), "at once");
        assert_eq!(watchdog.wake_at(Tick(100)), Tick(1_100));
        assert!(!watchdog.is_due(true, Tick(1_099)) && watchdog.is_due(true, Tick(1_100)));
        assert!(!watchdog.is_due(false, Tick(9_000)), "nobody answers");
        assert_eq!(watchdog.wake_at(Tick(9_000)), Tick(9_100));
        assert!(watchdog.is_due(true, Tick(9_001)), "somebody does again");
        let usec = Some("2000000");
        let of_another = [(None, None), (usec, Some("8")), (usec, Some("x"))];
        for (usec, pid) in of_another.into_iter().chain([(Some("0"), None), (Some("-1"), None)]) {
            let mut none = Watchdog::new(usec, pid, 7, Tick(0));
            assert!(!none.is_due(true, Tick(60_000)), "{usec:?} {pid:?}");
            assert_eq!(none.wake_at(Tick(0)), Tick::NEVER);
        }
        assert!(Watchdog::new(Some("1"), None, 7, Tick(0)).is_due(true, Tick(0)));
    }

    #[test]
    fn a_manager_at_a_path_or_a_name_is_told() {
        let name = format!("regatta-notify-{}", process::id());
        let folder = Folder::new("notify");
        let path = folder.join("socket");
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let managers = [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&abstract_name).unwrap(), format!("@{name}").into()),
        ];
        for (manager, address) in managers {
            manager.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let told = Manager::at(&address).unwrap();
            told.notify(READY).unwrap();
            let mut bytes = [0; 256];
            let count = manager.recv(&mut bytes).unwrap();
            assert_eq!(bytes[..count], *READY.to_string().as_bytes());
            // A manager that no longer reads is not waited for.
            let full = (0..100_000).find_map(|_| told.notify(Message::Alive).err());
            assert_eq!(full.unwrap().kind(), io::ErrorKind::WouldBlock);
        }
        fs::remove_file(&path).unwrap();
        assert!(Manager::at(&path.into_os_string()).unwrap().notify(READY).is_err(), "it is gone");
        assert!(Manager::at(OsStr::new("vsock:2:1")).is_err());
    }
}
