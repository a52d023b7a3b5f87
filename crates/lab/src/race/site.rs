//! The content that is to be served: how many files, how large.

use crate::units::files::walk;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The most files that are counted, as `regatta workload from-dir` has it.
const FILES_MAX: usize = 1_000_000;

/// What is served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// Regular files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The largest, bytes.
    pub largest: u64,
    /// Files of up to 1 KiB, 10 KiB, 100 KiB, 1 MiB, and larger.
    pub sizes: Vec<usize>,
}

/// Upper ends of the sizes' classes, bytes.
const CLASSES: [u64; 4] = [1 << 10, 10 << 10, 100 << 10, 1 << 20];

impl Site {
    /// Looks at a directory. Links and what is hidden are left out, as the server leaves them out.
    pub fn scan(root: &Path) -> Result<Self, String> {
        let mut site = Self { sizes: vec![0; CLASSES.len() + 1], ..Self::default() };
        walk(root, |path, kind| {
            let name = path.file_name().unwrap_or_default();
            let hidden = name.as_encoded_bytes().starts_with(b".") && name != ".well-known";
            if kind.is_file() && !hidden && site.files < FILES_MAX {
                site.add(path.symlink_metadata()?.len());
            }
            Ok(!hidden)
        })?;
        if site.files == 0 {
            return Err(format!("{} has no file to serve", root.display()));
        }
        Ok(site)
    }

    fn add(&mut self, bytes: u64) {
        self.files += 1;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
        let class = CLASSES.iter().position(|end| bytes <= *end).unwrap_or(CLASSES.len());
        self.sizes[class] += 1;
    }

    /// In a sentence.
    pub fn words(&self) -> String {
        let names = ["to 1 KiB", "to 10 KiB", "to 100 KiB", "to 1 MiB", "larger"];
        let sizes: Vec<String> = self
            .sizes
            .iter()
            .zip(names)
            .filter(|(files, _)| **files > 0)
            .map(|(files, name)| format!("{files} {name}"))
            .collect();
        let mib = crate::units::real(self.bytes) / f64::from(1 << 20);
        format!("{} files, {mib:.1} MiB: {}", self.files, sizes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::fs;

    #[test]
    fn what_is_served_is_counted() {
        let root = Folder::new("lab-test");
        fs::create_dir_all(root.join("a/.hidden")).unwrap();
        assert!(Site::scan(&root).unwrap_err().contains("no file"));
        fs::write(root.join("a/one"), vec![0; 500]).unwrap();
        fs::write(root.join("two"), vec![0; 5_000]).unwrap();
        fs::write(root.join("a/.hidden/three"), "x").unwrap();
        fs::write(root.join(".four"), "x").unwrap();
        let site = Site::scan(&root).unwrap();
        assert_eq!((site.files, site.bytes, site.largest), (2, 5_500, 5_000));
        assert_eq!(site.words(), "2 files, 0.0 MiB: 1 to 1 KiB, 1 to 10 KiB");
        fs::remove_dir_all(&*root).unwrap();
        assert!(Site::scan(&root).is_err());
    }
}
