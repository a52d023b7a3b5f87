//! Encrypted listeners: their classes, and the settings that the connections of a class share.
use crate::{
    handover::CertificateId,
    listens::{TLS, TLS_CLIENTS, TlsParts},
    ticket_keys::TicketKeys,
};
use regatta_arch::options::Settings;
use regatta_origin::{ListenerClass, Seal};
use regatta_tls::{
    ClientVerifier, Error, ProducesTickets, ServedCertificates, TlsClass, TlsSettings, TlsVersion,
};
use std::sync::Arc;

/// Settings of encrypted connections, by class. Workers inherit them from the master.
#[derive(Clone, Debug, Default)]
pub(crate) struct TlsFront {
    /// For `tls.listen`, if that has addresses.
    any: Option<TlsClass>,
    /// For `tls.client_listen`, if that has addresses.
    clients: Option<TlsClass>,
    ids: Arc<[CertificateId]>,
}

impl TlsFront {
    /// Prepares the classes that have addresses. Without parts there are none.
    ///
    /// # Errors
    /// rustls refuses the settings.
    pub(crate) fn new(
        settings: &Settings,
        parts: Option<TlsParts>,
        tickets: Option<&TicketKeys>,
    ) -> Result<Self, Error> {
        let Some(TlsParts { certificates, ids, clients }) = parts else {
            return Ok(Self::default());
        };
        let certificates = Arc::new(certificates);
        let has = |key| !settings.list(key).is_empty();
        let tickets = tickets.map(|keys| keys.ticketer(TLS));
        let any = has("tls.listen").then(|| class(settings, &certificates, None, tickets));
        let any = any.transpose()?;
        let clients = clients.filter(|_| has("tls.client_listen"));
        let clients =
            clients.map(|of| class(settings, &certificates, Some(of), None)).transpose()?;
        Ok(Self { any, clients, ids: ids.into() })
    }

    /// The certificates that are served.
    pub(crate) fn certificates(&self) -> &[CertificateId] {
        &self.ids
    }

    /// Encryption of a connection to a listener of this class, if any.
    pub(crate) fn seal(&self, class: ListenerClass) -> Option<Box<dyn Seal>> {
        match class {
            TLS => self.any.as_ref().map(TlsClass::seal),
            TLS_CLIENTS => self.clients.as_ref().map(TlsClass::seal),
            _ => None,
        }
    }
}

fn class(
    settings: &Settings,
    certificates: &Arc<ServedCertificates>,
    clients: Option<ClientVerifier>,
    tickets: Option<Arc<dyn ProducesTickets>>,
) -> Result<TlsClass, Error> {
    let bytes_max: usize = settings.number_as("tls.handshake_bytes_max");
    let certificates = Arc::clone(certificates);
    TlsClass::new(TlsSettings {
        certificates,
        clients,
        tickets,
        handshake_bytes_max: (bytes_max > 0).then_some(bytes_max),
        version_min: version_min(settings),
        http2: settings.flag("http2.enabled"),
    })
}

fn version_min(settings: &Settings) -> TlsVersion {
    match settings.text("tls.version_min") {
        "1.3" => TlsVersion::Tls13,
        _ => TlsVersion::Tls12,
    }
}
