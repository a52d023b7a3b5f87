//! Helpers that are threads: they share the loop's descriptors and memory, so no descriptors are
//! passed.
use crate::disk::helpers::{HelperPool, HelperTask, TaskResult};
use crate::drive::perform::{self, Below};
use regatta_op::Opened;
use regatta_sys::{Bell, FileSystem, OpenRules, Root, touch};
use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
    sync::{
        Arc, OnceLock,
        mpsc::{Receiver, Sender, SyncSender, channel, sync_channel},
    },
    thread,
};

/// The buffer that a helper reads into to fill the page cache, bytes.
pub const SCRATCH_BYTES: usize = 128 << 10;
/// The stack of a helper, bytes: its calls are shallow.
const STACK_BYTES: usize = 128 << 10;

/// State that all threads have in common.
#[derive(Debug)]
struct Environment {
    rules: OpenRules,
    bell: Bell,
    /// File system of the first file that was opened, if that is wanted.
    found: Option<OnceLock<FileSystem>>,
}

impl Environment {
    fn note(&self, result: &TaskResult) {
        if let (Some(found), TaskResult::Opened(Ok(Opened::File { file, .. }))) =
            (&self.found, result)
            && found.get().is_none()
            && let Ok(system) = file.file_system()
        {
            // Another helper may have been first.
            let _ = found.set(system);
        }
    }
}

type HelperResult = (usize, Option<TaskResult>);

/// Helper threads.
#[derive(Debug)]
pub struct HelperThreads<'a> {
    root: &'a Root,
    /// The same directory by a descriptor of the threads, opened for the first of them.
    theirs: Option<Arc<Root>>,
    environment: Arc<Environment>,
    /// By helper: the channel for its tasks.
    inboxes: Vec<Option<SyncSender<HelperTask>>>,
    results: Sender<HelperResult>,
    done: Receiver<HelperResult>,
}

impl<'a> HelperThreads<'a> {
    /// No threads yet.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn new(root: &'a Root, rules: OpenRules) -> io::Result<Self> {
        Self::with(root, rules, None)
    }

    /// No threads yet. The first that opens a file finds out what file system it is on.
    ///
    /// # Errors
    /// No descriptors left.
    pub fn noting(root: &'a Root, rules: OpenRules) -> io::Result<Self> {
        Self::with(root, rules, Some(OnceLock::new()))
    }

    fn with(
        root: &'a Root,
        rules: OpenRules,
        found: Option<OnceLock<FileSystem>>,
    ) -> io::Result<Self> {
        let environment = Arc::new(Environment { rules, bell: Bell::new()?, found });
        let (results, done) = channel();
        Ok(Self { root, theirs: None, environment, inboxes: Vec::new(), results, done })
    }
}

impl HelperPool for HelperThreads<'_> {
    fn start(&mut self) -> io::Result<usize> {
        let root = match &self.theirs {
            Some(root) => Arc::clone(root),
            None => Arc::clone(self.theirs.insert(Arc::new(self.root.try_clone()?))),
        };
        let free = self.inboxes.iter().position(Option::is_none);
        let helper = free.unwrap_or(self.inboxes.len());
        let (give, take) = sync_channel(1);
        let (environment, results) = (Arc::clone(&self.environment), self.results.clone());
        let builder = thread::Builder::new().name("helper".to_owned()).stack_size(STACK_BYTES);
        builder.spawn(move || help(helper, &root, &environment, &take, &results))?;
        match self.inboxes.get_mut(helper) {
            Some(inbox) => *inbox = Some(give),
            None => self.inboxes.push(Some(give)),
        }
        Ok(helper)
    }

    fn assign(&mut self, helper: usize, task: &mut HelperTask) -> io::Result<()> {
        let inbox = self.inboxes[helper].as_ref().ok_or(io::ErrorKind::NotFound)?;
        // Room for one, and the helper has none: this does not wait.
        inbox.try_send(task.lend()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn stop(&mut self, helper: usize) {
        // The thread ends when its channel is closed.
        self.inboxes[helper] = None;
    }

    fn renew_root(&mut self) {
        self.theirs = None;
    }

    fn next_result(&mut self) -> Option<(usize, Option<TaskResult>)> {
        self.done.try_recv().ok().or_else(|| {
            // A result that is sent after this look rings the bell again.
            self.environment.bell.clear();
            self.done.try_recv().ok()
        })
    }

    fn source(&self) -> BorrowedFd<'_> {
        self.environment.bell.as_fd()
    }

    fn file_system(&self) -> Option<FileSystem> {
        self.environment.found.as_ref()?.get().copied()
    }
}

/// Runs a helper.
fn help(
    helper: usize,
    root: &Root,
    environment: &Environment,
    tasks: &Receiver<HelperTask>,
    results: &Sender<HelperResult>,
) {
    let mut scratch = Vec::new();
    for task in tasks {
        // It closes the task's files too: the loop does not.
        let outcome = run(task, Below { root, rules: environment.rules }, &mut scratch);
        environment.note(&outcome);
        if results.send((helper, Some(outcome))).is_err() {
            return;
        }
        environment.bell.ring();
    }
}

fn run(task: HelperTask, below: Below<'_>, scratch: &mut Vec<u8>) -> TaskResult {
    match task {
        HelperTask::Open(req) => TaskResult::Opened(below.open(&req)),
        HelperTask::Touch(req) => {
            scratch.resize(SCRATCH_BYTES, 0);
            // A range that cannot be read is reported by the send or read that it was for.
            let _ = touch(&req.file, req.at, req.len, scratch);
            TaskResult::Touched
        }
        HelperTask::Read(req) => TaskResult::Read(perform::read(req)),
    }
}
