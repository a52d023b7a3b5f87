//! Sites of the servers under test: one common site that no case changes, and small separate ones.

use regatta_sys::hook::denied::lease;
use rustix::fs::{FileType, Mode, mknodat};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Modification time of every file of the common site unless set: long ago.
pub(crate) const MODIFIED_S: u64 = 1_700_000_000;
/// [`MODIFIED_S`] as a date.
pub(crate) const MODIFIED: &str = "Tue, 14 Nov 2023 22:13:20 GMT";
/// Sizes of `/size-N.bin`, at and around powers of two that buffers use.
pub(crate) const SIZES: [usize; 10] =
    [0, 1, 4095, 4096, 4097, 65_535, 65_536, 65_537, (1 << 20) + 1, 5 << 20];
/// Size of `/sparse.bin`: more than all buffers of a connection together.
pub(crate) const SPARSE_BYTES: u64 = 32 << 20;
/// Content of files outside the root, which must never be sent.
pub(crate) const SECRET: &str = "the secret beside the root";

/// Pseudorandom bytes that differ for every seed.
pub(crate) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64 ^ (seed as u64 + 1);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// The bytes of `/size-N.bin`.
pub(crate) fn sized(len: usize) -> &'static [u8] {
    static BYTES: [OnceLock<Vec<u8>>; SIZES.len()] = [const { OnceLock::new() }; SIZES.len()];
    let at = SIZES.iter().position(|size| *size == len).expect("a size of the site");
    BYTES[at].get_or_init(|| pattern(len, len))
}

/// The root of the common site.
pub(crate) fn common() -> &'static Path {
    static COMMON: OnceLock<PathBuf> = OnceLock::new();
    COMMON.get_or_init(|| {
        let outer = fresh_folder("site");
        let site = Site { outer };
        build(&site);
        age();
        site.root()
    })
}

/// The root of the common site as text, for a command line.
pub(crate) fn common_text() -> &'static str {
    common().to_str().expect("our paths are text")
}

/// A separate site of a case.
#[derive(Debug)]
pub(crate) struct Site {
    outer: PathBuf,
}

impl Site {
    /// An empty site.
    pub(crate) fn new() -> Self {
        let site = Self { outer: fresh_folder("own") };
        site.folder("");
        site
    }

    /// A site with these files.
    pub(crate) fn with(files: &[(&str, &str)]) -> Self {
        let site = Self::new();
        for (path, text) in files {
            site.put(path, text);
        }
        site
    }

    /// The document root.
    pub(crate) fn root(&self) -> PathBuf {
        self.outer.join("root")
    }

    /// The document root as text, for a command line.
    pub(crate) fn root_text(&self) -> String {
        self.root().to_str().expect("our paths are text").to_owned()
    }

    /// A place next to the root, for logs and configurations, that any user may write.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.outer.join(name)
    }

    /// Writes a configuration next to the root.
    pub(crate) fn configure(&self, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.beside("regatta.toml");
        fs::write(&path, text).expect("a file");
        path
    }

    /// Points a link next to the root elsewhere in one step, as `ln -sfn` by a rename does.
    pub(crate) fn lead(&self, link: &str, to: impl AsRef<Path>) {
        symlink(to, self.beside("next")).expect("a link");
        fs::rename(self.beside("next"), self.beside(link)).expect("a rename");
    }

    /// Takes a lease on a file, as Samba does: it lasts as long as the result.
    pub(crate) fn lease(&self, path: &str) -> File {
        let file = File::options().write(true).open(self.path(path)).expect("a file");
        lease(&file).expect("a lease");
        file
    }

    /// The path of a file below the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Makes a folder.
    pub(crate) fn folder(&self, path: &str) {
        fs::create_dir_all(self.path(path)).expect("a folder");
    }

    /// Writes a file, and the folders above it, with the old modification time.
    pub(crate) fn put(&self, path: &str, bytes: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(&path, bytes).expect("a file");
        set_modified(&path, MODIFIED_S);
    }

    /// Makes a file without content of this length, or gives an existing one this length.
    pub(crate) fn resize(&self, path: &str, len: u64) {
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(false).open(self.path(path));
        file.and_then(|file| file.set_len(len)).expect("a file");
    }

    /// Makes a symbolic link below the root.
    pub(crate) fn link(&self, path: &str, to: &str) {
        symlink(to, self.path(path)).expect("a link");
    }

    /// Makes a file of this kind below the root; true if that was allowed.
    pub(crate) fn node(&self, path: &str, kind: FileType, device: u64) -> bool {
        let mode = Mode::from_raw_mode(0o666);
        mknodat(rustix::fs::CWD, self.path(path), kind, mode, device).is_ok()
    }

    /// Sets the permissions of a file or folder below the root.
    pub(crate) fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.path(path), Permissions::from_mode(mode)).expect("ours");
    }
}

/// Waits until the existing files have aged: a recently changed file gets a weak tag.
pub(crate) fn age() {
    std::thread::sleep(Duration::from_millis(2_100));
}

/// Sets the modification time of a file.
pub(crate) fn set_modified(path: &Path, at_s: u64) {
    let time = UNIX_EPOCH + Duration::from_secs(at_s);
    let file = File::options().write(true).open(path).expect("a file");
    file.set_modified(time).expect("a time");
}

/// Makes a folder of this run, whose name contains the process number.
pub(crate) fn fresh_folder(kind: &str) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{kind}-{}-{count}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    // As root, the tests start servers that run as another user; logs go next to the root.
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).expect("ours");
    folder
}

/// Removes the folders of this run, which ends, and of runs that were killed. Not each with its
/// test: ext4 searches long for the number of a new file where many were just removed.
pub(crate) fn remove_folders() {
    let Ok(entries) = fs::read_dir(env!("CARGO_TARGET_TMPDIR")) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let mut words = name.split('-');
        let (kind, pid) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let Ok(pid) = pid.parse::<u32>() else { continue };
        let is_over =
            pid == std::process::id() || !Path::new("/proc").join(pid.to_string()).exists();
        if matches!(kind, "site" | "own" | "tls") && is_over {
            let locked = entry.path().join("root/locked");
            let _ = fs::set_permissions(locked, Permissions::from_mode(0o700));
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Plain files of the common site and their texts, by path on disk.
#[rustfmt::skip]
const TEXTS: &[(&str, &str)] = &[
    ("index.html", "<!doctype html><title>Home</title>\n"), ("small.txt", "small\n"),
    ("a.txt", "the letter a\n"), ("%61.txt", "a percent sign\n"), ("with space.txt", "space\n"),
    ("café.txt", "coffee\n"), ("100%.txt", "percent\n"), ("a+b.txt", "plus\n"),
    ("dots..name.txt", "dots\n"), ("semi;colon:x=y,z.txt", "delimiters\n"),
    ("back\\slash.txt", "backslash\n"), ("sub/index.html", "<!doctype html><title>Sub</title>\n"),
    ("sub/file.txt", "file in sub\n"), ("sub/deep/file.txt", "file in deep\n"),
    ("noindex/listed-name.txt", "not listed\n"), ("sp ace/index.html", "sp ace\n"),
    ("a:b/index.html", "a:b\n"), ("q?m#h/index.html", "q?m#h\n"), ("50%/index.html", "50%\n"),
    ("evil.example/index.html", "evil\n"), ("x\r\nSet-Cookie: a=b/index.html", "injected\n"),
    (".env", "hidden\n"), (".git/config", "hidden\n"), ("..hidden", "hidden\n"),
    ("sub/.hidden", "hidden\n"), ("sub/.d/file.txt", "hidden\n"),
    ("sub/.well-known/x.txt", "hidden\n"),
    (".well-known/security.txt", "Contact: mailto:x@regatta.test\n"),
    (".well-known/.secret", "hidden\n"),
    ("page.html", "<!doctype html><title>Page</title> the identity form\n"),
    ("page.html.br", "the br form, not really brotli"),
    ("page.html.zst", "the zst form, not really zstandard"),
    ("page.html.gz", "the gz form, not really gzip at all"),
    ("style.css", "body { color: black }\n"), ("style.css.gz", "style in gz"),
    ("plain.css", "p { color: black }\n"), ("odd.html", "<!doctype html><title>Odd</title>\n"),
    ("app.3f2a9c1b4d5e6f70.js", "let hashed = 1;\n"),
    ("assets/index-BdH3bPq2.js", "let hashed = 2;\n"), ("unreadable.txt", "nobody reads this\n"),
    ("locked/file.txt", "nobody reads this\n"),
];

/// Extensions and the media type each must have; the text ones with their charset.
#[rustfmt::skip]
pub(crate) const TYPES: &[(&str, &str)] = &[
    ("html", "text/html; charset=utf-8"), ("htm", "text/html; charset=utf-8"),
    ("css", "text/css; charset=utf-8"), ("js", "text/javascript; charset=utf-8"),
    ("mjs", "text/javascript; charset=utf-8"), ("txt", "text/plain; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"), ("json", "application/json"), ("wasm", "application/wasm"),
    ("svg", "image/svg+xml"), ("png", "image/png"), ("jpg", "image/jpeg"), ("gif", "image/gif"),
    ("webp", "image/webp"), ("avif", "image/avif"), ("ico", "image/x-icon"),
    ("pdf", "application/pdf"), ("mp4", "video/mp4"), ("woff2", "font/woff2"),
    ("zip", "application/zip"), ("PNG", "image/png"), ("unheard-of", "application/octet-stream"),
];

fn build(site: &Site) {
    site.folder("empty");
    for (path, text) in TEXTS {
        site.put(path, text);
    }
    for len in SIZES {
        site.put(&format!("size-{len}.bin"), sized(len));
    }
    for (extension, _) in TYPES {
        site.put(&format!("types/file.{extension}"), extension);
    }
    site.put("types/none", "no extension");
    site.resize("sparse.bin", SPARSE_BYTES);
    set_modified(&site.path("sparse.bin"), MODIFIED_S);
    site.put("future.txt", "from the future\n");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    set_modified(&site.path("future.txt"), now + 86_400);
    site.put("epoch.txt", "from the epoch\n");
    set_modified(&site.path("epoch.txt"), 0);
    build_links(site);
    build_oddities(site);
}

fn build_links(site: &Site) {
    fs::create_dir(site.beside("outside")).expect("a folder");
    fs::write(site.beside("outside/secret.txt"), SECRET).expect("a file");
    fs::write(site.beside("secret.txt"), SECRET).expect("a file");
    let secret = site.beside("outside/secret.txt");
    site.link("link-in.txt", "small.txt");
    site.link("link-sub", "sub");
    site.link("link-out.txt", "../outside/secret.txt");
    site.link("link-absolute.txt", secret.to_str().expect("text"));
    site.link("link-outside", "../outside");
    site.link("link-loop", "link-loop");
    site.link("link-dangling.txt", "nowhere.txt");
    site.link("link-proc", "/proc/self/environ");
}

fn build_oddities(site: &Site) {
    assert!(site.node("fifo", FileType::Fifo, 0), "a FIFO");
    assert!(site.node("socket", FileType::Socket, 0), "a socket");
    // Only root may make a device: `/device` is then /dev/null, else it does not exist.
    site.node("device", FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    assert!(site.node("odd.html.br", FileType::Fifo, 0), "a FIFO");
    site.link("odd.html.gz", "../outside/secret.txt");
    site.folder("odd.html.zst");
    site.mode("unreadable.txt", 0);
    site.mode("locked", 0);
}
