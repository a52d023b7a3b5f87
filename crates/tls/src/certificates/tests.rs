//! Certificates by name, their faults, and judges of clients.
use super::*;
use crate::client_chain::{CHAIN_BYTES_MAX, INTERMEDIATES_MAX};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use regatta_testkit::certificates::{
    MadeCertificate, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, SignatureAlgorithm as MadeKind, pem,
};
use rustls::{
    ClientConfig, ClientConnection, ServerConfig, ServerConnection,
    pki_types::{ServerName, UnixTime},
};
use std::time::Duration;

fn pair(names: &[&str], kind: &'static MadeKind) -> (Vec<u8>, Vec<u8>) {
    let MadeCertificate { chain, key } = MadeCertificate::new(names, 2020..2030, kind);
    (chain.into_bytes(), key.into_bytes())
}

fn read(chain: &[u8], key: &[u8]) -> Result<ServedCertificate, CertificateFault> {
    ServedCertificate::read(CertificateFiles { chain, key })
}

fn served(names: &[&str], kind: &'static MadeKind) -> ServedCertificate {
    let (chain, key) = pair(names, kind);
    read(&chain, &key).unwrap()
}

#[test]
fn a_certificate_is_read_with_its_names_and_times() {
    let (chain, key) = pair(&["A.example", "*.a.example", "192.0.2.1"], &PKCS_ECDSA_P256_SHA256);
    let one_file = [key.clone(), chain.clone()].concat();
    for (chain, key) in [(&chain, &key), (&one_file, &one_file)] {
        let read = read(chain, key).unwrap();
        assert_eq!(read.names(), ["a.example", "*.a.example"]);
        assert_eq!((read.valid_from(), read.valid_until()), (1_577_836_800, 1_893_456_000));
    }
}

#[test]
fn faults_of_files_are_told_apart() {
    let (chain, key) = pair(&["a.example"], &PKCS_ECDSA_P256_SHA256);
    let (_, other) = pair(&["a.example"], &PKCS_ECDSA_P256_SHA256);
    let torn = &chain[..chain.len() - 5];
    let section = |label: &str| pem(label, b"none").into_bytes();
    let locked = section("ENCRYPTED PRIVATE KEY");
    let (no_certificate, no_key) = (section("CERTIFICATE"), section("PRIVATE KEY"));
    let fault = |chain: &[u8], key: &[u8]| read(chain, key).unwrap_err();
    assert!(matches!(fault(b"", &key), CertificateFault::NoCertificate));
    assert!(matches!(fault(&key, &key), CertificateFault::NoCertificate));
    assert!(matches!(fault(&chain, &chain), CertificateFault::NoKey));
    assert!(matches!(fault(&chain, &locked), CertificateFault::LockedKey));
    assert!(matches!(fault(&torn[..torn.len() - 20], &key), CertificateFault::ChainNotPem(_)));
    assert!(matches!(fault(&chain, &key[..40]), CertificateFault::KeyNotPem(_)));
    assert!(matches!(fault(&no_certificate, &key), CertificateFault::BadCertificate));
    assert!(matches!(fault(&chain, &no_key), CertificateFault::BadKey(_)));
    assert!(matches!(fault(&chain, &other), CertificateFault::KeyMismatch));
    let mut good = read(&chain, &key).unwrap();
    assert!(matches!(good.staple(&chain), Err(CertificateFault::NoOcspResponse)));
    good.staple(&[SEQUENCE, 0]).unwrap();
    assert_eq!(good.certified.ocsp.as_deref(), Some(&[SEQUENCE, 0][..]));
}

#[test]
fn a_key_stays_out_of_messages() {
    let (chain, key) = (b"chain".as_slice(), b"secret".as_slice());
    let shown = format!("{:?}", CertificateFiles { chain, key });
    assert_eq!(shown, "CertificateFiles { chain: 5, key: 6 }");
}

/// Number of the certificate that a client receives. Numbers are the first bytes of responses.
fn chosen(all: &ServedCertificates, name: Option<&str>, offered: &[SignatureScheme]) -> u8 {
    all.choose(name, offered).unwrap().ocsp.as_ref().unwrap()[1]
}

fn numbered(certificates: Vec<ServedCertificate>) -> ServedCertificates {
    ServedCertificates::new((0..).zip(certificates).map(|(number, mut certificate)| {
        certificate.staple(&[SEQUENCE, number]).unwrap();
        certificate
    }))
}

#[test]
fn the_name_chooses_the_certificate() {
    let all = numbered(vec![
        served(&["a.example"], &PKCS_ECDSA_P256_SHA256),
        served(&["*.b.example"], &PKCS_ECDSA_P256_SHA256),
        served(&["B.example", "x.b.example"], &PKCS_ECDSA_P256_SHA256),
        served(&["a.example", "c.example"], &PKCS_ECDSA_P256_SHA256),
    ]);
    let schemes = [SignatureScheme::ECDSA_NISTP256_SHA256];
    for (name, expected, is_named) in [
        ("a.example", 0, true),
        ("y.b.example", 1, true),
        ("x.b.example", 2, true),
        ("b.example", 2, true),
        ("c.example", 3, true),
        ("y.x.b.example", 0, false),
        (".b.example", 0, false),
        ("example", 0, false),
        ("d.example", 0, false),
        ("", 0, false),
    ] {
        assert_eq!(chosen(&all, Some(name), &schemes), expected, "{name}");
        assert_eq!(all.has_name(name), is_named, "{name}");
    }
    assert_eq!(chosen(&all, None, &schemes), 0);
    assert_eq!(chosen(&all, None, &[]), 0, "the handshake fails later");
    assert!(ServedCertificates::new([]).choose(None, &schemes).is_none());
}

#[test]
fn the_client_chooses_the_kind_of_key() {
    let all = numbered(vec![
        served(&["a.example"], &PKCS_ED25519),
        served(&["b.example"], &PKCS_ECDSA_P256_SHA256),
        served(&["a.example"], &PKCS_ECDSA_P256_SHA256),
        served(&["a.example"], &PKCS_ED25519),
    ]);
    let (ed, ec) = (SignatureScheme::ED25519, SignatureScheme::ECDSA_NISTP256_SHA256);
    assert_eq!(chosen(&all, Some("a.example"), &[ec, ed]), 0);
    assert_eq!(chosen(&all, Some("a.example"), &[ec]), 2);
    assert_eq!(chosen(&all, Some("b.example"), &[ed]), 1, "the name counts more");
    assert_eq!(chosen(&all, Some("c.example"), &[ec]), 1);
    assert_eq!(chosen(&all, None, &[ed]), 0);
    let most = all.exact.values().map(Vec::len).max();
    assert_eq!(most, Some(2), "one of each kind");
}

#[test]
fn authorities_and_lists_of_clients_are_read() {
    let (authority, key) = pair(&["a.example"], &PKCS_ECDSA_P256_SHA256);
    let verify = |authorities: &[u8], revoked: Option<&[u8]>| {
        verify_clients(authorities, revoked).map(|_| ())
    };
    verify(&authority, None).unwrap();
    let bad_list = pem("X509 CRL", b"none").into_bytes();
    assert!(matches!(verify(&key, None), Err(CertificateFault::NoCertificate)));
    let bad = pem("CERTIFICATE", b"none").into_bytes();
    assert!(matches!(verify(&bad, None), Err(CertificateFault::BadCertificate)));
    let fault = |list: &[u8]| verify(&authority, Some(list)).unwrap_err();
    assert!(matches!(fault(&authority), CertificateFault::NoRevocationList));
    assert!(matches!(fault(&bad_list), CertificateFault::BadRevocationList));
}

#[test]
fn a_handshake_has_the_certificate_of_its_name() {
    let made = ["a.example", "*.b.example"]
        .map(|name| MadeCertificate::new(&[name], 2020..2100, &PKCS_ECDSA_P256_SHA256));
    let served = made.iter().map(|made| read(made.chain.as_bytes(), made.key.as_bytes()).unwrap());
    let certificates = Arc::new(ServedCertificates::new(served));
    let of_pem =
        |made: &MadeCertificate| super::certificates(made.chain.as_bytes()).unwrap().remove(0);
    let ders = made.each_ref().map(of_pem);
    let provider = Arc::new(crypto_provider());
    let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
    let server = server.with_safe_default_protocol_versions().unwrap();
    let server = Arc::new(server.with_no_client_auth().with_cert_resolver(certificates));
    let mut roots = RootCertStore::empty();
    ders.iter().for_each(|der| roots.add(der.clone()).unwrap());
    let client = ClientConfig::builder_with_provider(provider);
    let client = client.with_safe_default_protocol_versions().unwrap();
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    for (name, expected) in [("A.example", 0), ("x.b.example", 1)] {
        let name = ServerName::try_from(name).unwrap();
        let mut client = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let mut server = ServerConnection::new(Arc::clone(&server)).unwrap();
        let (mut hello, mut flight) = (Vec::new(), Vec::new());
        client.write_tls(&mut hello).unwrap();
        server.read_tls(&mut &*hello).unwrap();
        server.process_new_packets().unwrap();
        while server.wants_write() {
            server.write_tls(&mut flight).unwrap();
        }
        client.read_tls(&mut &*flight).unwrap();
        client.process_new_packets().unwrap();
        assert_eq!(client.peer_certificates().unwrap()[0], ders[expected]);
    }
}

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn client_of(issuer: &CertifiedIssuer<'_, KeyPair>, serial: u64) -> CertificateDer<'static> {
    let mut params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
    params.serial_number = Some(SerialNumber::from(serial));
    params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
}

#[test]
fn clients_are_judged_by_authorities_and_lists() {
    let (ours, theirs) = (authority(), authority());
    let revoked = RevokedCertParams {
        serial_number: SerialNumber::from(2),
        revocation_time: date_time_ymd(2021, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2021, 1, 1),
        next_update: date_time_ymd(2022, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = pem("X509 CRL", list.signed_by(&ours).unwrap().der());
    let authorities = pem("CERTIFICATE", ours.der());
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_000));
    for (revoked, expected) in
        [(None, [true, true, false]), (Some(list.as_bytes()), [true, false, false])]
    {
        let verifier = verify_clients(authorities.as_bytes(), revoked).unwrap();
        let clients = [client_of(&ours, 1), client_of(&ours, 2), client_of(&theirs, 1)];
        let known = clients.map(|client| verifier.verify_client_cert(&client, &[], now).is_ok());
        assert_eq!(known, expected, "with a list: {}", revoked.is_some());
    }
}

#[test]
fn a_chain_of_a_client_has_few_certificates() {
    let ours = authority();
    let authorities = pem("CERTIFICATE", ours.der());
    let verifier = verify_clients(authorities.as_bytes(), None).unwrap();
    let now = UnixTime::since_unix_epoch(Duration::from_secs(1_700_000_000));
    let client = client_of(&ours, 1);
    let judge = |others: &[CertificateDer<'_>]| verifier.verify_client_cert(&client, others, now);
    let others: Vec<_> = (0..=INTERMEDIATES_MAX).map(|_| authority().der().clone()).collect();
    assert!(judge(&others[..INTERMEDIATES_MAX]).is_ok());
    let too_many = judge(&others).unwrap_err();
    assert!(matches!(too_many, Error::InvalidCertificate(_)), "{too_many:?}");
    // Copies count once. Their bytes all count: the connection keeps them.
    let copies = |bytes: usize| vec![others[0].clone(); bytes / others[0].len()];
    assert!(judge(&copies(CHAIN_BYTES_MAX - client.len())).is_ok());
    let too_long = judge(&copies(CHAIN_BYTES_MAX + others[0].len())).unwrap_err();
    assert!(matches!(too_long, Error::InvalidCertificate(_)), "{too_long:?}");
}
