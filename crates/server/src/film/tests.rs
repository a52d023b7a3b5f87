//! Scenes of made-up records, and their forms.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use super::{
    FilmForm, FilmOptions, film, lines, page,
    scene::{Footage, Scene},
};
use regatta_metrics::{FilmEvent, FilmRecord, FilmSubject, FilmThread, TurnEnd};
use regatta_op::OpKind;
use regatta_testkit::folder::Folder;
use std::{collections::BTreeSet, fs, time::Duration};

const MS: u64 = 1_000_000;

/// Adds records about a connection: time, requests that have come, unit, event.
fn add(thread: &mut FilmThread, connection: u32, records: &[(u64, u16, u32, FilmEvent)]) {
    let record = |&(at_ns, request, unit, event): &(u64, u16, u32, FilmEvent)| FilmRecord {
        at_ns,
        subject: FilmSubject { connection, request },
        unit,
        event,
    };
    thread.records.extend(records.iter().map(record));
}

fn footage(threads: Vec<FilmThread>) -> Footage {
    let architecture = "sped".to_owned();
    Footage { architecture, pid: 7, began_ns: 0, lasts_ns: 100 * MS, threads_left_out: 0, threads }
}

fn worker() -> FilmThread {
    FilmThread::new([7, 8], String::new())
}

/// A loop opens a file for one connection for 20 ms, and another waits with its request.
fn cold_file() -> Footage {
    use FilmEvent::{Accepted, Closed, Done, Issued, TurnBegins, TurnEnds};
    use OpKind::{Close, Open, Recv, Send};
    let mut worker = worker();
    add(
        &mut worker,
        5,
        &[
            (MS, 0, 0, Accepted),
            (2 * MS, 0, 0, TurnBegins),
            (2 * MS + 10, 0, 0, Issued(Recv)),
            (2 * MS + 20, 0, 0, TurnEnds(TurnEnd::Client)),
            (10 * MS, 0, 0, TurnBegins),
            (10 * MS + 5, 0, 0, Done(Recv)),
            (10 * MS + 30, 1, 0, Issued(Open)),
            (30 * MS, 1, 0, Done(Open)),
            (30 * MS + 10, 1, 0, Issued(Send)),
            (30 * MS + 40, 1, 0, Done(Send)),
            (30 * MS + 50, 1, 0, Issued(Close)),
            (30 * MS + 60, 1, 0, TurnEnds(TurnEnd::Close)),
            (30 * MS + 70, 1, 0, Closed),
        ],
    );
    footage(vec![worker])
}

#[test]
fn a_cold_file_is_a_bar_that_has_waited() {
    let scene = Scene::of(&cold_file());
    let bars: Vec<_> = scene.bars.iter().map(|bar| (&*bar.what, bar.from_ns, bar.to_ns)).collect();
    assert_eq!(
        bars,
        [
            ("work", 2 * MS, 2 * MS + 10),
            ("recv", 2 * MS + 10, 2 * MS + 20),
            ("recv", 10 * MS, 10 * MS + 5),
            ("parse", 10 * MS + 5, 10 * MS + 30),
            ("open", 10 * MS + 30, 30 * MS),
            ("work", 30 * MS, 30 * MS + 10),
            ("send", 30 * MS + 10, 30 * MS + 40),
            ("work", 30 * MS + 40, 30 * MS + 50),
            ("close", 30 * MS + 50, 30 * MS + 60),
        ]
    );
    let slow: Vec<_> = scene.bars.iter().filter(|bar| bar.is_slow).map(|bar| &*bar.what).collect();
    assert_eq!(slow, ["open"]);
    let waits: Vec<_> =
        scene.waits.iter().map(|wait| (&*wait.r#for, wait.from_ns, wait.to_ns)).collect();
    assert_eq!(waits, [("turn", MS, 2 * MS), ("client", 2 * MS + 20, 10 * MS)]);
    let [request] = &scene.requests[..] else { panic!("{:?}", scene.requests) };
    assert_eq!((request.number, request.from_ns), (1, 10 * MS + 5));
    assert_eq!(request.to_ns, 30 * MS + 40);
    let [connection] = &scene.connections[..] else { panic!("{:?}", scene.connections) };
    assert_eq!(connection.accepted_ns, Some(MS));
    assert_eq!(connection.closed_ns, Some(30 * MS + 70));
    assert_eq!((scene.units.len(), &*scene.units[0].name), (1, "worker"));
    assert!(scene.handovers.is_empty() && !scene.is_cut);
}

#[test]
fn a_helper_is_a_unit_that_is_handed_the_connection() {
    use FilmEvent::{Done, HelperBegins, HelperEnds, Issued, TurnBegins, TurnEnds};
    let mut worker = worker();
    add(
        &mut worker,
        5,
        &[
            (10, 0, 0, TurnBegins),
            (20, 0, 0, Done(OpKind::Recv)),
            (30, 1, 0, Issued(OpKind::Open)),
            (40, 1, 3, HelperBegins(OpKind::Open)),
            (50, 1, 0, TurnEnds(TurnEnd::Disk)),
            (5 * MS, 1, 3, HelperEnds(OpKind::Open)),
            (5 * MS + 10, 1, 0, Done(OpKind::Open)),
            (5 * MS + 20, 1, 0, TurnBegins),
            (5 * MS + 30, 1, 0, TurnEnds(TurnEnd::Client)),
        ],
    );
    let scene = Scene::of(&footage(vec![worker]));
    let names: Vec<_> = scene.units.iter().map(|unit| &*unit.name).collect();
    assert_eq!(names, ["worker", "helper 3"]);
    let helped = scene.bars.iter().find(|bar| bar.unit == 1).unwrap();
    assert_eq!((&*helped.what, helped.from_ns, helped.to_ns), ("open", 40, 5 * MS));
    assert!(helped.is_slow);
    let hands: Vec<_> = scene.handovers.iter().map(|it| (it.from_unit, it.to_unit)).collect();
    assert_eq!(hands, [(0, 1), (1, 0)]);
    let disk: Vec<_> = scene.waits.iter().filter(|wait| wait.r#for == "disk").collect();
    assert_eq!((disk[0].from_ns, disk[0].to_ns), (50, 5 * MS + 20));
    // What has not ended lasts up to the end of the film.
    assert_eq!(scene.waits.last().unwrap().to_ns, 100 * MS);
}

/// A stage receives, the next one parses and leaves the open to a third.
#[test]
fn an_operation_is_a_bar_of_the_stage_that_performs_it() {
    use FilmEvent::{Done, Issued, TurnBegins, TurnEnds};
    let stage = TurnEnds(TurnEnd::Stage);
    let threads = ["read", "parse", "miss"].map(|name| FilmThread::new([7, 8], name.to_owned()));
    let [mut read, mut parse, mut miss] = threads;
    let receives =
        [(10, TurnBegins), (20, Issued(OpKind::Recv)), (40, Done(OpKind::Recv)), (45, stage)];
    add(&mut read, 5, &receives.map(|(at, event)| (at, 0, 0, event)));
    let parses = [(60, 0, TurnBegins), (80, 1, Issued(OpKind::Open)), (90, 1, stage)];
    add(&mut parse, 5, &parses.map(|(at, request, event)| (at, request, 0, event)));
    let opens =
        [(100, TurnBegins), (105, Issued(OpKind::Open)), (160, Done(OpKind::Open)), (165, stage)];
    add(&mut miss, 5, &opens.map(|(at, event)| (at, 1, 0, event)));
    let scene = Scene::of(&footage(vec![read, parse, miss]));
    let bars: Vec<_> =
        scene.bars.iter().map(|bar| (bar.unit, &*bar.what, bar.from_ns, bar.to_ns)).collect();
    assert_eq!(
        bars,
        [
            (0, "work", 10, 20),
            (0, "recv", 20, 40),
            (0, "work", 40, 45),
            (1, "parse", 60, 80),
            (1, "work", 80, 90),
            (2, "work", 100, 105),
            (2, "open", 105, 160),
            (2, "work", 160, 165),
        ]
    );
}

/// A connection that was open before has requests that begin in the film alone.
#[test]
fn what_was_there_before_is_no_new_request() {
    let mut worker = worker();
    add(
        &mut worker,
        5,
        &[
            (10, 41, 0, FilmEvent::TurnBegins),
            (20, 41, 0, FilmEvent::Done(OpKind::Recv)),
            (30, 42, 0, FilmEvent::Issued(OpKind::Send)),
            (40, 42, 0, FilmEvent::Done(OpKind::Send)),
        ],
    );
    let scene = Scene::of(&footage(vec![worker]));
    assert_eq!(scene.connections[0].accepted_ns, None);
    let seen: Vec<_> = scene.requests.iter().map(|it| (it.number, it.from_ns, it.to_ns)).collect();
    assert_eq!(seen, [(42, 20, 40)]);
}

/// Descriptors are used again, and those of other processes are others.
#[test]
fn a_descriptor_names_one_connection_at_a_time() {
    let (mut one, mut other) = (worker(), FilmThread::new([9, 9], "conn".to_owned()));
    for at in [0, 10] {
        add(&mut one, 5, &[(at, 0, 0, FilmEvent::Accepted), (at + 5, 0, 0, FilmEvent::Closed)]);
    }
    add(&mut other, 5, &[(3, 0, 0, FilmEvent::Accepted)]);
    let mut scene = Scene::of(&footage(vec![one, other]));
    let ends: Vec<_> = scene.connections.iter().map(|it| (it.pid, it.closed_ns)).collect();
    assert_eq!(ends, [(7, Some(5)), (9, None), (7, Some(15))]);
    scene.keep(&BTreeSet::from([2]));
    assert!(scene.records.iter().all(|line| line.2 == 2) && scene.records.len() == 2);
}

/// Bytes that come while a response is sent do not end its request; an upload does neither.
#[test]
fn a_request_lasts_until_its_response_is_sent() {
    let mut worker = worker();
    add(
        &mut worker,
        5,
        &[
            (10, 0, 0, FilmEvent::TurnBegins),
            (20, 0, 0, FilmEvent::Done(OpKind::Recv)),
            (25, 0, 0, FilmEvent::Done(OpKind::Recv)),
            (30, 1, 0, FilmEvent::Issued(OpKind::Send)),
            (40, 1, 0, FilmEvent::Done(OpKind::Recv)),
            (60, 1, 0, FilmEvent::Done(OpKind::Send)),
            (70, 2, 0, FilmEvent::Issued(OpKind::Send)),
            (80, 2, 0, FilmEvent::Done(OpKind::Send)),
            (90, 2, 0, FilmEvent::TurnEnds(TurnEnd::Client)),
        ],
    );
    let scene = Scene::of(&footage(vec![worker]));
    let seen: Vec<_> = scene.requests.iter().map(|it| (it.number, it.from_ns, it.to_ns)).collect();
    assert_eq!(seen, [(1, 20, 60), (2, 40, 80)]);
}

/// Nothing is drawn across missing records.
#[test]
fn nothing_spans_a_gap() {
    let mut worker = worker();
    add(
        &mut worker,
        5,
        &[
            (10, 0, 0, FilmEvent::TurnBegins),
            (20, 0, 0, FilmEvent::TurnEnds(TurnEnd::Client)),
            (90, 0, 0, FilmEvent::TurnBegins),
            (95, 0, 0, FilmEvent::TurnEnds(TurnEnd::Client)),
        ],
    );
    (worker.lost, worker.gaps) = (7, vec![2]);
    let scene = Scene::of(&footage(vec![worker]));
    assert_eq!((scene.records_lost, scene.waits[0].from_ns), (7, 95), "{:?}", scene.waits);
}

#[test]
fn a_scene_ends_when_it_has_enough_requests() {
    let mut worker = worker();
    for number in 0..400_u16 {
        let at = u64::from(number) * 100;
        add(
            &mut worker,
            5,
            &[
                (at, number, 0, FilmEvent::TurnBegins),
                (at + 10, number, 0, FilmEvent::Done(OpKind::Recv)),
                (at + 20, number + 1, 0, FilmEvent::Issued(OpKind::Send)),
                (at + 30, number + 1, 0, FilmEvent::Done(OpKind::Send)),
                (at + 40, number + 1, 0, FilmEvent::TurnEnds(TurnEnd::Client)),
            ],
        );
    }
    let scene = Scene::of(&footage(vec![worker]));
    assert!(scene.is_cut);
    assert_eq!(scene.requests.len(), 300);
    assert!(scene.lasts_ns < 31_000, "{}", scene.lasts_ns);
    assert!(page(vec![scene]).len() < 2 << 20);
}

/// Kept as JSON and read again, a film has the same bars.
#[test]
fn a_film_that_was_kept_is_drawn_again() {
    let scene = Scene::of(&cold_file());
    let folder = Folder::new("film");
    let kept = folder.join("cold.json");
    fs::write(&kept, lines(std::slice::from_ref(&scene))).unwrap();
    let options = |files: &[&std::path::Path], form| FilmOptions {
        pid: None,
        lasts: Duration::ZERO,
        connections: BTreeSet::new(),
        files: files.iter().map(|path| path.to_path_buf()).collect(),
        form,
    };
    let again = film(&options(&[&kept], FilmForm::Json), |_| ()).unwrap();
    assert_eq!(serde_json::from_str::<Scene>(&again).unwrap(), scene);
    let both = film(&options(&[&kept, &kept], FilmForm::Page), |_| ()).unwrap();
    let drawn = both.split("var SCENES = [").nth(1).unwrap().split("];\n").next().unwrap();
    let drawn: Vec<Scene> = serde_json::from_str(&format!("[{drawn}]")).unwrap();
    assert_eq!(drawn.len(), 2);
    assert_eq!((&drawn[0].bars, &drawn[1].waits), (&scene.bars, &scene.waits));
    assert!(drawn[0].records.is_empty());
    let trace = film(&options(&[&kept], FilmForm::TraceEvent), |_| ()).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
    let bars = trace["traceEvents"].as_array().unwrap().iter().filter(|it| it["ph"] == "X");
    assert_eq!(bars.count(), scene.bars.len());
}

#[test]
fn what_is_no_film_is_refused_with_the_reason() {
    let folder = Folder::new("film");
    let path = folder.join("it.json");
    let options = |count| FilmOptions {
        pid: None,
        lasts: Duration::ZERO,
        connections: BTreeSet::new(),
        files: vec![path.clone(); count],
        form: FilmForm::Page,
    };
    let said = |count| match film(&options(count), |_| ()) {
        Err(crate::Failure::Usage(fault)) => fault.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(said(1).ends_with("(os error 2)"), "{}", said(1));
    let mut scene = Scene::of(&cold_file());
    scene.bars[0].unit = 9;
    for (text, why) in [
        ("{".to_owned(), "EOF while parsing"),
        (lines(std::slice::from_ref(&scene)), "names units or connections that it does not have"),
        (lines(&[Scene { format: "other".to_owned(), ..scene }]), "its format is another"),
    ] {
        fs::write(&path, text).unwrap();
        assert!(said(1).contains(why), "{}", said(1));
    }
    assert!(said(9).contains("9 films are too many"), "{}", said(9));
}
