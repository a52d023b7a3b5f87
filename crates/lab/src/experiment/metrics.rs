//! The names of the numbers that a trial can have; docs/lab.md says what they are.

use super::file::nearest;
use regatta_load::engine::Fate;

/// Numbers of a stretch of time, of what was held at its end, of the load and the environment.
const NAMES: &str = "offered_per_s good_per_s mbit_per_s good_share error_share mean_ms p50_ms \
    p90_ms p99_ms p999_ms answered_p90_ms service_p50_ms lag_p99_ms client_cpu client_busy \
    connections_most listen_overflows_per_s syn_drop_share core_to_core_ns core_to_core_after_ns \
    stream_mbyte_per_s segments_again_per_s unverified_share out_of_memory workers_replaced \
    processes_gone fairness foreign kept steal cpu_us_per_reply server_cpu user_share system_share \
    idle_share waiting_share irq_share softirq_share steal_share context_switches_per_s \
    voluntary_switches_per_s involuntary_switches_per_s blocks_in_per_s cycles_per_instruction \
    system_calls_per_reply window_s pss_mib rss_mib anonymous_mib page_tables_mib \
    kernel_stacks_mib cache_fds cache_entries connections_open page_cache_mib refaults_per_s \
    disk_requests_per_s disk_mbyte_per_s disk_busy_share disk_queue_mean disk_run_kib \
    disk_files_per_s disk_response_ms disk_late_ms";

/// What is counted of the server: each also for each reply.
const COUNTED: &str = "user_s kernel_s cpu_s disk_wait_s switches voluntary_switches \
    involuntary_switches read_bytes user_instructions kernel_instructions cycles stalled_frontend \
    stalled_backend stalled_memory task_ns";

/// Whether a trial can have a number of this name.
#[must_use]
pub fn is_metric(name: &str) -> bool {
    let counted = name.strip_suffix("_per_reply").unwrap_or(name);
    let fate = name.strip_prefix("fate_");
    NAMES.split_whitespace().any(|known| known == name)
        || COUNTED.split_whitespace().any(|known| known == counted)
        || fate.is_some_and(|fate| Fate::ALL.into_iter().any(|known| known.name() == fate))
}

/// What is wrong with the name of a metric; None: nothing.
pub(super) fn fault(name: &str) -> Option<String> {
    if is_metric(name) {
        return None;
    }
    let per_reply: Vec<String> =
        COUNTED.split_whitespace().map(|name| format!("{name}_per_reply")).collect();
    let known = NAMES.split_whitespace().chain(COUNTED.split_whitespace());
    let known = known.chain(per_reply.iter().map(String::as_str));
    let near = nearest(name, known).map_or(String::new(), |near| format!("did you mean {near}? "));
    Some(format!("no trial has a number {name:?}; {near}docs/lab.md lists all"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_and_documented() {
        let page = include_str!("../../../../docs/lab.md");
        for name in NAMES.split_whitespace().chain(COUNTED.split_whitespace()) {
            assert!(is_metric(name), "{name}");
            assert!(page.contains(&format!("`{name}`")), "docs/lab.md lacks {name}");
        }
        for name in ["fate_wrong-bytes", "user_instructions_per_reply", "task_ns_per_reply"] {
            assert_eq!(fault(name), None, "{name}");
        }
        for name in ["", "fate_", "fate_bad", "good", "_per_reply", "p99_ms_per_reply"] {
            assert!(fault(name).is_some(), "{name}");
        }
        let said = fault("user_instruction_per_reply").unwrap();
        assert!(said.contains("did you mean user_instructions_per_reply?"), "{said}");
        assert!(fault("p9_ms").unwrap().contains("did you mean p9"));
    }
}
