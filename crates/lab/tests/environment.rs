//! Environments made and undone on this machine. A program of its own, which is also the keeper,
//! the disk and the programs that run inside: the usual harness has no `main` to become them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use regatta_lab_core::env::{
    Environment, Fault, Made, Place, Spec, child_main, clean, disklog, list,
    spec::{Cpu, Disk, Network, NetworkLayout, Pages, Profile},
};
use regatta_testkit::{folder::Folder, waits::until};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

/// The longest that anything is waited for.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    if let Some(code) = child_main() {
        return code;
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["lab", spec] => lab(spec),
        ["answer", address] => answer(address),
        ["ask", address] => ask(address),
        // Listing, as the usual harness does it: nothing here is ignored, and nothing listed.
        words if words.contains(&"--list") || words.contains(&"--ignored") => {}
        _ => tests(),
    }
    ExitCode::SUCCESS
}

fn tests() {
    let tests: [(&str, fn()); 9] = [
        ("what_is_wrong_is_said_before", what_is_wrong_is_said_before),
        ("memory_and_time_are_limited", memory_and_time_are_limited),
        ("servers_share_a_processor_and_loads_come_first", servers_share_and_loads_come_first),
        ("a_loopback_network_is_its_own", a_loopback_network_is_its_own),
        ("server_and_client_meet_over_a_pair", server_and_client_meet_over_a_pair),
        ("a_disk_takes_its_time", a_disk_takes_its_time),
        ("a_disk_can_be_written", a_disk_can_be_written),
        ("a_dead_keeper_is_cleaned_up_after", a_dead_keeper_is_cleaned_up_after),
        ("a_killed_lab_leaves_nothing", a_killed_lab_leaves_nothing),
    ];
    let mut passed = 0;
    for (name, test) in tests {
        SKIPPED.store(false, Ordering::Relaxed);
        test();
        if !SKIPPED.load(Ordering::Relaxed) {
            println!("test {name} ... ok");
            passed += 1;
        }
    }
    println!("test result: ok. {passed} passed; 0 failed; {} ignored", tests.len() - passed);
}

/// Whether the test that runs said that it cannot.
static SKIPPED: AtomicBool = AtomicBool::new(false);

/// Makes an environment, or says why it cannot be made here.
fn make(name: &str, spec: &Spec) -> Option<Environment> {
    match Environment::make(spec) {
        Ok(environment) => Some(environment),
        Err(Fault::Lacking(lacks)) => {
            let needs: Vec<_> = lacks.iter().map(ToString::to_string).collect();
            skipped(name, &needs.join("; "))
        }
        // A step that looks allowed may still be refused, in a container for one.
        Err(Fault::Failed(why)) if REFUSALS.iter().any(|refusal| why.contains(refusal)) => {
            skipped(name, &format!("needs what this machine refuses: {why}"))
        }
        Err(fault) => panic!("{name}: {fault}"),
    }
}

/// EPERM, EACCES, ENODEV, EROFS and ENOSYS, as the library and as programs say them.
const REFUSALS: [&str; 8] = [
    "(os error 1)",
    "(os error 13)",
    "(os error 19)",
    "(os error 30)",
    "(os error 38)",
    "Operation not permitted",
    "Permission denied",
    "Read-only file system",
];

fn skipped(name: &str, why: &str) -> Option<Environment> {
    // The usual harness prints it like this.
    println!("test {name} ... ignored, {}", why.replace('\n', " "));
    SKIPPED.store(true, Ordering::Relaxed);
    None
}

/// A directory with some files, in which every block of 4 KiB differs.
fn with_files(name: &str, count: u32, bytes: usize) -> Folder {
    let folder = Folder::new(name);
    for i in 0..count {
        let words = (0..bytes / 8).flat_map(|at| ((at as u64) << 32 | u64::from(i)).to_le_bytes());
        fs::write(folder.join(format!("file{i}")), words.collect::<Vec<u8>>()).unwrap();
    }
    folder
}

/// Output of a program inside.
fn inside(environment: &Environment, place: Place, words: &[&str]) -> String {
    let mut command = environment.command(place, Path::new(words[0]));
    let output = command.args(&words[1..]).stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn what_is_wrong_is_said_before() {
    let senseless = Spec { memory_bytes: 1, ..Spec::default() };
    assert!(matches!(Environment::make(&senseless), Err(Fault::Senseless(_))));
    let cpu = Cpu { server: vec![1_023], ..Cpu::default() };
    let beyond = Spec { cpu, ..Spec::default() };
    assert!(matches!(Environment::make(&beyond), Err(Fault::Lacking(_))));
}

fn memory_and_time_are_limited() {
    let folder = with_files("memory", 4, 4 << 20);
    let spec = Spec {
        memory_bytes: 8 << 20,
        cpu: Cpu { quota_percent: 50, server: vec![0], nice: 1, ..Cpu::default() },
        files: Some(folder.to_path_buf()),
        pages: Pages::Cold,
        ..Spec::default()
    };
    let Some(environment) = make("memory_and_time_are_limited", &spec) else { return };
    let record = environment.record().clone();
    assert_eq!(record.memory_bytes, Some(8 << 20));
    let group = record.groups.memory.unwrap();
    for _ in 0..2 {
        inside(
            &environment,
            Place::Server,
            &["sh", "-c", &format!("cat {}/* > /dev/null", folder.display())],
        );
    }
    let most = ["memory.max_usage_in_bytes", "memory.peak"];
    let used = most.iter().find_map(|name| fs::read_to_string(group.join(name)).ok());
    let used: u64 = used.unwrap().trim().parse().unwrap();
    // The group counts the pages that were read, and never more than it may have.
    assert!((4 << 20..=8 << 20).contains(&used), "{used}");
    let memory = fs::read_to_string("/proc/meminfo").unwrap();
    let swap = memory.lines().find_map(|line| line.strip_prefix("SwapTotal:"));
    if swap.is_some_and(|swap| swap.trim() == "0 kB") {
        // A process that takes more is killed, and the group reports it: a guard of trials reads it
        // there.
        let mut greedy = environment.command(Place::Server, Path::new("sh"));
        let greedy = greedy.args(["-c", "head -c 64m /dev/zero | tail -c 64m"]);
        greedy.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        let files = ["memory.events", "memory.oom_control"];
        let told = files.iter().find_map(|name| fs::read_to_string(group.join(name)).ok()).unwrap();
        let killed = |line: &str| line.strip_prefix("oom_kill ").is_some_and(|kills| kills != "0");
        assert!(told.lines().any(killed), "{told}");
    }
    let status = inside(&environment, Place::Server, &["cat", "/proc/self/status"]);
    assert!(status.contains("Cpus_allowed_list:\t0\n"), "{status}");
    assert_eq!(inside(&environment, Place::Client, &["nice"]).trim(), "1");
    assert!(record.groups.cpu.is_some_and(|group| group.is_dir()));
    environment.end().unwrap();
    assert!(!group.exists());
}

/// A real-time server would keep its own helpers, and other processes of its, from the processor.
fn servers_share_and_loads_come_first() {
    let spec = Spec { cpu: Cpu { realtime: 10, ..Cpu::default() }, ..Spec::default() };
    let name = "servers_share_a_processor_and_loads_come_first";
    let Some(environment) = make(name, &spec) else { return };
    let class = |place| inside(&environment, place, &["sh", "-c", "chrt -p $$; nice"]);
    let (server, client) = (class(Place::Server), class(Place::Client));
    assert!(server.contains("SCHED_OTHER") && server.trim_end().ends_with("-20"), "{server}");
    assert!(client.contains("SCHED_FIFO"), "{client}");
    environment.end().unwrap();
}

fn a_loopback_network_is_its_own() {
    let network = Network {
        addresses: 3,
        tcp_wmem: "4096 16384 131072".to_owned(),
        rate: 10_000_000,
        ..Network::default()
    };
    let spec = Spec { network: Some(network), profile: Profile::Geneves, ..Spec::default() };
    let before = fs::read_to_string("/proc/sys/net/ipv4/tcp_fin_timeout").ok();
    let Some(environment) = make("a_loopback_network_is_its_own", &spec) else { return };
    let record = environment.record();
    let described = record.network.clone().unwrap();
    assert_eq!(described.addresses, ["10.9.1.1", "10.9.2.1", "10.9.3.1"]);
    assert!(described.shaping.contains("tbf"), "{}", described.shaping);
    for place in [Place::Server, Place::Client] {
        let links = inside(&environment, place, &["ip", "address"]);
        assert!(links.contains("mtu 1500") && links.contains("10.9.3.1/32"), "{links}");
        assert!(!links.contains("eth"), "{links}");
    }
    let of = |name: &str| record.settings.iter().rfind(|s| s.name == name).unwrap().is.clone();
    assert_eq!(of("net.ipv4.tcp_fin_timeout"), "1");
    assert_eq!(of("net.ipv4.tcp_wmem"), "4096 16384 131072");
    assert!(record.left_alone.contains(&"fs.file-max".to_owned()));
    // The machine's own settings are as they were.
    assert_eq!(fs::read_to_string("/proc/sys/net/ipv4/tcp_fin_timeout").ok(), before);
    environment.end().unwrap();
}

fn server_and_client_meet_over_a_pair() {
    let network =
        Network { layout: NetworkLayout::Pair, single_packets: true, ..Network::default() };
    let spec = Spec { network: Some(network), ..Spec::default() };
    let Some(environment) = make("server_and_client_meet_over_a_pair", &spec) else { return };
    let us = std::env::current_exe().unwrap();
    let mut server = environment.command(Place::Server, &us);
    server.args(["answer", "10.9.1.1:0"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut address = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut address).unwrap();
    let program = us.to_str().unwrap();
    assert_eq!(inside(&environment, Place::Client, &[program, "ask", address.trim()]), "hello");
    assert!(server.wait().unwrap().success());
    environment.end().unwrap();
}

fn answer(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    println!("{}", listener.local_addr().unwrap());
    listener.accept().unwrap().0.write_all(b"hello").unwrap();
}

fn ask(address: &str) {
    let mut said = String::new();
    TcpStream::connect(address).unwrap().read_to_string(&mut said).unwrap();
    print!("{said}");
}

fn a_disk_takes_its_time() {
    let folder = with_files("disk", 6, 64 << 10);
    let log = folder.with_extension("tsv");
    let disk = Disk { seek_ms: 5.0, log: Some(log.clone()), ..Disk::default() };
    let spec = Spec { disk: Some(disk), files: Some(folder.to_path_buf()), ..Spec::default() };
    let Some(environment) = make("a_disk_takes_its_time", &spec) else { return };
    let root = environment.root().unwrap().to_owned();
    let described = environment.record().disk.clone().unwrap();
    assert!(described.direct_io, "the machine's page cache would answer");
    assert_eq!(described.read_ahead_kb, 128);
    let before = disklog::read(&log).unwrap().len();
    for i in 0..6 {
        let name = format!("file{i}");
        let mut command = environment.command(Place::Server, Path::new("cat"));
        let output = command.arg(root.join(&name)).output().unwrap();
        assert_eq!(output.stdout, fs::read(folder.join(&name)).unwrap());
    }
    // A row is written after its answer.
    let rows = || disklog::read(&log).unwrap();
    until(Duration::from_secs(10), "each file is asked for", || rows().len() >= before + 6);
    for row in rows() {
        let least = if row.sought { 5_000_000 } else { 0 } + row.bytes * 10;
        assert_eq!(row.end_ns - row.start_ns, least, "{row:?}");
        assert!(row.replied_ns >= row.end_ns, "an answer before its time: {row:?}");
    }
    // Pages that have been read are cached by the file system on the disk.
    let now = clock_gettime(ClockId::Monotonic);
    inside(&environment, Place::Server, &["cat", root.join("file0").to_str().unwrap()]);
    // No process outside sees the mount.
    assert!(!root.join("file0").exists());
    environment.end().unwrap();
    let now_ns = u64::try_from(now.tv_sec * 1_000_000_000 + now.tv_nsec).unwrap();
    for row in rows() {
        assert!(row.came_ns < now_ns, "a page that the cache has was asked for: {row:?}");
    }
    fs::remove_file(&log).unwrap();
}

fn a_disk_can_be_written() {
    let disk = Disk { seek_ms: 0.1, writable: true, size: 4 << 20, ..Disk::default() };
    let spec = Spec { disk: Some(disk), ..Spec::default() };
    let Some(environment) = make("a_disk_can_be_written", &spec) else { return };
    let script = format!(
        "cd {} && echo hello > new && sync -f new && cat new",
        environment.root().unwrap().display()
    );
    assert_eq!(inside(&environment, Place::Server, &["sh", "-c", &script]), "hello\n");
    environment.end().unwrap();
}

/// Everything at once, with files in a directory of the test's own.
fn everything(folder: &Folder) -> Spec {
    fs::create_dir_all(folder.join("scratch")).unwrap();
    fs::create_dir_all(folder.join("files")).unwrap();
    fs::write(folder.join("files/one"), [1; 100_000]).unwrap();
    Spec {
        network: Some(Network { layout: NetworkLayout::Pair, ..Network::default() }),
        memory_bytes: 16 << 20,
        cpu: Cpu { quota_percent: 50, server: vec![0], left_percent: 50, ..Cpu::default() },
        disk: Some(Disk { seek_ms: 1.0, read_ahead_kb: 64, ..Disk::default() }),
        files: Some(folder.join("files")),
        accounting: true,
        scratch: folder.join("scratch"),
        ..Spec::default()
    }
}

/// A lab to be killed: makes an environment, starts programs in it, says so, and waits.
fn lab(spec: &str) {
    let environment = Environment::make(&serde_json::from_str(spec).unwrap()).unwrap();
    let root = environment.root().unwrap().display();
    let script = format!("cd {root}; trap '' TERM INT; setsid sleep 300 & cat one; sleep 300");
    let mut server = environment.command(Place::Server, Path::new("sh"));
    let mut server = server.args(["-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    server.stdout.take().unwrap().read_exact(&mut [0; 1_000]).unwrap();
    let mut client = environment.command(Place::Client, Path::new("sleep"));
    let mut client = client.arg("300").spawn().unwrap();
    println!("ready");
    // Both continue until something ends this process.
    server.wait().and_then(|_| client.wait()).unwrap();
}

fn start_lab(spec: &Spec) -> Child {
    let spec = serde_json::to_string(spec).unwrap();
    // A shell that runs the tests in the background has them ignore SIGINT.
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(std::env::current_exe().unwrap());
    command.args(["lab", &spec]).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().unwrap()
}

fn wait_ready(lab: &mut Child) {
    let mut line = String::new();
    BufReader::new(lab.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// Everything on this machine that bears the name of an environment for which no ledger stands,
/// or which was made with this test's files.
fn left_over(folder: &Folder, labs: &BTreeSet<u32>) -> Vec<String> {
    let mut found = Vec::new();
    let (of_ours, us) = (folder.to_str().unwrap(), std::env::current_exe().unwrap());
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let folder = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_us = name.parse() == Ok(std::process::id()) || name.ends_with("self");
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        let is_ours = fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == us);
        if !is_us && (is_ours || words.contains(of_ours) || folder.starts_with("/run/regatta-lab"))
        {
            found.push(format!("process {name}: {words}"));
        }
    }
    let listed = list();
    let ours = listed.iter().filter(|entry| labs.contains(&entry.asker));
    found.extend(ours.map(|entry| format!("ledger {}", entry.id)));
    let ids: Vec<_> = listed.iter().map(|entry| entry.id.as_str()).collect();
    let is_orphan = |name: &str| name.starts_with("regatta-") && !ids.contains(&name);
    for hierarchy in ["unified", "memory", "cpu", "pids", "."] {
        let root = Path::new("/sys/fs/cgroup").join(hierarchy);
        for entry in fs::read_dir(&root).into_iter().flatten().flatten() {
            if is_orphan(&entry.file_name().to_string_lossy()) {
                found.push(format!("group {}", entry.path().display()));
            }
        }
    }
    for entry in fs::read_dir("/sys/block").unwrap().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        let name = file.trim().rsplit('/').next().unwrap().trim_end_matches(".ext4");
        if is_orphan(name) {
            found.push(format!("device {}: {file}", entry.path().display()));
        }
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    found.extend(mounts.lines().filter(|l| l.contains("regatta-lab")).map(str::to_owned));
    let scratch = fs::read_dir(folder.join("scratch")).unwrap().flatten();
    found.extend(scratch.map(|entry| format!("file {}", entry.path().display())));
    found
}

fn nothing_is_left(folder: &Folder, labs: &BTreeSet<u32>, when: &str) {
    let start = Instant::now();
    loop {
        let found = left_over(folder, labs);
        if found.is_empty() {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{when}: {found:#?}");
        sleep(Duration::from_millis(5));
    }
}

/// Settings of the whole machine that an environment may change; None while another process's
/// environment is in use.
fn machine() -> Option<Vec<Option<String>>> {
    let quiet = || list().iter().all(|entry| !entry.owner.is_alive());
    let files = (0..8).map(|i| format!("/sys/block/loop{i}/queue/read_ahead_kb"));
    let files = files.chain(["/proc/sys/kernel/task_delayacct".to_owned()]);
    let found = quiet().then(|| files.map(|file| fs::read_to_string(file).ok()).collect())?;
    quiet().then_some(found)
}

fn machine_is(before: Option<Vec<Option<String>>>) {
    if let (Some(before), Some(after)) = (before, machine()) {
        assert_eq!(before, after);
    }
}

fn a_dead_keeper_is_cleaned_up_after() {
    let folder = Folder::new("keeper");
    let spec = everything(&folder);
    let Some(environment) = make("a_dead_keeper_is_cleaned_up_after", &spec) else { return };
    drop(environment);
    let before = machine();
    let mut lab = start_lab(&spec);
    wait_ready(&mut lab);
    let listed = list().into_iter().find(|entry| entry.asker == lab.id()).unwrap();
    assert!(listed.owner.is_alive());
    let made = |what: fn(&Made) -> bool| listed.made.iter().any(what);
    assert!(made(|made| matches!(made, Made::Group { .. })));
    assert!(made(|made| matches!(made, Made::Loop { .. })));
    kill(listed.owner.pid, Signal::KILL);
    kill(lab.id(), Signal::KILL);
    lab.wait().unwrap();
    until(PATIENCE, "the keeper is dead", || !listed.owner.is_alive());
    // Another run of these tests on the same machine may be cleaning up, too.
    let _ = clean();
    nothing_is_left(&folder, &BTreeSet::from([lab.id()]), "after a cleaning");
    machine_is(before);
}

fn a_killed_lab_leaves_nothing() {
    const MOMENTS: u32 = 20;
    let folder = Folder::new("killed");
    let spec = everything(&folder);
    let Some(environment) = make("a_killed_lab_leaves_nothing", &spec) else { return };
    drop(environment);
    let before = machine();
    let start = Instant::now();
    let mut lab = start_lab(&spec);
    wait_ready(&mut lab);
    let whole = start.elapsed();
    let mut labs = BTreeSet::from([lab.id()]);
    kill(lab.id(), Signal::INT);
    lab.wait().unwrap();
    nothing_is_left(&folder, &labs, "after Ctrl-C");
    for moment in 0..MOMENTS {
        // Somewhere within its twentieth of the time that making and starting takes.
        let chance = SystemTime::UNIX_EPOCH.elapsed().unwrap().subsec_micros() % 1_000;
        let at = whole.mul_f64((f64::from(moment) + f64::from(chance) / 1e3) / 20.0);
        let mut lab = start_lab(&spec);
        sleep(at);
        kill(lab.id(), Signal::KILL);
        lab.wait().unwrap();
        labs.insert(lab.id());
        nothing_is_left(&folder, &labs, &format!("killed after {at:?} of {whole:?}"));
    }
    machine_is(before);
}
