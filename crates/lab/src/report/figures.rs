//! The figures that a run has numbers for.
//!
//! Each kind of figure has a module of its own with `figures(&Report) -> Vec<Figure>`: one line in
//! [`MAKERS`] adds it, and its [`Section`](super::figure::Section) says where it stands. What the
//! page draws is a `drawing` of a kind that `assets/report/*.js` knows.

use super::figure::Figure;
use super::{
    Report, calls, cores, costs, disk, environments, goodput, inside, knees, latency, layouts,
    overload, paired, papers, profiles, quality, rules, scaling, seconds, spectrum, tuning,
    verified,
};

/// Makes the figures of a kind; none where the run has no numbers for them.
type Maker = fn(&Report<'_>) -> Vec<Figure>;

/// One line each. Within a section figures stand in this order.
const MAKERS: &[Maker] = &[
    goodput::figures,
    latency::figures,
    knees::figures,
    scaling::figures,
    cores::figures,
    paired::figures,
    spectrum::figures,
    seconds::figures,
    costs::figures,
    profiles::figures,
    calls::figures,
    inside::figures,
    disk::figures,
    environments::figures,
    papers::figures,
    tuning::figures,
    quality::figures,
    layouts::figures,
    rules::figures,
    overload::figures,
    verified::figures,
];

/// Every figure that has something to show, in the page's order.
pub(crate) fn figures(report: &Report<'_>) -> Vec<Figure> {
    let mut figures: Vec<Figure> = MAKERS.iter().flat_map(|make| make(report)).collect();
    figures.sort_by_key(|figure| figure.section);
    figures
}
