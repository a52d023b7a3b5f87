//! The master: one thread that prepares everything, forks the workers, and sees to it that they
//! live and leave.
mod keeper;

use crate::{
    Failure, announce,
    config::{
        check::Config,
        raw::{Location, Problem},
    },
    full::{Full, LOOK_MS},
    heartbeat::{Change, Heartbeats},
    log::{
        self, AccessLog, AccessLogOptions, Destination, ErrorLog, Format, Level, LogFile, Owner,
    },
    machine::RootAndUser,
    pid_file::PidFile,
    root::{Report, RootWatch},
    site,
    supervise::{Ending, Gone, LEAVE_MS_MAX, Order, Signal, Staff},
};
use regatta_arch::{
    Architecture, Env, Units, kit::accept::AcceptOptions, options::Settings, shared::SharedState,
};
use regatta_metrics::{Arena, Counter, Gauge, Slot};
use regatta_origin::ClearHttp1;
use regatta_sys::{
    Bell, OpenRules, clock,
    crew::Sweep,
    hook,
    process::{Child, Exit, User, clone_worker, end, fork_worker, set_user},
    shm::{self, SharedWords},
    signal::{self, Received, Signals},
    simulated_disk::{self, Model},
    socket::{self, ListenSpec},
    wait::{Event, Interest, Poll, Poller},
};
use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    io,
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    process,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What a worker exits with when it cannot work.
const EXIT_CANNOT_WORK: i32 = 1;

/// Added to a wait: the clock that deadlines are compared with is up to so late, milliseconds.
const CLOCK_LATE_MS_MAX: u64 = 4;

/// The option that names the file with the master's number.
const PID_FILE: &str = "server.pid_file";

/// The wait before another look for what a worker that has ended left open, milliseconds.
const SWEEP_MS: u64 = 20;

/// `TCP_DEFER_ACCEPT`: how long the kernel keeps a silent connection to itself, seconds.
const DEFER_ACCEPT_S: u32 = 10;

/// [`LEAVE_MS_MAX`] of a keeper, whose workers have that long, milliseconds.
const KEEPER_LEAVE_MS_MAX: u64 = 2 * LEAVE_MS_MAX;

/// Serves until told to stop.
///
/// # Errors
/// What is wrong with the configuration, or why serving failed.
pub(crate) fn run(config: Config, found: RootAndUser) -> Result<(), Failure> {
    // Before anything is forked: children inherit what is blocked.
    let signals = Signals::block_with_meaningless(&[
        signal::Signal::Terminate,
        signal::Signal::Interrupt,
        signal::Signal::Quit,
        signal::Signal::Hangup,
        signal::Signal::User1,
    ])
    .map_err(|error| Failure::Work(format!("cannot take signals: {error}")))?;
    signal::ignore_failed_writes();
    let pid_place = config.said.place(PID_FILE);
    let mut prepared = prepare(config, found)?;
    let pid_file = prepared.pid_file(pid_place)?;
    let ending = Master::new(Some(signals), &mut prepared).and_then(|mut master| master.run());
    drop(pid_file);
    match ending {
        Ok(Ending::Told) => Ok(()),
        Ok(Ending::CannotWork) => {
            Err(Failure::Work("a worker cannot work; the error log says why".to_owned()))
        }
        Err(error) => Err(Failure::Work(format!("the master cannot go on: {error}"))),
    }
}

/// Everything that workers share, ready.
struct Prepared {
    env: Env,
    architecture: &'static Architecture,
    workers: usize,
    user: Option<User>,
    /// Kept open: others find the counters by this descriptor.
    _shared: SharedWords,
    addresses: Vec<SocketAddr>,
    root: RootWatch,
    /// Each is rung by its worker once that is who it should be and about to serve.
    ready: Vec<Bell>,
    /// The keeper's, if workers are to share a table of descriptors.
    keeper: Option<Bell>,
    errors: ErrorLog,
    access: Arc<AccessLog>,
}

fn prepare(config: Config, found: RootAndUser) -> Result<Prepared, Failure> {
    let failed = |what: &str, error: io::Error| Failure::Work(format!("{what}: {error}"));
    let settings = config.settings().clone();
    let workers = config.layout.shares.len();
    let slots = config.layout.slots();
    let shared = shm::create(Arena::words(slots))
        .map_err(|error| failed("cannot make the shared counters", error))?;
    let arena = Arena::create(shared.words(), slots);
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let started_ms = u64::try_from(started.as_millis()).unwrap_or(0);
    arena.set_server(process::id(), started_ms, config.architecture.name);
    let bells = || {
        let bells: io::Result<Vec<Bell>> = (0..workers).map(|_| Bell::new()).collect();
        bells.map_err(|error| failed("cannot make bells", error))
    };
    let (bells, ready) = (bells()?, bells()?);
    let keeper = SharedState::is_wanted(&settings).then(Bell::new).transpose();
    let keeper = keeper.map_err(|error| failed("cannot make a bell", error))?;
    let (access, errors) = logs(&config, arena, found.user.as_ref())?;
    tell(&config, &errors);
    if found.user.as_ref().is_some_and(|user| user.uid == 0) {
        errors.note(
            Level::Warning,
            format_args!(
                "serving as root: an attacker in a worker would control the machine; use --user"
            ),
        );
    }
    simulate(&settings, &errors).map_err(|error| failed("cannot simulate a disk", error))?;
    let sockets = sockets(&config)?;
    let addresses =
        addresses(&sockets).map_err(|error| failed("cannot tell the address", error))?;
    let (opener, log_errors) = (Arc::clone(&access), errors.clone());
    let site = site::build(&settings, config.types);
    // The last is the keeper's, if there is one.
    let takers = workers + usize::from(keeper.is_some());
    let (root, root_channels) = RootWatch::new(settings.text("server.root").as_ref(), takers)
        .map_err(|error| failed("cannot make channels", error))?;
    let env = Env {
        sockets,
        shares: config.layout.shares,
        root: found.root,
        root_channels,
        rules: OpenRules { symlinks: settings.flag("content.symlinks") },
        site,
        links: Box::new(ClearHttp1),
        // Made by the keeper.
        shared: None,
        arena,
        bells,
        settings,
        open_log: Box::new(move |tally| {
            Box::new(opener.sink(tally, *arena.control(), log_errors.clone()))
        }),
        end_process: || end(0),
    };
    let (architecture, user) = (config.architecture, found.user);
    let _shared = shared;
    Ok(Prepared {
        env,
        architecture,
        workers,
        user,
        _shared,
        addresses,
        root,
        ready,
        keeper,
        errors,
        access,
    })
}

/// Says what nobody has set, and what may not have been meant.
fn tell(config: &Config, errors: &ErrorLog) {
    let chosen: Vec<String> = config.chosen.iter().map(ToString::to_string).collect();
    let (name, chosen) = (config.architecture.name, chosen.join(", "));
    errors.note(Level::Notice, format_args!("{name} starts with {chosen}"));
    for Problem { place, message, hint } in &config.warnings {
        let hint = hint.as_deref().map_or_else(String::new, |hint| format!("; {hint}"));
        errors.note(Level::Warning, format_args!("{place}: {message}{hint}"));
    }
}

fn logs(
    config: &Config,
    arena: Arena<'static>,
    user: Option<&User>,
) -> Result<(Arc<AccessLog>, ErrorLog), Failure> {
    let settings = config.settings();
    let owner = user.map(|user| Owner { uid: user.uid, gid: user.gid });
    let errors = ErrorLog::open(settings.text("log.error").into(), owner, Some(*arena.control()));
    let access = AccessLog::open(AccessLogOptions {
        destination: Destination::from(settings.text("log.access")),
        format: settings.text("log.format").parse().unwrap_or(Format::Combined),
        owner,
        stall_ns: settings.number("event.stall_us") * 1000,
        has_units: (config.architecture.driver.units)(settings) == Units::Several,
    });
    match (access, errors) {
        (Ok(access), Ok(errors)) => match user.map_or(Ok(0), |user| unwritable(settings, user)) {
            Ok(0) => Ok((Arc::new(access), errors)),
            Ok(which) => Err(Failure::Configuration(unwritten(config, which))),
            Err(error) => Err(Failure::Work(format!("cannot try the logs: {error}"))),
        },
        (access, errors) => {
            let faults = access.err().into_iter().chain(errors.err());
            let problems = faults
                .map(|fault| Problem::new(config.said.place(fault.option), fault.to_string()));
            Err(Failure::Configuration(problems.collect()))
        }
    }
}

/// The options that name logs; each has a bit.
const LOGS: [&str; 2] = ["log.access", "log.error"];

/// Tries, as the user that is to serve and in a process of its own, to open the logs: the bits of
/// those that cannot be.
fn unwritable(settings: &Settings, user: &User) -> io::Result<i32> {
    let try_them = || {
        if set_user(user).is_err() {
            // Each worker says so.
            return 0;
        }
        let fails = |key| match Destination::from(settings.text(key)) {
            Destination::Path(path) => log::try_opening(&path).is_err(),
            Destination::Off | Destination::Stderr => false,
        };
        (0..).zip(LOGS).map(|(bit, key)| i32::from(fails(key)) << bit).sum()
    };
    match fork_worker::<OwnedFd>(&[], try_them)?.wait()? {
        Exit::Code(which) => Ok(which & 3),
        Exit::Signal(_) => Ok(0),
    }
}

fn unwritten(config: &Config, which: i32) -> Vec<Problem> {
    let which = (0..).zip(LOGS).filter(|(bit, _)| which & 1 << bit != 0);
    let problem = |(_, key)| {
        let (path, user) = (config.settings().text(key), config.settings().text("server.user"));
        let problem = format!("{key}: user \"{user}\" may not open \"{path}\" for appending");
        let hint =
            format!("`chown {user} {path}`; and that user must be able to search its folder");
        Problem::new(config.said.place(key), problem).hint(hint)
    };
    which.map(problem).collect()
}

/// Gives the workers a disk that is simulated, if there is to be one.
fn simulate(settings: &Settings, errors: &ErrorLog) -> io::Result<()> {
    let heads: usize = settings.number_as("lab.disk_heads");
    let seek_us = settings.number("lab.disk_seek_us");
    let bandwidth = settings.number("lab.disk_bandwidth");
    if heads == 0 {
        return Ok(());
    }
    simulated_disk::install(Model { seek_us, bandwidth, heads })?;
    errors.note(
        Level::Warning,
        format_args!(
            "the disk is simulated in process: lab.disk_heads = {heads}, lab.disk_seek_us = \
             {seek_us}, lab.disk_bandwidth = {bandwidth}"
        ),
    );
    Ok(())
}

/// Makes the sockets. The master keeps all of them open for as long as it lives: connections that
/// wait for a worker of their own are not lost with it.
fn sockets(config: &Config) -> Result<Vec<OwnedFd>, Failure> {
    let mut sockets: Vec<OwnedFd> = Vec::new();
    let mut faults = Vec::new();
    for plan in &config.layout.sockets {
        let mut address = plan.address;
        let port_of = plan.port_of.and_then(|of| sockets.get(of));
        if let Some(Ok(known)) = port_of.map(|socket| socket::local_addr(socket.as_fd())) {
            address.set_port(known.port());
        }
        // Who shares a port shares it with the first of its own.
        let free = match plan.port_of {
            Some(_) => Ok(()),
            None => socket::is_free(address),
        };
        let spec = listen_spec(config, address, plan.reuse_port);
        match free.and_then(|()| socket::listen(&spec)) {
            Ok(listener) => sockets.push(listener),
            Err(error) => faults.push(listen_fault(&address, &error)),
        }
    }
    if !faults.is_empty() {
        faults.dedup();
        return Err(Failure::Work(faults.join("\n")));
    }
    for first in &config.layout.steered {
        socket::steer_by_cpu(sockets[*first].as_fd(), &config.layout.places).map_err(|error| {
            Failure::Work(format!("event.partition: cannot steer by processor: {error}"))
        })?;
    }
    Ok(sockets)
}

fn listen_spec(config: &Config, address: SocketAddr, reuse_port: bool) -> ListenSpec {
    let options = AcceptOptions::read(config.settings());
    ListenSpec {
        backlog: options.backlog,
        reuse_port,
        defer_accept_s: if options.defer { DEFER_ACCEPT_S } else { 0 },
        send_buffer_bytes: options.send_buffer_bytes,
        pacing_rate: options.pacing_rate,
        steps: (config.architecture.driver.steps)(config.settings()),
        ..ListenSpec::new(address)
    }
}

/// Where the sockets listen; an address that several share is there once.
fn addresses(sockets: &[OwnedFd]) -> io::Result<Vec<SocketAddr>> {
    let mut addresses = Vec::new();
    for socket in sockets {
        let address = socket::local_addr(socket.as_fd())?;
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(addresses)
}

pub(crate) fn listen_fault(address: &SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("another process has it: `ss -ltnp sport = :{port}` shows which")
        }
        io::ErrorKind::PermissionDenied => {
            "ports below net.ipv4.ip_unprivileged_port_start need root, or CAP_NET_BIND_SERVICE"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "this machine has no such address: `ip address` lists those it has".to_owned()
        }
        _ => return format!("cannot listen on {address}: {error}"),
    };
    format!("cannot listen on {address}: {error}\n  hint: {hint}")
}

impl Prepared {
    /// `place`: where it was said.
    fn pid_file(&self, place: Location) -> Result<Option<PidFile>, Failure> {
        let Some(path) = self.env.settings.path(PID_FILE) else { return Ok(None) };
        PidFile::write(path).map(Some).map_err(|error| {
            let message = format!("{PID_FILE}: cannot write \"{}\": {error}", path.display());
            Failure::Configuration(vec![Problem::new(place, message)])
        })
    }

    /// Forks a worker, or the keeper that forks the workers.
    fn start(&mut self, worker: usize) -> io::Result<Child> {
        if let Err(fault) = self.access.renew() {
            let name = self.name(worker);
            self.errors.note(Level::Warning, format_args!("{name} cannot log: {fault}"));
        }
        if self.has_keeper() {
            return self.start_keeper();
        }
        // New ones each time: workers that share them would also share their weaknesses. One keeper
        // after the other begins with the same keys, so its number is hashed with them.
        let random = || RandomState::new().hash_one((process::id(), worker));
        self.env.site.seed = random();
        self.env.site.boundary_key = u128::from(random()) << 64 | u128::from(random());
        let Self { env, architecture, ready, errors, .. } = &*self;
        let slot = env.first_slot(worker);
        slot.engage();
        // It begins with the root that this process has.
        slot.set_root_generation(self.root.generation());
        let worker_life = || {
            if !self.is_keeper()
                && let Err(code) = self.become_user(format_args!("worker {worker}"))
            {
                return code;
            }
            hook::inject_as_told();
            ready[worker].ring();
            work(env, architecture, worker, errors)
        };
        if self.is_keeper() {
            return clone_worker(worker_life);
        }
        let mut keep: Vec<BorrowedFd<'_>> = env.listeners(worker).iter().map(AsFd::as_fd).collect();
        keep.extend([env.root.as_fd(), env.root_channels[worker].as_fd()]);
        keep.extend([env.bells[worker].as_fd(), ready[worker].as_fd()]);
        let logs: Vec<_> = self.logs().collect();
        keep.extend(logs.iter().map(AsFd::as_fd));
        fork_worker(&keep, worker_life)
    }

    /// Makes `who`, which is this process, the user that serves; or the code to exit with.
    fn become_user(&self, who: fmt::Arguments<'_>) -> Result<(), i32> {
        self.user.as_ref().map_or(Ok(()), set_user).map_err(|error| {
            let name = self.env.settings.text("server.user");
            self.errors.note(Level::Error, format_args!("{who} cannot become {name}: {error}"));
            EXIT_CANNOT_WORK
        })
    }

    /// The logs that others inherit.
    fn logs(&self) -> impl Iterator<Item = Arc<LogFile>> {
        [self.access.inherited(), self.errors.inherited()].into_iter().flatten()
    }
}

/// What a worker does.
fn work(env: &Env, architecture: &Architecture, worker: usize, errors: &ErrorLog) -> i32 {
    match (architecture.driver.work)(env, worker) {
        Ok(()) => 0,
        Err(why) => {
            errors.note(Level::Error, format_args!("worker {worker}: {why}"));
            EXIT_CANNOT_WORK
        }
    }
}

/// Keys of the master's poller: children by number, their bells by number and this bit, signals,
/// the keeper's bell, the lookup of the root.
const READY: u64 = 1 << 32;
const SIGNALS: u64 = u64::MAX;
const TOLD: u64 = u64::MAX - 1;
const LOOKUP: u64 = u64::MAX - 2;

/// The master, and the keeper: each has children that it starts and outlives.
struct Master<'a> {
    /// `None` in the keeper.
    signals: Option<Signals>,
    poller: Poll,
    prepared: &'a mut Prepared,
    staff: Staff,
    children: Vec<Option<Child>>,
    /// Workers that have not said yet that they are ready.
    awaited: usize,
    /// Descriptors of a worker that has ended may still be open in the table that all share.
    unswept: bool,
    full: Full,
    heartbeats: Heartbeats,
}

impl<'a> Master<'a> {
    /// `signals`: those of the master; the keeper is told by its bell.
    fn new(signals: Option<Signals>, prepared: &'a mut Prepared) -> io::Result<Self> {
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
            staff = staff.staffed(staffing, sockets.len());
            awaited = staff.wanted();
        }
        if let Some(signals) = &signals {
            poller.add(signals.as_fd(), SIGNALS, Interest::READ)?;
            for (worker, bell) in prepared.ready.iter().enumerate().take(awaited) {
                poller.add(bell.as_fd(), READY | worker as u64, Interest::READ)?;
            }
        } else if let Some(bell) = &prepared.keeper {
            poller.add(bell.as_fd(), TOLD, Interest::READ)?;
        }
        let children = (0..posts).map(|_| None).collect();
        let (full, unswept) = (Full::default(), false);
        let heartbeats = Heartbeats::new(prepared.workers, now);
        Ok(Self { signals, poller, prepared, staff, children, awaited, unswept, full, heartbeats })
    }

    fn run(&mut self) -> io::Result<Ending> {
        self.orders()?;
        let mut events: Vec<Event> = Vec::new();
        loop {
            if self.staff.is_hopeless() && self.prepared.is_keeper() {
                // Its workers end with it, and the master learns why.
                return Ok(Ending::CannotWork);
            }
            if self.staff.is_hopeless()
                && let Some(order) = self.staff.stop(clock::now().tick)
            {
                self.follow(order)?;
            }
            if let Some(ending) = self.staff.ending() {
                return Ok(ending);
            }
            let now = clock::now().tick;
            let wake_at = self.staff.wake_at().min(self.prepared.root.look_at());
            let wake_at = if self.unswept { wake_at.min(now.after(SWEEP_MS)) } else { wake_at };
            let wait_ms = wake_at.since(now).saturating_add(CLOCK_LATE_MS_MAX).min(LOOK_MS);
            self.poller.wait(&mut events, Some(Duration::from_millis(wait_ms)))?;
            // The master says so for all.
            if !self.prepared.is_keeper()
                && let Some(line) = self.full.line(&self.prepared.env, clock::now().tick)
            {
                self.note(Level::Warning, format_args!("a worker is full: {line}"));
            }
            for event in &events {
                let worker = usize::try_from(event.key & !READY).unwrap_or(usize::MAX);
                match event.key {
                    SIGNALS => self.read_signals()?,
                    TOLD => self.follow_master(),
                    LOOKUP => self.on_lookup_exit()?,
                    key if key & READY != 0 => self.on_ready(worker)?,
                    _ => self.reap(worker)?,
                }
            }
            if self.unswept
                && let Some(shared) = &self.prepared.env.shared
            {
                self.unswept = shared.crew.sweep() == Sweep::Later;
            }
            self.check_heartbeats();
            self.orders()?;
        }
    }

    /// Follows all orders that time has brought.
    fn orders(&mut self) -> io::Result<()> {
        self.look_at_root()?;
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
        Ok(())
    }

    /// Looks whether all workers go on.
    fn check_heartbeats(&mut self) {
        let now = clock::now().tick;
        // Of a keeper's workers the keeper says so.
        if self.prepared.has_keeper() || !self.heartbeats.is_due(now) {
            return;
        }
        for (worker, child) in self.children.iter().enumerate() {
            let slot = self.prepared.env.first_slot(worker);
            let heartbeat_ms = child.as_ref().map(|_| slot.heartbeat_ms());
            let pid = child.as_ref().map_or(0, Child::pid);
            match self.heartbeats.check(worker, heartbeat_ms, now) {
                Some(Change::Silent(ms)) => self.note(
                    Level::Error,
                    format_args!(
                        "worker {worker} (process {pid}) has not answered for {ms} ms: it is \
                         stopped, or something that it waits for hangs"
                    ),
                ),
                Some(Change::Again(ms)) => self.note(
                    Level::Notice,
                    format_args!("worker {worker} (process {pid}) answers again after {ms} ms"),
                ),
                None => {}
            }
        }
    }

    /// Looks what the root's path names, if it is time to.
    fn look_at_root(&mut self) -> io::Result<()> {
        let (Prepared { root, env, user, .. }, now) = (&mut self.prepared, clock::now().tick);
        if now < root.look_at() {
            return Ok(());
        }
        let away = root.lookup().is_some();
        let report = root.look(env, user.as_ref(), now);
        if !away && let Some(lookup) = root.lookup() {
            self.poller.add(lookup, LOOKUP, Interest::READ)?;
        }
        self.tell(report);
        Ok(())
    }

    /// The lookup of the root has ended.
    fn on_lookup_exit(&mut self) -> io::Result<()> {
        let Prepared { root, env, .. } = &mut self.prepared;
        if let Some(lookup) = root.lookup() {
            self.poller.remove(lookup)?;
        }
        let report = root.hear(env);
        if let Some(bell) = &self.prepared.keeper {
            bell.ring();
        }
        self.tell(report);
        Ok(())
    }

    fn tell(&self, report: Option<Report>) {
        match report {
            Some(Report::Notice(text)) => self.note(Level::Notice, format_args!("root: {text}")),
            Some(Report::Warning(text)) => self.note(Level::Warning, format_args!("root: {text}")),
            None => {}
        }
    }

    /// A worker is ready. Once all are, the world may know.
    fn on_ready(&mut self, worker: usize) -> io::Result<()> {
        self.poller.remove(self.prepared.ready[worker].as_fd())?;
        self.awaited -= 1;
        if self.awaited == 0 {
            announce(&self.prepared.addresses);
        }
        Ok(())
    }

    /// Reads the signals that have come.
    fn read_signals(&mut self) -> io::Result<()> {
        while let Some(received) = self.signals.as_ref().map_or(Ok(None), Signals::read)? {
            let signal = match received {
                Received::Known(signal::Signal::Terminate) => Signal::Terminate,
                Received::Known(signal::Signal::Interrupt) => Signal::Interrupt,
                Received::Known(signal::Signal::Quit) => Signal::Quit,
                Received::Known(signal::Signal::Hangup) => Signal::Hangup,
                Received::Known(signal::Signal::User1) => Signal::ReopenLogs,
                Received::Known(signal::Signal::Child | signal::Signal::Kill)
                | Received::Other(_) => {
                    self.note(
                        Level::Warning,
                        format_args!("{received} has no meaning here and was ignored"),
                    );
                    continue;
                }
            };
            if let Some(order) = self.staff.signal(signal, clock::now().tick) {
                self.follow(order)?;
            }
        }
        Ok(())
    }

    fn follow(&mut self, order: Order) -> io::Result<()> {
        let control = self.prepared.env.arena.control();
        match order {
            Order::Start(worker) => self.start(worker)?,
            Order::Drain(deadline) => {
                let ms = self.prepared.env.settings.number("server.drain_ms_max");
                self.note(Level::Notice, format_args!("draining, for {ms} ms at most"));
                control.drain(deadline.0);
            }
            Order::Stop => control.stop(),
            Order::Retire(worker) => self.prepared.env.first_slot(worker).retire(),
            Order::TellFull => self.note(
                Level::Warning,
                format_args!(
                    "too few workers are idle, and there are as many as there may be: clients may \
                     have to wait; raise limits.connections_max, or lower limits.idle_ms_max"
                ),
            ),
            Order::Kill(worker) => {
                let name = self.prepared.name(worker);
                self.note(Level::Warning, format_args!("{name} did not end in time: killed"));
                if let Some(child) = &self.children[worker] {
                    // It may have ended meanwhile.
                    let _ = child.kill(signal::Signal::Kill);
                }
            }
            Order::ReopenLogs => {
                if let Err(fault) = self.prepared.access.renew() {
                    self.note(
                        Level::Warning,
                        format_args!("still logging to the old file: {fault}"),
                    );
                }
                self.prepared.errors.make();
                control.reopen_logs();
                self.prepared.errors.tick();
            }
            Order::LookAtRoot => self.prepared.root.ask(),
        }
        for bell in self.prepared.env.bells.iter().chain(&self.prepared.keeper) {
            bell.ring();
        }
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
                self.note(
                    Level::Error,
                    format_args!("cannot start {name}: {error}; next attempt in {wait} ms"),
                );
            }
        }
        Ok(())
    }

    fn reap(&mut self, worker: usize) -> io::Result<()> {
        let Some(child) = &self.children[worker] else { return Ok(()) };
        let Some(exit) = child.try_wait()? else { return Ok(()) };
        let pid = child.pid();
        self.poller.remove(child.as_fd())?;
        let shared = self.prepared.env.shared.as_ref();
        if let Some(shared) = shared {
            shared.crew.give_up(child.as_fd());
        }
        self.children[worker] = None;
        let ended = if self.prepared.has_keeper() {
            // The kernel has killed its workers before it told of its end.
            0..self.prepared.workers
        } else {
            worker..worker + 1
        };
        let env = &self.prepared.env;
        // Threads that block may have a connection until the process ends.
        let closed = match exit {
            Exit::Code(0) => Counter::ClosedDrained,
            _ => Counter::ClosedWorkerDied,
        };
        for share in &env.shares[ended] {
            let slots: Vec<Slot<'_>> = share.slots.clone().map(|at| env.arena.slot(at)).collect();
            Slot::settle(&slots, closed, shared.is_some());
        }
        if let Some(shared) = shared {
            self.unswept |= shared.crew.bury(worker) == Sweep::Later;
        }
        let (how, what) = match exit {
            Exit::Code(0) if self.prepared.env.first_slot(worker).is_retired() => {
                (Gone::Retired, "retired".to_owned())
            }
            Exit::Code(0) => (Gone::Left, "exited".to_owned()),
            Exit::Code(code @ (EXIT_CANNOT_WORK | regatta_sys::process::EXIT_UNSTARTED)) => {
                (Gone::Failed, format!("cannot work (exit code {code})"))
            }
            Exit::Code(code) => (Gone::Crashed, format!("exited with code {code}")),
            Exit::Signal(signal) => (Gone::Crashed, format!("was killed by signal {signal}")),
        };
        let wait = self.staff.gone(worker, how, clock::now().tick);
        let name = self.prepared.name(worker);
        match (wait, how) {
            (Some(ms), _) => self.note(
                Level::Error,
                format_args!("{name} (process {pid}) {what}; replaced in {ms} ms"),
            ),
            (None, Gone::Left | Gone::Retired) => {}
            (None, Gone::Failed | Gone::Crashed) => {
                self.note(Level::Error, format_args!("{name} (process {pid}) {what}"));
            }
        }
        Ok(())
    }

    fn note(&self, level: Level, message: fmt::Arguments<'_>) {
        self.prepared.errors.note(level, message);
    }
}
