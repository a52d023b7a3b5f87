//! Layouts of workers over addresses and processors, and refused options.
use super::*;
use crate::{
    architectures::{amped, auto, event, laio, mp, mt, uring},
    conn::accept,
    options::{Kind, OptionSpec},
    testing::settings,
};

fn place(text: &str) -> Place {
    match text.strip_prefix(regatta_sys::socket::UNIX) {
        Some(path) => Place::Unix(path.into()),
        None => Place::Inet(text.parse().unwrap()),
    }
}

fn plan(sets: &[(&str, &str)], listen: &[&str], cpus: &[usize]) -> Result<Layout, LayoutFault> {
    let listen: Vec<ListenPlace> = listen.iter().copied().map(clear).collect();
    plan_classes(sets, &listen, cpus)
}

fn clear(text: &str) -> ListenPlace {
    ListenPlace::clear(place(text))
}

fn plan_classes(
    sets: &[(&str, &str)],
    listen: &[ListenPlace],
    cpus: &[usize],
) -> Result<Layout, LayoutFault> {
    let mut settings = settings(event::DRIVER.options, sets);
    let listed =
        OptionSpec { key: "server.listen", kind: Kind::List, default: "", doc: "", long: "" };
    let texts = listen.iter().map(|address| address.place.to_string()).collect();
    settings.set(&listed, Value::List(texts)).unwrap();
    Layout::plan(&event::DRIVER, &settings, listen, cpus, cpus.len())
}

/// Address, whether it is shared, and the socket whose port it has.
fn sockets(layout: &Layout) -> Vec<(String, bool, Option<usize>)> {
    let text = |socket: &SocketPlan| (socket.place.to_string(), socket.reuse_port, socket.port_of);
    layout.sockets.iter().map(text).collect()
}

fn shares(layout: &Layout) -> Vec<(Range<usize>, Vec<usize>)> {
    layout.shares.iter().map(|share| (share.listeners.clone(), share.cpus.clone())).collect()
}

/// Options that a worker with one connection cannot follow are refused, with the remedy.
#[test]
fn threads_accept_one_connection_after_another() {
    let plan_of = |driver: &Driver, sets: &[(&str, &str)], addresses: usize| {
        let connections = OptionSpec {
            key: "limits.connections_max",
            kind: Kind::Count { min: 0, max: 2000 },
            default: "0",
            ..accept::OPTIONS[0]
        };
        let specs = [driver.options, accept::OPTIONS, &[connections]].concat();
        let sets = [&[("accept.when_full", "pause")][..], sets].concat();
        let addresses = vec![clear("127.0.0.1:0"); addresses];
        let layout = Layout::plan(driver, &settings(&specs, &sets), &addresses, &[0, 1], 2);
        layout.map(|layout| shares(&layout)).map_err(|fault| fault.to_string())
    };
    let plan = |sets: &[(&str, &str)], addresses| plan_of(&mt::DRIVER, sets, addresses);
    let processes = |count| plan_of(&mp::DRIVER, &[("limits.connections_max", count)], 2);
    assert_eq!(processes("3"), Ok(vec![(0..2, vec![]); 3]), "a process for each connection");
    for count in ["0", "1001"] {
        let fault = processes(count).unwrap_err();
        assert!(fault.ends_with("set it to their number, 1 to 1000"), "{fault}");
    }
    let spare = |set| plan_of(&mp::DRIVER, &[("limits.connections_max", "3"), set], 1);
    let fault = spare(("mp.spare_max", "5")).unwrap_err();
    assert!(fault.starts_with("mp.spare_max: ") && fault.contains("to 6 or more"), "{fault}");
    assert!(spare(("mp.spare_max", "6")).is_ok());
    assert_eq!(plan(&[], 2), Ok(vec![(0..2, vec![])]), "one process, whatever the machine has");
    for (set, says) in [
        (("accept.when_full", "close-idle"), "set accept.when_full=pause"),
        (("accept.when_full", "keep-polling"), "set accept.when_full=pause"),
        (("accept.eager_read", "false"), "set accept.eager_read=true"),
        (("accept.eager_write", "false"), "set accept.eager_write=true"),
        (("accept.on_close", "true"), "set accept.on_close=false"),
        (("accept.full_read", "true"), "set accept.full_read=false"),
        (("threads.spare_max", "24"), "set it to threads.spare_min = 25 or more"),
        (("limits.connections_max", "2"), "allow 3, or listen on fewer"),
    ] {
        let fault = plan(&[set], 3).unwrap_err();
        assert!(fault.starts_with(set.0) && fault.ends_with(says), "{fault}");
    }
}

const TWO: &[&str] = &["127.0.0.1:0", "[::1]:80"];

#[test]
fn processes_share_their_sockets_or_have_their_own() {
    let layout = plan(&[], TWO, &[0, 1, 4]).unwrap();
    let plain = [("127.0.0.1:0".into(), false, None), ("[::1]:80".into(), false, None)];
    assert_eq!(sockets(&layout), plain);
    assert_eq!(shares(&layout), vec![(0..2, vec![]); 3], "one for each processor");
    let sets = [("event.processes", "2"), ("event.listen", "reuseport"), ("event.pin", "cpu")];
    let layout = plan(&sets, TWO, &[3, 5]).unwrap();
    let expect = [
        ("127.0.0.1:0".into(), true, None),
        ("[::1]:80".into(), true, None),
        ("127.0.0.1:0".into(), true, Some(0)),
        ("[::1]:80".into(), true, Some(1)),
    ];
    assert_eq!(sockets(&layout), expect);
    assert_eq!(shares(&layout), [(0..2, vec![3]), (2..4, vec![5])]);
    // A path has one socket, which each process has as a listener of its own.
    let layout = plan(&sets, &["unix:/run/a"], &[3, 5]).unwrap();
    let expect = [("unix:/run/a".into(), true, None), ("unix:/run/a".into(), true, Some(0))];
    assert_eq!((sockets(&layout), shares(&layout).len()), (expect.into(), 2));
}

#[test]
fn copies_have_ports_or_addresses_of_their_own() {
    let sets = [("event.copies", "0"), ("event.pin", "cpu")];
    let layout = plan(&sets, TWO, &[0, 1]).unwrap();
    let expect = [
        ("127.0.0.1:0".into(), false, None),
        ("[::1]:80".into(), false, None),
        ("127.0.0.1:0".into(), false, None),
        ("[::1]:81".into(), false, None),
    ];
    assert_eq!(sockets(&layout), expect);
    assert_eq!(shares(&layout), [(0..2, vec![0]), (2..4, vec![1])]);
    let sets = [
        ("event.copies", "0"),
        ("event.partition", "addresses"),
        ("event.processes", "2"),
        ("event.pin", "cpu"),
    ];
    let layout = plan(&sets, &["127.0.0.1:80", "127.0.0.2:80"], &[6]).unwrap();
    assert_eq!(layout.sockets.len(), 2);
    let six = |listeners| (listeners, vec![6]);
    assert_eq!(shares(&layout), [0..1, 0..1, 1..2, 1..2].map(six));
}

#[test]
fn a_steered_port_has_a_socket_for_each_copy() {
    let sets = [("event.copies", "2"), ("event.partition", "steer-cpu"), ("event.processes", "1")];
    let layout = plan(&sets, &["127.0.0.1:0"], &[2, 3, 7]).unwrap();
    let expect = [("127.0.0.1:0".into(), true, None), ("127.0.0.1:0".into(), true, Some(0))];
    assert_eq!(sockets(&layout), expect);
    assert_eq!(shares(&layout), [(0..1, vec![]), (1..2, vec![])]);
    assert_eq!(layout.steered, [0]);
    assert_eq!(layout.places, [(2, 0), (3, 1), (7, 1)], "neighbours go together");
}

/// [G] §IV-D, [S] §4: copies for pairs of processors that share a cache, or for sockets. A process
/// of a copy may run on any processor that steers connections to it.
#[test]
fn a_copy_has_neighbouring_processors() {
    const CASES: &[(usize, usize, &[&[usize]])] = &[
        (2, 1, &[&[0, 1]]),
        (2, 2, &[&[0], &[1]]),
        (4, 2, &[&[0, 1], &[2, 3]]),
        (4, 4, &[&[0], &[1], &[2], &[3]]),
        (8, 2, &[&[0, 1, 2, 3], &[4, 5, 6, 7]]),
        (8, 3, &[&[0, 1], &[2, 3, 4], &[5, 6, 7]]),
        (8, 4, &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]),
    ];
    for &(cpus, copies, groups) in CASES {
        let case = format!("{copies} copies on {cpus} processors");
        let number = copies.to_string();
        let all: Vec<usize> = (0..cpus).collect();
        let planned = |pin| {
            let sets = [
                ("event.copies", number.as_str()),
                ("event.processes", "0"),
                ("event.partition", "steer-cpu"),
                ("event.pin", pin),
            ];
            plan(&sets, &["127.0.0.1:0"], &all).unwrap()
        };
        let layout = planned("share");
        assert_eq!(layout.shares.len(), copies * (cpus / copies), "{case}");
        for (listeners, cpus) in shares(&layout) {
            assert_eq!(cpus, groups[listeners.start], "{case}");
        }
        let each = planned("cpu");
        for (copy, group) in groups.iter().enumerate() {
            let own = shares(&each).into_iter().filter(|(of, _)| of.start == copy);
            let own: Vec<usize> = own.flat_map(|(_, cpus)| cpus).collect();
            assert_eq!(own, group[..cpus / copies], "{case}: a process on each");
            let steered = layout.places.iter().filter(|(_, place)| *place as usize == copy);
            let steered: Vec<usize> = steered.map(|(cpu, _)| *cpu as usize).collect();
            assert!(copies == 1 || steered == *group, "{case}: {steered:?}");
        }
        assert_eq!(each.places, layout.places);
    }
}

/// Threads of a core are adjacent (`affinity::neighbours`).
#[test]
fn a_quota_is_a_limit_on_workers_and_not_on_where_they_run() {
    let cpus = [0, 4, 1, 5];
    let planned = |name: &str, value: &str, processors| {
        let listen = [clear("127.0.0.1:0")];
        let settings = settings(event::DRIVER.options, &[(name, value), ("event.pin", "share")]);
        let layout = Layout::plan(&event::DRIVER, &settings, &listen, &cpus, processors).unwrap();
        layout.shares.into_iter().map(|share| share.cpus).collect::<Vec<_>>()
    };
    assert_eq!(planned("event.processes", "0", 4).len(), 4);
    assert_eq!(planned("event.processes", "0", 1), [cpus]);
    assert_eq!(planned("event.processes", "3", 1).len(), 3, "as many as were asked for");
    assert_eq!(planned("event.copies", "0", 2), [[0, 4], [1, 5]]);
}

#[test]
fn few_processes_have_a_core_each() {
    for (processes, expect) in
        [("1", &[0][..]), ("2", &[0, 1]), ("3", &[0, 4, 1]), ("4", &[0, 4, 1, 5])]
    {
        let sets = [("event.processes", processes), ("event.pin", "cpu")];
        let layout = plan(&sets, &["127.0.0.1:0"], &[0, 4, 1, 5]).unwrap();
        let cpus: Vec<usize> = shares(&layout).into_iter().flat_map(|(_, cpus)| cpus).collect();
        assert_eq!(cpus, expect, "{processes} processes");
    }
}

#[test]
fn more_copies_than_processors_take_turns() {
    let sets = [("event.copies", "3"), ("event.processes", "2"), ("event.pin", "share")];
    let layout = plan(&sets, &["127.0.0.1:0"], &[4, 6]).unwrap();
    let cpus: Vec<_> = layout.shares.iter().map(|share| share.cpus.clone()).collect();
    assert_eq!(cpus, [[4], [4], [6], [6], [4], [4]]);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let one = &["127.0.0.1:80"][..];
    let copies = ("event.copies", "2");
    let steered = ("event.partition", "steer-cpu");
    for (sets, listen, key) in [
        (&[("event.listen", "exclusive"), ("event.poller", "poll")][..], one, "event.listen"),
        (&[("event.copies", "3"), steered], one, "event.copies"),
        (
            &[copies, steered, ("event.listen", "reuseport"), ("event.processes", "2")],
            one,
            "event.listen",
        ),
        (&[("event.copies", "3"), ("event.partition", "addresses")], TWO, "server.listen"),
        (&[copies], &["127.0.0.1:65535"], "event.copies"),
        (&[copies], &["127.0.0.1:80", "127.0.0.1:81"], "server.listen"),
        (
            &[copies, ("event.listen", "reuseport")],
            &["127.0.0.1:80", "127.0.0.1:81"],
            "server.listen",
        ),
        (&[copies], &["unix:/run/a"], "event.partition"),
        (&[copies, steered], &["127.0.0.1:80", "unix:/run/a"], "event.partition"),
    ] {
        assert_eq!(plan(sets, listen, &[0, 1]).unwrap_err().key, key, "{sets:?}");
    }
}

#[test]
fn a_port_of_two_copies_has_the_class_of_its_address() {
    let listen = [clear("127.0.0.1:80"), in_class(443, 1), in_class(444, 1)];
    let fault = plan_classes(&[("event.copies", "2")], &listen, &[0, 1]).unwrap_err();
    assert_eq!((fault.key, fault.class), ("server.listen", ListenerClass(1)));
}

/// All copies together have one limit; each count alone may be as large.
#[test]
fn there_is_one_limit_on_workers() {
    let listen = &["127.0.0.1:0"][..];
    let most = WORKERS_MAX.to_string();
    let processes = |number: &'static str| ("event.processes", number);
    let layout = plan(&[("event.processes", &most)], listen, &[0]).unwrap();
    assert_eq!(layout.shares.len(), WORKERS_MAX);
    for sets in [
        &[("event.copies", "2"), processes("501")][..],
        &[("event.copies", "1000"), processes("2")],
    ] {
        let fault = plan(sets, listen, &[0]).unwrap_err();
        assert_eq!(fault.key, "event.processes");
        assert!(fault.message.contains("set event.processes to "), "{fault}");
    }
    let spec = |key| event::DRIVER.options.iter().find(|spec| spec.key == key).unwrap();
    for key in ["event.copies", "event.processes"] {
        assert!(spec(key).kind.parse(&most).is_ok());
        assert!(spec(key).kind.parse(&(WORKERS_MAX + 1).to_string()).is_err(), "{key}");
    }
    // A large machine is used up to the limit.
    let all: Vec<usize> = (0..1024).collect();
    assert_eq!(plan(&[], listen, &all).unwrap().shares.len(), WORKERS_MAX);
    let copies = [("event.copies", "0"), processes("1")];
    assert_eq!(plan(&copies, listen, &all).unwrap().shares.len(), WORKERS_MAX);
}

#[test]
fn helpers_do_not_open_files_for_a_crew() {
    let settings = settings(event::DRIVER.options, &[("event.share", "descriptors-and-cache")]);
    let listen = [clear("127.0.0.1:80")];
    assert!(Layout::plan(&event::DRIVER, &settings, &listen, &[0], 1).is_ok());
    for driver in [&amped::DRIVER, &laio::DRIVER, &auto::DRIVER] {
        let fault = Layout::plan(driver, &settings, &listen, &[0], 1).unwrap_err();
        assert_eq!(fault.key, "event.share");
        assert!(fault.message.contains("shared-symped"), "{fault}");
    }
}

/// Several rings listen apart, also at a port that the kernel chooses; one has the address alone.
#[test]
fn rings_have_sockets_of_their_own() {
    let listen = [clear("127.0.0.1:0"), clear("[::1]:80")];
    for (processes, expect) in [
        ("1", vec![("127.0.0.1:0", false, None), ("[::1]:80", false, None)]),
        (
            "0",
            vec![
                ("127.0.0.1:0", true, None),
                ("[::1]:80", true, None),
                ("127.0.0.1:0", true, Some(0)),
                ("[::1]:80", true, Some(1)),
            ],
        ),
    ] {
        let settings = settings(uring::DRIVER.options, &[("uring.processes", processes)]);
        let layout = Layout::plan(&uring::DRIVER, &settings, &listen, &[0, 1], 2).unwrap();
        let expect: Vec<_> =
            expect.into_iter().map(|(place, shared, of)| (place.to_owned(), shared, of)).collect();
        assert_eq!(sockets(&layout), expect);
        let all: Vec<_> = (0..expect.len() / 2).map(|at| (2 * at..2 * at + 2, vec![])).collect();
        assert_eq!(shares(&layout), all);
    }
}

#[test]
fn every_process_has_slots_of_its_own_for_its_units() {
    let driver = Driver { slots: |_| 3, ..event::DRIVER };
    let settings = settings(driver.options, &[("event.processes", "2")]);
    let listen = [clear("127.0.0.1:80")];
    let layout = Layout::plan(&driver, &settings, &listen, &[0], 1).unwrap();
    let slots: Vec<_> = layout.shares.iter().map(|share| share.slots.clone()).collect();
    assert_eq!((slots, layout.slots()), (vec![0..3, 3..6], 6));
}

/// Layout of a pipeline with these options, or the option that is refused.
fn pipeline(driver: Driver, sets: &[(&str, &str)]) -> Result<Layout, &'static str> {
    let specs = [driver.options, accept::OPTIONS, crate::shared::OPTIONS].concat();
    let sets = [&[("accept.when_full", "pause")][..], sets].concat();
    let settings = settings(&specs, &sets);
    let addresses = [clear("127.0.0.1:8000"), clear("127.0.0.1:8010")];
    Layout::plan(&driver, &settings, &addresses, &[0, 1, 2, 3], 4).map_err(|fault| fault.key)
}

/// A pipeline has one process in each copy; options that its stages cannot follow are refused.
#[test]
fn a_pipeline_is_one_process() {
    let driver = Driver { steps: |_| Steps::None, ..crate::architectures::watpipe::DRIVER };
    let plan = |sets: &[_]| pipeline(driver, sets).map(|layout| shares(&layout));
    assert_eq!(plan(&[]), Ok(vec![(0..2, vec![])]), "whatever processors there are");
    assert_eq!(plan(&[("event.processes", "1")]), plan(&[]));
    let copies = [("event.copies", "2"), ("event.pin", "share")];
    assert_eq!(plan(&copies), Ok(vec![(0..2, vec![0, 1]), (2..4, vec![2, 3])]));
    assert_eq!(plan(&[("event.processes", "2")]), Err("event.processes"));
    assert_eq!(plan(&[("event.listen", "reuseport")]), Err("event.listen"));
    assert_eq!(plan(&[("accept.when_full", "close-idle")]), Err("accept.when_full"));
    let blocking = ("event.send", "blocking");
    assert_eq!(plan(&[blocking, ("watpipe.barrier", "false")]), plan(&[]));
    assert_eq!(plan(&[blocking, ("watpipe.barrier", "true")]), Err("event.send"));
}

/// A thread that sends for all clients waits for none of them. A pipeline whose stages do not know
/// the ages of requests has no options that admit by them.
#[test]
fn a_pipeline_is_refused_what_its_stages_cannot_do() {
    let plan = |driver, set| pipeline(driver, &[set]).map(|layout| layout.slots());
    let seda = |send| plan(crate::architectures::seda::DRIVER, ("event.send", send));
    assert_eq!(seda("nonblocking"), Ok(9), "one for the first thread, each stage and control");
    assert_eq!(seda("blocking"), Err("event.send"));
    let watpipe =
        |control| plan(crate::architectures::watpipe::DRIVER, ("stages.pool_control", control));
    assert_eq!(watpipe("none"), Ok(57));
    for key in ["stages.admission", "stages.bucket", "stages.disk_ms"] {
        assert!(
            crate::architectures::seda::DRIVER.takes(key)
                && !crate::architectures::watpipe::DRIVER.takes(key),
            "{key}"
        );
    }
}

#[test]
fn connections_are_split_evenly() {
    let mut layout = plan(&[("event.processes", "3")], &["127.0.0.1:80"], &[0]).unwrap();
    layout.share_connections(11);
    let each: Vec<_> = layout.shares.iter().map(|share| share.connections_max).collect();
    assert_eq!(each, [4, 4, 3]);
}

/// Sockets without a worker after a reload are shared out; all workers keep theirs.
#[test]
fn workers_take_what_is_left_over_in_turn() {
    let ranges = |layout: &Layout| -> Vec<Range<usize>> {
        layout.shares.iter().map(|share| share.listeners.clone()).collect()
    };
    let addresses = ["127.0.0.1:80", "127.0.0.1:81"];
    let own = [("event.processes", "3"), ("event.listen", "reuseport")];
    let mut layout = plan(&own, &addresses, &[0]).unwrap();
    let clear = [ListenerClass::CLEAR; 4];
    assert_eq!((layout.give(&clear), ranges(&layout)), (vec![2, 5, 8, 3], vec![0..4, 4..7, 7..10]));
    let mut layout = plan(&own[..1], &addresses, &[0]).unwrap();
    assert_eq!((layout.give(&clear[..2]), ranges(&layout)), (vec![2, 3], vec![0..4; 3]));
}

/// Address on a port that is a multiple of 1000, of this class.
fn in_class(port: u16, class: u8) -> ListenPlace {
    ListenPlace { class: ListenerClass(class), ..clear(&format!("127.0.0.1:{port}")) }
}

/// Copies count up from the port of their address.
fn port(socket: &SocketPlan) -> u16 {
    let Place::Inet(address) = &socket.place else { panic!("{} has no port", socket.place) };
    address.port() / 1000 * 1000
}

/// A socket has the class of its address, whichever workers accept from it.
#[test]
fn sockets_have_the_classes_of_their_addresses() {
    let listen = [in_class(1000, 0), in_class(2000, 2), in_class(3000, 1), in_class(4000, 2)];
    let rows: [(&[(&str, &str)], usize); 6] = [
        (&[], 4),
        (&[("event.processes", "3"), ("event.listen", "reuseport")], 12),
        (&[("event.copies", "3")], 12),
        (&[("event.copies", "2"), ("event.partition", "addresses")], 4),
        (&[("event.copies", "2"), ("event.partition", "steer-cpu")], 8),
        (&[("event.copies", "2"), ("event.processes", "2"), ("event.listen", "reuseport")], 16),
    ];
    for (sets, sockets) in rows {
        let mut layout = plan_classes(sets, &listen, &[0, 1]).unwrap();
        let class = |socket| listen[usize::from(port(socket) / 1000) - 1].class;
        let mut expect: Vec<ListenerClass> = layout.sockets.iter().map(class).collect();
        assert_eq!((&layout.classes, expect.len()), (&expect, sockets), "{sets:?}");
        // A reload passes sockets that no worker has, in any order.
        let inherited = [4000, 1000, 3000, 1000, 2000, 9000].map(|port| in_class(port, 7).place);
        let surplus = inherited.iter().filter_map(|place| class_at(place, &listen));
        let surplus: Vec<ListenerClass> = surplus.collect();
        assert_eq!(surplus, [2, 0, 1, 0, 2].map(ListenerClass), "none at port 9000");
        for (at, class) in layout.give(&surplus).into_iter().zip(surplus) {
            expect.insert(at, class);
        }
        assert_eq!(layout.classes, expect, "{sets:?}");
        let ends = layout.shares.iter().map(|share| share.listeners.end);
        assert_eq!(ends.max(), Some(expect.len()), "{sets:?}");
    }
}
