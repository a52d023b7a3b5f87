//! Recorder of films: which unit does what for which connection, while a film is made.
//!
//! Everything that a film shows passes the seam: operations that a connection asks for, their
//! outcomes, turns. So all architectures have the same few places where records are written, and a
//! server without a film spends a load and a branch in each.
use super::FileLink;
use regatta_metrics::{Film, FilmEvent, FilmRecord, FilmRing, FilmSubject, Slot, Tally};
use regatta_origin::Protocol as _;
use regatta_sys::{clock, socket::Connection, thread::number};
use std::{
    cell::Cell,
    os::fd::{AsFd as _, AsRawFd as _},
    process,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Acquire, fence},
    },
    thread,
};

/// Memory of this process and of those forked from it.
static FILM: OnceLock<Film<'static>> = OnceLock::new();

/// Keeps the memory in which films are made, for this process and those forked from here on.
pub fn keep(words: &'static [AtomicU64]) {
    if let Some(film) = Film::create(words) {
        // One that is there already stays.
        let _ = FILM.set(film);
    }
}

/// Place of a kernel thread in the current film.
struct Recorder {
    /// The film that `ring` is of.
    film: Cell<u64>,
    ring: Cell<Option<FilmRing<'static>>>,
    /// The user thread that runs; 0: none.
    unit: Cell<u32>,
    /// The connection of the last record.
    subject: Cell<FilmSubject>,
}

thread_local! {
    static RECORDER: Recorder = const {
        Recorder {
            film: Cell::new(0),
            ring: Cell::new(None),
            unit: Cell::new(0),
            subject: Cell::new(FilmSubject { connection: 0, request: 0 }),
        }
    };
}

/// Whether a film is made of the units that count there.
#[inline(always)]
pub(crate) fn is_on(tally: Tally<'_>) -> bool {
    tally.slot().is_filmed()
}

/// Writes a record about a connection.
// Never inlined: a user thread may run in another kernel thread after each suspension.
#[cold]
#[inline(never)]
pub(crate) fn write(tally: Tally<'_>, subject: FilmSubject, event: FilmEvent) {
    RECORDER.with(|recorder| recorder.write(tally.slot(), subject, recorder.unit.get(), event));
}

/// Writes a record about a helper of this thread, numbered from 0, which works for a connection.
#[cold]
#[inline(never)]
pub(crate) fn write_helper(
    tally: Tally<'_>,
    subject: FilmSubject,
    helper: usize,
    event: FilmEvent,
) {
    let unit = u32::try_from(helper + 1).unwrap_or(u32::MAX);
    RECORDER.with(|recorder| recorder.write(tally.slot(), subject, unit, event));
}

/// A connection, as records name it.
pub(crate) fn subject_of(conn: &FileLink, socket: &Connection) -> FilmSubject {
    #[expect(clippy::cast_possible_truncation, reason = "a record has its lower bits")]
    let request = conn.requests() as u16;
    FilmSubject { connection: socket.as_fd().as_raw_fd().unsigned_abs(), request }
}

/// The connection of this thread's last record.
#[cold]
#[inline(never)]
pub(crate) fn subject() -> FilmSubject {
    RECORDER.with(|recorder| recorder.subject.get())
}

/// Has records name this user thread, by its number from 1 on; 0: none runs.
#[cold]
#[inline(never)]
pub(crate) fn set_unit(unit: usize) {
    RECORDER.with(|recorder| recorder.unit.set(u32::try_from(unit).unwrap_or(u32::MAX)));
}

impl Recorder {
    #[inline(always)]
    fn write(&self, slot: Slot<'_>, subject: FilmSubject, unit: u32, event: FilmEvent) {
        // What was stored before the mark is seen now.
        fence(Acquire);
        let now = clock::nanos();
        self.subject.set(subject);
        #[cfg(test)]
        if tape::write(FilmRecord { at_ns: now, subject, unit, event }) {
            return;
        }
        let current = FILM.get().and_then(|film| Some((film, film.current(now)?)));
        let Some((film, (number, begin))) = current else {
            // It is over, and who made it may have ended before.
            return slot.set_filmed(false);
        };
        if self.film.replace(number) != number {
            self.ring.set(take(film, number));
        }
        if let Some(ring) = self.ring.get() {
            ring.push(&FilmRecord { at_ns: now.saturating_sub(begin), subject, unit, event });
        }
    }
}

/// Takes a ring for this thread.
#[cold]
#[inline(never)]
fn take(film: &Film<'static>, film_number: u64) -> Option<FilmRing<'static>> {
    let current = thread::current();
    let name = current.name().unwrap_or_default();
    film.take_ring(film_number, [process::id(), number()], name)
}

/// Records of a test, with the time of its clock.
#[cfg(test)]
pub(crate) mod tape {
    use regatta_metrics::FilmRecord;
    use std::cell::RefCell;

    thread_local! {
        static TAPE: RefCell<Option<Vec<FilmRecord>>> = const { RefCell::new(None) };
    }

    /// Keeps the records that this thread writes while `run` runs.
    pub(crate) fn of(run: impl FnOnce()) -> Vec<FilmRecord> {
        TAPE.set(Some(Vec::new()));
        run();
        TAPE.take().unwrap_or_default()
    }

    /// Whether this thread's records are kept.
    pub(crate) fn is_kept() -> bool {
        TAPE.with_borrow(Option::is_some)
    }

    /// Keeps a record; false if none are kept.
    pub(super) fn write(record: FilmRecord) -> bool {
        TAPE.with_borrow_mut(|tape| tape.as_mut().map(|tape| tape.push(record)).is_some())
    }
}
