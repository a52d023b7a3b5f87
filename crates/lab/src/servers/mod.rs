//! Programs that the lab starts as servers, and their command lines and configurations.

pub(crate) mod environments;
pub(crate) mod process;

use crate::env;
use crate::env::spec::Disk;
use crate::experiment::client::LoadNeeds;
use crate::experiment::{Encryption, Machine, Program, Target};
use crate::group::{INTERRUPTED, STEP};
use crate::programs::own::version_line;
use crate::programs::{self, Other, OwnPrograms, Serving, ServingHttp2, ServingTls};
use crate::servers::environments::Room;
use crate::servers::process::{Launch, Priority, Running};
use crate::units::At;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const FREE_TRIES: usize = 100;
const START_MAX: Duration = Duration::from_secs(15);

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) running: Running,
    /// First address at which it listens.
    pub(crate) address: SocketAddr,
    /// Further addresses for requests.
    pub(crate) also: Vec<SocketAddr>,
    /// Address that speaks TLS.
    pub(crate) encrypted: Option<SocketAddr>,
    /// Address that speaks HTTP/2 in the clear, and nothing else.
    pub(crate) clear_http2: Option<SocketAddr>,
}

impl Server {
    /// Every port at which it listens.
    pub(crate) fn ports(&self) -> BTreeSet<u16> {
        let more = self.encrypted.iter().chain(&self.clear_http2);
        let all = self.also.iter().chain([&self.address]).chain(more);
        all.map(SocketAddr::port).collect()
    }
}

/// Place and means of a server that is started now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) scratch: &'a Path,
    pub(crate) programs: &'a OwnPrograms,
    /// Whether other servers run at the same time: then it has a file of its own.
    pub(crate) has_siblings: bool,
    /// The address at which it is asked, unless it has a network of its own.
    pub(crate) host: IpAddr,
    pub(crate) stop: &'a AtomicBool,
}

/// Content of a server, and its processors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Room of the server, with the directory that is served.
    pub(crate) room: &'a Room,
    pub(crate) machine: &'a Machine,
    pub(crate) needs: LoadNeeds,
    pub(crate) site: Site<'a>,
}

pub(crate) fn binary(target: &Target, own: &OwnPrograms) -> PathBuf {
    let usual = || match &target.program {
        Program::Regatta => own.regatta.clone(),
        Program::Null | Program::NullUring => own.lab.clone(),
        Program::Other(other) => {
            programs::find(other.program()).unwrap_or_else(|| other.program().into())
        }
        Program::Command(words) => words.first().map(PathBuf::from).unwrap_or_default(),
    };
    target.binary.as_ref().map_or_else(usual, PathBuf::from)
}

/// Copies a program, unless that was done before. Two processes of one file share its pages, and so
/// their processor's caches: together they need less time than one and another of a second file.
fn own_file(program: &Path, name: &str, scratch: &Path) -> Result<PathBuf, String> {
    let copy = scratch.join(format!("program-{name}"));
    let facts = |path: &Path| {
        let facts = fs::metadata(path).ok()?;
        Some((facts.len(), facts.modified().ok()?))
    };
    let is_there = match (facts(program), facts(&copy)) {
        (Some((len, changed)), Some((copied, made))) => len == copied && changed <= made,
        _ => false,
    };
    if !is_there {
        fs::copy(program, &copy).at(&copy)?;
    }
    Ok(copy)
}

/// The program's own word for its version; None if it cannot be run.
pub(crate) fn version(target: &Target, own: &OwnPrograms) -> Option<String> {
    let program = binary(target, own);
    match target.program {
        Program::Regatta | Program::Null | Program::NullUring => version_line(&program),
        Program::Other(other) => other.version(&program),
        Program::Command(_) => Some("a command".to_owned()),
    }
}

/// Starts `target` with further options, and waits until it takes connections.
pub(crate) fn start(
    target: &Target,
    more: &BTreeMap<String, String>,
    place: &Place<'_>,
) -> Result<Server, String> {
    let copies = copies_with_ports(target, more, place.machine);
    let LoadNeeds { tls: encryption, http2, .. } =
        if target.speaks_tls() { place.needs } else { LoadNeeds::default() };
    let is_clear = encryption == Encryption::Clear;
    // The others speak HTTP/1.1 and HTTP/2 in the clear at one port.
    let is_apart = http2 && is_clear && target.program == Program::Other(Other::Nginx);
    // The next port is for TLS, or for HTTP/2 alone.
    let ports = copies.saturating_add(u16::from(!is_clear || is_apart));
    let addresses = match place.room.addresses() {
        Some(addresses) => addresses,
        None => vec![free_address(place.site.host, ports)?],
    };
    let address = *addresses.first().ok_or("its network has no address")?;
    let certificate = match encryption {
        Encryption::Clear => None,
        Encryption::Full | Encryption::Resumed => Some(in_directory(place.site.scratch)?),
    };
    let next = SocketAddr::new(address.ip(), address.port().saturating_add(copies));
    let tls = certificate.as_deref().map(|certificate| ServingTls {
        address: next,
        certificate,
        tickets: encryption == Encryption::Resumed,
    });
    let clear_http2 = is_apart.then_some(next);
    let http2 = match clear_http2 {
        Some(address) => Some(ServingHttp2::Clear(address)),
        None => (http2 && !is_clear).then_some(ServingHttp2::Encrypted),
    };
    let words = words(target, more, place, &addresses, (tls, http2))?;
    let [out, errors] = ["server.out", "server.err"].map(|name| place.site.scratch.join(name));
    let launch = Launch {
        words,
        cpus: &place.machine.server_cpus,
        priority: Priority::Ordinary.if_asked(place.machine.realtime),
        inside: place.room.inside(env::Place::Server),
        as_nobody: matches!(target.program, Program::Other(other) if other.as_nobody()),
        out: &out,
        errors: &errors,
    };
    let mut running = Running::start(&launch)?;
    let start = Instant::now();
    // Regatta listens before it forks; the others are asked until they answer.
    let encrypted = tls.map(|tls| tls.address);
    let all = [Some(address), encrypted, clear_http2];
    while !all.into_iter().flatten().all(|one| place.room.listens(one)) {
        if place.site.stop.load(Ordering::Relaxed) {
            return Err(INTERRUPTED.to_owned());
        }
        if running.has_ended() || start.elapsed() > START_MAX {
            let said = fs::read_to_string(&errors).unwrap_or_default();
            return Err(format!("{} does not serve: {}", target.name, last_message(&said)));
        }
        std::thread::sleep(STEP);
    }
    let also = asked_at(&addresses, copies).into_iter().skip(1).collect();
    Ok(Server { running, address, also, encrypted, clear_http2 })
}

/// Last message of a program, with the lines that continue it: those are indented.
pub(crate) fn last_message(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    let begin = lines.iter().rposition(|line| !line.starts_with(' ')).unwrap_or_default();
    let lines: Vec<&str> = lines[begin..].iter().map(|line| line.trim()).collect();
    if lines.is_empty() { "it wrote nothing".to_owned() } else { lines.join("; ") }
}

/// Number of a server's copies with a port of their own, counted up from the one that it is given
/// ([G]); 1 if all share a port.
fn copies_with_ports(target: &Target, more: &BTreeMap<String, String>, machine: &Machine) -> u16 {
    let option = |key: &str| more.get(key).or_else(|| target.config.get(key)).map(String::as_str);
    let ports = option("event.partition").is_none_or(|partition| partition == "ports");
    if target.program != Program::Regatta || !ports {
        return 1;
    }
    let usual = if option("server.architecture") == Some("n-copy") { "0" } else { "1" };
    match (option("event.copies").unwrap_or(usual).parse().unwrap_or(1), &machine.server_cpus) {
        // A copy for each processor.
        (0, cpus) if !cpus.is_empty() => u16::try_from(cpus.len()).unwrap_or(u16::MAX),
        (0, _) => {
            let all = std::thread::available_parallelism().map_or(1, usize::from);
            u16::try_from(all).unwrap_or(u16::MAX)
        }
        (copies, _) => copies,
    }
}

/// Addresses for requests: every copy's port at every address.
fn asked_at(addresses: &[SocketAddr], copies: u16) -> Vec<SocketAddr> {
    let of = |address: &SocketAddr| {
        let (ip, port) = (address.ip(), address.port());
        (0..copies).filter_map(move |up| Some(SocketAddr::new(ip, port.checked_add(up)?)))
    };
    addresses.iter().flat_map(of).collect()
}

/// Finds `ports` free ports in a row. Returns the address of the first. Another program may take
/// one before ours does; a trial is then invalid and made again.
///
/// # Errors
/// The host is not ours, or has no such row: in one sentence.
pub fn free_address(host: IpAddr, ports: u16) -> Result<SocketAddr, String> {
    let bind = |port: u16| TcpListener::bind((host, port));
    let is_free = |port: u16| bind(port).is_ok();
    for _ in 0..FREE_TRIES {
        let first = bind(0).map_err(|error| format!("{host}: {error}"))?;
        let address = first.local_addr().map_err(|error| error.to_string())?;
        if (1..ports).all(|more| address.port().checked_add(more).is_some_and(is_free)) {
            return Ok(address);
        }
    }
    Err(format!("no {ports} free ports in a row"))
}

pub(crate) fn make_open(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).at(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o777)).at(path)
}

fn words(
    target: &Target,
    more: &BTreeMap<String, String>,
    place: &Place<'_>,
    addresses: &[SocketAddr],
    (tls, http2): (Option<ServingTls<'_>>, Option<ServingHttp2>),
) -> Result<Vec<OsString>, String> {
    let program = match binary(target, place.site.programs) {
        program if place.site.has_siblings => own_file(&program, &target.name, place.site.scratch)?,
        program => program,
    };
    let root = place.room.root.as_path();
    // Others than ours take one address: of several in a network of their own, all.
    let address = match addresses {
        [address] => *address,
        _ => SocketAddr::new(
            Ipv4Addr::UNSPECIFIED.into(),
            addresses.first().map_or(0, SocketAddr::port),
        ),
    };
    let mut words = vec![program.clone().into_os_string()];
    let os = |word: &str| OsString::from(word);
    match &target.program {
        Program::Regatta => {
            words.extend([os("serve"), root.into()]);
            let listen = |address: &SocketAddr| [os("--listen"), address.to_string().into()];
            words.extend(addresses.iter().flat_map(listen));
            let mut config = target.config.clone();
            config.extend(tls.iter().flat_map(tls_options));
            config.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
            for (key, value) in place.room.stand_in.iter().flat_map(Disk::options) {
                config.entry(key.to_owned()).or_insert(value);
            }
            let sets = config
                .iter()
                .flat_map(|(key, value)| [os("--set"), OsString::from(format!("{key}={value}"))]);
            words.extend(sets);
        }
        bare @ (Program::Null | Program::NullUring) => {
            let engine = if *bare == Program::Null { "epoll" } else { "uring" };
            words.extend(["null", "--engine", engine, "--listen"].map(os));
            words.push(address.to_string().into());
            if let Some(file) = target.config.get("file") {
                words.extend([os("--file"), root.join(file.trim_start_matches('/')).into()]);
            }
        }
        Program::Command(given) => {
            let (host, port) = (address.ip().to_string(), address.port().to_string());
            let root = root.to_string_lossy();
            let fill = |word: &String| {
                let word = word.replace("{host}", &host).replace("{port}", &port);
                OsString::from(word.replace("{root}", &root))
            };
            words.extend(given.iter().skip(1).map(fill));
        }
        Program::Other(other) => {
            words = other.command(
                &program,
                &Serving {
                    address,
                    root,
                    scratch: place.site.scratch,
                    workers: place.machine.server_cpus.len().max(1),
                    tls,
                    http2,
                    codings: place.needs.codings,
                },
            )?;
        }
    }
    Ok(words)
}

/// Options of regatta for service by TLS.
fn tls_options(tls: &ServingTls<'_>) -> Vec<(String, String)> {
    let mut options = vec![
        ("tls.listen", tls.address.to_string()),
        ("tls.certificate", tls.certificate.display().to_string()),
        ("tls.version_min", "1.3".to_owned()),
    ];
    if !tls.tickets {
        options.push(("tls.ticket_rotate_s", "0".to_owned()));
    }
    options.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

const FILE: &str = "tls.pem";
/// Subjects of the certificate. wrk checks none.
const NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// Returns the path of a certificate with its key (ECDSA, P-256). It is made once for a directory:
/// all servers of a run show the same one.
pub(super) fn in_directory(directory: &Path) -> Result<PathBuf, String> {
    let path = directory.join(FILE);
    if path.exists() {
        return Ok(path);
    }
    let made = rcgen::generate_simple_self_signed(NAMES.map(str::to_owned)).at(&path)?;
    let text = pem("CERTIFICATE", made.cert.der())
        + &pem("PRIVATE KEY", made.signing_key.serialized_der());
    fs::write(&path, text).at(&path)?;
    // Servers without privileges read it.
    fs::set_permissions(&path, Permissions::from_mode(0o644)).at(&path)?;
    Ok(path)
}

/// Formats a section of PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    let mut room = vec![0; der.len().div_ceil(3) * 4];
    let len = STANDARD.encode_slice(der, &mut room).expect("four letters for three bytes");
    let lines: Vec<_> = room[..len].chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{in_directory, *};
    use crate::experiment::{Scale, parse};
    use crate::folder::Folder;
    use std::fs;

    #[test]
    fn servers_that_run_at_once_have_files_of_their_own() {
        use std::os::unix::fs::MetadataExt as _;
        let folder = Folder::new("lab-test");
        let program = folder.join("regatta");
        fs::write(&program, "one build").unwrap();
        let [one, other] = ["0", "1"].map(|at| {
            let scratch = folder.join(at);
            fs::create_dir(&scratch).unwrap();
            (own_file(&program, "old", &scratch).unwrap(), scratch)
        });
        let file = |path: &Path| fs::metadata(path).unwrap().ino();
        assert_ne!(file(&one.0), file(&other.0));
        assert_ne!(file(&one.0), file(&program));
        fs::write(&one.0, "copied once").unwrap();
        // The same length, and younger: it stays. Another length: it is copied again.
        fs::write(&program, "other build").unwrap();
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::options().write(true).open(&program).unwrap().set_modified(old).unwrap();
        own_file(&program, "old", &one.1).unwrap();
        assert_eq!(fs::read_to_string(&one.0).unwrap(), "copied once");
        fs::write(&program, "a longer build").unwrap();
        own_file(&program, "old", &one.1).unwrap();
        assert_eq!(fs::read_to_string(&one.0).unwrap(), "a longer build");
    }

    #[test]
    fn a_message_has_its_continuation() {
        let said = "regatta: first\nregatta: no such directory\n  hint: make it\n";
        assert_eq!(last_message(said), "regatta: no such directory; hint: make it");
        assert_eq!(last_message(""), "it wrote nothing");
    }

    #[test]
    fn a_free_address_has_a_port() {
        let free = |ports| free_address(Ipv4Addr::LOCALHOST.into(), ports).expect("ports");
        let address = free(2);
        assert!(address.port() > 0 && address.ip().is_loopback());
        // Another process may have taken it since; an address of ours would be taken always.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        assert_ne!(listener.local_addr().expect("ours"), free(1));
    }

    #[test]
    fn a_load_goes_to_every_address_and_to_every_copys_port() {
        let text = r#"
experiment = { name = "x", question = "?", expect = "!" }
workload.root = "."
machine.server_cpus = "0-2"
targets.plain.program = "regatta"
targets.ports.program = "regatta"
targets.ports.config.event.copies = 2
targets.copy.program = "regatta"
targets.copy.config.server.architecture = "n-copy"
targets.steered.program = "regatta"
targets.steered.config.event = { partition = "steer-cpu", copies = 2 }
targets.other.program = "nginx"
"#;
        let experiment = parse("x", text, Scale::Quick).unwrap();
        let copies = |name: &str, more: &[(&str, &str)]| {
            let target = experiment.targets.iter().find(|target| target.name == name).unwrap();
            let more = more.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            copies_with_ports(target, &more.collect(), &experiment.machine)
        };
        let names = ["plain", "ports", "copy", "steered", "other"];
        assert_eq!(names.map(|name| copies(name, &[])), [1, 2, 3, 1, 1]);
        assert_eq!(copies("ports", &[("event.copies", "4")]), 4, "a level goes first");
        assert_eq!(copies("copy", &[("event.partition", "addresses")]), 1);
        let all = |addresses: u8, copies: u16| -> String {
            let all = asked_at(&environments::addresses(addresses), copies);
            all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(all(1, 1), "10.9.1.1:8080");
        assert_eq!(all(2, 1), "10.9.1.1:8080 10.9.2.1:8080");
        assert_eq!(all(2, 2), "10.9.1.1:8080 10.9.1.1:8081 10.9.2.1:8080 10.9.2.1:8081");
        let first = free_address(Ipv4Addr::LOCALHOST.into(), 3).unwrap();
        assert!(asked_at(&[first], 3).len() == 3 && first.port() > 0);
    }

    #[test]
    fn a_directory_keeps_its_certificate() {
        let folder = Folder::new("certificate");
        let path = in_directory(&folder).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        for label in ["CERTIFICATE", "PRIVATE KEY"] {
            assert_eq!(text.matches(&format!("-----BEGIN {label}-----\n")).count(), 1, "{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 64), "{text}");
        assert_eq!(in_directory(&folder).unwrap(), path);
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "all servers show the same one");
    }
}
