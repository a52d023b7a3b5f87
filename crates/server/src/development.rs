//! The certificate of `serve --https`: for this machine alone, made here, and kept for the next
//! start.
//!
//! It is one certificate that signed itself and may sign no other: clients trust exactly it. An
//! authority of our own would need a key that could sign for every site that its user visits.
use crate::{
    Failure, Sources, WorkFault,
    config::raw::{Flag, Location, Problem},
    messages, read_configuration,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use regatta_sys::{guarded::Spot, process::effective_user};
use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fmt,
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The flag, as messages name it.
pub(crate) const FLAG: &str = "--https";

const LISTEN_KEY: &str = "server.listen";
const TLS_LISTEN_KEY: &str = "tls.listen";
const CERTIFICATE_KEY: &str = "tls.certificate";
/// Address without `--listen`.
const TLS_LISTEN: &str = "127.0.0.1:8443";

/// The certificate with its key, and the certificate alone, for clients.
const FILE: &str = "development.pem";
const CLIENTS_FILE: &str = "development-certificate.pem";
/// Starts of lines before the certificate, which readers of PEM skip (RFC 7468 §2).
const NAMES: &str = "Names: ";
const EXPIRES: &str = "Expires (seconds since 1970): ";
const CERTIFICATE: &str = "CERTIFICATE";
const PRIVATE_KEY: &str = "PRIVATE KEY";

const DAY_S: u64 = 86_400;
/// Browsers accept no more days of a certificate.
const VALID_S: u64 = 397 * DAY_S;
/// A certificate with less than this is replaced.
const SPARE_S: u64 = 15 * DAY_S;
/// Clocks of other machines are late by at most this.
const CLOCK_LATE_S: u64 = DAY_S;
/// Permissions of the group and of others to write.
const OTHERS_WRITE: u32 = 0o022;
/// The most names and addresses in a certificate.
const NAMES_MAX: usize = 32;
const NAME_BYTES_MAX: usize = 253;

/// A certificate for development, in files.
#[derive(Debug)]
pub struct DevelopmentCertificate {
    /// The certificate and its key.
    file: PathBuf,
    /// The certificate alone.
    for_clients: PathBuf,
}

impl DevelopmentCertificate {
    /// Names the files in this directory.
    fn at(folder: &Path) -> Self {
        Self { file: folder.join(FILE), for_clients: folder.join(CLIENTS_FILE) }
    }
}

impl fmt::Display for DevelopmentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.for_clients.display();
        write!(f, "the certificate is \"{file}\": clients must trust it, as in curl --cacert")
    }
}

/// Reason why there is no certificate for development.
#[derive(Debug)]
pub enum DevelopmentFault {
    /// Neither `XDG_STATE_HOME` nor `HOME` is an absolute path.
    NoHome,
    /// The directory belongs to this other user.
    OtherOwner(PathBuf, u32),
    /// Other users may write to the directory, which has these permissions.
    OthersWrite(PathBuf, u32),
    /// The path cannot be the value of an option.
    Path(PathBuf),
    /// The file or directory cannot be made.
    File(PathBuf, io::Error),
    /// The certificate cannot be made.
    Certificate(rcgen::Error),
}

impl fmt::Display for DevelopmentFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHome => f.write_str(
                "--https keeps its certificate in XDG_STATE_HOME or HOME, and neither is an \
                 absolute path: set one",
            ),
            Self::OtherOwner(path, owner) => write!(
                f,
                "--https keeps its certificate below \"{}\", which belongs to user {owner}: start \
                 the server as that user, or set XDG_STATE_HOME to a directory of your own",
                path.display()
            ),
            Self::OthersWrite(path, mode) => write!(
                f,
                "--https keeps its key in \"{path}\", where other users can write (mode \
                 {mode:04o}): `chmod go-w {path}`",
                path = path.display()
            ),
            Self::Path(path) => write!(
                f,
                "--https keeps its certificate in \"{}\", and no option can name a path with a \
                 colon or bytes that are not UTF-8: set XDG_STATE_HOME to another directory",
                path.display()
            ),
            Self::File(path, error) => write!(
                f,
                "--https cannot keep its certificate in \"{}\": {error}; set XDG_STATE_HOME to a \
                 directory of your own",
                path.display()
            ),
            Self::Certificate(error) => write!(f, "--https cannot make a certificate: {error}"),
        }
    }
}

/// Serves with TLS and a certificate for development: sets the options of both, as flags do. The
/// addresses of `--listen` are those with TLS. Without any, nothing listens in the clear. `makes`:
/// a start makes the certificate if need be. A reload uses the one that is there: its trial must
/// change nothing, and the next image must not fail where the trial did not.
///
/// The configuration has certificates, or there is no place to keep one.
pub fn add(sources: &mut Sources<'_>, makes: bool) -> Result<DevelopmentCertificate, Failure> {
    let flags = &mut sources.arguments.flags;
    for flag in flags.iter_mut().filter(|flag| flag.key == LISTEN_KEY) {
        flag.key = TLS_LISTEN_KEY;
    }
    let (said, _) = read_configuration(sources);
    if makes && said.is_said(CERTIFICATE_KEY) {
        let place = Location::Argument(FLAG.to_owned());
        let message = "tls.certificate has certificates already";
        let problem = Problem::new(messages::OPTIONS_CONFLICT, place, message);
        let problem = problem.hint("leave --https out, and set tls.listen");
        return Err(Failure::Configuration(vec![problem]));
    }
    let made = certificate(makes).map_err(|fault| Failure::Work(WorkFault::Development(fault)))?;
    let mut set = |key, values| {
        sources.arguments.flags.push(Flag { key, name: FLAG, values });
    };
    set(CERTIFICATE_KEY, vec![made.file.display().to_string()]);
    if !said.is_said(TLS_LISTEN_KEY) {
        set(TLS_LISTEN_KEY, vec![TLS_LISTEN.to_owned()]);
    }
    if !said.is_said(LISTEN_KEY) {
        set(LISTEN_KEY, Vec::new());
    }
    Ok(made)
}

/// Finds the certificate of this machine and user, or makes it.
fn certificate(makes: bool) -> Result<DevelopmentCertificate, DevelopmentFault> {
    let folder = state_folder(env::var_os("XDG_STATE_HOME"), env::var_os("HOME"))?;
    if !makes {
        return Ok(DevelopmentCertificate::at(&folder));
    }
    is_only_of(effective_user(), &folder)?;
    certificate_in(&folder, &names(), SystemTime::now())
}

/// Directory in which this program keeps state (XDG Base Directory Specification).
fn state_folder(
    state: Option<OsString>,
    home: Option<OsString>,
) -> Result<PathBuf, DevelopmentFault> {
    let absolute = |path: Option<_>| path.map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute(state);
    let state = state.or_else(|| absolute(home).map(|home| home.join(".local/state")));
    let folder = state.ok_or(DevelopmentFault::NoHome)?.join("regatta");
    match folder.to_str() {
        Some(text) if !text.contains(':') => Ok(folder),
        _ => Err(DevelopmentFault::Path(folder)),
    }
}

/// Requires that root writes below directories of root alone: with the home of another user in its
/// environment, it would leave files there that this user cannot remove, or follow their links.
fn is_only_of(user: u32, folder: &Path) -> Result<(), DevelopmentFault> {
    let found = folder.ancestors().filter_map(|path| Some((path, fs::metadata(path).ok()?.uid())));
    let other = found.filter(|(_, owner)| user == 0 && *owner != 0).last();
    other.map_or(Ok(()), |(path, owner)| Err(DevelopmentFault::OtherOwner(path.into(), owner)))
}

/// Finds the certificate for these names in the directory, or makes it.
fn certificate_in(
    folder: &Path,
    names: &BTreeSet<String>,
    now: SystemTime,
) -> Result<DevelopmentCertificate, DevelopmentFault> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| DevelopmentFault::File(path, error)
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(failed(folder))?;
    // Where it is a link, the directory that it leads to counts, too.
    let link = fs::symlink_metadata(folder).map_err(failed(folder))?;
    let found = fs::metadata(folder).map_err(failed(folder))?;
    let owners = [link.uid(), found.uid()];
    if let Some(owner) = owners.into_iter().find(|owner| *owner != effective_user()) {
        return Err(DevelopmentFault::OtherOwner(folder.into(), owner));
    }
    let mode = found.mode() & 0o7777;
    if mode & OTHERS_WRITE != 0 {
        return Err(DevelopmentFault::OthersWrite(folder.into(), mode));
    }
    let unix = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let DevelopmentCertificate { file, for_clients } = DevelopmentCertificate::at(folder);
    let kept = fs::read_to_string(&file).ok().filter(|text| is_current(text, names, unix));
    let text = match kept {
        Some(text) => text,
        None => {
            let text = make(names, unix).map_err(DevelopmentFault::Certificate)?;
            write_private(&file, &text).map_err(failed(&file))?;
            text
        }
    };
    let public = section(&text, CERTIFICATE).unwrap_or_default();
    if fs::read_to_string(&for_clients).ok().as_deref() != Some(public) {
        let written = Spot::find(&for_clients).and_then(|it| it.replace(public.as_bytes(), None));
        written.map_err(failed(&for_clients))?;
    }
    Ok(DevelopmentCertificate { file, for_clients })
}

/// Writes a file that only this user may read, whole or not at all. No other user may write to its
/// directory.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let next = path.with_extension(format!("{}.new", process::id()));
    // A process with the same number may have left one behind.
    let _ = fs::remove_file(&next);
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&next, path)
    };
    write().inspect_err(|_| {
        let _ = fs::remove_file(&next);
    })
}

/// True if a kept file has a certificate for all these names, with time to spare.
fn is_current(text: &str, names: &BTreeSet<String>, unix: u64) -> bool {
    let line = |start: &str| text.lines().find_map(|line| line.strip_prefix(start));
    let has: BTreeSet<&str> = line(NAMES).unwrap_or_default().split(' ').collect();
    let expires = line(EXPIRES).and_then(|text| text.parse::<u64>().ok());
    let is_whole = [CERTIFICATE, PRIVATE_KEY].iter().all(|label| section(text, label).is_some());
    is_whole
        && names.iter().all(|name| has.contains(name.as_str()))
        && expires.is_some_and(|expires| expires > unix + SPARE_S)
}

/// Makes a certificate, and its key: the text of the file.
fn make(names: &BTreeSet<String>, unix: u64) -> Result<String, rcgen::Error> {
    let expires = unix + VALID_S;
    let at = |unix| date_time_ymd(1970, 1, 1) + Duration::from_secs(unix);
    let mut params = CertificateParams::new(names.iter().cloned().collect::<Vec<_>>())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "Regatta, for development");
    params.not_before = at(unix.saturating_sub(CLOCK_LATE_S));
    params.not_after = at(expires);
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    let listed: Vec<&str> = names.iter().map(String::as_str).collect();
    Ok(format!(
        "{NAMES}{}\n{EXPIRES}{expires}\n{}{}",
        listed.join(" "),
        pem(CERTIFICATE, certificate.der()),
        pem(PRIVATE_KEY, key.serialized_der()),
    ))
}

/// Formats a section of PEM (RFC 7468).
fn pem(label: &str, der: &[u8]) -> String {
    let mut room = vec![0; der.len().div_ceil(3) * 4];
    let len = STANDARD.encode_slice(der, &mut room).expect("four letters for three bytes");
    let lines: Vec<_> = room[..len].chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

/// The first section of a file with this label.
fn section<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    let end = format!("-----END {label}-----\n");
    let from = text.find(&format!("-----BEGIN {label}-----\n"))?;
    let len = text[from..].find(&end)? + end.len();
    Some(&text[from..from + len])
}

/// Names and addresses of this machine.
fn names() -> BTreeSet<String> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (ipv4, ipv6) = (read("/proc/net/fib_trie"), read("/proc/net/if_inet6"));
    let host = read("/proc/sys/kernel/hostname").trim().to_ascii_lowercase();
    let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let mut names = BTreeSet::from(["localhost".to_owned()]);
    names.extend(loopback.map(|address| address.to_string()));
    names.extend(is_host_name(&host).then_some(host));
    let addresses = ipv4_addresses(&ipv4).map(IpAddr::from).chain(ipv6_addresses(&ipv6));
    for address in addresses {
        if names.len() < NAMES_MAX {
            names.insert(address.to_string());
        }
    }
    names
}

fn is_host_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let fits = !text.is_empty() && text.len() <= NAME_BYTES_MAX;
    fits && text.bytes().all(allowed) && text.parse::<IpAddr>().is_err()
}

/// Addresses that `/proc/net/fib_trie` has as those of this machine.
fn ipv4_addresses(trie: &str) -> impl Iterator<Item = Ipv4Addr> {
    let pairs = trie.lines().zip(trie.lines().skip(1));
    let own = pairs.filter(|(_, kind)| kind.trim_start().starts_with("/32 host LOCAL"));
    own.filter_map(|(address, _)| address.trim_start().strip_prefix("|-- ")?.parse().ok())
}

/// Addresses of `/proc/net/if_inet6` that are valid on all links and for as long as the machine has
/// them: a temporary address would need another certificate each day.
fn ipv6_addresses(list: &str) -> impl Iterator<Item = IpAddr> {
    const GLOBAL: &str = "00";
    const TEMPORARY: u8 = 0x01;
    list.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        let (scope, flags) = (words.nth(2)?, words.next()?);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        let is_lasting = scope == GLOBAL && flags & TEMPORARY == 0;
        is_lasting.then(|| Ipv6Addr::from(address).into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    const UNIX: u64 = 1_800_000_000;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn at(unix: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(unix)
    }

    #[test]
    fn a_certificate_is_made_once_and_kept() {
        let folder = Folder::new("development");
        let state = folder.join("state/regatta");
        let names = set(&["localhost", "127.0.0.1", "::1"]);
        let made = certificate_in(&state, &names, at(UNIX)).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&state), mode(&made.file)), (0o700, 0o600));
        let text = fs::read_to_string(&made.file).unwrap();
        let public = fs::read_to_string(&made.for_clients).unwrap();
        assert!(public.starts_with("-----BEGIN CERTIFICATE-----\n") && text.contains(&public));
        assert!(!public.contains("PRIVATE KEY") && text.contains("-----BEGIN PRIVATE KEY-----\n"));
        assert!(text.lines().all(|line| line.len() <= 64 || line.starts_with(NAMES)));
        assert_eq!(fs::read_dir(&state).unwrap().count(), 2, "nothing is left behind");
        // An address less, and nearly a year later.
        fs::remove_file(&made.for_clients).unwrap();
        for (names, unix) in
            [(&names, UNIX), (&set(&["localhost"]), UNIX), (&names, UNIX + VALID_S - SPARE_S - 1)]
        {
            let kept = certificate_in(&state, names, at(unix)).unwrap();
            assert_eq!(fs::read_to_string(&kept.file).unwrap(), text);
            assert_eq!(fs::read_to_string(&kept.for_clients).unwrap(), public);
        }
    }

    #[test]
    fn a_certificate_that_does_not_do_is_replaced() {
        let names = set(&["localhost", "192.0.2.7"]);
        let spoils: [fn(&Path); 3] = [
            |_| {},
            |file| fs::write(file, "Names: localhost 192.0.2.7\n").unwrap(),
            |file| fs::remove_file(file).unwrap(),
        ];
        for (spoil, names, unix) in [
            (spoils[0], set(&["localhost", "192.0.2.8"]), UNIX),
            (spoils[0], names.clone(), UNIX + VALID_S - SPARE_S),
            (spoils[1], names.clone(), UNIX),
            (spoils[2], names.clone(), UNIX),
        ] {
            let home = Folder::new("development");
            let folder = home.join("state");
            let made = certificate_in(&folder, &set(&["localhost", "192.0.2.7"]), at(UNIX));
            let made = made.unwrap();
            let before = fs::read_to_string(&made.for_clients).unwrap();
            spoil(&made.file);
            let again = certificate_in(&folder, &names, at(unix)).unwrap();
            let text = fs::read_to_string(&again.file).unwrap();
            assert!(is_current(&text, &names, unix));
            let after = fs::read_to_string(&again.for_clients).unwrap();
            assert!(after != before && text.contains(&after));
        }
    }

    #[test]
    fn root_does_not_write_below_directories_of_others() {
        let folder = Folder::new("development");
        assert!(is_only_of(effective_user(), Path::new("/regatta")).is_ok());
        if effective_user() != 0 {
            return;
        }
        chown(&*folder, Some(65_534), None).unwrap();
        let home = folder.join(".local/state/regatta");
        let fault = is_only_of(0, &home).unwrap_err();
        assert!(matches!(fault, DevelopmentFault::OtherOwner(_, 65_534)), "{fault}");
        assert!(is_only_of(65_534, &home).is_ok());
    }

    #[test]
    fn no_key_is_kept_where_others_can_write() {
        let folder = Folder::new("development");
        let (state, link) = (folder.join("state"), folder.join("link"));
        fs::create_dir(&state).unwrap();
        symlink("state", &link).unwrap();
        for (mode, is_good) in [(0o755, true), (0o775, false), (0o1777, false)] {
            fs::set_permissions(&state, fs::Permissions::from_mode(mode)).unwrap();
            for path in [&state, &link] {
                match certificate_in(path, &set(&["localhost"]), at(UNIX)) {
                    Ok(made) => assert!(is_good && made.file.exists(), "{mode:o}"),
                    Err(fault) => {
                        assert!(!is_good && fault.to_string().contains("chmod go-w"), "{fault}");
                    }
                }
            }
        }
    }

    #[test]
    fn state_is_kept_where_the_environment_says() {
        let folder = |state: Option<&str>, home: Option<&str>| {
            state_folder(state.map(Into::into), home.map(Into::into)).ok()
        };
        assert_eq!(folder(Some("/s"), Some("/h")), Some("/s/regatta".into()));
        assert_eq!(folder(None, Some("/h")), Some("/h/.local/state/regatta".into()));
        assert_eq!(folder(Some("s"), Some("/h")), Some("/h/.local/state/regatta".into()));
        assert_eq!(folder(Some("/a:b"), Some("/h")), None);
        assert_eq!(folder(None, Some("")), None);
    }

    #[test]
    fn addresses_are_those_that_last() {
        let trie = [
            "Main:",
            "  +-- 0.0.0.0/0 3 0 5",
            "     |-- 0.0.0.0",
            "        /0 universe UNICAST",
            "     |-- 192.0.2.2",
            "        /32 host LOCAL",
            "     |-- 192.0.2.255",
            "        /32 link BROADCAST",
        ];
        let trie = trie.join("\n");
        assert_eq!(ipv4_addresses(&trie).collect::<Vec<_>>(), [Ipv4Addr::new(192, 0, 2, 2)]);
        let list = "20010db8000000000000000000000007 02 40 00 80     eth0\n\
                    20010db8000000000000000000000008 02 40 00 01     eth0\n\
                    fe8000000000000000fc00fffe000001 02 40 20 80     eth0\n\
                    00000000000000000000000000000001 01 80 10 80       lo\n";
        let found: Vec<String> = ipv6_addresses(list).map(|it| it.to_string()).collect();
        assert_eq!(found, ["2001:db8::7"]);
        let here = names();
        assert!(["localhost", "127.0.0.1", "::1"].iter().all(|name| here.contains(*name)));
    }

    #[test]
    fn a_reload_makes_no_certificate() {
        let [state, home] = ["XDG_STATE_HOME", "HOME"].map(env::var_os);
        let Ok(folder) = state_folder(state, home) else { return };
        let was_there = folder.exists();
        let mut sources = Sources::default();
        let found = add(&mut sources, false).unwrap();
        assert_eq!((&found.file, folder.exists()), (&folder.join(FILE), was_there));
        let values = [found.file.display().to_string()];
        let mut flags = sources.arguments.flags.iter();
        assert!(flags.any(|flag| flag.key == CERTIFICATE_KEY && flag.values == values));
    }

    #[test]
    fn the_flag_takes_the_place_of_other_addresses() {
        let certificate =
            Flag { key: CERTIFICATE_KEY, name: "--set", values: vec!["a.pem".to_owned()] };
        let mut sources = Sources::default();
        sources.arguments.flags.push(certificate);
        let Err(Failure::Configuration(problems)) = add(&mut sources, true) else {
            panic!("certificates of the owner have precedence");
        };
        assert!(problems[0].to_string().starts_with("--https: tls.certificate"), "{problems:?}");
    }
}
