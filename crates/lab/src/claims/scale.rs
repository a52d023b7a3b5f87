//! The scale page: ten numbers of a paper's machine and load, and the same of a run.
//!
//! A claim's row names those that decide it. Where one of them is far from the paper's, the run
//! does not refute the claim: its replica differs.

use super::derived::derive;
use super::evidence::{self, Evidence, option, poller};
use super::functions::cap;
use super::model;
use crate::experiment::{DerivedNumber, ScaleNumber, Target, rate};
use crate::papers;
use crate::record::Record;
use crate::units::show;
use regatta_load::engine::parse_time;

/// Factor by which a number may be off, either way.
const FACTOR_MAX: f64 = 1.5;

/// Threads of the blocking server, unless it has another number.
const THREADS: f64 = 64.0;

/// A number of a paper, and ours.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScaleRow {
    pub(crate) number: ScaleNumber,
    pub(crate) paper: f64,
    pub(crate) place: String,
    /// None: the run does not tell.
    pub(crate) here: Option<f64>,
}

impl ScaleRow {
    /// Ours over the paper's. Below a floor and above a ceiling, two numbers are alike.
    pub(crate) fn factor(&self) -> Option<f64> {
        let (least, most) = match self.number {
            ScaleNumber::OpensPerReply => (0.02, f64::MAX),
            ScaleNumber::FootprintOverCache => (0.05, f64::MAX),
            ScaleNumber::WindowOverCache => (f64::MIN_POSITIVE, 3.0),
            _ => (f64::MIN_POSITIVE, f64::MAX),
        };
        Some(self.here?.clamp(least, most) / self.paper.clamp(least, most))
    }

    /// Words for a row that is farther off than it may be.
    fn differs(&self) -> Option<String> {
        let factor = self.factor().filter(|one| !(1.0 / FACTOR_MAX..=FACTOR_MAX).contains(one))?;
        let (name, paper, here) = (self.number.name(), show(self.paper), show(self.here?));
        Some(format!("{name} is {here}, {paper} in the paper ({}): factor {factor:.2}", self.place))
    }
}

/// Numbers of the paper with this mark, such as `[E]`, and those of a run.
pub(crate) fn rows(run: &Evidence<'_>, mark: &str) -> Vec<ScaleRow> {
    let name = &run.run.experiment.name;
    let papers = papers::all().into_iter().filter(|paper| paper.mark == mark);
    let scales = papers.flat_map(|paper| paper.scales);
    scales
        .filter(|scale| scale.experiments.is_empty() || scale.experiments.contains(name))
        .map(|scale| ScaleRow {
            number: scale.number,
            paper: scale.value,
            place: scale.place,
            here: here(run, scale.number),
        })
        .collect()
}

/// Numbers that decide a claim of a paper and are far from the paper's, in words; None: no number.
pub(super) fn differs(run: &Evidence<'_>, id: &str, decides: &[ScaleNumber]) -> Option<String> {
    deciding(run, id, decides, ScaleRow::differs)
}

/// Numbers that decide a claim of a paper and that the run does not tell, in words; None: no
/// number.
pub(super) fn unknown(run: &Evidence<'_>, id: &str, decides: &[ScaleNumber]) -> Option<String> {
    deciding(run, id, decides, |row| {
        let (name, paper, place) = (row.number.name(), show(row.paper), &row.place);
        let unknown = || format!("{name} is not known here, {paper} in the paper ({place})");
        row.here.is_none().then(unknown)
    })
}

fn deciding(
    run: &Evidence<'_>,
    id: &str,
    decides: &[ScaleNumber],
    words: impl Fn(&ScaleRow) -> Option<String>,
) -> Option<String> {
    let (letter, _) = id.split_once('-').filter(|_| !decides.is_empty())?;
    let rows = rows(run, &format!("[{letter}]"));
    let told = rows.iter().filter(|row| decides.contains(&row.number)).filter_map(words);
    Some(told.collect::<Vec<_>>().join("; ")).filter(|told| !told.is_empty())
}

fn here(run: &Evidence<'_>, number: ScaleNumber) -> Option<f64> {
    let manifest = &run.run.manifest;
    let experiment = &run.run.experiment;
    let baseline = experiment.targets.iter().find(|one| one.name == experiment.baseline)?;
    match number {
        ScaleNumber::DiskWait => manifest.seek.map(|seek| seek.waits),
        ScaleNumber::DiskOverCpu => manifest.seek.map(|seek| seek.waits / (1.0 - seek.waits)),
        ScaleNumber::QueueOverCap => {
            let queue: f64 = option(baseline, "accept.backlog").parse().ok()?;
            Some(queue / allowed(run, baseline)?)
        }
        ScaleNumber::CapOverDemand => {
            let patience = parse_time(&experiment.workload.timeout).ok()?;
            let arrive = manifest.connections_per_s? * patience.as_secs_f64();
            (arrive > 0.0).then_some(allowed(run, baseline)? / arrive)
        }
        ScaleNumber::WindowOverCache => {
            let top = run.top(&baseline.name).ok()?;
            // Runs that do not tell the server's own memory had limits that hold it, too.
            let cache = run.middle("page_cache_mib", &top, |record| {
                evidence::number(record, "footprint_mib")
                    .and(evidence::number(record, "page_cache_mib"))
            });
            let items = model::items(&experiment.workload)?;
            let lasts = model::characteristic_requests(&items, cache.ok()?)?;
            let good = run.metric(&top, "good_per_s").ok()?;
            Some(experiment.measure.window_s * good / lasts)
        }
        ScaleNumber::FootprintOverCache => {
            let scale = experiment.environment.memory_scale.max(1.0);
            most(run, |record| {
                let cache =
                    evidence::number(record, "page_cache_mib").filter(|cache| *cache > 0.0)?;
                Some(evidence::number(record, "footprint_mib")? / scale / cache)
            })
        }
        ScaleNumber::OpensPerReply => {
            most(run, |record| evidence::number(record, "opens_per_reply"))
        }
        ScaleNumber::BlockedOverProcesses => threads_held(run),
        ScaleNumber::SwitchOverCpu => select_over_cpu(run, baseline),
        // This number takes a profile.
        ScaleNumber::PollOverCpu => None,
    }
}

/// Share of the threads of [A]'s blocking server that requests hold: its processor time and waits
/// for the disk. A send that blocks is not counted by any server, so that others have no number.
fn threads_held(run: &Evidence<'_>) -> Option<f64> {
    let bio = run.of("bio").next()?;
    let threads: f64 = option(bio, "adapt.threads").parse().unwrap_or(THREADS);
    let held = run.middle("server_cpu", &run.top(&bio.name).ok()?, |record| {
        let waited = evidence::number(record, "disk_wait_s")
            .zip(evidence::number(record, "window_s").filter(|seconds| *seconds > 0.0));
        let waits = waited.map_or(0.0, |(waited, seconds)| waited / seconds);
        Some(evidence::number(record, "server_cpu")? / run.left() + waits)
    });
    Some(held.ok()? / threads)
}

/// Time of a select over the processor time of a reply, near saturation, by the clock of a server
/// that waits so; switches of user threads take prices.
fn select_over_cpu(run: &Evidence<'_>, target: &Target) -> Option<f64> {
    if poller(target) != "select" {
        return None;
    }
    let cell = run.at(&target.name, 1.0).or_else(|_| run.top(&target.name)).ok()?;
    let of = |record: &Record| {
        let selects = evidence::counted(record, "wait_calls").filter(|calls| *calls > 0.0)?;
        let share = derive(run, DerivedNumber::SelectShare, record).filter(|share| *share > 0.0)?;
        Some(share * evidence::counted(record, "replies")? / selects)
    };
    run.middle("", &cell, of).ok()
}

/// Connections that a target allows.
fn allowed(run: &Evidence<'_>, target: &Target) -> Option<f64> {
    match rate(option(target, "limits.connections_max"))? {
        (times, true) => Some(times * run.run.manifest.connections_per_s?),
        (_, false) => Some(f64::from(cap(target))),
    }
}

/// The most that any of our arms shows at its highest rate.
fn most(run: &Evidence<'_>, of_trial: impl Fn(&Record) -> Option<f64>) -> Option<f64> {
    let of = |target: &Target| {
        let top = run.top(&target.name).ok()?;
        run.middle("", &top, &of_trial).ok()
    };
    run.regattas().filter_map(of).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::synthetic;
    use crate::experiment::{Scale, library, parse};
    use crate::journal::Run;
    use crate::journal::manifest::SeekChoice;
    use crate::record::numbers;

    fn row(number: ScaleNumber, paper: f64, here: Option<f64>) -> ScaleRow {
        ScaleRow { number, paper, place: "x".to_owned(), here }
    }

    #[test]
    fn numbers_far_from_the_papers_differ() {
        for (number, paper, here, differs) in [
            (ScaleNumber::DiskWait, 0.33, Some(0.34), false),
            (ScaleNumber::DiskWait, 0.33, Some(0.6), true),
            (ScaleNumber::DiskWait, 0.33, Some(0.2), true),
            (ScaleNumber::DiskWait, 0.33, None, false),
            // Numbers this small are alike.
            (ScaleNumber::OpensPerReply, 0.002, Some(0.015), false),
            (ScaleNumber::OpensPerReply, 0.002, Some(0.2), true),
            // Three times are as good as any more.
            (ScaleNumber::WindowOverCache, 17.0, Some(3.1), false),
            (ScaleNumber::WindowOverCache, 17.0, Some(0.8), true),
        ] {
            let row = row(number, paper, here);
            assert_eq!(row.differs().is_some(), differs, "{row:?}");
        }
        let told = row(ScaleNumber::QueueOverCap, 0.004, Some(0.09)).differs().unwrap();
        assert!(told.starts_with("queue_over_cap is ") && told.ends_with("factor 22.50"), "{told}");
    }

    const TEXT: &str = r#"
experiment = { name = "eurosys07-fig4", question = "?", expect = "!", papers = ["[E] figure 4"] }
targets.sped.config.server.architecture = "sped"
targets.sped.config.limits.connections_max = 11250
targets.sped.config.accept.backlog = 48
workload = { preset = "eurosys07", dirs = 30, loop = "partly-open", timeout = "15s" }
measure = { blocks = 4, window_s = 30 }
environment.memory = "84MiB"
environment.memory_scale = 2
calibrate = {}
"#;

    fn run() -> Run {
        synthetic(TEXT, &|_| {
            numbers([
                ("good_per_s", 2_000.0),
                ("page_cache_mib", 75.0),
                ("footprint_mib", 15.0),
                ("opens_per_reply", 0.01),
            ])
        })
    }

    #[test]
    fn numbers_of_a_run_follow_from_its_counters() {
        let mut run = run();
        run.manifest.seek = Some(SeekChoice { seek_ms: 20.0, waits: 0.25 });
        run.manifest.connections_per_s = Some(375.0);
        let evidence = Evidence::new(&run);
        for (number, value) in [
            (ScaleNumber::DiskWait, 0.25),
            (ScaleNumber::DiskOverCpu, 1.0 / 3.0),
            (ScaleNumber::QueueOverCap, 48.0 / 11_250.0),
            (ScaleNumber::CapOverDemand, 2.0),
            (ScaleNumber::FootprintOverCache, 0.1),
            (ScaleNumber::OpensPerReply, 0.01),
        ] {
            let found = here(&evidence, number).unwrap();
            assert!((found - value).abs() < 1e-9, "{}: {found}", number.name());
        }
        let window = here(&evidence, ScaleNumber::WindowOverCache).unwrap();
        assert!((0.5..5.0).contains(&window), "{window}");
        assert_eq!(here(&evidence, ScaleNumber::PollOverCpu), None);
    }

    /// Half of 2 s of busy time is inside select, in 500 calls for 4,000 replies.
    #[test]
    fn a_select_is_told_by_a_server_s_own_clock() {
        for (architecture, value) in [("acceptinf", Some(4.0)), ("sped", None)] {
            let text = TEXT.replace("\"sped\"", &format!("{architecture:?}"));
            let mut run = synthetic(&text, &|_| {
                numbers([
                    ("good_per_s", 2_000.0),
                    ("window_s", 4.0),
                    ("wait_ns", 3e9),
                    ("wait_calls", 500.0),
                    ("replies", 4_000.0),
                ])
            });
            let left = Evidence::new(&run).left();
            for record in &mut run.records {
                record.metrics.insert("server_cpu".to_owned(), 0.5 * left);
            }
            let evidence = Evidence::new(&run);
            assert_eq!(here(&evidence, ScaleNumber::SwitchOverCpu), value, "{architecture}");
            let told = unknown(&evidence, "E-2", &[ScaleNumber::SwitchOverCpu]);
            assert_eq!(told.is_none(), value.is_some(), "{architecture}: {told:?}");
        }
    }

    #[test]
    fn threads_that_nothing_blocks_are_hardly_held() {
        let text = TEXT.replace("\"sped\"", "\"bio\"");
        for (server_cpu, disk_wait_s, held) in [(1.0, 0.0, 1.0 / 64.0), (0.5, 63.5, 1.0)] {
            let run = synthetic(&text, &|_| {
                numbers([
                    ("good_per_s", 2_000.0),
                    ("server_cpu", server_cpu),
                    ("disk_wait_s", disk_wait_s),
                    ("window_s", 1.0),
                ])
            });
            let found = here(&Evidence::new(&run), ScaleNumber::BlockedOverProcesses).unwrap();
            assert!((found - held).abs() < 1e-9, "{found}");
        }
    }

    #[test]
    fn the_accept_queue_is_as_short_as_the_papers_at_every_scale() {
        for scale in Scale::ALL {
            let text = library::find("eurosys07-fig8").unwrap();
            let experiment = parse("eurosys07-fig8", text, scale).unwrap();
            let sped = experiment.targets.iter().find(|one| one.name == "sped").unwrap();
            let number = |key: &str| option(sped, key).parse::<f64>().unwrap();
            let share = number("accept.backlog") / number("limits.connections_max");
            assert!((0.0041..0.0045).contains(&share), "{}: {share}", scale.name());
        }
    }

    #[test]
    fn the_paper_s_side_has_its_place() {
        for paper in papers::all() {
            for scale in &paper.scales {
                assert!(scale.value > 0.0 && scale.place.contains('§'), "{scale:?}");
            }
        }
        let run = run();
        let rows = rows(&Evidence::new(&run), "[E]");
        assert!(rows.len() >= 8, "{rows:?}");
        // The disk's seek is unknown, and nothing else is named.
        assert_eq!(differs(&Evidence::new(&run), "E-2", &[ScaleNumber::DiskWait]), None);
        let told = unknown(&Evidence::new(&run), "E-2", &[ScaleNumber::DiskWait]).unwrap();
        assert!(told.starts_with("disk_wait is not known here, 0.33 in the paper"), "{told}");
        assert_eq!(unknown(&Evidence::new(&run), "E-2", &[ScaleNumber::OpensPerReply]), None);
        assert_eq!(unknown(&Evidence::new(&run), "E-2", &[]), None);
    }
}
