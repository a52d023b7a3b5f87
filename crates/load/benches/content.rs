//! Speed of making and checking file contents: `cargo bench -p regatta-load --bench content`.

use regatta_load::workload::content::Content;
use std::hint::black_box;
use std::time::Instant;

/// Best of seven rounds of `bytes` each, GB/s.
fn best(bytes: usize, mut round: impl FnMut()) -> f64 {
    (0..7).fold(0.0, |best: f64, _| {
        let start = Instant::now();
        round();
        best.max(bytes as f64 / start.elapsed().as_secs_f64() / 1e9)
    })
}

fn main() {
    let total = 256 << 20;
    for (name, chunk) in
        [("921,600 B", 921_600), ("64 KiB", 65_536), ("14,727 B", 14_727), ("1 KiB", 1_024)]
    {
        let content = Content::new("file_set/dir00000/class3_8");
        let mut bytes = vec![0; chunk];
        let rounds = total / chunk;
        let fill = best(rounds * chunk, || {
            for _ in 0..rounds {
                content.fill(0, black_box(&mut bytes));
            }
        });
        let check = best(rounds * chunk, || {
            for _ in 0..rounds {
                assert_eq!(content.check(0, black_box(&bytes)), Ok(()));
            }
        });
        println!("{name:>10} at a time: fill {fill:.2} GB/s, check {check:.2} GB/s");
    }
}
