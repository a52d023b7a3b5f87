//! Scenes: units, bars of what they do, waits and hand-overs of connections, from records.
use super::FilmThread;
use regatta_metrics::{FilmEvent, FilmRecord, TurnEnd, operation_name};
use regatta_op::OpKind;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Name and version of the form of a scene.
const FORMAT: &str = "regatta-film/1";
/// Requests of a scene. It ends with the last of them.
const REQUESTS_MAX: usize = 300;
/// Bars of a scene, whatever they are of.
const BARS_MAX: usize = 6_000;
/// From here on a call on a file is shown as a wait, nanoseconds.
const SLOW_NS: u64 = 1_000_000;

/// Records of a film, by thread.
#[derive(Debug)]
pub(super) struct Footage {
    pub(super) architecture: String,
    pub(super) pid: u32,
    pub(super) began_ns: u64,
    pub(super) lasts_ns: u64,
    pub(super) threads_left_out: u64,
    pub(super) threads: Vec<FilmThread>,
}

/// Contents of a picture. Times are nanoseconds since the begin of the film.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scene {
    pub(super) format: String,
    pub(super) architecture: String,
    pub(super) pid: u32,
    /// Time of the kernel's monotonic clock at the begin.
    #[serde(default)]
    pub(super) began_ns: u64,
    pub(super) lasts_ns: u64,
    /// Records that were overwritten before they were read.
    pub(super) records_lost: u64,
    /// Threads that had no room for records.
    pub(super) threads_left_out: u64,
    /// Whether it ends before the film, because it has enough requests.
    pub(super) is_cut: bool,
    pub(super) units: Vec<Unit>,
    pub(super) connections: Vec<Connection>,
    pub(super) requests: Vec<Request>,
    pub(super) bars: Vec<Bar>,
    pub(super) waits: Vec<Wait>,
    pub(super) handovers: Vec<Handover>,
    /// Requests as clients saw them; their sender adds them.
    #[serde(default)]
    pub(super) clients: Vec<ClientRequest>,
    #[serde(default)]
    pub(super) records: Vec<Line>,
}

/// Process, thread, user thread or helper: the kernel or the program schedules it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) thread: u32,
}

/// A connection. Its number is its place in the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Connection {
    pub(super) pid: u32,
    pub(super) descriptor: u32,
    /// `None`: before the film.
    pub(super) accepted_ns: Option<u64>,
    /// `None`: after the film.
    pub(super) closed_ns: Option<u64>,
}

/// A request, from its first bytes to the last of its response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) connection: usize,
    /// Number on the connection, from 1 on.
    pub(super) number: u16,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// Work of a unit for a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bar {
    pub(super) unit: usize,
    pub(super) connection: usize,
    pub(super) request: u16,
    /// An operation, `parse`, or `work`.
    pub(super) what: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
    /// Whether it is a call on a file that has waited: for the disk or, where calls block, for the
    /// client.
    pub(super) is_slow: bool,
}

/// Time in which no unit works for a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wait {
    pub(super) connection: usize,
    /// `client`, `disk`, `turn` or `stage`.
    pub(super) r#for: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// A connection goes from one unit to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handover {
    pub(super) connection: usize,
    pub(super) from_unit: usize,
    pub(super) from_ns: u64,
    pub(super) to_unit: usize,
    pub(super) to_ns: u64,
}

/// Request from before its client connected until the client had the whole response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClientRequest {
    pub(super) name: String,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

/// A record: time, unit, connection, requests that have come, event, what it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line(
    pub(super) u64,
    pub(super) usize,
    pub(super) usize,
    pub(super) u16,
    pub(super) String,
    pub(super) String,
);

impl Scene {
    /// The scene of what was recorded.
    pub(super) fn of(footage: &Footage) -> Self {
        let mut maker = Maker::new(footage);
        let mut all: Vec<(usize, usize, &FilmRecord)> = Vec::new();
        for (thread, its) in footage.threads.iter().enumerate() {
            all.extend(its.records.iter().enumerate().map(|(at, record)| (thread, at, record)));
        }
        // Records of one thread keep their order.
        all.sort_by_key(|(.., record)| record.at_ns);
        for (thread, at, record) in all {
            if maker.is_full() {
                maker.scene.is_cut = true;
                break;
            }
            if footage.threads[thread].gaps.contains(&at) {
                maker.forget(thread);
            }
            maker.take(thread, record);
        }
        maker.end()
    }

    /// Keeps what is of these connections.
    pub(super) fn keep(&mut self, connections: &BTreeSet<u32>) {
        let is_kept = |at: usize| u32::try_from(at).is_ok_and(|at| connections.contains(&at));
        self.requests.retain(|it| is_kept(it.connection));
        self.bars.retain(|it| is_kept(it.connection));
        self.waits.retain(|it| is_kept(it.connection));
        self.handovers.retain(|it| is_kept(it.connection));
        self.records.retain(|it| is_kept(it.2));
    }

    /// Checks a scene that was read: every number has its place.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if self.format != FORMAT {
            return Err("its format is another");
        }
        let (units, connections) = (self.units.len(), self.connections.len());
        let units_named = self.bars.iter().map(|it| it.unit);
        let handed = self.handovers.iter().flat_map(|it| [it.from_unit, it.to_unit]);
        let of = self.bars.iter().map(|it| it.connection);
        let of = of.chain(self.waits.iter().map(|it| it.connection));
        let of = of.chain(self.requests.iter().map(|it| it.connection));
        let mut of = of.chain(self.handovers.iter().map(|it| it.connection));
        let times = self.bars.iter().map(|it| (it.from_ns, it.to_ns));
        let times = times.chain(self.waits.iter().map(|it| (it.from_ns, it.to_ns)));
        let times = times.chain(self.requests.iter().map(|it| (it.from_ns, it.to_ns)));
        let times = times.chain(self.clients.iter().map(|it| (it.from_ns, it.to_ns)));
        if times.chain(self.handovers.iter().map(|it| (it.from_ns, it.to_ns))).any(|(a, b)| a > b) {
            return Err("something in it ends before it begins");
        }
        if units_named.chain(handed).any(|unit| unit >= units) || of.any(|it| it >= connections) {
            return Err("it names units or connections that it does not have");
        }
        Ok(())
    }
}

/// A connection while records of it are taken.
#[derive(Debug)]
struct Live {
    /// Number of the connection.
    at: usize,
    /// The unit that works for it, and the end of its last bar.
    turn: Option<(usize, u64)>,
    /// Work that the unit has begun for it.
    doing: Doing,
    /// No unit works for it since then, for this reason.
    waits: Option<(u64, &'static str)>,
    /// The last unit that had it, and when.
    last: Option<(usize, u64)>,
    /// Requests that have come.
    requests: u16,
    /// First bytes that no request is known of.
    received_ns: Option<u64>,
    /// Place of its open request among all, and whether a `Send` is the last of it so far.
    request: Option<usize>,
    has_sent: bool,
}

/// Work within a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// An operation that was issued.
    Operation(OpKind),
    /// Work after the outcome of an operation; `None`: at the begin of a turn.
    After(Option<OpKind>),
}

impl Doing {
    const fn name(self) -> &'static str {
        match self {
            Self::Operation(kind) => operation_name(kind),
            Self::After(Some(OpKind::Recv)) => "parse",
            Self::After(_) => "work",
        }
    }
}

/// Makes a scene record by record.
struct Maker<'f> {
    footage: &'f Footage,
    scene: Scene,
    /// Units by thread and number.
    units: BTreeMap<(usize, u32), usize>,
    /// Open connections by process and descriptor.
    open: BTreeMap<(u32, u32), Live>,
    /// By unit: what a helper works on, since when.
    helping: BTreeMap<usize, (usize, u16, OpKind, u64)>,
    /// Requests that were answered.
    answered: usize,
}

impl<'f> Maker<'f> {
    fn new(footage: &'f Footage) -> Self {
        let lost = footage.threads.iter().map(|thread| thread.lost).sum();
        let scene = Scene {
            format: FORMAT.to_owned(),
            architecture: footage.architecture.clone(),
            pid: footage.pid,
            began_ns: footage.began_ns,
            lasts_ns: footage.lasts_ns,
            records_lost: lost,
            threads_left_out: footage.threads_left_out,
            ..Scene::default()
        };
        let (units, open, helping) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { footage, scene, units, open, helping, answered: 0 }
    }

    fn is_full(&self) -> bool {
        self.answered >= REQUESTS_MAX || self.scene.bars.len() >= BARS_MAX
    }

    /// Number of a unit, which is new if need be.
    fn unit(&mut self, thread: usize, record: &FilmRecord) -> usize {
        let FilmThread { pid, thread: number, ref name, .. } = self.footage.threads[thread];
        let helps = matches!(record.event, FilmEvent::HelperBegins(_) | FilmEvent::HelperEnds(_));
        *self.units.entry((thread, record.unit)).or_insert_with(|| {
            let name = match (record.unit, helps) {
                (0, _) if name.is_empty() || name == "main" => "worker".to_owned(),
                (0, _) => name.clone(),
                (unit, true) => format!("helper {unit}"),
                (unit, false) => format!("user thread {unit}"),
            };
            self.scene.units.push(Unit { name, pid, thread: number });
            self.scene.units.len() - 1
        })
    }

    fn take(&mut self, thread: usize, record: &FilmRecord) {
        let unit = self.unit(thread, record);
        let pid = self.footage.threads[thread].pid;
        let key = (pid, record.subject.connection);
        let event = record.event;
        if let FilmEvent::HelperBegins(_) | FilmEvent::HelperEnds(_) = event {
            return self.help(key, unit, record);
        }
        if event == FilmEvent::Accepted {
            self.open.remove(&key);
        }
        let live = match self.open.remove(&key) {
            Some(live) => live,
            None => self.appears(key, record),
        };
        let live = self.event(live, unit, record);
        self.list(unit, live.at, record);
        if event == FilmEvent::Closed {
            self.scene.connections[live.at].closed_ns = Some(record.at_ns);
        } else {
            self.open.insert(key, live);
        }
    }

    /// Lists a record.
    fn list(&mut self, unit: usize, connection: usize, record: &FilmRecord) {
        let (name, detail) = (record.event.name().to_owned(), record.event.detail().to_owned());
        let line = Line(record.at_ns, unit, connection, record.subject.request, name, detail);
        self.scene.records.push(line);
    }

    /// Takes a record of a helper. Its connection may have been closed meanwhile.
    fn help(&mut self, key: (u32, u32), unit: usize, record: &FilmRecord) {
        let at_ns = record.at_ns;
        if let FilmEvent::HelperBegins(kind) = record.event {
            let Some(mut live) = self.open.remove(&key) else { return };
            self.hand_over(&mut live, unit, at_ns);
            self.helping.insert(unit, (live.at, record.subject.request, kind, at_ns));
            self.list(unit, live.at, record);
            self.open.insert(key, live);
        } else if let Some(connection) = self.helped(unit, at_ns) {
            self.list(unit, connection, record);
            if let Some(live) = self.open.get_mut(&key).filter(|live| live.at == connection) {
                live.last = Some((unit, at_ns));
            }
        }
    }

    /// Forgets what units of a thread were doing: records of it are missing.
    fn forget(&mut self, thread: usize) {
        let units: BTreeSet<usize> =
            self.units.iter().filter(|((of, _), _)| *of == thread).map(|(_, at)| *at).collect();
        self.helping.retain(|unit, _| !units.contains(unit));
        let is_of = |live: &&mut Live| live.last.is_some_and(|(unit, _)| units.contains(&unit));
        for live in self.open.values_mut().filter(is_of) {
            (live.turn, live.waits, live.last, live.received_ns) = (None, None, None, None);
        }
    }

    /// A connection without a record before.
    fn appears(&mut self, (pid, descriptor): (u32, u32), record: &FilmRecord) -> Live {
        let accepted_ns = (record.event == FilmEvent::Accepted).then_some(record.at_ns);
        let (at, closed_ns) = (self.scene.connections.len(), None);
        self.scene.connections.push(Connection { pid, descriptor, accepted_ns, closed_ns });
        Live {
            at,
            turn: None,
            doing: Doing::After(None),
            waits: None,
            last: None,
            requests: record.subject.request,
            received_ns: None,
            request: None,
            has_sent: false,
        }
    }

    fn event(&mut self, mut live: Live, unit: usize, record: &FilmRecord) -> Live {
        let (at_ns, request) = (record.at_ns, record.subject.request);
        // A unit may still be at the end of its turn when another has the connection.
        let ends = matches!(record.event, FilmEvent::TurnEnds(_));
        if !ends || live.last.is_some_and(|(last, _)| last == unit) {
            self.hand_over(&mut live, unit, at_ns);
        }
        self.asks(&mut live, request, at_ns);
        match record.event {
            FilmEvent::Accepted => live.waits = Some((at_ns, "turn")),
            FilmEvent::Closed => {
                self.waited(&mut live, at_ns);
                self.answers(&mut live);
            }
            FilmEvent::TurnBegins => {
                self.waited(&mut live, at_ns);
                live.turn = Some((unit, at_ns));
                // Bytes that one stage has received are parsed by another.
                if let Doing::Operation(_) = live.doing {
                    live.doing = Doing::After(None);
                }
            }
            FilmEvent::Issued(kind) => {
                self.bar(&mut live, unit, request, at_ns);
                live.doing = Doing::Operation(kind);
                live.has_sent &= kind != OpKind::Send;
            }
            FilmEvent::Done(kind) => {
                live.doing = Doing::Operation(kind);
                self.bar(&mut live, unit, request, at_ns);
                live.doing = Doing::After(Some(kind));
                if kind == OpKind::Recv {
                    if live.has_sent {
                        self.answers(&mut live);
                    }
                    live.received_ns.get_or_insert(at_ns);
                } else if let (OpKind::Send, Some(open)) = (kind, live.request) {
                    self.scene.requests[open].to_ns = at_ns;
                    live.has_sent = true;
                }
            }
            FilmEvent::TurnEnds(end) => {
                let (doing, is_passed) = (live.doing, end == TurnEnd::Stage);
                if is_passed {
                    // The next stage performs the operation, or parses what this one received.
                    live.doing = Doing::After(None);
                }
                self.bar(&mut live, unit, request, at_ns);
                live.doing = if is_passed { doing } else { Doing::After(None) };
                live.turn = None;
                // The first end of a turn says what the kernel does, the second only that it waits.
                let before = live.waits.map(|(_, why)| why);
                if before != Some(end.name()) && before != Some(TurnEnd::Kernel.name()) {
                    self.waited(&mut live, at_ns);
                    live.waits = (end != TurnEnd::Close).then(|| (at_ns, end.name()));
                }
            }
            FilmEvent::HelperBegins(_) | FilmEvent::HelperEnds(_) => {}
        }
        live
    }

    /// Ends the wait of a connection, if it waits.
    fn waited(&mut self, live: &mut Live, to_ns: u64) {
        if let Some((from_ns, why)) = live.waits.take().filter(|(from_ns, _)| *from_ns < to_ns) {
            let (connection, r#for) = (live.at, why.to_owned());
            self.scene.waits.push(Wait { connection, r#for, from_ns, to_ns });
        }
    }

    /// A connection was at another unit before.
    fn hand_over(&mut self, live: &mut Live, unit: usize, at_ns: u64) {
        if let Some((from_unit, from_ns)) = live.last.replace((unit, at_ns))
            && from_unit != unit
        {
            self.scene.handovers.push(Handover {
                connection: live.at,
                from_unit,
                from_ns,
                to_unit: unit,
                to_ns: at_ns,
            });
        }
    }

    /// Notes that a request has come.
    fn asks(&mut self, live: &mut Live, requests: u16, at_ns: u64) {
        if requests > live.requests {
            self.answers(live);
            live.request = Some(self.scene.requests.len());
            self.scene.requests.push(Request {
                connection: live.at,
                number: requests,
                from_ns: live.received_ns.take().unwrap_or(at_ns),
                to_ns: at_ns,
            });
            live.requests = requests;
        }
    }

    /// Ends the open request, if there is one.
    fn answers(&mut self, live: &mut Live) {
        live.has_sent = false;
        self.answered += usize::from(live.request.take().is_some());
    }

    /// Ends what a unit was doing for a connection.
    fn bar(&mut self, live: &mut Live, unit: usize, request: u16, to_ns: u64) {
        let Some((of, from_ns)) = live.turn.filter(|(of, _)| *of == unit) else { return };
        live.turn = Some((of, to_ns));
        if to_ns == from_ns {
            return;
        }
        let on_file = matches!(
            live.doing,
            Doing::Operation(OpKind::Open | OpKind::Read | OpKind::Send | OpKind::Stat)
        );
        self.scene.bars.push(Bar {
            unit,
            connection: live.at,
            request,
            what: live.doing.name().to_owned(),
            from_ns,
            to_ns,
            is_slow: on_file && to_ns - from_ns >= SLOW_NS,
        });
    }

    /// Ends what a helper was doing, and returns the connection that it was for.
    fn helped(&mut self, unit: usize, to_ns: u64) -> Option<usize> {
        let (connection, request, kind, from_ns) = self.helping.remove(&unit)?;
        let (what, is_slow) = (operation_name(kind).to_owned(), to_ns - from_ns >= SLOW_NS);
        self.scene.bars.push(Bar { unit, connection, request, what, from_ns, to_ns, is_slow });
        Some(connection)
    }

    /// The scene. What has not ended is shown up to the end.
    fn end(mut self) -> Scene {
        let last = self.scene.records.last().map_or(0, |line| line.0);
        let end = if self.scene.is_cut { last } else { self.scene.lasts_ns.max(last) };
        self.scene.lasts_ns = end;
        for unit in self.helping.keys().copied().collect::<Vec<_>>() {
            self.helped(unit, end);
        }
        for live in std::mem::take(&mut self.open).into_values() {
            let mut live = live;
            let requests = live.requests;
            if let Some((unit, _)) = live.turn {
                self.bar(&mut live, unit, requests, end);
            }
            self.waited(&mut live, end);
        }
        self.scene
    }
}
