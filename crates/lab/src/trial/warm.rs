//! Warm caches: every process of a server opens every file before it is measured.
//!
//! Requests by popularity reach a process's last file late. With 4 processes and 1,080 files, a
//! fifth of the replies of the first seconds open one. A rotation takes a small part of that time.
//! Its requests are HEAD, which leave the page cache and the disk unchanged.

use super::load_command::Served;
use super::{Bench, PATIENCE, said};
use crate::experiment::Machine;
use crate::units::{At, walk};
use regatta_load::engine::Fate;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Connections at a time for each process.
const CONNECTIONS_EACH: u64 = 2;
/// Connections at a time at least.
const CONNECTIONS_MIN: u64 = 8;
/// Requests of a connection: the next one may be another process's.
const REQUESTS_EACH: u32 = 100;
/// The longest time that a request takes on average.
const REQUEST_MAX: Duration = Duration::from_millis(2);

/// List of a workload's files, as a log of requests.
fn list_of(workload: &Path) -> PathBuf {
    workload.join("files.log")
}

/// Writes the files below `root` down as requests, unless that is done.
pub(crate) fn list(root: &Path, workload: &Path) -> Result<(), String> {
    let list = list_of(workload);
    if list.exists() {
        return Ok(());
    }
    let mut targets = Vec::new();
    walk(root, |path, kind| {
        let below = path.strip_prefix(root).ok().and_then(Path::to_str).filter(|_| kind.is_file());
        targets.extend(below.filter(|below| is_plain(below)).map(|below| format!("/{below}\n")));
        Ok(true)
    })?;
    targets.sort();
    fs::write(&list, targets.concat()).at(&list)
}

/// Whether a path stands in a request as it is.
fn is_plain(path: &str) -> bool {
    path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte))
}

/// A load that warms a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WarmLoad {
    connections: u64,
    requests: u64,
}

impl WarmLoad {
    /// Sends `each` requests for each file and process.
    fn new(each: u32, files: u64, processes: u64) -> Self {
        Self {
            connections: (CONNECTIONS_EACH * processes).max(CONNECTIONS_MIN),
            requests: u64::from(each) * files * processes,
        }
    }
}

impl Bench<'_> {
    /// Asks every process of a server for every file, if that is wanted. Without a list of files
    /// it asks for `target`.
    pub(super) fn warm(
        &self,
        served: &Served<'_>,
        target: &str,
        machine: &Machine,
        [outcome, errors]: [&Path; 2],
    ) -> Result<(), String> {
        let each = self.experiment.measure.warm_requests;
        if each == 0 {
            return Ok(());
        }
        let list = self.workload.as_deref().map(list_of);
        let files = match &list {
            Some(list) => fs::read_to_string(list).at(list)?.lines().count() as u64,
            None => 1,
        };
        let load = WarmLoad::new(each, files, served.processes());
        let mut words: Vec<OsString> = vec![self.programs.lab.clone().into(), "load".into()];
        words.push(format!("{}{target}", served.url()).into());
        let mut flag = |name: &str, value: OsString| words.extend([name.into(), value]);
        flag("--closed", load.connections.to_string().into());
        flag("--count", load.requests.to_string().into());
        flag("--requests-per-connection", REQUESTS_EACH.to_string().into());
        if let Some(list) = list {
            flag("--requests-from", list.into());
        }
        words.extend(["--head", "--json", "--quiet"].map(OsString::from));
        words.extend(served.also());
        let requests = u32::try_from(load.requests).unwrap_or(u32::MAX);
        let limit = REQUEST_MAX.saturating_mul(requests) + PATIENCE;
        let code = self.start_load(words, machine, served, [outcome, errors])?;
        let found = said(outcome, errors, code.wait(limit, self.stop)?)?;
        match found.fates.get(Fate::Good) {
            0 => Err("not one good answer to a request that warms the caches".to_owned()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn every_process_is_asked_for_every_file() {
        for (each, files, processes, connections, requests) in [
            (20, 1_080, 1, 8, 21_600),
            (20, 1_080, 4, 8, 86_400),
            (20, 1_080, 40, 80, 864_000),
            (1, 1, 1, 8, 1),
        ] {
            let load = WarmLoad::new(each, files, processes);
            assert_eq!(load, WarmLoad { connections, requests }, "{processes} processes");
        }
    }

    #[test]
    fn the_list_has_each_file_that_a_request_can_name() {
        let place = Folder::new("lab-test");
        let (root, workload) = (place.join("root"), place.join("workload"));
        fs::create_dir_all(root.join("dir0")).unwrap();
        fs::create_dir_all(&workload).unwrap();
        for name in ["dir0/class1_2", "dir0/class0_1", "a b.html", "index.html", "x%41"] {
            fs::write(root.join(name), "x").unwrap();
        }
        list(&root, &workload).unwrap();
        let text = "/dir0/class0_1\n/dir0/class1_2\n/index.html\n";
        assert_eq!(fs::read_to_string(list_of(&workload)).unwrap(), text);
        fs::remove_file(root.join("index.html")).unwrap();
        list(&root, &workload).unwrap();
        assert_eq!(fs::read_to_string(list_of(&workload)).unwrap(), text, "written once");
    }
}
