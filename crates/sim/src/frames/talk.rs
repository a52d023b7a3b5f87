//! Schedules of clients that speak the protocol of frames, and checks of their answers. The program
//! runs one with `--frames --seed N`, and one of each seed when it runs many seeds.
use super::{Answer, Client, Frames, NOT_FOUND, UNAVAILABLE};
use crate::{
    BrokenCheck,
    dice::{Dice, index},
    disk::{Disk, Seen, content},
    duplex::World,
    peer::Peer,
    run::Scenario,
    sealing::Sealing,
    site,
    talk::{Arrival, DuplexReport, LineEnd, Talk, Trouble},
    trace::Stamp,
};
use regatta_metrics::{Arena, Tally};
use regatta_op::{Codings, OpenReq};
use regatta_origin::{Cx, Links, LocalCache, NoLog, Scratch};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::AtomicU64,
};

/// Requested names; the last does not exist.
const NAMES: [&str; 9] = [
    "a.txt",
    "b.html",
    "img.png",
    "empty.txt",
    "big.bin",
    "mid.bin",
    "docs/guide.html",
    "app.3f9c2ab1.js",
    "none",
];

/// Client on a connection, and its requests.
struct Asking {
    client: Client,
    /// All bytes that the client sends.
    wire: Vec<u8>,
    /// Number of bytes of `wire` that the peer has decided to send.
    asked: usize,
    /// Number of requests that may still be turned away.
    refused: u32,
    /// Request of the last answer.
    last: Option<usize>,
}

impl Asking {
    fn new(dice: &mut Dice, peer: &mut Peer) -> Self {
        peer.burst = dice.pick(&[1, 4, 8, 8, 20]);
        let file = |_| u8::try_from(dice.below(NAMES.len() as u64)).expect("few");
        let client = Client::new((0..peer.left).map(file).collect());
        Self { wire: client.wire(), client, asked: 0, refused: 0, last: None }
    }

    fn unanswered(&self) -> u64 {
        (self.asked / 2 - self.client.answers()) as u64
    }
}

/// Files that clients may receive.
#[derive(Default)]
struct FramesTalk {
    /// Files that have had each name: their numbers and lengths.
    known: BTreeMap<&'static str, BTreeSet<(u64, u64)>>,
    /// Names that were missing at some time, or could not be opened.
    missing: BTreeSet<&'static str>,
}

impl Talk for FramesTalk {
    type Client = Asking;

    const SEND_BYTES_MAX: Option<u64> = None;

    fn note_files(&mut self, disk: &Disk) {
        for name in NAMES {
            let req = OpenReq { path: name.as_bytes().into(), siblings: Codings::NONE };
            match disk.open(&req).0 {
                Seen::File { main, .. } => {
                    self.known.entry(name).or_default().insert((main.inode, main.len));
                }
                _ => drop(self.missing.insert(name)),
            }
        }
    }

    fn note_trouble(&mut self, asking: &mut Asking, trouble: Trouble, _: Stamp) {
        asking.refused += u32::from(trouble == Trouble::TurnedAway);
    }

    fn say(&mut self, asking: &mut Asking, peer: &mut Peer, _: &mut Dice) -> Option<Vec<u8>> {
        if asking.asked >= asking.client.may_send() || !peer.asks(asking.unanswered()) {
            return None;
        }
        let frame = asking.wire[asking.asked..][..2].to_vec();
        asking.asked += 2;
        peer.left -= 1;
        Some(frame)
    }

    fn feed(
        &mut self,
        asking: &mut Asking,
        bytes: &[u8],
        arrival: &Arrival,
        report: &mut DuplexReport,
    ) -> Result<(), BrokenCheck> {
        let Asking { client, refused, last, .. } = asking;
        client.feed(bytes, &mut |answer| {
            report.answers += 1;
            report.overtaking += u64::from(last.is_some_and(|last| last > answer.number));
            *last = Some(answer.number);
            let unavailable = answer.code == UNAVAILABLE;
            let excused = arrival.excused || arrival.queued && unavailable;
            if unavailable && !excused && *refused > 0 {
                *refused -= 1;
                report.refused += 1;
                return Ok(());
            }
            self.check(&answer, excused)
        })
    }

    fn answers(&self, asking: &Asking) -> usize {
        asking.client.answers()
    }

    fn unanswered(&self, asking: &Asking) -> u64 {
        asking.unanswered()
    }

    fn may_end(&self, _: &Asking, _: &LineEnd) -> bool {
        false
    }

    fn judge_end(
        &mut self,
        asking: &mut Asking,
        end: &LineEnd,
        _: &mut DuplexReport,
    ) -> Result<(), BrokenCheck> {
        let (answers, requests) = (asking.client.answers(), end.requests);
        let is_complete = answers == index(u64::from(requests)) && !asking.client.has_part();
        if end.is_whole() && end.greets && !is_complete {
            return Err(format!("{answers} of {requests} answered, {:?}", end.reason).into());
        }
        Ok(())
    }
}

impl FramesTalk {
    /// Checks that an answer is a whole file that once had this name, or a valid reason for none.
    fn check(&self, answer: &Answer, excused: bool) -> Result<(), BrokenCheck> {
        let Answer { number, file, code, body } = answer;
        let name = NAMES[usize::from(*file)];
        let is_it = |inode: u64| content(inode, 0..body.len() as u64) == *body;
        let right = match *code {
            0 => self.known.get(name).is_some_and(|files| {
                files.iter().any(|(inode, len)| *len == body.len() as u64 && is_it(*inode))
            }),
            NOT_FOUND => self.missing.contains(name),
            // A fault of the disk, or no answer from it.
            _ => excused,
        };
        let len = body.len();
        if right {
            Ok(())
        } else {
            Err(format!("{name}, request {number}: code {code}, {len} bytes").into())
        }
    }
}

impl Scenario {
    /// Runs connections of frames, and adds to these sums.
    ///
    /// # Errors
    /// The fault, and the command that replays it.
    pub fn run_frames(self, sums: DuplexReport) -> Result<DuplexReport, BrokenCheck> {
        self.start("--frames");
        let (Self { seed, sealed, plant }, mut seals) = (self, self.seals());
        // The seed is altered, so that the site differs from that of the same seed for HTTP/1.
        let mut dice = Dice::seeded(seed ^ 0xf4a3_e500_0000_0000);
        let mut site = site::site(&mut dice);
        site.content.not_found = "".into();
        site.content.fallback = "".into();
        site.content.clean_urls = false;
        let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
        let arena = Arena::create(&words, 1);
        let cache = LocalCache::new(&site.caching, site.seed);
        let scratch = Scratch::new(site.boundary_key);
        let frames = Frames { names: &NAMES };
        let (tally, sealing) = (Tally::Owned(arena.slot(0)), Sealing::new(frames, seed, None));
        let links: &dyn Links<_> = if sealed { &sealing } else { &frames };
        let cx = Cx { site: &site, cache: &cache, tally, log: &NoLog, scratch: &scratch, links };
        let talk = FramesTalk::default();
        let mut world = World::new(cx, talk, dice, seals.as_mut(), Asking::new);
        world.plant(plant);
        world.report = sums;
        let ended = world.run();
        ended.map_err(|what| self.replay(world.tick(), &what)).map(|()| world.report)
    }
}
