//! Which of the categories of [E] table 1 a function belongs to.
//!
//! [E] counted samples by function and sorted functions by the kernel's directories. Names of the
//! kernel are sorted here by how they begin: the longest beginning wins. Our own are sorted by
//! module.

use crate::watch::perf_script::{Frame, Place};
use regatta_load::named;

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
        /// Kernel: who runs next.
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
    /// Its name in the table.
    pub fn title(self) -> &'static str {
        match self {
            Self::FileSystem => "file system",
            Self::KernelArch => "kernel + arch",
            Self::Poll => "poll overhead",
            Self::Copying => "data copying",
            Self::Sched => "sched overhead",
            Self::Driver => "driver (loopback, softirq)",
            Self::Thread => "thread overhead",
            Self::Event => "event overhead",
            as_written => as_written.name(),
        }
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

/// The parts of [E] table 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// `vmlinux`.
    Kernel,
    /// `e1000` there.
    Driver,
    /// User space.
    User,
    /// `libc`.
    Libc,
    /// `other`.
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

/// A function of the kernel. `__x64_sys_sendto` is `sys_sendto`; what the compiler made of a
/// function (`.isra.0`) is that function.
fn kernel(symbol: &str) -> Option<Category> {
    let name = symbol.trim_start_matches('_');
    let name = name.split('.').next().unwrap_or(name);
    let name = ["x64_", "ia32_", "raw_callee_save_", "arm64_", "se_", "do_"]
        .iter()
        .fold(name, |name, part| name.strip_prefix(part).unwrap_or(name))
        .trim_start_matches('_');
    let begins = |(_, words): &(Category, &str)| {
        let lengths = words.split_whitespace().filter(|word| name.starts_with(word));
        lengths.map(str::len).max()
    };
    KERNEL
        .iter()
        .filter_map(|row| Some((begins(row)?, row.0)))
        .max_by_key(|(length, _)| *length)
        .map(|(_, category)| category)
}

/// How names of the kernel's functions begin, by category; without `__`, `do_` and `x64_`.
const KERNEL: &[(Category, &str)] = &[
    (
        Category::Networking,
        "tcp ip_ ip4 ip6 ip_v ipv4 ipv6 inet sock sk_ skb napi_ net_ netif netdev neigh dst_ \
         rt_dst rt_cache rtm ip_route fib nf_ nft xt_ ipt udp unix_ bbr cubictcp bictcp dctcp \
         eth_ qdisc sch_ fq_ pfifo lock_sock release_sock kfree_skb consume_skb alloc_skb \
         build_skb sys_send sys_recv sys_accept sys_socket sys_shutdown sys_setsockopt \
         sys_getsockopt sys_connect sys_bind sys_listen accept sys_get move_addr datagram \
         csum dev_ validate_xmit harmonize passthru_features xfrm rps get_rps reuseport \
         bpf_skops mptcp tso_ gso gro_ minmax_running secure_tcp secure_ipv4 request_sock \
         reqsk alloc_file_sock sendmsg recvmsg import_single_range zerocopy page_pool raw_v4 \
         raw_local ping_ lwtunnel fwmark iptable sys_sendto sys_recvfrom tasklet_tcp \
         sk_stream compute_score deliver_skb packet_ ktime_get_skb",
    ),
    (
        Category::MemoryMgmt,
        "alloc_pages alloc_frozen free_page free_unref free_frozen get_page put_page folio \
         page_ pageblock filemap kmem kmalloc kfree kvfree kvmalloc ksize slab mem_cgroup \
         memcg obj_cgroup charge uncharge try_charge refill rmqueue zone mod_zone mod_node \
         mod_memcg mod_lruvec lru shrink handle_mm handle_pte anonymous_page fault mmap vma \
         vm_ find_vma unmap zap tlb flush_tlb clear_page copy_page swap workingset xas xa_ \
         read_pages readahead page_cache ondemand_readahead force_page_cache balance_dirty \
         check_object check_heap check_stack_object virt_addr get_user_pages gup pagevec \
         release_pages cache_from user_addr_fault brk mprotect madvise sys_mmap sys_munmap \
         sys_madvise next_uptodate set_pte pte_ pmd_ memory_ cgroup_rstat get_pfnblock \
         prep_new post_alloc drain_ count_memcg lock_page get_partial put_cpu_partial \
         put_partial deactivate_slab init_object free_to_partial discard_slab new_slab \
         allocate_slab barn pcs_ kasan kfence find_get find_lock mincore sys_mincore policy_ \
         mpol interleave fadvise sys_fadvise get_any_partial put_folio",
    ),
    (
        Category::FileSystem,
        "vfs filp path link_path walk lookup dput dget d_ iput iget ext4 ext2 xfs btrfs jbd2 \
         overlay ovl shmem tmpfs generic_file generic_fill splice pipe anon_pipe fput fget \
         fdget fd_ close_fd file sendfile sys_sendfile sys_read sys_write sys_open sys_close \
         sys_fstat sys_newfstat sys_stat sys_statx sys_pread sys_pwrite sys_lseek sys_fcntl \
         sys_dup sys_readv sys_writev ksys new_sync rw_verify fsnotify touch_atime atime \
         inode getname putname statx cp_new mntput mntget legitimize complete_walk \
         direct_splice fuse eventfd iocb aio alloc_fd locks iomap mpage buffer_head bh_ \
         block_ step_into may_open open_ dentry terminate_walk simple_ proc_ seq_ kernfs \
         readlink nd_ set_root pick_link mnt_ lockref sys_eventfd filldir sys_getdents \
         expand_files notify_change sys_splice warn_unsupported put_unused receive_fd \
         get_unused clear_bit_fd flush_delayed_fput dispose_fd",
    ),
    (
        Category::KernelArch,
        "entry syscall x64_sys_call sys_call sysret swapgs asm_ sysvec exc_ irq error_entry \
         error_return native pv_ paravirt raw_spin raw_read raw_write spin queued mutex rwsem \
         down_ up_ rcu srcu osq local_bh local_irq local_clock preempt ktime timekeeping \
         read_tsc rdtsc clock clocksource getnstime hrtimer timer mod_timer del_timer \
         try_to_del detach_if enqueue_timer internal_add calc_wheel lock_timer next_expiry \
         run_timer expire_timers call_timer collect_expired get_next_timer futex sys_futex \
         get_futex hash_futex unqueue_me plist signal recalc_sig send_sig get_signal \
         sys_rt_sig task_work exit_to_user fpregs fpu save_fpregs restore_fpregs cpu smp kvm \
         hv_ apic x2apic tick account_ acct vtime jiffies usecs_to msecs_to nsecs_to \
         get_jiffies queue_work process_one_work wq_ worker_ kthread seccomp audit \
         static_call srso x86 return_thunk indirect_thunk ret_from capable ns_capable cred \
         u64_stats set_task get_task put_task task_ sys_clock sys_gettime posix nanosleep \
         sys_nanosleep read_hpet pvclock sys_get_time ct_ context_tracking user_enter \
         user_exit enter_from exit_ fork copy_process copy_thread clone sys_clone wait_task \
         sys_wait call_function flush_smp generic_exec llist_smp stop_machine csd_ vmx_ \
         dl_task_timer restore_regs common_interrupt spurious nmi ret_ rep_nop acpi \
         default_idle intel_idle sys_getpid sys_gettid sys_sched_yield ptrace rseq uprobe \
         sys_exit sys_restart get_timespec put_timespec sync_regs common_startup \
         secondary_startup start_kernel rest_init arch_",
    ),
    (
        Category::Poll,
        "ep_ epoll eventpoll sys_epoll sys_poll sys_ppoll sys_select sys_pselect select \
         core_sys_select poll sock_poll tcp_poll datagram_poll pipe_poll unix_poll \
         tcp_stream_is_readable tcp_epollin max_select set_fd_set get_fd_set sys_epoll_wait \
         sk_busy eventfd_poll wake_up_poll timerfd_poll",
    ),
    (
        Category::Copying,
        "copy_user copy_from_user copy_to_user copy_from_iter copy_to_iter copyin copyout \
         rep_movs copy_page_to copy_page_from memcpy memmove csum_and_copy csum_partial_copy \
         raw_copy copy_mc copy_folio copy_from_kernel copy_to_kernel get_user put_user \
         strncpy_from_user clear_user copy_iovec copy_msghdr iovec_from",
    ),
    (
        Category::Sched,
        "sched schedule pick_next pick_task pick_eevdf enqueue_task dequeue_task \
         enqueue_entity dequeue_entity enqueue_rt dequeue_rt update_curr update_load \
         update_rq update_cfs update_min update_se update_deadline set_next put_prev \
         try_to_wake ttwu wake wakeup autoremove_wake default_wake prepare_to_wait \
         finish_wait add_wait remove_wait prepare_task_switch finish_task switch_ \
         context_switch resched yield select_task select_idle available_idle check_preempt \
         place_entity reweight cpuacct psi task_tick load_balance newidle rebalance pull_rt \
         push_rt rt_rq balance_ idle_cpu cpu_startup cpuidle idle nohz dl_server \
         dequeue_entities entity_ avg_vruntime requeue hrtick sugov cpufreq_update vruntime \
         min_vruntime migrate sys_sched activate_task deactivate_task set_load wakeup_preempt \
         detach_entity attach_entity cpu_idle cgroup_account_cputime propagate_ decay_load \
         effective_load clear_buddies se_ rq_ find_idlest",
    ),
    (
        Category::Others,
        "security apparmor aa_ selinux common_ cap_ iov_iter iov_ refcount kref llist list_ \
         rb_ rhashtable rht_ radix strn strl strc str mem memset memcmp memchr crc32 sha \
         siphash bitmap find_next find_first find_last percpu debug ubsan blk bio submit_bio \
         scsi nvme loop_ md_ dm_ elv_ crypto get_random prandom random cgroup bpf xdp io_ lsm \
         landlock tomoyo ima_ integrity sbitmap part_ disk_ virtblk ata_ errseq hash_ jhash \
         cmp_ idr ida sys_io_uring maple mas_ mt_ sprintf vsnprintf number format_decode warn \
         printk dump_ cleancache key_ ww_ klist kobject device_ dma_ iommu pci_ tty_ n_tty \
         hv_balloon assoc_ percpu_counter",
    ),
    (
        Category::Driver,
        "loopback net_rx_action net_tx_action napi_poll napi_complete napi_schedule \
         process_backlog enqueue_to_backlog netif_rx handle_softirqs softirq irq_exit \
         run_ksoftirqd virtnet virtio vring virtqueue e1000 ixgbe mlx veth tun_ dummy ifb_ \
         raise_softirq tasklet invoke_softirq local_bh_enable_ip busy_poll \
         netif_receive_generic",
    ),
    (
        Category::Other,
        "perf intel_pmu amd_pmu x86_pmu x86_perf event_function event_sched ring_buffer trace \
         ftrace tracing remote_function group_sched ctx_sched merge_sched visit_groups unwind \
         orc_ stack_trace bpf_trace visit_ intel_bts arch_perf get_perf",
    ),
];

/// A function of the program, by the module of ours that it lies in; of other servers by how their
/// names begin. The rest is the application's ([E] §8).
fn program(symbol: &str) -> Category {
    let ours = symbol.find("regatta_").filter(|at| *at == 0 || symbol.starts_with('<'));
    let path = &symbol[ours.unwrap_or(0)..];
    let plain = symbol.trim_start_matches('<');
    let begins = |words: &str| {
        words.split_whitespace().any(|word| path.starts_with(word) || plain.starts_with(word))
    };
    if begins(THREAD) {
        Category::Thread
    } else if begins(EVENT) {
        Category::Event
    } else {
        Category::Application
    }
}

/// Scheduling, switching and synchronising threads, and talking with helpers.
const THREAD: &str = "regatta_sys::crew regatta_sys::thread regatta_sys::channel \
    regatta_sys::fiber regatta_sys::shm corosensei \
    regatta_arch::architectures::azzedin regatta_arch::architectures::hybrid \
    regatta_arch::architectures::knot regatta_arch::architectures::mp \
    regatta_arch::architectures::mt regatta_arch::architectures::seda \
    regatta_arch::architectures::watpipe regatta_arch::conn::serve regatta_arch::conn::units \
    regatta_arch::control regatta_arch::disk regatta_arch::loops::dispatch \
    regatta_arch::loops::fibers regatta_arch::loops::line regatta_arch::loops::queue \
    regatta_arch::loops::tasks regatta_arch::sync std::thread \
    std::sys::sync std::sync std::sys::pal::unix::thread ap_queue ap_mpm worker_thread apr_thread \
    runtime.sched runtime.find runtime.lock runtime.unlock runtime.futex runtime.park \
    runtime.mcall runtime.gopark runtime.steal";

/// Interest sets, notifications, and calling what they are for.
const EVENT: &str = "regatta_arch regatta_sys::wait regatta_sys::uring regatta_sys::event \
    ngx_epoll ngx_event ngx_process_events fdevent h2o_evloop evloop apr_pollset listener_thread \
    runtime.netpoll internal/poll";

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
