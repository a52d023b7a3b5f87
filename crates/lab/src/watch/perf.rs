//! `perf record` alongside a trial, `perf script` after it, and a count of all system calls by the
//! kernel's own tracepoint.

use super::perf_script::{Sample, samples};
use crate::experiment::Machine;
use crate::group::INTERRUPTED;
use crate::programs;
use crate::servers::process::{Launch, Priority, Running, sleep_until, threads};
use perf_event::events::Tracepoint;
use perf_event::{Builder, Counter};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Samples a second: no divisor of anything that ticks.
const SAMPLES_PER_S: u32 = 997;
/// Part of the stack that is kept with each sample, bytes. Our programs have no frame pointers.
const STACK_BYTES: u32 = 8_192;
/// Time that perf has to end, and to print its recording.
const END_MAX: Duration = Duration::from_secs(180);
/// Time for which system calls are counted, after the samples.
const CALLS_FOR: Duration = Duration::from_millis(800);
/// Time by which a profile's load is longer than a trial's, seconds: perf starts and ends in it,
/// and system calls are counted.
pub(crate) const TAIL_S: f64 = 2.0;

/// Recorder of a trial's profile.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    machine: Machine,
    stop: &'a AtomicBool,
    scratch: PathBuf,
    perf: Result<Running, String>,
    /// The server's processes, from the start of the window to its end.
    own: BTreeSet<u32>,
    /// System calls of the server a second.
    pub(crate) calls_per_s: Result<f64, String>,
}

impl<'a> Recorder<'a> {
    pub(crate) fn new(machine: Machine, scratch: PathBuf, stop: &'a AtomicBool) -> Self {
        Self {
            machine,
            stop,
            scratch,
            perf: Err("perf was not started".to_owned()),
            own: BTreeSet::new(),
            calls_per_s: Err("system calls were not counted".to_owned()),
        }
    }

    /// Starts to take samples of the processes `pids` for `seconds`.
    pub(crate) fn start(&mut self, pids: &[u32], seconds: f64) {
        self.own.extend(pids);
        self.perf = match programs::find("perf") {
            None => Err("perf: not installed (apt-get install linux-perf)".to_owned()),
            Some(perf) => {
                let mut words: Vec<OsString> = vec![perf.into(), "record".into(), "-q".into()];
                words.extend(["-o".into(), self.file("perf.data").into()]);
                words.extend(["-F".into(), SAMPLES_PER_S.to_string().into()]);
                words.extend(["--call-graph".into(), format!("dwarf,{STACK_BYTES}").into()]);
                words.extend(self.whom(pids));
                words.extend(["--".into(), "sleep".into(), format!("{seconds:.2}").into()]);
                self.run(words, "perf.out")
            }
        };
    }

    /// All that runs on the server's processors where we may see it, so that the soft interrupts
    /// between processes are seen too; else the server alone.
    fn whom(&self, pids: &[u32]) -> Vec<OsString> {
        let list = |numbers: Vec<String>| OsString::from(numbers.join(","));
        let cpus = &self.machine.server_cpus;
        if may_see_all() && !cpus.is_empty() {
            let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            // A buffer for each: perf shares its processor with a busy client.
            let buffer = if cpus.len() == 1 { "32M" } else { "8M" };
            vec!["-a".into(), "-C".into(), list(cpus), "-m".into(), buffer.into()]
        } else {
            let pids = pids.iter().map(ToString::to_string).collect();
            vec!["-p".into(), list(pids)]
        }
    }

    fn run(&self, words: Vec<OsString>, out: &str) -> Result<Running, String> {
        let (out, errors) = (self.file(out), self.file("perf.err"));
        Running::start(&Launch {
            cpus: &self.machine.client_cpus,
            priority: Priority::Everything.if_asked(self.machine.realtime),
            ..Launch::plain(words, &out, &errors)
        })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    /// Ends the profile after the window: counts system calls while the load continues, then waits
    /// for perf. Fails only if it was interrupted.
    pub(crate) fn finish(&mut self, pids: &[u32]) -> Result<(), String> {
        self.own.extend(pids);
        let start = Instant::now();
        let counter = SystemCalls::start(pids);
        if !sleep_until(start + CALLS_FOR, self.stop) {
            return Err(INTERRUPTED.to_owned());
        }
        let seconds = start.elapsed().as_secs_f64();
        self.calls_per_s = counter
            .map(|counter| counter.stop() / seconds)
            .map_err(|why| format!("system calls cannot all be counted: {why}"));
        let taken = std::mem::replace(&mut self.perf, Err("perf has ended".to_owned()));
        let ended = taken.and_then(|perf| perf.wait(END_MAX, self.stop));
        self.perf = match ended {
            Err(why) if why == INTERRUPTED => return Err(why),
            Ok(Some(0)) => return Ok(()),
            Err(why) => Err(why),
            Ok(_) => Err(format!("perf record: {}", self.said())),
        };
        // Kept for `read`, which says why there is nothing.
        let _ = fs::remove_file(self.file("perf.data"));
        Ok(())
    }

    /// First line of perf's errors.
    fn said(&self) -> String {
        let said = fs::read_to_string(self.file("perf.err")).unwrap_or_default();
        let line = said.lines().map(str::trim).find(|line| !line.is_empty());
        line.unwrap_or("it failed and said nothing").to_owned()
    }

    /// Passes every sample to `each`, and whether it is the server's own or of a processor that ran
    /// no process.
    pub(crate) fn read(&self, mut each: impl FnMut(Sample, bool)) -> Result<(), String> {
        let recorded = self.file("perf.data");
        if !recorded.exists() {
            return Err(match &self.perf {
                Err(why) => why.clone(),
                Ok(_) => "perf did not end".to_owned(),
            });
        }
        let between = self.between();
        // Other programs' symbols can take minutes to read.
        let pids = self.own.iter().chain(&between).map(ToString::to_string);
        let pids = format!("--pid={}", pids.collect::<Vec<_>>().join(","));
        let perf = programs::find("perf").ok_or("perf: not installed")?;
        let mut words: Vec<OsString> = vec![perf.into(), "script".into(), pids.into()];
        words.extend(["--no-inline", "-F", "comm,pid,ip,sym,dso", "-i"].map(OsString::from));
        words.push(recorded.clone().into());
        let ended = self.run(words, "perf.script").and_then(|perf| perf.wait(END_MAX, self.stop));
        let _ = fs::remove_file(&recorded);
        if ended? != Some(0) {
            return Err(format!("perf script: {}", self.said()));
        }
        let path = self.file("perf.script");
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let text = BufReader::new(File::open(&path).map_err(named)?);
        samples(text, |sample| match sample.pid {
            Some(pid) if self.own.contains(&pid) => each(sample, true),
            Some(pid) if between.contains(&pid) => each(sample, false),
            _ => {}
        })
        .map_err(named)?;
        let _ = fs::remove_file(&path);
        Ok(())
    }

    /// Tasks that a processor of the server's runs between processes: the idle task, and the thread
    /// that soft interrupts fall back on.
    fn between(&self) -> BTreeSet<u32> {
        let cpus = &self.machine.server_cpus;
        if cpus.is_empty() {
            return BTreeSet::new();
        }
        let names: Vec<String> = cpus.iter().map(|cpu| format!("ksoftirqd/{cpu}")).collect();
        let mut found = BTreeSet::from([0]);
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
            let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            if let Some(pid) = pid.filter(|_| names.iter().any(|name| name == comm.trim())) {
                found.insert(pid);
            }
        }
        found
    }
}

/// Whether we may take samples of all processes (`perf_event_open(2)`).
pub(crate) fn may_see_all() -> bool {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    rustix::process::geteuid().is_root()
        || paranoid.trim().parse().is_ok_and(|level: i32| level < 1)
}

const TRACEPOINT: &str = "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id";

/// A counter of the system calls that some processes make. It slows each call, so it belongs in a
/// run of its own.
#[derive(Debug)]
struct SystemCalls(Vec<Counter>);

impl SystemCalls {
    /// Attaches to every thread of `pids`, and those that they start, and begins to count.
    fn start(pids: &[u32]) -> Result<Self, String> {
        Self::attach(threads(pids))
    }

    fn attach(threads: impl IntoIterator<Item = i32>) -> Result<Self, String> {
        let id = fs::read_to_string(TRACEPOINT).map_err(|e| format!("{TRACEPOINT}: {e}"))?;
        let id: u64 = id.trim().parse().map_err(|_| format!("{TRACEPOINT}: not a number"))?;
        let open = |thread: i32| -> std::io::Result<Counter> {
            let mut builder = Builder::new(Tracepoint::with_id(id));
            builder.observe_pid(thread).any_cpu().inherit(true);
            let mut counter = builder.exclude_kernel(false).exclude_hv(true).build()?;
            counter.enable()?;
            Ok(counter)
        };
        super::each_task(threads, open).map(Self).map_err(|error| error.to_string())
    }

    fn stop(mut self) -> f64 {
        let counts = self.0.iter_mut().map(|counter| {
            // A counter that cannot be stopped or read has counted nothing.
            let _ = counter.disable();
            counter.read().map(crate::units::real).unwrap_or_default()
        });
        counts.sum()
    }
}

#[cfg(test)]
mod tests {
    use super::SystemCalls;
    use regatta_testkit::skips::skip;

    #[test]
    fn a_thread_that_has_ended_is_left_out() {
        match SystemCalls::attach([i32::MAX]) {
            Ok(counter) => assert!(counter.0.is_empty()),
            Err(why) => skip(&format!("system calls cannot be counted here: {why}")),
        }
    }

    #[test]
    fn our_own_calls_are_counted_or_it_is_said_why_not() {
        match SystemCalls::start(&[std::process::id()]) {
            Ok(counter) => {
                for _ in 0..1_000 {
                    let _ = std::fs::metadata("/");
                }
                // Other tests run in other threads.
                assert!(counter.stop() >= 1_000.0);
            }
            Err(why) => {
                assert!(!why.is_empty());
                skip(&format!("system calls cannot be counted here: {why}"));
            }
        }
    }
}
