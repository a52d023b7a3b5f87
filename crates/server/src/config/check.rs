//! Interpretation of settings as addresses, rules and limits, or a list of all faults.
use crate::{
    config::{
        address::{
            Place, addresses, no_address, permissions, place, tls_port, trusted, uncertified,
            untrusted,
        },
        allowance::{self, Allowance, Chosen},
        demand::{Demanding, small_stacks},
        environment::{Environment, PORT},
        error_pages,
        hosts::{self, Findings, HostConfig},
        nested,
        raw::{Location, Problem, Said},
        release::Release,
        rules_files, unused,
    },
    first_use,
    listens::{self, TlsParts},
    log::{SKIP_KEY, SkippedPaths},
    media, messages,
};
use regatta_arch::{
    Architecture,
    architectures::event,
    layout::{Layout, ListenPlace},
    options::{Settings, Value, listed_addresses},
    shared::SharedState,
};

/// Descriptors of a worker other than connections, the cache and the roots of further hosts:
/// listeners, logs, the poller, standard streams, and a reserve.
pub const DESCRIPTORS_RESERVED: u64 = 64;

/// Descriptors of each process in a shared table: its poller, bells, log, root, the channel for
/// another root, and the master's handle of it.
const DESCRIPTORS_PER_PROCESS: u64 = 11;

/// Descriptors of the master for each worker: a bell, both ends of the channel for another root, a
/// handle of the process, and a spare.
const DESCRIPTORS_PER_WORKER: u64 = 5;

/// Descriptors of each further scheduler of user threads, or event loop: its poller, and two bells.
const DESCRIPTORS_PER_SCHEDULER: u64 = 3;

/// Descriptors of a pipeline for each listener, from which a thread of its own may accept: a poller
/// and a bell.
const DESCRIPTORS_PER_LISTENER: u64 = 2;

const LISTEN_KEY: &str = "server.listen";
const CONNECTIONS_KEY: &str = "limits.connections_max";
const CACHE_KEY: &str = "cache.descriptors_max";

/// Share of the limit on descriptors for the cache, one in this many, unless configured.
const CACHE_SHARE: u64 = 4;

/// Configuration with its meaning.
#[derive(Debug)]
pub struct Config {
    /// Effective value of every option, and its place.
    pub said: Said,
    /// Addresses to listen on, in the order of the configuration.
    pub listen: Vec<ListenPlace>,
    /// Parts of encrypted connections, once their files have been read.
    pub(crate) tls: Option<TlsParts>,
    /// Address of the admin process; `None`: there is none.
    pub(crate) admin: Option<Place>,
    /// Architecture that serves.
    pub architecture: &'static Architecture,
    /// Content of each host, by number.
    pub hosts: Vec<HostConfig>,
    /// Sockets, and the share of each worker.
    pub layout: Layout,
    /// Values that were left open, and have been chosen.
    pub chosen: Vec<Chosen>,
    /// Warnings: allowed, and perhaps not meant.
    pub warnings: Vec<Problem>,
    /// Rules that are left out, because a table would exceed its limits: errors of `check`. A
    /// server warns, and serves without them.
    pub cut: Vec<Problem>,
    /// Problems in files with rules, each with the number of its host.
    pub faults: Vec<(usize, Problem)>,
    /// Configuration without the rules in files.
    pub plain: Said,
}

impl Config {
    /// Effective value of every option.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.said.settings
    }
}

/// Interprets a configuration, with the rules found at the roots, and chooses what was left open,
/// within the allowance.
///
/// All faults, and the configuration; nothing outside the process is read, except for host names.
#[expect(clippy::result_large_err, reason = "returned once, when a configuration is read")]
pub fn understand(
    said: Said,
    releases: &[Release],
    allowance: &Allowance,
) -> Result<Config, (Said, Vec<Problem>)> {
    let (mut said, plain, mut problems) = (said.clone(), said, Vec::new());
    let mut faults = add_rules(&mut said, releases);
    let inherited = said.inherit_rules();
    let listen = addresses(&said, &mut problems);
    uncertified(&said, &mut problems);
    trusted(&said, &mut problems);
    permissions(&said, &mut problems);
    let admin = admin(&said, &mut problems);
    values(&said, &mut problems);
    let mut chosen = Vec::from_iter(allowance::clear_bodies(&mut said));
    let mut warnings = Vec::new();
    warnings.extend(admin.as_ref().and_then(|place| exposed(&said, place)));
    warnings.extend(untrusted(&said, &listen));
    let mut found = Findings { problems, warnings, ..Findings::default() };
    let mut hosts = hosts::understand(&said, &inherited, content, &mut found);
    faults.extend(found.faults);
    let Findings { mut problems, mut warnings, cut, .. } = found;
    warnings.extend(nested::roots(&said, &hosts));
    // An unknown architecture has been reported where it was read.
    let architecture = regatta_arch::find(said.settings.text("server.architecture"));
    warnings.extend(architecture.map_or_else(Vec::new, |it| unused::warnings(&said, it)));
    let layout = architecture.and_then(|architecture| {
        chosen.extend(allowance::schedulers(&mut said, architecture, allowance));
        chosen.extend(processes(&mut said, architecture, allowance));
        let layout = layout(&said, architecture, &listen, allowance, &mut problems)?;
        Some((architecture, layout))
    });
    let layout = layout.map(|(architecture, mut layout)| {
        let workers = layout.shares.len();
        chosen.extend(allowance::workers(&said, architecture, allowance, &layout));
        let (cache, warning) = allowance::cache(&mut said, allowance, workers);
        chosen.extend(cache);
        warnings.extend(warning);
        let (limits, workers) = (&allowance.threads, workers as u64);
        let demanding = Demanding { architecture, workers, limits };
        let limit = allowance.descriptors_max;
        layout.share_connections(connections(
            &mut said,
            limit,
            demanding,
            &mut chosen,
            &mut problems,
        ));
        chosen.extend(allowance::list_named(&said, architecture));
        forgo_first_use(&said, architecture, &mut hosts);
        (architecture, layout)
    });
    match layout {
        Some((architecture, layout)) if problems.is_empty() => {
            let of = Config {
                said,
                listen,
                tls: None,
                admin,
                architecture,
                hosts,
                layout,
                chosen,
                warnings,
                cut,
                faults,
                plain,
            };
            Ok(of)
        }
        _ => {
            problems.extend(faults.into_iter().map(|(_, problem)| problem));
            Err((said, problems))
        }
    }
}

/// Turns off what is made of files after their first use, if workers cannot make it.
fn forgo_first_use(said: &Said, architecture: &Architecture, hosts: &mut [HostConfig]) {
    if first_use::obstacle(&said.settings, architecture.driver).is_some() {
        hosts.iter_mut().for_each(HostConfig::forgo_first_use);
    }
}

/// Adds the rules found at the roots; returns their faults, by host.
fn add_rules(said: &mut Said, releases: &[Release]) -> Vec<(usize, Problem)> {
    let mut faults = Vec::new();
    for (at, release) in releases.iter().enumerate() {
        let of_host = match at {
            0 => Some(&mut *said),
            _ => said.hosts.get_mut(at - 1),
        };
        let found = of_host.map(|said| rules_files::add(release, said)).unwrap_or_default();
        faults.extend(found.into_iter().map(|problem| (at, problem)));
    }
    faults
}

/// Listens at given sockets, unless addresses are configured. Those with TLS are named as such.
pub(crate) fn given(said: &mut Said, given: &[Place]) -> Option<Chosen> {
    let wanted = !given.is_empty() && !said.is_said(LISTEN_KEY);
    wanted.then(|| {
        let encrypted = |text: &String| {
            listens::LISTENS[1..].iter().any(|(key, _)| said.settings.list(key).contains(text))
        };
        let mut places: Vec<String> = given.iter().map(ToString::to_string).collect();
        places.retain(|text| !encrypted(text));
        let (value, from) = (places.join(","), "given by the service manager".to_owned());
        said.choose(LISTEN_KEY, Value::List(places));
        Chosen { key: LISTEN_KEY, value, from }
    })
}

/// Listens at the address of the variable `PORT`, unless addresses are configured. A faulty
/// variable matters only there.
pub(crate) fn port(said: &mut Said, environment: &Environment) -> Result<Option<Chosen>, Problem> {
    let Some(address) = environment.port() else { return Ok(None) };
    if listens::LISTENS.iter().any(|(key, _)| said.is_said(key)) {
        return Ok(None);
    }
    let value = address.map_err(|text| {
        let message = format!("\"{}\" is not a port from 1 to 65535", text.escape_debug());
        Problem::new(messages::BAD_ADDRESS, Location::Variable(PORT.to_owned()), message)
            .hint("correct it, or set server.listen, which has precedence")
    })?;
    said.choose(LISTEN_KEY, Value::List(vec![value.clone()]));
    Ok(Some(Chosen { key: LISTEN_KEY, value, from: format!("{PORT} in the environment") }))
}

/// Descriptors of every process that are for neither connections nor the cache.
const fn reserved(said: &Said) -> u64 {
    DESCRIPTORS_RESERVED + said.hosts.len() as u64
}

/// Number of workers that the master has descriptors for.
const fn workers_max(said: &Said, limit: u64) -> u64 {
    limit.saturating_sub(reserved(said)) / DESCRIPTORS_PER_WORKER
}

/// Chooses the number of connections where each has a process. An architecture's name stands for no
/// more than the master has room for.
fn processes(
    said: &mut Said,
    architecture: &Architecture,
    allowance: &Allowance,
) -> Option<Chosen> {
    let (processors, _) = allowance.processors();
    let limit = allowance.descriptors_max;
    let (named, most) = (said.settings.number(CONNECTIONS_KEY), workers_max(said, limit).max(1));
    let processes = (architecture.driver.processes)(&said.settings, processors);
    let fits = processes as u64 <= most || named <= most || said.is_said(CONNECTIONS_KEY);
    (!fits).then(|| {
        said.choose(CONNECTIONS_KEY, Value::Number(most));
        let from = format!("RLIMIT_NOFILE {limit}");
        Chosen { key: CONNECTIONS_KEY, value: most.to_string(), from }
    })
}

/// Lays out the workers, whose stacks must be large enough.
fn layout(
    said: &Said,
    architecture: &Architecture,
    listen: &[ListenPlace],
    allowance: &Allowance,
    problems: &mut Vec<Problem>,
) -> Option<Layout> {
    let has_tls = listens::is_wanted(&said.settings);
    problems.extend(small_stacks(said, architecture, has_tls));
    let (processors, _) = allowance.processors();
    let (driver, cpus) = (architecture.driver, &allowance.cpus);
    let planned = Layout::plan(driver, &said.settings, listen, cpus, processors);
    planned
        .map_err(|fault| {
            let key = listens::fault_key(&fault);
            problems.push(said.problem(messages::OPTIONS_CONFLICT, key, &fault.message))
        })
        .ok()
}

const ADMIN_KEY: &str = "admin.listen";

fn admin(said: &Said, problems: &mut Vec<Problem>) -> Option<Place> {
    let text = said.settings.text(ADMIN_KEY);
    if text.is_empty() {
        return None;
    }
    place(text).map_err(|fault| problems.push(no_address(said, ADMIN_KEY, text, fault))).ok()
}

/// Warns if other machines can read the counters.
fn exposed(said: &Said, place: &Place) -> Option<Problem> {
    let is_open = matches!(place, Place::Inet(address) if !address.ip().is_loopback());
    is_open.then(|| {
        let message = format!("{ADMIN_KEY}: other machines can read the counters at {place}");
        said.problem(messages::ADMIN_EXPOSED, ADMIN_KEY, &message)
            .hint("as in 127.0.0.1:9090, or unix:/run/regatta/admin")
    })
}

fn content(said: &Said, problems: &mut Vec<Problem>) {
    for name in said.settings.list("content.index") {
        if name.contains('/') || matches!(name.as_str(), "." | "..") {
            let found = said.problem(
                messages::BAD_VALUE,
                "content.index",
                &format!("\"{name}\" is not a file name"),
            );
            problems.push(found.hint("it is looked up in the requested directory"));
        }
    }
    for key in ["content.fallback", "content.not_found"] {
        let path = said.settings.text(key);
        let bad = |segment: &str| matches!(segment, "" | "." | "..");
        if !path.is_empty() && path.split('/').any(bad) {
            let found = said.problem(
                messages::BAD_VALUE,
                key,
                &format!("\"{path}\" is not a path below the root"),
            );
            problems.push(found.hint("as in errors/404.html, without a slash at either end"));
        }
    }
    error_pages::list_pages(said, problems);
    let charset = said.settings.text("content.charset");
    if !charset.is_empty() && !media::is_token(charset) {
        let message = format!("\"{charset}\" is not the name of a charset");
        problems.push(said.problem(messages::BAD_VALUE, "content.charset", &message));
    }
    for key in
        ["content.cache_control_page", "content.cache_control_asset", "content.cache_control_other"]
    {
        let value = said.settings.text(key);
        if !value.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
            problems.push(said.problem(
                messages::BAD_VALUE,
                key,
                "a field value has only visible ASCII characters",
            ));
        }
    }
}

fn limits(said: &Said, problems: &mut Vec<Problem>) {
    let number = |key| said.settings.number(key);
    let (target, head) = (number("limits.target_bytes_max"), number("limits.head_bytes_max"));
    if target >= head {
        let message = format!(
            "a target of {target} bytes does not fit a head of limits.head_bytes_max = {head}"
        );
        problems.push(said.problem(
            messages::OPTIONS_CONFLICT,
            "limits.target_bytes_max",
            &message,
        ));
    }
}

/// Finds faulty values, and values that contradict each other.
fn values(said: &Said, problems: &mut Vec<Problem>) {
    limits(said, problems);
    skipped(said, problems);
    server_name(said, problems);
    transport(said, problems);
}

/// Finds a faulty pattern of paths that are not logged.
fn skipped(said: &Said, problems: &mut Vec<Problem>) {
    if let Err(fault) = SkippedPaths::parse(said.settings.list(SKIP_KEY)) {
        let problem = said.problem(messages::BAD_VALUE, SKIP_KEY, &fault.to_string());
        problems.push(problem.hint("as in /healthz or /assets/**"));
    }
}

/// Longest value of the field `Server`, bytes.
const SERVER_NAME_BYTES_MAX: usize = 64;

/// Finds a faulty value of the field `Server`.
fn server_name(said: &Said, problems: &mut Vec<Problem>) {
    let name = said.settings.text("server.name");
    let allowed = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
    let is_trimmed = name.trim_ascii() == name && !name.is_empty();
    if !is_trimmed || name.len() > SERVER_NAME_BYTES_MAX || !name.bytes().all(allowed) {
        let message = format!("\"{}\" cannot be the value of a field", name.escape_debug());
        let problem = said.problem(messages::BAD_VALUE, "server.name", &message);
        problems.push(problem.hint("visible ASCII characters, at most 64; none leaves it out"));
    }
}

const REDIRECT_KEY: &str = "tls.redirect";
const HSTS_KEY: &str = "tls.hsts_s";

/// Finds rules for connections in the clear that no address with TLS meets.
fn transport(said: &Said, problems: &mut Vec<Problem>) {
    let redirects = said.settings.flag(REDIRECT_KEY);
    if redirects && tls_port(&said.settings).is_none() {
        let message = "there is no address with TLS to redirect to";
        let found = said.problem(messages::OPTIONS_CONFLICT, REDIRECT_KEY, message);
        problems.push(found.hint("list one in tls.listen, as in 0.0.0.0:443"));
    }
    let seconds = said.settings.number(HSTS_KEY);
    if seconds > 0 && !listens::is_wanted(&said.settings) {
        let message = format!("{seconds} seconds: there is no address with TLS");
        let found = said.problem(messages::OPTIONS_CONFLICT, HSTS_KEY, &message);
        problems.push(found.hint("list one in tls.listen, or set it to 0"));
    } else if seconds > 0 && !redirects && !said.settings.list(LISTEN_KEY).is_empty() {
        let message = format!("{seconds} seconds: {LISTEN_KEY} serves files in the clear");
        let found = said.problem(messages::OPTIONS_CONFLICT, HSTS_KEY, &message);
        problems.push(found.hint("set tls.redirect = true, or server.listen = []"));
    }
}

/// Tables of descriptors: each worker has its own, or all share one.
#[derive(Clone, Copy)]
struct Tables {
    /// Descriptors of each.
    limit: u64,
    count: u64,
    /// Descriptors of each that are for neither connections nor the cache.
    reserved: u64,
}

impl Tables {
    fn new(said: &Said, limit: u64, demanding: Demanding<'_>) -> Self {
        let Demanding { architecture, workers, .. } = demanding;
        let settings = &said.settings;
        let own = (architecture.driver.demand)(settings, 0).descriptors;
        let reserved = reserved(said) + own;
        if SharedState::is_wanted(settings) {
            let reserved = reserved + workers * DESCRIPTORS_PER_PROCESS;
            return Self { limit, count: 1, reserved };
        }
        let more = |key| match architecture.driver.takes(key) {
            true => settings.number(key).saturating_sub(1),
            false => 0,
        };
        let further = more("fiber.schedulers") + more("coloured.loops");
        let listeners = match architecture.driver.is_pipeline {
            true => listed_addresses(settings) as u64,
            false => 0,
        };
        // Bells of the other workers.
        let bells = if event::is_exclusive(settings) { workers.saturating_sub(1) } else { 0 };
        let further = further * DESCRIPTORS_PER_SCHEDULER;
        let reserved = reserved + further + listeners * DESCRIPTORS_PER_LISTENER + bells;
        Self { limit, count: workers, reserved }
    }
}

/// Divides the descriptors of a worker between connections and the cache. Returns the number of
/// connections of all workers together, limited by the room for their threads.
fn connections(
    said: &mut Said,
    limit: u64,
    demanding: Demanding<'_>,
    chosen: &mut Vec<Chosen>,
    problems: &mut Vec<Problem>,
) -> usize {
    let workers = demanding.workers;
    let mut from = format!("RLIMIT_NOFILE {limit}");
    let mut choose = |key, value: u64, from: &str| {
        chosen.push(Chosen { key, value: value.to_string(), from: from.to_owned() });
    };
    let tables = Tables::new(said, limit, demanding);
    let room = limit.saturating_sub(tables.reserved);
    let mut cache = match said.settings.flag("cache.enabled") {
        true => said.settings.number(CACHE_KEY),
        false => 0,
    };
    if !said.is_said(CACHE_KEY) {
        cache = cache.min(room / CACHE_SHARE);
        said.choose(CACHE_KEY, Value::Number(cache));
        choose(CACHE_KEY, cache, &from);
    }
    let free = room.saturating_sub(cache);
    let mut most = free.saturating_mul(tables.count);
    if let Some((fewer, why)) = demanding.room(&said.settings, most) {
        (most, from) = (fewer, why);
    }
    let named = said.settings.number(CONNECTIONS_KEY);
    let mut wanted = named;
    if !said.is_said(CONNECTIONS_KEY) {
        // The value that an architecture's name sets is capped at the room.
        wanted = wanted.min(most);
        said.choose(CONNECTIONS_KEY, Value::Number(wanted));
    }
    let total = if wanted == 0 { most } else { wanted };
    if wanted == 0 || wanted < named {
        choose(CONNECTIONS_KEY, total, &from);
    }
    let each = total.div_ceil(tables.count);
    if let Some(problem) = demanding.problem(said, total, CONNECTIONS_KEY) {
        problems.push(problem);
    } else if each == 0 || each > free {
        problems.push(no_room(said, tables, [each, cache]));
    } else if total < workers {
        let message = format!("{total} connections cannot be split among {workers} workers");
        problems.push(said.problem(messages::OPTIONS_CONFLICT, CONNECTIONS_KEY, &message));
    } else if workers > workers_max(said, limit) {
        let message = format!(
            "the master of {workers} workers needs {DESCRIPTORS_PER_WORKER} descriptors for each, \
             and the limit of {limit} (RLIMIT_NOFILE), of which {} are reserved, has room for {}",
            reserved(said),
            workers_max(said, limit)
        );
        let hint = "raise the limit (ulimit -n, LimitNOFILE=), or have fewer workers";
        problems.push(
            said.problem(messages::LIMIT_EXCEEDED, "server.architecture", &message).hint(hint),
        );
    }
    usize::try_from(total).unwrap_or(usize::MAX)
}

/// Fault of connections, open files and reserve that exceed the limit: the responsible option, and
/// advice.
fn no_room(said: &Said, tables: Tables, [each, cache]: [u64; 2]) -> Problem {
    let Tables { limit, count, reserved } = tables;
    let room = limit.saturating_sub(reserved);
    let share = if count > 1 { format!(" in each of {count} workers") } else { String::new() };
    let within = format!(
        "the limit of {limit} descriptors (RLIMIT_NOFILE), of which {reserved} are reserved"
    );
    let raise = "raise the limit (ulimit -n, LimitNOFILE=)";
    let (key, message, lower) = if said.is_said(CACHE_KEY) && cache >= room {
        (CACHE_KEY, format!("{cache} open files leave no room for connections within"), CACHE_KEY)
    } else if each == 0 {
        (CONNECTIONS_KEY, "there is no room for a connection within".to_owned(), "")
    } else if said.is_said(CACHE_KEY) {
        let place = said.place(CACHE_KEY);
        let both = format!("{each} connections{share} beside {cache} open files ({place}) exceed");
        (CONNECTIONS_KEY, both, "this or cache.descriptors_max")
    } else {
        let both = format!("{each} connections{share} beside {cache} open files exceed");
        (CONNECTIONS_KEY, both, CONNECTIONS_KEY)
    };
    let hint =
        if lower.is_empty() { raise.to_owned() } else { format!("{raise}, or lower {lower}") };
    said.problem(messages::LIMIT_EXCEEDED, key, &format!("{message} {within}")).hint(hint)
}

#[cfg(test)]
pub(super) mod tests;
