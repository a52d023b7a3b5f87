//! The master's part in what follows it: another image, with another generation of workers.
use super::{Child, Env, Happened, Master, Message, Monitors, Own, Prepared, clock, io};
use crate::succession::Act;
use regatta_metrics::Phase;
use regatta_sys::socket::{self, Mode, Steps};
use std::os::fd::AsFd;

impl Master<'_> {
    /// Something has happened that decides which generation serves.
    pub(super) fn happened(&mut self, event: Happened) -> io::Result<()> {
        let Self { generations: Some(generations), poller, prepared, children, monitors, .. } =
            self
        else {
            return Ok(());
        };
        let arena = &prepared.env.arena;
        // The next image begins with it.
        generations.fold(arena);
        let acts = generations.on(event, &own(prepared, children, monitors), poller);
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
                    // Some may have begun to answer; and the old ones accept where they do.
                    let until = clock::now().tick.after(drain_ms_max);
                    self.staff.drain(until);
                    arena.control().leave(until.0);
                    prepared.ring();
                    // Nobody would answer there either.
                    prepared.admin = None;
                    self.awaited = 0;
                }
                // The rest has been done; and the server ends once nobody is left.
                Act::Try(_) | Act::KillTrial | Act::Exec(_) | Act::Report(_) | Act::GiveUp => {}
            }
        }
        Ok(())
    }

    /// The server is to end while only workers of an earlier image serve: they drain, or leave if
    /// that is asked for again.
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

    /// Does for other generations what time has brought.
    pub(super) fn look_at_generations(&mut self) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        let now = clock::now().tick;
        let is_due = generations.wake_at() <= now;
        generations.due(now);
        if generations.has_old() {
            generations.fold(&self.prepared.env.arena);
        }
        if is_due { self.happened(Happened::Time) } else { Ok(()) }
    }

    /// The trial of the next image has ended.
    pub(super) fn on_trial_exit(&mut self) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        let event = generations.on_trial_exit(&mut self.poller)?;
        event.map_or(Ok(()), |event| self.happened(event))
    }

    /// The trial has sent something that it has found.
    pub(super) fn take_findings(&mut self) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        generations.take_findings(&mut self.poller)
    }

    /// An errand may have ended; if it has made the logs, workers open them again.
    pub(super) fn on_errand_exit(&mut self, key: u64) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        if generations.on_errand_exit(key, &mut self.poller)? {
            self.prepared.env.arena.control().reopen_logs();
            self.prepared.ring();
        }
        Ok(())
    }

    /// A child of an earlier image may have ended.
    pub(super) fn reap_old(&mut self, key: u64) -> io::Result<()> {
        let Some(generations) = &mut self.generations else { return Ok(()) };
        let Some(event) = generations.reap(key, &mut self.poller)? else { return Ok(()) };
        let alone = !generations.has_old();
        self.happened(event)?;
        let Prepared { env, architecture, .. } = &*self.prepared;
        if alone && matches!((architecture.driver.steps)(&env.settings), Steps::All(_)) {
            // Nobody accepts from them who must not wait.
            env.sockets.iter().try_for_each(|of| socket::set_mode(of, Mode::Blocking))?;
        }
        Ok(())
    }
}

/// What goes from this image to the next.
fn own<'a>(
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
    // They are reaped with them.
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
    }
}
