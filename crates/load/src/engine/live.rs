//! A line on the terminal that says how the load goes.

use super::options::LoadOptions;
use super::slo::show;
use super::tally::Row;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of one load, on standard error; silent when that is no terminal.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn new(options: &LoadOptions) -> Self {
        let warm_up = options.warm_up.unwrap_or_default();
        let seconds = options.duration.map(|time| (time + warm_up).as_secs());
        let target = if options.progress {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(seconds, target);
        let style = match seconds {
            Some(_) => ProgressStyle::with_template("{bar:20} {pos}/{len} s  {msg}"),
            None => ProgressStyle::with_template("{spinner} {pos} s  {msg}"),
        };
        bar.set_style(style.expect("the templates are constant"));
        Self(bar)
    }

    pub(super) fn tell(&self, row: &Row) {
        let sessions = match row.sessions {
            0 => String::new(),
            sessions => format!(", {sessions} sessions"),
        };
        self.0.set_position(row.second + 1);
        self.0.set_message(format!(
            "offered {}/s, good {}/s, p50 {}, p99 {}, errors {}, in flight {}{sessions}",
            row.offered,
            row.good,
            show(row.p50_ns as f64),
            show(row.p99_ns as f64),
            row.errors,
            row.in_flight,
        ));
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
