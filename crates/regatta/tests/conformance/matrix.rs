//! Every case, run for every variant: `matrix::sped_epoll::ranges::suffix` and so on.
//!
//! A case is a function of a variant in the module of its topic. A case missing here is dead code,
//! and the build reports it.

/// Cases for every variant.
macro_rules! always {
    ($variant:ident) => {
        topics! { $variant
            access_log: common_format combined_format no_forgery json_format failures_are_logged
                refusals_are_logged_with_their_reason a_file_that_shrinks_is_logged
                lines_are_written_in_time a_full_disk_stops_nobody
                to_standard_error nothing_is_logged_when_off lines_stay_whole;
            bodies: every_size_arrives every_size_on_its_own_connection a_large_file_arrives
                small_body_is_drained body_at_the_limit body_that_comes_late
                chunked_body_is_drained chunked_body_byte_by_byte large_body_is_refused
                endless_chunks_are_refused endless_chunk_lines_are_refused body_that_stops
                continue_is_sent_or_not_needed continue_with_the_body_at_once
                continue_of_a_large_body_is_refused no_continue_in_the_old_version
                no_continue_without_a_body unknown_expectations;
            changes: replaced written_in_place touched removed_and_created
                a_file_becomes_a_folder siblings_come_and_go without_a_cache_at_once
                no_race_out_of_the_root replaced_again_and_again shrunk_while_sent
                shrunk_before_it_is_read shrunk_between_requests grown_while_sent
                removed_while_sent leased_by_another deleted_files_are_closed;
            clients: one_client_is_limited a_proxy_names_its_clients;
            closing: half_closed_client_is_answered half_closed_pipeline_is_answered
                half_close_within_a_head error_is_read_while_sending
                last_answer_is_read_while_sending end_is_seen_before_our_close
                aborts_harm_nobody aborts_leave_nothing_open ends_with_the_request_are_noticed;
            conditionals: every_combination not_modified_has_the_fields_of_ok
                tags_in_several_lines odd_lists_of_tags every_form_of_date
                no_conditions_on_errors conditions_come_before_ranges;
            config: precedence;
            content: index_of_a_folder index_is_a_list index_that_is_a_folder
                helpers_that_are_no_files clean_urls fallback_for_navigations
                no_fallback_for_assets own_page_for_not_found page_for_not_found_is_a_setting;
            counters: of_replies of_the_cache of_the_ends_of_connections of_a_worker_that_died
                calls_of_a_hit;
            deploys: by_a_link by_moving by_exchange by_moving_a_whole_tree
                rules_belong_to_the_root
                what_is_new_is_waited_for a_new_worker_has_the_new_root
                a_missing_root_is_said_once;
            fields: of_every_file tags_tell_files_apart media_types types_are_a_setting
                charset_is_a_setting nosniff_is_a_setting
                pages_revalidate_and_hashed_assets_live cache_control_is_a_setting
                no_modification_in_the_future modification_at_the_epoch error_bodies_are_safe
                errors_carry_no_validators;
            framing: request_lines versions field_lines bare_line_ends content_lengths
                transfer_encodings transfer_encoding_in_the_old_version chunks faults_in_pieces
                fault_after_good_requests;
            life: idle_ends_promptly idle_connections_are_closed transfers_are_completed
                requests_in_progress_are_answered drain_has_a_deadline quit_ends_at_once
                quit_cuts_a_drain_short a_killed_worker_is_replaced
                a_dying_worker_does_not_hold_up_the_end a_killed_master_leaves_nothing;
            limits: head_at_the_limit head_limit_is_a_setting head_without_end too_many_fields
                target_at_the_limit query_counts_as_target request_line_without_end
                empty_lines_without_end;
            load: two_hundred_connections a_thousand_short_connections
                fewer_descriptors_than_clients more_files_than_the_cache_may_hold
                every_way_to_send every_kind_of_socket silent_newcomers_are_closed;
            methods: get_and_head_answer known_but_not_allowed no_tunnels
                unknown_are_not_implemented refusal_keeps_the_order options_of_a_resource
                options_of_the_server trace_does_not_echo head_equals_get;
            negotiation: without_the_field weights nothing_acceptable
                malformed_weights_break_nothing field_in_two_lines only_the_siblings_that_exist
                siblings_that_are_no_files a_sibling_that_is_larger a_sibling_asked_for_by_name
                each_form_has_its_tag ranges_of_a_coded_form head_of_a_coded_form
                siblings_are_a_setting;
            paths: decoded_once bad_escapes encoded_slashes dot_segments climbing_above_the_root
                disguised_climbs empty_segments queries_are_no_path files_are_no_folders
                long_paths;
            persistence: stays_open_by_default stays_open_after_errors_of_content
                closes_when_asked close_in_a_second_line words_that_are_not_close
                old_version_closes old_version_keeps_alive old_version_close_wins
                at_most_so_many_requests empty_lines_before_a_request client_that_only_connects;
            pipelining: in_order burst_of_a_hundred answers_larger_than_buffers
                requests_without_end_while_reading split_at_every_byte byte_at_a_time
                nothing_after_close all_kinds_of_answers;
            protection: folders_redirect_to_their_slash redirects_do_not_lead_away
                hidden_files_do_not_exist well_known_is_served hidden_files_are_a_setting
                no_links_by_default links_inside_are_a_setting no_special_files no_listings
                a_worker_is_confined;
            ranges: single_against_a_model partial_has_the_fields_of_ok of_an_empty_file
                malformed_are_ignored numbers_beyond_every_integer unit_in_any_letter_case
                only_for_get several several_that_are_one several_without_any_satisfiable
                too_many how_many_is_a_setting boundaries_are_random several_in_a_pipeline
                beyond_four_gigabytes if_range;
            signals: one_line_for_each_address accepts_when_it_says_so
                hangup_reloads_or_says_why_not hangup_with_an_error_changes_nothing
                usr1_reopens_the_log usr1_lets_go_of_the_old_logs other_signals_end_nothing
                workers_leave_signals_to_their_master workers_are_not_root
                workers_have_no_capabilities unreadable_root_is_an_error pid_file
                a_port_in_use_is_an_error;
            slow_heads: a_head_that_stops a_head_that_trickles a_connection_without_a_request
                an_idle_connection a_second_head_that_stops a_body_that_stops
                a_client_that_lingers many_at_once;
            structure: poller_is_the_one_asked_for idle_is_free;
            targets: host_is_required_once host_is_optional_in_the_old_version
                host_must_be_valid absolute_form absolute_form_answers_the_resource other_forms;
        }
    };
}

/// Cases where an event loop waits for many connections, and accepts several at a time.
macro_rules! looped {
    ($variant:ident) => {
        mod looped {
            topics! { $variant
                counters: of_accepts of_histograms of_many_deadlines accept_count_is_a_bound;
            }
        }
    };
}

/// systems.md §8.6: a thread has one connection, from accept to close, and every call waits.
macro_rules! threaded {
    ($variant:ident) => {
        mod threaded {
            topics! { $variant
                load: full_and_not_listening full_is_free;
                slow_disk: a_disk_that_hangs_does_not_delay_the_end;
                threads: tasks_are_those_of_connections no_poller_is_asked
                    a_slow_reader_has_a_worker_of_its_own a_thousand_slow_clients
                    who_blocks_does_not_delay_the_end;
            }
        }
    };
}

/// systems.md §8.6: a process has one connection, from accept to close, and every call waits.
macro_rules! forked {
    ($variant:ident) => {
        mod forked {
            topics! { $variant
                load: full_and_not_listening full_is_free;
                slow_readers: one_that_never_reads_is_ended one_below_the_rate_is_ended
                    an_honest_slow_one_is_served others_do_not_wait waiting_is_free
                    half_closed_waiting_is_free draining_accepts_nobody
                    unread_answers_stop_the_requests what_the_end_cuts_short_is_logged;
                slow_disk: the_disk_is_not_the_clients_fault
                    a_disk_that_hangs_does_not_delay_the_end;
                processes: one_ends_after_its_requests;
                threads: processes_are_those_of_connections no_poller_is_asked
                    a_slow_reader_has_a_worker_of_its_own;
            }
        }
    };
}

/// Apache's prefork: enough processes that some are idle.
macro_rules! staffed {
    ($variant:ident) => {
        topics! { $variant
            processes: a_burst_starts_twice_as_many_each_second
                as_many_are_idle_as_should_be who_retires_cuts_nobody_short
                a_killed_one_is_replaced a_reload_begins_with_as_many_as_are_busy;
        }
    };
}

/// Processes for all allowed connections, which serve like those that come and go.
macro_rules! fixed {
    ($variant:ident) => {
        topics! { $variant
            life: idle_ends_promptly a_killed_worker_is_replaced;
            processes: one_ends_after_its_requests;
            signals: accepts_when_it_says_so;
            structure: idle_is_free;
            threads: processes_are_those_of_connections;
        }
    };
}

/// Cases where processes share one table of descriptors and one cache.
macro_rules! shared {
    ($variant:ident) => {
        topics! { $variant
            shared: descriptors_are_of_all the_master_has_a_table_of_its_own
                a_killed_keeper_is_replaced the_cache_is_one locks_are_in_shared_memory
                hits_are_those_of_one_process clients_of_the_dead_are_told
                logs_of_the_dead_are_closed deaths_under_load_hang_nobody
                who_leaves_before_the_keeper_knows_is_not_replaced;
        }
    };
}

/// Cases where one slow peer does not block a worker, as a blocking send does.
macro_rules! nonblocking {
    ($variant:ident) => {
        topics! { $variant
            slow_readers: one_that_never_reads_is_ended one_below_the_rate_is_ended
                an_honest_slow_one_is_served others_do_not_wait waiting_is_free
                half_closed_waiting_is_free draining_accepts_nobody
                unread_answers_stop_the_requests more_files_than_descriptors
                what_the_end_cuts_short_is_logged;
            slow_disk: the_disk_is_not_the_clients_fault;
        }
    };
}

/// [`nonblocking`], for a variant that sends like another. The other runs these cases; `cargo xtask
/// matrix` runs them for both.
#[cfg(feature = "matrix")]
macro_rules! sends_alike {
    ($variant:ident) => {
        nonblocking! { $variant }
    };
}

#[cfg(not(feature = "matrix"))]
macro_rules! sends_alike {
    ($variant:ident) => {};
}

/// The same where helpers send, each for one peer at a time: a connection that a helper has when
/// the process ends has no line in the log.
macro_rules! patient {
    ($variant:ident) => {
        topics! { $variant
            slow_readers: one_that_never_reads_is_ended one_below_the_rate_is_ended
                an_honest_slow_one_is_served others_do_not_wait waiting_is_free
                half_closed_waiting_is_free draining_accepts_nobody
                unread_answers_stop_the_requests more_files_than_descriptors;
            slow_disk: the_disk_is_not_the_clients_fault;
        }
    };
}

/// Cases where a send blocks.
macro_rules! blocking {
    ($variant:ident) => {
        topics! { $variant
            slow_readers: a_blocking_send_is_given_up;
            slow_disk: the_disk_is_not_the_clients_fault;
        }
    };
}

/// Cases for one process.
macro_rules! alone {
    ($variant:ident) => {
        mod alone {
            topics! { $variant
                structure: sped_is_one_task;
            }
        }
    };
}

/// systems.md §8.6: a visit serves all connections that wait for its stage.
macro_rules! visited {
    ($variant:ident) => {
        topics! { $variant
            cohort: a_visit_serves_many a_loop_without_stages_visits_none;
        }
    };
}

/// `cargo xtask matrix` runs every case for every variant.
#[cfg(feature = "matrix")]
macro_rules! together {
    ($variant:ident) => {
        always! { $variant }
    };
}

/// Cases that several processes, or their way to take connections, could break. Variants that run
/// `always` cover the answers to requests: the code is the same, and so is the loop.
#[cfg(not(feature = "matrix"))]
macro_rules! together {
    ($variant:ident) => {
        topics! { $variant
            access_log: lines_stay_whole;
            bodies: every_size_on_its_own_connection body_that_stops;
            closing: half_closed_pipeline_is_answered aborts_leave_nothing_open;
            counters: of_replies of_the_ends_of_connections;
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
}

/// Cases where all processes take from one queue: a full one leaves the rest to the others.
macro_rules! one_queue {
    ($variant:ident) => {
        mod one_queue {
            topics! { $variant
                load: full_and_leaving_them full_and_not_listening full_is_free
                    full_and_closing_the_idle;
            }
        }
    };
}

/// Cases of a full pipeline: its idle connections are in another stage.
macro_rules! full_pauses {
    ($variant:ident) => {
        mod full_pauses {
            topics! { $variant
                load: full_and_not_listening full_is_free;
            }
        }
    };
}

/// systems.md §8.6: stages in separate threads.
macro_rules! piped {
    ($variant:ident) => {
        mod forgets {
            topics! { $variant
                changes: deleted_files_are_closed;
            }
        }
        topics! { $variant
            watpipe: tasks_are_those_of_the_paper one_accepts_for_each_address
                each_stage_does_its_part threads_run_where_they_should
                slow_readers_stop_no_reader who_waits_for_a_disk_holds_up_its_batch
                a_thousand_slow_clients a_burst_of_two_thousand;
        }
    };
}

/// Cases where each processor has its own queues, readers and writers.
macro_rules! parted {
    ($variant:ident) => {
        mod parted {
            topics! { $variant
                watpipe: queues_are_by_processor;
            }
        }
    };
}

/// Cases where the pipeline's sends block.
macro_rules! held {
    ($variant:ident) => {
        mod held {
            topics! { $variant
                watpipe: readers_go_on_when_no_writer_does;
            }
        }
    };
}

/// systems.md §8.6, SEDA: a queue for each stage, and a gate before them.
macro_rules! lined_up {
    ($variant:ident) => {
        topics! { $variant
            seda: tasks_are_those_of_the_source a_hit_passes_four_queues_a_miss_seven
                places_are_given_back a_burst_is_answered_or_refused a_rate_is_kept
                a_head_in_pieces_is_admitted_once each_address_has_its_class
                within_the_bounds_nobody_is_turned_away no_boundary_comes_twice
                who_waits_for_a_hung_disk_is_turned_away a_thousand_slow_clients;
        }
    };
}

/// The same with a pool for each stage, and controllers of pools.
macro_rules! staged {
    ($variant:ident) => {
        lined_up!($variant);
        mod pools {
            topics! { $variant
                seda: the_disk_stage_grows_and_shrinks who_is_too_many_is_turned_away
                    decisions_come_at_their_times decisions_are_not_logged_unasked
                    an_age_begins_when_the_request_came
                    what_is_tried_again_is_not_served;
            }
        }
    };
}

/// systems.md §8.6: helpers wait for the disk, and are started on demand.
macro_rules! helpers {
    ($variant:ident) => {
        mod hanging {
            topics! { $variant
                slow_disk: who_leaves_frees_its_place the_disk_has_a_deadline
                    a_half_closed_client_is_answered;
            }
        }
        topics! { $variant
            disk: cold_files_go_to_who_asked;
        }
    };
}

/// systems.md §8.6, AMPED: one kind of helpers, and the messages between them and the loop.
macro_rules! one_kind {
    ($variant:ident) => {
        mod one_kind {
            topics! { $variant
                disk: helpers_are_the_other_tasks helpers_pass_no_content;
            }
        }
    };
}

/// systems.md §8.6, Flash: two kinds, and mapped files.
macro_rules! flash {
    ($variant:ident) => {
        mod mapped {
            topics! { $variant
                bodies: every_size_arrives a_large_file_arrives;
                changes: shrunk_while_sent shrunk_between_requests grown_while_sent
                    removed_while_sent;
                load: every_way_to_send;
                ranges: single_against_a_model several;
            }
        }
        topics! { $variant
            flash: helpers_are_processes_of_two_kinds a_reply_is_one_call
                no_length_ends_the_worker;
        }
    };
}

/// Cases where helpers are asked as Flash asked them, and pages are probed.
macro_rules! as_in_1999 {
    ($variant:ident) => {
        mod as_in_1999 {
            topics! { $variant
                flash: clients_of_one_file_share_a_task helpers_are_started_one_by_one
                    what_is_in_memory_goes_first;
            }
        }
    };
}

/// Cases where helpers can be killed.
macro_rules! mortal {
    ($variant:ident) => {
        mod mortal {
            topics! { $variant
                disk: a_killed_helper_is_replaced;
            }
        }
    };
}

/// systems.md §8.6: only operations that would block are continued elsewhere.
macro_rules! lazy {
    ($variant:ident) => {
        mod hanging {
            topics! { $variant
                slow_disk: who_leaves_frees_its_place the_disk_has_a_deadline
                    a_half_closed_client_is_answered;
            }
        }
        topics! { $variant
            disk: cold_files_go_to_who_asked only_what_would_block_is_deferred;
        }
    };
}

/// systems.md §8.6: user threads in one kernel thread, and helpers.
macro_rules! fibers {
    ($variant:ident) => {
        topics! { $variant
            fibers: one_task_and_its_helpers a_connection_each a_scheduler_may_spin
                a_stack_is_long_enough;
        }
    };
}

/// Cases where helpers read for user threads.
macro_rules! reading {
    ($variant:ident) => {
        mod reading {
            topics! { $variant
                slow_disk: user_threads_do_not_wait tasks_are_bounded;
            }
        }
    };
}

/// Cases where helpers also send for user threads.
macro_rules! sending {
    ($variant:ident) => {
        mod sending {
            topics! { $variant
                slow_disk: a_disk_that_hangs_does_not_delay_the_end;
            }
        }
    };
}

/// Cases where helpers wait for clients.
macro_rules! tries_first {
    ($variant:ident) => {
        mod tries_first {
            topics! { $variant
                fibers: a_helper_waits_for_its_client;
            }
        }
    };
}

/// Cases where the scheduler waits for clients.
macro_rules! polls_first {
    ($variant:ident) => {
        mod polls_first {
            topics! { $variant
                fibers: the_scheduler_waits_for_the_client;
            }
        }
    };
}

/// Cases where helpers wait for clients in blocking mode.
macro_rules! one_call {
    ($variant:ident) => {
        mod one_call {
            topics! { $variant
                fibers: a_helper_sends_with_one_call;
            }
        }
    };
}

/// systems.md §2.13, MEANS: user threads in several kernel threads.
macro_rules! schedulers {
    ($variant:ident) => {
        mod schedulers {
            topics! { $variant
                fibers: a_connection_each a_scheduler_may_spin a_stack_is_long_enough;
                load: full_and_leaving_them full_and_not_listening full_is_free;
                means: a_poller_and_helpers_for_each_scheduler;
            }
        }
    };
}

/// Cases where a connection stays with the scheduler that accepted it.
macro_rules! stays {
    ($variant:ident) => {
        mod stays {
            topics! { $variant
                means: a_connection_stays_with_its_scheduler;
            }
        }
    };
}

/// Cases where a connection may change its scheduler.
macro_rules! steals {
    ($variant:ident) => {
        mod steals {
            topics! { $variant
                means: an_idle_scheduler_takes_connections;
            }
        }
    };
}

/// systems.md §8.6: the kernel continues operations that would block.
macro_rules! ring {
    ($variant:ident) => {
        mod ring {
            topics! { $variant
                disk: the_ring_needs_no_task;
            }
        }
    };
}

/// systems.md §8.6: threads serve connections that have sent something.
macro_rules! pooled {
    ($variant:ident) => {
        topics! { $variant
            pool: threads_are_the_other_tasks idle_connections_hold_no_thread
                a_slow_reader_holds_one_thread slow_readers_hold_all_threads
                a_slow_request_holds_a_thread_if_that_is_asked an_end_is_no_request;
            threads: who_blocks_does_not_delay_the_end;
        }
    };
}

/// systems.md §8.6: [A]'s dispatcher, threads and poller thread.
macro_rules! dispatched {
    ($variant:ident) => {
        topics! { $variant
            adapt: tasks_are_those_of_the_paper the_poller_waits_for_no_client;
            pool: an_end_is_no_request;
        }
    };
}

/// systems.md §8.6, BIO: the thread that needs a file reads it.
macro_rules! reads_itself {
    ($variant:ident) => {
        mod reads_itself {
            topics! { $variant
                adapt: a_read_holds_its_thread;
            }
        }
    };
}

/// systems.md §8.6, AIO: that thread never reads the file.
macro_rules! has_it_read {
    ($variant:ident) => {
        mod has_it_read {
            topics! { $variant
                adapt: a_read_holds_no_thread a_read_that_hangs_is_given_up;
            }
        }
    };
}

/// systems.md §8.6, AIO as in glibc.
macro_rules! like_glibc {
    ($variant:ident) => {
        mod like_glibc {
            topics! { $variant
                adapt: threads_that_read_end;
            }
        }
    };
}

/// systems.md §8.6, the self-adapting server: its rule decides each read.
macro_rules! decides {
    ($variant:ident) => {
        mod decides {
            topics! { $variant
                adapt: reads_follow_the_queue reads_follow_residency reads_follow_the_disk;
            }
        }
    };
}

/// Hosts with separate roots, for each way to open and to cache files.
macro_rules! hosted {
    ($variant:ident) => {
        topics! { $variant
            hosts: each_has_its_own each_is_deployed;
        }
    };
}

/// Successions of workers: one variant of each kind of architecture has these.
macro_rules! followed {
    ($variant:ident) => {
        topics! { $variant
            reload: under_load changes_everything;
        }
    };
}

/// Work of the master, whatever the architecture.
macro_rules! mastered {
    ($variant:ident) => {
        mod mastered {
            topics! { $variant
                reload: faults_change_nothing a_program_that_fails the_old_drain_too
                    kills_in_between a_root_out_of_reach nothing_is_left logs_that_the_server_made
                    a_moved_root_keeps_the_configuration a_program_that_adds_arguments
                    a_client_has_its_requests_once;
            }
        }
    };
}

variants! {
    sped_epoll: always looped one_queue alone nonblocking hosted followed mastered;
    sped_epoll_edge: always looped one_queue alone nonblocking;
    sped_poll: always looped one_queue alone nonblocking;
    sped_select: together looped one_queue alone nonblocking;
    sped_small_turns: together looped one_queue alone nonblocking;
    sped_eager_uncached: together looped one_queue alone nonblocking;
    sped_blocking: always looped one_queue alone blocking;
    symped: always looped one_queue nonblocking;
    shared_two_tier: always looped one_queue shared nonblocking hosted followed mastered;
    shared_global: together looped shared nonblocking;
    shared_b: together looped one_queue;
    symped_exclusive: together looped one_queue nonblocking;
    symped_reuseport: together looped nonblocking followed;
    symped_b: together looped one_queue;
    n_copy: always looped nonblocking;
    n_copy_steered: together looped nonblocking followed;
    amped_threads: always looped one_queue nonblocking helpers one_kind hosted;
    amped_processes: together looped one_queue nonblocking helpers one_kind mortal hosted followed;
    amped_flash: together looped helpers one_kind mortal;
    amped_uncached: together looped nonblocking helpers one_kind;
    amped_pair: together looped one_queue;
    flash_1999: together looped one_queue nonblocking helpers mortal flash as_in_1999 hosted;
    flash_linux: together looped helpers mortal flash;
    laio_uring: always looped one_queue nonblocking lazy ring hosted followed;
    laio_uring_uncached: together looped nonblocking;
    laio_nowait: together looped one_queue nonblocking lazy;
    laio_pair: together looped one_queue;
    cohort: together looped one_queue alone nonblocking visited followed;
    cohort_wave: together looped one_queue sends_alike;
    mp: together forked staffed followed;
    mp_fixed: fixed;
    threads: always threaded nonblocking followed mastered;
    threads_on_demand: together threaded nonblocking;
    threads_own_cache: together threaded nonblocking;
    knot_c: always looped one_queue nonblocking fibers reading hosted;
    knot_c_epoll: together looped one_queue nonblocking fibers reading;
    knot_c_inline: together looped one_queue nonblocking fibers;
    knot_nb: always looped one_queue patient fibers reading sending tries_first followed;
    knot_nb_first: together looped one_queue nonblocking fibers polls_first;
    knot_b: together looped one_queue patient fibers reading sending one_call;
    means: together looped nonblocking schedulers reading stays followed;
    means_steal: together looped schedulers steals;
    hybrid: always looped one_queue nonblocking pooled followed;
    hybrid_at_once: together looped one_queue nonblocking pooled;
    bio: together looped one_queue nonblocking dispatched reads_itself;
    aio_threads: together looped one_queue nonblocking dispatched has_it_read like_glibc;
    aio_uring: together looped dispatched has_it_read hosted;
    aio_kernel: together looped dispatched;
    self_queue: always looped one_queue nonblocking dispatched decides followed;
    self_disk: together looped dispatched;
    watpipe4: together looped full_pauses nonblocking piped followed;
    watpipe5: together looped full_pauses nonblocking piped parted hosted;
    watpipe5_b: together full_pauses patient piped held;
    watpipe5_copies: together looped sends_alike;
    watpipe5_batch: together looped full_pauses sends_alike;
    seda: always looped full_pauses nonblocking staged hosted followed;
    haboob: together looped full_pauses staged;
    cohort_sandstorm: together looped full_pauses lined_up;
    accept1: together looped one_queue nonblocking;
    acceptinf: together looped one_queue;
    accept25: together looped one_queue;
    accept25_cache: together looped one_queue;
    eager: together looped one_queue;
    eager_full: together looped one_queue;
    eager_close: together looped one_queue;
    cm: always looped one_queue nonblocking;
}
