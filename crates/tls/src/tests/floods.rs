//! Records in a row that bring no data.
use super::peers::{Identity, Options, class, client, client_config, open_all, receive, send};
use regatta_origin::{Progress, Seal, SealFault};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hkdf,
};
use rustls::{KeyLog, version::TLS13};
use std::sync::{Arc, Mutex};

const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
const TAG_BYTES: usize = 16;
const SECRET_BYTES: usize = 48;
const KEY_BYTES: usize = 32;
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// Keeps the secret of a client's data.
#[derive(Debug, Default)]
struct SecretLog(Mutex<Vec<u8>>);

impl KeyLog for SecretLog {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if label == "CLIENT_TRAFFIC_SECRET_0" {
            *self.0.lock().unwrap() = secret.to_vec();
        }
    }
}

struct OutputBytes(usize);

impl hkdf::KeyType for OutputBytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// Seals a client's records, also those that rustls never sends (TLS_AES_256_GCM_SHA384).
struct RecordSealer {
    secret: Vec<u8>,
    sequence: u64,
}

impl RecordSealer {
    /// HKDF-Expand-Label without a context (RFC 8446 §7.1).
    fn expand(&self, label: &str, len: usize) -> Vec<u8> {
        let label = format!("tls13 {label}");
        let [len_byte, label_len] = [len, label.len()].map(|n| u8::try_from(n).unwrap());
        let info = [&[0, len_byte, label_len][..], label.as_bytes(), &[0]].concat();
        let secret = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA384, &self.secret);
        let mut out = vec![0; len];
        secret.expand(&[&info[..]], OutputBytes(len)).unwrap().fill(&mut out).unwrap();
        out
    }

    fn seal(&mut self, kind: u8, body: &[u8]) -> Vec<u8> {
        let key = UnboundKey::new(&AES_256_GCM, &self.expand("key", KEY_BYTES)).unwrap();
        let mut nonce: [u8; NONCE_LEN] = self.expand("iv", NONCE_LEN).try_into().unwrap();
        for (byte, number) in nonce[NONCE_LEN - 8..].iter_mut().zip(self.sequence.to_be_bytes()) {
            *byte ^= number;
        }
        self.sequence += 1;
        let mut inner = [body, &[kind]].concat();
        let len = u16::try_from(inner.len() + TAG_BYTES).unwrap().to_be_bytes();
        let head = [DATA, 3, 3, len[0], len[1]];
        let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), Aad::from(head));
        LessSafeKey::new(key).seal_in_place_append_tag(nonce, aad, &mut inner).unwrap();
        [&head[..], &inner].concat()
    }

    /// A key update. The next record has the next key.
    fn update(&mut self) -> Vec<u8> {
        let record = self.seal(HANDSHAKE, &KEY_UPDATE);
        self.secret = self.expand("traffic upd", SECRET_BYTES);
        self.sequence = 0;
        record
    }
}

/// rustls counts key updates until data arrives, and empty records until others do.
#[test]
fn key_updates_and_empty_records_by_turns_are_bounded() {
    let (options, identity) =
        (Options { versions: vec![&TLS13], ..Options::default() }, Identity::new());
    let secrets = Arc::new(SecretLog::default());
    let mut config = client_config(&options, &identity);
    config.key_log = Arc::<SecretLog>::clone(&secrets);
    let (mut client, mut server) = (client(&Arc::new(config)), class(&options, &identity).accept());
    let (mut plain, mut reply) = (Vec::new(), Vec::new());
    while client.is_handshaking() || client.wants_write() {
        open_all(&mut server, &mut send(&mut client), &mut plain, &mut reply).unwrap();
        receive(&mut client, &reply).unwrap();
        reply.clear();
    }
    assert_eq!(server.progress(), Progress::Open);
    let secret = secrets.0.lock().unwrap().clone();
    assert_eq!(secret.len(), SECRET_BYTES);
    let mut sealer = RecordSealer { secret, sequence: 0 };
    let mut open = |mut wire: Vec<u8>| {
        plain.clear();
        open_all(&mut server, &mut wire, &mut plain, &mut reply).map(|()| plain.clone())
    };
    for _ in 0..100 {
        assert_eq!(open(sealer.update()), Ok(Vec::new()));
        assert_eq!(open(sealer.seal(DATA, &[])), Ok(Vec::new()));
        assert_eq!(open(sealer.seal(DATA, b"x")), Ok(b"x".to_vec()), "data starts the count again");
    }
    let opened = (0..1_000).find_map(|rounds| {
        let wire = [sealer.update(), sealer.seal(DATA, &[])].concat();
        open(wire).err().map(|fault| (rounds, fault))
    });
    assert_eq!(opened, Some((32, SealFault::Record)));
}
