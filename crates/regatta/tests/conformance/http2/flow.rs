//! Streams of one connection: many at once, windows, resets, priorities, and odd but legal frames.

use super::{
    ask, bodies_are, connect, connect_with, get, get_sizes, manual, served, served_with, total,
    whole,
};
use crate::prelude::*;
use crate::slow_readers::reserved_descriptors;
use regatta_testkit::http2::{
    END_HEADERS, END_STREAM, FRAME_BYTES, Http2Client, Http2Settings, PADDED, StreamOutcome,
    WINDOW, WINDOW_MAX, WITH_PRIORITY, code, kind, setting,
};

/// Bytes that a window permits at first.
const FIRST: usize = WINDOW as usize;

pub(crate) fn a_hundred_at_once(variant: &Variant) {
    let (_server, mut client) = served(variant);
    // Some of a window or less, some of more.
    let sizes = SIZES.iter().take(8).cycle().take(100);
    let streams: Vec<(u32, usize)> =
        sizes.map(|size| (client.get(&format!("/size-{size}.bin")), *size)).collect();
    for (id, size) in streams.into_iter().rev() {
        whole(&mut client, id).expect(200).has(sized(size));
    }
}

pub(crate) fn two_hundred_in_sequence(variant: &Variant) {
    let (_server, mut client) = served(variant);
    for _ in 0..200 {
        assert_eq!(get(&mut client, "/small.txt").expect(200).body, b"small\n");
    }
}

pub(crate) fn one_stream_too_many(variant: &Variant) {
    let (_server, mut client) = served_with(variant, manual(0));
    client.sync();
    let most = client.server_setting(setting::MAX_CONCURRENT_STREAMS).expect("a limit");
    assert!((1..=1000).contains(&most), "{most}");
    let ids: Vec<u32> = (0..most).map(|_| client.get("/small.txt")).collect();
    let extra = client.get("/small.txt");
    // RFC 9113 §5.1.2.
    let refused = [code::REFUSED_STREAM, code::PROTOCOL_ERROR].map(StreamOutcome::Reset);
    let outcome = client.outcome(extra);
    assert!(refused.contains(&outcome), "{outcome:?}");
    for id in ids {
        client.open_window(id, 6);
        assert_eq!(whole(&mut client, id).expect(200).body, b"small\n");
    }
    let id = client.get("/small.txt");
    client.open_window(id, 6);
    whole(&mut client, id).expect(200);
}

pub(crate) fn steps_of_one_byte(variant: &Variant) {
    let (_server, mut client) = served_with(variant, manual(0));
    let id = client.get("/size-4096.bin");
    client.read_until(|client| client.status(id) == Some(200));
    for at in 0..20 {
        client.sync();
        assert_eq!(client.received(id), at);
        client.open_window(id, 1);
        client.read_until(|client| client.received(id) > at);
    }
    client.open_window(id, 4096 - 20);
    assert!(whole(&mut client, id).body == sized(4096));
}

pub(crate) fn others_pass_a_stream_without_window(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let held = client.get("/size-5242880.bin");
    client.hold(held);
    client.read_until(|client| client.received(held) == FIRST);
    get_sizes(&mut client);
    assert_eq!(client.received(held), FIRST);
    client.release(held, WINDOW);
    assert!(whole(&mut client, held).expect(200).body == sized(5 << 20));
}

/// Each stream is of another file. Those of two connections have more files than a worker can open.
/// Parts of long files are enough: nothing of them is kept in memory, and each takes several reads.
pub(crate) fn streams_without_windows_leave_descriptors(variant: &Variant) {
    const STREAMS: usize = 100;
    const PART: u32 = 200_000;
    const FIELDS: [(&str, &str); 1] = [("range", "bytes=0-199999")];
    let site = Site::new();
    for number in 0..3 * STREAMS {
        site.resize(&format!("{number}.bin"), 2 << 20);
    }
    let files = format!("ulimit -n {}", reserved_descriptors(variant) + 96);
    let launch = Launch::new(variant, &site.root()).after(files);
    let launch = launch.sets(&["limits.connections_max=16", "cache.descriptors_max=0"]);
    // The stalled connections stay open for as long as the test takes.
    let launch = launch.sets(&["accept.when_full=pause", "limits.send_window_ms=60000"]);
    let server = launch.start();
    let mut stalled: Vec<_> = (0..3).map(|_| connect_with(&server, manual(0))).collect();
    let (mut replaced, mut last) = (0, 0);
    for (client, first) in stalled.iter_mut().zip((0..).step_by(STREAMS)) {
        let name = |number| format!("/{number}.bin");
        let numbers = first..first + STREAMS;
        let ids: Vec<u32> = numbers.map(|at| client.ask("GET", &name(at), &FIELDS)).collect();
        let have_begun = client.read_until(|client| {
            let mut statuses = ids.iter().map(|id| client.status(*id));
            statuses.all(|status| status == Some(206))
        });
        assert!(have_begun, "of the streams from {first} on");
        (replaced, last) = (ids[STREAMS - 2], ids[STREAMS - 1]);
        site.put("new.tmp", vec![1; PART as usize]);
        let place = site.path(&format!("{}.bin", first + STREAMS - 2));
        fs::rename(site.path("new.tmp"), place).expect("a rename");
    }
    for number in 0..3 {
        let mut good = connect(&server);
        let answer = ask(&mut good, "GET", &format!("/{number}.bin"), &FIELDS).expect(206);
        assert_eq!(answer.body.len(), PART as usize);
    }
    for client in &mut stalled {
        client.open_window(0, 2 * PART);
        for id in [replaced, last] {
            client.open_window(id, PART);
        }
        let is_old = |body: &[u8]| body.len() == PART as usize && body.iter().all(|it| *it == 0);
        assert!(is_old(&whole(client, last).expect(206).body));
        // The file may have stayed open. If not, the new one does not continue the old one.
        match client.outcome(replaced) {
            StreamOutcome::Answered(answer) => assert!(is_old(&answer.body)),
            outcome => assert_eq!(outcome, StreamOutcome::Reset(code::INTERNAL_ERROR)),
        }
    }
    // It copies whole files into its cache: none stays open.
    let copies = variant.architecture == "knot-c";
    assert_eq!(server.count("http2_files_closed") == 0, copies);
}

pub(crate) fn one_window_for_all(variant: &Variant) {
    let (_server, mut client) = served_with(variant, manual(1 << 20));
    let ids: Vec<u32> = (0..3).map(|_| client.get("/size-65537.bin")).collect();
    client.read_until(|client| total(client, &ids) == FIRST);
    client.sync();
    client.open_window(0, 100);
    client.read_until(|client| total(client, &ids) == FIRST + 100);
    client.sync();
    client.open_window(0, 1 << 20);
    bodies_are(&mut client, &ids, sized(65_537));
}

/// RFC 9113 §6.9.2: a smaller setting takes from the windows of open streams.
pub(crate) fn a_window_below_zero(variant: &Variant) {
    let settings = Http2Settings { connection_window: 1 << 24, ..manual(WINDOW) };
    let (_server, mut client) = served_with(variant, settings);
    let id = client.get("/size-1048577.bin");
    client.read_until(|client| client.received(id) == FIRST);
    client.change_settings(&[(setting::INITIAL_WINDOW_SIZE, 1000)]);
    client.sync();
    // From 64,535 below 0 to 0.
    client.open_window(id, WINDOW - 1000);
    client.sync();
    assert_eq!(client.received(id), FIRST);
    client.open_window(id, 10);
    client.read_until(|client| client.received(id) >= FIRST + 10);
    client.sync();
    assert_eq!(client.received(id), FIRST + 10);
    client.change_settings(&[(setting::INITIAL_WINDOW_SIZE, 2000)]);
    client.read_until(|client| client.received(id) >= FIRST + 1010);
    let other = client.get("/size-4096.bin");
    client.read_until(|client| client.received(other) >= 2000);
    client.sync();
    assert_eq!((client.received(id), client.received(other)), (FIRST + 1010, 2000));
    client.open_window(other, 2096);
    assert!(whole(&mut client, other).expect(200).body == sized(4096));
    client.open_window(id, 2 << 20);
    assert!(whole(&mut client, id).expect(200).body == sized((1 << 20) + 1));
}

/// RFC 9113 §6.9.1: of a stream it is an error of the stream.
pub(crate) fn windows_that_are_too_large(variant: &Variant) {
    let (server, mut client) = served(variant);
    let id = client.get("/sparse.bin");
    client.hold(id);
    // The first may fit, if the window is used up.
    client.open_window(id, WINDOW_MAX);
    client.open_window(id, WINDOW_MAX);
    assert_eq!(client.outcome(id), StreamOutcome::Reset(code::FLOW_CONTROL_ERROR));
    get(&mut client, "/small.txt").expect(200);
    client.open_window(0, WINDOW_MAX);
    client.open_window(0, WINDOW_MAX);
    assert_eq!(client.read_end().goaway, Some(code::FLOW_CONTROL_ERROR));
    // The setting changes the window of an open stream.
    let mut client = connect_with(&server, manual(0));
    let id = client.get("/sparse.bin");
    client.open_window(id, WINDOW_MAX);
    client.sync();
    client.change_settings(&[(setting::INITIAL_WINDOW_SIZE, WINDOW_MAX)]);
    assert_eq!(client.read_end().goaway, Some(code::FLOW_CONTROL_ERROR));
}

pub(crate) fn resets_while_sent(variant: &Variant) {
    let (_server, mut client) = served(variant);
    for turn in 0..20 {
        let id = client.get("/sparse.bin");
        client.read_until(|client| client.received(id) > turn * 10_000);
        client.reset(id, code::CANCEL);
    }
    get_sizes(&mut client);
}

/// The tickets of the disk are used again while operations of reset streams are out.
pub(crate) fn resets_while_the_disk_is_asked(variant: &Variant) {
    for plan in [
        "seed=5,slow_open_per_mille=1000,slow_open_us=20000",
        "seed=6,slow_read_per_mille=1000,slow_read_us=2000",
    ] {
        let variant = Variant { faults: Some(plan), ..*variant };
        // Most content is read for each response.
        let server = start_with(&variant, &["cache.body_bytes_max=4096"]);
        let mut client = connect(&server);
        for turn in 0..3 {
            let mut kept = Vec::new();
            for (at, size) in SIZES.into_iter().enumerate() {
                let id = client.get(&format!("/size-{size}.bin"));
                match (at + turn) % 2 {
                    0 => client.reset(id, code::CANCEL),
                    _ => kept.push((id, size)),
                }
            }
            for (id, size) in kept {
                assert!(whole(&mut client, id).expect(200).body == sized(size), "{size} bytes");
            }
        }
        get_sizes(&mut client);
    }
}

/// Bytes of others that may be composed before a stream that is more urgent.
const COMPOSED: usize = 128 << 10;

/// Streams compete for the connection's window, which the test opens.
pub(crate) fn urgent_streams_come_first(variant: &Variant) {
    let (_server, mut client) = served_with(variant, manual(WINDOW_MAX >> 1));
    get(&mut client, "/size-4096.bin").expect(200);
    client.open_window(0, 4096);
    let others: Vec<u32> =
        (0..10).map(|_| client.ask("GET", "/size-1048577.bin", &[("priority", "u=5")])).collect();
    client.read_until(|client| total(client, &others) == FIRST);
    let urgent = client.ask("GET", "/size-4096.bin", &[("priority", "u=1")]);
    passes(&mut client, urgent, &others);
    let changed = client.ask("GET", "/size-4096.bin", &[("priority", "u=7")]);
    client.prioritize(changed, "u=0");
    passes(&mut client, changed, &others);
    client.open_window(0, 16 << 20);
    bodies_are(&mut client, &others, sized((1 << 20) + 1));
}

/// Fails unless a stream of 4,096 bytes passes the others when the connection's window opens. The
/// window is used up before and after.
#[track_caller]
fn passes(client: &mut Http2Client, urgent: u32, others: &[u32]) {
    let before = total(client, others);
    client.read_until(|client| client.status(urgent) == Some(200));
    client.sync();
    assert_eq!(client.received(urgent), 0, "no window is open");
    let bytes = 512 << 10;
    client.open_window(0, bytes);
    assert!(whole(client, urgent).body == sized(4096));
    let passed = total(client, others) - before;
    assert!(passed <= COMPOSED, "{passed} bytes of others came first");
    let bytes = usize::try_from(bytes).expect("32 bits") - 4096;
    client.read_until(|client| total(client, others) == before + bytes);
}

/// Frames of RFC 7540, and priorities of streams that are over or not open yet.
pub(crate) fn priorities_that_mean_nothing(variant: &Variant) {
    let (_server, mut client) = served(variant);
    client.send_frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 0, 15]);
    client.send_frame(kind::PRIORITY, 0, 101, &[0x80, 0, 0, 3, 200]);
    client.prioritize(1, "u=0");
    client.prioritize(1, "i, u=7");
    let long = "a,".repeat(500);
    for priority in ["", "u=8", "x=1", "i=?0, u=3", long.as_str()] {
        client.prioritize(1, priority);
        ask(&mut client, "GET", "/small.txt", &[]).expect(200);
    }
    client.prioritize(1, "u=2");
    get_sizes(&mut client);
}

/// HEADERS and at most 8 CONTINUATION frames, some empty.
pub(crate) fn fields_in_pieces(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let head = client.request("GET", "/small.txt", &[]);
    for piece in [12, 20, 50] {
        let id = client.open_in_pieces(&head, true, piece);
        whole(&mut client, id).expect(200);
    }
    let block = Http2Client::encode(&head);
    let id = client.expect_stream(true, false);
    client.send_frame(kind::HEADERS, END_STREAM, id, &[]);
    client.send_frame(kind::CONTINUATION, 0, id, &block);
    client.send_frame(kind::CONTINUATION, END_HEADERS, id, &[]);
    whole(&mut client, id).expect(200);
}

/// Field block whose fields enter the table of the server's decoder (RFC 7541 §6.2.1).
fn kept(fields: &[(&str, &str)]) -> Vec<u8> {
    let literal = |field: &(&str, &str)| {
        let mut literal = Http2Client::encode(&[*field]);
        literal[0] = 0x40;
        literal
    };
    fields.iter().flat_map(literal).collect()
}

/// Requests that are malformed or reset change the table, too (RFC 9113 §4.3).
pub(crate) fn fields_of_earlier_requests(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let first = kept(&client.request("GET", "/small.txt", &[]));
    // The last field has index 62, and one more after each field that comes later.
    let again = |later: u8| [65, 64, 63, 62].map(|index| 0x80 | (index + later)).to_vec();
    let malformed = [again(0), kept(&[("connection", "close")])].concat();
    let reset = [again(1), kept(&[("x-reset", "y")])].concat();
    let rows = [
        (first, Some(200)),
        (again(0), Some(200)),
        (malformed, None),
        (again(1), Some(200)),
        (reset, None),
        (again(2), Some(200)),
    ];
    for (at, (block, status)) in rows.into_iter().enumerate() {
        let id = client.expect_stream(true, false);
        client.send_block(id, &block, true, FRAME_BYTES);
        match status {
            Some(status) => drop(whole(&mut client, id).expect(status)),
            None => client.reset(id, code::CANCEL),
        }
        assert!(client.goaway().is_none(), "request {at}: {}", client.frames_before());
    }
    // The table becomes empty, so index 62 is none.
    let id = client.expect_stream(true, false);
    let head = client.request("GET", "/small.txt", &[]);
    let emptied = [&[0x20][..], &Http2Client::encode(&head)].concat();
    client.send_block(id, &emptied, true, FRAME_BYTES);
    whole(&mut client, id).expect(200);
    let id = client.expect_stream(true, false);
    client.send_block(id, &again(2), true, FRAME_BYTES);
    assert_eq!(client.read_end().goaway, Some(code::COMPRESSION_ERROR));
}

/// Padding counts as content in windows (RFC 9113 §6.1).
pub(crate) fn padding(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let block = Http2Client::encode(&client.request("GET", "/small.txt", &[]));
    // Padding of 3 bytes, and a priority.
    let payload = [&[3, 0, 0, 0, 0, 15][..], &block, &[0; 3]].concat();
    let id = client.expect_stream(true, false);
    let flags = END_HEADERS | END_STREAM | PADDED | WITH_PRIORITY;
    client.send_frame(kind::HEADERS, flags, id, &payload);
    whole(&mut client, id).expect(200);
    // As much padding as the connection's window has several times.
    for _ in 0..12 {
        let id = client.open(&client.request("GET", "/small.txt", &[]), false);
        let padded = [&[255][..], b"x", &[0; 255]].concat();
        for _ in 0..50 {
            client.send_frame(kind::DATA, PADDED, id, &padded);
        }
        client.send_data(id, b"", true);
        whole(&mut client, id).expect_one_of(&[200, 413]);
    }
}

pub(crate) fn trailers(variant: &Variant) {
    let (_server, mut client) = served(variant);
    let pseudo = [(":path", "/a.txt")];
    for (fields, is_allowed) in [(&[("x-trailer", "y")], true), (&pseudo, false)] {
        let id = client.open(&client.request("GET", "/small.txt", &[]), false);
        client.send_content(id, &pattern(100, 1), false);
        client.send_block(id, &Http2Client::encode(fields), true, FRAME_BYTES);
        match client.outcome(id) {
            StreamOutcome::Answered(answer) => assert_eq!(answer.body, b"small\n"),
            other => {
                assert!(!is_allowed, "{other:?}");
                assert_eq!(other, StreamOutcome::Reset(code::PROTOCOL_ERROR));
            }
        }
        get(&mut client, "/small.txt").expect(200);
    }
}

pub(crate) fn settings_and_pings(variant: &Variant) {
    let (_server, mut client) = served(variant);
    // An unknown setting, and every table.
    for bytes in [0, 4096, 65_536, 0] {
        client.change_settings(&[(setting::HEADER_TABLE_SIZE, bytes), (0x7777, bytes)]);
        client.sync();
        get(&mut client, "/small.txt").expect(200);
    }
    client.change_settings(&[(setting::MAX_FRAME_SIZE, (1 << 24) - 1)]);
    client.change_settings(&[(setting::MAX_HEADER_LIST_SIZE, 1 << 20)]);
    client.change_settings(&[]);
    for _ in 0..5 {
        assert!(client.sync(), "the connection has ended");
    }
    get_sizes(&mut client);
}
