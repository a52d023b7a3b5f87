//! Keys of session tickets, in memory that all workers and all images of the master share.
//!
//! The master alone writes them: it loads those of files ([`FILES_KEY`]), or draws keys and rotates
//! them ([`ROTATE_KEY`]). The files are read with those of certificates ([`TlsFiles`]).
//! [`regatta_tls::TicketWords`] describes the words.
use crate::{
    Failure,
    certificates::{TlsFiles, wipe},
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
    fmt, io,
    os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd},
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
    files: &TlsFiles,
    keys: &'a mut Option<TicketKeys>,
    now: Tick,
    errors: &ErrorLog,
) -> Result<Option<&'a TicketKeys>, Failure> {
    match is_wanted(&said.settings) {
        true => refresh(said, files, keys, now, errors).map(Some),
        false => Ok(None),
    }
}

fn refresh<'a>(
    said: &Said,
    files: &TlsFiles,
    keys: &'a mut Option<TicketKeys>,
    now: Tick,
    errors: &ErrorLog,
) -> Result<&'a TicketKeys, Failure> {
    let of_files = keys_of(said, files).map_err(Failure::Configuration)?;
    let failed = Failure::system("cannot make the keys of session tickets");
    let keys = match keys {
        Some(keys) => keys,
        None => keys.insert(TicketKeys::make().map_err(&failed)?),
    };
    keys.report(errors);
    if of_files.0.is_empty() {
        let every_ms = said.settings.number(ROTATE_KEY).saturating_mul(1_000);
        keys.rotate_every(every_ms, now).map_err(&failed)?;
    } else {
        keys.words.load(&of_files.0);
        keys.rotation = None;
    }
    Ok(keys)
}

/// Lists the faults of the files, and of their options.
pub(crate) fn problems(said: &Said, files: &TlsFiles) -> Vec<Problem> {
    keys_of(said, files).err().unwrap_or_default()
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

/// Keys of files, which are overwritten after their use.
struct FileKeys(Vec<[u8; TICKET_KEY_BYTES]>);

impl Drop for FileKeys {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|key| wipe(key));
    }
}

/// The keys of all files.
fn keys_of(said: &Said, files: &TlsFiles) -> Result<FileKeys, Vec<Problem>> {
    let paths = said.settings.list(FILES_KEY);
    let mut problems = Vec::new();
    if paths.len() > TICKET_KEYS_MAX {
        let message = format!("{} files are more than {TICKET_KEYS_MAX}", paths.len());
        problems.push(said.problem(messages::TOO_MANY, FILES_KEY, &message));
    }
    if !paths.is_empty() && said.settings.number(ROTATE_KEY) == 0 {
        let message = format!("there are no session tickets with {ROTATE_KEY} = 0");
        let problem = said.problem(messages::OPTIONS_CONFLICT, FILES_KEY, &message);
        problems.push(problem.hint("remove one of the two"));
    }
    // A vector that grows would leave copies behind.
    let mut keys = FileKeys(Vec::with_capacity(TICKET_KEYS_MAX));
    for path in paths.iter().take(TICKET_KEYS_MAX) {
        match key_of(path, files) {
            Ok(key) => keys.0.push(key),
            Err(fault) => {
                let message = format!("\"{path}\" {fault}");
                let problem = said.problem(messages::BAD_TICKET_KEY, FILES_KEY, &message);
                problems.push(problem.hint(fault.advice(path)));
            }
        }
    }
    if problems.is_empty() { Ok(keys) } else { Err(problems) }
}

/// Fault of a file with a key.
#[derive(Debug)]
enum KeyFileFault<'a> {
    /// Reason of the system.
    Unreadable(&'a str),
    /// Permissions of the file.
    Exposed(u32),
    /// Bytes.
    Length(usize),
}

impl fmt::Display for KeyFileFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::Exposed(mode) => write!(f, "is open to all users (mode {mode:04o})"),
            Self::Length(len) => write!(f, "has {len} bytes; a key has 48 or 80"),
        }
    }
}

impl std::error::Error for KeyFileFault<'_> {}

impl KeyFileFault<'_> {
    fn advice(&self, path: &str) -> String {
        let make = format!("`(umask 077; openssl rand -out {path} 48)`");
        match self {
            Self::Unreadable(_) => {
                format!("{make} makes one; the user that starts the server must be able to read it")
            }
            Self::Exposed(_) => format!("`chmod 600 {path}`, and make another key"),
            Self::Length(_) => make,
        }
    }
}

fn key_of<'a>(path: &str, files: &'a TlsFiles) -> Result<[u8; TICKET_KEY_BYTES], KeyFileFault<'a>> {
    let file = files.get(path).ok_or(KeyFileFault::Unreadable("not found"))?;
    if let Some(why) = &file.fault {
        return Err(KeyFileFault::Unreadable(why));
    }
    if file.mode & OTHERS != 0 {
        return Err(KeyFileFault::Exposed(file.mode & 0o7777));
    }
    read_ticket_key(&file.bytes).ok_or(KeyFileFault::Length(file.bytes.len()))
}

#[cfg(test)]
mod tests;
