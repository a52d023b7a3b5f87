//! Directories that confined workers may read in addition to their first roots.
use regatta_arch::options::Settings;
use regatta_sys::{Root, sandbox::landlock_version};
use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The directories; `None` is everywhere.
#[derive(Debug)]
pub(super) struct Reach(Option<Vec<Folder>>);

/// Directory below which workers may read. Landlock's rules are about the directory: another one
/// that gets its name is out of reach.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    /// Device and inode.
    pub(crate) id: (u64, u64),
}

impl Folder {
    fn at(path: PathBuf) -> Option<Self> {
        let facts = fs::metadata(&path).ok()?;
        Some(Self { path, id: (facts.dev(), facts.ino()) })
    }

    /// True if the file of this name is below it. May wait for a disk.
    fn holds(&self, name: &Path) -> bool {
        let is_same = |now: Self| now.id == self.id;
        name.starts_with(&self.path) && Self::at(self.path.clone()).is_some_and(is_same)
    }
}

impl Reach {
    /// `handed`: the directories, as a trial has found them.
    pub(super) fn new(settings: &Settings, root: &Root, handed: Option<Vec<Folder>>) -> Self {
        let is_confined = settings.text("server.sandbox") != "off" && landlock_version() > 0;
        let folders = || root.all().flat_map(deployed).collect::<BTreeSet<_>>();
        let found = || folders().into_iter().filter_map(Folder::at).collect();
        Self(is_confined.then(|| handed.unwrap_or_else(found)))
    }

    /// The directories; `None` is everywhere.
    pub(super) fn folders(&self) -> Option<&[Folder]> {
        self.0.as_deref()
    }

    /// The directories, open.
    pub(super) fn readable(&self) -> Vec<Root> {
        let folders = self.0.iter().flatten();
        folders.filter_map(|folder| Root::open(&folder.path).ok()).collect()
    }

    /// True if a root is below one of them. May wait for a disk.
    pub(super) fn has(&self, root: &Root) -> bool {
        let Some(folders) = &self.0 else { return true };
        root.name().is_ok_and(|name| folders.iter().any(|folder| folder.holds(&name)))
    }
}

/// Directories in which a deployment finds another root, without `/`. One contains the path's last
/// part, which may be a link; the other contains the root itself.
fn deployed(root: &Root) -> Vec<PathBuf> {
    let link = root.given().parent().and_then(|folder| folder.canonicalize().ok());
    let there = root.name().ok().filter(|_| root.is_open());
    let there = there.and_then(|root| Some(root.parent()?.to_owned()));
    let is_some_folder = |folder: &PathBuf| folder.parent().is_some();
    [link, there].into_iter().flatten().filter(is_some_folder).collect()
}
