//! Threads that all stages share (Sandstorm's TPPThreadManager): each serves, time after time, the
//! stage for which most requests wait.
use super::{LOOK_MAX, POOLS, POOLS_AT, ROLES, STATIONS, Seda};
use crate::kit::line::threads::StageThread;
use std::time::Duration;

impl Seda<'_> {
    /// The life of such a thread: it has a worker for each stage, and one stage at a time.
    pub(super) fn serve_all(&self, unit: usize) -> Result<(), String> {
        let process = &self.process;
        let own = |at| process.own(unit, (STATIONS + at, false));
        let owns = (POOLS_AT..ROLES.len()).map(own).collect::<Result<Vec<_>, _>>()?;
        let mut disks: Vec<_> = owns.iter().map(|own| process.disk(own)).collect();
        let mut threads = Vec::with_capacity(POOLS);
        for ((at, own), disk) in (POOLS_AT..).zip(&owns).zip(&mut disks) {
            threads.push(process.thread(own, disk, self.work(at)));
        }
        while threads.iter().all(StageThread::goes_on) {
            let len = |at: &usize| process.line.len(POOLS_AT + at);
            let longest = (0..POOLS).max_by_key(len).filter(|at| len(at) > 0);
            if (0..POOLS).map(|at| len(&at)).sum::<usize>() > 1 {
                // There is something for another thread, too; those that sleep are at the first.
                process.line.call(POOLS_AT);
            }
            // What comes from others comes to the first stage; the rest it has put there itself.
            let (at, patience) = longest.map_or((0, LOOK_MAX), |at| (at, Duration::ZERO));
            threads[at].visit(patience);
        }
        Ok(())
    }
}
