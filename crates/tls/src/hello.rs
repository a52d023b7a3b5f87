//! The name that a client asks for. rustls tells it only to what chooses a certificate.

/// Types of a record and of a message: a handshake, and its first message.
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
/// The extension with the name of the server, and the kind of name that is a host.
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;
/// Version and random bytes at the front of a ClientHello.
const VERSION_AND_RANDOM_BYTES: usize = 34;
/// The longest host name, bytes (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Returns the host name in a record with a whole ClientHello (RFC 8446 §4.1.2, RFC 6066 §3). The
/// few clients that spread it over several records have none.
pub(crate) fn server_name(record: &[u8]) -> Option<&[u8]> {
    let mut rest = record;
    if take(&mut rest, 1)? != [HANDSHAKE] {
        return None;
    }
    take(&mut rest, 2)?;
    let mut rest = vector(&mut rest, 2)?;
    if take(&mut rest, 1)? != [CLIENT_HELLO] {
        return None;
    }
    let mut hello = vector(&mut rest, 3)?;
    take(&mut hello, VERSION_AND_RANDOM_BYTES)?;
    // Session, cipher suites and methods of compression.
    for length_bytes in [1, 2, 1] {
        vector(&mut hello, length_bytes)?;
    }
    let mut extensions = vector(&mut hello, 2)?;
    while !extensions.is_empty() {
        let kind = number(take(&mut extensions, 2)?);
        let mut body = vector(&mut extensions, 2)?;
        if kind == usize::from(SERVER_NAME) {
            let mut names = vector(&mut body, 2)?;
            let is_host = take(&mut names, 1)? == [HOST_NAME];
            let name = vector(&mut names, 2)?;
            return (is_host && name.len() <= NAME_BYTES_MAX).then_some(name);
        }
    }
    None
}

/// Splits off the first bytes.
fn take<'b>(bytes: &mut &'b [u8], n: usize) -> Option<&'b [u8]> {
    let (first, rest) = bytes.split_at_checked(n)?;
    *bytes = rest;
    Some(first)
}

/// Splits off bytes that follow their own number, which has `length_bytes` bytes.
fn vector<'b>(bytes: &mut &'b [u8], length_bytes: usize) -> Option<&'b [u8]> {
    let len = number(take(bytes, length_bytes)?);
    take(bytes, len)
}

/// Value of at most three bytes.
fn number(bytes: &[u8]) -> usize {
    bytes.iter().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Record with a ClientHello that has these extensions.
    fn record(extensions: &[(u16, &[u8])]) -> Vec<u8> {
        let sized = |bytes: &[u8]| {
            let len = u16::try_from(bytes.len()).unwrap();
            [&len.to_be_bytes()[..], bytes].concat()
        };
        let extensions: Vec<u8> = extensions
            .iter()
            .flat_map(|(kind, body)| [&kind.to_be_bytes()[..], &sized(body)].concat())
            .collect();
        let mut hello = vec![3, 3];
        hello.extend([7; 32]);
        hello.extend([2, 8, 8]);
        hello.extend(sized(&[0x13, 1]));
        hello.extend([1, 0]);
        hello.extend(sized(&extensions));
        let message = [&[CLIENT_HELLO, 0][..], &sized(&hello)].concat();
        [&[HANDSHAKE, 3, 1][..], &sized(&message)].concat()
    }

    fn asks_for(name: &[u8]) -> Vec<u8> {
        let len = u8::try_from(name.len()).unwrap();
        [&[0, len + 3, HOST_NAME, 0, len][..], name].concat()
    }

    #[test]
    fn a_name_is_found_among_extensions() {
        let name = asks_for(b"www.example");
        let found = record(&[(43, &[2, 3, 4]), (SERVER_NAME, &name), (16, &[])]);
        assert_eq!(server_name(&found), Some(&b"www.example"[..]));
        assert_eq!(server_name(&record(&[(43, &[2, 3, 4])])), None);
        let long = [0, 0xff, HOST_NAME, 0, 0xfc].into_iter().chain([b'a'; 252]).collect::<Vec<_>>();
        assert_eq!(server_name(&record(&[(SERVER_NAME, &long)])), Some(&[b'a'; 252][..]));
        let other = [0, 4, 1, 0, 1, b'a'];
        assert_eq!(server_name(&record(&[(SERVER_NAME, &other)])), None, "no host");
    }

    #[test]
    fn parts_and_altered_bytes_have_no_fault() {
        let whole = record(&[(SERVER_NAME, &asks_for(b"a.example"))]);
        for end in 0..whole.len() {
            assert_eq!(server_name(&whole[..end]), None, "{end}");
        }
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut altered = whole.clone();
                altered[at] = value;
                assert!(server_name(&altered).is_none_or(|name| name.len() <= NAME_BYTES_MAX));
            }
        }
        assert_eq!(server_name(b"GET / HTTP/1.1\r\n\r\n"), None);
    }
}
