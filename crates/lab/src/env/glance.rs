//! Counts of an environment: its disk's requests and its group's page cache, at two moments.
//!
//! The disk's log knows offsets alone. Files are told by the image, an ext4 file system as
//! [`super::build_image`] has `mkfs.ext4` write it: blocks of 4 KiB and extents.

use super::disklog::{self, Row, Summary};
use super::simdisk::now_ns;
use super::spec::NetworkLayout;
use super::{Groups, Record};
use crate::stats::count;
use crate::units::{At, real};
use regatta_load::engine::Kernel;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: f64 = 1_048_576.0;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Glance {
    /// `CLOCK_MONOTONIC`, as in the disk's log, ns.
    at_ns: u64,
    memory: Memory,
    /// Kernel counters of the server's network, if the client's is another.
    network: Option<Kernel>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Memory {
    /// Pages of files, bytes; None: no group, or it does not say.
    cache: Option<f64>,
    /// Pages read again that had been thrown out not long ago.
    refaults: Option<f64>,
    /// Everything else: of the server, and of the kernel for it, bytes.
    own: Option<f64>,
}

/// Memory of the server's group without its page cache, bytes; None: no group, or it does not say.
pub(super) fn own_memory(groups: &Groups) -> Option<f64> {
    Memory::of(groups).own
}

impl Glance {
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
        let found = text.map(|text| Self::parse(&text)).unwrap_or_default();
        let own = groups.memory_used().zip(found.cache);
        Self { own: own.map(|(used, cache)| (real(used) - cache).max(0.0)), ..found }
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
            own: None,
        }
    }
}

/// Metrics of the time between two looks, by name (docs/lab.md).
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
    if let Some(own) = after.memory.own {
        put("footprint_mib", own / MIB);
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
        // An unreadable image hides only the number of files.
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

/// Number of files of an image that these requests read; None if unknown.
fn files_read<'r>(image: &Path, rows: impl Iterator<Item = &'r Row>) -> Option<f64> {
    let owners = Owners::of(image).ok()?;
    let mut files = BTreeSet::new();
    for row in rows.filter(|row| !row.wrote) {
        owners.add(row.offset, row.bytes, &mut files);
    }
    Some(count(files.len()))
}

/// Bytes of a block.
const BLOCK: u64 = 4_096;
/// Position of the superblock, and its magic number.
const SUPERBLOCK_AT: u64 = 1_024;
const EXT4: u16 = 0xEF53;
/// Numbers of blocks have 64 bits.
const WIDE: u32 = 0x80;
/// Inodes of more are not read: an image of ours has one for each file.
const INODES_MAX: u64 = 10_000_000;
/// Magic number of a node in a tree of extents, and the most levels of a tree.
const NODE: u16 = 0xF30A;
const HEIGHT_MAX: u16 = 5;

/// Blocks that lie together and are of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Extent {
    first: u64,
    blocks: u64,
    inode: u64,
}

/// The extents of the files of an image, by their first blocks.
#[derive(Debug)]
pub(super) struct Owners(Vec<Extent>);

impl Owners {
    pub(super) fn of(image: &Path) -> io::Result<Self> {
        let file = File::open(image)?;
        let superblock = bytes(&file, SUPERBLOCK_AT, 1_024)?;
        let inodes = u64::from(u32_at(&superblock, 0x00));
        let in_group = u64::from(u32_at(&superblock, 0x28));
        let inode_bytes = usize::from(u16_at(&superblock, 0x58));
        // The logarithm of how many KiB a block has.
        let has_4_kib = u32_at(&superblock, 0x18) == 2;
        let is_ours = u16_at(&superblock, 0x38) == EXT4 && has_4_kib;
        if !is_ours || in_group == 0 || !(128..=4_096).contains(&inode_bytes) || inodes > INODES_MAX
        {
            return Err(io::Error::other("it is no ext4 file system with blocks of 4 KiB"));
        }
        let is_wide = u32_at(&superblock, 0x60) & WIDE != 0;
        let described = if is_wide { u64::from(u16_at(&superblock, 0xFE)).max(64) } else { 32 };
        let mut extents = Vec::new();
        for group in 0..inodes.div_ceil(in_group) {
            let descriptor = bytes(&file, BLOCK + group * described, described)?;
            let high = if is_wide { u64::from(u32_at(&descriptor, 0x28)) } else { 0 };
            let table = (high << 32) | u64::from(u32_at(&descriptor, 0x08));
            let before = group * in_group;
            let count = in_group.min(inodes - before);
            let table = bytes(&file, table.saturating_mul(BLOCK), count * inode_bytes as u64)?;
            for (inode, text) in (before + 1..).zip(table.chunks_exact(inode_bytes)) {
                let is_file = u16_at(text, 0x00) & 0xF000 == 0x8000;
                if is_file {
                    leaves(&file, &text[0x28..0x64], (inode, HEIGHT_MAX), &mut extents)?;
                }
            }
        }
        extents.sort_unstable();
        Ok(Self(extents))
    }

    /// Adds the files that have data between these bytes.
    pub(super) fn add(&self, offset: u64, bytes: u64, files: &mut BTreeSet<u64>) {
        let (from, to) = (offset / BLOCK, (offset + bytes).div_ceil(BLOCK));
        let begin = self.0.partition_point(|one| one.first + one.blocks <= from);
        let within = self.0[begin..].iter().take_while(|one| one.first < to);
        files.extend(within.map(|one| one.inode));
    }
}

/// Adds the extents below a node of a file's tree, which is no higher than this.
fn leaves(
    file: &File,
    node: &[u8],
    (inode, height_max): (u64, u16),
    all: &mut Vec<Extent>,
) -> io::Result<()> {
    let (entries, height) = (usize::from(u16_at(node, 2)), u16_at(node, 6));
    if u16_at(node, 0) != NODE || height > height_max {
        return Ok(());
    }
    for entry in node[12..].chunks_exact(12).take(entries) {
        if height == 0 {
            let first = (u64::from(u16_at(entry, 6)) << 32) | u64::from(u32_at(entry, 8));
            all.push(Extent { first, blocks: u64::from(u16_at(entry, 4)), inode });
        } else {
            let below = (u64::from(u16_at(entry, 8)) << 32) | u64::from(u32_at(entry, 4));
            let node = bytes(file, below.saturating_mul(BLOCK), BLOCK)?;
            leaves(file, &node, (inode, height - 1), all)?;
        }
    }
    Ok(())
}

fn bytes(file: &File, at: u64, count: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(count).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | (u32::from(u16_at(bytes, at + 2)) << 16)
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
        assert_eq!(
            Memory::parse(one),
            Memory { cache: Some(16_384.0), refaults: Some(3.0), own: None }
        );
        let two = "anon 1\nfile 4096\nfile_mapped 9\nworkingset_refault_anon 7\n\
                   workingset_refault_file 5\n";
        assert_eq!(
            Memory::parse(two),
            Memory { cache: Some(4_096.0), refaults: Some(5.0), own: None }
        );
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
            memory: Memory {
                cache: Some(4_194_304.0),
                refaults: Some(refaults),
                own: Some(2_097_152.0),
            },
            network: Some(Kernel { listen_overflows, ..Kernel::default() }),
        };
        let (before, after) = (at(1_000_000_000, 10.0, 3), at(3_000_000_000, 30.0, 11));
        let found = numbers(&record, &before, &after).unwrap();
        std::fs::remove_file(&log).unwrap();
        for (name, value) in [
            ("page_cache_mib", 4.0),
            ("footprint_mib", 2.0),
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

#[cfg(test)]
mod ext4_tests {
    use super::*;
    use crate::env::build_image;
    use crate::folder::Folder;
    use regatta_testkit::skips::skip;
    use std::collections::BTreeMap;
    use std::process::Command;

    /// Files by their sizes, each full of a byte of its own.
    const FILES: [(u8, usize); 4] = [(1, 10), (2, 4_097), (3, 900_000), (4, 0)];

    #[test]
    fn each_block_is_the_file_s_that_it_holds() {
        if Command::new("mkfs.ext4").arg("-V").output().is_err() {
            return skip("needs mkfs.ext4 (e2fsprogs)");
        }
        let folder = Folder::new("lab-test");
        let (files, image) = (folder.join("files"), folder.join("image"));
        std::fs::create_dir_all(files.join("below")).unwrap();
        for (byte, size) in FILES {
            std::fs::write(files.join(format!("below/{byte}")), vec![byte; size]).unwrap();
        }
        build_image(Some(&files), 0, &image).unwrap();
        let owners = Owners::of(&image).unwrap();
        let read = File::open(&image).unwrap();
        let mut blocks: BTreeMap<u8, u64> = BTreeMap::new();
        for extent in &owners.0 {
            let first = bytes(&read, extent.first * BLOCK, 1).unwrap()[0];
            *blocks.entry(first).or_default() += extent.blocks;
        }
        assert_eq!(blocks, BTreeMap::from([(1, 1), (2, 2), (3, 220)]), "{owners:?}");
        let found = |offset, bytes| {
            let mut files = BTreeSet::new();
            owners.add(offset, bytes, &mut files);
            files.len()
        };
        assert_eq!(found(0, 1 << 40), 3, "what has no block is not read");
        assert_eq!(found(0, BLOCK), 0, "the superblock is no file's");
        let large = owners.0.iter().max_by_key(|one| one.blocks).unwrap();
        assert_eq!(found(large.first * BLOCK, BLOCK), 1);
        assert_eq!(found((large.first + large.blocks - 1) * BLOCK + 1, 1), 1);
    }

    #[test]
    fn what_is_no_file_system_is_refused() {
        let folder = Folder::new("lab-test");
        let image = folder.join("image");
        assert!(Owners::of(&image).is_err());
        std::fs::write(&image, vec![0; 8_192]).unwrap();
        let why = Owners::of(&image).unwrap_err().to_string();
        assert!(why.contains("no ext4"), "{why}");
    }
}
