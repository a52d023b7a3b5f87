//! Handshakes in pieces, and bytes that are no handshake.
use super::peers::{
    Identity, Options, Pair, class, client, client_config, fetch_tickets, open_all, receive, send,
};
use crate::{HANDSHAKE_BYTES_MAX, Tls, TlsClass};
use regatta_origin::{Progress, RECORD_PLAIN_BYTES_MAX, Seal, SealFault};
use rustls::{AlertDescription, ClientConnection, Error, version::TLS12};
use std::{io::Write as _, sync::Arc};

const HEADER_BYTES: usize = 5;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const UNEXPECTED_MESSAGE: u8 = 10;
const RECORD_OVERFLOW: u8 = 22;

/// A class, a client of it, and the client's first record.
fn greeting() -> (TlsClass, ClientConnection, Vec<u8>) {
    let (options, identity) = (Options::default(), Identity::new());
    let config = Arc::new(client_config(&options, &identity));
    let mut client = client(&config);
    let hello = send(&mut client);
    assert_eq!(hello[0], HANDSHAKE);
    assert_eq!(hello.len(), HEADER_BYTES + usize::from(u16::from_be_bytes([hello[3], hello[4]])));
    (class(&options, &identity), client, hello)
}

fn record(kind: u8, body: &[u8]) -> Vec<u8> {
    let len = u16::try_from(body.len()).unwrap().to_be_bytes();
    [&[kind, 3, 3, len[0], len[1]][..], body].concat()
}

/// The same handshake message in several records.
fn split<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> Vec<u8> {
    pieces.flat_map(|piece| record(HANDSHAKE, piece)).collect()
}

fn open(server: &mut Tls, bytes: &[u8]) -> (Result<(), SealFault>, Vec<u8>) {
    let (mut wire, mut plain, mut reply) = (bytes.to_vec(), Vec::new(), Vec::new());
    let opened = open_all(server, &mut wire, &mut plain, &mut reply);
    assert!(plain.is_empty(), "nothing is opened in a handshake");
    (opened, reply)
}

#[test]
fn the_first_message_arrives_in_two_records() {
    let (class, _, hello) = greeting();
    let body = &hello[HEADER_BYTES..];
    for at in 1..body.len() {
        let (one, two) = body.split_at(at);
        let mut server = class.accept();
        assert_eq!(open(&mut server, &record(HANDSHAKE, one)), (Ok(()), Vec::new()));
        assert!((1..=HEADER_BYTES + at).contains(&server.pending_bytes()));
        assert_eq!(server.seal(b"early", &mut Vec::new()), Err(SealFault::Other));
        let (opened, reply) = open(&mut server, &record(HANDSHAKE, two));
        assert_eq!((opened, server.pending_bytes()), (Ok(()), 0), "split at {at}");
        assert_eq!(reply[0], HANDSHAKE);
    }
}

#[test]
fn the_first_message_arrives_in_many_records() {
    for count in [2, 50, 200] {
        let (class, mut client, hello) = greeting();
        let body = &hello[HEADER_BYTES..];
        let mut server = class.accept();
        let (opened, reply) = open(&mut server, &split(body.chunks(body.len().div_ceil(count))));
        assert_eq!((opened, server.pending_bytes()), (Ok(()), 0));
        receive(&mut client, &reply).unwrap();
        assert_eq!(open(&mut server, &send(&mut client)).0, Ok(()));
        assert_eq!(server.progress(), Progress::Open);
    }
}

#[test]
fn bytes_arrive_one_by_one() {
    let mut pair = Pair::new(&Options::default());
    for _ in 0..2 {
        let (mut wire, mut reply) = (Vec::new(), Vec::new());
        for byte in send(&mut pair.client) {
            wire.push(byte);
            open_all(&mut pair.server, &mut wire, &mut Vec::new(), &mut reply).unwrap();
        }
        assert!(wire.is_empty());
        receive(&mut pair.client, &reply).unwrap();
    }
    assert_eq!(pair.server.progress(), Progress::Open);
}

#[test]
fn an_incomplete_message_is_bounded() {
    let (class, ..) = greeting();
    let mut server = class.accept();
    // The beginning of a ClientHello of 60,000 bytes.
    let mut opened = open(&mut server, &record(HANDSHAKE, &[1, 0, 0xea, 0x60]));
    let mut records = 0;
    while opened.0.is_ok() {
        records += 1;
        assert!(server.pending_bytes() <= HANDSHAKE_BYTES_MAX && records < 20);
        opened = open(&mut server, &record(HANDSHAKE, &[0; 1_000]));
    }
    assert_eq!(opened.0, Err(SealFault::Record));
    assert_eq!(opened.1[0], ALERT);
    assert_eq!(server.pending_bytes(), 0);
    assert_eq!(open(&mut server, &[0]), (Err(SealFault::Record), Vec::new()));
}

#[test]
fn requests_in_the_clear_are_recognised() {
    let (class, ..) = greeting();
    for text in ["G", "GET / HTTP/1.1\r\n\r\n", "OPTIONS * HTTP/1.1\r\n", "PRI * HTTP/2.0\r\n"] {
        let mut server = class.accept();
        let not_tls = (Err(SealFault::NotTls), Vec::new());
        assert_eq!(open(&mut server, text.as_bytes()), not_tls, "no alert precedes the answer");
        assert_eq!(open(&mut server, text.as_bytes()), not_tls);
        let mut wire = Vec::new();
        server.close(&mut wire);
        assert!(wire.is_empty());
        assert_eq!(server.handshake(), None);
    }
}

#[test]
fn other_bytes_are_answered_by_an_alert() {
    let (class, ..) = greeting();
    let long = u16::try_from(RECORD_PLAIN_BYTES_MAX + 1).unwrap().to_be_bytes();
    let rows: [(&[u8], u8); 8] = [
        (&[0; 40], UNEXPECTED_MESSAGE),
        (&[0x80, 46, 1, 3, 1], UNEXPECTED_MESSAGE),
        (&[99, 3, 1, 0, 40], UNEXPECTED_MESSAGE),
        (&[HANDSHAKE, 4, 0, 0, 40], UNEXPECTED_MESSAGE),
        (&[HANDSHAKE, 3, 1, 0, 0], UNEXPECTED_MESSAGE),
        (&[HANDSHAKE, 3, 1, long[0], long[1]], RECORD_OVERFLOW),
        (&[HANDSHAKE, 3, 1, 0xff, 0xff], RECORD_OVERFLOW),
        (&[HANDSHAKE, 3, 1, 0, 4, 77, 0, 0, 0], UNEXPECTED_MESSAGE),
    ];
    for (bytes, alert) in rows {
        let (opened, reply) = open(&mut class.accept(), bytes);
        assert_eq!(opened, Err(SealFault::Record), "{bytes:?}");
        assert_eq!(reply, record(ALERT, &[2, alert]), "{bytes:?}");
    }
    let partial: [&[u8]; 3] = [&[HANDSHAKE], &[0; 4], &[HANDSHAKE, 3, 1, 0, 4, 1, 0, 0]];
    for bytes in partial {
        assert_eq!(open(&mut class.accept(), bytes), (Ok(()), Vec::new()), "{bytes:?}");
    }
}

/// In a full handshake of TLS 1.2, the client reads alerts in the clear until its end. rustls has
/// none for a message that it cannot read.
#[test]
fn a_second_message_that_is_malformed_is_answered_by_an_alert() {
    const CLIENT_KEY_EXCHANGE: u8 = 16;
    const FINISHED: u8 = 20;
    let (options, identity) =
        (Options { versions: vec![&TLS12], ..Options::default() }, Identity::new());
    let config = Arc::new(client_config(&options, &identity));
    for kind in [CLIENT_KEY_EXCHANGE, FINISHED] {
        let mut server = class(&options, &identity).accept();
        let (opened, reply) = open(&mut server, &send(&mut client(&config)));
        assert_eq!((opened, reply[0]), (Ok(()), HANDSHAKE));
        let (opened, reply) = open(&mut server, &record(HANDSHAKE, &[kind, 0, 0, 0]));
        assert_eq!(opened, Err(SealFault::Record), "{kind}");
        assert_eq!(reply, record(ALERT, &[2, UNEXPECTED_MESSAGE]), "{kind}");
    }
}

/// In a session that is resumed the server's last message comes first, and the client then expects
/// sealed records. rustls has no alert for a message that is too long.
#[test]
fn a_resumed_session_has_no_alert_in_the_clear() {
    let tickets = Some(rustls::crypto::aws_lc_rs::Ticketer::new().unwrap());
    let options = Options { tickets, versions: vec![&TLS12], ..Options::default() };
    let mut pair = Pair::new(&options);
    for expected in [record(ALERT, &[2, UNEXPECTED_MESSAGE]), Vec::new()] {
        let hello = send(&mut pair.client);
        assert_eq!(open(&mut pair.server, &hello).0, Ok(()));
        let too_long = record(HANDSHAKE, &[16, 0xff, 0xff, 0xff]);
        assert_eq!(open(&mut pair.server, &too_long), (Err(SealFault::Record), expected));
        pair = pair.again();
        pair.shake_hands().unwrap();
        pair = pair.again();
    }
}

#[test]
fn an_altered_record_is_a_fault() {
    let mut pair = Pair::new(&Options::default());
    pair.shake_hands().unwrap();
    let (opened, reply) = open(&mut pair.server, &record(23, &[7; 40]));
    assert_eq!(opened, Err(SealFault::Record));
    let alert = Error::AlertReceived(AlertDescription::BadRecordMac);
    assert_eq!(receive(&mut pair.client, &reply), Err(alert));
    assert_eq!(open(&mut pair.server, &record(23, &[7; 40])), (opened, Vec::new()));
    let mut wire = Vec::new();
    assert_eq!(pair.server.seal(b"more", &mut wire), Err(SealFault::Record));
    pair.server.close(&mut wire);
    assert!(wire.is_empty());
}

#[test]
fn old_versions_are_refused() {
    let options = Options { versions: vec![&TLS12], ..Options::default() };
    let identity = Identity::new();
    let mut client = client(&Arc::new(client_config(&options, &identity)));
    let mut hello = send(&mut client);
    // TLS 1.1, in the field and in the extension.
    hello[HEADER_BYTES + 5] = 2;
    let extension = [0, 0x2b, 0, 3, 2, 3, 3];
    let at = hello.windows(extension.len()).position(|bytes| bytes == extension);
    if let Some(at) = at {
        hello[at + extension.len() - 1] = 2;
    }
    let (opened, reply) = open(&mut class(&options, &identity).accept(), &hello);
    assert_eq!((opened, reply[0]), (Err(SealFault::Version), ALERT));
}

/// Adds an empty extension in front of the others of a ClientHello.
fn with_extension(hello: &[u8], kind: u16) -> Vec<u8> {
    const FIXED_BYTES: usize = 34;
    let message = &hello[HEADER_BYTES + 4..];
    let number = |at: usize| usize::from(u16::from_be_bytes([message[at], message[at + 1]]));
    let suites = FIXED_BYTES + 1 + usize::from(message[FIXED_BYTES]);
    let methods = suites + 2 + number(suites);
    let extensions = methods + 1 + usize::from(message[methods]);
    let len = u16::try_from(number(extensions) + 4).unwrap().to_be_bytes();
    let front = [&message[..extensions], &len, &kind.to_be_bytes(), &[0, 0]].concat();
    let body = [&front[..], &message[extensions + 2..]].concat();
    let len = u16::try_from(body.len()).unwrap().to_be_bytes();
    record(HANDSHAKE, &[&[1, 0, len[0], len[1]][..], &body].concat())
}

/// rustls would skip them as early data, without a bound on their number.
#[test]
fn records_without_contents_are_no_early_data() {
    const EARLY_DATA: u16 = 42;
    let (class, _, hello) = greeting();
    let mut server = class.accept();
    let (opened, reply) = open(&mut server, &with_extension(&hello, EARLY_DATA));
    assert_eq!((opened, reply[0]), (Ok(()), HANDSHAKE));
    // Early data that was encrypted with a key of another server is skipped.
    assert_eq!(open(&mut server, &record(23, &[7; 40])), (Ok(()), Vec::new()));
    assert_eq!(server.pending_bytes(), 0);
    let (opened, reply) = open(&mut server, &record(23, &[]));
    assert_eq!(opened, Err(SealFault::Record));
    assert!(!reply.is_empty() && server.pending_bytes() == 0);
}

/// Records of a client with a ticket of another server are skipped up to 16 KiB. Each counts once:
/// with what protects it, it has 1,017 bytes.
#[test]
fn rejected_early_data_is_skipped() {
    let options = Options::default();
    let identity = Identity::new();
    let mut config = client_config(&options, &identity);
    config.enable_early_data = true;
    let (config, class) = (Arc::new(config), class(&options, &identity));
    for records in [1, 2, 16, 17] {
        fetch_tickets(&config, &identity);
        let (mut client, mut server) = (client(&config), class.accept());
        let mut early = client.early_data().expect("the ticket allows it");
        (0..records).for_each(|_| early.write_all(&[b'x'; 1_000]).unwrap());
        let (opened, reply) = open(&mut server, &send(&mut client));
        if records > 16 {
            assert_eq!(opened, Err(SealFault::Record));
            continue;
        }
        assert_eq!(opened, Ok(()), "{records} records");
        assert_eq!(server.pending_bytes(), 0);
        receive(&mut client, &reply).unwrap();
        assert!(!client.is_early_data_accepted());
        client.writer().write_all(b"once more").unwrap();
        let (mut wire, mut plain) = (send(&mut client), Vec::new());
        open_all(&mut server, &mut wire, &mut plain, &mut Vec::new()).unwrap();
        assert_eq!(server.progress(), Progress::Open);
        assert_eq!(plain, b"once more");
    }
}

/// A handshake message in sealed records that follow early data is kept until it is whole.
#[test]
fn a_message_in_pieces_is_no_early_data() {
    let (options, identity) = (Options::default(), Identity::new());
    let mut config = client_config(&options, &identity);
    config.enable_early_data = true;
    // Of the last message, which has 36 or 52 bytes, there are several pieces.
    config.max_fragment_size = Some(32);
    let (config, class) = (Arc::new(config), class(&options, &identity));
    fetch_tickets(&config, &identity);
    let (mut client, mut server) = (client(&config), class.accept());
    client.early_data().expect("the ticket allows it").write_all(&[b'x'; 100]).unwrap();
    let (opened, reply) = open(&mut server, &send(&mut client));
    assert_eq!((opened, server.pending_bytes()), (Ok(()), 0));
    receive(&mut client, &reply).unwrap();
    assert_eq!(open(&mut server, &send(&mut client)).0, Ok(()));
    assert_eq!((server.progress(), server.pending_bytes()), (Progress::Open, 0));
}
