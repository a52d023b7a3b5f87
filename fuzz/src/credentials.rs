//! Files of certificates, and session tickets that clients present.
use regatta_testkit::certificates::{MadeCertificate, PKCS_ECDSA_P256_SHA256};
use regatta_tls::{
    CertificateFiles, ProducesTickets, ServedCertificate, ServedCertificates, TICKET_BYTES_MAX,
    TICKET_KEY_BYTES, TicketWords, Ticketer, fresh_ticket_key, verify_clients,
};
use std::sync::{OnceLock, atomic::AtomicU64};

/// Characters of the encoded bytes in a PEM text.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Bytes of a key's name, with which a ticket begins.
const NAME_BYTES: usize = TICKET_KEY_BYTES - 32;
const LIFETIME_S: u32 = 43_200;

/// Makers of tickets of two classes, with the same keys.
fn ticketers() -> &'static [Ticketer; 2] {
    static WORDS: [AtomicU64; TicketWords::WORDS] =
        [const { AtomicU64::new(0) }; TicketWords::WORDS];
    static TICKETERS: OnceLock<[Ticketer; 2]> = OnceLock::new();
    TICKETERS.get_or_init(|| {
        let words = TicketWords::begin(&WORDS).expect("as many as are needed");
        let key = || fresh_ticket_key().expect("random numbers");
        words.load(&[key(), key(), key()]);
        [1, 2].map(|class| Ticketer::new(words, class, LIFETIME_S))
    })
}

/// A ticket of a stranger. Then the length of a session and the session, and edits of its ticket in
/// three bytes each: a position, and bits to change. No bits end the ticket there, all bits insert
/// a byte. Only the unaltered ticket opens, and only in its class.
pub fn ticket_open(bytes: &[u8]) {
    let [ours, others] = ticketers();
    assert_eq!(ours.decrypt(bytes), None, "a ticket of a stranger");
    let (len, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let (session, edits) = rest.split_at(usize::from(*len).min(rest.len()));
    let ticket = ours.encrypt(session).expect("a short session has a ticket");
    assert!(ticket.len() <= TICKET_BYTES_MAX);
    let forged = [&ticket[..NAME_BYTES], rest].concat();
    assert_eq!(ours.decrypt(&forged), None, "the name of a key, and bytes of a stranger");
    let mut altered = ticket.clone();
    for edit in edits.chunks_exact(3) {
        let at = usize::from(u16::from_be_bytes([edit[0], edit[1]]));
        let Some(at) = at.checked_rem(altered.len()) else { break };
        match edit[2] {
            0 => altered.truncate(at),
            u8::MAX => altered.insert(at, edit[1]),
            bits => altered[at] ^= bits,
        }
    }
    let opened = ours.decrypt(&altered);
    assert_eq!(opened.as_deref(), (altered == ticket).then_some(session));
    assert_eq!(others.decrypt(&altered), None, "a ticket of another class");
}

/// The texts that are altered, made once.
fn made() -> &'static MadeCertificate {
    static MADE: OnceLock<MadeCertificate> = OnceLock::new();
    MADE.get_or_init(|| {
        let names = ["a.example", "*.a.example", "192.0.2.1"];
        MadeCertificate::new(&names, 2020..2030, &PKCS_ECDSA_P256_SHA256)
    })
}

/// All that may be in a file, in a single one. Then edits of a good pair of files, in four bytes
/// each: the file, a position, and a character. Half of all characters are of the alphabet of PEM,
/// so that they alter the bytes in it. No bytes cause a panic, and a certificate that is read has
/// names from its file alone.
pub fn certificate_pem(bytes: &[u8]) {
    let read = |chain: &[u8], key: &[u8]| ServedCertificate::read(CertificateFiles { chain, key });
    let _ = verify_clients(bytes, Some(bytes));
    if let Ok(certificate) = read(bytes, bytes) {
        check_names(certificate, bytes.len());
    }
    let made = made();
    let mut files = [made.chain.clone().into_bytes(), made.key.clone().into_bytes()];
    for edit in bytes.chunks_exact(4) {
        let file = &mut files[usize::from(edit[0] % 2)];
        let at = usize::from(u16::from_be_bytes([edit[1], edit[2]])) % file.len();
        file[at] = match edit[3].checked_sub(128) {
            Some(character) => character,
            None => ALPHABET[usize::from(edit[3] % 64)],
        };
    }
    let [chain, key] = &files;
    let is_altered = *chain != made.chain.as_bytes() || *key != made.key.as_bytes();
    let _ = verify_clients(chain, None);
    match read(chain, key) {
        Ok(mut certificate) => {
            let is_der = bytes.first() == Some(&0x30);
            assert_eq!(certificate.staple(bytes).is_ok(), is_der);
            check_names(certificate, chain.len());
        }
        Err(fault) => assert!(is_altered, "{fault}"),
    }
}

/// Checks the names of a certificate that is in a file of this length.
fn check_names(certificate: ServedCertificate, chain_bytes: usize) {
    let names = certificate.names().to_vec();
    assert!(names.iter().map(String::len).sum::<usize>() <= chain_bytes);
    let all = ServedCertificates::new([certificate]);
    for name in names {
        assert_eq!(name, name.to_ascii_lowercase());
        assert!(name.starts_with("*.") || all.has_name(&name), "{name}");
    }
}
