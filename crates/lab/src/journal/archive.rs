//! Runs in one compressed file, a line each: verdicts are made from it again.

use super::{Run, Saved};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// End of the name of such a file.
pub(super) const ENDING: &str = ".jsonl.zst";
/// Largest file, bytes: it is kept in the repository.
const BYTES_MAX: u64 = 20 << 20;
/// Program that packs and unpacks.
const PROGRAM: &str = "zstd";

/// Writes runs into a file, or leaves it as it is.
pub(crate) fn write(runs: &[Run], path: &Path) -> Result<(), String> {
    write_below(runs, path, BYTES_MAX)
}

/// The same, of at most this number of bytes.
pub(crate) fn write_below(runs: &[Run], path: &Path, bytes_max: u64) -> Result<(), String> {
    let named = |why: String| format!("{}: cannot keep the runs: {why}", path.display());
    if !path.to_string_lossy().ends_with(ENDING) {
        return Err(named(format!("the name has to end with {ENDING}")));
    }
    let part = PathBuf::from(format!("{}.part", path.display()));
    let packed = pack(runs, &part).and_then(|()| {
        let bytes = fs::metadata(&part).map_err(|error| error.to_string())?.len();
        if bytes > bytes_max {
            return Err(format!("{bytes} bytes are more than {bytes_max}; name fewer runs"));
        }
        fs::rename(&part, path).map_err(|error| error.to_string())
    });
    if packed.is_err() {
        // Perhaps there is none.
        let _ = fs::remove_file(&part);
    }
    packed.map_err(named)
}

/// Packs runs into a file.
fn pack(runs: &[Run], path: &Path) -> Result<(), String> {
    let named = |error: io::Error| format!("{PROGRAM}: {error}");
    let mut command = Command::new(PROGRAM);
    command.args(["-19", "-q", "-f", "-o"]).arg(path).stdin(Stdio::piped());
    let mut packs = command.spawn().map_err(named)?;
    let written = packs.stdin.take().map_or(Ok(()), |mut into| {
        runs.iter().try_for_each(|run| {
            let text = run.to_line()?;
            writeln!(into, "{text}").map_err(|error| error.to_string())
        })
    });
    let status = packs.wait().map_err(named)?;
    written?;
    if status.success() { Ok(()) } else { Err(format!("{PROGRAM} ends with {status}")) }
}

/// Reads what [`write`] wrote.
pub(super) fn read(path: &Path) -> Result<Vec<Run>, String> {
    let named = |why: String| format!("{}: no kept runs: {why}", path.display());
    let unpacked = Command::new(PROGRAM).arg("-dcq").arg(path).output();
    let unpacked = unpacked.map_err(|error| named(format!("{PROGRAM}: {error}")))?;
    if !unpacked.status.success() {
        return Err(named(String::from_utf8_lossy(&unpacked.stderr).trim().to_owned()));
    }
    let lines = unpacked.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let run = |line: &[u8]| -> Result<Run, String> {
        let saved: Saved = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        Run::of_saved(saved, path)
    };
    lines.map(|line| run(line).map_err(named)).collect()
}
