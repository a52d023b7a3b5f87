//! Demands of a configuration on the machine: users, directories, files. Changes nothing.
use crate::{
    certificates::{self, Encrypted, TlsFiles, Untimely},
    config::{
        raw::{Problem, Said},
        release::{ROOT_KEY, Release, RootFault, RulesInForce, Wanted},
    },
    log::{self, Owner},
    messages, pid_file,
    scout::{NOT_THE_USER, Scout},
    ticket_keys,
};
use regatta_sys::{
    Root, clock,
    process::{EXIT_UNSTARTED, Exit, User, effective_user, is_unmapped},
};
use std::{
    collections::VecDeque,
    fs, io,
    os::{fd::OwnedFd, unix::fs::MetadataExt},
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Findings on the machine.
#[derive(Debug)]
pub struct Found {
    /// User that workers become; `None` if they keep theirs.
    pub user: Option<User>,
    /// Open roots of all hosts. One that cannot be opened is [closed](Root::closed).
    pub root: Root,
    /// Findings below the roots, by host.
    pub releases: Vec<Release>,
    /// Owner of the files of Unix sockets; `None`: the user that starts the server.
    pub socket_owner: Option<User>,
    /// Certificates and keys, also those of tickets.
    pub(crate) tls: TlsFiles,
}

impl Found {
    /// Keeps rules in force where the present ones cannot be read.
    pub(crate) fn keep_rules(&mut self, rules: &RulesInForce) {
        for (root, release) in self.root.all().zip(&mut self.releases) {
            rules.keep(root.given(), release);
        }
    }

    /// Interprets certificates and keys.
    pub(crate) fn encrypt(&self, said: &Said, untimely: Untimely<'_>) -> Encrypted {
        certificates::understand(said, &self.tls, clock::now().unix, untimely)
    }

    /// Faults below the roots: each once, where its option was said.
    #[must_use]
    pub fn problems(&self, said: &Said) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (release, said) in self.releases.iter().zip(said.all_hosts()) {
            for problem in release.faults.iter().map(|fault| fault.problem(said)) {
                if !problems.contains(&problem) {
                    problems.push(problem);
                }
            }
        }
        problems
    }

    /// Likewise for the log of a server that serves nevertheless: each fault names its host and
    /// root.
    #[must_use]
    pub fn warnings(&self, said: &Said) -> Vec<Problem> {
        let mut warnings = Vec::new();
        let wanted = Wanted::of_all(said, self.user.is_some());
        for ((release, said), wanted) in self.releases.iter().zip(said.all_hosts()).zip(wanted) {
            for fault in &release.faults {
                let mut problem = fault.problem(said);
                problem.message = format!("{}: {}", wanted.label(), problem.message);
                warnings.push(problem);
            }
        }
        warnings
    }
}

/// Limit of the time that one root holds up a start, milliseconds. The next one that does not
/// answer has a fifth.
const ROOT_MS_MAX: u64 = 5_000;

/// Time after which roots not yet checked are left for later, milliseconds.
const ALL_ROOTS_MS_MAX: u64 = 8_000;

/// Finds the user, opens the roots of all hosts as that user, and reads rules and pages for errors
/// below them. The process must have one thread.
///
/// All faults of the configuration. A fault below a root concerns its host alone, and is among the
/// findings; unless no root can be opened.
pub fn find(said: &Said) -> Result<Found, Vec<Problem>> {
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
    for said in said.all_hosts() {
        let has_rules = ["redirects", "responses"].iter().any(|table| !said.rows(table).is_empty());
        if !said.has_root() && !has_rules {
            let problem = said.problem(messages::NO_ROOT, ROOT_KEY, "there is nothing to serve");
            let hint =
                "name a directory; only with [[redirects]] or [[responses]] it may be left out";
            problems.push(problem.hint(hint));
        }
    }
    let wanted = Wanted::of_all(said, user.is_some());
    let looked = look_at(&wanted, said, user.as_ref());
    let (roots, releases) = match looked {
        Ok(looks) => looks,
        Err(problem) => {
            problems.push(problem);
            return Err(problems);
        }
    };
    let none_is_open = wanted.iter().any(Wanted::has_root) && roots.iter().all(Option::is_none);
    let roots = wanted.iter().zip(roots).map(|(wanted, root)| match root {
        Some(root) => Root::adopt(&wanted.path, root),
        None if !wanted.has_root() => Root::closed(Path::new("/")),
        None => Root::closed(&wanted.path),
    });
    let roots: io::Result<Vec<Root>> = roots.collect();
    let mut roots = roots.map_err(|error| {
        vec![said.problem(
            messages::ROOT_UNCHECKED,
            ROOT_KEY,
            &format!("cannot take over what was opened: {error}"),
        )]
    })?;
    let root = roots.remove(0).with(roots);
    let tls = TlsFiles::read(&said.settings);
    let found = Found { user, root, releases, socket_owner, tls };
    // A server without any root must be a mistake.
    if none_is_open || !problems.is_empty() {
        problems.extend(found.problems(said));
        problems.extend(found.encrypt(said, Untimely::Refused(&[])).problems);
        problems.extend(ticket_keys::problems(said, &found.tls));
        return Err(problems);
    }
    Ok(found)
}

type Looks = (Vec<Option<OwnedFd>>, Vec<Release>);

/// Checks all roots, in a process that becomes the serving user. One that hangs is abandoned, and
/// another gets its remaining roots.
fn look_at(wanted: &[Wanted], said: &Said, user: Option<&User>) -> Result<Looks, Problem> {
    let mut roots: Vec<Option<OwnedFd>> = wanted.iter().map(|_| None).collect();
    let mut releases: Vec<Option<Release>> = wanted.iter().map(|_| None).collect();
    let (begun, mut patience) = (Instant::now(), Duration::from_millis(ROOT_MS_MAX));
    let unknown = |why: String| Some(Release::unknown(RootFault::new(ROOT_KEY, why, "")));
    let is_named = |of: &usize| wanted[*of].has_root();
    let mut todo: VecDeque<usize> = (0..wanted.len()).filter(is_named).collect();
    while !todo.is_empty() && begun.elapsed() < Duration::from_millis(ALL_ROOTS_MS_MAX) {
        let now = clock::now().tick;
        let scout = Scout::send(todo.clone(), wanted, user, &|_, _, _| true, now);
        let mut scout = scout.map_err(|error| {
            said.problem(
                messages::ROOT_UNCHECKED,
                ROOT_KEY,
                &format!("cannot start the process that looks below it: {error}"),
            )
        })?;
        let why = loop {
            match scout.hear(now) {
                Ok(Some(seen)) => {
                    (roots[seen.of], releases[seen.of]) = (seen.root, Some(seen.release));
                }
                Ok(None) if scout.wait(patience) => {}
                Ok(None) => {
                    scout.kill();
                    let ms = patience.as_millis();
                    patience = Duration::from_millis(ROOT_MS_MAX / 5);
                    break format!("its disk or file server has not answered for {ms} ms");
                }
                Err(_) => break ended(&scout, said, user)?,
            }
        };
        todo.clone_from(&scout.todo);
        if let Some(of) = todo.pop_front() {
            releases[of] = unknown(format!("\"{}\": {why}", wanted[of].path.display()));
        }
    }
    for of in todo {
        let path = wanted[of].path.display();
        releases[of] = unknown(format!("\"{path}\" has not been looked at yet: others hang"));
    }
    Ok((roots, releases.into_iter().map(Option::unwrap_or_default).collect()))
}

/// Describes the end of a scout that reports no more. Does not wait long: its disk may hang.
fn ended(scout: &Scout, said: &Said, user: Option<&User>) -> Result<String, Problem> {
    let exit = (0..100).find_map(|_| match scout.child.try_wait() {
        Ok(None) => {
            thread::sleep(Duration::from_millis(10));
            None
        }
        exit => Some(exit),
    });
    match exit {
        Some(Ok(Some(Exit::Code(NOT_THE_USER)))) => Err(not_the_user(said, user)),
        Some(Ok(Some(Exit::Code(EXIT_UNSTARTED)))) => Err(said.problem(
            messages::ROOT_UNCHECKED,
            ROOT_KEY,
            "the process that looks below it cannot start: see above",
        )),
        Some(Ok(Some(exit))) => Ok(format!("the process that looks below it {exit}")),
        _ => Ok("the process that looks below it is gone".to_owned()),
    }
}

fn not_the_user(said: &Said, user: Option<&User>) -> Problem {
    let name = said.settings.text("server.user");
    let problem =
        said.problem(messages::BAD_USER, "server.user", &format!("cannot become user \"{name}\""));
    problem.hint(match user {
        Some(user) if is_unmapped(user) => {
            "this user namespace has no such user, or lets nobody set groups: serve as the one \
             that it has, with --user 0:0, or map more users (newuidmap(1), /etc/subuid)"
        }
        _ => "that takes CAP_SETUID and CAP_SETGID; or start as that user",
    })
}

/// Tests whether the logs and the file with the master's number can be written. Makes and removes
/// none: another server may run, or be about to start.
#[must_use]
pub fn writable(said: &Said) -> Vec<Problem> {
    let mut problems = Vec::new();
    // An unknown user is reported elsewhere. The server has given the logs that it made to this
    // user.
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
            problems.push(said.problem(messages::NOT_WRITABLE, key, &message));
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
        .map_err(|error| said.problem(messages::BAD_USER, key, &error.to_string()))
}

fn socket_owner(said: &Said) -> Result<Option<User>, Problem> {
    let key = "server.socket_owner";
    let text = said.settings.text(key);
    let found = (!text.is_empty()).then(|| User::find(text)).transpose();
    found.map_err(|error| said.problem(messages::BAD_USER, key, &error.to_string()))
}

/// Fault of a simulated disk that cannot know what is in memory: the kernel tells few processes.
fn untold(said: &Said, user: Option<&User>) -> Option<Problem> {
    let key = "lab.disk_heads";
    if said.settings.number(key) == 0 {
        return None;
    }
    let owner = |path: &Path| fs::metadata(path).ok().map(|found| found.uid());
    let worker = user.map_or_else(effective_user, |user| user.uid);
    let files = owner(&said.root())?;
    (worker != 0 && worker != files).then(|| {
        let message = "the kernel tells only the owner of the files what is in memory";
        said.problem(messages::DISK_UNKNOWN, key, message)
            .hint("serve as that user, or as root, with --user")
    })
}
