//! A master without workers of its own: it could not prepare them, though a trial could. Workers of
//! the image before serve until another generation, or the end, is requested.
use super::{
    CLOCK_LATE_MS_MAX, ERRAND, Event, FINDINGS, Failure, Generations, Happened, Interest, Kind,
    OLD, Own, Poll, Poller as _, SIGNALS, Signals, TRIAL, clock, image, io, messages,
    signal::Signal,
};
use crate::{
    WorkFault,
    heartbeat::{Role, Watch},
    notify::{self, Message, Watchdog},
    succession::Act,
};
use regatta_sys::signal::ReceivedSignal;
use std::{mem, os::fd::AsFd, time::Duration};

/// Value of `server.drain_ms_max`, milliseconds: the configuration could not be followed.
const DRAIN_MS_MAX: u64 = 8_000;

/// Value of `limits.disk_ms_max`, milliseconds, likewise.
const DISK_MS_MAX: u64 = 30_000;

/// The longest wait, milliseconds.
const WAIT_MS_MAX: u64 = 1_000;

/// Supervises the old workers; `failure` is why there are no others.
pub(super) fn wait(
    mut generations: Generations,
    signals: &Signals,
    failure: &Failure,
) -> Result<(), Failure> {
    generations.find_manager();
    for line in image::lines(failure) {
        generations.blame(messages::RELOAD_FAULT, line);
    }
    let now = clock::now().tick;
    let (watchdog, watch) = (notify::watchdog(now), Watch::new(now));
    let mut waiting = Waiting { generations, poller: Poll::new(), watchdog, watch };
    let ended = waiting.run(signals);
    waiting.generations.end_admin(None);
    waiting.generations.clean_up();
    match ended {
        Ok(()) if waiting.generations.told_at.is_some() => Ok(()),
        Ok(()) => Err(Failure::Work(WorkFault::NoWorker)),
        Err(error) => Err(Failure::Work(WorkFault::Master(error))),
    }
}

struct Waiting {
    generations: Generations,
    poller: Poll,
    watchdog: Watchdog,
    watch: Watch,
}

impl Waiting {
    fn run(&mut self, signals: &Signals) -> io::Result<()> {
        self.poller.add(signals.as_fd(), SIGNALS, Interest::READ)?;
        self.generations.watch(&mut self.poller)?;
        self.happened(Happened::NewFailed);
        let mut events: Vec<Event> = Vec::new();
        while self.generations.has_old() {
            let now = clock::now().tick;
            if self.watchdog.is_due(self.generations.old_answer(now), now) {
                self.generations.notify_manager(Message::Alive);
            }
            self.generations.errands.watch(&mut self.poller)?;
            let wake_at = self.generations.wake_at().min(self.watchdog.wake_at(now));
            let wake_at = wake_at.min(self.watch.wake_at());
            let wait_ms = wake_at.since(now).saturating_add(CLOCK_LATE_MS_MAX);
            let wait = Duration::from_millis(wait_ms.min(WAIT_MS_MAX));
            self.poller.wait(&mut events, Some(wait))?;
            for event in mem::take(&mut events) {
                match event.key {
                    SIGNALS => self.read_signals(signals)?,
                    TRIAL => {
                        let event = self.generations.on_trial_exit(&mut self.poller)?;
                        event.into_iter().for_each(|event| self.happened(event));
                    }
                    FINDINGS => self.generations.take_findings(&mut self.poller)?,
                    key if key & ERRAND != 0 => {
                        self.generations.on_errand_exit(key, &mut self.poller)?;
                    }
                    key if key & OLD != 0 => {
                        let event = self.generations.reap(key, &mut self.poller)?;
                        event.into_iter().for_each(|event| self.happened(event));
                    }
                    _ => {}
                }
            }
            self.generations.due(clock::now().tick);
            self.happened(Happened::Time);
            self.check_children();
        }
        Ok(())
    }

    /// Checks whether all children run, and kills those that are hopeless.
    fn check_children(&mut self) {
        let now = clock::now().tick;
        if !self.watch.is_due(now) {
            return;
        }
        let children: Vec<_> = self.generations.family().collect();
        for finding in self.watch.check(&children, now, DISK_MS_MAX) {
            let kills =
                finding.is_hopeless && !matches!(finding.role, Role::Old { leaves: false, .. });
            finding.note(&self.generations.errors, kills);
            let of = children.iter().filter(|of| kills && of.child.pid() == finding.pid);
            // The child may have ended meanwhile.
            of.for_each(|of| drop(of.child.kill(Signal::Kill)));
        }
    }

    fn happened(&mut self, event: Happened) {
        for act in self.generations.handle(event, &Own::default(), &mut self.poller) {
            if act == Act::DrainOld {
                self.generations.drain_old(DRAIN_MS_MAX);
            }
        }
    }

    fn read_signals(&mut self, signals: &Signals) -> io::Result<()> {
        while let Some(received) = signals.read()? {
            match received {
                ReceivedSignal::Known(Signal::Hangup) => {
                    self.happened(Happened::Asked(Kind::Reload))
                }
                ReceivedSignal::Known(Signal::User2) => {
                    self.happened(Happened::Asked(Kind::Upgrade))
                }
                ReceivedSignal::Known(Signal::User1) => self.generations.reopen_logs(),
                ReceivedSignal::Known(
                    signal @ (Signal::Terminate | Signal::Interrupt | Signal::Quit),
                ) => {
                    self.generations.notify_manager(Message::Stopping);
                    self.happened(Happened::Stop);
                    self.generations.end_old(signal == Signal::Quit);
                }
                ReceivedSignal::Known(Signal::Child | Signal::Kill) | ReceivedSignal::Other(_) => {}
            }
        }
        Ok(())
    }
}
