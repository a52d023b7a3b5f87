//! Access logs of real servers, line by line: common, combined and JSON forms.

use regatta_http::date::days_from_civil;
use std::borrow::Cow;
use std::net::IpAddr;

/// Longest line that is read, bytes; longer ones count as malformed.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Line of an access log, as far as a workload needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Line<'a> {
    /// The client's address, as written.
    pub client: Cow<'a, str>,
    /// The client's user agent, when the form has it.
    pub agent: Cow<'a, str>,
    /// Microseconds since 1970.
    pub at_us: u64,
    /// Whether the time is in whole seconds, so that the order within one is unknown.
    pub whole_second: bool,
    pub method: Cow<'a, str>,
    /// Request target. Escapes of the log are undone; bytes that no target may hold are written
    /// `%HH`.
    pub target: Cow<'a, str>,
    pub status: u16,
    /// Bytes of the body that were sent, when the line says so.
    pub bytes: Option<u64>,
}

/// Reads a line in whichever form it is; `None` when it is in none.
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    // The byte order mark of a file that an editor has saved.
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if line.contains(&b'\r') {
        return None;
    }
    if line.first() == Some(&b'{') {
        return json(line);
    }
    common(core::str::from_utf8(line).ok()?)
}

/// `client ident user [time] "request" status bytes`, with `"referer" "agent"` when combined, and
/// anything after. A virtual host may come before the client.
fn common(line: &str) -> Option<Line<'_>> {
    let (before, rest) = line.split_once(" [").filter(|(before, _)| before.contains(' '))?;
    let client = client_of(before)?;
    let (time, rest) = rest.split_once(']')?;
    let (at_us, whole_second) = clf_time(time)?;
    let (request, rest) = quoted(rest)?;
    let mut words = rest.split_ascii_whitespace();
    let status = words.next()?.parse().ok()?;
    let bytes = words.next().and_then(|word| word.parse().ok());
    let agent = quoted(rest).and_then(|(_, rest)| quoted(rest)).map_or("", |(agent, _)| agent);
    let (method, target) = request_line(request)?;
    Some(Line {
        client: client.into(),
        agent: agent.into(),
        at_us,
        whole_second,
        method: method.into(),
        target: unescaped(target, true),
        status,
        bytes,
    })
}

/// The client among the words before the time. The first word is a virtual host if it has a port,
/// or if an address follows (`vhost_combined` of Apache, `$host $remote_addr` of nginx).
fn client_of(before: &str) -> Option<&str> {
    let mut words = before.split_ascii_whitespace();
    let (first, second) = (words.next()?, words.next());
    let is_address = |word: &str| word.parse::<IpAddr>().is_ok();
    let has_port = |word: &str| {
        let port = word.rsplit_once(':').map(|(_, port)| port);
        !is_address(word) && port.is_some_and(|port| port.parse::<u16>().is_ok())
    };
    match second {
        Some(second) if is_address(second) || second != "-" && has_port(first) => Some(second),
        _ => Some(first),
    }
}

/// Undoes the escapes of a log: `\xHH` is a byte, and with `all` a backslash protects a quote or a
/// backslash. Bytes that no target may hold are written `%HH`.
fn unescaped(target: &str, all: bool) -> Cow<'_, str> {
    if !target.contains('\\') {
        return target.into();
    }
    let mut out = String::with_capacity(target.len());
    let mut rest = target;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let hex = after.strip_prefix('x').and_then(|after| after.get(..2));
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = match (byte, after.as_bytes().first()) {
            (Some(byte), _) => {
                push_byte(&mut out, byte);
                &after[3..]
            }
            (None, Some(&byte @ (b'"' | b'\\'))) if all => {
                push_byte(&mut out, byte);
                &after[1..]
            }
            _ => {
                out.push('\\');
                after
            }
        };
    }
    out.push_str(rest);
    out.into()
}

fn push_byte(out: &mut String, byte: u8) {
    use core::fmt::Write as _;
    // A percent sign and a question mark are what they are in a target.
    if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\') {
        out.push(char::from(byte));
    } else {
        // Writing to a String cannot fail.
        let _ = write!(out, "%{byte:02X}");
    }
}

/// Text between the next two quotes, and what follows; a backslash protects a quote.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.split_once('"')?;
    let mut escaped = false;
    let end = rest.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })?;
    Some((&rest[..end], &rest[end + 1..]))
}

/// Method and target of `GET /path HTTP/1.1`.
fn request_line(request: &str) -> Option<(&str, &str)> {
    let (method, rest) = request.split_once(' ')?;
    let target = rest.rsplit_once(' ').map_or(rest, |(target, _)| target);
    let token = !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase());
    (token && !target.is_empty()).then_some((method, target))
}

/// `10/Oct/2000:13:55:36 -0700`, with a fraction of a second if there is one.
fn clf_time(text: &str) -> Option<(u64, bool)> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    let (stamp, zone) = text.split_once(' ').unwrap_or((text, "+0000"));
    let (date, clock) = stamp.split_once(':')?;
    let mut date = date.split('/');
    let day = number(date.next()?, 2)?;
    let month = date.next()?.as_bytes();
    let month = (1..).zip(MONTHS.chunks(3)).find(|&(_, name)| name == month)?.0;
    let year = number(date.next()?, 4)?;
    instant((year, month, day), clock, zone)
}

/// `2026-01-02T03:04:05.678+01:00`, `Z` or a space for `T` included.
fn iso_time(text: &str) -> Option<(u64, bool)> {
    let (date, rest) = text.split_at_checked(10)?;
    // Caddy's `wall` times have slashes.
    let mut date = date.split(['-', '/']);
    let year = number(date.next()?, 4)?;
    let (month, day) = (number(date.next()?, 2)?, number(date.next()?, 2)?);
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let zone_at = rest.find(['Z', 'z', '+', '-']).unwrap_or(rest.len());
    let (clock, zone) = rest.split_at(zone_at);
    instant((year, month, day), clock.trim_end(), zone)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

/// Microseconds since 1970 of a civil date, `HH:MM:SS[.fraction]` and a zone.
fn instant(date: (i64, i64, i64), clock: &str, zone: &str) -> Option<(u64, bool)> {
    let (clock, fraction) = clock.split_once(['.', ',']).unwrap_or((clock, ""));
    let mut parts = clock.split(':');
    let hour = number(parts.next()?, 2)?;
    let (minute, second) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let (year, month, day) = date;
    let real = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !real || hour > 24 || minute > 59 || second > 60 || parts.next().is_some() {
        return None;
    }
    let offset_s = match zone.as_bytes().first() {
        None | Some(b'Z' | b'z') => 0,
        Some(sign) => {
            let digits: String = zone.get(1..)?.chars().filter(|&c| c != ':').collect();
            let all = number(&digits, 4)?;
            (all / 100 * 60 + all % 100) * if *sign == b'-' { -60 } else { 60 }
        }
    };
    let seconds =
        days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset_s;
    let us: u64 = match fraction.len() {
        0 => 0,
        _ => format!("{fraction:0<6}").get(..6)?.parse().ok()?,
    };
    Some((u64::try_from(seconds).ok()? * 1_000_000 + us, fraction.is_empty()))
}

/// A JSON object per line, with the usual names of nginx, Caddy, Apache, and our own.
fn json(line: &[u8]) -> Option<Line<'_>> {
    let root: serde_json::Value = serde_json::from_slice(line).ok()?;
    let at = |names: &str| -> Option<&serde_json::Value> {
        names.split(' ').find_map(|name| {
            name.split('.').try_fold(&root, |value, key| value.get(key)).filter(|v| !v.is_null())
        })
    };
    let text = |names: &str| -> Option<String> {
        // Caddy's fields are lists.
        let first =
            |value: &serde_json::Value| value.get(0).unwrap_or(value).as_str().map(str::to_owned);
        at(names).and_then(first)
    };
    let whole = |names: &str| -> Option<u64> {
        at(names).and_then(|v| v.as_u64().or_else(|| v.as_str()?.trim().parse().ok()))
    };
    let (at_us, whole_second) = json_time(at(TIME)?)?;
    let request = text("request request_line");
    let split = request.as_deref().and_then(request_line);
    let method = text(METHOD).or_else(|| Some(split?.0.to_owned()))?;
    let target = text(TARGET).or_else(|| Some(split?.1.to_owned()))?;
    let client = text(CLIENT).or_else(|| Some(without_port(&text(PEER)?).to_owned()))?;
    Some(Line {
        client: client.into(),
        agent: text(AGENT).unwrap_or_default().into(),
        at_us,
        whole_second,
        method: method.into(),
        target: unescaped(&target, false).into_owned().into(),
        status: whole(STATUS).and_then(|status| u16::try_from(status).ok())?,
        bytes: whole(BYTES),
    })
}

/// An address without its port.
fn without_port(peer: &str) -> &str {
    match peer.rsplit_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() && !is_bare_ipv6(peer) => {
            host.trim_matches(['[', ']'])
        }
        _ => peer,
    }
}

fn is_bare_ipv6(text: &str) -> bool {
    text.parse::<std::net::Ipv6Addr>().is_ok()
}

/// Names of each field, in this order; a dot leads into an object.
const TIME: &str = "ts time timestamp @timestamp time_unix msec time_iso8601 time_local unix_ms";
const METHOD: &str = "method request_method request.method";
const TARGET: &str = "target request_uri uri path url request.uri";
const CLIENT: &str = "remote_addr client peer remote_ip client_ip clientip remote_host \
    request.client_ip request.remote_ip";
/// A client with its port (Caddy before 2.5), or a name that is the virtual host in many logs.
const PEER: &str = "request.remote_addr host";
const AGENT: &str = "user_agent http_user_agent agent request.headers.User-Agent";
const STATUS: &str = "status response status_code";
const BYTES: &str = "body_bytes body_bytes_sent bytes_sent bytes size response_size";

/// Seconds, milliseconds, microseconds or nanoseconds since 1970, by magnitude; or a date.
fn json_time(value: &serde_json::Value) -> Option<(u64, bool)> {
    let text = value.as_str().unwrap_or_default();
    if let Some(seconds) = value.as_f64().or_else(|| text.parse().ok()) {
        let us = match seconds {
            s if s < 0.0 => return None,
            s if s < 1e11 => s * 1e6,
            ms if ms < 1e14 => ms * 1e3,
            us if us < 1e17 => us,
            ns => ns / 1e3,
        };
        let whole = value.is_u64() && seconds < 1e11;
        return (us < 1e17).then(|| (crate::number::rounded(us), whole));
    }
    iso_time(text).or_else(|| clf_time(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// client, agent, time µs, method, target, status, bytes.
    type Row<'a> = (&'a str, &'a str, u64, &'a str, &'a str, u16, Option<u64>);

    fn check(line: &str, expected: Option<Row<'_>>) {
        let found = parse(line.as_bytes());
        let row = found
            .as_ref()
            .map(|l| (&*l.client, &*l.agent, l.at_us, &*l.method, &*l.target, l.status, l.bytes));
        assert_eq!(row, expected, "{line}");
    }

    #[test]
    fn common_and_combined_lines_are_read() {
        let at = 971_211_336_000_000;
        check(
            r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326"#,
            Some(("127.0.0.1", "", at, "GET", "/a.gif", 200, Some(2326))),
        );
        check(
            "::1 - a b [10/Oct/2000:20:55:36 +0000] \"HEAD /x y HTTP/1.1\" 304 - \"http://r/\" \
             \"Mozilla/5.0 (\\\"q\\\")\" 0.003 extra\r\n",
            Some(("::1", r#"Mozilla/5.0 (\"q\")"#, at, "HEAD", "/x y", 304, None)),
        );
        check(
            r#"h - - [10/Oct/2000:20:55:36.250 +0000] "GET /" 200 0 "-" "-""#,
            Some(("h", "-", at + 250_000, "GET", "/", 200, Some(0))),
        );
        for (target, expected) in [
            (r"/caf\xC3\xA9.html", "/caf%C3%A9.html"),
            (r"/a\x22b\x5Cc\x41", "/a%22b%5CcA"),
            (r#"/a\"b\\c"#, "/a%22b%5Cc"),
            (r"/a\b\x4", r"/a\b\x4"),
        ] {
            let line =
                format!(r#"h - - [10/Oct/2000:20:55:36 +0000] "GET {target} HTTP/1.1" 200 1"#);
            assert_eq!(parse(line.as_bytes()).unwrap().target, expected, "{target}");
        }
        // Apache's vhost_combined, nginx's usual form of it, and addresses that are no hosts.
        for (before, client) in [
            ("site.example:80 10.0.0.7 - -", "10.0.0.7"),
            ("site.example:80 pc.example - frank", "pc.example"),
            ("site.example 10.0.0.7 - -", "10.0.0.7"),
            ("[2001:db8::1]:443 2001:db8::7 - -", "2001:db8::7"),
            ("2001:db8::80 - -", "2001:db8::80"),
            ("pc.example - -", "pc.example"),
            ("\u{feff}10.0.0.7 - -", "10.0.0.7"),
        ] {
            let line = format!(r#"{before} [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1"#);
            assert_eq!(parse(line.as_bytes()).unwrap().client, client, "{before}");
        }
        for bad in [
            "",
            "garbage",
            "h - - [10/Oct/2000:20:55:36 +0000] \"GET / HTTP/1.1\" 200 0\rh - -",
            r#"h - - [10/Oct/2000:20:55:36 +0000] "-" 400 0"#,
            r#"h - - [10/Oct/2000:20:55:36 +0000] "\x16\x03 x y" 400 0"#,
            r#"h - - [10/Xxx/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 0"#,
            r#"h - - [40/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 0"#,
            r#"h - - [10/Oct/2000:20:55:36 ü700] "GET / HTTP/1.1" 200 0"#,
            r#"{"time_local":"14/Nov/2023:22:13:20 ü0000","request":"GET / HTTP/1.1"}"#,
            r#"h - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" x 0"#,
            r#"h - - [10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1"#,
            r#"h - - [10/Oct/1960:20:55:36 +0000] "GET / HTTP/1.1" 200 0"#,
            "{not json}",
            r#"{"status": 200}"#,
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn json_lines_are_read() {
        let at = 1_700_000_000_000_000;
        check(
            r#"{"ts":1700000000.25,"request":{"remote_ip":"1.2.3.4","method":"GET",
                "uri":"/c"},"status":200,"size":77}"#,
            Some(("1.2.3.4", "", at + 250_000, "GET", "/c", 200, Some(77))),
        );
        // Caddy's own form, and its form before 2.5; the host is no client.
        check(
            r#"{"level":"info","ts":1700000000.25,"logger":"http.log.access",
                "msg":"handled request",
                "request":{"remote_ip":"10.0.0.1","remote_port":"41342","client_ip":"1.2.3.4",
                "proto":"HTTP/2.0","method":"GET","host":"site.example","uri":"/c?d",
                "headers":{"User-Agent":["curl/8"],"Accept":["*/*"]}},"bytes_read":0,
                "user_id":"","duration":0.0009,"size":77,"status":200,"resp_headers":{}}"#,
            Some(("1.2.3.4", "curl/8", at + 250_000, "GET", "/c?d", 200, Some(77))),
        );
        check(
            r#"{"ts":"2023/11/14 22:13:20","request":{"remote_addr":"[::1]:41342","method":"GET",
                "host":"site.example","uri":"/c"},"size":7,"status":200}"#,
            Some(("::1", "", at, "GET", "/c", 200, Some(7))),
        );
        check(
            r#"{"time":"2023-11-14T22:13:20Z","client":"::1","method":"GET",
                "target":"/caf\\xC3\\xA9","status":200,"body_bytes":9}"#,
            Some(("::1", "", at, "GET", "/caf%C3%A9", 200, Some(9))),
        );
        check(
            r#"{"time":"2023-11-14T23:13:20.5+01:00","remote_addr":"::1",
                "request":"GET /n HTTP/2.0","status":"206","body_bytes_sent":"9",
                "http_user_agent":"curl"}"#,
            Some(("::1", "curl", at + 500_000, "GET", "/n", 206, Some(9))),
        );
        check(
            r#"{"time":"1994-11-06T08:49:37Z","peer":"192.0.2.7","port":4711,"method":"GET",
                "target":"/a?b=c","version":"HTTP/1.1","status":200,"body_bytes":1000,
                "sent_bytes":1200,"outcome":"complete","referer":null,"user_agent":"curl/8"}"#,
            Some(("192.0.2.7", "curl/8", 784_111_777_000_000, "GET", "/a?b=c", 200, Some(1000))),
        );
        check(
            r#"{"timestamp":1700000000000,"client":"c","method":"GET","target":"/m","status":200}"#,
            Some(("c", "", at, "GET", "/m", 200, None)),
        );
        check(
            r#"{"time_local":"14/Nov/2023:22:13:20 +0000","client":"c","method":"GET",
                "path":"/l","status":304,"bytes":0}"#,
            Some(("c", "", at, "GET", "/l", 304, Some(0))),
        );
    }
}
