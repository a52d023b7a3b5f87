//! Categories of [E] table 1, and the functions that belong to each; shares of a profile by system
//! call, as gprof showed [H] them.
//!
//! [E] counted samples by function and sorted functions by the kernel's directories. Here names are
//! sorted by their beginnings, which are in `assets/categories.toml`; our own by module.

use crate::units::real;
use crate::watch::perf_script::{Folded, Frame, KERNEL, Place};
use regatta_load::named;
use std::collections::BTreeMap;
use std::sync::LazyLock;

named! {
    /// A category of [E] table 1 (systems.md §6.1), in its order; named as in
    /// `profiles/index.jsonl`.
    #[derive(PartialOrd, Ord)]
    pub enum Category {
        /// Kernel: sockets, TCP, IP.
        Networking = "networking",
        /// Kernel: pages, slabs, the page cache.
        MemoryMgmt = "memory-mgmt",
        /// Kernel: files, directories, pipes.
        FileSystem = "file-system",
        /// Kernel: entry and exit, locks, timers, signals.
        KernelArch = "kernel-arch",
        /// Kernel: finding out what is ready.
        Poll = "poll",
        /// Kernel: bytes between kernel and program.
        Copying = "copying",
        /// Kernel: choice of the next task.
        Sched = "sched",
        /// Kernel: what has no other category.
        Others = "others",
        /// The network's driver: here loopback and the soft interrupts that stand for it.
        Driver = "driver",
        /// Program: threads, locks, helpers.
        Thread = "thread",
        /// Program: interest sets, notifications, what they call.
        Event = "event",
        /// Program: the rest.
        Application = "application",
        /// The C library.
        Libc = "libc",
        /// Other libraries and the profiler itself.
        Other = "other",
    }
}

impl Category {
    pub fn title(self) -> &'static str {
        TABLES["titles"].get(self.name()).map_or(self.name(), String::as_str)
    }

    /// The part of the table that it stands in.
    pub fn part(self) -> Part {
        match self {
            Self::Driver => Part::Driver,
            Self::Thread | Self::Event | Self::Application => Part::User,
            Self::Libc => Part::Libc,
            Self::Other => Part::Other,
            _ => Part::Kernel,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `vmlinux`.
    Kernel,
    /// `e1000` there.
    Driver,
    User,
    Libc,
    Other,
}

/// The category of a function, and whether its name is known. What is not goes to the others of
/// the kernel, or to the program's rest.
pub fn category(leaf: Option<&Frame>) -> (Category, bool) {
    let Some(leaf) = leaf else { return (Category::Other, false) };
    let found = match (leaf.place, leaf.symbol.as_deref()) {
        (Place::Kernel, Some(symbol)) => kernel(symbol).ok_or(Category::Others),
        (Place::Kernel, None) => Err(Category::Others),
        (Place::Libc, _) => Ok(Category::Libc),
        (Place::Program, Some(symbol)) => Ok(program(symbol)),
        (Place::Program, None) => Err(Category::Application),
        (Place::Elsewhere, Some(_)) => Ok(Category::Other),
        (Place::Elsewhere, None) => Err(Category::Other),
    };
    match found {
        Ok(category) => (category, true),
        Err(category) => (category, false),
    }
}

/// The tables of `assets/categories.toml`.
static TABLES: LazyLock<BTreeMap<String, BTreeMap<String, String>>> = LazyLock::new(|| {
    toml::from_str(include_str!("../../assets/categories.toml")).expect("a test reads it")
});

/// Beginnings of names, with their categories.
type Beginnings = Vec<(&'static str, Category)>;

/// Beginnings of the kernel's names and of programs' names.
static BEGINNINGS: LazyLock<[Beginnings; 2]> = LazyLock::new(|| {
    ["kernel", "program"].map(|table| {
        let row = |(name, words): (&'static String, &'static String)| {
            let category = Category::named(name).expect("a test reads it");
            words.split_whitespace().map(move |word| (word, category))
        };
        TABLES[table].iter().flat_map(row).collect()
    })
});

/// A function of the kernel. `__x64_sys_sendto` is `sys_sendto`; what the compiler made of a
/// function (`.isra.0`) is that function.
fn kernel(symbol: &str) -> Option<Category> {
    let name = symbol.trim_start_matches('_');
    let name = name.split('.').next().unwrap_or(name);
    let name = ["x64_", "ia32_", "raw_callee_save_", "arm64_", "se_", "do_"]
        .iter()
        .fold(name, |name, part| name.strip_prefix(part).unwrap_or(name))
        .trim_start_matches('_');
    let found = BEGINNINGS[0].iter().filter(|(word, _)| name.starts_with(word));
    found.max_by_key(|(word, _)| word.len()).map(|(_, category)| *category)
}

/// A function of a program, by the module of ours that it lies in, or by its name. The rest is the
/// application's ([E] §8).
fn program(symbol: &str) -> Category {
    let ours = symbol.find("regatta_").filter(|at| *at == 0 || symbol.starts_with('<'));
    let path = &symbol[ours.unwrap_or(0)..];
    let plain = symbol.trim_start_matches('<');
    let begins = |word: &str| path.starts_with(word) || plain.starts_with(word);
    let is_of = |category: &Category| {
        BEGINNINGS[1].iter().any(|(word, its)| its == category && begins(word))
    };
    [Category::Thread, Category::Event].into_iter().find(is_of).unwrap_or(Category::Application)
}

/// Places among which samples are divided, in the order of the drawing. The first six are the
/// routines of [H] figures 4, 5, 7 and 8.
pub(crate) const PLACES: [&str; 9] =
    ["select", "accept", "read", "write", "open", "close", OTHER, KERNEL_ELSE, PROGRAM];
/// System calls that [H] does not name.
const OTHER: &str = "other calls";
/// The kernel outside of any: soft interrupts between processes, what entry and exit cost.
const KERNEL_ELSE: &str = "interrupts, entry";
/// The server's own code and its libraries.
const PROGRAM: &str = "program";

/// Prefixes of the kernel's functions in which system calls begin.
const CALLS: [&str; 5] = ["__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_"];

/// The share of the samples in each of [`PLACES`], which add up to 1; none without samples. An
/// interrupt within a call counts for it, as gprof had it.
pub(crate) fn shares(folded: &Folded) -> Vec<(&'static str, f64)> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, count) in &folded.0 {
        let have = counts.entry(place(stack)).or_default();
        *have = have.saturating_add(*count);
    }
    let all: f64 = counts.values().copied().map(real).sum();
    if all <= 0.0 {
        return Vec::new();
    }
    let share = |name| real(counts.get(name).copied().unwrap_or_default()) / all;
    PLACES.into_iter().map(|name| (name, share(name))).collect()
}

/// Member of [`PLACES`] that a folded stack is in.
fn place(stack: &str) -> &'static str {
    let in_kernel = || stack.split(';').filter_map(|frame| frame.strip_suffix(KERNEL));
    let call =
        in_kernel().find_map(|name| CALLS.into_iter().find_map(|begin| name.strip_prefix(begin)));
    match call {
        Some(call) => group(call),
        None if in_kernel().next().is_some() => KERNEL_ELSE,
        None => PROGRAM,
    }
}

/// The routine of [H] that a system call of today stands for.
fn group(call: &str) -> &'static str {
    // The compiler's copies have names such as `select.isra.0`.
    let call = call.split('.').next().unwrap_or(call);
    let has = |calls: &String| calls.split_whitespace().any(|one| one == call);
    let known = PLACES.into_iter().find(|place| TABLES["calls"].get(*place).is_some_and(has));
    known.unwrap_or(OTHER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_kernel_have_categories() {
        for (symbol, expected) in [
            ("tcp_sendmsg_locked", Category::Networking),
            ("__x64_sys_sendto", Category::Networking),
            ("__inet_lookup_established", Category::Networking),
            ("skb_release_data", Category::Networking),
            ("tcp_poll", Category::Poll),
            ("ep_item_poll.isra.0", Category::Poll),
            ("do_sys_poll", Category::Poll),
            ("do_select", Category::Poll),
            ("_copy_from_iter", Category::Copying),
            ("rep_movs_alternative", Category::Copying),
            ("___slab_alloc", Category::MemoryMgmt),
            ("slab_update_freelist.isra.0", Category::MemoryMgmt),
            ("filemap_get_pages", Category::MemoryMgmt),
            ("splice_direct_to_actor", Category::FileSystem),
            ("fput", Category::FileSystem),
            ("ext4_file_read_iter", Category::FileSystem),
            ("_raw_spin_lock_bh", Category::KernelArch),
            ("__raw_callee_save___pv_queued_spin_unlock", Category::KernelArch),
            ("entry_SYSCALL_64", Category::KernelArch),
            ("do_syscall_64", Category::KernelArch),
            ("__schedule", Category::Sched),
            ("try_to_wake_up", Category::Sched),
            ("pick_next_task_fair", Category::Sched),
            ("loopback_xmit", Category::Driver),
            ("handle_softirqs", Category::Driver),
            ("__local_bh_enable_ip", Category::Driver),
            ("perf_event_task_tick", Category::Other),
            ("security_socket_sendmsg", Category::Others),
        ] {
            assert_eq!(kernel(symbol), Some(expected), "{symbol}");
        }
        assert_eq!(kernel("zzz_no_such_thing"), None);
        assert_eq!(kernel(""), None);
    }

    #[test]
    fn functions_of_programs_have_categories() {
        for (symbol, expected) in [
            ("regatta_arch::loops::event_loop::EventLoop<P>::run", Category::Event),
            (
                "<regatta_sys::wait::epoll::Epoll as regatta_sys::wait::Poller>::wait",
                Category::Event,
            ),
            (
                "regatta_origin::h1::inbox::<impl regatta_origin::h1::conn::Conn<F>>::next_head",
                Category::Application,
            ),
            ("regatta_arch::disk::helper_threads::HelperThreads::give", Category::Thread),
            ("regatta_arch::loops::fibers::Scheduler<P, H>::run", Category::Thread),
            ("regatta_arch::architectures::azzedin::Loop<P>::run", Category::Thread),
            ("regatta_arch::architectures::mp::run", Category::Thread),
            ("regatta_arch::loops::line::threads::StageThread::visit", Category::Thread),
            ("regatta_arch::loops::event_loop::cohort::Cohort::visit", Category::Event),
            ("regatta_arch::conn::serve::serve", Category::Thread),
            ("regatta_arch::conn::units::run", Category::Thread),
            (
                "<corosensei::coroutine::Coroutine<regatta_arch::loops::Wake>>::resume",
                Category::Thread,
            ),
            ("corosensei::arch::x86_64::switch_and_link", Category::Thread),
            ("httparse::parse_headers_iter_uninit", Category::Application),
            ("core::ptr::drop_in_place<regatta_arch::event::Loop>", Category::Application),
            ("ngx_epoll_process_events", Category::Event),
            ("ngx_http_static_handler", Category::Application),
            ("runtime.netpoll", Category::Event),
        ] {
            assert_eq!(program(symbol), expected, "{symbol}");
        }
    }

    #[test]
    fn what_has_no_name_is_counted_as_unknown() {
        let frame =
            |symbol: Option<&str>, place| Frame { symbol: symbol.map(str::to_owned), place };
        for (leaf, expected) in [
            (Some(frame(None, Place::Kernel)), (Category::Others, false)),
            (Some(frame(Some("zzz_no_such_thing"), Place::Kernel)), (Category::Others, false)),
            (Some(frame(None, Place::Program)), (Category::Application, false)),
            (Some(frame(None, Place::Libc)), (Category::Libc, true)),
            (Some(frame(None, Place::Elsewhere)), (Category::Other, false)),
            (None, (Category::Other, false)),
        ] {
            assert_eq!(category(leaf.as_ref()), expected, "{leaf:?}");
        }
        let keys: std::collections::BTreeSet<_> = Category::ALL.map(Category::name).into();
        assert_eq!(keys.len(), Category::ALL.len());
        for category in Category::ALL {
            assert_eq!(serde_json::to_value(category).unwrap(), category.name());
        }
    }
}

#[cfg(test)]
mod shares_tests {
    use super::*;

    const STACKS: &str = "\
regatta_arch::run;do_syscall_64_[k];__x64_sys_pselect6_[k];core_sys_select_[k] 30
regatta_arch::run;do_syscall_64_[k];__x64_sys_accept4_[k];__sys_accept4_[k];net_rx_action_[k] 10
regatta_arch::run;do_syscall_64_[k];__do_sys_newfstat_[k] 5
regatta_arch::run;do_syscall_64_[k];__x64_sys_sendfile64_[k];do_sendfile_[k] 25
regatta_arch::run;do_syscall_64_[k];__do_sys_recvfrom.isra.0_[k] 10
swapper;asm_sysvec_[k];handle_softirqs_[k];net_rx_action_[k] 8
regatta_arch::run;do_syscall_64_[k] 2
regatta_origin::conn::hit;__x64_sys_of_a_program 10
";

    #[test]
    fn samples_count_for_the_call_that_they_are_in() {
        let found = shares(&Folded::parse(STACKS));
        let expected = [
            ("select", 0.3),
            ("accept", 0.1),
            ("read", 0.1),
            ("write", 0.25),
            ("open", 0.0),
            ("close", 0.0),
            (OTHER, 0.05),
            (KERNEL_ELSE, 0.1),
            (PROGRAM, 0.1),
        ];
        assert_eq!(found, expected);
        assert_eq!(shares(&Folded::default()), []);
    }

    #[test]
    fn every_group_is_a_place() {
        for call in ["epoll_wait", "accept", "preadv2", "sendmsg", "openat", "shutdown", "futex"] {
            assert!(PLACES.contains(&group(call)), "{call}");
        }
    }
}
