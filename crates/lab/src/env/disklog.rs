//! The simulated disk's log: one line for each request, and what a stretch of it amounts to.

use super::model::Service;
use std::io;
use std::path::Path;

/// The first line of a log.
pub(super) const HEAD: &str =
    "came_ns\tstart_ns\tend_ns\treplied_ns\toffset\tbytes\thead\tsought\tdepth\tkind\n";

/// A request. Times are nanoseconds of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub came_ns: u64,
    pub start_ns: u64,
    /// End of the head's work, by the model.
    pub end_ns: u64,
    /// Start of the answer: `end_ns` plus this machine's delay.
    pub replied_ns: u64,
    pub offset: u64,
    pub bytes: u64,
    pub head: usize,
    /// Whether the head had to travel.
    pub sought: bool,
    /// Requests there when it was taken up, itself included.
    pub depth: usize,
    pub wrote: bool,
}

impl Row {
    pub(super) fn new<T>(service: &Service<T>, head: usize, replied_ns: u64, wrote: bool) -> Self {
        Self {
            came_ns: service.request.came_ns,
            start_ns: service.start_ns,
            end_ns: service.end_ns,
            replied_ns,
            offset: service.request.offset,
            bytes: service.request.bytes,
            head,
            sought: service.sought,
            depth: service.depth,
            wrote,
        }
    }

    pub(super) fn line(&self) -> String {
        let Self { came_ns, start_ns, end_ns, replied_ns, offset, bytes, head, depth, .. } = self;
        let (sought, kind) = (u8::from(self.sought), if self.wrote { "write" } else { "read" });
        format!(
            "{came_ns}\t{start_ns}\t{end_ns}\t{replied_ns}\t{offset}\t{bytes}\t{head}\t{sought}\t\
             {depth}\t{kind}\n"
        )
    }

    fn parse(line: &str) -> Option<Self> {
        let (numbers, kind) = line.rsplit_once('\t')?;
        let fields: Option<Vec<u64>> = numbers.split('\t').map(|f| f.parse().ok()).collect();
        let [came_ns, start_ns, end_ns, replied_ns, offset, bytes, head, sought, depth] =
            <[u64; 9]>::try_from(fields?).ok()?;
        Some(Self {
            came_ns,
            start_ns,
            end_ns,
            replied_ns,
            offset,
            bytes,
            head: usize::try_from(head).ok()?,
            sought: sought != 0,
            depth: usize::try_from(depth).ok()?,
            wrote: kind == "write",
        })
    }
}

/// Reads a log; a last line that is not yet whole is left out.
pub fn read(path: &Path) -> io::Result<Vec<Row>> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.rfind('\n').map_or("", |at| &text[..at]);
    whole
        .lines()
        .skip(1)
        .enumerate()
        .map(|(at, line)| {
            let wrong = || io::Error::other(format!("{}: line {}", path.display(), at + 2));
            Row::parse(line).ok_or_else(wrong)
        })
        .collect()
}

/// A stretch of a log (systems.md §6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Summary {
    pub requests_per_s: f64,
    pub bytes_per_s: f64,
    /// Mean bytes between two travels of the head: how contiguous the requests are.
    pub run_bytes: f64,
    /// Share of the time during which a head is busy, mean of the heads.
    pub busy: f64,
    /// Mean number of requests that wait or are served (Little: sum of times over the stretch).
    pub depth: f64,
    pub response_ms: f64,
    /// By how much the answers were later than the model's, mean, ms: this machine's share.
    pub late_ms: f64,
}

impl Summary {
    /// Summary of the requests that arrived from `from_ns` until before `to_ns`.
    pub fn of(rows: &[Row], heads: u32, from_ns: u64, to_ns: u64) -> Self {
        let within: Vec<_> =
            rows.iter().filter(|row| (from_ns..to_ns).contains(&row.came_ns)).collect();
        let seconds = to_ns.saturating_sub(from_ns) as f64 / 1e9;
        if within.is_empty() || seconds <= 0.0 {
            return Self::default();
        }
        let sum = |of: &dyn Fn(&Row) -> u64| within.iter().map(|row| of(row)).sum::<u64>() as f64;
        let count = within.len() as f64;
        let bytes = sum(&|row| row.bytes);
        let response = sum(&|row| row.replied_ns.saturating_sub(row.came_ns)) / 1e9;
        Self {
            requests_per_s: count / seconds,
            bytes_per_s: bytes / seconds,
            run_bytes: bytes / sum(&|row| u64::from(row.sought)).max(1.0),
            busy: sum(&|row| row.end_ns - row.start_ns) / 1e9 / seconds / f64::from(heads.max(1)),
            depth: response / seconds,
            response_ms: response / count * 1e3,
            late_ms: sum(&|row| row.replied_ns.saturating_sub(row.end_ns)) / 1e6 / count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HEAD, Row, Summary, read};

    fn row(came_ms: u64, start_ms: u64, end_ms: u64, sought: bool) -> Row {
        let ms = 1_000_000;
        Row {
            came_ns: came_ms * ms,
            start_ns: start_ms * ms,
            end_ns: end_ms * ms,
            replied_ns: (end_ms + 1) * ms,
            offset: 4096,
            bytes: 65_536,
            head: 0,
            sought,
            depth: 2,
            wrote: false,
        }
    }

    #[test]
    fn a_log_is_read_back_up_to_its_last_whole_line() {
        let path = std::env::temp_dir().join(format!("regatta-disklog-{}", std::process::id()));
        let rows = [row(0, 0, 4, true), Row { wrote: true, ..row(1, 4, 5, false) }];
        let mut text = HEAD.to_owned();
        rows.iter().for_each(|row| text.push_str(&row.line()));
        std::fs::write(&path, format!("{text}123\t45")).unwrap();
        assert_eq!(read(&path).unwrap(), rows);
        std::fs::write(&path, format!("{text}odd\n")).unwrap();
        assert!(read(&path).is_err());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_stretch_is_summed_up() {
        let rows =
            [row(0, 0, 400, true), row(100, 400, 500, false), row(5_000, 5_000, 5_001, true)];
        let found = Summary::of(&rows, 1, 0, 1_000_000_000);
        assert_eq!(found.requests_per_s, 2.0);
        assert_eq!(found.run_bytes, 131_072.0);
        assert!((found.busy - 0.5).abs() < 1e-9);
        assert!((found.depth - 0.802).abs() < 1e-9, "{}", found.depth);
        assert!((found.late_ms - 1.0).abs() < 1e-9);
        assert_eq!(Summary::of(&rows, 1, 0, 0), Summary::default());
        assert_eq!(Summary::of(&[], 1, 0, 9), Summary::default());
    }
}
