//! Cases that hold under faults: all of them for one loop that does everything itself, and for its
//! relatives those that differ.

macro_rules! all {
    ($variant:ident) => {
        topics! { $variant
            bodies: every_size_arrives every_size_on_its_own_connection a_large_file_arrives
                small_body_is_drained body_at_the_limit body_that_comes_late chunked_body_is_drained
                chunked_body_byte_by_byte large_body_is_refused endless_chunks_are_refused
                continue_is_sent_or_not_needed continue_with_the_body_at_once;
            closing: half_closed_client_is_answered half_closed_pipeline_is_answered
                half_close_within_a_head error_is_read_while_sending
                last_answer_is_read_while_sending aborts_harm_nobody aborts_leave_nothing_open
                ends_with_the_request_are_noticed;
            conditionals: every_combination;
            faults: a_full_table_delays_accepts short_calls_are_continued slow_opens_lose_nothing;
            framing: request_lines field_lines bare_line_ends content_lengths transfer_encodings
                chunks faults_in_pieces fault_after_good_requests;
            load: two_hundred_connections a_thousand_short_connections every_way_to_send
                full_and_not_listening;
            negotiation: weights ranges_of_a_coded_form;
            pipelining: in_order burst_of_a_hundred answers_larger_than_buffers
                requests_without_end_while_reading split_at_every_byte byte_at_a_time
                nothing_after_close all_kinds_of_answers;
            ranges: single_against_a_model several several_in_a_pipeline too_many;
        }
    };
}

/// Cases that depend on the runner of the loop and of its disk work. Bodies are from every source,
/// cut anywhere; connections arrive all at once, leave, or are refused.
macro_rules! family {
    ($variant:ident) => {
        topics! { $variant
            bodies: every_size_arrives every_size_on_its_own_connection a_large_file_arrives
                chunked_body_is_drained;
            closing: half_closed_pipeline_is_answered aborts_harm_nobody aborts_leave_nothing_open;
            conditionals: every_combination;
            faults: a_full_table_delays_accepts short_calls_are_continued slow_opens_lose_nothing;
            load: two_hundred_connections every_way_to_send;
            negotiation: ranges_of_a_coded_form;
            pipelining: in_order answers_larger_than_buffers all_kinds_of_answers;
            ranges: single_against_a_model several;
        }
    };
}

/// Cases that depend on how connections are accepted, first read and written to.
macro_rules! strategy {
    ($variant:ident) => {
        topics! { $variant
            bodies: every_size_arrives every_size_on_its_own_connection a_large_file_arrives
                chunked_body_is_drained;
            closing: half_closed_pipeline_is_answered aborts_harm_nobody aborts_leave_nothing_open;
            faults: a_full_table_delays_accepts short_calls_are_continued slow_opens_lose_nothing;
            load: two_hundred_connections every_way_to_send;
            pipelining: in_order answers_larger_than_buffers all_kinds_of_answers;
            ranges: single_against_a_model;
        }
    };
}

variants! {
    sped_epoll: all;
    sped_poll: all;
    sped_select: all;
    sped_epoll_edge: all;
    sped_blocking: all;
    sped_small_turns: all;
    sped_uncached: all;
    symped: family;
    symped_exclusive: family;
    symped_reuseport: family;
    shared_two_tier: family;
    shared_global: family;
    symped_b: family;
    shared_b: family;
    n_copy: family;
    n_copy_steered: family;
    amped_threads: family;
    amped_processes: family;
    amped_flash: family;
    amped_pair: family;
    flash_1999: family;
    flash_linux: family;
    laio_uring: family;
    laio_uring_uncached: family;
    laio_nowait: family;
    laio_pair: family;
    cohort: family;
    mp: family;
    threads: family;
    threads_on_demand: family;
    knot_c: family;
    knot_nb: family;
    knot_b: family;
    means: family;
    means_steal: family;
    hybrid: family;
    hybrid_at_once: family;
    bio: family;
    aio_threads: family;
    aio_uring: family;
    self_queue: family;
    watpipe4: family;
    watpipe5: family;
    watpipe5_b: family;
    seda: family;
    haboob: strategy;
    cohort_sandstorm: strategy;
    accept1: strategy;
    acceptinf: strategy;
    accept25: strategy;
    accept25_cache: strategy;
    eager: strategy;
    eager_full: strategy;
    eager_close: strategy;
    cm: strategy;
}
