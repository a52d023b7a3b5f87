//! Findings below a root, other than served files: rules, pages for errors, and faults.
use crate::{
    config::{
        error_pages,
        raw::{Problem, Said},
    },
    config_text::FILE_BYTES_MAX,
    messages,
};
use regatta_http::Status;
use regatta_op::{Codings, File as _, OpenFault, OpenReq, Opened, ReadReq};
use regatta_origin::RULES_FILES;
use regatta_sys::{FileTrace, OpenRules, Root, open_below, read_range};
use std::{
    collections::BTreeMap,
    ffi::{CStr, OsStr},
    io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Findings below a root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Release {
    /// The text of `_headers`.
    pub headers: RulesText,
    /// The text of `_redirects`.
    pub redirects: RulesText,
    /// Pages for errors that were found.
    pub pages: Vec<PageFile>,
    /// Status that answers all requests, if nothing can be served.
    pub closed: Option<Status>,
    /// Problems.
    pub faults: Vec<RootFault>,
    /// Facts of both files, taken before they were read.
    pub traces: [Option<FileTrace>; 2],
}

/// A file with rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RulesText {
    /// No such file.
    #[default]
    Absent,
    /// Text of the file.
    Text(String),
    /// Existing file that cannot be read: the reason.
    Unreadable(String),
}

/// A file that is the page for an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFile {
    /// Status that it is sent with.
    pub status: Status,
    /// Path below the root.
    pub name: String,
    /// Content of the file.
    pub body: Vec<u8>,
}

/// Fault below a root. It concerns one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootFault {
    /// Option that it belongs to.
    pub key: &'static str,
    /// Description of the fault.
    pub message: String,
    /// Advice; may be empty.
    pub hint: String,
}

/// The options that faults belong to.
const KEYS: [&str; 3] = [ROOT_KEY, RULES_KEY, error_pages::KEY];
pub(crate) const ROOT_KEY: &str = "server.root";
const RULES_KEY: &str = "content.rules_files";

/// Limit of a page for an error, bytes.
const PAGE_BYTES_MAX: u64 = 64 << 10;

/// Name that no file has: looking it up shows whether files below the root can be looked up.
const NOBODY: &[u8] = b".regatta-no-such-file";

/// Names to look up below the root of one host.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The host, for messages; empty if there is one host only.
    pub host: String,
    /// The root.
    pub path: PathBuf,
    index: Vec<String>,
    pages: Vec<(Status, String)>,
    rules_files: bool,
    rules: OpenRules,
    /// The serving user, for messages.
    user: String,
}

impl Wanted {
    /// Lists what each host wants, by number. `user`: the option names the serving user.
    #[must_use]
    pub fn of_all(said: &Said, user: bool) -> Vec<Self> {
        let user = match user {
            true => format!("user \"{}\"", said.settings.text("server.user")),
            false => "this user".to_owned(),
        };
        let one = |(said, host): (&Said, String)| Self {
            host,
            path: said.root(),
            index: said.settings.list("content.index").to_vec(),
            // Faults of the option itself are reported where it is interpreted.
            pages: error_pages::list_pages(said, &mut Vec::new())
                .into_iter()
                .map(|(status, name)| (status, name.to_owned()))
                .collect(),
            rules_files: said.settings.flag("content.rules_files"),
            rules: OpenRules { symlinks: said.settings.flag("content.symlinks") },
            user: user.clone(),
        };
        said.all_hosts().zip(said.host_names()).map(one).collect()
    }

    /// True if it is the path of a directory. A host without one has only rules.
    pub(crate) fn has_root(&self) -> bool {
        !self.path.as_os_str().is_empty()
    }

    /// True if rules are read from files at the root.
    pub(crate) fn reads_rules(&self) -> bool {
        self.rules_files && self.has_root()
    }

    /// Name of the host and its root in lines of the log.
    #[must_use]
    pub fn label(&self) -> String {
        let root = self.path.to_string_lossy();
        match self.host.as_str() {
            "" => format!("root \"{}\"", root.escape_debug()),
            host => format!("{host}, root \"{}\"", root.escape_debug()),
        }
    }

    /// Reads below the root as the user of this process: the root, if files can be looked up below
    /// it, and the findings. May wait for a disk.
    #[must_use]
    pub fn probe(&self) -> (Option<Root>, Release) {
        match self.open() {
            Ok(root) => {
                let release = self.look_below(&root);
                (Some(root), release)
            }
            Err((closed, fault)) => {
                let (closed, faults) = (Some(closed), vec![fault]);
                (None, Release { closed, faults, ..Release::default() })
            }
        }
    }

    fn open(&self) -> Result<Root, (Status, RootFault)> {
        let (text, user) = (self.path.display(), &self.user);
        let fault = |message: String, hint: &str| RootFault::new(ROOT_KEY, message, hint);
        let unsearchable = |what: String| {
            let hint = "let everyone search it and the directories above it (chmod o+x), or serve \
                        as another user with --user";
            (Status::FORBIDDEN, fault(what, hint))
        };
        let root = Root::open(&self.path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                (Status::NOT_FOUND, fault(format!("there is no \"{text}\""), ""))
            }
            io::ErrorKind::NotADirectory => {
                let message = format!("\"{text}\" is not a directory");
                (Status::NOT_FOUND, fault(message, "serve the directory that it is in"))
            }
            io::ErrorKind::PermissionDenied => {
                unsearchable(format!("{user} may not open \"{text}\""))
            }
            _ => {
                let message = format!("cannot open \"{text}\": {error}");
                (Status::SERVICE_UNAVAILABLE, fault(message, ""))
            }
        })?;
        let refused = |errno: i32| {
            let error = io::Error::from_raw_os_error(errno);
            let hint = match errno {
                libc::ENOSYS | libc::EPERM => {
                    "openat2(2) opens every file, so that none lies outside: it takes Linux 5.9 or \
                     later, and a container's seccomp filter that lets it through"
                }
                _ => "",
            };
            let message = format!("cannot look for files in \"{text}\": {error}");
            (Status::SERVICE_UNAVAILABLE, fault(message, hint))
        };
        // A filter's refusal looks like that of a file, so the call is tried where no file can
        // refuse.
        let errno = root.try_resolving().err().and_then(|error| error.raw_os_error());
        if let Some(errno) = errno.filter(|errno| *errno != libc::EACCES) {
            return Err(refused(errno));
        }
        match open_below(&root, &request(NOBODY), OpenRules { symlinks: true }) {
            Err(OpenFault::Denied) => {
                Err(unsearchable(format!("{user} may not look for files in \"{text}\"")))
            }
            Err(OpenFault::Other(errno)) => Err(refused(errno)),
            _ => Ok(root),
        }
    }

    fn look_below(&self, root: &Root) -> Release {
        let mut release = Release::default();
        let index = self.index.iter().map(|name| request(name.as_bytes()));
        let mut opened = index.map(|name| open_below(root, &name, OpenRules { symlinks: true }));
        if opened.any(|found| matches!(found, Err(OpenFault::Denied))) {
            let (user, root) = (&self.user, self.path.display());
            let message = format!("{user} may not read the index file of \"{root}\"");
            let hint = format!("chmod -R o+rX \"{root}\" lets everyone read what is below");
            release.faults.push(RootFault::new(ROOT_KEY, message, &hint));
        }
        if self.rules_files {
            release.traces = traces(root);
            let texts = RULES_FILES.map(|name| self.rules_text(root, name, &mut release.faults));
            [release.headers, release.redirects] = texts;
        }
        if matches!(release.headers, RulesText::Unreadable(_)) {
            // No page is sent without the fields that protect it.
            release.closed = Some(Status::SERVICE_UNAVAILABLE);
        }
        for (status, name) in &self.pages {
            match read(root, name, self.rules, PAGE_BYTES_MAX) {
                Ok(body) => {
                    release.pages.push(PageFile { status: *status, name: name.clone(), body });
                }
                Err(why) => {
                    let hint = "name a file below the root, of at most 64 KiB";
                    let message = format!("\"{name}\" {why}");
                    release.faults.push(RootFault::new(error_pages::KEY, message, hint));
                }
            }
        }
        release
    }

    /// Reads a file with rules, which is never reached through a symbolic link.
    fn rules_text(&self, root: &Root, name: &str, faults: &mut Vec<RootFault>) -> RulesText {
        let text = read(root, name, OpenRules::default(), FILE_BYTES_MAX);
        let text = text.map(String::from_utf8);
        let why = match text {
            Ok(Ok(text)) => return RulesText::Text(text),
            Err(Unread::Absent) => return RulesText::Absent,
            Ok(Err(_)) => "is no UTF-8 text".to_owned(),
            Err(why) => why.to_string(),
        };
        let shown = self.path.join(name);
        let message = format!("\"{}\" {why}", shown.display());
        let hint = format!("let {} read it, or remove it", self.user);
        faults.push(RootFault::new(RULES_KEY, message, &hint));
        RulesText::Unreadable(why)
    }
}

/// Facts of the files with rules, as far as memory knows them; missing files have none.
fn traces(root: &Root) -> [Option<FileTrace>; 2] {
    RULES_NAMES.map(|name| root.trace(name).flatten())
}

/// [`RULES_FILES`], for the system.
pub(crate) const RULES_NAMES: [&CStr; 2] = [c"_headers", c"_redirects"];

fn request(path: &[u8]) -> OpenReq {
    OpenReq { path: path.into(), siblings: Codings::NONE }
}

/// Reason why a file below a root was not read.
#[derive(Debug)]
enum Unread {
    Absent,
    Directory,
    Outside,
    Denied,
    Long(u64),
    Other,
}

impl std::fmt::Display for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Absent => f.write_str("is not there"),
            Self::Directory => f.write_str("is a directory"),
            Self::Outside => f.write_str("is outside the root, or a symbolic link"),
            Self::Denied => f.write_str("cannot be opened: permission denied"),
            Self::Long(max) => write!(f, "is longer than {} KiB", max >> 10),
            Self::Other => f.write_str("cannot be read"),
        }
    }
}

fn read(root: &Root, name: &str, rules: OpenRules, bytes_max: u64) -> Result<Vec<u8>, Unread> {
    let file = match open_below(root, &request(name.as_bytes()), rules) {
        Ok(Opened::File { file, .. }) => file,
        Ok(Opened::Directory) => return Err(Unread::Directory),
        Err(OpenFault::NotFound | OpenFault::RootReplaced) => return Err(Unread::Absent),
        Err(OpenFault::Outside) => return Err(Unread::Outside),
        Err(OpenFault::Denied) => return Err(Unread::Denied),
        Err(_) => return Err(Unread::Other),
    };
    let len = file.id().len;
    if len > bytes_max {
        return Err(Unread::Long(bytes_max));
    }
    match read_range(ReadReq { file, at: 0, len, buffer: Vec::new() }) {
        (body, Ok(())) if body.len() as u64 == len => Ok(body),
        _ => Err(Unread::Other),
    }
}

impl RootFault {
    pub(crate) fn new(key: &'static str, message: impl Into<String>, hint: &str) -> Self {
        Self { key, message: message.into(), hint: hint.to_owned() }
    }

    /// Converts to a problem at the place of its option in the configuration of its host.
    pub(crate) fn problem(&self, said: &Said) -> Problem {
        let problem = said.problem(messages::ROOT_FAULT, self.key, &self.message);
        if self.hint.is_empty() { problem } else { problem.hint(&self.hint) }
    }
}

impl Release {
    /// Release of a root about which only this fault is known.
    pub(crate) fn unknown(fault: RootFault) -> Self {
        let closed = Some(Status::SERVICE_UNAVAILABLE);
        Self { closed, faults: vec![fault], ..Self::default() }
    }

    /// True if it has files with rules.
    pub(crate) const fn has_rules(&self) -> bool {
        matches!(self.headers, RulesText::Text(_)) || matches!(self.redirects, RulesText::Text(_))
    }

    /// True if both serve the same, as far as it depends on them.
    #[must_use]
    pub fn serves_as(&self, other: &Self) -> bool {
        let Self { headers, redirects, pages, closed, .. } = self;
        (headers, redirects) == (&other.headers, &other.redirects)
            && (pages, closed) == (&other.pages, &other.closed)
    }

    /// Encodes the release as bytes, for another process or image.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![FORMAT]);
        for text in [&self.headers, &self.redirects] {
            match text {
                RulesText::Absent => out.number(0),
                RulesText::Text(text) => out.number(1).bytes(text.as_bytes()),
                RulesText::Unreadable(why) => out.number(2).bytes(why.as_bytes()),
            };
        }
        out.number(self.pages.len() as u64);
        for PageFile { status, name, body } in &self.pages {
            out.number(status.0.into()).bytes(name.as_bytes()).bytes(body);
        }
        out.number(self.closed.map_or(0, |status| status.0.into()));
        out.number(self.faults.len() as u64);
        for RootFault { key, message, hint } in &self.faults {
            let key = KEYS.iter().position(|known| known == key).unwrap_or(0);
            out.number(key as u64).bytes(message.as_bytes()).bytes(hint.as_bytes());
        }
        for trace in &self.traces {
            let words = trace.map(FileTrace::to_words);
            out.number(u64::from(words.is_some()));
            words.into_iter().flatten().for_each(|word| _ = out.number(word));
        }
        out.0
    }

    /// Decodes a result of [`Release::encode`]; `None` if another program has made it.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut from = Reader(bytes.strip_prefix(&[FORMAT])?);
        let mut release = Self::default();
        for text in [&mut release.headers, &mut release.redirects] {
            *text = match from.number()? {
                0 => RulesText::Absent,
                1 => RulesText::Text(from.text()?),
                _ => RulesText::Unreadable(from.text()?),
            };
        }
        for _ in 0..from.number()? {
            let status = Status(from.number()?.try_into().ok()?);
            let (name, body) = (from.text()?, from.bytes()?.to_vec());
            release.pages.push(PageFile { status, name, body });
        }
        let closed = u16::try_from(from.number()?).ok()?;
        release.closed = (closed != 0).then_some(Status(closed));
        for _ in 0..from.number()? {
            let key = *KEYS.get(usize::try_from(from.number()?).ok()?)?;
            release.faults.push(RootFault { key, message: from.text()?, hint: from.text()? });
        }
        for trace in &mut release.traces {
            if from.number()? != 0 {
                let mut words = [0; FileTrace::WORDS];
                for word in &mut words {
                    *word = from.number()?;
                }
                *trace = Some(FileTrace::from_words(words));
            }
        }
        Some(release)
    }
}

/// Rules in force, by the path of their root. The next image keeps them where it cannot read the
/// files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RulesInForce(BTreeMap<PathBuf, [RulesText; 2]>);

impl RulesInForce {
    /// Adds the rules of a release that serves.
    pub(crate) fn add(&mut self, root: &Path, release: &Release) {
        let texts = [release.headers.clone(), release.redirects.clone()];
        let has_some = texts.iter().any(|text| matches!(text, RulesText::Text(_)));
        if has_some && release.closed.is_none() {
            self.0.insert(root.to_owned(), texts);
        }
    }

    /// Replaces unreadable rules by those in force.
    pub(crate) fn keep(&self, root: &Path, release: &mut Release) {
        let Some([headers, redirects]) = self.0.get(root) else { return };
        let is_unreadable = |text: &RulesText| matches!(text, RulesText::Unreadable(_));
        if is_unreadable(&release.headers) {
            (release.headers, release.closed) = (headers.clone(), None);
        }
        if is_unreadable(&release.redirects) {
            release.redirects = redirects.clone();
        }
        for fault in release.faults.iter_mut().filter(|fault| fault.key == RULES_KEY) {
            fault.message += ": the rules read before stay in force";
        }
    }

    /// Encodes the rules as bytes, for another image.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Writer(vec![FORMAT]);
        for (root, [headers, redirects]) in &self.0 {
            let (headers, redirects) = (headers.clone(), redirects.clone());
            let release = Release { headers, redirects, ..Release::default() };
            out.bytes(root.as_os_str().as_bytes()).bytes(&release.encode());
        }
        out.0
    }

    /// Decodes a result of [`RulesInForce::encode`]; nothing if another program has made it.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut rules = Self::default();
        let mut from = Reader(bytes.strip_prefix(&[FORMAT]).unwrap_or_default());
        while let (Some(root), Some(release)) = (from.bytes(), from.bytes()) {
            let root = Path::new(OsStr::from_bytes(root));
            rules.add(root, &Release::decode(release).unwrap_or_default());
        }
        rules
    }
}

/// First byte of an encoding.
const FORMAT: u8 = 1;

/// Writer of numbers of eight bytes, and of bytes after their count.
struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) -> &mut Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.number(bytes.len() as u64).0.extend_from_slice(bytes);
        self
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_in_force_are_kept_where_they_cannot_be_read() {
        let text = |text: &str| RulesText::Text(text.to_owned());
        let unreadable = || RulesText::Unreadable("is a directory".to_owned());
        let before = Release { headers: text("/*\n X-A: b\n"), ..Release::default() };
        let mut rules = RulesInForce::default();
        rules.add(Path::new("/a"), &before);
        rules.add(Path::new("/b"), &Release::default());
        let read = RulesInForce::decode(&rules.encode());
        assert_eq!(read, rules);
        let closed = Some(Status::SERVICE_UNAVAILABLE);
        let faults = vec![RootFault::new(RULES_KEY, "is a directory", "")];
        let now = Release { headers: unreadable(), closed, faults, ..Release::default() };
        let mut kept = now.clone();
        read.keep(Path::new("/a"), &mut kept);
        assert_eq!((kept.headers, kept.closed), (before.headers, None));
        assert_eq!(kept.faults[0].message, "is a directory: the rules read before stay in force");
        let mut other = now.clone();
        read.keep(Path::new("/b"), &mut other);
        assert_eq!(other, now, "of another root");
        assert_eq!(RulesInForce::decode(b"nonsense"), RulesInForce::default());
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        let (name, body) = ("e/403.html".to_owned(), vec![0, 255, 10]);
        let page = PageFile { status: Status::FORBIDDEN, name, body };
        let trace = FileTrace::from_words([1, 2, u64::MAX, 4, 5, 6]);
        let whole = Release {
            headers: RulesText::Text("/*\n  X-A: b\n".to_owned()),
            redirects: RulesText::Unreadable("is a directory".to_owned()),
            pages: vec![page],
            closed: Some(Status::SERVICE_UNAVAILABLE),
            faults: vec![RootFault::new(error_pages::KEY, "\"x\" is not there", "")],
            traces: [Some(trace), None],
        };
        for release in [Release::default(), whole] {
            let bytes = release.encode();
            assert_eq!(Release::decode(&bytes), Some(release));
            for len in 0..bytes.len() {
                assert_eq!(Release::decode(&bytes[..len]), None);
            }
        }
    }
}
