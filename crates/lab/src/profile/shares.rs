//! Shares of a profile by the system call that its samples were taken in, as gprof showed [H] them.

use crate::units::real;
use crate::watch::perf_script::{Folded, KERNEL};
use std::collections::BTreeMap;

/// What the samples are divided among, in the order in which it is drawn. The first six are the
/// routines of [H] figures 4, 5, 7 and 8.
pub(crate) const PLACES: [&str; 9] =
    ["select", "accept", "read", "write", "open", "close", OTHER, KERNEL_ELSE, PROGRAM];
/// System calls that [H] does not name.
const OTHER: &str = "other calls";
/// The kernel outside of any: soft interrupts between processes, what entry and exit cost.
const KERNEL_ELSE: &str = "interrupts, entry";
/// The server's own code and its libraries.
const PROGRAM: &str = "program";

/// What the functions begin with in which the kernel's system calls begin.
const BEGINNINGS: [&str; 5] =
    ["__x64_sys_", "__ia32_sys_", "__arm64_sys_", "__se_sys_", "__do_sys_"];

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

/// Which of [`PLACES`] a folded stack is in.
fn place(stack: &str) -> &'static str {
    let in_kernel = || stack.split(';').filter_map(|frame| frame.strip_suffix(KERNEL));
    let call = in_kernel()
        .find_map(|name| BEGINNINGS.into_iter().find_map(|begin| name.strip_prefix(begin)));
    match call {
        Some(call) => group(call),
        None if in_kernel().next().is_some() => KERNEL_ELSE,
        None => PROGRAM,
    }
}

/// The routine of [H] that a system call of today stands for.
fn group(call: &str) -> &'static str {
    // The compiler's copies have names such as `select.isra.0`.
    match call.split('.').next().unwrap_or(call) {
        "select" | "pselect6" | "poll" | "ppoll" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" | "epoll_ctl" => "select",
        "accept" | "accept4" => "accept",
        "read" | "readv" | "pread64" | "preadv" | "preadv2" | "recvfrom" | "recvmsg" => "read",
        "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "sendfile" | "sendfile64"
        | "splice" => "write",
        "open" | "openat" | "openat2" => "open",
        "close" | "shutdown" => "close",
        _ => OTHER,
    }
}

#[cfg(test)]
mod tests {
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
