//! The seal of TLS: records of strangers, and flights of a client that are altered on their way.
use regatta_origin::{Progress, RECORD_BYTES_MAX, RECORD_PLAIN_BYTES_MAX, Seal};
use regatta_tls::{HANDSHAKE_BYTES_MAX, Tls, TlsClass, TlsSettings, TlsVersion, crypto_provider};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use std::{
    io::{Read, Write},
    sync::{Arc, OnceLock},
};

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
/// Flights of the client: its two of the handshake, a request, another with new keys, the end.
const FLIGHTS: u8 = 5;

#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// The settings of both peers, made once.
fn settings() -> &'static (TlsClass, Arc<ClientConfig>) {
    static SETTINGS: OnceLock<(TlsClass, Arc<ClientConfig>)> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        let rcgen::CertifiedKey { cert, signing_key } = made.expect("a certificate");
        let provider = crypto_provider();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
        let key = provider.key_provider.load_private_key(key).expect("a key");
        let certified = CertifiedKey::new(vec![cert.der().clone()], key);
        let class = TlsClass::new(TlsSettings {
            certificates: Arc::new(OneCertificate(Arc::new(certified))),
            clients: None,
            tickets: None,
            handshake_bytes_max: None,
            version_min: TlsVersion::default(),
            http2: false,
        });
        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).expect("a root");
        let mut client = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        (class.expect("good settings"), Arc::new(client))
    })
}

/// Bytes for a new connection. Then flights of a client, in pieces of a length that the first byte
/// of the input gives; each four that follow name a flight, a position and bits to change. No
/// bytes make the seal panic, faults stay, its memory is bounded, and what is not altered arrives.
pub fn seal_open(bytes: &[u8]) {
    let (class, config) = settings();
    let (mut wire, mut plain, mut reply) = (bytes.to_vec(), Vec::new(), Vec::new());
    open(&mut class.accept(), &mut wire, &mut plain, &mut reply);
    assert!(plain.is_empty(), "nothing is opened before a handshake");
    let (piece_bytes, edits) = bytes.split_first().unwrap_or((&0, &[]));
    let piece_bytes = 1 + 16 * usize::from(*piece_bytes);
    let name = ServerName::try_from("localhost").expect("a name");
    let mut client = ClientConnection::new(Arc::clone(config), name).expect("good settings");
    let mut server = class.accept();
    let (mut wire, mut is_altered) = (Vec::new(), false);
    for flight in 0..FLIGHTS {
        let mut sent = send(&mut client, flight);
        for edit in edits.chunks_exact(4).filter(|edit| edit[0] % FLIGHTS == flight) {
            let at = usize::from(u16::from_be_bytes([edit[1], edit[2]]));
            if let Some(at) = at.checked_rem(sent.len()) {
                sent[at] ^= edit[3];
                is_altered |= edit[3] != 0;
            }
        }
        reply.clear();
        for piece in sent.chunks(piece_bytes) {
            wire.extend_from_slice(piece);
            if !open(&mut server, &mut wire, &mut plain, &mut reply) {
                assert!(is_altered, "{server:?}");
                return;
            }
        }
        if server.progress() != Progress::Handshaking {
            server.seal(b"answer", &mut reply).expect("the connection is open");
        }
        let is_received = receive(&mut client, &reply);
        assert!(is_received || is_altered);
    }
    if !is_altered {
        assert_eq!((server.progress(), plain), (Progress::PeerClosed, REQUEST.repeat(2)));
    }
}

/// Opens all whole records; false after a fault.
fn open(server: &mut Tls, wire: &mut Vec<u8>, plain: &mut Vec<u8>, reply: &mut Vec<u8>) -> bool {
    let mut at = 0;
    while at < wire.len() {
        let (rest, before) = (wire.len() - at, plain.len());
        match server.open(&mut wire[at..], plain, reply) {
            Ok(0) => {
                assert!(rest < RECORD_BYTES_MAX, "a whole record is opened");
                break;
            }
            Ok(used) => {
                assert!(used <= rest && plain.len() - before <= RECORD_PLAIN_BYTES_MAX);
                at += used;
            }
            Err(fault) => {
                let len = reply.len();
                assert_eq!(server.open(&mut wire[at..], plain, reply), Err(fault), "faults stay");
                assert_eq!(server.seal(b"more", reply), Err(fault));
                server.close(reply);
                assert_eq!(reply.len(), len, "one alert");
                return false;
            }
        }
        assert!(server.pending_bytes() <= RECORD_BYTES_MAX.max(HANDSHAKE_BYTES_MAX));
    }
    wire.drain(..at);
    true
}

/// A flight of the client. One that has a fault sends its alert, or nothing.
fn send(client: &mut ClientConnection, flight: u8) -> Vec<u8> {
    if !client.is_handshaking() {
        match flight {
            2 => client.writer().write_all(REQUEST).expect("memory"),
            3 => {
                let _ = client.refresh_traffic_keys();
                client.writer().write_all(REQUEST).expect("memory");
            }
            4 => client.send_close_notify(),
            _ => {}
        }
    }
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).expect("memory");
    }
    wire
}

/// Gives the client these bytes; false after a fault.
fn receive(client: &mut ClientConnection, wire: &[u8]) -> bool {
    let mut rest = wire;
    while !rest.is_empty() {
        let Ok(read) = client.read_tls(&mut rest) else { return false };
        let Ok(state) = client.process_new_packets() else { return false };
        let mut plain = vec![0; state.plaintext_bytes_to_read()];
        client.reader().read_exact(&mut plain).expect("these bytes have arrived");
        if read == 0 {
            return true;
        }
    }
    true
}
