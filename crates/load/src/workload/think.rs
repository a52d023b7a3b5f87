//! Lengths of sessions and spacing of their requests, and the deterministic trace of one client
//! that they make.

use super::files::FileSet;
use super::popularity::{Popularity, Purpose, Sampler, between, stream, unit};
use super::session::{Request, Session, US_PER_S};
use crate::number::rounded;
use rand_distr::{Distribution, Pareto, Weibull};
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Inactive off-period: the user's think time, microseconds (\[E\] §3.2).
pub const INACTIVE_US: u64 = 3_000_000;
/// Active off-period: the browser's, microseconds (\[E\] §3.2).
pub const ACTIVE_US: u64 = 343_000;
/// Longest think time that a distribution may draw, microseconds: Pareto's tail has no end.
pub const THINK_US_MAX: u64 = 600 * US_PER_S;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lengths {
    /// Share of sessions with one request.
    pub single_share: f64,
    /// Least requests of the others, which are uniform in `least..=most`.
    pub least: u32,
    pub most: u32,
}

impl Lengths {
    pub const fn fixed(n: u32) -> Self {
        Self { single_share: 0.0, least: n, most: n }
    }

    pub fn mean(&self) -> f64 {
        let others = (f64::from(self.least) + f64::from(self.most)) / 2.0;
        self.single_share + (1.0 - self.single_share) * others
    }
}

/// Places of the inactive gaps; the other gaps are active.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "structure", rename_all = "kebab-case")]
pub enum Gaps {
    /// Each gap by itself is inactive with this probability, f of §3.3.
    Independent { inactive_share: f64 },
    /// Pages of one base request and its embedded ones: 1/f requests on average, rounded down or
    /// up. A session starts anywhere in a page, so that exactly `f` of all gaps are inactive.
    Pages { inactive_share: f64 },
    /// Pages with a Pareto (k = 1, α = 2.43) number of requests, as SURGE has embedded
    /// references \[mem\].
    Surge,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "kebab-case")]
pub enum Think {
    /// None: requests follow each other at once.
    None,
    /// Two constants, as in the papers' traces (\[E\] §3.2).
    Constant { inactive_us: u64, active_us: u64 },
    /// SURGE's distributions \[mem\]: inactive Pareto (k = 1 s, α = 1.5), mean 3.0 s; active
    /// Weibull (scale 1.46 s, shape 0.382); both cut at [`THINK_US_MAX`].
    Surge,
}

impl Think {
    /// The papers' constants (\[E\] §3.2).
    pub const PAPERS: Self = Self::Constant { inactive_us: INACTIVE_US, active_us: ACTIVE_US };
}

/// Reads `constant` (the papers'), `surge` or `none`.
impl FromStr for Think {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "constant" => Ok(Self::PAPERS),
            "surge" => Ok(Self::Surge),
            "none" => Ok(Self::None),
            _ => Err("expected constant, surge or none"),
        }
    }
}

/// SURGE's parameters \[mem\].
pub mod surge {
    /// Inactive off-period: Pareto scale, seconds.
    pub const INACTIVE_K_S: f64 = 1.0;
    /// Inactive off-period: Pareto shape.
    pub const INACTIVE_ALPHA: f64 = 1.5;
    /// Active off-period: Weibull scale, seconds.
    pub const ACTIVE_SCALE_S: f64 = 1.46;
    /// Active off-period: Weibull shape.
    pub const ACTIVE_SHAPE: f64 = 0.382;
    /// Requests of a page: Pareto scale.
    pub const PAGE_K: f64 = 1.0;
    /// Requests of a page: Pareto shape.
    pub const PAGE_ALPHA: f64 = 2.43;
    /// Body of file sizes: lognormal μ of bytes.
    pub const BODY_MU: f64 = 9.357;
    /// Body of file sizes: lognormal σ.
    pub const BODY_SIGMA: f64 = 1.318;
    /// Start of the tail, bytes.
    pub const TAIL_K_BYTES: f64 = 133_000.0;
    /// Tail of file sizes: Pareto shape.
    pub const TAIL_ALPHA: f64 = 1.1;
}

/// Pattern of one kind of session.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    pub lengths: Lengths,
    pub gaps: Gaps,
    pub think: Think,
    /// Factor on every think time: 1 as in the papers, 0.1 for their scaled replicas (§5.2).
    pub scale: f64,
}

impl Pattern {
    /// `P10` of §3.3: every connection persistent, 5 to 15 requests, f = 0.41; 1.28 s of connection
    /// time per request.
    pub const P10: Self = Self {
        lengths: Lengths { single_share: 0.0, least: 5, most: 15 },
        gaps: Gaps::Pages { inactive_share: 0.41 },
        think: Think::PAPERS,
        scale: 1.0,
    };
    /// `SPEC` of §3.3: 30 % of the requests alone on their connection, 70 % on connections of 5 to
    /// 15, f = 0.64; 2.70 requests per connection and 1.28 s per request.
    pub const SPEC: Self = Self {
        lengths: Lengths { single_share: 30.0 / 37.0, least: 5, most: 15 },
        gaps: Gaps::Pages { inactive_share: 0.64 },
        think: Think::PAPERS,
        scale: 1.0,
    };

    /// Mean time between requests of a session per request, seconds: what a connection lasts per
    /// request when replies take no time. `None` for SURGE's, whose mean depends on the cut.
    pub fn off_s_per_request(&self) -> Option<f64> {
        let share = match self.gaps {
            Gaps::Independent { inactive_share } | Gaps::Pages { inactive_share } => inactive_share,
            Gaps::Surge => return None,
        };
        let gap_us = match self.think {
            Think::None => 0.0,
            Think::Constant { inactive_us, active_us } => {
                share * inactive_us as f64 + (1.0 - share) * active_us as f64
            }
            Think::Surge => return None,
        };
        let mean = self.lengths.mean();
        Some(self.scale * gap_us / US_PER_S as f64 * (mean - 1.0) / mean)
    }

    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let Lengths { single_share, least, most } = self.lengths;
        if !(0.0..=1.0).contains(&single_share) || least == 0 || least > most || most > 1_000_000 {
            problems.push(format!("session lengths {:?} are not possible", self.lengths));
        }
        if let Gaps::Independent { inactive_share } | Gaps::Pages { inactive_share } = self.gaps
            && !(0.0..=1.0).contains(&inactive_share)
        {
            problems.push(format!("inactive share {inactive_share} is not within 0 and 1"));
        }
        if !(0.0..=1e6).contains(&self.scale) {
            problems.push(format!("scale {} is not within 0 and 10^6", self.scale));
        }
        problems
    }

    /// The lengths and gaps of one client under `seed`.
    pub fn rhythm(&self, seed: u64, client: u32) -> Rhythm {
        let pareto = |k, alpha| Pareto::new(k, alpha).expect("SURGE's parameters are positive");
        Rhythm {
            pattern: *self,
            lengths: stream(seed, client, Purpose::Length),
            gaps: stream(seed, client, Purpose::Gap),
            thinks: stream(seed, client, Purpose::Think),
            page: pareto(surge::PAGE_K, surge::PAGE_ALPHA),
            inactive: pareto(surge::INACTIVE_K_S, surge::INACTIVE_ALPHA),
            active: Weibull::new(surge::ACTIVE_SCALE_S, surge::ACTIVE_SHAPE)
                .expect("SURGE's parameters are positive"),
            page_left: 0,
        }
    }
}

/// Reads `p10` or `spec`.
impl FromStr for Pattern {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "p10" => Ok(Self::P10),
            "spec" => Ok(Self::SPEC),
            _ => Err("expected p10 or spec"),
        }
    }
}

/// Session lengths and gaps of one client, in sequence.
#[derive(Debug)]
pub struct Rhythm {
    pattern: Pattern,
    lengths: Pcg64,
    gaps: Pcg64,
    thinks: Pcg64,
    page: Pareto<f64>,
    inactive: Pareto<f64>,
    active: Weibull<f64>,
    page_left: u64,
}

impl Rhythm {
    /// Starts a session: how many requests it has.
    pub fn start(&mut self) -> u32 {
        let Lengths { single_share, least, most } = self.pattern.lengths;
        let single = unit(&mut self.lengths) < single_share;
        let others = between(&mut self.lengths, least, most);
        self.page_left = self.page_at_start();
        if single { 1 } else { others }
    }

    /// The think time after a request that is not the session's last, microseconds; `None` when
    /// the pattern has none.
    pub fn gap(&mut self) -> Option<u64> {
        let inactive = match self.pattern.gaps {
            Gaps::Independent { inactive_share } => unit(&mut self.gaps) < inactive_share,
            Gaps::Pages { .. } | Gaps::Surge => {
                self.page_left -= 1;
                self.page_left == 0
            }
        };
        if inactive && !matches!(self.pattern.gaps, Gaps::Independent { .. }) {
            self.page_left = self.page_length();
        }
        let us = match self.pattern.think {
            Think::None => return None,
            Think::Constant { inactive_us, .. } if inactive => inactive_us,
            Think::Constant { active_us, .. } => active_us,
            Think::Surge => {
                let s = if inactive {
                    self.inactive.sample(&mut self.thinks)
                } else {
                    self.active.sample(&mut self.thinks)
                };
                rounded(s * US_PER_S as f64).min(THINK_US_MAX)
            }
        };
        Some(rounded(us as f64 * self.pattern.scale))
    }

    /// Requests of a whole page, 1 or more.
    fn page_length(&mut self) -> u64 {
        match self.pattern.gaps {
            Gaps::Independent { .. } => 1,
            Gaps::Pages { inactive_share } => {
                let mean = 1.0 / inactive_share.max(1e-9);
                let more = unit(&mut self.gaps) < mean.fract();
                rounded(mean.floor()) + u64::from(more)
            }
            Gaps::Surge => rounded(self.page.sample(&mut self.gaps).min(1e6)).max(1),
        }
    }

    /// Requests left of the page in which a session starts: any place of any page alike, and long
    /// pages are met more often. SURGE's sessions start with a page.
    fn page_at_start(&mut self) -> u64 {
        let Gaps::Pages { inactive_share } = self.pattern.gaps else { return self.page_length() };
        let mean = 1.0 / inactive_share.max(1e-9);
        let (short, long) = (mean.floor(), mean.floor() + 1.0);
        let long_share = mean.fract() * long / mean;
        let length = if unit(&mut self.gaps) < long_share { long } else { short };
        rounded((unit(&mut self.gaps) * length).floor()) + 1
    }
}

/// Parameters of one client's trace.
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
    pub pattern: Pattern,
    /// Line speed of every session, bit/s (\[src\]: SPEC's users have 400,000).
    pub line_bits_per_s: Option<u64>,
}

impl TraceSpec {
    /// The first `requests` of the first client, in any number of sessions, on unlimited lines.
    pub const fn new(seed: u64, requests: u64, pattern: Pattern) -> Self {
        Self { seed, client: 0, requests, sessions_max: 0, pattern, line_bits_per_s: None }
    }
}

/// An iterator over the sessions of one client.
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
}

impl Iterator for Trace<'_> {
    type Item = Session;

    fn next(&mut self) -> Option<Session> {
        if self.requests_left == 0 || self.sessions_left == 0 {
            return None;
        }
        self.sessions_left -= 1;
        let mut session = Session::default();
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
        Some(session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays 40,000 sessions; mean requests per session and mean off time per request must be as
    /// the formulas say.
    fn check(pattern: Pattern, requests: f64, off_s: f64, tolerance: f64) {
        let mut rhythm = pattern.rhythm(7, 0);
        let (mut total, mut off_us) = (0_u64, 0);
        for _ in 0..40_000 {
            let n = rhythm.start();
            total += u64::from(n);
            off_us += (1..n).map(|_| rhythm.gap().unwrap_or(0)).sum::<u64>();
        }
        let mean = total as f64 / 40_000.0;
        assert!((mean / requests - 1.0).abs() < 0.03, "{pattern:?}: {mean} requests");
        let off = off_us as f64 / total as f64 / US_PER_S as f64;
        assert!((off - off_s).abs() <= tolerance, "{pattern:?}: {off} s per request");
        if let Some(formula) = pattern.off_s_per_request() {
            assert!((off - formula).abs() <= tolerance, "{pattern:?}: {off} is not {formula}");
        }
    }

    #[test]
    fn patterns_have_the_calibrated_means() {
        let p10 = Pattern::P10;
        check(p10, 10.0, 1.289, 0.006);
        check(
            Pattern { gaps: Gaps::Independent { inactive_share: 0.41 }, ..p10 },
            10.0,
            1.289,
            0.01,
        );
        check(Pattern { scale: 0.1, ..p10 }, 10.0, 0.1289, 0.0006);
        check(Pattern::SPEC, 2.7027, 1.287, 0.02);
        check(Pattern { think: Think::None, ..p10 }, 10.0, 0.0, 0.0);
        check(Pattern { lengths: Lengths::fixed(5), ..p10 }, 5.0, 1.146, 0.006);
        // [E]'s cap of 10,000 connections at 7,790 replies/s [inf].
        let calibrated = Pattern::P10.off_s_per_request().unwrap();
        assert!((calibrated / 1.284 - 1.0).abs() < 0.01);
    }

    #[test]
    fn surge_draws_its_distributions() {
        let mut rhythm = Pattern { think: Think::Surge, ..Pattern::P10 }.rhythm(1, 0);
        let mut inactive: Vec<u64> = Vec::new();
        rhythm.pattern.gaps = Gaps::Independent { inactive_share: 1.0 };
        inactive.extend((0..20_001).filter_map(|_| rhythm.gap()));
        inactive.sort_unstable();
        // Pareto's median is k · 2^(1/α) = 1.587 s.
        assert!((inactive[10_000] as f64 / 1.587e6 - 1.0).abs() < 0.03, "{}", inactive[10_000]);
        assert!(inactive[0] >= US_PER_S && inactive[20_000] <= THINK_US_MAX);
        rhythm.pattern.gaps = Gaps::Independent { inactive_share: 0.0 };
        let mut active: Vec<u64> = (0..20_001).filter_map(|_| rhythm.gap()).collect();
        active.sort_unstable();
        // Weibull's median is λ · (ln 2)^(1/κ) = 0.559 s.
        assert!((active[10_000] as f64 / 0.5593e6 - 1.0).abs() < 0.08, "{}", active[10_000]);
        rhythm.pattern.gaps = Gaps::Surge;
        assert!((0..1000).all(|_| rhythm.start() >= 5 && rhythm.gap().is_some()));
    }

    #[test]
    fn impossible_patterns_are_named() {
        let pattern = Pattern {
            lengths: Lengths { single_share: 2.0, least: 0, most: 1 },
            gaps: Gaps::Pages { inactive_share: f64::NAN },
            think: Think::None,
            scale: -1.0,
        };
        assert_eq!(pattern.problems().len(), 3);
        for name in ["p10", "spec"] {
            assert!(name.parse::<Pattern>().unwrap().problems().is_empty());
        }
        assert!("none".parse::<Pattern>().is_err() && "p10".parse::<Think>().is_err());
        assert_eq!("constant".parse::<Think>(), Ok(Pattern::P10.think));
        assert_eq!(["none", "surge"].map(str::parse::<Think>), [Ok(Think::None), Ok(Think::Surge)]);
    }
}

#[cfg(test)]
mod trace_tests {
    use super::*;
    use crate::workload::manifest::Tally;
    use crate::workload::popularity::Mix;
    use crate::workload::session::{Reader, write};
    use crate::workload::sha256_hex;
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
            for session in Trace::new(&set, &popularity, &spec) {
                tally.add(&set, &session);
            }
            let problems = tally.problems(&set, &popularity);
            assert_eq!(problems, Vec::<String>::new(), "{mix:?}");
            assert!((tally.mean_requests() - 10.0).abs() < 0.1, "{}", tally.mean_requests());
        }
    }
}
