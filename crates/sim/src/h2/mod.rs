//! Schedules of HTTP/2: clients with random requests, windows, priorities and resets.
//!
//! A client knows what it has sent and which windows it has opened. It checks each frame when the
//! server's kernel takes it: its order, its windows, the state of its stream, and the end of the
//! stream. Responses are judged as those of HTTP/1 are, by the same model. Some clients break a
//! rule, or send random frames: the connection must end, with the right code.
mod client;
mod compose;
mod encoder;
mod fetcher;
mod receive;
mod stream;
mod talk;
mod violation;

use crate::{
    BrokenCheck, dice::Dice, duplex::World, plant::Plant, run::Scenario, sealing::Sealing, site,
    talk::DuplexReport,
};
pub use fetcher::Http2Fetcher;

use client::H2Client;
use regatta_metrics::{Arena, Counter, Tally};
use regatta_origin::{BodyFiles, ClearHttp1, Cx, Links, LocalCache, Log, Record, Scratch};
use std::{
    cell::Cell,
    sync::{Arc, atomic::AtomicU64},
};
use talk::H2Talk;

/// The least limit of a head, bytes: most field blocks are shorter.
const HEAD_BYTES_LEAST: usize = 500;

/// Log that counts its records: each request has one.
#[derive(Debug, Default)]
struct RecordCount {
    records: Cell<u64>,
    sent: Cell<u64>,
}

impl Log for RecordCount {
    fn wants(&self) -> bool {
        true
    }

    fn record(&self, record: &Record<'_>) {
        self.records.set(self.records.get() + 1);
        self.sent.set(self.sent.get() + record.sent_bytes);
    }
}

impl RecordCount {
    /// Compares the records with the counters of requests and of sent bytes.
    fn check(&self, requests: u64, sent: u64) -> Result<(), BrokenCheck> {
        let (records, bytes) = (self.records.get(), self.sent.get());
        if records == requests && bytes <= sent {
            return Ok(());
        }
        Err(format!("{records} records of {requests} requests, {bytes} of {sent} bytes").into())
    }
}

/// The files that streams which wait may keep open: in half of the schedules few or none. No draw
/// is taken, so that known seeds keep their sites.
const fn body_files(seed: u64) -> u32 {
    match seed / 8 % 4 {
        0 => 0,
        1 => 2,
        _ => u32::MAX,
    }
}

impl Scenario {
    /// Runs connections of HTTP/2, and adds to these sums.
    ///
    /// # Errors
    /// The fault, and the command that replays it.
    pub fn run_http2(self, sums: DuplexReport) -> Result<DuplexReport, BrokenCheck> {
        self.start("--http2");
        let (Self { seed, sealed, plant }, mut seals) = (self, self.seals());
        // The seed is altered, so that the site differs from that of the same seed for HTTP/1.
        let mut dice = Dice::seeded(seed ^ 0x4832_4832_0000_0000);
        let mut site = site::site(&mut dice);
        site.limits.head_bytes_max = site.limits.head_bytes_max.max(HEAD_BYTES_LEAST);
        site.http2.streams_max = dice.pick(&[100, 100, 8, 2]);
        site.http2.exchanges_max = dice.pick(&[4_096, 4_096, 4_096, 2]);
        let words: Vec<_> = (0..Arena::count_words(1)).map(|_| AtomicU64::new(0)).collect();
        let arena = Arena::create(&words, 1);
        let cache = LocalCache::new(&site.caching, site.seed);
        let most = match plant {
            None => body_files(site.seed),
            Some(Plant::OldIdentity) => 0,
            Some(_) => u32::MAX,
        };
        site.content.precompressed |= plant == Some(Plant::OldIdentity);
        let files = Arc::new(BodyFiles::new(most));
        let scratch = Scratch::new(site.boundary_key).counting(Arc::clone(&files));
        let (tally, sealing) = (Tally::Owned(arena.slot(0)), Sealing::for_http2(ClearHttp1, seed));
        let links: &dyn Links<_> = if sealed { &sealing } else { &ClearHttp1 };
        let log = RecordCount::default();
        let cx = Cx { site: &site, cache: &cache, tally, log: &log, scratch: &scratch, links };
        let breaks = plant.is_none() && dice.one_in(4);
        let mut world = World::new(cx, H2Talk::new(&site), dice, seals.as_mut(), |dice, peer| {
            H2Client::new(dice, peer, breaks, plant)
        });
        world.plant(plant);
        world.closes_files(most < u32::MAX);
        world.report = sums;
        let get = |counter| arena.slot(0).get(counter);
        let ended =
            world.run().and_then(|()| log.check(get(Counter::Requests), get(Counter::BytesSent)));
        let ended = ended.and_then(|()| match files.open() {
            0 => Ok(()),
            open => Err(format!("{open} open files of bodies are counted at the end").into()),
        });
        world.report.files_closed += get(Counter::Http2FilesClosed);
        ended.map_err(|what| self.replay(world.tick(), &what)).map(|()| world.report)
    }
}
