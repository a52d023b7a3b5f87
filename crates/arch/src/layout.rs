//! Assignment of sockets, connections and processors to workers.
#[cfg(test)]
mod tests;

use crate::{
    Driver, Share, Staffing,
    architectures::event::{
        EventOptions, Listen, Partition, Pin, PollerKind, WORKERS_MAX, copies_and_processes,
    },
    options::{Choice as _, Settings, Value},
    shared::SharedState,
};
use regatta_origin::ListenerClass;
use regatta_sys::socket::{Mode, Place, Steps};
use std::{fmt, ops::Range};

/// The most addresses that a server listens on: a pipeline has one byte for each.
pub const ADDRESSES_MAX: usize = 256;

/// Option that lists addresses in the clear.
const LISTEN_KEY: &str = "server.listen";

/// Address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenPlace {
    /// Place to listen; port 0 lets the kernel choose.
    pub place: Place,
    /// Class of its connections.
    pub class: ListenerClass,
}

impl ListenPlace {
    /// An address whose connections are in the clear.
    #[must_use]
    pub const fn clear(place: Place) -> Self {
        Self { place, class: ListenerClass::CLEAR }
    }
}

/// Class of an inherited socket that listens at `place`, by the addresses `own` that this image
/// listens on. `None`: no class, because it is at no such address.
#[must_use]
pub fn class_at(place: &Place, own: &[ListenPlace]) -> Option<ListenerClass> {
    own.iter().find(|own| own.place == *place).map(|own| own.class)
}

/// Listening socket to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketPlan {
    /// Place to listen; port 0 lets the kernel choose.
    pub place: Place,
    /// Whether other sockets share the port (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// The earlier socket whose port this one shares, also if the kernel chooses it. A path has one
    /// socket, which is the same in all processes.
    pub port_of: Option<usize>,
}

/// Sockets and shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The sockets; those of one worker are adjacent.
    pub sockets: Vec<SocketPlan>,
    /// Class of each socket, also of those that [`Layout::give`] adds.
    pub classes: Vec<ListenerClass>,
    /// Shares, one for each worker.
    pub shares: Vec<Share>,
    /// Sockets whose port is shared by processor: the first of each group.
    pub steered: Vec<usize>,
    /// Processor and place in the group, for each processor of a steered port.
    pub places: Vec<(u32, u32)>,
}

/// Reason why workers cannot be laid out as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutFault {
    /// The option at fault.
    pub key: &'static str,
    /// Class of the address at fault. With another than [`ListenerClass::CLEAR`], `key` is the
    /// option that lists those in the clear, and the one that lists these is meant.
    pub class: ListenerClass,
    /// Explanation of the fault, and its remedy.
    pub message: String,
}

impl LayoutFault {
    /// Fault of an option, and not of an address of another class.
    fn new(key: &'static str, message: impl Into<String>) -> Self {
        Self { key, class: ListenerClass::CLEAR, message: message.into() }
    }
}

impl fmt::Display for LayoutFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for LayoutFault {}

impl Layout {
    /// Lays out the workers of a driver over addresses and the usable processors `cpus`. There is
    /// at least one processor, and neighbours are adjacent. At most `processors` of them are busy
    /// at once. No worker has connections yet: see [`Layout::share_connections`].
    ///
    /// # Errors
    /// Options contradict each other, or there are too few ports or addresses for them.
    pub fn plan(
        driver: &Driver,
        settings: &Settings,
        addresses: &[ListenPlace],
        cpus: &[usize],
        processors: usize,
    ) -> Result<Self, LayoutFault> {
        let mut layout = Self {
            sockets: Vec::new(),
            classes: Vec::new(),
            shares: Vec::new(),
            steered: Vec::new(),
            places: Vec::new(),
        };
        if let Steps::All(_) = (driver.steps)(settings) {
            one_at_a_time(driver, settings, addresses.len())?;
        }
        if driver.takes("uring.processes") {
            let processes = (driver.processes)(settings, processors).max(1);
            for _ in 0..processes {
                let listeners = layout.listen(addresses, (processes > 1).then_some(0));
                layout.staff(1, listeners, &[]);
            }
            layout.share_slots((driver.slots)(settings));
            return Ok(layout);
        }
        if !driver.takes("event.copies") {
            layout.listen(addresses, None);
            layout.staff((driver.processes)(settings, processors).max(1), 0..addresses.len(), &[]);
            layout.share_slots((driver.slots)(settings));
            return Ok(layout);
        }
        let options = EventOptions::read(settings);
        let (copies, mut processes) = copies_and_processes(settings, processors);
        if driver.is_pipeline {
            one_process(driver, settings, &options)?;
            processes = 1;
        }
        let partition = (copies > 1).then_some(options.partition);
        let steered = partition == Some(Partition::SteerCpu);
        contradictions(&options, partition, copies, processes, cpus.len())?;
        if SharedState::is_wanted(settings) && !driver.takes("event.share") {
            let message = "helpers would open files that the other processes do not know of; \
                           use server.architecture=shared-symped, or share nothing";
            return Err(LayoutFault::new("event.share", message));
        }
        for copy in 0..copies {
            let own = own_addresses(partition, copy, copies, addresses)?;
            let group = steered.then_some(0);
            let share = share_of(cpus, copy, copies);
            let pinned = |process: usize| match options.pin {
                Pin::Cpu => std::slice::from_ref(&share[spread(process, processes, share.len())]),
                Pin::Share => share,
                Pin::None => &[],
            };
            if options.listen == Listen::Reuseport {
                let first = layout.sockets.len();
                for process in 0..processes {
                    let listeners = layout.listen(&own, Some(first));
                    layout.staff(1, listeners, pinned(process));
                }
            } else {
                let listeners = layout.listen(&own, group);
                for process in 0..processes {
                    layout.staff(1, listeners.clone(), pinned(process));
                }
            }
        }
        if steered {
            layout.steered = (0..addresses.len()).collect();
            layout.places = places(cpus, copies);
        }
        layout.share_slots((driver.slots)(settings));
        layout.no_port_twice()?;
        Ok(layout)
    }

    /// Plans a socket for each address. With `group`, each shares its port with the socket for the
    /// same address in the group that begins there.
    fn listen(&mut self, addresses: &[ListenPlace], group: Option<usize>) -> Range<usize> {
        let first = self.sockets.len();
        self.sockets.extend(addresses.iter().enumerate().map(|(at, address)| {
            let port_of = group.map(|group| group + at).filter(|of| *of < first);
            SocketPlan { place: address.place.clone(), reuse_port: group.is_some(), port_of }
        }));
        self.classes.extend(addresses.iter().map(|address| address.class));
        first..self.sockets.len()
    }

    fn staff(&mut self, workers: usize, listeners: Range<usize>, cpus: &[usize]) {
        let share = Share { slots: 0..0, listeners, connections_max: 0, cpus: cpus.to_vec() };
        self.shares.extend(std::iter::repeat_n(share, workers));
    }

    /// Gives each process `each` slots.
    fn share_slots(&mut self, each: usize) {
        for (process, share) in self.shares.iter_mut().enumerate() {
            share.slots = process * each..(process + 1) * each;
        }
    }

    /// Number of slots of counters, of all processes together.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.shares.last().map_or(0, |last| last.slots.end)
    }

    /// Gives the workers unplanned listeners of these classes, round-robin; workers with shared
    /// listeners share these, too. Returns the index at which to insert each, in this order.
    pub fn give(&mut self, surplus: &[ListenerClass]) -> Vec<usize> {
        let give = |(turn, class): (usize, &ListenerClass)| {
            let own = self.shares[turn % self.shares.len()].listeners.clone();
            for listeners in self.shares.iter_mut().map(|share| &mut share.listeners) {
                if *listeners == own {
                    listeners.end += 1;
                } else if listeners.start >= own.end {
                    *listeners = listeners.start + 1..listeners.end + 1;
                }
            }
            self.classes.insert(own.end, *class);
            own.end
        };
        surplus.iter().enumerate().map(give).collect()
    }

    /// Refuses a port that two copies were given by counting up from two others.
    fn no_port_twice(&self) -> Result<(), LayoutFault> {
        // Others share the port of a socket before them on purpose.
        let fixed = |socket: &&SocketPlan| socket.port_of.is_none() && socket.place.is_definite();
        let mut seen = Vec::new();
        let sockets = self.sockets.iter().zip(&self.classes).filter(|(socket, _)| fixed(socket));
        for (SocketPlan { place, .. }, class) in sockets {
            if seen.contains(&place) {
                let message = format!("{place} falls to two copies: leave room between ports");
                return Err(LayoutFault { class: *class, ..LayoutFault::new(LISTEN_KEY, message) });
            }
            seen.push(place);
        }
        Ok(())
    }

    /// Splits `total` connections evenly; the first workers get the remainder.
    pub fn share_connections(&mut self, total: usize) {
        let workers = self.shares.len();
        for (worker, share) in self.shares.iter_mut().enumerate() {
            share.connections_max = total / workers + usize::from(worker < total % workers);
        }
    }
}

/// Options that a unit cannot follow if it accepts only while it has no connection, each with the
/// one value that describes such a unit.
const ONE_AT_A_TIME: [(&str, &str); 4] = [
    ("accept.eager_read", "true"),
    ("accept.eager_write", "true"),
    ("accept.on_close", "false"),
    ("accept.full_read", "false"),
];

/// Refuses options that a unit with one connection at a time, from one address, cannot follow.
fn one_at_a_time(
    driver: &Driver,
    settings: &Settings,
    addresses: usize,
) -> Result<(), LayoutFault> {
    let fault = |key, message: String| Err(LayoutFault::new(key, message));
    for (key, only) in ONE_AT_A_TIME {
        if settings.flag(key).to_string() != only {
            let message = format!(
                "a worker that blocks accepts one connection, and reads and answers it until it \
                 is closed: set {key}={only}"
            );
            return fault(key, message);
        }
    }
    if settings.text("accept.when_full") != "pause" {
        let message = "a worker that blocks accepts when it has no connection, so that none is \
                       idle, and no listener is polled: set accept.when_full=pause";
        return fault("accept.when_full", message.to_owned());
    }
    if driver.takes("threads.spare_min") {
        let spare_min = settings.number("threads.spare_min");
        if spare_min > settings.number("threads.spare_max") {
            let message = format!(
                "threads would end as soon as they are started: set it to threads.spare_min = \
                 {spare_min} or more"
            );
            return fault("threads.spare_max", message);
        }
    }
    if let Some(Staffing { idle_min, idle_max, .. }) = (driver.staffing)(settings)
        && idle_max <= idle_min
    {
        let message = format!(
            "processes would end as soon as they are started: set it to {} or more, above \
             mp.spare_min",
            idle_min + 1
        );
        return fault("mp.spare_max", message);
    }
    let key = "limits.connections_max";
    let connections = settings.number(key);
    if driver.takes("mp.step_ms") && !(1..=WORKERS_MAX as u64).contains(&connections) {
        let message = format!(
            "there is a process for each connection: set it to their number, 1 to {WORKERS_MAX}"
        );
        return fault(key, message);
    }
    if (1..addresses as u64).contains(&connections) {
        let message = format!(
            "{connections} connections are fewer than {addresses} addresses, and a worker that \
             blocks accepts from one address: allow {addresses}, or listen on fewer"
        );
        return fault(key, message);
    }
    Ok(())
}

/// Refuses several processes of a pipeline, and stages that must know the state of another.
fn one_process(
    driver: &Driver,
    settings: &Settings,
    options: &EventOptions,
) -> Result<(), LayoutFault> {
    let fault = |key, message: &str| Err(LayoutFault::new(key, message));
    if options.processes > 1 {
        let message = "a pipeline is one process: leave it at 0, or have several pipelines with \
                       event.copies";
        return fault("event.processes", message);
    }
    if options.listen != Listen::Shared {
        let message = "one thread of a pipeline accepts from each listener: set \
                       event.listen=shared";
        return fault("event.listen", message);
    }
    if settings.text("accept.when_full") == "close-idle" {
        let message = "who accepts in a pipeline has no idle connections, another stage has them: \
                       set accept.when_full=pause";
        return fault("accept.when_full", message);
    }
    let takes_turns = settings.get("watpipe.barrier") == Some(&Value::Flag(true));
    if takes_turns && options.mode() == Mode::Blocking {
        let message = "a writer that waits for its peer would hold up all, because writers and \
                       their poller take turns: set watpipe.barrier=false";
        return fault("event.send", message);
    }
    if driver.takes("seda.pool_max") && options.mode() == Mode::Blocking {
        let message = "one thread sends for all clients, so it must not wait for one: set \
                       event.send=nonblocking";
        return fault("event.send", message);
    }
    Ok(())
}

fn contradictions(
    options: &EventOptions,
    partition: Option<Partition>,
    copies: usize,
    processes: usize,
    cpus: usize,
) -> Result<(), LayoutFault> {
    let fault = |key, message: String| Err(LayoutFault::new(key, message));
    let workers = copies.saturating_mul(processes);
    if workers > WORKERS_MAX {
        let message = format!(
            "{copies} copies of {processes} processes are {workers} workers, and a server has at \
             most {WORKERS_MAX}: set event.processes to {} or less, or have fewer copies",
            WORKERS_MAX / copies.min(WORKERS_MAX)
        );
        return fault("event.processes", message);
    }
    let poller = options.poller;
    if options.is_exclusive() && !matches!(poller, PollerKind::Epoll | PollerKind::EpollEdge) {
        let message = format!("exclusive wakes are epoll's; event.poller is {}", poller.word());
        return fault("event.listen", message);
    }
    if partition != Some(Partition::SteerCpu) {
        return Ok(());
    }
    if copies > cpus {
        let message = format!("{copies} copies, but {cpus} processors to choose them by");
        return fault("event.copies", message);
    }
    if options.listen == Listen::Reuseport && processes > 1 {
        let message = "the group of a port that is steered has one socket for each copy; \
                       share it within the copy";
        return fault("event.listen", message.to_owned());
    }
    Ok(())
}

/// Addresses of one copy.
fn own_addresses(
    partition: Option<Partition>,
    copy: usize,
    copies: usize,
    addresses: &[ListenPlace],
) -> Result<Vec<ListenPlace>, LayoutFault> {
    let fault = |key, message: String| Err(LayoutFault::new(key, message));
    let has_path = addresses.iter().any(|address| matches!(address.place, Place::Unix(_)));
    match partition {
        Some(Partition::Ports | Partition::SteerCpu) if has_path => {
            let message = "a Unix socket has no port that copies could count up, or share by \
                           processor: set event.partition=addresses, and list a path for each copy";
            fault("event.partition", message.to_owned())
        }
        Some(Partition::Ports) => {
            let counted = addresses.iter().map(|address| {
                let mut address = address.clone();
                if let Place::Inet(inet) = &mut address.place
                    && inet.port() != 0
                {
                    let port = inet.port().checked_add(u16::try_from(copy).ok()?)?;
                    inet.set_port(port);
                }
                Some(address)
            });
            match counted.collect() {
                Some(own) => Ok(own),
                None => fault("event.copies", format!("no ports are left for copy {copy}")),
            }
        }
        Some(Partition::Addresses) if !addresses.len().is_multiple_of(copies) => {
            let count = addresses.len();
            let message = format!("{count} addresses do not divide among {copies} copies");
            fault(LISTEN_KEY, message)
        }
        Some(Partition::Addresses) => {
            let each = addresses.len() / copies;
            Ok(addresses[copy * each..(copy + 1) * each].to_vec())
        }
        Some(Partition::SteerCpu) | None => Ok(addresses.to_vec()),
    }
}

/// Processors of one copy: neighbours, as many as the others have or one more. If there are more
/// copies than processors, each has one, round-robin.
fn share_of(cpus: &[usize], copy: usize, copies: usize) -> &[usize] {
    let count = cpus.len();
    if copies >= count {
        let at = copy % count;
        return &cpus[at..=at];
    }
    &cpus[copy * count / copies..(copy + 1) * count / copies]
}

/// Processor of a process, as far from those of the others as possible: two do not share a core
/// while another core is free. With more processes than processors, each has one, round-robin.
fn spread(process: usize, processes: usize, cpus: usize) -> usize {
    if processes < cpus { process * cpus / processes } else { process % cpus }
}

/// Copy of each processor: the copy that has it in its share.
fn places(cpus: &[usize], copies: usize) -> Vec<(u32, u32)> {
    let number = |n: usize| u32::try_from(n).expect("processors are few");
    let share = |copy| share_of(cpus, copy, copies).iter().map(move |cpu| (copy, cpu));
    (0..copies).flat_map(share).map(|(copy, cpu)| (number(*cpu), number(copy))).collect()
}
