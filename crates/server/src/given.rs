//! Sockets from the service manager (`sd_listen_fds(3)`).
use crate::config::address::Place;
use regatta_arch::layout::ADDRESSES_MAX;
use regatta_sys::{
    exec,
    socket::{self, Mode},
};
use std::{
    env, fmt, io,
    os::fd::{AsFd, OwnedFd, RawFd},
    process,
};

/// Variables: the number of sockets, their process, their names, and the descriptor of that
/// process. Not for other programs.
pub(crate) const VARIABLES: [&str; 4] =
    ["LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_PIDFDID"];

/// First given descriptor.
const FIRST: RawFd = 3;

/// Takes the sockets given to this process, and their addresses; closed on exec from now on.
///
/// # Errors
/// A fault of each that is no listening socket, or is there twice.
pub(crate) fn take() -> Result<Vec<(Place, OwnedFd)>, Vec<GivenFault>> {
    let descriptors = descriptors(|name| env::var(name).ok(), process::id());
    let mut faults = Vec::new();
    let mut given: Vec<(Place, OwnedFd)> = Vec::new();
    for (raw, name) in descriptors.map_err(|fault| vec![fault])? {
        match take_one(raw, &name) {
            Ok((place, _)) if given.iter().any(|(other, _)| *other == place) => {
                faults.push(GivenFault::Twice(name, place));
            }
            Ok(one) => given.push(one),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(given) } else { Err(faults) }
}

/// Fault of the variables, or of a named descriptor.
#[derive(Debug)]
pub enum GivenFault {
    /// The value of `LISTEN_FDS` is no number.
    NoNumber(String),
    /// More sockets than there may be.
    TooMany(usize),
    /// The named descriptor cannot be taken.
    System(String, io::Error),
    /// The named descriptor is no socket that listens.
    NotListening(String),
    /// The named socket listens at no address or path.
    NoPlace(String),
    /// The named socket is at a place that another has.
    Twice(String, Place),
}

impl fmt::Display for GivenFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoNumber(text) => write!(f, "LISTEN_FDS={text} is no number"),
            Self::TooMany(count) => {
                write!(f, "LISTEN_FDS={count}: there may be {ADDRESSES_MAX} sockets")
            }
            Self::System(name, error) => write!(f, "{name}: {error}"),
            Self::NotListening(name) => write!(
                f,
                "{name}: it is no TCP or Unix socket that listens\n  hint: the socket unit has \
                 ListenStream= and Accept=no"
            ),
            Self::NoPlace(name) => write!(
                f,
                "{name}: it listens neither on an address nor at a path\n  hint: as in \
                 ListenStream=0.0.0.0:80 or ListenStream=/run/regatta/http"
            ),
            Self::Twice(name, place) => write!(
                f,
                "{name}: {place} was given twice: give it once, all workers accept from it"
            ),
        }
    }
}

fn take_one(raw: RawFd, name: &str) -> Result<(Place, OwnedFd), GivenFault> {
    let system = |error| GivenFault::System(name.to_owned(), error);
    let fd = exec::take(raw).map_err(system)?;
    if !matches!(socket::is_listening(fd.as_fd()), Ok(true)) {
        return Err(GivenFault::NotListening(name.to_owned()));
    }
    let place = socket::place(fd.as_fd()).map_err(|_| GivenFault::NoPlace(name.to_owned()))?;
    // Mode of a new socket. No other process accepts from it; users that need it nonblocking set
    // that.
    socket::set_mode(&fd, Mode::Blocking).map_err(system)?;
    Ok((place, fd))
}

/// Lists the descriptors that variables name to process `pid`, and a name for each.
fn descriptors(
    variable: impl Fn(&str) -> Option<String>,
    pid: u32,
) -> Result<Vec<(RawFd, String)>, GivenFault> {
    let [fds, to, names] = [VARIABLES[0], VARIABLES[1], VARIABLES[2]].map(variable);
    let (Some(fds), Some(to)) = (fds, to) else { return Ok(Vec::new()) };
    // The variables name another process, which did not remove them.
    if to.parse() != Ok(pid) {
        return Ok(Vec::new());
    }
    let Ok(count) = fds.parse::<usize>() else { return Err(GivenFault::NoNumber(fds)) };
    if count > ADDRESSES_MAX {
        return Err(GivenFault::TooMany(count));
    }
    let mut names = names.as_deref().unwrap_or_default().split(':');
    let name = |raw| match names.next().unwrap_or_default() {
        "" => (raw, format!("descriptor {raw} of the service manager")),
        name => (raw, format!("descriptor {raw} of the service manager (\"{name}\")")),
    };
    Ok((FIRST..).take(count).map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: [Option<&str>; 3]) -> Result<Vec<(RawFd, String)>, GivenFault> {
        let of = |name: &str| VARIABLES.iter().position(|of| *of == name).expect("a known one");
        descriptors(|name| variables[of(name)].map(str::to_owned), 7)
    }

    #[test]
    fn descriptors_are_counted_for_this_process_alone() {
        let unnamed = |raw: RawFd| (raw, format!("descriptor {raw} of the service manager"));
        let named = |raw, name| (raw, format!("{} (\"{name}\")", unnamed(raw).1));
        let three = vec![named(3, "a.socket"), unnamed(4), named(5, "b")];
        for (variables, expect) in [
            ([None, None, None], vec![]),
            ([Some("2"), None, None], vec![]),
            ([None, Some("7"), None], vec![]),
            ([Some("2"), Some("8"), None], vec![]),
            ([Some("2"), Some("x"), None], vec![]),
            ([Some("0"), Some("7"), None], vec![]),
            ([Some("2"), Some("7"), None], vec![unnamed(3), unnamed(4)]),
            ([Some("3"), Some("7"), Some("a.socket::b:c")], three),
            ([Some("2"), Some("7"), Some("a")], vec![named(3, "a"), unnamed(4)]),
        ] {
            assert_eq!(read(variables).ok(), Some(expect), "{variables:?}");
        }
        for wrong in ["", "-1", "two", "257", "99999999999999999999"] {
            assert!(read([Some(wrong), Some("7"), None]).is_err(), "{wrong}");
        }
    }
}
