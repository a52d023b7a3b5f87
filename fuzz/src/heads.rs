//! Messages: their boundaries, however the bytes arrive.
use regatta_http::{
    Method, Status,
    chunked::{ChunkFault, Decoder},
    forwarded::Naming,
    h1::{
        HeadLimits, RequestBody, RequestHead, ResponseBody, Scan, Seen, Version, end_head,
        parse_first, parse_request, parse_response, scan_head, write_field, write_status_line,
    },
    proxy::{HEADER_BYTES_MAX, ProxyHeader, TEXT_BYTES_MAX, parse},
    target::is_host,
};
use std::net::{IpAddr, SocketAddr};

/// Request heads: the scanner and the parser agree on the end, in one piece or in many, and
/// accepted heads are unambiguous.
pub fn head(bytes: &[u8]) {
    let limits = HeadLimits::default();
    check_seen(bytes, &limits);
    let scanned = scan(bytes);
    match parse_first(bytes, &limits) {
        Ok(Some(head)) => {
            assert_eq!(scanned, Scan::End(head.head_bytes), "the parser found an end");
            let (one, rest) = bytes.split_at(head.head_bytes);
            let alone = parse_request(one, &limits).expect("it was well-formed with more behind");
            assert_eq!(format!("{alone:?}"), format!("{head:?}"), "whatever follows: {rest:?}");
            check_head(&head, one, &limits);
            for len in 0..one.len() {
                let early = parse_first(&bytes[..len], &limits);
                assert!(matches!(early, Ok(None)), "after {len} bytes: {early:?}");
            }
        }
        Ok(None) => assert_eq!(scanned, Scan::Partial, "the parser waits for more"),
        Err(fault) => {
            assert!((400..600).contains(&fault.status().0) && !fault.reason().is_empty());
            let longer = [bytes, b"\r\n\r\n"].concat();
            let later = parse_first(&longer, &limits);
            assert!(later.is_err(), "nothing that follows makes {fault:?} good: {later:?}");
        }
    }
}

/// A parser that has seen the field section before, after any request line, reads the same.
fn check_seen(bytes: &[u8], limits: &HeadLimits) {
    let end = bytes.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    let other = [&b"HEAD /other HTTP/1.1\r\n"[..], &bytes[end..]].concat();
    let (one, two) = (bytes, &*other);
    for order in [[one, one, one, two], [two, two, one, two], [one, two, two, one]] {
        let mut seen = Seen::new();
        for text in order {
            let mut head = RequestHead::unread();
            let found = seen.parse_into(text, limits, &mut head);
            let found = found.map(|complete| complete.then_some(head));
            assert_eq!(format!("{found:?}"), format!("{:?}", parse_first(text, limits)));
        }
    }
}

/// Scans in one piece and in many, which must agree.
fn scan(bytes: &[u8]) -> Scan {
    let whole = scan_head(bytes, 0);
    let mut seen = 0;
    for len in 0..=bytes.len() {
        let part = scan_head(&bytes[..len], seen);
        assert_eq!(part, scan_head(&bytes[..len], 0), "after {seen} and {len} bytes");
        match part {
            Scan::Partial if len % 3 != 1 => seen = len,
            Scan::Partial => {}
            Scan::End(end) => {
                assert_eq!((whole, len), (Scan::End(end), end), "an end is where it is");
                return whole;
            }
            Scan::Bad => {
                assert_eq!(whole, Scan::Bad, "what is bad stays bad");
                return whole;
            }
        }
    }
    assert_eq!(whole, Scan::Partial);
    whole
}

/// Heads that any recipient could read otherwise are not accepted.
fn check_head(head: &RequestHead<'_>, bytes: &[u8], limits: &HeadLimits) {
    assert!(bytes.len() <= limits.head_bytes_max && head.target.len() <= limits.target_bytes_max);
    assert!(!head.target.is_empty() && str::from_utf8(head.target).is_ok());
    assert!(head.target.iter().all(|byte| byte.is_ascii_graphic() || !byte.is_ascii()));
    assert_eq!(Method::from_text(head.method_text.as_bytes()), head.method);
    let lines = bytes.split(|&byte| byte == b'\n');
    assert!(lines.filter(|line| !line.is_empty()).all(|line| line.ends_with(b"\r")));
    let mut count = 0;
    for field in &head.fields {
        count += 1;
        assert!(!field.name.is_empty() && field.name.bytes().all(|byte| byte.is_ascii_graphic()));
        assert!(!field.value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        assert_eq!(field.value, field.value.trim_ascii(), "no blanks around a value");
    }
    assert!(count <= limits.fields_max);
    let values = |name: &str| {
        let named = head.fields.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value).collect::<Vec<_>>()
    };
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    match head.body {
        RequestBody::None => assert!(lengths.is_empty() && codings.is_empty()),
        RequestBody::Length(length) => {
            let text = std::str::from_utf8(lengths[0]).expect("it is a number");
            assert_eq!((text.parse(), lengths.len(), codings.len()), (Ok(length), 1, 0));
        }
        RequestBody::Chunked => {
            assert!(lengths.is_empty() && codings.len() == 1 && head.version == Version::Http11);
            assert!(codings[0].eq_ignore_ascii_case(b"chunked"));
        }
    }
    let hosts = values("host");
    assert!(hosts.len() <= 1 && hosts.iter().all(|host| is_host(host)));
    assert!(head.version == Version::Http10 || hosts.len() == 1, "1.1 has a Host");
}

/// Response heads, as the load generator parses them: foreign ones, and ours, which must parse as
/// they were written.
pub fn response(bytes: &[u8]) {
    if let Scan::End(end) = scan(bytes) {
        for method in [Method::Get, Method::Head] {
            let Ok(head) = parse_response(&bytes[..end], method) else { continue };
            assert!((100..600).contains(&head.status.0));
            let bodiless = method == Method::Head || head.status.is_bodiless();
            assert_eq!(bodiless, head.body == ResponseBody::None);
            assert!(!head.persistent || head.body != ResponseBody::UntilClose);
        }
    }
    let (code, value) = bytes.split_at(bytes.len().min(2));
    let status = Status(200 + code.iter().map(|&byte| u16::from(byte)).sum::<u16>() % 300);
    let value: Vec<u8> =
        value.iter().copied().filter(|byte| !byte.is_ascii_control()).take(200).collect();
    let mut out = Vec::new();
    write_status_line(&mut out, status);
    write_field(&mut out, "X-Value", &value);
    write_field(&mut out, "Content-Length", b"7");
    end_head(&mut out);
    assert_eq!(scan(&out), Scan::End(out.len()));
    let head = parse_response(&out, Method::Get).expect("our own response");
    assert_eq!(head.status, status);
    assert_eq!(head.fields.get("x-value"), Some(value.trim_ascii()));
    if !status.is_bodiless() {
        assert_eq!((head.body, head.persistent), (ResponseBody::Length(7), true));
    }
}

/// Chunked content: the same in one piece and in many, and data sent in chunks is restored.
pub fn chunked(bytes: &[u8]) {
    let whole = decode(bytes, bytes.len().max(1));
    for piece in [1, 2, 7] {
        let parts = decode(bytes, piece);
        match (&whole, &parts) {
            (Ok(_), _) | (_, Ok(_)) => assert_eq!(whole, parts, "in pieces of {piece}"),
            (Err(ChunkFault), Err(ChunkFault)) => {}
        }
    }
    let mut sent = Vec::new();
    for chunk in bytes.chunks(1 + bytes.len() / 3) {
        sent.extend(format!("{:X};a=b\r\n", chunk.len()).bytes());
        sent.extend_from_slice(chunk);
        sent.extend(b"\r\n");
    }
    sent.extend(b"0\r\nTrailer: x\r\n\r\n");
    let len = sent.len();
    sent.extend(b"GET");
    assert_eq!(decode(&sent, 5), Ok((len, true, bytes.to_vec())));
}

/// Decodes in pieces. Returns the number of bytes used, whether that was all, and the data.
fn decode(bytes: &[u8], piece: usize) -> Result<(usize, bool, Vec<u8>), ChunkFault> {
    let (mut decoder, mut used, mut data) = (Decoder::new(), 0, Vec::new());
    for part in bytes.chunks(piece) {
        let fed = decoder.feed_data(part, |piece| {
            assert!(!piece.is_empty());
            data.extend_from_slice(piece);
        })?;
        assert!(fed.used <= part.len() && (fed.done || fed.used == part.len()));
        used += fed.used;
        if fed.done {
            break;
        }
    }
    Ok((used, decoder.is_done(), data))
}

/// PROXY headers: the end of one is known with its last byte and not before, another parser reads
/// the same, and other bytes do not become one. The bytes as a client's own field, too.
pub fn proxy(bytes: &[u8]) {
    forwarded(bytes);
    let whole = parse(bytes);
    for len in 0..bytes.len() {
        let early = parse(&bytes[..len]);
        match whole {
            Ok(Some(header)) if len < header.bytes => assert_eq!(early, Ok(None)),
            Ok(Some(_)) => assert_eq!(early, whole, "whatever follows"),
            Ok(None) => assert_eq!(early, Ok(None)),
            Err(_) => assert!(early == Ok(None) || early == whole, "{early:?}, then {whole:?}"),
        }
    }
    match whole {
        Ok(Some(header)) => {
            let text = bytes.starts_with(b"P");
            assert!(header.bytes <= if text { TEXT_BYTES_MAX } else { HEADER_BYTES_MAX });
            let again = if text { text_again(bytes) } else { binary_again(bytes) };
            assert_eq!(again, Some(header));
        }
        Ok(None) => assert!(bytes.len() < HEADER_BYTES_MAX, "it waits for too much"),
        Err(_) => assert_eq!((text_again(bytes), binary_again(bytes)), (None, None)),
    }
}

/// The client that a proxy appends is named, whatever the field contains before.
fn forwarded(bytes: &[u8]) {
    let line = bytes.iter().copied().filter(|byte| !byte.is_ascii_control());
    let line: Vec<u8> = line.take(200).collect();
    for (naming, added, client) in [
        (Naming::XForwardedFor, "192.0.2.1", "192.0.2.1:0"),
        (Naming::Forwarded, "for=192.0.2.1", "192.0.2.1:0"),
        (Naming::Forwarded, "by=_b;For=\"[2001:db8::1]:80\"", "[2001:db8::1]:80"),
    ] {
        let start = format!("GET / HTTP/1.1\r\nHost: a\r\n{}: ", naming.field());
        let head = [start.as_bytes(), &*line, b", ", added.as_bytes(), b"\r\n\r\n"].concat();
        let head = parse_request(&head, &HeadLimits::default()).expect("a request");
        let found = naming.client(&head.fields, |_| false);
        assert_eq!(found, client.parse().ok(), "{}", line.escape_ascii());
    }
}

/// Parses version 1, word by word.
fn text_again(bytes: &[u8]) -> Option<ProxyHeader> {
    let line = bytes.split_inclusive(|&byte| byte == b'\n').next()?;
    let header = |source| ProxyHeader { source, bytes: line.len() };
    if line.len() > TEXT_BYTES_MAX || !line.ends_with(b"\r\n") {
        return None;
    }
    let words: Vec<&[u8]> = line[..line.len() - 2].split(|&byte| byte == b' ').collect();
    match *words {
        [b"PROXY", b"UNKNOWN", ..] => Some(header(None)),
        [b"PROXY", family @ (b"TCP4" | b"TCP6"), from, to, from_port, to_port] => {
            let address = |word| {
                let address: IpAddr = std::str::from_utf8(word).ok()?.parse().ok()?;
                (address.is_ipv4() == (family == b"TCP4")).then_some(address)
            };
            let port = |word| {
                let port: u16 = std::str::from_utf8(word).ok()?.parse().ok()?;
                (port.to_string().as_bytes() == word).then_some(port)
            };
            let (from, _, from_port, _) =
                (address(from)?, address(to)?, port(from_port)?, port(to_port)?);
            Some(header(Some(SocketAddr::new(from, from_port))))
        }
        _ => None,
    }
}

/// Parses version 2, field by field.
fn binary_again(bytes: &[u8]) -> Option<ProxyHeader> {
    let rest = bytes.strip_prefix(b"\r\n\r\n\0\r\nQUIT\n")?;
    let ([command, family, high, low], rest) = rest.split_first_chunk::<4>()?;
    let len = usize::from(*high) << 8 | usize::from(*low);
    let said = rest.get(..len).filter(|_| 16 + len <= HEADER_BYTES_MAX)?;
    let port = |at: usize| u16::from_be_bytes([said[at], said[at + 1]]);
    let source = match (command, family) {
        (0x20, _) | (0x21, 0) => None,
        (0x21, 0x11) if len >= 12 => {
            let octets: [u8; 4] = *said.first_chunk()?;
            Some(SocketAddr::from((octets, port(8))))
        }
        (0x21, 0x21) if len >= 36 => {
            let octets: [u8; 16] = *said.first_chunk()?;
            Some(SocketAddr::from((octets, port(32))))
        }
        (0x21, 0x31) if len >= 216 => None,
        _ => return None,
    };
    Some(ProxyHeader { source, bytes: 16 + len })
}
