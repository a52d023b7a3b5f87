//! `cargo xtask test`: all checks, in order, ending with a count. `cargo xtask matrix`: the
//! conformance suite without its short cuts.
mod programs;

use self::programs::Program;
use crate::command::{cargo, output_of};
use crate::tidy;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::num::NonZero;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Package that is built with test hooks wherever there are tests, and without for users.
const HOOKED: &str = "regatta-sys";
/// Suite that mostly waits. It runs while all other tests do, which mostly compute.
const SUITE: &str = "conformance";
/// Tests of the suite that run at once, per processor: most wait for a server, which waits for a
/// deadline. With one test a processor is idle for nine tenths of the suite. With ten, other tests
/// wait for a processor for seconds, and their deadlines pass.
const SUITE_PER_PROCESSOR: usize = 6;
/// The same of other programs of tests.
const OTHERS_PER_PROCESSOR: usize = 1;
/// Other programs of tests that run at once.
const OTHERS_AT_ONCE: usize = 3;
/// Programs of tests that compare times of milliseconds. They run when all others are done.
const TIMED: [&str; 1] = ["engine"];
/// Programs of tests that compute or wait for long. They begin first.
const LONG: [&str; 5] = ["regatta_lab_core", "regatta_arch", "lab", "film", "arch"];
/// Programs of tests that only compute. They leave processors to the suite, which has deadlines.
const COMPUTING: [&str; 5] = ["regatta_arch", "regatta_lab_core", "xtask", "sim", "smoke"];
/// The harness's variable for the number of tests at once.
const THREADS: &str = "RUST_TEST_THREADS";
/// Variable with the file in which tests report omissions (`regatta_testkit::skips`).
const SKIPS: &str = "REGATTA_SKIPS";

/// Number of the next run of tests in this process.
static RUN: AtomicU32 = AtomicU32::new(0);

/// Counts of checks that passed, failed, or could not be tried.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Count {
    fn from_check(held: bool) -> Self {
        Self { passed: u64::from(held), failed: u64::from(!held), skipped: 0 }
    }

    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    /// Moves tests that left something out from passed to skipped: for their harness they passed.
    /// `said` has a line for each omission, `package: test: why`.
    fn leave_out(&mut self, said: &str) {
        let tests: BTreeSet<Vec<&str>> =
            said.lines().map(|line| line.splitn(3, ": ").take(2).collect()).collect();
        let tests = tests.len() as u64;
        self.passed = self.passed.saturating_sub(tests);
        self.skipped += tests;
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Outcome of a step.
#[derive(Debug)]
enum Outcome {
    /// The step ran. Tests are counted one by one, any other check as one. The summary's lines name
    /// omissions and their reasons, and unsteady tests.
    Ran(Count, Vec<String>),
    /// The step could not run here, for this reason.
    Skipped(String),
}

impl Outcome {
    /// Outcome of a single check.
    fn from_check(held: bool) -> Self {
        Self::Ran(Count::from_check(held), Vec::new())
    }
}

/// The steps so far.
#[derive(Debug)]
struct Report {
    steps: Vec<(String, Outcome, Duration)>,
}

impl Report {
    fn step(&mut self, name: &str, run: impl FnOnce() -> Outcome) {
        println!("\n=== {name} ===");
        let start = Instant::now();
        let outcome = run();
        if let Outcome::Skipped(why) = &outcome {
            println!("skipped: {why}");
        }
        self.add(name, outcome, start.elapsed());
    }

    /// Adds a step that ran alongside others.
    fn add(&mut self, name: &str, outcome: Outcome, took: Duration) {
        self.steps.push((name.to_owned(), outcome, took));
    }

    fn total(&self) -> Count {
        let mut total = Count::default();
        for (_, outcome, _) in &self.steps {
            match outcome {
                Outcome::Ran(count, _) => total.add(*count),
                Outcome::Skipped(_) => total.skipped += 1,
            }
        }
        total
    }

    /// Prints every step with its lines, then the total alone on the last line.
    fn print(&self) {
        println!("\n=== summary ===");
        for (name, outcome, time) in &self.steps {
            let (word, detail) = match outcome {
                Outcome::Ran(count, _) if count.failed > 0 => ("FAILED", count.to_string()),
                Outcome::Ran(count, _) => ("ok", count.to_string()),
                Outcome::Skipped(why) => ("skipped", why.clone()),
            };
            println!("{word:8} {:5.0} s  {name}: {detail}", time.as_secs_f64());
            if let Outcome::Ran(_, told) = outcome {
                told.iter().for_each(|line| println!("{:18}{line}", ""));
            }
        }
        println!("\n{}", self.total());
    }
}

/// Runs every step; true if none failed.
pub(crate) fn run() -> bool {
    let mut report = Report { steps: Vec::new() };
    report.step("format", || held(cargo().args(["fmt", "--all", "--check"])));
    report.step("dependencies: bans, licences, sources", dependencies);
    // Tests of one program start the other, which they do not build themselves.
    let mut programs = Vec::new();
    let (tidy, took) = std::thread::scope(|scope| {
        let start = Instant::now();
        let tidy = scope.spawn(move || (Outcome::from_check(tidy::run()), start.elapsed()));
        report.step("build and lints: both programs, all tests", || {
            let built = programs::build();
            let held = built.as_ref().is_some_and(|built| built.warnings == 0);
            programs = built.map(|built| built.programs).unwrap_or_default();
            Outcome::from_check(held)
        });
        tidy.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    report.add("tidy, during the build", tidy, took);
    let mut linted = None;
    report.step("tests: unit, table, simulation, conformance", || {
        run_tests(programs, || linted = Some(lint_unhooked()))
    });
    if let Some((outcome, took)) = linted {
        report.add("lints without test hooks, while tests ran", outcome, took);
    }
    report.print();
    report.total().failed == 0
}

/// Lints the package with test hooks without them, as users have it. Shows what the run said as a
/// whole.
fn lint_unhooked() -> (Outcome, Duration) {
    let start = Instant::now();
    let mut clippy = cargo();
    clippy.args(["clippy", "--package", HOOKED, "--", "-D", "warnings"]).stdin(Stdio::null());
    let ended = clippy.output();
    let said = ended.as_ref().map(|ended| String::from_utf8_lossy(&ended.stderr).into_owned());
    println!("\n--- clippy --package {HOOKED} ---");
    println!("{}", said.unwrap_or_else(|error| format!("cargo: {error}")).trim_end());
    let held = ended.is_ok_and(|ended| ended.status.success());
    (Outcome::from_check(held), start.elapsed())
}

/// Runs every case of the conformance suite for every variant, or those with `filter` in their
/// name; true if none failed.
pub(crate) fn matrix(filter: Option<&str>) -> bool {
    let mut report = Report { steps: Vec::new() };
    report.step("tests: conformance, every case for every variant", || {
        let mut test = cargo();
        test.args(["test", "--package", "regatta", "--features", "matrix", "--no-fail-fast"]);
        tests(test.args(["--test", "conformance"]).args(filter))
    });
    report.print();
    report.total().failed == 0
}

/// Runs a command whose exit code is its verdict.
fn held(command: &mut Command) -> Outcome {
    let ended = command.stdin(Stdio::null()).status();
    if let Err(error) = &ended {
        println!("{}: {error}", command.get_program().display());
    }
    Outcome::from_check(ended.is_ok_and(|status| status.success()))
}

/// Runs `cargo test`, and shows its output.
fn tests(command: &mut Command) -> Outcome {
    let (count, lines) = gather(command, SUITE_PER_PROCESSOR, &mut |line| println!("{line}"));
    Outcome::Ran(count, lines)
}

/// Runs programs of tests: the suite and, meanwhile, a few of the others at once, and `meanwhile`;
/// at last those of times. Shows the output of each as a whole.
fn run_tests(programs: Vec<Program>, meanwhile: impl FnOnce() + Send) -> Outcome {
    let sum = Mutex::new((Count::default(), Vec::new()));
    let run = |program: &Program, per_processor: usize| {
        let start = Instant::now();
        let mut said = vec![format!("\n--- {}: {} ---", program.package, program.name)];
        let mut keep = |line: &str| said.push(line.to_owned());
        let mut command = program.command(COMPUTING.contains(&&*program.name));
        let (count, left_out) = gather(&mut command, per_processor, &mut keep);
        said.push(format!("{:.0} s", start.elapsed().as_secs_f64()));
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        println!("{}", said.join("\n"));
        sum.0.add(count);
        sum.1.extend(left_out);
    };
    let [suite, timed, others] = in_lanes(programs);
    let queue = Mutex::new(others.into_iter());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        scope.spawn(meanwhile);
        scope.spawn(|| suite.iter().for_each(|program| run(program, SUITE_PER_PROCESSOR)));
        for _ in 0..OTHERS_AT_ONCE {
            scope.spawn(|| {
                while let Some(program) = next() {
                    run(&program, OTHERS_PER_PROCESSOR);
                }
            });
        }
    });
    timed.iter().for_each(|program| run(program, OTHERS_PER_PROCESSOR));
    let (count, lines) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    Outcome::Ran(count, lines)
}

/// Divides programs into the suite, those of times, and the others, the longest first.
fn in_lanes(programs: Vec<Program>) -> [Vec<Program>; 3] {
    let mut lanes = [const { Vec::new() }; 3];
    for program in programs {
        let name = &*program.name;
        let lane = if name == SUITE {
            0
        } else if TIMED.contains(&name) {
            1
        } else {
            2
        };
        lanes[lane].push(program);
    }
    let rank = |name: &str| LONG.iter().position(|long| *long == name).unwrap_or(LONG.len());
    lanes[2].sort_by_key(|program| rank(&program.name));
    lanes
}

/// Runs `cargo test`, passes on its output, adds up its runners' counts and gathers omissions.
fn gather(
    command: &mut Command,
    per_processor: usize,
    show: &mut dyn FnMut(&str),
) -> (Count, Vec<String>) {
    let mut count = Count::default();
    let mut left_out = Vec::new();
    let skips = std::env::temp_dir().join(format!(
        "regatta-skips-{}-{}",
        std::process::id(),
        RUN.fetch_add(1, Ordering::Relaxed)
    ));
    let made = std::fs::write(&skips, "");
    command.env(SKIPS, &skips).stdin(Stdio::null()).stdout(Stdio::piped());
    let is_set = command.get_envs().any(|(name, _)| name == THREADS);
    if !is_set && std::env::var_os(THREADS).is_none() {
        let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
        command.env(THREADS, (processors * per_processor).to_string());
    }
    let mut child = match made.and_then(|()| command.spawn()) {
        Ok(child) => child,
        Err(error) => {
            show(&format!("{}: {error}", command.get_program().display()));
            return (Count::from_check(false), Vec::new());
        }
    };
    let lines = child.stdout.take().map(|out| BufReader::new(out).lines());
    for line in lines.into_iter().flatten().map_while(Result::ok) {
        if let Some(one) = counted(&line) {
            count.add(one);
        }
        left_out.extend(ignored(&line).map(|what| format!("skipped: {what}")));
        if !is_quiet(&line) {
            show(&line);
        }
    }
    let succeeded = child.wait().is_ok_and(|status| status.success());
    if !succeeded && count.failed == 0 {
        // The build failed, or a runner died before its last line.
        count.failed = 1;
    }
    // A test that cannot write there fails.
    let said = std::fs::read_to_string(&skips).unwrap_or_default();
    let _ = std::fs::remove_file(&skips);
    count.leave_out(&said);
    left_out.extend(said.lines().map(|line| format!("skipped: {line}")));
    (count, left_out)
}

/// Lines that only report success.
fn is_quiet(line: &str) -> bool {
    line.is_empty()
        || line == "running 0 tests"
        || (line.starts_with("test ") && line.ends_with(" ... ok"))
        || (line.starts_with("test result: ok. 0 passed; 0 failed; 0 ignored"))
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; ...`.
fn counted(line: &str) -> Option<Count> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut count = Count::default();
    for part in numbers.split("; ") {
        let (number, what) = part.split_once(' ')?;
        match what {
            "passed" => count.passed = number.parse().ok()?,
            "failed" => count.failed = number.parse().ok()?,
            "ignored" => count.skipped = number.parse().ok()?,
            _ => {}
        }
    }
    Some(count)
}

/// Reads `test a ... ignored, why`.
fn ignored(line: &str) -> Option<String> {
    let (name, why) = line.strip_prefix("test ")?.split_once(" ... ignored")?;
    Some(format!("{name}{}", why.replacen(", ", ": ", 1)))
}

/// Checks the libraries by `deny.toml`: duplicate versions, licences, registries.
fn dependencies() -> Outcome {
    let is_there = output_of(cargo().args(["deny", "--version"])).is_some();
    if !is_there {
        return Outcome::Skipped("needs cargo-deny (cargo install --locked cargo-deny)".to_owned());
    }
    held(cargo().args(["deny", "--offline", "check", "bans", "licenses", "sources"]))
}

#[cfg(test)]
mod tests {
    use super::{Count, Outcome, Program, Report, counted, ignored, is_quiet, tests};
    use crate::command::{cargo, files_below, output_of, project_root};
    use crate::folder::Folder;
    use regatta_testkit::skips::skip;
    use std::ffi::OsString;
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    /// Packages of the workspace, as cargo describes them.
    fn metadata() -> Option<serde_json::Value> {
        let mut metadata = cargo();
        metadata.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]);
        serde_json::from_str(&output_of(&mut metadata)?).ok()
    }

    /// The README's first command names no package.
    #[test]
    fn cargo_run_is_the_program() {
        let said = metadata().expect("cargo");
        let default = said["workspace_default_members"].as_array().expect("a list");
        let packages = said["packages"].as_array().expect("a list").iter();
        let runs = packages.filter(|package| default.contains(&package["id"]));
        let targets = runs.flat_map(|package| package["targets"].as_array().expect("a list"));
        let programs = targets.filter(|target| target["kind"][0] == "bin");
        let names: Vec<_> = programs.map(|target| &target["name"]).collect();
        assert_eq!(names, ["regatta"]);
    }

    #[test]
    fn the_suite_is_apart_from_other_tests() {
        let names = ["http", "arch", "engine", "regatta_arch", "conformance"];
        let program = |name: &str| Program {
            package: "regatta".to_owned(),
            name: name.to_owned(),
            root: PathBuf::new(),
            path: PathBuf::new(),
        };
        let lanes = super::in_lanes(names.map(program).into());
        let lanes = lanes.map(|lane| lane.into_iter().map(|it| it.name).collect::<Vec<_>>());
        assert_eq!(lanes[0], ["conformance"]);
        assert_eq!(lanes[1], ["engine"]);
        assert_eq!(lanes[2], ["regatta_arch", "arch", "http"]);
    }

    /// A program that is renamed would lose its lane.
    #[test]
    fn programs_with_a_lane_exist() {
        let said = metadata().expect("cargo");
        let packages = said["packages"].as_array().expect("a list").iter();
        let targets = packages.flat_map(|package| package["targets"].as_array().expect("a list"));
        let names: Vec<&str> = targets.filter_map(|target| target["name"].as_str()).collect();
        let lanes = super::LONG.into_iter().chain(super::TIMED).chain([super::SUITE]);
        let lanes = lanes.chain(super::COMPUTING);
        let unknown: Vec<&str> = lanes.filter(|name| !names.contains(name)).collect();
        assert_eq!(unknown, [""; 0]);
    }

    #[test]
    fn the_runner_s_last_line_is_read() {
        let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered \
                    out; finished in 0.00s";
        assert_eq!(counted(line), Some(Count { passed: 3, failed: 2, skipped: 1 }));
        assert_eq!(counted("test a ... ok"), None);
        assert!(is_quiet("test a ... ok") && !is_quiet("test a ... FAILED"));
        assert_eq!(ignored("test a ... ignored").as_deref(), Some("a"));
        assert_eq!(ignored("test b::c ... ignored, has time").as_deref(), Some("b::c: has time"));
        assert_eq!(ignored("test a ... ok"), None);
    }

    /// Variable with which the test after the next makes the next one skip.
    const TOLD: &str = "REGATTA_TOLD_TO_SKIP";

    /// Passes for the usual harness, which hides its output.
    #[test]
    fn leaves_something_out() {
        if std::env::var_os(TOLD).is_some() {
            ["needs a moon", "needs\na sun"].into_iter().for_each(skip);
        }
    }

    #[test]
    fn what_tests_leave_out_is_not_passed() {
        let mut two = Command::new(std::env::current_exe().expect("this test"));
        two.args(["leaves_something_out", "the_total_counts_every_step"]);
        let ran = tests(two.env(TOLD, "1").stderr(Stdio::null()));
        let Outcome::Ran(count, left_out) = ran else { panic!("it can run here") };
        assert_eq!(count, Count { passed: 1, failed: 0, skipped: 1 });
        let of = |why| format!("skipped: xtask: test::tests::leaves_something_out: {why}");
        assert_eq!(left_out, ["needs a moon", "needs a sun"].map(of));
    }

    /// Variable with which the next test fails the first time: the file that marks that.
    const FAILS_ONCE: &str = "REGATTA_FAILS_ONCE";

    #[test]
    fn fails_once() {
        let Some(file) = std::env::var_os(FAILS_ONCE) else { return };
        assert!(std::fs::File::create_new(file).is_err());
    }

    #[test]
    fn a_test_that_fails_has_failed() {
        let folder = Folder::new("once");
        let mut two = Command::new(std::env::current_exe().expect("this test"));
        two.args(["fails_once", "the_total_counts_every_step"]);
        let ran = tests(two.env(FAILS_ONCE, folder.join("been")).stderr(Stdio::null()));
        let Outcome::Ran(count, lines) = ran else { panic!("it can run here") };
        assert_eq!(count, Count { passed: 1, failed: 1, skipped: 0 });
        assert_eq!(lines, [""; 0]);
    }

    #[test]
    fn the_total_counts_every_step() {
        let ran = |passed, failed| Outcome::Ran(Count { passed, failed, skipped: 0 }, Vec::new());
        let steps = [ran(1, 0), ran(40, 2), Outcome::Skipped("needs a moon".to_owned())];
        let steps = steps.map(|outcome| (String::new(), outcome, Duration::ZERO)).into();
        assert_eq!(Report { steps }.total().to_string(), "41 passed, 2 failed, 1 skipped");
    }

    /// Whether a line of documentation begins a block of code that rustdoc tests.
    fn begins_a_test(line: &str) -> bool {
        let text = ["///", "//!"].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
        let fence = text.and_then(|text| text.trim_start().strip_prefix("```"));
        fence.is_some_and(|words| words.is_empty() || words.contains("fail") || words == "rust")
    }

    /// The test command does not run examples.
    #[test]
    fn no_crate_has_examples_that_are_tests() {
        let mut found = super::BTreeSet::new();
        for path in files_below(&project_root().join("crates")) {
            if path.extension().is_none_or(|end| end != "rs") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source");
            // A block that begins with a word of its own ends with a bare fence.
            let mut fences = text.lines().filter(|line| line.contains("```")).step_by(2);
            if fences.any(begins_a_test) {
                let inside = path.strip_prefix(project_root()).expect("it is inside");
                found.insert(inside.iter().nth(1).map(ToOwned::to_owned));
            }
        }
        assert_eq!(found, super::BTreeSet::<Option<OsString>>::new());
    }
}
