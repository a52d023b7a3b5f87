//! Deadlines, refusals and ends of connections.
use super::{
    WINDOW, bodies, check_end, content, heads, ping, rig,
    rig::{Got, Rig, ask_with_content, block, data, frame, get, request, reset, response, window},
    settings,
};
use crate::{Protocol as _, ReplyOutcome};
use alloc::{format, vec, vec::Vec};
use core::ops::Range;
use regatta_http::h2::frame::{
    END_HEADERS, END_STREAM, ErrorCode, FrameKind, PREFACE, WINDOW_BYTES_DEFAULT, WINDOW_BYTES_MAX,
};
use regatta_metrics::Counter;
use regatta_op::CloseReason;

#[test]
fn a_drain_lets_streams_finish() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/a.txt");
    client.session.drain(rig.now(), &rig.cx());
    client.run();
    let all = Got::GoAway(WINDOW_BYTES_MAX, ErrorCode::NO_ERROR);
    assert_eq!(client.take().last(), Some(&all));
    client.holds_disk = true;
    client.get(3, "/b.txt");
    // The announced end is not a deadline of the peer: time held up by the server counts.
    client.session.held_up(60);
    client.pass(249, 0);
    assert!(client.take().is_empty());
    client.pass(1, 0);
    assert_eq!(client.take(), [Got::GoAway(3, ErrorCode::NO_ERROR)]);
    client.get(5, "/a.txt");
    client.send(&data(5, 5, true));
    assert!(!client.is_shut && client.take().is_empty(), "later streams are ignored");
    client.finish_disk();
    assert_eq!(response(&client.take(), 3), content(20));
    assert!(client.is_shut);
    client.end();
    assert_eq!(client.closed, Some(CloseReason::Drained));
}

/// A buffer of control frames is small. In the pool it would take the place of others.
#[test]
fn connections_leave_no_small_buffers() {
    let rig = rig();
    let mut kept = Vec::new();
    for _ in 0..20 {
        let mut client = rig.open(&[]);
        client.get(1, "/a.txt");
        client.send(&ping());
        client.end();
        assert_eq!(client.closed, Some(CloseReason::PeerClosed));
        kept.push(rig.cx().scratch.kept_buffers());
    }
    assert_eq!(kept[3], kept[19], "{kept:?}");
}

/// A burst of clients that leave would otherwise leave a buffer each.
#[test]
fn a_broken_connection_returns_its_frames() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/mid.bin");
    client.take();
    client.holds_send = true;
    client.get(3, "/mid.bin");
    let before = rig.cx().scratch.kept_buffers();
    client.break_send();
    assert_eq!(client.closed, Some(CloseReason::Reset));
    assert!(rig.cx().scratch.kept_buffers() > before);
}

#[test]
fn idle_connections_end() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/a.txt");
    client.take();
    client.pass(30_000, 0);
    client.send(&ping());
    client.take();
    client.pass(30_000, 0);
    check_end(&mut client, 1, ErrorCode::NO_ERROR, CloseReason::IdleDeadline);
    // The client sends nothing, and does not close either.
    let mut client = rig.connect();
    client.take();
    client.pass(10_000, 0);
    assert_eq!(client.take(), [Got::GoAway(0, ErrorCode::NO_ERROR)]);
    assert!(client.is_shut && client.closed.is_none());
    client.pass(2_000, 0);
    assert_eq!(client.closed, Some(CloseReason::IdleDeadline));
}

#[test]
fn parts_of_requests_have_a_deadline() {
    let whole = get(1, "/a.txt");
    let begun = frame(FrameKind::Headers, END_STREAM, 1, &whole[9..12]);
    for part in [&whole[..5], &whole[..12], &begun[..]] {
        let rig = rig();
        let mut client = rig.open(&[]);
        client.send(part);
        client.pass(9_999, 0);
        assert!(client.take().is_empty());
        client.pass(1, 0);
        check_end(&mut client, 0, ErrorCode::NO_ERROR, CloseReason::HeadDeadline);
    }
}

#[test]
fn a_window_that_stays_shut_ends_the_connection() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.get(1, "/big.bin");
    client.pass(9_000, 0);
    // As much as a client must take in a window of time.
    client.send(&window(1, 2_560));
    client.pass(1_000, 0);
    assert!(!client.is_shut);
    client.take();
    client.pass(9_000, 0);
    client.send(&[ping(), window(1, 100)].concat());
    client.take();
    client.pass(1_000, 0);
    check_end(&mut client, 1, ErrorCode::NO_ERROR, CloseReason::SendDeadline);
    assert_eq!(rig.log.0.borrow()[0].2, ReplyOutcome::Slow);
    assert!(rig.count(Counter::Http2WindowStalls) >= 1);
}

/// A client takes 1 KB/s, and opens its window when it has used half of it.
#[test]
fn a_slow_client_with_a_usual_window_is_served() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/big.bin");
    // Its window of 65,535 bytes, and then a half of that at a time.
    let mut has = WINDOW_BYTES_DEFAULT;
    while has < 150_000 {
        client.take();
        (0..32).for_each(|_| client.pass(1_000, 0));
        assert!(!client.is_shut, "it uses {has} bytes");
        client.send(&[window(0, 32_768), window(1, 32_768)].concat());
        assert!(!bodies(&client.take()).is_empty());
        has += 32_768;
    }
    // It might be using what it has, 2,560 bytes from one check to the next.
    for _ in 0..=(WINDOW_BYTES_DEFAULT / 2_560) {
        client.pass(10_000, 0);
        assert!(!client.is_shut);
    }
    client.pass(10_000, 0);
    check_end(&mut client, 1, ErrorCode::NO_ERROR, CloseReason::SendDeadline);
}

/// A client that opens its window by as much as it must take stays, however much it used before.
#[test]
fn a_client_at_the_lowest_rate_is_served() {
    let rig = Rig::new(|site| {
        (site.deadlines.send_window_ms, site.deadlines.send_rate_min) = (1_000, 256);
    });
    let mut client = rig.open(&[]);
    client.get(1, "/big.bin");
    for _ in 0..50 {
        client.send(&[window(0, 256), window(1, 256)].concat());
        client.pass(1_000, 0);
        assert!(!client.is_shut);
    }
    client.take();
    client.pass(1_000, 0);
    check_end(&mut client, 1, ErrorCode::NO_ERROR, CloseReason::SendDeadline);
}

/// Windows of time in which a client must take nearly as much as it has room for.
#[test]
fn a_client_just_above_a_high_rate_is_served() {
    let rig = Rig::new(|site| site.deadlines.send_rate_min = 5_000);
    let mut client = rig.open(&[]);
    client.get(1, "/big.bin");
    for _ in 0..4 {
        (0..6).for_each(|_| client.pass(1_000, 0));
        client.send(&[window(0, 32_768), window(1, 32_768)].concat());
        assert!(!bodies(&client.take()).is_empty());
    }
    // In the third window of time it was sent less than 50,000 bytes, and more in the second.
    (0..6).for_each(|_| client.pass(1_000, 0));
    assert!(!client.is_shut);
}

/// Neither the window of the connection, nor one that shuts again at once, lets the body continue.
#[test]
fn windows_that_permit_nothing_do_not_keep_a_connection() {
    let up_and_down = [settings(&[(WINDOW, 50_000)]), settings(&[(WINDOW, 0)])].concat();
    for bytes in [window(0, 50_000), up_and_down] {
        let rig = rig();
        let mut client = rig.open(&[(WINDOW, 0)]);
        client.get(1, "/big.bin");
        client.pass(9_999, 0);
        client.send(&bytes);
        assert_eq!(heads(&client.take()), [1]);
        client.pass(1, 0);
        check_end(&mut client, 1, ErrorCode::NO_ERROR, CloseReason::SendDeadline);
    }
}

/// The client permits one body, but the disk does not bring it: that is not the client's fault.
#[test]
fn a_body_that_waits_for_the_disk_is_not_late() {
    let rig = Rig::new(|site| site.deadlines.disk_ms_max = 60_000);
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.send(&[get(1, "/big.bin"), get(3, "/big.bin")].concat());
    client.holds_disk = true;
    client.send(&window(3, 50_000));
    assert_eq!((heads(&client.take()), client.disk.len()), (vec![1, 3], 1));
    client.pass(10_000, 0);
    client.pass(10_000, 0);
    assert!(!client.is_shut && client.take().is_empty());
    client.finish_disk();
    client.take();
    for _ in 0..19 {
        client.pass(10_000, 0);
        assert!(!client.is_shut, "it may be using its 50,000 bytes");
    }
    client.pass(10_000, 0);
    check_end(&mut client, 3, ErrorCode::NO_ERROR, CloseReason::SendDeadline);
}

#[test]
fn a_peer_that_takes_nothing_is_cut_off() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.holds_send = true;
    client.get(1, "/a.txt");
    client.pass(10_000, 0);
    assert_eq!(client.closed, Some(CloseReason::SendDeadline));
    assert_eq!(rig.count(Counter::RepliesCut), 1);
    assert_eq!(rig.log.0.borrow()[0].2, ReplyOutcome::Slow);
}

/// A driver may call again only after some time, which would add up.
#[test]
fn streams_that_are_due_together_end_together() {
    let rig = rig();
    let mut client = rig.open(&[]);
    let streams = [1, 3, 5, 7, 9];
    let post = request("POST", "/a.txt", &[]);
    client.send(&streams.map(|stream| ask_with_content(stream, &post)).concat());
    assert_eq!(heads(&client.take()), streams);
    client.pass(2_000, 0);
    let resets = streams.map(|stream| Got::Reset(stream, ErrorCode::NO_ERROR));
    assert_eq!(client.take(), resets);
    assert!(client.session.is_idle());
}

#[test]
fn a_disk_that_does_not_answer_is_given_up_for_its_stream() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/b.txt");
    client.take();
    client.holds_disk = true;
    client.get(3, "/a.txt");
    client.pass(20_000, 0);
    client.get(5, "/mid.bin");
    client.pass(10_000, 0);
    assert_eq!(response(&client.take(), 3).0, "503");
    client.finish_disk();
    assert_eq!(response(&client.take(), 5), content(40_000));
    assert!(client.session.is_idle());
}

/// An event opens a number of streams at most. The others do not wait for the disk.
#[test]
fn requests_behind_many_that_wait_for_the_disk_are_answered() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.get(1, "/a.txt");
    client.take();
    client.holds_disk = true;
    let mut bytes: Vec<u8> = (1..50).flat_map(|at| get(2 * at + 1, &format!("/{at}"))).collect();
    bytes.extend(get(101, "/a.txt"));
    bytes.extend(ping());
    client.send(&bytes);
    let frames = client.take();
    assert_eq!(response(&frames, 101), content(10));
    assert!(frames.contains(&Got::Pong(*b"01234567")));
}

#[test]
fn an_exchange_in_progress_is_logged_when_the_connection_is_cut() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.holds_disk = true;
    client.send(&[get(1, "/a.txt"), get(3, "/b.txt")].concat());
    client.session.cut(CloseReason::Failed, rig.now(), &rig.cx());
    client.forget();
    client.run();
    assert_eq!(client.closed, Some(CloseReason::Failed));
    assert_eq!(rig.count(Counter::RepliesCut), 2);
    assert!(rig.log.0.borrow().iter().all(|record| record.2 == ReplyOutcome::Cut));
}

#[test]
fn a_client_that_sends_no_more_gets_its_answers() {
    let rig = rig();
    rig.put("c.txt", 7);
    let mut client = rig.open(&[]);
    client.holds_disk = true;
    client.get(1, "/a.txt");
    client.end();
    assert_eq!(client.closed, None);
    client.finish_disk();
    assert_eq!(response(&client.take(), 1), content(10));
    assert_eq!(client.closed, Some(CloseReason::PeerClosed));
    // Nothing permits the rest.
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.get(1, "/a.txt");
    client.end();
    assert_eq!(client.closed, Some(CloseReason::PeerAborted));
    // Another response needs no more than is permitted.
    let mut client = rig.open(&[(WINDOW, 10)]);
    client.get(1, "/b.txt");
    client.holds_disk = true;
    client.get(3, "/c.txt");
    client.end();
    assert_eq!(client.closed, None);
    client.finish_disk();
    assert_eq!(response(&client.take(), 3), content(7));
    assert_eq!(client.closed, Some(CloseReason::PeerAborted));
    // The driver sees that it may have left while the disk is at work.
    let mut client = rig.open(&[]);
    client.holds_disk = true;
    client.get(1, "/mid.bin");
    client.session.peer_ended(rig.now(), &rig.cx());
    client.pass(500, 0);
    assert_eq!(client.closed, Some(CloseReason::PeerAborted));
}

#[test]
fn requests_are_turned_away() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.session.turn_away(rig.now(), &rig.cx());
    client.send(&[get(1, "/a.txt"), get(3, "/a.txt")].concat());
    let frames = client.take();
    assert_eq!([1, 3].map(|stream| response(&frames, stream).0), ["503", "503"]);
    assert_eq!(rig.count(Counter::Opens), 0);
    client.get(5, "/a.txt");
    assert_eq!(response(&client.take(), 5), content(10));
    // The one whose operation has been out longest.
    client.holds_disk = true;
    client.get(7, "/b.txt");
    client.get(9, "/mid.bin");
    client.session.turn_away(rig.now(), &rig.cx());
    client.forget();
    client.run();
    assert_eq!(response(&client.take(), 7).0, "503");
    client.finish_disk();
    assert_eq!(response(&client.take(), 9).0, "200");
    assert!(client.session.awaits_request(&get(11, "/")));
    assert!(!client.session.awaits_request(&window(0, 9)));
}

#[test]
fn a_client_with_too_many_connections_is_refused() {
    let rig = rig();
    let mut client = rig.open(&[]);
    client.session.limit();
    client.send(&[get(1, "/a.txt"), get(3, "/a.txt")].concat());
    let frames = client.take();
    assert_eq!([1, 3].map(|stream| response(&frames, stream).0), ["429", "429"]);
    assert!(frames.contains(&Got::GoAway(3, ErrorCode::NO_ERROR)) && client.is_shut);
    client.end();
    assert_eq!(client.closed, Some(CloseReason::Refused));
}

#[test]
fn the_number_of_requests_is_limited() {
    let rig = Rig::new(|site| site.limits.requests_max = 2);
    let mut client = rig.open(&[]);
    let asks = [1, 3, 5].map(|stream| get(stream, "/a.txt"));
    client.send(&asks.concat());
    let frames = client.take();
    assert!(frames.contains(&Got::GoAway(3, ErrorCode::NO_ERROR)));
    assert_eq!(heads(&frames), [1, 3]);
    assert!(client.is_shut);
    client.end();
    assert_eq!(client.closed, Some(CloseReason::Finished));
}

#[test]
fn useless_frames_spend_the_budget() {
    let empty = |stream| data(stream, 0, false);
    let begin = ask_with_content(1, &request("POST", "/a.txt", &[]));
    let stopped = ask_with_content(1, &request("POST", "/a.txt", &[("expect", "100-continue")]));
    let fields = block(&[("x-t", "1")]);
    let rows: [(&str, Vec<u8>, Vec<u8>, usize); 8] = [
        ("PING", vec![], ping(), 200),
        ("SETTINGS", vec![], settings(&[]), 200),
        ("empty DATA", begin.clone(), empty(1), 200),
        ("PRIORITY", vec![], frame(FrameKind::Priority, 0, 1, &[0; 5]), 1_000),
        ("small DATA", begin.clone(), data(1, 1, false), 1_000),
        ("small windows", begin, window(1, 1), 1_000),
        ("windows without a reason", vec![], window(0, 256), 1_000),
        ("over", stopped, frame(FrameKind::Headers, END_HEADERS, 1, &fields), 1_000),
    ];
    for (name, before, bytes, count) in rows {
        let rig = rig();
        let mut client = rig.open(&[]);
        if !before.is_empty() {
            client.send(&before);
        }
        client.send(&bytes.repeat(count));
        assert!(!client.is_shut, "{name}");
        client.take();
        client.send(&bytes);
        let frames = client.take();
        let is_calmed = matches!(frames.last(), Some(Got::GoAway(_, ErrorCode::ENHANCE_YOUR_CALM)));
        assert!(is_calmed && client.is_shut, "{name}: {frames:?}");
        assert_eq!(rig.count(Counter::Http2Calmed), 1);
    }
    // Rapid reset.
    let rig = rig();
    let mut client = rig.open(&[]);
    for at in 0..501 {
        client.send(&[get(2 * at + 1, "/a.txt"), reset(2 * at + 1)].concat());
        assert_eq!(client.is_shut, at == 500, "{at}");
    }
    assert_eq!(rig.count(Counter::RepliesCut), 501);
}

/// A frame of settings changes the windows of all open streams.
#[test]
fn settings_are_charged_for_the_windows_that_they_change() {
    let streams = 100;
    // Settings in their order, and how many of them the budget allows.
    let rows = [(1_000, 0, 18), (1, 0, 2), (1_001, 1, 2), (0, 0, 200)];
    for (first, second, count) in rows {
        let rig = rig();
        let mut client = rig.open(&[(WINDOW, 0)]);
        client.send(&(0..streams).flat_map(|at| get(2 * at + 1, "/b.txt")).collect::<Vec<_>>());
        assert_eq!(heads(&client.take()).len(), 100);
        client.holds_send = true;
        let both = [settings(&[(WINDOW, first)]), settings(&[(WINDOW, second)])].concat();
        client.send(&both.repeat(count / 2));
        assert_eq!(rig.count(Counter::Http2Calmed), 0, "{first}");
        client.send(&both);
        assert_eq!(rig.count(Counter::Http2Calmed), 1, "{first}");
    }
}

/// Each byte would be a read of its file, and a frame (CVE-2019-9511).
#[test]
fn windows_of_a_few_bytes_spend_the_budget() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 0)]);
    client.get(1, "/big.bin");
    (0..100).for_each(|_| client.send(&window(1, 1)));
    assert!(!client.is_shut);
    assert_eq!(bodies(&client.take()), [1; 100]);
    client.send(&window(1, 1));
    check_end(&mut client, 1, ErrorCode::ENHANCE_YOUR_CALM, CloseReason::BadRequest);
    // A client that permits each frame as it is: the last one before a window is shut is short.
    let rig = Rig::new(|_| {});
    let mut client = rig.open(&[]);
    client.get(1, "/big.bin");
    let mut permitted = 65_535;
    for _ in 0..100 {
        let lengths = client.take().into_iter().filter_map(|got| match got {
            Got::Data { bytes, ends: false, .. } => u32::try_from(bytes.len()).ok(),
            _ => None,
        });
        for bytes in lengths {
            client.send(&[window(0, bytes), window(1, bytes)].concat());
            permitted += bytes;
        }
    }
    assert!(permitted > 200_000 && !client.is_shut);
    // A window for the whole rest is not short, whatever its length.
    let asks = (0..200).map(|at| 2 * at + 3);
    client.send(&settings(&[(WINDOW, 0)]));
    for stream in asks {
        client.send(&[get(stream, "/b.txt"), window(stream, 20)].concat());
        assert_eq!(response(&client.take(), stream), content(20));
    }
}

/// The window of the connection lets any body continue.
#[test]
fn windows_of_a_few_bytes_for_all_streams_spend_the_budget() {
    let rig = rig();
    let mut client = rig.open(&[(WINDOW, 1 << 20)]);
    client.get(1, "/big.bin");
    assert!(bodies(&client.take()).len() >= 4, "the connection's window is used up");
    let mut permits = 0;
    while !client.is_shut && permits < 1_000 {
        client.send(&window(0, 1));
        permits += 1;
    }
    // A few more than 100 are free, after frames that were long.
    assert!((100..=110).contains(&permits), "{permits}");
    check_end(&mut client, 1, ErrorCode::ENHANCE_YOUR_CALM, CloseReason::BadRequest);
    // A client that permits each frame as it is, for the connection alone.
    let rig = Rig::new(|_| {});
    let mut client = rig.open(&[(WINDOW, 1 << 20)]);
    client.get(1, "/big.bin");
    let mut received = Vec::new();
    loop {
        let frames = client.take();
        if frames.is_empty() {
            break;
        }
        for got in frames {
            if let Got::Data { bytes, .. } = got {
                let permit = u32::try_from(bytes.len()).expect("a frame is short");
                client.send(&window(0, permit));
                received.extend(bytes);
            }
        }
    }
    assert!(received == content(200_000).1 && !client.is_shut);
    assert_eq!(rig.count(Counter::Http2Glitches), 0);
}

#[test]
fn requests_over_a_limit_that_is_never_acknowledged_are_bounded() {
    let rig = Rig::new(|site| site.http2.streams_max = 1);
    let mut client = rig.connect();
    client.send(&[&PREFACE[..], &settings(&[])].concat());
    client.holds_disk = true;
    let asks = |streams: Range<u32>| -> Vec<u8> {
        streams.flat_map(|at| get(2 * at + 1, "/a.txt")).collect()
    };
    client.send(&asks(0..1_001));
    assert!(!client.is_shut);
    let frames = client.take();
    assert_eq!(frames.last(), Some(&Got::Reset(2_001, ErrorCode::REFUSED_STREAM)));
    client.send(&asks(1_001..1_002));
    check_end(&mut client, 2_003, ErrorCode::ENHANCE_YOUR_CALM, CloseReason::BadRequest);
    assert_eq!(rig.count(Counter::StreamsRefused), 1_001);
}

/// A client permits as much as it was sent, in as many frames.
#[test]
fn windows_after_a_response_cost_nothing() {
    let rig = rig();
    let mut client = rig.open(&[]);
    for at in 0..1_500 {
        let stream = 2 * at + 1;
        client.get(stream, "/mid.bin");
        assert_eq!(response(&client.take(), stream), content(40_000));
        client.send(&[window(0, 40_000), window(stream, 40_000)].concat());
        assert!(!client.is_shut, "{at}");
    }
}

/// The response has been sent: the reset saves the client's network, and costs the server nothing.
#[test]
fn resets_that_come_late_cost_little() {
    let rig = rig();
    let mut client = rig.open(&[]);
    for at in 0..900 {
        client.get(2 * at + 1, "/a.txt");
        client.take();
        client.send(&reset(2 * at + 1));
        assert!(!client.is_shut, "{at}");
    }
}
