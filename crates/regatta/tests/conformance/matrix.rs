//! Cases by set, and the sets of each variant: `matrix::sped_epoll::ranges::several` and so on.
//! Tests that no variant has are in a table of their own.
//!
//! A case is a function of a variant in the module of its topic. A function that is in no table is
//! dead code, and the build fails.

use crate::harness::Variant;
use crate::runner::{self, Set, Tests, cases};
use crate::*;
use libtest_mimic::Trial;

/// Whether every case runs for every variant: `cargo xtask matrix`.
pub(crate) const EVERY_CASE: bool = cfg!(feature = "matrix");

/// Cases for every variant.
const ALWAYS: Set = cases! {
    access_log: common_format combined_format no_forgery json_format failures_are_logged
        refusals_are_logged_with_their_reason a_file_that_shrinks_is_logged
        lines_are_written_in_time a_full_disk_stops_nobody to_standard_error
        nothing_is_logged_when_off skipped_paths_have_no_line lines_stay_whole;
    bodies: every_size_arrives every_size_on_its_own_connection a_large_file_arrives
        small_body_is_drained body_at_the_limit body_that_comes_late chunked_body_is_drained
        chunked_body_byte_by_byte large_body_is_refused endless_chunks_are_refused
        endless_chunk_lines_are_refused body_that_stops continue_is_sent_or_not_needed
        continue_with_the_body_at_once continue_of_a_large_body_is_refused
        no_continue_in_the_old_version no_continue_without_a_body unknown_expectations;
    changes: replaced written_in_place touched removed_and_created a_file_becomes_a_folder
        siblings_come_and_go without_a_cache_at_once no_race_out_of_the_root
        replaced_again_and_again shrunk_while_sent shrunk_before_it_is_read shrunk_between_requests
        grown_while_sent removed_while_sent leased_by_another deleted_files_are_closed;
    clients: one_client_is_limited a_proxy_names_its_clients;
    closing: half_closed_client_is_answered half_closed_pipeline_is_answered
        half_close_within_a_head error_is_read_while_sending last_answer_is_read_while_sending
        end_is_seen_before_our_close aborts_harm_nobody aborts_leave_nothing_open
        ends_with_the_request_are_noticed;
    conditionals: every_combination not_modified_has_the_fields_of_ok tags_in_several_lines
        odd_lists_of_tags every_form_of_date no_conditions_on_errors conditions_come_before_ranges;
    config: precedence;
    content: index_of_a_folder index_is_a_list index_that_is_a_folder helpers_that_are_no_files
        clean_urls fallback_for_navigations fallback_for_all no_fallback_for_assets
        own_page_for_not_found page_for_not_found_is_a_setting folders_are_listed
        long_listings_have_pages;
    counters: of_replies of_the_cache of_the_ends_of_connections of_a_worker_that_died
        calls_of_a_hit;
    film: shows_what_a_request_passes;
    deploys: by_a_link by_moving rules_belong_to_the_root what_is_new_is_waited_for
        a_new_worker_has_the_new_root;
    fields: of_every_file tags_tell_files_apart copies_have_equal_tags tags_are_of_the_content
        media_types types_are_a_setting charset_is_a_setting nosniff_is_a_setting
        server_name_is_a_setting pages_revalidate_and_hashed_assets_live
        cache_control_is_a_setting no_modification_in_the_future modification_at_the_epoch
        error_bodies_are_safe errors_carry_no_validators;
    framing: request_lines versions field_lines bare_line_ends content_lengths transfer_encodings
        transfer_encoding_in_the_old_version chunks faults_in_pieces fault_after_good_requests;
    life: idle_ends_promptly idle_connections_are_closed transfers_are_completed
        requests_in_progress_are_answered drain_has_a_deadline quit_ends_at_once
        quit_cuts_a_drain_short a_killed_worker_is_replaced a_dying_worker_does_not_hold_up_the_end
        a_killed_master_leaves_nothing;
    limits: head_at_the_limit head_limit_is_a_setting head_without_end too_many_fields
        target_at_the_limit query_counts_as_target request_line_without_end empty_lines_without_end;
    load: two_hundred_connections a_thousand_short_connections fewer_descriptors_than_clients
        more_files_than_the_cache_may_hold every_way_to_send every_kind_of_socket
        silent_newcomers_are_closed;
    methods: get_and_head_answer known_but_not_allowed no_tunnels unknown_are_not_implemented
        refusal_keeps_the_order options_of_a_resource options_of_the_server trace_does_not_echo
        head_equals_get;
    negotiation: without_the_field weights nothing_acceptable malformed_weights_break_nothing
        field_in_two_lines only_the_siblings_that_exist siblings_that_are_no_files
        a_sibling_that_is_larger a_sibling_asked_for_by_name
        a_file_that_is_coded_itself compressed_after_the_first_use each_form_has_its_tag
        ranges_of_a_coded_form head_of_a_coded_form siblings_are_a_setting;
    paths: decoded_once bad_escapes encoded_slashes dot_segments climbing_above_the_root
        disguised_climbs empty_segments queries_are_no_path files_are_no_folders long_paths;
    persistence: stays_open_by_default stays_open_after_errors_of_content closes_when_asked
        close_in_a_second_line words_that_are_not_close old_version_closes old_version_keeps_alive
        old_version_close_wins at_most_so_many_requests empty_lines_before_a_request
        client_that_only_connects;
    pipelining: in_order burst_of_a_hundred answers_larger_than_buffers
        requests_without_end_while_reading split_at_every_byte byte_at_a_time nothing_after_close
        all_kinds_of_answers;
    protection: folders_redirect_to_their_slash redirects_do_not_lead_away hidden_files_do_not_exist
        well_known_is_served hidden_files_are_a_setting no_links_by_default
        links_inside_are_a_setting no_special_files no_listings a_worker_is_confined;
    ranges: single_against_a_model partial_has_the_fields_of_ok of_an_empty_file
        malformed_are_ignored numbers_beyond_every_integer unit_in_any_letter_case only_for_get
        several several_that_are_one several_without_any_satisfiable too_many how_many_is_a_setting
        boundaries_are_random several_in_a_pipeline beyond_four_gigabytes if_range;
    signals: one_line_for_each_address accepts_when_it_says_so hangup_reloads_or_says_why_not
        hangup_with_an_error_changes_nothing usr1_reopens_the_log usr1_lets_go_of_the_old_logs
        other_signals_end_nothing workers_leave_signals_to_their_master workers_are_not_root
        workers_have_no_capabilities unreadable_root_is_an_error pid_file a_port_in_use_is_an_error;
    slow_heads: a_head_that_stops a_head_that_trickles a_connection_without_a_request
        an_idle_connection a_second_head_that_stops a_body_that_stops a_client_that_lingers
        many_at_once;
    structure: poller_is_the_one_asked_for idle_is_free;
    targets: host_is_required_once host_is_optional_in_the_old_version host_must_be_valid
        absolute_form absolute_form_answers_the_resource other_forms;
};

/// Cases where an event loop waits for many connections, and accepts several at a time.
const LOOPED: Set = cases! {
    in looped;
    counters: of_accepts of_histograms of_many_deadlines accept_count_is_a_bound;
};

/// systems.md §8.6: a thread has one connection, from accept to close, and every call waits.
const THREADED: Set = cases! {
    in threaded;
    load: full_and_not_listening full_is_free;
    slow_disk: a_disk_that_hangs_does_not_delay_the_end;
    threads: tasks_are_those_of_connections no_poller_is_asked a_slow_reader_has_a_worker_of_its_own
        a_thousand_slow_clients who_blocks_does_not_delay_the_end;
};

/// systems.md §8.6: a process has one connection, from accept to close, and every call waits.
const FORKED: Set = cases! {
    in forked;
    load: full_and_not_listening full_is_free;
    slow_readers: one_that_never_reads_is_ended one_below_the_rate_is_ended
        an_honest_slow_one_is_served others_do_not_wait waiting_is_free half_closed_waiting_is_free
        draining_accepts_nobody unread_answers_stop_the_requests what_the_end_cuts_short_is_logged;
    slow_disk: the_disk_is_not_the_clients_fault a_disk_that_hangs_does_not_delay_the_end;
    processes: one_ends_after_its_requests;
    threads: processes_are_those_of_connections no_poller_is_asked
        a_slow_reader_has_a_worker_of_its_own;
};

/// Apache's prefork: enough processes that some are idle.
const STAFFED: Set = cases! {
    processes: a_burst_starts_twice_as_many_each_second as_many_are_idle_as_should_be
        who_retires_cuts_nobody_short a_killed_one_is_replaced
        a_reload_begins_with_as_many_as_are_busy;
};

/// Processes for all allowed connections, which serve like those that come and go.
const FIXED: Set = cases! {
    life: idle_ends_promptly a_killed_worker_is_replaced;
    processes: one_ends_after_its_requests;
    signals: accepts_when_it_says_so;
    structure: idle_is_free;
    threads: processes_are_those_of_connections;
};

/// Cases where processes share one table of descriptors and one cache.
const SHARED: Set = cases! {
    shared: descriptors_are_of_all the_master_has_a_table_of_its_own a_killed_keeper_is_replaced
        the_cache_is_one locks_are_in_shared_memory hits_are_those_of_one_process
        clients_of_the_dead_are_told logs_of_the_dead_are_closed deaths_under_load_hang_nobody
        who_leaves_before_the_keeper_knows_is_not_replaced;
};

/// Cases where one slow peer does not block a worker, as a blocking send does.
const NONBLOCKING: Set = cases! {
    slow_readers: one_that_never_reads_is_ended one_below_the_rate_is_ended
        an_honest_slow_one_is_served others_do_not_wait waiting_is_free half_closed_waiting_is_free
        draining_accepts_nobody unread_answers_stop_the_requests more_files_than_descriptors
        what_the_end_cuts_short_is_logged;
    slow_disk: the_disk_is_not_the_clients_fault;
};

/// [`NONBLOCKING`], for a variant that sends like another. The other runs these cases; `cargo
/// xtask matrix` runs them for both.
const SENDS_ALIKE: Set = if EVERY_CASE { NONBLOCKING } else { &[] };

/// [`NONBLOCKING`] where helpers send, each for one peer at a time. A connection that a helper
/// has when the process ends has no line in the log.
const PATIENT: Set = cases! {
    slow_readers: one_that_never_reads_is_ended one_below_the_rate_is_ended
        an_honest_slow_one_is_served others_do_not_wait waiting_is_free half_closed_waiting_is_free
        draining_accepts_nobody unread_answers_stop_the_requests more_files_than_descriptors;
    slow_disk: the_disk_is_not_the_clients_fault;
};

/// Cases where a send blocks.
const BLOCKING: Set = cases! {
    slow_readers: a_blocking_send_is_given_up;
    slow_disk: the_disk_is_not_the_clients_fault;
};

/// Cases for one process.
const ALONE: Set = cases! { in alone; structure: sped_is_one_task; };

/// systems.md §2.20: files are asked for, and waited for outside of the loop.
const ASKS_EARLY: Set = cases! {
    in asks_early;
    disk: a_piece_is_waited_for_and_a_cached_body_is_not;
};

/// systems.md §2.20: processes come and go with waits for the disk.
const VARIED: Set = cases! {
    varied: as_many_begin_as_should_at_least one_starts_for_each_wait_and_retires_after_it
        a_frozen_number_stays;
};

/// systems.md §2.19, libasync-smp: event loops in several threads.
const COLOURED: Set = cases! {
    coloured: a_thread_and_a_poller_for_each_loop an_idle_loop_takes_connections
        a_loop_keeps_its_connections_if_that_is_asked;
    load: full_and_leaving_them full_and_not_listening full_is_free;
};

/// systems.md §8.6: a visit serves all connections that wait for its stage.
const VISITED: Set = cases! { cohort: a_visit_serves_many a_loop_without_stages_visits_none; };

/// Cases that several processes, or their way to take connections, could break. Variants that run
/// [`ALWAYS`] cover the answers to requests: the code is the same, and so is the loop.
const TOGETHER: Set = if EVERY_CASE {
    ALWAYS
} else {
    cases! {
        access_log: lines_stay_whole;
        bodies: every_size_on_its_own_connection body_that_stops;
        closing: half_closed_pipeline_is_answered aborts_leave_nothing_open;
        counters: of_replies of_the_ends_of_connections;
        film: shows_what_a_request_passes;
        life: idle_ends_promptly transfers_are_completed requests_in_progress_are_answered
            drain_has_a_deadline quit_ends_at_once a_killed_worker_is_replaced
            a_killed_master_leaves_nothing;
        load: two_hundred_connections a_thousand_short_connections;
        persistence: closes_when_asked client_that_only_connects;
        pipelining: burst_of_a_hundred all_kinds_of_answers;
        signals: accepts_when_it_says_so usr1_reopens_the_log workers_are_not_root
            workers_have_no_capabilities a_port_in_use_is_an_error;
        slow_heads: an_idle_connection many_at_once;
        structure: poller_is_the_one_asked_for idle_is_free;
    }
};

/// Cases where all processes take from one queue: a full one leaves the rest to the others.
const ONE_QUEUE: Set = cases! {
    in one_queue;
    load: full_and_leaving_them full_and_not_listening full_is_free full_and_closing_the_idle;
};

/// Cases of a full pipeline: its idle connections are in another stage.
const FULL_PAUSES: Set = cases! { in full_pauses; load: full_and_not_listening full_is_free; };

/// Cases where stages share the cache: it lets go of files that are deleted.
const FORGETS: Set = cases! { in forgets; changes: deleted_files_are_closed; };

/// systems.md §8.6: stages in separate threads.
const PIPED: Set = cases! {
    watpipe: tasks_are_those_of_the_paper one_accepts_for_each_address each_stage_does_its_part
        threads_run_where_they_should slow_readers_stop_no_reader
        who_waits_for_a_disk_holds_up_its_batch a_thousand_slow_clients a_burst_of_two_thousand;
};

/// Cases where each processor has its own queues, readers and writers.
const PARTED: Set = cases! { in parted; watpipe: queues_are_by_processor; };

/// Cases where the pipeline's sends block.
const HELD: Set = cases! { in held; watpipe: readers_go_on_when_no_writer_does; };

/// systems.md §8.6, SEDA: a queue for each stage, and a gate before them.
const LINED_UP: Set = cases! {
    seda: tasks_are_those_of_the_source a_hit_passes_four_queues_a_miss_seven places_are_given_back
        a_burst_is_answered_or_refused a_rate_is_kept a_head_in_pieces_is_admitted_once
        each_address_has_its_class within_the_bounds_nobody_is_turned_away no_boundary_comes_twice
        who_waits_for_a_hung_disk_is_turned_away a_thousand_slow_clients;
};

/// systems.md §8.6, SEDA: a pool for each stage, and controllers of pools.
const POOLS: Set = cases! {
    in pools;
    seda: the_disk_stage_grows_and_shrinks who_is_too_many_is_turned_away
        decisions_come_at_their_times decisions_are_not_logged_unasked
        an_age_begins_when_the_request_came what_is_tried_again_is_not_served;
};

/// Cases where another task waits for a disk that hangs.
const HANGING: Set = cases! {
    in hanging;
    slow_disk: who_leaves_frees_its_place the_disk_has_a_deadline a_half_closed_client_is_answered;
};

/// The same where the kernel picks a worker by hash, so that one may be full before the others.
const HANGING_APART: Set = cases! {
    in hanging;
    slow_disk: the_disk_has_a_deadline a_half_closed_client_is_answered;
};

/// systems.md §8.6: helpers wait for the disk, and are started on demand.
const HELPERS: Set = cases! { disk: cold_files_go_to_who_asked; };

/// systems.md §8.6, AMPED: one kind of helpers, and the messages between them and the loop.
const ONE_KIND: Set = cases! {
    in one_kind;
    disk: helpers_are_the_other_tasks helpers_pass_no_content;
};

/// systems.md §8.6, Flash: files are mapped.
const MAPPED: Set = cases! {
    in mapped;
    bodies: every_size_arrives a_large_file_arrives;
    changes: shrunk_while_sent shrunk_between_requests grown_while_sent removed_while_sent;
    load: every_way_to_send;
    ranges: single_against_a_model several;
};

/// systems.md §8.6, Flash: helpers are of two kinds.
const FLASH: Set = cases! {
    flash: helpers_are_processes_of_two_kinds a_reply_is_one_call no_length_ends_the_worker;
};

/// Cases where helpers are asked as Flash asked them, and pages are probed.
const AS_IN_1999: Set = cases! {
    in as_in_1999;
    flash: clients_of_one_file_share_a_task helpers_are_started_one_by_one
        what_is_in_memory_goes_first;
};

/// Cases where helpers can be killed. A worker that forks them forks for listings, too.
const MORTAL: Set = cases! {
    in mortal;
    content: a_listing_that_no_client_waits_for_leaves_no_process;
    disk: a_killed_helper_is_replaced;
};

/// systems.md §8.6: only operations that would block are continued elsewhere.
const LAZY: Set = cases! { disk: cold_files_go_to_who_asked only_what_would_block_is_deferred; };

/// Helpers by mount wait for the disk.
const BY_MOUNT: Set = cases! { disk: helpers_serve_what_is_not_in_memory; };

/// systems.md §8.6: user threads in one kernel thread, and helpers.
const FIBERS: Set = cases! {
    fibers: one_task_and_its_helpers a_connection_each a_scheduler_may_spin a_stack_is_long_enough;
};

/// Cases where helpers read for user threads.
const READING: Set = cases! { in reading; slow_disk: user_threads_do_not_wait tasks_are_bounded; };

/// Cases where helpers also send for user threads.
const SENDING: Set = cases! { in sending; slow_disk: a_disk_that_hangs_does_not_delay_the_end; };

/// Cases where helpers wait for clients.
const TRIES_FIRST: Set = cases! { in tries_first; fibers: a_helper_waits_for_its_client; };

/// Cases where the scheduler waits for clients.
const POLLS_FIRST: Set = cases! { in polls_first; fibers: the_scheduler_waits_for_the_client; };

/// Cases where helpers wait for clients in blocking mode.
const ONE_CALL: Set = cases! { in one_call; fibers: a_helper_sends_with_one_call; };

/// systems.md §2.13, MEANS: user threads in several kernel threads.
const SCHEDULERS: Set = cases! {
    in schedulers;
    fibers: a_connection_each a_scheduler_may_spin a_stack_is_long_enough;
    load: full_and_leaving_them full_and_not_listening full_is_free;
    means: a_poller_and_helpers_for_each_scheduler;
};

/// Cases where a connection stays with the scheduler that accepted it.
const STAYS: Set = cases! { in stays; means: a_connection_stays_with_its_scheduler; };

/// Cases where a connection may change its scheduler.
const STEALS: Set = cases! { in steals; means: an_idle_scheduler_takes_connections; };

/// systems.md §8.6: the kernel continues operations that would block.
const RING: Set = cases! { in ring; disk: the_ring_needs_no_task; };

/// The kernel performs the operations of sockets, too.
const COMPLETES: Set = cases! { in completes; disk: the_ring_has_the_sockets; };

/// systems.md §8.6: threads serve connections that have sent something.
const POOLED: Set = cases! {
    pool: threads_are_the_other_tasks idle_connections_hold_no_thread a_slow_reader_holds_one_thread
        slow_readers_hold_all_threads a_slow_request_holds_a_thread_if_that_is_asked
        an_end_is_no_request;
    threads: who_blocks_does_not_delay_the_end;
};

/// systems.md §8.6: [A]'s dispatcher, threads and poller thread.
const DISPATCHED: Set = cases! {
    adapt: tasks_are_those_of_the_paper the_poller_waits_for_no_client;
    pool: an_end_is_no_request;
};

/// systems.md §8.6, BIO: the thread that needs a file reads it.
const READS_ITSELF: Set = cases! { in reads_itself; adapt: a_read_holds_its_thread; };

/// systems.md §8.6, AIO: that thread never reads the file.
const HAS_IT_READ: Set = cases! {
    in has_it_read;
    adapt: a_read_holds_no_thread a_read_that_hangs_is_given_up;
};

/// systems.md §8.6, AIO as in glibc.
const LIKE_GLIBC: Set = cases! { in like_glibc; adapt: threads_that_read_end; };

/// systems.md §8.6, the self-adapting server: its rule decides each read.
const DECIDES: Set = cases! {
    in decides;
    adapt: reads_follow_the_queue reads_follow_residency reads_follow_the_disk;
};

/// Hosts with separate roots, for each way to open and to cache files.
const HOSTED: Set = cases! { hosts: each_has_its_own answers_without_files each_is_deployed; };

/// Successions of workers: one variant of each kind of architecture has these.
const FOLLOWED: Set = cases! { reload: under_load changes_everything; };

/// Work of the master, whatever the architecture.
const MASTERED: Set = cases! {
    in mastered;
    deploys: by_exchange by_moving_a_whole_tree a_missing_root_is_said_once;
    reload: faults_change_nothing a_program_that_fails the_old_drain_too kills_in_between
        a_root_out_of_reach nothing_is_left logs_that_the_server_made
        a_moved_root_keeps_the_configuration a_program_that_adds_arguments
        a_client_has_its_requests_once an_expired_certificate_is_served;
};

/// Sets of each variant.
#[rustfmt::skip]
pub(crate) const ROWS: &[(&str, &[Set])] = &[
    ("sped_epoll", &[ALWAYS, LOOPED, ONE_QUEUE, ALONE, NONBLOCKING, HOSTED, FOLLOWED, MASTERED]),
    ("sped_epoll_edge", &[TOGETHER, LOOPED, ONE_QUEUE, ALONE, NONBLOCKING]),
    ("sped_poll", &[TOGETHER, LOOPED, ONE_QUEUE, ALONE, NONBLOCKING]),
    ("sped_select", &[TOGETHER, LOOPED, ONE_QUEUE, ALONE, NONBLOCKING]),
    ("sped_small_turns", &[TOGETHER, LOOPED, ONE_QUEUE, ALONE, NONBLOCKING]),
    ("sped_eager_uncached", &[TOGETHER, LOOPED, ONE_QUEUE, ALONE, NONBLOCKING]),
    ("sped_blocking", &[TOGETHER, LOOPED, ONE_QUEUE, ALONE, BLOCKING]),
    ("symped", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING]),
    ("shared_two_tier", &[ALWAYS, LOOPED, ONE_QUEUE, SHARED, NONBLOCKING, HOSTED, FOLLOWED,
        MASTERED]),
    ("shared_global", &[TOGETHER, LOOPED, SHARED, NONBLOCKING]),
    ("shared_b", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("symped_exclusive", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING]),
    ("symped_reuseport", &[TOGETHER, LOOPED, NONBLOCKING, FOLLOWED]),
    ("symped_b", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("n_copy", &[TOGETHER, LOOPED, NONBLOCKING]),
    ("n_copy_steered", &[TOGETHER, LOOPED, NONBLOCKING, FOLLOWED]),
    ("sped_readahead", &[TOGETHER, LOOPED, ONE_QUEUE, ALONE, NONBLOCKING, ASKS_EARLY]),
    ("coloured", &[TOGETHER, LOOPED, NONBLOCKING, COLOURED, FOLLOWED]),
    ("hybrid_adapt", &[TOGETHER, LOOPED, ONE_QUEUE, SENDS_ALIKE, VARIED, FOLLOWED]),
    ("amped_threads", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING, HELPERS, ONE_KIND,
        HOSTED]),
    ("amped_processes", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING, HELPERS, ONE_KIND,
        MORTAL, HOSTED, FOLLOWED]),
    ("amped_flash", &[TOGETHER, LOOPED, HANGING, HELPERS, ONE_KIND, MORTAL]),
    ("amped_uncached", &[TOGETHER, LOOPED, NONBLOCKING, HANGING, HELPERS, ONE_KIND]),
    ("amped_pair", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("flash_1999", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING, HELPERS, MORTAL, MAPPED,
        FLASH, AS_IN_1999, HOSTED]),
    ("flash_linux", &[TOGETHER, LOOPED, HANGING, HELPERS, MORTAL, MAPPED, FLASH]),
    ("laio_uring", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING, LAZY, RING, HOSTED,
        FOLLOWED]),
    ("laio_uring_uncached", &[TOGETHER, LOOPED, NONBLOCKING]),
    ("laio_nowait", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING, LAZY]),
    ("laio_pair", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("auto", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING, HELPERS, BY_MOUNT,
        HOSTED]),
    ("auto_probing", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING, LAZY, BY_MOUNT]),
    ("auto_uncached", &[TOGETHER, LOOPED, NONBLOCKING, HANGING, HELPERS]),
    ("uring", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING, RING, COMPLETES, HOSTED,
        FOLLOWED]),
    ("uring_pair", &[TOGETHER, LOOPED, NONBLOCKING, HANGING_APART, COMPLETES, FOLLOWED]),
    ("uring_splice", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, HANGING]),
    ("cohort", &[TOGETHER, LOOPED, ONE_QUEUE, ALONE, NONBLOCKING, VISITED, FOLLOWED]),
    ("cohort_wave", &[TOGETHER, LOOPED, ONE_QUEUE, SENDS_ALIKE]),
    ("mp", &[TOGETHER, FORKED, STAFFED, FOLLOWED]),
    ("mp_fixed", &[FIXED]),
    ("threads", &[ALWAYS, THREADED, NONBLOCKING, FOLLOWED, MASTERED]),
    ("threads_on_demand", &[TOGETHER, THREADED, NONBLOCKING]),
    ("threads_own_cache", &[TOGETHER, THREADED, NONBLOCKING]),
    ("knot_c", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING, FIBERS, READING, HOSTED]),
    ("knot_c_epoll", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, FIBERS, READING]),
    ("knot_c_inline", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, FIBERS]),
    ("knot_nb", &[ALWAYS, LOOPED, ONE_QUEUE, PATIENT, FIBERS, READING, SENDING, TRIES_FIRST,
        FOLLOWED]),
    ("knot_nb_first", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, FIBERS, POLLS_FIRST]),
    ("knot_b", &[TOGETHER, LOOPED, ONE_QUEUE, PATIENT, FIBERS, READING, SENDING, ONE_CALL]),
    ("means", &[TOGETHER, LOOPED, NONBLOCKING, SCHEDULERS, READING, STAYS, FOLLOWED]),
    ("means_steal", &[TOGETHER, LOOPED, SCHEDULERS, STEALS]),
    ("hybrid", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING, POOLED, FOLLOWED]),
    ("hybrid_at_once", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, POOLED]),
    ("bio", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, DISPATCHED, READS_ITSELF]),
    ("aio_threads", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING, DISPATCHED, HAS_IT_READ,
        LIKE_GLIBC]),
    ("aio_uring", &[TOGETHER, LOOPED, DISPATCHED, HAS_IT_READ, HOSTED]),
    ("aio_kernel", &[TOGETHER, LOOPED, DISPATCHED]),
    ("self_queue", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING, DISPATCHED, DECIDES, FOLLOWED]),
    ("self_disk", &[TOGETHER, LOOPED, DISPATCHED]),
    ("watpipe4", &[TOGETHER, LOOPED, FULL_PAUSES, NONBLOCKING, FORGETS, PIPED, FOLLOWED]),
    ("watpipe5", &[TOGETHER, LOOPED, FULL_PAUSES, NONBLOCKING, FORGETS, PIPED, PARTED, HOSTED]),
    ("watpipe5_b", &[TOGETHER, FULL_PAUSES, PATIENT, FORGETS, PIPED, HELD]),
    ("watpipe5_copies", &[TOGETHER, LOOPED, SENDS_ALIKE]),
    ("watpipe5_batch", &[TOGETHER, LOOPED, FULL_PAUSES, SENDS_ALIKE]),
    ("seda", &[ALWAYS, LOOPED, FULL_PAUSES, NONBLOCKING, LINED_UP, POOLS, HOSTED, FOLLOWED]),
    ("haboob", &[TOGETHER, LOOPED, FULL_PAUSES, LINED_UP, POOLS]),
    ("cohort_sandstorm", &[TOGETHER, LOOPED, FULL_PAUSES, LINED_UP]),
    ("accept1", &[TOGETHER, LOOPED, ONE_QUEUE, NONBLOCKING]),
    ("acceptinf", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("accept25", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("accept25_cache", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("eager", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("eager_full", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("eager_close", &[TOGETHER, LOOPED, ONE_QUEUE]),
    ("cm", &[ALWAYS, LOOPED, ONE_QUEUE, NONBLOCKING]),
];

/// Tests that no variant has.
const TESTS: Tests = cases! {
    access_log: a_socket_that_nobody_reads_stops_nobody;
    cli: help_of_every_command a_bad_start_prints_no_address a_start_without_openat2
        a_start_without_setgroups a_start_without_io_uring check_makes_no_file
        every_bad_setting_is_listed nobody_and_other_users there_is_no_tux
        architectures_are_described
        explain_says_what_would_be_answered check_and_explain_speak_json
        check_says_that_all_is_well explain_agrees_with_serve explain_opens_what_serve_may_open
        explain_of_an_own_site rules_of_an_own_site siblings_of_an_own_site
        a_certificate_for_development_is_kept
        compressing_that_lasts_is_shown a_sibling_that_is_half_written_has_no_name
        pages_for_errors_of_an_own_site users_of_an_own_site one_kind_of_error_has_one_exit_code
        commands_that_measure_run_the_other_program;
    config: defaults_are_as_promised settings_are_printed what_is_printed_is_a_configuration
        files_of_a_directory_and_variables
        a_good_configuration_passes every_error_at_once syntax_errors_have_a_position
        findings_on_certificates_have_positions a_server_of_https_alone_says_where_it_listens;
    counters: top_of_another_process top_of_a_pipeline top_on_a_page;
    equality: every_variant_answers_the_same every_variant_counts_the_same;
    film: one_film_at_a_time_and_a_page_by_default;
    from_nginx: an_export_of_next a_site_of_hugo_with_rules_by_extension
        an_application_with_a_policy_and_tls documents_with_twelve_redirects
        a_catalogue_with_listings an_application_in_a_container;
    hosts: a_fault_below_one_root_is_its_hosts_alone a_lookup_that_hangs_holds_up_no_other_root
        check_and_explain_know_hosts;
    master: it_says_where_it_listens_serves_and_leaves_nothing_behind
        a_worker_that_dies_is_replaced_at_once draining_lets_exchanges_finish_within_its_time
        draining_ends_when_its_time_is_over a_second_signal_or_a_quit_ends_at_once
        a_worker_that_hangs_is_killed_at_the_end a_worker_that_says_nothing_is_named
        the_right_to_read_all_files_stays_with_the_master
        a_simulated_disk_is_told_and_waited_for_by_who_may_know
        logs_are_opened_anew a_hostile_folder_of_logs_gains_nothing
        top_of_root_counts_the_servers_of_other_users nobody_needs_to_read_what_it_prints
        all_problems_are_listed_and_nothing_is_started;
    mistakes: typical_mistakes_are_answered_with_what_to_do;
    n_copy: copies_have_ports_of_their_own ports_are_counted_up copies_have_addresses_of_their_own
        a_steered_connection_stays_on_its_processor copies_may_have_several_processes
        copies_may_have_several_processors a_copy_that_is_replaced_keeps_its_socket
        a_port_is_not_shared_with_strangers;
    reload: the_pid_file_of_another_server_changes_nothing a_master_that_waits_opens_its_log_anew
        a_service_manager_is_told_of_each_reload_by_itself a_command_waits_for_what_it_has_asked_for
        new_paths_of_workers_that_cannot_begin_are_removed;
    runner: no_function_has_the_attribute_test;
    shared: processes_serve_the_same_bytes;
    slow_readers: unsent_bytes_are_limited;
    strategies: a_replica_looks_once each_name_stands_for_its_row
        a_notification_brings_as_many_as_the_strategy_takes eager_reads_come_before_the_next_wait
        full_reads_go_on_until_one_fails writes_wait_unless_they_are_eager
        accepts_on_close_are_as_many_as_closes everybody_is_served
        without_a_cache_a_request_is_one_open_and_one_read;
    structure: every_architecture_has_a_variant;
    symped: as_many_tasks_as_processes_on_one_listener blocking_ones_are_many_and_send_once
        a_process_for_each_processor_unless_told_otherwise sockets_of_their_own_share_one_port
        an_exclusive_wake_goes_to_who_has_room a_full_worker_passes_on_what_wakes_it
        counters_are_all_they_share killing_one_leaves_the_others_serving
        a_process_that_stands_still_delays_nobody_else a_queue_outlives_its_process
        connections_are_split_evenly;
    watpipe: writers_have_even_parts a_controller_starts_writers
        a_controller_shows_once_what_it_sets writers_keep_little_memory;
};

/// Every test of the matrix, and those that no variant has.
pub(crate) fn trials() -> Vec<Trial> {
    let rows = ROWS.iter().map(|(name, sets)| (Variant::find(name), sets));
    let cases = rows.flat_map(|(variant, sets)| runner::trials_of("matrix", variant, sets));
    cases.chain([TESTS, master::TESTS].into_iter().flat_map(runner::trials)).collect()
}
