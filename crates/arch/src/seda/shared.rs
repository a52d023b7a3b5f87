//! Threads that all stages share (Sandstorm's TPPThreadManager). Each visits the stages with
//! waiting requests, that with the longest queue first, and checks again after it has visited all.
use super::{LOOK_MAX, POOLS, POOLS_AT, ROLES, STATIONS, Seda};
use crate::{WorkError, kit::line::threads::StageThread};
use std::time::Duration;

/// Stages that a thread has still to visit: lengths of their queues, the longest last.
///
/// Choosing the longest after each visit would starve short queues while others feed each other.
#[derive(Debug, Default)]
pub(super) struct Schedule(Vec<(usize, usize)>);

impl Schedule {
    /// The next stage to visit, of those with queued jobs; `None` if all queues are empty.
    pub(super) fn next_stage(&mut self, len: impl Fn(usize) -> usize) -> Option<usize> {
        if self.0.is_empty() {
            // Read each length once: it changes meanwhile.
            self.0.extend((0..POOLS).map(|at| (len(at), at)).filter(|(len, _)| *len > 0));
            self.0.sort_unstable();
        }
        self.0.pop().map(|(_, at)| at)
    }
}

impl Seda<'_> {
    /// Body of a shared thread: it has a worker for each stage, and serves one stage at a time.
    pub(super) fn serve_all(&self, unit: usize) -> Result<(), WorkError> {
        let process = &self.process;
        let own = |at| process.own(unit, (STATIONS + at, false));
        let owns = (POOLS_AT..ROLES.len()).map(own).collect::<Result<Vec<_>, _>>()?;
        let mut disks: Vec<_> = owns.iter().map(|own| process.disk(own)).collect();
        let mut threads = Vec::with_capacity(POOLS);
        for ((at, own), disk) in (POOLS_AT..).zip(&owns).zip(&mut disks) {
            threads.push(process.thread(own, disk, self.work(at)));
        }
        let len = |at: usize| process.line.len(POOLS_AT + at);
        let mut schedule = Schedule::default();
        while threads.iter().all(StageThread::goes_on) {
            let next = schedule.next_stage(len);
            if (0..POOLS).map(len).sum::<usize>() > 1 {
                // Another thread has work, too; those that sleep are at the first stage.
                process.line.call(POOLS_AT);
            }
            // Jobs from elsewhere arrive at the first stage; this thread put the others there.
            let (at, patience) = next.map_or((0, LOOK_MAX), |at| (at, Duration::ZERO));
            threads[at].visit(patience);
        }
        Ok(())
    }
}
