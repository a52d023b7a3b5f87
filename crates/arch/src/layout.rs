//! Who listens where: the sockets of a server, and each worker's share of them, of the connections
//! and of the processors.
use crate::{Driver, options::Settings, shared::Shared};
use regatta_sys::crew;
use std::{fmt, net::SocketAddr, ops::Range};

/// The most worker processes of a server, of all copies together: as many as can share one table of
/// descriptors, whether they do or not.
pub const WORKERS_MAX: usize = crew::WORKERS_MAX;

/// A listening socket to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketPlan {
    /// Where it listens; port 0 lets the kernel choose.
    pub address: SocketAddr,
    /// It shares its port with others (`SO_REUSEPORT`).
    pub reuse_port: bool,
    /// The earlier socket whose port it shares, whatever that turns out to be.
    pub port_of: Option<usize>,
}

/// What one worker gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Which of the sockets it accepts from.
    pub listeners: Range<usize>,
    /// Connections that it may have open at once.
    pub connections_max: usize,
    /// The processors that it may run on; any if none is named.
    pub cpus: Vec<usize>,
}

/// Sockets and shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The sockets, those of one worker side by side.
    pub sockets: Vec<SocketPlan>,
    /// One for each worker.
    pub shares: Vec<Share>,
    /// Sockets whose port is shared by processor: the first of each group.
    pub steered: Vec<usize>,
    /// Processor and place in the group, for each of them.
    pub places: Vec<(u32, u32)>,
}

/// Why workers cannot be laid out as asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutFault {
    /// The option at fault.
    pub key: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl fmt::Display for LayoutFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for LayoutFault {}

/// Copies, and processes in each, of an architecture with the options of the event driver, on so
/// many processors.
#[must_use]
pub fn copies_and_processes(settings: &Settings, cpus: usize) -> (usize, usize) {
    let copies = match settings.number_as("event.copies") {
        0 if settings.text("event.partition") == "addresses" => {
            settings.list("server.listen").len()
        }
        0 => cpus.min(WORKERS_MAX),
        copies => copies,
    };
    let copies = copies.max(1);
    let processes = match settings.number_as("event.processes") {
        // Nobody has asked for more than there can be.
        0 => cpus.min(WORKERS_MAX) / copies,
        processes => processes,
    };
    (copies, processes.max(1))
}

impl Layout {
    /// Lays out the workers of a driver over addresses and the processors that may be used, of
    /// which there is one at least. Nobody has connections yet: see
    /// [`Layout::share_connections`].
    ///
    /// # Errors
    /// Options that contradict each other, or that there are not enough ports or addresses for.
    pub fn plan(
        driver: &Driver,
        settings: &Settings,
        addresses: &[SocketAddr],
        cpus: &[usize],
    ) -> Result<Self, LayoutFault> {
        let mut layout = Self {
            sockets: Vec::new(),
            shares: Vec::new(),
            steered: Vec::new(),
            places: Vec::new(),
        };
        if !driver.takes("event.copies") {
            layout.listen(addresses, None);
            layout.staff((driver.workers)(settings).max(1), 0..addresses.len(), &[]);
            return Ok(layout);
        }
        let (copies, processes) = copies_and_processes(settings, cpus.len());
        let partition = if copies == 1 { "none" } else { settings.text("event.partition") };
        contradictions(settings, partition, copies, processes, cpus.len())?;
        if Shared::is_wanted(settings) && !driver.takes("event.share") {
            let message = "helpers would open files that the other processes do not know of; \
                           use server.architecture=shared-symped, or share nothing";
            return Err(LayoutFault { key: "event.share", message: message.to_owned() });
        }
        let pin = settings.text("event.pin");
        for copy in 0..copies {
            let own = own_addresses(partition, copy, copies, addresses)?;
            let group = (partition == "steer-cpu").then_some(0);
            let share = share_of(cpus, copy, copies);
            let pinned = |process: usize| match pin {
                "cpu" => std::slice::from_ref(&share[process % share.len()]),
                "share" => share,
                _ => &[],
            };
            if settings.text("event.listen") == "reuseport" {
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
        if partition == "steer-cpu" {
            layout.steered = (0..addresses.len()).collect();
            layout.places = places(cpus, copies);
        }
        layout.no_port_twice()?;
        Ok(layout)
    }

    /// Plans a socket for each address. With `group`, each shares its port with the socket for the
    /// same address among those that begin there.
    fn listen(&mut self, addresses: &[SocketAddr], group: Option<usize>) -> Range<usize> {
        let first = self.sockets.len();
        self.sockets.extend(addresses.iter().enumerate().map(|(at, address)| {
            let port_of = group.map(|group| group + at).filter(|of| *of < first);
            SocketPlan { address: *address, reuse_port: group.is_some(), port_of }
        }));
        first..self.sockets.len()
    }

    fn staff(&mut self, workers: usize, listeners: Range<usize>, cpus: &[usize]) {
        let share = Share { listeners, connections_max: 0, cpus: cpus.to_vec() };
        self.shares.extend(std::iter::repeat_n(share, workers));
    }

    /// Two copies may have been given the same port by counting up from two others.
    fn no_port_twice(&self) -> Result<(), LayoutFault> {
        let fixed = |socket: &&SocketPlan| !socket.reuse_port && socket.address.port() != 0;
        let mut seen = Vec::new();
        for SocketPlan { address, .. } in self.sockets.iter().filter(fixed) {
            if seen.contains(address) {
                let message = format!("{address} falls to two copies: leave room between ports");
                return Err(LayoutFault { key: "server.listen", message });
            }
            seen.push(*address);
        }
        Ok(())
    }

    /// Splits `total` connections evenly; the first workers get what is left over.
    pub fn share_connections(&mut self, total: usize) {
        let workers = self.shares.len();
        for (worker, share) in self.shares.iter_mut().enumerate() {
            share.connections_max = total / workers + usize::from(worker < total % workers);
        }
    }
}

fn contradictions(
    settings: &Settings,
    partition: &str,
    copies: usize,
    processes: usize,
    cpus: usize,
) -> Result<(), LayoutFault> {
    let fault = |key, message: String| Err(LayoutFault { key, message });
    let workers = copies.saturating_mul(processes);
    if workers > WORKERS_MAX {
        let message = format!(
            "{copies} copies of {processes} processes are {workers} workers, and a server has at \
             most {WORKERS_MAX}: set event.processes to {} or less, or have fewer copies",
            WORKERS_MAX / copies.min(WORKERS_MAX)
        );
        return fault("event.processes", message);
    }
    let (listen, poller) = (settings.text("event.listen"), settings.text("event.poller"));
    if listen == "exclusive" && !poller.starts_with("epoll") {
        let message = format!("exclusive wakes are epoll's; event.poller is {poller}");
        return fault("event.listen", message);
    }
    if partition != "steer-cpu" {
        return Ok(());
    }
    if copies > cpus {
        let message = format!("{copies} copies, but {cpus} processors to choose them by");
        return fault("event.copies", message);
    }
    if listen == "reuseport" && processes > 1 {
        let message = "the group of a port that is steered has one socket for each copy; \
                       share it within the copy";
        return fault("event.listen", message.to_owned());
    }
    Ok(())
}

/// The addresses of one copy.
fn own_addresses(
    partition: &str,
    copy: usize,
    copies: usize,
    addresses: &[SocketAddr],
) -> Result<Vec<SocketAddr>, LayoutFault> {
    let fault = |key, message| Err(LayoutFault { key, message });
    match partition {
        "ports" => {
            let counted = addresses.iter().map(|address| {
                let mut address = *address;
                if address.port() != 0 {
                    let up = u16::try_from(copy).ok();
                    address.set_port(up.and_then(|up| address.port().checked_add(up))?);
                }
                Some(address)
            });
            match counted.collect() {
                Some(own) => Ok(own),
                None => fault("event.copies", format!("no ports are left for copy {copy}")),
            }
        }
        "addresses" if !addresses.len().is_multiple_of(copies) => {
            let count = addresses.len();
            let message = format!("{count} addresses do not divide among {copies} copies");
            fault("server.listen", message)
        }
        "addresses" => {
            let each = addresses.len() / copies;
            Ok(addresses[copy * each..(copy + 1) * each].to_vec())
        }
        _ => Ok(addresses.to_vec()),
    }
}

/// The processors of one copy: neighbours, as many as the others have or one more. Of more copies
/// than processors each has one, in turn.
fn share_of(cpus: &[usize], copy: usize, copies: usize) -> &[usize] {
    let count = cpus.len();
    if copies >= count {
        let at = copy % count;
        return &cpus[at..=at];
    }
    &cpus[copy * count / copies..(copy + 1) * count / copies]
}

/// Each processor's copy: the one in whose share it is.
fn places(cpus: &[usize], copies: usize) -> Vec<(u32, u32)> {
    let number = |n: usize| u32::try_from(n).expect("processors are few");
    let share = |copy| share_of(cpus, copy, copies).iter().map(move |cpu| (copy, cpu));
    (0..copies).flat_map(share).map(|(copy, cpu)| (number(*cpu), number(copy))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{amped, event, laio, options::Value};

    fn plan(sets: &[(&str, &str)], listen: &[&str], cpus: &[usize]) -> Result<Layout, LayoutFault> {
        let addresses: Vec<SocketAddr> = listen.iter().map(|text| text.parse().unwrap()).collect();
        let mut settings = Settings::defaults(event::DRIVER.options);
        for (key, value) in sets {
            let spec = event::DRIVER.options.iter().find(|spec| spec.key == *key).unwrap();
            settings.set(spec, spec.kind.parse(value).unwrap()).unwrap();
        }
        let listed = crate::options::OptionSpec {
            key: "server.listen",
            kind: crate::options::Kind::List,
            default: "",
            doc: "",
            long: "",
            since: "",
        };
        let texts = listen.iter().map(|text| (*text).to_owned()).collect();
        settings.set(&listed, Value::List(texts)).unwrap();
        Layout::plan(&event::DRIVER, &settings, &addresses, cpus)
    }

    /// Address, whether it is shared, and whose port it has.
    fn sockets(layout: &Layout) -> Vec<(String, bool, Option<usize>)> {
        let text =
            |socket: &SocketPlan| (socket.address.to_string(), socket.reuse_port, socket.port_of);
        layout.sockets.iter().map(text).collect()
    }

    fn shares(layout: &Layout) -> Vec<(Range<usize>, Vec<usize>)> {
        layout.shares.iter().map(|share| (share.listeners.clone(), share.cpus.clone())).collect()
    }

    const TWO: &[&str] = &["127.0.0.1:0", "[::1]:80"];

    #[test]
    fn processes_share_their_sockets_or_have_their_own() {
        let layout = plan(&[], TWO, &[0, 1, 4]).unwrap();
        let plain = [("127.0.0.1:0".into(), false, None), ("[::1]:80".into(), false, None)];
        assert_eq!(sockets(&layout), plain);
        assert_eq!(shares(&layout), vec![(0..2, vec![]); 3], "one for each processor");
        let sets = [("event.processes", "2"), ("event.listen", "reuseport"), ("event.pin", "cpu")];
        let layout = plan(&sets, TWO, &[3, 5]).unwrap();
        let expect = [
            ("127.0.0.1:0".into(), true, None),
            ("[::1]:80".into(), true, None),
            ("127.0.0.1:0".into(), true, Some(0)),
            ("[::1]:80".into(), true, Some(1)),
        ];
        assert_eq!(sockets(&layout), expect);
        assert_eq!(shares(&layout), [(0..2, vec![3]), (2..4, vec![5])]);
    }

    #[test]
    fn copies_have_ports_or_addresses_of_their_own() {
        let sets = [("event.copies", "0"), ("event.pin", "cpu")];
        let layout = plan(&sets, TWO, &[0, 1]).unwrap();
        let expect = [
            ("127.0.0.1:0".into(), false, None),
            ("[::1]:80".into(), false, None),
            ("127.0.0.1:0".into(), false, None),
            ("[::1]:81".into(), false, None),
        ];
        assert_eq!(sockets(&layout), expect);
        assert_eq!(shares(&layout), [(0..2, vec![0]), (2..4, vec![1])]);
        let sets = [
            ("event.copies", "0"),
            ("event.partition", "addresses"),
            ("event.processes", "2"),
            ("event.pin", "cpu"),
        ];
        let layout = plan(&sets, &["127.0.0.1:80", "127.0.0.2:80"], &[6]).unwrap();
        assert_eq!(layout.sockets.len(), 2);
        let six = |listeners| (listeners, vec![6]);
        assert_eq!(shares(&layout), [0..1, 0..1, 1..2, 1..2].map(six));
    }

    #[test]
    fn a_steered_port_has_a_socket_for_each_copy() {
        let sets =
            [("event.copies", "2"), ("event.partition", "steer-cpu"), ("event.processes", "1")];
        let layout = plan(&sets, &["127.0.0.1:0"], &[2, 3, 7]).unwrap();
        let expect = [("127.0.0.1:0".into(), true, None), ("127.0.0.1:0".into(), true, Some(0))];
        assert_eq!(sockets(&layout), expect);
        assert_eq!(shares(&layout), [(0..1, vec![]), (1..2, vec![])]);
        assert_eq!(layout.steered, [0]);
        assert_eq!(layout.places, [(2, 0), (3, 1), (7, 1)], "neighbours go together");
    }

    /// [G] §IV-D, [S] §4: copies for pairs of processors that share a cache, or for sockets.
    /// Wherever a connection is steered, a process of that copy may run.
    #[test]
    fn a_copy_has_neighbouring_processors() {
        const CASES: &[(usize, usize, &[&[usize]])] = &[
            (2, 1, &[&[0, 1]]),
            (2, 2, &[&[0], &[1]]),
            (4, 2, &[&[0, 1], &[2, 3]]),
            (4, 4, &[&[0], &[1], &[2], &[3]]),
            (8, 2, &[&[0, 1, 2, 3], &[4, 5, 6, 7]]),
            (8, 3, &[&[0, 1], &[2, 3, 4], &[5, 6, 7]]),
            (8, 4, &[&[0, 1], &[2, 3], &[4, 5], &[6, 7]]),
        ];
        for &(cpus, copies, groups) in CASES {
            let case = format!("{copies} copies on {cpus} processors");
            let number = copies.to_string();
            let all: Vec<usize> = (0..cpus).collect();
            let planned = |pin| {
                let sets = [
                    ("event.copies", number.as_str()),
                    ("event.processes", "0"),
                    ("event.partition", "steer-cpu"),
                    ("event.pin", pin),
                ];
                plan(&sets, &["127.0.0.1:0"], &all).unwrap()
            };
            let layout = planned("share");
            assert_eq!(layout.shares.len(), copies * (cpus / copies), "{case}");
            for (listeners, cpus) in shares(&layout) {
                assert_eq!(cpus, groups[listeners.start], "{case}");
            }
            let each = planned("cpu");
            for (copy, group) in groups.iter().enumerate() {
                let own = shares(&each).into_iter().filter(|(of, _)| of.start == copy);
                let own: Vec<usize> = own.flat_map(|(_, cpus)| cpus).collect();
                assert_eq!(own, group[..cpus / copies], "{case}: a process on each");
                let steered = layout.places.iter().filter(|(_, place)| *place as usize == copy);
                let steered: Vec<usize> = steered.map(|(cpu, _)| *cpu as usize).collect();
                assert!(copies == 1 || steered == *group, "{case}: {steered:?}");
            }
            assert_eq!(each.places, layout.places);
        }
    }

    #[test]
    fn more_copies_than_processors_take_turns() {
        let sets = [("event.copies", "3"), ("event.processes", "2"), ("event.pin", "share")];
        let layout = plan(&sets, &["127.0.0.1:0"], &[4, 6]).unwrap();
        let cpus: Vec<_> = layout.shares.iter().map(|share| share.cpus.clone()).collect();
        assert_eq!(cpus, [[4], [4], [6], [6], [4], [4]]);
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let one = &["127.0.0.1:80"][..];
        let copies = ("event.copies", "2");
        let steered = ("event.partition", "steer-cpu");
        for (sets, listen, key) in [
            (&[("event.listen", "exclusive"), ("event.poller", "poll")][..], one, "event.listen"),
            (&[("event.copies", "3"), steered], one, "event.copies"),
            (
                &[copies, steered, ("event.listen", "reuseport"), ("event.processes", "2")],
                one,
                "event.listen",
            ),
            (&[("event.copies", "3"), ("event.partition", "addresses")], TWO, "server.listen"),
            (&[copies], &["127.0.0.1:65535"], "event.copies"),
            (&[copies], &["127.0.0.1:80", "127.0.0.1:81"], "server.listen"),
        ] {
            assert_eq!(plan(sets, listen, &[0, 1]).unwrap_err().key, key, "{sets:?}");
        }
    }

    /// As many as can share one table; each count alone may be as large.
    #[test]
    fn there_is_one_limit_on_workers() {
        let listen = &["127.0.0.1:0"][..];
        let most = WORKERS_MAX.to_string();
        let processes = |number: &'static str| ("event.processes", number);
        let layout = plan(&[("event.processes", &most)], listen, &[0]).unwrap();
        assert_eq!(layout.shares.len(), WORKERS_MAX);
        for sets in [
            &[("event.copies", "2"), processes("501")][..],
            &[("event.copies", "1000"), processes("2")],
        ] {
            let fault = plan(sets, listen, &[0]).unwrap_err();
            assert_eq!(fault.key, "event.processes");
            assert!(fault.message.contains("set event.processes to "), "{fault}");
        }
        let spec = |key| event::DRIVER.options.iter().find(|spec| spec.key == key).unwrap();
        for key in ["event.copies", "event.processes"] {
            assert!(spec(key).kind.parse(&most).is_ok());
            assert!(spec(key).kind.parse(&(WORKERS_MAX + 1).to_string()).is_err(), "{key}");
        }
        // A large machine is used as far as it can be.
        let all: Vec<usize> = (0..1024).collect();
        assert_eq!(plan(&[], listen, &all).unwrap().shares.len(), WORKERS_MAX);
        let copies = [("event.copies", "0"), processes("1")];
        assert_eq!(plan(&copies, listen, &all).unwrap().shares.len(), WORKERS_MAX);
    }

    #[test]
    fn helpers_do_not_open_files_for_a_crew() {
        let mut settings = Settings::defaults(event::DRIVER.options);
        let spec = event::DRIVER.options.iter().find(|spec| spec.key == "event.share").unwrap();
        settings.set(spec, spec.kind.parse("descriptors-and-cache").unwrap()).unwrap();
        let listen = ["127.0.0.1:80".parse().unwrap()];
        assert!(Layout::plan(&event::DRIVER, &settings, &listen, &[0]).is_ok());
        for driver in [&amped::DRIVER, &laio::DRIVER] {
            let fault = Layout::plan(driver, &settings, &listen, &[0]).unwrap_err();
            assert_eq!(fault.key, "event.share");
            assert!(fault.message.contains("shared-symped"), "{fault}");
        }
    }

    #[test]
    fn connections_are_split_evenly() {
        let mut layout = plan(&[("event.processes", "3")], &["127.0.0.1:80"], &[0]).unwrap();
        layout.share_connections(11);
        let each: Vec<_> = layout.shares.iter().map(|share| share.connections_max).collect();
        assert_eq!(each, [4, 4, 3]);
    }
}
