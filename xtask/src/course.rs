//! The course: lessons of docs/course and their commands. `cargo xtask course` runs all of them.

use crate::command::{cargo, project_root, target_dir};
use crate::task_error::TaskError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Folder of the lessons, below the root.
const FOLDER: &str = "docs/course";
/// Heading above the commands of a lesson.
const HEADING: &str = "## Run";
/// The most time that a reader waits for a command.
pub const COMMAND_MAX: Duration = Duration::from_secs(120);
/// Programs that a lesson may run.
const PROGRAMS: [&str; 2] = ["regatta", "regatta-lab"];

/// A lesson with its commands.
#[derive(Debug)]
pub struct Lesson {
    /// Name of its page without the extension.
    pub name: String,
    /// Text of its page.
    pub text: String,
    /// Words of each command, in the order of the page.
    pub commands: Vec<Vec<String>>,
}

/// All lessons, in their order.
///
/// # Errors
/// A page cannot be read.
pub fn lessons() -> Result<Vec<Lesson>, TaskError> {
    let folder = project_root().join(FOLDER);
    let failed = || TaskError::attempting("read", folder.display());
    let entries: Result<Vec<_>, _> = fs::read_dir(&folder).map_err(failed())?.collect();
    let mut pages: Vec<PathBuf> = entries.map_err(failed())?.iter().map(|one| one.path()).collect();
    pages.retain(|page| page.extension().is_some_and(|kind| kind == "md"));
    pages.retain(|page| page.file_stem().is_some_and(|name| name != "README"));
    pages.sort();
    pages.iter().map(|page| read(page)).collect()
}

fn read(page: &Path) -> Result<Lesson, TaskError> {
    let text = fs::read_to_string(page).map_err(TaskError::attempting("read", page.display()))?;
    let name = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let commands = commands(&text);
    Ok(Lesson { name, text, commands })
}

/// Commands of a page: the lines of blocks of `sh` under the heading, without comments.
fn commands(text: &str) -> Vec<Vec<String>> {
    let below = text.lines().skip_while(|line| *line != HEADING).skip(1);
    let mut in_block = false;
    let mut found = Vec::new();
    for line in below.take_while(|line| !line.starts_with("## ")) {
        if line.starts_with("```") {
            in_block = line == "```sh";
        } else if in_block {
            let words = line.split(" #").next().unwrap_or_default().split_whitespace();
            found.push(words.map(str::to_owned).collect::<Vec<_>>());
        }
    }
    found.retain(|words| words.first().is_some_and(|first| !first.starts_with('#')));
    found
}

/// Fault of a lesson that no command shows.
#[must_use]
pub fn fault(lesson: &Lesson) -> Option<String> {
    let Lesson { name, text, commands } = lesson;
    let page = format!("{FOLDER}/{name}.md");
    if !(1..=2).contains(&commands.len()) {
        let count = commands.len();
        return Some(format!("{page}: {count} commands below {HEADING}; write one or two"));
    }
    if let Some(words) = commands.iter().find(|words| !PROGRAMS.contains(&&*words[0])) {
        let first = &words[0];
        return Some(format!("{page}: runs {first}; run one of {}", PROGRAMS.join(", ")));
    }
    let parts = ["## Predict", HEADING, "## See", "## Why", "## Exercise", "<details>"];
    let missing = parts.iter().find(|part| !text.lines().any(|line| line.starts_with(*part)))?;
    Some(format!("{page}: has no line {missing}; see the other lessons"))
}

/// Runs the commands of all lessons in full, each below a folder of its own; true if each succeeds
/// in time.
///
/// # Errors
/// A page cannot be read, or a program does not build or run.
pub fn run() -> Result<bool, TaskError> {
    let lessons = lessons()?;
    let folder = target_dir().join("course");
    // The lab continues a run that it finds.
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(TaskError::attempting("remove", folder.display())(error));
        }
        _ => {}
    }
    build()?;
    let mut table = vec!["| lesson | command | seconds | outcome |\n|---|---|---:|---|".to_owned()];
    let mut held = true;
    for lesson in &lessons {
        if let Some(fault) = fault(lesson) {
            println!("{fault}");
            held = false;
        }
        let place = folder.join(&lesson.name);
        fs::create_dir_all(&place).map_err(TaskError::attempting("make", place.display()))?;
        for words in &lesson.commands {
            let line = words.join(" ");
            println!("\n=== {}: {line} ===", lesson.name);
            let start = Instant::now();
            let succeeded = succeeds(words, &place)?;
            let took = start.elapsed();
            let outcome = match (succeeded, took <= COMMAND_MAX) {
                (true, true) => "ok",
                (false, _) => "FAILED",
                (true, false) => "TOO LONG",
            };
            held &= outcome == "ok";
            let seconds = took.as_secs_f64();
            table.push(format!("| {} | `{line}` | {seconds:.0} | {outcome} |", lesson.name));
        }
    }
    println!("\n{}", table.join("\n"));
    Ok(held)
}

/// Builds both programs as the course's page says.
fn build() -> Result<(), TaskError> {
    let mut build = cargo();
    build.args(["build", "--release"]);
    for program in PROGRAMS {
        build.args(["--package", program]);
    }
    let built = crate::command::succeeds(&mut build)?;
    built.then_some(()).ok_or_else(|| TaskError::Build(PROGRAMS.join(" or ")))
}

/// Whether a command of a lesson succeeds in a folder.
fn succeeds(words: &[String], folder: &Path) -> Result<bool, TaskError> {
    let program = target_dir().join("release").join(&words[0]);
    let program = std::path::absolute(&program).unwrap_or(program);
    let mut command = Command::new(&program);
    command.args(&words[1..]).current_dir(folder).stdin(Stdio::null());
    crate::command::succeeds(&mut command)
}

#[cfg(test)]
mod tests {
    use super::{Lesson, commands, fault};

    const PAGE: &str = "# 1\n```sh\nno this\n```\n## Predict\n## Run\nText.\n```sh\n# a comment\n\
                        regatta lab run x   # why\n\nregatta-lab film a\n```\n```text\nno\n```\n\
                        ## See\n```sh\nneither\n```\n## Why\n## Exercise\n<details>\n";

    fn lesson(text: &str) -> Lesson {
        Lesson { name: "one".to_owned(), text: text.to_owned(), commands: commands(text) }
    }

    #[test]
    fn commands_are_below_their_heading() {
        let found = lesson(PAGE).commands;
        assert_eq!(found, [vec!["regatta", "lab", "run", "x"], vec!["regatta-lab", "film", "a"]]);
    }

    #[test]
    fn faults_of_lessons_are_named() {
        assert_eq!(fault(&lesson(PAGE)), None);
        for (from, to, said) in [
            ("## Run\n", "", "0 commands"),
            ("regatta lab", "rm lab", "runs rm"),
            ("<details>\n", "", "has no line <details>"),
            ("## Why\n", "", "has no line ## Why"),
        ] {
            let fault = fault(&lesson(&PAGE.replace(from, to))).unwrap_or_default();
            assert!(fault.starts_with("docs/course/one.md: ") && fault.contains(said), "{fault}");
        }
    }
}
