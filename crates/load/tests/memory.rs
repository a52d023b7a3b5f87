//! `from-log` on half a million lines that exist only while they are read, in less memory than they
//! would take.
//!
//! A program of its own: it reads the most memory that its process ever had.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use regatta_load::workload::fault::unwatched;
use regatta_load::workload::from_log::{Distilled, Rules, distil};
use std::fs;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;
use std::time::Instant;

const LINES: u64 = 500_000;
/// Resident memory that reading may add, bytes; the lines themselves are 55 MB.
const GROWTH_BYTES_MAX: u64 = 48 << 20;

/// A combined log line by formula: 500 clients at a time out of 200,000, 40,000 files, 50 lines a
/// second.
fn write_line(n: u64, out: &mut impl Write) -> std::io::Result<()> {
    let scattered = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let client = n / 5_000 * 500 + scattered % 500;
    let file = 40_000 / (1 + scattered % 39_989) + scattered / 7 % 3 * (n % 13_000);
    let second = n / 50;
    let (day, hour, minute) = (1 + second / 86_400, second / 3_600 % 24, second / 60 % 60);
    write!(out, "host-{client} - - [{day:02}/Oct/2000:{hour:02}:{minute:02}:")?;
    write!(out, "{:02} +0000] \"GET /f/{file}.html HTTP/1.1\" 200 ", second % 60)?;
    writeln!(out, "{} \"http://example.org/\" \"Mozilla/5.0 (X11; Linux)\"", 500 + file)
}

/// Most memory that was ever resident, bytes.
fn peak_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

#[test]
fn half_a_million_lines_fit_in_little_memory() {
    let (reader, writer) = std::io::pipe().unwrap();
    let lines = std::thread::spawn(move || {
        let mut out = BufWriter::new(writer);
        (0..LINES).try_for_each(|n| write_line(n, &mut out)).and_then(|()| out.flush())
    });
    let before = peak_bytes();
    let start = Instant::now();
    let input = BufReader::with_capacity(1 << 16, reader);
    let rules = Rules::default();
    let distilled = distil(input, Path::new("generated"), rules, &unwatched).unwrap();
    let mut requests = 0;
    let Distilled { set, observed, sessions } = distilled;
    sessions
        .drain(&set, |session| {
            requests += session.len() as u64;
            Ok(())
        })
        .unwrap();
    let growth = peak_bytes() - before;
    lines.join().unwrap().unwrap();
    println!(
        "{LINES} lines in {:.1} s: {} files, {} sessions, {} MiB resident more",
        start.elapsed().as_secs_f64(),
        set.len(),
        observed.sessions,
        growth >> 20,
    );
    assert_eq!((observed.lines, observed.requests, requests), (LINES, LINES, LINES));
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes");
}
