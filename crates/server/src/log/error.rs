//! What the server has to say of itself: one line for each event, written at once.
use super::{
    file::{Destination, LogFault, LogFile, Owner},
    format::{Limit, escape, rfc3339_stamp},
};
use regatta_metrics::ControlView;
use std::{
    fmt,
    fs::File,
    io::Write,
    os::fd::BorrowedFd,
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

/// The error log. A clone writes to the same file, also after a fork.
#[derive(Clone, Debug)]
pub struct ErrorLog {
    destination: Destination,
    owner: Option<Owner>,
    control: Option<ControlView<'static>>,
    open: Arc<Mutex<Open>>,
}

#[derive(Debug)]
struct Open {
    file: Option<LogFile>,
    generation: u64,
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
                let open = Arc::new(Mutex::new(Open { file, generation }));
                Ok(Self { destination, owner, control, open })
            }
            Err(fault) => Err(LogFault { option: "log.error", destination, fault }),
        }
    }

    /// The descriptor that workers inherit: what a fork must not close.
    #[must_use]
    pub fn inherited(&self) -> Option<Arc<File>> {
        self.lock().file.as_ref().map(LogFile::shared)
    }

    /// Writes one line. Never fails: there is no place left to say so.
    pub fn note(&self, level: Level, message: fmt::Arguments<'_>) {
        let mut open = self.lock();
        if let Some(fault) = self.renew_if_asked(&mut open) {
            self.write(&mut open, Level::Warning, format_args!("still the old file: {fault}"));
        }
        self.write(&mut open, level, message);
    }

    /// Opens the file anew if the master asked for it since the last time; [`ErrorLog::note`] does
    /// so too.
    pub fn tick(&self) {
        let mut open = self.lock();
        if let Some(fault) = self.renew_if_asked(&mut open) {
            self.write(&mut open, Level::Warning, format_args!("still the old file: {fault}"));
        }
    }

    /// Calls `each` for the descriptor, if this process opened it.
    pub(super) fn each_own(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        self.lock().file.as_ref().and_then(LogFile::own).into_iter().for_each(each);
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        // Whoever panicked while holding it left nothing half done that would matter.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file anew now: what a master that is still root does before it asks the workers
    /// to, so that they find a file that is theirs.
    ///
    /// # Errors
    /// If it cannot be opened for appending; the old file remains in use.
    pub fn renew(&self) -> Result<(), LogFault> {
        self.renew_open(&mut self.lock())
    }

    fn renew_if_asked(&self, open: &mut Open) -> Option<LogFault> {
        let generation = self.control.map_or(0, |control| control.log_generation());
        if generation == open.generation {
            return None;
        }
        open.generation = generation;
        self.renew_open(open).err()
    }

    fn renew_open(&self, open: &mut Open) -> Result<(), LogFault> {
        if let Destination::Path(_) = self.destination {
            open.file = LogFile::open(&self.destination, self.owner).map_err(|fault| {
                let destination = self.destination.clone();
                LogFault { option: "log.error", destination, fault }
            })?;
        }
        Ok(())
    }

    fn write(&self, open: &mut Open, level: Level, message: fmt::Arguments<'_>) {
        let Some(file) = &mut open.file else { return };
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        // At most 900 bytes that become four each, and the head: a write to a pipe stays whole.
        let mut line = Vec::with_capacity(256);
        line.extend_from_slice(&rfc3339_stamp(unix));
        let head = format!(" regatta[{}] {}: ", std::process::id(), level.name());
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
