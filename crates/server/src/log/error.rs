//! What the server has to say of itself: one line for each event, written at once.
use super::{
    file::{Destination, LogFault, LogFile, Owner},
    format::{Limit, escape, rfc3339_stamp},
};
use regatta_metrics::ControlView;
use std::{
    fmt,
    io::Write,
    os::fd::BorrowedFd,
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// The longest message, bytes before escaping; the rest is cut.
const MESSAGE_BYTES_MAX: usize = 900;

/// How much a message matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something worth knowing: started, reloaded, drained.
    Notice,
    /// Something is not as it should be, and the server goes on.
    Warning,
    /// Something failed.
    Error,
}

impl Level {
    /// The word in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// The error log. A clone writes to the same file. After a fork, it is opened by its path anew.
#[derive(Clone, Debug)]
pub struct ErrorLog {
    destination: Destination,
    owner: Option<Owner>,
    control: Option<ControlView<'static>>,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    file: Option<Arc<LogFile>>,
    generation: u64,
    /// The process that opened it.
    opener: u32,
}

impl ErrorLog {
    /// Opens the error log. With an owner, a new file is given to them; that takes root. With
    /// `control`, it is opened anew by path when the master asks for it.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub fn open(
        destination: Destination,
        owner: Option<Owner>,
        control: Option<ControlView<'static>>,
    ) -> Result<Self, LogFault> {
        let generation = control.map_or(0, |control| control.log_generation());
        match LogFile::open(&destination, owner) {
            Ok(file) => {
                let file = file.map(Arc::new);
                let open = Arc::new(Mutex::new(Open { file, generation, opener: process::id() }));
                Ok(Self { destination, owner, control, open })
            }
            Err(fault) => Err(LogFault { option: "log.error", destination, fault }),
        }
    }

    /// What this process has open.
    #[must_use]
    pub fn opened(&self) -> Option<Arc<LogFile>> {
        self.lock().file.clone()
    }

    /// What workers inherit, so that a fork must not close it: standard error.
    #[must_use]
    pub fn inherited(&self) -> Option<Arc<LogFile>> {
        self.opened().filter(|_| self.destination == Destination::Stderr)
    }

    /// Writes one line. Never fails: there is no place left to say so.
    pub fn note(&self, level: Level, message: fmt::Arguments<'_>) {
        let mut open = self.lock();
        self.renew_if_due(&mut open);
        self.write(&open, level, message);
    }

    /// Makes the file, if it is not there any more, and gives it to its owner: before workers are
    /// told to open it, who would find it before it is theirs. If that fails, [`ErrorLog::tick`]
    /// says so.
    pub fn make(&self) {
        if matches!(self.destination, Destination::Path(_)) {
            let _ = LogFile::open(&self.destination, self.owner);
        }
    }

    /// Opens the file anew if the master asked for it since the last time, or if another process
    /// opened it; [`ErrorLog::note`] does so too.
    pub fn tick(&self) {
        self.renew_if_due(&mut self.lock());
    }

    /// Opens the file anew, whatever the control words say.
    pub fn renew(&self) {
        self.open_anew(&mut self.lock());
    }

    /// Calls `each` for the descriptor, if this process opened it.
    pub(super) fn each_own(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        self.lock().file.as_ref().and_then(|file| file.own()).into_iter().for_each(each);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Whoever panicked while holding it left nothing half done that would matter.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn renew_if_due(&self, open: &mut Open) {
        let generation = self.control.map_or(0, |control| control.log_generation());
        if open.opener != process::id() || generation != open.generation {
            self.open_anew(open);
        }
    }

    fn open_anew(&self, open: &mut Open) {
        if !matches!(self.destination, Destination::Path(_)) {
            return;
        }
        let generation = self.control.map_or(0, |control| control.log_generation());
        let is_own = open.opener == process::id();
        (open.generation, open.opener) = (generation, process::id());
        match LogFile::open(&self.destination, self.owner) {
            Ok(file) => open.file = file.map(Arc::new),
            Err(fault) => {
                let instead = if is_own {
                    "still logging to the old file"
                } else {
                    "logging to standard error instead"
                };
                if !is_own {
                    let stderr = LogFile::open(&Destination::Stderr, None);
                    open.file = stderr.ok().flatten().map(Arc::new);
                }
                let destination = self.destination.clone();
                let fault = LogFault { option: "log.error", destination, fault };
                self.write(open, Level::Warning, format_args!("{instead}: {fault}"));
            }
        }
    }

    fn write(&self, open: &Open, level: Level, message: fmt::Arguments<'_>) {
        let Some(file) = &open.file else { return };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        // At most 900 bytes that become four each, and the head: a write to a pipe stays whole.
        let mut line = Vec::with_capacity(256);
        line.extend_from_slice(&rfc3339_stamp(unix));
        let head = format!(" regatta[{}] {}: ", process::id(), level.name());
        line.extend_from_slice(head.as_bytes());
        escape_message(&mut line, message);
        line.push(b'\n');
        let _ = file.write(&line);
    }
}

/// Appends a message: as in the access log, but for quotes and for letters above ASCII, which are
/// ours or from the operator's file names.
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
