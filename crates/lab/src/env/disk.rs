//! A simulated disk with a file system on it: image, block store, loop device, mount.

use super::ledger::{Ledger, Made, loop_device, write};
use super::network::{output, run};
use super::pages;
use super::servant::{Servant, first};
use super::simdisk::Orders;
use super::spec::{Disk, Pages, Spec};
use crate::units::At;
use rustix::mount::{MountFlags, mount};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Room in an image in addition to the files: a share, and bytes.
const SLACK_SHARE: u64 = 20;
const SLACK_BYTES: u64 = 8 << 20;
const INODE_BYTES: u64 = 256;
/// Time that the process behind the disk has to exit after its last request.
const LEAVE_MAX: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Described {
    pub device: PathBuf,
    pub bytes: u64,
    /// Whether it goes around the page cache of what lies below it; else the simulated disk
    /// would be read once and never again.
    pub direct_io: bool,
    pub read_ahead_kb: u32,
    /// The process that stands for the disk.
    pub pid: u32,
    pub log: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct MountedDisk {
    pub(super) root: PathBuf,
    pub(super) described: Described,
    pub(super) store: Servant,
}

impl MountedDisk {
    /// Makes it in the mount namespace of this process.
    pub(super) fn make(spec: &Spec, disk: &Disk, ledger: &mut Ledger) -> Result<Self, String> {
        let image = match &disk.image {
            Some(image) => image.clone(),
            None => new_image(spec, disk, ledger)?,
        };
        let name = format!("{}.ext4", ledger.id());
        let [below, root] = ["blocks", "files"].map(|name| ledger.folder().join(name));
        for point in [&below, &root] {
            std::fs::create_dir(point).at(point)?;
        }
        ledger.before(Made::Mount { point: below.clone() })?;
        let orders = Orders {
            disk: disk.clone(),
            image,
            mount_point: below.clone(),
            name: name.clone(),
            cpus: if spec.cpu.disk.is_empty() { &spec.cpu.client } else { &spec.cpu.disk }.clone(),
            at_once: spec.pages == Pages::Warm,
        };
        let wrapper = first(spec.cpu.realtime, "env");
        let mut store = Servant::start(wrapper, "simdisk", &orders)?;
        store.hear().map_err(|error| format!("simulated disk: {error}"))?;
        ledger.before(Made::Loop { file: name.clone() })?;
        let device = attach(&below.join(&name), disk.writable)?;
        read_ahead(&device, disk.read_ahead_kb, ledger)?;
        ledger.before(Made::Mount { point: root.clone() })?;
        let (flags, options) = if disk.writable {
            (MountFlags::NOATIME, None)
        } else {
            (MountFlags::NOATIME | MountFlags::RDONLY, Some(c"noload"))
        };
        mount(&device, &root, "ext4", flags, options)
            .map_err(|error| format!("mount {}: {error}", device.display()))?;
        // From now on the device is removed with its mount, and the mount with the last process of
        // the namespace, even if no process is left to undo it.
        run(Command::new("losetup").arg("--detach").arg(&device))?;
        let described = describe(&device, disk, store.pid())?;
        if loop_device(&name).as_ref() != Some(&device) {
            return Err(format!("{}: lost", device.display()));
        }
        Ok(Self { root, described, store })
    }

    /// Ends the process behind it, which has been unmounted.
    pub(super) fn end(self) {
        let _ = self.store.end(LEAVE_MAX);
    }
}

fn new_image(spec: &Spec, disk: &Disk, ledger: &mut Ledger) -> Result<PathBuf, String> {
    let scratch = if spec.scratch.as_os_str().is_empty() {
        std::env::temp_dir()
    } else {
        spec.scratch.clone()
    };
    let folder = scratch.join(ledger.id());
    ledger.before(Made::Directory { path: folder.clone() })?;
    std::fs::create_dir(&folder).at(&folder)?;
    let image = folder.join("image");
    build_image(spec.files.as_deref(), disk.size, &image)?;
    Ok(image)
}

/// Makes an image of an ext4 file system with the files of a directory, without a journal. `size`
/// is in bytes; 0: as the files need. An image can be used again and again; one that takes long to
/// make is best made once.
pub fn build_image(files: Option<&Path>, size: u64, image: &Path) -> Result<(), String> {
    let words = image_words(files, size, image)?;
    let (program, rest) = words.split_first().expect("a program");
    run(Command::new(program).args(rest))
}

/// Makes the file of an image, and gives the command that makes it one; see [`build_image`].
pub(crate) fn image_words(
    files: Option<&Path>,
    size: u64,
    image: &Path,
) -> Result<Vec<OsString>, String> {
    let (bytes, count) = files.map_or(Ok((0, 0)), pages::space)?;
    let inodes = count + count / SLACK_SHARE + 64;
    let need = bytes + bytes / SLACK_SHARE + SLACK_BYTES + inodes * INODE_BYTES;
    let size = size.max(need).div_ceil(4_096) * 4_096;
    let file = File::create(image).at(image)?;
    file.set_len(size).at(image)?;
    let mut words: Vec<OsString> = vec!["mkfs.ext4".into()];
    words.extend(["-q", "-F", "-b", "4096", "-m", "0"].map(OsString::from));
    words.extend(["-O", "^has_journal,^resize_inode"].map(OsString::from));
    words.extend(["-I".into(), INODE_BYTES.to_string().into()]);
    words.extend(["-N".into(), inodes.to_string().into()]);
    words.extend(["-E", "nodiscard,root_owner=0:0"].map(OsString::from));
    if let Some(files) = files {
        words.extend(["-d".into(), files.into()]);
    }
    words.push(image.into());
    Ok(words)
}

fn attach(file: &Path, writable: bool) -> Result<PathBuf, String> {
    let mut losetup = Command::new("losetup");
    losetup.args(["--find", "--show", "--direct-io=on"]);
    losetup.args((!writable).then_some("--read-only"));
    output(losetup.arg(file)).map(PathBuf::from)
}

fn in_sys(device: &Path, file: &str) -> PathBuf {
    Path::new("/sys/block").join(device.file_name().unwrap_or_default()).join(file)
}

/// A loop device keeps this setting when it gets another file.
fn read_ahead(device: &Path, kib: u32, ledger: &mut Ledger) -> Result<(), String> {
    let file = in_sys(device, "queue/read_ahead_kb");
    let was = std::fs::read_to_string(&file).at(&file)?;
    let was = was.trim().to_owned();
    if was == kib.to_string() {
        return Ok(());
    }
    ledger.before(Made::Setting { path: file.clone(), was })?;
    write(&file, &kib.to_string())
}

fn describe(device: &Path, disk: &Disk, pid: u32) -> Result<Described, String> {
    let number = |file: &str| {
        let path = in_sys(device, file);
        let text = std::fs::read_to_string(&path).at(&path)?;
        text.trim().parse::<u64>().at(&path)
    };
    Ok(Described {
        device: device.to_owned(),
        bytes: number("size")? * 512,
        direct_io: number("loop/dio")? == 1,
        read_ahead_kb: u32::try_from(number("queue/read_ahead_kb")?).unwrap_or(u32::MAX),
        pid,
        log: disk.log.clone(),
    })
}
