//! Runs schedules, one seed at a time.
use crate::{
    BrokenCheck,
    dice::Dice,
    ledger::{self, Kept, Sums},
    plant::Plant,
    sealing::{self, Sealing},
    site,
    trace::{self, Replay, tail},
    world::World,
};
use regatta_metrics::{Arena, Tally};
use regatta_op::CloseReason;
use regatta_origin::{ClearHttp1, Cx, Links, Scratch};
use std::{fmt, sync::atomic::AtomicU64};

/// Lines of a trace that a violation shows.
const TAIL_LINES: usize = 60;

/// Option of [`Replay`] for HTTP/1.
const HTTP1: &str = "--trace";

/// Events of a schedule without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Steps taken.
    pub steps: u64,
    /// Connections opened and closed.
    pub connections: u64,
    /// Responses judged.
    pub replies: u64,
    /// Bytes sent and judged.
    pub sent_bytes: u64,
    /// Connections that ended after a request was turned away.
    pub refused: u64,
}

/// Violation that the model saw.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The schedule's seed.
    pub seed: u64,
    /// The step at which it was seen.
    pub step: u64,
    /// Description of the violation.
    pub what: BrokenCheck,
    /// The last events.
    pub trace: String,
    /// Whether connections were sealed.
    pub sealed: bool,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, step, what, trace, sealed } = self;
        let replay = Replay { seed: *seed, sealed: *sealed, word: HTTP1 };
        write!(f, "{trace}seed {seed}, step {step}: {what}\nreplay: {replay}")
    }
}

impl std::error::Error for Violation {}

/// Schedule to run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Seed of every decision.
    pub seed: u64,
    /// Whether every connection is sealed.
    pub sealed: bool,
    /// Planted mistake: an error is expected.
    pub plant: Option<Plant>,
}

impl Scenario {
    /// Runs connections of HTTP/1.
    ///
    /// # Errors
    /// The [`Violation`] that the model saw.
    pub fn run(self) -> Result<Report, Violation> {
        schedule(self, Dice::seeded(self.seed))
    }

    /// Starts its trace, with this option for the protocol.
    pub(crate) fn start(self, word: &'static str) {
        let Self { seed, sealed, .. } = self;
        trace::start(Replay { seed, sealed, word });
    }

    /// Adds to a fault of this thread's schedule the command that replays it.
    pub(crate) fn replay(self, ms: u64, what: &BrokenCheck) -> BrokenCheck {
        let (seed, replay) = (self.seed, trace::replay());
        format!("seed {seed}, {ms} ms: {what}\nreplay: {replay}").into()
    }

    /// Decisions of seals, if there are any.
    pub(crate) fn seals(self) -> Option<Dice> {
        self.sealed.then(|| sealing::dice(self.seed))
    }
}

/// Runs connections of HTTP/1 in the clear, with decisions from `bytes` while they last: for
/// fuzzing.
///
/// # Errors
/// The [`Violation`] that the model saw.
pub fn run_bytes(bytes: &[u8]) -> Result<Report, Violation> {
    schedule(Scenario { seed: 0, sealed: false, plant: None }, Dice::from_bytes(bytes))
}

/// Returns the whole trace of the last schedule of this thread.
#[must_use]
pub fn whole_trace() -> String {
    tail(usize::MAX)
}

/// Makes every panic report its seed, the last events, and the command that replays it.
pub fn announce_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        let replay = trace::replay();
        let seed = replay.seed;
        eprintln!("{}seed {seed}: the panic above\nreplay: {replay}", tail(TAIL_LINES));
    }));
}

fn schedule(scenario: Scenario, mut dice: Dice) -> Result<Report, Violation> {
    let (Scenario { seed, sealed, plant }, mut seals) = (scenario, scenario.seals());
    scenario.start(HTTP1);
    let mut site = site::site(&mut dice);
    if let Some(seals) = &mut seals {
        site.deadlines.handshake_ms_max = seals.pick(&[50, 1_000, 10_000]);
    }
    let sealing = Sealing::new(ClearHttp1, seed, plant);
    let links: &dyn Links<_> = if sealed { &sealing } else { &ClearHttp1 };
    let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
    let arena = Arena::create(&words, 1);
    let kept = Kept::new(&site, plant);
    let log = Sums::new(dice.one_in(2), plant == Some(Plant::ForgetRecord));
    let scratch = Scratch::new(site.boundary_key);
    let cx = Cx {
        site: &site,
        cache: &kept,
        tally: Tally::Owned(arena.slot(0)),
        log: &log,
        scratch: &scratch,
        links,
    };
    let mut world = World::new(cx, dice, seals.as_mut(), plant);
    let ended = world.run().and_then(|()| ledger::check(&world, arena.slot(0), &kept, &log));
    let (step, totals) = (world.stamp.step, world.totals);
    match ended {
        Ok(()) => Ok(Report {
            steps: step,
            connections: totals.opened,
            replies: totals.replies,
            sent_bytes: totals.sent,
            refused: totals.closed[CloseReason::Refused as usize],
        }),
        Err(what) => {
            let requests = world.requests(trace::last_link());
            let trace = format!("{}site: {site:?}\n{requests}", tail(TAIL_LINES));
            Err(Violation { seed, step, what, trace, sealed })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Scenario, trace};
    use crate::talk::DuplexReport;

    /// A panic ends a schedule without a [`super::Violation`]: its command is that of the trace.
    #[test]
    fn every_kind_of_schedule_notes_the_command_that_replays_it() {
        let one = Scenario { seed: 3, sealed: true, plant: None };
        let sums = DuplexReport::default();
        let noted = || trace::replay().to_string();
        let command = |word: &str| format!("cargo run -p regatta-sim -- {word} --sealed --seed 3");
        one.run_http2(sums).unwrap();
        assert_eq!(noted(), command("--http2"));
        one.run_frames(sums).unwrap();
        assert_eq!(noted(), command("--frames"));
        one.run().unwrap();
        assert_eq!(noted(), command("--trace"));
    }
}
