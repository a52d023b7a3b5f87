//! Access log: made by the master, opened once by each process, written by all of its units.
use super::{
    ErrorLog, Format,
    file::{LogDestination, LogFault, LogFile, Owner, Written, make},
    format::{Formatter, LineLimits},
    skip::SkippedPaths,
};
use crate::messages;
use regatta_arch::{Notice, WorkerLog};
use regatta_metrics::{ControlView, Counter, Tally};
use regatta_op::{Now, Tick};
use regatta_origin::{FileFault, FileOperation, Log, Record};
use regatta_sys::clock;
use std::{
    cell::{Cell, RefCell},
    fmt, io, mem,
    os::fd::BorrowedFd,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

/// Bytes at which a buffer is written.
pub const BUFFER_BYTES_MAX: usize = 64 << 10;

/// Age of the first line at which a buffer is written, milliseconds; provided the worker ticks.
pub const BUFFER_AGE_MS_MAX: u64 = 1000;

/// Time after a reported fault of a file in which further ones are only counted, milliseconds.
pub const FAULT_MS_MIN: u64 = 10_000;

/// Options of the access log.
#[derive(Clone, Debug)]
pub struct AccessLogOptions {
    /// Destination: `log.access`.
    pub destination: LogDestination,
    /// Format of its lines: `log.format`.
    pub format: Format,
    /// Paths whose requests it has no lines for: `log.skip`.
    pub skip: Arc<SkippedPaths>,
    /// Owner of a new file; `None` if the server does not change its user.
    pub owner: Option<Owner>,
    /// Duration above which a write counts as a stall, nanoseconds.
    pub stall_ns: u64,
    /// Whether each process has several units that write to it.
    pub has_units: bool,
}

/// Access log of the master: made, so that workers that may not make it can open it.
#[derive(Debug)]
pub struct AccessLog {
    options: AccessLogOptions,
    /// Standard error; a file is opened by each process.
    stderr: Option<Arc<LogFile>>,
    /// In a worker process, the state that its units share.
    process: OnceLock<Arc<Mutex<Process>>>,
}

impl AccessLog {
    /// Makes the access log if it is missing, and tests whether it can be opened.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub fn open(options: AccessLogOptions) -> Result<Self, LogFault> {
        match LogFile::open(&options.destination, options.owner) {
            Ok(file) => {
                let stderr = file.filter(|_| options.destination == LogDestination::Stderr);
                let (stderr, process) = (stderr.map(Arc::new), OnceLock::new());
                Ok(Self { options, stderr, process })
            }
            Err(fault) => Err(fault_of(&options.destination, fault)),
        }
    }

    /// Adopts an access log that another process has [made](Self::make).
    ///
    /// # Errors
    /// Standard error cannot be duplicated.
    pub fn adopt(options: AccessLogOptions) -> Result<Self, LogFault> {
        match &options.destination {
            LogDestination::Path(_) => Ok(Self { options, stderr: None, process: OnceLock::new() }),
            LogDestination::Off | LogDestination::Stderr => Self::open(options),
        }
    }

    /// Makes the file, if it is missing, and gives it to its owner. A process that is still root
    /// does this before workers open it.
    ///
    /// # Errors
    /// If it cannot be opened for appending.
    pub fn make(&self) -> Result<(), LogFault> {
        let AccessLogOptions { destination, owner, .. } = &self.options;
        make(destination, *owner).map(drop).map_err(|fault| fault_of(destination, fault))
    }

    /// File that workers inherit, so that a fork must not close it: standard error.
    #[must_use]
    pub fn inherited(&self) -> Option<Arc<LogFile>> {
        self.stderr.clone()
    }

    /// Makes the log of one unit, in its process, after that has changed its user.
    ///
    /// Lines of a process that may not open the file are dropped and counted.
    #[must_use]
    pub fn sink<'a>(
        &self,
        tally: Tally<'a>,
        control: ControlView<'a>,
        errors: ErrorLog,
    ) -> LogSink<'a> {
        let AccessLogOptions { destination, format, skip, stall_ns, has_units, .. } = &self.options;
        let wants = *destination != LogDestination::Off;
        let keeps = !has_units && matches!(tally, Tally::Owned(_));
        let process = self.process.get_or_init(|| {
            errors.tick();
            // First: a file that is replaced meanwhile is then reopened.
            let generation = control.log_generation();
            let file = self.file(&errors);
            let lines = Lines::with_room(file.as_deref(), wants && !keeps);
            Arc::new(Mutex::new(Process { file, torn: false, dropped: 0, generation, lines }))
        });
        let process = Arc::clone(process);
        let front = {
            let Process { file, generation, .. } = &*lock(&process);
            let limits = file.as_ref().map_or(LineLimits::FILE, |file| file.limits());
            RefCell::new(Front {
                formatter: Formatter::new(*format, limits),
                lines: Lines::with_room(file.as_deref(), wants && keeps),
                generation: *generation,
                room: Vec::new(),
            })
        };
        LogSink {
            wants,
            keep_bytes_max: if keeps { BUFFER_BYTES_MAX } else { 0 },
            tally,
            control,
            errors,
            stall_ns: *stall_ns,
            skip: Arc::clone(skip),
            destination: destination.clone(),
            faults: Faults::default(),
            front,
            process,
        }
    }

    /// File of this process, if it can be opened.
    fn file(&self, errors: &ErrorLog) -> Option<Arc<LogFile>> {
        let AccessLogOptions { destination, .. } = &self.options;
        match destination {
            LogDestination::Path(_) => match LogFile::open(destination, None) {
                Ok(own) => own.map(Arc::new),
                Err(fault) => {
                    let fault = fault_of(destination, fault);
                    errors.note(
                        messages::ACCESS_LOG_CLOSED,
                        format_args!("lines are dropped until SIGUSR1: {fault}"),
                    );
                    None
                }
            },
            LogDestination::Off | LogDestination::Stderr => self.stderr.clone(),
        }
    }
}

fn fault_of(destination: &LogDestination, fault: io::Error) -> LogFault {
    LogFault { option: "log.access", destination: destination.clone(), fault }
}

/// Access log of one unit.
///
/// Lines are kept until they fill [`BUFFER_BYTES_MAX`], are [`BUFFER_AGE_MS_MAX`] old at a
/// [`tick`](WorkerLog::tick), or are [`flush`](WorkerLog::flush)ed. Bytes that the system does not
/// take are dropped and counted, never waited for or kept.
///
/// A unit that is alone in its process keeps its lines to itself. Others hand over each whole line
/// to a common buffer; the unit that fills it writes it.
#[derive(Debug)]
pub struct LogSink<'a> {
    wants: bool,
    /// Bytes of lines at which they are handed over; 0 does so with each line.
    keep_bytes_max: usize,
    tally: Tally<'a>,
    control: ControlView<'a>,
    errors: ErrorLog,
    stall_ns: u64,
    skip: Arc<SkippedPaths>,
    destination: LogDestination,
    faults: Faults,
    front: RefCell<Front>,
    process: Arc<Mutex<Process>>,
}

/// Tick of the last reported fault of a file, and the number since.
#[derive(Debug, Default)]
struct Faults(Cell<(Option<Tick>, u64)>);

impl Faults {
    /// Counts a fault. If it is to be reported: the number that were not since the last report.
    fn unsaid(&self, now: Tick) -> Option<u64> {
        let (said, unsaid) = self.0.get();
        let soon = said.is_some_and(|said| now.since(said) < FAULT_MS_MIN);
        self.0.set(if soon { (said, unsaid + 1) } else { (Some(now), 0) });
        (!soon).then_some(unsaid)
    }
}

/// State of one unit.
#[derive(Debug)]
struct Front {
    formatter: Formatter,
    lines: Lines,
    /// Generation of the file that its lines go to.
    generation: u64,
    /// For paths that are decoded.
    room: Vec<u8>,
}

/// State that the units of a process share.
#[derive(Debug)]
struct Process {
    /// `None` if it cannot be opened.
    file: Option<Arc<LogFile>>,
    /// Whether the last write ended within a line.
    torn: bool,
    /// Number of lines dropped since the last successful write.
    dropped: u64,
    /// Generation of the open file.
    generation: u64,
    /// Lines that units have handed over.
    lines: Lines,
}

fn lock(process: &Mutex<Process>) -> MutexGuard<'_, Process> {
    // A panic under the lock leaves whole lines.
    process.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lines that wait to be written.
#[derive(Debug, Default)]
struct Lines {
    /// Whole lines; before them a line feed if the last write ended within a line.
    bytes: Vec<u8>,
    /// Number of lines.
    count: u64,
    /// First tick after the first line arrived.
    since: Option<Tick>,
}

impl Lines {
    fn with_room(file: Option<&LogFile>, wanted: bool) -> Self {
        let limits = file.map_or(LineLimits::FILE, LogFile::limits);
        let room = if wanted { BUFFER_BYTES_MAX + limits.line_bytes_max() } else { 0 };
        Self { bytes: Vec::with_capacity(room), ..Self::default() }
    }

    /// True if they have waited long enough.
    fn is_old(&mut self, now: Tick) -> bool {
        self.count > 0 && now.since(*self.since.get_or_insert(now)) >= BUFFER_AGE_MS_MAX
    }
}

impl Log for LogSink<'_> {
    fn wants(&self) -> bool {
        self.wants
    }

    fn record(&self, record: &Record<'_>) {
        if !self.wants {
            return;
        }
        let Front { formatter, lines, room, .. } = &mut *self.front.borrow_mut();
        if !self.skip.is_empty() && self.skip.has(record.target, room) {
            return;
        }
        formatter.write(&mut lines.bytes, record);
        lines.count += 1;
        self.tally.add(Counter::LogLines, 1);
        if lines.bytes.len() >= self.keep_bytes_max {
            self.hand_over(lines);
        }
    }

    fn fault(&self, fault: &FileFault<'_>) {
        let Some(unsaid) = self.faults.unsaid(clock::now().tick) else { return };
        let wanted = match fault.wanted {
            FileOperation::Open => "open",
            FileOperation::Read => "read",
        };
        let path = String::from_utf8_lossy(fault.path);
        let error = io::Error::from_raw_os_error(fault.errno);
        let before = match unsaid {
            0 => String::new(),
            _ => format!("; {unsaid} more failed since the last such line"),
        };
        let of = if fault.host.is_empty() { "" } else { ", for " };
        let before = format_args!("{of}{}{before}", fault.host);
        self.errors.note(
            messages::FILE_FAULT,
            format_args!("cannot {wanted} \"{path}\": {error}{before}"),
        );
    }
}

impl WorkerLog for LogSink<'_> {
    fn tick(&self, now: Now) {
        let front = &mut *self.front.borrow_mut();
        if self.control.log_generation() != front.generation {
            self.reopen(front);
        }
        if front.lines.is_old(now.tick) {
            self.hand_over(&mut front.lines);
        }
        if self.keep_bytes_max == 0 {
            let mut process = lock(&self.process);
            if process.lines.is_old(now.tick) {
                self.write_kept(&mut process);
            }
        }
    }

    fn flush(&self) {
        self.hand_over(&mut self.front.borrow_mut().lines);
        self.write_kept(&mut lock(&self.process));
    }

    fn is_due(&self) -> bool {
        self.control.log_generation() != self.front.borrow().generation
    }

    fn each_own(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        let process = lock(&self.process);
        process.file.as_ref().and_then(|file| file.own()).into_iter().for_each(&mut *each);
        self.errors.each_own(each);
    }

    fn notice(&self, about: Notice, message: fmt::Arguments<'_>) {
        let id = match about {
            Notice::Decision => messages::CONTROLLER_DECISION,
            Notice::DiskSilent => messages::DISK_SILENT,
            Notice::DiskBack => messages::DISK_BACK,
        };
        self.errors.note(id, message);
    }
}

impl Drop for LogSink<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

impl LogSink<'_> {
    /// Has this unit's lines written: now if it has kept them, else with those of others.
    fn hand_over(&self, lines: &mut Lines) {
        let process = &mut *lock(&self.process);
        if self.keep_bytes_max > 0 {
            return self.write(process, lines);
        }
        process.lines.bytes.append(&mut lines.bytes);
        process.lines.count += mem::take(&mut lines.count);
        if process.lines.bytes.len() >= BUFFER_BYTES_MAX {
            self.write_kept(process);
        }
    }

    /// Reopens the file, after writing the buffers to the old one.
    fn reopen(&self, front: &mut Front) {
        self.hand_over(&mut front.lines);
        let process = &mut *lock(&self.process);
        let generation = self.control.log_generation();
        if process.generation != generation {
            self.write_kept(process);
            process.generation = generation;
            self.errors.tick();
            self.renew(process);
        }
        if let Some(file) = &process.file {
            front.formatter.set_limits(file.limits());
        }
        if !process.torn {
            front.lines.bytes.clear();
        }
        front.generation = generation;
    }

    /// Opens the file at its path.
    fn renew(&self, process: &mut Process) {
        if !self.wants || !matches!(self.destination, LogDestination::Path(_)) {
            return;
        }
        match LogFile::open(&self.destination, None) {
            Ok(file) => {
                process.file = file.map(Arc::new);
                process.torn = false;
                process.lines.bytes.clear();
            }
            Err(fault) => {
                let fault = fault_of(&self.destination, fault);
                self.errors.note(
                    messages::LOG_NOT_REOPENED,
                    format_args!("still logging to the old file: {fault}"),
                );
            }
        }
    }

    /// Writes the lines that units have handed over.
    fn write_kept(&self, process: &mut Process) {
        let mut lines = mem::take(&mut process.lines);
        self.write(process, &mut lines);
        process.lines = lines;
    }

    fn write(&self, process: &mut Process, lines: &mut Lines) {
        lines.since = None;
        if mem::take(&mut lines.count) == 0 {
            return;
        }
        let start_ns = clock::nanos();
        let written = match &process.file {
            Some(file) => file.write(&lines.bytes),
            None => Written { bytes: 0, calls: 0, fault: Some(io::ErrorKind::NotFound.into()) },
        };
        let took_ns = clock::nanos().saturating_sub(start_ns);
        self.tally.add(Counter::LogBytes, written.bytes as u64);
        self.tally.add(Counter::LogWrites, written.calls);
        if took_ns > self.stall_ns {
            self.tally.add(Counter::StallLog, 1);
            self.tally.add(Counter::StallLogNs, took_ns);
        }
        self.drop_unwritten(process, &mut lines.bytes, &written);
    }

    /// Drops the lines that were not written, and reports so once until writing works again.
    fn drop_unwritten(&self, process: &mut Process, buffer: &mut Vec<u8>, written: &Written) {
        if let Some(fault) = &written.fault {
            // A file that is not open has been reported.
            if process.dropped == 0 && process.file.is_some() {
                self.errors.note(
                    messages::ACCESS_LOG_FAILED,
                    format_args!(
                        "log.access: writing to {} failed: {fault}; lines are dropped and counted",
                        self.destination
                    ),
                );
            }
            let rest = &buffer[written.bytes..];
            let mut dropped = rest.iter().filter(|&&byte| byte == b'\n').count() as u64;
            if written.bytes == 0 {
                // The line feed that ends a torn line is no line.
                dropped -= u64::from(process.torn);
            } else {
                let lines = &buffer[..written.bytes];
                let whole = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
                let torn = (lines.len() - whole) as u64;
                let file = process.file.as_ref();
                process.torn = torn > 0 && !file.is_some_and(|file| file.take_back(torn));
            }
            process.dropped += dropped;
            self.tally.add(Counter::LogDropped, dropped);
        } else {
            process.torn = false;
            let dropped = mem::take(&mut process.dropped);
            if dropped > 0 {
                self.errors.note(
                    messages::ACCESS_LOG_WORKS,
                    format_args!(
                        "log.access: writing to {} works again; {dropped} lines were dropped",
                        self.destination
                    ),
                );
            }
        }
        buffer.clear();
        if process.torn {
            buffer.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_testkit::counters::arena;

    #[test]
    fn faults_that_are_not_said_are_counted() {
        let faults = Faults::default();
        let ticks = [0, 1, 9_999, 10_000, 10_001, 30_000, 40_000];
        let said = ticks.map(|ms| faults.unsaid(Tick(ms)));
        assert_eq!(said, [Some(0), None, None, Some(2), None, Some(1), Some(0)]);
    }

    #[test]
    fn a_torn_line_is_ended_before_the_next_one() {
        let arena = arena(1);
        let errors = ErrorLog::open(LogDestination::Off, None, None).expect("off cannot fail");
        let destination = LogDestination::Path("/dev/null".into());
        let (format, skip, owner) = (Format::Common, Arc::default(), None);
        let (stall_ns, has_units) = (10_000_000, false);
        let options = AccessLogOptions { destination, format, skip, owner, stall_ns, has_units };
        let log = AccessLog::open(options).expect("/dev/null exists");
        let sink = log.sink(Tally::Owned(arena.slot(0)), arena.view().control(), errors);
        let (mut process, mut buffer) = (lock(&sink.process), Vec::new());
        let mut write = |lines: &[u8], bytes| {
            buffer.extend_from_slice(lines);
            let fault = Some(io::ErrorKind::StorageFull.into());
            sink.drop_unwritten(&mut process, &mut buffer, &Written { bytes, calls: 1, fault });
            (buffer.clone(), process.dropped)
        };
        assert_eq!(write(b"one\ntwo\nthree\n", 6), (b"\n".to_vec(), 2));
        assert_eq!(write(b"four\n", 0), (b"\n".to_vec(), 3));
        assert_eq!(write(b"five\nsix\n", 6), (Vec::new(), 4));
        assert_eq!(arena.slot(0).get(Counter::LogDropped), 4);
    }
}
