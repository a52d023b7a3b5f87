//! The simulated disk's process: a FUSE file system with one file, whose reads take their time.

use super::disklog::{HEAD, Row};
use super::model::{Model, Service, Turn, Waiting};
use super::spec::Disk;
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session, WriteFlags,
};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

const NICE: i32 = -15;
const IMAGE: INodeNo = INodeNo(2);
/// Nothing about the file ever changes.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// Orders to the process, a line on standard input. The end of that input ends the process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) disk: Disk,
    /// The file with the bytes.
    pub(super) image: PathBuf,
    pub(super) mount_point: PathBuf,
    pub(super) name: String,
    pub(super) cpus: Vec<usize>,
    /// Whether it answers at once until a byte arrives on standard input. The page cache is filled
    /// meanwhile, which is no part of a measurement.
    pub(super) at_once: bool,
}

/// Runs until standard input ends. Prints `ready` when the block store is there.
pub(super) fn run() -> Result<(), String> {
    super::servant::die_with_keeper()?;
    let orders: Orders = super::servant::order()?;
    let failed = |error: io::Error| format!("simulated disk: {error}");
    crate::group::run_on(&orders.cpus)?;
    // A disk does not queue for a processor.
    let _ = super::servant::prefer(NICE);
    let store = Store::open(&orders).map_err(failed)?;
    let disk = Arc::clone(&store.disk);
    let mut config = fuser::Config::default();
    config.mount_options = vec![
        MountOption::FSName("regatta-disk".to_owned()),
        if orders.disk.writable { MountOption::RW } else { MountOption::RO },
    ];
    let session = Session::new(store, &orders.mount_point, &config).map_err(failed)?;
    let session = session.spawn().map_err(failed)?;
    super::servant::say("ready");
    let mut rest = [0; 64];
    while io::stdin().read(&mut rest).is_ok_and(|count| count > 0) {
        disk.model().take_time();
    }
    // Our owner has unmounted first. If it died instead, a loop device still holds the file: an
    // orderly end would wait for it, and the end of this process frees it.
    std::mem::forget(session);
    Ok(())
}

/// The file system: its one file, and the threads that are the heads.
#[derive(Debug)]
struct Store {
    disk: Arc<Platters>,
    name: String,
    attributes: FileAttr,
    writable: bool,
}

/// State shared with the heads.
#[derive(Debug)]
struct Platters {
    image: File,
    size: u64,
    queue: Mutex<Model<Asked>>,
    came: Condvar,
    log: Option<Mutex<File>>,
}

/// Request, and the means to answer it.
#[derive(Debug)]
enum Asked {
    Read(ReplyData),
    Write(Vec<u8>, ReplyWrite),
}

impl Store {
    fn open(orders: &Orders) -> io::Result<Self> {
        let Orders { disk, image, name, .. } = orders;
        let file = File::options().read(true).write(disk.writable).open(image)?;
        let size = file.metadata()?.len();
        let platters = Arc::new(Platters {
            image: file,
            size,
            queue: Mutex::new(Model::new(disk, size, orders.at_once)),
            came: Condvar::new(),
            log: disk.log.as_deref().map(new_log).transpose()?.map(Mutex::new),
        });
        for head in 0..usize::try_from(disk.heads).expect("a few heads") {
            let platters = Arc::clone(&platters);
            std::thread::Builder::new()
                .name(format!("head-{head}"))
                .spawn(move || platters.serve(head))?;
        }
        Ok(Self {
            disk: platters,
            name: name.clone(),
            attributes: attributes(IMAGE, FileType::RegularFile, size),
            writable: disk.writable,
        })
    }

    fn attributes(&self, inode: INodeNo) -> Option<FileAttr> {
        match inode {
            INodeNo::ROOT => Some(attributes(INodeNo::ROOT, FileType::Directory, 0)),
            IMAGE => Some(self.attributes),
            _ => None,
        }
    }
}

fn new_log(path: &Path) -> io::Result<File> {
    let mut log = File::create(path)?;
    log.write_all(HEAD.as_bytes())?;
    Ok(log)
}

impl Platters {
    fn model(&self) -> MutexGuard<'_, Model<Asked>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, tag: Asked, offset: u64, bytes: u64) {
        self.model().arrive(Waiting { tag, offset, bytes, came_ns: now_ns() });
        // A head may wait for this very request, and another for any.
        self.came.notify_all();
    }

    /// Serves requests as one head.
    fn serve(&self, head: usize) {
        // A head is not to be late by the 50 us that timers are otherwise allowed.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        loop {
            let service = self.next(head);
            sleep_until(service.end_ns);
            let row = Row::new(&service, head, 0, matches!(service.request.tag, Asked::Write(..)));
            self.answer(service);
            let row = Row { replied_ns: now_ns(), ..row };
            if let Some(log) = &self.log {
                // Readers of the log miss a line that cannot be written.
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                let _ = log.write_all(row.line().as_bytes());
            }
        }
    }

    fn next(&self, head: usize) -> Service<Asked> {
        let mut model = self.model();
        loop {
            model = match model.take(head, now_ns()) {
                Turn::Serves(service) => return service,
                Turn::Pauses(until_ns) => {
                    let left = Duration::from_nanos(until_ns.saturating_sub(now_ns()));
                    let waited = self.came.wait_timeout(model, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Turn::Idles => self.came.wait(model).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    fn answer(&self, service: Service<Asked>) {
        let Waiting { tag, offset, bytes, .. } = service.request;
        match tag {
            Asked::Read(reply) => {
                let length = bytes.min(self.size.saturating_sub(offset));
                let mut buffer = vec![0; usize::try_from(length).expect("fits memory")];
                match self.image.read_exact_at(&mut buffer, offset) {
                    Ok(()) => reply.data(&buffer),
                    Err(_) => reply.error(Errno::EIO),
                }
            }
            Asked::Write(bytes, reply) => match self.image.write_all_at(&bytes, offset) {
                Ok(()) => reply.written(u32::try_from(bytes.len()).expect("below 16 MiB")),
                Err(_) => reply.error(Errno::EIO),
            },
        }
    }
}

impl Filesystem for Store {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without it the kernel sends a loop device's requests one after the other. A kernel that
        // does not know it leaves a queue of one, which the log shows.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == self.name.as_str() {
            reply.entry(&FOREVER, &self.attributes, Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.disk.ask(Asked::Read(reply), offset, u64::from(size));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end = offset.checked_add(bytes.len() as u64);
        if !self.writable || end.is_none_or(|end| end > self.disk.size) {
            return reply.error(Errno::EROFS);
        }
        self.disk.ask(Asked::Write(bytes.to_vec(), reply), offset, bytes.len() as u64);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }
}

fn attributes(ino: INodeNo, kind: FileType, size: u64) -> FileAttr {
    FileAttr {
        ino,
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: if kind == FileType::Directory { 0o755 } else { 0o600 },
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4_096,
        flags: 0,
    }
}

pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).expect("counts from the start of the machine");
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).expect("below a second")
}

pub(super) fn sleep_until(at_ns: u64) {
    std::thread::sleep(Duration::from_nanos(at_ns.saturating_sub(now_ns())));
}
