//! Certificates of the server and authorities of clients, from the bytes of their files. A
//! certificate is chosen by the name that a client asks for.
use crate::{client_chain::FewCertificates, crypto_provider};
use rustls::{
    Error, InconsistentKeys, RootCertStore, SignatureAlgorithm, SignatureScheme,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer,
        pem::{self, PemObject},
    },
    server::{
        ClientHello, ResolvesServerCert, VerifierBuilderError, WebPkiClientVerifier,
        danger::ClientCertVerifier,
    },
    sign::CertifiedKey,
};
use std::{collections::HashMap, fmt, sync::Arc};
use x509_parser::{
    extensions::{GeneralName, ParsedExtension},
    oid_registry::OID_PKIX_ACCESS_DESCRIPTOR_CA_ISSUERS,
    parse_x509_certificate,
};

/// First byte of a DER sequence.
const SEQUENCE: u8 = 0x30;

/// Signatures that all browsers accept: neither Ed25519 nor ECDSA with P-521.
const BROWSER_SCHEMES: [SignatureScheme; 4] = [
    SignatureScheme::ECDSA_NISTP256_SHA256,
    SignatureScheme::ECDSA_NISTP384_SHA384,
    SignatureScheme::RSA_PSS_SHA256,
    SignatureScheme::RSA_PKCS1_SHA256,
];

/// Reason why files have no usable certificate.
#[derive(Debug)]
pub enum CertificateFault {
    /// A part of the file that contains the certificates is no PEM.
    ChainNotPem(pem::Error),
    /// A part of the file that contains the key is no PEM.
    KeyNotPem(pem::Error),
    /// The file contains no certificate.
    NoCertificate,
    /// The file contains no private key.
    NoKey,
    /// The private key has a passphrase.
    LockedKey,
    /// A certificate is malformed, or of a kind that TLS does not use.
    BadCertificate,
    /// The private key is malformed, or of a kind that TLS does not use.
    BadKey(Error),
    /// The private key is not that of the certificate.
    KeyMismatch,
    /// The file contains no response of OCSP in DER.
    NoOcspResponse,
    /// The file contains no list of revoked certificates.
    NoRevocationList,
    /// A part of the file that contains lists of revoked certificates is no PEM.
    ListNotPem(pem::Error),
    /// A list of revoked certificates is malformed.
    BadRevocationList,
}

impl fmt::Display for CertificateFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChainNotPem(error) | Self::KeyNotPem(error) | Self::ListNotPem(error) => {
                write!(f, "bad PEM: {error}")
            }
            Self::NoCertificate => f.write_str("no certificate in it (BEGIN CERTIFICATE)"),
            Self::NoKey => f.write_str("no private key in it (BEGIN PRIVATE KEY)"),
            Self::LockedKey => f.write_str("the private key has a passphrase"),
            Self::BadCertificate => f.write_str("a certificate that cannot be read"),
            Self::BadKey(error) => write!(f, "a private key that cannot be used: {error}"),
            Self::KeyMismatch => f.write_str("the private key is not that of the certificate"),
            Self::NoOcspResponse => f.write_str("no response of OCSP in DER"),
            Self::NoRevocationList => f.write_str("no list in it (BEGIN X509 CRL)"),
            Self::BadRevocationList => f.write_str("a list that cannot be read"),
        }
    }
}

impl std::error::Error for CertificateFault {}

/// Bytes of the files of a certificate. They may be one file.
#[derive(Clone, Copy)]
pub struct CertificateFiles<'a> {
    /// PEM text of the certificate, and of those that lead to an authority.
    pub chain: &'a [u8],
    /// PEM text of the private key.
    pub key: &'a [u8],
}

impl fmt::Debug for CertificateFiles<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key stays secret.
        let mut shown = f.debug_struct("CertificateFiles");
        shown.field("chain", &self.chain.len()).field("key", &self.key.len()).finish()
    }
}

/// Certificate with its chain and private key.
#[derive(Clone, Debug)]
pub struct ServedCertificate {
    certified: CertifiedKey,
    names: Vec<String>,
    valid_from: i64,
    valid_until: i64,
    /// The issuer's certificate is at an address, and is not in the chain.
    lacks_issuer: bool,
}

impl ServedCertificate {
    /// Reads the files of a certificate.
    ///
    /// # Errors
    /// The certificate or its key is missing or unusable, or they do not fit each other.
    pub fn read(files: CertificateFiles<'_>) -> Result<Self, CertificateFault> {
        let chain = certificates(files.chain)?;
        let (names, valid_from, valid_until) = facts(&chain[0])?;
        let lacks_issuer = chain.len() == 1 && has_issuer_elsewhere(&chain[0]);
        let key = PrivateKeyDer::from_pem_slice(files.key).map_err(|error| match error {
            _ if has_locked_key(files.key) => CertificateFault::LockedKey,
            pem::Error::NoItemsFound => CertificateFault::NoKey,
            error => CertificateFault::KeyNotPem(error),
        })?;
        let certified = CertifiedKey::from_der(chain, key, &crypto_provider());
        let certified = certified.map_err(|error| match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CertificateFault::KeyMismatch,
            Error::InvalidCertificate(_) => CertificateFault::BadCertificate,
            error => CertificateFault::BadKey(error),
        })?;
        Ok(Self { certified, names, valid_from, valid_until, lacks_issuer })
    }

    /// Sends this response of OCSP with the certificate.
    ///
    /// # Errors
    /// The bytes are no DER.
    pub fn staple(&mut self, response: &[u8]) -> Result<(), CertificateFault> {
        if response.first() != Some(&SEQUENCE) {
            return Err(CertificateFault::NoOcspResponse);
        }
        self.certified.ocsp = Some(response.to_vec());
        Ok(())
    }

    /// Names of hosts in lower case. One may begin with `*.`.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// True for an RSA key: its signatures take the most of the server's processor time.
    #[must_use]
    pub fn has_rsa_key(&self) -> bool {
        self.certified.key.algorithm() == SignatureAlgorithm::RSA
    }

    /// True if browsers accept its signatures. They know RSA, and ECDSA with P-256 and P-384.
    #[must_use]
    pub fn suits_browsers(&self) -> bool {
        self.certified.key.choose_scheme(&BROWSER_SCHEMES).is_some()
    }

    /// True if the chain is the certificate alone, and an authority has issued it that clients do
    /// not have: it says where the authority's own certificate is.
    #[must_use]
    pub const fn lacks_issuer(&self) -> bool {
        self.lacks_issuer
    }

    /// Start of its validity, seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn valid_from(&self) -> i64 {
        self.valid_from
    }

    /// End of its validity, seconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn valid_until(&self) -> i64 {
        self.valid_until
    }
}

/// Reads all certificates of a PEM text. There is at least one.
fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateFault> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let all = all.map_err(CertificateFault::ChainNotPem)?;
    if all.is_empty() { Err(CertificateFault::NoCertificate) } else { Ok(all) }
}

/// True if a PEM text has a private key with a passphrase, in PKCS #8 (RFC 7468 §11) or in the
/// older form of OpenSSL (RFC 1421 §4.6.1.1).
fn has_locked_key(text: &[u8]) -> bool {
    let marks: [&[u8]; 2] = [b"BEGIN ENCRYPTED PRIVATE KEY", b"Proc-Type: 4,ENCRYPTED"];
    marks.iter().any(|mark| text.windows(mark.len()).any(|part| part == *mark))
}

/// Names of a certificate, and start and end of its validity.
fn facts(certificate: &CertificateDer<'_>) -> Result<(Vec<String>, i64, i64), CertificateFault> {
    let (_, parsed) = parse_x509_certificate(certificate.as_ref())
        .map_err(|_| CertificateFault::BadCertificate)?;
    let extension =
        parsed.subject_alternative_name().map_err(|_| CertificateFault::BadCertificate)?;
    let mut names = Vec::new();
    for name in extension.iter().flat_map(|extension| &extension.value.general_names) {
        if let GeneralName::DNSName(name) = name {
            names.push(name.to_ascii_lowercase());
        }
    }
    let validity = parsed.validity();
    Ok((names, validity.not_before.timestamp(), validity.not_after.timestamp()))
}

/// True if a certificate names the place of its issuer's (RFC 5280 §4.2.2.1), and is not its own
/// issuer.
fn has_issuer_elsewhere(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, parsed)) = parse_x509_certificate(certificate.as_ref()) else { return false };
    let says_where = parsed.extensions().iter().any(|extension| {
        let access = match extension.parsed_extension() {
            ParsedExtension::AuthorityInfoAccess(access) => access,
            _ => return false,
        };
        access
            .accessdescs
            .iter()
            .any(|at| at.access_method == OID_PKIX_ACCESS_DESCRIPTOR_CA_ISSUERS)
    });
    says_where && parsed.issuer() != parsed.subject()
}

/// Certificates of one name, at most one for each kind of key.
type Candidates = Vec<Arc<CertifiedKey>>;

/// All certificates of a class of listeners, by their names.
///
/// A client receives the certificate for the name that it asks for. A name of a certificate
/// precedes a wildcard. A wildcard stands for one label, the leftmost. Without a name, or with one
/// that no certificate has, the first certificate answers. Where there are several kinds of keys,
/// the first that the client supports counts. A choice makes at most two look-ups.
#[derive(Debug)]
pub struct ServedCertificates {
    exact: HashMap<String, Candidates>,
    /// By the name without its leftmost label.
    wildcards: HashMap<String, Candidates>,
    others: Candidates,
}

impl ServedCertificates {
    /// Arranges certificates. Of two with one name and the same kind of key, the first counts.
    #[must_use]
    pub fn new(certificates: impl IntoIterator<Item = ServedCertificate>) -> Self {
        let mut all = Self { exact: HashMap::new(), wildcards: HashMap::new(), others: Vec::new() };
        for ServedCertificate { certified, names, .. } in certificates {
            let certified = Arc::new(certified);
            for name in names {
                let candidates = match name.strip_prefix("*.") {
                    Some(rest) => all.wildcards.entry(rest.to_owned()).or_default(),
                    None => all.exact.entry(name).or_default(),
                };
                add(candidates, &certified);
            }
            add(&mut all.others, &certified);
        }
        all
    }

    /// True if a certificate has this name, which is in lower case.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.named(name).is_some()
    }

    fn named(&self, name: &str) -> Option<&Candidates> {
        self.exact.get(name).or_else(|| {
            let (_, rest) = name.split_once('.').filter(|(label, _)| !label.is_empty())?;
            self.wildcards.get(rest)
        })
    }

    /// Chooses the certificate for a name in lower case, if there is any.
    fn choose(
        &self,
        name: Option<&str>,
        offered: &[SignatureScheme],
    ) -> Option<&Arc<CertifiedKey>> {
        let candidates = name.and_then(|name| self.named(name)).unwrap_or(&self.others);
        let is_supported =
            |candidate: &&Arc<CertifiedKey>| candidate.key.choose_scheme(offered).is_some();
        candidates.iter().find(is_supported).or_else(|| candidates.first())
    }
}

/// Adds a candidate, unless there is one with the same kind of key.
fn add(candidates: &mut Candidates, certified: &Arc<CertifiedKey>) {
    let kind: SignatureAlgorithm = certified.key.algorithm();
    if candidates.iter().all(|other| other.key.algorithm() != kind) {
        candidates.push(Arc::clone(certified));
    }
}

impl ResolvesServerCert for ServedCertificates {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // rustls passes the name in lower case.
        self.choose(client_hello.server_name(), client_hello.signature_schemes()).cloned()
    }
}

/// Judge of the certificates of clients.
pub type ClientVerifier = Arc<dyn ClientCertVerifier>;

/// Makes the judge of the certificates of clients. `authorities` and `revoked` are PEM texts. With
/// `revoked`, each authority in the chain of a client needs a list there. A client that shows more
/// than five certificates besides its own is refused.
///
/// # Errors
/// A text contains nothing, or something malformed.
pub fn verify_clients(
    authorities: &[u8],
    revoked: Option<&[u8]>,
) -> Result<ClientVerifier, CertificateFault> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(authorities)? {
        roots.add(authority).map_err(|_| CertificateFault::BadCertificate)?;
    }
    let lists = revoked.map(revocation_lists).transpose()?.unwrap_or_default();
    let provider = Arc::new(crypto_provider());
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    let verifier = builder.with_crls(lists).build().map_err(|error| match error {
        VerifierBuilderError::InvalidCrl(_) => CertificateFault::BadRevocationList,
        _ => CertificateFault::NoCertificate,
    })?;
    Ok(Arc::new(FewCertificates(verifier)))
}

fn revocation_lists(
    text: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificateFault> {
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
    let all = all.map_err(CertificateFault::ListNotPem)?;
    if all.is_empty() { Err(CertificateFault::NoRevocationList) } else { Ok(all) }
}

#[cfg(test)]
mod tests;
