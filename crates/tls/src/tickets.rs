//! Session tickets whose keys are in memory that all workers share.
//!
//! One process writes the keys, any number of processes and threads read them. A ticket is the name
//! of its key, a nonce, and the session with the time of its making, sealed by AES-256-GCM.
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
    rand::{SecureRandom as _, SystemRandom},
};
use rustls::{pki_types::UnixTime, server::ProducesTickets};
use std::{
    array, fmt, hint,
    sync::atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
        fence,
    },
};

/// Bytes of a key: 16 of its name, 32 of the key for AES-256.
pub const TICKET_KEY_BYTES: usize = NAME_BYTES + 32;
/// The most keys at a time.
pub const TICKET_KEYS_MAX: usize = 3;
/// The longest ticket, bytes. The session of a client without a certificate takes at most 600.
pub const TICKET_BYTES_MAX: usize = PLAIN_BYTES_MAX + OVERHEAD_BYTES;

const NAME_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
const TIME_BYTES: usize = 8;
const OVERHEAD_BYTES: usize = NAME_BYTES + NONCE_LEN + TIME_BYTES + TAG_BYTES;
const PLAIN_BYTES_MAX: usize = 1024;

/// First word: names this layout. Another meaning of the words has another number at the end.
const LAYOUT: u64 = u64::from_be_bytes(*b"rgtkeys1");
/// Places of the words: the layout, the number of changes, which keys there are (a bit for each),
/// and the keys.
const LAYOUT_AT: usize = 0;
const SEQUENCE_AT: usize = 1;
const PRESENT_AT: usize = 2;
const KEYS_AT: usize = 3;
const KEY_WORDS: usize = TICKET_KEY_BYTES / 8;
const WORDS: usize = KEYS_AT + TICKET_KEYS_MAX * KEY_WORDS;

/// Places of the keys. New tickets are sealed with the current key; all three open tickets.
const CURRENT: usize = 1;

/// Attempts to read keys that do not change meanwhile. A change takes less time than two attempts,
/// unless the writer is preempted.
const TRIES: usize = 16;

/// Length of a key in a file of nginx (`ssl_session_ticket_key`): a name, and two keys of 32 bytes.
const NGINX_KEY_BYTES: usize = 80;
/// Separates a key that is derived from such a file from other uses of the same bytes.
const NGINX_PURPOSE: &[u8] = b"regatta session ticket, AES-256-GCM";

type TicketKey = [u8; TICKET_KEY_BYTES];
/// The previous, the current and the next key.
type KeySet = [Option<TicketKey>; TICKET_KEYS_MAX];

/// Draws a key from the kernel's random numbers; `None` if the kernel has none.
#[must_use]
pub fn fresh_ticket_key() -> Option<[u8; TICKET_KEY_BYTES]> {
    random()
}

/// Reads the contents of a file with a key; `None` if the length is that of no key.
///
/// 48 bytes are the name (16) and the key for AES-256 (32). 80 bytes are a file of nginx: the name,
/// and 64 bytes from which the key is derived. nginx uses these for CBC and HMAC, so using some of
/// them here would give one key two uses.
#[must_use]
pub fn read_ticket_key(file: &[u8]) -> Option<[u8; TICKET_KEY_BYTES]> {
    if file.len() != NGINX_KEY_BYTES {
        return file.try_into().ok();
    }
    let (name, secret) = file.split_at(NAME_BYTES);
    let derived = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), NGINX_PURPOSE);
    [name, derived.as_ref()].concat().try_into().ok()
}

/// Keys of session tickets in shared words, under a sequence lock.
///
/// One process writes ([`rotate`](Self::rotate), [`load`](Self::load)). Readers retry a bounded
/// number of times, and do without keys then: no ticket is made, and a handshake is a full one.
#[derive(Clone, Copy)]
pub struct TicketWords {
    words: &'static [AtomicU64; WORDS],
}

impl fmt::Debug for TicketWords {
    /// Shows no key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TicketWords").finish_non_exhaustive()
    }
}

impl TicketWords {
    /// Number of words that are needed.
    pub const WORDS: usize = WORDS;

    /// Makes a view of words that [`begin`](Self::begin) has prepared, in this program or another.
    /// `None` if these are too few, or have another layout.
    #[must_use]
    pub fn new(words: &'static [AtomicU64]) -> Option<Self> {
        let words = words.first_chunk::<WORDS>()?;
        (words[LAYOUT_AT].load(Acquire) == LAYOUT).then_some(Self { words })
    }

    /// Prepares words, without any key. `None` if these are too few.
    #[must_use]
    pub fn begin(words: &'static [AtomicU64]) -> Option<Self> {
        let this = Self { words: words.first_chunk()? };
        this.write(&[None; TICKET_KEYS_MAX]);
        this.words[LAYOUT_AT].store(LAYOUT, Release);
        Some(this)
    }

    /// Adds `fresh` as the next key. The key that was next seals from now on, the one that sealed
    /// opens alone, and the one before is erased. To be called by one process alone.
    pub fn rotate(&self, fresh: [u8; TICKET_KEY_BYTES]) {
        let [_, current, next] = self.copy();
        self.write(&[current, next, Some(fresh)]);
    }

    /// Replaces all keys: the first seals, the others open alone. Keys after the third are left
    /// out. To be called by one process alone.
    pub fn load(&self, keys: &[[u8; TICKET_KEY_BYTES]]) {
        let key = |at: usize| keys.get(at).copied();
        self.write(&[key(1), key(0), key(2)]);
    }

    fn write(&self, keys: &KeySet) {
        // Odd while keys change; also after a writer that did not finish.
        let sequence = self.words[SEQUENCE_AT].load(Relaxed) | 1;
        self.words[SEQUENCE_AT].store(sequence, Relaxed);
        fence(Release);
        let mut present = 0;
        for (at, key) in keys.iter().enumerate() {
            present |= u64::from(key.is_some()) << at;
            let key = key.unwrap_or([0; TICKET_KEY_BYTES]);
            for (word, bytes) in self.key_words(at).iter().zip(key.as_chunks::<8>().0) {
                word.store(u64::from_ne_bytes(*bytes), Relaxed);
            }
        }
        self.words[PRESENT_AT].store(present, Relaxed);
        self.words[SEQUENCE_AT].store(sequence.wrapping_add(1), Release);
    }

    /// The keys; `None` if they change all the time.
    fn read(&self) -> Option<KeySet> {
        (0..TRIES).find_map(|_| {
            let before = self.words[SEQUENCE_AT].load(Acquire);
            let keys = before.is_multiple_of(2).then(|| self.copy());
            fence(Acquire);
            let is_same = self.words[SEQUENCE_AT].load(Relaxed) == before;
            if keys.is_none() {
                hint::spin_loop();
            }
            keys.filter(|_| is_same)
        })
    }

    /// Copies the keys, which may change meanwhile.
    fn copy(&self) -> KeySet {
        let present = self.words[PRESENT_AT].load(Relaxed);
        array::from_fn(|at| {
            let mut key = [0; TICKET_KEY_BYTES];
            for (bytes, word) in key.as_chunks_mut::<8>().0.iter_mut().zip(self.key_words(at)) {
                *bytes = word.load(Relaxed).to_ne_bytes();
            }
            (present >> at & 1 == 1).then_some(key)
        })
    }

    fn key_words(&self, at: usize) -> &'static [AtomicU64] {
        &self.words[KEYS_AT + at * KEY_WORDS..][..KEY_WORDS]
    }
}

/// Makes and opens the session tickets of a class of listeners.
///
/// rustls compares the suite, the server's name and the extended master secret of a ticket with
/// those of the new handshake (`can_resume` in its `server/hs.rs`). It does not compare the age:
/// the time in its session decides on early data alone. So a ticket carries the time of its making
/// here, and is refused after its lifetime, also where keys from files stay the same for months.
///
/// Rotation every half of the lifetime erases a key after at most one lifetime. A key seals at most
/// 2^32 tickets with random nonces (NIST SP 800-38D §8.3): 198,000 a second for 6 hours.
///
/// In TLS 1.2, a session that is resumed has the same master secret as before, and rustls makes
/// another ticket for it. So the session lasts as long as its client returns within the lifetime. A
/// key that leaks opens what was recorded of such sessions since they began, also before that key
/// was made. TLS 1.3 exchanges keys again.
#[derive(Clone, Debug)]
pub struct Ticketer {
    keys: TicketWords,
    class: u8,
    lifetime_s: u32,
}

impl Ticketer {
    /// Makes tickets that are valid in this class for this long.
    #[must_use]
    pub const fn new(keys: TicketWords, class: u8, lifetime_s: u32) -> Self {
        Self { keys, class, lifetime_s }
    }

    /// Seals a session at this time, seconds since 1970.
    fn seal(&self, plain: &[u8], at: u64, nonce: [u8; NONCE_LEN]) -> Option<Vec<u8>> {
        if plain.len() > PLAIN_BYTES_MAX {
            return None;
        }
        let key = self.keys.read()?[CURRENT]?;
        let (name, cipher) = split(&key)?;
        let mut ticket = Vec::with_capacity(OVERHEAD_BYTES + plain.len());
        ticket.extend_from_slice(name);
        ticket.extend_from_slice(&nonce);
        let from = ticket.len();
        ticket.extend_from_slice(&at.to_be_bytes());
        ticket.extend_from_slice(plain);
        let (nonce, aad) = (Nonce::assume_unique_for_key(nonce), self.aad(name));
        let tag = cipher.seal_in_place_separate_tag(nonce, aad, &mut ticket[from..]).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    /// Opens a ticket at this time, seconds since 1970. Clocks of other machines may be ahead.
    fn open(&self, ticket: &[u8], now: u64) -> Option<Vec<u8>> {
        if ticket.len() > TICKET_BYTES_MAX {
            return None;
        }
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let keys = self.keys.read()?;
        let key = keys.iter().flatten().find(|key| key.starts_with(name))?;
        let (_, cipher) = split(key)?;
        let (nonce, aad) = (Nonce::assume_unique_for_key(*nonce), self.aad(name));
        let mut sealed = sealed.to_vec();
        let plain = cipher.open_in_place(nonce, aad, &mut sealed).ok()?;
        let (made, plain) = plain.split_first_chunk::<TIME_BYTES>()?;
        let age_s = now.saturating_sub(u64::from_be_bytes(*made));
        (age_s <= u64::from(self.lifetime_s)).then(|| plain.to_vec())
    }

    /// Bytes that a ticket is bound to: a ticket of another class does not open.
    fn aad(&self, name: &[u8; NAME_BYTES]) -> Aad<[u8; NAME_BYTES + 1]> {
        let mut bytes = [self.class; NAME_BYTES + 1];
        bytes[..NAME_BYTES].copy_from_slice(name);
        Aad::from(bytes)
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        self.lifetime_s
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.seal(plain, UnixTime::now().as_secs(), random()?)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(ticket, UnixTime::now().as_secs())
    }
}

/// Splits a key into its name and the cipher.
fn split(key: &TicketKey) -> Option<(&[u8; NAME_BYTES], LessSafeKey)> {
    let (name, secret) = key.split_first_chunk()?;
    let key = UnboundKey::new(&AES_256_GCM, secret).ok()?;
    Some((name, LessSafeKey::new(key)))
}

/// Random bytes of the kernel: processes that were forked have no state in common.
fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests;
