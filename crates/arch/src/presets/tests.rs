//! All options that each name sets.
use super::*;

/// Compares all options that each name sets. A replica with other defaults would not be one, and
/// users rely on the options of an architecture.
#[test]
// tidy: long because it is one table, with a row for each name.
fn every_name_sets_what_it_stands_for() {
    const REPLICA: &str = "cache.revalidate_ms=never cache.inactive_ms=never \
                           content.precompressed=false accept.events_per_accept=0";
    const SELECT: &str = "event.processes=1 event.poller=select limits.connections_max=15000 \
                          accept.backlog=128 accept.when_full=keep-polling";
    let select = |rest: &str| format!("{REPLICA} {SELECT} {rest}");
    let uncached = |rest: &str| select(&format!("cache.enabled=false {rest}"));
    let eager = |rest: &str| {
        uncached(&format!("accept.eager_read=true accept.eager_write=true{rest} accept.count=0"))
    };
    let shared = "event.share=descriptors-and-cache";
    let blocking = format!("{REPLICA} event.processes=100 event.send=blocking");
    let patient = "accept.eager_read=false accept.eager_write=false";
    let stop = "accept.eager_read=false accept.when_full=pause";
    let knot = |rest: &str| {
        format!(
            "{REPLICA} fiber.poller=poll fiber.retry=poller fiber.yields=true \
             accept.when_full=pause accept.backlog=50000 {rest}"
        )
    };
    let bodies = "cache.body_bytes_max=0";
    let means = "fiber.schedulers=0 limits.connections_max=4096 accept.when_full=pause";
    let flash = |residency: &str| {
        format!(
            "cache.entries_max=6000 cache.revalidate_ms=5 min cache.inactive_ms=never {bodies} \
             content.precompressed=false event.processes=1 event.poller=select \
             limits.connections_max=506 limits.idle_ms_max=500 s accept.events_per_accept=0 \
             accept.count=0 accept.backlog=1024 accept.when_full=pause accept.eager_read=true \
             accept.eager_write=false flash.residency={residency}"
        )
    };
    let pool = |rest: &str| {
        format!(
            "{REPLICA} adapt.threads=64 cache.enabled=false cache.body_bytes_max=1MiB \
             accept.when_full=pause {rest}"
        )
    };
    let pipeline = |rest: &str| {
        format!(
            "{REPLICA} {patient} accept.when_full=pause {bodies} stages.pool_control=none \
             stages.batch_control=false {rest}"
        )
    };
    let haboob = format!(
        "{REPLICA} event.poller=poll accept.count=1000 accept.backlog=511 \
         accept.when_full=pause {patient} cache.bytes_max=200 MiB \
         cache.body_bytes_max=64 MiB cache.copy_bytes_max=1 MiB seda.idle_ms=2500 ms \
         seda.wake=all seda.queue_max=0 seda.on_full=drop seda.requests_max=0 \
         stages.pool_ms=2 s stages.disk_ms=1 s stages.batch_control=false \
         stages.batch_ms=100 ms stages.truncates=true stages.target_ms=5 s \
         stages.rate_first=10 stages.rate_max=1000 stages.samples=100 \
         stages.sample_ms=1 s stages.bucket=10 stages.refill_ms_min=1"
    );
    let expect = [
        ("sped", "event.processes=1".to_owned()),
        ("symped", String::new()),
        ("shared-symped", shared.to_owned()),
        ("symped-b", format!("{blocking} {stop}")),
        ("shared-symped-b", format!("{blocking} {shared} {stop}")),
        ("n-copy", "event.copies=0 event.processes=1 event.pin=cpu".to_owned()),
        ("sped-readahead", "event.processes=1".to_owned()),
        ("coloured", String::new()),
        ("hybrid-adapt", String::new()),
        ("amped", "event.processes=1".to_owned()),
        ("flash-1999", flash("mincore")),
        ("flash-linux", flash("mapped")),
        ("laio", "event.processes=1".to_owned()),
        ("auto", String::new()),
        ("uring", "cache.clear_body_bytes_max=64 KiB".to_owned()),
        ("cohort", String::new()),
        ("mp", "limits.connections_max=256 accept.when_full=pause".to_owned()),
        ("mt", "accept.when_full=pause".to_owned()),
        (
            "knot-nptl",
            format!(
                "{REPLICA} threads.start=all limits.connections_max=1024 \
                 accept.when_full=pause"
            ),
        ),
        (
            "knot-c",
            knot(
                "fiber.helpers=100 limits.connections_max=20000 \
                 cache.body_bytes_max=64 MiB cache.bytes_max=1000 MiB \
                 cache.copy_bytes_max=1 MiB",
            ),
        ),
        (
            "knot-nb",
            knot(&format!(
                "fiber.send=try-first fiber.helpers=25 limits.connections_max=15000 {bodies}"
            )),
        ),
        (
            "knot-b",
            knot(&format!(
                "fiber.send=blocking fiber.helpers=100 limits.connections_max=20000 {bodies}"
            )),
        ),
        ("means", means.to_owned()),
        ("means-steal", format!("{means} fiber.steal=true")),
        ("hybrid", "limits.connections_max=8192 accept.eager_read=false".to_owned()),
        ("bio", pool("adapt.io=blocking")),
        ("aio", pool("adapt.io=async adapt.completions=spin")),
        ("self-adapting", pool("adapt.io=adapt adapt.completions=spin")),
        (
            "watpipe4",
            pipeline(
                "watpipe.read=poller watpipe.acceptors=one watpipe.barrier=true \
                 watpipe.writers=25 event.poller=select limits.connections_max=20000",
            ),
        ),
        ("watpipe5", pipeline("watpipe.parts=cpu limits.connections_max=100000")),
        (
            "watpipe5-b",
            pipeline(
                "watpipe.parts=cpu watpipe.writers=200 event.send=blocking \
                 limits.connections_max=80000",
            ),
        ),
        (
            "seda",
            "accept.when_full=pause cache.body_bytes_max=1 MiB stages.admission=proportional"
                .to_owned(),
        ),
        ("haboob-2002", haboob.clone()),
        ("cohort-sandstorm", format!("{haboob} seda.threads=shared")),
        ("accept1", uncached(&format!("{patient} accept.count=1"))),
        ("acceptinf", uncached(&format!("{patient} accept.count=0"))),
        ("accept25", uncached(&format!("{patient} accept.count=25"))),
        ("accept25+$", select(&format!("{patient} accept.count=25"))),
        ("eager", eager("")),
        ("eager+full", eager(" accept.full_read=true")),
        ("eager+close", eager(" accept.on_close=true")),
        ("cm", eager(" accept.full_read=true accept.on_close=true")),
    ];
    let sets = |architecture: &Architecture| {
        let axes = architecture.axes.iter().map(|(key, value)| format!("{key}={value}"));
        (architecture.name, axes.collect::<Vec<_>>().join(" "))
    };
    assert_eq!(ARCHITECTURES.iter().map(sets).collect::<Vec<_>>(), expect);
}

#[test]
fn parents_are_there_and_short_texts_are_short() {
    for (at, one) in ARCHITECTURES.iter().enumerate() {
        let before = ARCHITECTURES[..at].iter().any(|other| other.name == one.parent);
        assert!(one.parent.is_empty() || before, "{}: {}", one.name, one.parent);
        let is_short = one.summary.chars().count() <= 46 && one.cite.chars().count() <= 12;
        assert!(is_short && one.name.len() <= 16, "{}", one.name);
    }
}
