//! Beginning of a connection in the clear: HTTP/2 by prior knowledge, or HTTP/1 (RFC 9113 §3.3).
use crate::rig::{Client, FakeFile, Rig};
use regatta_op::{Now, Tick};
use regatta_origin::{
    Admission, Http2Rules, Link, Links, ListenerClass, Peer, Protocol as _, Site,
};

/// The preface, and a frame with no settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// A request for `/ten.txt` of host `a`.
const GET: &[u8] = b"\0\0\x0f\x01\x05\0\0\0\x01\x82\x86\x04\x08/ten.txt\x01\x01a";
const TEN: &[u8] = b"0123456789";
/// Types of frames.
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Has all clients speak through a proxy.
struct Proxied;

impl Links<FakeFile> for Proxied {
    fn greets(&self, _: Peer) -> Option<bool> {
        Some(true)
    }
}

/// Each client has too many connections.
struct Crowded;

impl Links<FakeFile> for Crowded {
    fn opened(&self, _: Peer, _: i32, _: Now) -> Admission {
        Admission::Limited
    }
}

/// Types of the frames in these bytes.
fn frames(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        kinds.push(head[3]);
        bytes = rest.get(usize::try_from(len).unwrap()..).expect("a whole frame");
    }
    kinds
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Checks that a connection is one of HTTP/2, and that its request has been answered.
#[track_caller]
fn is_answered(client: &Client<'_>, split: usize) {
    assert!(matches!(client.conn, Link::Http2(_)), "after {split} bytes");
    assert_eq!(frames(&client.output)[0], SETTINGS, "after {split} bytes");
    assert!(has(&client.output, TEN), "after {split} bytes");
}

#[test]
fn a_preface_begins_http2_however_its_bytes_come() {
    let rig = Rig::new(Site::default());
    let bytes = [PREFACE, GET].concat();
    is_answered(&rig.connect_with(&bytes), bytes.len());
    for split in 1..bytes.len() {
        let mut client = rig.connect_with(&bytes[..split]);
        client.feed(&bytes[split..]);
        is_answered(&client, split);
    }
    let mut client = rig.connect();
    bytes.iter().for_each(|byte| client.feed(std::slice::from_ref(byte)));
    is_answered(&client, 1);
}

#[test]
fn a_preface_may_follow_the_header_of_a_proxy() {
    let mut rig = Rig::new(Site::default());
    rig.links = &Proxied;
    let bytes = [&b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n"[..], PREFACE, GET].concat();
    is_answered(&rig.connect_with(&bytes), bytes.len());
    for split in 1..bytes.len() {
        let mut client = rig.connect_with(&bytes[..split]);
        client.feed(&bytes[split..]);
        is_answered(&client, split);
    }
}

/// Only the first bytes of a connection in the clear are a preface, and only if it is allowed.
#[test]
fn other_requests_of_version_2_are_refused() {
    let (first, other) = (ListenerClass::CLEAR, ListenerClass(1));
    let get: &[u8] = b"GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n";
    let rows: [(bool, ListenerClass, Vec<u8>, &[u16]); 6] = [
        (false, first, PREFACE.to_vec(), &[505]),
        (true, other, PREFACE.to_vec(), &[505]),
        (true, first, [get, PREFACE].concat(), &[200, 505]),
        (true, first, [&b"\r\n"[..], PREFACE].concat(), &[505]),
        (true, first, b"PRI * HTTP/2.0\r\nHost: a\r\n\r\n".to_vec(), &[505]),
        (true, first, b"GET * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[505]),
    ];
    for (clear, class, bytes, statuses) in rows {
        let http2 = Http2Rules { clear, ..Http2Rules::default() };
        let rig = Rig::new(Site { http2, ..Site::default() });
        rig.class.set(class);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for split in 1..=bytes.len() {
            let mut client = rig.connect_with(&bytes[..split]);
            if !client.shut && split < bytes.len() {
                client.feed(&bytes[split..]);
            }
            assert!(matches!(client.conn, Link::Http1(_)), "{text:?}, {split}");
            assert_eq!(client.statuses(), statuses, "{text:?}, {split}");
        }
    }
}

/// A preface that does not end is bounded in time, in each protocol.
#[test]
fn a_preface_has_a_deadline() {
    let rig = Rig::new(Site::default());
    let mut client = rig.connect_with(b"PRI * HTTP/2.0\r\n");
    assert!(matches!(client.conn, Link::Http1(_)));
    assert!(client.expire(rig.site.deadlines.head_ms_max, 0));
    assert_eq!(client.statuses(), [408]);
    let mut client = rig.connect_with(b"PRI * HTTP/2.0\r\n\r\n");
    assert!(matches!(client.conn, Link::Http2(_)));
    for _ in 0..8 {
        let deadline = client.conn.deadline();
        if client.closed.is_none() {
            assert_ne!(deadline, Tick::NEVER);
            client.expire(deadline.0.saturating_sub(rig.tick.get()), 0);
        }
    }
    assert!(client.closed.is_some());
}

#[test]
fn decisions_before_a_preface_concern_its_session() {
    let (rig, bytes) = (Rig::new(Site::default()), [PREFACE, GET].concat());
    let mut drained = rig.connect();
    drained.drain();
    drained.feed(&bytes);
    assert!(frames(&drained.output).contains(&GOAWAY));
    let mut refused = rig.connect();
    refused.turn_away();
    refused.feed(&bytes);
    assert!(has(&refused.output, b"503") && !has(&refused.output, TEN));
    let mut rig = Rig::new(Site::default());
    rig.links = &Crowded;
    let mut limited = rig.connect();
    assert!(limited.conn.admit(Peer::default(), 3, rig.now(), &rig.cx()));
    limited.feed(&bytes);
    assert!(has(&limited.output, b"429") && !has(&limited.output, TEN));
}
