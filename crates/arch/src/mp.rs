//! A process for each connection: every call blocks, and nothing is shared but the listeners. MP of
//! Pai, Druschel and Zwaenepoel (1999), and of [E] §2.
use crate::{
    Driver, Env,
    drive::{ledger::STALL_US, perform::Below},
    kit::{
        accept::{AcceptOptions, AcceptRules},
        disk::InlineDisk,
        serve::{Blocking, Means, Until, converse, next},
        worker::Own,
    },
    options::{Kind, OptionSpec, options},
};
use regatta_origin::LocalCache;
use regatta_sys::socket::{Mode, Steps};
use std::time::Duration;

/// The driver.
pub const DRIVER: Driver = Driver {
    steps: |settings| Steps::All(MpOptions::read(settings).step()),
    ..Driver::plain(OPTIONS, |settings, _| settings.number_as("limits.connections_max"), work)
};

options! {
    /// The options of processes that have a connection each.
    struct MpOptions, OPTIONS;

    step_ms: u64 = OptionSpec {
        key: "mp.step_ms",
        kind: Kind::Millis { min: 20, max: 250 },
        default: "100",
        doc: "How long a call waits before its process looks at what else there is.",
        long: "A deadline is kept whatever this is. A process that is told to leave has 300 ms, \
               and a call that sends a file may last two steps.",
        since: "0.1",
    },
    stall_us: u64 = STALL_US,
}

impl MpOptions {
    const fn step(&self) -> Duration {
        Duration::from_millis(self.step_ms)
    }
}

/// One process: one connection after another, from one of the listeners.
fn work(env: &Env, process: usize) -> Result<(), String> {
    let options = MpOptions::read(&env.settings);
    let own = Own::new(env, process, None)?;
    let cache = LocalCache::new(&env.site.caching, env.site.seed);
    let accept = AcceptOptions::read(&env.settings);
    let rules = AcceptRules::new(&accept, 1, Mode::Blocking, false);
    let mut worker = own.worker((&cache, None), rules, options.stall_us * 1000);
    let mut disk = InlineDisk(Below { root: own.root, rules: env.rules });
    let mut means = Means {
        disk: &mut disk,
        buffer: vec![0; env.site.limits.head_bytes_max].into(),
        bytes_max: u64::MAX,
        listener: process % env.listeners(process).len(),
    };
    while let Some(accepted) = next(&mut worker, options.step(), &mut means) {
        let key = worker.admit(accepted, Blocking::new(options.step()));
        let _closed = converse(&mut worker, key, options.step(), &mut means, Until::Closed);
    }
    Ok(())
}
