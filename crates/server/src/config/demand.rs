//! Demand of threads on the system, and whether its limits allow it.
use crate::{
    config::raw::{Problem, Said},
    messages,
};
use regatta_arch::{
    Architecture, StackOption,
    options::{Settings, show_bytes},
    stack_bytes_needed,
};
use regatta_sys::limits::{Limit, ThreadRoom};

/// Mappings of a process other than stacks: code, heaps, large bodies in its cache.
const MAPPINGS_RESERVED: u64 = 2048;

/// Format of a number.
type Show = fn(u64) -> String;

/// Architecture, its number of processes, and the limits of threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demanding<'a> {
    pub(super) architecture: &'a Architecture,
    pub(super) workers: u64,
    pub(super) limits: &'a ThreadRoom,
}

/// Limit that is lower than the demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack<'a> {
    /// `80000 mappings, and vm.max_map_count allows 65530`.
    text: String,
    limit: &'a Limit,
}

impl<'a> Demanding<'a> {
    /// Finds a limit that is too low for this many connections in each process.
    fn lack(self, settings: &Settings, each: u64) -> Option<Lack<'a>> {
        let connections = usize::try_from(each).unwrap_or(usize::MAX);
        let demand = (self.architecture.driver.demand)(settings, connections);
        // The master counts as one.
        let tasks = demand.tasks.saturating_mul(self.workers).saturating_add(1);
        let ThreadRoom { tasks: threads, mappings, address_bytes } = self.limits;
        let number = |number: u64| number.to_string();
        let rows: [(u64, u64, &Limit, Show, &str); 3] = [
            (tasks, 0, threads, number, "processes and threads"),
            (demand.mappings, MAPPINGS_RESERVED, mappings, number, "mappings"),
            (demand.address_bytes, 0, address_bytes, show_bytes, "of addresses for stacks"),
        ];
        rows.into_iter().find_map(|(need, reserved, limit, show, what)| {
            if need == 0 || need.saturating_add(reserved) <= limit.value {
                return None;
            }
            let (need, allowed) = (show(need), show(limit.value));
            let mut text = format!("{need} {what}, and {} allows {allowed}", limit.name);
            if reserved > 0 {
                text.push_str(&format!(", of which {reserved} are reserved"));
            }
            Some(Lack { text, limit })
        })
    }

    /// Number of connections with room, of `most`, and the limit, if it is fewer.
    pub(super) fn room(self, settings: &Settings, most: u64) -> Option<(u64, String)> {
        let each = most.div_ceil(self.workers);
        self.lack(settings, each)?;
        // Room for `few`, and none for `many`.
        let (mut few, mut many) = (0, each);
        while many - few > 1 {
            let half = few + (many - few) / 2;
            *(if self.lack(settings, half).is_some() { &mut many } else { &mut few }) = half;
        }
        let limit = self.lack(settings, many)?.limit;
        Some((few * self.workers, format!("{} {}", limit.name, limit.value)))
    }

    /// Fault of too many connections, with advice.
    pub(super) fn problem(self, said: &Said, total: u64, key: &'static str) -> Option<Problem> {
        let each = total.div_ceil(self.workers).max(1);
        let Lack { text, limit } = self.lack(&said.settings, each)?;
        let raise = format!("raise the limit ({})", limit.raise);
        if self.lack(&said.settings, 1).is_some() {
            let message = format!("{} needs {text}", self.architecture.name);
            return Some(
                said.problem(messages::LIMIT_EXCEEDED, "server.architecture", &message).hint(raise),
            );
        }
        let message = format!("{total} connections need {text}");
        Some(
            said.problem(messages::LIMIT_EXCEEDED, key, &message)
                .hint(format!("{raise}, or lower {key}")),
        )
    }
}

/// Fault of stacks that are too small. `has_tls`: some connections shake hands on them.
pub(super) fn small_stacks(
    said: &Said,
    architecture: &Architecture,
    has_tls: bool,
) -> Option<Problem> {
    let StackOption { key, bytes } = (architecture.driver.stack)(&said.settings)?;
    let need = stack_bytes_needed(has_tls);
    if bytes >= need {
        return None;
    }
    let what = if has_tls { "a TLS handshake" } else { "a connection" };
    let [bytes, need] = [bytes, need].map(|bytes| show_bytes(bytes as u64));
    let message = format!("{what} needs a stack of {need}, and the stacks have {bytes}");
    let hint = format!("set {key} to {need} or more");
    Some(said.problem(messages::OPTIONS_CONFLICT, key, &message).hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        allowance::Allowance,
        check::tests::{roomy, understood},
        raw::tests::of_sets,
    };
    use regatta_arch::{Demand, Driver};

    const KEY: &str = "limits.connections_max";

    /// Driver with a thread for each connection, and for each a stack of 64 KiB with a guard.
    const DRIVER: Driver = Driver {
        demand: |_, connections| Demand {
            tasks: connections as u64 + 1,
            mappings: 2 * connections as u64,
            address_bytes: connections as u64 * (64 << 10),
            descriptors: 0,
        },
        ..Driver::plain(&[], |_, _| 1, |_, _| Ok(()))
    };

    fn limit(name: &str, value: u64, raise: &'static str) -> Limit {
        Limit { name: name.to_owned(), value, raise }
    }

    fn check(limits: &ThreadRoom, workers: u64, expect: Option<(u64, &str, &str)>) {
        let sped = regatta_arch::find("sped").unwrap();
        let architecture = &Architecture { name: "threads", driver: &DRIVER, ..*sped };
        let said = of_sets(&[]);
        let demanding = Demanding { architecture, workers, limits };
        let room = demanding.room(&said.settings, 40_000);
        let problem = demanding.problem(&said, 40_000, KEY).map(|problem| problem.to_string());
        let expect = expect.map(|(most, from, problem)| ((most, from.to_owned()), problem));
        assert_eq!(room, expect.as_ref().map(|(room, _)| room.clone()));
        assert_eq!(problem.as_deref(), expect.map(|(_, problem)| problem));
        if let Some((most, _)) = room.filter(|(most, _)| *most > 0) {
            assert_eq!(demanding.problem(&said, most, KEY), None);
            assert!(demanding.problem(&said, most + workers, KEY).is_some());
        }
    }

    #[test]
    fn stacks_have_room_for_a_handshake() {
        for (name, key, least) in [
            ("mt", "threads.stack_bytes", Some("32 KiB")),
            ("knot-c", "fiber.stack_bytes", Some("16 KiB")),
            ("sped", "threads.stack_bytes", None),
        ] {
            let architecture = regatta_arch::find(name).unwrap();
            let problem = |bytes: &str, has_tls| {
                let sets = [format!("server.architecture={name}"), format!("{key}={bytes}")];
                let said = of_sets(&sets.each_ref().map(String::as_str));
                small_stacks(&said, architecture, has_tls).map(|problem| problem.to_string())
            };
            let Some(least) = least else {
                assert_eq!(problem("64 KiB", true), None, "{name} has no such stacks");
                continue;
            };
            assert_eq!(problem(least, false), None, "{name}");
            assert_eq!(problem("40 KiB", true), None, "{name}");
            let expect = format!(
                "--set {key}={least}: {key}: a TLS handshake needs a stack of 40 KiB, and the \
                 stacks have {least}\n  hint: set {key} to 40 KiB or more"
            );
            assert_eq!(problem(least, true), Some(expect), "{name}");
        }
    }

    #[test]
    fn what_there_is_too_little_of_is_named_with_what_raises_it() {
        check(&ThreadRoom::NONE, 1, None);
        let tasks = limit("kernel.pid_max", 32_768, "sysctl kernel.pid_max");
        let room = ThreadRoom { tasks, ..ThreadRoom::NONE };
        for (workers, most, needed) in [(1, 32_766, 40_002), (4, 4 * 8_190, 40_005)] {
            let problem = format!(
                "by default: limits.connections_max: 40000 connections need {needed} processes \
                 and threads, and kernel.pid_max allows 32768\n  hint: raise the limit (sysctl \
                 kernel.pid_max), or lower limits.connections_max"
            );
            check(&room, workers, Some((most, "kernel.pid_max 32768", &problem)));
        }
        check(
            &ThreadRoom {
                mappings: limit("vm.max_map_count", 65_530, "sysctl vm.max_map_count"),
                ..ThreadRoom::NONE
            },
            1,
            Some((
                31_741,
                "vm.max_map_count 65530",
                "by default: limits.connections_max: 40000 connections need 80000 mappings, and \
                 vm.max_map_count allows 65530, of which 2048 are reserved\n  hint: raise the \
                 limit (sysctl vm.max_map_count), or lower limits.connections_max",
            )),
        );
        check(
            &ThreadRoom {
                address_bytes: limit("RLIMIT_AS", 1 << 30, "ulimit -v"),
                ..ThreadRoom::NONE
            },
            1,
            Some((
                16_384,
                "RLIMIT_AS 1073741824",
                "by default: limits.connections_max: 40000 connections need 2500 MiB of addresses \
                 for stacks, and RLIMIT_AS allows 1 GiB\n  hint: raise the limit (ulimit -v), or \
                 lower limits.connections_max",
            )),
        );
        check(
            &ThreadRoom { tasks: limit("pids.max in /g", 2, "TasksMax="), ..ThreadRoom::NONE },
            1,
            Some((
                0,
                "pids.max in /g 2",
                "by default: server.architecture: threads needs 40002 processes and threads, and \
                 pids.max in /g allows 2\n  hint: raise the limit (TasksMax=)",
            )),
        );
    }

    /// The value that a name sets is capped at the room; a user's value above it is a problem.
    #[test]
    fn threads_bound_the_connections_of_a_name() {
        let config = |sets: &[&str]| {
            let tasks = limit("kernel.pid_max", 500, "sysctl kernel.pid_max");
            let threads = ThreadRoom { tasks, ..ThreadRoom::NONE };
            understood(sets, &Allowance { threads, ..roomy() })
        };
        let named = config(&["server.architecture=knot-nptl"]).unwrap();
        assert_eq!(named.layout.shares[0].connections_max, 498);
        let chosen: Vec<_> = named.chosen.iter().map(ToString::to_string).collect();
        let expect = "limits.connections_max=498 (kernel.pid_max 500)";
        assert!(chosen.iter().any(|chosen| chosen == expect), "{chosen:?}");
        assert!(!chosen.iter().any(|chosen| chosen.contains("workers")), "{chosen:?}");
        let most = ["server.architecture=knot-nptl", "limits.connections_max=498"];
        assert!(config(&most).is_ok());
        let problems = config(&[most[0], "limits.connections_max=499"]).unwrap_err();
        let expect =
            "499 connections need 501 processes and threads, and kernel.pid_max allows 500";
        assert!(problems[0].contains(expect), "{problems:?}");
        assert!(config(&["server.architecture=symped", "limits.connections_max=499"]).is_ok());
    }
}
