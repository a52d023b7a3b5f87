//! Compression at first use: forms of text files without siblings, made outside of requests.
use crate::{Site, content};
use alloc::sync::Arc;
use core::fmt;
use regatta_op::Coding;

/// Compressed forms of one file, indexed by [`Coding`]. Those that are not smaller are absent.
pub type Forms = [Option<Arc<[u8]>>; Coding::ALL.len()];

/// Source of compressed forms. The units of a process share it.
pub trait Compressor<F>: fmt::Debug + Send + Sync {
    /// Starts its work in this process, which forks no more. Later calls do nothing.
    fn start(&self);

    /// The forms of a file, if they are ready. Otherwise it may make them for a later call, from
    /// the bytes that the file had when it was opened.
    ///
    /// Called when a file has been opened, never on a hit. Must not wait, nor make a system call.
    fn forms(&self, file: &F) -> Option<Forms>;
}

/// The shortest file that is compressed, bytes: the fields of a response take half as many.
const FILE_BYTES_MIN: u64 = 1 << 10;
/// The longest file that is compressed, bytes.
pub const COMPRESSED_FILE_BYTES_MAX: u64 = 4 << 20;

/// True if a file of this name and length is compressed at its first use, unless it has siblings or
/// a coding of its own, or caches may not transform it.
pub(crate) fn is_compressible(name: &[u8], len: u64, site: &Site) -> bool {
    site.content.compress
        && (FILE_BYTES_MIN..=COMPRESSED_FILE_BYTES_MAX).contains(&len)
        && content::is_textual(name, site)
}

/// True for a `Cache-Control` that forbids other codings (RFC 9111 §5.2.2.6).
pub(crate) fn forbids(cache_control: &str) -> bool {
    cache_control.split(',').any(|one| one.trim().eq_ignore_ascii_case("no-transform"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_some_length_are_compressed() {
        let mut site = Site::default();
        assert!(!is_compressible(b"a.html", 5_000, &site));
        site.content.compress = true;
        for (name, len, expected) in [
            ("a.html", 1_024, true),
            ("a.html", 1_023, false),
            ("a.html", 4 << 20, true),
            ("a.html", (4 << 20) + 1, false),
            ("b/a.js", 5_000, true),
            ("a.json", 5_000, true),
            ("a.svg", 5_000, true),
            ("a.xhtml", 5_000, true),
            ("a.webmanifest", 5_000, true),
            ("a.png", 5_000, false),
            ("a.js.br", 5_000, false),
            ("a", 5_000, false),
        ] {
            assert_eq!(is_compressible(name.as_bytes(), len, &site), expected, "{name} {len}");
        }
        assert!(forbids("public, No-Transform") && !forbids("public, max-age=60"));
    }
}
