//! Memory of a server's processes, as the kernel tells it in `/proc`.

use crate::record::Numbers;
use crate::watch::usage::numbered;
use std::fs;

/// What the kernel has of its own memory for the stack of a task, KiB (x86-64 and arm64).
const KERNEL_STACK_KIB: f64 = 16.0;

/// What processes hold together, MiB; a number that one of them does not tell is left out.
///
/// Each page counts once for all in `pss_mib`, and for each process that has it in `rss_mib`.
pub(crate) fn held(pids: &[u32]) -> Numbers {
    let read = |file: &str| {
        let each = pids.iter().map(|pid| fs::read_to_string(format!("/proc/{pid}/{file}")).ok());
        each.collect::<Option<Vec<String>>>().unwrap_or_default()
    };
    sums(&read("status"), &read("smaps_rollup"))
}

/// The sums over what each process tells.
fn sums(status: &[String], rollup: &[String]) -> Numbers {
    let numbers = [
        ("pss_mib", rollup, "Pss:", 1.0),
        ("rss_mib", status, "VmRSS:", 1.0),
        ("anonymous_mib", status, "RssAnon:", 1.0),
        ("page_tables_mib", status, "VmPTE:", 1.0),
        ("kernel_stacks_mib", status, "Threads:", KERNEL_STACK_KIB),
    ];
    let mib = |(name, texts, line, kib): (&str, &[String], &str, f64)| {
        let sum: Option<f64> = texts.iter().map(|text| numbered(text, line)).sum();
        let sum = sum.filter(|sum| *sum > 0.0)?;
        Some((name.to_owned(), sum * kib / 1_024.0))
    };
    numbers.into_iter().filter_map(mib).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::numbers;

    #[test]
    fn lines_are_found_by_their_names() {
        let text = "Name:\tcat\nVmRSS:\t    2048 kB\nRssAnon:\t     512 kB\nThreads:\t3\n";
        let rows =
            [("VmRSS:", Some(2_048.0)), ("Threads:", Some(3.0)), ("Rss:", None), ("Name:", None)];
        for (name, expect) in rows {
            assert_eq!(numbered(text, name), expect, "{name}");
        }
    }

    #[test]
    fn every_process_counts_or_none_does() {
        let texts = |lines: [&str; 2]| lines.map(str::to_owned);
        let status =
            texts(["VmRSS: 1024 kB\nVmPTE: 512 kB\nThreads: 3", "VmRSS: 512 kB\nThreads: 1"]);
        let sums = sums(&status, &texts(["Pss: 256 kB", "Pss: 256 kB"]));
        let expect = [("kernel_stacks_mib", 0.0625), ("pss_mib", 0.5), ("rss_mib", 1.5)];
        assert_eq!(sums, numbers(expect));
    }

    #[test]
    fn our_own_memory_is_seen() {
        let held = held(&[std::process::id()]);
        assert!(held["rss_mib"] > held["anonymous_mib"], "{held:?}");
        assert!(held["page_tables_mib"] > 0.0, "{held:?}");
        assert!(held["kernel_stacks_mib"] >= 2.0 / 64.0, "this thread and the first: {held:?}");
        assert!(super::held(&[std::process::id(), u32::MAX]).is_empty(), "one of them has ended");
    }
}
