//! Forms of a result: the table or JSON on standard output, and files.

use super::options::OutputOptions;
use super::outcome::Outcome;
use super::{page, report};
use crate::workload::fault::{part, write_whole};
use std::fs;
use std::io::{self, Write};
use std::path::Path;

impl OutputOptions {
    /// Problems of files that cannot be written, before the load rather than after it.
    pub(super) fn problems(&self) -> Vec<String> {
        let files = [&self.hgrm, &self.csv, &self.html].into_iter().flatten();
        files.filter_map(|path| writable(path).err()).collect()
    }

    /// Writes the files, and prints the result.
    pub(super) fn publish(&self, outcome: &Outcome) -> Result<(), String> {
        if let Some(path) = &self.hgrm {
            write_whole(path, &report::hgrm(outcome.latency()))?;
        }
        if let Some(path) = &self.csv {
            write_whole(path, &report::csv(outcome))?;
        }
        if let Some(path) = &self.html {
            write_whole(path, &page::html(outcome)?)?;
        }
        let text = if self.json {
            serde_json::to_string_pretty(outcome).map_err(|error| error.to_string())? + "\n"
        } else {
            report::table(outcome)
        };
        match io::stdout().write_all(text.as_bytes()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}

fn writable(path: &Path) -> Result<(), String> {
    let wrong = |error: io::Error| format!("{} cannot be written: {error}", path.display());
    if path.is_dir() {
        return Err(wrong(io::ErrorKind::IsADirectory.into()));
    }
    let part = part(path);
    fs::write(&part, "").and_then(|()| fs::remove_file(&part)).map_err(wrong)
}
