//! Output of `regatta lab`, and its exit codes.

use crate::analysis::Analysis;
use crate::claims::Growth;
use crate::env::spec::STANDS_IN;
use crate::journal::Run;
use crate::journal::manifest::Manifest;
use crate::report;
use crate::run::Progress;
use crate::units::{date, minutes, unix_ms, whole};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

pub const DONE: u8 = 0;
/// Something failed, or it was interrupted.
pub const FAILED: u8 = 1;
/// Bad usage, or a file with problems; all were listed.
pub const USAGE: u8 = 2;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    #[default]
    Text,
    Json,
}

/// Notice on a terminal that waits for a report.
pub(crate) const REPORTING: &str = "reading the trials and drawing the report";

pub(crate) fn warn(manifest: &Manifest) {
    if let Some(label) = &manifest.label {
        say(&format!("{label}: {STANDS_IN}"));
    }
    for (name, why) in &manifest.left_out {
        say(&format!("{name} is left out: {why}"));
    }
    for lack in &manifest.lacks {
        say(&format!("not possible here: {lack}"));
    }
}

/// Writes the report's files; prints the answer and where they are.
pub(crate) fn publish(run: &Run, form: Form) -> Result<u8, String> {
    publish_after(Working::on(REPORTING), run, form)
}

pub(crate) fn publish_after(working: Working, run: &Run, form: Form) -> Result<u8, String> {
    let (paths, claims) = report::write(run)?;
    let analysis = Analysis::of(run);
    let growth = Growth::of(run, &claims);
    drop(working);
    if form == Form::Json {
        let files: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        return Ok(print_json(&json!({
            "directory": run.directory.display().to_string(),
            "files": files,
            "left_out": run.manifest.left_out,
            "lacks": run.manifest.lacks,
            "label": run.manifest.label,
            "analysis": analysis,
            "claims": claims,
            "growth": growth,
        })));
    }
    let label = run.manifest.label.as_ref().map(|label| format!("{label}: "));
    let mut out = format!("{}{}\n", label.unwrap_or_default(), analysis.answer);
    if let Some(growth) = growth {
        let _ = writeln!(out, "{}", growth.words());
    }
    for judged in claims {
        let told = judged.sentences().join("\n  ");
        let _ = writeln!(out, "{}: {}\n  {told}", judged.id, judged.verdict_words());
    }
    if let Some(page) = paths.first() {
        let _ = writeln!(out, "{}", page.display());
    }
    Ok(print(&out))
}

pub(crate) fn fresh(name: &str) -> PathBuf {
    let stamp = date(unix_ms()).replace(['-', ':'], "").replace(' ', "-");
    let stamp: String = stamp.chars().take(13).collect();
    let mut path = PathBuf::from(format!("lab-{name}-{stamp}"));
    for number in 2.. {
        if !path.exists() {
            break;
        }
        path = PathBuf::from(format!("lab-{name}-{stamp}-{number}"));
    }
    path
}

pub(crate) fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{bar:20} {pos}/{len}  {msg}");
    bar.set_style(style.expect("the template is constant"));
    bar
}

pub(crate) fn show(bar: &ProgressBar, progress: &Progress<'_>) {
    bar.set_length(whole(progress.all));
    bar.set_position(whole(progress.done));
    let left = minutes(progress.left_s);
    bar.set_message(format!("{left} left  {}", progress.what));
    if bar.is_hidden() && (progress.done.is_multiple_of(20) || progress.done == progress.all) {
        say(&format!("{}/{} {left} left: {}", progress.done, progress.all, progress.what));
    }
}

pub(crate) fn print(text: &str) -> u8 {
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&error.to_string());
            FAILED
        }
        _ => DONE,
    }
}

/// The code with which a command ends that failed with another one, and why, which is said.
pub(crate) fn code(ended: Result<u8, (u8, String)>) -> u8 {
    ended.unwrap_or_else(|(code, why)| {
        say(&why);
        code
    })
}

/// Exit code and message of a command whose run was cut short.
pub(crate) fn cut_short(run: &Run, why: &str) -> (u8, String) {
    let (trials, out) = (run.records.len(), run.directory.display());
    (FAILED, format!("{why} after {trials} trials; the same command with --out {out} goes on"))
}

pub(crate) fn print_as(form: Form, value: &impl Serialize, words: impl FnOnce() -> String) -> u8 {
    match form {
        Form::Text => print(&words()),
        Form::Json => print_json(value),
    }
}

pub(crate) fn print_json(value: &impl Serialize) -> u8 {
    match serde_json::to_string_pretty(value) {
        Ok(text) => print(&format!("{text}\n")),
        Err(error) => {
            say(&error.to_string());
            FAILED
        }
    }
}

pub(crate) fn say(problem: &str) {
    // Standard error may be closed.
    let _ = writeln!(io::stderr(), "regatta lab: {problem}");
}

/// Work that takes no longer is not spoken of.
const SILENCE: Duration = Duration::from_secs(2);
/// Between two pictures.
const STEP: Duration = Duration::from_millis(100);

/// Work under way, which is shown while it lasts: until this is dropped.
#[derive(Debug)]
pub struct Working {
    under_way: Option<Sender<()>>,
    shows: Option<JoinHandle<()>>,
}

impl Working {
    /// Begins to work on `what`, which a terminal on standard error shows if it takes over 2 s.
    pub fn on(what: &'static str) -> Self {
        Self::after(SILENCE, what, ProgressDrawTarget::stderr())
    }

    fn after(silence: Duration, what: &'static str, target: ProgressDrawTarget) -> Self {
        let (under_way, done) = channel::<()>();
        let bar = ProgressBar::hidden();
        let show = move || {
            if done.recv_timeout(silence) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let style = ProgressStyle::with_template("{spinner} {elapsed}  {msg}");
            bar.set_style(style.expect("the template is constant"));
            bar.set_message(what);
            bar.set_draw_target(target);
            bar.tick();
            while done.recv_timeout(STEP) == Err(RecvTimeoutError::Timeout) {
                bar.tick();
            }
            bar.finish_and_clear();
        };
        // Nothing is shown if no thread can be had.
        Self { under_way: Some(under_way), shows: Builder::new().spawn(show).ok() }
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        drop(self.under_way.take());
        // Output after this begins on a line of its own.
        if let Some(shows) = self.shows.take() {
            let _ = shows.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use std::io;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    /// Output to a terminal: text, and the word for a line that was cleared.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<Vec<String>>>);

    impl Terminal {
        fn add(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push(text.to_owned());
            Ok(())
        }

        fn said(&self) -> String {
            self.0.lock().unwrap().concat()
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            80
        }

        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }

        fn write_line(&self, text: &str) -> io::Result<()> {
            self.add(text)
        }

        fn write_str(&self, text: &str) -> io::Result<()> {
            self.add(text)
        }

        fn clear_line(&self) -> io::Result<()> {
            self.add("<cleared>")
        }

        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    fn work(silence: Duration) -> (Working, Terminal) {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        (Working::after(silence, "counting stars", target), terminal)
    }

    #[test]
    fn work_that_lasts_is_shown_until_it_is_done() {
        let (working, terminal) = work(Duration::ZERO);
        let start = Instant::now();
        while !terminal.said().contains("counting stars") {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", terminal.said());
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(working);
        assert!(terminal.said().ends_with("<cleared>"), "{}", terminal.said());
    }

    #[test]
    fn work_that_is_soon_done_is_not() {
        let (working, terminal) = work(Duration::from_secs(3_600));
        drop(working);
        assert_eq!(terminal.said(), "");
    }
}
