//! Lists of addresses in the configuration, the class of the listeners of each, and parts of files
//! that encrypted ones need.
use crate::handover::CertificateId;
use regatta_arch::{
    layout::{LayoutFault, ListenPlace},
    options::Settings,
};
use regatta_origin::ListenerClass;
use regatta_sys::socket::Place;
use regatta_tls::{ClientVerifier, ServedCertificates};

/// Class of `tls.listen`.
pub(crate) const TLS: ListenerClass = ListenerClass(1);
/// Class of `tls.client_listen`.
pub(crate) const TLS_CLIENTS: ListenerClass = ListenerClass(2);

/// Options that list addresses, and the class of each.
pub(crate) static LISTENS: [(&str, ListenerClass); 3] = [
    ("server.listen", ListenerClass::CLEAR),
    ("tls.listen", TLS),
    ("tls.client_listen", TLS_CLIENTS),
];

/// Option that lists the addresses of a class.
pub(crate) fn listen_key(class: ListenerClass) -> &'static str {
    LISTENS.iter().find(|(_, other)| *other == class).map_or(LISTENS[0].0, |(key, _)| *key)
}

/// Option to report a fault of the layout at.
pub(crate) fn fault_key(fault: &LayoutFault) -> &'static str {
    match fault.class {
        ListenerClass::CLEAR => fault.key,
        class => listen_key(class),
    }
}

/// True if there are addresses with TLS.
pub(crate) fn is_wanted(settings: &Settings) -> bool {
    LISTENS[1..].iter().any(|(key, _)| !settings.list(key).is_empty())
}

/// True if connections to listeners of a class may be of HTTP/2.
pub(crate) fn speaks_http2(settings: &Settings, class: ListenerClass) -> bool {
    let is_clear = class == ListenerClass::CLEAR;
    settings.flag("http2.enabled") && (!is_clear || settings.flag("http2.clear"))
}

/// Limit of unsent bytes of connections to listeners of a class; 0 is none. In the clear nearly all
/// speak HTTP/1, which it would cost calls.
pub(crate) fn unsent_bytes_max(settings: &Settings, class: ListenerClass) -> u32 {
    match class != ListenerClass::CLEAR && speaks_http2(settings, class) {
        true => settings.number_as("http2.unsent_bytes_max"),
        false => 0,
    }
}

/// Start of a URL of this address. A path has none in the clear.
pub(crate) fn scheme(listen: &ListenPlace) -> &'static str {
    match (&listen.place, listen.class) {
        (Place::Inet(_), ListenerClass::CLEAR) => "http://",
        (Place::Inet(_), _) => "https://",
        (Place::Unix(_), _) => "",
    }
}

/// Parts of files that encrypted connections need.
#[derive(Debug)]
pub(crate) struct TlsParts {
    /// Certificates of the server.
    pub(crate) certificates: ServedCertificates,
    /// Names of these, for the next image.
    pub(crate) ids: Vec<CertificateId>,
    /// Judge of certificates in the class [`TLS_CLIENTS`].
    pub(crate) clients: Option<ClientVerifier>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::raw::tests::of_sets;

    #[test]
    fn unsent_bytes_are_limited_where_most_speak_http2() {
        for (sets, limits) in [
            (&[][..], [0, 65_536, 65_536]),
            (&["http2.unsent_bytes_max=16384"], [0, 16_384, 16_384]),
            (&["http2.unsent_bytes_max=0"], [0; 3]),
            (&["http2.clear=false"], [0, 65_536, 65_536]),
            (&["http2.enabled=false"], [0; 3]),
        ] {
            let settings = of_sets(sets).settings;
            let found = LISTENS.map(|(_, class)| unsent_bytes_max(&settings, class));
            assert_eq!(found, limits, "{sets:?}");
        }
    }

    #[test]
    fn a_fault_of_an_address_is_reported_where_it_is_listed() {
        let key_of = |key, class| fault_key(&LayoutFault { key, class, message: String::new() });
        assert_eq!(key_of("event.copies", ListenerClass::CLEAR), "event.copies");
        assert_eq!(key_of("server.listen", TLS), "tls.listen");
        assert_eq!(key_of("server.listen", TLS_CLIENTS), "tls.client_listen");
    }
}
