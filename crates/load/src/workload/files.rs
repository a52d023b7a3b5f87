//! A file set: names, sizes and classes, computed or listed, and made on disk. Names as request
//! targets and back (RFC 3986 §2.1).

use super::content::Content;
use super::fault::{At, Fault, Progress, Watch, tell};
use super::specweb::{DIR_BYTES, DIRS_MAX, FILES_PER_CLASS, FILES_PER_DIR, file_bytes, parse_name};
use crate::number::{id, index};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, ErrorKind, Read, Write};
use std::path::Path;

pub const LISTED_FILES_MAX: u32 = 10_000_000;

/// A file of one set, by its place in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

/// The files that requests ask for: by formula (SPECweb99-like) or by list.
#[derive(Clone, Debug)]
pub struct FileSet {
    names: Names,
}

/// Names by formula, or files in a list with their places in the order of their paths.
#[derive(Clone, Debug)]
enum Names {
    Specweb { dirs: u32, prefixes: Vec<String> },
    Listed { files: Vec<Listed>, by_path: Vec<u32> },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    /// Path below the root, without a leading `/`.
    pub path: String,
    pub bytes: u64,
    /// Weight of its popularity; only relative sizes count.
    pub weight: f64,
    /// SHA-256 of its contents in hexadecimal, when they are the user's and were read.
    pub sha256: Option<Box<str>>,
}

impl FileSet {
    /// The SPECweb99-like set of `dirs` directories (1 to 100,000) \[E\] \[src\]. Directory `d`,
    /// from 0 and hottest first, is `PREFIX/dirNNNNN`; several prefixes take turns, so that a set
    /// can lie on several disks (\[S\] used two).
    pub fn specweb(dirs: u32, prefixes: &[&str]) -> Result<Self, Fault> {
        let mut problems = Vec::new();
        if !(1..=DIRS_MAX).contains(&dirs) {
            problems.push(format!("{dirs} directories: must be 1 to {DIRS_MAX}"));
        }
        if prefixes.is_empty() {
            problems.push("a file set needs a prefix, such as file_set".to_owned());
        }
        for prefix in prefixes {
            let mut target = String::from("/");
            encode(prefix, &mut target);
            let plain = file_of_target(&target).as_deref() == Some(*prefix);
            if !plain || target[1..] != **prefix {
                problems.push(format!("prefix {prefix:?} is not a plain relative path"));
            }
        }
        Fault::if_any(problems)?;
        let prefixes = prefixes.iter().map(|&p| p.to_owned()).collect();
        Ok(Self { names: Names::Specweb { dirs, prefixes } })
    }

    /// A set from a list, whose order gives the ids. No path may be in it twice.
    pub fn listed(files: impl IntoIterator<Item = Listed>) -> Result<Self, Fault> {
        let most = index(LISTED_FILES_MAX.into());
        let files: Vec<Listed> = files.into_iter().take(most + 1).collect();
        if files.len() > most {
            return Err(Fault::usage(format!("more than {LISTED_FILES_MAX} files")));
        }
        let path = |at: u32| &*files[index(at.into())].path;
        let mut by_path: Vec<u32> = (0..id(files.len())).collect();
        by_path.sort_unstable_by(|&a, &b| path(a).cmp(path(b)));
        if let Some(pair) = by_path.windows(2).find(|pair| path(pair[0]) == path(pair[1])) {
            return Err(Fault::usage(format!("{} is listed twice", path(pair[0]))));
        }
        Ok(Self { names: Names::Listed { files, by_path } })
    }

    fn entry(&self, file: FileId) -> Option<&Listed> {
        match &self.names {
            Names::Specweb { .. } => None,
            Names::Listed { files, .. } => Some(&files[index(file.0.into())]),
        }
    }

    pub fn len(&self) -> u32 {
        match &self.names {
            Names::Specweb { dirs, .. } => dirs * FILES_PER_DIR,
            Names::Listed { files, .. } => id(files.len()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn ids(&self) -> impl Iterator<Item = FileId> + use<> {
        (0..self.len()).map(FileId)
    }

    /// Directories of a SPECweb99-like set, `None` for a listed one.
    pub fn dirs(&self) -> Option<u32> {
        match self.names {
            Names::Specweb { dirs, .. } => Some(dirs),
            Names::Listed { .. } => None,
        }
    }

    pub fn total_bytes(&self) -> u64 {
        match &self.names {
            Names::Specweb { dirs, .. } => u64::from(*dirs) * DIR_BYTES,
            Names::Listed { files, .. } => files.iter().map(|entry| entry.bytes).sum(),
        }
    }

    pub fn bytes(&self, file: FileId) -> u64 {
        let in_dir = file.0 % FILES_PER_DIR;
        let by_formula = || file_bytes(in_dir / FILES_PER_CLASS, in_dir % FILES_PER_CLASS);
        self.entry(file).map_or_else(by_formula, |entry| entry.bytes)
    }

    /// Size class, 0 to 3: below 1 KiB, 10 KiB, 100 KiB, and above. For SPEC's files this is the
    /// class in the name.
    pub fn class(&self, file: FileId) -> u8 {
        class_of(self.bytes(file))
    }

    /// Weight of a listed file; 1 in other sets.
    pub fn weight(&self, file: FileId) -> f64 {
        self.entry(file).map_or(1.0, |entry| entry.weight)
    }

    /// SHA-256 of a listed file whose contents are the user's.
    pub fn sha256(&self, file: FileId) -> Option<&str> {
        self.entry(file)?.sha256.as_deref()
    }

    /// Appends the path below the root, without a leading `/`.
    pub fn path_into(&self, file: FileId, out: &mut String) {
        match &self.names {
            Names::Specweb { prefixes, .. } => {
                let (dir, in_dir) = (file.0 / FILES_PER_DIR, file.0 % FILES_PER_DIR);
                let (class, k) = (in_dir / FILES_PER_CLASS, in_dir % FILES_PER_CLASS);
                let prefix = &prefixes[index(u64::from(dir)) % prefixes.len()];
                // Writing to a String cannot fail.
                let _ = write!(out, "{prefix}/dir{dir:05}/class{class}_{k}");
            }
            Names::Listed { files, .. } => out.push_str(&files[index(file.0.into())].path),
        }
    }

    pub fn path(&self, file: FileId) -> String {
        let mut out = String::new();
        self.path_into(file, &mut out);
        out
    }

    /// Appends the request target of a file: `/` and its path, percent-encoded.
    pub fn uri_into(&self, file: FileId, out: &mut String) {
        out.push('/');
        match self.entry(file) {
            None => self.path_into(file, out),
            Some(entry) => encode(&entry.path, out),
        }
    }

    /// The file that a request target or a path names; `None` when the set has none such.
    pub fn find(&self, target: &str) -> Option<FileId> {
        match &self.names {
            Names::Specweb { dirs, prefixes } => {
                let path = target.strip_prefix('/').unwrap_or(target);
                let (dir, class, k) = parse_name(path)?;
                let prefix = &prefixes[index(dir.into()) % prefixes.len()];
                let rest = path.strip_prefix(prefix.as_str())?;
                // `/dirNNNNN/classC_K` is 18 bytes, so nothing lies between prefix and name.
                (dir < *dirs && rest.len() == 18)
                    .then_some(FileId(dir * FILES_PER_DIR + class * FILES_PER_CLASS + k))
            }
            Names::Listed { files, by_path } => {
                let path = if target.starts_with('/') {
                    file_of_target(target)?
                } else {
                    target.to_owned()
                };
                let place = |&at: &u32| files[index(at.into())].path.cmp(&path);
                by_path.binary_search_by(place).ok().map(|at| FileId(by_path[at]))
            }
        }
    }

    /// Makes every file below `root`, with generated contents. Existing files are overwritten.
    pub fn create(&self, root: &Path, watch: Watch<'_>) -> Result<(), Fault> {
        let mut buffer = vec![0; 64 << 10];
        let mut dir_made = String::new();
        for file in self.ids() {
            let path = self.path(file);
            let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
            if dir != dir_made || file.0 == 0 {
                let full = root.join(dir);
                fs::create_dir_all(&full).at(&full)?;
                dir.clone_into(&mut dir_made);
            }
            write_file(root, &path, self.bytes(file), &mut buffer)?;
            if file.0.is_multiple_of(64) {
                let (done, total) = (file.0.into(), self.len().into());
                tell(watch, Progress { what: "files", done, total })?;
            }
        }
        Ok(())
    }

    /// Reads every file below `root` and compares size and generated contents.
    pub fn verify(&self, root: &Path, watch: Watch<'_>) -> Result<(), Fault> {
        let mut buffer = vec![0; 64 << 10];
        self.check(watch, |file, path| verify_file(root, path, self.bytes(file), &mut buffer))
    }

    /// Checks every file with `wrong`, which says what is wrong with one. Fails with the number of
    /// these files and the first.
    pub(crate) fn check(
        &self,
        watch: Watch<'_>,
        mut wrong: impl FnMut(FileId, &str) -> Result<Option<String>, Fault>,
    ) -> Result<(), Fault> {
        let (mut files, mut first) = (0, None);
        for file in self.ids() {
            let path = self.path(file);
            if let Some(wrong) = wrong(file, &path)? {
                files += 1;
                first.get_or_insert_with(|| format!("{path}: {wrong}"));
            }
            if file.0.is_multiple_of(64) {
                let (done, total) = (file.0.into(), self.len().into());
                tell(watch, Progress { what: "files", done, total })?;
            }
        }
        first.map_or(Ok(()), |first| Err(Fault::Damaged { files, first }))
    }

    /// Writes a listed set: a line `bytes TAB weight TAB sha256 or - TAB target` per file.
    pub fn write_list(&self, out: &mut dyn Write) -> std::io::Result<()> {
        writeln!(out, "{LIST_HEAD}")?;
        let mut target = String::new();
        for file in self.ids() {
            target.clear();
            self.uri_into(file, &mut target);
            let hash = self.sha256(file).unwrap_or("-");
            writeln!(out, "{}\t{}\t{hash}\t{target}", self.bytes(file), self.weight(file))?;
        }
        Ok(())
    }

    pub fn read_list(input: impl BufRead, path: &Path) -> Result<Self, Fault> {
        let mut files = Vec::new();
        for (number, line) in (1..).zip(input.lines()) {
            let line = line.at(path)?;
            if line.starts_with('#') || line.is_empty() {
                continue;
            }
            let wrong = || Fault::format(path, number, "not bytes, weight, hash, target");
            files.push(list_line(&line).ok_or_else(wrong)?);
        }
        Self::listed(files)
    }
}

const LIST_HEAD: &str = "# regatta file list 1: bytes, weight, sha256 or -, target";

fn list_line(line: &str) -> Option<Listed> {
    let mut fields = line.split('\t');
    let bytes = fields.next()?.parse().ok()?;
    let weight: f64 = fields.next()?.parse().ok()?;
    let sha256 = Some(fields.next()?).filter(|&hash| hash != "-").map(Into::into);
    let target = fields.next()?;
    let path = decode(target.strip_prefix('/')?)?;
    // A list may come from elsewhere: nothing in it leaves the root.
    let safe = file_of_target(target)? == path && weight >= 0.0 && weight.is_finite();
    (safe && fields.next().is_none()).then_some(Listed { path, bytes, weight, sha256 })
}

/// Size class of a file of `bytes`.
pub fn class_of(bytes: u64) -> u8 {
    match bytes {
        0..1_024 => 0,
        1_024..10_240 => 1,
        10_240..102_400 => 2,
        _ => 3,
    }
}

fn write_file(root: &Path, path: &str, bytes: u64, buffer: &mut [u8]) -> Result<(), Fault> {
    let full = root.join(path);
    let content = Content::new(path);
    let mut file = File::create(&full).at(&full)?;
    let mut offset = 0;
    while offset < bytes {
        let take = index((bytes - offset).min(buffer.len() as u64));
        content.fill(offset, &mut buffer[..take]);
        file.write_all(&buffer[..take]).at(&full)?;
        offset += take as u64;
    }
    Ok(())
}

fn verify_file(
    root: &Path,
    path: &str,
    bytes: u64,
    buffer: &mut [u8],
) -> Result<Option<String>, Fault> {
    let full = root.join(path);
    let mut file = match File::open(&full) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Some("missing".into())),
        Err(source) => return Err(Fault::Io { path: full, source }),
    };
    let content = Content::new(path);
    let mut offset = 0;
    loop {
        let read = file.read(buffer).at(&full)?;
        if read == 0 {
            let wrong = format!("{offset} bytes, not {bytes}");
            return Ok((offset != bytes).then_some(wrong));
        }
        if let Err(mismatch) = content.check(offset, &buffer[..read]) {
            return Ok(Some(mismatch.to_string()));
        }
        offset += read as u64;
    }
}

/// Appends the percent-encoded form of `path`: unreserved characters and `/` stay.
pub fn encode(path: &str, out: &mut String) {
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

/// Decodes percent-encoding once; `None` for a bad escape or bytes that are not UTF-8.
pub fn decode(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut out = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        // A number may have a sign, an escape may not.
        let byte = u8::from_str_radix(hex, 16).ok().filter(|_| !hex.starts_with('+'))?;
        out.push(byte);
        out.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(out).ok()
}

/// Longest file name of one segment, bytes (`NAME_MAX` on Linux).
pub const SEGMENT_BYTES_MAX: usize = 255;
/// Longest path in a file set, bytes.
pub const PATH_BYTES_MAX: usize = 2_048;

/// The file below a root that a request target names: query and fragment cut, decoded once, `//`
/// collapsed, `index.html` added to a directory. `None` for targets that name no file that we would
/// dare to create: dot segments, control characters, over-long names, other forms than `/...`.
pub fn file_of_target(target: &str) -> Option<String> {
    let target = target
        .strip_prefix("http://")
        .map_or(target, |rest| rest.find('/').map_or("/", |slash| &rest[slash..]));
    let path = target.split(['?', '#']).next().unwrap_or("").strip_prefix('/')?;
    let decoded = decode(path)?;
    let mut file = String::with_capacity(decoded.len());
    for segment in decoded.split('/').filter(|s| !s.is_empty()) {
        let bad = segment.len() > SEGMENT_BYTES_MAX || segment.chars().any(char::is_control);
        if bad || segment == "." || segment == ".." {
            return None;
        }
        if !file.is_empty() {
            file.push('/');
        }
        file.push_str(segment);
    }
    if decoded.is_empty() || decoded.ends_with('/') {
        file.push_str(if file.is_empty() { "index.html" } else { "/index.html" });
    }
    (file.len() <= PATH_BYTES_MAX).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use crate::workload::fault::unwatched;

    /// Files and bytes of a set of `dirs` directories, and a name at an end of it.
    fn check(dirs: u32, files: u32, bytes: u64, last: &str) {
        let set = FileSet::specweb(dirs, &["file_set"]).unwrap();
        assert_eq!((set.len(), set.total_bytes()), (files, bytes));
        assert_eq!(set.ids().map(|f| set.bytes(f)).sum::<u64>(), bytes);
        assert_eq!(set.path(FileId(files - 1)), last);
    }

    #[test]
    fn totals_are_the_papers() {
        check(680, 24_480, 3_481_249_120, "file_set/dir00679/class3_8");
        check(650, 23_400, 3_327_664_600, "file_set/dir00649/class3_8");
        check(60, 2_160, 307_169_040, "file_set/dir00059/class3_8");
        check(1, 36, 5_119_484, "file_set/dir00000/class3_8");
        check(100_000, 3_600_000, 511_948_400_000, "file_set/dir99999/class3_8");
    }

    #[test]
    fn every_file_is_found_by_its_name() {
        let listed =
            |path: &str| Listed { path: path.to_owned(), bytes: 1, weight: 1.0, sha256: None };
        for set in [
            FileSet::specweb(30, &["file_set"]).unwrap(),
            FileSet::specweb(7, &["disk1/file_set", "disk2/file_set"]).unwrap(),
            FileSet::listed(["b", "a b/c%.html", "ü", "a"].map(listed)).unwrap(),
        ] {
            for file in set.ids() {
                let mut target = String::new();
                set.uri_into(file, &mut target);
                assert_eq!(set.find(&target), Some(file), "{target}");
                assert_eq!(set.find(&set.path(file)), Some(file), "{target}");
            }
            for absent in ["/file_set/dir00030/class0_0", "/x/file_set/dir00000/class0_0", "/c"] {
                assert_eq!(set.find(absent), None, "{absent}");
            }
        }
    }

    #[test]
    fn bad_sets_are_refused_with_every_problem() {
        let Err(Fault::Usage(problems)) = FileSet::specweb(0, &["../x", "a//b", "ok"]) else {
            panic!("accepted");
        };
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(FileSet::specweb(100_001, &["a"]).is_err());
        let twice = Listed { path: "a".into(), bytes: 1, weight: 1.0, sha256: None };
        assert!(FileSet::listed([twice.clone(), twice]).is_err());
    }

    #[test]
    fn lists_survive_the_round_trip_and_stay_below_the_root() {
        let files = [("a b.html", 7, 0.5, None), ("x/y", 0, 3.0, Some("ab"))];
        let files = files.map(|(path, bytes, weight, hash)| Listed {
            path: path.to_owned(),
            bytes,
            weight,
            sha256: hash.map(Into::into),
        });
        let set = FileSet::listed(files).unwrap();
        let mut text = Vec::new();
        set.write_list(&mut text).unwrap();
        let again = FileSet::read_list(&*text, Path::new("files.tsv")).unwrap();
        let mut text_again = Vec::new();
        again.write_list(&mut text_again).unwrap();
        assert_eq!(String::from_utf8(text_again).unwrap(), String::from_utf8(text).unwrap());
        for bad in ["1\t1\t-\t/../x", "1\t-1\t-\t/x", "1\t1\t-\tx", "1\t1\t/x", "x\t1\t-\t/x"] {
            let read = FileSet::read_list(bad.as_bytes(), Path::new("l"));
            assert!(matches!(read, Err(Fault::Format { line: 1, .. })), "{bad}");
        }
    }

    #[test]
    fn made_sets_verify_and_damage_is_found() {
        let scratch = Folder::new("files");
        let set = FileSet::specweb(1, &["file_set"]).unwrap();
        set.create(&scratch, &unwatched).unwrap();
        set.verify(&scratch, &unwatched).unwrap();
        let victim = scratch.join("file_set/dir00000/class2_3");
        let mut bytes = fs::read(&victim).unwrap();
        bytes[30_000] ^= 4;
        fs::write(&victim, &bytes).unwrap();
        fs::remove_file(scratch.join("file_set/dir00000/class0_0")).unwrap();
        let found = set.verify(&scratch, &unwatched).unwrap_err().to_string();
        assert!(found.starts_with("2 files"), "{found}");
        assert!(found.ends_with("class0_0: missing"), "{found}");
    }
}

#[cfg(test)]
mod uri_tests {
    use super::*;

    #[test]
    fn names_survive_the_round_trip() {
        for (path, uri) in [
            ("file_set/dir00012/class1_4", "file_set/dir00012/class1_4"),
            ("a b/100%.html", "a%20b/100%25.html"),
            ("ü?#\t", "%C3%BC%3F%23%09"),
            ("", ""),
        ] {
            let mut out = String::new();
            encode(path, &mut out);
            assert_eq!(out, uri);
            assert_eq!(decode(&out).as_deref(), Some(path));
        }
    }

    #[test]
    fn targets_name_files_below_the_root_only() {
        for (target, file) in [
            ("/", Some("index.html")),
            ("/a/", Some("a/index.html")),
            ("/a/b.html?q=1", Some("a/b.html")),
            ("//a///b", Some("a/b")),
            ("http://host/x", Some("x")),
            ("http://host", Some("index.html")),
            ("/%61%20b", Some("a b")),
            ("/../etc/passwd", None),
            ("/a/%2e%2e/%2e%2e/etc/passwd", None),
            ("/a%2f..%2fb", None),
            ("/./a", None),
            ("/a%00b", None),
            ("/a%0ab", None),
            ("/%zz", None),
            ("/%f", None),
            ("/%ff", None),
            ("*", None),
            ("host:443", None),
            ("", None),
        ] {
            assert_eq!(file_of_target(target).as_deref(), file, "{target}");
        }
        assert_eq!(file_of_target(&format!("/{}", "x".repeat(256))), None);
    }
}
