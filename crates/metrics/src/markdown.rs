//! The reference of all counters, gauges and histograms, made from their tables.
use crate::{
    BUCKETS, Counter, Gauge, Histogram, Merge, SUB_BUCKETS, VALUE_MAX, openmetrics::others,
};
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
         Every worker keeps these numbers in shared memory, the same in every architecture.\n\
         `regatta top` reads them without a request to the server; `regatta top --json` prints\n\
         them under these names. Only root and the user that started the server may read them;\n\
         without `--pid`, `regatta top` shows the only server of this user, or of all for root.\n\
         Counters only grow, and continue to grow when a worker is replaced.\n\
         Numbers of several workers are added up; of high-water marks (`max`) the largest is\n\
         taken. Different counters are not read at the same instant.\n\n\
         `/metrics` has them under the names given as *exported*: times in seconds, and\n\
         histograms with 20 of their edges.\n\n\
         ## Counters\n\n\
         | name | exported | unit | merged by | what it counts |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for counter in Counter::ALL {
        let merge = match counter.merge() {
            Merge::Sum => "sum",
            Merge::Max => "max",
        };
        let (name, unit, doc) = (counter.name(), counter.unit(), counter.doc());
        let exported = counter.exported();
        writeln!(out, "| `{name}` | `{exported}` | {unit} | {merge} | {doc} |")?;
    }
    out.push_str(
        "\n## Gauges\n\nDifferences of counters, calculated when they are read.\n\n\
         | name | exported | unit | is | what it measures |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for gauge in Gauge::ALL {
        let (name, exported, unit) = (gauge.name(), gauge.exported(), gauge.unit());
        write!(out, "| `{name}` | `{exported}` | {unit} | `{}`", gauge.up().name())?;
        for down in gauge.down() {
            write!(out, " - `{}`", down.name())?;
        }
        writeln!(out, " | {} |", gauge.doc())?;
    }
    writeln!(
        out,
        "\n## Histograms\n\n\
         Log-linear: values below {SUB_BUCKETS} have a bucket each, every power of two\n\
         above has {SUB_BUCKETS} buckets, {BUCKETS} in all. So a quantile is exact to\n\
         1/{SUB_BUCKETS} of it up to {VALUE_MAX}; larger values share the last bucket.\n\
         Count, sum and maximum are exact.\n\n\
         | name | exported | unit | what it records |\n| --- | --- | --- | --- |"
    )?;
    for histogram in Histogram::ALL {
        let (name, unit, doc) = (histogram.name(), histogram.unit(), histogram.doc());
        let exported = histogram.exported();
        writeln!(out, "| `{name}` | `{exported}` | {unit} | {doc} |")?;
    }
    others_and_rest(out)
}

/// Writes the values that no table of counters has.
fn others_and_rest(out: &mut String) -> fmt::Result {
    out.push_str(
        "\n## Of the server and its workers\n\n\
         `/metrics` has these besides. Those of a worker have a label `worker`, the number of its\n\
         first slot, and begin again with each generation.\n\n\
         | exported | what it says |\n| --- | --- |\n",
    );
    for (exported, doc) in others() {
        writeln!(out, "| `{exported}` | {doc} |")?;
    }
    out.push_str(
        "\n## Not counted\n\n\
         Values that follow from counters have no counter of their own:\n\n\
         * share of accepts that succeed: `accept_ok` / `accept_calls`\n\
         * mean of connections open at accepts: `connections_open_at_accept_sum` / `accept_ok`\n\
         * mean size of a `sendfile`: `sendfile_bytes` / `sendfile_calls`\n\
         * share of handshakes that resume a session: `tls_handshakes_resumed` /\n  \
           (`tls_handshakes_full` + `tls_handshakes_resumed`)\n\
         * bytes from memory in the clear: `bytes_sent` - `sendfile_bytes` - `sealed_bytes`\n\
         * mean of streams on a connection of HTTP/2: `streams_opened` / `connections_http2`\n\n\
         A loop is idle for `wait_ns`. Of its rounds' duration (the sum of `loop_ns`), files have\n\
         taken at most `opens_ns`, `reads_ns` and `sendfile_ns` together.\n\n\
         `regatta top` counts processes as workers (`workers` of `server` in `--json`), and\n\
         threads as threads (`thr`: `threads_open`). A row is a set of counters, and a process\n\
         may have several sets.\n\n\
         It adds the memory of each worker's process as the kernel reports it (`memory` in\n\
         `--json`, from `/proc/PID/status`). The values are resident, anonymous and shared bytes,\n\
         page tables, and kernel stacks (16 KiB for each task). Helper processes are not\n\
         included.\n\n\
         It has a row for each stage of a pipeline (`stages` in `--json`). The row adds up the\n\
         queues and threads of that name, and lists the values that the stage's controllers have\n\
         set (`dials`).\n",
    );
    Ok(())
}
