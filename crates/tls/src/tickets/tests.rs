//! Tickets over rotations, classes and torn writes.
use super::{
    CURRENT, LAYOUT, LAYOUT_AT, NGINX_KEY_BYTES, PLAIN_BYTES_MAX, SEQUENCE_AT, TICKET_BYTES_MAX,
    TICKET_KEY_BYTES, TicketKey, TicketWords, Ticketer, WORDS, fresh_ticket_key, read_ticket_key,
};
use rustls::server::ProducesTickets as _;
use std::{
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    thread,
};

const LIFETIME_S: u32 = 43_200;
const NOW: u64 = 1_700_000_000;
const PLAIN: &[u8] = b"a session";

fn words(count: usize) -> &'static [AtomicU64] {
    let words: Box<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
    Box::leak(words)
}

const fn key(byte: u8) -> TicketKey {
    [byte; TICKET_KEY_BYTES]
}

/// The first key seals, the second is next.
fn keys() -> TicketWords {
    let keys = TicketWords::begin(words(WORDS)).unwrap();
    keys.rotate(key(1));
    keys.rotate(key(2));
    keys
}

const fn ticketer(keys: TicketWords) -> Ticketer {
    Ticketer::new(keys, 1, LIFETIME_S)
}

fn sealed(keys: TicketWords) -> Vec<u8> {
    ticketer(keys).seal(PLAIN, NOW, [7; 12]).unwrap()
}

#[test]
fn another_view_opens_what_one_has_sealed() {
    let words = words(WORDS + 3);
    TicketWords::begin(words).unwrap().load(&[key(1)]);
    let view = || ticketer(TicketWords::new(words).unwrap());
    let tickets = [view().encrypt(PLAIN).unwrap(), view().encrypt(PLAIN).unwrap()];
    assert_ne!(tickets[0], tickets[1], "each has its nonce");
    for ticket in tickets {
        assert!(!ticket.windows(PLAIN.len()).any(|part| part == PLAIN));
        assert_eq!(view().decrypt(&ticket).as_deref(), Some(PLAIN));
    }
    assert!(view().enabled());
    assert_eq!(view().lifetime(), LIFETIME_S);
}

#[test]
fn words_of_another_layout_are_not_viewed() {
    assert!(TicketWords::begin(words(WORDS - 1)).is_none());
    let words = words(WORDS);
    assert!(TicketWords::new(words).is_none(), "nothing is there yet");
    TicketWords::begin(words).unwrap();
    assert!(TicketWords::new(words).is_some());
    assert!(TicketWords::new(&words[..WORDS - 1]).is_none());
    words[LAYOUT_AT].store(LAYOUT + 1, Release);
    assert!(TicketWords::new(words).is_none());
    TicketWords::begin(words).unwrap();
    assert!(TicketWords::new(words).is_some());
}

#[test]
fn keys_are_not_shown() {
    assert_eq!(format!("{:?}", keys()), "TicketWords { .. }");
    assert!(format!("{:?}", ticketer(keys())).starts_with("Ticketer { keys: TicketWords { .. }"));
}

#[test]
fn a_key_opens_until_the_second_rotation() {
    let keys = keys();
    let ticket = sealed(keys);
    for (fresh, opens) in [(3, true), (4, false), (5, false)] {
        keys.rotate(key(fresh));
        assert_eq!(ticketer(keys).open(&ticket, NOW).is_some(), opens, "{fresh}");
    }
    assert_eq!(ticketer(keys).open(&sealed(keys), NOW).as_deref(), Some(PLAIN));
    assert_eq!(&sealed(keys)[..16], &key(4)[..16], "the next key is not used yet");
}

/// Another machine may have rotated already.
#[test]
fn the_next_key_opens_before_it_seals() {
    let ahead = keys();
    ahead.rotate(key(3));
    assert_eq!(ticketer(keys()).open(&sealed(ahead), NOW).as_deref(), Some(PLAIN));
}

#[test]
fn loaded_keys_open_and_the_first_seals() {
    let keys = keys();
    keys.load(&[key(5), key(6), key(7), key(8)]);
    assert_eq!(&sealed(keys)[..16], &key(5)[..16]);
    for (byte, opens) in [(5, true), (6, true), (7, true), (8, false), (1, false), (2, false)] {
        let other = TicketWords::begin(words(WORDS)).unwrap();
        other.load(&[key(byte)]);
        assert_eq!(ticketer(keys).open(&sealed(other), NOW).is_some(), opens, "{byte}");
    }
    keys.load(&[]);
    assert!(ticketer(keys).seal(PLAIN, NOW, [7; 12]).is_none());
}

#[test]
fn other_tickets_are_refused() {
    let keys = keys();
    let (ticket, opens) =
        (sealed(keys), |ticket: &[u8]| ticketer(keys).open(ticket, NOW).is_some());
    assert!(opens(&ticket));
    assert!(Ticketer::new(keys, 2, LIFETIME_S).open(&ticket, NOW).is_none(), "another class");
    for at in 0..ticket.len() {
        let mut altered = ticket.clone();
        altered[at] ^= 1;
        assert!(!opens(&altered), "byte {at}");
        assert!(!opens(&ticket[..at]), "{at} bytes");
    }
    let longer = [&ticket[..], &[0]].concat();
    assert!(!opens(&longer));
    assert!(!opens(&[1; TICKET_BYTES_MAX + 1]));
}

#[test]
fn length_is_bounded() {
    let ticketer = ticketer(keys());
    let ticket = ticketer.seal(&[3; PLAIN_BYTES_MAX], NOW, [7; 12]).unwrap();
    assert_eq!(ticket.len(), TICKET_BYTES_MAX);
    assert!(ticketer.open(&ticket, NOW).is_some());
    assert!(ticketer.seal(&[3; PLAIN_BYTES_MAX + 1], NOW, [7; 12]).is_none());
}

#[test]
fn a_lifetime_ends() {
    let (keys, lifetime_s) = (keys(), u64::from(LIFETIME_S));
    let ticket = sealed(keys);
    for (now, opens) in [
        // The clock of another machine is behind.
        (NOW - 5, true),
        (NOW, true),
        (NOW + lifetime_s, true),
        (NOW + lifetime_s + 1, false),
        (u64::MAX, false),
    ] {
        assert_eq!(ticketer(keys).open(&ticket, now).is_some(), opens, "{now}");
    }
}

#[test]
fn readers_see_whole_keys_while_they_change() {
    const ROTATIONS: usize = 20_000;
    let keys = TicketWords::begin(words(WORDS)).unwrap();
    keys.load(&[key(1), key(0), key(2)]);
    let done = AtomicBool::new(false);
    let check = || {
        let Some([Some(before), Some(current), Some(next)]) = keys.read() else { return false };
        for (at, key) in [before, current, next].iter().enumerate() {
            assert!(key.iter().all(|byte| *byte == key[0]), "key {at} is mixed: {key:?}");
        }
        assert_eq!(current[0], before[0].wrapping_add(1));
        assert_eq!(next[0], current[0].wrapping_add(1));
        true
    };
    thread::scope(|scope| {
        let readers = [(); 2].map(|()| {
            scope.spawn(|| {
                while !done.load(Acquire) {
                    check();
                }
                check()
            })
        });
        for byte in (0..=u8::MAX).cycle().skip(3).take(ROTATIONS) {
            keys.rotate(key(byte));
        }
        done.store(true, Release);
        for reader in readers {
            assert!(reader.join().unwrap(), "keys that stay the same are read");
        }
    });
}

#[test]
fn an_unfinished_change_costs_tickets_and_nothing_else() {
    let keys = keys();
    let ticket = sealed(keys);
    keys.words[SEQUENCE_AT].fetch_add(1, Relaxed);
    assert!(keys.read().is_none());
    assert!(ticketer(keys).encrypt(PLAIN).is_none());
    assert!(ticketer(keys).open(&ticket, NOW).is_none());
    keys.rotate(key(3));
    assert_eq!(keys.read().unwrap()[CURRENT], Some(key(2)));
    assert!(ticketer(keys).open(&ticket, NOW).is_some());
}

#[test]
fn files_have_48_or_80_bytes() {
    for len in 0..=2 * NGINX_KEY_BYTES {
        let key = read_ticket_key(&vec![1; len]);
        assert_eq!(key.is_some(), [TICKET_KEY_BYTES, NGINX_KEY_BYTES].contains(&len), "{len}");
    }
    let bytes: Vec<u8> = (0..80).collect();
    assert_eq!(read_ticket_key(&bytes[..48]).unwrap(), bytes[..48]);
    let derived = read_ticket_key(&bytes).unwrap();
    assert_eq!(derived[..16], bytes[..16]);
    for at in 16..NGINX_KEY_BYTES {
        let mut other = bytes.clone();
        other[at] ^= 1;
        assert_ne!(read_ticket_key(&other).unwrap()[16..], derived[16..], "byte {at}");
    }
}

#[test]
fn fresh_keys_differ() {
    assert_ne!(fresh_ticket_key().unwrap(), fresh_ticket_key().unwrap());
}
