//! The choice of cryptography.
use rustls::{
    NamedGroup,
    crypto::{CryptoProvider, aws_lc_rs, ring},
};

/// Libraries that do the cryptography.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cryptography {
    /// Key exchange and signatures of aws-lc, records by ring: its AES-GCM is faster on processors
    /// with AVX2 and without AVX-512.
    #[default]
    Mixed,
    /// aws-lc alone.
    AwsLc,
}

/// Returns the algorithms of a choice. The key exchange that resists quantum computers
/// (X25519MLKEM768) comes first. That is for clients with this provider, as in tests: a server of
/// rustls 0.23 takes the first group of the client that it knows.
#[must_use]
pub fn crypto_provider(choice: Cryptography) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if choice == Cryptography::Mixed {
        provider.cipher_suites = ring::default_provider().cipher_suites;
    }
    provider.kx_groups.sort_by_key(|group| group.name() != NamedGroup::X25519MLKEM768);
    provider
}
