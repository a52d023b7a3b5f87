//! Preparations before the first worker is forked.
use super::{
    Prepared,
    admin::Admin,
    confine::Confinement,
    generations::Generations,
    sockets::{addresses, sockets, tell_given},
};
use crate::{
    Failure, WorkFault,
    config::{allowance::listed, check::Config, raw::Problem, release::Wanted},
    findings::Handed,
    first_use::{self, FirstUse},
    front::Front,
    listing::{Builders, Listings},
    log::{
        self, AccessLog, AccessLogOptions, ErrorLog, Format, LOGS, LogDestination, LogFault, Owner,
        SKIP_KEY, SkippedPaths,
    },
    machine::Found,
    messages,
    root::{Folder, OpenedRoots, RootWatch},
    site::Builder,
    ticket_keys,
    tls::TlsFront,
};
use regatta_arch::{
    Env, FolderLister, Units, drive::film, layout::ListenPlace, options::Settings,
    releases::Releases, shared::SharedState,
};
use regatta_metrics::{Arena, Film};
use regatta_origin::{BodyFiles, Deriver, ListenerClass, Site, TagFacts};
use regatta_sys::{
    Bell, OpenRules, StaticFile, clock,
    crew::NUMBERS_MAX,
    limits,
    process::{Exit, User, end, fork_worker, set_user},
    shm::{self, SharedWords},
    simulated_disk::{self, Model},
    socket::Place,
};
use std::{
    fs::File,
    io, mem,
    os::fd::OwnedFd,
    path::Path,
    process,
    sync::{Arc, OnceLock},
};

/// The purpose of the preparation.
#[derive(Debug)]
pub(super) enum Purpose {
    /// Nothing is changed that others see.
    Try,
    /// To serve, with what a trial has found.
    Serve(Option<Handed>),
}

impl Purpose {
    /// Splits into directories that workers may read, if a trial has found them, and the opener of
    /// the logs.
    fn split(self) -> (Option<Vec<Folder>>, Opened) {
        match self {
            Self::Try => (None, Opened::None),
            Self::Serve(None) => (None, Opened::Here),
            Self::Serve(Some(Handed { reach, error_log })) => (reach, Opened::Handed(error_log)),
        }
    }
}

/// Share of the limit on descriptors for files of streams that wait, one in this many.
const BODY_FILES_SHARE: u64 = 8;

/// The files that streams of a worker may keep open while they wait.
fn body_files(settings: &Settings, workers: usize) -> BodyFiles {
    let sharers = SharedState::is_wanted(settings).then_some(workers);
    BodyFiles::new(body_files_max(limits::descriptors().soft, sharers))
}

/// The files that streams of a worker may keep open while they wait, by this limit on descriptors.
/// Processes that share one table of descriptors, `sharers`, share them out; that table has an end
/// of its own.
fn body_files_max(limit: u64, sharers: Option<usize>) -> u32 {
    let each = match sharers {
        Some(workers) => limit.min(NUMBERS_MAX as u64) / workers as u64,
        None => limit,
    };
    u32::try_from(each / BODY_FILES_SHARE).unwrap_or(u32::MAX)
}

/// Prepares everything.
pub(super) fn prepare(
    mut config: Config,
    found: Found,
    generations: &mut Generations,
    purpose: Purpose,
) -> Result<Prepared, Failure> {
    let tries = matches!(purpose, Purpose::Try);
    let (handed, opened) = purpose.split();
    let (settings, workers) = (config.settings().clone(), config.layout.shares.len());
    let (shared, arena) = counters(&config, generations, tries)
        .map_err(Failure::system("cannot make the shared counters"))?;
    let (bells, keeper) =
        bells(&settings, workers).map_err(Failure::system("cannot make bells"))?;
    let (access, errors) = logs(&config, arena, found.user.as_ref(), opened)?;
    if !tries {
        (generations.access, generations.errors) = (Some(Arc::clone(&access)), errors.clone());
        log_start(&config, found.user.as_ref(), &errors);
        simulate(&settings, &errors).map_err(Failure::system("cannot simulate a disk"))?;
    }
    let (asked, sockets, addresses) = listen(&mut config, &found, generations, &errors, tries)?;
    let admin = Admin::new(&config, &errors, generations, tries)?;
    let (opener, log_errors) = (Arc::clone(&access), errors.clone());
    let (deriver, lister) = (deriver(&config), lister(&config));
    let (wanted, builder, site) = sites(&mut config, &found, &addresses);
    let (hosts, build) = (wanted.len(), Arc::clone(&builder));
    let build = move |host: usize, change: u64, text: &[u8]| build.build(host, change, text);
    let front = front(&mut config, &found, workers, generations, &errors)?;
    // The keeper's is last, if there is one.
    let takers = workers + usize::from(keeper.is_some());
    let releases = found.releases;
    let roots = OpenedRoots { root: &found.root, releases, wanted, builder, handed };
    let (root, root_channels) = RootWatch::new(&settings, roots, takers, generations.root_reload)
        .map_err(Failure::system("cannot make channels"))?;
    let env = Env {
        sockets,
        classes: config.layout.classes,
        shares: config.layout.shares,
        root: Arc::new(found.root),
        releases: Releases::new(hosts, Box::new(build)),
        root_channels,
        rules: OpenRules { symlinks: settings.flag("content.symlinks") },
        site,
        links: Box::new(front.clone()),
        files: Arc::new(body_files(&settings, workers)),
        deriver,
        lister,
        shared: None, // made by the keeper
        arena,
        bells,
        settings,
        open_log: Box::new(move |tally| {
            Box::new(opener.sink(tally, *arena.control(), log_errors.clone()))
        }),
        end_process: || end(0),
    };
    Ok(Prepared {
        confinement: Confinement::new(&env.settings),
        env,
        architecture: config.architecture,
        workers,
        user: found.user,
        shared,
        asked,
        addresses,
        root,
        front,
        keeper,
        errors,
        access,
        admin,
    })
}

/// Source of forms and digests, if a host has files compressed at their first use or tags of
/// content, and workers may have a thread for that.
fn deriver(config: &Config) -> Option<Arc<dyn Deriver<StaticFile>>> {
    let mut hosts = config.hosts.iter().map(|host| &host.content);
    let is_wanted = hosts.any(|content| content.compress || content.etag == TagFacts::Content);
    let obstacle = first_use::obstacle(config.settings(), config.architecture.driver);
    if !is_wanted || obstacle.is_some() {
        return None;
    }
    Some(Arc::new(FirstUse::new(config.layout.shares.len())))
}

/// Source of listings, if a host has them.
fn lister(config: &Config) -> Option<Arc<dyn FolderLister>> {
    let is_wanted = config.hosts.iter().any(|host| host.content.listing);
    // Workers that may have a thread for compression may have others.
    let forks = first_use::obstacle(config.settings(), config.architecture.driver).is_some();
    let builder = if forks { Builders::Children } else { Builders::Threads };
    let rules = OpenRules { symlinks: config.settings().flag("content.symlinks") };
    is_wanted.then(|| Arc::new(Listings::new(builder, rules)) as Arc<dyn FolderLister>)
}

/// Decisions about connections, and their encryption.
fn front(
    config: &mut Config,
    found: &Found,
    workers: usize,
    generations: &mut Generations,
    errors: &ErrorLog,
) -> Result<Front, Failure> {
    let parts = config.tls.take();
    let now = clock::now().tick;
    let Generations { tickets, clients, .. } = generations;
    let tickets = ticket_keys::prepare(&config.said, &found.tls, tickets, now, errors)?;
    let tls = TlsFront::new(config.settings(), parts, tickets)
        .map_err(|error| Failure::Work(WorkFault::Tls(error)))?;
    Front::new(config.settings(), workers, clients.as_ref(), tls)
}

/// The bells of the workers, and that of the keeper, if they share a table of descriptors.
fn bells(settings: &Settings, workers: usize) -> io::Result<(Vec<Bell>, Option<Bell>)> {
    let bells: io::Result<Vec<Bell>> = (0..workers).map(|_| Bell::new()).collect();
    Ok((bells?, SharedState::is_wanted(settings).then(Bell::new).transpose()?))
}

/// Configured address of each socket, the sockets, and their addresses.
type Listens = (Vec<String>, Vec<OwnedFd>, Vec<ListenPlace>);

fn listen(
    config: &mut Config,
    found: &Found,
    generations: &mut Generations,
    errors: &ErrorLog,
    tries: bool,
) -> Result<Listens, Failure> {
    let owner = found.socket_owner.as_ref();
    let (asked, sockets): (Vec<String>, Vec<OwnedFd>) =
        sockets(config, owner, generations, tries)?.into_iter().unzip();
    if tries {
        // A trial has no sockets at paths.
        return Ok((asked, sockets, Vec::new()));
    }
    tell_given(config, generations, errors);
    let addresses = addresses(&sockets, &config.layout.classes)
        .map_err(Failure::system("cannot tell the address"))?;
    Ok((asked, sockets, addresses))
}

/// Makes the names to look up below each root, the builder of sites, and the first sites.
fn sites(
    config: &mut Config,
    found: &Found,
    addresses: &[ListenPlace],
) -> (Vec<Wanted>, Arc<Builder>, Site) {
    let hosts = mem::take(&mut config.hosts);
    let wanted = Wanted::of_all(&config.plain, found.user.is_some());
    let (mut builder, rules) =
        Builder::new(config.settings(), &config.plain, hosts, &found.releases);
    let port_of_tls = |listen: &ListenPlace| match &listen.place {
        Place::Inet(address) if listen.class != ListenerClass::CLEAR => Some(address.port()),
        _ => None,
    };
    if let Some(port) = addresses.iter().find_map(port_of_tls) {
        builder.redirect_to(port);
    }
    let site = builder.first(rules, &found.releases);
    (wanted, Arc::new(builder), site)
}

/// Makes the memory of films, once for all generations of this process. Untouched memory costs
/// nothing; a server that gets none cannot be filmed.
fn keep_film() {
    static MEMORY: OnceLock<Option<SharedWords>> = OnceLock::new();
    let make = || shm::create_named(shm::FILM_NAME, Film::WORDS).ok();
    if let Some(memory) = MEMORY.get_or_init(make) {
        film::keep(memory.words());
    }
}

/// Makes the counters, which begin with the counts of earlier generations.
fn counters(
    config: &Config,
    generations: &mut Generations,
    tries: bool,
) -> io::Result<(SharedWords, Arena<'static>)> {
    keep_film();
    let slots = config.layout.slots();
    let shared = shm::create(Arena::count_words(slots))?;
    let arena = Arena::create(shared.words(), slots);
    arena.set_server(process::id(), generations.started_unix_ms, config.architecture.name);
    generations.fold(&arena);
    if !generations.given.is_empty() {
        arena.control().keep_listeners();
    }
    // Readers take the latest generation, so counts must precede it. They never take that of a
    // trial.
    arena.set_generation(if tries { 0 } else { generations.number });
    Ok((shared, arena))
}

/// Logs the chosen values, and warnings.
fn log_start(config: &Config, user: Option<&User>, errors: &ErrorLog) {
    let (name, chosen) = (config.architecture.name, listed(&config.chosen));
    errors.note(messages::SERVER_STARTS, format_args!("{name} starts with {chosen}"));
    for Problem { kind, place, message, hint } in config.warnings.iter().chain(&config.cut) {
        let hint = hint.as_deref().map_or_else(String::new, |hint| format!("; {hint}"));
        errors.note(kind, format_args!("{place}: {message}{hint}"));
    }
    if user.is_some_and(|user| user.uid == 0) {
        errors.note(
            messages::SERVES_AS_ROOT,
            format_args!(
                "serving as root: an attacker in a worker would control the machine; use --user"
            ),
        );
    }
}

/// The process that opens the logs.
#[derive(Debug)]
enum Opened {
    /// This process; it waits for their disk.
    Here,
    /// A trial, which made the logs; the error log, if it is a file.
    Handed(Option<File>),
    /// None does.
    None,
}

fn logs(
    config: &Config,
    arena: Arena<'static>,
    user: Option<&User>,
    opened: Opened,
) -> Result<(Arc<AccessLog>, ErrorLog), Failure> {
    let settings = config.settings();
    let to = |option| match opened {
        Opened::None => LogDestination::Off,
        Opened::Here | Opened::Handed(_) => LogDestination::from(settings.text(option)),
    };
    let owner = user.map(|user| Owner { uid: user.uid, gid: user.gid });
    let (destination, control) = (to("log.error"), Some(*arena.control()));
    let options = AccessLogOptions {
        destination: to("log.access"),
        format: Format::parse(settings.text("log.format")).unwrap_or_default(),
        // Faults were found where the configuration was read.
        skip: Arc::new(SkippedPaths::parse(settings.list(SKIP_KEY)).unwrap_or_default()),
        owner,
        stall_ns: settings.number("event.stall_us") * 1000,
        has_units: (config.architecture.driver.units)(settings) == Units::Several,
    };
    let tried = match (&opened, user) {
        // A trial has tried them.
        (Opened::Handed(_), _) | (_, None) => Ok(0),
        (Opened::Here | Opened::None, Some(user)) => unwritable(settings, user),
    };
    let (access, errors) = match opened {
        Opened::Handed(Some(file)) => {
            (AccessLog::adopt(options), ErrorLog::adopt(destination, owner, control, file))
        }
        Opened::Handed(None) => {
            (AccessLog::adopt(options), ErrorLog::open(destination, owner, control))
        }
        Opened::Here | Opened::None => {
            (AccessLog::open(options), ErrorLog::open(destination, owner, control))
        }
    };
    match (access, errors) {
        (Ok(access), Ok(errors)) => match tried {
            Ok(0) => Ok((Arc::new(access), errors)),
            Ok(which) => Err(Failure::Configuration(unwritten(config, which))),
            Err(error) => Err(Failure::system("cannot try the logs")(error)),
        },
        (access, errors) => {
            let faults = access.err().into_iter().chain(errors.err());
            let problem = |fault: LogFault| {
                let place = config.said.place(fault.option);
                Problem::new(messages::NOT_WRITABLE, place, fault.to_string())
            };
            let problems = faults.map(problem);
            Err(Failure::Configuration(problems.collect()))
        }
    }
}

/// Tests in a child, as the serving user, whether the logs can be opened. Returns a bit for each
/// that cannot.
fn unwritable(settings: &Settings, user: &User) -> io::Result<i32> {
    let try_them = || {
        if set_user(user).is_err() {
            // Each worker reports it.
            return 0;
        }
        let fails = |key| match LogDestination::from(settings.text(key)) {
            // A trial makes none.
            LogDestination::Path(path) if is_absent(&path) => false,
            LogDestination::Path(path) => log::try_opening(&path, None).is_err(),
            LogDestination::Off | LogDestination::Stderr => false,
        };
        (0..).zip(LOGS).map(|(bit, key)| i32::from(fails(key)) << bit).sum()
    };
    match fork_worker::<OwnedFd>(&[], try_them)?.wait()? {
        Exit::Code(which) => Ok(which & 3),
        Exit::Signal(_) => Ok(0),
    }
}

/// Whether no file is there, as far as this process may look.
fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn unwritten(config: &Config, which: i32) -> Vec<Problem> {
    let which = (0..).zip(LOGS).filter(|(bit, _)| which & 1 << bit != 0);
    let problem = |(_, key)| {
        let (path, user) = (config.settings().text(key), config.settings().text("server.user"));
        let problem = format!("{key}: user \"{user}\" may not open \"{path}\" for appending");
        let hint =
            format!("`chown {user} {path}`; and that user must be able to search its folder");
        Problem::new(messages::NOT_WRITABLE, config.said.place(key), problem).hint(hint)
    };
    which.map(problem).collect()
}

/// Gives the workers a simulated disk, if one is wanted.
fn simulate(settings: &Settings, errors: &ErrorLog) -> io::Result<()> {
    let heads: usize = settings.number_as("lab.disk_heads");
    let seek_us = settings.number("lab.disk_seek_us");
    let bandwidth = settings.number("lab.disk_bandwidth");
    if heads == 0 {
        return Ok(());
    }
    simulated_disk::install(Model { seek_us, bandwidth, heads })?;
    errors.note(
        messages::DISK_SIMULATED,
        format_args!(
            "the disk is simulated in process: lab.disk_heads = {heads}, lab.disk_seek_us = \
             {seek_us}, lab.disk_bandwidth = {bandwidth}"
        ),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_has_a_share_of_the_files_that_streams_keep() {
        let all = NUMBERS_MAX as u64;
        for (limit, sharers, expected) in [
            (1024, None, 128),
            (1024, Some(2), 64),
            (all, Some(4), 1 << 15),
            // A container may have no limit of its own, and a shared table has.
            (1 << 30, Some(4), 1 << 15),
            (1 << 30, None, 1 << 27),
            (u64::MAX, None, u32::MAX),
        ] {
            assert_eq!(body_files_max(limit, sharers), expected, "{limit} {sharers:?}");
        }
    }
}
