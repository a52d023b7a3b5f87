//! Configuration files as they are read from the disk: one, or those of a directory.
use serde::{Deserialize, Serialize};
use std::{
    ffi::OsStr,
    fmt,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Limit of a configuration file, or of the files of a directory together, bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Limit of the files of a directory.
const FILES_MAX: usize = 256;

/// End of the names that are read in a directory.
const EXTENSION: &str = "toml";

/// Text of the configuration, as it is handed over to the next image of the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConfigText {
    /// Text of a file.
    File(String),
    /// Path and text of each file of a directory, in the order of their names.
    Directory(Vec<(String, String)>),
}

impl ConfigText {
    /// Reads a file, or the files of a directory whose names end in `.toml`.
    ///
    /// # Errors
    /// The path that cannot be read, and why.
    pub fn read(path: &Path) -> Result<Self, ConfigFault> {
        let fault = |error| ConfigFault { path: path.to_owned(), error };
        let file = File::open(path).map_err(fault)?;
        if !file.metadata().map_err(fault)?.is_dir() {
            return text_of(file, FILE_BYTES_MAX).map(Self::File).map_err(fault);
        }
        let mut left = FILE_BYTES_MAX;
        let read = |path: PathBuf| {
            let text = File::open(&path).and_then(|file| text_of(file, left));
            let text = text.map_err(|error| ConfigFault { path: path.clone(), error })?;
            left -= text.len() as u64;
            Ok((path.display().to_string(), text))
        };
        let files: Result<Vec<_>, _> = names(path).map_err(fault)?.into_iter().map(read).collect();
        files.map(Self::Directory)
    }

    /// Names and texts of all files, in their order. `path` names the file if there is one.
    pub(crate) fn files<'t>(&'t self, path: &'t str) -> Vec<(&'t str, &'t str)> {
        match self {
            Self::File(text) => vec![(path, text)],
            Self::Directory(files) => files.iter().map(|(name, text)| (&**name, &**text)).collect(),
        }
    }
}

/// Lists the configuration files of a directory. Names that begin with a dot are not read.
fn names(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        if !is_hidden && path.extension() == Some(OsStr::new(EXTENSION)) {
            names.push(path);
        }
        if names.len() > FILES_MAX {
            return Err(io::Error::other(format!("more than {FILES_MAX} files of .{EXTENSION}")));
        }
    }
    if names.is_empty() {
        return Err(io::Error::other(format!("no file in this directory ends in .{EXTENSION}")));
    }
    names.sort();
    Ok(names)
}

fn text_of(file: File, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    file.take(bytes_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bytes_max {
        let message = format!("the configuration is longer than {FILE_BYTES_MAX} bytes");
        return Err(io::Error::other(message));
    }
    Ok(text)
}

/// Reason why a configuration cannot be read.
#[derive(Debug)]
pub struct ConfigFault {
    /// The file or directory.
    pub path: PathBuf,
    /// The reason.
    pub error: io::Error,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.error.kind() {
            io::ErrorKind::NotFound => f.write_str("no such file or directory"),
            io::ErrorKind::Other => write!(f, "{}", self.error),
            _ => write!(f, "cannot read the file: {}", self.error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn the_files_of_a_directory_are_read_in_order() {
        let folder = Folder::new("conf.d");
        for (name, text) in [
            ("20-b.toml", "b"),
            ("10-a.toml", "a"),
            ("9.toml", "9"),
            (".hidden.toml", "h"),
            ("a.toml~", "old"),
            ("README", "r"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let path = folder.join("");
        let read = ConfigText::read(&path).unwrap();
        let found = read.files("");
        let names = ["10-a.toml", "20-b.toml", "9.toml"];
        let names = names.map(|name| folder.join(name).display().to_string());
        let expected = [(&*names[0], "a"), (&*names[1], "b"), (&*names[2], "9")];
        assert_eq!(found, expected);
        let json = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<ConfigText>(&json).unwrap(), read);
    }

    #[test]
    fn one_file_is_read_and_handed_over_as_its_text() {
        let folder = Folder::new("conf");
        let path = folder.join("r.toml");
        fs::write(&path, "[server]\n").unwrap();
        let read = ConfigText::read(&path).unwrap();
        assert_eq!(read, ConfigText::File("[server]\n".to_owned()));
        // Earlier builds hand over a text.
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"[server]\\n\"");
        let files = read.files("given");
        assert_eq!(files, [("given", "[server]\n")]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let folder = Folder::new("conf-none");
        let fault = |path: &Path| ConfigText::read(path).unwrap_err();
        let none = fault(&folder.join(""));
        assert_eq!(none.to_string(), "no file in this directory ends in .toml");
        assert_eq!(fault(&folder.join("x")).to_string(), "no such file or directory");
        let half = "#".repeat(usize::try_from(FILE_BYTES_MAX / 2).unwrap());
        for name in ["a.toml", "b.toml", "c.toml"] {
            fs::write(folder.join(name), &half).unwrap();
        }
        let long = fault(&folder.join(""));
        assert_eq!(long.path, folder.join("c.toml"));
        assert!(long.to_string().starts_with("the configuration is longer than"), "{long}");
    }
}
