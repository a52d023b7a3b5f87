//! Claims that are decided on paper: the workload alone tells, no server and no run.

use super::model::{Item, preset_items};
use super::{Finding, Verdict};
use crate::experiment::claim_row::{Range, range};
use regatta_load::workload::model::{REACHES, reaches};

/// [S] table 1: file sizes in bytes, and the memory in MiB that holds the files up to each, at the
/// shares of the requests in [`REACHES`].
const TABLE_1: [(u64, f64); 8] = [
    (409, 0.5),
    (716, 1.5),
    (4_096, 8.4),
    (5_120, 12.2),
    (7_168, 20.1),
    (40_960, 94.3),
    (51_200, 126.5),
    (921_600, 2_291.6),
];
/// The table's row of memory has one decimal.
const ROUNDED: f64 = 0.05;
/// Requests of [S]'s logs, all together: the row of memory is of the files that these ask for.
const REQUESTS: f64 = 3.1e6;

/// Finding of a claim that needs no run; None if it needs one.
pub(crate) fn on_paper(id: &str) -> Option<Finding> {
    match id {
        "S-T1" => Some(s_t1(&preset_items("systor12")?)),
        _ => None,
    }
}

/// Compares with table 1 the sizes that cover each share of the requests, and their memory.
fn s_t1(items: &[Item]) -> Finding {
    let range = range("S-T1", 0);
    let rows = reaches(items, &REACHES, REQUESTS);
    let mib = |bytes: u64| crate::units::real(bytes) / f64::from(1 << 20);
    let (mut told, mut wrong) = (Vec::new(), Vec::new());
    for (row, (bytes, wanted)) in rows.iter().zip(TABLE_1) {
        let (share, memory) = (100.0 * row.requests, mib(row.memory_within));
        told.push(format!("{memory:.1} for {share:.0} %"));
        let found = row.file_bytes;
        if found != bytes {
            wrong.push(format!("{share:.0} % are reached at {found} bytes, not {bytes}"));
        }
        if !is_near(memory, wanted, range) {
            wrong.push(format!("{share:.0} % take {memory:.1} MiB, not {wanted}"));
        }
    }
    let ours = format!("MiB of memory: {}", told.join(", "));
    match wrong.is_empty() && !rows.is_empty() {
        true => Finding::decided(ours, Verdict::Holds, "every size is the table's"),
        false => Finding::decided(ours, Verdict::Fails, wrong.join("; ")),
    }
}

/// Whether a ratio may be in a range, given to one decimal as its numbers are.
fn is_near(found: f64, printed: f64, range: Range) -> bool {
    let (low, high) = range.limits();
    found >= low * (printed - ROUNDED) && found <= high * (printed + ROUNDED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_workload_and_of_no_other() {
        let items = preset_items("systor12").unwrap();
        let found = s_t1(&items);
        assert_eq!(found.verdict, Verdict::Holds, "{found:?}");
        assert!(found.ours.starts_with("MiB of memory: 0.5 for 10 %, 1.5 for 30 %"), "{found:?}");
        let share = 1.0 / crate::stats::count(items.len());
        let mut equal = items.clone();
        equal.iter_mut().for_each(|item| item.share = share);
        let mut larger = items.clone();
        larger.iter_mut().for_each(|item| item.bytes = item.bytes * 21 / 20);
        let half = &items[..items.len() / 2];
        for world in [&equal[..], &larger, half, &[]] {
            assert_eq!(s_t1(world).verdict, Verdict::Fails);
        }
    }
}
