//! The storm's options, its tables, and a quick storm.
use super::*;
use regatta_testkit::programs;

/// Times, seconds after a begin.
fn spans(of: &[(u64, u64)]) -> Vec<StormSpan> {
    let begin = Instant::now();
    let at = |seconds| begin + Duration::from_secs(seconds);
    of.iter().map(|(from, until)| StormSpan { from: at(*from), until: at(*until) }).collect()
}

#[test]
fn each_driver_has_one_long_storm() {
    // A driver is recognised by its options.
    let keys = |one: &Architecture| -> Vec<&'static str> {
        one.driver.options.iter().map(|spec| spec.key).collect()
    };
    let drivers: HashSet<Vec<&'static str>> = ARCHITECTURES.iter().map(keys).collect();
    let long = LONG.map(|name| regatta_arch::find(name).map(keys).expect("a name of the table"));
    assert_eq!(HashSet::from(long), drivers);
    assert_eq!(drivers.len(), LONG.len());
}

#[test]
fn a_lost_connection_needs_a_kill_at_its_time() {
    let all = spans(&[(0, 9), (5, 6), (20, 21), (4, 5), (12, 13), (1, 15), (11, 12)]);
    let (lost, kills) = all.split_at(5);
    // The spans of kills are 1 to 15 and 11 to 12.
    assert_eq!(Losses::count(lost, kills), Losses { stray: 1, most: 3 });
    assert_eq!(Losses::count(lost, &[]), Losses { stray: 5, most: 0 });
}

#[test]
fn a_storm_without_faults_has_no_findings() {
    let mut round = StormRound { wanted: 4, done: 4, ..StormRound::default() };
    round.kills = spans(&[(1, 2)]);
    round.results.randoms = vec![[1; 32], [2; 32]];
    assert!(round.findings().is_empty());
    round.results.randoms.push([1; 32]);
    assert!(matches!(round.findings()[..], [Finding::Repeated(1)]));
    round.results.randoms.clear();
    round.results.faults.push(StormFault::Silent);
    assert!(matches!(round.findings()[..], [Finding::Client(StormFault::Silent)]));
    (round.results.keeping, round.results.resumed) = (100, 100 - 2 * CLIENTS);
    assert!(round.findings().is_empty(), "the first handshakes have nothing to resume");
    round.results.resumed -= 1;
    assert!(matches!(round.findings()[..], [Finding::NotResumed(_)]));
    round.results.lost = spans(&[(1, 2)]);
    round.kills.clear();
    round.done = 3;
    let findings = round.findings();
    assert!(matches!(findings[..], [Finding::Late { .. }, Finding::NoKill, Finding::Stray(1)]));
}

#[test]
fn leaks_are_found() {
    let before = Resources { master_files: 20, workers: 2, most_files: 10, bytes: 30 << 20 };
    assert!(before.findings(before).is_empty());
    // Another worker takes a descriptor of the master.
    let more = Resources { master_files: 20 + MASTER_MORE + 1, workers: 3, ..before };
    assert!(more.findings(before).is_empty());
    let leaks = Resources {
        master_files: 20 + MASTER_MORE + 1,
        most_files: 11 + WORKER_MORE,
        bytes: before.bytes + 2 * MEMORY_MORE + 1,
        ..before
    };
    let found = leaks.findings(before);
    assert!(matches!(
        found[..],
        [Finding::MasterFiles(20, _), Finding::WorkerFiles(10, _), Finding::Memory(..)]
    ));
}

#[test]
fn lines_fit_a_terminal() {
    let longest = ARCHITECTURES.iter().max_by_key(|one| one.name.len()).expect("some");
    let mut round = StormRound { wanted: 99_999, done: 99_999, ..StormRound::default() };
    round.kills = spans(&[(0, 1); 999]);
    let files = Resources { most_files: 9_999, bytes: 9_999 << 20, ..Resources::default() };
    let findings = (0..9).map(|_| Finding::Memory(u64::MAX, u64::MAX)).collect();
    let took = Duration::from_secs(9_999);
    let (before, after) = (files, files);
    let report = StormReport { name: longest.name, round, before, after, findings, took };
    let text = format!("{}\n{report}", StormReport::header());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.ends_with("  and 3 more\n"), "{text}");
}

/// A short storm, in which a worker is killed.
#[test]
fn a_short_storm_passes() {
    let stop = Arc::new(AtomicBool::new(false));
    let storm = Storm::new(programs::regatta(), 1, stop).expect("a site");
    let symped = regatta_arch::find("symped").expect("a name of the table");
    let report = storm.architecture(symped, HANDSHAKES[0] / QUICK).expect("a server");
    assert!(report.findings.is_empty(), "{report}");
    assert!(report.round.results.resumed > 0 && !report.round.kills.is_empty(), "{report}");
}
