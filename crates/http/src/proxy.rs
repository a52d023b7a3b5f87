//! The PROXY protocol, versions 1 and 2 (haproxy.org, `proxy-protocol.txt`): a load balancer's
//! header on the client, before the client's own bytes.
use core::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    str::{FromStr, from_utf8},
};
use memchr::memchr;

/// The longest header of version 1, with its CRLF, bytes (§2.1).
pub const TEXT_BYTES_MAX: usize = 107;
/// The longest header accepted, bytes: every first segment has room for it (§2.2).
pub const HEADER_BYTES_MAX: usize = 536;

/// First bytes of a header of version 1.
const TEXT_START: &[u8] = b"PROXY ";
/// First bytes of a header of version 2: no HTTP request begins so.
const BINARY_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The fixed part of version 2: the beginning, version and command, family, length.
const BINARY_FIXED_BYTES: usize = 16;

/// A whole header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// The client; `None` if the header names none, or marks the connection as the sender's own:
    /// then the peer is the client.
    pub source: Option<SocketAddr>,
    /// Length of the header, bytes. The client's bytes follow it.
    pub bytes: usize,
}

/// Reason why bytes are no header. More bytes do not make them one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProxyFault {
    /// Another beginning than a header has.
    Missing,
    /// More bytes than a header may have.
    TooLong,
    /// The beginning of a header, with a wrong continuation.
    Malformed,
}

impl fmt::Display for ProxyFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "no PROXY header",
            Self::TooLong => "PROXY header too long",
            Self::Malformed => "malformed PROXY header",
        })
    }
}

/// Reads the header that `bytes` begin with: `None` if they may be the beginning of one. Call it
/// again with more, from the start.
///
/// Version 1 is read strictly: one space between words, numbers without leading zeros. In version 2
/// everything behind the addresses is skipped; its checksum would repeat TCP's work.
///
/// # Errors
/// The bytes are no header.
pub fn parse(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyFault> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') => text(bytes),
        Some(_) => binary(bytes),
    }
}

/// `Some` if `bytes` begin with `start`; `None` if they end before that is decided.
fn starts(bytes: &[u8], start: &[u8]) -> Result<Option<()>, ProxyFault> {
    let len = bytes.len().min(start.len());
    match bytes[..len] == start[..len] {
        false => Err(ProxyFault::Missing),
        true => Ok((len == start.len()).then_some(())),
    }
}

fn text(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyFault> {
    if starts(bytes, TEXT_START)?.is_none() {
        return Ok(None);
    }
    let line = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    let Some(end) = memchr(b'\n', line) else {
        let is_full = line.len() == TEXT_BYTES_MAX;
        return if is_full { Err(ProxyFault::TooLong) } else { Ok(None) };
    };
    let words = line[TEXT_START.len()..end].strip_suffix(b"\r").ok_or(ProxyFault::Malformed)?;
    let header = |source| Ok(Some(ProxyHeader { source, bytes: end + 1 }));
    // Words behind it must be ignored (§2.1).
    if words == b"UNKNOWN" || words.starts_with(b"UNKNOWN ") {
        return header(None);
    }
    let words = from_utf8(words).map_err(|_| ProxyFault::Malformed)?;
    let source = match words.split_once(' ') {
        Some(("TCP4", rest)) => source_of::<Ipv4Addr>(rest),
        Some(("TCP6", rest)) => source_of::<Ipv6Addr>(rest),
        _ => None,
    };
    header(Some(source.ok_or(ProxyFault::Malformed)?))
}

/// The first address of `SOURCE DESTINATION PORT PORT`; each word must be valid.
fn source_of<A: FromStr + Into<IpAddr>>(words: &str) -> Option<SocketAddr> {
    let mut words = words.split(' ');
    let mut address = || words.next()?.parse::<A>().ok();
    let (source, _destination) = (address()?, address()?);
    let mut port = || port_of(words.next()?);
    let (source_port, _destination_port) = (port()?, port()?);
    words.next().is_none().then(|| SocketAddr::new(source.into(), source_port))
}

/// A port in decimal digits, without a sign or leading zeros.
fn port_of(word: &str) -> Option<u16> {
    let is_plain = word == "0" || word.starts_with(|first: char| matches!(first, '1'..='9'));
    word.parse().ok().filter(|_| is_plain)
}

fn binary(bytes: &[u8]) -> Result<Option<ProxyHeader>, ProxyFault> {
    if starts(bytes, BINARY_START)?.is_none() {
        return Ok(None);
    }
    let Some(fixed) = bytes.get(BINARY_START.len()..BINARY_FIXED_BYTES) else { return Ok(None) };
    let len = BINARY_FIXED_BYTES + usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if len > HEADER_BYTES_MAX {
        return Err(ProxyFault::TooLong);
    }
    let is_own = match fixed[0] {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyFault::Malformed),
    };
    let address_bytes = match fixed[1] {
        // The sender's address of its own connection must be ignored (§2.2).
        _ if is_own => 0,
        0x00 => 0,
        0x11 => 12,
        0x21 => 36,
        0x31 => 216,
        // Datagrams, which this is not, or an undefined family.
        _ => return Err(ProxyFault::Malformed),
    };
    if len < BINARY_FIXED_BYTES + address_bytes {
        return Err(ProxyFault::Malformed);
    }
    let Some(said) = bytes.get(BINARY_FIXED_BYTES..len) else { return Ok(None) };
    // The sender's address and the receiver's, the sender's port and the receiver's.
    let source = match address_bytes {
        12 => address_at::<4>(said, 8),
        36 => address_at::<16>(said, 32),
        // No address, or a Unix socket of the sender's machine.
        _ => None,
    };
    Ok(Some(ProxyHeader { source, bytes: len }))
}

/// The address at the start, and the port at `port`.
fn address_at<const N: usize>(said: &[u8], port: usize) -> Option<SocketAddr>
where
    IpAddr: From<[u8; N]>,
{
    let address: [u8; N] = said.get(..N)?.try_into().ok()?;
    let port: [u8; 2] = said.get(port..port + 2)?.try_into().ok()?;
    Some(SocketAddr::new(address.into(), u16::from_be_bytes(port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{format, vec::Vec};

    /// Checks that a header is read as this, whatever follows, and not before its end.
    fn check(bytes: &[u8], source: Option<&str>) {
        let source = source.map(|text| text.parse().expect("an address"));
        let expected = Ok(Some(ProxyHeader { source, bytes: bytes.len() }));
        for rest in [&b""[..], b"GET / HTTP/1.1\r\n", b"\r\n", b"\0"] {
            assert_eq!(parse(&[bytes, rest].concat()), expected, "{}", bytes.escape_ascii());
        }
        for len in 0..bytes.len() {
            assert_eq!(parse(&bytes[..len]), Ok(None), "{}", bytes[..len].escape_ascii());
        }
    }

    fn version_2(command: u8, family: u8, said: &[u8]) -> Vec<u8> {
        let len = u16::try_from(said.len()).expect("it is short").to_be_bytes();
        [BINARY_START, &[command, family], &len, said].concat()
    }

    #[test]
    fn version_1_is_read() {
        check(b"PROXY TCP4 192.0.2.1 10.0.0.1 56324 443\r\n", Some("192.0.2.1:56324"));
        check(b"PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n", Some("255.255.255.255:65535"));
        check(b"PROXY TCP6 2001:db8::7 ::1 1 2\r\n", Some("[2001:db8::7]:1"));
        check(b"PROXY UNKNOWN\r\n", None);
        check(b"PROXY UNKNOWN ffff::1 \xff TCP4 65535 \r \r\n", None);
        let longest = format!("PROXY UNKNOWN {}\r\n", "x".repeat(TEXT_BYTES_MAX - 16));
        assert_eq!(longest.len(), TEXT_BYTES_MAX);
        check(longest.as_bytes(), None);
    }

    #[test]
    fn version_2_is_read() {
        let four = [192, 0, 2, 1, 10, 0, 0, 1, 0xdc, 0x04, 0x01, 0xbb];
        check(&version_2(0x21, 0x11, &four), Some("192.0.2.1:56324"));
        // Bytes behind the addresses are for others.
        let more = [&four[..], &[0x04, 0, 1, 0]].concat();
        check(&version_2(0x21, 0x11, &more), Some("192.0.2.1:56324"));
        let mut six = [0; 36];
        (six[0], six[1], six[15], six[33]) = (0x20, 0x01, 7, 80);
        check(&version_2(0x21, 0x21, &six), Some("[2001::7]:80"));
        check(&version_2(0x21, 0x31, &[0; 216]), None);
        check(&version_2(0x21, 0x00, b""), None);
        check(&version_2(0x21, 0x00, b"something"), None);
        // The sender's own connection, whatever it says of it.
        check(&version_2(0x20, 0x11, &four), None);
        check(&version_2(0x20, 0x00, b""), None);
        check(&version_2(0x20, 0xff, b"x"), None);
        check(&version_2(0x21, 0x00, &[0; HEADER_BYTES_MAX - BINARY_FIXED_BYTES]), None);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let fails = |bytes: &[u8], fault| {
            assert_eq!(parse(bytes), Err(fault), "{}", bytes.escape_ascii());
        };
        for bytes in [&b"G"[..], b"PRI * HTTP/2.0\r\n", b"proxy TCP4", b"PROXY\t", b"\r\n\r\n\x01"]
        {
            fails(bytes, ProxyFault::Missing);
        }
        for words in [
            "",
            "TCP4",
            "tcp4 1.2.3.4 1.2.3.4 1 1",
            "TCP4  1.2.3.4 1.2.3.4 1 1",
            "TCP4 1.2.3.04 1.2.3.4 1 1",
            "TCP4 1.2.3 1.2.3.4 1 1",
            "TCP4 1.2.3.4 nobody 1 1",
            "TCP4 ::1 ::1 1 1",
            "TCP6 1.2.3.4 1.2.3.4 1 1",
            "TCP6 fe80::1%eth0 ::1 1 1",
            "UDP4 1.2.3.4 1.2.3.4 1 1",
            "UNKNOWNS",
        ] {
            fails(format!("PROXY {words}\r\n").as_bytes(), ProxyFault::Malformed);
        }
        for ports in ["1", "1 1 ", "1 1 1", "01 1", "1 +1", "65536 1", " 1"] {
            let header = format!("PROXY TCP4 1.2.3.4 1.2.3.4 {ports}\r\n");
            fails(header.as_bytes(), ProxyFault::Malformed);
        }
        fails(b"PROXY TCP4 1.2.3.4 1.2.3.4 1 1\n", ProxyFault::Malformed);
        fails(b"PROXY UNKNOWN \xff\n", ProxyFault::Malformed);
        fails(b"PROXY \xff\r\n", ProxyFault::Malformed);
        let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(TEXT_BYTES_MAX - 15));
        fails(long.as_bytes(), ProxyFault::TooLong);
        let binary = [
            version_2(0x11, 0x11, &[0; 12]),
            version_2(0x22, 0x11, &[0; 12]),
            version_2(0x21, 0x12, &[0; 12]),
            version_2(0x21, 0x10, &[0; 12]),
            version_2(0x21, 0x41, &[0; 12]),
            version_2(0x21, 0x11, &[0; 11]),
            version_2(0x21, 0x21, &[0; 35]),
            version_2(0x21, 0x31, &[0; 215]),
        ];
        for bytes in binary {
            fails(&bytes, ProxyFault::Malformed);
            // It is known before what it promises has come.
            fails(&bytes[..BINARY_FIXED_BYTES], ProxyFault::Malformed);
        }
        let long = version_2(0x21, 0x00, &[0; HEADER_BYTES_MAX - BINARY_FIXED_BYTES + 1]);
        fails(&long[..BINARY_FIXED_BYTES], ProxyFault::TooLong);
    }
}
