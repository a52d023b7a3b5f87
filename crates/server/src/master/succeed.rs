//! Master's part in its succession: another image, with another generation of workers.
use super::{Child, Env, Happened, Master, Message, Monitors, Own, Prepared, clock, io};
use crate::succession::Act;
use regatta_metrics::Phase;
use regatta_sys::socket::{self, Mode, Steps};
use std::os::fd::AsFd;

impl Master<'_> {
    /// Handles an event that decides which generation serves.
    pub(super) fn happened(&mut self, event: Happened) -> io::Result<()> {
        let Self { generations: Some(generations), poller, prepared, children, monitors, .. } =
            self
        else {
            return Ok(());
        };
        let arena = &prepared.env.arena;
        // The next image begins with these counts.
        generations.fold(arena);
        let acts = generations.handle(event, &collect_own(prepared, children, monitors), poller);
        generations.fold(arena);
        let drain_ms_max = prepared.env.settings.number("server.drain_ms_max");
        for act in acts {
            match act {
                Act::LeaveOld => {
                    generations.leave_old(drain_ms_max);
                    self.staff.lasts();
                }
                Act::DrainOld => generations.drain_old(drain_ms_max),
                Act::KillNew => {
                    // Some may have begun to answer, and the old ones accept from the same sockets.
                    let until = clock::now().tick.after(drain_ms_max);
                    self.staff.drain(until);
                    arena.control().leave(until.0);
                    prepared.ring();
                    // Its listener would have no process to answer, either.
                    prepared.admin = None;
                    self.awaited = 0;
                }
                // All others have been carried out; the server ends once no worker is left.
                Act::Try(_) | Act::KillTrial | Act::Exec(_) | Act::Report(_) | Act::GiveUp => {}
            }
        }
        Ok(())
    }

    /// Ends the server while only workers of an earlier image serve. They drain, or leave at the
    /// second request.
    pub(super) fn end_waiting(&mut self) -> io::Result<()> {
        self.tell_manager(Message::Stopping);
        self.happened(Happened::Stop)?;
        let Some(generations) = &mut self.generations else { return Ok(()) };
        if generations.end_old(false) {
            self.prepared.env.arena.control().stop();
            self.prepared.ring();
        }
        Ok(())
    }

    /// Does the due work for other generations.
    pub(super) fn check_generations(&mut self) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        let now = clock::now().tick;
        let is_due = generations.wake_at() <= now;
        generations.due(now);
        if generations.has_old() {
            generations.fold(&self.prepared.env.arena);
        }
        if is_due { self.happened(Happened::Time) } else { Ok(()) }
    }

    /// Handles the end of the trial.
    pub(super) fn on_trial_exit(&mut self) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        let event = generations.on_trial_exit(&mut self.poller)?;
        event.map_or(Ok(()), |event| self.happened(event))
    }

    /// Receives findings of the trial.
    pub(super) fn take_findings(&mut self) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        generations.take_findings(&mut self.poller)
    }

    /// Reaps an errand. If it has made the logs, workers reopen them.
    pub(super) fn on_errand_exit(&mut self, key: u64) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        if generations.on_errand_exit(key, &mut self.poller)? {
            self.prepared.env.arena.control().reopen_logs();
            self.prepared.ring();
        }
        Ok(())
    }

    /// Reaps a child of an earlier image.
    pub(super) fn reap_old(&mut self, key: u64) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        let Some(event) = generations.reap(key, &mut self.poller)? else { return Ok(()) };
        let alone = !generations.has_old();
        self.happened(event)?;
        let Prepared { env, architecture, .. } = &*self.prepared;
        if alone && matches!((architecture.driver.steps)(&env.settings), Steps::All(_)) {
            // No worker that must not wait accepts from them.
            env.sockets.iter().try_for_each(|of| socket::set_mode(of, Mode::Blocking))?;
        }
        Ok(())
    }
}

/// Collects the state that the next image receives.
fn collect_own<'a>(
    prepared: &'a Prepared,
    children: &'a [Option<Child>],
    monitors: &'a Monitors,
) -> Own<'a> {
    let Prepared { env, asked, shared, .. } = prepared;
    let Env { sockets, shares, bells, arena, .. } = env;
    let keeper = prepared.has_keeper();
    let slots = |child: usize| match keeper {
        true => 0..arena.slots().len(),
        false => shares[child].slots.clone(),
    };
    let alive = |(at, child): (usize, &'a Option<Child>)| Some((child.as_ref()?, slots(at)));
    let workers = children.iter().enumerate().filter_map(alive);
    // Scouts are reaped with workers.
    let scouts = prepared.root.children().map(|child| (child, 0..0));
    let admin = prepared
        .admin
        .as_ref()
        .map(|admin| (admin.place.to_string(), admin.listener.as_fd(), monitors.child.as_ref()));
    let control = arena.control();
    let leaves = control.phase() != Phase::Run;
    Own {
        admin,
        drains_until: leaves.then(|| control.drain_deadline_ms()),
        listeners: asked.iter().map(|of| &**of).zip(sockets.iter().map(AsFd::as_fd)).collect(),
        arena: Some(shared.as_fd()),
        control: Some(control),
        keeper,
        children: workers.chain(scouts).collect(),
        bells: bells.iter().chain(&prepared.keeper).collect(),
        roots: Some(&prepared.root),
        clients: prepared.front.table(),
        certificates: Some(prepared.front.certificates()),
    }
}
