//! The kernel's facts about a server's processes: sockets, mappings, tasks and processors.

use crate::harness::{Server, status_of};
use crate::shared::descriptors;
use std::collections::BTreeSet;
use std::fs;
use std::net::{SocketAddr, TcpStream};

/// Rows of the kernel's table of IPv4 sockets. Those of ended connections (`TIME_WAIT`) belong to
/// no process, and after many tests there are tens of thousands.
fn table() -> Vec<Vec<String>> {
    let text = fs::read_to_string("/proc/net/tcp").expect("the kernel's table");
    let row = |line: &str| line.split_whitespace().map(str::to_owned).collect();
    text.lines().skip(1).filter(|line| !line.contains(" 06 ")).map(row).collect()
}

/// Inodes of the sockets that a process has open.
fn inodes(pid: u32) -> BTreeSet<String> {
    let inode = |link: &str| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    descriptors(pid).into_values().filter_map(|link| inode(&link.to_string_lossy())).collect()
}

/// Listening sockets that a process has open, by inode.
pub(crate) fn listeners(pid: u32) -> BTreeSet<String> {
    let open = inodes(pid);
    let listening = table().into_iter().filter(|row| row[3] == "0A").map(|row| row[9].clone());
    listening.filter(|inode| open.contains(inode)).collect()
}

/// Workers that have the other ends of connections.
pub(crate) fn owners<'a>(
    server: &Server,
    streams: impl IntoIterator<Item = &'a TcpStream>,
) -> Vec<Option<u32>> {
    let table = table();
    let workers: Vec<_> = server.workers().into_iter().map(|pid| (pid, inodes(pid))).collect();
    let owner = |stream: &TcpStream| {
        let remote = hex(stream.local_addr().ok()?);
        let local = hex(stream.peer_addr().ok()?);
        let inode = &table.iter().find(|row| row[1] == local && row[2] == remote)?[9];
        workers.iter().find(|(_, open)| open.contains(inode)).map(|(pid, _)| *pid)
    };
    streams.into_iter().map(owner).collect()
}

/// Worker that has the other end of a connection, once there is one.
pub(crate) fn owner(server: &Server, stream: &TcpStream) -> Option<u32> {
    owners(server, [stream])[0]
}

/// An address in the table's notation.
fn hex(address: SocketAddr) -> String {
    let SocketAddr::V4(address) = address else { panic!("{address} is not IPv4") };
    let ip = u32::from_ne_bytes(address.ip().octets());
    format!("{ip:08X}:{:04X}", address.port())
}

/// Number of tasks of a process.
pub(crate) fn tasks(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/task")).expect("alive").count()
}

/// Shared mappings that a process can write to, by name.
pub(crate) fn shared_and_writable(pid: u32) -> BTreeSet<String> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("alive");
    let rows = maps.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    // Address, permissions, offset, device, inode, name.
    let shared = rows.filter(|row| row[1].contains('w') && row[1].ends_with('s'));
    shared.map(|row| row.get(5).copied().unwrap_or_default().to_owned()).collect()
}

/// Fails unless a process shares with others nothing but counters, and memory for films.
#[track_caller]
pub(crate) fn shares_only_counters(pid: u32) {
    // Over TLS they also share the keys of tickets, which change together.
    let mut shared = shared_and_writable(pid);
    shared.remove("/memfd:regatta-tickets");
    let shared: Vec<String> = shared.into_iter().collect();
    assert_eq!(shared, ["/memfd:regatta-arena", "/memfd:regatta-film"]);
}

/// Processors that this process, and a server that it starts, may keep busy.
pub(crate) fn processors_at_once() -> usize {
    let quota =
        regatta_sys::groups::read_own().quota.map_or(usize::MAX, |quota| quota.processors());
    processors(std::process::id()).len().min(quota)
}

/// Processors that a process may run on.
pub(crate) fn processors(pid: u32) -> Vec<usize> {
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let range = |item: &str| match item.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(item)..=number(item),
    };
    status_of(pid, "Cpus_allowed_list").split(',').flat_map(range).collect()
}
