//! The deterministic trace of one client: sessions from a file set, a popularity and a pattern.

use super::files::FileSet;
use super::popularity::{Popularity, Sampler};
use super::session::{Request, Session};
use super::think::{Pattern, Rhythm};

/// What one client's trace is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceSpec {
    /// Seed of the workload; the same seed gives the same bytes.
    pub seed: u64,
    /// Number of the client, from 0.
    pub client: u32,
    /// Requests in all; the last session is cut to make it exact.
    pub requests: u64,
    /// Sessions at most; 0 for no bound.
    pub sessions_max: u64,
    /// Lengths, gaps and think times.
    pub pattern: Pattern,
    /// Line speed of every session, bit/s (\[src\]: SPEC's users have 400,000).
    pub line_bits_per_s: Option<u64>,
}

impl TraceSpec {
    /// So many requests of the first client, in any number of sessions, on lines without a limit.
    pub const fn new(seed: u64, requests: u64, pattern: Pattern) -> Self {
        Self { seed, client: 0, requests, sessions_max: 0, pattern, line_bits_per_s: None }
    }
}

/// An iterator over the sessions of one client, and a source that reuses memory.
#[derive(Debug)]
pub struct Trace<'a> {
    set: &'a FileSet,
    sampler: Sampler<'a>,
    rhythm: Rhythm,
    requests_left: u64,
    sessions_left: u64,
    line_bits_per_s: Option<u64>,
    target: String,
}

impl<'a> Trace<'a> {
    /// The trace of `spec` over `set`, whose files `popularity` must describe.
    pub fn new(set: &'a FileSet, popularity: &'a Popularity, spec: &TraceSpec) -> Self {
        assert_eq!(set.len(), popularity.files(), "a popularity is for one file set");
        Self {
            set,
            sampler: popularity.sampler(spec.seed, spec.client),
            rhythm: spec.pattern.rhythm(spec.seed, spec.client),
            requests_left: spec.requests,
            sessions_left: if spec.sessions_max == 0 { u64::MAX } else { spec.sessions_max },
            line_bits_per_s: spec.line_bits_per_s,
            target: String::new(),
        }
    }

    /// Makes the next session in `session`; `false` at the end.
    pub fn read(&mut self, session: &mut Session) -> bool {
        session.clear();
        if self.requests_left == 0 || self.sessions_left == 0 {
            return false;
        }
        self.sessions_left -= 1;
        session.hints.line_bits_per_s = self.line_bits_per_s;
        let n = self.requests_left.min(self.rhythm.start().into());
        for left in (0..n).rev() {
            let file = self.sampler.draw();
            self.target.clear();
            self.set.uri_into(file, &mut self.target);
            session.push(Request::get(&self.target), true);
            if left > 0 {
                // Without think times the next burst must not fall back on a player's default.
                session.think(self.rhythm.gap().unwrap_or(0));
            }
        }
        self.requests_left -= n;
        true
    }
}

impl Iterator for Trace<'_> {
    type Item = Session;

    fn next(&mut self) -> Option<Session> {
        let mut session = Session::default();
        self.read(&mut session).then_some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::popularity::Mix;
    use crate::workload::session_log::{Reader, write};
    use crate::workload::sha256_hex;
    use crate::workload::tally::Tally;
    use std::path::Path;

    const SPEC: TraceSpec = TraceSpec::new(1, 3_000, Pattern::P10);

    fn log(spec: &TraceSpec, mix: Mix) -> Vec<u8> {
        let set = FileSet::specweb(60, &["file_set"]).unwrap();
        let popularity = Popularity::specweb(60, mix);
        let mut out = Vec::new();
        for session in Trace::new(&set, &popularity, spec) {
            write(&session, &mut out).unwrap();
        }
        out
    }

    /// Same seed, same bytes, for ever: published results name their seeds.
    #[test]
    fn golden() {
        let slow = TraceSpec { line_bits_per_s: Some(400_000), client: 5, ..SPEC };
        let spec = TraceSpec { pattern: Pattern::SPEC, seed: 2331, ..SPEC };
        let found = [(SPEC, Mix::Iid), (SPEC, Mix::Deck), (slow, Mix::Iid), (spec, Mix::Iid)]
            .map(|(spec, mix)| sha256_hex(&log(&spec, mix)));
        assert_eq!(found, GOLDEN);
    }

    const GOLDEN: [&str; 4] = [
        "7bf5aa8869590a6ead6323312b1c3668c973c0d4548d02e3ac02d337da31998e",
        "9ce50848d45462fbd3ac8b2d381fe5acdc11145a7a5911ae6ad835db95480189",
        "ebf1b7a83cc30cf33cbaa1e21a4ba1795e68e8f0ff8711c6bc110b82b7fa7bda",
        "10dc96afad0ce472352f313ed9480cba42d2174f7c8ddd87fbd8cc8c179f738d",
    ];

    #[test]
    fn traces_survive_their_log() {
        let set = FileSet::specweb(60, &["file_set"]).unwrap();
        let popularity = Popularity::specweb(60, Mix::Iid);
        let text = log(&SPEC, Mix::Iid);
        let read = Reader::new(&*text, Path::new("log")).map(Result::unwrap);
        assert!(Trace::new(&set, &popularity, &SPEC).eq(read));
    }

    #[test]
    fn counts_are_exact_and_bounds_hold() {
        let set = FileSet::specweb(13, &["file_set"]).unwrap();
        let popularity = Popularity::specweb(13, Mix::Deck);
        for (requests, sessions_max, expected) in
            [(1, 0, 1), (3_000, 0, 3_000), (0, 0, 0), (3_000, 1, 0)]
        {
            let spec = TraceSpec { requests, sessions_max, ..SPEC };
            let sessions: Vec<Session> = Trace::new(&set, &popularity, &spec).collect();
            let total: usize = sessions.iter().map(Session::len).sum();
            if sessions_max == 0 {
                assert_eq!(total, expected);
            } else {
                assert_eq!(sessions.len(), 1);
            }
        }
    }

    /// §3.4's acceptance: sizes within 4σ, classes exact in deck mode, distinct files within 1 %
    /// of Σ(1 − (1 − p)^N).
    #[test]
    fn a_trace_meets_the_acceptance_rules() {
        let set = FileSet::specweb(650, &["file_set"]).unwrap();
        for mix in [Mix::Iid, Mix::Deck] {
            let popularity = Popularity::specweb(650, mix);
            let mut tally = Tally::new(&set);
            let spec = TraceSpec { requests: 194_000, ..SPEC };
            let mut trace = Trace::new(&set, &popularity, &spec);
            let mut session = Session::default();
            while trace.read(&mut session) {
                tally.add(&set, &session);
            }
            let problems = tally.problems(&set, &popularity);
            assert_eq!(problems, Vec::<String>::new(), "{mix:?}");
            assert!((tally.mean_requests() - 10.0).abs() < 0.1, "{}", tally.mean_requests());
        }
    }
}
