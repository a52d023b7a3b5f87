//! Sessions sorted by start in bounded memory: runs on disk, merged at the end.

use super::fault::{At, Fault};
use crate::number::id;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// A finished session, with file numbers for names.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Spilled {
    /// Start, microseconds since 1970.
    pub(crate) start_us: u64,
    /// Order of arrival among equal starts.
    pub(crate) number: u64,
    /// File number, and the gap before the request, milliseconds.
    pub(crate) requests: Vec<(u32, u32)>,
}

impl Spilled {
    fn bytes(&self) -> usize {
        size_of::<Self>() + 8 * self.requests.len()
    }
}

/// Collects sessions in any order and gives them back by start.
#[derive(Debug, Default)]
pub(crate) struct Spill {
    dir: PathBuf,
    run_bytes_max: usize,
    held: Vec<Spilled>,
    held_bytes: usize,
    runs: Vec<PathBuf>,
}

impl Spill {
    /// Runs of about `run_bytes_max` bytes in `dir`, which is the caller's to remove.
    pub(crate) fn new(dir: &Path, run_bytes_max: usize) -> Self {
        Self { dir: dir.to_owned(), run_bytes_max, ..Self::default() }
    }

    /// Takes one session.
    pub(crate) fn push(&mut self, session: Spilled) -> Result<(), Fault> {
        self.held_bytes += session.bytes();
        self.held.push(session);
        if self.held_bytes >= self.run_bytes_max { self.write_run() } else { Ok(()) }
    }

    fn write_run(&mut self) -> Result<(), Fault> {
        let path = self.dir.join(format!("run-{}", self.runs.len()));
        self.held.sort_unstable();
        let mut out = BufWriter::new(File::create(&path).at(&path)?);
        for session in &self.held {
            write_session(session, &mut out).at(&path)?;
        }
        out.flush().at(&path)?;
        self.runs.push(path);
        self.held.clear();
        self.held_bytes = 0;
        Ok(())
    }

    /// Gives every session to `each`, earliest first, and removes the runs.
    pub(crate) fn drain(
        mut self,
        mut each: impl FnMut(Spilled) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.held.sort_unstable();
        let mut inputs = Vec::with_capacity(self.runs.len());
        for path in &self.runs {
            inputs.push((BufReader::new(File::open(path).at(path)?), path));
        }
        let mut held = self.held.into_iter();
        let mut heads = BinaryHeap::new();
        for (at, (input, path)) in inputs.iter_mut().enumerate() {
            heads.extend(read_session(input).at(path)?.map(|session| Reverse((session, at))));
        }
        let memory = inputs.len();
        heads.extend(held.next().map(|session| Reverse((session, memory))));
        while let Some(Reverse((session, at))) = heads.pop() {
            let next = match inputs.get_mut(at) {
                Some((input, path)) => read_session(input).at(path)?,
                None => held.next(),
            };
            heads.extend(next.map(|session| Reverse((session, at))));
            each(session)?;
        }
        for path in &self.runs {
            fs::remove_file(path).at(path)?;
        }
        Ok(())
    }
}

fn write_session(session: &Spilled, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&session.start_us.to_le_bytes())?;
    out.write_all(&session.number.to_le_bytes())?;
    out.write_all(&id(session.requests.len()).to_le_bytes())?;
    for (file, gap_ms) in &session.requests {
        out.write_all(&file.to_le_bytes())?;
        out.write_all(&gap_ms.to_le_bytes())?;
    }
    Ok(())
}

fn read_session(input: &mut impl Read) -> io::Result<Option<Spilled>> {
    let mut start = [0; 8];
    match input.read_exact(&mut start) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let mut number = [0; 8];
    input.read_exact(&mut number)?;
    let mut word = || -> io::Result<u32> {
        let mut bytes = [0; 4];
        input.read_exact(&mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    };
    let count = word()?;
    let requests = (0..count).map(|_| Ok((word()?, word()?))).collect::<io::Result<_>>()?;
    let (start_us, number) = (u64::from_le_bytes(start), u64::from_le_bytes(number));
    Ok(Some(Spilled { start_us, number, requests }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    /// Pushes sessions in a scattered order with runs of a given size; they come out sorted.
    fn check(sessions: u64, run_bytes_max: usize) {
        let scratch = Folder::new(&format!("spill-{sessions}-{run_bytes_max}"));
        let mut spill = Spill::new(&scratch, run_bytes_max);
        let session = |number: u64| Spilled {
            start_us: number * 7_919 % 1_000,
            number,
            requests: (0..number % 5).map(|r| (id(usize::try_from(r).unwrap()), 9)).collect(),
        };
        for number in 0..sessions {
            spill.push(session(number)).unwrap();
        }
        let mut expected: Vec<Spilled> = (0..sessions).map(session).collect();
        expected.sort();
        let mut found = Vec::new();
        spill
            .drain(|session| {
                found.push(session);
                Ok(())
            })
            .unwrap();
        assert_eq!(found, expected);
        assert_eq!(fs::read_dir(&*scratch).unwrap().count(), 0, "runs are removed");
    }

    #[test]
    fn sessions_come_out_by_start() {
        for (sessions, run_bytes_max) in
            [(0, 100), (1, 1), (50, 1), (5_000, 40_000), (999, 1 << 30)]
        {
            check(sessions, run_bytes_max);
        }
    }
}
