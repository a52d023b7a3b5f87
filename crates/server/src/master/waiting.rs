//! A master that has no workers of its own: it could not prepare them, though a trial could. Those
//! of the image before it serve until somebody asks for another generation, or for the end.
use super::{
    CLOCK_LATE_MS_MAX, Event, Failure, Generations, Happened, Interest, Kind, Level, OLD, Own,
    PidFile, Poll, Poller as _, SIGNALS, Signals, TRIAL, clock, image, io, signal::Signal,
};
use crate::{
    notify::{self, Message, Watchdog},
    succession::Act,
};
use regatta_sys::signal::Received;
use std::{mem, os::fd::AsFd, time::Duration};

/// The configuration that may say another number could not be followed, milliseconds.
const DRAIN_MS_MAX: u64 = 8_000;

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
        generations.errors.note(Level::Error, format_args!("reload: {line}"));
    }
    let pid_file = generations.pid_file.clone().map(PidFile::adopt);
    let watchdog = notify::watchdog(clock::now().tick);
    let mut waiting = Waiting { generations, poller: Poll::new(), watchdog };
    let ended = waiting.run(signals);
    waiting.generations.end_admin(None);
    waiting.generations.remove_files(|_| true);
    drop(pid_file);
    let why = match ended {
        Ok(()) if waiting.generations.told_at.is_some() => return Ok(()),
        Ok(()) => "no worker is left, and none could be started".to_owned(),
        Err(error) => format!("the master cannot go on: {error}"),
    };
    Err(Failure::Work(why))
}

struct Waiting {
    generations: Generations,
    poller: Poll,
    watchdog: Watchdog,
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
                self.generations.tell(Message::Alive);
            }
            let wake_at = self.generations.wake_at().min(self.watchdog.wake_at(now));
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
                    key if key & OLD != 0 => {
                        let event = self.generations.reap(key, &mut self.poller)?;
                        event.into_iter().for_each(|event| self.happened(event));
                    }
                    _ => {}
                }
            }
            self.generations.due(clock::now().tick);
            self.happened(Happened::Time);
        }
        Ok(())
    }

    fn happened(&mut self, event: Happened) {
        for act in self.generations.on(event, &Own::default(), &mut self.poller) {
            if act == Act::DrainOld {
                self.generations.drain_old(DRAIN_MS_MAX);
            }
        }
    }

    fn read_signals(&mut self, signals: &Signals) -> io::Result<()> {
        while let Some(received) = signals.read()? {
            match received {
                Received::Known(Signal::Hangup) => self.happened(Happened::Asked(Kind::Reload)),
                Received::Known(Signal::User2) => self.happened(Happened::Asked(Kind::Upgrade)),
                Received::Known(Signal::User1) => {
                    self.generations.reopen_logs();
                    // It looks at the control words of workers that are not there.
                    self.generations.errors.renew();
                }
                Received::Known(
                    signal @ (Signal::Terminate | Signal::Interrupt | Signal::Quit),
                ) => {
                    self.generations.tell(Message::Stopping);
                    self.happened(Happened::Stop);
                    self.generations.end_old(signal == Signal::Quit);
                }
                Received::Known(Signal::Child | Signal::Kill) | Received::Other(_) => {}
            }
        }
        Ok(())
    }
}
