//! Certificates that tests make when they run.

use crate::authority::pem;
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
pub use rcgen::{PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm};
use std::ops::Range;

/// Certificate for `rsa.example`, valid from 2026-11-28 to 2126, and its RSA key, as PEM. The key
/// is no secret: tests alone use it. OpenSSL made it, because rcgen with ring makes no RSA keys.
pub const RSA_PEM: &str = include_str!("rsa.pem");

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
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names of hosts");
        params.not_before = date_time_ymd(years.start, 1, 1);
        params.not_after = date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate_for(kind).expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self {
            chain: pem("CERTIFICATE", certificate.der()),
            key: pem("PRIVATE KEY", &key.serialize_der()),
        }
    }
}
