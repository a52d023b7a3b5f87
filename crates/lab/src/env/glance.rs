//! What an environment counts: its disk's requests and its group's page cache, at two moments.

use super::disklog::{self, Row, Summary};
use super::ext4::Owners;
use super::simdisk::now_ns;
use super::spec::NetworkLayout;
use super::{Groups, Record};
use crate::stats::count;
use crate::units::files::At;
use crate::units::real;
use regatta_load::engine::Kernel;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const MIB: f64 = 1_048_576.0;

/// What an environment showed at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Glance {
    /// `CLOCK_MONOTONIC`, as in the disk's log, ns.
    at_ns: u64,
    memory: Memory,
    /// What the server's network counted, if the client's is another.
    network: Option<Kernel>,
}

/// The memory of the server's group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Memory {
    /// Pages of files, bytes; None: no group, or it does not say.
    cache: Option<f64>,
    /// Pages read again that had been thrown out not long ago.
    refaults: Option<f64>,
}

impl Glance {
    /// Now.
    pub fn at(record: &Record) -> Self {
        let network = record.spec.network.as_ref();
        let apart = network.is_some_and(|network| network.layout == NetworkLayout::Pair);
        let keeper = record.keeper.to_string();
        Self {
            at_ns: now_ns(),
            memory: Memory::of(&record.groups),
            network: apart.then(|| Kernel::read_of(&keeper)),
        }
    }
}

impl Memory {
    fn of(groups: &Groups) -> Self {
        let file = groups.memory.as_deref().map(|group| group.join("memory.stat"));
        let text = file.and_then(|file| std::fs::read_to_string(file).ok());
        text.map(|text| Self::parse(&text)).unwrap_or_default()
    }

    /// Reads `memory.stat` of either version: of the group and those in it.
    fn parse(text: &str) -> Self {
        let of = |names: &[&str]| {
            names.iter().find_map(|name| {
                let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
                text.lines().find_map(value)
            })
        };
        Self {
            cache: of(&["total_cache", "file"]),
            // Kernels before 5.9 counted both kinds together.
            refaults: of(&[
                "total_workingset_refault_file",
                "workingset_refault_file",
                "workingset_refault",
            ]),
        }
    }
}

/// What happened between two looks: metrics of a trial, by name (docs/lab.md).
pub fn numbers(
    record: &Record,
    before: &Glance,
    after: &Glance,
) -> Result<BTreeMap<String, f64>, String> {
    let mut all = BTreeMap::new();
    let mut put = |name: &str, value: f64| all.insert(name.to_owned(), value);
    let seconds = after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9;
    if let Some(cache) = after.memory.cache {
        put("page_cache_mib", cache / MIB);
    }
    if let (Some(first), Some(last)) = (before.memory.refaults, after.memory.refaults)
        && seconds > 0.0
    {
        put("refaults_per_s", (last - first) / seconds);
    }
    if let (Some(first), Some(last)) = (before.network, after.network)
        && seconds > 0.0
    {
        let grown = |of: fn(&Kernel) -> u64| real(of(&last).saturating_sub(of(&first))) / seconds;
        put("listen_overflows_per_s", grown(|kernel| kernel.listen_overflows));
        put("segments_again_per_s", grown(|kernel| kernel.segments_again));
    }
    let disk = record.spec.disk.as_ref();
    if let Some((disk, log)) = disk.and_then(|disk| Some((disk, disk.log.as_deref()?))) {
        let rows = disklog::read(log).at(log)?;
        let found = Summary::of(&rows, disk.heads, before.at_ns, after.at_ns);
        put("disk_requests_per_s", found.requests_per_s);
        put("disk_mbyte_per_s", found.bytes_per_s / 1e6);
        put("disk_busy_share", found.busy);
        put("disk_queue_mean", found.depth);
        if found.requests_per_s > 0.0 {
            put("disk_run_kib", found.run_bytes / 1_024.0);
            put("disk_response_ms", found.response_ms);
            put("disk_late_ms", found.late_ms);
        }
        // Where the image cannot be read, everything else is told.
        let files = disk.image.as_deref().and_then(|image| {
            let within = before.at_ns..after.at_ns;
            files_read(image, rows.iter().filter(|row| within.contains(&row.came_ns)))
        });
        if let Some(files) = files.filter(|_| seconds > 0.0) {
            put("disk_files_per_s", files / seconds);
        }
    }
    Ok(all)
}

/// How many files of an image these requests read from; None: nobody can tell.
fn files_read<'r>(image: &Path, rows: impl Iterator<Item = &'r Row>) -> Option<f64> {
    let owners = Owners::of(image).ok()?;
    let mut files = BTreeSet::new();
    for row in rows.filter(|row| !row.wrote) {
        owners.add(row.offset, row.bytes, &mut files);
    }
    Some(count(files.len()))
}

#[cfg(test)]
mod tests {
    use super::{Glance, Memory, numbers};
    use crate::env::Record;
    use crate::env::disklog::HEAD;
    use crate::env::spec::{Disk, Spec};
    use regatta_load::engine::Kernel;

    #[test]
    fn the_memory_of_both_versions_is_read() {
        let one = "cache 8192\nworkingset_refault_file 1\ntotal_cache 16384\n\
                   total_workingset_refault_file 3\n";
        assert_eq!(Memory::parse(one), Memory { cache: Some(16_384.0), refaults: Some(3.0) });
        let two = "anon 1\nfile 4096\nfile_mapped 9\nworkingset_refault_anon 7\n\
                   workingset_refault_file 5\n";
        assert_eq!(Memory::parse(two), Memory { cache: Some(4_096.0), refaults: Some(5.0) });
        let old = "file 4096\nworkingset_refault 6\n";
        assert_eq!(Memory::parse(old).refaults, Some(6.0));
        assert_eq!(Memory::parse("odd"), Memory::default());
    }

    #[test]
    fn what_happened_between_two_looks_becomes_numbers() {
        let log = std::env::temp_dir().join(format!("regatta-glance-{}", std::process::id()));
        let row = "1100000000\t1100000000\t1300000000\t1300000000\t0\t65536\t0\t1\t1\tread\n";
        std::fs::write(&log, format!("{HEAD}{row}")).unwrap();
        let disk = Some(Disk { log: Some(log.clone()), ..Disk::default() });
        let record = Record::begin(&Spec { disk, ..Spec::default() }, "x").unwrap();
        let at = |at_ns, refaults, listen_overflows| Glance {
            at_ns,
            memory: Memory { cache: Some(4_194_304.0), refaults: Some(refaults) },
            network: Some(Kernel { listen_overflows, ..Kernel::default() }),
        };
        let (before, after) = (at(1_000_000_000, 10.0, 3), at(3_000_000_000, 30.0, 11));
        let found = numbers(&record, &before, &after).unwrap();
        std::fs::remove_file(&log).unwrap();
        for (name, value) in [
            ("page_cache_mib", 4.0),
            ("refaults_per_s", 10.0),
            ("listen_overflows_per_s", 4.0),
            ("disk_requests_per_s", 0.5),
            ("disk_busy_share", 0.1),
            ("disk_run_kib", 64.0),
        ] {
            assert!((found[name] - value).abs() < 1e-9, "{name}: {}", found[name]);
        }
        assert!(numbers(&record, &before, &after).is_err(), "the log is gone");
    }
}
