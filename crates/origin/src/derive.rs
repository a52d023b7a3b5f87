//! Results made from the bytes of files outside of requests: compressed forms of text files without
//! siblings, and digests for entity tags.
use crate::{Site, TagFacts, content};
use alloc::sync::Arc;
use core::fmt;
use regatta_op::Coding;

/// Compressed forms of one file, indexed by [`Coding`]. Those that are not smaller are absent.
pub type Forms = [Option<Arc<[u8]>>; Coding::ALL.len()];

/// The first 128 bits of the SHA-256 of a file's bytes. Two files with one digest take 2^64 tries.
pub type Digest = [u8; 16];

/// Source of forms and digests of files. The units of a process share it.
///
/// Results are of the bytes that a file had when it was opened. Those that are not ready may be
/// made for a later call. Calls are made when a file has been opened, never on a hit. They must not
/// wait, nor make a system call.
pub trait Deriver<F>: fmt::Debug + Send + Sync {
    /// Starts its work in this process, which forks no more. Later calls do nothing.
    fn start(&self);

    /// The forms of a file, if they are ready.
    fn forms(&self, file: &F) -> Option<Forms>;

    /// The digest of a file, if it is ready.
    fn digest(&self, file: &F) -> Option<Digest>;
}

/// The shortest file that is compressed, bytes: the fields of a response take half as many.
const FILE_BYTES_MIN: u64 = 1 << 10;
/// The longest file that is compressed, bytes.
pub const COMPRESSED_FILE_BYTES_MAX: u64 = 4 << 20;
/// The longest file with a tag of its content, bytes: a digest reads all of it.
pub const DIGESTED_FILE_BYTES_MAX: u64 = 256 << 20;

/// True if a file of this name and length is compressed at its first use, unless it has siblings or
/// a coding of its own, or caches may not transform it.
pub(crate) fn is_compressible(name: &[u8], len: u64, site: &Site) -> bool {
    site.content.compress
        && (FILE_BYTES_MIN..=COMPRESSED_FILE_BYTES_MAX).contains(&len)
        && content::is_textual(name, site)
}

/// True if a file of this length has a tag of its content.
pub(crate) fn is_digested(len: u64, site: &Site) -> bool {
    site.content.etag == TagFacts::Content && len <= DIGESTED_FILE_BYTES_MAX
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

    #[test]
    fn files_up_to_a_length_are_digested() {
        let mut site = Site::default();
        for (etag, len, expected) in [
            (TagFacts::Content, 0, true),
            (TagFacts::Content, 256 << 20, true),
            (TagFacts::Content, (256 << 20) + 1, false),
            (TagFacts::MtimeSize, 1, false),
            (TagFacts::Inode, 1, false),
        ] {
            site.content.etag = etag;
            assert_eq!(is_digested(len, &site), expected, "{etag:?} {len}");
        }
    }
}
