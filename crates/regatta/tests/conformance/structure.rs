//! Claims of architectures, checked from outside: tasks, pollers, coverage of the table.

use crate::matrix::ROWS;
use crate::prelude::*;

/// Names of the architectures as `architectures --json` lists them.
pub(crate) fn listed() -> Vec<String> {
    let said = ends_with(0, &["architectures", "--json"]);
    let value: Value = serde_json::from_str(&said.stdout).expect("JSON");
    let list = value.as_array().or_else(|| value["architectures"].as_array());
    let list = list.unwrap_or_else(|| panic!("no list in {value}"));
    let name = |entry: &Value| entry["name"].as_str().expect("a name").to_owned();
    list.iter().map(name).collect()
}

pub(crate) fn every_architecture_has_a_variant() {
    are_the_listed(VARIANTS.iter());
    for variant in VARIANTS {
        let has_cases = ROWS.iter().any(|(name, _)| *name == variant.name);
        assert!(has_cases, "{} has no cases in matrix.rs", variant.name);
    }
}

/// Asserts that these variants have all architectures of the program, and no other.
pub(crate) fn are_the_listed<'a>(variants: impl Iterator<Item = &'a Variant>) {
    let listed: BTreeSet<String> = listed().into_iter().collect();
    let covered: BTreeSet<String> =
        variants.map(|variant| variant.architecture.to_owned()).collect();
    assert!(!listed.is_empty());
    assert_eq!(listed, covered, "listed by the program, and in the table of variants");
}

/// systems.md §8.6, SPED: exactly one task does all the work, whatever the load.
pub(crate) fn sped_is_one_task(variant: &Variant) {
    let names = ["sped", "sped-readahead", "cohort"];
    assert!(names.contains(&variant.architecture), "they have one process here");
    let server = start(variant);
    let mut clients = server.clients(30);
    send_all(&mut clients, get("/size-65537.bin"));
    let workers = server.workers();
    assert_eq!(workers.len(), 1, "one worker process: {workers:?}");
    for pid in server.processes() {
        assert_eq!(inspect::tasks(pid), 1, "tasks of process {pid}");
    }
    answer_all(&mut clients, 200);
}

pub(crate) fn poller_is_the_one_asked_for(variant: &Variant) {
    let server = serve(variant);
    server.connect().get("/small.txt").expect(200);
    // A worker with helper processes has a separate set for their messages.
    let own = match () {
        // A set for each kind, and one for both.
        () if variant.architecture.starts_with("flash") => 3,
        // A set for the helpers of all mounts.
        () if variant.architecture == "auto" => 1,
        () => usize::from(variant.has("amped.helper_kind=processes")),
    };
    // The dispatcher of [A]'s servers has no choice.
    let asks = |one: &&str| one.contains("poller=epoll") || one.starts_with("adapt.");
    let asked = variant.settings.iter().any(asks);
    for worker in server.workers() {
        // Another worker may have answered while this one begins.
        comes_to(|| epolls(worker), |epolls| (*epolls > own) == asked);
    }
}

/// Number of epoll descriptors of a process.
pub(crate) fn epolls(worker: u32) -> usize {
    let links = descriptors(worker).into_values();
    links.filter(|link| link.to_string_lossy().contains("[eventpoll]")).count()
}

pub(crate) fn idle_is_free(variant: &Variant) {
    let server = start(variant);
    let _clients = server.busy_clients(20);
    thread::sleep(Duration::from_millis(50));
    let used = server.cpu_within(Duration::from_millis(400));
    assert!(used < Duration::from_millis(80), "{used:?} while idle");
}
