//! A closed network of a processor and a disk, whose time for a request depends on its queue.

/// Replies a second of `customers` processes that compute for `cpu_s` and wait for the disk in
/// turns. The disk takes `disk_s(n)` of its time for a reply while `n` of them wait.
///
/// With G(n) = Σ over k of cpu^(n−k) · Π over j ≤ k of disk(j), the rate is G(n−1) / G(n). The
/// loop computes it from the probability that all wait for the disk, so that no power overflows.
pub(super) fn replies_per_s(customers: usize, cpu_s: f64, disk_s: impl Fn(usize) -> f64) -> f64 {
    let (mut all_wait, mut rate) = (1.0, 0.0);
    for number in 1..=customers.max(1) {
        let at_disk = disk_s(number) / cpu_s * all_wait;
        rate = 1.0 / (cpu_s * (1.0 + at_disk));
        all_wait = at_disk / (1.0 + at_disk);
    }
    rate
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_load::workload::model;

    #[test]
    fn mean_value_analysis_says_the_same() {
        for customers in [1, 2, 4, 40, 400] {
            for disk_s in [0.0, 2e-5, 1e-4, 1e-3] {
                let found = replies_per_s(customers, 1e-4, |_| disk_s);
                let processes = u32::try_from(customers).unwrap();
                let expected = model::processes(processes, 1e-4, disk_s).requests_per_s;
                let what = format!("{customers} processes, {disk_s} s");
                assert!((found / expected - 1.0).abs() < 1e-9, "{what}: {found}, {expected}");
            }
        }
    }

    /// Two processes, and a disk that is twice as fast with two requests, by balance equations.
    #[test]
    fn a_disk_that_sorts_makes_several_processes_faster() {
        let disk_s = |waiting: usize| if waiting > 1 { 0.5 } else { 1.0 };
        for (customers, rate) in [(1, 0.5), (2, 0.8)] {
            let found = replies_per_s(customers, 1.0, disk_s);
            assert!((found - rate).abs() < 1e-12, "{customers}: {found}");
        }
        let plain = replies_per_s(8, 1.0, |_| 1.0);
        assert!(replies_per_s(8, 1.0, disk_s) > plain);
    }
}
