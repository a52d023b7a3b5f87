//! Certificates of tests. They are made when the tests run, so none expires.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, CustomExtension, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
pub use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Certificate for `rsa.example`, valid from 2026-11-28 to 2126, and its RSA key, as PEM. The key
/// is no secret: tests alone use it. OpenSSL made it, because rcgen with ring makes no RSA keys.
pub const RSA_PEM: &str = include_str!("rsa.pem");

/// Access to information about an authority (RFC 5280 §4.2.2.1): its certificate is at an address.
const AUTHORITY_ACCESS: [u64; 9] = [1, 3, 6, 1, 5, 5, 7, 1, 1];
const ISSUER_ADDRESS: &[u8] =
    b"\x30\x1e\x30\x1c\x06\x08\x2b\x06\x01\x05\x05\x07\x30\x02\x86\x10http://ca.test/a";

/// Bytes of a line in a PEM section.
const PEM_LINE_BYTES: usize = 64;

/// Authority that signs the certificates of a test.
#[derive(Debug)]
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// Makes an authority with a key of its own.
    ///
    /// # Panics
    /// The system has no random numbers.
    #[must_use]
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Regatta's tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("random numbers");
        Self(CertifiedIssuer::self_signed(params, key).expect("settings of ours"))
    }

    /// Signs a certificate for these names and addresses. A first label `*` stands for any.
    ///
    /// # Panics
    /// A name is malformed, or there is none.
    #[must_use]
    pub fn issue(&self, names: &[&str]) -> IssuedCertificate {
        let mut params = params_for(names);
        params.distinguished_name.push(DnType::CommonName, names[0]);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let access = CustomExtension::from_oid_content(&AUTHORITY_ACCESS, ISSUER_ADDRESS.to_vec());
        params.custom_extensions = vec![access];
        let key = KeyPair::generate().expect("random numbers");
        let issuer: &Issuer<'static, KeyPair> = &self.0;
        let certificate = params.signed_by(&key, issuer).expect("settings of ours");
        let (der, key) = (certificate.der().to_vec(), key.serialize_der());
        IssuedCertificate { der, key, authority: self.der().to_vec() }
    }

    /// Certificate of the authority.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        self.0.der()
    }

    /// The authority's certificate as that of a server, which clients must refuse.
    #[must_use]
    pub fn as_server(&self) -> IssuedCertificate {
        let key = self.0.key().serialize_der();
        IssuedCertificate { der: self.der().to_vec(), key, authority: self.der().to_vec() }
    }

    /// Writes the authority's certificate, for programs that are to trust it.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, to: &Path) {
        fs::write(to, pem("CERTIFICATE", self.der())).expect("a file");
    }
}

/// Certificate of a server, with its key and its authority's certificate.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    /// The certificate itself.
    pub der: Vec<u8>,
    pub(crate) key: Vec<u8>,
    authority: Vec<u8>,
}

impl IssuedCertificate {
    /// Writes the chain and the key, which its owner alone may read, next to each other. Returns
    /// the value of `tls.certificate` for them. Files of the same name are replaced.
    ///
    /// # Panics
    /// They cannot be written.
    #[must_use]
    pub fn write(&self, folder: &Path, name: &str) -> String {
        let chain = folder.join(format!("{name}chain.pem"));
        let key = folder.join(format!("{name}key.pem"));
        let text = pem("CERTIFICATE", &self.der) + &pem("CERTIFICATE", &self.authority);
        fs::write(&chain, text).expect("a file");
        write_private(&key, &pem("PRIVATE KEY", &self.key));
        format!("{}:{}", chain.display(), key.display())
    }
}

/// A certificate that signed itself, and its key, as PEM texts.
#[derive(Clone, Debug)]
pub struct MadeCertificate {
    /// The certificate.
    pub chain: String,
    /// The private key.
    pub key: String,
}

impl MadeCertificate {
    /// Makes a certificate for these names, for the time from the begin of a year to that of
    /// another.
    ///
    /// # Panics
    /// A name or a year is none.
    #[must_use]
    pub fn new(names: &[&str], years: Range<i32>, kind: &'static SignatureAlgorithm) -> Self {
        let mut params = params_for(names);
        params.not_before = date_time_ymd(years.start, 1, 1);
        params.not_after = date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate_for(kind).expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            chain: pem("CERTIFICATE", certificate.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
        }
    }

    /// Writes the certificate and the key into one file, which its owner alone may read. A file of
    /// that name is replaced.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, path: &Path) {
        write_private(path, &format!("{}{}", self.chain, self.key));
    }
}

/// Settings of a certificate for these names and addresses.
fn params_for(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).expect("names of hosts")
}

/// Writes a file that others than its owner may not read.
fn write_private(path: &Path, text: &str) {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).expect("a file");
    file.write_all(text.as_bytes()).expect("a file");
}

/// A PEM section (RFC 7468). Programs with OpenSSL read no longer lines than these.
///
/// # Panics
/// Never: there is room for the text.
#[must_use]
pub fn pem(label: &str, der: &[u8]) -> String {
    let mut text = vec![0; der.len().div_ceil(3) * 4];
    let len = STANDARD.encode_slice(der, &mut text).expect("four characters for three bytes");
    let mut section = format!("-----BEGIN {label}-----\n");
    for line in text[..len].chunks(PEM_LINE_BYTES) {
        section += &String::from_utf8_lossy(line);
        section.push('\n');
    }
    section + &format!("-----END {label}-----\n")
}

#[cfg(test)]
mod tests {
    use super::{Authority, pem};
    use crate::folder::Folder;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn sections_have_short_lines() {
        let text = pem("X", &[0; 49]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "-----BEGIN X-----");
        assert_eq!(lines[1], "A".repeat(64));
        assert_eq!(&lines[2..], ["AA==", "-----END X-----"]);
    }

    #[test]
    fn keys_are_their_owners() {
        let folder = Folder::new("certificates");
        let both =
            Authority::new().issue(&["a.test", "*.a.test", "127.0.0.1"]).write(&folder, "a-");
        let (chain, key) = both.split_once(':').expect("two paths");
        assert_eq!(fs::read_to_string(chain).expect("a chain").matches("BEGIN").count(), 2);
        let mode = fs::metadata(key).expect("a key").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
