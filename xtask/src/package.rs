//! `cargo xtask package`: Debian packages of both programs, and a container image of the server.

use crate::command::{
    build_release, cargo, host_triple, output_of, project_root, require, succeeds, target_dir,
};
use crate::task_error::TaskError;
use clap::{Args, ValueEnum};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Kind to make; without it, both.
    what: Option<Kind>,
    /// For users: refuses anything that is only good for trials.
    #[arg(long)]
    release: bool,
    /// Pack this server instead of building one.
    #[arg(long, value_name = "BINARY")]
    regatta: Option<PathBuf>,
    /// Pack this lab instead of building one.
    #[arg(long, value_name = "BINARY")]
    regatta_lab: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
enum Kind {
    /// Debian packages of both programs: unit, configuration, manual pages, completions (needs
    /// debhelper; lintian checks them if it is installed).
    Deb,
    /// The server without shared libraries, and an image of it for podman, docker and skopeo
    /// (needs umoci; skopeo looks at it if that is installed).
    Oci,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Documents in /usr/share/doc/regatta.
const DOCUMENTS: &str = "deploy/grafana.json docs/commands.md docs/from-nginx.md \
    docs/hosts.md docs/logging.md docs/metrics.md docs/operating.md docs/rules.md \
    docs/tls.md";
/// Documents in /usr/share/doc/regatta-lab.
const LAB_DOCUMENTS: &str = "crates/load/assets/echarts-NOTICE docs/environments.md docs/lab.md \
    docs/load.md docs/load-from-many-machines.md docs/workload.md";
/// Files for systemd and logrotate.
const UNITS: [&str; 5] = [
    "regatta.service",
    "regatta.socket",
    "regatta-tls.socket",
    "regatta.sysusers",
    "regatta.logrotate",
];
/// Name of the file with the terms of a program's libraries, in each package.
const LIBRARIES: &str = "libraries";

/// Makes the requested packages.
pub(crate) fn run(options: Options) -> Result<bool, TaskError> {
    let Options { what, release, regatta, regatta_lab } = options;
    if let Some(address) = placeholder(&read(&project_root().join("SECURITY.md"))?) {
        let error = TaskError::Placeholder(address.to_owned());
        if release {
            return Err(error);
        }
        println!("not for users: {error}");
    }
    let is_wanted = |kind: Kind| what.is_none_or(|what| what == kind);
    let folder = target_dir().join("package");
    must(Command::new("rm").arg("-rf").arg(&folder))?;
    must(Command::new("mkdir").arg("-p").arg(&folder))?;
    let folder = folder.canonicalize().map_err(TaskError::attempting("find", folder.display()))?;
    write(&folder.join(LIBRARIES), &libraries("regatta")?)?;
    if is_wanted(Kind::Deb) {
        require("dh", "debhelper")?;
        let server = regatta.clone().map_or_else(|| build_release("regatta"), Ok)?;
        deb(&folder, &server, &regatta_lab.map_or_else(|| build_release("regatta-lab"), Ok)?)?;
    }
    if is_wanted(Kind::Oci) {
        let umoci = require("umoci", "umoci")?;
        image(&folder, &regatta.map_or_else(build_static, Ok)?, &umoci)?;
    }
    Ok(true)
}

/// Address in a page for security reports that cannot be reached.
fn placeholder(page: &str) -> Option<&str> {
    let mut words = page.split_whitespace();
    let address = words.find(|word| word.contains("@") && word.contains(".invalid"))?;
    Some(address.trim_end_matches('.'))
}

/// Runs a program that must succeed.
fn must(command: &mut Command) -> Result<(), TaskError> {
    match succeeds(command)? {
        true => Ok(()),
        false => Err(TaskError::Command(format!("{command:?}"))),
    }
}

/// Output of a program, which must succeed. An error has the program's own reason.
fn capture(command: &mut Command) -> Result<String, TaskError> {
    let output = command.stdin(Stdio::null()).output();
    let fault = TaskError::attempting("run", command.get_program().display());
    let Output { status, stdout, stderr } = output.map_err(fault)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if status.success() {
        return Ok(text(&stdout));
    }
    Err(TaskError::Command(format!("{command:?} ({status}): {}", text(&stderr))))
}

fn read(path: &Path) -> Result<String, TaskError> {
    std::fs::read_to_string(path).map_err(TaskError::attempting("read", path.display()))
}

fn write(path: &Path, text: &str) -> Result<(), TaskError> {
    std::fs::write(path, text).map_err(TaskError::attempting("write", path.display()))
}

/// Makes a program check a package, if it is installed.
fn judge(program: &str, words: &[&str]) -> Result<(), TaskError> {
    match require(program, program) {
        Ok(path) => must(Command::new(path).args(words)),
        Err(needs) => {
            println!("{needs} to look at it");
            Ok(())
        }
    }
}

/// Fills a directory with debhelper's inputs, and makes it pack them.
fn deb(folder: &Path, server: &Path, lab: &Path) -> Result<(), TaskError> {
    let tree = folder.join("regatta");
    let copy = |files: &[&str], to: &Path| {
        must(Command::new("mkdir").arg("-p").arg(to))?;
        must(Command::new("cp").current_dir(project_root()).args(["-r", "-t"]).arg(to).args(files))
    };
    let (debian, of_lab) = (tree.join("debian"), tree.join("lab"));
    copy(&["deploy/debian", "deploy/regatta.toml"], &tree)?;
    let units = UNITS.map(|unit| format!("deploy/{unit}"));
    copy(&units.each_ref().map(String::as_str), &debian)?;
    copy(&DOCUMENTS.split(' ').collect::<Vec<_>>(), &tree.join("docs"))?;
    copy(&LAB_DOCUMENTS.split(' ').collect::<Vec<_>>(), &of_lab.join("docs"))?;
    must(Command::new("cp").arg(folder.join(LIBRARIES)).arg(&tree))?;
    write(&of_lab.join(LIBRARIES), &libraries("regatta-lab")?)?;
    for (program, name, to) in [(server, "regatta", &tree), (lab, "regatta-lab", &of_lab)] {
        must(Command::new("cp").arg(program).arg(to.join(name)))?;
        must(Command::new(to.join(name)).arg("pages").arg(to.join("pages")))?;
    }
    let mut copyright = read(&debian.join("copyright"))?;
    for (name, path) in
        [("Expat", "LICENSE-MIT"), ("BSD-3-clause", "crates/load/assets/echarts-LICENSE-d3")]
    {
        copyright += &license(name, &read(&project_root().join(path))?);
    }
    write(&debian.join("copyright"), &copyright)?;
    write(&debian.join("changelog"), &changelog(&read(&debian.join("control"))?)?)?;
    let mut build = Command::new("dpkg-buildpackage");
    build.args(["--build=binary", "--no-sign", "--no-pre-clean"]);
    must(build.current_dir(&tree))?;
    let machine = capture(Command::new("dpkg").arg("--print-architecture"))?;
    let packages = ["regatta", "regatta-lab"]
        .map(|name| folder.join(format!("{name}_{VERSION}_{machine}.deb")).display().to_string());
    packages.iter().for_each(|package| println!("{package}"));
    let postinst = capture(Command::new("dpkg-deb").args(["--info", &packages[0], "postinst"]))?;
    if postinst.contains("deb-systemd-invoke") {
        return Err(TaskError::RestartingScript(postinst));
    }
    let [regatta, lab] = &packages;
    judge("lintian", &["--fail-on", "error,warning", regatta, lab])
}

/// Renders a paragraph of `debian/copyright`: an empty line of the text becomes a dot.
fn license(name: &str, text: &str) -> String {
    let line = |line: &str| format!(" {}\n", if line.is_empty() { "." } else { line });
    format!("\nLicense: {name}\n{}", text.trim().lines().map(line).collect::<String>())
}

/// Renders the changelog with the time of the last commit: equal sources make equal packages.
fn changelog(control: &str) -> Result<String, TaskError> {
    let maintainer = control.lines().find_map(|line| line.strip_prefix("Maintainer: "));
    let maintainer = maintainer.ok_or(TaskError::NoMaintainer)?;
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%cD"]).current_dir(project_root());
    let date = output_of(&mut git).map_or_else(|| capture(Command::new("date").arg("-R")), Ok)?;
    Ok(format!(
        "regatta ({VERSION}) unstable; urgency=medium\n\n  \
         * The history of the sources says what has changed.\n\n -- {maintainer}  {date}\n"
    ))
}

/// Terms of each library in a program, from the library's own files.
fn libraries(program: &str) -> Result<String, TaskError> {
    let mut tree = cargo();
    tree.args(["tree", "--package", program, "--edges", "normal,no-proc-macro"]);
    let linked = capture(tree.args(["--prefix", "none", "--format", "{p}"]))?;
    let linked: BTreeSet<&str> = linked.lines().collect();
    let metadata = capture(cargo().args(["metadata", "--format-version", "1"]))?;
    let metadata = serde_json::from_str::<Value>(&metadata).map_err(io::Error::from);
    let metadata =
        metadata.map_err(TaskError::attempting("read", "the output of cargo metadata"))?;
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let field = |name: &str| package[name].as_str().unwrap_or_default();
        let name = format!("{} v{}", field("name"), field("version"));
        if !linked.contains(name.as_str()) {
            continue;
        }
        let manifest = Path::new(field("manifest_path"));
        let entries = manifest.parent().and_then(|folder| folder.read_dir().ok());
        for path in entries.into_iter().flatten().flatten().map(|entry| entry.path()) {
            let file = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            if ["LICENSE", "LICENCE", "COPYING", "NOTICE"].iter().any(|one| file.starts_with(one))
                && path.is_file()
            {
                texts.entry(read(&path)?).or_default().push(name.clone());
            }
        }
        let terms = format!("Its manifest says: {}\n", field("license"));
        texts.entry(terms).or_default().push(name);
    }
    let mut text = String::new();
    for (terms, names) in texts {
        let _ = write!(text, "==== {}\n\n{terms}\n\n", names.join(", "));
    }
    Ok(text)
}

/// Builds the server with the C library in it.
fn build_static() -> Result<PathBuf, TaskError> {
    let host = host_triple()?;
    let mut build = cargo();
    // Because a target is named, build scripts and macros are not affected.
    build.args(["build", "--release", "--package", "regatta", "--target", &host]);
    must(build.env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
    Ok(target_dir().join(host).join("release/regatta"))
}

/// Puts a static program into an image, with only the terms of its libraries besides.
fn image(folder: &Path, program: &Path, umoci: &Path) -> Result<(), TaskError> {
    let machine = std::env::consts::ARCH;
    let text = |path: &Path| path.display().to_string();
    let stripped = text(&folder.join(format!("regatta-{VERSION}-{machine}")));
    let strip = require("strip", "binutils")?;
    must(Command::new(strip).arg("-o").arg(&stripped).arg(program))?;
    println!("{stripped}");
    let layout = text(&folder.join("oci"));
    let image = format!("{layout}:{VERSION}");
    let umoci = |words: &[&str]| must(Command::new(umoci).args(words));
    umoci(&["init", "--layout", &layout])?;
    umoci(&["new", "--image", &image])?;
    umoci(&["insert", "--rootless", "--image", &image, &stripped, "/regatta"])?;
    let libraries = text(&folder.join(LIBRARIES));
    umoci(&["insert", "--rootless", "--image", &image, &libraries, "/libraries"])?;
    umoci(&[
        "config",
        "--image",
        &image,
        "--config.entrypoint=/regatta",
        "--config.cmd=serve",
        "--config.cmd=/srv",
        "--config.cmd=--listen",
        "--config.cmd=0.0.0.0:8080",
        // User 65534: a number needs no /etc/passwd.
        "--config.user=65534:65534",
        "--config.exposedports=8080/tcp",
        // For tls.listen, which the command does not set: it needs a certificate.
        "--config.exposedports=8443/tcp",
        "--config.label=org.opencontainers.image.title=regatta",
        "--config.label=org.opencontainers.image.licenses=MIT OR Apache-2.0",
    ])?;
    umoci(&["gc", "--layout", &layout])?;
    let archive = text(&folder.join(format!("regatta-{VERSION}-oci.tar")));
    must(Command::new("tar").args(["-C", &layout, "-cf", &archive, "."]))?;
    println!("{archive}");
    judge("skopeo", &["inspect", &format!("oci-archive:{archive}")])
}

#[cfg(test)]
mod tests {
    use super::{UNITS, capture, changelog, license, placeholder, read};
    use crate::command::{project_root, require};
    use regatta_testkit::skips::skip;
    use std::process::Command;

    #[test]
    fn an_address_that_reaches_nobody_is_found() {
        let found = placeholder("Write to security@regatta.invalid. Soon.");
        assert_eq!(found, Some("security@regatta.invalid"));
        assert_eq!(placeholder("Write to security@regatta.example. Not to a@b."), None);
    }

    #[test]
    fn texts_for_debian_are_of_its_form() {
        assert_eq!(license("X", "a\n\nb\n"), "\nLicense: X\n a\n .\n b\n");
        let log = changelog("Source: x\nMaintainer: A B <a@b.c>\n").expect("git or date is there");
        assert!(log.starts_with("regatta (") && log.contains("\n -- A B <a@b.c>  "), "{log}");
    }

    #[test]
    fn a_missing_program_and_one_that_fails_differ() {
        let error =
            capture(&mut Command::new("regatta-no-such-program")).expect_err("it is missing");
        let error = error.to_string();
        assert!(error.starts_with("cannot run regatta-no-such-program: "), "{error}");
        let mut fails = Command::new("sh");
        let error = capture(fails.args(["-c", "echo why >&2; exit 3"])).expect_err("it fails");
        let error = error.to_string();
        assert!(error.starts_with("failed: "), "{error}");
        assert!(error.ends_with("(exit status: 3): why"), "{error}");
        assert_eq!(capture(Command::new("echo").arg("text")).expect("it succeeds"), "text");
    }

    fn read_deployed(name: &str) -> String {
        read(&project_root().join("deploy").join(name)).expect("ours")
    }

    /// Otherwise the server would refuse the given sockets.
    #[test]
    fn the_socket_units_listen_where_the_configuration_does() {
        let toml = read_deployed("regatta.toml");
        // HTTPS needs a certificate, so its lines are comments.
        for (unit, start) in [("regatta.socket", ""), ("regatta-tls.socket", "# ")] {
            let socket = read_deployed(unit);
            let listen = socket.lines().filter_map(|line| line.strip_prefix("ListenStream="));
            let listen: Vec<String> = listen.map(|address| format!("\"{address}\"")).collect();
            let line = format!("\n{start}listen = [{}]\n", listen.join(", "));
            assert!(toml.contains(&line), "{unit}: {line}");
        }
    }

    /// Both socket units start the one service, and are stopped before it.
    #[test]
    fn every_unit_is_packed_and_stopped() {
        assert!(read_deployed("regatta-tls.socket").contains("\nService=regatta.service\n"));
        let (rules, prerm) = (read_deployed("debian/rules"), read_deployed("debian/regatta.prerm"));
        for unit in UNITS.iter().filter(|unit| !unit.starts_with("regatta.")) {
            let (name, _) = unit.split_once('.').expect("a kind");
            assert!(rules.contains(&format!("dh_installsystemd --name={name} ")), "{unit}");
        }
        assert!(prerm.contains(" stop regatta.socket regatta-tls.socket regatta.service "));
    }

    /// A reload must read the certificates again, which belong to root: a copy that systemd makes
    /// at the start (`LoadCredential=`) would stay as it is.
    #[test]
    fn the_service_may_read_certificates_of_root() {
        let unit = read_deployed("regatta.service");
        for set in ["AmbientCapabilities", "CapabilityBoundingSet"] {
            let line = unit.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix('='));
            let rights: Vec<&str> = line.unwrap_or_default().split(' ').collect();
            assert_eq!(rights, ["CAP_NET_BIND_SERVICE", "CAP_DAC_READ_SEARCH"], "{set}");
        }
        let toml = read_deployed("regatta.toml");
        let sample = toml.lines().find(|line| line.starts_with("# certificate = "));
        let hidden = ["/home/", "/root/", "/run/user/", "/tmp/"];
        let is_hidden = |line: &str| hidden.iter().any(|folder| line.contains(folder));
        assert!(sample.is_some_and(|line| line.contains(":/etc/") && !is_hidden(line)));
    }

    /// The master has the keys of certificates.
    #[test]
    fn the_service_leaves_no_copy_of_its_memory() {
        assert!(read_deployed("regatta.service").lines().any(|line| line == "LimitCORE=0"));
    }

    /// systemd must rate the exposure at most 2.0.
    #[test]
    fn the_service_may_do_little_else_than_serve() {
        let unit = project_root().join("deploy/regatta.service");
        let text = read(&unit).expect("ours");
        assert!(!text.lines().any(|line| line.starts_with("RestrictSUIDSGID=")), "no openat2(2)");
        let Ok(systemd) = require("systemd-analyze", "systemd") else {
            return skip("systemd-analyze is not here to look at the unit");
        };
        let mut analyze = Command::new(systemd);
        analyze.args(["security", "--offline=true", "--threshold=20", "--no-pager"]);
        let said = analyze.arg(unit).output().expect("it runs");
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stdout));
    }
}
