//! The root is a path: sees when it names another directory, and hands that to the workers.
//!
//! The master looks in memory only. What may wait for a disk is done by a lookup: a process that
//! becomes the serving user, opens the path, and sends back what it has found.
use crate::full::LOOK_MS;
use regatta_arch::{Env, kit::worker::NextRoot};
use regatta_op::Tick;
use regatta_sys::{
    Named, Root,
    channel::Channel,
    process::{Child, User, fork_worker, set_user},
    socket::queued_bytes,
};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// A lookup that takes longer is reported, milliseconds.
const LATE_MS: u64 = 5000;

/// What SIGHUP does not change.
const STAY: &str = "options stay what they were at the start";

/// What is to be said, and whether something is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// As it should be.
    Notice(String),
    /// The old root stays.
    Warning(String),
}

/// The path of the root, and what is being done to see where it leads.
#[derive(Debug)]
pub(crate) struct RootWatch {
    path: PathBuf,
    /// The master's ends of the workers' channels, and of the keeper's.
    channels: Vec<Channel>,
    /// Which root this process has.
    generation: u64,
    look_at: Tick,
    lookup: Option<Lookup>,
    /// Somebody wants to be told what is served.
    asked: bool,
    /// What was wrong at the last look, and whether that has been said.
    fault: Option<(String, bool)>,
}

#[derive(Debug)]
struct Lookup {
    child: Child,
    channel: Channel,
    since: Tick,
    /// Somebody waits to be told.
    asked: bool,
    late: bool,
}

impl RootWatch {
    /// Of a root that was opened just now; and the other ends of so many channels.
    ///
    /// # Errors
    /// No descriptors left.
    pub(crate) fn new(path: &Path, takers: usize) -> io::Result<(Self, Vec<Channel>)> {
        let pairs: io::Result<Vec<_>> = (0..takers).map(|_| Channel::pair()).collect();
        let (channels, theirs) = pairs?.into_iter().unzip();
        let (look_at, path) = (Tick::default(), path.to_owned());
        let (generation, lookup, asked, fault) = (0, None, false, None);
        let this = Self { path, channels, generation, look_at, lookup, asked, fault };
        Ok((this, theirs))
    }

    /// Which root this process has, and gives to the workers that it starts.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// In the keeper: it takes what the master sends, and does not look.
    pub(crate) const fn leave_to_master(&mut self) {
        self.look_at = Tick::NEVER;
    }

    /// In the keeper: takes the root that the master has sent, if it has.
    pub(crate) fn renew(&mut self, env: &Env) {
        if let Some(channel) = env.root_channels.last()
            && let Some(generation) = (NextRoot { root: &env.root, channel }).renew()
        {
            self.generation = generation;
        }
    }

    /// When [`RootWatch::look`] is due.
    pub(crate) const fn look_at(&self) -> Tick {
        self.look_at
    }

    /// Somebody wants to know what is served: the next look is due now, and starts a lookup.
    pub(crate) const fn ask(&mut self) {
        self.asked = true;
        self.look_at = Tick(0);
    }

    /// Looks what the path names. If that is not what is served, or cannot be told without a disk,
    /// starts a lookup and returns; one at a time.
    pub(crate) fn look(&mut self, env: &Env, user: Option<&User>, now: Tick) -> Option<Report> {
        self.look_at = now.after(LOOK_MS);
        // A worker that stands still has it waiting already.
        self.send(env, |channel| queued_bytes(channel.as_fd()).is_ok_and(|bytes| bytes == 0));
        if let Some(lookup) = &mut self.lookup {
            if lookup.late || now.since(lookup.since) < LATE_MS {
                return None;
            }
            lookup.late = true;
            return Some(Report::Warning(format!(
                "looking up \"{}\" takes long, its disk or file server does not answer: {}",
                self.path.display(),
                "the directory that is open is still served"
            )));
        }
        if !self.asked && env.root.named() == Named::Same {
            self.fault = None;
            return None;
        }
        let sent = self.start_lookup(user, now);
        sent.err().and_then(|error| {
            let asked = std::mem::take(&mut self.asked);
            self.complain(&format!("cannot look it up: {error}"), asked)
        })
    }

    /// The descriptor that is readable when the lookup has ended.
    pub(crate) fn lookup(&self) -> Option<BorrowedFd<'_>> {
        self.lookup.as_ref().map(|lookup| lookup.child.as_fd())
    }

    /// The lookup has ended: if it has found another directory, all serve that from now on.
    pub(crate) fn hear(&mut self, env: &Env) -> Option<Report> {
        let Lookup { child, channel, asked, .. } = self.lookup.take()?;
        if self.asked {
            // It may have looked before that.
            self.look_at = Tick(0);
        }
        // It has ended: this does not wait.
        let exit = child.wait();
        let (mut errno, mut roots) = ([0; 4], Vec::new());
        let heard = channel.recv(&mut errno, &mut roots, false);
        let Some(found) = roots.pop() else {
            let why = match heard {
                Ok(4) => io::Error::from_raw_os_error(i32::from_ne_bytes(errno)).to_string(),
                _ => format!("the process that looked it up ended with {exit:?}"),
            };
            return self.complain(&why, asked);
        };
        self.take(&found, asked, env)
    }

    fn take(&mut self, found: &OwnedFd, asked: bool, env: &Env) -> Option<Report> {
        self.fault = None;
        let changed = !env.root.is_same(found);
        if changed && let Err(error) = env.root.replace(found.as_fd()) {
            return self.complain(&error.to_string(), asked);
        }
        if changed {
            env.arena.control().replace_root();
            self.generation = env.arena.control().root_generation();
            self.send(env, |_| true);
            // The keeper's, if there is one: nobody asks whether it has come.
            for channel in &self.channels[env.bells.len()..] {
                let _ = channel.send(&self.generation.to_ne_bytes(), &[env.root.as_fd()]);
            }
        }
        let path = self.path.display();
        // A link says more by where it leads.
        let there = match env.root.name() {
            Ok(there) if there != self.path => format!(" ({})", there.display()),
            _ => String::new(),
        };
        let text = match (asked, changed) {
            (false, false) => return None,
            (false, true) => format!("\"{path}\" is another directory now, which is served{there}"),
            (true, true) => {
                format!(
                    "SIGHUP: \"{path}\" is another directory now, which is served{there}; {STAY}"
                )
            }
            (true, false) => format!("SIGHUP: serving \"{path}\"{there} as before; {STAY}"),
        };
        Some(Report::Notice(text))
    }

    /// Sends the root to those workers that have not taken it: there was no room in the channel, or
    /// they had no descriptor for it. Where there is no worker, the next one begins with it.
    fn send(&self, env: &Env, may: impl Fn(&Channel) -> bool) {
        for (worker, bell) in env.bells.iter().enumerate() {
            let channel = &self.channels[worker];
            let slot = env.first_slot(worker);
            if slot.pid() != 0 && slot.root_generation() != self.generation && may(channel) {
                // What cannot be sent now is sent with the next look.
                let _ = channel.send(&self.generation.to_ne_bytes(), &[env.root.as_fd()]);
                bell.ring();
            }
        }
    }

    fn start_lookup(&mut self, user: Option<&User>, since: Tick) -> io::Result<()> {
        let (channel, theirs) = Channel::pair()?;
        let path = &self.path;
        let child = fork_worker(&[theirs.as_fd()], || {
            let _ = match open_as(path, user) {
                Ok(root) => theirs.send(&[0; 4], &[root.as_fd()]),
                Err(error) => {
                    theirs.send(&error.raw_os_error().unwrap_or_default().to_ne_bytes(), &[])
                }
            };
            0
        })?;
        let asked = std::mem::take(&mut self.asked);
        self.lookup = Some(Lookup { child, channel, since, asked, late: false });
        Ok(())
    }

    /// Says once what is wrong: at once to who asked, otherwise if it is still so at the next look.
    /// While a directory is moved away and another one is moved in, its name is not there.
    fn complain(&mut self, why: &str, asked: bool) -> Option<Report> {
        let (again, said) = match &self.fault {
            Some((fault, said)) if fault == why => (true, *said),
            _ => (false, false),
        };
        let says = asked || again && !said;
        self.fault = Some((why.to_owned(), says || said));
        says.then(|| {
            Report::Warning(format!(
                "{}\"{}\": {why}: the directory that is open is still served; put one there \
                 that the serving user may search",
                if asked { "SIGHUP: " } else { "" },
                self.path.display(),
            ))
        })
    }
}

/// Opens the root as the user that is to serve it, and tries whether that may look below it.
fn open_as(path: &Path, user: Option<&User>) -> io::Result<Root> {
    user.map_or(Ok(()), set_user)?;
    let root = Root::open(path)?;
    root.try_resolving()?;
    Ok(root)
}
