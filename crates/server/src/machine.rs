//! What a configuration asks of the machine: users, directories, files. Looks, and changes nothing.
use crate::{
    config::{
        error_pages,
        raw::{Problem, Said},
    },
    log::{self, Owner},
    pid_file,
};
use regatta_http::Status;
use regatta_op::{Codings, File as _, OpenFault, OpenReq, Opened, ReadReq};
use regatta_sys::{
    OpenRules, Root, open_below,
    process::{EXIT_UNSTARTED, Exit, User, effective_user, fork_worker, is_unmapped, set_user},
    read_range,
};
use std::{
    fs, io, iter,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
};

/// What was found.
#[derive(Debug)]
pub struct RootAndUser {
    /// Whom the workers become; `None` if they stay who they are.
    pub user: Option<User>,
    /// The root, open, with those of further hosts.
    pub root: Root,
    /// The pages for errors, by host.
    pub pages: Vec<Vec<PageFile>>,
    /// Who is to have the files of Unix sockets; `None`: who starts the server.
    pub socket_owner: Option<User>,
}

/// A file that is the page for an error.
#[derive(Debug)]
pub struct PageFile {
    /// The status that it is sent with.
    pub status: Status,
    /// Its path below the root.
    pub name: String,
    /// What is in it.
    pub body: Vec<u8>,
}

/// The longest page for an error, bytes.
const PAGE_BYTES_MAX: u64 = 64 << 10;

/// Finds the user and opens the roots of all hosts, and tries whether the one can read the others.
/// The process must have one thread.
///
/// # Errors
/// All that is wrong.
pub fn find(said: &Said) -> Result<RootAndUser, Vec<Problem>> {
    let mut problems = Vec::new();
    let user = user(said).unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    let socket_owner = socket_owner(said).unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    problems.extend(untold(said, user.as_ref()));
    let mut roots = Vec::new();
    for said in iter::once(said).chain(&said.hosts) {
        roots.extend(root(said).map_err(|problem| problems.push(problem)));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let hosts: Vec<_> = iter::once(said).chain(&said.hosts).zip(&roots).collect();
    let tried = try_roots(&hosts, user.as_ref());
    let all_can_be_read = matches!(tried, Ok(Exit::Code(READABLE)));
    let mut all_pages = Vec::new();
    for (said, root) in hosts {
        let readable = match all_can_be_read {
            true => Ok(()),
            // Which, and why not?
            false => readable(said, root, user.as_ref()).map_err(|problem| vec![problem]),
        };
        match readable.and_then(|()| pages(said, root)) {
            Ok(pages) => all_pages.push(pages),
            Err(mut found) => {
                // What holds for all hosts is wrong once.
                found.retain(|one| !problems.contains(one));
                problems.extend(found);
            }
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let root = roots.remove(0).with(roots);
    Ok(RootAndUser { user, root, pages: all_pages, socket_owner })
}

/// Sees whether the files that would be written can be. Makes and removes none: beside a server
/// that runs, another one may be about to be made.
#[must_use]
pub fn writable(said: &Said) -> Vec<Problem> {
    let mut problems = Vec::new();
    // Who is not found is a problem elsewhere. The server has given them the logs that it made.
    let user = user(said).ok().flatten();
    let owner = user.map(|user| Owner { uid: user.uid, gid: user.gid });
    for key in ["log.access", "log.error", "server.pid_file"] {
        let text = said.settings.text(key);
        if matches!(text, "" | "-" | "off") {
            continue;
        }
        let tried = match key {
            "server.pid_file" => pid_file::try_writing(Path::new(text)),
            _ => log::try_opening(Path::new(text), owner),
        };
        if let Err(error) = tried {
            let message = format!("cannot write to \"{text}\": {error}");
            problems.push(said.problem(key, &message));
        }
    }
    problems
}

fn user(said: &Said) -> Result<Option<User>, Problem> {
    if effective_user() != 0 {
        return Ok(None);
    }
    let key = "server.user";
    User::find(said.settings.text(key))
        .map(Some)
        .map_err(|error| said.problem(key, &error.to_string()))
}

fn socket_owner(said: &Said) -> Result<Option<User>, Problem> {
    let key = "server.socket_owner";
    let text = said.settings.text(key);
    let found = (!text.is_empty()).then(|| User::find(text)).transpose();
    found.map_err(|error| said.problem(key, &error.to_string()))
}

/// A simulated disk has to know what is in memory, which the kernel tells to few.
fn untold(said: &Said, user: Option<&User>) -> Option<Problem> {
    let key = "lab.disk_heads";
    if said.settings.number(key) == 0 {
        return None;
    }
    let owner = |path: &str| fs::metadata(path).ok().map(|found| found.uid());
    let worker = user.map_or_else(effective_user, |user| user.uid);
    let files = owner(said.settings.text("server.root"))?;
    (worker != 0 && worker != files).then(|| {
        let message = "the kernel tells only the owner of the files what is in memory";
        said.problem(key, message).hint("serve as that user, or as root, with --user")
    })
}

fn root(said: &Said) -> Result<Root, Problem> {
    let key = "server.root";
    let text = said.settings.text(key);
    if text.is_empty() {
        return Err(said.problem(key, "there is nothing to serve").hint("name a directory"));
    }
    Root::open(Path::new(text)).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => said.problem(key, &format!("there is no \"{text}\"")),
        io::ErrorKind::NotADirectory => said
            .problem(key, &format!("\"{text}\" is not a directory"))
            .hint("serve the directory that it is in"),
        _ => said.problem(key, &format!("cannot open \"{text}\": {error}")),
    })
}

/// Reads the pages for errors.
fn pages(said: &Said, root: &Root) -> Result<Vec<PageFile>, Vec<Problem>> {
    let rules = OpenRules { symlinks: said.settings.flag("content.symlinks") };
    let (mut pages, mut problems) = (Vec::new(), Vec::new());
    // What is wrong with the option itself has been reported where it was understood.
    for (status, name) in error_pages::named(said, &mut Vec::new()) {
        match page(root, name, rules) {
            Ok(body) => pages.push(PageFile { status, name: name.to_owned(), body }),
            Err(why) => {
                let problem = said.problem(error_pages::KEY, &format!("\"{name}\" {why}"));
                problems.push(problem.hint("name a file below the root, of at most 64 KiB"));
            }
        }
    }
    if problems.is_empty() { Ok(pages) } else { Err(problems) }
}

fn page(root: &Root, name: &str, rules: OpenRules) -> Result<Vec<u8>, &'static str> {
    let req = OpenReq { path: name.as_bytes().into(), siblings: Codings::NONE };
    let file = match open_below(root, &req, rules) {
        Ok(Opened::File { file, .. }) => file,
        Ok(Opened::Directory) => return Err("is a directory"),
        Err(OpenFault::NotFound | OpenFault::RootReplaced) => return Err("is not there"),
        Err(OpenFault::Outside) => return Err("is outside the root, or a symbolic link"),
        Err(_) => return Err("cannot be opened"),
    };
    let len = file.id().len;
    if len > PAGE_BYTES_MAX {
        return Err("is longer than 64 KiB");
    }
    match read_range(ReadReq { file, at: 0, len, buffer: Vec::new() }) {
        (body, Ok(())) if body.len() as u64 == len => Ok(body),
        _ => Err("cannot be read"),
    }
}

/// A name that no file has: looking for it shows whether files below the root can be looked for.
const NOBODY: &[u8] = b".regatta-no-such-file";

const READABLE: i32 = 0;
const DENIED: i32 = 10;
const INDEX_DENIED: i32 = 11;
const NOT_THE_USER: i32 = 12;
const UNREACHABLE: i32 = 13;
/// Above this: that much above it is the error's number.
const REFUSED: i32 = 100;

/// Tries to look below roots, as the user that is to serve them, in a process of its own.
fn try_roots(hosts: &[(&Said, &Root)], user: Option<&User>) -> io::Result<Exit> {
    let keep: Vec<_> = hosts.iter().map(|(_, root)| root.as_fd()).collect();
    let one = |(said, root): &(&Said, &Root)| {
        let path = Path::new(said.settings.text("server.root"));
        match try_reading(root, said.settings.list("content.index")) {
            READABLE if Root::open(path).is_err() => UNREACHABLE,
            found => found,
        }
    };
    let tried = fork_worker(&keep, || match user.map_or(Ok(()), set_user) {
        Ok(()) => hosts.iter().map(one).find(|code| *code != READABLE).unwrap_or(READABLE),
        Err(_) => NOT_THE_USER,
    });
    tried.and_then(|child| child.wait())
}

/// Says why nobody can look below a root, if so.
fn readable(said: &Said, root: &Root, user: Option<&User>) -> Result<(), Problem> {
    let key = "server.root";
    let ended = try_roots(&[(said, root)], user);
    let name = match user {
        Some(_) => format!("user \"{}\"", said.settings.text("server.user")),
        None => "this user".to_owned(),
    };
    let text = said.settings.text(key);
    let denied = |what: &str, fix: &str| {
        let found = said.problem(key, &format!("{name} may not {what}"));
        Err(found.hint(format!("{fix}, or serve as another user with --user")))
    };
    match ended {
        Ok(Exit::Code(READABLE)) => Ok(()),
        Ok(Exit::Code(DENIED)) => denied(
            &format!("look for files in \"{text}\""),
            &format!("chmod o+x \"{text}\" lets everyone do so"),
        ),
        Ok(Exit::Code(UNREACHABLE)) => denied(
            &format!("open \"{text}\" by its path, which a deployment may lead elsewhere"),
            "let everyone search the directories above it (chmod o+x)",
        ),
        Ok(Exit::Code(INDEX_DENIED)) => denied(
            &format!("read the index file of \"{text}\""),
            &format!("chmod -R o+rX \"{text}\" lets everyone read what is below"),
        ),
        Ok(Exit::Code(NOT_THE_USER)) => {
            let problem = said.problem("server.user", &format!("cannot become {name}"));
            Err(problem.hint(match user {
                Some(user) if is_unmapped(user) => {
                    "this user namespace has no such user, or lets nobody set groups: serve as \
                     the one that it has, with --user 0:0, or map more users (newuidmap(1), \
                     /etc/subuid)"
                }
                _ => "that takes CAP_SETUID and CAP_SETGID; or start as that user",
            }))
        }
        Ok(Exit::Code(EXIT_UNSTARTED)) => {
            Err(said.problem(key, "the process that looks below it cannot start: see above"))
        }
        Ok(Exit::Code(code)) if code > REFUSED => Err(refused(said, code - REFUSED)),
        Ok(other) => Err(said.problem(key, &format!("the process that looks below it {other}"))),
        Err(error) => Err(said.problem(key, &format!("cannot look below it: {error}"))),
    }
}

/// The system does not look for files below the root.
fn refused(said: &Said, errno: i32) -> Problem {
    let (key, error) = ("server.root", io::Error::from_raw_os_error(errno));
    let text = said.settings.text(key);
    let problem = said.problem(key, &format!("cannot look for files in \"{text}\": {error}"));
    match errno {
        libc::ENOSYS | libc::EPERM => problem.hint(
            "openat2(2) opens every file, so that none lies outside: it takes Linux 5.9 or later, \
             and a container's seccomp filter that lets it through",
        ),
        _ => problem,
    }
}

fn try_reading(root: &Root, index: &[String]) -> i32 {
    // A filter's refusal looks like that of a file, so the call is tried where that cannot be.
    let errno = root.try_resolving().err().and_then(|error| error.raw_os_error());
    if let Some(errno) = errno.filter(|errno| *errno != libc::EACCES) {
        return REFUSED + errno;
    }
    let open = |path: &[u8]| {
        let req = OpenReq { path: path.into(), siblings: Codings::NONE };
        open_below(root, &req, OpenRules { symlinks: true }).err()
    };
    match open(NOBODY) {
        Some(OpenFault::Denied) => return DENIED,
        Some(OpenFault::Other(errno)) => return REFUSED + errno,
        _ => {}
    }
    if index.iter().any(|name| open(name.as_bytes()) == Some(OpenFault::Denied)) {
        return INDEX_DENIED;
    }
    READABLE
}
