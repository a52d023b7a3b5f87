//! The figures that a run has numbers for.
//!
//! Each kind of figure has a module of its own with methods of [`Report`] or with
//! `figures(&Report) -> Vec<Figure>`: one line in [`MAKERS`] adds it. Section, title and caption
//! are in `assets/figures.toml`. What the page draws is a `drawing` of a kind that
//! `assets/report/*.js` knows.

use super::figure::Figure;
use super::{
    Report, calls, costs, curves, environments, goodput, latency, overload, papers, profiles,
    tuning,
};

/// Makes the figures of a kind; none where the run has no numbers for them.
type Maker = fn(&Report<'_>) -> Vec<Figure>;

/// One line each. Within a section figures stand in this order.
const MAKERS: &[Maker] = &[
    goodput::figures,
    latency::figures,
    curves::figures,
    |report| all([report.knees(), report.probes(), report.overload()]),
    |report| all([report.scaling()]),
    |report| all([report.cores()]),
    |report| all([report.forest()]),
    |report| all([report.spectrum(), report.by_class(), report.by_clock()]),
    |report| all([report.seconds(), report.heat()]),
    costs::figures,
    profiles::figures,
    calls::figures,
    environments::figures,
    papers::figures,
    tuning::figures,
    |report| {
        all([report.failures(), report.classes(), report.sessions(), report.session_lengths()])
    },
    |report| all([report.layouts()]),
    |report| all([report.rules()]),
    overload::figures,
    |report| all([report.verified()]),
];

fn all<const N: usize>(of: [Option<Figure>; N]) -> Vec<Figure> {
    of.into_iter().flatten().collect()
}

/// Every figure that has something to show, in the page's order.
pub(crate) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = MAKERS.iter().flat_map(|make| make(report)).collect();
    figures.sort_by_key(|figure| figure.section);
    figures
}
