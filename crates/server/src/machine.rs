//! What a configuration asks of the machine: users, directories, files. Looks, and changes nothing.
use crate::{
    config::raw::{Problem, Said},
    log, pid_file,
};
use regatta_op::{Codings, OpenFault, OpenReq};
use regatta_sys::{
    OpenRules, Root, open_below,
    process::{EXIT_UNSTARTED, Exit, User, effective_user, fork_worker, is_unmapped, set_user},
};
use std::{
    fs, io,
    os::{fd::AsFd, unix::fs::MetadataExt},
    path::Path,
};

/// What was found.
#[derive(Debug)]
pub struct RootAndUser {
    /// Whom the workers become; `None` if they stay who they are.
    pub user: Option<User>,
    /// The root, open.
    pub root: Root,
}

/// Finds the user and opens the root, and tries whether the one can read the other. The process
/// must have one thread.
///
/// # Errors
/// All that is wrong.
pub fn find(said: &Said) -> Result<RootAndUser, Vec<Problem>> {
    let mut problems = Vec::new();
    let user = user(said).unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    problems.extend(untold(said, user.as_ref()));
    let root = root(said).map_err(|problem| problems.push(problem));
    match root {
        Ok(root) if problems.is_empty() => match readable(said, &root, user.as_ref()) {
            Ok(()) => Ok(RootAndUser { user, root }),
            Err(problem) => Err(vec![problem]),
        },
        _ => Err(problems),
    }
}

/// Sees whether the files that would be written can be. Makes and removes none: beside a server
/// that runs, another one may be about to be made.
#[must_use]
pub fn writable(said: &Said) -> Vec<Problem> {
    let mut problems = Vec::new();
    for key in ["log.access", "log.error", "server.pid_file"] {
        let text = said.settings.text(key);
        if matches!(text, "" | "-" | "off") {
            continue;
        }
        let tried = match key {
            "server.pid_file" => pid_file::try_writing(Path::new(text)),
            _ => log::try_opening(Path::new(text)),
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

/// A name that no file has: looking for it shows whether files below the root can be looked for.
const NOBODY: &[u8] = b".regatta-no-such-file";

const READABLE: i32 = 0;
const DENIED: i32 = 10;
const INDEX_DENIED: i32 = 11;
const NOT_THE_USER: i32 = 12;
const UNREACHABLE: i32 = 13;
/// Above this: that much above it is the error's number.
const REFUSED: i32 = 100;

/// Tries to look below the root, as the user that is to serve it, in a process of its own.
fn readable(said: &Said, root: &Root, user: Option<&User>) -> Result<(), Problem> {
    let key = "server.root";
    let index = said.settings.list("content.index");
    let path = Path::new(said.settings.text(key));
    let tried = fork_worker(&[root.as_fd()], || match try_reading(root, index, user) {
        READABLE if Root::open(path).is_err() => UNREACHABLE,
        found => found,
    });
    let ended = tried.and_then(|child| child.wait());
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
        Ok(other) => Err(said.problem(key, &format!("looking below it ended with {other:?}"))),
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

fn try_reading(root: &Root, index: &[String], user: Option<&User>) -> i32 {
    if user.is_some_and(|user| set_user(user).is_err()) {
        return NOT_THE_USER;
    }
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
