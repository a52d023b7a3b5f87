//! Predictions of systems.md §3.9 for a run before it is made: page cache, disk, caps (P-1).
//!
//! The formulas are those of `regatta workload inspect`, applied to the terms of an experiment and
//! of a trial's metrics.

use crate::experiment::Workload;
use regatta_load::workload::manifest::popularity;
use regatta_load::workload::model as formula;
use regatta_load::workload::presets::{self, Preset, Shape};

pub use formula::{Item, rate_cap};

/// The seed of sizes, which the shapes that are asked for do not use.
const SEED: u64 = 1;

/// The preset of a workload with the experiment's changes.
fn preset(workload: &Workload) -> Option<Preset> {
    let mut preset = presets::find(workload.preset.as_deref()?)?;
    if let (Some(wanted), Shape::Specweb { dirs }) = (workload.dirs, &mut preset.shape) {
        *dirs = wanted;
    }
    Some(preset)
}

/// Sizes and popularity of the files of a workload; None if they are a user's own.
pub fn items(workload: &Workload) -> Option<Vec<Item>> {
    items_of(&preset(workload)?)
}

/// The same of a preset as it is.
pub fn preset_items(name: &str) -> Option<Vec<Item>> {
    items_of(&presets::find(name)?)
}

fn items_of(preset: &Preset) -> Option<Vec<Item>> {
    let set = preset.shape.file_set(SEED, &["file_set"]).ok()?;
    let popularity = popularity(preset.law, &set).ok()?;
    Some(formula::items(&set, &popularity))
}

/// Time between the requests of a session for each of them, seconds; None without sessions.
pub fn off_s_per_request(workload: &Workload) -> Option<f64> {
    preset(workload)?.pattern.off_s_per_request()
}

/// Bytes read from the disk over those that an ideal cache of whole files would read: the disk
/// inefficiency index. None if everything fits.
pub fn inefficiency(
    items: &[Item],
    page_cache_mib: f64,
    replies_per_s: f64,
    disk_mbyte_per_s: f64,
) -> Option<f64> {
    let bytes = page_cache_mib * f64::from(1 << 20);
    let cache = formula::page_cache(items, whole(bytes));
    let predicted = cache.miss_bytes * replies_per_s;
    (predicted > 0.0).then(|| 1e6 * disk_mbyte_per_s / predicted)
}

/// Requests for which a file stays in a page cache of this size without being asked for; None if
/// everything fits.
pub fn characteristic_requests(items: &[Item], page_cache_mib: f64) -> Option<f64> {
    let cache = formula::page_cache(items, whole(page_cache_mib * f64::from(1 << 20)));
    Some(cache.horizon).filter(|requests| requests.is_finite() && *requests > 0.0)
}

/// Highest rate of `processes` processes that block on a disk, requests per second, with the
/// processor and the disk seconds of a request.
pub fn rate(processes: u32, cpu_s: f64, disk_s: f64) -> f64 {
    formula::processes(processes, cpu_s, disk_s).requests_per_s
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes of a memory")]
fn whole(bytes: f64) -> u64 {
    bytes.max(0.0) as u64
}
