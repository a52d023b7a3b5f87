//! Opening below a root, in a tree with everything that a root should not have.
use regatta_op::{Coding, Codings, Fault, File, OpenFault, OpenReq, Opened, ReadReq};
use regatta_sys::{OpenRules, Root, StaticFile, open_below, open_cached, read_range};
use regatta_testkit::folder::Folder;
use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

const STRICT: OpenRules = OpenRules { symlinks: false };
const LINKS: OpenRules = OpenRules { symlinks: true };

fn req(path: impl AsRef<[u8]>, siblings: Codings) -> OpenReq {
    OpenReq { path: path.as_ref().into(), siblings }
}

fn open(dir: &Folder, path: &str, rules: OpenRules) -> Result<Opened<StaticFile>, OpenFault> {
    open_below(&Root::open(&dir.join("root")).unwrap(), &req(path, Codings::NONE), rules)
}

fn content(file: &StaticFile) -> String {
    let (bytes, read) = read_range(ReadReq::new(file.clone(), 0, file.len()));
    read.unwrap();
    String::from_utf8(bytes).unwrap()
}

fn probe(dir: &Folder, path: &str, rules: OpenRules) -> String {
    word(open(dir, path, rules))
}

/// Result of opening a path, in a word.
fn word(found: Result<Opened<StaticFile>, OpenFault>) -> String {
    match found {
        Ok(Opened::File { file, .. }) => content(&file),
        Ok(Opened::Directory) => "directory".to_owned(),
        Err(fault) => format!("{fault:?}"),
    }
}

/// Writes a file, and makes the folders above it.
fn write(dir: &Folder, name: &str, text: &str) {
    let path = dir.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn tree(name: &str) -> Folder {
    let dir = Folder::new(name);
    write(&dir, "secret", "secret");
    write(&dir, "root/a/page.html", "page");
    write(&dir, "root/empty", "");
    let root = dir.join("root");
    symlink("a/page.html", root.join("inside")).unwrap();
    symlink("../root/a/page.html", root.join("back")).unwrap();
    symlink("../secret", root.join("outside")).unwrap();
    symlink("../../secret", root.join("a/outside")).unwrap();
    symlink("/etc/passwd", root.join("absolute")).unwrap();
    symlink("a", root.join("folder")).unwrap();
    symlink("nothing", root.join("dangling")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, root.join("fifo"), 0o644.into()).unwrap();
    drop(UnixListener::bind(root.join("socket")).unwrap());
    dir
}

#[test]
fn each_host_has_files_of_its_own() {
    let dir = tree("hosts");
    write(&dir, "other/a/page.html", "other");
    let open = |name: &str| Root::open(&dir.join(name)).unwrap();
    let root = open("root").with(vec![open("root/a"), open("other")]);
    let probe = |number: u16, path: &str| {
        let prefix = if number == 0 { Vec::new() } else { OpenReq::prefix(number).to_vec() };
        let req = req([&prefix, path.as_bytes()].concat(), Codings::NONE);
        let (found, cached) = (open_below(&root, &req, STRICT), open_cached(&root, &req, STRICT));
        let found = word(found);
        assert!(cached.is_none_or(|cached| word(cached) == found), "{number} {path}");
        found
    };
    for (number, path, expected) in [
        (0, "a/page.html", "page"),
        (1, "page.html", "page"),
        (1, "a/page.html", "NotFound"),
        (1, "../../secret", "Outside"),
        (2, "a/page.html", "other"),
        (2, "empty", "NotFound"),
        (2, "", "directory"),
        (3, "a/page.html", "NotFound"),
        (u16::MAX, "", "NotFound"),
    ] {
        assert_eq!(probe(number, path), expected, "{number} {path}");
    }
    assert_eq!(root.try_clone().unwrap().all().count(), 3);
}

#[test]
fn paths_lead_where_they_should() {
    let dir = tree("lead");
    let long = "x".repeat(300);
    let longer = "./".repeat(600) + "a/page.html";
    let too_long = "a/".repeat(3000) + "page.html";
    let rows = [
        // path, without links, with links
        ("", "directory", "directory"),
        ("a", "directory", "directory"),
        ("a/page.html", "page", "page"),
        ("a//page.html", "page", "page"),
        ("empty", "", ""),
        ("nothing", "NotFound", "NotFound"),
        ("a/page.html/more", "NotFound", "NotFound"),
        ("a/page.html/", "NotFound", "NotFound"),
        ("a\0/page.html", "NotFound", "NotFound"),
        (&long, "NotFound", "NotFound"),
        (&longer, "page", "page"),
        (&too_long, "NotFound", "NotFound"),
        ("..", "Outside", "Outside"),
        ("../secret", "Outside", "Outside"),
        ("../root/empty", "Outside", "Outside"),
        ("a/../../secret", "Outside", "Outside"),
        ("/etc/passwd", "Outside", "Outside"),
        ("inside", "Outside", "page"),
        ("folder/page.html", "Outside", "page"),
        ("folder", "Outside", "directory"),
        ("back", "Outside", "Outside"),
        ("outside", "Outside", "Outside"),
        ("a/outside", "Outside", "Outside"),
        ("absolute", "Outside", "Outside"),
        ("loop", "Outside", "Outside"),
        ("dangling", "Outside", "NotFound"),
        ("fifo", "NotAFile", "NotAFile"),
        ("socket", "NotAFile", "NotAFile"),
    ];
    for (path, strict, links) in rows {
        let start = Instant::now();
        assert_eq!(probe(&dir, path, STRICT), strict, "{path:?}");
        assert_eq!(probe(&dir, path, LINKS), links, "{path:?}, links allowed");
        assert!(start.elapsed() < Duration::from_secs(2), "{path:?} blocked");
    }
}

#[test]
fn magic_links_are_not_followed_and_devices_are_not_files() {
    for (root, paths, rules, expected) in [
        ("/proc/self", &["cwd", "root/etc/passwd", "fd/0", "exe"][..], LINKS, OpenFault::Outside),
        ("/dev", &["null", "zero"][..], STRICT, OpenFault::NotAFile),
    ] {
        let root = Root::open(root.as_ref()).unwrap();
        for path in paths {
            let fault = open_below(&root, &req(path, Codings::NONE), rules).unwrap_err();
            assert_eq!(fault, expected, "{path}");
        }
    }
}

#[test]
fn a_file_is_known_by_its_identity_and_times() {
    let dir = tree("facts");
    let path = dir.join("root/a/page.html");
    let Ok(Opened::File { file, siblings }) = open(&dir, "a/page.html", STRICT) else {
        panic!("it is there");
    };
    assert!(siblings.iter().all(Option::is_none));
    let facts = fs::metadata(&path).unwrap();
    let id = file.id();
    assert_eq!((id.device, id.inode, id.len), (facts.dev(), facts.ino(), 4));
    assert_eq!(id.modified.secs, facts.mtime());
    assert_eq!(i64::from(id.modified.nanos), facts.mtime_nsec());
    assert_eq!((id.changed.secs, i64::from(id.changed.nanos)), (facts.ctime(), facts.ctime_nsec()));

    // A writer that restores the modification time is still detected.
    thread::sleep(Duration::from_millis(20));
    fs::write(&path, "egap").unwrap();
    fs::File::open(&path).unwrap().set_modified(facts.modified().unwrap()).unwrap();
    let Ok(Opened::File { file: changed, .. }) = open(&dir, "a/page.html", STRICT) else {
        panic!("it is still there");
    };
    assert_eq!(changed.id().modified, id.modified);
    assert_ne!(changed.id(), id);
}

#[test]
fn siblings_are_those_asked_for_that_are_regular_files() {
    let dir = tree("siblings");
    let root = Root::open(&dir.join("root")).unwrap();
    write(&dir, "root/app.js", "plain");
    write(&dir, "root/app.js.br", "brotli");
    fs::create_dir(dir.join("root/app.js.zst")).unwrap();
    write(&dir, "root/app.js.gz", "gzip");
    let found = |path: &str, siblings, rules| match open_below(&root, &req(path, siblings), rules) {
        Ok(Opened::File { file, siblings }) => {
            let siblings = siblings.map(|file| file.as_ref().map(content).unwrap_or_default());
            (content(&file), siblings)
        }
        other => panic!("{path}: {other:?}"),
    };
    let plain = "plain".to_owned();
    let words = |a: &str, b: &str, c: &str| [a.to_owned(), b.to_owned(), c.to_owned()];
    let all = found("app.js", Codings::ALL, STRICT);
    assert_eq!(all, (plain.clone(), words("brotli", "", "gzip")));
    let some = found("app.js", Codings::NONE.with(Coding::Gzip), STRICT);
    assert_eq!(some, (plain.clone(), words("", "", "gzip")));
    assert_eq!(found("app.js", Codings::NONE, STRICT), (plain.clone(), words("", "", "")));

    fs::remove_file(dir.join("root/app.js.br")).unwrap();
    symlink("empty", dir.join("root/app.js.br")).unwrap();
    fs::remove_dir(dir.join("root/app.js.zst")).unwrap();
    symlink("../secret", dir.join("root/app.js.zst")).unwrap();
    let strict = open_below(&root, &req("app.js", Codings::ALL), STRICT).unwrap();
    let links = open_below(&root, &req("app.js", Codings::ALL), LINKS).unwrap();
    for (opened, expected) in [(strict, [false, false, true]), (links, [true, false, true])] {
        let Opened::File { siblings, .. } = opened else { panic!("it is a file") };
        assert_eq!(siblings.map(|file| file.is_some()), expected);
    }
    // Long enough that the suffix takes the path off the stack.
    for len in [200, 251, 252] {
        let name = "n".repeat(len);
        let path = "a/".to_owned() + &"./".repeat(127) + &name;
        write(&dir, &format!("root/a/{name}"), "long");
        write(&dir, &format!("root/a/{name}.br"), "long brotli");
        let long = found(&path, Codings::NONE.with(Coding::Brotli), STRICT);
        assert_eq!(long, ("long".to_owned(), words("long brotli", "", "")), "{len}");
    }
}

#[test]
fn what_may_not_be_read_is_denied_but_a_directory_may_be_crossed() {
    let dir = tree("denied");
    let path = |name: &str| dir.join("root").join(name);
    write(&dir, "root/shut/page", "x");
    write(&dir, "root/dark/page", "lit");
    let mode = |name: &str, mode| {
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("empty", 0o200);
    mode("shut", 0o600);
    mode("dark", 0o311);
    fs::set_permissions(&*dir, fs::Permissions::from_mode(0o755)).unwrap();
    let check = || {
        assert_eq!(probe(&dir, "empty", STRICT), "Denied");
        assert_eq!(probe(&dir, "shut/page", STRICT), "Denied");
        assert_eq!(probe(&dir, "shut", STRICT), "directory");
        assert_eq!(probe(&dir, "dark", STRICT), "directory");
        assert_eq!(probe(&dir, "dark/page", STRICT), "lit");
    };
    if rustix::process::geteuid().is_root() {
        // Root may read everything; this thread alone stops being root.
        thread::scope(|scope| {
            scope.spawn(|| {
                mode("empty", 0o200);
                mode("shut", 0o666);
                let nobody = rustix::fs::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                check();
            });
        });
    } else {
        check();
    }
    mode("shut", 0o700);
}

/// Stops the other thread at the end of a test, even a failed one.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

#[test]
fn a_tree_that_keeps_changing_lets_nothing_out() {
    let dir = tree("race");
    let root = dir.join("root");
    write(&dir, "root/one/secret", "inside");
    write(&dir, "root/one/two/file", "");
    // From where the directory is moved to, `../secret` is the one outside.
    symlink("../two/".repeat(20) + "../secret", root.join("one/two/link")).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| {
            // Moves the directory that `..` is resolved in out of the root and back.
            while !stop.load(Relaxed) {
                fs::rename(root.join("one/two"), dir.join("two")).unwrap();
                fs::rename(dir.join("two"), root.join("one/two")).unwrap();
            }
        });
        let start = Instant::now();
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..20_000 {
            let found = probe(&dir, "one/two/link", LINKS);
            assert_ne!(found, "secret");
            *seen.entry(found).or_insert(0) += 1;
        }
        println!("{seen:?}");
        assert!(start.elapsed() < Duration::from_secs(60), "tries are bounded");
        let expected = ["inside", "NotFound", "Outside", "Busy"];
        assert!(seen.keys().all(|word| expected.contains(&word.as_str())), "{seen:?}");
    });
}

#[test]
fn reading_past_a_new_end_gives_what_there_is() {
    let dir = tree("read");
    write(&dir, "root/file", "0123456789");
    let Ok(Opened::File { file, .. }) = open(&dir, "file", STRICT) else { panic!("it is there") };
    // Earlier content of the buffer is not read, and its room beyond the range is not filled.
    let read = |at, len| {
        let mut buffer = Vec::with_capacity(4096);
        buffer.extend_from_slice(b"of before");
        let (bytes, read) = read_range(ReadReq { file: file.clone(), at, len, buffer });
        read.map(|()| bytes)
    };
    assert_eq!(&*read(0, 10).unwrap(), b"0123456789");
    assert_eq!(&*read(3, 4).unwrap(), b"3456");
    assert_eq!(&*read(0, 0).unwrap(), b"");
    assert_eq!(&*read(8, 100).unwrap(), b"89");
    assert_eq!(read(0, u64::MAX), Err(Fault::Other(libc::ENOMEM)));
    fs::OpenOptions::new().write(true).open(dir.join("root/file")).unwrap().set_len(5).unwrap();
    assert_eq!(&*read(0, 10).unwrap(), b"01234");
    assert_eq!(&*read(7, 3).unwrap(), b"");
    assert_eq!(file.len(), 10, "facts are of the time of opening");
}

#[test]
fn a_root_is_a_directory() {
    let dir = tree("root");
    assert!(Root::open(&dir.join("nothing")).is_err());
    assert!(Root::open(&dir.join("secret")).is_err());
}
