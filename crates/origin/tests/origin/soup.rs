//! Random pieces of requests, random sizes, faults and times: nothing breaks an invariant.
use crate::rig::Rig;
use regatta_metrics::Counter;
use regatta_op::{Fault, OpKind};
use regatta_origin::{CachingRules, ContentRules, Limits, Site};

const PIECES: [&str; 40] = [
    "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /ten.txt HTTP/1.1\r\nHost: a\r\n",
    "GET /big.bin HTTP/1.1\r\nHost: a\r\n",
    "GET /mid.bin HTTP/1.0\r\nConnection: keep-alive\r\n",
    "HEAD /docs HTTP/1.1\r\nHost: a\r\n",
    "GET /app.js HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\n",
    "POST /x HTTP/1.1\r\nHost: a\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: a\r\n",
    "Range: bytes=0-1,4-5\r\n",
    "Range: bytes=-7\r\n",
    "If-None-Match: *\r\n",
    "Content-Length: 7\r\n\r\n1234567",
    "Content-Length: 70\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\nff\r\n",
    "Expect: 100-continue\r\n",
    "Connection: close\r\n",
    "Accept: text/html\r\n",
    "\r\n",
    "\r\n\r\n",
    "\r",
    "\n",
    "GET ",
    "/none",
    " HTTP/1.1\r\n",
    "Host: b\r\n",
    "X: y\r\n",
    ":",
    "\0",
    "0\r\n\r\n",
    "GET /.hidden HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /docs/ HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /with%20space.txt?q HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /full HTTP/1.1\r\nHost: a\r\n\r\n",
    "BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /shrinks.bin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /ten.txt HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /small.bin HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /empty.txt HTTP/1.1\r\nHost: a\r\n\r\n",
];

pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn play(seed: u64) {
    let mut dice = Dice(seed * 2 + 1);
    let caching = CachingRules {
        enabled: dice.below(4) > 0,
        entries_max: 1 + usize::try_from(dice.below(6)).unwrap(),
        negatives_max: usize::try_from(dice.below(2)).unwrap(),
        descriptors_max: usize::try_from(dice.below(3)).unwrap(),
        ..CachingRules::default()
    };
    let limits = Limits {
        discard_body_bytes_max: 40,
        head_bytes_max: 300,
        linger_bytes_max: 500,
        requests_max: u32::try_from(dice.below(2) * 5).unwrap(),
        ..Limits::default()
    };
    let content = ContentRules {
        fallback: if dice.below(2) == 0 { "index.html".into() } else { "".into() },
        clean_urls: dice.below(2) == 0,
        ..ContentRules::default()
    };
    let rig = Rig::new(Site { caching, limits, content, ..Site::default() });
    rig.faults.borrow_mut().insert(b"full".to_vec(), regatta_op::OpenFault::Exhausted);
    rig.put("shrinks.bin", &[1; 99_000]).truncate(50_000);
    rig.log.on.set(dice.below(2) == 0);
    for _ in 0..4 {
        let mut client = rig.connect();
        client.send_bytes_max = 1 + dice.below(5_000);
        for _ in 0..60 {
            if client.closed.is_some() {
                break;
            }
            step(&mut dice, &mut client);
        }
        while client.closed.is_none() {
            client.room = u64::MAX;
            client.run();
            client.expire(1_000_000, 0);
        }
    }
    let [requests, replies, cut] =
        [Counter::Requests, Counter::Replies, Counter::RepliesCut].map(|c| rig.count(c));
    assert_eq!(requests, replies + cut, "seed {seed}: each exchange ends once");
    let logged = rig.log.records.borrow().len() as u64;
    assert!(logged == 0 || logged == requests, "seed {seed}: {logged} of {requests} were logged");
}

fn step(dice: &mut Dice, client: &mut crate::rig::Client<'_>) {
    match dice.below(40) {
        0 => {
            client.drain();
        }
        1 => {
            let queued = dice.below(3_000);
            client.expire(11_000, queued);
        }
        2 if client.waits_for().is_some() => client.fail(Fault::Reset),
        3 if client.waits_for() == Some(OpKind::Recv) => client.end(),
        4..8 => {
            client.room = dice.below(100_000);
            client.run();
        }
        _ => {
            client.room = client.room.max(200_000);
            client.run();
            let mut bytes = Vec::new();
            for _ in 0..=dice.below(4) {
                let piece = PIECES[usize::try_from(dice.below(40)).unwrap()];
                bytes.extend_from_slice(piece.as_bytes());
            }
            let cut = 1 + usize::try_from(dice.below(bytes.len() as u64)).unwrap();
            for piece in bytes.chunks(cut) {
                client.room = client.room.max(200_000);
                client.run();
                client.feed(piece);
            }
        }
    }
}

#[test]
fn nothing_breaks_an_invariant() {
    for seed in 0..300 {
        play(seed);
    }
}
