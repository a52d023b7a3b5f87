//! The reference of all counters, gauges and histograms, made from their tables.
use crate::{BUCKETS, Counter, Gauge, Histogram, Merge, SUB_BUCKETS, VALUE_MAX};
use alloc::string::String;
use core::fmt::{self, Write};

/// `docs/metrics.md`, whole.
#[must_use]
pub fn markdown() -> String {
    let mut out = String::new();
    write(&mut out).expect("writing to a string cannot fail");
    out
}

fn write(out: &mut String) -> fmt::Result {
    out.push_str(
        "# Metrics\n\n\
         Generated from `crates/metrics` by `cargo xtask gen`; do not edit.\n\n\
         Every worker keeps these numbers in shared memory, the same ones in every architecture.\n\
         `regatta top` reads them without asking the server anything; `regatta top --json` prints\n\
         them under these names. They are for root and for the user that started the server;\n\
         without `--pid`, root is shown only servers that root has started.\n\
         Counters only grow, and go on growing when a worker is replaced.\n\
         Numbers of several workers are added, except for marks (`max`), of which the largest\n\
         counts. Readings of different words are not from one instant.\n\n\
         ## Counters\n\n\
         | name | unit | merged by | what it counts |\n| --- | --- | --- | --- |\n",
    );
    for counter in Counter::ALL {
        let merge = match counter.merge() {
            Merge::Sum => "sum",
            Merge::Max => "max",
        };
        let (name, unit, doc) = (counter.name(), counter.unit(), counter.doc());
        writeln!(out, "| `{name}` | {unit} | {merge} | {doc} |")?;
    }
    out.push_str(
        "\n## Gauges\n\nDifferences of counters, made by the reader.\n\n\
         | name | unit | is | what it measures |\n| --- | --- | --- | --- |\n",
    );
    for gauge in Gauge::ALL {
        write!(out, "| `{}` | {} | `{}`", gauge.name(), gauge.unit(), gauge.up().name())?;
        for down in gauge.down() {
            write!(out, " - `{}`", down.name())?;
        }
        writeln!(out, " | {} |", gauge.doc())?;
    }
    writeln!(
        out,
        "\n## Histograms\n\n\
         Log-linear: values below {SUB_BUCKETS} have a bucket each, then every power of two has\n\
         {SUB_BUCKETS}, {BUCKETS} in all. So a quantile is known to within 1/{SUB_BUCKETS} of its \
         value up to\n{VALUE_MAX}, above which values share the last bucket. Count, sum and \
         maximum are exact.\n\n\
         | name | unit | what it records |\n| --- | --- | --- |"
    )?;
    for histogram in Histogram::ALL {
        let (name, unit, doc) = (histogram.name(), histogram.unit(), histogram.doc());
        writeln!(out, "| `{name}` | {unit} | {doc} |")?;
    }
    out.push_str(
        "\n## Not counted\n\n\
         What follows from counters is left to the reader: accepts that succeed are `accept_ok`\n\
         of `accept_calls`, connections open at an accept `connections_open_at_accept_sum` over\n\
         `accept_ok`, bytes of a `sendfile` `sendfile_bytes` over `sendfile_calls`; a loop is\n\
         idle for `wait_ns`, and of its rounds, the sum of `loop_ns`, files have taken at most\n\
         `opens_ns`, `reads_ns` and `sendfile_ns`.\n\n\
         `regatta top` adds what the kernel says of the memory of each worker's process\n\
         (`memory` in `--json`, from `/proc/PID/status`): resident, anonymous and shared bytes,\n\
         page tables, and kernel stacks, 16 KiB for each of its tasks. Helper processes have\n\
         their own.\n",
    );
    Ok(())
}
