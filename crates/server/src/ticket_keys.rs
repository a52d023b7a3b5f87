//! Keys of session tickets, in memory that all workers and all images of the master share.
//!
//! The master alone writes them: it loads files ([`FILES_KEY`]), or draws keys and rotates them
//! ([`ROTATE_KEY`]). [`regatta_tls::TicketWords`] describes the words.
use crate::{
    Failure,
    certificates::open_regular,
    config::raw::{Problem, Said},
    handover::TicketMemory,
    log::ErrorLog,
    messages,
};
use regatta_arch::options::Settings;
use regatta_op::Tick;
use regatta_origin::ListenerClass;
use regatta_sys::{
    limits,
    shm::{self, SharedWords},
};
use regatta_tls::{
    ProducesTickets, TICKET_KEY_BYTES, TICKET_KEYS_MAX, TicketWords, Ticketer, fresh_ticket_key,
    read_ticket_key,
};
use std::{
    fmt,
    io::{self, Read as _},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
        unix::fs::MetadataExt as _,
    },
    path::Path,
    sync::Arc,
};

/// Option for the time between rotations.
const ROTATE_KEY: &str = "tls.ticket_rotate_s";
/// Option for the files.
const FILES_KEY: &str = "tls.ticket_keys";
/// Option for the addresses whose clients receive tickets.
const LISTEN_KEY: &str = "tls.listen";

/// Lifetime of a ticket, seconds: twice the default of [`ROTATE_KEY`].
const LIFETIME_S: u32 = 43_200;

/// Name of the memory in `/proc/PID/fd`.
const MEMORY: &str = "regatta-tickets";

/// Bytes of a file that are read: a longer one has no key.
const FILE_BYTES_MAX: u64 = 128;

/// Permissions of other users than the owner and the group.
const OTHERS: u32 = 0o007;

/// Keys of session tickets, and the next rotation.
pub struct TicketKeys {
    memory: SharedWords,
    words: TicketWords,
    /// `None`: the keys are those of files.
    rotation: Option<Rotation>,
    /// Reason why the memory is not locked, until it is reported.
    unlocked: Option<io::Error>,
}

impl fmt::Debug for TicketKeys {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketKeys").field("rotation", &self.rotation).finish_non_exhaustive()
    }
}

/// Prepares the keys that this image of the master wants: continues with those of the image before,
/// or makes some. `None` if there are to be no tickets. The keys of the image before stay then, and
/// rotate: its workers may have to continue.
///
/// Files that are no keys, or no memory.
pub(crate) fn prepare<'a>(
    said: &Said,
    keys: &'a mut Option<TicketKeys>,
    now: Tick,
    errors: &ErrorLog,
) -> Result<Option<&'a TicketKeys>, Failure> {
    match is_wanted(&said.settings) {
        true => refresh(said, keys, now, errors).map(Some),
        false => Ok(None),
    }
}

fn refresh<'a>(
    said: &Said,
    keys: &'a mut Option<TicketKeys>,
    now: Tick,
    errors: &ErrorLog,
) -> Result<&'a TicketKeys, Failure> {
    let files = read_files(said).map_err(Failure::Configuration)?;
    let failed = |error| Failure::Work(format!("cannot make the keys of session tickets: {error}"));
    let keys = match keys {
        Some(keys) => keys,
        None => keys.insert(TicketKeys::make().map_err(failed)?),
    };
    keys.report(errors);
    if files.is_empty() {
        let every_ms = said.settings.number(ROTATE_KEY).saturating_mul(1_000);
        keys.rotate_every(every_ms, now).map_err(failed)?;
    } else {
        keys.words.load(&files);
        keys.rotation = None;
    }
    Ok(keys)
}

/// Lists the faults of the files, and of their options.
pub(crate) fn problems(said: &Said) -> Vec<Problem> {
    read_files(said).err().unwrap_or_default()
}

/// True if there are addresses whose clients receive tickets. Clients with certificates have none:
/// a ticket would stand for a certificate.
fn is_wanted(settings: &Settings) -> bool {
    !settings.list(LISTEN_KEY).is_empty() && settings.number(ROTATE_KEY) > 0
}

impl TicketKeys {
    /// Makes memory without keys.
    fn make() -> io::Result<Self> {
        let memory = shm::create_named(MEMORY, TicketWords::WORDS)?;
        let words = TicketWords::begin(memory.words()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self::new(memory, words, None))
    }

    fn new(memory: SharedWords, words: TicketWords, rotation: Option<Rotation>) -> Self {
        // An execution unlocks the memory: each image locks it.
        let unlocked = memory.protect().err();
        Self { memory, words, rotation, unlocked }
    }

    /// Adopts the keys of the image before; `None` if their layout is not known.
    pub(crate) fn adopt(fd: OwnedFd, of: &TicketMemory) -> Option<Self> {
        let memory = SharedWords::adopt(fd).ok()?;
        let words = TicketWords::new(memory.words())?;
        let last = Tick(of.rotated_ms);
        let every_ms = of.rotate_ms.filter(|ms| *ms > 0);
        Some(Self::new(memory, words, every_ms.map(|every_ms| Rotation { last, every_ms })))
    }

    /// Describes the keys for the next image, which receives the memory as `fd`.
    pub(crate) fn hand_over(&self, fd: RawFd) -> TicketMemory {
        TicketMemory {
            fd,
            rotated_ms: self.rotation.map_or(0, |rotation| rotation.last.0),
            rotate_ms: self.rotation.map(|rotation| rotation.every_ms),
        }
    }

    /// Maker of the tickets of a class, for [`regatta_tls::TlsSettings::tickets`]. Workers inherit
    /// it, and see later keys.
    #[must_use]
    pub fn ticketer(&self, class: ListenerClass) -> Arc<dyn ProducesTickets> {
        Arc::new(Ticketer::new(self.words, class.0, LIFETIME_S))
    }

    /// Tick of the next rotation.
    pub(crate) fn rotate_at(&self) -> Tick {
        self.rotation.map_or(Tick::NEVER, Rotation::next)
    }

    /// Rotates the keys, if it is time.
    pub(crate) fn rotate(&mut self, now: Tick, errors: &ErrorLog) {
        let Some(rotation) = self.rotation.filter(|rotation| rotation.next() <= now) else {
            return;
        };
        let (rotations, rotation) = rotation.due(now);
        self.rotation = Some(rotation);
        match (0..rotations).try_for_each(|_| self.draw()) {
            Ok(()) => errors.note(
                messages::TICKET_KEYS_ROTATED,
                format_args!(
                    "another key seals session tickets, for {} s",
                    rotation.every_ms / 1_000
                ),
            ),
            Err(error) => errors.note(
                messages::TICKET_KEYS_KEPT,
                format_args!(
                    "the keys of session tickets stay: {error}; next attempt in {} s",
                    rotation.every_ms / 1_000
                ),
            ),
        }
    }

    /// Rotates from now on. Keys that rotate already stay; those of files are replaced.
    fn rotate_every(&mut self, every_ms: u64, now: Tick) -> io::Result<()> {
        if self.rotation.is_none() {
            (0..TICKET_KEYS_MAX).try_for_each(|_| self.draw())?;
        }
        let last = match self.rotation {
            // At most one rotation is due then: several would end all sessions at once.
            Some(Rotation { last, every_ms: before }) if every_ms < before => {
                Tick(last.0.max(now.0.saturating_sub(every_ms)))
            }
            Some(rotation) => rotation.last,
            None => now,
        };
        self.rotation = Some(Rotation { last, every_ms });
        Ok(())
    }

    /// Adds a key from the kernel's random numbers.
    fn draw(&self) -> io::Result<()> {
        let key = fresh_ticket_key();
        self.words.rotate(key.ok_or_else(|| io::Error::other("the kernel has no random numbers"))?);
        Ok(())
    }

    /// Warns if the keys may reach the swap space.
    fn report(&mut self, errors: &ErrorLog) {
        if let Some(error) = self.unlocked.take() {
            let limit = limits::locked_bytes();
            errors.note(
                messages::TICKET_KEYS_UNLOCKED,
                format_args!(
                    "the keys of session tickets may be written to swap space: {error}; raise {} \
                     above {} bytes ({})",
                    limit.name, limit.value, limit.raise
                ),
            );
        }
    }
}

impl AsFd for TicketKeys {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }
}

/// Time of the last rotation, and the time between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rotation {
    last: Tick,
    /// Not 0.
    every_ms: u64,
}

impl Rotation {
    const fn next(self) -> Tick {
        self.last.after(self.every_ms)
    }

    /// Number of rotations that are due, and the state after them. Each interval that has passed
    /// counts; more than [`TICKET_KEYS_MAX`] would change nothing.
    fn due(self, now: Tick) -> (usize, Self) {
        let passed = now.since(self.last) / self.every_ms;
        let last = self.last.after(passed * self.every_ms);
        (usize::try_from(passed).unwrap_or(usize::MAX).min(TICKET_KEYS_MAX), Self { last, ..self })
    }
}

/// Reads the keys of all files.
fn read_files(said: &Said) -> Result<Vec<[u8; TICKET_KEY_BYTES]>, Vec<Problem>> {
    let files = said.settings.list(FILES_KEY);
    let mut problems = Vec::new();
    if files.len() > TICKET_KEYS_MAX {
        let message = format!("{} files are more than {TICKET_KEYS_MAX}", files.len());
        problems.push(said.problem(messages::TOO_MANY, FILES_KEY, &message));
    }
    if !files.is_empty() && said.settings.number(ROTATE_KEY) == 0 {
        let message = format!("there are no session tickets with {ROTATE_KEY} = 0");
        let problem = said.problem(messages::OPTIONS_CONFLICT, FILES_KEY, &message);
        problems.push(problem.hint("remove one of the two"));
    }
    let mut keys = Vec::new();
    for file in files.iter().take(TICKET_KEYS_MAX) {
        match read_file(Path::new(file)) {
            Ok(key) => keys.push(key),
            Err(fault) => {
                let message = format!("\"{file}\" {fault}");
                let problem = said.problem(messages::BAD_TICKET_KEY, FILES_KEY, &message);
                problems.push(problem.hint(fault.advice(file)));
            }
        }
    }
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}

/// Fault of a file with a key.
#[derive(Debug)]
enum KeyFileFault {
    Unreadable(io::Error),
    NotAFile,
    /// Permissions of the file.
    Exposed(u32),
    /// Bytes, up to [`FILE_BYTES_MAX`].
    Length(usize),
}

impl fmt::Display for KeyFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::NotAFile => f.write_str("is no regular file"),
            Self::Exposed(mode) => write!(f, "is open to all users (mode {mode:04o})"),
            Self::Length(len) if *len as u64 >= FILE_BYTES_MAX => {
                write!(f, "has {FILE_BYTES_MAX} bytes or more; a key has 48 or 80")
            }
            Self::Length(len) => write!(f, "has {len} bytes; a key has 48 or 80"),
        }
    }
}

impl std::error::Error for KeyFileFault {}

impl KeyFileFault {
    fn advice(&self, file: &str) -> String {
        match self {
            Self::Exposed(_) => format!("`chmod 600 {file}`, and make another key"),
            Self::Unreadable(error) if error.kind() != io::ErrorKind::NotFound => {
                "the user that starts the server must be able to read it".into()
            }
            Self::Unreadable(_) | Self::NotAFile | Self::Length(_) => {
                format!("`(umask 077; openssl rand -out {file} 48)`")
            }
        }
    }
}

fn read_file(path: &Path) -> Result<[u8; TICKET_KEY_BYTES], KeyFileFault> {
    let opened = open_regular(path).map_err(KeyFileFault::Unreadable)?;
    let (file, facts) = opened.ok_or(KeyFileFault::NotAFile)?;
    if facts.mode() & OTHERS != 0 {
        return Err(KeyFileFault::Exposed(facts.mode() & 0o7777));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(KeyFileFault::Unreadable)?;
    read_ticket_key(&bytes).ok_or(KeyFileFault::Length(bytes.len()))
}

#[cfg(test)]
mod tests;
