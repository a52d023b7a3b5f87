//! The number of workers follows how long they wait for the disk.
use super::{Master, Prepared};
use crate::{
    messages,
    supervise::MasterAction,
    waits::{WaitChange, WaitControl, WaitSample},
};
use regatta_arch::WaitRules;
use regatta_metrics::{Counter, Tally};
use regatta_op::Tick;
use regatta_sys::{clock, process};
use std::{io, mem};

/// State of the control.
pub(super) struct Varied {
    control: WaitControl,
    /// Last sample of each worker that ran then.
    samples: Vec<Option<WaitSample>>,
    /// End of the period.
    pass_at: Tick,
    /// Last decision that was logged although nothing followed it.
    said: Option<WaitChange>,
    /// Reported that the kernel does not say how long workers ran.
    is_blind: bool,
}

impl Varied {
    /// Control of the number of workers, if the architecture has it. Until they start, workers
    /// beyond the first count as retired: no other leaves connections to them.
    pub(super) fn new(prepared: &Prepared, now: Tick) -> Option<Self> {
        let rules = (prepared.architecture.driver.waits)(&prepared.env.settings)?;
        (rules.processes_min..prepared.workers)
            .for_each(|worker| prepared.env.first_slot(worker).retire());
        let (samples, pass_at) = (vec![None; prepared.workers], now.after(rules.period_ms));
        let control = WaitControl::new(rules);
        Some(Self { control, samples, pass_at, said: None, is_blind: false })
    }

    /// Rules of the control.
    pub(super) const fn rules(&self) -> &WaitRules {
        &self.control.rules
    }

    /// End of the period.
    pub(super) const fn wake_at(&self) -> Tick {
        self.pass_at
    }

    /// Samples all workers. Returns the share of their time that those waited for the disk that ran
    /// for all of the period, percent; `None` if there is none. Counts the waits.
    fn measure(&mut self, prepared: &Prepared) -> Result<Option<u64>, u32> {
        let (mut waited, mut passed) = (0, 0);
        for (worker, last) in self.samples.iter_mut().enumerate() {
            let slot = prepared.env.first_slot(worker);
            let before = last.take();
            if slot.is_retired() || slot.heartbeat_ms() == 0 {
                continue;
            }
            let Some(sample) = WaitSample::take(&slot, clock::nanos()) else {
                // It may have ended just now. The one that takes its place can be sampled.
                if process::exists(slot.pid()) {
                    return Err(slot.pid());
                }
                continue;
            };
            if let Some((of, time)) = before.and_then(|before| sample.since(&before)) {
                (waited, passed) = (waited + of, passed + time);
                // No other process writes this counter.
                Tally::Owned(slot).add(Counter::StaffWaitNs, of);
            }
            *last = Some(sample);
        }
        Ok((waited * 100).checked_div(passed))
    }
}

impl Master<'_> {
    /// Measures, at the end of a period, how long workers waited for the disk, and starts or
    /// retires one.
    pub(super) fn vary(&mut self) -> io::Result<()> {
        let now = clock::now().tick;
        let Some(varied) = self.varied.as_mut().filter(|varied| varied.pass_at <= now) else {
            return Ok(());
        };
        varied.pass_at = now.after(varied.rules().period_ms);
        let measured = varied.measure(self.prepared);
        let env = &self.prepared.env;
        let is_retired = |worker: usize| env.first_slot(worker).is_retired();
        let (workers, free) = (self.staff.filled(is_retired), self.staff.spare());
        let Some(varied) = &mut self.varied else { return Ok(()) };
        let percent = match measured {
            Ok(Some(percent)) if self.staff.is_open() => percent,
            Ok(_) => return Ok(()),
            Err(pid) => {
                if !mem::replace(&mut varied.is_blind, true) {
                    let what = format_args!(
                        "cannot read /proc/{pid}/schedstat: the number of workers stays at \
                         {workers}; mount /proc, or use server.architecture=symped"
                    );
                    self.note(messages::WAITS_UNKNOWN, what);
                }
                return Ok(());
            }
        };
        let Some(change) = varied.control.decide(percent, workers, free) else { return Ok(()) };
        if varied.rules().freeze {
            if varied.said.replace(change) != Some(change) {
                self.tell_change(change, percent, workers, " if staff.freeze were not set");
            }
            return Ok(());
        }
        match change {
            WaitChange::Start => {
                let Some(worker) = self.staff.grow(now) else { return Ok(()) };
                Tally::Owned(env.first_slot(worker)).add(Counter::StaffStarts, 1);
            }
            WaitChange::Retire => {
                let Some(worker) = self.staff.last(is_retired) else { return Ok(()) };
                Tally::Owned(env.first_slot(worker)).add(Counter::StaffRetires, 1);
                self.follow(MasterAction::Retire(worker))?;
            }
        }
        self.tell_change(change, percent, workers, "");
        Ok(())
    }

    fn tell_change(&self, change: WaitChange, percent: u64, workers: usize, but: &str) {
        let Some(varied) = &self.varied else { return };
        let WaitRules { processes_min, high_percent, low_percent, calm_periods, .. } =
            *varied.rules();
        let most = self.prepared.workers;
        let (why, what) = match change {
            WaitChange::Start => (format!("{high_percent} % or more"), "one more starts"),
            WaitChange::Retire => (
                format!("{low_percent} % or less for {calm_periods} periods"),
                "one of them retires",
            ),
        };
        self.note(
            messages::WORKERS_VARIED,
            format_args!(
                "{workers} workers waited for the disk {percent} % of the time, {why}: {what}\
                 {but} ({processes_min} to {most})"
            ),
        );
    }
}
