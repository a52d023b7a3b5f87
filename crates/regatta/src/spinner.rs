//! Line on a terminal about work whose end is unknown.
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::{fmt::Write, time::Duration};

/// Work that takes less time shows no line.
const SILENCE: Duration = Duration::from_secs(2);
/// Time between two pictures.
const STEP: Duration = Duration::from_millis(100);

/// Shows `what` and how long it has taken, from the end of [`SILENCE`] until the bar is finished.
pub(crate) fn start(what: &'static str) -> ProgressBar {
    let line = move |state: &ProgressState, out: &mut dyn Write| {
        if state.elapsed() >= SILENCE {
            let _ = write!(out, "{} s  {what}", state.elapsed().as_secs());
        }
    };
    let style = ProgressStyle::with_template("{line}").expect("the template is constant");
    let bar = ProgressBar::new_spinner().with_style(style.with_key("line", line));
    bar.enable_steady_tick(STEP);
    bar
}
