//! What is copied to another machine, and whether it has arrived.

use crate::units::files::walk;
use regatta_load::workload::{hash_file, sha256_hex};
use std::fs;
use std::io;
use std::path::Path;

/// The hash of all files and links below a directory, by path, `without` one that it has itself.
pub(super) fn hash(directory: &Path, without: Option<&str>) -> Result<String, String> {
    let mut lines = Vec::new();
    walk(directory, |path, kind| {
        let name = path.strip_prefix(directory).unwrap_or(path).to_string_lossy().into_owned();
        if without == Some(&name) {
            return Ok(false);
        }
        if kind.is_symlink() {
            lines.push(format!("{name} -> {}", fs::read_link(path)?.display()));
        } else if kind.is_file() {
            let hash = hash_file(path).map_err(|fault| io::Error::other(fault.to_string()))?;
            lines.push(format!("{name} {hash}"));
        }
        Ok(true)
    })?;
    lines.sort();
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Ok(sha256_hex(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn a_tree_has_the_hash_of_its_files_names_and_links() {
        let place = Folder::new("lab-test");
        let (one, other) = (place.join("one"), place.join("other"));
        for tree in [&one, &other] {
            fs::create_dir_all(tree.join("a/b")).unwrap();
            fs::write(tree.join("a/b/file"), "same").unwrap();
            std::os::unix::fs::symlink("a", tree.join("link")).unwrap();
        }
        let of = |tree: &Path| hash(tree, Some("root")).unwrap();
        assert_eq!(of(&one), of(&other));
        fs::create_dir(other.join("root")).unwrap();
        fs::write(other.join("root/file"), "is not copied").unwrap();
        assert_eq!(of(&one), of(&other));
        fs::write(other.join("a/b/file"), "else").unwrap();
        assert_ne!(of(&one), of(&other));
        fs::rename(one.join("link"), one.join("lnk")).unwrap();
        assert_ne!(hash(&one, None), hash(&other, None));
    }
}
