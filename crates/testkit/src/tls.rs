//! A blocking client of TLS over a socket. It is strict: a stream that ends without a closing alert
//! is an error, and so is whatever follows that alert.

use crate::certificates::Authority;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, HandshakeKind,
    ProtocolVersion, RootCertStore, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    version::{TLS12, TLS13},
};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// The number of TLS 1.2.
pub const VERSION_12: u16 = 0x0303;
/// The number of TLS 1.3.
pub const VERSION_13: u16 = 0x0304;

/// The most bytes that are encrypted, or received, at once.
const PIECE_BYTES: usize = 16 << 10;
/// Time without an answer after which a write no longer waits for the handshake: the server may be
/// full. A read then continues the handshake.
const SILENCE: Duration = Duration::from_secs(1);
/// First bytes of the server that are kept: its random is among them.
const FIRST_BYTES: usize = RANDOM_AT + RANDOM_BYTES;
/// Place of the server's random: after the headers of record and message, and a version.
const RANDOM_AT: usize = 5 + 4 + 2;
const RANDOM_BYTES: usize = 32;
/// Type of a record with parts of a handshake, and of the message that has the server's random.
const HANDSHAKE: u8 = 22;
const SERVER_HELLO: u8 = 2;

/// Settings of a client.
#[derive(Clone, Copy, Debug)]
pub struct TlsOffer<'a> {
    /// Versions that it accepts.
    pub versions: &'a [u16],
    /// Application protocols that it offers.
    pub protocols: &'a [&'a str],
    /// Whether it keeps session tickets, and uses them.
    pub resumes: bool,
    /// Whether it accepts a certificate for another name.
    pub any_name: bool,
}

impl Default for TlsOffer<'_> {
    fn default() -> Self {
        let (versions, protocols) = (&[VERSION_12, VERSION_13], &["http/1.1"]);
        Self { versions, protocols, resumes: false, any_name: false }
    }
}

/// Client that trusts one authority. Its connections share the session tickets.
#[derive(Clone, Debug)]
pub struct TlsClient(Arc<ClientConfig>);

impl TlsClient {
    /// A client with these settings.
    ///
    /// # Panics
    /// There is no such version.
    #[must_use]
    pub fn new(authority: &Authority, offer: TlsOffer<'_>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from(authority.der().to_vec())).expect("a certificate");
        let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
        let verifier =
            WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        let verifier = Judge { verifier: verifier.expect("roots"), any_name: offer.any_name };
        let versions: Vec<_> = offer
            .versions
            .iter()
            .map(|version| match *version {
                VERSION_12 => &TLS12,
                VERSION_13 => &TLS13,
                other => panic!("no version {other:#x}"),
            })
            .collect();
        let builder = ClientConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&versions).expect("ring has both");
        let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = builder.with_no_client_auth();
        config.alpn_protocols = offer.protocols.iter().map(|name| name.as_bytes().into()).collect();
        if !offer.resumes {
            config.resumption = Resumption::disabled();
        }
        Self(Arc::new(config))
    }

    /// The client's end of a connection. It asks for the certificate of `name`, unless that is an
    /// address. The first write or read begins the handshake.
    ///
    /// # Panics
    /// The name is malformed.
    #[must_use]
    pub fn connect(&self, socket: TcpStream, name: &str) -> TlsStream {
        let name = ServerName::try_from(name.to_owned()).expect("a name");
        let connection = ClientConnection::new(Arc::clone(&self.0), name);
        let mut connection = connection.expect("settings of ours");
        connection.set_buffer_limit(None);
        let shared = Shared {
            socket,
            connection: Mutex::new(connection),
            unsent: Mutex::default(),
            is_forgotten: AtomicBool::new(false),
        };
        TlsStream { shared: Arc::new(shared), incoming: Mutex::default() }
    }
}

/// Judge of certificates: as the web's rules are, or without the rule about names.
#[derive(Debug)]
struct Judge {
    verifier: Arc<WebPkiServerVerifier>,
    any_name: bool,
}

impl ServerCertVerifier for Judge {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let judged = self.verifier.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match judged {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.any_name => Ok(ServerCertVerified::assertion()),
            judged => judged,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// The client's end of a connection. Dropping it closes the connection in order.
#[derive(Debug)]
pub struct TlsStream {
    shared: Arc<Shared>,
    incoming: Mutex<Incoming>,
}

/// A client's end of a connection, in the clear or over TLS.
#[derive(Debug)]
pub enum Wire {
    /// In the clear.
    Clear(TcpStream),
    /// Over TLS.
    Tls(TlsStream),
}

impl Wire {
    /// The socket below.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Clear(socket) => socket,
            Self::Tls(stream) => stream.socket(),
        }
    }

    /// Whether bytes, or the end of the stream, have arrived.
    ///
    /// # Panics
    /// The socket has no modes.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        match self {
            Self::Clear(socket) => {
                socket.set_nonblocking(true).expect("a socket");
                let peeked = socket.peek(&mut [0; 1]);
                socket.set_nonblocking(false).expect("a socket");
                !peeked.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
            }
            Self::Tls(stream) => stream.is_readable(),
        }
    }

    /// Ends the client's direction of the connection.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn close_sending(&self) -> io::Result<()> {
        match self {
            Self::Clear(socket) => socket.shutdown(Shutdown::Write),
            Self::Tls(stream) => stream.close_sending(),
        }
    }

    /// Leaves the closing alert of TLS out when the connection is dropped.
    pub fn forget(&self) {
        if let Self::Tls(stream) = self {
            stream.forget();
        }
    }
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.read(into),
            Self::Tls(stream) => stream.read(into),
        }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Clear(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Clear(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// Second handle on a connection that only sends.
#[derive(Debug)]
pub struct TlsSender(Arc<Shared>);

/// State that both handles use. A thread that has `unsent` may wait for the peer; one that has
/// `connection` never does.
#[derive(Debug)]
struct Shared {
    socket: TcpStream,
    connection: Mutex<ClientConnection>,
    /// Records that the kernel has not taken. Its lock is the order of the records.
    unsent: Mutex<Vec<u8>>,
    /// Whether the connection ends without a closing alert of ours.
    is_forgotten: AtomicBool,
}

/// Received bytes.
#[derive(Debug, Default)]
struct Incoming {
    /// Opened and unread bytes from `at` on.
    plain: Vec<u8>,
    at: usize,
    /// The server's first bytes.
    first: Vec<u8>,
    /// Received and unopened bytes: the start of a record, or those after the closing alert.
    wire: Vec<u8>,
    /// The server's closing alert has arrived.
    is_closed: bool,
}

/// Locks state that a failed test may have had locked.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a wait has ended without a result.
fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

impl Shared {
    fn is_handshaking(&self) -> bool {
        lock(&self.connection).is_handshaking()
    }

    /// Sends the records that rustls has made.
    fn flush(&self) -> io::Result<()> {
        self.send_records(&mut lock(&self.unsent))
    }

    /// The same, unless another thread is sending: it then sends them.
    fn try_flush(&self) -> io::Result<()> {
        match self.unsent.try_lock() {
            Ok(mut unsent) => self.send_records(&mut unsent),
            Err(TryLockError::Poisoned(poisoned)) => self.send_records(&mut poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    fn send_records(&self, unsent: &mut Vec<u8>) -> io::Result<()> {
        {
            let mut connection = lock(&self.connection);
            while connection.wants_write() {
                connection.write_tls(unsent)?;
            }
        }
        while !unsent.is_empty() {
            match (&self.socket).write(unsent) {
                Ok(sent) => drop(unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Encrypts and sends. During a handshake rustls keeps the bytes until that is over.
    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut unsent = lock(&self.unsent);
        for piece in bytes.chunks(PIECE_BYTES) {
            lock(&self.connection).writer().write_all(piece)?;
            self.send_records(&mut unsent)?;
        }
        Ok(())
    }
}

impl TlsStream {
    /// The socket below: its options, and bytes past the records.
    #[must_use]
    pub fn socket(&self) -> &TcpStream {
        &self.shared.socket
    }

    /// Shakes hands, as long as the socket's timeout allows.
    ///
    /// # Errors
    /// The handshake has failed.
    pub fn shake_hands(&self) -> io::Result<()> {
        self.shared.flush()?;
        let mut incoming = lock(&self.incoming);
        while self.shared.is_handshaking() {
            self.receive(&mut incoming, PIECE_BYTES)?;
        }
        self.shared.flush()
    }

    /// Shakes hands, unless the server says nothing at first.
    fn begin(&self) -> io::Result<()> {
        if !self.shared.is_handshaking() {
            return Ok(());
        }
        self.shared.flush()?;
        let is_silent = {
            let mut incoming = lock(&self.incoming);
            incoming.first.is_empty() && self.is_silent(&mut incoming)?
        };
        if is_silent { Ok(()) } else { self.shake_hands() }
    }

    /// Waits for the server's first bytes. True if there are none.
    fn is_silent(&self, incoming: &mut Incoming) -> io::Result<bool> {
        let timeout = self.shared.socket.read_timeout()?;
        self.shared.socket.set_read_timeout(Some(SILENCE))?;
        let received = self.receive(incoming, PIECE_BYTES);
        self.shared.socket.set_read_timeout(timeout)?;
        match received {
            Ok(_) => Ok(false),
            Err(error) if timed_out(&error) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Receives at most this many bytes, once, and opens their records. Zero is an end in order.
    fn receive(&self, incoming: &mut Incoming, at_most: usize) -> io::Result<usize> {
        let mut raw = vec![0; at_most];
        let received = (&self.shared.socket).read(&mut raw)?;
        if received == 0 && !incoming.is_closed {
            let why = "the stream ended without a closing alert";
            return Err(io::Error::new(ErrorKind::UnexpectedEof, why));
        }
        self.open(incoming, &raw[..received])?;
        Ok(received)
    }

    fn open(&self, incoming: &mut Incoming, raw: &[u8]) -> io::Result<()> {
        let missing = FIRST_BYTES - incoming.first.len();
        incoming.first.extend_from_slice(&raw[..raw.len().min(missing)]);
        incoming.wire.extend_from_slice(raw);
        let opened = open_records(&mut lock(&self.shared.connection), incoming);
        // An alert, if the records were not right.
        let sent = self.shared.try_flush();
        opened?;
        if incoming.is_closed && !incoming.wire.is_empty() {
            let why = format!("{} bytes after the closing alert", incoming.wire.len());
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        // The peer may have closed already; what it sent before can still be read.
        if incoming.is_closed { Ok(()) } else { sent }
    }

    /// Whether bytes, or the end of the stream, have arrived.
    ///
    /// # Panics
    /// The socket has no modes.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        let mut incoming = lock(&self.incoming);
        self.shared.socket.set_nonblocking(true).expect("a socket");
        let readable = loop {
            if !incoming.plain.is_empty() {
                break true;
            }
            match self.receive(&mut incoming, PIECE_BYTES) {
                Ok(0) => break true,
                Ok(_) => {}
                Err(_) => break false,
            }
        };
        self.shared.socket.set_nonblocking(false).expect("a socket");
        readable
    }

    /// Ends our direction of the connection by a closing alert.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn close_sending(&self) -> io::Result<()> {
        self.begin()?;
        lock(&self.shared.connection).send_close_notify();
        self.shared.flush()
    }

    /// Leaves the closing alert out when the connection is dropped.
    pub fn forget(&self) {
        self.shared.is_forgotten.store(true, Ordering::Relaxed);
    }

    /// A second handle that only sends. It does not shake hands.
    #[must_use]
    pub fn sender(&self) -> TlsSender {
        TlsSender(Arc::clone(&self.shared))
    }

    /// Whether the handshake has resumed an earlier session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        lock(&self.shared.connection).handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Version that was agreed on.
    #[must_use]
    pub fn version(&self) -> Option<u16> {
        let version: ProtocolVersion = lock(&self.shared.connection).protocol_version()?;
        Some(version.into())
    }

    /// Application protocol that was agreed on.
    #[must_use]
    pub fn protocol(&self) -> Option<Vec<u8>> {
        lock(&self.shared.connection).alpn_protocol().map(<[u8]>::to_vec)
    }

    /// The server's certificate, without its chain.
    #[must_use]
    pub fn certificate(&self) -> Option<Vec<u8>> {
        let connection = lock(&self.shared.connection);
        Some(connection.peer_certificates()?.first()?.to_vec())
    }

    /// The server's random, once its first message has arrived.
    #[must_use]
    pub fn server_random(&self) -> Option<[u8; 32]> {
        let incoming = lock(&self.incoming);
        let first = &incoming.first;
        let is_hello = first.len() == FIRST_BYTES && first[0] == HANDSHAKE;
        let random = first.get(RANDOM_AT..)?.first_chunk()?;
        (is_hello && first[5] == SERVER_HELLO).then_some(*random)
    }
}

/// Opens all whole records, up to a closing alert.
fn open_records(connection: &mut ClientConnection, incoming: &mut Incoming) -> io::Result<()> {
    while !incoming.is_closed {
        let Some(len) = record_len(&incoming.wire) else { return Ok(()) };
        let mut record = &incoming.wire[..len];
        while !record.is_empty() {
            if connection.read_tls(&mut record)? == 0 {
                break;
            }
        }
        let state = connection.process_new_packets();
        let state = state.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        incoming.wire.drain(..len);
        let bytes = state.plaintext_bytes_to_read() as u64;
        connection.reader().take(bytes).read_to_end(&mut incoming.plain)?;
        incoming.is_closed = state.peer_has_closed();
    }
    Ok(())
}

/// Length of the first record, if it is whole.
fn record_len(wire: &[u8]) -> Option<usize> {
    let [_, _, _, high, low] = *wire.first_chunk::<5>()?;
    let len = 5 + usize::from(u16::from_be_bytes([high, low]));
    (wire.len() >= len).then_some(len)
}

impl Read for TlsStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.shared.is_handshaking() {
            self.shared.flush()?;
        }
        let mut incoming = lock(&self.incoming);
        let at_most = into.len().clamp(1, 1 << 18);
        while incoming.plain.is_empty() {
            // No more than is asked for: a slow reader must look like one.
            if self.receive(&mut incoming, at_most)? == 0 {
                return Ok(0);
            }
        }
        let rest = &incoming.plain[incoming.at..];
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        incoming.at += len;
        if incoming.at == incoming.plain.len() {
            incoming.plain.clear();
            incoming.at = 0;
        }
        Ok(len)
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.shared.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.shared.flush()
    }
}

impl Write for TlsSender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        let Shared { socket, connection, unsent, is_forgotten } = &*self.shared;
        let Ok(mut unsent) = unsent.try_lock() else { return };
        if is_forgotten.load(Ordering::Relaxed) || self.shared.is_handshaking() {
            return;
        }
        lock(connection).send_close_notify();
        // As much as the peer takes at once.
        if socket.set_nonblocking(true).is_ok() {
            let _ = self.shared.send_records(&mut unsent);
            let _ = socket.set_nonblocking(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use std::net::TcpListener;
    use std::thread::{self, JoinHandle};

    type Served = StreamOwned<ServerConnection, TcpStream>;

    /// Serves one connection, and returns the client's end of it.
    fn pair(serve: impl FnOnce(Served) + Send + 'static) -> (TlsStream, Vec<u8>, JoinHandle<()>) {
        let authority = Authority::new();
        let issued = authority.issue(&["a.test"]);
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.key.clone()));
        let chain = vec![CertificateDer::from(issued.der.clone())];
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().expect("ring has both");
        let config = builder.with_no_client_auth().with_single_cert(chain, key).expect("a pair");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("ours")).expect("connects");
        let server = thread::spawn(move || {
            let (socket, _) = listener.accept().expect("a client");
            let connection = ServerConnection::new(Arc::new(config)).expect("settings of ours");
            serve(StreamOwned::new(connection, socket));
        });
        let client = TlsClient::new(&authority, TlsOffer::default());
        (client.connect(socket, "a.test"), issued.der, server)
    }

    /// Reads a byte, and sends a text.
    fn answer(stream: &mut Served) {
        stream.read_exact(&mut [0]).expect("a byte");
        stream.write_all(b"text").expect("sent");
        stream.flush().expect("sent");
    }

    #[test]
    fn an_end_needs_a_closing_alert() {
        for closes in [true, false] {
            let (mut client, _, server) = pair(move |mut stream| {
                answer(&mut stream);
                if closes {
                    stream.conn.send_close_notify();
                    stream.conn.write_tls(&mut stream.sock).expect("sent");
                }
            });
            client.write_all(b"x").expect("sent");
            let mut text = Vec::new();
            let end = client.read_to_end(&mut text).map_err(|error| error.kind());
            assert_eq!(text, b"text");
            assert_eq!(end.err(), (!closes).then_some(ErrorKind::UnexpectedEof));
            server.join().expect("it served");
        }
    }

    #[test]
    fn nothing_may_follow_the_closing_alert() {
        let (mut client, _, server) = pair(|mut stream| {
            answer(&mut stream);
            stream.conn.send_close_notify();
            stream.conn.write_tls(&mut stream.sock).expect("sent");
            stream.sock.write_all(&[23, 3, 3, 0, 1, 0]).expect("sent");
        });
        client.write_all(b"x").expect("sent");
        let end = client.read_to_end(&mut Vec::new());
        assert_eq!(end.expect_err("bytes").kind(), ErrorKind::InvalidData);
        server.join().expect("it served");
    }

    #[test]
    fn a_sender_sends_while_the_stream_reads() {
        const PIECES: usize = 64;
        let (mut client, _, server) = pair(|mut stream| {
            let mut piece = vec![0; 64 << 10];
            for _ in 0..PIECES {
                stream.read_exact(&mut piece).expect("a piece");
                stream.write_all(&piece).expect("sent");
            }
            stream.flush().expect("sent");
        });
        client.shake_hands().expect("a handshake");
        let mut sender = client.sender();
        let sending = thread::spawn(move || {
            (0..PIECES).for_each(|at| {
                let piece = vec![u8::try_from(at).expect("few"); 64 << 10];
                sender.write_all(&piece).expect("sent");
            });
        });
        let mut piece = vec![0; 64 << 10];
        for at in 0..PIECES {
            client.read_exact(&mut piece).expect("a piece");
            assert!(piece.iter().all(|byte| usize::from(*byte) == at), "piece {at}");
        }
        sending.join().expect("all sent");
        server.join().expect("it served");
    }

    #[test]
    fn what_was_agreed_on_is_known() {
        let (mut client, der, server) = pair(|mut stream| answer(&mut stream));
        assert_eq!((client.version(), client.server_random()), (None, None));
        client.shake_hands().expect("a handshake");
        assert_eq!(client.version(), Some(VERSION_13));
        assert_eq!(client.protocol(), None);
        assert_eq!(client.certificate(), Some(der));
        assert!(client.server_random().is_some_and(|random| random != [0; 32]));
        assert!(!client.is_resumed());
        client.write_all(b"x").expect("sent");
        server.join().expect("it served");
        crate::waits::eventually(|| client.is_readable());
    }

    #[test]
    fn a_write_does_not_wait_for_a_server_that_is_full() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let socket = TcpStream::connect(listener.local_addr().expect("ours")).expect("connects");
        let client = TlsClient::new(&Authority::new(), TlsOffer::default());
        let mut stream = client.connect(socket, "a.test");
        stream.write_all(b"x").expect("kept");
        assert!(!stream.is_readable());
    }
}
