//! An open file as the origin sees it.

/// A modification time: seconds and nanoseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Modified {
    /// Whole seconds; negative before 1970.
    pub secs: i64,
    /// Nanoseconds within the second, below 1,000,000,000.
    pub nanos: u32,
}

/// Identity of a file's content: if two are equal, the file has not changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FileId {
    /// The device and the inode on it.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Bytes when it was opened.
    pub len: u64,
    /// Last modification of the content.
    pub modified: Modified,
    /// Last change of content or attributes (`st_ctim`); catches writers that restore `modified`.
    pub changed: Modified,
}

/// An open file: a counted descriptor in the server, a few integers in the simulator.
///
/// A clone names the same open file. Its facts are those of the moment of opening; size, time, tag
/// and body all come from that one descriptor. [`crate::Op::Stat`] asks for them again.
pub trait File: Clone {
    /// Identity and facts, as they were when it was opened.
    fn id(&self) -> FileId;

    /// Bytes when it was opened.
    fn len(&self) -> u64 {
        self.id().len
    }

    /// True if it had no bytes when it was opened.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
