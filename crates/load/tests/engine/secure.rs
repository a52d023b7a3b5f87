//! Loads over TLS: what is trusted, what is counted, and that bytes are compared all the same.

use crate::server::{Answer, Asked, Server};
use crate::{closed, load, options, try_load};
use regatta_load::engine::{Fate, LoadOptions, Plan, TlsOptions, Verify};
use regatta_load::workload::content::Content;
use regatta_testkit::certificates::{
    Authority, IssuedCertificate, MadeCertificate, PKCS_ECDSA_P256_SHA256,
};
use regatta_testkit::folder::Folder;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use std::path::PathBuf;
use std::sync::Arc;

/// An authority and a certificate of it for `a.test`, in files.
pub(crate) struct Trust(Folder);

impl Trust {
    pub(crate) fn new() -> Self {
        Self::showing(|authority| authority.issue(&["a.test"]))
    }

    /// An authority, and the certificate that a server shows.
    fn showing(certificate: fn(&Authority) -> IssuedCertificate) -> Self {
        let (folder, authority) = (Folder::new("tls"), Authority::new());
        authority.write(&folder.join("ca.pem"));
        let _files = certificate(&authority).write(&folder, "");
        Self(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Settings of a server with that certificate. It may want one of its clients, too.
    pub(crate) fn config(&self, clients: Option<&MadeCertificate>) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(made) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(made.chain.as_bytes()).unwrap()).unwrap();
                let roots = Arc::new(roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let chain = CertificateDer::pem_file_iter(self.path("chain.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(self.path("key.pem")).unwrap();
        builder.with_single_cert(chain.map(Result::unwrap).collect(), key).unwrap()
    }

    /// Trusts the authority, and asks for the name that the certificate has.
    pub(crate) fn options(&self) -> TlsOptions {
        let (cacert, sni) = (Some(self.path("ca.pem")), Some("a.test".to_owned()));
        TlsOptions { cacert, sni, ..TlsOptions::default() }
    }
}

/// 300,000 bytes, which are many records, as the workload has them at this path.
fn content() -> Vec<u8> {
    let mut bytes = vec![0; 300_000];
    Content::new("/file").fill(0, &mut bytes);
    bytes
}

fn over_tls(server: &Server, tls: TlsOptions) -> LoadOptions {
    let url = format!("https://{}/file", server.addr);
    LoadOptions { tls, ..options(&url, closed(3)) }
}

#[test]
fn bytes_are_compared_and_handshakes_counted() {
    let trust = Trust::new();
    let body = content();
    let server = Server::over_tls(trust.config(None), move |asked: &Asked| {
        let mut body = body.clone();
        if asked.number == 7 {
            body[299_999] ^= 1;
        }
        Answer::ok(&body)
    });
    let options = LoadOptions {
        verify: Some(Verify::Generated),
        count: Some(20),
        requests_per_connection: Some(5),
        ..over_tls(&server, trust.options())
    };
    let outcome = load(&options);
    let fates = outcome.fates;
    assert_eq!((fates.get(Fate::Good), fates.get(Fate::WrongBytes)), (19, 1), "{fates:?}");
    let tls = outcome.tls.unwrap();
    assert_eq!((tls.full, tls.resumed, tls.failed), (outcome.connected, 0, 0));
    assert!(tls.full >= 4 && tls.agreed.starts_with("TLS 1.3, TLS13_AES_"), "{tls:?}");
    assert_eq!(outcome.phases.handshake.count(), outcome.connected);
    assert!(outcome.times.contains_key("handshake"));
    assert!(outcome.bytes_received > 20 * 300_000, "records have heads");

    let tls = TlsOptions { resume: true, ..trust.options() };
    let tls = load(&LoadOptions { tls, ..options }).tls.unwrap();
    assert!(tls.resumed > 0, "{tls:?}");
}

#[test]
fn certificates_are_judged() {
    let trust = Trust::new();
    let server = Server::over_tls(trust.config(None), |_| Answer::ok(b"x"));
    let another = Trust::new();
    let right = trust.options();
    for (what, tls, fault) in [
        ("trusted", right.clone(), None),
        ("any", TlsOptions { insecure: true, ..TlsOptions::default() }, None),
        // The other certificate has the same name.
        ("not trusted", another.options(), Some("BadSignature")),
        ("another name", TlsOptions { sni: None, ..right }, Some("NotValidForName")),
    ] {
        let options = over_tls(&server, tls);
        let Some(fault) = fault else {
            let outcome = load(&LoadOptions { count: Some(6), ..options });
            assert_eq!(outcome.fates.get(Fate::Good), 6, "{what}");
            continue;
        };
        let problem = try_load(&options).unwrap_err();
        let fault = fault.to_lowercase();
        let squeezed = problem.to_lowercase().replace(' ', "");
        assert!(squeezed.contains(&fault) || problem.contains("not valid for name"), "{problem}");
        assert!(problem.contains("--cacert"), "{problem}");
    }
}

#[test]
fn an_authority_s_own_certificate_is_explained() {
    let trust = Trust::showing(Authority::as_server);
    let server = Server::over_tls(trust.config(None), |_| Answer::ok(b"x"));
    let problem = try_load(&over_tls(&server, trust.options())).unwrap_err();
    assert!(problem.contains("CA:FALSE") && problem.contains("--insecure"), "{problem}");
}

#[test]
fn the_client_shows_a_certificate() {
    let trust = Trust::new();
    let made = MadeCertificate::new(&["me.test"], 2020..2100, &PKCS_ECDSA_P256_SHA256);
    made.write(&trust.path("me.pem"));
    let server = Server::over_tls(trust.config(Some(&made)), |_| Answer::ok(b"x"));
    let options = LoadOptions { count: Some(6), ..over_tls(&server, trust.options()) };
    let none = load(&options);
    assert_eq!(none.fates.get(Fate::Good), 0, "{:?}", none.fates);
    assert!(none.tls.unwrap().fault.contains("CertificateRequired"), "{:?}", none.fates);
    let (cert, key) = (Some(trust.path("me.pem")), Some(trust.path("me.pem")));
    let tls = TlsOptions { cert, key, ..trust.options() };
    assert_eq!(load(&LoadOptions { tls, ..options }).fates.get(Fate::Good), 6);
}

/// A content that ends with the connection is whole only if the session ended as well.
#[test]
fn an_end_without_the_alert_is_no_end() {
    let trust = Trust::new();
    let server = Server::over_tls(trust.config(None), |asked: &Asked| {
        let answer = Answer::bytes("HTTP/1.1 200 OK\r\n\r\nhalf");
        if asked.number.is_multiple_of(2) { answer.closing() } else { answer.cut() }
    });
    let options = LoadOptions { count: Some(8), ..over_tls(&server, trust.options()) };
    let fates = load(&options).fates;
    assert_eq!((fates.get(Fate::Good), fates.get(Fate::Truncated)), (4, 4), "{fates:?}");
}

#[test]
fn what_cannot_be_read_says_so() {
    let trust = Trust::new();
    std::fs::write(trust.path("empty.pem"), "").unwrap();
    let with = |change: fn(&mut TlsOptions, PathBuf), name: &str| {
        let mut tls = trust.options();
        change(&mut tls, trust.path(name));
        let options = LoadOptions { tls, ..options("https://127.0.0.1:1/", closed(1)) };
        Plan::new(&options).unwrap_err().join("; ")
    };
    for (name, what) in [("gone.pem", "--cacert"), ("empty.pem", "no certificate in PEM")] {
        let problem = with(|tls, path| tls.cacert = Some(path), name);
        assert!(problem.contains(what) && problem.contains(name), "{problem}");
    }
    let problem = with(
        |tls, path| {
            (tls.cert, tls.key) = (Some(path.with_file_name("chain.pem")), Some(path));
        },
        "gone.pem",
    );
    assert!(problem.contains("--key"), "{problem}");
    let problem = with(|tls, _| tls.sni = Some("a b".to_owned()), "");
    assert!(problem.contains("--sni"), "{problem}");
    let clear = LoadOptions { tls: trust.options(), ..options("http://127.0.0.1:1/", closed(1)) };
    assert!(Plan::new(&clear).unwrap_err()[0].contains("need a URL with https"));
}
