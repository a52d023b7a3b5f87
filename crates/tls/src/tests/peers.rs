//! Two ends of a connection, with certificates and settings.
use crate::{Tls, TlsClass, TlsSettings, TlsVersion, crypto_provider};
use regatta_origin::{Progress, Seal, SealFault};
use rustls::{
    ClientConfig, ClientConnection, Error, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName},
    server::{ClientHello, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use std::{io::Read, sync::Arc};

/// Bytes of a client's chain.
const CHAIN_BYTES: usize = 42_000;
/// Rounds after which a handshake that is not over has stopped.
const ROUNDS_MAX: usize = 20;

/// A certificate that signed itself, and its key.
#[derive(Clone)]
pub(super) struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    pub(super) fn new() -> Self {
        let rcgen::CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        Self { certificate: cert.der().clone(), key: signing_key.serialize_der() }
    }

    fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        Arc::new(roots)
    }

    /// The certificate until its chain has [`CHAIN_BYTES`].
    fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone(); CHAIN_BYTES.div_ceil(self.certificate.len())]
    }
}

/// Certificate for every name.
#[derive(Debug)]
struct OneCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OneCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// Settings of a pair of peers.
pub(super) struct Options {
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    /// The oldest version that the server speaks.
    pub(super) version_min: TlsVersion,
    /// Whether the server speaks HTTP/2.
    pub(super) http2: bool,
    /// Application protocols of the client.
    pub(super) protocols: &'static [&'static str],
    pub(super) tickets: Option<Arc<dyn ProducesTickets>>,
    /// The server asks for certificates, and trusts the client's own.
    pub(super) clients: bool,
    /// The client has a certificate, in a long chain, where it is asked.
    pub(super) client_is_known: bool,
    /// Plain bytes and header of the client's records.
    pub(super) fragment: Option<usize>,
    pub(super) handshake_bytes_max: Option<usize>,
    /// The only certificate that the client trusts; by default the server's.
    pub(super) trusts: Option<Identity>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            versions: vec![&TLS12, &TLS13],
            version_min: TlsVersion::default(),
            http2: false,
            protocols: &["http/1.1"],
            tickets: None,
            clients: false,
            client_is_known: true,
            fragment: None,
            handshake_bytes_max: None,
            trusts: None,
        }
    }
}

/// A client of rustls and the seal.
pub(super) struct Pair {
    pub(super) class: TlsClass,
    identity: Identity,
    config: Arc<ClientConfig>,
    pub(super) client: ClientConnection,
    pub(super) server: Tls,
    /// The client's first fault.
    pub(super) client_fault: Option<Error>,
}

impl Pair {
    pub(super) fn new(options: &Options) -> Self {
        let identity = Identity::new();
        let class = class(options, &identity);
        let config = Arc::new(client_config(options, &identity));
        Self::connect(class, identity, config)
    }

    fn connect(class: TlsClass, identity: Identity, config: Arc<ClientConfig>) -> Self {
        let (client, server) = (client(&config), class.accept());
        Self { class, identity, config, client, server, client_fault: None }
    }

    /// Another connection with the same settings.
    pub(super) fn again(self) -> Self {
        Self::connect(self.class, self.identity, self.config)
    }

    /// Another connection of the client, to a server with its own settings.
    pub(super) fn at_another(self, options: &Options) -> Self {
        let class = class(options, &self.identity);
        Self::connect(class, self.identity, self.config)
    }

    /// Carries bytes in both directions until the handshake is over. Returns the number of bytes
    /// that answer each record, and whether they may wait.
    pub(super) fn shake_hands(&mut self) -> Result<Vec<(usize, bool)>, SealFault> {
        let mut replies = Vec::new();
        for _ in 0..ROUNDS_MAX {
            let mut wire = send(&mut self.client);
            let (mut at, mut reply, mut opened) = (0, Vec::new(), Ok(1));
            while at < wire.len() && opened.is_ok_and(|used| used > 0) {
                let before = reply.len();
                opened = self.server.open(&mut wire[at..], &mut Vec::new(), &mut reply);
                at += opened.unwrap_or(0);
                replies.push((reply.len() - before, self.server.reply_may_wait()));
            }
            if let Err(error) = receive(&mut self.client, &reply) {
                self.client_fault.get_or_insert(error);
            }
            opened?;
            let is_over = self.server.progress() == Progress::Open;
            if is_over && !self.client.is_handshaking() && !self.client.wants_write() {
                return Ok(replies);
            }
        }
        panic!("the handshake has stopped");
    }

    /// Sends this, and returns what arrives.
    pub(super) fn ask(&mut self, text: &[u8]) -> Result<Vec<u8>, SealFault> {
        std::io::Write::write_all(&mut self.client.writer(), text).unwrap();
        self.carry()
    }

    /// Carries the client's bytes to the server. Returns those opened there.
    pub(super) fn carry(&mut self) -> Result<Vec<u8>, SealFault> {
        let (mut wire, mut plain, mut reply) = (send(&mut self.client), Vec::new(), Vec::new());
        open_all(&mut self.server, &mut wire, &mut plain, &mut reply)?;
        assert!(reply.is_empty() && wire.is_empty());
        Ok(plain)
    }
}

pub(super) fn class(options: &Options, identity: &Identity) -> TlsClass {
    let provider = crypto_provider();
    let key = provider.key_provider.load_private_key(identity.key()).unwrap();
    let certified = CertifiedKey::new(vec![identity.certificate.clone()], key);
    let clients = options.clients.then(|| {
        let roots = identity.roots();
        WebPkiClientVerifier::builder_with_provider(roots, Arc::new(provider)).build().unwrap()
    });
    TlsClass::new(TlsSettings {
        certificates: Arc::new(OneCertificate(Arc::new(certified))),
        clients,
        tickets: options.tickets.clone(),
        handshake_bytes_max: options.handshake_bytes_max,
        version_min: options.version_min,
        http2: options.http2,
    })
    .unwrap()
}

pub(super) fn client_config(options: &Options, identity: &Identity) -> ClientConfig {
    let provider = Arc::new(crypto_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&options.versions).unwrap();
    let builder =
        builder.with_root_certificates(options.trusts.as_ref().unwrap_or(identity).roots());
    let mut config = if options.client_is_known {
        builder.with_client_auth_cert(identity.chain(), identity.key()).unwrap()
    } else {
        builder.with_no_client_auth()
    };
    config.alpn_protocols = options.protocols.iter().map(|name| name.as_bytes().into()).collect();
    config.max_fragment_size = options.fragment;
    config
}

pub(super) fn client(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::clone(config), name).unwrap()
}

/// Has a client fetch tickets of another server with this certificate, which takes early data.
pub(super) fn fetch_tickets(config: &Arc<ClientConfig>, identity: &Identity) {
    let provider = Arc::new(crypto_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(&[&TLS13]).unwrap().with_no_client_auth();
    let chain = vec![identity.certificate.clone()];
    let mut other = builder.with_single_cert(chain, identity.key()).unwrap();
    other.max_early_data_size = 64 << 10;
    let mut server = ServerConnection::new(Arc::new(other)).unwrap();
    let mut client = client(config);
    while client.is_handshaking() || server.is_handshaking() {
        let (wire, mut reply) = (send(&mut client), Vec::new());
        let mut rest = &wire[..];
        while !rest.is_empty() {
            server.read_tls(&mut rest).unwrap();
            server.process_new_packets().unwrap();
        }
        while server.wants_write() {
            server.write_tls(&mut reply).unwrap();
        }
        assert!(!(wire.is_empty() && reply.is_empty()), "the handshake has stopped");
        receive(&mut client, &reply).unwrap();
    }
}

/// Everything that the client has to send.
pub(super) fn send(client: &mut ClientConnection) -> Vec<u8> {
    let mut wire = Vec::new();
    while client.wants_write() {
        client.write_tls(&mut wire).unwrap();
    }
    wire
}

/// Gives the client these bytes. Returns those that it opened.
pub(super) fn receive(client: &mut ClientConnection, wire: &[u8]) -> Result<Vec<u8>, Error> {
    let (mut rest, mut plain) = (wire, Vec::new());
    while !rest.is_empty() {
        let read = client.read_tls(&mut rest).unwrap();
        let len = client.process_new_packets()?.plaintext_bytes_to_read();
        let at = plain.len();
        plain.resize(at + len, 0);
        client.reader().read_exact(&mut plain[at..]).unwrap();
        if read == 0 {
            break;
        }
    }
    Ok(plain)
}

/// Opens the whole records of `wire`, and leaves the rest there.
pub(super) fn open_all(
    server: &mut Tls,
    wire: &mut Vec<u8>,
    plain: &mut Vec<u8>,
    reply: &mut Vec<u8>,
) -> Result<(), SealFault> {
    let mut at = 0;
    while at < wire.len() {
        let used = server.open(&mut wire[at..], plain, reply)?;
        at += used;
        if used == 0 {
            break;
        }
    }
    wire.drain(..at);
    Ok(())
}
