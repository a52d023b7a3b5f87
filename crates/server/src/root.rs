//! A root is a path: sees when it names another directory, and hands that to the workers.
//!
//! The master looks in memory only. What may wait for a disk is done by a lookup: a process that
//! becomes the serving user, opens the path, and sends back what it has found.
use crate::full::LOOK_MS;
use regatta_arch::{Env, kit::worker::NextRoot, options::Settings};
use regatta_op::Tick;
use regatta_sys::{
    Named, Root,
    channel::Channel,
    process::{Child, User, fork_worker, set_user},
    sandbox::landlock_version,
    socket::queued_bytes,
};
use std::{
    collections::BTreeSet,
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
};

/// A lookup that takes longer is reported, milliseconds.
const LATE_MS: u64 = 5000;

/// What a lookup says in the place of an errno about a root that it sends along: workers may not
/// read it.
const OUT: i32 = -1;

/// What is to be said, and whether something is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// As it should be.
    Notice(String),
    /// The old root stays.
    Warning(String),
    /// The old root stays, and workers that begin now could serve the other one.
    OutOfReach(String),
}

/// The paths of the roots, and what is being done to see where they lead.
#[derive(Debug)]
pub(crate) struct RootWatch {
    /// By number.
    roots: Vec<Watched>,
    /// Where workers may read besides the roots that they begin with; `None` is everywhere.
    reach: Option<Vec<Folder>>,
    /// The master's ends of the workers' channels, and of the keeper's.
    channels: Vec<Channel>,
    /// The last change of roots that this process has.
    generation: u64,
    look_at: Tick,
    lookup: Option<Lookup>,
    /// Of several roots that have changed, the first from here on is looked up next.
    next: usize,
}

/// What is known of a root besides its directory.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    /// Which change of roots brought its directory.
    generation: u64,
    /// What was wrong at the last look, and whether that has been said.
    fault: Option<(String, bool)>,
}

/// A directory below which workers may read. Landlock's rules are about the directory: another one
/// that gets its name is out of reach.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Device and inode.
    id: (u64, u64),
}

impl Folder {
    fn at(path: PathBuf) -> Option<Self> {
        let facts = fs::metadata(&path).ok()?;
        Some(Self { path, id: (facts.dev(), facts.ino()) })
    }

    /// True if what has this name is below it. May wait for a disk.
    fn holds(&self, name: &Path) -> bool {
        let is_same = |now: Self| now.id == self.id;
        name.starts_with(&self.path) && Self::at(self.path.clone()).is_some_and(is_same)
    }
}

#[derive(Debug)]
struct Lookup {
    /// The number of the root.
    of: usize,
    child: Child,
    channel: Channel,
    since: Tick,
    late: bool,
}

impl RootWatch {
    /// Of roots that were opened just now; and the other ends of so many channels.
    ///
    /// # Errors
    /// No descriptors left.
    pub(crate) fn new(
        settings: &Settings,
        root: &Root,
        takers: usize,
    ) -> io::Result<(Self, Vec<Channel>)> {
        let is_confined = settings.text("server.sandbox") != "off" && landlock_version() > 0;
        let folders = || root.all().flat_map(deployed).collect::<BTreeSet<_>>();
        let reach = is_confined.then(|| folders().into_iter().filter_map(Folder::at).collect());
        let pairs: io::Result<Vec<_>> = (0..takers).map(|_| Channel::pair()).collect();
        let (channels, theirs) = pairs?.into_iter().unzip();
        let watched =
            |root: &Root| Watched { path: root.given().to_owned(), generation: 0, fault: None };
        let (roots, look_at) = (root.all().map(watched).collect(), Tick::default());
        let (generation, lookup, next) = (0, None, 0);
        Ok((Self { roots, reach, channels, generation, look_at, lookup, next }, theirs))
    }

    /// The directories that a worker which confines itself may read, besides its roots.
    pub(crate) fn readable(&self) -> Vec<Root> {
        self.reach.iter().flatten().filter_map(|folder| Root::open(&folder.path).ok()).collect()
    }

    /// The last change of the roots that this process has, and gives to the workers that it starts.
    pub(crate) const fn generation(&self) -> u64 {
        self.generation
    }

    /// In the keeper: it takes what the master sends, and does not look.
    pub(crate) const fn leave_to_master(&mut self) {
        self.look_at = Tick::NEVER;
    }

    /// In the keeper: takes the roots that the master has sent, if it has.
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

    /// Looks what the paths name. If one does not name what is served, or that cannot be told
    /// without a disk, starts a lookup and returns; one at a time.
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
                self.roots[lookup.of].path.display(),
                "the directory that is open is still served"
            )));
        }
        let mut others = Vec::new();
        for (of, (root, watched)) in env.root.all().zip(&mut self.roots).enumerate() {
            if root.named() == Named::Same {
                watched.fault = None;
            } else {
                others.push(of);
            }
        }
        let of = *others.iter().find(|of| **of >= self.next).or(others.first())?;
        self.next = of + 1;
        let sent = self.start_lookup(of, user, now);
        sent.err().and_then(|error| self.roots[of].complain(&format!("cannot look it up: {error}")))
    }

    /// The process that looks it up, if there is one.
    pub(crate) fn lookup(&self) -> Option<&Child> {
        self.lookup.as_ref().map(|lookup| &lookup.child)
    }

    /// The lookup has ended: if it has found another directory, all serve that from now on.
    pub(crate) fn hear(&mut self, env: &Env) -> Option<Report> {
        let Lookup { of, child, channel, .. } = self.lookup.take()?;
        let (root, watched) = env.root.all().nth(of).zip(self.roots.get_mut(of))?;
        // It has ended: this does not wait.
        let exit = child.wait();
        let (mut errno, mut roots) = ([0; 4], Vec::new());
        let heard = channel.recv(&mut errno, &mut roots, false);
        let errno = i32::from_ne_bytes(errno);
        let Some(found) = roots.pop() else {
            let why = match (heard, exit) {
                (Ok(4), _) => io::Error::from_raw_os_error(errno).to_string(),
                (_, Ok(exit)) => format!("the process that looked it up {exit}"),
                (_, Err(error)) => format!("the process that looked it up is gone: {error}"),
            };
            return watched.complain(&why);
        };
        if errno != 0 && !root.is_same(&found) {
            let name = regatta_sys::name(found.as_fd()).unwrap_or_default();
            let why = format!(
                "\"{}\" leads to {} now, where workers that run may not read (server.sandbox): \
                 reloading",
                watched.path.display(),
                name.display()
            );
            return watched.is_to_be_said(&why).then_some(Report::OutOfReach(why));
        }
        if root.is_same(&found) {
            watched.fault = None;
            return None;
        }
        if let Err(error) = root.replace(found.as_fd()) {
            return watched.complain(&error.to_string());
        }
        env.arena.control().replace_root();
        self.generation = env.arena.control().root_generation();
        (watched.generation, watched.fault) = (self.generation, None);
        let path = watched.path.display();
        // A link says more by where it leads.
        let there = match root.name() {
            Ok(there) if there != watched.path => format!(" ({})", there.display()),
            _ => String::new(),
        };
        let text = format!("\"{path}\" is another directory now, which is served{there}");
        self.send(env, |_| true);
        // The keeper's, if there is one: nobody asks whether it has come.
        for channel in &self.channels[env.bells.len()..] {
            let _ = channel.send(&NextRoot::record(of, self.generation), &[root.as_fd()]);
        }
        // Another may have changed with it.
        self.look_at = Tick::default();
        Some(Report::Notice(text))
    }

    /// Sends roots to those workers that have not taken them: there was no room in the channel, or
    /// they had no descriptor for one. Where there is no worker, the next one begins with them.
    fn send(&self, env: &Env, may: impl Fn(&Channel) -> bool) {
        for (worker, bell) in env.bells.iter().enumerate() {
            let channel = &self.channels[worker];
            let slot = env.first_slot(worker);
            let has = slot.root_generation();
            if slot.pid() == 0 || has == self.generation || !may(channel) {
                continue;
            }
            let changes = self.roots.iter().map(|watched| watched.generation).enumerate();
            let mut new: Vec<_> = changes.filter(|(_, generation)| *generation > has).collect();
            new.sort_unstable_by_key(|(_, generation)| *generation);
            for (of, generation) in new {
                let Some(root) = env.root.all().nth(of) else { break };
                // What cannot be sent now is sent with the next look.
                if channel.send(&NextRoot::record(of, generation), &[root.as_fd()]).is_err() {
                    break;
                }
            }
            bell.ring();
        }
    }

    fn start_lookup(&mut self, of: usize, user: Option<&User>, since: Tick) -> io::Result<()> {
        let (channel, theirs) = Channel::pair()?;
        let (path, reach) = (&self.roots[of].path, self.reach.as_deref());
        let child = fork_worker(&[theirs.as_fd()], || {
            let send =
                |errno: i32, root: &[BorrowedFd<'_>]| theirs.send(&errno.to_ne_bytes(), root);
            let _ = match open_as(path, user) {
                Ok(root) if reach.is_none_or(|reach| is_in(reach, &root)) => {
                    send(0, &[root.as_fd()])
                }
                Ok(root) => send(OUT, &[root.as_fd()]),
                Err(error) => send(error.raw_os_error().unwrap_or_default(), &[]),
            };
            0
        })?;
        self.lookup = Some(Lookup { of, child, channel, since, late: false });
        Ok(())
    }
}

impl Watched {
    /// True once of what is wrong, if it is still so at the next look. While a directory is moved
    /// away and another one is moved in, its name is not there.
    fn is_to_be_said(&mut self, why: &str) -> bool {
        let (again, said) = match &self.fault {
            Some((fault, said)) if fault == why => (true, *said),
            _ => (false, false),
        };
        self.fault = Some((why.to_owned(), again));
        again && !said
    }

    /// Says once what is wrong.
    fn complain(&mut self, why: &str) -> Option<Report> {
        self.is_to_be_said(why).then(|| {
            Report::Warning(format!(
                "\"{}\": {why}: the directory that is open is still served; put one there that \
                 the serving user may search",
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

/// True if a root is below one of these directories.
fn is_in(reach: &[Folder], root: &Root) -> bool {
    root.name().is_ok_and(|name| reach.iter().any(|folder| folder.holds(&name)))
}

/// The directories in which a deployment finds another root, without `/`: the one that the path's
/// last part is in, which may be a link, and the one in which the root is.
fn deployed(root: &Root) -> Vec<PathBuf> {
    let link = root.given().parent().and_then(|folder| folder.canonicalize().ok());
    let there = root.name().ok().and_then(|root| Some(root.parent()?.to_owned()));
    let is_some_folder = |folder: &PathBuf| folder.parent().is_some();
    [link, there].into_iter().flatten().filter(is_some_folder).collect()
}
