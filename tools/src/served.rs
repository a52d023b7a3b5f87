//! Servers that tasks start, and the resources of their processes.

use crate::task_error::TaskError;
use regatta_lab_core::free_address;
use regatta_lab_core::group::{Group, parent_of};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time for a server to start, to answer, and to fill its caches.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// Longest time for a server to exit before it is killed.
const LEAVE_MAX: Duration = Duration::from_millis(1500);

/// Server of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskServer<'a> {
    pub(crate) binary: &'a Path,
    pub(crate) root: &'a Path,
    pub(crate) architecture: &'a str,
    /// Value of `tls.certificate` of a server that listens by TLS alone; `None`: in the clear.
    pub(crate) certificate: Option<&'a str>,
    /// Number of ports from that of the address on: each copy of a server has one.
    pub(crate) ports: u16,
}

impl TaskServer<'_> {
    /// Starts the server with more settings, `KEY=VALUE` each, and waits until it listens. Returns
    /// its first address, too.
    pub(crate) fn start(self, settings: &[String]) -> Result<(Group, SocketAddr), TaskError> {
        let Self { binary, root, architecture, certificate, ports } = self;
        let address = free_address(Ipv4Addr::LOCALHOST.into(), ports).map_err(TaskError::lab)?;
        // If we are killed, the kernel asks the server to exit.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(binary).arg("serve").arg(root);
        command.args(["--architecture", architecture]);
        let listen = if certificate.is_some() { "tls.listen" } else { "server.listen" };
        command.arg("--set").arg(format!("{listen}={address}"));
        if let Some(certificate) = certificate {
            command.args(["--set", "server.listen="]);
            command.arg("--set").arg(format!("tls.certificate={certificate}"));
        }
        for setting in settings {
            command.arg("--set").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Group::start(&mut command, &[], LEAVE_MAX).map_err(TaskError::lab)?;
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            if server.has_ended() || start.elapsed() > PATIENCE {
                return Err(TaskError::NoStart(architecture.to_owned()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok((server, address))
    }
}

/// Processes of a server that `parent` has started.
pub(crate) fn children(server: &Group, parent: u32) -> Vec<u32> {
    let all = server.pids().into_iter();
    all.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

/// Number of descriptors of a process; 0 if it has ended.
pub(crate) fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Proportional set size of a process, bytes, without the pages of files: the program's pages also
/// belong to other processes that run it.
pub(crate) fn pss(pid: u32) -> Result<u64, TaskError> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let fault = TaskError::attempting("read", &path);
    let text = std::fs::read_to_string(&path).map_err(&fault)?;
    let part = |name: &str| -> Result<u64, TaskError> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        let missing = || io::Error::other(format!("no number follows {name}"));
        number.ok_or_else(|| fault(missing()))
    };
    Ok((part("Pss_Anon:")? + part("Pss_Shmem:")?) * 1024)
}

#[cfg(test)]
mod tests {
    use super::pss;

    #[test]
    fn our_own_memory_is_some() {
        let bytes = pss(std::process::id()).expect("we may read our own");
        assert!(bytes > 100_000, "{bytes}");
    }

    #[test]
    fn memory_that_cannot_be_read_is_an_error() {
        // No process has this number.
        let error = pss(u32::MAX).expect_err("there is none").to_string();
        assert!(error.starts_with("cannot read /proc/4294967295/smaps_rollup: "), "{error}");
    }
}
