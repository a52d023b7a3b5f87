//! Two lines on the terminal about a load in progress.

use super::options::LoadOptions;
use super::slo::short;
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
            Some(_) => ProgressStyle::with_template("{bar:20} {pos}/{len} s  {prefix}\n{msg}"),
            None => ProgressStyle::with_template("{spinner} {pos} s  {prefix}\n{msg}"),
        };
        bar.set_style(style.expect("the templates are constant"));
        Self(bar)
    }

    pub(super) fn tell(&self, row: &Row) {
        self.0.set_position(row.second + 1);
        self.0.set_prefix(rates(row));
        self.0.set_message(state(row));
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// The first line, after the bar and the time.
fn rates(row: &Row) -> String {
    format!("offered {}/s, good {}/s", row.offered, row.good)
}

/// The second line.
fn state(row: &Row) -> String {
    let sessions = match row.sessions {
        0 => String::new(),
        sessions => format!(", {sessions} sessions"),
    };
    let [p50, p99] = [row.p50_ns, row.p99_ns].map(|ns| short(ns as f64));
    let (errors, in_flight) = (row.errors, row.in_flight);
    format!("p50 {p50}, p99 {p99}, errors {errors}, in flight {in_flight}{sessions}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_fit_a_terminal() {
        let row = Row {
            offered: 1_234_567,
            good: 1_234_567,
            errors: 1_234_567,
            p50_ns: 999_900_000,
            p99_ns: 83_400_000_000,
            in_flight: 1_234_567,
            sessions: 1_234_567,
            ..Row::default()
        };
        let first = format!("{:20} 86400/86400 s  {}", "", rates(&row));
        let second = state(&row);
        assert!(first.len() <= 80 && second.len() <= 80, "{first}\n{second}");
    }
}
