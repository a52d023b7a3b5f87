//! Limits as various systems state them.
use super::*;

/// A system: its two files of `/proc`, and the files of its groups.
struct Case {
    name: &'static str,
    cgroup: &'static str,
    mountinfo: &'static str,
    files: &'static [(&'static str, &'static str)],
    /// Bytes and file.
    memory: Option<(u64, &'static str)>,
    /// Processors and file.
    quota: Option<(usize, &'static str)>,
    /// Processes and threads, and file.
    tasks: Option<(u64, &'static str)>,
}

/// Version 1, as systemd mounts it; lines of other file systems around it.
const V1: &str = "\
24 30 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
34 25 0:29 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,mode=755
35 34 0:30 / /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw,nsdelegate
36 34 0:31 / /sys/fs/cgroup/systemd rw,relatime shared:11 - cgroup cgroup rw,xattr,name=systemd
39 34 0:34 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:15 - cgroup cgroup rw,cpu,cpuacct
40 34 0:35 / /sys/fs/cgroup/cpuset rw,relatime shared:16 - cgroup cgroup rw,cpuset
43 34 0:38 / /sys/fs/cgroup/memory rw,relatime shared:19 - cgroup cgroup rw,memory
";
const V1_CGROUP: &str = "\
9:memory:/system.slice/regatta.service
5:cpuset:/
4:cpu,cpuacct:/system.slice/regatta.service
1:name=systemd:/system.slice/regatta.service
0::/system.slice/regatta.service
";
const V2: &str = "\
25 30 0:23 / /proc rw,nosuid,nodev,noexec,relatime shared:14 - proc proc rw
35 24 0:30 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate
";

const CASES: &[Case] = &[
    Case {
        name: "version 1, no limit: the kernel's largest number, and -1",
        cgroup: V1_CGROUP,
        mountinfo: V1,
        files: &[
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ],
        memory: Some((9_223_372_036_854_771_712, "/sys/fs/cgroup/memory/memory.limit_in_bytes")),
        quota: None,
        tasks: None,
    },
    Case {
        name: "version 1, the parent's memory is the smaller one",
        cgroup: V1_CGROUP,
        mountinfo: V1,
        files: &[
            (
                "/sys/fs/cgroup/memory/system.slice/regatta.service/memory.limit_in_bytes",
                "1073741824\n",
            ),
            ("/sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes", "536870912\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/system.slice/regatta.service/cpu.cfs_quota_us", "250000"),
            ("/sys/fs/cgroup/cpu,cpuacct/system.slice/regatta.service/cpu.cfs_period_us", "100000"),
            ("/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.cfs_quota_us", "400000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.cfs_period_us", "100000\n"),
        ],
        memory: Some((536_870_912, "/sys/fs/cgroup/memory/system.slice/memory.limit_in_bytes")),
        quota: Some((
            3,
            "/sys/fs/cgroup/cpu,cpuacct/system.slice/regatta.service/cpu.cfs_quota_us",
        )),
        tasks: None,
    },
    Case {
        name: "version 1 in a container without a namespace of groups: its own group is the root",
        cgroup: "11:memory:/docker/4f2c\n3:cpu,cpuacct:/docker/4f2c/inner\n",
        mountinfo: "\
1530 1520 0:29 /docker/4f2c /sys/fs/cgroup/memory ro,relatime master:12 - cgroup cgroup rw,memory
1531 1520 0:30 /docker/4f2c /sys/fs/cgroup/cpu,cpuacct ro master:13 - cgroup cgroup rw,cpu,cpuacct
",
        files: &[
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "125829120\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "-1\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "50000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ],
        memory: Some((125_829_120, "/sys/fs/cgroup/memory/memory.limit_in_bytes")),
        quota: Some((1, "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us")),
        tasks: None,
    },
    Case {
        name: "version 2, high is below max, and a slice has the quota",
        cgroup: "0::/system.slice/regatta.service\n",
        mountinfo: V2,
        files: &[
            ("/sys/fs/cgroup/system.slice/regatta.service/memory.max", "209715200\n"),
            ("/sys/fs/cgroup/system.slice/regatta.service/memory.high", "157286400\n"),
            ("/sys/fs/cgroup/system.slice/memory.max", "max\n"),
            ("/sys/fs/cgroup/system.slice/memory.high", "max\n"),
            ("/sys/fs/cgroup/system.slice/regatta.service/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
            ("/sys/fs/cgroup/system.slice/regatta.service/pids.max", "4915\n"),
            ("/sys/fs/cgroup/system.slice/pids.max", "max\n"),
        ],
        memory: Some((157_286_400, "/sys/fs/cgroup/system.slice/regatta.service/memory.high")),
        quota: Some((2, "/sys/fs/cgroup/system.slice/cpu.max")),
        tasks: Some((4915, "/sys/fs/cgroup/system.slice/regatta.service/pids.max")),
    },
    Case {
        name: "version 2 in a container with a namespace of groups",
        cgroup: "0::/\n",
        mountinfo: "1201 1195 0:27 / /sys/fs/cgroup ro,nosuid,nodev - cgroup2 cgroup rw\n",
        files: &[
            ("/sys/fs/cgroup/memory.max", "125829120\n"),
            ("/sys/fs/cgroup/memory.high", "max\n"),
            ("/sys/fs/cgroup/cpu.max", "200000 50000\n"),
        ],
        memory: Some((125_829_120, "/sys/fs/cgroup/memory.max")),
        quota: Some((4, "/sys/fs/cgroup/cpu.max")),
        tasks: None,
    },
    Case {
        name: "a mount from before the namespace, and a group outside of it: the top is all we see",
        cgroup: "0::/../other\n",
        mountinfo: "1201 1195 0:27 /../.. /sys/fs/cgroup ro,nosuid,nodev - cgroup2 cgroup rw\n",
        files: &[
            ("/sys/fs/cgroup/memory.max", "1048576\n"),
            ("/sys/fs/cgroup/../other/memory.max", "4096\n"),
        ],
        memory: Some((1_048_576, "/sys/fs/cgroup/memory.max")),
        quota: None,
        tasks: None,
    },
    Case {
        name: "hybrid: memory is of version 1, processor time of version 2",
        cgroup: "3:memory:/a\n0::/b\n",
        mountinfo: "\
43 34 0:38 / /sys/fs/cgroup/memory rw,relatime shared:19 - cgroup cgroup rw,memory
35 34 0:30 / /sys/fs/cgroup/unified rw,relatime shared:10 - cgroup2 cgroup2 rw
",
        files: &[
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "67108864\n"),
            ("/sys/fs/cgroup/unified/b/cpu.max", "10000 100000\n"),
        ],
        memory: Some((67_108_864, "/sys/fs/cgroup/memory/a/memory.limit_in_bytes")),
        quota: Some((1, "/sys/fs/cgroup/unified/b/cpu.max")),
        tasks: None,
    },
    Case {
        name: "two mounts: the one that shows this group",
        cgroup: "0::/a/b\n",
        mountinfo: "\
50 40 0:30 /x /mnt/x rw - cgroup2 cgroup2 rw
51 40 0:30 /a /mnt/with\\040blank rw - cgroup2 cgroup2 rw
",
        files: &[("/mnt/with blank/b/memory.max", "7"), ("/mnt/x/memory.max", "3")],
        memory: Some((7, "/mnt/with blank/b/memory.max")),
        quota: None,
        tasks: None,
    },
    Case {
        name: "nothing is mounted, or nothing is what it should be",
        cgroup: "0::/\n:::\nx\n4:cpu\n",
        mountinfo: "25 30 0:23 / /proc rw - proc proc rw\n - cgroup2 x\n36 35 - cgroup\n",
        files: &[("/memory.max", "1")],
        memory: None,
        quota: None,
        tasks: None,
    },
    Case {
        name: "numbers that are none",
        cgroup: "0::/\n",
        mountinfo: V2,
        files: &[
            ("/sys/fs/cgroup/memory.max", "-5\n"),
            ("/sys/fs/cgroup/memory.high", "99999999999999999999999\n"),
            ("/sys/fs/cgroup/cpu.max", "100000 0\n"),
        ],
        memory: None,
        quota: None,
        tasks: None,
    },
];

#[test]
fn limits_are_found_on_every_kind_of_system() {
    for case in CASES {
        let read = |path: &Path| {
            let mut files = case.files.iter().filter(|(name, _)| Path::new(name) == path);
            files.next().map(|(_, text)| (*text).to_owned())
        };
        let group = limits(case.cgroup, case.mountinfo, &read);
        let memory = group.memory.as_ref().map(|found| (found.bytes, found.file.to_str().unwrap()));
        assert_eq!(memory, case.memory, "{}", case.name);
        let quota = group.quota.as_ref();
        let quota = quota.map(|found| (found.processors(), found.file.to_str().unwrap()));
        assert_eq!(quota, case.quota, "{}", case.name);
        let tasks = group.tasks.as_ref().map(|found| (found.count, found.file.to_str().unwrap()));
        assert_eq!(tasks, case.tasks, "{}", case.name);
    }
}

#[test]
fn this_machine_has_memory_and_a_group_that_can_be_read() {
    assert!(machine_bytes() > 1 << 20);
    let group = read_own();
    assert!(group.memory.is_none_or(|memory| memory.bytes > 0 && memory.file.is_absolute()));
    assert!(group.quota.is_none_or(|quota| quota.processors() > 0));
}
