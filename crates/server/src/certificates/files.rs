//! Files that options of TLS name, as read by the user that starts the server.
use crate::listens;
use regatta_arch::options::Settings;
use regatta_tls::TICKET_KEYS_MAX;
use std::{
    collections::BTreeMap,
    fs::OpenOptions,
    hint::black_box,
    io::{self, Read as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Limit of a file, bytes: lists of revoked certificates are long.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Content of all files, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles(BTreeMap<String, TlsFile>);

/// File as found.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct TlsFile {
    pub(crate) path: String,
    pub(crate) mode: u32,
    /// Empty with a fault.
    pub(crate) bytes: Vec<u8>,
    /// Reason why the file could not be read.
    pub(crate) fault: Option<String>,
}

impl std::fmt::Debug for TlsFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The content may be a key.
        let mut shown = f.debug_struct("TlsFile");
        shown.field("path", &self.path).field("fault", &self.fault).finish_non_exhaustive()
    }
}

impl Drop for TlsFile {
    fn drop(&mut self) {
        wipe(&mut self.bytes);
    }
}

/// Overwrites bytes that may be a key, before their memory is released.
pub(crate) fn wipe(bytes: &mut [u8]) {
    bytes.fill(0);
    // The compiler would leave out a change that nothing reads.
    _ = black_box(bytes);
}

impl TlsFile {
    fn read(path: &str) -> Self {
        let (mode, bytes, fault) = match read(Path::new(path)) {
            Ok((mode, bytes)) => (mode, bytes, None),
            Err(error) => (0, Vec::new(), Some(error.to_string())),
        };
        Self { path: path.to_owned(), mode, bytes, fault }
    }
}

impl TlsFiles {
    /// Reads all files, if addresses with TLS are configured. Keys of tickets are read without them
    /// too: `check` judges each file.
    pub(crate) fn read(settings: &Settings) -> Self {
        let mut files = Self::default();
        let keys = settings.list("tls.ticket_keys").iter().take(TICKET_KEYS_MAX);
        keys.for_each(|path| files.add(path));
        if !listens::is_wanted(settings) {
            return files;
        }
        for text in settings.list("tls.certificate") {
            let Pair { first, second } = Pair::parse(text);
            files.add(first);
            files.add(second);
        }
        for text in settings.list("tls.ocsp") {
            files.add(Pair::parse(text).second);
        }
        for key in ["tls.client_ca", "tls.crl"] {
            if let Some(path) = Some(settings.text(key)).filter(|path| !path.is_empty()) {
                files.add(path);
            }
        }
        files
    }

    fn add(&mut self, path: &str) {
        self.0.entry(path.to_owned()).or_insert_with(|| TlsFile::read(path));
    }

    /// The files of a trial.
    pub(crate) fn found(files: Vec<TlsFile>) -> Self {
        Self(files.into_iter().map(|file| (file.path.clone(), file)).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TlsFile> {
        self.0.values()
    }

    pub(crate) fn get(&self, path: &str) -> Option<&TlsFile> {
        self.0.get(path)
    }
}

/// Two paths in an item of a list, as in `chain.pem:key.pem`. A single path is both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pair<'a> {
    pub(crate) first: &'a str,
    pub(crate) second: &'a str,
}

impl<'a> Pair<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let (first, second) = text.split_once(':').unwrap_or((text, text));
        Self { first, second }
    }
}

/// Permissions and bytes of a file. Does not wait for the other end of a named pipe, and no
/// terminal becomes that of this process.
fn read(path: &Path) -> io::Result<(u32, Vec<u8>)> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if found.len() > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    // A vector that grows would leave copies behind.
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).unwrap_or(0) + 1);
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok((found.permissions().mode(), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{config::raw::tests::of_sets, folder::Folder};
    use std::fs;

    #[test]
    fn files_are_read_once_and_faults_are_kept() {
        let home = Folder::new("tls-files");
        let path = |name: &str| home.join(name).display().to_string();
        fs::write(home.join("a.pem"), "chain").unwrap();
        fs::write(home.join("a.key"), "key").unwrap();
        let mut mode = fs::metadata(home.join("a.key")).unwrap().permissions();
        mode.set_mode(0o640);
        fs::set_permissions(home.join("a.key"), mode).unwrap();
        let [chain, key, none, folder] =
            [path("a.pem"), path("a.key"), path("none"), home.display().to_string()];
        let certificate = format!("tls.certificate={chain}:{key},{chain},{none}");
        let ocsp = format!("tls.ocsp={chain}:{folder}");
        let tickets = format!("tls.ticket_keys={key}");
        let read = |more: &[&str]| {
            let sets = [&[&*certificate, &*ocsp][..], more].concat();
            TlsFiles::read(&of_sets(&sets).settings)
        };
        assert_eq!(read(&[]), TlsFiles::default(), "no address needs them");
        let files = read(&[&tickets]);
        assert_eq!(files.iter().map(|file| &*file.bytes).collect::<Vec<_>>(), [b"key"]);
        let files = read(&[&tickets, "tls.listen=127.0.0.1:0"]);
        let paths: Vec<&str> = files.iter().map(|file| &*file.path).collect();
        let mut expected = [chain.as_str(), key.as_str(), none.as_str(), folder.as_str()];
        expected.sort_unstable();
        assert_eq!(paths, expected);
        let [chain, key, none, folder] =
            [chain, key, none, folder].map(|path| files.get(&path).unwrap());
        assert_eq!((&*chain.bytes, &chain.fault), (&b"chain"[..], &None));
        assert_eq!((&*key.bytes, key.mode & 0o777), (&b"key"[..], 0o640));
        assert!(none.fault.as_ref().unwrap().contains("No such file"));
        assert_eq!(folder.fault.as_deref(), Some("not a regular file"));
        assert!(!format!("{files:?}").contains("[107"), "no key is shown");
    }
}
