//! Which file each block of a disk's image is of: an ext4 file system, as it lies there.
//!
//! What is read is what [`super::build_image`] has `mkfs.ext4` write: blocks of 4 KiB and extents.
//! The disk's log knows offsets alone; with this it tells files.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a block.
const BLOCK: u64 = 4_096;
/// Where the superblock lies, and what it says that it is.
const SUPERBLOCK_AT: u64 = 1_024;
const EXT4: u16 = 0xEF53;
/// Numbers of blocks have 64 bits.
const WIDE: u32 = 0x80;
/// Inodes of more are not read: an image of ours has one for each file.
const INODES_MAX: u64 = 10_000_000;
/// What a node of a tree of extents says that it is, and how high a tree can be.
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
    /// Of an image.
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

    /// Adds the files of which something lies between these bytes.
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
