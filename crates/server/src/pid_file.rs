//! File with the master's number. All of this may wait for a disk: a serving master leaves it to an
//! errand.
use regatta_sys::guarded::Spot;
use std::{fs, io, path::Path};

/// Longer than any number and its line feed, bytes.
const BYTES_MAX: usize = 32;

/// Writes the file of the server that runs as process `pid`, whole or not at all, unless it is that
/// of another running one.
pub(crate) fn write(path: &Path, pid: u32) -> io::Result<()> {
    let spot = Spot::find(path)?;
    is_of_no_other(&spot, pid)?;
    spot.replace(format!("{pid}\n").as_bytes(), None)
}

/// Removes the file, if it is that server's: another one may have taken it over.
pub(crate) fn remove(path: &Path, pid: u32) {
    if let Ok(spot) = Spot::find(path)
        && matches!(number(&spot), Ok(Some(its)) if its == pid)
    {
        let _ = spot.remove();
    }
}

/// Tests whether the file could be written, and writes none.
pub(crate) fn try_writing(path: &Path) -> io::Result<()> {
    number(&Spot::find(path)?)?;
    regatta_sys::may_make_files(path.parent().unwrap_or(Path::new("/")))
}

/// Tests whether the server that runs as process `pid` could take the file.
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
