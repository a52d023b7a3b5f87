//! The choice of cryptography.
use rustls::crypto::{
    CryptoProvider,
    aws_lc_rs::{self, kx_group},
    ring::cipher_suite,
};

/// Returns the algorithms: key exchange and signatures of aws-lc, records by ring, whose AES-GCM is
/// faster on processors with AVX2 and without AVX-512. Suites and groups are named one by one, so
/// that the linker drops the others.
///
/// The key exchange that resists quantum computers (X25519MLKEM768) comes first. That is for
/// clients with this provider, as in tests: a server of rustls 0.23 takes the first group of the
/// client that it knows.
#[must_use]
pub fn crypto_provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![
            cipher_suite::TLS13_AES_256_GCM_SHA384,
            cipher_suite::TLS13_AES_128_GCM_SHA256,
            cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
            cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
            cipher_suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ],
        kx_groups: vec![
            kx_group::X25519MLKEM768,
            kx_group::X25519,
            kx_group::SECP256R1,
            kx_group::SECP384R1,
        ],
        ..aws_lc_rs::default_provider()
    }
}
