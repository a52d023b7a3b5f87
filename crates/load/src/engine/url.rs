//! URL of a load, and the way to its server: addresses, names resolved by hand, Unix sockets.

use clap::Args;
use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

/// Options that say where connections go, and not what the server is asked.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteOptions {
    /// Another address of the server; connections use all addresses in turn; may be repeated.
    #[arg(long, value_name = "ADDR")]
    pub also: Vec<SocketAddr>,
    /// Address of a name, as in curl, in place of its DNS entries; may be repeated.
    #[arg(long, value_name = "HOST:PORT:ADDR", value_parser = parse_resolved)]
    pub resolve: Vec<Resolved>,
    /// Connect to this Unix socket; the URL then only names the host and the target.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["also", "resolve", "ipv4", "ipv6"])]
    pub unix_socket: Option<PathBuf>,
    /// Use IPv4 addresses of the host only.
    #[arg(long, short = '4', conflicts_with = "ipv6")]
    pub ipv4: bool,
    /// Use IPv6 addresses of the host only.
    #[arg(long, short = '6')]
    pub ipv6: bool,
}

/// An address that a name has for this load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    pub host: String,
    pub port: u16,
    pub ip: IpAddr,
}

fn parse_resolved(text: &str) -> Result<Resolved, String> {
    let parts = || {
        let (host, rest) = text.split_once(':')?;
        let (port, ip) = rest.split_once(':')?;
        let ip = ip.strip_prefix('[').and_then(|ip| ip.strip_suffix(']')).unwrap_or(ip);
        let (port, ip) = (port.parse().ok()?, ip.parse().ok()?);
        (!host.is_empty()).then(|| Resolved { host: host.to_owned(), port, ip })
    };
    parts().ok_or_else(|| "expected HOST:PORT:ADDR, as in example.org:80:192.0.2.1".to_owned())
}

impl RouteOptions {
    /// Addresses of the server, in the order in which connections use them; at least one.
    pub(super) fn destinations(&self, url: &Url) -> Result<Vec<Destination>, String> {
        if let Some(path) = &self.unix_socket {
            return Ok(vec![Destination::Unix(path.clone())]);
        }
        let all = [url.address(self)?].into_iter().chain(self.also.iter().copied());
        Ok(all.map(Destination::Inet).collect())
    }

    /// Problem of the values, if there is one.
    pub(super) fn problem(&self) -> Option<String> {
        let path = self.unix_socket.as_ref()?;
        let (len, most) = (path.as_os_str().len(), UNIX_PATH_BYTES_MAX);
        (!(1..=most).contains(&len)).then(|| {
            format!(
                "--unix-socket {}: a path of {len} bytes; they have 1 to {most}",
                path.display()
            )
        })
    }
}

/// Bytes of the path of a Unix socket at most (unix(7)).
const UNIX_PATH_BYTES_MAX: usize = 107;

/// Address to which connections go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Inet(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// Time that each address of a name is tried.
const PROBE_TIME_MAX: Duration = Duration::from_secs(1);
/// Ports of URLs that name none, http and https.
const PORTS: [u16; 2] = [80, 443];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub is_https: bool,
    /// Host and port as given: the Host field.
    pub authority: String,
    /// Path and query.
    pub target: String,
}

impl Url {
    /// Reads `http[s]://HOST[:PORT][/TARGET]`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let secure = text.strip_prefix("https://");
        let is_https = secure.is_some();
        let rest = secure.or(text.strip_prefix("http://")).unwrap_or(text);
        let (rest, _fragment) = rest.split_once('#').unwrap_or((rest, ""));
        if let Some((scheme, _)) = rest.split_once("://")
            && !scheme.contains(['/', '?'])
        {
            return Err(format!("{text:?}: {scheme} is not spoken here, only http and https"));
        }
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let target = if target.starts_with('/') { target.into() } else { format!("/{target}") };
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_graphic());
        if authority.is_empty() || !plain(authority) || !plain(&target) || authority.contains('@') {
            let hint = if text.starts_with('/') { ": say which host" } else { "" };
            return Err(format!("{text:?} is not http[s]://HOST[:PORT][/TARGET]{hint}"));
        }
        let url = Self { is_https, authority: authority.to_owned(), target };
        if url.host_and_port().1.is_none() {
            return Err(format!("{text:?}: {authority} has a port that is no number to 65535"));
        }
        Ok(url)
    }

    /// The server's address. Of several that its name has, the first that takes a connection, or
    /// the first if none does.
    fn address(&self, route: &RouteOptions) -> Result<SocketAddr, String> {
        let all = self.addresses(route)?;
        let answers = |to: &&SocketAddr| TcpStream::connect_timeout(to, PROBE_TIME_MAX).is_ok();
        let first = match all.as_slice() {
            // A server that counts connections sees no other ones.
            [_] => None,
            several => several.iter().find(answers),
        };
        let found = first.or(all.first()).copied();
        found.ok_or_else(|| {
            let family = match (route.ipv4, route.ipv6) {
                (true, _) => " IPv4",
                (_, true) => " IPv6",
                _ => "",
            };
            format!("{} has no{family} address", self.authority)
        })
    }

    fn addresses(&self, route: &RouteOptions) -> Result<Vec<SocketAddr>, String> {
        let (host, port) = self.host_and_port();
        let given = route
            .resolve
            .iter()
            .filter(|given| given.host.eq_ignore_ascii_case(host) && Some(given.port) == port);
        let given: Vec<SocketAddr> = given.map(|g| SocketAddr::new(g.ip, g.port)).collect();
        let found = if given.is_empty() { self.look_up()? } else { given };
        let mut all: Vec<SocketAddr> = Vec::new();
        for address in found {
            let wanted = if address.is_ipv4() { !route.ipv6 } else { !route.ipv4 };
            if wanted && !all.contains(&address) {
                all.push(address);
            }
        }
        Ok(all)
    }

    fn look_up(&self) -> Result<Vec<SocketAddr>, String> {
        let port = self.default_port();
        let with_port = self.authority.to_socket_addrs();
        let found = with_port.or_else(|_| format!("{}:{port}", self.authority).to_socket_addrs());
        found.map(Iterator::collect).map_err(|error| format!("{}: {error}", self.authority))
    }

    fn default_port(&self) -> u16 {
        PORTS[usize::from(self.is_https)]
    }

    pub(super) const fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// Scheme, host and port, for comparison.
    pub(super) fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority.to_ascii_lowercase())
    }

    /// Host without brackets, and port; `None` for a port that is none.
    pub(super) fn host_and_port(&self) -> (&str, Option<u16>) {
        let (host, port) = match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()),
            _ => (self.authority.as_str(), Some(self.default_port())),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        (bare.unwrap_or(host), port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_host_and_a_target() {
        for (text, parts) in [
            ("http://127.0.0.1:8080/a/b?c=d#e", Some(("127.0.0.1:8080", "/a/b?c=d"))),
            ("http://localhost", Some(("localhost", "/"))),
            ("127.0.0.1:80", Some(("127.0.0.1:80", "/"))),
            ("http://[::1]:8080/", Some(("[::1]:8080", "/"))),
            ("http://127.0.0.1:80?a=b", Some(("127.0.0.1:80", "/?a=b"))),
            ("http://127.0.0.1:80?to=/x/y", Some(("127.0.0.1:80", "/?to=/x/y"))),
            ("http://127.0.0.1:80#/x", Some(("127.0.0.1:80", "/"))),
            ("127.0.0.1:80/x?to=http://h/", Some(("127.0.0.1:80", "/x?to=http://h/"))),
            ("ftp://x/", None),
            ("https://localhost/x", Some(("localhost", "/x"))),
            ("https:localhost", None),
            ("http:///x", None),
            ("http://user@host/", None),
            ("http://host/a b", None),
            ("http://host/\r\nX: y", None),
            ("", None),
        ] {
            let url = Url::parse(text).ok();
            let found = url.as_ref().map(|url| (url.authority.as_str(), url.target.as_str()));
            assert_eq!(found, parts, "{text}");
        }
        let route = RouteOptions::default();
        let url = Url::parse("http://127.0.0.1/x").unwrap();
        assert_eq!(url.address(&route).unwrap().to_string(), "127.0.0.1:80");
        assert_eq!(Url::parse("[::1]").unwrap().address(&route).unwrap().port(), 80);
    }

    #[test]
    fn names_are_resolved_as_told() {
        let named = |host: &str, port, ip: &str| Resolved {
            host: host.to_owned(),
            port,
            ip: ip.parse().unwrap(),
        };
        for (text, found) in [
            ("a.test:80:192.0.2.1", Some(named("a.test", 80, "192.0.2.1"))),
            ("a.test:443:::1", Some(named("a.test", 443, "::1"))),
            ("a.test:443:[2001:db8::1]", Some(named("a.test", 443, "2001:db8::1"))),
            ("a.test:80", None),
            (":80:192.0.2.1", None),
            ("a.test:http:192.0.2.1", None),
            ("a.test:80:b.test", None),
        ] {
            assert_eq!(parse_resolved(text).ok(), found, "{text}");
        }
        let resolve = vec![named("a.test", 80, "::1"), named("A.test", 80, "127.0.0.9")];
        for (url, ipv4, expected) in [
            ("http://a.test/", true, Some("127.0.0.9:80")),
            ("http://A.TEST:80/", true, Some("127.0.0.9:80")),
            ("http://[::1]:80/", true, None),
            ("http://[::1]:80/", false, Some("[::1]:80")),
        ] {
            let route = RouteOptions { resolve: resolve.clone(), ipv4, ..Default::default() };
            let found = Url::parse(url).unwrap().address(&route).map(|found| found.to_string());
            assert_eq!(found.ok().as_deref(), expected, "{url}");
        }
        for (authority, expected) in [
            ("a.test", ("a.test", Some(80))),
            ("a.test:81", ("a.test", Some(81))),
            ("[::1]", ("::1", Some(80))),
            ("[::1]:81", ("::1", Some(81))),
            ("https://a.test", ("a.test", Some(443))),
            ("https://[::1]:80", ("::1", Some(80))),
        ] {
            let url = Url::parse(authority).unwrap();
            assert_eq!(url.host_and_port(), expected, "{authority}");
        }
    }

    #[test]
    fn a_unix_socket_needs_no_name() {
        let url = Url::parse("http://no.such.host.invalid/").unwrap();
        let route =
            |path: &str| RouteOptions { unix_socket: Some(path.into()), ..RouteOptions::default() };
        let found = route("/run/x.sock").destinations(&url).unwrap();
        assert_eq!(found, [Destination::Unix("/run/x.sock".into())]);
        assert_eq!(route("/run/x.sock").problem(), None);
        assert!(route(&"x".repeat(108)).problem().unwrap().contains("108 bytes"));
    }
}
