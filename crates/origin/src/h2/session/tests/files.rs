//! Files of streams that wait, in a worker with few descriptors.
use super::{
    WINDOW, bodies, check_end, content, ends_alone, heads, ping,
    rig::{Got, Rig, ask, field, request, response, window},
    stalled,
};
use alloc::{format, vec, vec::Vec};
use regatta_http::h2::frame::ErrorCode;
use regatta_metrics::Counter;
use regatta_op::{CloseReason, OpenFault};

fn rig(most: u32) -> Rig {
    Rig::with_files(most, |_| {})
}

/// Connections with 100 streams each, all of other files, would take all descriptors of a worker.
#[test]
fn streams_without_windows_do_not_keep_the_files_of_a_worker() {
    const MOST: u32 = 8;
    let rig = rig(MOST);
    let name = |client: u32, at: u32| format!("{client}-{at}.bin");
    let mut clients = Vec::new();
    for number in 0..6 {
        let mut client = rig.open(&[(WINDOW, 0)]);
        for at in 0..100 {
            rig.put(&name(number, at), 70_000);
            client.get(2 * at + 1, &format!("/{}", name(number, at)));
            assert!(rig.held.open() <= MOST, "{number}, {at}: {:?}", rig.held);
        }
        let begun = client.take();
        assert_eq!(heads(&begun).len(), 100);
        clients.push((client, begun));
    }
    assert!(rig.count(Counter::Http2FilesClosed) >= 592);
    // A good client is served meanwhile.
    let mut good = rig.open(&[(WINDOW, 1 << 20)]);
    good.send(&window(0, 1 << 20));
    good.get(1, "/big.bin");
    assert_eq!(response(&good.take(), 1), content(200_000));
    // The others get all bytes when they permit them.
    for (client, frames) in &mut clients {
        client.send(&window(0, 10 << 20));
        let permits: Vec<u8> = (0..100).flat_map(|at| window(2 * at + 1, 70_000)).collect();
        client.send(&permits);
        frames.extend(client.take());
        for at in 0..100 {
            assert!(response(frames, 2 * at + 1) == content(70_000), "{at}");
        }
        assert!(rig.held.open() <= MOST);
    }
    assert_eq!((rig.count(Counter::RepliesCut), rig.held.open()), (0, 0));
}

#[test]
fn a_connection_keeps_a_file_while_there_are_some() {
    let rig = rig(8);
    let mut clients: Vec<_> = (0..8).map(|_| stalled(&rig)).collect();
    assert_eq!((rig.held.open(), rig.count(Counter::Http2FilesClosed)), (8, 0));
    // The next one has none, and with another stream this one keeps none either.
    let _other = stalled(&rig);
    assert_eq!((rig.held.open(), rig.count(Counter::Http2FilesClosed)), (8, 1));
    clients[7].get(3, "/big.bin");
    assert_eq!((rig.held.open(), rig.count(Counter::Http2FilesClosed)), (7, 3));
    clients[0].get(3, "/big.bin");
    assert_eq!((rig.held.open(), rig.count(Counter::Http2FilesClosed)), (8, 3));
    // The first response began while there were enough: its file stays open.
    clients[0].get(5, "/big.bin");
    assert_eq!((rig.held.open(), rig.count(Counter::Http2FilesClosed)), (7, 5));
    clients.clear();
    assert_eq!(rig.held.open(), 0);
}

#[test]
fn a_client_that_takes_nothing_keeps_no_files() {
    let rig = rig(0);
    let mut client = rig.open(&[(WINDOW, 1 << 20)]);
    client.send(&window(0, 10 << 20));
    client.holds_send = true;
    let streams: Vec<u32> = (0..10).map(|at| 2 * at + 1).collect();
    streams.iter().for_each(|stream| client.get(*stream, "/big.bin"));
    assert_eq!((rig.held.open(), client.take().len()), (0, 0));
    client.finish_send();
    let frames = client.take();
    assert!(streams.iter().all(|stream| response(&frames, *stream) == content(200_000)));
    assert_eq!(rig.held.open(), 0);
}

#[test]
fn a_file_that_has_changed_meanwhile_ends_its_stream_alone() {
    let rig = rig(0);
    let mut client = stalled(&rig);
    assert_eq!(rig.held.open(), 0);
    rig.put("big.bin", 200_000);
    client.send(&window(1, 1_000));
    ends_alone(&mut client, &rig);
}

#[test]
fn a_sibling_is_opened_again_by_its_own_name() {
    let rig = rig(0);
    rig.put("page.css", 200_000);
    rig.put("page.css.br", 100_000);
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.send(&ask(1, &request("GET", "/page.css", &[("accept-encoding", "br")])));
    let mut frames = client.take();
    assert_eq!(field(&frames, 1, "content-encoding").as_deref(), Some("br"));
    client.send(&[window(0, 100_000), window(1, 100_000)].concat());
    frames.extend(client.take());
    assert_eq!(response(&frames, 1), content(100_000));
    assert!(rig.count(Counter::Opens) > 1);
}

#[test]
fn without_descriptors_a_file_is_tried_again() {
    for fault in [OpenFault::Exhausted, OpenFault::Busy] {
        let rig = Rig::with_files(0, |site| site.deadlines.send_window_ms = 60_000);
        let mut client = stalled(&rig);
        rig.fault.set(Some(fault));
        client.send(&window(1, 1_000));
        client.pass(50, 0);
        assert!(client.take().is_empty());
        rig.fault.set(None);
        client.pass(49, 0);
        assert!(client.take().is_empty());
        client.pass(1, 0);
        assert_eq!(bodies(&client.take()), [1]);
        // It is tried for ten seconds.
        rig.fault.set(Some(fault));
        client.send(&window(1, 1_000));
        for _ in 0..199 {
            client.pass(50, 0);
            assert!(client.take().is_empty());
        }
        client.pass(50, 0);
        assert_eq!(client.take(), [Got::Reset(1, ErrorCode::INTERNAL_ERROR)]);
    }
}

#[test]
fn a_disk_that_does_not_open_a_file_again_is_given_up() {
    let rig = rig(0);
    let mut client = stalled(&rig);
    client.holds_disk = true;
    client.send(&window(1, 1_000));
    assert_eq!(client.disk.len(), 1);
    // The window of time in which the client must take something begins again.
    client.pass(30_000, 0);
    client.pass(0, 0);
    assert_eq!(client.take(), [Got::Reset(1, ErrorCode::INTERNAL_ERROR)]);
    assert!(client.disk.is_empty() && client.session.streams.all().is_empty());
    client.finish_disk();
    client.get(3, "/a.txt");
    client.send(&window(3, 10));
    assert_eq!(response(&client.take(), 3), content(10));
}

/// A client that permits a byte now and then would keep its connection for ever.
#[test]
fn files_that_are_opened_again_do_not_move_the_deadline() {
    let rig = rig(0);
    let mut client = stalled(&rig);
    for _ in 0..9 {
        client.pass(1_000, 0);
        client.holds_disk = true;
        client.send(&window(1, 1));
        client.send(&ping());
        client.finish_disk();
    }
    assert_eq!(bodies(&client.take()), vec![1; 9]);
    client.pass(1_000, 0);
    check_end(&mut client, 1, ErrorCode::NO_ERROR, CloseReason::SendDeadline);
}
