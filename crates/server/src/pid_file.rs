//! The file with the master's number.
use regatta_sys::guarded::Spot;
use std::{fs, io, path::Path, path::PathBuf, process};

/// Longer than any number and its line feed, bytes.
const BYTES_MAX: usize = 32;

/// The file, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file, whole or not at all, unless it is of a server that runs.
    pub(crate) fn write(path: &Path) -> io::Result<Self> {
        let spot = Spot::find(path)?;
        is_of_no_other(&spot, process::id())?;
        spot.replace(format!("{}\n", process::id()).as_bytes(), None)?;
        Ok(Self(path.to_owned()))
    }

    /// The file that an earlier image of this process wrote.
    pub(crate) const fn adopt(path: PathBuf) -> Self {
        Self(path)
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // Another server may have taken the file over.
        if let Ok(spot) = Spot::find(&self.0)
            && matches!(number(&spot), Ok(Some(pid)) if pid == process::id())
        {
            let _ = spot.remove();
        }
    }
}

/// Sees whether the file could be written, and writes none.
pub(crate) fn try_writing(path: &Path) -> io::Result<()> {
    number(&Spot::find(path)?)?;
    regatta_sys::may_make_files(path.parent().unwrap_or(Path::new("/")))
}

/// Sees whether the server that runs as this process could take the file.
pub(crate) fn try_taking(path: &Path, pid: u32) -> io::Result<()> {
    is_of_no_other(&Spot::find(path)?, pid)
}

fn is_of_no_other(spot: &Spot, pid: u32) -> io::Result<()> {
    let other = number(spot)?.filter(|other| *other != pid && is_ours(*other));
    other.map_or(Ok(()), |other| {
        let why = format!("it is of the server that runs as process {other}; name another");
        Err(io::Error::other(why))
    })
}

fn number(spot: &Spot) -> io::Result<Option<u32>> {
    let text = spot.read(BYTES_MAX)?;
    Ok(text.and_then(|text| str::from_utf8(&text).ok()?.trim().parse().ok()))
}

/// Whether a process is one of this program, or called like it.
fn is_ours(pid: u32) -> bool {
    let name = |pid: &str| fs::read(format!("/proc/{pid}/comm")).ok();
    name(&pid.to_string()).is_some_and(|its| Some(its) == name("self"))
}
