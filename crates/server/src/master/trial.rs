//! Trial of the next image: a process that becomes it, reads its files, and sends its findings. The
//! master itself opens none of them.
use super::{
    fork_worker,
    generations::{Generations, Own, TRIAL},
    image::{REPORT_BYTES_MAX, Trial, approval, run},
};
use crate::{
    findings::Sent,
    messages,
    succession::{Kind, SuccessionEvent, TrialVerdict},
};
use regatta_sys::{
    channel::Channel,
    process::{EXIT_UNSTARTED, Exit, lead_group},
    socket::{self, Mode},
    wait::{Interest, Poll, Poller as _},
};
use std::{
    io::{self, Read, Write},
    os::fd::{AsFd, AsRawFd},
};

/// Key of the master's poller for findings of a trial.
pub(super) const FINDINGS: u64 = u64::MAX - 5;

impl Generations {
    /// Forks a process that becomes the next image, to try whether it could serve.
    pub(super) fn start_trial(
        &mut self,
        kind: Kind,
        own: &Own<'_>,
        poller: &mut Poll,
    ) -> io::Result<()> {
        // The trial reads the file itself: that may wait for a disk.
        self.tried = if kind == Kind::Root { self.config.clone() } else { None };
        self.found = None;
        let (report, to) = io::pipe()?;
        socket::set_mode(report.as_fd(), Mode::Nonblocking)?;
        let (channel, theirs) = Channel::pair()?;
        let ends = [to.as_raw_fd(), theirs.as_fd().as_raw_fd()];
        let (memory, rules, mut keep) = self.hand_over(own, Some(ends))?;
        keep.extend([memory.as_fd(), rules.as_fd(), to.as_fd(), theirs.as_fd()]);
        let (program, arguments) = self.program_of(kind);
        let child = fork_worker(&keep, || {
            // Children that the program leaves behind end with it.
            let error = match lead_group() {
                Ok(()) => run(&program, arguments.clone(), &memory, &keep),
                Err(error) => error,
            };
            let mut to = &to;
            let _ = write!(to, "cannot execute {}: {error}", program.display());
            EXIT_UNSTARTED
        })?;
        poller.add(child.as_fd(), TRIAL, Interest::READ)?;
        poller.add(channel.as_fd(), FINDINGS, Interest::READ)?;
        self.trial = Some(Trial { child, report, channel, found: Sent::default(), is_open: true });
        Ok(())
    }

    /// Receives findings of the trial: the channel has room for little.
    pub(super) fn take_findings(&mut self, poller: &mut Poll) -> io::Result<()> {
        let Some(trial) = &mut self.trial else { return Ok(()) };
        if trial.is_open && !trial.found.receive(&trial.channel) {
            trial.is_open = false;
            poller.remove(trial.channel.as_fd())?;
        }
        Ok(())
    }

    /// Handles the end of the trial.
    pub(super) fn on_trial_exit(
        &mut self,
        poller: &mut Poll,
    ) -> io::Result<Option<SuccessionEvent>> {
        self.take_findings(poller)?;
        let Some(mut trial) = self.trial.take() else { return Ok(None) };
        // Until it is reaped, no other group has its number.
        let _ = trial.child.kill_group();
        let Some(exit) = trial.child.try_wait()? else {
            self.trial = Some(trial);
            return Ok(None);
        };
        poller.remove(trial.child.as_fd())?;
        if trial.is_open {
            poller.remove(trial.channel.as_fd())?;
        }
        let mut report = Vec::new();
        // Reads what is there, and does not wait for children that the program left behind.
        let _ = trial.report.by_ref().take(REPORT_BYTES_MAX as u64).read_to_end(&mut report);
        let is_approved = report == approval(trial.child.pid()).as_bytes();
        if is_approved && exit == Exit::Code(0) {
            match trial.found.whole() {
                // An earlier build sends nothing, and the next image reads for itself.
                Ok(found) => {
                    self.found = found;
                    return Ok(Some(SuccessionEvent::TrialEnded(TrialVerdict::Good)));
                }
                Err(fault) => report = fault.to_string().into_bytes(),
            }
        }
        for line in String::from_utf8_lossy(&report).lines() {
            self.blame(messages::RELOAD_FAULT, line.to_owned());
        }
        let verdict = match exit {
            Exit::Code(_) if !report.is_empty() => TrialVerdict::Faulty,
            _ => {
                let fault = format!("the program {exit} when it was tried");
                self.blame(messages::TRIAL_FAILED, fault);
                TrialVerdict::Died
            }
        };
        Ok(Some(SuccessionEvent::TrialEnded(verdict)))
    }
}
