//! The client that a proxy names with each request: in `X-Forwarded-For`, as most do, or in
//! `Forwarded` (RFC 7239).
use crate::{Fields, field::members};
use core::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::from_utf8,
};

/// The field in which proxies name clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// `X-Forwarded-For`: addresses.
    XForwardedFor,
    /// `Forwarded`: elements of pairs; the pair `for` has the address (RFC 7239 §5.2).
    Forwarded,
}

impl Naming {
    /// The field's name.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::XForwardedFor => "X-Forwarded-For",
            Self::Forwarded => "Forwarded",
        }
    }

    /// The client of a request that a trusted peer has sent: the last address that is not trusted.
    /// If all are trusted it is the first. `None` if no address is named, or the last name is not
    /// an address: then only the peer is known. A missing port is 0.
    ///
    /// Every proxy adds its own peer behind the names that it received. A name from an untrusted
    /// peer, or an unreadable one, therefore makes all names before it worthless.
    #[must_use]
    pub fn client(
        self,
        fields: &Fields<'_>,
        is_trusted: impl Fn(IpAddr) -> bool,
    ) -> Option<SocketAddr> {
        let step = |client: Option<SocketAddr>, named: Option<SocketAddr>| match named {
            Some(named) if is_trusted(named.ip()) => client.or(Some(named)),
            other => other,
        };
        let lines = fields.iter().filter(|line| line.name.eq_ignore_ascii_case(self.field()));
        lines.fold(None, |client, line| match self {
            Self::XForwardedFor => members(line.value).map(address_of).fold(client, &step),
            Self::Forwarded => {
                // An open quote of the client would hide the name that the proxy added behind it.
                let quotes = unquoted(line.value).last().is_none_or(|(_, quoted)| !quoted);
                let elements = parts(line.value, b',', quotes);
                elements.map(|element| named_in(element, quotes)).fold(client, &step)
            }
        })
    }
}

/// The address in the pair `for` of an element.
fn named_in(element: &[u8], quotes: bool) -> Option<SocketAddr> {
    let value = parts(element, b';', quotes).find_map(|pair| {
        let (name, value) = pair.split_at_checked(b"for=".len())?;
        name.eq_ignore_ascii_case(b"for=").then_some(value)
    })?;
    let inner = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    address_of(inner.unwrap_or(value))
}

/// The parts of a list, without whitespace around them and without empty ones; a separator in
/// quotes separates nothing, where there are `quotes`.
fn parts(list: &[u8], separator: u8, quotes: bool) -> impl Iterator<Item = &[u8]> {
    let mut bytes = unquoted(list);
    let parts = list.split(move |_| {
        bytes.next().is_some_and(|(byte, quoted)| byte == separator && !(quoted && quotes))
    });
    parts.map(<[u8]>::trim_ascii).filter(|part| !part.is_empty())
}

/// Each byte, and whether a quoted string continues behind it (RFC 9110 §5.6.4).
fn unquoted(text: &[u8]) -> impl Iterator<Item = (u8, bool)> {
    let (mut quoted, mut escaped) = (false, false);
    text.iter().map(move |&byte| {
        (quoted, escaped) = match byte {
            _ if escaped => (quoted, false),
            b'"' => (!quoted, false),
            b'\\' => (quoted, quoted),
            _ => (quoted, false),
        };
        (byte, quoted)
    })
}

/// An address, perhaps with a port, as proxies write it.
fn address_of(word: &[u8]) -> Option<SocketAddr> {
    let text = from_utf8(word).ok()?;
    let bare = |text: &str| text.parse().ok().map(|ip| SocketAddr::new(ip, 0));
    let in_brackets = || {
        let inside = text.strip_prefix('[')?.strip_suffix(']')?;
        inside.parse::<Ipv6Addr>().ok().map(|ip| SocketAddr::new(ip.into(), 0))
    };
    let said = bare(text).or_else(|| text.parse().ok()).or_else(in_brackets)?;
    // The unspecified address is no client's, and stands for none elsewhere.
    (!said.ip().is_unspecified()).then(|| SocketAddr::new(said.ip().to_canonical(), said.port()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prefix::{Prefix, any_contains};
    use alloc::{format, vec::Vec};

    fn check(naming: Naming, lines: &[&str], expected: Option<&str>) {
        let trusted: [Prefix; 2] = ["10.0.0.0/8", "::1"].map(|text| text.parse().unwrap());
        let name = naming.field().to_ascii_uppercase();
        let lines = lines.iter().map(|line| format!("A: b\r\n{name}: {line}\r\n"));
        let section: Vec<u8> = lines.flat_map(|line| line.into_bytes()).collect();
        let found = naming.client(&Fields::new(&section), |ip| any_contains(&trusted, ip));
        let expected = expected.map(|text| match text.parse() {
            Ok(ip) => SocketAddr::new(ip, 0),
            Err(_) => text.parse().unwrap(),
        });
        assert_eq!(found, expected, "{}", section.escape_ascii());
    }

    #[test]
    fn the_client_is_the_last_who_is_not_trusted() {
        for (lines, expected) in [
            (&[][..], None),
            (&[""], None),
            (&["198.51.100.1"], Some("198.51.100.1")),
            // The client's own entries come first.
            (&["203.0.113.9, 198.51.100.1"], Some("198.51.100.1")),
            (&["203.0.113.9", "198.51.100.1"], Some("198.51.100.1")),
            (&["203.0.113.9, 198.51.100.1 , 10.0.0.2,,"], Some("198.51.100.1")),
            (&["203.0.113.9", "198.51.100.1,10.0.0.2", "::1"], Some("198.51.100.1")),
            // All of them are trusted.
            (&["10.0.0.3, 10.0.0.2"], Some("10.0.0.3")),
            // Unreadable: whoever passed it on is the last that is known.
            (&["198.51.100.1, unknown"], None),
            (&["198.51.100.1, ::"], None),
            (&["198.51.100.1, _hidden, 10.0.0.3, 10.0.0.2"], Some("10.0.0.3")),
            (&["unknown, 198.51.100.1"], Some("198.51.100.1")),
            // With ports, as some proxies write.
            (&["198.51.100.1:4711"], Some("198.51.100.1:4711")),
            (&["[2001:db8::1]:4711"], Some("[2001:db8::1]:4711")),
            (&["[2001:db8::1]"], Some("2001:db8::1")),
            (&["2001:db8::1"], Some("2001:db8::1")),
            (&["::ffff:198.51.100.1"], Some("198.51.100.1")),
        ] {
            check(Naming::XForwardedFor, lines, expected);
        }
    }

    #[test]
    fn the_pair_for_names_the_client() {
        for (lines, expected) in [
            (&["for=198.51.100.1"][..], Some("198.51.100.1")),
            (&["For=\"[2001:db8::1]:4711\";proto=https"], Some("[2001:db8::1]:4711")),
            (&["proto=http; FOR=198.51.100.1 ;by=10.0.0.1"], Some("198.51.100.1")),
            (&["for=203.0.113.9, for=198.51.100.1, for=10.0.0.2"], Some("198.51.100.1")),
            (&["for=203.0.113.9", "for=\"198.51.100.1\""], Some("198.51.100.1")),
            (&["for=198.51.100.1;host=\"a,b;for=203.0.113.9\""], Some("198.51.100.1")),
            (&["for=198.51.100.1;host=\"a\\\",for=203.0.113.9\""], Some("198.51.100.1")),
            // Not named by an address, or not named at all.
            (&["for=203.0.113.9, for=unknown"], None),
            (&["for=203.0.113.9, for=_a1;proto=http"], None),
            (&["for=203.0.113.9, proto=https"], None),
            (&["for =198.51.100.1"], None),
            // A quote of the client's does not hide what the proxy says.
            (&["for=\", for=198.51.100.1"], Some("198.51.100.1")),
            (&["for=\"\\, for=\"[2001:db8::1]\""], Some("2001:db8::1")),
            (&["for=203.0.113.9;a=\"", "for=198.51.100.1"], Some("198.51.100.1")),
        ] {
            check(Naming::Forwarded, lines, expected);
        }
    }
}
