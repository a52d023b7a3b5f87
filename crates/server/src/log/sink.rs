//! The access log: opened by the master, written by the workers.
use super::{
    ErrorLog, Format, Level,
    file::{Destination, LogFault, LogFile, Owner, Written},
    format::{Formatter, Limits},
};
use regatta_arch::WorkerLog;
use regatta_metrics::{ControlView, Counter, Tally};
use regatta_op::{Now, Tick};
use regatta_origin::{FileFault, Log, Record, Wanted};
use regatta_sys::clock;
use std::{
    cell::{Cell, RefCell},
    io, mem,
    os::fd::BorrowedFd,
    sync::Arc,
};

/// A buffer that holds as many bytes is written.
pub const BUFFER_BYTES_MAX: usize = 64 << 10;

/// A buffer whose first line is as old is written, milliseconds; given that the worker ticks.
pub const BUFFER_AGE_MS_MAX: u64 = 1000;

/// Faults of files that come sooner after one that was said are only counted in the next line,
/// milliseconds.
pub const FAULT_MS_MIN: u64 = 10_000;

/// What to log and where.
#[derive(Clone, Debug)]
pub struct AccessLogOptions {
    /// Where it goes: `log.access`.
    pub destination: Destination,
    /// The form of its lines: `log.format`.
    pub format: Format,
    /// Whom a new file is given to; `None` if the server does not change its user.
    pub owner: Option<Owner>,
    /// A write that takes longer counts as a stall, nanoseconds.
    pub stall_ns: u64,
}

/// The access log as the master has it: made, so that workers which may not make it can open it.
#[derive(Debug)]
pub struct AccessLog {
    options: AccessLogOptions,
    /// Standard error; a file is opened by each worker.
    stderr: Option<Arc<LogFile>>,
}

impl AccessLog {
    /// Makes the access log if it is not there, and sees whether it can be opened.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub fn open(options: AccessLogOptions) -> Result<Self, LogFault> {
        match LogFile::open(&options.destination, options.owner) {
            Ok(file) => {
                let stderr = file.filter(|_| options.destination == Destination::Stderr);
                Ok(Self { stderr: stderr.map(Arc::new), options })
            }
            Err(fault) => Err(fault_of(&options.destination, fault)),
        }
    }

    /// Makes the file, if it is not there any more, and gives it to its owner: what a master that
    /// is still root does before workers open it.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub fn renew(&self) -> Result<(), LogFault> {
        let AccessLogOptions { destination, owner, .. } = &self.options;
        match destination {
            Destination::Path(_) => LogFile::open(destination, *owner)
                .map(drop)
                .map_err(|fault| fault_of(destination, fault)),
            Destination::Off | Destination::Stderr => Ok(()),
        }
    }

    /// What workers inherit, so that a fork must not close it: standard error.
    #[must_use]
    pub fn inherited(&self) -> Option<Arc<LogFile>> {
        self.stderr.clone()
    }

    /// The log of one worker, to be made in that worker, after it has changed its user.
    ///
    /// The lines of a worker that may not open the file are dropped and counted.
    #[must_use]
    pub fn sink<'a>(
        &self,
        tally: Tally<'a>,
        control: ControlView<'a>,
        errors: ErrorLog,
    ) -> LogSink<'a> {
        let options = &self.options;
        errors.tick();
        let file = match &options.destination {
            Destination::Path(_) => match LogFile::open(&options.destination, None) {
                Ok(own) => own.map(Arc::new),
                Err(fault) => {
                    let fault = fault_of(&options.destination, fault);
                    errors.note(
                        Level::Error,
                        format_args!("lines are dropped until SIGUSR1 comes: {fault}"),
                    );
                    None
                }
            },
            Destination::Off | Destination::Stderr => self.stderr.clone(),
        };
        let wants = options.destination != Destination::Off;
        let limits = file.as_ref().map_or(Limits::FILE, |file| file.limits());
        let buffer_bytes = if wants { BUFFER_BYTES_MAX + limits.line_bytes_max() } else { 0 };
        LogSink {
            wants,
            tally,
            control,
            errors,
            stall_ns: options.stall_ns,
            destination: options.destination.clone(),
            faults: Faults::default(),
            state: RefCell::new(State {
                file,
                formatter: Formatter::new(options.format, limits),
                buffer: Vec::with_capacity(buffer_bytes),
                lines: 0,
                since: None,
                torn: false,
                dropped: 0,
                generation: control.log_generation(),
            }),
        }
    }
}

fn fault_of(destination: &Destination, fault: io::Error) -> LogFault {
    LogFault { option: "log.access", destination: destination.clone(), fault }
}

/// The access log of one worker.
///
/// Lines are kept until they fill [`BUFFER_BYTES_MAX`], are [`BUFFER_AGE_MS_MAX`] old at a
/// [`tick`](WorkerLog::tick), or are [`flush`](WorkerLog::flush)ed. What the system does not take
/// is dropped and counted; it is never waited for or kept.
#[derive(Debug)]
pub struct LogSink<'a> {
    wants: bool,
    tally: Tally<'a>,
    control: ControlView<'a>,
    errors: ErrorLog,
    stall_ns: u64,
    destination: Destination,
    faults: Faults,
    state: RefCell<State>,
}

/// When a file's fault was said last, and how many have come since.
#[derive(Debug, Default)]
struct Faults(Cell<(Option<Tick>, u64)>);

impl Faults {
    /// One more has come: if it is to be said, how many were not since the last that was.
    fn unsaid(&self, now: Tick) -> Option<u64> {
        let (said, unsaid) = self.0.get();
        let soon = said.is_some_and(|said| now.since(said) < FAULT_MS_MIN);
        self.0.set(if soon { (said, unsaid + 1) } else { (Some(now), 0) });
        (!soon).then_some(unsaid)
    }
}

#[derive(Debug)]
struct State {
    /// None if it cannot be opened.
    file: Option<Arc<LogFile>>,
    formatter: Formatter,
    /// Whole lines; before them an empty one if the last write left off within a line.
    buffer: Vec<u8>,
    /// Lines in the buffer.
    lines: u64,
    /// The tick that first saw them.
    since: Option<Tick>,
    /// The last write left off within a line.
    torn: bool,
    /// Lines dropped since the last write that went well.
    dropped: u64,
    /// The generation of the open file.
    generation: u64,
}

impl Log for LogSink<'_> {
    fn wants(&self) -> bool {
        self.wants
    }

    fn record(&self, record: &Record<'_>) {
        if !self.wants {
            return;
        }
        let mut state = self.state.borrow_mut();
        let State { formatter, buffer, lines, .. } = &mut *state;
        formatter.write(buffer, record);
        *lines += 1;
        self.tally.add(Counter::LogLines, 1);
        if buffer.len() >= BUFFER_BYTES_MAX {
            self.write(&mut state);
        }
    }

    fn fault(&self, fault: &FileFault<'_>) {
        let Some(unsaid) = self.faults.unsaid(clock::now().tick) else { return };
        let wanted = match fault.wanted {
            Wanted::Open => "open",
            Wanted::Read => "read",
        };
        let path = String::from_utf8_lossy(fault.path);
        let error = io::Error::from_raw_os_error(fault.errno);
        let before = match unsaid {
            0 => String::new(),
            _ => format!("; {unsaid} more failed since the last such line"),
        };
        self.errors.note(Level::Error, format_args!("cannot {wanted} \"{path}\": {error}{before}"));
    }
}

impl WorkerLog for LogSink<'_> {
    fn tick(&self, now: Now) {
        let mut state = self.state.borrow_mut();
        if self.control.log_generation() != state.generation {
            self.reopen(&mut state);
        }
        if state.lines > 0 {
            let since = *state.since.get_or_insert(now.tick);
            if now.tick.since(since) >= BUFFER_AGE_MS_MAX {
                self.write(&mut state);
            }
        }
    }

    fn flush(&self) {
        self.write(&mut self.state.borrow_mut());
    }

    fn is_due(&self) -> bool {
        self.control.log_generation() != self.state.borrow().generation
    }

    fn each_own(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        let state = self.state.borrow();
        state.file.as_ref().and_then(|file| file.own()).into_iter().for_each(&mut *each);
        self.errors.each_own(each);
    }
}

impl Drop for LogSink<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl LogSink<'_> {
    /// What is in the buffer belongs to the old file.
    fn reopen(&self, state: &mut State) {
        self.write(state);
        state.generation = self.control.log_generation();
        self.errors.tick();
        if !self.wants || !matches!(self.destination, Destination::Path(_)) {
            return;
        }
        match LogFile::open(&self.destination, None) {
            Ok(file) => {
                if let Some(file) = &file {
                    state.formatter.set_limits(file.limits());
                }
                state.file = file.map(Arc::new);
                state.torn = false;
                state.buffer.clear();
            }
            Err(fault) => {
                let fault = fault_of(&self.destination, fault);
                self.errors.note(Level::Error, format_args!("still the old file: {fault}"));
            }
        }
    }

    fn write(&self, state: &mut State) {
        state.since = None;
        let lines = mem::take(&mut state.lines);
        if lines == 0 {
            return;
        }
        let start_ns = clock::nanos();
        let written = match &state.file {
            Some(file) => file.write(&state.buffer),
            None => Written { bytes: 0, calls: 0, fault: Some(io::ErrorKind::NotFound.into()) },
        };
        let took_ns = clock::nanos().saturating_sub(start_ns);
        self.tally.add(Counter::LogBytes, written.bytes as u64);
        self.tally.add(Counter::LogWrites, written.calls);
        if took_ns > self.stall_ns {
            self.tally.add(Counter::StallLog, 1);
            self.tally.add(Counter::StallLogNs, took_ns);
        }
        self.after(state, &written);
    }

    /// Drops what was not written, and says so once until writing goes well again.
    fn after(&self, state: &mut State, written: &Written) {
        if let Some(fault) = &written.fault {
            // That it is not open has been said.
            if state.dropped == 0 && state.file.is_some() {
                self.errors.note(
                    Level::Error,
                    format_args!(
                        "log.access: writing to {} failed: {fault}; lines are dropped and counted",
                        self.destination
                    ),
                );
            }
            let rest = &state.buffer[written.bytes..];
            let mut dropped = rest.iter().filter(|&&byte| byte == b'\n').count() as u64;
            if written.bytes == 0 {
                // The line feed that ends a torn line is no line.
                dropped -= u64::from(state.torn);
            } else {
                let lines = &state.buffer[..written.bytes];
                let whole = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                let torn = (lines.len() - whole) as u64;
                let file = state.file.as_ref();
                state.torn = torn > 0 && !file.is_some_and(|file| file.take_back(torn));
            }
            state.dropped += dropped;
            self.tally.add(Counter::LogDropped, dropped);
        } else {
            state.torn = false;
            let dropped = mem::take(&mut state.dropped);
            if dropped > 0 {
                self.errors.note(
                    Level::Notice,
                    format_args!(
                        "log.access: writing to {} goes well again; {dropped} lines were dropped",
                        self.destination
                    ),
                );
            }
        }
        state.buffer.clear();
        if state.torn {
            state.buffer.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_metrics::Arena;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn faults_that_are_not_said_are_counted() {
        let faults = Faults::default();
        let ticks = [0, 1, 9_999, 10_000, 10_001, 30_000, 40_000];
        let said = ticks.map(|ms| faults.unsaid(Tick(ms)));
        assert_eq!(said, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }

    #[test]
    fn a_torn_line_is_ended_before_the_next_one() {
        let words: Vec<_> = (0..Arena::words(1)).map(|_| AtomicU64::new(0)).collect();
        let arena = Arena::create(&words, 1);
        let errors = ErrorLog::open(Destination::Off, None, None).expect("off cannot fail");
        let options = AccessLogOptions {
            destination: Destination::Path("/dev/null".into()),
            format: Format::Common,
            owner: None,
            stall_ns: 10_000_000,
        };
        let log = AccessLog::open(options).expect("/dev/null exists");
        let sink = log.sink(Tally::Owned(arena.slot(0)), arena.view().control(), errors);
        let mut state = sink.state.borrow_mut();
        let mut write = |lines: &[u8], bytes| {
            state.buffer.extend_from_slice(lines);
            let fault = Some(io::ErrorKind::StorageFull.into());
            sink.after(&mut state, &Written { bytes, calls: 1, fault });
            (state.buffer.clone(), state.dropped)
        };
        assert_eq!(write(b"one\ntwo\nthree\n", 6), (b"\n".to_vec(), 2));
        assert_eq!(write(b"four\n", 0), (b"\n".to_vec(), 3));
        assert_eq!(write(b"five\nsix\n", 6), (Vec::new(), 4));
        assert_eq!(arena.slot(0).get(Counter::LogDropped), 4);
    }
}
