//! The commands of the course, shortened: experiments of a lesson run one trial of half a second
//! for each arm.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

use regatta_testkit::folder::Folder;
use regatta_testkit::programs;
use regatta_testkit::skips::skip;
use std::fs;
use std::num::NonZero;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use xtask::command::project_root;
use xtask::course::{COMMAND_MAX, Lesson, fault, lessons};

/// Laid over the experiment of a lesson. Other tests need the processors, too.
const SHORT: &str = "machine.realtime = false
measure = { blocks = 1, warm_s = 0.1, window_s = 0.5 }
";
/// Lines of experiments, and what replaces the large part of each: 8,000 files, 10,000 connections.
const SMALLER: [(&str, &str); 2] = [
    ("extends = \"course-cold\"", "workload = { preset = \"smoke\", dirs = 1 }\n"),
    ("idle = ", "workload.idle = 100\n"),
];

/// Words with which the lab prints the steps of an experiment and their time.
const PLAN: [&str; 2] = ["--plan", "--json"];

/// Runs a command in a folder, and returns its standard output.
fn run(words: &[String], folder: &Path) -> String {
    let program = match &*words[0] {
        "regatta" => programs::regatta(),
        _ => programs::regatta_lab(),
    };
    let mut command = Command::new(program);
    command.args(&words[1..]).current_dir(folder).stdin(Stdio::null());
    let ended = command.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    if ended.status.code() == Some(2) && said.contains("cannot be filmed here") {
        skip(said.trim_end());
    } else {
        assert!(ended.status.success(), "{}: {:?}\n{said}", words.join(" "), ended.status.code());
    }
    String::from_utf8(ended.stdout).unwrap()
}

/// The position of the experiment's name in a command of the lab.
fn experiment_in(words: &[String]) -> Option<usize> {
    let at = words.windows(2).position(|two| two == ["lab", "run"])?;
    Some(at + 2)
}

/// Checks the time of an experiment in full, and runs it shortened.
fn race(words: &[String], at: usize, folder: &Path) {
    let planned = run(&[words, &PLAN.map(str::to_owned)].concat(), folder);
    let plan: serde_json::Value = serde_json::from_str(&planned).unwrap();
    let seconds = plan["seconds"].as_f64().unwrap();
    assert!(seconds < COMMAND_MAX.as_secs_f64(), "{}: {seconds} s", words.join(" "));
    let name = &words[at];
    let full = fs::read_to_string(project_root().join(format!("experiments/{name}.toml"))).unwrap();
    let has = |start: &str| full.lines().any(|line| line.starts_with(start));
    let smaller = SMALLER.iter().filter(|(start, _)| has(start)).map(|(_, smaller)| *smaller);
    let short = format!("extends = \"{name}\"\n{SHORT}{}", smaller.collect::<String>());
    fs::write(folder.join("short.toml"), short).unwrap();
    let mut words = words.to_vec();
    words[at] = "short.toml".to_owned();
    run(&words, folder);
}

/// Runs all commands of a lesson.
fn attend(lesson: &Lesson) {
    assert_eq!(fault(lesson), None);
    let folder = Folder::new(&format!("course-{}", lesson.name));
    // The servers of root's lab run as another user.
    fs::set_permissions(&*folder, fs::Permissions::from_mode(0o755)).unwrap();
    for words in &lesson.commands {
        match experiment_in(words) {
            Some(at) => race(words, at, &folder),
            None => drop(run(words, &folder)),
        }
    }
}

#[test]
fn commands_of_all_lessons_run() {
    if std::thread::available_parallelism().map_or(1, NonZero::get) < 2 {
        return skip("needs two processors");
    }
    let lessons = lessons().unwrap();
    assert_eq!(lessons.len(), 6);
    lessons.iter().for_each(attend);
}
