//! Directories of tests.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Names of files that a page or a terminal could misread.
pub const ODD_NAMES: [&str; 7] = [
    "<img src=x>.txt",
    "two \"quotes\" & an 'apostrophe'.txt",
    "line\nbreak.txt",
    "per%20cent?#.txt",
    "\u{202e}txt.right-to-left.exe",
    "\u{5e2}\u{5d1}\u{5e8}\u{5d9}\u{5ea}.txt",
    "a-name-without-a-place-to-break-that-is-wider-than-a-phone-in-one-line-0123456789.txt",
];

/// Number of the next directory: tests run in parallel.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// An empty directory of one test, removed when it ends.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes a directory whose name has `name` in it.
    ///
    /// # Panics
    /// It cannot be made.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("regatta-{name}-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Leftover of a killed test with our number.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory for a test");
        Self(path)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
