//! TLS 1.2 and 1.3 for connections of the origin: rustls behind [`regatta_origin::Seal`], without
//! I/O.
//!
//! A [`TlsClass`] is what all connections of a kind of listener share. It makes a [`Tls`] for each
//! of them. Cryptography is one value ([`crypto_provider`]).
#![forbid(unsafe_code)]

mod certificates;
mod class;
mod client_chain;
mod fault;
mod hello;
mod provider;
mod seal;
mod subject;
#[cfg(test)]
mod tests;
mod tickets;

pub use certificates::{
    CertificateFault, CertificateFiles, ClientVerifier, ServedCertificate, ServedCertificates,
    verify_clients,
};
pub use class::{
    CLIENT_HANDSHAKE_BYTES_MAX, HANDSHAKE_BYTES_MAX, TlsClass, TlsSettings, TlsVersion,
};
pub use provider::crypto_provider;
pub use rustls::{Error, server::ProducesTickets};
pub use seal::Tls;
pub use tickets::{
    TICKET_BYTES_MAX, TICKET_KEY_BYTES, TICKET_KEYS_MAX, TicketWords, Ticketer, fresh_ticket_key,
    read_ticket_key,
};
