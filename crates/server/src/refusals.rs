//! Faults of a refused reload or upgrade, for the command that has asked for it. The master keeps
//! them in memory with a descriptor, which the command finds below `/proc`, as it finds counters.
use regatta_sys::exec::{find_sealed, read_sealed, sealed};
use serde::{Deserialize, Serialize};
use std::{fmt, io, os::fd::OwnedFd};

/// Name of the memory.
const NAME: &str = "regatta-refusal";

/// Limit of the memory that a command reads, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Refused reload or upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedReload {
    /// Number of refusals, this one included.
    pub refused: u64,
    /// Reason, in short.
    pub outcome: String,
    /// Faults, as the error log has them.
    pub faults: Vec<String>,
}

impl RefusedReload {
    /// Writes it for commands, for as long as the descriptor is open.
    ///
    /// # Errors
    /// No memory or descriptors left.
    pub(crate) fn publish(&self) -> io::Result<OwnedFd> {
        sealed(NAME, &serde_json::to_vec(self)?)
    }

    /// Finds the last one of the master with this process; `None` if there is none, or another
    /// than that of this number.
    pub(crate) fn find(pid: u32, refused: u64) -> Option<Self> {
        let bytes = read_sealed(find_sealed(pid, NAME).ok()??, BYTES_MAX).ok()?;
        let found: Self = serde_json::from_slice(&bytes).ok()?;
        (found.refused == refused).then_some(found)
    }
}

impl fmt::Display for RefusedReload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.outcome.is_empty() {
            return f.write_str("nothing has changed: the server's error log says what is wrong");
        }
        write!(f, "nothing has changed: {}", self.outcome)?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n  {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process;

    #[test]
    fn a_command_finds_the_faults_of_its_refusal() {
        let faults = vec!["r.toml:1:1: unknown option a.b".to_owned(), "another".to_owned()];
        let refusal = RefusedReload { refused: 7, outcome: "it was refused".to_owned(), faults };
        let memory = refusal.publish().unwrap();
        assert_eq!(RefusedReload::find(process::id(), 7).as_ref(), Some(&refusal));
        assert_eq!(RefusedReload::find(process::id(), 8), None);
        drop(memory);
        assert_eq!(RefusedReload::find(process::id(), 7), None);
        let text =
            "nothing has changed: it was refused\n  r.toml:1:1: unknown option a.b\n  another";
        assert_eq!(refusal.to_string(), text);
        let unknown = RefusedReload::default().to_string();
        assert!(unknown.ends_with("error log says what is wrong"), "{unknown}");
    }
}
