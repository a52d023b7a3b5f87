//! The server program: configuration, master, logs, explain, top.
#![forbid(unsafe_code)]

mod admin;
pub mod architectures;
mod certificates;
mod codings;
pub mod config;
pub mod config_text;
pub mod development;
mod expiry;
pub mod explain;
pub mod film;
mod findings;
mod first_use;
#[cfg(test)]
use regatta_testkit::folder;
mod front;
mod full;
mod given;
pub mod handover;
mod heartbeat;
pub mod idle;
mod listens;
mod listing;
pub mod log;
pub mod machine;
mod master;
pub mod media;
pub mod messages;
mod notify;
pub mod password;
mod pid_file;
pub mod precompress;
pub mod refusals;
mod root;
mod scout;
pub mod site;
pub mod succession;
pub mod supervise;
pub mod ticket_keys;
mod tls;
pub mod top;
mod waits;

pub use admin::show_page;
use architectures::UnknownArchitecture;
use certificates::{Encrypted, Untimely};
use config::{
    allowance::{Allowance, Chosen},
    check::{self, Config},
    environment::Environment,
    options,
    raw::{self, Arguments, FileText, Location, Problem, Said},
    release::{Release, Wanted},
};
use config_text::{ConfigFault, ConfigText};
use development::DevelopmentFault;
use film::FilmFault;
use given::GivenFault;
use handover::HandoverError;
use log::LogFault;
use machine::Found;
use refusals::RefusedReload;
use regatta_arch::layout::ListenPlace;
use regatta_origin::ListenerClass;
use regatta_sys::{exec, limits, socket::Place};
use std::{
    fmt,
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};
use top::FindError;

/// Failure of a command.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong: exit code 2.
    Configuration(Vec<Problem>),
    /// The command line is wrong: exit code 2.
    Usage(UsageFault),
    /// The work failed: exit code 1.
    Work(WorkFault),
}

impl Failure {
    /// Maps an error of the system to the work that it ended, as in `cannot take signals`.
    pub fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |error| Self::Work(WorkFault::System(what, error))
    }
}

/// Sources of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Sources<'a> {
    /// The file or directory that `--config` names.
    pub file: Option<&'a Path>,
    /// The rest of the command line.
    pub arguments: Arguments,
    /// Variables for values in files.
    pub environment: Environment,
    /// Text of the configuration, if it has been read before.
    pub text: Option<ConfigText>,
    /// Addresses of sockets from the service manager: the server listens there unless configured.
    pub given: Vec<Place>,
}

/// Serves until told to stop. `inherit`: the descriptor of the handover from an earlier image of
/// this process.
///
/// Faults of the configuration, or the reason why serving failed.
pub fn serve(sources: &Sources<'_>, inherit: Option<i32>) -> Result<(), Failure> {
    proc_is_there()?;
    // A program executed by /proc/self/exe would have the name `exe`.
    exec::name_process(c"regatta").map_err(Failure::system("cannot name the process"))?;
    // Raised before the fork: workers inherit it.
    limits::raise_descriptors().map_err(Failure::system("cannot raise RLIMIT_NOFILE"))?;
    master::run(sources, inherit)
}

/// Prints the effective configuration, with every option written out.
///
/// Faults of the configuration. Nothing outside the process is read, except for host names.
pub fn print_config(sources: &Sources<'_>) -> Result<String, Failure> {
    let (said, problems) = read_configuration(sources);
    match understand(sources, (said, problems), &[]) {
        Ok(config) => {
            let variables = config.said.print_variables();
            let gap = if variables.is_empty() { "" } else { "\n" };
            let settings = options::print(config.settings());
            Ok(format!("{variables}{gap}{settings}{}", config.said.print_rows()))
        }
        Err((_, problems)) => Err(Failure::Configuration(problems)),
    }
}

/// Configuration without a fault.
#[derive(Debug)]
pub struct Checked {
    /// Summary of what would be served, in a line.
    pub summary: String,
    /// Values that were left open, and would be chosen.
    pub chosen: Vec<Chosen>,
    /// Warnings: allowed, and perhaps not meant.
    pub warnings: Vec<Problem>,
}

/// Finds all faults of a configuration, and starts nothing.
///
/// All faults.
pub fn check(sources: &Sources<'_>) -> Result<Checked, Failure> {
    proc_is_there()?;
    let mut problems = Vec::new();
    let (found, understood) = interpret(sources);
    let (good, said) = match understood {
        Ok(config) => {
            let summary = summary(&config);
            let Config { chosen, mut warnings, cut, said, faults, .. } = config;
            problems.extend(cut);
            problems.extend(faults.into_iter().map(|(_, problem)| problem));
            warnings.extend(precompress::stale(&said));
            (Some(Checked { summary, chosen, warnings }), said)
        }
        Err((said, wrong)) => {
            problems.extend(wrong);
            (None, said)
        }
    };
    let mut warnings = Vec::new();
    match found {
        Ok(found) => {
            problems.extend(found.problems(&said));
            let encrypted = found.encrypt(&said, Untimely::Refused(&[]));
            problems.extend(encrypted.problems);
            problems.extend(ticket_keys::problems(&said, &found.tls));
            warnings = encrypted.warnings;
        }
        Err(faults) => problems.extend(faults),
    }
    problems.extend(machine::writable(&said));
    match good {
        Some(mut checked) if problems.is_empty() => {
            checked.warnings.extend(warnings);
            Ok(checked)
        }
        _ => Err(Failure::Configuration(problems)),
    }
}

/// Requires `/proc`: a fork must know that there is one thread, and standard error is reopened
/// there.
fn proc_is_there() -> Result<(), Failure> {
    if Path::new("/proc/self/fd").exists() {
        return Ok(());
    }
    Err(Failure::Work(WorkFault::NoProc))
}

fn summary(config: &Config) -> String {
    let workers = config.layout.shares.len();
    let address = |listen: &ListenPlace| match listen.class {
        ListenerClass::CLEAR => listen.place.to_string(),
        _ => format!("{}{}", listens::scheme(listen), listen.place),
    };
    let listen: Vec<String> = config.listen.iter().map(address).collect();
    let hosts = match config.said.hosts.len() {
        0 => String::new(),
        1 => " and one further host".to_owned(),
        hosts => format!(" and {hosts} further hosts"),
    };
    let files = match config.said.has_root() {
        true => format!("\"{}\"", config.said.root().display()),
        false => "rules without a root".to_owned(),
    };
    format!(
        "nothing is wrong: {} with {workers} worker{} would serve {files}{hosts} on {}",
        config.architecture.name,
        if workers == 1 { "" } else { "s" },
        listen.join(", "),
    )
}

/// Formats the result of [`check`] for people: the summary, and a line for each chosen value.
#[must_use]
pub fn check_text(checked: &Checked) -> String {
    let chosen: String = checked.chosen.iter().map(|chosen| format!("  {chosen}\n")).collect();
    format!("{}\n{chosen}", checked.summary)
}

/// Formats the result of [`check`] for programs: one JSON object.
#[must_use]
pub fn check_json(found: Result<&Checked, &[Problem]>) -> String {
    let list = |problems: &[Problem]| problems.iter().map(Problem::json).collect::<Vec<_>>();
    let chosen = |chosen: &Chosen| {
        let Chosen { key, value, from } = chosen;
        serde_json::json!({"key": key, "value": value, "from": from})
    };
    let (good, problems) = match found {
        Ok(checked) => (Some(checked), &[][..]),
        Err(problems) => (None, problems),
    };
    let object = serde_json::json!({
        "ok": good.is_some(),
        "problems": list(problems),
        "warnings": list(good.map_or(&[], |checked| &checked.warnings)),
        "chosen": good.map_or(&[][..], |checked| &checked.chosen).iter().map(chosen)
            .collect::<Vec<_>>(),
    });
    format!("{object:#}\n")
}

/// Interprets a configuration and checks that the machine meets its demands. Faults below a root
/// are warnings.
fn examine(sources: &Sources<'_>) -> Result<(Config, Found), Failure> {
    let (found, understood) = interpret(sources);
    join(found, understood)
}

/// Likewise for a server, which needs its certificates.
fn examine_server(
    sources: &Sources<'_>,
    untimely: Untimely<'_>,
) -> Result<(Config, Found), Failure> {
    let (found, understood) = interpret(sources);
    join_encrypted(found, understood, untimely)
}

/// Likewise, with findings of a trial, which has judged the certificates: reads nothing outside the
/// process but host names.
fn examine_found(sources: &Sources<'_>, found: Found) -> Result<(Config, Found), Failure> {
    let understood = understand(sources, read_configuration(sources), &found.releases);
    join_encrypted(Ok(found), understood, Untimely::Served)
}

fn join_encrypted(
    found: Result<Found, Vec<Problem>>,
    understood: Understood,
    untimely: Untimely<'_>,
) -> Result<(Config, Found), Failure> {
    let said = match &understood {
        Ok(config) => &config.said,
        Err((said, _)) => said,
    };
    let encrypt = |found: &Found| found.encrypt(said, untimely);
    let encrypted = found.as_ref().map_or_else(|_| Encrypted::default(), encrypt);
    let Encrypted { parts, problems, warnings } = encrypted;
    match join(found, understood) {
        Ok((mut config, found)) if problems.is_empty() => {
            config.warnings.extend(warnings);
            config.tls = parts;
            Ok((config, found))
        }
        Ok(_) => Err(Failure::Configuration(problems)),
        Err(Failure::Configuration(mut all)) => {
            all.extend(problems);
            Err(Failure::Configuration(all))
        }
        Err(failure) => Err(failure),
    }
}

fn join(
    found: Result<Found, Vec<Problem>>,
    understood: Understood,
) -> Result<(Config, Found), Failure> {
    match (understood, found) {
        (Ok(mut config), Ok(found)) => {
            config.warnings.extend(found.warnings(&config.said));
            let wanted = Wanted::of_all(&config.said, found.user.is_some());
            for (host, mut problem) in std::mem::take(&mut config.faults) {
                problem.message = format!(
                    "{}: {}, and the line is skipped",
                    wanted[host].label(),
                    problem.message
                );
                config.warnings.push(problem);
            }
            Ok((config, found))
        }
        (Ok(_), Err(problems)) => Err(Failure::Configuration(problems)),
        (Err((said, mut problems)), found) => {
            problems.extend(found.map_or_else(|problems| problems, |found| found.problems(&said)));
            Err(Failure::Configuration(problems))
        }
    }
}

type Understood = Result<Config, (Said, Vec<Problem>)>;

/// Reads below the roots, and interprets the configuration with the rules there.
fn interpret(sources: &Sources<'_>) -> (Result<Found, Vec<Problem>>, Understood) {
    let (said, problems) = read_configuration(sources);
    let found = machine::find(&said);
    let releases = found.as_ref().map_or(&[][..], |found| &found.releases);
    let understood = understand(sources, (said, problems), releases);
    (found, understood)
}

#[expect(clippy::result_large_err, reason = "returned once, when a configuration is read")]
fn understand(
    sources: &Sources<'_>,
    (mut said, mut problems): (Said, Vec<Problem>),
    releases: &[Release],
) -> Understood {
    let chosen = check::given(&mut said, &sources.given).or_else(|| {
        check::port(&mut said, &sources.environment).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        })
    });
    let allowance = Allowance::read_own(limits::descriptors().hard);
    let understood = check::understand(said, releases, &allowance);
    let understood = understood.map(|mut config| {
        config.chosen.extend(chosen);
        config
    });
    match understood {
        Ok(config) if problems.is_empty() => Ok(config),
        Ok(config) => Err((config.said, problems)),
        Err((said, more)) => {
            problems.extend(more);
            Err((said, problems))
        }
    }
}

fn read_configuration(sources: &Sources<'_>) -> (Said, Vec<Problem>) {
    let Sources { file, arguments, environment, text, .. } = sources;
    let Some(path) = file else { return raw::read(&[], arguments, environment) };
    let read = match text {
        Some(text) => Ok(text.clone()),
        None => ConfigText::read(path),
    };
    match read {
        Ok(text) => {
            let path = path.display().to_string();
            let files = text.files(&path).into_iter().map(|(name, text)| FileText { name, text });
            raw::read(&files.collect::<Vec<_>>(), arguments, environment)
        }
        Err(fault) => {
            let (said, mut problems) = raw::read(&[], arguments, environment);
            let ConfigFault { path, .. } = &fault;
            let place = Location::Argument(format!("--config {}", path.display()));
            let unreadable = Problem::new(messages::CONFIG_UNREADABLE, place, fault.to_string());
            problems.insert(0, unreadable);
            (said, problems)
        }
    }
}

/// Prints the listening addresses to standard output. A missing reader is no failure.
fn announce<'a>(addresses: impl IntoIterator<Item = &'a ListenPlace>) {
    let mut out = io::stdout().lock();
    for listen in addresses {
        let _ = writeln!(out, "listening on {}{}", listens::scheme(listen), listen.place);
    }
    let _ = out.flush();
}

/// Fault of a command line that can be parsed.
#[derive(Debug)]
pub enum UsageFault {
    /// No architecture has this name.
    Architecture(UnknownArchitecture),
    /// The directory of the files to compress cannot be opened.
    Directory(PathBuf, io::Error),
    /// A path is where the method of a request belongs.
    PathAsMethod(String),
    /// A text is no request target.
    Target(String),
    /// No user can have this name.
    UserName(io::Error),
    /// Several servers run, and none is named.
    Server(FindError),
    /// Words of `regatta film`, or a file that it names.
    Film(FilmFault),
}

impl fmt::Display for UsageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Architecture(unknown) => write!(f, "{unknown}"),
            Self::Directory(path, error) => {
                write!(f, "{}: ", path.display())?;
                match error.kind() {
                    io::ErrorKind::NotFound => f.write_str("no such directory"),
                    io::ErrorKind::NotADirectory => {
                        f.write_str("not a directory: name the site's directory")
                    }
                    _ => write!(f, "{error}"),
                }
            }
            Self::PathAsMethod(path) => write!(
                f,
                "\"{path}\" is a path where the method belongs: try `regatta explain GET {path}`"
            ),
            Self::Target(text) => {
                write!(f, "\"{text}\" is no request target: try \"/{text}\"")
            }
            Self::UserName(error) => write!(f, "no password: {error}"),
            Self::Server(error) => write!(f, "{error}"),
            Self::Film(fault) => write!(f, "{fault}"),
        }
    }
}

/// Fault that ended the work of a command.
#[derive(Debug)]
pub enum WorkFault {
    /// The system refused a step, which the text names.
    System(&'static str, io::Error),
    /// `/proc` is not mounted.
    NoProc,
    /// The process cannot become the user of this name.
    User(String, io::Error),
    /// TLS cannot be prepared.
    Tls(regatta_tls::Error),
    /// The error log of the master cannot be opened.
    Log(LogFault),
    /// The certificate for development cannot be made.
    Development(DevelopmentFault),
    /// The service manager's sockets cannot be taken.
    Given(Vec<GivenFault>),
    /// The server cannot listen as configured.
    Sockets(Vec<SocketFault>),
    /// The work of the image before cannot be continued.
    Handover(HandoverError),
    /// A worker cannot work.
    Worker,
    /// No worker is left, and none could be started.
    NoWorker,
    /// The master cannot continue.
    Master(io::Error),
    /// No server was found, or it may not be read.
    Server(FindError),
    /// The server with this process has not finished an earlier request.
    Busy(u32),
    /// The server with this process cannot be signalled.
    Signal(u32, io::Error),
    /// The server has refused the change.
    Refused(RefusedReload),
    /// Another command makes a film of the server with this process, for this long yet.
    Filmed(u32, Duration),
    /// The server with this process has not answered in time.
    Unanswered(u32),
    /// A file below this directory cannot be written.
    Write(PathBuf, io::Error),
}

impl fmt::Display for WorkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(what, error) => write!(f, "{what}: {error}"),
            Self::NoProc => f.write_str(
                "/proc is not mounted, and the server needs it: `mount -t proc proc /proc`",
            ),
            Self::User(name, error) => write!(f, "cannot become {name}: {error}"),
            Self::Tls(error) => write!(f, "cannot prepare TLS: {error}"),
            Self::Log(fault) => write!(f, "{fault}"),
            Self::Development(fault) => write!(f, "{fault}"),
            Self::Given(faults) => write_lines(f, faults),
            Self::Sockets(faults) => write_lines(f, faults),
            Self::Handover(error) => write!(f, "{error}"),
            Self::Worker => f.write_str("a worker cannot work; the error log says why"),
            Self::NoWorker => f.write_str("no worker is left, and none could be started"),
            Self::Master(error) => write!(f, "the master cannot go on: {error}"),
            Self::Server(error) => write!(f, "{error}"),
            Self::Filmed(pid, left) => write!(
                f,
                "another command is filming process {pid}: try again in {} s",
                left.as_secs() + 1
            ),
            Self::Busy(pid) => write!(
                f,
                "process {pid} is still busy with what was asked before: nothing has been asked"
            ),
            Self::Signal(pid, error) => write!(f, "cannot signal process {pid}: {error}"),
            Self::Refused(refused) => write!(f, "{refused}"),
            Self::Unanswered(pid) => {
                write!(f, "process {pid} has not answered: see its error log, and `regatta top`")
            }
            Self::Write(directory, error) => write!(f, "{}: {error}", directory.display()),
        }
    }
}

fn write_lines(f: &mut fmt::Formatter<'_>, faults: &[impl fmt::Display]) -> fmt::Result {
    for (at, fault) in faults.iter().enumerate() {
        let end = if at == 0 { "" } else { "\n" };
        write!(f, "{end}{fault}")?;
    }
    Ok(())
}

/// Reason why the server cannot listen as configured.
#[derive(Debug, PartialEq)]
pub enum SocketFault {
    /// A socket cannot be made.
    Listen(Problem),
    /// The service manager has given a socket at this address, which the configuration does not
    /// name: connections to it would wait without an answer.
    Unnamed(String),
    /// Each processor is to have a socket, and the service manager has given one at this
    /// place.
    Unsteerable(Place),
}

impl fmt::Display for SocketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listen(problem) => write!(f, "{problem}"),
            Self::Unnamed(asked) => write!(
                f,
                "the service manager has given a socket at {asked}, and server.listen does not \
                 name it, nor does tls.listen\n  hint: add \"{asked}\" to server.listen, or leave \
                 server.listen out to listen on all that are given, or remove it from the socket \
                 unit"
            ),
            Self::Unsteerable(given) => write!(
                f,
                "event.partition: the service manager has given one socket at {given}, and the \
                 kernel chooses by processor among several\n  hint: remove it from the socket \
                 unit, or choose another event.partition"
            ),
        }
    }
}
