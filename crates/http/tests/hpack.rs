//! HPACK against other codecs: blocks of theirs are read here, and blocks of ours there.
//!
//! A case is a random list of fields, in both directions. Connections, with the tables of their
//! codecs, last for some 60 cases. `REGATTA_HPACK_CASES` sets the number of cases for each codec,
//! which is 20,000 otherwise:
//!
//! ```text
//! REGATTA_HPACK_CASES=10000000 cargo test --profile soak -p regatta-http --test hpack
//! ```
use regatta_http::h2::hpack::{
    HpackDecoder, TABLE_BYTES_DEFAULT, write_field, write_no_table, write_raw_field,
};
use std::{env, mem};

/// A name and a value.
type Pair = (Vec<u8>, Vec<u8>);

type Encode = Box<dyn FnMut(&[Pair]) -> Vec<u8>>;
type Decode = Box<dyn FnMut(&[u8]) -> Result<Vec<Pair>, String>>;

/// Both ends of another implementation.
struct Codec {
    encode: Encode,
    decode: Decode,
}

fn slices(list: &[Pair]) -> impl Iterator<Item = (&[u8], &[u8])> {
    list.iter().map(|(name, value)| (&name[..], &value[..]))
}

fn loona() -> Codec {
    let mut encoder = loona_hpack::Encoder::new();
    let mut decoder = loona_hpack::Decoder::new();
    Codec {
        encode: Box::new(move |list| encoder.encode(slices(list))),
        decode: Box::new(move |block| decoder.decode(block).map_err(|fault| format!("{fault:?}"))),
    }
}

fn fluke() -> Codec {
    let mut encoder = fluke_hpack::Encoder::new();
    let mut decoder = fluke_hpack::Decoder::new();
    Codec {
        encode: Box::new(move |list| encoder.encode(slices(list))),
        decode: Box::new(move |block| decoder.decode(block).map_err(|fault| format!("{fault:?}"))),
    }
}

/// Draws numbers (splitmix64); the same seed gives the same ones.
struct Dice(u64);

impl Dice {
    /// Draws a number below `n`, which is 1 or more.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((value ^ (value >> 31)) % n as u64).expect("64-bit Linux")
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

const NAMES: [&str; 18] = [
    ":authority",
    ":method",
    ":path",
    ":scheme",
    ":status",
    "accept",
    "accept-charset",
    "accept-encoding",
    "content-type",
    "cookie",
    "date",
    "etag",
    "www-authenticate",
    "x",
    "x-custom-name",
    "sec-fetch-dest",
    "0",
    "~",
];
const VALUES: [&str; 14] = [
    "",
    "GET",
    "POST",
    "/",
    "/index.html",
    "https",
    "200",
    "206",
    "404",
    "gzip, deflate",
    "text/html; charset=utf-8",
    "Sun, 06 Nov 1994 08:49:37 GMT",
    "no-cache",
    "\"5-a\"",
];
/// Characters of names that are drawn.
const TOKEN: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-_.!#$%&'*+^`|~";
/// Fields of a connection that are drawn again.
const RECENT: usize = 40;

/// Draws a name: a lower-case token.
fn any_name(dice: &mut Dice) -> Vec<u8> {
    if dice.below(3) > 0 {
        return dice.pick(&NAMES).into();
    }
    let most = dice.pick(&[3, 20, 20, 140]);
    let len = 1 + dice.below(most);
    (0..len).map(|_| dice.pick(TOKEN)).collect()
}

/// Draws a value: HPACK allows any bytes.
fn any_value(dice: &mut Dice) -> Vec<u8> {
    if dice.below(2) > 0 {
        return dice.pick(&VALUES).into();
    }
    let most = if dice.below(100) == 0 { dice.pick(&[400, 5_000]) } else { dice.pick(&[8, 40]) };
    let len = dice.below(most);
    // Codes of text have 5 to 15 bits, those of digits 5 or 6, and of other bytes up to 30.
    let (first, count) = dice.pick(&[(0, 256), (0x20, 95), (0x30, 10)]);
    (0..len).map(|_| u8::try_from(first + dice.below(count)).expect("below 256")).collect()
}

/// Both directions of a connection.
struct Connection {
    theirs: Codec,
    client: HpackDecoder,
    server: HpackDecoder,
    recent: Vec<Pair>,
    is_new: bool,
}

impl Connection {
    fn new(theirs: Codec) -> Self {
        Self {
            theirs,
            client: HpackDecoder::for_client(TABLE_BYTES_DEFAULT),
            server: HpackDecoder::new(TABLE_BYTES_DEFAULT),
            recent: vec![],
            is_new: true,
        }
    }

    /// Draws one to nine fields; a third of them have been sent before.
    fn any_list(&mut self, dice: &mut Dice) -> Vec<Pair> {
        let mut list: Vec<Pair> = vec![];
        for _ in 0..=dice.below(9) {
            let is_sent = dice.below(3) == 0 && !self.recent.is_empty();
            list.push(match is_sent {
                true => self.recent[dice.below(self.recent.len())].clone(),
                false => (any_name(dice), any_value(dice)),
            });
        }
        self.recent.extend(list.iter().cloned());
        let surplus = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..surplus);
        list
    }

    /// Reads a block of theirs, as a client and as a server.
    fn receive(&mut self, list: &[Pair], case: usize) {
        let block = (self.theirs.encode)(list);
        let mut found: Vec<Pair> = vec![];
        let read = self
            .client
            .read_fields(&block, |name, value| found.push((name.to_vec(), value.to_vec())));
        assert_eq!((read, &found[..]), (Ok(()), list), "{case}: {block:02x?}");
        assert_eq!(self.server.skip(&block), Ok(()), "{case}: {block:02x?}");
        let size = |decoder: &HpackDecoder| (decoder.entries(), decoder.table_bytes());
        assert_eq!(size(&self.server), size(&self.client), "{case}: {block:02x?}");
    }

    /// Writes a block that they read, with and without the Huffman code.
    fn send(&mut self, list: &[Pair], case: usize, dice: &mut Dice) {
        let mut block = vec![];
        if mem::take(&mut self.is_new) {
            write_no_table(&mut block);
        }
        for (name, value) in list {
            let name = str::from_utf8(name).expect("names are tokens");
            match dice.below(2) {
                0 => write_field(&mut block, name, value),
                _ => write_raw_field(&mut block, name, value),
            }
        }
        let read = (self.theirs.decode)(&block);
        assert_eq!(read.as_deref(), Ok(list), "{case}: {block:02x?}");
    }
}

fn check(codec: fn() -> Codec) {
    let cases = env::var("REGATTA_HPACK_CASES")
        .map_or(20_000, |cases| cases.parse().expect("REGATTA_HPACK_CASES is a number of cases"));
    let mut dice = Dice(7);
    let mut connection = Connection::new(codec());
    let mut entries_max = 0;
    for case in 0..cases {
        if dice.below(60) == 0 {
            connection = Connection::new(codec());
        }
        let list = connection.any_list(&mut dice);
        connection.receive(&list, case);
        connection.send(&list, case, &mut dice);
        entries_max = entries_max.max(connection.client.entries());
    }
    assert!(entries_max > 20, "tables are used: {entries_max}");
}

#[test]
fn loona_agrees() {
    check(loona);
}

#[test]
fn fluke_agrees() {
    check(fluke);
}
