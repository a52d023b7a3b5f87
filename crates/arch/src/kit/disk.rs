//! Who performs operations that may block on disk.
use regatta_op::{Fault, OpenFault, OpenReq, Opened, Outbox, ReadReq};
use regatta_sys::{OpenRules, Root, StaticFile};

/// Performs operations that may block on disk, now or later.
///
/// `None` and `false` mean *later*: the disk keeps what it needs and its owner completes the
/// operation of the connection named by `key` when there is news.
pub trait Disk {
    /// Opens below the root.
    fn open(&mut self, key: u64, req: &OpenReq) -> Option<Result<Opened<StaticFile>, OpenFault>>;
    /// Reads a range into memory.
    fn read(&mut self, key: u64, req: &ReadReq<StaticFile>) -> Option<Result<Box<[u8]>, Fault>>;
    /// True if sending the file at the front of `outbox` may go ahead.
    fn warm(&mut self, key: u64, outbox: &Outbox<StaticFile>) -> bool;
}

/// The disk of an architecture whose loop blocks on it: every operation is performed at once.
#[derive(Debug)]
pub struct InlineDisk<'a> {
    /// What is served.
    pub root: &'a Root,
    /// How paths below it are resolved.
    pub rules: OpenRules,
}

impl Disk for InlineDisk<'_> {
    fn open(&mut self, _key: u64, req: &OpenReq) -> Option<Result<Opened<StaticFile>, OpenFault>> {
        Some(regatta_sys::open_below(self.root, req, self.rules))
    }

    fn read(&mut self, _key: u64, req: &ReadReq<StaticFile>) -> Option<Result<Box<[u8]>, Fault>> {
        Some(regatta_sys::read_range(req))
    }

    fn warm(&mut self, _key: u64, _outbox: &Outbox<StaticFile>) -> bool {
        true
    }
}
