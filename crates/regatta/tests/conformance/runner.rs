//! Tests from tables, run by libtest-mimic: its arguments and its output are those of the usual
//! harness, but it captures nothing. Here panics and reports reach the failure of their test.

use crate::harness::{Variant, lock};
use crate::site::remove_folders;
use libtest_mimic::{Arguments, Failed, Trial};
use std::backtrace::Backtrace;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::panic::PanicHookInfo;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A function with the name of its module and its own: a test, or a case that variants have.
#[derive(Debug)]
pub(crate) struct Case<Run> {
    pub(crate) name: &'static str,
    pub(crate) run: Run,
}

/// Cases that hold for the same variants.
pub(crate) type Set = &'static [Case<fn(&Variant)>];

/// Tests that no variant has.
pub(crate) type Tests = &'static [Case<fn()>];

/// Spells cases by topic, which is a module in scope: `topic: case case;`. A first line
/// `in module;` puts them below this name, so that several sets have cases of one topic.
macro_rules! cases {
    (in $module:ident; $($topic:ident: $($case:ident)+;)+) => {
        &[$($($crate::runner::Case {
            name: concat!(
                stringify!($module), "::", stringify!($topic), "::", stringify!($case)
            ),
            run: $topic::$case,
        },)+)+]
    };
    ($($topic:ident: $($case:ident)+;)+) => {
        &[$($($crate::runner::Case {
            name: concat!(stringify!($topic), "::", stringify!($case)),
            run: $topic::$case,
        },)+)+]
    };
}
pub(crate) use cases;

/// Tests of a variant: `prefix::variant::topic::case`.
pub(crate) fn trials_of(
    prefix: &str,
    variant: &'static Variant,
    sets: &'static [Set],
) -> impl Iterator<Item = Trial> {
    sets.iter().copied().flatten().map(move |case| trial_of(prefix, variant, case))
}

/// Test of a variant: `prefix::variant::topic::case`.
pub(crate) fn trial_of(
    prefix: &str,
    variant: &'static Variant,
    case: &'static Case<fn(&Variant)>,
) -> Trial {
    trial(format!("{prefix}::{}::{}", variant.name, case.name), move || (case.run)(variant))
}

/// Tests that no variant has: `topic::test`.
pub(crate) fn trials(tests: Tests) -> impl Iterator<Item = Trial> {
    tests.iter().map(|test| trial(test.name.to_owned(), test.run))
}

fn trial(name: String, test: impl FnOnce() + Send + 'static) -> Trial {
    let of_thread = name.clone();
    Trial::test(name, move || run_one(of_thread, test))
}

/// Runs those that the arguments name. Tests that no variant has come first: the longest would be
/// alone at the end. Cases have the order of their names, since neighbours share servers.
pub(crate) fn run(mut trials: Vec<Trial>) -> ExitCode {
    trials.sort_by(|one, other| place(one.name()).cmp(&place(other.name())));
    if let Some(pair) = trials.windows(2).find(|pair| pair[0].name() == pair[1].name()) {
        panic!("{} is in two tables, or twice in one: remove one", pair[0].name());
    }
    let mut arguments = Arguments::from_args();
    let by_environment = || std::env::var("RUST_TEST_THREADS").ok()?.parse().ok();
    arguments.test_threads = arguments.test_threads.or_else(by_environment);
    if !arguments.nocapture {
        std::panic::set_hook(Box::new(report_panic));
        thread::spawn(name_the_slow);
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    remove_folders();
    conclusion.exit_code()
}

/// Place of a test in their order. A case has the name of its variant, too.
fn place(name: &str) -> (bool, &str) {
    (name.matches("::").count() > 2, name)
}

/// A test in progress.
#[derive(Debug)]
struct Running {
    name: String,
    since: Instant,
    is_named: bool,
    reported: String,
}

/// Tests in progress, by the name that the kernel has for their threads: a thread that a test
/// starts inherits it.
static RUNNING: Mutex<BTreeMap<CString, Running>> = Mutex::new(BTreeMap::new());

/// Runs a test in a thread of its own, which has its name.
fn run_one(name: String, test: impl FnOnce() + Send) -> Result<(), Failed> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let mark = format!("test {}", COUNT.fetch_add(1, Ordering::Relaxed));
    let mark = CString::new(mark).expect("no zero byte");
    let (since, is_named, reported) = (Instant::now(), false, String::new());
    lock(&RUNNING).insert(mark.clone(), Running { name: name.clone(), since, is_named, reported });
    let ended = thread::scope(|scope| {
        let marked = || {
            rustix::thread::set_name(&mark).expect("a name for this thread");
            test();
        };
        thread::Builder::new().name(name).spawn_scoped(scope, marked).expect("a thread").join()
    });
    let running = lock(&RUNNING).remove(&mark).expect("still in progress");
    ended.map_err(|_| running.reported.into())
}

/// Adds text to the failure of the test that the current thread belongs to.
pub(crate) fn report(text: &str) {
    let mark = rustix::thread::name().expect("the name of this thread");
    match lock(&RUNNING).get_mut(&mark) {
        Some(running) => running.reported.push_str(text),
        None => eprint!("{text}"),
    }
}

fn report_panic(info: &PanicHookInfo<'_>) {
    let thread = thread::current();
    let mut text = format!("thread '{}' {info}\n", thread.name().unwrap_or("<unnamed>"));
    // A frame has two lines. Those of std and of this module say nothing about the test.
    let backtrace = Backtrace::capture().to_string();
    let lines: Vec<&str> = backtrace.lines().collect();
    for frame in lines.windows(2).filter(|frame| frame[1].contains("/tests/conformance/")) {
        if !frame[1].contains("/runner.rs") {
            text += &format!("{}\n{}\n", frame[0], frame[1]);
        }
    }
    report(&text);
}

/// Names tests that have run for a minute: one of them may hang.
fn name_the_slow() {
    const SLOW: Duration = Duration::from_secs(60);
    loop {
        thread::sleep(SLOW / 6);
        for running in lock(&RUNNING).values_mut() {
            if !running.is_named && running.since.elapsed() > SLOW {
                running.is_named = true;
                eprintln!("test {} has been running for over {SLOW:?}", running.name);
            }
        }
    }
}

/// Functions with the attribute `test` vanish without a warning: there is no harness for them.
pub(crate) fn no_function_has_the_attribute_test() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    for folder in [here.join("master"), here.join("http2"), here] {
        for entry in folder.read_dir().expect("the sources").flatten() {
            let Ok(text) = std::fs::read_to_string(entry.path()) else { continue };
            let found = text.lines().any(|line| line.trim() == "#[test]");
            assert!(!found, "{}: #[test]: put it into a table", entry.path().display());
        }
    }
}
