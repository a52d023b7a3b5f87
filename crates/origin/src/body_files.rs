//! Open files of response bodies, counted for each worker.
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Open files from which the streams of a worker send. All units of a process share one count.
///
/// A stream that waits for its client would keep its file open for as long. With 100 streams, a
/// connection costs 100 descriptors, where one of HTTP/1 costs one. So there are two marks:
///
/// | open files | a connection keeps, of its streams that wait |
/// |---|---|
/// | up to half of the most | all |
/// | up to the most | one |
/// | more | none |
///
/// The others close their files, and open them again when they may continue. Only a stream whose
/// response began above the first mark can: the others do not know the name of their file.
#[derive(Debug)]
pub struct BodyFiles {
    open: AtomicU32,
    most: u32,
}

impl Default for BodyFiles {
    /// Any number of files.
    fn default() -> Self {
        Self::new(u32::MAX)
    }
}

impl BodyFiles {
    /// No files yet, and this many at most that belong to streams that wait.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self { open: AtomicU32::new(0), most }
    }

    /// Open files.
    #[must_use]
    pub fn open(&self) -> u32 {
        self.open.load(Relaxed)
    }

    /// Number of open files that is plentiful.
    const fn plenty(&self) -> u32 {
        self.most / 2
    }
}

/// Open files of one connection, among those of its worker.
#[derive(Debug)]
pub(crate) struct HeldFiles {
    files: Arc<BodyFiles>,
    own: u32,
}

impl HeldFiles {
    /// No files yet.
    pub(crate) fn new(files: &Arc<BodyFiles>) -> Self {
        Self { files: Arc::clone(files), own: 0 }
    }

    /// Open files of this connection.
    pub(crate) const fn own(&self) -> u32 {
        self.own
    }

    /// Counts that this connection has this many open files now.
    pub(crate) fn set_own(&mut self, own: u32) {
        if own > self.own {
            self.files.open.fetch_add(own - self.own, Relaxed);
        } else if own < self.own {
            self.files.open.fetch_sub(self.own - own, Relaxed);
        }
        self.own = own;
    }

    /// True if the next response must be able to open its file again.
    pub(crate) fn are_scarce(&self) -> bool {
        self.files.open() >= self.files.plenty()
    }

    /// Open files of the worker above the first mark.
    pub(crate) fn excess(&self) -> u32 {
        self.files.open().saturating_sub(self.files.plenty())
    }

    /// True if the worker has more open files than the most.
    pub(crate) fn are_short(&self) -> bool {
        self.files.open() > self.files.most
    }
}

impl Drop for HeldFiles {
    fn drop(&mut self) {
        self.set_own(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_for_all_connections() {
        let files = Arc::new(BodyFiles::new(4));
        let [mut one, mut other] = [HeldFiles::new(&files), HeldFiles::new(&files)];
        // Files of both, whether files are scarce, those above the first mark, and whether there
        // are too many.
        let rows = [
            ([0, 0], false, 0, false),
            ([1, 0], false, 0, false),
            ([1, 1], true, 0, false),
            ([1, 3], true, 2, false),
            ([2, 3], true, 3, true),
            ([2, 0], true, 0, false),
        ];
        for (own, scarce, excess, short) in rows {
            one.set_own(own[0]);
            other.set_own(own[1]);
            assert_eq!(files.open(), own[0] + own[1]);
            let found = (one.are_scarce(), other.excess(), one.are_short());
            assert_eq!(found, (scarce, excess, short), "{own:?}");
        }
        drop(one);
        assert_eq!((files.open(), other.own()), (0, 0));
    }

    #[test]
    fn without_a_limit_no_number_is_scarce() {
        let mut held = HeldFiles::new(&Arc::default());
        held.set_own(1 << 30);
        assert!(!held.are_scarce() && !held.are_short() && held.excess() == 0);
    }
}
