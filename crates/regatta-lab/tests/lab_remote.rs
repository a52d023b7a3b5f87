//! The lab on two machines: two network namespaces with a cable, and a real sshd in the second.
#![expect(clippy::unwrap_used, reason = "what a test needs and does not get fails it")]

use regatta_testkit::executables;
use regatta_testkit::folder::Folder;
use regatta_testkit::skips::skip;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);
const NEAR: &str = "10.77.0.1";
const FAR: &str = "10.77.0.2";
const PORT: u16 = 2_222;

/// A program that is killed when this is dropped.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both machines; gone with their processes.
struct Machines {
    place: Folder,
    // In the order of their ends.
    _sshd: Held,
    far: Held,
    near: Held,
}

/// Output of a command; `None` if it fails.
fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn words(program: &str, words: &str) -> Command {
    let mut command = Command::new(program);
    command.args(words.split(' '));
    command
}

/// A process in separate namespaces: its processes end with it, as those of a machine would.
fn machine() -> Option<Held> {
    let words = words("unshare", "--net --mount --kill-child sleep 300");
    let mut child = { words }.stdin(Stdio::null()).stderr(Stdio::null()).spawn().map(Held).ok()?;
    let namespace = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
    let pid = child.0.id().to_string();
    let start = Instant::now();
    while namespace(&pid) == namespace("self") && start.elapsed() < PATIENCE {
        if !matches!(child.0.try_wait(), Ok(None)) {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Some(child)
}

/// A command in the namespaces of a machine.
fn inside(machine: &Held) -> Command {
    let pid = machine.0.id().to_string();
    words("nsenter", &format!("--net --mount --target {pid} --wd=/"))
}

impl Machines {
    /// Makes both; an error is the reason why this machine cannot.
    fn make(name: &str) -> Result<Self, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("needs root".to_owned());
        }
        let find = |name: &str| {
            ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
                .iter()
                .find_map(|folder| Some(Path::new(folder).join(name)).filter(|path| path.is_file()))
        };
        let need = |name: &str, package: &str| {
            find(name).ok_or(format!("needs {name} (apt-get install {package})"))
        };
        let sshd = need("sshd", "openssh-server")?;
        let ssh = need("ssh", "openssh-client")?;
        need("ip", "iproute2")?;
        let none = || "needs network namespaces".to_owned();
        let (near, far) = (machine().ok_or_else(none)?, machine().ok_or_else(none)?);
        let (one, two) = (near.0.id(), far.0.id());
        let cable = format!("link add near netns {one} type veth peer name far netns {two}");
        said(&mut words("ip", &cable)).ok_or("needs a pair of network devices (veth)")?;
        for (machine, device, address) in [(&near, "near", NEAR), (&far, "far", FAR)] {
            for line in [
                "link set lo up".to_owned(),
                format!("addr add {address}/24 dev {device}"),
                format!("link set {device} up"),
            ] {
                said(inside(machine).arg("ip").args(line.split(' '))).unwrap();
            }
        }
        let place = Folder::new(name);
        for folder in ["site", "bin", "far", "far-bin", "tmp"] {
            fs::create_dir(place.join(folder)).unwrap();
        }
        let installed = place.join("far-bin/regatta-lab");
        symlink(env!("CARGO_BIN_EXE_regatta-lab"), installed).unwrap();
        let sshd = Self::sshd(&place, &sshd, &far);
        let config = place.join("config");
        let script = format!("exec {} -F {} \"$@\"", ssh.display(), config.display());
        let wrapper = place.join("bin/ssh");
        executables::script(&wrapper, &script);
        Ok(Self { place, _sshd: sshd, far, near })
    }

    /// An sshd that knows one key, and the files of a client that has it.
    fn sshd(place: &Path, sshd: &Path, far: &Held) -> Held {
        for key in ["host", "user"] {
            let mut keygen = words("ssh-keygen", "-q -t ed25519 -N");
            said(keygen.args(["", "-f"]).arg(place.join(key))).unwrap();
        }
        let host = fs::read_to_string(place.join("host.pub")).unwrap();
        fs::write(place.join("known"), format!("[{FAR}]:{PORT} {host}")).unwrap();
        let at = place.display();
        let client = format!(
            "IdentityFile {at}/user\nIdentitiesOnly yes\nUserKnownHostsFile {at}/known\n\
             GlobalKnownHostsFile none\nStrictHostKeyChecking yes\n"
        );
        fs::write(place.join("config"), client).unwrap();
        let server = format!(
            "ListenAddress {FAR}:{PORT}\nHostKey {at}/host\nAuthorizedKeysFile {at}/user.pub\n\
             PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n\
             PasswordAuthentication no\nAllowUsers root\n\
             SetEnv TMPDIR={at}/far PATH={at}/far-bin:/usr/bin:/bin\n"
        );
        fs::write(place.join("sshd_config"), server).unwrap();
        // Directory in which sshd drops its privileges, on this machine alone.
        let run = "mount -t tmpfs none /run && mkdir /run/sshd";
        said(inside(far).args(["sh", "-c", run])).unwrap();
        let mut start = inside(far);
        start.arg(sshd).args(["-D", "-e", "-f"]).arg(place.join("sshd_config"));
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let held = Held(start.spawn().unwrap());
        let start = Instant::now();
        let listens = |held: &Held| {
            said(inside(held).args(["cat", "/proc/net/tcp"])).unwrap().contains(":08AE ")
        };
        while !listens(far) {
            assert!(start.elapsed() < PATIENCE, "sshd does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        held
    }

    /// `regatta lab run` on the first machine.
    fn lab(&self, out: &str, more: &[&str]) -> Command {
        let path = format!("{}:{}", self.place.join("bin").display(), env!("PATH"));
        // The lab finds the server itself: this makes sure that it is there and not outdated.
        regatta_testkit::programs::regatta();
        let mut command = inside(&self.near);
        command.arg(env!("CARGO_BIN_EXE_regatta-lab")).args(["lab", "run"]);
        command.arg(self.place.join("tiny.toml")).arg("--out").arg(self.place.join(out));
        command.args(more).env("PATH", path).env("TMPDIR", self.place.join("tmp"));
        command.stdin(Stdio::null());
        command
    }

    /// Setting for the site of one file.
    fn site(&self) -> String {
        format!("root = \"{}/site\"", self.place.display())
    }

    /// Writes an experiment. Its guards accept everything: a busy machine is no failure.
    fn experiment(&self, workload: &str, window_s: f64, more: &str) {
        fs::write(self.place.join("site/index.html"), "hello\n".repeat(100)).unwrap();
        let text = format!(
            r#"experiment = {{ name = "tiny", question = "?", expect = "!" }}
targets.sped = {{ program = "regatta" }}
workload = {{ {workload}, loop = "closed", connections = 2, requests_per_connection = 1 }}
measure = {{ warm_s = 0.1, window_s = {window_s}, blocks = 1 }}
guards = {{ lag_p99_ms_max = 1e6, client_busy_max = 1, foreign_max = 1, steal_max = 1 }}
{more}"#
        );
        fs::write(self.place.join("tiny.toml"), text).unwrap();
    }

    /// Connections that machines have opened so far: the first, the second.
    fn opened(&self) -> [u64; 2] {
        [&self.near, &self.far].map(|machine| {
            let text = said(inside(machine).args(["cat", "/proc/net/snmp"])).unwrap();
            let tcp = text.lines().filter(|line| line.starts_with("Tcp:")).nth(1).unwrap();
            tcp.split(' ').nth(5).unwrap().parse().unwrap()
        })
    }

    /// Waits until a run has no leftovers: no file there, no socket here, and only the machines'
    /// own processes.
    #[track_caller]
    fn nothing_is_left(&self) {
        let start = Instant::now();
        loop {
            let files = |name: &str| fs::read_dir(self.place.join(name)).unwrap().count();
            let left = (files("far"), files("tmp"), self.processes());
            if left == (0, 0, Vec::new()) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "left: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Processes on either machine, except its holder and the listening sshd.
    fn processes(&self) -> Vec<String> {
        let network = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/net")).ok();
        let holders = [&self.near, &self.far].map(|one| one.0.id().to_string());
        let networks = holders.clone().map(|pid| network(&pid));
        let command = |pid: &str| {
            let text = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            text.replace('\0', " ")
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
        let ours = pids.filter(|pid| network(pid).is_some_and(|one| networks.contains(&Some(one))));
        let commands = ours.map(|pid| command(&pid));
        let own = |text: &String| {
            text.starts_with("sleep 300")
                || text.starts_with("unshare")
                || text.contains("-D -e")
                || text.contains("[listener]")
                || text.is_empty()
        };
        commands.filter(|text| !own(text)).collect()
    }

    fn records(&self, out: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.place.join(out).join("results.jsonl"));
        text.unwrap_or_default().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_loads_of_an_experiment_run_on_another_machine() {
    let machines = match Machines::make("remote") {
        Ok(machines) => machines,
        Err(lack) => return skip(&lack),
    };
    let destination = format!("ssh://root@{FAR}:{PORT}");
    let smoke = "preset = \"smoke\"".to_owned();
    for (out, workload) in [("made", smoke), ("own", machines.site())] {
        let processors = "machine = { server_cpus = \"0\", client_cpus = \"0\" }\n";
        machines.experiment(&workload, 0.5, processors);
        let before = machines.opened();
        let output = machines.lab(out, &["--load", &destination]).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        machines.nothing_is_left();
        let opened = machines.opened();
        let [by_servers, by_loads] = [0, 1].map(|at| opened[at] - before[at]);
        let records = machines.records(out);
        assert_eq!(records.len(), 2, "sped and sped again");
        for record in &records {
            assert_eq!(record["valid"], true, "{record}");
            let metrics = &record["metrics"];
            assert!(metrics["fate_good"].as_f64().unwrap() > 20.0, "{record}");
            assert_eq!(metrics["unverified_share"], 0.0, "{record}");
            assert!(metrics["cpu_us_per_reply"].as_f64().unwrap() > 0.0, "{record}");
            assert!(record["counters"]["replies"].as_f64().unwrap() > 20.0, "{record}");
            assert!(metrics["core_to_core_ns"].is_null(), "across machines: {record}");
        }
        assert!(by_loads > 10 * by_servers.max(4), "{out}: {by_loads} and {by_servers}");
        let manifest = fs::read(machines.place.join(out).join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        assert!(manifest["other"]["round_trip_ns"].as_f64().unwrap() > 0.0);
        let theirs = "load's machine: kernel.osrelease";
        assert_eq!(manifest["machine"][theirs], manifest["machine"]["kernel.osrelease"]);
        assert!(manifest["lacks"].to_string().contains("moved_max is skipped"));
        let report = fs::read_to_string(machines.place.join(out).join("report.md")).unwrap();
        let named = format!("on another machine, {destination}: ");
        assert!(report.contains(&named), "{report}");
    }
    let output = machines.lab("own", &[]).output().unwrap();
    assert!(text(&output).contains("go on as it began"), "{}", text(&output));
}

#[test]
fn a_run_that_ends_early_leaves_nothing_on_the_other_machine() {
    let machines = match Machines::make("early") {
        Ok(machines) => machines,
        Err(lack) => return skip(&lack),
    };
    let destination = format!("ssh://root@{FAR}:{PORT}");
    machines.experiment(&machines.site(), 30.0, "");
    for signal in [Signal::INT, Signal::KILL] {
        let mut lab = machines.lab(&format!("{signal:?}"), &["--load", &destination]);
        let mut lab = lab.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        // Both halves run.
        let runs = |what: &str| machines.processes().iter().any(|line| line.contains(what));
        while !(runs("regatta serve") && runs("regatta-lab load")) {
            assert!(start.elapsed() < PATIENCE, "{:?}", machines.processes());
            assert!(matches!(lab.try_wait(), Ok(None)), "the lab has ended");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(fs::read_dir(machines.place.join("far")).unwrap().count(), 1);
        kill_process(Pid::from_child(&lab), signal).unwrap();
        let status = lab.wait().unwrap();
        let tmp = machines.place.join("tmp");
        if signal == Signal::KILL {
            // Its socket stays: no process is left to remove it.
            fs::remove_dir_all(&tmp).unwrap();
            fs::create_dir(&tmp).unwrap();
        } else {
            assert_eq!(status.code(), Some(1), "{signal:?}");
        }
        machines.nothing_is_left();
    }
}

#[test]
fn a_machine_that_cannot_be_used_says_why() {
    let machines = match Machines::make("unusable") {
        Ok(machines) => machines,
        Err(lack) => return skip(&lack),
    };
    let refused = |destination: &str, part: &str| {
        let output = machines.lab("none", &["--load", destination]).output().unwrap();
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(part), "{part}: {said}");
        machines.nothing_is_left();
    };
    machines.experiment(&machines.site(), 0.5, "");
    refused(&format!("ssh://root@{FAR}:1"), "Connection refused");
    refused(&format!("ssh://nobody@{FAR}:{PORT}"), "ssh-copy-id");
    let far = format!("ssh://root@{FAR}:{PORT}");
    machines.experiment(&machines.site(), 0.5, "environment.network.mtu = 1500\n");
    refused(&far, "[environment.network]");
    let installed = machines.place.join("far-bin/regatta-lab");
    fs::remove_file(&installed).unwrap();
    refused(&far, "has no regatta-lab on its PATH");
    executables::script(&installed, "echo regatta-lab 0.0.1");
    refused(&far, "has regatta-lab 0.0.1 on its PATH");
}
