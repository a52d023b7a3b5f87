//! TLS of a client: its options, the settings that all connections share, and one connection.
//!
//! The cryptography is that of the server (`crates/tls`), so that both pay the same for it.

use crate::number::index;
use clap::Args;
use regatta_sys::send_last;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, HandshakeKind, NamedGroup, RootCertStore,
    SignatureScheme,
};
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Options of TLS.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// https: accept any certificate.
    #[arg(long, short = 'k', conflicts_with = "cacert")]
    pub insecure: bool,
    /// https: trust these authorities (PEM); by default those of the system.
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// https: name to ask for, and to find in the certificate; by default the URL's host.
    #[arg(long, value_name = "NAME")]
    pub sni: Option<String>,
    /// https: certificate chain of the client (PEM).
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// https: private key of the client (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
    /// https: resume sessions; by default each connection makes a full handshake.
    #[arg(long)]
    pub resume: bool,
}

/// Settings that all connections of a load share.
#[derive(Clone, Debug)]
pub(super) struct TlsSetup {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Files with the system's authorities: Debian, Fedora, openSUSE, Alpine.
const SYSTEM_ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

impl TlsOptions {
    /// Reads the files, for connections to `host` that offer these application protocols.
    pub(super) fn set_up(&self, host: &str, protocols: &[&[u8]]) -> Result<TlsSetup, String> {
        let name = self.sni.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|_| format!("{name:?} is no name for TLS: give --sni NAME"))?;
        let provider = Arc::new(provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?;
        let builder = if self.insecure {
            let any = AnyCertificate(provider.signature_verification_algorithms);
            builder.dangerous().with_custom_certificate_verifier(Arc::new(any))
        } else {
            builder.with_root_certificates(self.roots()?)
        };
        let mut config = match self.cert.as_deref().zip(self.key.as_deref()) {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let chain = certificates("--cert", cert)?;
                let read = PrivateKeyDer::from_pem_file(key)
                    .map_err(|error| format!("--key {}: {error}", key.display()))?;
                builder
                    .with_client_auth_cert(chain, read)
                    .map_err(|error| format!("--cert {}: {error}", cert.display()))?
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        if !self.resume {
            config.resumption = Resumption::disabled();
        }
        Ok(TlsSetup { config: Arc::new(config), name })
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.cacert {
            for certificate in certificates("--cacert", path)? {
                roots
                    .add(certificate)
                    .map_err(|error| format!("--cacert {}: {error}", path.display()))?;
            }
            return Ok(roots);
        }
        let Some(path) = SYSTEM_ROOTS.map(Path::new).into_iter().find(|path| path.exists()) else {
            let what = "the system has no file of authorities: give --cacert FILE, or --insecure";
            return Err(what.to_owned());
        };
        // Old roots that cannot be read are no reason to refuse the others.
        roots.add_parsable_certificates(certificates("authorities", path)?);
        Ok(roots)
    }
}

fn certificates(what: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |problem: &dyn std::fmt::Display| format!("{what} {}: {problem}", path.display());
    let found =
        CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let found = found.map_err(|error| wrong(&error))?;
    if found.is_empty() { Err(wrong(&"the file has no certificate in PEM")) } else { Ok(found) }
}

/// Key exchange of aws-lc, records by ring.
fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = ring::default_provider().cipher_suites;
    provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
    provider
}

/// Verifier for `--insecure`: any certificate will do, but its key must have signed.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// TLS of one connection.
#[derive(Debug)]
pub(super) struct Secure {
    session: ClientConnection,
    /// Start of the handshake.
    pub(super) begun: u64,
    /// The peer has said that it sends no more.
    pub(super) is_closed: bool,
}

impl Secure {
    pub(super) fn begin(setup: &TlsSetup, now: u64) -> Result<Box<Self>, Error> {
        let session = ClientConnection::new(Arc::clone(&setup.config), setup.name.clone())?;
        Ok(Box::new(Self { session, begun: now, is_closed: false }))
    }

    pub(super) fn is_shaking(&self) -> bool {
        self.session.is_handshaking()
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.session.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// Whether ALPN agreed on this protocol.
    pub(super) fn speaks(&self, protocol: &[u8]) -> bool {
        self.session.alpn_protocol() == Some(protocol)
    }

    /// Version, cipher suite and application protocol, in words.
    pub(super) fn describe(&self) -> String {
        let version = self.session.protocol_version();
        let version = version.and_then(|version| version.as_str());
        let version = version.map_or("?", |name| name.strip_prefix("TLSv1_").unwrap_or(name));
        let suite = self.session.negotiated_cipher_suite().map(|suite| suite.suite());
        let suite = suite.and_then(|suite| suite.as_str()).unwrap_or("?");
        let protocol = self.session.alpn_protocol().map(String::from_utf8_lossy);
        let protocol = protocol.map_or(String::new(), |name| format!(", {name}"));
        format!("TLS 1.{version}, {suite}{protocol}")
    }

    /// Takes bytes of the wire and returns how many bytes of content are now in `out`, which must
    /// have room for those and for a record that began before.
    pub(super) fn decrypt(&mut self, mut wire: &[u8], out: &mut [u8]) -> Result<usize, Error> {
        let mut filled = self.take(out);
        while !wire.is_empty() && !self.is_closed {
            // Fails only when its buffers are full, which are emptied each time.
            let fed = self.session.read_tls(&mut wire);
            fed.map_err(|error| Error::General(error.to_string()))?;
            let state = self.session.process_new_packets()?;
            self.is_closed = state.peer_has_closed();
            filled += self.take(&mut out[filled..]);
        }
        Ok(filled)
    }

    pub(super) fn take(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while let Ok(bytes @ 1..) = self.session.reader().read(&mut out[filled..]) {
            filled += bytes;
        }
        filled
    }

    /// Encrypts a part of `content`, and returns how much. 0: send first.
    pub(super) fn encrypt(&mut self, content: &[u8]) -> io::Result<usize> {
        self.session.writer().write(content)
    }

    /// Sends what is encrypted, until the kernel takes no more. Returns how many bytes went out;
    /// [`Secure::has_unsent`] says whether some remain.
    pub(super) fn send(&mut self, fd: BorrowedFd<'_>) -> io::Result<u64> {
        let mut sent = 0;
        while self.session.wants_write() {
            match self.session.write_tls(&mut Socket(fd)) {
                Ok(bytes) => sent += bytes as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Sends the alert that ends the session, if the socket has room.
    pub(super) fn end(&mut self, fd: BorrowedFd<'_>) {
        self.session.send_close_notify();
        // The peer may be gone.
        let _ = self.send(fd);
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.session.wants_write()
    }
}

/// Encrypted bytes that one receive takes at most. Their content, and that of a record that began
/// before, fits the input.
pub(super) const CIPHER_BYTES: usize = 64 << 10;

/// A socket as the standard library's trait has it.
struct Socket<'a>(BorrowedFd<'a>);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send_last(self.0, bytes).map(index)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
