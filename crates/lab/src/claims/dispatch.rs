//! The claim that the best accept strategy depends on the architecture ([H] §7): H-13.

use super::Finding;
use super::evidence::{Evidence, Family, Found, option};
use super::shown::{Part, any};
use crate::experiment::Target;

/// A gap that changes by less stays as it was.
const SAME: f64 = 0.05;

fn architecture(target: &Target) -> &str {
    option(target, "server.architecture")
}

fn strategy(count: &str) -> String {
    if count == "0" { "no limit".to_owned() } else { format!("a limit of {count}") }
}

/// The best accept strategy depends on the architecture.
pub(super) fn h13(run: &Evidence<'_>) -> Found<Finding> {
    let families = run.families("accept.count");
    let mut told = Vec::new();
    for family in &families {
        let mut goods = Vec::new();
        for (target, count) in family {
            goods.push((run.metric(&run.top(&target.name)?, "good_per_s")?, *count));
        }
        goods.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(worst), Some(best)) = (goods.first(), goods.last()) else { continue };
        told.push(format!(
            "{}: {} is best, {:.2} of {}",
            architecture(family[0].0),
            strategy(best.1),
            best.0 / worst.0,
            strategy(worst.1)
        ));
    }
    let counts: Vec<&str> = match families.split_first() {
        Some((first, others)) if !others.is_empty() => {
            let everywhere = |count: &str| {
                others.iter().all(|family| family.iter().any(|(_, other)| *other == count))
            };
            first.iter().map(|(_, count)| *count).filter(|count| everywhere(count)).collect()
        }
        _ => Vec::new(),
    };
    if counts.len() < 2 {
        return Err("several architectures with several accept counts".into());
    }
    let parts: Found<Vec<_>> = counts.iter().map(|count| beaten(run, &families, count)).collect();
    let why = "good answers at the highest rate; none of the strategies that all were seen with is \
               within 5 % of the best in every architecture";
    Ok(Finding::parts(told.join("; "), why, parts?))
}

/// Whether in one architecture at least a strategy is surely behind another.
fn beaten(run: &Evidence<'_>, families: &[Family<'_>], count: &str) -> Found<Part> {
    let mut asked = Vec::new();
    for family in families {
        let Some((own, _)) = family.iter().find(|(_, has)| *has == count) else { continue };
        for (other, better) in family.iter().filter(|(_, has)| *has != count) {
            let [one, beside] = run.tops([&own.name, &other.name])?;
            let of = architecture(own);
            let what = format!("{of} with {} over {}", strategy(count), strategy(better));
            asked.push(run.ratio(&one, &beside, "good_per_s")?.below(1.0 / (1.0 + SAME), what));
        }
    }
    Ok(any(&asked))
}
