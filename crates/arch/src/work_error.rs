//! Reasons why a worker cannot begin to serve, or cannot continue.
use std::{error, fmt, io};

/// Reason why a worker ends before it is to leave.
#[derive(Debug)]
pub enum WorkError {
    /// The system does not let the process run on its processors.
    Pin(Vec<usize>, io::Error),
    /// The system does not let a thread run on its processor.
    PinThread(usize, io::Error),
    /// The system does not report the processors that the process may use.
    Processors(io::Error),
    /// The root cannot be duplicated.
    Root(io::Error),
    /// The process cannot join the others, with which it shares a table of descriptors.
    Crew(io::Error),
    /// The system refuses a poller.
    Poller(io::Error),
    /// The queues of a pipeline cannot be made.
    Pipeline(io::Error),
    /// Helpers, threads or asynchronous reads cannot be prepared.
    Preparation(&'static str, io::Error),
    /// The system refuses io_uring to laio.
    UringForLaio(io::Error),
    /// The system refuses io_uring to a loop that has nothing else.
    Uring(io::Error),
    /// The system refuses io_uring to asynchronous reads.
    UringForReads(io::Error),
    /// The kernel has no room for this many asynchronous reads, or does not support them.
    KernelReads(u32, io::Error),
    /// A connection or a stage gets no thread.
    Thread {
        /// Options to lower.
        lower: &'static str,
        /// Error of the system.
        error: io::Error,
    },
    /// A scheduler of user threads gets no thread.
    Scheduler(io::Error),
    /// Helpers of a scheduler cannot be started.
    Helpers(io::Error),
    /// This many schedulers have no bells.
    Bells(usize, io::Error),
    /// No memory for the stacks of user threads.
    Stacks {
        /// Number of stacks.
        count: usize,
        /// Size of each, bytes.
        bytes: usize,
        /// Error of the system.
        error: io::Error,
    },
    /// Fewer connections than addresses; each address requires a thread.
    Addresses {
        /// Connections of the process.
        connections: usize,
        /// Addresses that it accepts from.
        addresses: usize,
    },
    /// Fewer connections than threads that accept.
    Acceptors {
        /// Connections of the process.
        connections: usize,
        /// Threads that accept.
        acceptors: usize,
        /// Advice that leads to fewer such threads.
        fewer: &'static str,
    },
    /// Part of the worker that failed while it served.
    Stopped(&'static str, io::Error),
}

impl WorkError {
    /// Maps an error of the system to [`WorkError::Preparation`].
    pub(crate) const fn preparing(what: &'static str) -> impl Fn(io::Error) -> Self + Copy {
        move |error| Self::Preparation(what, error)
    }

    /// Maps an error of the system to [`WorkError::Stopped`].
    pub(crate) const fn stopped(name: &'static str) -> impl Fn(io::Error) -> Self + Copy {
        move |error| Self::Stopped(name, error)
    }
}

const URING_NEEDS: &str =
    "it takes Linux 6.1, kernel.io_uring_disabled=0, and a sandbox that lets it through";

impl fmt::Display for WorkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pin(cpus, error) => write!(f, "cannot run on processors {cpus:?}: {error}"),
            Self::PinThread(cpu, error) => write!(f, "cannot run on processor {cpu}: {error}"),
            Self::Processors(error) => write!(f, "the processors: {error}"),
            Self::Root(error) => write!(f, "the root: {error}"),
            Self::Crew(error) => write!(f, "cannot join the others: {error}"),
            Self::Poller(error) => write!(f, "cannot make a poller: {error}"),
            Self::Pipeline(error) => write!(f, "cannot make a pipeline: {error}"),
            Self::Preparation(what, error) => write!(f, "cannot prepare for {what}: {error}"),
            Self::UringForLaio(error) => write!(
                f,
                "laio.engine=uring: the system refuses io_uring: {error} ({URING_NEEDS}); \
                 laio.engine=nowait does without"
            ),
            Self::Uring(error) => write!(
                f,
                "the system refuses io_uring: {error} ({URING_NEEDS}); server.architecture=symped \
                 does without"
            ),
            Self::UringForReads(error) => write!(
                f,
                "the system refuses io_uring: {error} ({URING_NEEDS}); \
                 adapt.engine=threads does without"
            ),
            Self::KernelReads(most, error) => write!(
                f,
                "the system has no room for {most} asynchronous reads: {error} (raise \
                 fs.aio-max-nr, or lower limits.connections_max); adapt.engine=threads does without"
            ),
            Self::Thread { lower, error } => write!(
                f,
                "cannot start a thread: {error}; lower {lower}, or raise the limit on tasks \
                 (ulimit -u, TasksMax=, kernel.threads-max)"
            ),
            Self::Scheduler(error) => write!(f, "cannot start a scheduler: {error}"),
            Self::Helpers(error) => write!(f, "cannot start helpers: {error}"),
            Self::Bells(count, error) => {
                write!(f, "cannot make bells for {count} schedulers: {error}")
            }
            Self::Stacks { count, bytes, error } => write!(
                f,
                "no memory for {count} stacks of {bytes} bytes: {error}; lower \
                 limits.connections_max or fiber.stack_bytes"
            ),
            Self::Addresses { connections, addresses } => write!(
                f,
                "limits.connections_max: {connections} threads cannot accept from {addresses} \
                 addresses, because each does from one: allow {addresses} connections, or listen \
                 on fewer"
            ),
            Self::Acceptors { connections, acceptors, fewer } => write!(
                f,
                "limits.connections_max: {connections} connections cannot be shared out among \
                 {acceptors} threads that accept: allow as many, {fewer}"
            ),
            Self::Stopped(name, error) => write!(f, "{name} cannot go on: {error}"),
        }
    }
}

impl error::Error for WorkError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Pin(_, error)
            | Self::PinThread(_, error)
            | Self::Processors(error)
            | Self::Root(error)
            | Self::Crew(error)
            | Self::Poller(error)
            | Self::Pipeline(error)
            | Self::Preparation(_, error)
            | Self::UringForLaio(error)
            | Self::Uring(error)
            | Self::UringForReads(error)
            | Self::KernelReads(_, error)
            | Self::Thread { error, .. }
            | Self::Scheduler(error)
            | Self::Helpers(error)
            | Self::Bells(_, error)
            | Self::Stacks { error, .. }
            | Self::Stopped(_, error) => Some(error),
            Self::Addresses { .. } | Self::Acceptors { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text names what failed, the system's error, and what to do where there is a remedy.
    #[test]
    fn errors_read_as_sentences() {
        let os = || io::Error::from_raw_os_error(11);
        let text = os().to_string();
        let limit = "or raise the limit on tasks (ulimit -u, TasksMax=, kernel.threads-max)";
        let uring = format!(
            "the system refuses io_uring: {text} (it takes Linux 6.1, \
             kernel.io_uring_disabled=0, and a sandbox that lets it through)"
        );
        for (error, expected) in [
            (WorkError::Pin(vec![0, 2], os()), format!("cannot run on processors [0, 2]: {text}")),
            (
                WorkError::Thread { lower: "limits.connections_max", error: os() },
                format!("cannot start a thread: {text}; lower limits.connections_max, {limit}"),
            ),
            (WorkError::preparing("helpers")(os()), format!("cannot prepare for helpers: {text}")),
            (WorkError::stopped("the pool")(os()), format!("the pool cannot go on: {text}")),
            (
                WorkError::UringForLaio(os()),
                format!("laio.engine=uring: {uring}; laio.engine=nowait does without"),
            ),
            (WorkError::Uring(os()), format!("{uring}; server.architecture=symped does without")),
            (WorkError::UringForReads(os()), format!("{uring}; adapt.engine=threads does without")),
            (
                WorkError::KernelReads(1024, os()),
                format!(
                    "the system has no room for 1024 asynchronous reads: {text} (raise \
                     fs.aio-max-nr, or lower limits.connections_max); adapt.engine=threads does \
                     without"
                ),
            ),
            (
                WorkError::Acceptors { connections: 1, acceptors: 2, fewer: "or listen on fewer" },
                "limits.connections_max: 1 connections cannot be shared out among 2 threads that \
                 accept: allow as many, or listen on fewer"
                    .to_owned(),
            ),
        ] {
            assert_eq!(error.to_string(), expected);
            let has_source = error::Error::source(&error).is_some();
            assert_eq!(has_source, !matches!(error, WorkError::Acceptors { .. }), "{error:?}");
        }
    }
}
