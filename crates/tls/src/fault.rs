//! Reasons of rustls as reasons of the origin.
use regatta_origin::SealFault;
use rustls::{Error, PeerIncompatible};

/// Returns the reason that is counted for an error of rustls.
pub(crate) const fn seal_fault(error: &Error) -> SealFault {
    match error {
        Error::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
            | PeerIncompatible::SupportedVersionsExtensionRequired
            | PeerIncompatible::Tls12NotOffered
            | PeerIncompatible::Tls12NotOfferedOrEnabled,
        ) => SealFault::Version,
        Error::PeerIncompatible(_) | Error::NoApplicationProtocol => SealFault::NothingInCommon,
        Error::NoCertificatesPresented
        | Error::InvalidCertificate(_)
        | Error::InvalidCertRevocationList(_) => SealFault::Certificate,
        Error::AlertReceived(_) => SealFault::Alert,
        Error::DecryptError
        | Error::InappropriateHandshakeMessage { .. }
        | Error::InappropriateMessage { .. }
        | Error::InvalidMessage(_)
        | Error::PeerMisbehaved(_)
        | Error::PeerSentOversizedRecord => SealFault::Record,
        _ => SealFault::Other,
    }
}
