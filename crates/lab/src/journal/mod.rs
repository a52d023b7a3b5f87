//! The run directory: what was asked, what it was made with, and a line for each trial.
//!
//! `experiment.toml` as it was read, `manifest.json`, `results.jsonl` (only ever added to),
//! `outcomes/` with the whole result of every load, `workload/` while it runs.

pub(crate) mod machine_lacks;
pub mod manifest;

pub(crate) use regatta_load::workload::write_whole;

use crate::experiment::{Experiment, extends, flatten, parse};
use crate::journal::manifest::{FORMAT, Manifest};
use crate::record::{APART, Record};
use crate::units::{At, show};
use regatta_load::engine::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug)]
pub struct Run {
    pub directory: PathBuf,
    pub experiment: Experiment,
    pub manifest: Manifest,
    /// Trials so far, in the order in which they ended.
    pub records: Vec<Record>,
    /// Lines of the index of profiles, of a run that is one file. Others have it in their
    /// directories.
    pub profiles_kept: Vec<Value>,
}

/// A run as one file.
#[derive(Serialize, Deserialize)]
struct Saved {
    manifest: Manifest,
    records: Vec<Record>,
    /// Their graphs are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    profiles: Vec<Value>,
}

const EXPERIMENT: &str = "experiment.toml";
const MANIFEST: &str = "manifest.json";
/// Levels of folders in which runs are searched.
const BELOW_MAX: u32 = 4;
const RESULTS: &str = "results.jsonl";
/// Index of the profiles, a line for each.
pub(crate) const PROFILES: &str = "profiles/index.jsonl";

impl Run {
    /// Begins a run in an empty or new directory.
    pub(crate) fn begin(
        directory: &Path,
        text: &str,
        experiment: Experiment,
        manifest: Manifest,
    ) -> Result<Self, String> {
        if directory.join(MANIFEST).exists() {
            return Err(format!("{} has a run already", directory.display()));
        }
        fs::create_dir_all(directory.join("outcomes")).at(directory)?;
        fs::write(directory.join(EXPERIMENT), text).at(directory)?;
        let mut manifest = manifest;
        // The files that it extends may change later.
        manifest.experiment = extends(text).then(|| experiment.clone());
        let directory = directory.to_owned();
        let (records, profiles_kept) = (Vec::new(), Vec::new());
        let run = Self { directory, experiment, manifest, records, profiles_kept };
        run.save_manifest()?;
        Ok(run)
    }

    fn is_copy_of(&self, other: &Self) -> bool {
        let began = |run: &Self| run.manifest.started_unix_ms;
        began(self) == began(other) && self.experiment.name == other.experiment.name
    }

    /// Reads every run in these directories, those below them, and these files of kept runs; of
    /// those that cannot be read, why. A copy of a run is left out: it tells nothing more.
    pub(crate) fn all_below(directories: &[PathBuf]) -> (Vec<Self>, Vec<String>) {
        let (mut runs, mut unread) = (Vec::<Self>::new(), Vec::new());
        let mut left: Vec<(PathBuf, u32)> = directories.iter().map(|d| (d.clone(), 0)).collect();
        left.reverse();
        while let Some((directory, depth)) = left.pop() {
            let found = match directory.to_string_lossy().ends_with(ARCHIVE_ENDING) {
                true => Some(read_archive(&directory)),
                false if directory.join(MANIFEST).exists() => {
                    Some(Self::open(&directory).map(|run| vec![run]))
                }
                false => None,
            };
            match found {
                Some(Ok(found)) => {
                    for run in found {
                        if !runs.iter().any(|one| one.is_copy_of(&run)) {
                            runs.push(run);
                        }
                    }
                    continue;
                }
                Some(Err(why)) => {
                    unread.push(why);
                    continue;
                }
                None => {}
            }
            let entries = match fs::read_dir(&directory) {
                Ok(entries) if depth < BELOW_MAX => entries,
                Ok(_) => continue,
                Err(error) => {
                    unread.push(format!("{}: {error}", directory.display()));
                    continue;
                }
            };
            let folders = entries.flatten().filter(|entry| {
                // A link could lead back.
                entry.file_type().is_ok_and(|kind| kind.is_dir())
            });
            let mut below: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
            below.sort();
            left.extend(below.into_iter().rev().map(|path| (path, depth + 1)));
        }
        (runs, unread)
    }

    /// Reads a run, whole or interrupted. A last line that a crash cut short is left out.
    pub fn open(directory: &Path) -> Result<Self, String> {
        if directory.is_file() {
            return Self::saved(directory);
        }
        if !directory.join(MANIFEST).exists() {
            let directory = directory.display();
            return Err(format!(
                "no run in {directory}: it has no {MANIFEST}; `regatta lab run quick --out DIR` \
                 makes a run"
            ));
        }
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).at(&path)
        };
        let manifest: Manifest =
            serde_json::from_str(&read(MANIFEST)?).at(&directory.join(MANIFEST))?;
        if manifest.format != FORMAT {
            return Err(format!("format {} is not known here", manifest.format));
        }
        let mut experiment = match &manifest.experiment {
            Some(resolved) => resolved.clone(),
            None => parse(EXPERIMENT, &read(EXPERIMENT)?, manifest.scale).map_err(|problems| {
                problems.iter().map(|p| format!("{p}\n")).collect::<String>()
            })?,
        };
        manifest.found_for(&mut experiment);
        // The file is missing before the first trial has ended.
        let results = directory.join(RESULTS);
        let bytes = if results.exists() { fs::read(&results).at(&results)? } else { Vec::new() };
        let text = std::str::from_utf8(whole_lines(&bytes)).at(&results)?;
        let records = records(&results.display().to_string(), text)?;
        if !manifest.looks.is_empty() {
            experiment.measure.blocks = experiment.measure.blocks.max(begun(&records));
        }
        let directory = directory.to_owned();
        Ok(Self { directory, experiment, manifest, records, profiles_kept: Vec::new() })
    }

    /// Lines of the index of its profiles, in the order in which they were taken. A line that
    /// cannot be read is left out.
    pub(crate) fn profiles(&self) -> Vec<Value> {
        if !self.profiles_kept.is_empty() {
            return self.profiles_kept.clone();
        }
        let index = fs::read_to_string(self.directory.join(PROFILES)).unwrap_or_default();
        index.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Writes what another run can be compared with into one file, which opens like a directory:
    /// all but the course of each trial, and graphs.
    pub(crate) fn save(&self, path: &Path) -> Result<(), String> {
        write_whole(path, &self.to_line()?)
    }

    /// The same as a line of JSON.
    fn to_line(&self) -> Result<String, String> {
        let experiment = Some(self.experiment.clone());
        let mut saved = Saved {
            manifest: Manifest { experiment, ..self.manifest.clone() },
            records: self.records.clone(),
            profiles: self.profiles(),
        };
        for profile in &mut saved.profiles {
            (profile["folded"], profile["flame"]) = (Value::Null, Value::Null);
        }
        for record in &mut saved.records {
            record.series.clear();
            record.spectrum.clear();
        }
        serde_json::to_string(&saved).map_err(|error| error.to_string())
    }

    /// Reads what [`Run::save`] wrote.
    fn saved(path: &Path) -> Result<Self, String> {
        let named =
            |why: String| format!("{}: not a run saved as a baseline: {why}", path.display());
        let text = fs::read(path).map_err(|error| named(error.to_string()))?;
        let saved = serde_json::from_slice(&text).map_err(|error| named(error.to_string()))?;
        Self::of_saved(saved, path).map_err(named)
    }

    fn of_saved(Saved { manifest, records, profiles }: Saved, path: &Path) -> Result<Self, String> {
        if manifest.format != FORMAT {
            return Err(format!("format {} is not known here", manifest.format));
        }
        let experiment = manifest.experiment.clone().ok_or("no experiment")?;
        let directory = path.to_owned();
        Ok(Self { directory, experiment, manifest, records, profiles_kept: profiles })
    }

    pub(crate) fn save_manifest(&self) -> Result<(), String> {
        write_json(&self.directory.join(MANIFEST), &self.manifest)
    }

    /// Adds a trial, on disk before in memory.
    pub(crate) fn add(&mut self, record: Record) -> Result<(), String> {
        append(&self.directory.join(RESULTS), &record)?;
        self.records.push(record);
        Ok(())
    }

    /// Cuts off what a crash left of a line, so that lines can be added again.
    pub(crate) fn mend(&self) -> Result<(), String> {
        let path = self.directory.join(RESULTS);
        let Ok(bytes) = fs::read(&path) else { return Ok(()) };
        let whole = whole_lines(&bytes).len();
        let file = File::options().write(true).open(&path).at(&path)?;
        file.set_len(u64::try_from(whole).unwrap_or(u64::MAX)).at(&path)
    }

    /// Blocks that have a trial.
    pub(crate) fn blocks_begun(&self) -> u32 {
        begun(&self.records)
    }

    /// State at one of the looks at a run that grows, by its number from 1.
    pub(crate) fn at_look(&self, number: usize) -> Self {
        let looks = self.manifest.looks[..number].to_vec();
        let blocks = looks.last().copied().unwrap_or_default();
        let mut experiment = self.experiment.clone();
        experiment.measure.blocks = blocks;
        let before = |record: &&Record| record.block < blocks;
        Self {
            directory: self.directory.clone(),
            experiment,
            manifest: Manifest { looks, ..self.manifest.clone() },
            records: self.records.iter().filter(before).cloned().collect(),
            profiles_kept: self.profiles_kept.clone(),
        }
    }

    /// The file that holds the whole result of a trial's load.
    pub(crate) fn outcome_path(&self, trial: u32, attempt: u32) -> PathBuf {
        self.directory.join("outcomes").join(format!("{trial:05}-{attempt}.json"))
    }

    pub fn outcome(&self, record: &Record) -> Option<Outcome> {
        let text = fs::read(self.outcome_path(record.trial, record.attempt)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub fn valid(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.valid)
    }

    /// Distance of the processors before the first trial of a block that counts, nanoseconds.
    pub(crate) fn apart_in(&self, block: u32) -> Option<f64> {
        let mut here = self.valid().filter(|record| record.block == block);
        here.find_map(|record| record.metrics.get(APART[0]).copied())
    }
}

fn begun(records: &[Record]) -> u32 {
    records.iter().map(|record| record.block + 1).max().unwrap_or_default()
}

/// The lines that have their end. A crash can leave a part of another, even of a letter.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    &bytes[..end]
}

/// Writes a value as JSON for people, whole or not at all.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    write_whole(path, &text)
}

pub(crate) fn append(path: &Path, value: &impl Serialize) -> Result<(), String> {
    let mut line = serde_json::to_string(value).map_err(|error| error.to_string())?;
    line.push('\n');
    let file = File::options().append(true).create(true).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes())).at(path)
}

/// The records in the text of a `results.jsonl`. A last line that a crash cut short is left out.
///
/// # Errors
/// The first other line that cannot be read, as `name:line`.
pub fn records(name: &str, text: &str) -> Result<Vec<Record>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut records = Vec::with_capacity(lines.len());
    for (at, line) in lines.iter().enumerate() {
        match serde_json::from_str(line) {
            Ok(record) => records.push(record),
            Err(_) if at + 1 == lines.len() => {}
            Err(error) => return Err(format!("{name}:{}: {error}", at + 1)),
        }
    }
    Ok(records)
}

/// End of the name of such a file.
const ARCHIVE_ENDING: &str = ".jsonl.zst";
/// Largest file, bytes: it is kept in the repository.
const ARCHIVE_BYTES_MAX: u64 = 20 << 20;
const ZSTD: &str = "zstd";

/// Writes runs into a file, or leaves it as it is.
pub(crate) fn write_archive(runs: &[Run], path: &Path) -> Result<(), String> {
    write_archive_below(runs, path, ARCHIVE_BYTES_MAX)
}

/// The same, of at most this number of bytes.
pub(crate) fn write_archive_below(runs: &[Run], path: &Path, bytes_max: u64) -> Result<(), String> {
    let named = |why: String| format!("{}: cannot keep the runs: {why}", path.display());
    if !path.to_string_lossy().ends_with(ARCHIVE_ENDING) {
        return Err(named(format!("the name has to end with {ARCHIVE_ENDING}")));
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
    let named = |error: io::Error| format!("{ZSTD}: {error}");
    let mut command = Command::new(ZSTD);
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
    if status.success() { Ok(()) } else { Err(format!("{ZSTD} ends with {status}")) }
}

/// Reads what [`write_archive`] wrote.
fn read_archive(path: &Path) -> Result<Vec<Run>, String> {
    let named = |why: String| format!("{}: no kept runs: {why}", path.display());
    let unpacked = Command::new(ZSTD).arg("-dcq").arg(path).output();
    let unpacked = unpacked.map_err(|error| named(format!("{ZSTD}: {error}")))?;
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

impl Run {
    /// The name under which [`Run::asked`] has the calibrated rate.
    pub(crate) const UNIT: &str = "what 1x is, requests per second";

    /// Settings that were asked for, by the experiment's own keys.
    pub(crate) fn asked(&self) -> BTreeMap<String, String> {
        let experiment = &self.experiment;
        let mut all = BTreeMap::new();
        all.insert("experiment".to_owned(), experiment.name.clone());
        all.insert("scale".to_owned(), self.manifest.scale.name().to_owned());
        all.insert("baseline".to_owned(), experiment.baseline.clone());
        if let Some(unit) = self.manifest.unit {
            all.insert(Self::UNIT.to_owned(), show(unit));
        }
        let whole = serde_json::to_value(experiment).unwrap_or_default();
        for name in "workload calibrate machine environment measure guards knee".split(' ') {
            flatten(name, &whole[name], &mut all);
        }
        for target in &experiment.targets {
            let path = format!("targets.{}", target.name);
            flatten(&path, &serde_json::to_value(target).unwrap_or_default(), &mut all);
        }
        for factor in &experiment.factors {
            all.insert(format!("factors.{}", factor.path), factor.levels.join(", "));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    /// The experiment of a run stays the same when the files that it extends change.
    #[test]
    fn a_run_keeps_what_its_experiment_extends() {
        let text = "extends = \"hpl01\"\n[experiment]\nname = \"mine\"\n";
        let made = crate::analysis::tests::synthetic(text, &|_| BTreeMap::new());
        let directory = Folder::new("lab-test");
        let begun = Run::begin(&directory, text, made.experiment.clone(), made.manifest).unwrap();
        assert_eq!(begun.experiment, made.experiment);
        fs::write(directory.join(EXPERIMENT), text.replace("hpl01", "gone")).unwrap();
        assert_eq!(Run::open(&directory).unwrap().experiment, made.experiment);
    }

    #[test]
    fn a_line_that_was_cut_within_a_letter_is_left_out() {
        let text = "extends = \"hpl01\"\n[experiment]\nname = \"mine\"\n";
        let made = crate::analysis::tests::synthetic(text, &|_| BTreeMap::new());
        let directory = Folder::new("lab-test");
        let mut begun = Run::begin(&directory, text, made.experiment, made.manifest).unwrap();
        begun.add(made.records[0].clone()).unwrap();
        let results = directory.join(RESULTS);
        let whole: &[u8] = &fs::read(&results).unwrap();
        let letter = "–".as_bytes();
        let cut = [whole, "{\"reasons\":[\"".as_bytes(), &letter[..1]].concat();
        fs::write(&results, cut).unwrap();
        let opened = Run::open(&directory).unwrap();
        assert_eq!(opened.records, begun.records);
        opened.mend().unwrap();
        assert_eq!(fs::read(&results).unwrap(), whole);
    }
}
