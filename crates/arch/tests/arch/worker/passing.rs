//! Connections that the units of a process pass to each other.
use super::{
    Fixture, Held, RULES,
    dice::{Dice, SEEDS},
    round, turn,
};
use regatta_arch::conn::{
    accept::{AcceptRules, WhenFull},
    worker::{Passed, Worker},
};
use regatta_metrics::{Counter, Gauge, Totals};
use regatta_op::CloseReason;
use regatta_origin::{Deadlines, LocalCache, Scratch};
use regatta_sys::hook;
use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

const BEGIN_MS: u64 = 1_000_000;
/// Steps of a schedule before the end begins, and rounds until it must be over.
const STEPS: usize = 150;
const LAST_ROUNDS_MAX: usize = 2_000;
/// Time that an idle connection stays open in a drain, ms.
const DRAIN_IDLE_MS: u64 = 100;

fn deadlines() -> Deadlines {
    Deadlines {
        head_ms_max: 400,
        first_request_ms_max: 900,
        idle_ms_max: 700,
        send_window_ms: 500,
        linger_ms_max: 100,
        drain_idle_ms: DRAIN_IDLE_MS,
        ..Deadlines::default()
    }
}

/// Counts of events in all schedules.
#[derive(Debug, Default)]
struct Sums {
    lent: u64,
    adopted: u64,
    taken_back: u64,
    ended_on_the_way: u64,
    answered_elsewhere: u64,
    expired_elsewhere: u64,
    /// Rounds in a drain of a unit that had no connections and waited for some.
    waited_in_drain: u64,
}

/// A unit that accepts and lends, and one that others feed.
struct Process<'a> {
    fixture: &'a Fixture,
    dice: Dice,
    home: Worker<'a, Held>,
    other: Worker<'a, Held>,
    carried: Vec<(Passed, Held)>,
    peers: Vec<TcpStream>,
    connections_max: usize,
    ms: u64,
    buffer: Vec<u8>,
    sums: &'a mut Sums,
}

impl Process<'_> {
    fn time_passes(&mut self, ms: u64) {
        self.ms += ms;
        hook::set_time((BEGIN_MS + self.ms) * 1_000_000, 4_000_000_000);
    }

    fn step(&mut self) {
        match self.dice.below(14) {
            0 | 1 if self.peers.len() < 8 => {
                let peer = self.fixture.connect(0);
                peer.set_nonblocking(true).unwrap();
                self.peers.push(peer);
            }
            2 | 3 => self.a_peer(|dice, peer| {
                let ask = ["GET /small HT", "TP/1.1\r\nHost: a\r\n\r\n"];
                let large = "GET /large HTTP/1.1\r\nHost: a\r\n\r\n";
                let small = ask.concat();
                let all = [&small, &small, &small, &small, ask[0], ask[0], ask[1], ask[1], large];
                let said = all[dice.below(all.len())];
                let _it_may_be_closed = peer.write_all(said.as_bytes());
            }),
            4 | 5 => {
                self.a_peer(|dice, peer| drop(peer.read(&mut vec![0; 1 + dice.below(1 << 20)])))
            }
            6 if self.dice.once_in(4) => drop(self.dice.take(&mut self.peers)),
            7 | 8 => self.home_round(),
            9 => self.other_round(),
            10 => {
                if let Some(key) = self.dice.take(&mut self.home.keys()) {
                    self.carried.extend(self.home.lend(key));
                    assert!(self.home.slot(key).is_none());
                    self.sums.lent += 1;
                }
            }
            11 => {
                let key = self.dice.take(&mut self.other.keys());
                self.carried.extend(key.and_then(|key| self.other.pass(key)));
            }
            12 => self.deliver(),
            _ => {
                let ms = self.dice.below(150) as u64;
                self.time_passes(ms);
            }
        }
    }

    fn a_peer(&mut self, does: impl FnOnce(&mut Dice, &mut TcpStream)) {
        if !self.peers.is_empty() {
            let at = self.dice.below(self.peers.len());
            does(&mut self.dice, &mut self.peers[at]);
        }
    }

    fn home_round(&mut self) {
        if self.home.goes_on() {
            round(&mut self.home, Duration::ZERO, self.fixture.below(), &mut self.buffer);
        }
    }

    fn other_round(&mut self) {
        self.elsewhere(|other, buffer, fixture| {
            if other.goes_on() {
                round(other, Duration::ZERO, fixture.below(), buffer);
            }
        });
    }

    /// Runs the other unit, and reports at home each connection that it closes.
    fn elsewhere(&mut self, does: impl FnOnce(&mut Worker<'_, Held>, &mut [u8], &Fixture)) {
        let count = |fixture: &Fixture| fixture.get(1, Counter::ConnectionsClosed);
        let before = count(self.fixture);
        does(&mut self.other, &mut self.buffer, self.fixture);
        (before..count(self.fixture)).for_each(|_| self.home.ended_away());
    }

    /// Delivers a connection on its way to one of the two units, or ends it.
    fn deliver(&mut self) {
        let Some((passed, held)) = self.dice.take(&mut self.carried) else { return };
        let below = self.fixture.below();
        match self.dice.below(5) {
            0 | 1 if self.other.goes_on() => {
                self.sums.adopted += 1;
                self.elsewhere(|other, buffer, _| {
                    let key = other.adopt(passed, held);
                    turn(other, key, below, buffer);
                });
            }
            2 | 3 if self.home.goes_on() => {
                self.sums.taken_back += 1;
                let key = self.home.take_back(passed, held);
                turn(&mut self.home, key, below, &mut self.buffer);
            }
            _ => {
                let key = self.home.take_back(passed, held);
                self.home.close(key, CloseReason::Failed);
                self.sums.ended_on_the_way += 1;
            }
        }
    }

    fn check(&self) {
        let totals = self.totals();
        let (home, other) = (self.home.keys().len(), self.other.keys().len());
        let all = home + other + self.carried.len();
        assert_eq!(totals.gauge(Gauge::ConnectionsOpen), all as u64);
        assert_eq!(self.home.away(), other + self.carried.len());
        assert!(all <= self.connections_max, "{all} of {}", self.connections_max);
        assert_eq!(self.other.away(), 0);
    }

    fn totals(&self) -> Totals {
        Totals::counters_of(self.fixture.arena.view().slots())
    }

    /// Ends the process as the master does: stops it, or drains it for a short time or a long one.
    fn end(mut self) {
        let control = self.fixture.arena.control();
        let ends_at = match self.dice.below(8) {
            0 => None,
            1 | 2 => Some(self.ms + self.dice.below(60) as u64),
            _ => Some(u64::MAX / 2),
        };
        match ends_at {
            Some(ms) => control.drain(BEGIN_MS + ms),
            None => control.stop(),
        }
        let in_time = |ms| ends_at.is_some_and(|end| ms < end);
        for last in 0.. {
            assert!(last < LAST_ROUNDS_MAX, "{:?} {}", self.home.keys(), self.home.away());
            self.time_passes(20);
            self.home_round();
            if !self.home.goes_on() {
                break;
            }
            let all = self.other.keys().len() + self.carried.len();
            self.other_round();
            if in_time(self.ms) {
                assert!(self.other.goes_on(), "it is fed until it retires");
                self.sums.waited_in_drain += u64::from(all == 0);
            }
            (0..self.carried.len()).for_each(|_| self.deliver());
            for peer in &mut self.peers {
                while peer.read(&mut self.buffer).is_ok_and(|n| n > 0) {}
            }
            self.check();
        }
        if in_time(self.ms) {
            assert_eq!(self.home.away(), 0, "it waits for those that it has lent");
        }
        self.other.retire();
        self.other_round();
        assert!(!self.other.goes_on());
        while !self.carried.is_empty() {
            self.deliver();
        }
        self.balance();
    }

    fn balance(self) {
        let totals = self.totals();
        let get = |counter| totals.get(counter);
        assert_eq!(get(Counter::ConnectionsOpened), get(Counter::AcceptOk));
        assert_eq!(get(Counter::ConnectionsOpened), get(Counter::ConnectionsClosed));
        let reasons = 0..CloseReason::ALL.len();
        let closed: u64 = reasons.map(|reason| get(Counter::closed(reason))).sum();
        assert_eq!(closed, get(Counter::ConnectionsClosed));
        assert_eq!(get(Counter::BytesSent), get(Counter::SendBytes) + get(Counter::SendfileBytes));
        let elsewhere = |counter| self.fixture.get(1, counter);
        self.sums.answered_elsewhere += elsewhere(Counter::Replies);
        self.sums.expired_elsewhere += elsewhere(Counter::ClosedIdleDeadline);
    }
}

#[test]
fn random_schedules_lose_no_connection_and_count_each_once() {
    let mut fixture = Fixture::new("passing", 2);
    fixture.site.deadlines = deadlines();
    let mut sums = Sums::default();
    for seed in 0..SEEDS {
        let mut dice = Dice::new(seed);
        hook::set_time(BEGIN_MS * 1_000_000, 4_000_000_000);
        (fixture.arena, fixture.listeners) = Fixture::fresh(2);
        let (cache, scratch) = (LocalCache::new(&fixture.site.caching, 7), Scratch::new(7));
        let connections_max = 1 + dice.below(5);
        let when_full = if dice.once_in(2) { WhenFull::CloseIdle } else { WhenFull::Pause };
        let rules = AcceptRules { connections_max, when_full, on_close: dice.once_in(3), ..RULES };
        let home = fixture.worker(0, 0, &cache, &scratch, rules);
        let other = fixture.worker(1, 0, &cache, &scratch, rules).fed();
        let (carried, peers, buffer) = (Vec::new(), Vec::new(), vec![0; 256 << 10]);
        let (fixture, sums, ms) = (&fixture, &mut sums, 0);
        let mut process = Process {
            fixture,
            dice,
            home,
            other,
            carried,
            peers,
            connections_max,
            ms,
            buffer,
            sums,
        };
        for _ in 0..STEPS {
            process.step();
            process.check();
        }
        process.end();
    }
    hook::clear();
    let Sums { lent, adopted, taken_back, ended_on_the_way, .. } = sums;
    let Sums { answered_elsewhere, expired_elsewhere, waited_in_drain, .. } = sums;
    let often = [lent, adopted, taken_back, ended_on_the_way, answered_elsewhere, waited_in_drain];
    assert!(often.iter().all(|times| *times > SEEDS) && expired_elsewhere > 20, "{sums:?}");
}

/// Runs a round without a wait.
fn round_at_once(fixture: &Fixture, worker: &mut Worker<'_, Held>) {
    round(worker, Duration::ZERO, fixture.below(), &mut [0; 16 << 10]);
}

/// A unit that was full accepts again when another has taken a connection from it.
#[test]
fn who_passes_a_connection_has_room_for_another() {
    let fixture = &Fixture::new("room", 2);
    let (cache, scratch) = (LocalCache::new(&fixture.site.caching, 7), Scratch::new(7));
    let rules = AcceptRules { connections_max: 1, when_full: WhenFull::Pause, ..RULES };
    let [mut one, mut two] = [0, 1].map(|slot| fixture.worker(slot, 0, &cache, &scratch, rules));
    let round = |worker: &mut Worker<'_, Held>| round_at_once(fixture, worker);
    let _peers = [fixture.connect(0), fixture.connect(0)];
    while one.is_listening() {
        round(&mut one);
    }
    let (passed, held) = one.pass(one.keys()[0]).unwrap();
    assert!(one.is_listening() && one.away() == 0, "it counts where it is taken in");
    two.adopt(passed, held);
    while one.keys().is_empty() {
        round(&mut one);
    }
    assert_eq!((fixture.get(0, Counter::AcceptOk), two.keys().len()), (2, 1));
}

/// A unit that retires finishes its connections and accepts no more; others still accept.
#[test]
fn who_retires_leaves_the_listener_to_others() {
    let mut fixture = Fixture::new("retire", 2);
    fixture.site.deadlines = deadlines();
    let fixture = &fixture;
    let set_time = |ms: u64| hook::set_time((BEGIN_MS + ms) * 1_000_000, 4_000_000_000);
    set_time(0);
    let (cache, scratch) = (LocalCache::new(&fixture.site.caching, 7), Scratch::new(7));
    let [mut one, mut two] = [0, 1].map(|slot| fixture.worker(slot, 0, &cache, &scratch, RULES));
    let round = |worker: &mut Worker<'_, Held>| round_at_once(fixture, worker);
    let _first = fixture.connect(0);
    while one.keys().is_empty() {
        round(&mut one);
    }
    one.retire();
    round(&mut one);
    assert!(one.goes_on() && !one.is_listening(), "its client may have sent a request");
    let patience = one.patience(Duration::from_secs(1));
    assert!(
        patience > Duration::from_millis(50),
        "no drain's deadline ends its waits: {patience:?}"
    );
    let _second = fixture.connect(0);
    while two.keys().is_empty() {
        round(&mut one);
        round(&mut two);
    }
    set_time(4 * DRAIN_IDLE_MS + 100);
    round(&mut one);
    assert!(!one.goes_on());
    let _third = fixture.connect(0);
    while two.keys().len() < 2 {
        round(&mut two);
    }
    assert_eq!(fixture.get(0, Counter::AcceptOk), 1);
    hook::clear();
}
