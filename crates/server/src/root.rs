//! Watch on roots, which are paths. It sees when a path names another directory, or when rules at
//! the root change, and passes that to the workers.
//!
//! The master checks only memory. [Scouts](crate::scout) do all that may wait for a disk.
mod reach;

use crate::{
    config::release::{RULES_NAMES, Release, RulesInForce, Wanted},
    full::LOOK_MS,
    scout::{Scout, Sighting},
    site::Builder,
};
pub(crate) use reach::Folder;
use reach::Reach;
use regatta_arch::{Env, conn::worker::NextRoot, options::Settings};
use regatta_op::Tick;
use regatta_sys::{
    FileTrace, Named, Root,
    channel::Channel,
    process::{Child, User},
    socket::queued_bytes,
    wait::{Epoll, Event, Interest, Poller as _, Trigger},
};
use std::{
    io, mem,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path,
    sync::Arc,
    time::Duration,
};

/// Limit of a scout's time at one root, milliseconds; then it is killed.
const ROOT_MS_MAX: u64 = 5_000;

/// Time at one root after which another scout takes the rest, milliseconds.
const OVERTAKE_MS: u64 = 1_000;

/// Limit of scouts, including killed ones that have not ended.
const SCOUTS_MAX: usize = 8;

/// Wait before the next check of a faulty root, milliseconds; it doubles up to the limit.
const RETRY_MS: u64 = 1_000;
const RETRY_MS_MAX: u64 = 30_000;

/// Wait before a root out of reach causes another reload, milliseconds; it doubles up to the limit.
/// Images of the master hand it on.
const RELOAD_MS: u64 = 4_000;
const RELOAD_MS_MAX: u64 = 600_000;

/// Number of waits without such a reload after which the next one counts as the first.
const RELOAD_QUIET: u64 = 4;

/// The wait for room in a worker's channel, milliseconds.
const ROOM_MS: u64 = 20;

/// Report for the log, by severity.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Finding without a fault.
    Notice(String),
    /// The old root stays.
    Warning(String),
    /// The old root stays, and workers that begin now could serve the other one.
    OutOfReach(String),
}

/// Paths of the roots, and the progress of their lookup.
pub(crate) struct RootWatch {
    /// By number.
    roots: Vec<Watched>,
    wanted: Vec<Wanted>,
    /// Finds faults in rules.
    builder: Arc<Builder>,
    reach: Reach,
    /// The master's ends of the workers' channels, and of the keeper's.
    channels: Vec<Channel>,
    /// The last change that each worker has been sent.
    sent: Vec<u64>,
    /// The last change of roots that this process has.
    generation: u64,
    look_at: Tick,
    /// Time of the next check of the paths.
    paths_at: Tick,
    scouts: Vec<Scout>,
    /// Killed, and not yet ended.
    dying: Vec<Scout>,
    /// Watches the scouts' channels. Made when the first is sent.
    poller: Option<Epoll>,
    reload: Backoff,
}

/// Roots that were just opened, and the way to find them again.
pub(crate) struct OpenedRoots<'a> {
    /// The first one.
    pub(crate) root: &'a Root,
    /// Findings below each.
    pub(crate) releases: Vec<Release>,
    pub(crate) wanted: Vec<Wanted>,
    /// Finds faults in rules.
    pub(crate) builder: Arc<Builder>,
    /// Readable directories from a trial.
    pub(crate) handed: Option<Vec<Folder>>,
}

/// State of a root apart from its directory.
#[derive(Debug)]
struct Watched {
    /// Number of the change of roots that brought its directory.
    generation: u64,
    /// The findings below it.
    release: Release,
    /// Relation of its path to the served directory at the last check.
    named: Named,
    /// Facts of its files with rules at the last check, where they differ from those of the
    /// release.
    changing: Option<[Option<FileTrace>; 2]>,
    /// Fault at the last check, and whether it has been reported.
    fault: Option<(String, bool)>,
    retry: Backoff,
    /// A scout has it on its list.
    is_scouted: bool,
}

/// Wait that doubles as long as a fault persists.
#[derive(Clone, Copy, Debug, Default)]
struct Backoff {
    wait_ms: u64,
    until: Tick,
}

impl Backoff {
    fn fail(&mut self, now: Tick, least: u64, most: u64) {
        self.wait_ms = (self.wait_ms * 2).clamp(least, most);
        self.until = now.after(self.wait_ms);
    }
}

impl RootWatch {
    /// Watches roots, and returns the other ends of `takers` channels. The last argument:
    /// [`RootWatch::reload_limit`] of the image before.
    ///
    /// # Errors
    /// No descriptors left.
    pub(crate) fn new(
        settings: &Settings,
        opened: OpenedRoots<'_>,
        takers: usize,
        [reload_wait_ms, reload_at]: [u64; 2],
    ) -> io::Result<(Self, Vec<Channel>)> {
        let OpenedRoots { root, releases, wanted, builder, handed } = opened;
        let pairs: io::Result<Vec<_>> = (0..takers).map(|_| Channel::pair()).collect();
        let (channels, theirs): (Vec<_>, Vec<_>) = pairs?.into_iter().unzip();
        let watched = |release| Watched {
            generation: 0,
            release,
            named: Named::Same,
            changing: None,
            fault: None,
            retry: Backoff::default(),
            is_scouted: false,
        };
        let watch = Self {
            roots: releases.into_iter().map(watched).collect(),
            wanted,
            builder,
            reach: Reach::new(settings, root, handed),
            sent: vec![0; channels.len()],
            channels,
            generation: 0,
            look_at: Tick::default(),
            paths_at: Tick::default(),
            scouts: Vec::new(),
            dying: Vec::new(),
            poller: None,
            reload: Backoff { wait_ms: reload_wait_ms, until: Tick(reload_at) },
        };
        Ok((watch, theirs))
    }

    /// Rules of all roots, for the next image.
    pub(crate) fn rules_in_force(&self) -> RulesInForce {
        let mut rules = RulesInForce::default();
        for (wanted, watched) in self.wanted.iter().zip(&self.roots) {
            if let Ok(root) = path::absolute(&wanted.path) {
                rules.add(&root, &watched.release);
            }
        }
        rules
    }

    /// Opens the directories, other than its roots, that a confined worker may read.
    pub(crate) fn readable(&self) -> Vec<Root> {
        self.reach.readable()
    }

    /// Directories that workers may read other than their first roots; `None` is everywhere.
    pub(crate) fn reach(&self) -> Option<&[Folder]> {
        self.reach.folders()
    }

    /// Last change of the roots that this process has, and passes to new workers.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// Ends checks in the keeper, which takes roots from the master.
    pub(crate) const fn leave_to_master(&mut self) {
        self.look_at = Tick::NEVER;
    }

    /// Takes roots from the master, in the keeper.
    pub(crate) fn renew(&mut self, env: &Env) {
        if let Some(channel) = env.root_channels.last() {
            let next = NextRoot { root: &env.root, channel, releases: &env.releases };
            self.generation = next.renew_kept().unwrap_or(self.generation);
        }
    }

    /// Wait before another reload for one root, and its end, for the next image.
    pub(crate) const fn reload_limit(&self) -> [u64; 2] {
        [self.reload.wait_ms, self.reload.until.0]
    }

    /// Tick at which [`RootWatch::check_paths`] is due.
    pub(crate) const fn look_at(&self) -> Tick {
        self.look_at
    }

    /// Readable when scouts have something to report; `None` before the first is sent.
    pub(crate) fn scouts(&self) -> Option<BorrowedFd<'_>> {
        self.poller.as_ref().map(AsFd::as_fd)
    }

    /// Lists the processes of scouts.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Child> {
        self.scouts.iter().chain(&self.dying).map(|scout| &scout.child)
    }

    /// Checks what the paths name. A scout looks up paths that do not name the served directory, or
    /// for which only a disk can tell.
    pub(crate) fn check_paths(&mut self, env: &Env, user: Option<&User>, now: Tick) -> Vec<Report> {
        self.look_at = Tick::NEVER;
        let mut reports = self.check_scouts(now);
        if now < self.paths_at {
            self.look_at = self.look_at.min(self.paths_at);
            self.send(env, false, now);
            return reports;
        }
        self.paths_at = now.after(LOOK_MS);
        self.look_at = self.look_at.min(self.paths_at);
        // A stopped worker has it in its channel already.
        self.send(env, true, now);
        let others = self.changed(env, now);
        if others.is_empty() || self.scouts.len() + self.dying.len() >= SCOUTS_MAX {
            return reports;
        }
        if let Err(error) = self.send_scout(&others, user, now) {
            let first = others[0];
            self.roots[first].retry.fail(now, RETRY_MS, RETRY_MS_MAX);
            reports.extend(self.complain(first, &format!("cannot look it up: {error}")));
        }
        reports
    }

    /// Lists the roots that a scout must check.
    fn changed(&mut self, env: &Env, now: Tick) -> Vec<usize> {
        let mut others = Vec::new();
        let each = env.root.all().zip(&mut self.roots).zip(&self.wanted).enumerate();
        for (of, ((root, watched), wanted)) in each {
            let named = root.named();
            if named != mem::replace(&mut watched.named, named) {
                // The fault may be gone.
                watched.retry = Backoff::default();
            }
            if !wanted.has_root() {
                continue;
            }
            let rules_changed = wanted.reads_rules() && watched.rules_changed(root);
            if rules_changed {
                watched.retry = Backoff::default();
            }
            if named == Named::Same && !rules_changed && watched.release.closed.is_none() {
                watched.fault = None;
            } else if !watched.is_scouted && watched.retry.until <= now {
                others.push(of);
            }
        }
        others
    }

    fn send_scout(&mut self, todo: &[usize], user: Option<&User>, now: Tick) -> io::Result<()> {
        if self.poller.is_none() {
            self.poller = Some(Epoll::new(Trigger::Level)?);
        }
        let (builder, reach) = (&self.builder, &self.reach);
        let judge = |of: usize, root: Option<&Root>, release: &mut Release| {
            builder.judge(of, release);
            root.is_none_or(|root| reach.has(root))
        };
        let list = todo.iter().copied().collect();
        let scout = Scout::send(list, &self.wanted, user, &judge, now)?;
        let poller = self.poller.as_mut().expect("it was made just now");
        poller.add(scout.channel(), scout.child.pid().into(), Interest::READ)?;
        self.scouts.push(scout);
        todo.iter().for_each(|of| self.roots[*of].is_scouted = true);
        self.look_at = self.look_at.min(now.after(OVERTAKE_MS));
        Ok(())
    }

    /// Passes the rest of a scout's list to others if it has been at one root for long. Kills it if
    /// that takes too long.
    fn check_scouts(&mut self, now: Tick) -> Vec<Report> {
        self.dying.retain(|scout| matches!(scout.child.try_wait(), Ok(None)));
        let mut reports = Vec::new();
        for mut scout in mem::take(&mut self.scouts) {
            let at_one_ms = now.since(scout.since);
            if at_one_ms >= OVERTAKE_MS && scout.todo.len() > 1 {
                for of in scout.todo.drain(1..) {
                    self.roots[of].is_scouted = false;
                }
                self.paths_at = now;
            }
            if at_one_ms < ROOT_MS_MAX {
                let next = if scout.todo.len() > 1 { OVERTAKE_MS } else { ROOT_MS_MAX };
                self.look_at = self.look_at.min(scout.since.after(next));
                self.scouts.push(scout);
                continue;
            }
            scout.kill();
            for of in scout.todo.drain(..) {
                let watched = &mut self.roots[of];
                watched.is_scouted = false;
                watched.retry.fail(now, RETRY_MS, RETRY_MS_MAX);
                let (label, wait_ms) = (self.wanted[of].label(), watched.retry.wait_ms);
                reports.push(Report::Warning(format!(
                    "{label}: looking it up takes long, its disk or file server does not answer: \
                     what is open is still served; next attempt in {wait_ms} ms"
                )));
            }
            self.bury(scout);
        }
        reports
    }

    /// Forgets a scout; one that has not ended is reaped later.
    fn bury(&mut self, scout: Scout) {
        if let Some(poller) = &mut self.poller {
            // Unwatched channels need no removal.
            let _ = poller.remove(scout.channel());
        }
        if matches!(scout.child.try_wait(), Ok(None)) {
            self.dying.push(scout);
        }
    }

    /// Handles reports and ends of scouts: all workers serve the findings from now on.
    pub(crate) fn hear(&mut self, env: &Env, now: Tick) -> Vec<Report> {
        if let Some(poller) = &mut self.poller {
            // All scouts are read: readiness does not matter.
            let _ = poller.wait(&mut Vec::<Event>::new(), Some(Duration::ZERO));
        }
        let (mut reports, before) = (Vec::new(), self.generation);
        for mut scout in mem::take(&mut self.scouts) {
            let ended = loop {
                match scout.hear(now) {
                    Ok(Some(seen)) => reports.extend(self.adopt_findings(env, seen, now)),
                    Ok(None) => break false,
                    Err(_) => break true,
                }
            };
            if !ended {
                self.scouts.push(scout);
                continue;
            }
            for of in mem::take(&mut scout.todo) {
                self.roots[of].is_scouted = false;
                self.roots[of].retry.fail(now, RETRY_MS, RETRY_MS_MAX);
                reports.extend(self.complain(of, "the process that looked it up has ended"));
            }
            self.bury(scout);
        }
        if self.generation != before {
            self.send(env, false, now);
        }
        reports
    }

    /// Takes a scout's findings at one root.
    fn adopt_findings(&mut self, env: &Env, seen: Sighting, now: Tick) -> Option<Report> {
        let Sighting { of, root: found, in_reach, release } = seen;
        let (root, watched) = env.root.nth(of).zip(self.roots.get_mut(of))?;
        watched.is_scouted = false;
        watched.changing = None;
        let is_same = match &found {
            Some(found) => root.is_same(found),
            None => !root.is_open(),
        };
        let serves = watched.release.closed.is_none();
        if is_same && release.serves_as(&watched.release) {
            watched.release.traces = release.traces;
            watched.fault = None;
            if release.closed.is_some() {
                watched.retry.fail(now, RETRY_MS, RETRY_MS_MAX);
            }
            return None;
        }
        if release.closed.is_some() && serves {
            // The last good release stays until the fault is gone.
            watched.retry.fail(now, RETRY_MS, RETRY_MS_MAX);
            watched.release.traces = release.traces;
            let why = release.faults.first().map(|fault| fault.message.clone());
            let why = why.unwrap_or_default();
            if is_same {
                // It is checked again when its files change.
                let label = self.wanted[of].label();
                let text = format!("{label}: {why}: the rules read before stay in force");
                return Some(Report::Warning(text));
            }
            return self.complain(of, &why);
        }
        if !in_reach && !is_same {
            let found = found.as_ref()?;
            return self.out_of_reach(of, found, now);
        }
        self.change(env, of, found, release)
    }

    /// Handles a root that leads to where workers may not read.
    fn out_of_reach(&mut self, of: usize, found: &OwnedFd, now: Tick) -> Option<Report> {
        let name = regatta_sys::name(found.as_fd()).unwrap_or_default();
        let why = format!(
            "{} leads to {} now, where workers that run may not read (server.sandbox): reloading",
            self.wanted[of].label(),
            name.display()
        );
        let watched = &mut self.roots[of];
        watched.retry.until = now.after(RETRY_MS);
        let again = matches!(&watched.fault, Some((fault, _)) if *fault == why);
        watched.fault = Some((why.clone(), true));
        // A state between two renames is not reported. And the owner of a link cannot keep the
        // server busy.
        if !again || now < self.reload.until {
            return None;
        }
        // After a quiet time the next reload need not wait.
        if now.since(self.reload.until) > RELOAD_QUIET * self.reload.wait_ms {
            self.reload = Backoff::default();
        }
        self.reload.fail(now, RELOAD_MS, RELOAD_MS_MAX);
        Some(Report::OutOfReach(why))
    }

    /// Serves another release of a host.
    fn change(
        &mut self,
        env: &Env,
        of: usize,
        found: Option<OwnedFd>,
        release: Release,
    ) -> Option<Report> {
        let root = env.root.nth(of)?;
        let was_open = root.is_open();
        let is_same = found.as_ref().is_some_and(|found| root.is_same(found));
        let replaced = match &found {
            Some(found) => root.replace(found.as_fd()),
            None => Ok(()),
        };
        if let Err(error) = replaced {
            return self.complain(of, &error.to_string());
        }
        env.arena.control().replace_root();
        self.generation = env.arena.control().root_generation();
        let text = release.encode();
        env.releases.keep(of, self.generation, text.clone());
        let faults: String = release.faults.iter().map(|of| format!("; {}", of.message)).collect();
        let watched = &mut self.roots[of];
        (watched.generation, watched.fault) = (self.generation, None);
        (watched.retry, watched.release) = (Backoff::default(), release);
        // Channel of the keeper, if there is one; arrival is not checked.
        for channel in &self.channels[env.bells.len()..] {
            let _ = NextRoot::send(channel, of, self.generation, root.as_fd(), &text);
        }
        let wanted = &self.wanted[of];
        // The target of a link says more.
        let there = match root.name() {
            Ok(there) if there != wanted.path => format!(" ({})", there.display()),
            _ => String::new(),
        };
        let label = wanted.label();
        let text = match (is_same, was_open) {
            (true, _) => format!("{label}: its rules or pages for errors have changed{faults}"),
            (false, true) => {
                format!("{label} is another directory now, which is served{there}{faults}")
            }
            (false, false) => format!("{label} is there now, and is served{there}{faults}"),
        };
        Some(if faults.is_empty() { Report::Notice(text) } else { Report::Warning(text) })
    }

    /// Sends roots to workers that have not taken them: the channel had no room, or they had no
    /// descriptor for one. Where there is no worker, the next one begins with them.
    fn send(&mut self, env: &Env, again: bool, now: Tick) {
        let mut no_room = false;
        for (worker, bell) in env.bells.iter().enumerate() {
            let (channel, slot) = (&self.channels[worker], env.first_slot(worker));
            let has = slot.root_generation();
            if slot.pid() == 0 || has == self.generation {
                continue;
            }
            let is_empty = || queued_bytes(channel.as_fd()).is_ok_and(|bytes| bytes == 0);
            let from = if again && is_empty() { has } else { self.sent[worker].max(has) };
            let changes = self.roots.iter().enumerate();
            let mut new: Vec<_> = changes
                .map(|(of, watched)| (watched.generation, of))
                .filter(|(generation, _)| *generation > from)
                .collect();
            new.sort_unstable();
            for (generation, of) in new {
                let (Some(root), Some(text)) = (env.root.nth(of), env.releases.kept(of)) else {
                    break;
                };
                if NextRoot::send(channel, of, generation, root.as_fd(), &text).is_err() {
                    no_room = true;
                    break;
                }
                self.sent[worker] = generation;
            }
            bell.ring();
        }
        if no_room {
            self.look_at = self.look_at.min(now.after(ROOM_MS));
        }
    }

    /// Reports a fault once.
    fn complain(&mut self, of: usize, why: &str) -> Option<Report> {
        let watched = &mut self.roots[of];
        let serves = watched.release.closed.is_none();
        let kept = if serves { "what is open is still served" } else { "nothing is served of it" };
        watched.is_to_be_said(why).then(|| {
            Report::Warning(format!(
                "{}: {why}: {kept}; put a directory there that the serving user may search",
                self.wanted[of].label(),
            ))
        })
    }
}

impl Watched {
    /// True once for a fault that persists at the next check. While one directory replaces another,
    /// the name is missing for a moment.
    fn is_to_be_said(&mut self, why: &str) -> bool {
        let (again, said) = match &self.fault {
            Some((fault, said)) if fault == why => (true, *said),
            _ => (false, false),
        };
        self.fault = Some((why.to_owned(), again));
        again && !said
    }

    /// True if files with rules differ from the release, and have not changed since the last check:
    /// a write may be in progress. What memory does not know counts as unchanged.
    fn rules_changed(&mut self, root: &Root) -> bool {
        let mut now = self.release.traces;
        for (known, name) in now.iter_mut().zip(RULES_NAMES) {
            *known = root.trace(name).unwrap_or(*known);
        }
        if now == self.release.traces {
            self.changing = None;
            return false;
        }
        self.changing.replace(now) == Some(now)
    }
}
