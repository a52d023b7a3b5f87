//! Requests for a directory of one's own: all its files by Zipf's law, or the requests of an access
//! log.

use crate::experiment::{Ask, Workload};
use crate::run::Options;
use crate::servers::process::run_to_end;
use crate::trial::load_command::log;
use crate::units::At;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for reading files and logs.
const MAKING_MAX: Duration = Duration::from_secs(3_600);
/// Requests in the log, which is asked for again from its start.
const REQUESTS: u32 = 100_000;

/// Makes the workload over the files of `root`, unless it is there. None: one target is asked for.
pub(crate) fn make(
    directory: &Path,
    root: &Path,
    asked: &Workload,
    options: &Options<'_>,
) -> Result<Option<PathBuf>, String> {
    if asked.ask == Ask::Target {
        return Ok(None);
    }
    let directory = fs::canonicalize(directory).map_err(|error| error.to_string())?;
    let (out, part) = (directory.join("workload"), directory.join("workload.part"));
    if out.exists() {
        return Ok(Some(out));
    }
    let _ = fs::remove_dir_all(&part);
    let requests = asked.requests.unwrap_or(REQUESTS).to_string();
    let mut words: Vec<OsString> = ["workload", "from-dir"].map(OsString::from).into();
    words.extend([root.into(), part.clone().into()]);
    // Bytes are compared with the files themselves.
    let more = ["--clients", "1", "--requests", &requests, "--without-hashes"];
    words.extend(more.map(OsString::from));
    made("the workload", words, &part, &directory, options)?;
    if let Some(access) = &asked.log {
        let read = directory.join("workload.log.part");
        let _ = fs::remove_dir_all(&read);
        let mut words: Vec<OsString> = ["workload", "from-log"].map(OsString::from).into();
        words.extend([access.into(), read.clone().into(), "--without-files".into()]);
        made("the workload", words, &read, &directory, options)?;
        let kept = keep(&read.join("logs"), root, &log(&part))?;
        let _ = fs::remove_dir_all(&read);
        if kept == 0 {
            return Err(format!("no request of {access} is for a file of {}", root.display()));
        }
    }
    fs::rename(&part, &out).at(&out)?;
    Ok(Some(out))
}

/// Runs `regatta-lab workload` until `wanted` is there.
pub(super) fn made(
    what: &str,
    words: Vec<OsString>,
    wanted: &Path,
    directory: &Path,
    options: &Options<'_>,
) -> Result<(), String> {
    let errors = directory.join("scratch/workload.err");
    let mut all: Vec<OsString> = vec![options.programs.lab.clone().into()];
    all.extend(words);
    match run_to_end(all, &errors, MAKING_MAX, options.stop)? {
        // 1: a small log misses an acceptance rule, which the file set does not.
        (Some(0 | 1), _) if wanted.exists() => Ok(()),
        (_, said) => Err(format!("{what} could not be made: {said}")),
    }
}

/// Keeps the requests of session logs that are for files of `root`, without what the logs say of
/// sizes: files may have changed since. How many.
fn keep(logs: &Path, root: &Path, to: &Path) -> Result<usize, String> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(logs).at(logs)?.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut out = BufWriter::new(fs::File::create(to).at(logs)?);
    let mut kept = 0;
    for path in paths {
        for line in BufReader::new(fs::File::open(&path).at(logs)?).lines() {
            let line = line.at(logs)?;
            let target = line.split_ascii_whitespace().next().unwrap_or_default();
            // An empty line ends a session.
            if target.is_empty() {
                writeln!(out).at(logs)?;
            } else if target.starts_with('/') && root.join(&target[1..]).is_file() {
                writeln!(out, "{target}").at(logs)?;
                kept += 1;
            }
        }
    }
    out.flush().at(logs)?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn only_what_is_there_is_asked_for() {
        let place = Folder::new("lab-test");
        fs::create_dir_all(place.join("logs")).unwrap();
        fs::create_dir_all(place.join("site/a")).unwrap();
        fs::write(place.join("site/a/b.html"), "b").unwrap();
        let log = "#! at=1\n/a/b.html think=3\n#! bytes=7\n    /gone.html\n\n  /a/b.html\n/a\n";
        fs::write(place.join("logs/one.log"), log).unwrap();
        let to = place.join("to.log");
        assert_eq!(keep(&place.join("logs"), &place.join("site"), &to), Ok(2));
        assert_eq!(fs::read_to_string(&to).unwrap(), "/a/b.html\n\n/a/b.html\n");
    }
}
