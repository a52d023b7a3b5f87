//! A workload from a real access log: popularity, sizes, sessions by client and gap, arrivals.
//!
//! One pass. What its bounds cut off is counted and reported, never silent. Sessions stay in
//! memory: 8 bytes for each request, and some 100 for each session and its client.

use super::access_log::{self, LINE_BYTES_MAX, Line};
use super::fault::{At, Fault, Progress, Watch, tell};
use super::files::{self, FileSet, LISTED_FILES_MAX, Listed};
use super::model::zipf_exponent;
use super::popularity::{Purpose, stream};
use super::session::{REQUESTS_MAX, Request, Session};
use crate::number::{id, index, share};
use clap::Args;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, Read};
use std::path::Path;
use std::rc::Rc;

/// Rules for reading a log, and the memory that this may take.
#[derive(Args, Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// A client that is silent for longer starts a new session, seconds.
    #[arg(long = "session-gap", value_name = "SESSION_GAP")]
    #[arg(default_value_t = 60, hide_default_value = true)]
    pub session_gap_s: u64,
    // Logs in whole seconds cannot tell less than 1,000.
    /// Requests closer than this to the one before belong to its burst, milliseconds.
    #[arg(long = "burst-gap", value_name = "BURST_GAP")]
    #[arg(default_value_t = 1_000, hide_default_value = true)]
    pub burst_gap_ms: u32,
    /// Tell clients behind one address apart by their user agent.
    #[arg(long)]
    pub split_agents: bool,
    /// Seed of the times within a second, when the log has whole seconds.
    #[arg(long, default_value_t = 1, hide_default_value = true)]
    pub seed: u64,
    // Requests for later ones are dropped and counted. About 200 bytes each.
    /// The most distinct files.
    #[arg(long, default_value_t = 1_000_000, hide_default_value = true)]
    pub files_max: usize,
    /// Requests of one session; beyond, it ends and another starts.
    #[arg(skip = 10_000_usize)]
    pub session_requests_max: usize,
}

impl Default for Rules {
    fn default() -> Self {
        crate::with_defaults(&[])
    }
}

impl Rules {
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !(1..=1_000_000_000).contains(&self.session_gap_s) {
            problems.push("the session gap must be 1 to 10^9 seconds".to_owned());
        }
        if !(1..=index(LISTED_FILES_MAX.into())).contains(&self.files_max) {
            problems.push(format!("files must be 1 to {LISTED_FILES_MAX}"));
        }
        if !(1..=REQUESTS_MAX).contains(&self.session_requests_max) {
            problems.push(format!("requests of a session must be 1 to {REQUESTS_MAX}"));
        }
        problems
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    pub lines: u64,
    /// Lines in no form that is known.
    pub malformed: u64,
    /// Requests by other methods than GET, left out.
    pub other_methods: u64,
    /// Requests not answered with 200, 206 or 304, left out.
    pub other_statuses: u64,
    /// Requests whose target names no file, left out.
    pub odd_targets: u64,
    pub beyond_files_max: u64,
    /// Requests for a file whose name is also a directory, left out.
    pub name_clashes: u64,
    /// Files whose size no line told; they have the median of the others.
    pub sizes_unknown: u64,
    pub requests: u64,
    pub sessions: u64,
    /// Sessions that ended early because of a bound on memory.
    pub sessions_cut: u64,
    pub statuses: BTreeMap<u16, u64>,
    /// From the first request to the last, seconds.
    pub span_s: u64,
    pub peak_per_s: u64,
    /// Variance over mean of the requests per second: 1 is Poisson, more is bursty.
    pub dispersion: f64,
    pub zipf_exponent: Option<f64>,
}

/// A log read to its end: the file set that it implies, and its sessions.
#[derive(Debug)]
pub struct Distilled {
    /// Files by falling popularity, with counts as weights.
    pub set: FileSet,
    pub observed: Observed,
    pub sessions: Sessions,
}

#[derive(Debug)]
pub struct Sessions {
    visits: Vec<Visit>,
    place: Vec<Option<u32>>,
    burst_gap_ms: u32,
}

#[derive(Debug)]
struct Visit {
    /// Start, microseconds since 1970.
    start_us: u64,
    /// Number of the file, and the gap before the request, milliseconds.
    requests: Vec<(u32, u32)>,
}

/// Reads a whole log. `path` names the log in errors.
pub fn distil(
    mut input: impl BufRead,
    path: &Path,
    rules: Rules,
    watch: Watch<'_>,
) -> Result<Distilled, Fault> {
    let mut still = Still::new(rules);
    let mut line = Vec::new();
    while next_line(&mut input, &mut line).at(path)? {
        still.observed.lines += 1;
        match (line.len() <= LINE_BYTES_MAX).then(|| access_log::parse(&line)).flatten() {
            Some(line) => still.take(&line),
            None => still.observed.malformed += 1,
        }
        if still.observed.lines.is_multiple_of(1 << 16) {
            tell(watch, Progress { what: "lines", done: still.observed.lines, total: 0 })?;
        }
    }
    if still.observed.requests == 0 {
        let Observed { lines, malformed, .. } = still.observed;
        let what = format!(
            "no usable request in {lines} lines, {malformed} of them malformed; give a log in the \
             common, combined or JSON form with LF or CR LF line ends, not compressed"
        );
        return Err(Fault::format(path, 0, what));
    }
    still.finish()
}

/// Reads a line without its end into `line`; one that is too long comes out one byte over the
/// limit, and its rest is skipped.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let max = LINE_BYTES_MAX + 1;
    let read = input.take(max as u64).read_until(b'\n', line)?;
    if read == max && line.last() != Some(&b'\n') {
        input.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

struct Still {
    rules: Rules,
    observed: Observed,
    files: Files,
    /// By start.
    visits: Vec<Visit>,
    /// Place of each client's last visit, and the time of its last request.
    last: HashMap<u64, (usize, u64)>,
    hasher: RandomState,
    jitter: Pcg64,
    now_us: u64,
    rate: Rate,
}

#[derive(Default)]
struct Files {
    by_name: HashMap<Rc<str>, u32>,
    seen: Vec<Seen>,
}

struct Seen {
    name: Rc<str>,
    requests: u64,
    bytes: Option<u64>,
}

impl Still {
    fn new(rules: Rules) -> Self {
        Self {
            rules,
            observed: Observed::default(),
            files: Files::default(),
            visits: Vec::new(),
            last: HashMap::new(),
            hasher: RandomState::new(),
            jitter: stream(rules.seed, 0, Purpose::Arrival),
            now_us: 0,
            rate: Rate::default(),
        }
    }

    fn take(&mut self, line: &Line<'_>) {
        *self.observed.statuses.entry(line.status).or_default() += 1;
        if line.method != "GET" {
            self.observed.other_methods += 1;
            return;
        }
        if !matches!(line.status, 200 | 206 | 304) {
            self.observed.other_statuses += 1;
            return;
        }
        let Some(name) = files::file_of_target(&line.target) else {
            self.observed.odd_targets += 1;
            return;
        };
        let Some(file) = self.files.intern(&name, self.rules.files_max) else {
            self.observed.beyond_files_max += 1;
            return;
        };
        let seen = &mut self.files.seen[index(file.into())];
        seen.requests += 1;
        if line.status == 200 {
            seen.bytes = seen.bytes.max(line.bytes);
        }
        self.observed.requests += 1;
        self.rate.add(line.at_us / 1_000_000);
        self.now_us = self.now_us.max(line.at_us);
        self.add(line, file);
    }

    fn add(&mut self, line: &Line<'_>, file: u32) {
        let agent = if self.rules.split_agents { &*line.agent } else { "" };
        let client = self.hasher.hash_one((&*line.client, agent));
        let gap_us = self.rules.session_gap_s * 1_000_000;
        if let Some((at, last_us)) = self.last.get_mut(&client)
            && self.now_us <= *last_us + gap_us
        {
            let requests = &mut self.visits[*at].requests;
            if requests.len() < self.rules.session_requests_max {
                let gap_ms = line.at_us.saturating_sub(*last_us) / 1_000;
                requests.push((file, u32::try_from(gap_ms).unwrap_or(u32::MAX)));
                *last_us = line.at_us.max(*last_us);
                return;
            }
            self.observed.sessions_cut += 1;
        }
        let jitter = if line.whole_second { self.jitter.next_u64() % 1_000_000 } else { 0 };
        if let Some((at, _)) = self.last.insert(client, (self.visits.len(), line.at_us)) {
            self.visits[at].requests.shrink_to_fit();
        }
        self.observed.sessions += 1;
        self.visits.push(Visit { start_us: line.at_us + jitter, requests: vec![(file, 0)] });
    }

    fn finish(self) -> Result<Distilled, Fault> {
        let mut visits = self.visits;
        visits.sort_by_key(|visit| visit.start_us);
        let mut observed = self.observed;
        observed.span_s = self.rate.span_s();
        observed.peak_per_s = self.rate.peak.max(self.rate.now);
        observed.dispersion = self.rate.dispersion();
        let (set, place) = self.files.finish(&mut observed)?;
        let burst_gap_ms = self.rules.burst_gap_ms;
        let sessions = Sessions { visits, place, burst_gap_ms };
        Ok(Distilled { set, observed, sessions })
    }
}

impl Files {
    fn intern(&mut self, name: &str, files_max: usize) -> Option<u32> {
        if let Some(&file) = self.by_name.get(name) {
            return Some(file);
        }
        if self.seen.len() >= files_max {
            return None;
        }
        let (name, file) = (Rc::<str>::from(name), id(self.seen.len()));
        self.by_name.insert(Rc::clone(&name), file);
        self.seen.push(Seen { name, requests: 0, bytes: None });
        Some(file)
    }

    /// The set by falling popularity, and the place in it of each file as numbered while reading.
    fn finish(mut self, observed: &mut Observed) -> Result<(FileSet, Vec<Option<u32>>), Fault> {
        let mut clashes = vec![false; self.seen.len()];
        for Seen { name, .. } in &self.seen {
            for (slash, _) in name.match_indices('/') {
                if let Some(&file) = self.by_name.get(&name[..slash]) {
                    clashes[index(file.into())] = true;
                }
            }
        }
        self.by_name = HashMap::new();
        let mut known: Vec<u64> = self.seen.iter().filter_map(|seen| seen.bytes).collect();
        known.sort_unstable();
        let median = known.get(known.len() / 2).copied().unwrap_or(0);
        let mut order: Vec<u32> = (0..id(self.seen.len())).collect();
        order.retain(|&file| !clashes[index(file.into())]);
        let requests = |file: u32| self.seen[index(file.into())].requests;
        order.sort_by_key(|&file| Reverse(requests(file)));
        let mut place = vec![None; self.seen.len()];
        for (at, &file) in order.iter().enumerate() {
            place[index(file.into())] = Some(id(at));
        }
        for (seen, _) in self.seen.iter().zip(&clashes).filter(|&(_, &clash)| clash) {
            observed.name_clashes += seen.requests;
            observed.requests -= seen.requests;
        }
        let mut counts: Vec<u64> = order.iter().map(|&file| requests(file)).collect();
        observed.zipf_exponent = zipf_exponent(&mut counts);
        let set = FileSet::listed(order.iter().map(|&file| {
            let seen = &self.seen[index(file.into())];
            observed.sizes_unknown += u64::from(seen.bytes.is_none());
            Listed {
                path: seen.name.as_ref().to_owned(),
                bytes: seen.bytes.unwrap_or(median),
                weight: seen.requests as f64,
                sha256: None,
            }
        }))?;
        Ok((set, place))
    }
}

impl Sessions {
    /// Gives every session to `each` by start time, with its start in the hints; answers how many
    /// they were. `set` is the log's own. Sessions left empty by clashes of names are left out.
    pub fn drain(
        self,
        set: &FileSet,
        mut each: impl FnMut(&Session) -> Result<(), Fault>,
    ) -> Result<u64, Fault> {
        let (mut first_us, mut sessions) = (None, 0);
        let mut target = String::new();
        let (place, burst_gap_ms) = (&self.place, self.burst_gap_ms);
        for visit in &self.visits {
            let mut session = Session::default();
            let mut waited_ms = 0_u64;
            for &(file, gap_ms) in &visit.requests {
                waited_ms += u64::from(gap_ms);
                let Some(file) = place[index(file.into())] else { continue };
                let starts = waited_ms >= u64::from(burst_gap_ms);
                if starts && !session.is_empty() {
                    session.think(waited_ms * 1_000);
                }
                target.clear();
                set.uri_into(files::FileId(file), &mut target);
                session.push(Request::get(&target), starts);
                waited_ms = 0;
            }
            if session.is_empty() {
                continue;
            }
            let first = *first_us.get_or_insert(visit.start_us);
            session.hints.at_us = Some(visit.start_us - first);
            sessions += 1;
            each(&session)?;
        }
        Ok(sessions)
    }
}

/// Requests per second, counted as they come.
#[derive(Default)]
struct Rate {
    first: Option<u64>,
    second: u64,
    now: u64,
    peak: u64,
    total: u64,
    squares: f64,
}

impl Rate {
    fn add(&mut self, second: u64) {
        self.first.get_or_insert(second);
        if second > self.second {
            self.peak = self.peak.max(self.now);
            self.squares += (self.now as f64).powi(2);
            self.second = second;
            self.now = 0;
        }
        // Lines a little out of order count in the second that is running.
        self.now += 1;
        self.total += 1;
    }

    fn span_s(&self) -> u64 {
        self.first.map_or(0, |first| self.second.saturating_sub(first) + 1)
    }

    fn dispersion(&self) -> f64 {
        let seconds = self.span_s().max(1);
        let mean = share(self.total, seconds);
        let squares = (self.squares + (self.now as f64).powi(2)) / seconds as f64;
        if mean > 0.0 { (squares - mean * mean) / mean } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::fault::unwatched;

    /// (client, second, target, status, bytes) as a common log.
    fn log(rows: &[(&str, u64, &str, u16, u64)]) -> String {
        let line = |&(client, second, target, status, bytes): &(&str, u64, &str, u16, u64)| {
            let (minute, second) = (second / 60, second % 60);
            format!(
                "{client} - - [10/Oct/2000:20:{minute:02}:{second:02} +0000] \
                 \"GET {target} HTTP/1.1\" {status} {bytes}\n"
            )
        };
        rows.iter().map(line).collect()
    }

    /// Sessions as `target+target ~think target` each, without their start.
    fn check(name: &str, log: &str, rules: Rules, expected: &[&str]) -> (FileSet, Observed) {
        let distilled = distil(log.as_bytes(), Path::new("log"), rules, &unwatched).unwrap();
        let (mut shown, mut last) = (Vec::new(), 0);
        let Distilled { set, observed, sessions } = distilled;
        sessions
            .drain(&set, |session| {
                let at = session.hints.at_us.unwrap();
                assert!(at >= last, "by start");
                last = at;
                let bursts = session.bursts().map(|burst| {
                    let targets: Vec<&str> = burst.requests().map(|r| r.target).collect();
                    let think = burst.think_us().map(|us| format!(" ~{}", us / 1000));
                    targets.join("+") + &think.unwrap_or_default()
                });
                shown.push(bursts.collect::<Vec<_>>().join(" "));
                Ok(())
            })
            .unwrap();
        shown.sort();
        assert_eq!(shown, expected, "{name}");
        (set, observed)
    }

    #[test]
    fn sessions_are_split_by_client_and_gap() {
        let rows = [
            ("a", 0, "/", 200, 100),
            ("a", 0, "/x.css", 200, 7),
            ("b", 1, "/", 200, 100),
            ("a", 5, "/p?q=1", 200, 50),
            ("a", 5, "/missing", 404, 9),
            ("a", 4, "/x.css", 304, 0),
            ("a", 90, "/", 206, 3),
        ];
        let (set, observed) = check(
            "gap",
            &log(&rows),
            Rules::default(),
            &["/index.html", "/index.html", "/index.html+/x.css ~5000 /p+/x.css"],
        );
        assert_eq!((observed.requests, observed.sessions, observed.lines), (6, 3, 7));
        assert_eq!((observed.other_statuses, observed.span_s), (1, 91));
        assert_eq!(set.path(files::FileId(0)), "index.html");
        assert_eq!(set.total_bytes(), 157);
    }

    #[test]
    fn odd_lines_are_counted_not_kept() {
        let mut text = log(&[
            ("a", 0, "/d", 200, 1),
            ("a", 0, "/d/e", 200, 1),
            ("a", 0, "/../x", 200, 1),
            ("a", 0, "/caf\\xC3", 200, 1),
            ("a", 0, "/only-304", 304, 0),
            ("a", 1, "/big", 200, 900),
        ]);
        text.push_str("garbage\n\n");
        text.push_str(&"x".repeat(LINE_BYTES_MAX + 5));
        text.push_str("\nh - - [10/Oct/2000:20:00:02 +0000] \"POST / HTTP/1.1\" 200 5\n");
        let (set, observed) = check("odd", &text, Rules::default(), &["/d/e+/only-304 ~1000 /big"]);
        let Observed { malformed, other_methods, odd_targets, name_clashes, .. } = observed;
        assert_eq!((malformed, other_methods, odd_targets, name_clashes), (3, 1, 2, 1));
        assert_eq!((observed.sizes_unknown, set.len()), (1, 3));
    }

    #[test]
    fn bounds_cut_and_say_so() {
        let rows = [
            ("a", 0, "/1", 200, 1),
            ("b", 1, "/2", 200, 1),
            ("c", 2, "/3", 200, 1),
            ("a", 3, "/1", 200, 1),
            ("a", 4, "/2", 200, 1),
        ];
        let usual = Rules::default();
        let short = Rules { session_requests_max: 2, ..usual };
        let (_, observed) = check("long", &log(&rows), short, &["/1 ~3000 /1", "/2", "/2", "/3"]);
        assert_eq!(observed.sessions_cut, 1);
        let few = Rules { files_max: 2, ..usual };
        let (_, observed) = check("files", &log(&rows), few, &["/1 ~3000 /1 ~1000 /2", "/2"]);
        assert_eq!(observed.beyond_files_max, 1);
    }

    #[test]
    fn impossible_rules_are_named() {
        let zero =
            Rules { session_requests_max: 0, files_max: 0, session_gap_s: 0, ..Rules::default() };
        assert_eq!((zero.problems().len(), Rules::default().problems().len()), (3, 0));
    }

    #[test]
    fn a_log_without_requests_is_refused() {
        for text in ["", "x\ny\n"] {
            let rules = Rules::default();
            let found = distil(text.as_bytes(), Path::new("log"), rules, &unwatched);
            assert!(matches!(found, Err(Fault::Format { line: 0, .. })), "{text:?}");
        }
    }
}
