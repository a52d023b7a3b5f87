//! Error log: one line for each event, written at once.
use super::{
    file::{LogDestination, LogFault, LogFile, Owner, make},
    format::{Limit, escape, rfc3339_stamp},
};
use crate::messages::{self, Message};
use regatta_metrics::ControlView;
use regatta_sys::terminal;
use std::{
    fmt,
    fs::File,
    io::{self, IsTerminal, Write},
    os::fd::{AsFd, BorrowedFd},
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// Limit of a message, bytes before escaping; the rest is cut.
const MESSAGE_BYTES_MAX: usize = 900;

/// Indentation of a message's further lines on a terminal.
const INDENT: usize = 2;

/// Error log. A clone writes to the same file. After a fork, it is reopened by its path; a master
/// never does that itself while it serves.
#[derive(Clone, Debug)]
pub struct ErrorLog {
    destination: LogDestination,
    owner: Option<Owner>,
    control: Option<ControlView<'static>>,
    /// Columns at which messages are wrapped, if the log is standard error and a terminal.
    columns: Option<usize>,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    file: Option<Arc<LogFile>>,
    generation: u64,
    /// Process that opened the file.
    opener: u32,
    /// Whether this process shares its table of descriptors. Then it opens files only in a tick,
    /// and writes to standard error until then.
    is_shared: bool,
}

impl ErrorLog {
    /// Opens the error log. A new file is given to the owner, if there is one; that takes root.
    /// With `control`, a [tick](Self::tick) reopens the log at the master's request.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub fn open(
        destination: LogDestination,
        owner: Option<Owner>,
        control: Option<ControlView<'static>>,
    ) -> Result<Self, LogFault> {
        match LogFile::open(&destination, owner) {
            Ok(file) => Ok(Self::with_file(destination, owner, control, file)),
            Err(fault) => Err(fault_of(&destination, fault)),
        }
    }

    /// Adopts an error log at a path that another process has opened.
    ///
    /// # Errors
    /// The kind of the file cannot be read.
    pub fn adopt(
        destination: LogDestination,
        owner: Option<Owner>,
        control: Option<ControlView<'static>>,
        file: File,
    ) -> Result<Self, LogFault> {
        match LogFile::opened(file) {
            Ok(file) => Ok(Self::with_file(destination, owner, control, Some(file))),
            Err(fault) => Err(fault_of(&destination, fault)),
        }
    }

    fn with_file(
        destination: LogDestination,
        owner: Option<Owner>,
        control: Option<ControlView<'static>>,
        file: Option<LogFile>,
    ) -> Self {
        let generation = control.map_or(0, |control| control.log_generation());
        let is_stderr = destination == LogDestination::Stderr;
        let columns = file.as_ref().filter(|_| is_stderr).and_then(columns_of);
        let (file, opener, is_shared) = (file.map(Arc::new), process::id(), false);
        let open = Arc::new(Mutex::new(Open { file, generation, opener, is_shared }));
        Self { destination, owner, control, columns, open }
    }

    /// File that this process has open.
    #[must_use]
    pub fn opened(&self) -> Option<Arc<LogFile>> {
        self.lock().file.clone()
    }

    /// File that workers inherit, so that a fork must not close it: standard error.
    #[must_use]
    pub fn inherited(&self) -> Option<Arc<LogFile>> {
        self.opened().filter(|_| self.destination == LogDestination::Stderr)
    }

    /// Writes one line. Never fails: no place is left to report it.
    pub fn note(&self, message: &Message, text: fmt::Arguments<'_>) {
        let mut open = self.lock();
        if open.opener != process::id() && !open.is_shared {
            self.open_anew(&mut open);
        }
        self.write(&open, message, text);
    }

    /// Opens the file, and makes it if it is missing: for a master that must not wait. `None` if
    /// the log is no file.
    ///
    /// # Errors
    /// The file cannot be opened for appending.
    pub fn make(&self) -> Result<Option<File>, LogFault> {
        make(&self.destination, self.owner).map_err(|fault| fault_of(&self.destination, fault))
    }

    /// Switches to this file, which another process has [made](Self::make).
    ///
    /// # Errors
    /// The kind of the file cannot be read.
    pub fn install(&self, file: File) -> Result<(), LogFault> {
        let file = LogFile::opened(file).map_err(|fault| fault_of(&self.destination, fault))?;
        self.lock().file = Some(Arc::new(file));
        Ok(())
    }

    /// Marks this process as sharing its table of descriptors with its parent.
    pub fn is_of_shared_table(&self) {
        self.lock().is_shared = true;
    }

    /// Reopens the file if the master has requested it since the last time, or if another process
    /// opened it. A process that shares its table of descriptors calls this where it may open and
    /// close.
    pub fn tick(&self) {
        let mut open = self.lock();
        let generation = self.control.map_or(0, |control| control.log_generation());
        if open.opener != process::id() || generation != open.generation {
            self.open_anew(&mut open);
        }
    }

    /// Calls `each` for the descriptor, if this process opened it.
    pub(super) fn each_own(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        self.lock().file.as_ref().and_then(|file| file.own()).into_iter().for_each(each);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // A panic under the lock leaves nothing half done that would matter.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open_anew(&self, open: &mut Open) {
        if !matches!(self.destination, LogDestination::Path(_)) {
            return;
        }
        let generation = self.control.map_or(0, |control| control.log_generation());
        let is_own = open.opener == process::id();
        (open.generation, open.opener) = (generation, process::id());
        match LogFile::open(&self.destination, self.owner) {
            Ok(file) => open.file = file.map(Arc::new),
            Err(fault) => {
                let (message, instead) = if is_own {
                    (messages::LOG_NOT_REOPENED, "still logging to the old file")
                } else {
                    (messages::LOG_ON_STDERR, "logging to standard error instead")
                };
                if !is_own {
                    let stderr = LogFile::open(&LogDestination::Stderr, None);
                    open.file = stderr.ok().flatten().map(Arc::new);
                }
                let fault = fault_of(&self.destination, fault);
                self.write(open, message, format_args!("{instead}: {fault}"));
            }
        }
    }

    fn write(&self, open: &Open, message: &Message, text: fmt::Arguments<'_>) {
        let is_waiting = open.is_shared && open.opener != process::id();
        if self.destination == LogDestination::Off || open.file.is_none() && !is_waiting {
            return;
        }
        let line = render(message, text, self.columns);
        match &open.file {
            Some(file) if !is_waiting || self.destination == LogDestination::Stderr => {
                let _ = file.write(&line);
            }
            _ => drop(io::stderr().write_all(&line)),
        }
    }
}

/// Columns of a log that is a terminal.
fn columns_of(file: &LogFile) -> Option<usize> {
    let fd = file.as_fd();
    fd.is_terminal().then(|| terminal::size(fd).map_or(terminal::COLUMNS, |(_, columns)| columns))
}

/// Renders a message: one line or, for a terminal, lines of at most this many columns.
fn render(message: &Message, text: fmt::Arguments<'_>, columns: Option<usize>) -> Vec<u8> {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    // At most 900 bytes, each escaped to four, and the head: a write to a pipe stays whole.
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(&rfc3339_stamp(unix));
    let (level, id) = (message.level.name(), message.id);
    let head = format!(" regatta[{}] {level}[{id}]: ", process::id());
    line.extend_from_slice(head.as_bytes());
    escape_message(&mut line, text);
    let mut lines = match columns {
        Some(columns) => {
            terminal::hanging(&String::from_utf8_lossy(&line), columns, INDENT).into_bytes()
        }
        None => line,
    };
    lines.push(b'\n');
    lines
}

fn fault_of(destination: &LogDestination, fault: io::Error) -> LogFault {
    LogFault { option: "log.error", destination: destination.clone(), fault }
}

/// Appends a message, as in the access log. Quotes and letters above ASCII stay: they are ours, or
/// from the operator's file names.
fn escape_message(out: &mut Vec<u8>, message: fmt::Arguments<'_>) {
    let text = message.to_string();
    let mut left = MESSAGE_BYTES_MAX;
    for letter in text.chars() {
        let mut bytes = [0; 4];
        let bytes = letter.encode_utf8(&mut bytes).as_bytes();
        if bytes.len() > left {
            let _ = out.write_all(b"...");
            return;
        }
        left -= bytes.len();
        if letter == '"' || letter.is_alphanumeric() {
            out.extend_from_slice(bytes);
        } else {
            escape(out, bytes, Limit::NONE, br"\x");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_wrapped_for_a_terminal_and_one_line_elsewhere() {
        let chosen = "cache.descriptors_max=4984 (RLIMIT_NOFILE 20000), ".repeat(6);
        let lines = |columns| {
            let text = render(messages::SERVER_STARTS, format_args!("{chosen}"), columns);
            let text = String::from_utf8(text).unwrap();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(None).len(), 1);
        let wrapped = lines(Some(80));
        assert!(wrapped.len() > 4, "{wrapped:?}");
        assert!(wrapped.iter().all(|line| line.chars().count() <= 80), "{wrapped:?}");
        assert!(wrapped[1..].iter().all(|line| line.starts_with("  ")), "{wrapped:?}");
    }
}
