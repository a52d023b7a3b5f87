//! Cohort scheduling (Larus, Parkes, USENIX 2002): an event loop that serves by stages, many
//! connections in each visit.
use crate::{
    Driver, Env, WorkError,
    architectures::event::{self, EventOptions, EventWorker},
    disk::at_once::InlineDisk,
    drive::perform::Below,
    loops::event_loop::cohort::{CohortOrder, Visits},
    options::{Choice as _, Kind, OptionSpec, choice, joined, options},
};

/// The driver.
pub const DRIVER: Driver = Driver::plain(&OPTIONS, event::processes, work);

const OPTIONS: [OptionSpec; event::OPTIONS.len() + OWN.len()] = joined(event::OPTIONS, OWN);

choice! {
    /// Order in which a loop serves its connections (`cohort.policy`).
    enum Policy {
        /// By stages, many connections in each.
        Cohort = "cohort",
        /// Connection after connection, as far as each can go.
        RunToCompletion = "run-to-completion",
    }
}

options! {
    /// The options that no other driver has.
    struct CohortOptions, OWN;

    policy: Policy = OptionSpec {
        key: "cohort.policy",
        kind: Kind::Choice(Policy::WORDS),
        default: "cohort",
        doc: "Whether the loop serves by stages or by connections.",
        long: "`cohort` performs one step (accept, receive, parse and look up, open and read \
               files, send) for all connections that wait for it, and then the next. So the code \
               of a step stays in the processor's caches. `run-to-completion` takes each \
               connection as far as it can go, as all other event loops do: it is there to be \
               compared with, and everything else is the same.",
    },
    order: CohortOrder = OptionSpec {
        key: "cohort.order",
        kind: Kind::Choice(CohortOrder::WORDS),
        default: "forward",
        doc: "In which order the stages are visited.",
        long: "`forward` visits them as a request passes through them. `backward` visits them the \
               other way round: between two stages of a request is a wait, and cohorts are larger. \
               `wave` goes one way and then the other.",
    },
    limit: usize = OptionSpec {
        key: "cohort.limit",
        kind: Kind::Count { min: 0, max: 1_000_000 },
        default: "0",
        doc: "How many connections a visit of a stage serves at most.",
        long: "The others wait for the next visit. 0 means all that wait, and those that come \
               while the stage is visited.",
    },
}

fn work(env: &Env, worker: usize) -> Result<(), WorkError> {
    let options = EventOptions::read(&env.settings);
    let own = CohortOptions::read(&env.settings);
    let visits = Visits { order: own.order, most: own.limit };
    let visits = (own.policy == Policy::Cohort).then_some(visits);
    let of = EventWorker { env, worker, options: &options, visits };
    event::work_with(of, |root, _, _| Ok(Box::new(InlineDisk(Below { root, rules: env.rules }))))
}
