//! The command line: arguments and exit codes of each command.
#![forbid(unsafe_code)]

mod measuring;
mod pages;

use clap::{
    Args, CommandFactory, Parser, Subcommand,
    error::{ContextKind, ContextValue, ErrorKind},
};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use regatta_arch::options::{Kind as ValueKind, Value};
use regatta_server::{
    Failure, Sources, UsageFault, WorkFault, architectures,
    config::{
        environment::Environment,
        options,
        raw::{self, Arguments, Flag, Location, Problem},
    },
    development, explain,
    film::{self, FilmForm, FilmOptions},
    messages, password, precompress, show_page,
    succession::Kind,
    top::{self, TopOptions},
};
use std::{
    ffi::OsString,
    fmt,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

/// Serve static files, with a choice of how processes and threads divide the work.
#[derive(Debug, Parser)]
#[command(name = "regatta", version = env!("REGATTA_VERSION"), arg_required_else_help = true)]
#[command(after_help = measuring::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve a directory.
    #[command(after_help = SERVE_HELP, after_long_help = serve_long_help())]
    Serve {
        #[command(flatten)]
        settings: SettingArgs,
        /// Serve with TLS and a certificate made for this machine, for development.
        ///
        /// The default address is 127.0.0.1:8443; those of --listen have TLS too. Clients must
        /// trust the certificate, which is kept in $XDG_STATE_HOME/regatta.
        #[arg(long, conflicts_with = "print_config")]
        https: bool,
        /// Print the effective configuration, every option written out, and exit.
        #[arg(long)]
        print_config: bool,
        /// The descriptor by which the server hands itself over.
        #[arg(long, value_name = "FD", hide = true)]
        inherit: Option<i32>,
    },
    /// Apply the changed configuration file; if it has mistakes, nothing changes.
    ///
    /// Workers with the new configuration take over. No connection is refused.
    #[command(after_help = "Example: regatta reload")]
    Reload {
        /// Process of the server; needed if this user runs several.
        #[arg(long)]
        pid: Option<u32>,
        /// Print a JSON object, also if the reload is refused.
        #[arg(long)]
        json: bool,
    },
    /// Restart a running server in place with the program installed now.
    #[command(after_help = "Example: regatta upgrade")]
    Upgrade {
        /// Process of the server; needed if this user runs several.
        #[arg(long)]
        pid: Option<u32>,
        /// Print a JSON object, also if the upgrade is refused.
        #[arg(long)]
        json: bool,
    },
    /// List the architectures, or describe one with its picture and options.
    #[command(after_help = "Example: regatta architectures symped")]
    Architectures {
        /// The architecture to describe.
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// Print a JSON array of all.
        #[arg(long, conflicts_with = "name")]
        json: bool,
    },
    /// Check a configuration and list every mistake.
    #[command(after_help = "Example: regatta check --config /etc/regatta.toml")]
    Check {
        #[command(flatten)]
        settings: SettingArgs,
        /// Print a JSON object, with or without mistakes.
        #[arg(long)]
        json: bool,
    },
    /// Show the response to a request, and the reasons.
    #[command(after_help = "Example: regatta explain GET /docs/ -H 'accept-encoding: br' ./public")]
    Explain {
        /// The method.
        #[arg(value_name = "METHOD")]
        method: String,
        /// The request target, as a client would send it.
        #[arg(value_name = "PATH")]
        target: String,
        /// A field line of the request; may be repeated.
        #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
        headers: Vec<String>,
        /// Address of the client, or unix: for a Unix socket; decides limits and trust.
        #[arg(long, value_name = "ADDRESS")]
        from: Option<String>,
        /// Explain a request over TLS; an https URL as the PATH implies this.
        #[arg(long)]
        https: bool,
        /// Explain a request over HTTP/2, with the fields that it sends.
        #[arg(long)]
        http2: bool,
        #[command(flatten)]
        settings: SettingArgs,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Show live counters of a running server.
    ///
    /// No request is sent to it. Only root and the user that started the server may read them.
    #[command(after_help = "Example: regatta top --once --json")]
    Top {
        /// Process of the server; needed if this user runs several.
        #[arg(long)]
        pid: Option<u32>,
        /// Seconds between two readings; 0 with --once shows averages since the start.
        #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
        interval: Duration,
        /// Print nothing; exit with 1 unless a worker answers.
        #[arg(long, conflicts_with_all = ["json", "once"])]
        ready: bool,
        /// Print once and exit, even on a terminal.
        #[arg(long)]
        once: bool,
        /// Print JSON, one document per line.
        #[arg(long)]
        json: bool,
        /// Show them on a page instead, at an address of this machine that is printed.
        #[arg(long, conflicts_with_all = ["json", "once", "ready", "interval"])]
        web: bool,
    },
    /// Film a running server for a moment: which unit does what for which connection.
    ///
    /// No request is sent to it. Only root and the user that started the server may film it. With
    /// FILES, films that --json printed are drawn on one page instead.
    #[command(after_help = "Example: regatta film --for 2s --out film.html")]
    Film {
        /// Films to draw side by side, as --json printed them.
        #[arg(value_name = "FILE", conflicts_with_all = ["pid", "lasts"])]
        files: Vec<PathBuf>,
        /// Process of the server; needed if this user runs several.
        #[arg(long)]
        pid: Option<u32>,
        /// Length of the film, up to 60s.
        #[arg(long = "for", id = "lasts", value_name = "TIME", default_value = "2s")]
        #[arg(value_parser = film_length)]
        lasts: Duration,
        /// Show only these connections, by their numbers in the film.
        #[arg(long, value_name = "N,N", value_delimiter = ',')]
        connections: Vec<u32>,
        /// Print JSON, a film in a line.
        #[arg(long, conflicts_with = "format")]
        json: bool,
        /// Form of the result: a page, JSON, or events for Perfetto and Chrome.
        #[arg(long, value_name = "FORM", default_value = "html")]
        #[arg(value_parser = ["html", "json", "trace-event"])]
        format: String,
        /// Write the film to this file; the default for a page is film.html.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Compress files into FILE.br, FILE.zst and FILE.gz alongside them.
    ///
    /// A client that accepts a coding receives that sibling. Current siblings stay. A file has no
    /// sibling that would save less than 5 %.
    #[command(after_help = "Example: regatta precompress ./public --codings br,gz")]
    Precompress {
        /// The directory of the files.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        /// Siblings to make.
        #[arg(long, value_name = "SUFFIXES", default_value = "br,zst,gz")]
        #[arg(value_delimiter = ',', value_parser = ["br", "zst", "gz"])]
        codings: Vec<String>,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Make a password, and its line for `[[auth]]` in the configuration.
    #[command(after_help = "Example: regatta password ann")]
    Password {
        /// The user's name.
        #[arg(value_name = "NAME")]
        name: String,
        /// Print a JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Write manual pages, and completions for bash, fish and zsh.
    #[command(after_help = "Example: regatta pages ./pages && man -l ./pages/regatta-serve.1")]
    Pages {
        /// The directory to write them into.
        #[arg(value_name = "DIR")]
        directory: PathBuf,
    },
}

/// Sources of the settings.
#[derive(Debug, Args)]
struct SettingArgs {
    #[arg(value_name = "ROOT", help = flag_help("server.root"))]
    root: Option<OsString>,
    #[arg(long, value_name = "ADDR", help = flag_help("server.listen"))]
    listen: Vec<String>,
    #[arg(long, value_name = "NAME", help = flag_help("server.architecture"))]
    architecture: Option<String>,
    #[arg(long, value_name = "NAME", help = flag_help("server.user"))]
    user: Option<String>,
    /// Set an option; may be repeated. `regatta serve --help` lists all.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,
    /// Read options from this TOML file, or from all *.toml files of a directory.
    #[arg(long, value_name = "PATH")]
    config: Option<PathBuf>,
}

const SERVE_HELP: &str = "Example: regatta serve ./public --listen 127.0.0.1:8080 \
                          --set limits.idle_ms_max=30s";

fn serve_long_help() -> String {
    format!("{SERVE_HELP}\n\n{}", options::help())
}

fn flag_help(key: &str) -> String {
    let spec = options::find(key).expect("flags name options of the table");
    format!("{} [default: {}]", spec.doc.trim_end_matches('.'), spec.default)
}

impl SettingArgs {
    /// Fails if the root on the command line is no directory: its user can correct it. The server
    /// judges the root of a file.
    fn check_root(&self) -> Result<(), Failure> {
        let Some(root) = self.root.as_deref().filter(|root| !root.is_empty()) else {
            return Ok(());
        };
        let (message, hint) = match std::fs::metadata(root) {
            Ok(found) if !found.is_dir() => {
                ("not a directory", Some("serve the directory that it is in"))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => ("no such directory", None),
            _ => return Ok(()),
        };
        let message = format!("server.root: \"{}\": {message}", root.display());
        let place = Location::Argument("ROOT".to_owned());
        let problem = Problem::new(messages::NO_ROOT, place, message);
        let problem = hint.into_iter().fold(problem, Problem::hint);
        let others = match regatta_server::check(&self.sources()) {
            Err(Failure::Configuration(others)) => others,
            _ => Vec::new(),
        };
        let others = others.into_iter().filter(|other| !other.message.starts_with("server.root:"));
        Err(Failure::Configuration(std::iter::once(problem).chain(others).collect()))
    }

    fn sources(&self) -> Sources<'_> {
        let one = |key, name, value: &Option<String>| {
            value.clone().map(|value| Flag { key, name, values: vec![value] })
        };
        let mut flags: Vec<Flag> = [
            one("server.root", "ROOT", &self.root.as_deref().map(raw::text_of)),
            one("server.architecture", "--architecture", &self.architecture),
            one("server.user", "--user", &self.user),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !self.listen.is_empty() {
            let values = self.listen.clone();
            flags.push(Flag { key: "server.listen", name: "--listen", values });
        }
        let arguments = Arguments { flags, sets: self.sets.clone() };
        Sources {
            file: self.config.as_deref(),
            arguments,
            environment: Environment::read(raw::text_of),
            ..Sources::default()
        }
    }
}

/// Exit code: done.
const DONE: u8 = 0;
/// Exit code: the work failed.
const FAILED: u8 = 1;
/// Exit code: bad usage or configuration.
const USAGE: u8 = 2;

/// Work that takes less time shows no line on the terminal.
const WORK_SILENCE: Duration = Duration::from_secs(2);
/// Time between two pictures of the line.
const WORK_STEP: Duration = Duration::from_millis(100);

fn main() -> ExitCode {
    end_on_panic();
    regatta_sys::signal::keep_children();
    if let Some(missing) = measuring::run_if_asked(std::env::args_os()) {
        report(&format!("regatta: {missing}\n"));
        return ExitCode::from(USAGE);
    }
    let words: Vec<String> = std::env::args_os().map(|word| word.display().to_string()).collect();
    let cli = Cli::try_parse().unwrap_or_else(|error| {
        if let Some(advice) = listen_advice(&error, &words) {
            report(&advice);
            std::process::exit(USAGE.into());
        }
        error.exit()
    });
    match run(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(Failure::Work(fault)) => {
            report(&format!("regatta: {fault}\n"));
            ExitCode::from(FAILED)
        }
        Err(Failure::Usage(fault)) => {
            report(&format!("regatta: {fault}\n"));
            ExitCode::from(USAGE)
        }
        Err(Failure::Configuration(problems)) => {
            let lines: String =
                problems.iter().map(|problem| format!("regatta: {problem}\n")).collect();
            let count = match problems.len() {
                1 => String::new(),
                count => format!("regatta: {count} problems; nothing has been started\n"),
            };
            report(&format!("{lines}{count}"));
            ExitCode::from(USAGE)
        }
    }
}

/// Options of other servers for the address, and whether the value is a port.
const ADDRESS_OPTIONS: [(&str, bool); 7] = [
    ("--port", true),
    ("-p", true),
    ("--host", false),
    ("--bind", false),
    ("-b", false),
    ("--address", false),
    ("-a", false),
];

/// Advice for another server's option for the address.
fn listen_advice(error: &clap::Error, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidArg) else { return None };
    let command = words.get(1).filter(|word| ["serve", "check", "explain"].contains(&&***word))?;
    let known = ADDRESS_OPTIONS.iter().find(|(known, _)| known == name);
    let (_, is_port) = known.filter(|_| error.kind() == ErrorKind::UnknownArgument)?;
    let value = words.iter().enumerate().find_map(|(at, word)| {
        let rest = word.strip_prefix(&**name)?;
        let value = if rest.is_empty() { words.get(at + 1)?.as_str() } else { rest };
        Some(value.trim_start_matches('='))
    });
    let address = match (is_port, value) {
        (true, Some(port)) => format!("127.0.0.1:{port}"),
        (false, Some(host)) if host.contains(':') => host.to_owned(),
        (false, Some(host)) => format!("{host}:8080"),
        (_, None) => "127.0.0.1:8080".to_owned(),
    };
    Some(format!(
        "error: unexpected argument '{name}' found\n\n  tip: host and port are one option: \
         --listen {address}\n\nFor more information, try 'regatta {command} --help'.\n"
    ))
}

/// Makes a panic of any thread end its process, so that the master sees the worker as a whole.
/// Release builds do so anyway.
fn end_on_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::abort();
    }));
}

/// Runs a command and returns its exit code, unless it fails.
fn run(command: Command) -> Result<u8, Failure> {
    match command {
        Command::Serve { settings, print_config: true, .. } => {
            print(&regatta_server::print_config(&settings.sources())?)
        }
        Command::Serve { settings, https, inherit, .. } => serve(&settings, https, inherit),
        Command::Reload { pid, json } => succeed(pid, Kind::Reload, json),
        Command::Upgrade { pid, json } => succeed(pid, Kind::Upgrade, json),
        Command::Architectures { json: true, .. } => print(&architectures::json()),
        Command::Architectures { name: None, .. } => print(&architectures::list()),
        Command::Architectures { name: Some(name), .. } => match architectures::describe(&name) {
            Ok(text) => print(&text),
            Err(unknown) => Err(Failure::Usage(UsageFault::Architecture(unknown))),
        },
        Command::Check { settings, json } => {
            // As JSON, problems are results.
            if !json {
                settings.check_root()?;
            }
            check(&settings.sources(), json)
        }
        Command::Explain { method, target, headers, from, https, http2, settings, json } => {
            if let Some(fault) = explain_fault(&method, &target) {
                return Err(Failure::Usage(fault));
            }
            settings.check_root()?;
            let request = explain::ExplainRequest { method, target, headers, from, https, http2 };
            let explained = explain::run(&request, &settings.sources())?;
            print(&if json { explain::json(&explained) } else { explain::text(&explained) })
        }
        Command::Top { pid, web: true, .. } => {
            show_page(pid, &mut io::stdout())?;
            Ok(DONE)
        }
        Command::Top { pid, interval, ready, once, json, web: false } => {
            Ok(top::run(&TopOptions { pid, json, interval, once, ready }))
        }
        Command::Film { files, pid, lasts, connections, json, format, out } => {
            let connections = connections.into_iter().collect();
            let form = film_form(&format, json);
            write_film(&FilmOptions { pid, lasts, connections, files, form }, out)
        }
        Command::Precompress { directory, codings, json } => {
            let working = show_work("compressing");
            let done = precompress::run(&directory, &codings)?;
            working.finish_and_clear();
            for fault in &done.faults {
                report(&format!("regatta: {fault}\n"));
            }
            if done.faults_more > 0 {
                report(&format!("regatta: {} more faults\n", done.faults_more));
            }
            let printed = print(&if json { done.json() } else { done.text() })?;
            Ok(if done.faults.is_empty() { printed } else { FAILED })
        }
        Command::Pages { directory } => match pages::write(Cli::command(), &directory) {
            Ok(()) => Ok(DONE),
            Err(error) => Err(Failure::Work(WorkFault::Write(directory, error))),
        },
        Command::Password { name, json } => {
            let made = password::generate(&name);
            let made = made.map_err(|error| match error.kind() {
                io::ErrorKind::InvalidInput => Failure::Usage(UsageFault::UserName(error)),
                _ => Failure::system("no password")(error),
            })?;
            print(&if json { password::json(&made) } else { password::text(&made) })
        }
    }
}

fn serve(settings: &SettingArgs, https: bool, inherit: Option<i32>) -> Result<u8, Failure> {
    // A server that hands itself over has its root already.
    if inherit.is_none() {
        settings.check_root()?;
    }
    let mut sources = settings.sources();
    if https {
        let certificate = development::add(&mut sources, inherit.is_none())?;
        if inherit.is_none() {
            report(&format!("regatta: {certificate}\n"));
        }
    }
    regatta_server::serve(&sources, inherit).map(|()| DONE)
}

/// Asks a server for another generation. As JSON, a refusal is a result.
fn succeed(pid: Option<u32>, kind: Kind, json: bool) -> Result<u8, Failure> {
    let working = show_work("waiting for the server");
    let succeeded = top::succeed(pid, kind);
    working.finish_and_clear();
    match succeeded {
        Ok(pid) if json => print(&top::done_json(pid)),
        Err(Failure::Work(WorkFault::Refused(refused))) if json => {
            print(&top::refused_json(&refused)).map(|_| FAILED)
        }
        succeeded => succeeded.map(|_| DONE),
    }
}

/// Makes a film, and writes it to the file or, unless it is a page, to standard output.
fn write_film(options: &FilmOptions, out: Option<PathBuf>) -> Result<u8, Failure> {
    let lasts = options.lasts.as_secs_f64();
    let working = show_work("filming");
    let made = film::film(options, |pid| {
        report(&format!("regatta: filming process {pid} for {lasts} s: send requests now\n"));
    });
    working.finish_and_clear();
    let text = made?;
    let path = match out {
        None if options.form != FilmForm::Page => return print(&text),
        None => PathBuf::from("film.html"),
        Some(path) => path,
    };
    match std::fs::write(&path, text) {
        Ok(()) => print(&format!("{}\n", path.display())),
        Err(error) => Err(Failure::Work(WorkFault::Write(path, error))),
    }
}

/// Form of a film by its name, or JSON.
fn film_form(name: &str, json: bool) -> FilmForm {
    match name {
        name if json || name == "json" => FilmForm::Json,
        "trace-event" => FilmForm::TraceEvent,
        _ => FilmForm::Page,
    }
}

/// Reads the length of a film.
fn film_length(text: &str) -> Result<Duration, String> {
    match (ValueKind::Millis { min: 10, max: 60_000 }).parse(text) {
        Ok(Value::Number(millis)) => Ok(Duration::from_millis(millis)),
        Ok(_) => Err("expected a time".to_owned()),
        Err(fault) => Err(fault.to_string()),
    }
}

/// Shows `what` and how long it has taken in a line on the terminal, from the end of
/// [`WORK_SILENCE`] until the bar is finished.
fn show_work(what: &'static str) -> ProgressBar {
    let line = move |state: &ProgressState, out: &mut dyn fmt::Write| {
        if state.elapsed() >= WORK_SILENCE {
            let _ = write!(out, "{} s  {what}", state.elapsed().as_secs());
        }
    };
    let style = ProgressStyle::with_template("{line}").expect("the template is constant");
    let bar = ProgressBar::new_spinner().with_style(style.with_key("line", line));
    bar.enable_steady_tick(WORK_STEP);
    bar
}

/// Fault of words that are no method and no target, and their replacement.
fn explain_fault(method: &str, target: &str) -> Option<UsageFault> {
    if method.starts_with('/') {
        return Some(UsageFault::PathAsMethod(method.to_owned()));
    }
    let forms = target.starts_with('/') || target.contains("://") || target == "*";
    let is_fault = !forms && method != "CONNECT";
    is_fault.then(|| UsageFault::Target(target.to_owned()))
}

/// Prints the mistakes of a configuration, or that it has none. As JSON, problems are results.
fn check(sources: &Sources<'_>, json: bool) -> Result<u8, Failure> {
    match regatta_server::check(sources) {
        Ok(checked) if json => print(&regatta_server::check_json(Ok(&checked))),
        Ok(checked) => {
            for warning in &checked.warnings {
                report(&format!("regatta: {}: {warning}\n", warning.kind.level.name()));
            }
            print(&regatta_server::check_text(&checked))
        }
        Err(Failure::Configuration(problems)) if json => {
            print(&regatta_server::check_json(Err(&problems))).map(|_| USAGE)
        }
        Err(failure) => Err(failure),
    }
}

/// Reads a number of seconds, which may have a fraction.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.0..=86_400.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected 0 to 86400 seconds".to_owned())
}

/// Prints results. A reader that has closed the pipe is no failure.
fn print(text: &str) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::system("cannot print")(error))
        }
        _ => Ok(DONE),
    }
}

/// Writes a message to standard error, and ignores failure.
fn report(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_testkit::{commands, folder::Folder};
    use std::path::Path;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_page_names_every_command_and_no_flag_that_is_not() {
        let (command, page) = (Cli::command(), include_str!("../../../docs/commands.md"));
        commands::page_names_all(page, &command);
        commands::line_names_all_flags(page, command.find_subcommand("serve").expect("it is"));
    }

    /// The exceptions have no results, write files, or serve until they are stopped.
    #[test]
    fn every_command_that_prints_results_does_so_as_json() {
        commands::all_print_json(&Cli::command(), &["serve", "pages"]);
    }

    /// Files of a package: the commands of the unit, and the configuration.
    #[test]
    fn the_unit_runs_commands_that_exist_with_options_that_exist() {
        let unit = include_str!("../../../deploy/regatta.service");
        let ours = unit.lines().filter_map(|line| line.split_once("=/usr/bin/regatta"));
        for (name, words) in ours {
            let words = words.replace("$MAINPID", "1");
            let parsed = Cli::try_parse_from(format!("regatta{words}").split(' '));
            assert!(parsed.is_ok(), "{name}: {:?}", parsed.err());
        }
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/regatta.toml"));
        let printed =
            regatta_server::print_config(&Sources { file: Some(file), ..Sources::default() });
        assert!(printed.is_ok_and(|text| text.contains("root = \"/var/www/html\"\n")));
    }

    /// Lines of the packaged configuration that are comments, and are options without their `# `.
    #[test]
    fn samples_of_the_packaged_configuration_are_options() {
        let text = include_str!("../../../deploy/regatta.toml");
        let sets: Vec<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("# ").unwrap_or(line).split_once(" = "))
            .map(|(key, _)| key)
            .collect();
        assert_eq!(
            sets,
            [
                "root",
                "listen",
                "clean_urls",
                "compress",
                "listen",
                "certificate",
                "redirect",
                "access",
                "listen"
            ]
        );
        let samples = ["listen = ", "certificate = ", "redirect = "];
        let text = samples
            .iter()
            .fold(text.to_owned(), |text, sample| text.replace(&format!("# {sample}"), sample));
        let folder = Folder::new("sample");
        let file = folder.join("regatta.toml");
        std::fs::write(&file, text).expect("a file");
        let sources = Sources { file: Some(file.as_path()), ..Sources::default() };
        let printed = regatta_server::print_config(&sources);
        let printed = printed.unwrap_or_else(|failure| panic!("{failure:?}"));
        for expected in ["0.0.0.0:443", "/etc/letsencrypt/live/", "unix:/run/regatta/admin"] {
            assert!(printed.contains(expected), "{expected}: {printed}");
        }
    }

    #[test]
    fn options_of_other_servers_are_answered_with_ours() {
        for (words, advice) in [
            ("serve . --port 8081", Some("--listen 127.0.0.1:8081\n")),
            ("serve . --port=8081", Some("--listen 127.0.0.1:8081\n")),
            ("serve . -p8081", Some("--listen 127.0.0.1:8081\n")),
            ("serve . --host 0.0.0.0", Some("--listen 0.0.0.0:8080\n")),
            ("check . --bind [::]:80", Some("--listen [::]:80\n")),
            ("serve . --port", Some("--listen 127.0.0.1:8080\n")),
            ("serve . --lisen 1", None),
            ("top --port 1", None),
        ] {
            let words: Vec<String> =
                ["regatta"].into_iter().chain(words.split(' ')).map(str::to_owned).collect();
            let error = Cli::try_parse_from(&words).expect_err("there is no such option");
            let found = listen_advice(&error, &words);
            assert_eq!(found.is_some(), advice.is_some(), "{words:?}: {found:?}");
            assert!(found.unwrap_or_default().contains(advice.unwrap_or_default()), "{words:?}");
        }
    }

    #[test]
    fn every_command_has_an_example() {
        commands::all_have_examples(&Cli::command());
    }
}
