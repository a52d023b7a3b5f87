//! Addresses to listen on, from the configuration.
use crate::{
    config::raw::{Problem, Said},
    listens::{LISTENS, listen_key},
    messages,
};
use regatta_arch::{
    layout::{ADDRESSES_MAX, ListenPlace, class_at},
    options::{Settings, listed_addresses},
};
use regatta_http::{forwarded::Naming, prefix::Prefix};
pub(crate) use regatta_sys::socket::Place;
use regatta_sys::{socket::UNIX, unix::PATH_BYTES_MAX};
use std::{
    collections::BTreeMap,
    fmt, io,
    net::{SocketAddr, ToSocketAddrs, UdpSocket},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Field in which trusted proxies name the client of each request.
pub(crate) fn naming(settings: &Settings) -> Option<Naming> {
    match settings.text("server.forwarded") {
        "x-forwarded-for" => Some(Naming::XForwardedFor),
        "forwarded" => Some(Naming::Forwarded),
        _ => None,
    }
}

/// Lists addresses and paths of the listeners, in the order of the configuration: those in the
/// clear, then those with TLS.
pub(super) fn addresses(said: &Said, problems: &mut Vec<Problem>) -> Vec<ListenPlace> {
    let texts = |key: &str| said.settings.list(key).len();
    let listed = listed_addresses(&said.settings);
    // Of several lists, the longest is at fault.
    let longest = LISTENS.iter().rev().max_by_key(|(key, _)| texts(key));
    let longest = longest.map_or(LISTENS[0].0, |(key, _)| *key);
    if listed == 0 {
        let message = "there is no address to listen on";
        problems.push(said.problem(messages::NO_ADDRESS, longest, message));
    }
    if listed > ADDRESSES_MAX {
        let message = format!("{listed} addresses, and there may be {ADDRESSES_MAX}");
        problems.push(said.problem(messages::TOO_MANY, longest, &message).hint("listen on fewer"));
    }
    let mut addresses: Vec<ListenPlace> = Vec::new();
    for &(key, class) in &LISTENS {
        for text in said.settings.list(key) {
            match places(text) {
                Ok(found) => {
                    for place in found {
                        add(said, key, ListenPlace { place, class }, &mut addresses, problems);
                    }
                }
                Err(fault) => problems.push(no_address(said, key, text, fault)),
            }
        }
    }
    if listed <= ADDRESSES_MAX && addresses.len() > ADDRESSES_MAX {
        let message = format!("{} addresses, and there may be {ADDRESSES_MAX}", addresses.len());
        problems.push(
            said.problem(messages::TOO_MANY, longest, &message)
                .hint("a name has several: list addresses"),
        );
    }
    addresses
}

/// Adds an address from this option, unless it is there already.
fn add(
    said: &Said,
    key: &str,
    listen: ListenPlace,
    addresses: &mut Vec<ListenPlace>,
    problems: &mut Vec<Problem>,
) {
    let place = &listen.place;
    let other = class_at(place, addresses).filter(|_| place.is_definite());
    match other {
        None => addresses.push(listen),
        Some(class) if class == listen.class => {
            let message = format!("{place} is listed twice");
            problems.push(said.problem(messages::ADDRESS_TWICE, key, &message));
        }
        Some(class) => {
            let other = listen_key(class);
            let message = format!("{place} is in {other} as well ({})", said.place(other));
            let problem = said.problem(messages::ADDRESS_TWICE, key, &message);
            problems.push(problem.hint("one address has one kind of connections: choose a list"));
        }
    }
}

/// Finds addresses with TLS that lack what they need.
pub(super) fn uncertified(said: &Said, problems: &mut Vec<Problem>) {
    let is_empty = |key: &str| said.settings.list(key).is_empty();
    let mut lacks = |key: &str, message: &str, hint: &str| {
        problems.push(said.problem(messages::TLS_INCOMPLETE, key, message).hint(hint));
    };
    for (key, _) in LISTENS[1..].iter().filter(|(key, _)| !is_empty(key)) {
        if is_empty("tls.certificate") {
            let hint = "name them in tls.certificate, as in \"chain.pem:key.pem\"";
            lacks(key, "connections need a certificate and its key", hint);
        }
    }
    let key = "tls.client_listen";
    if !is_empty(key) && said.settings.text("tls.client_ca").is_empty() {
        let hint = "name it in tls.client_ca; or use tls.listen, where clients show none";
        lacks(key, "certificates of clients need an authority that issues them", hint);
    }
}

/// Parses `unix:/path`, or `host:port` with all addresses of the host name.
fn places(text: &str) -> Result<Vec<Place>, AddressFault> {
    match is_path(text) {
        true => place(text).map(|place| vec![place]),
        false => Ok(of_this_machine(all_addresses(text)?).into_iter().map(Place::Inet).collect()),
    }
}

/// True for the path of a Unix socket.
fn is_path(text: &str) -> bool {
    text.starts_with(UNIX) || text.starts_with('/')
}

/// Port of the first address with TLS, as configured: 0 if the kernel chooses it. Unix sockets have
/// none.
pub(crate) fn tls_port(settings: &Settings) -> Option<u16> {
    let port = |text: &String| match is_path(text) {
        true => None,
        false => text.rsplit_once(':')?.1.parse().ok(),
    };
    settings.list("tls.listen").iter().find_map(port)
}

/// Selects those addresses of a name that this machine has. IPv6 may be off, and its loopback
/// address still in /etc/hosts.
fn of_this_machine(mut all: Vec<SocketAddr>) -> Vec<SocketAddr> {
    // Port 0 is any free port, which two addresses cannot have in common.
    if all.first().is_some_and(|first| first.port() == 0) {
        all.truncate(1);
    }
    let is_here = |address: &SocketAddr| UdpSocket::bind((address.ip(), 0)).is_ok();
    if all.len() > 1 && all.iter().any(is_here) {
        all.retain(is_here);
    }
    all
}

/// Finds faulty prefixes of trusted proxies.
pub(super) fn trusted(said: &Said, problems: &mut Vec<Problem>) {
    let key = "server.trusted";
    for text in said.settings.list(key) {
        if text != UNIX
            && let Err(fault) = text.parse::<Prefix>()
        {
            problems.push(said.problem(messages::BAD_VALUE, key, &format!("\"{text}\": {fault}")));
        }
    }
    let names = [
        ("server.proxy_protocol", said.settings.flag("server.proxy_protocol")),
        ("server.forwarded", naming(&said.settings).is_some()),
    ];
    for (option, _) in
        names.iter().filter(|(_, names)| *names && said.settings.list(key).is_empty())
    {
        let problem =
            said.problem(messages::NO_TRUSTED_PROXY, option, "no peer is trusted to name clients");
        problems.push(problem.hint("list your proxies in server.trusted"));
    }
}

/// Warns if every connection over a Unix socket is closed: no peer there is trusted with the
/// required header.
pub(super) fn untrusted(said: &Said, listen: &[ListenPlace]) -> Option<Problem> {
    let key = "server.trusted";
    let has_path = listen.iter().any(|listen| matches!(listen.place, Place::Unix(_)));
    let trusts = said.settings.list(key).iter().any(|text| text == UNIX);
    (has_path && !trusts && said.settings.flag("server.proxy_protocol")).then(|| {
        let message = "all connections over Unix sockets are closed: nobody there is trusted";
        said.problem(messages::NO_TRUSTED_PROXY, key, message).hint("list unix: with the others")
    })
}

/// Permissions of the files of Unix sockets.
pub(crate) fn socket_mode(settings: &Settings) -> u32 {
    // The configuration has been checked.
    u32::from_str_radix(settings.text(SOCKET_MODE), 8).unwrap_or(0o600)
}

const SOCKET_MODE: &str = "server.socket_mode";

/// Finds faulty permissions.
pub(super) fn permissions(said: &Said, problems: &mut Vec<Problem>) {
    let text = said.settings.text(SOCKET_MODE);
    let is_mode = matches!(text.len(), 3 | 4) && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_mode || !matches!(u32::from_str_radix(text, 8), Ok(0..=0o777)) {
        let problem = said.problem(
            messages::BAD_VALUE,
            SOCKET_MODE,
            &format!("\"{text}\" is no mode of a file"),
        );
        problems.push(problem.hint("as in 0660, for its owner and group"));
    }
}

/// Fault of an option that names an address.
pub(super) fn no_address(said: &Said, key: &str, text: &str, fault: AddressFault) -> Problem {
    let found = said.problem(messages::BAD_ADDRESS, key, &format!("\"{text}\": {}", fault.message));
    match fault.hint {
        Some(hint) => found.hint(hint),
        None => found,
    }
}

/// Parses `host:port` or `unix:/path`.
pub(crate) fn place(text: &str) -> Result<Place, AddressFault> {
    let Some(path) = text.strip_prefix(UNIX) else {
        return match text.starts_with('/') {
            true => Err(AddressFault {
                message: "the path of a Unix socket has \"unix:\" before it".to_owned(),
                hint: Some(format!("as in {UNIX}{text}")),
            }),
            false => address(text).map(Place::Inet),
        };
    };
    if !path.starts_with('/') {
        return Err(AddressFault {
            message: "the path of a Unix socket begins with a slash".to_owned(),
            hint: Some(format!("as in {UNIX}/run/{}", path.trim_start_matches("./"))),
        });
    }
    if path.len() > PATH_BYTES_MAX {
        return Err(AddressFault {
            message: format!("the path has {} bytes, and may have {PATH_BYTES_MAX}", path.len()),
            hint: Some("the kernel keeps no more of it: choose a shorter one".to_owned()),
        });
    }
    Ok(Place::Unix(path.into()))
}

/// Fault of a text that is no address to listen on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressFault {
    /// Description of the fault.
    pub message: String,
    /// Probable intention.
    pub hint: Option<String>,
}

impl fmt::Display for AddressFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.hint {
            Some(hint) => write!(f, "{}\n  hint: {hint}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Parses an address: `127.0.0.1:8080`, `[::1]:8080`, `localhost:0`. A host name is looked up; the
/// first of several addresses is used.
///
/// The text is no address; the fault names the probable intention.
pub fn address(text: &str) -> Result<SocketAddr, AddressFault> {
    // Never empty.
    all_addresses(text).map(|all| all[0])
}

/// Lists all addresses that a text names, each once; at least one.
fn all_addresses(text: &str) -> Result<Vec<SocketAddr>, AddressFault> {
    let fault =
        |message: &str, hint: Option<String>| AddressFault { message: message.to_owned(), hint };
    if let Ok(address) = text.parse() {
        return Ok(vec![address]);
    }
    if text.parse::<u16>().is_ok() {
        let hint = format!("127.0.0.1:{text} serves this machine, 0.0.0.0:{text} every network");
        return Err(fault("an address has a host and a port", Some(hint)));
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse() {
        let hint = SocketAddr::new(ip, 8080);
        return Err(fault("the port is missing", Some(format!("as in {hint}"))));
    }
    if text.contains('/') || text.starts_with("unix:") {
        let hint = "as in 127.0.0.1:8080, and not as a URL";
        return Err(fault("an address has a host and a port", Some(hint.to_owned())));
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return Err(fault("an address has a host and a port", Some(format!("as in {text}:8080"))));
    };
    if port.parse::<u16>().is_err() {
        return Err(fault("the port is not a number from 0 to 65535", None));
    }
    if host.is_empty() || host == "*" {
        let hint = format!("0.0.0.0:{port} is every IPv4 network, [::]:{port} every IPv6 one");
        return Err(fault("the host is missing", Some(hint)));
    }
    if host.contains(':') {
        let hint = Some(format!("as in [{host}]:{port}"));
        return Err(fault("IPv6 addresses are written in brackets", hint));
    }
    // The C library would load the name service, which a static program cannot.
    if cfg!(target_feature = "crt-static") {
        let hint = "as in 127.0.0.1:8080; a static program cannot look up names".to_owned();
        return Err(fault("the host is not an address", Some(hint)));
    }
    let all = look_up(text);
    let all =
        all.map_err(|error| fault(&format!("the host cannot be looked up: {error}"), None))?;
    if all.is_empty() { Err(fault("the host has no address", None)) } else { Ok(all) }
}

/// Host names with ports, and the addresses of each.
pub(crate) type Names = BTreeMap<String, Vec<SocketAddr>>;

/// Names that this process has looked up, or that a trial has looked up for it.
static NAMES: Mutex<Names> = Mutex::new(Names::new());

/// Returns the names that this process knows.
pub(crate) fn names() -> Names {
    known().clone()
}

/// Adds names that a trial has looked up: a master must not wait for a name service.
pub(crate) fn learn(names: Names) {
    known().extend(names);
}

fn known() -> MutexGuard<'static, Names> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Looks up the addresses of a name, each once.
fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    if let Some(all) = known().get(name) {
        return Ok(all.clone());
    }
    let mut all: Vec<SocketAddr> = Vec::new();
    for address in name.to_socket_addrs()? {
        if !all.contains(&address) {
            all.push(address);
        }
    }
    known().insert(name.to_owned(), all.clone());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_explained() {
        const NO_ADDRESS: &str = "as in 127.0.0.1:8080, and not as a URL";
        for (text, expect) in [
            ("127.0.0.1:8080", Ok("127.0.0.1:8080")),
            ("[::1]:0", Ok("[::1]:0")),
            ("8080", Err("127.0.0.1:8080 serves this machine, 0.0.0.0:8080 every network")),
            (":80", Err("0.0.0.0:80 is every IPv4 network, [::]:80 every IPv6 one")),
            ("*:80", Err("0.0.0.0:80 is every IPv4 network, [::]:80 every IPv6 one")),
            ("::1:80", Err("as in [::1:80]:8080")),
            ("fe80::1::2:80", Err("as in [fe80::1::2]:80")),
            ("::1", Err("as in [::1]:8080")),
            ("[::1]", Err("as in [::1]:8080")),
            ("10.0.0.1", Err("as in 10.0.0.1:8080")),
            ("unix:/run/x", Err(NO_ADDRESS)),
            ("unix:x", Err(NO_ADDRESS)),
            ("http://localhost:80", Err(NO_ADDRESS)),
            ("/run/x", Err(NO_ADDRESS)),
            ("localhost", Err("as in localhost:8080")),
            ("127.0.0.1:99999", Err("")),
            ("127.0.0.1:http", Err("")),
        ] {
            let got = address(text);
            let got = got.map(|got| got.to_string());
            let got = got.map_err(|fault| fault.hint.unwrap_or_default());
            assert_eq!(got.as_deref().map_err(String::as_str), expect, "{text}");
        }
        assert!(address("localhost:80").unwrap().ip().is_loopback());
    }

    #[test]
    fn a_name_is_listened_on_at_each_address_that_this_machine_has() {
        let all = |texts: &[&str]| -> Vec<SocketAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        // 240.0.0.0/4 is reserved: no machine has an address of it (RFC 1112 §4).
        for (found, expected) in [
            (&["127.0.0.1:80", "127.0.0.2:80"][..], &["127.0.0.1:80", "127.0.0.2:80"][..]),
            (&["240.0.0.1:80", "127.0.0.1:80"], &["127.0.0.1:80"]),
            (&["240.0.0.1:80", "240.0.0.2:80"], &["240.0.0.1:80", "240.0.0.2:80"]),
            (&["127.0.0.1:0", "127.0.0.2:0"], &["127.0.0.1:0"]),
        ] {
            assert_eq!(of_this_machine(all(found)), all(expected), "{found:?}");
        }
    }

    #[test]
    fn places_are_addresses_or_paths() {
        for text in ["127.0.0.1:9090", "[::1]:0", "unix:/run/regatta/admin"] {
            assert_eq!(place(text).unwrap().to_string(), text);
        }
        let hint = |text: &str| place(text).unwrap_err().hint.unwrap();
        assert_eq!(hint("unix:./admin"), "as in unix:/run/admin");
        assert_eq!(hint("/run/admin"), "as in unix:/run/admin");
        let long = format!("unix:/{}", "x".repeat(PATH_BYTES_MAX));
        assert!(place(&long[..long.len() - 1]).is_ok());
        assert!(hint(&long).contains("shorter"));
        assert!(hint("9090").contains("127.0.0.1:9090"), "{}", hint("9090"));
    }
}
