//! The three models: connections that wait (closed), requests that arrive on their own (open), and
//! sessions that arrive on their own and wait inside (partly open), with httperf's rules (§3.6).
//!
//! The first request of a burst is sent alone, the others after its reply: pipelined on the
//! session's connection, or over up to four when the server closes them. The think time runs from
//! the burst's last reply, and what follows is due when it has passed. A time-out, or a connection
//! that cannot be made, fails the session: what it had left is never sent.

use super::arrivals::{Arrival, Rate};
use super::core::{Alarm, Broken, Core, Order};
use super::exchange::Reply;
use super::fate::Fate;
use super::input::ConnId;
use super::plan::Plan;
use super::play::{Coming, Play};
use crate::number::{id, index, nanos};
use std::collections::VecDeque;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Closed {
    slots: Vec<Option<ConnId>>,
    /// Place in the plan's order, which all threads walk together.
    next: u64,
    step: u64,
    worker: u64,
    think_ns: u64,
    left: Option<u64>,
}

/// Time before a connection that could not be made is tried again.
const RETRY_NS: u64 = 10_000_000;
/// Time between the first connects of one thread: a listener's queue is short.
const STAGGER_NS: u64 = 20_000;

impl Closed {
    pub(super) fn new(plan: &Plan, worker: u32, connections: u32, think: Duration) -> Self {
        Self {
            slots: vec![None; index(plan.places(plan.share(worker, connections.into())))],
            next: worker.into(),
            step: plan.workers.into(),
            worker: worker.into(),
            think_ns: nanos(think),
            left: plan.options.count.map(|count| plan.share(worker, count)),
        }
    }

    /// The next request of a slot, after its think time.
    #[inline]
    fn next(&mut self, core: &mut Core<'_>, slot: u32) {
        if self.think_ns > 0 {
            let due = core.now.saturating_add(self.think_ns);
            core.timers.set(due, Alarm::Play(slot.into()));
        } else {
            self.issue(core, slot, core.now);
        }
    }

    #[inline]
    fn issue(&mut self, core: &mut Core<'_>, slot: u32, due: u64) {
        if core.ending || self.left == Some(0) {
            return;
        }
        self.left = self.left.map(|left| left - 1);
        let order = &core.plan.order;
        let target = order[index(self.next % order.len() as u64)];
        self.next += self.step;
        core.offer(due);
        let number = self.worker + u64::from(slot) * self.step;
        let client = id(index(number % u64::from(core.plan.clients)));
        self.send(core, slot, Order { target, client, due, tries: 0 });
    }

    #[inline]
    fn send(&mut self, core: &mut Core<'_>, slot: u32, order: Order) {
        let at = index(slot.into());
        let conn = match self.slots[at] {
            Some(conn) => conn,
            None => match core.open(slot, 0) {
                Ok(conn) => {
                    self.slots[at] = Some(conn);
                    conn
                }
                Err(fate) => {
                    core.lose(order, fate);
                    core.timers.set(core.now + RETRY_NS, Alarm::Play(slot.into()));
                    return;
                }
            },
        };
        core.request(conn, order);
    }
}

impl Play for Closed {
    fn begin(&mut self, core: &mut Core<'_>) {
        for slot in 0..id(self.slots.len()) {
            if slot < 64 {
                self.issue(core, slot, core.now);
            } else {
                let at = core.now + u64::from(slot) * STAGGER_NS;
                core.timers.set(at, Alarm::Play(slot.into()));
            }
        }
    }

    fn alarm(&mut self, core: &mut Core<'_>, payload: u64, due: u64) {
        if self.think_ns > 0 {
            core.lag(due);
        }
        self.issue(core, u32::try_from(payload).unwrap_or(0), due);
    }

    #[inline]
    fn reply(&mut self, core: &mut Core<'_>, conn: ConnId, reply: Reply) {
        if !reply.keep {
            core.close(conn);
            self.slots[index(reply.owner.into())] = None;
        }
        self.next(core, reply.owner);
    }

    fn broken(&mut self, core: &mut Core<'_>, _conn: ConnId, broken: Broken) {
        let slot = broken.owner;
        self.slots[index(slot.into())] = None;
        for order in broken.again {
            self.send(core, slot, order);
        }
        if broken.lost == 0 {
            return;
        }
        if matches!(broken.fate, Fate::Refused | Fate::Tls | Fate::Other) {
            core.timers.set(core.now + RETRY_NS, Alarm::Play(slot.into()));
        } else {
            self.next(core, slot);
        }
    }

    fn is_done(&self, core: &Core<'_>) -> bool {
        self.slots.is_empty() || self.left == Some(0) && core.in_flight == 0
    }
}

/// Requests that may wait for a connection.
const WAITING_MAX: usize = 1_000_000;

pub(super) struct Open {
    coming: Coming,
    client: u32,
    idle: Vec<ConnId>,
    connections: u64,
    connections_max: u64,
    waiting: VecDeque<Order>,
}

impl Open {
    pub(super) fn new(
        plan: &Plan,
        worker: u32,
        rate: &Rate,
        connections_max: u64,
        start: u64,
    ) -> Self {
        Self {
            coming: Coming::new(plan, worker, Some(rate), start),
            client: worker % plan.clients,
            idle: Vec::new(),
            connections: 0,
            connections_max,
            waiting: VecDeque::new(),
        }
    }

    /// Sends a request on an idle connection, or a new one, or has it wait. One that is made again
    /// takes a new one if it may: a server that ends one idle connection ends others as well.
    #[inline]
    fn dispatch(&mut self, core: &mut Core<'_>, order: Order) {
        let reuses = order.tries == 0 || self.connections >= self.connections_max;
        while reuses && let Some(conn) = self.idle.pop() {
            if core.is_open(conn) {
                core.request(conn, order);
                return;
            }
        }
        if self.connections < self.connections_max {
            match core.open(0, 0) {
                Ok(conn) => {
                    self.connections += 1;
                    core.request(conn, order);
                    return;
                }
                Err(Fate::NoDescriptor | Fate::NoAddress) if self.connections > 0 => {}
                Err(fate) => {
                    core.lose(order, fate);
                    return;
                }
            }
        }
        core.tally.health.waited += 1;
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(order);
        } else {
            core.lose(order, Fate::Expired);
        }
    }

    /// The next waiting request that can still be in time.
    #[inline]
    fn take_waiting(&mut self, core: &mut Core<'_>) -> Option<Order> {
        while let Some(order) = self.waiting.pop_front() {
            if core.now.saturating_sub(order.due) <= core.plan.deadline_ns {
                return Some(order);
            }
            core.lose(order, Fate::Expired);
        }
        None
    }
}

impl Play for Open {
    #[inline]
    fn coming(&mut self) -> Option<&mut Coming> {
        Some(&mut self.coming)
    }

    #[inline]
    fn arrive(&mut self, core: &mut Core<'_>, arrival: Arrival, due: u64) {
        let order = &core.plan.order;
        let target = order[index(arrival.number % order.len() as u64)];
        core.offer(due);
        self.dispatch(core, Order { target, client: self.client, due, tries: 0 });
    }

    #[inline]
    fn reply(&mut self, core: &mut Core<'_>, conn: ConnId, reply: Reply) {
        if !reply.keep {
            core.close(conn);
            self.connections -= 1;
            if let Some(order) = self.take_waiting(core) {
                self.dispatch(core, order);
            }
        } else if let Some(order) = self.take_waiting(core) {
            core.request(conn, order);
        } else {
            self.idle.push(conn);
        }
    }

    fn broken(&mut self, core: &mut Core<'_>, _conn: ConnId, broken: Broken) {
        self.connections -= 1;
        for order in broken.again {
            self.dispatch(core, order);
        }
        if self.connections < self.connections_max
            && let Some(order) = self.take_waiting(core)
        {
            self.dispatch(core, order);
        }
    }

    fn is_done(&self, core: &Core<'_>) -> bool {
        self.coming.is_over() && core.in_flight == 0
    }

    fn give_up(&mut self, core: &mut Core<'_>) {
        while let Some(order) = self.waiting.pop_front() {
            core.lose(order, Fate::Unfinished);
        }
    }
}

/// Connections of one session at most (httperf's limit).
const CONNECTIONS: usize = 4;

#[derive(Debug, Default)]
struct Session {
    generation: u32,
    alive: bool,
    /// Place in the script.
    part: u32,
    step: u32,
    born: u64,
    replies: u32,
    /// Requests of this burst that have been offered and not decided.
    outstanding: u32,
    /// Only the burst's first request is out.
    first_only: bool,
    /// The server closes after each reply, so that nothing can be pipelined.
    one_each: bool,
    think_us: u32,
    conns: [Option<ConnId>; CONNECTIONS],
    /// Requests that are due but not sent.
    todo: VecDeque<Order>,
}

pub(super) struct Sessions {
    coming: Coming,
    all: Vec<Session>,
    free: Vec<u32>,
    alive: u64,
}

impl Sessions {
    pub(super) fn new(plan: &Plan, worker: u32, rate: Option<&Rate>, start: u64) -> Self {
        let coming = Coming::new(plan, worker, rate, start);
        Self { coming, all: Vec::new(), free: Vec::new(), alive: 0 }
    }

    /// Starts the next burst: its first request, alone.
    fn burst(&mut self, core: &mut Core<'_>, at: u32, due: u64) {
        let session = &mut self.all[index(at.into())];
        let step = core.plan.script.steps[index(session.step.into())];
        session.think_us = step.think_us;
        session.first_only = true;
        self.offer(core, at, due);
        self.pump(core, at);
    }

    /// The session's next step becomes due.
    fn offer(&mut self, core: &mut Core<'_>, at: u32, due: u64) {
        let session = &mut self.all[index(at.into())];
        let step = core.plan.script.steps[index(session.step.into())];
        let client = core.plan.script.sessions[index(session.part.into())].client;
        session.step += 1;
        session.outstanding += 1;
        session.todo.push_back(Order { target: step.target, client, due, tries: 0 });
        core.offer(due);
    }

    /// Sends what is due, as far as connections allow.
    fn pump(&mut self, core: &mut Core<'_>, at: u32) {
        let session = &mut self.all[index(at.into())];
        let line = core.plan.script.sessions[index(session.part.into())].line_bits_per_s;
        let most = if session.one_each { CONNECTIONS } else { 1 };
        for place in 0..most {
            while let Some(&order) = session.todo.front() {
                let conn = match session.conns[place].filter(|&conn| core.is_open(conn)) {
                    Some(conn) if session.one_each && core.is_busy(conn) => break,
                    Some(conn) => conn,
                    None => match core.open(at, line) {
                        Ok(conn) => conn,
                        Err(fate) => return self.fail(core, at, fate),
                    },
                };
                session.conns[place] = Some(conn);
                session.todo.pop_front();
                core.request(conn, order);
            }
        }
    }

    /// A request of the session has got its reply.
    fn replied(&mut self, core: &mut Core<'_>, at: u32) {
        let session = &mut self.all[index(at.into())];
        session.replies += 1;
        session.outstanding -= 1;
        let end = core.plan.script.sessions[index(session.part.into())].end;
        if session.first_only {
            session.first_only = false;
            while self.all[index(at.into())].step < end && !self.at_burst(core, at) {
                self.offer(core, at, core.now);
            }
        }
        let session = &mut self.all[index(at.into())];
        if session.outstanding > 0 {
            self.pump(core, at);
        } else if session.step == end {
            self.over(core, at, true);
        } else {
            let due = core.now.saturating_add(core.plan.think_ns(session.think_us));
            let payload = u64::from(session.generation) << 32 | u64::from(at);
            core.timers.set(due, Alarm::Play(payload));
        }
    }

    fn at_burst(&self, core: &Core<'_>, at: u32) -> bool {
        core.plan.script.steps[index(self.all[index(at.into())].step.into())].starts_burst
    }

    /// The session fails; requests that were due go with it.
    fn fail(&mut self, core: &mut Core<'_>, at: u32, fate: Fate) {
        let session = &mut self.all[index(at.into())];
        let todo = core::mem::take(&mut session.todo);
        for conn in session.conns {
            if let Some(conn) = conn.filter(|&conn| core.is_open(conn)) {
                let broken = core.end(conn, fate);
                broken.again.into_iter().for_each(|order| core.lose(order, fate));
            }
        }
        todo.into_iter().for_each(|order| core.lose(order, fate));
        self.over(core, at, false);
    }

    /// Counts a session that is done or has failed, and removes it.
    fn over(&mut self, core: &mut Core<'_>, at: u32, done: bool) {
        let session = &self.all[index(at.into())];
        if (core.from..core.until).contains(&session.born) {
            let counted = &mut core.tally.sessions;
            let (count, lives) = match done {
                true => (&mut counted.done, &mut counted.lifetime),
                false => (&mut counted.failed, &mut counted.failtime),
            };
            *count += 1;
            lives.record(core.now.saturating_sub(session.born));
            counted.length(session.replies);
        }
        self.remove(core, at);
    }

    fn remove(&mut self, core: &mut Core<'_>, at: u32) {
        let session = &mut self.all[index(at.into())];
        for conn in session.conns.into_iter().flatten() {
            core.close(conn);
        }
        session.alive = false;
        self.free.push(at);
        self.alive -= 1;
    }

    /// The run ends before the session.
    fn cut(&mut self, core: &mut Core<'_>, at: u32) {
        let session = &self.all[index(at.into())];
        core.tally.sessions.cut += u64::from((core.from..core.until).contains(&session.born));
        self.remove(core, at);
    }
}

impl Play for Sessions {
    #[inline]
    fn coming(&mut self) -> Option<&mut Coming> {
        Some(&mut self.coming)
    }

    fn arrive(&mut self, core: &mut Core<'_>, arrival: Arrival, due: u64) {
        let parts = &core.plan.script.sessions;
        let part = id(index(arrival.number % parts.len() as u64));
        let at = self.free.pop().unwrap_or_else(|| {
            self.all.push(Session::default());
            id(self.all.len() - 1)
        });
        let session = &mut self.all[index(at.into())];
        let todo = core::mem::take(&mut session.todo);
        *session = Session {
            generation: session.generation.wrapping_add(1),
            alive: true,
            part,
            step: parts[index(part.into())].first,
            born: due,
            todo,
            ..Session::default()
        };
        self.alive += 1;
        let counted = &mut core.tally.sessions;
        counted.most = counted.most.max(self.alive);
        counted.arrived += u64::from((core.from..core.until).contains(&due));
        self.burst(core, at, due);
    }

    fn alarm(&mut self, core: &mut Core<'_>, payload: u64, due: u64) {
        let at = id(index(payload & 0xffff_ffff));
        let session = &self.all[index(at.into())];
        if !session.alive || u64::from(session.generation) != payload >> 32 {
            return;
        }
        if core.ending {
            self.cut(core, at);
            return;
        }
        core.lag(due);
        self.burst(core, at, due);
    }

    fn reply(&mut self, core: &mut Core<'_>, conn: ConnId, reply: Reply) {
        let at = reply.owner;
        if !reply.keep {
            let session = &mut self.all[index(at.into())];
            session.one_each = true;
            // Requests pipelined behind it are sent again.
            let broken = core.end(conn, Fate::Reset);
            for order in broken.again.into_iter().rev() {
                session.todo.push_front(order);
            }
            if broken.lost > 0 {
                session.outstanding -= 1;
                session.replies += 1;
                self.fail(core, at, Fate::Reset);
                return;
            }
        }
        self.replied(core, at);
    }

    fn broken(&mut self, core: &mut Core<'_>, _conn: ConnId, broken: Broken) {
        let at = broken.owner;
        let session = &mut self.all[index(at.into())];
        for order in broken.again.into_iter().rev() {
            session.todo.push_front(order);
        }
        if broken.lost > 0 {
            self.fail(core, at, broken.fate);
        } else if !session.todo.is_empty() {
            self.pump(core, at);
        }
    }

    fn is_done(&self, core: &Core<'_>) -> bool {
        self.coming.is_over() && self.alive == 0 && core.in_flight == 0
    }

    fn give_up(&mut self, core: &mut Core<'_>) {
        for at in 0..id(self.all.len()) {
            let session = &mut self.all[index(at.into())];
            if !session.alive {
                continue;
            }
            for order in core::mem::take(&mut session.todo) {
                core.lose(order, Fate::Unfinished);
            }
            for conn in session.conns.into_iter().flatten() {
                if core.is_open(conn) {
                    core.end(conn, Fate::Unfinished);
                }
            }
            self.cut(core, at);
        }
    }

    fn sessions(&self) -> u64 {
        self.alive
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::arrivals::Arrivals;
    use crate::engine::asking::RequestOptions;
    use crate::engine::options::{LoadOptions, Model};
    use crate::engine::shard::Shard;
    use crate::folder::Folder;
    use std::fs;

    /// Requests or sessions of a load whose shards have that many threads: number, due time, and
    /// place in the order of what is asked for. They are sorted.
    fn requests(options: &LoadOptions, shards: &[u32]) -> Vec<(u64, u64, u32)> {
        let mut all = Vec::new();
        for (number, &threads) in (0_u32..).zip(shards) {
            let shard = Some(Shard { index: number, count: id(shards.len()) });
            let plan = Plan::new(&LoadOptions { shard, threads, ..options.clone() }).unwrap();
            for worker in (0..plan.threads).map(|thread| plan.shard.worker(thread)) {
                all.extend(requests_of(&plan, worker));
            }
        }
        all.sort_unstable();
        all
    }

    fn requests_of(plan: &Plan, worker: u32) -> Vec<(u64, u64, u32)> {
        let (rate, len) = match &plan.options.model {
            Model::Closed { connections, .. } => {
                let play = Closed::new(plan, worker, *connections, Duration::ZERO);
                let number = |nth: u64| play.next + nth * play.step;
                let ask = |number: u64| plan.order[index(number % plan.order.len() as u64)];
                let left = play.left.unwrap();
                return (0..left).map(number).map(|number| (number, 0, ask(number))).collect();
            }
            Model::Open { rate, .. } => (Some(rate), plan.order.len()),
            Model::PartlyOpen { session_rate, .. } => {
                (session_rate.as_ref(), plan.script.sessions.len())
            }
        };
        let mut coming = Coming::new(plan, worker, rate, 0);
        let next = || coming.take(u64::MAX - 1, u64::MAX);
        let arrivals = std::iter::from_fn(next);
        let place = |number: u64| id(index(number % len as u64));
        arrivals.map(|(arrival, due)| (arrival.number, due, place(arrival.number))).collect()
    }

    /// Shards make together the requests of one process, whatever their numbers of threads.
    #[test]
    fn shards_make_the_requests_of_one_process() {
        let folder = Folder::new("shards");
        let (urls, log) = (folder.join("urls"), folder.join("log"));
        fs::write(&urls, "/1\n/2\n/3\n/4\n/5\n/6\n/7\n").unwrap();
        fs::write(&log, "/1\n\n/2\n\n/3\n").unwrap();
        let rate = Rate::ramp(100.0, 5_000.0, 1.0);
        let session_rate = Some(rate.clone());
        for model in [
            Model::Closed { connections: 13, think: None },
            Model::Open { rate, connections_max: None },
            Model::PartlyOpen { sessions: vec![log], session_rate, think: None },
        ] {
            for arrivals in [Arrivals::Constant, Arrivals::Poisson, Arrivals::Uniform] {
                let is_sessions = matches!(model, Model::PartlyOpen { .. });
                let urls = (!is_sessions).then(|| urls.clone());
                let request = RequestOptions { urls, shuffle: true, ..RequestOptions::default() };
                let options = LoadOptions {
                    arrivals,
                    count: Some(1_003),
                    seed: 7,
                    request,
                    ..LoadOptions::new("http://127.0.0.1:1/", model.clone())
                };
                let whole = requests(&options, &[1]);
                assert_eq!(whole.len(), 1_003, "{model:?}");
                for shards in [&[1, 1, 1, 1][..], &[2, 2, 2], &[5], &[1, 3]] {
                    assert_eq!(requests(&options, shards), whole, "{model:?} of {shards:?}");
                }
            }
        }
    }

    /// Threads without a connection would leave their requests out.
    #[test]
    fn each_thread_of_a_closed_loop_has_a_connection() {
        let model = Model::Closed { connections: 3, think: None };
        let count = Some(100);
        let options = LoadOptions { count, ..LoadOptions::new("http://127.0.0.1:1/", model) };
        let whole = requests(&options, &[1]);
        assert_eq!(whole.len(), 100);
        for shards in [&[5][..], &[2, 2], &[1, 2], &[4, 4, 4]] {
            assert_eq!(requests(&options, shards), whole, "{shards:?}");
        }
    }

    /// Shards hold together the connections of one process.
    #[test]
    fn shards_share_the_connections() {
        let model = Model::Closed { connections: 13, think: None };
        let options =
            LoadOptions { idle: Some(9), ..LoadOptions::new("http://127.0.0.1:1/", model) };
        for shards in [&[1][..], &[1, 1, 1, 1], &[2, 2], &[1, 3]] {
            let (mut busy, mut idle) = (0, 0);
            for (number, &threads) in (0_u32..).zip(shards) {
                let shard = Some(Shard { index: number, count: id(shards.len()) });
                let plan = Plan::new(&LoadOptions { shard, threads, ..options.clone() }).unwrap();
                idle += plan.idle();
                for worker in (0..threads).map(|thread| plan.shard.worker(thread)) {
                    busy += Closed::new(&plan, worker, 13, Duration::ZERO).slots.len();
                }
            }
            assert_eq!((busy, idle), (13, 9), "{shards:?}");
        }
    }
}
