//! The choice of cryptography.
use rustls::{
    NamedGroup,
    crypto::{CryptoProvider, aws_lc_rs, ring},
};

/// Returns the algorithms: key exchange and signatures of aws-lc, records by ring, whose AES-GCM is
/// faster on processors with AVX2 and without AVX-512.
///
/// The key exchange that resists quantum computers (X25519MLKEM768) comes first. That is for
/// clients with this provider, as in tests: a server of rustls 0.23 takes the first group of the
/// client that it knows.
#[must_use]
pub fn crypto_provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites = ring::default_provider().cipher_suites;
    provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
    provider
}
