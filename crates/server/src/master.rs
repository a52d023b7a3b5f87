//! The master: one thread that prepares everything, forks the workers, and supervises them.
mod admin;
mod confine;
mod ending;
mod errand;
mod files;
mod generations;
mod given;
mod image;
mod inherited;
mod keeper;
mod old;
mod prepare;
mod sockets;
mod succeed;
mod trial;
mod vary;
mod waiting;

use crate::{
    Failure, Sources, WorkFault, announce,
    certificates::Untimely,
    config::raw::Problem,
    config_text::ConfigText,
    examine_found, examine_server,
    findings::{Draft, Findings},
    front::{self, Front},
    full::{Full, LOOK_MS},
    heartbeat::{Finding, Role, Watch, Watched, all_silent},
    log::{self, AccessLog, ErrorLog, LogDestination, LogFile, Owner},
    machine, messages,
    notify::Message,
    pid_file,
    root::{Report, RootWatch},
    succession::{Kind, SuccessionEvent as Happened},
    supervise::{Ending, Gone, LEAVE_MS_MAX, MasterAction, MasterSignal, Staff},
};
use admin::{Admin, Monitors};
use confine::Confinement;
use errand::ERRAND;
use generations::{Generations, OLD, Own, TRIAL};
use keeper::Resweep;
use prepare::{Purpose, prepare};
use regatta_arch::{Architecture, Env, layout::ListenPlace};
use regatta_metrics::{Attendant, Counter, Gauge, Phase, Slot};
use regatta_op::Tick;
use regatta_sys::{
    Bell, clock,
    crew::SweepOutcome,
    hook,
    process::{Child, Exit, User, clone_worker, fork_worker},
    shm::SharedWords,
    signal::{self, ReceivedSignal, Signals},
    socket::Place,
    wait::{Event, Interest, Poll, Poller},
};
use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    io, mem,
    os::{
        fd::{AsFd, BorrowedFd, RawFd},
        unix::process::parent_id,
    },
    process,
    sync::Arc,
    time::Duration,
};
use trial::FINDINGS;
use vary::Varied;

pub(crate) use sockets::listen_fault;

/// Exit code of a worker that cannot work.
const EXIT_CANNOT_WORK: i32 = 1;

/// Added to a wait: the clock for deadlines is up to this late, milliseconds.
const CLOCK_LATE_MS_MAX: u64 = 4;

/// Option for the path of the file with the master's number.
const PID_FILE: &str = "server.pid_file";

/// Time between checks whether all workers have begun, milliseconds.
const BEGIN_MS: u64 = 1;

/// Replaces [`LEAVE_MS_MAX`] for a keeper, whose workers have that long. Milliseconds.
const KEEPER_LEAVE_MS_MAX: u64 = 2 * LEAVE_MS_MAX;

/// Serves until told to stop. `inherit`: handover of the image before.
///
/// Faults of the configuration, or the reason why serving failed.
pub(crate) fn run(sources: &Sources<'_>, inherit: Option<RawFd>) -> Result<(), Failure> {
    // Before any fork: children inherit blocked signals.
    let signals = Signals::block_with_meaningless(&[
        signal::Signal::Terminate,
        signal::Signal::Interrupt,
        signal::Signal::Quit,
        signal::Signal::Hangup,
        signal::Signal::User1,
        signal::Signal::User2,
    ])
    .map_err(Failure::system("cannot take signals"))?;
    signal::ignore_failed_writes();
    let (mut generations, report) = Generations::new(sources, inherit)?;
    let (text, given) = (generations.config(), generations.given.clone());
    let sources = Sources { text, given, ..sources.clone() };
    if let Some(report) = report {
        match try_out(&sources, &mut generations) {
            Ok(()) => image::approve(&report),
            Err(failure) => image::refuse(&report, &failure),
        }
    }
    let mut prepared = match begin(&sources, &mut generations) {
        Ok(ready) => ready,
        Err(failure) => {
            generations.remove_made_files();
            if generations.has_old() {
                return waiting::wait(generations, &signals, &failure);
            }
            generations.finish_errands();
            return Err(failure);
        }
    };
    generations.find_manager();
    let master = Master::new(Some((signals, generations)), &mut prepared);
    ended(master.and_then(|mut master| {
        let ending = master.run();
        master.generations.iter_mut().for_each(Generations::clean_up);
        ending
    }))
}

fn ended(ending: io::Result<Ending>) -> Result<(), Failure> {
    match ending {
        Ok(Ending::Told) => Ok(()),
        Ok(Ending::CannotWork) => Err(Failure::Work(WorkFault::Worker)),
        Err(error) => Err(Failure::Work(WorkFault::Master(error))),
    }
}

/// Prepares everything, and writes the file with the master's number. Findings of a trial are not
/// collected again: that may wait for a disk.
fn begin(sources: &Sources<'_>, generations: &mut Generations) -> Result<Prepared, Failure> {
    let ((config, found), handed) = match generations.findings.take() {
        Some(Findings { mut machine, handed, .. }) => {
            machine.keep_rules(&generations.rules);
            (examine_found(sources, machine)?, Some(handed))
        }
        None => (examine_server(sources, Untimely::Served)?, None),
    };
    let place = config.said.place(PID_FILE);
    let prepared = prepare(config, found, generations, Purpose::Serve(handed))?;
    let path = prepared.env.settings.path(PID_FILE);
    generations.set_pid_file(path).map_err(|error| {
        let message = format!("{PID_FILE}: {error}");
        Failure::Configuration(vec![Problem::new(messages::NOT_WRITABLE, place, message)])
    })?;
    generations.has_begun();
    Ok(prepared)
}

/// Tests whether this program could serve, without visible changes. If it could, makes the logs and
/// sends the findings.
fn try_out(sources: &Sources<'_>, generations: &mut Generations) -> Result<(), Failure> {
    // The tried text is handed over, whatever the file says by then.
    let text = sources.text.clone().or_else(|| ConfigText::read(sources.file?).ok());
    let sources = &Sources { text, ..sources.clone() };
    let (config, found) = examine_server(sources, Untimely::Refused(&generations.certificates))?;
    let mut problems = machine::writable(&config.said);
    if problems.is_empty()
        && let Some(path) = config.settings().path(PID_FILE)
        // The file may contain the master's number, and a trial is its child.
        && let Err(error) = pid_file::try_taking(path, parent_id())
    {
        let message = format!("cannot write \"{}\": {error}", path.display());
        problems.push(config.said.problem(messages::NOT_WRITABLE, PID_FILE, &message));
    }
    if !problems.is_empty() {
        return Err(Failure::Configuration(problems));
    }
    let draft = Draft::new(sources.text.clone(), &found);
    let logs = log::LOGS.map(|key| (key, config.said.place(key)));
    let prepared = prepare(config, found, generations, Purpose::Try)?;
    let Some(channel) = &generations.findings_to else { return Ok(()) };
    let owner = prepared.user.as_ref().map(|user| Owner { uid: user.uid, gid: user.gid });
    let [access, errors] = logs.map(|(key, place)| {
        let made = log::make(&LogDestination::from(prepared.env.settings.text(key)), owner);
        made.map_err(|error| {
            let message = format!("{key}: cannot open it for appending: {error}");
            Failure::Configuration(vec![Problem::new(messages::NOT_WRITABLE, place, message)])
        })
    });
    access?;
    let sent = draft.send(channel, &prepared.env.root, prepared.root.reach(), errors?.as_ref());
    sent.map_err(Failure::system("cannot hand over what was found"))
}

/// Everything that workers share, ready.
struct Prepared {
    env: Env,
    architecture: &'static Architecture,
    workers: usize,
    user: Option<User>,
    confinement: Confinement,
    /// Kept open: other processes find the counters by this descriptor.
    shared: SharedWords,
    /// Configured address of each socket.
    asked: Vec<String>,
    addresses: Vec<ListenPlace>,
    root: RootWatch,
    front: Front,
    /// Bell of the keeper, if workers share a table of descriptors.
    keeper: Option<Bell>,
    errors: ErrorLog,
    access: Arc<AccessLog>,
    /// `None`: no admin process is wanted.
    admin: Option<Admin>,
}

impl Prepared {
    /// Forks a worker, or the keeper that forks the workers.
    fn start(&mut self, worker: usize) -> io::Result<Child> {
        if self.has_keeper() {
            return self.start_keeper();
        }
        // New keys each time: shared keys would be shared weaknesses. Successive keepers begin with
        // the same random state, so their numbers are hashed with it.
        let random = || RandomState::new().hash_one((process::id(), worker));
        self.env.site.seed = random();
        self.env.site.boundary_key = u128::from(random()) << 64 | u128::from(random());
        let Self { env, architecture, errors, .. } = &*self;
        let slot = env.first_slot(worker);
        slot.engage();
        // The worker begins with the root of this process.
        slot.set_root_generation(self.root.generation());
        let worker_life = || {
            if self.is_keeper() {
                self.errors.is_of_shared_table();
            } else {
                self.make_access_log(worker);
            }
            if !self.is_keeper()
                && let Err(code) =
                    self.become_confined(format_args!("worker {worker}"), worker == 0)
            {
                return code;
            }
            front::enter(worker);
            hook::inject_as_told();
            hook::probe(env.arena.view().server_pid());
            // Ends its first wait at once: its first heartbeat marks the beginning.
            env.bells[worker].ring();
            work(env, architecture, worker, errors)
        };
        if self.is_keeper() {
            return clone_worker(worker_life);
        }
        let mut keep: Vec<BorrowedFd<'_>> = env.listeners(worker).iter().map(AsFd::as_fd).collect();
        keep.extend(env.root.all().map(AsFd::as_fd));
        keep.extend(env.bells_of(worker).map(AsFd::as_fd));
        keep.push(env.root_channels[worker].as_fd());
        let logs: Vec<_> = self.logs().collect();
        keep.extend(logs.iter().map(AsFd::as_fd));
        fork_worker(&keep, worker_life)
    }

    /// Makes the access log, if it is missing, in a child that has not changed its user: the master
    /// would wait for its disk.
    fn make_access_log(&self, worker: usize) {
        if let Err(fault) = self.access.make() {
            let name = self.name(worker);
            let what = format_args!("{name} cannot log: {fault}");
            self.errors.note(messages::ACCESS_LOG_NOT_MADE, what);
        }
    }

    /// Has all workers, and the keeper, check their control words.
    fn ring(&self) {
        self.env.bells.iter().chain(&self.keeper).for_each(Bell::ring);
    }

    /// Logs that children inherit.
    fn logs(&self) -> impl Iterator<Item = Arc<LogFile>> {
        [self.access.inherited(), self.errors.inherited()].into_iter().flatten()
    }
}

/// Runs a worker; the code to exit with.
fn work(env: &Env, architecture: &Architecture, worker: usize, errors: &ErrorLog) -> i32 {
    env.releases.build_kept();
    match (architecture.driver.work)(env, worker) {
        Ok(()) => 0,
        Err(why) => {
            errors.note(messages::WORKER_CANNOT_WORK, format_args!("worker {worker}: {why}"));
            EXIT_CANNOT_WORK
        }
    }
}

/// Keys of the master's poller: children by number, signals, the keeper's bell, the lookup of the
/// root, the admin process.
const SIGNALS: u64 = u64::MAX;
const TOLD: u64 = u64::MAX - 1;
const LOOKUP: u64 = u64::MAX - 2;
const ADMIN: u64 = u64::MAX - 3;

/// Master or keeper: each has children that it starts and outlives.
struct Master<'a> {
    /// `None` in the keeper.
    signals: Option<Signals>,
    generations: Option<Generations>,
    poller: Poll,
    prepared: &'a mut Prepared,
    staff: Staff,
    children: Vec<Option<Child>>,
    /// Number of the first workers whose beginning is awaited.
    awaited: usize,
    /// Next sweep: descriptors of a dead worker may still be open in the shared table.
    unswept: Option<Resweep>,
    full: Full,
    watch: Watch,
    monitors: Monitors,
    varied: Option<Varied>,
}

impl<'a> Master<'a> {
    /// Creates the state. `signals`: the master's signals and generations; a bell notifies the
    /// keeper.
    fn new(
        signals: Option<(Signals, Generations)>,
        prepared: &'a mut Prepared,
    ) -> io::Result<Self> {
        let (signals, generations) = signals.unzip();
        let mut poller = Poll::new();
        let Env { settings, sockets, .. } = &prepared.env;
        let drain_ms_max = settings.number("server.drain_ms_max");
        let now = clock::now().tick;
        let (posts, leave_ms_max) = match prepared.has_keeper() {
            true => (1, KEEPER_LEAVE_MS_MAX),
            false => (prepared.workers, LEAVE_MS_MAX),
        };
        let mut staff = Staff::new(posts, drain_ms_max, now).leaving_within(leave_ms_max);
        let mut awaited = prepared.workers;
        if let Some(staffing) = (prepared.architecture.driver.staffing)(settings) {
            let returning = prepared.env.arena.departed().gauge(Gauge::ConnectionsOpen);
            let returning = usize::try_from(returning).unwrap_or(usize::MAX);
            staff = staff.staffed(staffing, sockets.len(), returning);
            awaited = staff.wanted();
        }
        let varied = Varied::new(prepared, now);
        if let Some(varied) = &varied {
            staff = staff.varied(varied.rules().processes_min);
            awaited = staff.wanted();
        }
        if let Some(signals) = &signals {
            poller.add(signals.as_fd(), SIGNALS, Interest::READ)?;
            generations.iter().try_for_each(|generations| generations.watch(&mut poller))?;
        } else if let Some(bell) = &prepared.keeper {
            poller.add(bell.as_fd(), TOLD, Interest::READ)?;
            // The master checks them.
            awaited = 0;
        }
        let children = (0..posts).map(|_| None).collect();
        let (full, unswept) = (Full::default(), None);
        let watch = Watch::new(now);
        let monitors = Monitors::new(prepared, now);
        Ok(Self {
            signals,
            generations,
            poller,
            prepared,
            staff,
            children,
            awaited,
            unswept,
            full,
            watch,
            monitors,
            varied,
        })
    }

    fn run(&mut self) -> io::Result<Ending> {
        self.orders()?;
        let mut events: Vec<Event> = Vec::new();
        loop {
            if self.staff.is_hopeless() && self.prepared.is_keeper() {
                // The workers end with the keeper, and the master learns why.
                return Ok(Ending::CannotWork);
            }
            if self.staff.is_hopeless()
                && let Some(order) = self.staff.stop(clock::now().tick)
            {
                self.follow(order)?;
            }
            if let Some(ending) = self.ending() {
                return Ok(ending);
            }
            if let Some(generations) = &mut self.generations {
                generations.errands.watch(&mut self.poller)?;
            }
            let now = clock::now().tick;
            let wake_at = self.staff.wake_at().min(self.prepared.root.look_at());
            let wake_at = wake_at.min(self.monitors.wake_at(now)).min(self.watch.wake_at());
            let wake_at =
                wake_at.min(self.generations.as_ref().map_or(Tick::NEVER, Generations::wake_at));
            let wake_at = self.varied.as_ref().map_or(wake_at, |of| wake_at.min(of.wake_at()));
            let wake_at = self.unswept.map_or(wake_at, |again| wake_at.min(again.at));
            let wake_at = if self.awaited > 0 { wake_at.min(now.after(BEGIN_MS)) } else { wake_at };
            let wait_ms = wake_at.since(now).saturating_add(CLOCK_LATE_MS_MAX).min(LOOK_MS);
            self.poller.wait(&mut events, Some(Duration::from_millis(wait_ms)))?;
            if self.prepared.is_keeper() {
                let control = self.prepared.env.arena.control();
                control.set_heartbeat_ms(Attendant::Keeper, clock::now().tick.0);
            }
            // The master reports this for all.
            if !self.prepared.is_keeper()
                && let Some(line) = self.full.line(&self.prepared.env, clock::now().tick)
            {
                self.note(messages::WORKER_FULL, format_args!("a worker is full: {line}"));
            }
            for event in &events {
                match event.key {
                    SIGNALS => self.read_signals()?,
                    TOLD => self.follow_master(),
                    LOOKUP => self.on_scouts()?,
                    ADMIN => self.reap_admin()?,
                    TRIAL => self.on_trial_exit()?,
                    FINDINGS => self.take_findings()?,
                    key if key & ERRAND != 0 => self.on_errand_exit(key)?,
                    key if key & OLD != 0 => self.reap_old(key)?,
                    worker => self.reap(usize::try_from(worker).unwrap_or(usize::MAX))?,
                }
            }
            self.sweep_again();
            self.look_at_beginners()?;
            self.check_children();
            self.check_generations()?;
            self.orders()?;
        }
    }

    fn sweep_again(&mut self) {
        let now = clock::now().tick;
        let due = self.unswept.filter(|again| again.at <= now);
        if let (Some(again), Some(shared)) = (due, &self.prepared.env.shared) {
            let later = shared.crew.sweep() == SweepOutcome::Later;
            self.unswept = later.then(|| again.later(now));
        }
    }

    /// End of the server, if no worker of any generation is left.
    fn ending(&self) -> Option<Ending> {
        let ending = self.staff.ending()?;
        let has_old = self.generations.as_ref().is_some_and(Generations::has_old);
        let ending = match &self.generations {
            Some(generations) if generations.gave_up => Ending::CannotWork,
            Some(generations) if generations.told_at.is_some() => Ending::Told,
            _ => ending,
        };
        (!has_old).then_some(ending)
    }

    /// Follows all orders that are due.
    fn orders(&mut self) -> io::Result<()> {
        self.look_at_root()?;
        self.vary()?;
        let env = &self.prepared.env;
        let is_idle = |worker| {
            let slot = env.first_slot(worker);
            !slot.is_retired() && slot.gauge(Gauge::ConnectionsOpen) == 0
        };
        for order in self.staff.pass(clock::now().tick, is_idle) {
            self.follow(order)?;
        }
        while let Some(order) = self.staff.due(clock::now().tick) {
            self.follow(order)?;
        }
        self.attend_monitors()
    }

    /// Lists all children of this process.
    fn family(&self) -> Vec<Watched<'_>> {
        let Prepared { env, root, .. } = &*self.prepared;
        let is_single = self.prepared.is_keeper();
        let keeper_ms = env.arena.control().heartbeat_ms(Attendant::Keeper);
        let has_keeper = self.prepared.has_keeper();
        let mut all: Vec<Watched<'_>> = Vec::new();
        for (at, child) in self.children.iter().enumerate() {
            let Some(child) = child else { continue };
            all.push(match has_keeper {
                true => Watched::new(Role::Keeper, child).beating(keeper_ms),
                false => Watched::worker(Role::Worker(at), child, &env.first_slot(at), is_single),
            });
        }
        let admin_ms = env.arena.control().heartbeat_ms(Attendant::Admin);
        let admin = self.monitors.child.iter();
        all.extend(admin.map(|child| Watched::new(Role::Admin, child).beating(admin_ms)));
        all.extend(root.children().map(|child| Watched::new(Role::Scout, child)));
        all.extend(self.generations.iter().flat_map(Generations::family));
        all
    }

    /// Checks whether all children run, and kills hopeless ones.
    fn check_children(&mut self) {
        let now = clock::now().tick;
        if !self.watch.is_due(now) {
            return;
        }
        let disk_ms_max = self.prepared.env.settings.number("limits.disk_ms_max");
        let mut watch = mem::take(&mut self.watch);
        let findings = watch.check(&self.family(), now, disk_ms_max);
        self.watch = watch;
        for finding in &findings {
            let kills = finding.is_hopeless && self.may_kill(finding.role);
            finding.note(&self.prepared.errors, kills);
            if kills {
                self.kill(finding.pid);
            }
        }
        // The master and a keeper divide this work: each knows its own children.
        let workers = self.children.iter().flatten().count();
        if self.prepared.is_keeper()
            && let Some(ms) = all_silent(&findings, workers, disk_ms_max)
        {
            self.replace_all(ms, &findings);
        }
    }

    /// Kills all workers: they wait for each other.
    fn replace_all(&mut self, silent_ms: u64, findings: &[Finding]) {
        let mut any = false;
        for finding in findings {
            if self.may_kill(finding.role) {
                self.kill(finding.pid);
                any = true;
            }
        }
        if any {
            self.note(
                messages::WORKERS_ALL_KILLED,
                format_args!(
                    "no worker has answered for {silent_ms} ms, and all processes are killed: \
                     others take their places"
                ),
            );
        }
    }

    /// True if killing a child in this role helps: it is not leaving anyway.
    fn may_kill(&mut self, role: Role) -> bool {
        match role {
            Role::Worker(worker) => self.staff.silent(worker),
            Role::Keeper => self.staff.silent(0),
            Role::Old { leaves, .. } => leaves,
            Role::Admin | Role::Scout | Role::Trial | Role::Errand => true,
        }
    }

    fn kill(&self, pid: u32) {
        if let Some(watched) = self.family().iter().find(|watched| watched.child.pid() == pid) {
            // It may have ended meanwhile.
            let _ = watched.child.kill(signal::Signal::Kill);
        }
    }

    /// Looks up the roots' paths, if it is time.
    fn look_at_root(&mut self) -> io::Result<()> {
        let (Prepared { root, env, user, .. }, now) = (&mut self.prepared, clock::now().tick);
        if now < root.look_at() {
            return Ok(());
        }
        let away = root.scouts().is_some();
        let reports = root.check_paths(env, user.as_ref(), now);
        if !away && let Some(scouts) = root.scouts() {
            self.poller.add(scouts, LOOKUP, Interest::READ)?;
        }
        reports.into_iter().try_for_each(|report| self.handle(report))
    }

    /// Handles reports of scouts, which look up roots.
    fn on_scouts(&mut self) -> io::Result<()> {
        let Prepared { root, env, .. } = &mut self.prepared;
        let reports = root.hear(env, clock::now().tick);
        if let Some(bell) = &self.prepared.keeper {
            bell.ring();
        }
        reports.into_iter().try_for_each(|report| self.handle(report))
    }

    fn handle(&mut self, report: Report) -> io::Result<()> {
        match report {
            Report::Notice(text) => self.note(messages::ROOT_CHANGED, format_args!("{text}")),
            Report::Warning(text) => self.note(messages::ROOT_FAULT, format_args!("{text}")),
            Report::OutOfReach(text) => {
                self.note(messages::ROOT_OUT_OF_REACH, format_args!("{text}"));
                let limit = self.prepared.root.reload_limit();
                self.generations.iter_mut().for_each(|all| all.root_reload = limit);
                // The next workers confine themselves to the new root.
                self.happened(Happened::Asked(Kind::Root))?;
            }
        }
        Ok(())
    }

    /// Announces the server once all awaited workers have begun: each has had a heartbeat.
    fn look_at_beginners(&mut self) -> io::Result<()> {
        let env = &self.prepared.env;
        let has_begun = |worker| env.first_slot(worker).heartbeat_ms() != 0;
        if self.awaited == 0 || !(0..self.awaited).all(has_begun) {
            return Ok(());
        }
        self.awaited = 0;
        if env.arena.control().phase() != Phase::Run {
            // The workers are to end, which has been reported.
            return Ok(());
        }
        // A request that arrived meanwhile begins with the next line, and reports so.
        self.tell_ready();
        self.happened(Happened::AllReady)?;
        let known =
            |place: &Place| self.generations.as_ref().is_some_and(|all| all.is_known(place));
        announce(self.prepared.addresses.iter().filter(|listen| !known(&listen.place)));
        Ok(())
    }

    /// Reads pending signals.
    fn read_signals(&mut self) -> io::Result<()> {
        while let Some(received) = self.signals.as_ref().map_or(Ok(None), Signals::read)? {
            let signal = match received {
                ReceivedSignal::Known(signal::Signal::Terminate) => MasterSignal::Terminate,
                ReceivedSignal::Known(signal::Signal::Interrupt) => MasterSignal::Interrupt,
                ReceivedSignal::Known(signal::Signal::Quit) => MasterSignal::Quit,
                ReceivedSignal::Known(signal::Signal::Hangup) => {
                    self.happened(Happened::Asked(Kind::Reload))?;
                    continue;
                }
                ReceivedSignal::Known(signal::Signal::User2) => {
                    self.happened(Happened::Asked(Kind::Upgrade))?;
                    continue;
                }
                ReceivedSignal::Known(signal::Signal::User1) => MasterSignal::ReopenLogs,
                ReceivedSignal::Known(signal::Signal::Child | signal::Signal::Kill)
                | ReceivedSignal::Other(_) => {
                    let what = format_args!("{received} has no meaning here and was ignored");
                    self.note(messages::SIGNAL_IGNORED, what);
                    continue;
                }
            };
            match self.staff.signal(signal, clock::now().tick) {
                Some(order) => self.follow(order)?,
                // Workers of this image are leaving already.
                None if self.generations.as_ref().is_some_and(Generations::is_waiting) => {
                    self.end_waiting()?;
                }
                None => {}
            }
        }
        Ok(())
    }

    fn follow(&mut self, order: MasterAction) -> io::Result<()> {
        let control = self.prepared.env.arena.control();
        match order {
            MasterAction::Start(worker) => self.start(worker)?,
            MasterAction::Drain(deadline) => {
                let ms = self.prepared.env.settings.number("server.drain_ms_max");
                self.note(messages::DRAINING, format_args!("draining, for {ms} ms at most"));
                self.tell_manager(Message::Stopping);
                control.drain(deadline.0);
                if let Some(generations) = &mut self.generations {
                    generations.drop_own(&self.prepared.env.sockets)?;
                }
                self.happened(Happened::Stop)?;
            }
            MasterAction::Stop => {
                self.tell_manager(Message::Stopping);
                control.stop();
                self.happened(Happened::Stop)?;
                self.generations.iter_mut().for_each(Generations::stop_old);
            }
            MasterAction::Retire(worker) => self.prepared.env.first_slot(worker).retire(),
            MasterAction::TellFull => self.note(
                messages::WORKERS_ALL_BUSY,
                format_args!(
                    "few of {} workers are idle, and no more may start: new clients may wait; \
                     raise limits.connections_max, or lower limits.idle_ms_max",
                    self.children.len()
                ),
            ),
            MasterAction::Kill(worker) => {
                let name = self.prepared.name(worker);
                let what = format_args!("{name} did not end in time: killed");
                self.note(messages::WORKER_LATE, what);
                if let Some(child) = &self.children[worker] {
                    // It may have ended meanwhile.
                    let _ = child.kill(signal::Signal::Kill);
                }
            }
            MasterAction::ReopenLogs => {
                self.generations.iter_mut().for_each(Generations::reopen_logs);
                return Ok(());
            }
        }
        self.prepared.ring();
        Ok(())
    }

    fn start(&mut self, worker: usize) -> io::Result<()> {
        let now = clock::now().tick;
        match self.prepared.start(worker) {
            Ok(child) => {
                if let Some(shared) = &self.prepared.env.shared {
                    shared.crew.keep(child.as_fd());
                }
                self.poller.add(child.as_fd(), worker as u64, Interest::READ)?;
                self.children[worker] = Some(child);
                self.staff.started(worker, now);
            }
            Err(error) => {
                let wait = self.staff.gone(worker, Gone::Crashed, now);
                let wait = wait.unwrap_or_default();
                let name = self.prepared.name(worker);
                let what = format_args!("cannot start {name}: {error}; next attempt in {wait} ms");
                self.note(messages::WORKER_NOT_STARTED, what);
            }
        }
        Ok(())
    }

    fn reap(&mut self, worker: usize) -> io::Result<()> {
        let Some(child) = &self.children[worker] else { return Ok(()) };
        let Some(exit) = child.try_wait()? else { return Ok(()) };
        let pid = child.pid();
        self.poller.remove(child.as_fd())?;
        let Some(child) = self.children[worker].take() else { return Ok(()) };
        if self.prepared.is_keeper() {
            // It may have left by order of the master, which the keeper has not read yet.
            self.follow_master();
        }
        let shared = self.prepared.env.shared.as_ref();
        let ended = if self.prepared.has_keeper() {
            // The kernel killed its workers before it reported its end.
            0..self.prepared.workers
        } else {
            worker..worker + 1
        };
        let env = &self.prepared.env;
        // Blocking threads may have a connection until the process ends.
        let closed = match exit {
            Exit::Code(0) => Counter::ClosedDrained,
            _ => Counter::ClosedWorkerDied,
        };
        self.prepared.front.release_clients(ended.clone());
        for share in &env.shares[ended] {
            let slots: Vec<Slot<'_>> = share.slots.clone().map(|at| env.arena.slot(at)).collect();
            Slot::settle(&slots, closed, shared.is_some());
        }
        if let Some(shared) = shared {
            if shared.crew.bury(worker, &child) == SweepOutcome::Later {
                self.unswept.get_or_insert_with(|| Resweep::first(clock::now().tick));
            }
            shared.crew.give_up(child.as_fd());
        }
        drop(child);
        let (how, what) = match exit {
            Exit::Code(0) if self.prepared.env.first_slot(worker).is_retired() => {
                (Gone::Retired, "retired".to_owned())
            }
            Exit::Code(0) => (Gone::Left, "exited".to_owned()),
            Exit::Code(code @ (EXIT_CANNOT_WORK | regatta_sys::process::EXIT_UNSTARTED)) => {
                (Gone::Failed, format!("cannot work (exit code {code})"))
            }
            exit => (Gone::Crashed, exit.to_string()),
        };
        let wait = self.staff.gone(worker, how, clock::now().tick);
        if matches!(how, Gone::Failed | Gone::Crashed) {
            self.happened(Happened::NewFailed)?;
        }
        let name = self.prepared.name(worker);
        match (wait, how) {
            (Some(ms), _) => self.note(
                messages::WORKER_REPLACED,
                format_args!("{name} (process {pid}) {what}; replaced in {ms} ms"),
            ),
            (None, Gone::Left | Gone::Retired) => {}
            (None, Gone::Failed | Gone::Crashed) => {
                self.note(messages::WORKER_LOST, format_args!("{name} (process {pid}) {what}"));
            }
        }
        Ok(())
    }

    fn note(&self, message: &messages::Message, text: fmt::Arguments<'_>) {
        self.prepared.errors.note(message, text);
    }
}
