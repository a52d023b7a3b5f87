//! Small work in a turn: frames that are read, parts that are read, and frames that are sent.
use super::{
    WINDOW, bodies, content, frame, ping, rig,
    rig::{Client, Got, Rig, get, response, window},
};
use crate::{Protocol as _, h2::pace::PERIOD_MS};
use alloc::vec::Vec;
use regatta_http::h2::frame::{FrameKind, WINDOW_BYTES_MAX};
use regatta_metrics::Counter;
use regatta_op::CloseReason;

const STREAMS: u32 = 100;

/// A hundred responses with windows of `bytes`, and a wide one of the connection. Time passes only
/// if the test says so.
fn dripped(rig: &Rig, bytes: u32) -> Client<'_> {
    let mut client = rig.open(&[(WINDOW, bytes)]);
    client.send(&window(0, WINDOW_BYTES_MAX - 65_535));
    for at in 0..STREAMS {
        client.get(2 * at + 1, "/big.bin");
    }
    client.take();
    client.holds_time = true;
    client
}

/// Windows of `bytes` for all streams, repeated `times` times.
fn drips(bytes: u32, times: usize) -> Vec<u8> {
    (0..STREAMS).flat_map(|at| window(2 * at + 1, bytes)).collect::<Vec<_>>().repeat(times)
}

/// A packet of 800 windows of 256 bytes would cause 800 frames to read, and a read and a frame to
/// send for each stream.
#[test]
fn windows_of_few_bytes_cause_little_work_in_a_period() {
    let rig = rig();
    let mut client = dripped(&rig, 256);
    client.pass(PERIOD_MS, 0);
    client.take();
    client.send(&drips(256, 8));
    assert!(!client.recv, "nothing is received while frames wait");
    let (mut sent, mut periods) = (0, 0);
    while sent < 100 {
        let (frames, reads) = (bodies(&client.take()).len(), client.reads.len());
        assert!(frames <= 32, "{frames} frames of DATA");
        sent += frames;
        client.pass(PERIOD_MS - 1, 0);
        assert_eq!((client.take().len(), client.reads.len()), (0, reads));
        client.pass(1, 0);
        let reads = client.reads.len() - reads;
        assert!(reads <= 16, "{reads} reads");
        periods += 1;
    }
    // 800 units for frames to read, and 6 for each part.
    assert!((18..=24).contains(&periods), "{periods}");
    assert!(client.recv && rig.count(Counter::Http2Calmed) == 0);
}

/// The frames that wait are read in the end, and the bodies arrive.
#[test]
fn small_work_that_waits_is_done_later() {
    let rig = Rig::new(|site| site.limits.requests_max = 0);
    let mut client = rig.open(&[(WINDOW, 1_000)]);
    client.get(1, "/big.bin");
    client.get(3, "/mid.bin");
    let mut frames = client.take();
    let begun = rig.now().tick;
    for _ in 0..200 {
        client.send(&[window(1, 1_000), window(3, 1_000), window(0, 2_000)].concat());
        frames.extend(client.take());
    }
    assert_eq!(response(&frames, 1), content(200_000));
    assert_eq!(response(&frames, 3), content(40_000));
    let took = rig.now().tick.since(begun);
    assert!((100..1_000).contains(&took), "{took} ms");
    assert!(client.session.is_idle() && !client.is_shut);
}

#[test]
fn frames_of_any_kind_are_bounded_in_a_period() {
    let rows = [
        ("PING", ping(), 200),
        ("PRIORITY", frame(FrameKind::Priority, 0, 1, &[0; 5]), 600),
        ("unknown", frame(FrameKind::Unknown(0x7f), 0, 0, &[]), 600),
        ("windows without a reason", window(0, 5_000), 600),
    ];
    for (name, bytes, count) in rows {
        let rig = rig();
        let mut client = rig.open(&[]);
        client.holds_time = true;
        client.send(&bytes.repeat(count));
        let mut periods = 1;
        while !client.recv {
            client.pass(PERIOD_MS, 0);
            periods += 1;
            assert!(periods < 100, "{name}");
        }
        // A new connection has twice as many units.
        assert_eq!(periods, count.div_ceil(64) - 1, "{name}");
        assert!(!client.is_shut, "{name}");
    }
}

/// A driver that does not receive reports that the peer may have left.
#[test]
fn a_client_that_sends_no_more_is_served_at_its_pace() {
    let rig = rig();
    let mut client = dripped(&rig, 256);
    client.send(&drips(256, 3));
    assert!(!client.recv);
    client.session.peer_ended(rig.now(), &rig.cx());
    while !client.recv {
        client.pass(PERIOD_MS, 0);
    }
    client.end();
    let mut sent = 0;
    for _ in 0..100 {
        let lengths = client.take().into_iter().map(|got| match got {
            Got::Data { bytes, .. } => bytes.len(),
            _ => 0,
        });
        sent += lengths.sum::<usize>();
        client.pass(PERIOD_MS, 0);
    }
    assert_eq!(sent, 100 * 3 * 256, "all that the client permits");
    // No window can be opened any more.
    assert_eq!(client.closed, Some(CloseReason::PeerAborted));
}

/// Clients of wide windows, and of many requests, never wait.
#[test]
fn usual_clients_have_no_small_work() {
    let rig = rig();
    rig.put("long.bin", 10 << 20);
    let mut client = rig.open(&[]);
    client.holds_time = true;
    client.send(&[get(1, "/long.bin"), window(0, 32 << 10), window(1, 32 << 10)].concat());
    let mut received = Vec::new();
    // A client permits half of a window of 64 KiB whenever it has received as much.
    while received.len() < 10 << 20 {
        let before = received.len();
        for got in client.take() {
            if let Got::Data { bytes, .. } = got {
                received.extend(bytes);
            }
        }
        assert!(received.len() > before, "{before}");
        if received.len() < 10 << 20 {
            client.send(&[window(0, 32 << 10), window(1, 32 << 10)].concat());
        }
    }
    assert!(received == content(10 << 20).1);
    // 32 requests at a time, each with a priority that changes.
    let mut client = rig.open(&[]);
    client.holds_time = true;
    for round in 0..50 {
        let streams = (0..32).map(|at| 64 * round + 2 * at + 1);
        client.send(&streams.clone().flat_map(|stream| get(stream, "/a.txt")).collect::<Vec<_>>());
        let frames = client.take();
        assert!(streams.clone().all(|stream| response(&frames, stream) == content(10)));
        assert!(client.recv, "{round}");
        // The client permits what it was sent.
        client.send(&[window(0, 320), ping()].concat());
        assert!(client.recv, "{round}");
        client.take();
        rig.pass(1_000);
    }
}
