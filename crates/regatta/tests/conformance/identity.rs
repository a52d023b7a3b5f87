//! Certificate of servers under test, and the client that trusts it.

use crate::site;
use regatta_testkit::certificates::Authority;
use regatta_testkit::tls::{TlsClient, TlsOffer};
use std::path::PathBuf;
use std::sync::OnceLock;

/// Name that clients ask for.
pub(crate) const NAME: &str = "regatta.test";

/// Names and addresses of the certificate.
const NAMES: [&str; 4] = [NAME, "*.regatta.test", "localhost", "127.0.0.1"];

/// Authority, certificate and client of all servers that choose no others.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) authority: Authority,
    /// Client that resumes no session.
    pub(crate) client: TlsClient,
    /// The same, for HTTP/2 alone.
    pub(crate) http2: TlsClient,
    /// Value of `tls.certificate`.
    pub(crate) certificate: String,
    /// File with the authority's certificate.
    pub(crate) authority_file: PathBuf,
}

/// The identity, which is made once.
pub(crate) fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        // Removed by a later run, as the common site is.
        let folder = site::fresh_folder("tls");
        let authority = Authority::new();
        let client = TlsClient::new(&authority, TlsOffer::default());
        let offer = TlsOffer { protocols: &["h2"], ..TlsOffer::default() };
        let http2 = TlsClient::new(&authority, offer);
        let certificate = authority.issue(&NAMES).write(&folder, "");
        let authority_file = folder.join("authority.pem");
        authority.write(&authority_file);
        Identity { authority, client, http2, certificate, authority_file }
    })
}
