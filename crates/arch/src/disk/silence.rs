//! Reports of disks that do not answer: the loop continues, and its error log names the file.
use crate::{Notice, WorkerLog};
use std::fmt;

/// Time that an operation takes on a disk that does not answer, nanoseconds.
const SILENT_NS: u64 = 1_000_000_000;
/// The least time between two reports of a silence, nanoseconds.
const PAUSE_NS: u64 = 30_000_000_000;

/// The operation of a disk that has been under way for longest.
#[derive(Clone, Debug)]
pub(super) struct Longest<S> {
    /// Time at which it began, by the precise clock.
    pub(super) since: u64,
    /// Purpose, as a message says it.
    pub(super) subject: S,
    /// Number of operations under way or queued.
    pub(super) operations: usize,
}

/// Silence of one disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Silence {
    /// Time at which the reported one began.
    since: Option<u64>,
    /// Time of the last report.
    reported: Option<u64>,
}

impl Silence {
    /// Reports the beginning and the end of a silence. `disk` is what lines begin with.
    pub(super) fn check<S: fmt::Display>(
        &mut self,
        disk: impl fmt::Display,
        longest: Option<Longest<S>>,
        now_ns: u64,
        log: &dyn WorkerLog,
    ) {
        let age = |since: u64| now_ns.saturating_sub(since);
        match (longest.filter(|longest| age(longest.since) >= SILENT_NS), self.since) {
            (Some(Longest { since, subject, operations }), None)
                if self.reported.is_none_or(|reported| age(reported) >= PAUSE_NS) =>
            {
                (self.since, self.reported) = (Some(since), Some(now_ns));
                let others = operations.saturating_sub(1);
                log.notice(
                    Notice::DiskSilent,
                    format_args!(
                        "{disk}{subject} has taken {:.1} s: its disk or file server does not \
                         answer. {others} other operations wait",
                        age(since) as f64 / 1e9
                    ),
                );
            }
            (None, Some(since)) => {
                self.since = None;
                let seconds = age(since) as f64 / 1e9;
                log.notice(
                    Notice::DiskBack,
                    format_args!("{disk}files are answered again, after {seconds:.1} s"),
                );
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::notices::Notices;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_silence_is_reported_when_it_begins_and_ends() {
        let (mut silence, log) = (Silence::default(), Notices::default());
        let longest = |since| Some(Longest { since, subject: "opening /a", operations: 3 });
        let steps = [
            (S, None, None),
            (2 * S, longest(S + 1), None),
            (3 * S, longest(S + 1), Some("opening /a has taken 2.0 s")),
            (4 * S, longest(S + 1), None),
            // Another one, but as long.
            (5 * S, longest(2 * S), None),
            (6 * S, longest(5 * S + 1), Some("files are answered again, after 5.0 s")),
            // A disk that is slow rather than silent has few lines.
            (9 * S, longest(6 * S), None),
            (33 * S, longest(32 * S), Some("opening /a has taken 1.0 s")),
            (34 * S, None, Some("files are answered again, after 2.0 s")),
        ];
        for (now_ns, longest, expect) in steps {
            silence.check("mount 8:1: ", longest, now_ns, &log);
            let lines = log.take();
            match expect {
                None => assert!(lines.is_empty(), "{now_ns}: {lines:?}"),
                Some(text) => assert!(
                    lines.len() == 1 && lines[0].starts_with(&format!("mount 8:1: {text}")),
                    "{now_ns}: {lines:?}"
                ),
            }
        }
    }
}
