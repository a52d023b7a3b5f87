//! Claims that counts decide: exact at a stated load, however fast or noisy the machine is.

use crate::experiment::{
    ArmNumber, ClaimAsk, ClaimRow, Compared, Comparison, TrialNumber, is_metric,
};
use crate::journal::Run;

/// Metrics that count what a reply or a seek takes, or what memory holds.
const COUNTS: [&str; 5] = [
    "disk_run_kib",
    "kernel_instructions_per_reply",
    "page_cache_mib",
    "user_instructions_per_reply",
    "voluntary_switches_per_reply",
];
/// Metrics that count events, each with what it is divided by.
const COUNTS_OVER: [(&str, &str); 3] = [
    ("disk_files_per_s", "good_per_s"),
    ("disk_requests_per_s", "good_per_s"),
    ("voluntary_switches", "window_s"),
];

/// Whether a claim is decided by counts alone in the experiment of a run.
pub(crate) fn is_counted(run: &Run, id: &str) -> bool {
    run.experiment.rows.iter().any(|row| row.id == id && compares_counts(row))
}

/// Whether a row compares counts and nothing else.
fn compares_counts(row: &ClaimRow) -> bool {
    let mut each = row.asks.iter().flat_map(|ask| match ask {
        ClaimAsk::One(one) => vec![&**one],
        ClaimAsk::Any(any) => any.iter().flatten().collect(),
    });
    let is_of_counts = |one: &Comparison| match &one.of {
        Compared::Ratio(of, _)
        | Compared::Times(of, _)
        | Compared::Value(of, _)
        | Compared::Gap(of, _)
        | Compared::Rise(of, _) => is_count(of),
        Compared::Peak(_) | Compared::Change(..) | Compared::Kept(..) => false,
    };
    !row.asks.is_empty() && each.all(is_of_counts)
}

fn is_count(number: &ArmNumber) -> bool {
    let counter = |name: &str| !is_metric(name) && !name.ends_with("_ns");
    match (&number.name, &number.over) {
        (TrialNumber::Named(name), None) => COUNTS.contains(&name.as_str()),
        (TrialNumber::Named(name), Some(TrialNumber::Named(over))) => {
            let is_known = COUNTS_OVER.contains(&(name.as_str(), over.as_str()));
            is_known || (counter(name) && counter(over))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Scale, library, parse};

    #[test]
    fn claims_on_mechanisms_are_counted() {
        for (experiment, id, is_it) in [
            ("eurosys07-fig5", "E-11", true),
            ("eurosys07-fig5", "E-12", false),
            ("eurosys07-fig2", "E-20", true),
            ("hpl01", "H-8", true),
            ("hpl01", "H-1", false),
            ("systor12-fig4", "S-8", true),
            ("systor12-fig4", "S-5", false),
            ("pollers", "E-27", false),
            // Its switches are counts, its peaks are not.
            ("stages-cost", "X-6", false),
            ("cohort", "X-16", false),
        ] {
            let text = library::find(experiment).unwrap();
            let found = parse(experiment, text, Scale::Replica).unwrap();
            let row = found.rows.iter().find(|row| row.id == id).unwrap();
            assert_eq!(compares_counts(row), is_it, "{experiment} {id}");
        }
    }
}
