//! Findings of a trial on the machine, for the next image, which opens no path: a description, the
//! bytes of small files, and descriptors.
//!
//! They travel through a channel to the master, which does not read them. The master keeps the
//! descriptors over the execution of the next image.
use crate::{
    certificates::{TlsFile, TlsFiles, wipe},
    config::{
        address::{Names, learn, names},
        release::Release,
    },
    config_text::ConfigText,
    handover::HandoverError,
    machine::Found,
    root::Folder,
};
use regatta_sys::{
    Root,
    channel::{Channel, FILES_MAX},
    exec::{read_sealed, sealed},
    process::User,
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsString,
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

/// Limit of the description, and of the bytes of files.
const BYTES_MAX: u64 = 1 << 30;

/// Limit of descriptors that a trial may send: the roots of all hosts, and a few others.
const FILES_SENT_MAX: usize = 8_192;

/// Wait before another attempt on a full channel, milliseconds.
const ROOM_MS: u64 = 1;

/// Findings of a trial, as the next image reads them.
#[derive(Debug)]
pub(crate) struct Findings {
    /// The text of the configuration, if there is one.
    pub(crate) config: Option<ConfigText>,
    pub(crate) machine: Found,
    pub(crate) handed: Handed,
}

/// Findings that the next image does not repeat.
#[derive(Debug)]
pub(crate) struct Handed {
    /// Directories that workers may read other than the roots; `None` is everywhere.
    pub(crate) reach: Option<Vec<Folder>>,
    /// The error log, if it is a file.
    pub(crate) error_log: Option<File>,
}

/// Description of the descriptors and the bytes: the first part of what is sent.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    config: Option<ConfigText>,
    /// Addresses of the names in the configuration.
    #[serde(default)]
    names: Names,
    user: Option<UserNumbers>,
    socket_owner: Option<UserNumbers>,
    /// The path of each root, by number, as of the descriptors.
    roots: Vec<OsString>,
    /// Encoded.
    releases: Vec<Span>,
    /// Paths, devices and numbers.
    reach: Option<Vec<(OsString, u64, u64)>>,
    /// The last descriptor is the error log.
    has_error_log: bool,
    /// Certificates and keys, also those of tickets.
    #[serde(default)]
    tls: Vec<TlsSpan>,
}

/// File with certificates or keys.
#[derive(Debug, Serialize, Deserialize)]
struct TlsSpan {
    path: String,
    mode: u32,
    bytes: Span,
    fault: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct UserNumbers {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// A part of the bytes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Span {
    at: usize,
    len: usize,
}

/// Unfinished description, and its bytes.
#[derive(Debug)]
pub(crate) struct Draft {
    description: Description,
    bytes: Vec<u8>,
}

impl Draft {
    /// Begins with the present findings. `config`: the text of the configuration.
    pub(crate) fn new(config: Option<ConfigText>, found: &Found) -> Self {
        let mut bytes = Vec::new();
        let mut put = |part: &[u8]| {
            let span = Span { at: bytes.len(), len: part.len() };
            bytes.extend_from_slice(part);
            span
        };
        let releases = found.releases.iter().map(|release| put(&release.encode())).collect();
        let tls = found.tls.iter().map(|file| {
            let TlsFile { path, mode, bytes, fault } = file;
            TlsSpan { path: path.clone(), mode: *mode, bytes: put(bytes), fault: fault.clone() }
        });
        let tls = tls.collect();
        let description = Description {
            config,
            names: names(),
            user: found.user.as_ref().map(UserNumbers::from_user),
            socket_owner: found.socket_owner.as_ref().map(UserNumbers::from_user),
            roots: found.root.all().map(|root| root.given().as_os_str().to_owned()).collect(),
            releases,
            reach: None,
            has_error_log: false,
            tls,
        };
        Self { description, bytes }
    }

    /// Sends the draft, with the roots and the error log. Waits for the master to make room.
    ///
    /// # Errors
    /// No memory or descriptors left, or the master does not listen.
    pub(crate) fn send(
        mut self,
        to: &Channel,
        root: &Root,
        reach: Option<&[Folder]>,
        error_log: Option<&File>,
    ) -> io::Result<()> {
        let folder = |of: &Folder| (of.path.as_os_str().to_owned(), of.id.0, of.id.1);
        self.description.reach = reach.map(|reach| reach.iter().map(folder).collect());
        self.description.has_error_log = error_log.is_some();
        let description = serde_json::to_vec(&self.description)?;
        let memory = [
            sealed("regatta-findings", &description)?,
            sealed("regatta-found-files", &self.bytes)?,
        ];
        let mut all: Vec<BorrowedFd<'_>> = memory.iter().map(AsFd::as_fd).collect();
        all.extend(root.all().map(AsFd::as_fd));
        all.extend(error_log.map(AsFd::as_fd));
        let total = all.len();
        all.chunks(FILES_MAX).try_for_each(|files| send_all(to, total, files))
    }
}

fn send_all(to: &Channel, total: usize, files: &[BorrowedFd<'_>]) -> io::Result<()> {
    loop {
        match to.send(&(total as u64).to_ne_bytes(), files) {
            // The master takes them while it waits, and the trial has its time.
            Err(error)
                if error.kind() == io::ErrorKind::WouldBlock
                    || error.raw_os_error() == Some(libc::ETOOMANYREFS) =>
            {
                thread::sleep(Duration::from_millis(ROOM_MS));
            }
            sent => return sent,
        }
    }
}

/// The part of the findings that has been received so far.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    files: Vec<OwnedFd>,
    /// The number of descriptors to expect, once that is known.
    total: u64,
}

impl Sent {
    /// Takes the descriptors that have arrived; false if no more will.
    pub(crate) fn receive(&mut self, from: &Channel) -> bool {
        let mut record = [0; 8];
        while self.files.len() < FILES_SENT_MAX {
            match from.recv(&mut record, &mut self.files, false) {
                Ok(0) => return false,
                Ok(_) => self.total = u64::from_ne_bytes(record),
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        false
    }

    /// The descriptors; nothing if none has been received, as from an earlier build.
    ///
    /// # Errors
    /// Descriptors are missing: this process had no room for a descriptor.
    pub(crate) fn whole(self) -> Result<Option<Vec<OwnedFd>>, HandoverError> {
        let (arrived, total) = (self.files.len(), self.total);
        match arrived as u64 == total {
            true => Ok((total > 0).then_some(self.files)),
            false => Err(HandoverError::Missing(arrived, total)),
        }
    }
}

impl Findings {
    /// Reads the findings of a trial.
    ///
    /// # Errors
    /// The findings cannot be understood.
    pub(crate) fn read(files: Vec<OwnedFd>) -> Result<Self, HandoverError> {
        Self::understand(files).map_err(HandoverError::Findings)
    }

    fn understand(files: Vec<OwnedFd>) -> io::Result<Self> {
        let mut files = files.into_iter();
        let mut next = || files.next().ok_or(io::Error::from(io::ErrorKind::UnexpectedEof));
        let description: Description = serde_json::from_slice(&read_sealed(next()?, BYTES_MAX)?)?;
        learn(description.names);
        let mut bytes = read_sealed(next()?, BYTES_MAX)?;
        let part = |span: Span| {
            let part = bytes.get(span.at..).and_then(|rest| rest.get(..span.len));
            part.ok_or(io::Error::from(io::ErrorKind::InvalidData))
        };
        let mut roots = Vec::new();
        for path in description.roots {
            roots.push(Root::adopt(Path::new(&path), next()?)?);
        }
        let release = |span| Release::decode(part(span)?).ok_or(io::ErrorKind::InvalidData.into());
        let releases: io::Result<Vec<_>> = description.releases.into_iter().map(release).collect();
        let releases = releases?;
        let file = |TlsSpan { path, mode, bytes, fault }| -> io::Result<TlsFile> {
            Ok(TlsFile { path, mode, bytes: part(bytes)?.to_vec(), fault })
        };
        let tls: io::Result<Vec<TlsFile>> = description.tls.into_iter().map(file).collect();
        let tls = TlsFiles::found(tls?);
        wipe(&mut bytes);
        let error_log = match description.has_error_log {
            true => Some(File::from(next()?)),
            false => None,
        };
        if roots.is_empty() || roots.len() != releases.len() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let folder =
            |(path, device, number)| Folder { path: PathBuf::from(path), id: (device, number) };
        let machine = Found {
            user: description.user.map(UserNumbers::into_user),
            root: roots.remove(0).with(roots),
            releases,
            socket_owner: description.socket_owner.map(UserNumbers::into_user),
            tls,
        };
        let reach = description.reach.map(|reach| reach.into_iter().map(folder).collect());
        let handed = Handed { reach, error_log };
        Ok(Self { config: description.config, machine, handed })
    }
}

impl UserNumbers {
    fn from_user(user: &User) -> Self {
        Self { uid: user.uid, gid: user.gid, groups: user.groups.clone() }
    }

    fn into_user(self) -> User {
        let Self { uid, gid, groups } = self;
        User { uid, gid, groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::release::{PageFile, RulesText},
        folder::Folder as Directory,
    };
    use regatta_http::Status;
    use std::{fs, io::Read as _};

    fn release(at: usize) -> Release {
        let (status, name) = (Status::SERVICE_UNAVAILABLE, format!("{at}.html"));
        let page = PageFile { status, name, body: b"\xff\x00".to_vec() };
        let headers = RulesText::Text(format!("/{at}\n  X-A: b\n"));
        Release { headers, pages: vec![page], ..Release::default() }
    }

    #[test]
    fn what_a_trial_has_found_arrives_whole() {
        let home = Directory::new("findings");
        // More than one record takes, and more than the channel has room for.
        let roots: Vec<PathBuf> = (0..600).map(|at| home.join(format!("root{at}"))).collect();
        roots.iter().for_each(|path| fs::create_dir(path).unwrap());
        let mut open: Vec<Root> = roots.iter().map(|path| Root::open(path).unwrap()).collect();
        let user = User { uid: 7, gid: 8, groups: vec![9, 10] };
        let root = open.remove(0).with(open);
        let releases = (0..600).map(release).collect();
        let file = |path: &str, bytes: &[u8], fault: Option<&str>| TlsFile {
            path: path.to_owned(),
            mode: 0o600,
            bytes: bytes.to_vec(),
            fault: fault.map(str::to_owned),
        };
        let [key, none] = [file("a.pem", b"key", None), file("b.pem", b"", Some("gone"))];
        let tls = TlsFiles::found(vec![key, none]);
        let sent_tls = tls.clone();
        let found = Found { user: Some(user.clone()), root, releases, socket_owner: None, tls };
        fs::write(home.join("error.log"), "said\n").unwrap();
        let log = File::open(home.join("error.log")).unwrap();
        let reach = [Folder { path: home.to_path_buf(), id: (3, 4) }];
        let (ours, theirs) = Channel::pair().unwrap();
        let mut sent = Sent::default();
        let text = ConfigText::Directory(vec![("a.toml".to_owned(), "[server]\n".to_owned())]);
        let mut draft = Draft::new(Some(text.clone()), &found);
        let name = "found-by-a-trial.invalid:80";
        draft.description.names.insert(name.to_owned(), vec![([192, 0, 2, 1], 80).into()]);
        let root = &found.root;
        thread::scope(|scope| {
            scope.spawn(move || draft.send(&theirs, root, Some(&reach), Some(&log)).unwrap());
            while sent.receive(&ours) {
                thread::yield_now();
            }
        });
        let sent = sent.whole().unwrap().expect("something was sent");
        assert_eq!(sent.len(), 2 + 600 + 1);
        let arrived = Findings::read(sent).unwrap();
        assert_eq!(arrived.config, Some(text));
        let address = crate::config::address::address(name).expect("nobody is asked for it");
        assert_eq!(address.to_string(), "192.0.2.1:80");
        let Found { user: its, root, releases, socket_owner, tls } = arrived.machine;
        assert_eq!(tls, sent_tls);
        assert_eq!((its, socket_owner), (Some(user), None));
        assert_eq!(root.all().map(Root::given).collect::<Vec<_>>(), roots);
        assert!(root.all().all(|root| root.named() == regatta_sys::Named::Same));
        assert_eq!(releases, (0..600).map(release).collect::<Vec<_>>());
        let reach = arrived.handed.reach.unwrap();
        let [Folder { path, id: (3, 4) }] = &reach[..] else { panic!("{reach:?}") };
        assert_eq!(**path, *home);
        let mut said = String::new();
        arrived.handed.error_log.unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(said, "said\n");
    }

    #[test]
    fn what_is_cut_off_is_refused() {
        let nothing = sealed("regatta-findings", b"").unwrap();
        let said = Findings::read(vec![nothing]).unwrap_err().to_string();
        assert!(said.contains("what the trial has found: "), "{said}");
        assert!(Findings::read(Vec::new()).is_err());
        let (ours, theirs) = Channel::pair().unwrap();
        let file = File::open("/proc/self/exe").unwrap();
        theirs.send(&2_u64.to_ne_bytes(), &[file.as_fd()]).unwrap();
        drop(theirs);
        let mut sent = Sent::default();
        assert!(!sent.receive(&ours));
        let said = sent.whole().unwrap_err().to_string();
        assert!(said.starts_with("1 of 2 descriptors"), "{said}");
        assert!(Sent::default().whole().unwrap().is_none(), "an earlier build sends none");
    }
}
