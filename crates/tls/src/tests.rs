//! The seal against rustls's client, over memory.
mod bytes;
mod floods;
mod link;
mod peers;

use crate::{
    HANDSHAKE_BYTES_MAX, ProducesTickets, TicketWords, Ticketer, TlsVersion, crypto_provider,
    fresh_ticket_key,
};
use peers::{Identity, Options, Pair, receive, send};
use regatta_origin::{Progress, RECORD_BYTES_MAX, RECORD_PLAIN_BYTES_MAX, Seal, SealFault};
use rustls::{
    AlertDescription, Error, NamedGroup,
    version::{TLS12, TLS13},
};
use std::sync::{Arc, atomic::AtomicU64};

#[test]
fn requests_and_answers_pass() {
    for (version, number) in [(&TLS12, 0x0303), (&TLS13, 0x0304)] {
        let options = Options { versions: vec![version], ..Options::default() };
        let mut pair = Pair::new(&options);
        assert_eq!(pair.server.handshake(), None);
        pair.shake_hands().unwrap();
        let handshake = pair.server.handshake().unwrap();
        assert_eq!((handshake.version, handshake.resumed), (number, false));
        assert!(handshake.nanos > 0 && handshake.suite.starts_with("TLS_"), "{handshake:?}");
        assert_eq!(pair.server.server_name(), Some(&b"localhost"[..]));
        assert_eq!(pair.server.client_subject(), None);
        assert_eq!(pair.server.agreed(), b"http/1.1");
        for answer in [&b"HTTP/1.1 404 Not Found\r\n\r\n"[..], &[7; RECORD_PLAIN_BYTES_MAX]] {
            assert_eq!(
                pair.ask(b"GET /none HTTP/1.1\r\n\r\n").unwrap(),
                b"GET /none HTTP/1.1\r\n\r\n"
            );
            let mut wire = Vec::new();
            pair.server.seal(answer, &mut wire).unwrap();
            assert!(wire.len() > answer.len() && wire.len() <= RECORD_BYTES_MAX);
            assert_eq!(receive(&mut pair.client, &wire).unwrap(), answer);
        }
        assert_eq!(pair.server.pending_bytes(), 0);
    }
}

#[test]
fn key_exchange_resists_quantum_computers_first() {
    let groups = crypto_provider().kx_groups;
    assert_eq!(groups[0].name(), NamedGroup::X25519MLKEM768);
    assert!(groups.len() > 1);
    let mut pair = Pair::new(&Options::default());
    pair.shake_hands().unwrap();
    let group = pair.client.negotiated_key_exchange_group().unwrap();
    assert_eq!(group.name(), NamedGroup::X25519MLKEM768);
}

#[test]
fn answers_follow_in_the_buffer() {
    let mut pair = Pair::new(&Options::default());
    let mut reply = b"before".to_vec();
    let mut wire = send(&mut pair.client);
    let used = pair.server.open(&mut wire, &mut Vec::new(), &mut reply).unwrap();
    assert_eq!((used, &reply[..6]), (wire.len(), &b"before"[..]));
    receive(&mut pair.client, &reply[6..]).unwrap();
    pair.shake_hands().unwrap();
    let mut wire = b"before".to_vec();
    pair.server.seal(b"text", &mut wire).unwrap();
    assert_eq!(receive(&mut pair.client, &wire[6..]).unwrap(), b"text");
}

#[test]
fn tickets_alone_may_wait() {
    let tickets = Some(rustls::crypto::aws_lc_rs::Ticketer::new().unwrap());
    for (version, waits) in [(&TLS13, true), (&TLS12, false)] {
        let tickets = tickets.clone();
        let options = Options { tickets, versions: vec![version], ..Options::default() };
        let mut pair = Pair::new(&options);
        for resumed in [false, true] {
            let replies = pair.shake_hands().unwrap();
            assert!(replies.iter().any(|(bytes, _)| *bytes > 0));
            let may_wait: Vec<bool> =
                replies.iter().filter(|(bytes, _)| *bytes > 0).map(|(_, wait)| *wait).collect();
            let (last, flights) = may_wait.split_last().unwrap();
            assert!(flights.iter().all(|wait| !wait), "a flight does not wait: {may_wait:?}");
            assert_eq!(*last, waits, "{version:?}, resumed: {resumed}");
            assert_eq!(pair.server.handshake().unwrap().resumed, resumed);
            assert_eq!(pair.ask(b"text").unwrap(), b"text");
            assert!(!pair.server.reply_may_wait());
            pair = pair.again();
        }
    }
}

/// Each server has a view of its own on the keys, as each worker has.
#[test]
fn another_server_with_the_same_keys_resumes() {
    let words: Box<[AtomicU64]> = (0..TicketWords::WORDS).map(|_| AtomicU64::new(0)).collect();
    let words: &'static [AtomicU64] = Box::leak(words);
    let keys = TicketWords::begin(words).unwrap();
    let rotate = || keys.rotate(fresh_ticket_key().unwrap());
    (0..2).for_each(|_| rotate());
    for version in [&TLS12, &TLS13] {
        let options = |class| {
            let ticketer = Ticketer::new(TicketWords::new(words).unwrap(), class, 43_200);
            let tickets: Arc<dyn ProducesTickets> = Arc::new(ticketer);
            Options { tickets: Some(tickets), versions: vec![version], ..Options::default() }
        };
        let mut pair = Pair::new(&options(1));
        pair.shake_hands().unwrap();
        assert!(!pair.server.handshake().unwrap().resumed);
        // Rotations before another handshake, its class, and whether it is resumed.
        for (rotations, class, resumed) in
            [(0, 1, true), (1, 1, true), (3, 1, false), (0, 1, true), (0, 2, false), (0, 2, true)]
        {
            (0..rotations).for_each(|_| rotate());
            pair = pair.at_another(&options(class));
            pair.shake_hands().unwrap();
            let handshake = pair.server.handshake().unwrap();
            assert_eq!(handshake.resumed, resumed, "{version:?}: {rotations} rotations, {class}");
            assert_eq!(pair.ask(b"text").unwrap(), b"text");
        }
    }
}

#[test]
fn chains_of_clients_arrive_in_pieces() {
    // Bytes in a record of the client; none is as many as fit.
    for fragment in [None, Some(4_000), Some(200)] {
        let options = Options { clients: true, fragment, ..Options::default() };
        let mut pair = Pair::new(&options);
        pair.shake_hands().unwrap();
        assert_eq!(pair.ask(b"text").unwrap(), b"text");
        assert_eq!(pair.server.pending_bytes(), 0);
        let subject = pair.server.client_subject().unwrap();
        assert_eq!(subject, b"CN=rcgen self signed cert");
    }
}

#[test]
fn a_long_chain_has_no_room() {
    let options = Options {
        clients: true,
        handshake_bytes_max: Some(HANDSHAKE_BYTES_MAX),
        ..Options::default()
    };
    let mut pair = Pair::new(&options);
    assert_eq!(pair.shake_hands().unwrap_err(), SealFault::Record);
    assert!(pair.server.pending_bytes() <= RECORD_BYTES_MAX.max(HANDSHAKE_BYTES_MAX));
    assert!(matches!(pair.client_fault, Some(Error::AlertReceived(_))), "{:?}", pair.client_fault);
}

#[test]
fn a_client_without_a_certificate_is_refused() {
    let options = Options { clients: true, client_is_known: false, ..Options::default() };
    let mut pair = Pair::new(&options);
    assert_eq!(pair.shake_hands().unwrap_err(), SealFault::Certificate);
}

#[test]
fn an_alert_of_the_client_is_a_fault() {
    let options = Options { trusts: Some(Identity::new()), ..Options::default() };
    let mut pair = Pair::new(&options);
    assert_eq!(pair.shake_hands().unwrap_err(), SealFault::Alert);
    assert!(matches!(pair.client_fault, Some(Error::InvalidCertificate(_))));
}

#[test]
fn peers_need_a_protocol_in_common() {
    for (http2, protocol) in [(false, &["h2"]), (true, &["h3"])] {
        let options = Options { http2, protocols: protocol, ..Options::default() };
        let mut pair = Pair::new(&options);
        assert_eq!(pair.shake_hands().unwrap_err(), SealFault::NothingInCommon);
        let alert = Error::AlertReceived(AlertDescription::NoApplicationProtocol);
        assert_eq!(pair.client_fault, Some(alert));
    }
}

/// The server's order decides. A client with a certificate, and one that resumes a session, choose
/// as others do.
#[test]
fn peers_agree_on_http2_if_both_speak_it() {
    const CASES: [(bool, &[&str], &[u8]); 7] = [
        (true, &["http/1.1", "h2"], b"h2"),
        (true, &["h2"], b"h2"),
        (true, &["http/1.1"], b"http/1.1"),
        (true, &["h3", "http/1.1"], b"http/1.1"),
        (true, &[], b""),
        (false, &["h2", "http/1.1"], b"http/1.1"),
        (false, &[], b""),
    ];
    let tickets = Some(rustls::crypto::aws_lc_rs::Ticketer::new().unwrap());
    for (http2, protocols, agreed) in CASES {
        for (version, clients) in [(&TLS12, false), (&TLS13, false), (&TLS12, true), (&TLS13, true)]
        {
            let (tickets, versions) = (tickets.clone(), vec![version]);
            let options =
                Options { http2, protocols, clients, tickets, versions, ..Options::default() };
            let mut pair = Pair::new(&options);
            for again in [false, true] {
                pair.shake_hands().unwrap();
                assert_eq!(pair.server.agreed(), agreed, "{http2} {protocols:?}");
                assert_eq!(pair.client.alpn_protocol().unwrap_or_default(), agreed);
                assert_eq!(pair.server.handshake().unwrap().resumed, again && !clients);
                assert_eq!(pair.ask(b"text").unwrap(), b"text");
                pair = pair.again();
            }
        }
    }
}

#[test]
fn old_versions_are_refused_where_the_server_has_none() {
    let options =
        Options { versions: vec![&TLS12], version_min: TlsVersion::Tls13, ..Options::default() };
    let mut pair = Pair::new(&options);
    assert_eq!(pair.shake_hands().unwrap_err(), SealFault::Version);
    let alert = Error::AlertReceived(AlertDescription::ProtocolVersion);
    assert_eq!(pair.client_fault, Some(alert));
}

#[test]
fn keys_change() {
    let mut pair = Pair::new(&Options::default());
    pair.shake_hands().unwrap();
    for _ in 0..3 {
        pair.client.refresh_traffic_keys().unwrap();
        assert_eq!(pair.ask(b"text").unwrap(), b"text");
        let mut wire = Vec::new();
        pair.server.seal(&[7; RECORD_PLAIN_BYTES_MAX], &mut wire).unwrap();
        assert_eq!(receive(&mut pair.client, &wire).unwrap(), [7; RECORD_PLAIN_BYTES_MAX]);
    }
}

#[test]
fn a_flood_of_key_changes_is_a_fault() {
    let mut pair = Pair::new(&Options::default());
    pair.shake_hands().unwrap();
    let fault = (0..1_000).find_map(|_| {
        pair.client.refresh_traffic_keys().unwrap();
        pair.carry().err()
    });
    assert_eq!(fault, Some(SealFault::Record));
}

#[test]
fn the_peer_closes_first() {
    for version in [&TLS12, &TLS13] {
        let mut pair = Pair::new(&Options { versions: vec![version], ..Options::default() });
        pair.shake_hands().unwrap();
        pair.client.send_close_notify();
        pair.carry().unwrap();
        assert_eq!(pair.server.progress(), Progress::PeerClosed);
        let mut wire = Vec::new();
        pair.server.seal(b"rest", &mut wire).unwrap();
        pair.server.close(&mut wire);
        let len = wire.len();
        pair.server.close(&mut wire);
        assert_eq!(wire.len(), len, "the notice is sent once");
        assert_eq!(receive(&mut pair.client, &wire).unwrap(), b"rest");
        assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
        assert!(pair.server.handshake().is_some());
    }
}

#[test]
fn the_server_closes_first() {
    let mut pair = Pair::new(&Options::default());
    let mut wire = Vec::new();
    pair.server.close(&mut wire);
    assert!(wire.is_empty(), "there is no notice in a handshake");
    pair.shake_hands().unwrap();
    pair.client.refresh_traffic_keys().unwrap();
    pair.carry().unwrap();
    pair.server.close(&mut wire);
    receive(&mut pair.client, &wire).unwrap();
    assert!(pair.client.process_new_packets().unwrap().peer_has_closed());
    assert_eq!(pair.server.seal(b"more", &mut Vec::new()), Err(SealFault::Other));
    // Nothing follows the notice, whatever the peer sends.
    pair.client.send_close_notify();
    let mut wire = send(&mut pair.client);
    let len = wire.len();
    wire.extend_from_slice(&[23, 3, 3, 0, 2, 1, 2]);
    let (mut plain, mut reply) = (Vec::new(), Vec::new());
    let used = pair.server.open(&mut wire, &mut plain, &mut reply).unwrap();
    assert!(used > 0 && used <= len);
    assert_eq!(pair.server.open(&mut wire[len..], &mut plain, &mut reply), Ok(7));
    assert!(plain.is_empty() && reply.is_empty());
}
