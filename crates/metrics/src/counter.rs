//! The table of counters: each one's name, unit, way of merging, and sentence.

/// Way to merge the values of several workers, or of one worker at several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// By addition: the counter only ever grows.
    Sum,
    /// By maximum: the counter is a high-water mark.
    Max,
}

macro_rules! counters {
    ($($variant:ident $name:literal $unit:literal $merge:ident $doc:literal;)*) => {
        /// A number that each worker keeps. It never goes down.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(usize)]
        pub enum Counter {
            $(#[doc = $doc] $variant,)*
        }

        impl Counter {
            /// All counters, in the order of their words in a slot.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, in `snake_case`; the same in all architectures and in every output.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The unit: `count`, `bytes` or `ns`.
            #[must_use]
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }

            /// Way to merge the values of several workers.
            #[must_use]
            pub const fn merge(self) -> Merge {
                match self { $(Self::$variant => Merge::$merge,)* }
            }

            /// Description of the counted events: one sentence.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }
        }
    };
}

counters! {
    AcceptCalls "accept_calls" "count" Sum "Calls of `accept4`.";
    AcceptOk "accept_ok" "count" Sum "Calls of `accept4` that returned a connection.";
    AcceptWouldBlock "accept_would_block" "count" Sum
        "Calls of `accept4` that found no connection waiting (`EAGAIN`).";
    AcceptFaults "accept_faults" "count" Sum
        "Calls of `accept4` that failed for another reason, such as `ECONNABORTED`.";
    AcceptSkippedFull "accept_skipped_full" "count" Sum
        "Times that a worker was notified of waiting connections and took none because it was \
         full.";
    AcceptEmfilePauses "accept_emfile_pauses" "count" Sum
        "Times that accepting was paused because no descriptors were left.";
    AcceptOnClose "accept_on_close" "count" Sum
        "Times that a connection closed and others were accepted without a notification.";
    AcceptRuns "accept_runs" "count" Sum
        "Runs of accepts: one for each notification and each close after which others were \
         accepted, also those that took none.";
    AcceptsPerNotificationMax "accepts_per_notification_max" "count" Max
        "The most connections accepted after one notification.";

    ConnectionsOpened "connections_opened" "count" Sum "Connections accepted.";
    ConnectionsClosed "connections_closed" "count" Sum "Connections that have ended.";
    ConnectionsOpenMax "connections_open_max" "count" Max
        "The most connections that one worker had open at once.";
    ConnectionsOpenAtAcceptSum "connections_open_at_accept_sum" "count" Sum
        "Open connections of the worker at each accept, summed: divided by `accept_ok`, the mean.";
    ConnectionsLimited "connections_limited" "count" Sum
        "Connections of clients that had `limits.client_connections_max` already.";
    ConnectionsRefused "connections_refused" "count" Sum
        "Connections of clients that had twice as many, closed without an answer.";
    ClientsUntracked "clients_untracked" "count" Sum
        "Connections that no limit on their client held for: there was no room to count them.";
    RequestsLimited "requests_limited" "count" Sum
        "Requests of clients that had sent more than `limits.client_rate` allows.";
    Unauthorized "unauthorized" "count" Sum
        "Requests answered with 401, because they lacked what `[[auth]]` demands.";
    ClosedPeerClosed "closed_peer_closed" "count" Sum
        "Connections that the client closed between requests.";
    ClosedPeerAborted "closed_peer_aborted" "count" Sum
        "Connections that the client closed in the middle of a request.";
    ClosedReset "closed_reset" "count" Sum "Connections that were reset or broke otherwise.";
    ClosedFinished "closed_finished" "count" Sum "Connections closed after their last response.";
    ClosedIdleDeadline "closed_idle_deadline" "count" Sum
        "Connections closed because no request came in time.";
    ClosedHeadDeadline "closed_head_deadline" "count" Sum
        "Connections closed because a request head or body did not come in time.";
    ClosedSendDeadline "closed_send_deadline" "count" Sum
        "Connections closed because the client received a response too slowly.";
    ClosedDiskDeadline "closed_disk_deadline" "count" Sum
        "Connections closed because the disk did not answer in time.";
    ClosedBadRequest "closed_bad_request" "count" Sum
        "Connections closed after a malformed request was answered.";
    ClosedTruncated "closed_truncated" "count" Sum
        "Connections closed because a file became shorter while it was sent.";
    ClosedDrained "closed_drained" "count" Sum
        "Connections closed because the server was shutting down.";
    ClosedFailed "closed_failed" "count" Sum "Connections closed because a system call failed.";
    ClosedDisplaced "closed_displaced" "count" Sum
        "Idle connections closed to make room for a new one.";
    ClosedHandshakeDeadline "closed_handshake_deadline" "count" Sum
        "Connections closed because the handshake was not over in time.";
    ClosedBadRecord "closed_bad_record" "count" Sum
        "Connections closed because what the peer sent was not decrypted, or is no PROXY header.";
    ClosedRefused "closed_refused" "count" Sum
        "Connections closed after a request was turned away because the server had too much to do.";
    ClosedWorkerDied "closed_worker_died" "count" Sum
        "Connections lost because their worker died; counted by the master.";

    RecvCalls "recv_calls" "count" Sum "Calls that read from a client.";
    RecvBytes "recv_bytes" "bytes" Sum "Bytes read from clients.";
    RecvWouldBlock "recv_would_block" "count" Sum "Calls that found nothing to read (`EAGAIN`).";
    RecvFaults "recv_faults" "count" Sum
        "Calls that read from a client and failed for another reason.";

    SendCalls "send_calls" "count" Sum "Calls of `send` and `sendmsg`, and sends of a ring.";
    SendBytes "send_bytes" "bytes" Sum
        "Bytes that `send`, `sendmsg` and sends of a ring gave to the kernel.";
    SendWouldBlock "send_would_block" "count" Sum
        "Calls of `send` and `sendmsg` that found the socket full (`EAGAIN`).";
    SendFaults "send_faults" "count" Sum
        "Calls of `send`, `sendmsg` and `sendfile` that failed for another reason than a full \
         socket.";
    SendfileCalls "sendfile_calls" "count" Sum "Calls of `sendfile`.";
    SendfileBytes "sendfile_bytes" "bytes" Sum "Bytes that `sendfile` gave to the kernel.";
    SendfileWouldBlock "sendfile_would_block" "count" Sum
        "Calls of `sendfile` that found the socket full (`EAGAIN`).";
    SendfileNs "sendfile_ns" "ns" Sum
        "Time inside `sendfile`, and inside `sendmsg` where it sends from a mapped file, including \
         waits for the disk and, with blocking sends, for clients.";
    BytesSent "bytes_sent" "bytes" Sum
        "Bytes of heads and bodies given to the kernel, by any call.";

    TlsHandshakesFull "tls_handshakes_full" "count" Sum
        "Handshakes of TLS in which the client began a session.";
    TlsHandshakesResumed "tls_handshakes_resumed" "count" Sum
        "Handshakes of TLS in which the client resumed a session with a ticket.";
    TlsHandshakeNs "tls_handshake_ns" "ns" Sum
        "Time that the server computed for these handshakes; waits for clients are not in it.";
    TlsFaultsNotTls "tls_faults_not_tls" "count" Sum
        "Connections to an address with TLS that began with a request in the clear.";
    TlsFaultsVersion "tls_faults_version" "count" Sum
        "Handshakes of clients that offered no version of TLS that the server accepts.";
    TlsFaultsNothingInCommon "tls_faults_nothing_in_common" "count" Sum
        "Handshakes of clients that had no cipher suite, group, signature scheme or protocol in \
         common with the server.";
    TlsFaultsCertificate "tls_faults_certificate" "count" Sum
        "Handshakes of clients whose certificate was missing or not valid.";
    TlsFaultsRecord "tls_faults_record" "count" Sum
        "Connections whose client sent a record that was malformed, altered, too long or not \
         allowed there.";
    TlsFaultsAlert "tls_faults_alert" "count" Sum
        "Connections that the client broke off with an alert, for example because it does not \
         trust the certificate.";
    TlsFaultsOther "tls_faults_other" "count" Sum
        "Connections that could not be encrypted for another reason.";
    SealedBytes "sealed_bytes" "bytes" Sum
        "Bytes of heads and bodies that the server encrypted; `sendfile_bytes` are in the clear.";

    ConnectionsHttp2 "connections_http2" "count" Sum "Connections over HTTP/2.";
    StreamsOpened "streams_opened" "count" Sum "Requests over HTTP/2 that were accepted.";
    StreamsRefused "streams_refused" "count" Sum
        "Requests over HTTP/2 that were refused unprocessed: there were too many at once.";
    StreamsResetByClient "streams_reset_by_client" "count" Sum
        "Requests over HTTP/2 that the client cancelled.";
    StreamsResetByUs "streams_reset_by_us" "count" Sum
        "Requests over HTTP/2 that the server broke off before their response was complete, or \
         refused.";
    Http2Glitches "http2_glitches" "count" Sum
        "Frames of clients that are faulty or useless: they count against a connection's budget.";
    Http2Calmed "http2_calmed" "count" Sum
        "Connections ended because they had spent their budget (`ENHANCE_YOUR_CALM`).";
    Http2WindowStalls "http2_window_stalls" "count" Sum
        "Times that a response over HTTP/2 had to wait for the client to permit more of it.";
    Http2FilesClosed "http2_files_closed" "count" Sum
        "Files that were closed while their responses over HTTP/2 waited, because many were open.";

    WaitCalls "wait_calls" "count" Sum "Calls that wait for events.";
    WaitEvents "wait_events" "count" Sum "Events that these calls returned.";
    WaitZero "wait_zero" "count" Sum "Of these calls, those that returned no event.";
    WaitTimedOut "wait_timed_out" "count" Sum
        "Of those without an event, the ones whose time-out expired (not a poll with time-out 0 \
         or a signal).";
    WaitInterestSum "wait_interest_sum" "count" Sum
        "Descriptors watched, summed over these calls: divided by `wait_calls`, the mean.";
    WaitInterestMax "wait_interest_max" "count" Max
        "The most descriptors that one worker watched at once.";
    WaitChanges "wait_changes" "count" Sum
        "Changes of the set of watched descriptors; with epoll, calls of `epoll_ctl`.";
    WaitNs "wait_ns" "ns" Sum "Time inside the calls that wait for events.";

    Requests "requests" "count" Sum "Request heads received in full, well-formed or not.";
    Replies "replies" "count" Sum "Final responses whose last byte was given to the kernel.";
    RepliesCut "replies_cut" "count" Sum
        "Final responses that were cut short, or not begun because the connection ended.";
    Replies1xx "replies_1xx" "count" Sum "Interim responses.";
    Replies2xx "replies_2xx" "count" Sum "Of the replies, those with a status from 200 to 299.";
    Replies3xx "replies_3xx" "count" Sum "Of the replies, those with a status from 300 to 399.";
    Replies4xx "replies_4xx" "count" Sum "Of the replies, those with a status from 400 to 499.";
    Replies5xx "replies_5xx" "count" Sum "Of the replies, those with a status from 500 to 599.";
    Replies200 "replies_200" "count" Sum "Of the replies, those with status 200.";
    Replies206 "replies_206" "count" Sum "Of the replies, those with status 206.";
    Replies304 "replies_304" "count" Sum "Of the replies, those with status 304.";
    Replies404 "replies_404" "count" Sum "Of the replies, those with status 404.";
    RepliesBelow1k "replies_below_1k" "count" Sum
        "Of the replies, those with a body below 1 KiB; none counts as 0 bytes.";
    RepliesBelow10k "replies_below_10k" "count" Sum
        "Of the replies, those with a body from 1 KiB to below 10 KiB.";
    RepliesBelow100k "replies_below_100k" "count" Sum
        "Of the replies, those with a body from 10 KiB to below 100 KiB.";
    RepliesBelow1m "replies_below_1m" "count" Sum
        "Of the replies, those with a body from 100 KiB to below 1 MiB.";
    RepliesFrom1m "replies_from_1m" "count" Sum
        "Of the replies, those with a body of 1 MiB or more.";

    CacheLookups "cache_lookups" "count" Sum "Lookups in the cache.";
    CacheHits "cache_hits" "count" Sum
        "Lookups that found an entry fresh enough to use, negative ones included.";
    CacheNegativeHits "cache_negative_hits" "count" Sum
        "Of the hits, those for a file that does not exist.";
    CacheFills "cache_fills" "count" Sum "Entries added after a miss.";
    CacheRevalidations "cache_revalidations" "count" Sum
        "Entries that were too old to use and were opened again.";
    CacheEvictions "cache_evictions" "count" Sum "Entries removed to make room.";
    CacheInactive "cache_inactive" "count" Sum
        "Entries removed after `cache.inactive_ms` without a request for them.";
    CacheEntriesAdded "cache_entries_added" "count" Sum "Entries added to the cache.";
    CacheEntriesRemoved "cache_entries_removed" "count" Sum "Entries removed from the cache.";
    CacheFdsAdded "cache_fds_added" "count" Sum "Open files added to the cache with their entries.";
    CacheFdsRemoved "cache_fds_removed" "count" Sum
        "Open files removed from the cache with their entries.";
    CacheBytesAdded "cache_bytes_added" "bytes" Sum "Bytes of heads and bodies added to the cache.";
    CacheBytesRemoved "cache_bytes_removed" "bytes" Sum
        "Bytes of heads and bodies removed from the cache.";
    CacheUnpacked "cache_unpacked" "count" Sum
        "Files that workers have copied out of a shared cache for their own use.";
    CacheUnpackedBytesAdded "cache_unpacked_bytes_added" "bytes" Sum
        "Bytes of heads and bodies in those copies.";
    CacheUnpackedBytesRemoved "cache_unpacked_bytes_removed" "bytes" Sum
        "Of those, bytes that have been freed.";
    CacheRepairs "cache_repairs" "count" Sum
        "Times that a shared cache was emptied because a worker died while changing it.";

    LockAcquisitions "lock_acquisitions" "count" Sum
        "Acquisitions of a lock of a cache that workers or threads share.";
    LockContended "lock_contended" "count" Sum "Of those, the ones that had to wait.";
    LockWaitNs "lock_wait_ns" "ns" Sum "Time spent waiting for these locks.";
    LockHoldersDied "lock_holders_died" "count" Sum
        "Of the acquisitions, those of a lock whose holder had died.";

    Opens "opens" "count" Sum "Paths opened below the root, found or not.";
    OpenSiblings "open_siblings" "count" Sum "Precompressed files looked for by these opens.";
    OpensNs "opens_ns" "ns" Sum "Time that event loops spent opening paths themselves.";
    Reads "reads" "count" Sum "Reads of a file into memory.";
    ReadBytes "read_bytes" "bytes" Sum "Bytes read by these reads.";
    ReadsNs "reads_ns" "ns" Sum "Time that event loops spent reading files into memory themselves.";

    HelpersStarted "helpers_started" "count" Sum "Helpers started, as threads or as processes.";
    HelpersLost "helpers_lost" "count" Sum
        "Helpers that ended by themselves; another helper gets their task.";
    HelpersStopped "helpers_stopped" "count" Sum
        "Helpers stopped because enough others were idle, or because their worker ended.";
    HelpersOpenMax "helpers_open_max" "count" Max "The most helpers that one worker had at once.";
    HelperTasksOpen "helper_tasks_open" "count" Sum "Tasks to open a path.";
    HelperTasksRead "helper_tasks_read" "count" Sum
        "Tasks to bring a range of a file into the page cache that will be read.";
    HelperTasksPrefetch "helper_tasks_prefetch" "count" Sum
        "Tasks to bring a range of a file into the page cache that will be sent.";
    HelperTasksSelf "helper_tasks_self" "count" Sum
        "Tasks that the event loop performed itself because no helper could be started.";
    HelperTasksRefused "helper_tasks_refused" "count" Sum
        "Opens that auto refused because `auto.queue_max` tasks waited for the helpers of a mount.";
    HelperQueueMax "helper_queue_max" "count" Max
        "The most tasks that waited for a helper at once.";
    HelperQueueSum "helper_queue_sum" "count" Sum
        "Tasks waiting when a task arrived, summed: divided by the number of tasks, the mean.";
    HelperWaitNs "helper_wait_ns" "ns" Sum "Time that tasks waited for a helper.";
    HelperBusyNs "helper_busy_ns" "ns" Sum
        "Time from giving a task to a helper until its completion is read, or, where helpers take \
         tasks themselves, until it is complete.";
    HelperIdleNs "helper_idle_ns" "ns" Sum
        "Time that helpers had no task, added when they get one or are stopped.";
    HelperCompletions "helper_completions" "count" Sum "Tasks that helpers reported as complete.";
    HelperCompletionBytes "helper_completion_bytes" "bytes" Sum
        "Bytes of these reports through the channels of helper processes.";
    HelperDescriptors "helper_descriptors" "count" Sum
        "Open files that helper processes passed to the event loop.";
    HelperTasksSend "helper_tasks_send" "count" Sum "Tasks to send a file.";
    HelperSendNs "helper_send_ns" "ns" Sum
        "Time that helpers spent on these tasks, including waits for the disk and for clients.";
    HelperPolls "helper_polls" "count" Sum
        "Times that a helper waited for a client to take more.";
    HelperPollsTimedOut "helper_polls_timed_out" "count" Sum
        "Of those, the ones after which the client had taken nothing.";
    DiskCompletionsDropped "disk_completions_dropped" "count" Sum
        "Disk operations that completed after their connection had ended.";

    ReadaheadWaits "readahead_waits" "count" Sum
        "Reads and sends of files that were put off after their pages had been asked for.";

    ResidencyChecks "residency_checks" "count" Sum "Checks whether a range of a file is in memory.";
    ResidencyResident "residency_resident" "count" Sum "Of those, the ones that said yes.";
    ResidencyAbsent "residency_absent" "count" Sum "Of those, the ones that said no.";
    ResidencyUnknown "residency_unknown" "count" Sum
        "Of those, the ones that the system did not answer; treated as no.";
    ResidencyFalse "residency_false" "count" Sum
        "Sends of a range reported to be in memory that took as long as a stall.";

    FlashCoalesced "flash_coalesced" "count" Sum
        "Requests to helpers of Flash that joined one for the same name or chunk.";
    FlashDelayed "flash_delayed" "count" Sum
        "Tasks queued for helpers of Flash although another could have been started, because none \
         had waited for `flash.start_delay_ms`.";
    FlashPrefixSends "flash_prefix_sends" "count" Sum
        "Sends of the part of a mapped chunk before the first page that was not in memory.";
    MapsAdded "maps_added" "count" Sum "Chunks of files that were mapped.";
    MapsRemoved "maps_removed" "count" Sum "Of those, the ones that are no longer.";
    MapBytesAdded "map_bytes_added" "bytes" Sum "Bytes of these chunks, in whole pages.";
    MapBytesRemoved "map_bytes_removed" "bytes" Sum
        "Of those, bytes of chunks that are no longer mapped.";

    FiberRuns "fiber_runs" "count" Sum
        "Times that a user thread was resumed: switches between user threads.";
    FiberReadySum "fiber_ready_sum" "count" Sum
        "User threads that were ready when their scheduler looked for events, summed: divided by \
         `wait_calls`, the mean.";
    FiberReadyMax "fiber_ready_max" "count" Max
        "The most user threads that were ready when their scheduler looked for events.";
    FibersAcceptingSum "fibers_accepting_sum" "count" Sum
        "User threads that waited for a connection then, summed.";
    FibersOnSocketSum "fibers_on_socket_sum" "count" Sum
        "User threads that waited for a socket then, summed.";
    FibersOnHelperSum "fibers_on_helper_sum" "count" Sum
        "User threads that waited for a helper then, summed.";
    FiberRetries "fiber_retries" "count" Sum
        "Operations that were tried again because the socket was ready.";
    FiberYields "fiber_yields" "count" Sum
        "Times that a user thread let others go first although it could continue.";
    FiberStealTries "fiber_steal_tries" "count" Sum
        "Times that a scheduler with nothing to run asked others for connections.";
    FiberSteals "fiber_steals" "count" Sum
        "Connections that a scheduler with nothing to run was given by another.";
    ColourStealTries "colour_steal_tries" "count" Sum
        "Times that an event loop with nothing to do asked others for a connection.";
    ColourSteals "colour_steals" "count" Sum
        "Connections that an event loop with nothing to do was given by another.";
    StackBytesMax "stack_bytes_max" "bytes" Max "The most that one user thread used of its stack.";
    StacksBytesMax "stacks_bytes_max" "bytes" Max
        "Address space that is reserved for the stacks of user threads.";

    StaffStarts "staff_starts" "count" Sum
        "Times that this worker was started because others waited for the disk.";
    StaffRetires "staff_retires" "count" Sum
        "Times that this worker was retired because workers did not wait for the disk.";
    StaffWaitNs "staff_wait_ns" "ns" Sum
        "Time that this worker waited for the disk, as the master measured it to decide.";

    QueuePuts "queue_puts" "count" Sum "Items put into the queues between threads.";
    QueueRefused "queue_refused" "count" Sum
        "Items that were not put there because the queue was full or closed.";
    QueueLenSum "queue_len_sum" "count" Sum
        "Items in the queue before each put, summed: divided by `queue_puts`, the mean.";
    QueueLenMax "queue_len_max" "count" Max "The most items in one queue at once.";
    QueueWaitNs "queue_wait_ns" "ns" Sum
        "Time that items have waited in these queues, those included that still wait.";
    QueueTakes "queue_takes" "count" Sum "Items taken out of these queues.";
    QueueDropped "queue_dropped" "count" Sum
        "Items that were still in a queue when it was closed, or its process died.";
    QueueVisits "queue_visits" "count" Sum
        "Times that a thread took a batch of items from a queue: `queue_takes` divided by this is \
         the mean batch.";
    QueueWakes "queue_wakes" "count" Sum "Threads that were woken because an item came.";
    Merges "merges" "count" Sum
        "Times that the set of connections which one stage left for another was taken over.";
    StageNs "stage_ns" "ns" Sum "Time that threads of a stage worked on batches.";
    StageRefused "stage_refused" "count" Sum
        "Requests that a stage refused, because its queue was full or it admits fewer.";
    Decisions "decisions" "count" Sum
        "Decisions of controllers: of a stage, or of the helpers of a mount.";
    DecisionsChanged "decisions_changed" "count" Sum "Of those, the ones that changed something.";
    BarrierBatches "barrier_batches" "count" Sum
        "Batches after which a stage waited until all of the batch had come back.";
    BarrierNs "barrier_ns" "ns" Sum "Time that it waited for them.";
    HandOvers "hand_overs" "count" Sum "Connections that a unit handed to another thread.";
    HandBacks "hand_backs" "count" Sum "Of those, the ones that came back to it.";

    ThreadsStarted "threads_started" "count" Sum "Threads started to serve connections.";
    ThreadsEnded "threads_ended" "count" Sum "Of those, the ones that have ended.";
    ThreadsOpenMax "threads_open_max" "count" Max
        "Threads of mt and knot-nptl, or of a stage, at the same time at most.";
    ThreadsBusyNs "threads_busy_ns" "ns" Sum "Time that these threads had a connection.";
    ThreadsIdleNs "threads_idle_ns" "ns" Sum "Time that they waited for one.";

    AioStarted "aio_started" "count" Sum "Reads started asynchronously.";
    AioRefused "aio_refused" "count" Sum
        "Reads that could not be started asynchronously, and were made by the thread itself.";
    AioLooks "aio_looks" "count" Sum "Looks at whether such a read is complete.";
    AioRequeues "aio_requeues" "count" Sum "Of those, the ones that found it was not.";
    AioCompleted "aio_completed" "count" Sum "Asynchronous reads that were found complete.";
    AioNs "aio_ns" "ns" Sum "Time from the start of these reads until they were found complete.";
    AioPollerNs "aio_poller_ns" "ns" Sum
        "Processor time of the thread that looks for complete reads.";

    DecidedBlocking "decided_blocking" "count" Sum
        "Reads that a thread decided to make itself.";
    DecidedAsync "decided_async" "count" Sum
        "Reads that a thread decided to have made asynchronously.";
    DecidedQueueSum "decided_queue_sum" "count" Sum
        "Connections waiting for a thread at each of these decisions, summed.";
    DecidedDiskSum "decided_disk_sum" "count" Sum
        "Reads being made, asynchronously or not, at each of these decisions, summed.";
    DecidedResident "decided_resident" "count" Sum
        "Decisions that found the range of the file in memory.";
    DecidedAbsent "decided_absent" "count" Sum "Decisions that did not find it there.";

    LaioInline "laio_inline" "count" Sum
        "Disk operations that completed in the call that submitted them.";
    LaioDeferred "laio_deferred" "count" Sum
        "Disk operations that would have blocked and were continued elsewhere.";

    AutoHelpersAdded "auto_helpers_added" "count" Sum
        "Helpers that the controllers of `auto` allowed more, those at the start included.";
    AutoHelpersRemoved "auto_helpers_removed" "count" Sum
        "Helpers that the controllers of `auto` allowed less.";
    AutoGrown "auto_grown" "count" Sum
        "Decisions for more helpers of a mount, because tasks waited too long for one.";
    AutoShrunk "auto_shrunk" "count" Sum
        "Decisions for fewer helpers of a mount, because most had nothing to do.";
    AutoUndone "auto_undone" "count" Sum
        "Decisions for fewer helpers of a mount, because more had not completed more tasks.";
    AutoAtMost "auto_at_most" "count" Sum
        "Decisions for no more helpers although tasks waited, because of `auto.helpers_max`.";
    AutoHung "auto_hung" "count" Sum
        "Decisions for no more helpers although tasks waited, because the mount completed none.";

    StallOpen "stall_open" "count" Sum
        "Turns that spent `event.stall_us` or more on files, most of it on opening.";
    StallRead "stall_read" "count" Sum
        "Turns that spent `event.stall_us` or more on files, most of it on reading into memory.";
    StallSend "stall_send" "count" Sum
        "Turns that spent `event.stall_us` or more on files, most of it on sending.";
    StallBudget "stall_budget" "count" Sum
        "Turns that ended because the connection had used up its bytes or operations, however \
         long they took.";
    StallLog "stall_log" "count" Sum "Writes of log lines that took longer than `event.stall_us`.";
    StallRound "stall_round" "count" Sum
        "Rounds (all turns between two waits) that took `event.stall_us` or longer.";
    StallOther "stall_other" "count" Sum
        "Of those rounds, the ones that took that long even without the time spent on files.";
    StallOpenNs "stall_open_ns" "ns" Sum
        "Time that the turns counted in `stall_open` spent on files, for any operation.";
    StallReadNs "stall_read_ns" "ns" Sum
        "Time that the turns counted in `stall_read` spent on files, for any operation.";
    StallSendNs "stall_send_ns" "ns" Sum
        "Time that the turns counted in `stall_send` spent on files, for any operation.";
    StallBudgetNs "stall_budget_ns" "ns" Sum
        "Time that the turns counted in `stall_budget` spent on files.";
    StallLogNs "stall_log_ns" "ns" Sum "Time inside the log writes counted in `stall_log`.";
    StallRoundNs "stall_round_ns" "ns" Sum "Time that the rounds counted in `stall_round` took.";
    StallOtherNs "stall_other_ns" "ns" Sum
        "Time that the rounds counted in `stall_other` took, less the time spent on files.";

    LogLines "log_lines" "count" Sum "Lines added to the access log.";
    LogBytes "log_bytes" "bytes" Sum "Bytes written to the access log.";
    LogWrites "log_writes" "count" Sum "Calls of `write` on the access log.";
    LogDropped "log_dropped" "count" Sum "Lines lost because a write to the access log failed.";
}

/// The number of counters.
pub(crate) const COUNTERS: usize = Counter::ALL.len();

/// The counters of the close reasons, in the order of `regatta_op::CloseReason`.
const CLOSED: [Counter; 16] = [
    Counter::ClosedPeerClosed,
    Counter::ClosedPeerAborted,
    Counter::ClosedReset,
    Counter::ClosedFinished,
    Counter::ClosedIdleDeadline,
    Counter::ClosedHeadDeadline,
    Counter::ClosedSendDeadline,
    Counter::ClosedDiskDeadline,
    Counter::ClosedBadRequest,
    Counter::ClosedTruncated,
    Counter::ClosedDrained,
    Counter::ClosedFailed,
    Counter::ClosedDisplaced,
    Counter::ClosedHandshakeDeadline,
    Counter::ClosedBadRecord,
    Counter::ClosedRefused,
];

impl Counter {
    /// The counter of a close reason, by its number (`regatta_op::CloseReason as usize`); a number
    /// that is none counts as a failure of the system.
    #[must_use]
    #[inline]
    pub const fn closed(reason: usize) -> Self {
        if reason < CLOSED.len() { CLOSED[reason] } else { Self::ClosedFailed }
    }

    /// The counter of a status's class; `None` outside 100 to 599.
    #[must_use]
    #[inline]
    pub const fn status_class(status: u16) -> Option<Self> {
        match status {
            100..=199 => Some(Self::Replies1xx),
            200..=299 => Some(Self::Replies2xx),
            300..=399 => Some(Self::Replies3xx),
            400..=499 => Some(Self::Replies4xx),
            500..=599 => Some(Self::Replies5xx),
            _ => None,
        }
    }

    /// The counter of exactly this status, for the four that have one: 200, 206, 304, 404.
    #[must_use]
    #[inline]
    pub const fn status(status: u16) -> Option<Self> {
        match status {
            200 => Some(Self::Replies200),
            206 => Some(Self::Replies206),
            304 => Some(Self::Replies304),
            404 => Some(Self::Replies404),
            _ => None,
        }
    }

    /// The counter of the size class of a response body: the four classes of SPECweb99, in units of
    /// a KiB, and one for larger bodies.
    #[must_use]
    #[inline]
    pub const fn size_class(body_bytes: u64) -> Self {
        match body_bytes {
            0..0x400 => Self::RepliesBelow1k,
            0x400..0x2800 => Self::RepliesBelow10k,
            0x2800..0x1_9000 => Self::RepliesBelow100k,
            0x1_9000..0x10_0000 => Self::RepliesBelow1m,
            _ => Self::RepliesFrom1m,
        }
    }
}

macro_rules! gauges {
    ($($variant:ident $name:literal $unit:literal $up:ident - $($down:ident)+, $doc:literal;)*) => {
        /// A number that goes up and down: the difference of two or more counters, never stored.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Gauge {
            $(#[doc = $doc] $variant,)*
        }

        impl Gauge {
            /// All gauges.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The name, in `snake_case`; no counter has the same.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The unit: `count` or `bytes`.
            #[must_use]
            pub const fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }

            /// Description of the measured value: one sentence.
            #[must_use]
            pub const fn doc(self) -> &'static str {
                match self { $(Self::$variant => $doc,)* }
            }

            /// The counter that raises it.
            #[must_use]
            pub const fn up(self) -> Counter {
                match self { $(Self::$variant => Counter::$up,)* }
            }

            /// The counters that lower it; the first also counts what died with a worker.
            #[must_use]
            pub const fn down(self) -> &'static [Counter] {
                match self { $(Self::$variant => &[$(Counter::$down),+],)* }
            }
        }
    };
}

gauges! {
    ConnectionsOpen "connections_open" "count" ConnectionsOpened - ConnectionsClosed,
        "Open connections.";
    RequestsOpen "requests_open" "count" Requests - RepliesCut Replies,
        "Requests that are being answered.";
    CacheEntries "cache_entries" "count" CacheEntriesAdded - CacheEntriesRemoved,
        "Entries in the cache.";
    CacheFds "cache_fds" "count" CacheFdsAdded - CacheFdsRemoved,
        "Open files in the cache.";
    CacheBytes "cache_bytes" "bytes" CacheBytesAdded - CacheBytesRemoved,
        "Bytes of heads and bodies in the cache.";
    CacheBytesUnpacked "cache_bytes_unpacked" "bytes"
        CacheUnpackedBytesAdded - CacheUnpackedBytesRemoved,
        "Bytes of files that workers have copied out of a shared cache for their own use.";
    HelpersOpen "helpers_open" "count" HelpersStarted - HelpersStopped HelpersLost,
        "Helpers, busy or idle.";
    AutoHelpers "auto_helpers" "count" AutoHelpersAdded - AutoHelpersRemoved,
        "Helpers that `auto` allows, of all mounts.";
    MapsOpen "maps_open" "count" MapsAdded - MapsRemoved, "Chunks of files that are mapped.";
    MapBytes "map_bytes" "bytes" MapBytesAdded - MapBytesRemoved,
        "Bytes of chunks of files that are mapped.";
    ThreadsOpen "threads_open" "count" ThreadsStarted - ThreadsEnded,
        "Threads that serve connections, busy or idle.";
    QueueItems "queue_items" "count" QueuePuts - QueueDropped QueueTakes,
        "Items in the queues between threads.";
}

impl Gauge {
    /// Value of the gauge from values of counters; 0 if they were read in an unlucky order.
    #[must_use]
    pub fn value(self, mut counter: impl FnMut(Counter) -> u64) -> u64 {
        // Counters that lower it are read first: a worker that writes meanwhile makes the gauge too
        // large by what it did, never absurdly small.
        let down = self.down().iter().fold(0u64, |sum, &down| sum.wrapping_add(counter(down)));
        counter(self.up()).saturating_sub(down)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_op::CloseReason;
    use std::{collections::HashSet, format, string::String};

    fn snake(camel: &str) -> String {
        let mut snake = String::new();
        let mut before = 'A';
        for letter in camel.chars() {
            let starts =
                letter.is_ascii_uppercase() || letter.is_ascii_digit() && !before.is_ascii_digit();
            if starts && !snake.is_empty() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
            before = letter;
        }
        // One word, as in its options.
        snake.replace("http_2", "http2")
    }

    #[test]
    fn names_follow_the_variants_and_are_unique() {
        let mut seen = HashSet::new();
        for (index, counter) in Counter::ALL.iter().enumerate() {
            assert_eq!(*counter as usize, index);
            assert_eq!(counter.name(), snake(&format!("{counter:?}")));
            assert!(seen.insert(counter.name()));
        }
        for gauge in Gauge::ALL {
            assert_eq!(gauge.name(), snake(&format!("{gauge:?}")));
            assert_eq!(gauge.unit(), gauge.up().unit());
            assert!(gauge.down().iter().all(|down| down.unit() == gauge.unit()));
            assert!(seen.insert(gauge.name()));
        }
    }

    #[test]
    fn every_counter_has_a_unit_and_one_sentence() {
        for counter in Counter::ALL {
            let expected = match counter.name() {
                name if name.ends_with("_ns") => "ns",
                name if name.contains("bytes") => "bytes",
                _ => "count",
            };
            assert_eq!(counter.unit(), expected, "{}", counter.name());
            assert!(counter.doc().ends_with('.'), "{}", counter.name());
            let max = counter.name().ends_with("_max");
            assert_eq!(counter.merge() == Merge::Max, max, "{}", counter.name());
        }
    }

    #[test]
    fn close_reasons_map_to_the_counter_with_their_name() {
        for (index, reason) in CloseReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
            let counter = Counter::closed(index);
            assert_eq!(format!("{counter:?}"), format!("Closed{reason:?}"));
        }
        assert_eq!(CLOSED.len(), CloseReason::ALL.len());
        assert_eq!(Counter::closed(usize::MAX), Counter::ClosedFailed);
    }

    #[test]
    fn statuses_and_sizes_fall_into_their_classes() {
        assert_eq!(Counter::status_class(99), None);
        assert_eq!(Counter::status_class(100), Some(Counter::Replies1xx));
        assert_eq!(Counter::status_class(599), Some(Counter::Replies5xx));
        assert_eq!(Counter::status_class(600), None);
        assert_eq!(Counter::status(206), Some(Counter::Replies206));
        assert_eq!(Counter::status(403), None);
        let classes = [
            (0, Counter::RepliesBelow1k),
            (1023, Counter::RepliesBelow1k),
            (1024, Counter::RepliesBelow10k),
            (10 * 1024 - 1, Counter::RepliesBelow10k),
            (10 * 1024, Counter::RepliesBelow100k),
            (100 * 1024 - 1, Counter::RepliesBelow100k),
            (100 * 1024, Counter::RepliesBelow1m),
            ((1 << 20) - 1, Counter::RepliesBelow1m),
            (1 << 20, Counter::RepliesFrom1m),
            (u64::MAX, Counter::RepliesFrom1m),
        ];
        for (bytes, class) in classes {
            assert_eq!(Counter::size_class(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn a_gauge_is_a_difference_and_never_negative() {
        let values = |counter| match counter {
            Counter::Requests => 10,
            Counter::Replies => 6,
            Counter::RepliesCut => 1,
            Counter::ConnectionsClosed => 1,
            _ => 0,
        };
        assert_eq!(Gauge::RequestsOpen.value(values), 3);
        assert_eq!(Gauge::ConnectionsOpen.value(values), 0);
    }
}
