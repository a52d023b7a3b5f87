//! Settings that all connections of a kind of listener share.
use crate::{Tls, crypto_provider};
use regatta_origin::Seal;
use rustls::{
    Error, ServerConfig, SupportedProtocolVersion,
    server::{
        NoServerSessionStorage, ProducesTickets, ResolvesServerCert, UnbufferedServerConnection,
        danger::ClientCertVerifier,
    },
    version::{TLS12, TLS13},
};
use std::sync::Arc;

/// The most bytes of an incomplete handshake message that a connection keeps, with its records.
pub const HANDSHAKE_BYTES_MAX: usize = 16 << 10;
/// The same where clients have certificates.
pub const CLIENT_HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Session tickets that a client receives after a handshake of TLS 1.3.
const TICKETS: usize = 2;

/// Settings of a class of listeners.
#[derive(Clone, Debug)]
pub struct TlsSettings {
    /// Chooses the certificate of a handshake by the name that the client asks for.
    pub certificates: Arc<dyn ResolvesServerCert>,
    /// Judges certificates of clients. Without it, clients have none.
    pub clients: Option<Arc<dyn ClientCertVerifier>>,
    /// Makes and opens session tickets. Classes with certificates of clients have none: a ticket
    /// would stand for a certificate (CVE-2025-23419).
    pub tickets: Option<Arc<dyn ProducesTickets>>,
    /// The most bytes of an incomplete handshake message that a connection keeps. By default
    /// [`HANDSHAKE_BYTES_MAX`], or [`CLIENT_HANDSHAKE_BYTES_MAX`] with `clients`.
    pub handshake_bytes_max: Option<usize>,
    /// The oldest version that clients may use.
    pub version_min: TlsVersion,
    /// Whether a client may choose HTTP/2 (ALPN, RFC 7301).
    pub http2: bool,
}

/// Names of HTTP/2 (RFC 9113 §3.2) and HTTP/1.1 (RFC 7301 §6), the preferred one first. A client
/// that names no protocol speaks HTTP/1.1.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// Versions of TLS that are spoken, the latest first.
static VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS13, &TLS12];

impl TlsVersion {
    /// Versions from this one on.
    fn and_later(self) -> &'static [&'static SupportedProtocolVersion] {
        match self {
            Self::Tls12 => &VERSIONS,
            Self::Tls13 => &VERSIONS[..1],
        }
    }
}

/// Class of listeners with the same settings.
#[derive(Clone, Debug)]
pub struct TlsClass {
    config: Arc<ServerConfig>,
    handshake_bytes_max: usize,
}

impl TlsClass {
    /// Prepares connections with these settings.
    ///
    /// # Errors
    /// rustls refuses the settings.
    pub fn new(settings: TlsSettings) -> Result<Self, Error> {
        let TlsSettings { certificates, clients, tickets, version_min, .. } = settings;
        let provider = Arc::new(crypto_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(version_min.and_later())?;
        let has_clients = clients.is_some();
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(certificates);
        let protocols = if settings.http2 { &PROTOCOLS[..] } else { &PROTOCOLS[1..] };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.max_early_data_size = 0;
        config.send_tls13_tickets = 0;
        if let Some(tickets) = tickets.filter(|_| !has_clients) {
            config.ticketer = tickets;
            config.send_tls13_tickets = TICKETS;
        }
        let config = Arc::new(config);
        UnbufferedServerConnection::new(Arc::clone(&config))?;
        let most = if has_clients { CLIENT_HANDSHAKE_BYTES_MAX } else { HANDSHAKE_BYTES_MAX };
        Ok(Self { config, handshake_bytes_max: settings.handshake_bytes_max.unwrap_or(most) })
    }

    /// The server's end of a connection that was accepted just now.
    #[must_use]
    pub fn accept(&self) -> Tls {
        let conn = UnbufferedServerConnection::new(Arc::clone(&self.config));
        Tls::new(conn.expect("`new` has tried these settings"), self.handshake_bytes_max)
    }

    /// The same, for [`regatta_origin::Links::seal`].
    #[must_use]
    pub fn seal(&self) -> Box<dyn Seal> {
        Box::new(self.accept())
    }
}
