//! Bounds on the certificates that a client shows: on their number, and so on the time that judging
//! them takes, and on their bytes, which a connection keeps.
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use std::sync::Arc;

/// The most certificates of a client besides its own; copies count once.
pub(crate) const INTERMEDIATES_MAX: usize = 5;
/// The most bytes of a client's certificates, copies included: rustls keeps all of them until the
/// connection ends. Six with RSA keys of 4096 bits take some 12 KiB.
pub(crate) const CHAIN_BYTES_MAX: usize = 16 << 10;

/// Judge of clients that shows few certificates to another judge.
///
/// That one tries all paths through the certificates, up to 200,000 of them, before it checks a
/// signature. Hundreds of small certificates that all have one name fit in a message, and take it
/// many seconds. Among five certificates there are 326 paths.
#[derive(Debug)]
pub(crate) struct FewCertificates(pub(crate) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for FewCertificates {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes = intermediates.iter().fold(end_entity.len(), |sum, other| sum + other.len());
        if bytes > CHAIN_BYTES_MAX {
            return Err(CertificateError::ApplicationVerificationFailure.into());
        }
        let mut distinct = Vec::new();
        for certificate in intermediates {
            let certificate = CertificateDer::from(&**certificate);
            if distinct.contains(&certificate) {
                continue;
            }
            if distinct.len() == INTERMEDIATES_MAX {
                return Err(CertificateError::ApplicationVerificationFailure.into());
            }
            distinct.push(certificate);
        }
        self.0.verify_client_cert(end_entity, &distinct, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
