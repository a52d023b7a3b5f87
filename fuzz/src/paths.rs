//! Request targets: none leads out of the root, and no rule to a host that it does not name.
use regatta_http::{
    Method,
    field::is_token,
    pattern::Pattern,
    target::{Path, Target, decode_path, is_host, parse},
};
use regatta_origin::{HeaderLine, Redirect, Rules};

/// Targets and the paths in them: a decoded path stays below its root, and has the same meaning in
/// any spelling.
pub fn target(bytes: &[u8]) {
    path(bytes);
    for method in [Method::Get, Method::Options, Method::Connect] {
        let Ok((names, authority)) = parse(method, bytes) else { continue };
        assert!(authority.is_none_or(|host| is_host(host) && !host.is_empty()));
        match names {
            Target::Path(raw) => {
                assert!(matches!(raw, [] | [b'/' | b'?' | b'#', ..]), "{}", raw.escape_ascii());
                path(raw);
            }
            Target::Server => assert_eq!(method, Method::Options),
            Target::Tunnel => {
                assert_eq!(method, Method::Connect);
                assert_eq!(authority, Some(bytes));
            }
        }
    }
}

/// A redirect: its pattern, its destination, and a target, in lines. It always leads to a path on
/// the same host or to the host that it names, and nothing ends its line.
pub fn redirect(bytes: &[u8]) {
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
    let mut next = || lines.next().unwrap_or_default();
    let (from, to, target) = (next(), next(), next());
    let (Ok(from), Ok(to)) = (str::from_utf8(from), str::from_utf8(to)) else { return };
    field(to);
    let Ok(pattern) = Pattern::parse(from) else { return };
    let Ok(redirect) = Redirect::new(&pattern, to, 301, false, "here") else { return };
    let mut rules = Rules::default();
    assert_eq!(rules.add_redirect(&pattern, redirect), Ok(()));
    let Some(location) = rules.location(target) else { return };
    assert!(location.iter().all(u8::is_ascii_graphic), "{}", location.escape_ascii());
    let host = to.find("://").filter(|_| !to.starts_with('/')).map_or("", |at| {
        let end = to[at + 3..].find(['/', '?', '#']).map_or(to.len(), |end| at + 3 + end);
        &to[..end]
    });
    let path = location.strip_prefix(host.as_bytes()).expect("its own host");
    assert!(matches!(path, [b'/'] | [b'/', b'!'..=b'.' | b'0'..=b'[' | b']'..=b'~', ..]));
}

/// A rule's field is one line, and parses as itself.
fn field(text: &str) {
    if let Ok(HeaderLine::Set(name, value)) = HeaderLine::parse(text) {
        assert!(is_token(&name) && !value.contains(['\r', '\n', '\0']));
        assert_eq!(
            HeaderLine::parse(&format!("{name}: {value}")),
            Ok(HeaderLine::Set(name, value))
        );
    }
}

fn path(raw: &[u8]) {
    let mut scratch = Vec::new();
    let Ok(path) = decode_path(raw, &mut scratch) else { return };
    check(&path);
    let mut used = b"something left over".to_vec();
    assert_eq!(decode_path(raw, &mut used), Ok(path), "the buffer's past does not matter");
    // Rewritten with every byte encoded, it is the same path and has nothing to resolve.
    let mut plain = Vec::new();
    for &byte in path.relative {
        if byte == b'/' {
            plain.push(byte);
        } else {
            plain.extend(format!("%{byte:02x}").bytes());
        }
    }
    let end: &[u8] = if path.trailing_slash { b"/" } else { b"" };
    let anew = [b"/", &plain[..], end].concat();
    let mut room = Vec::new();
    let again = decode_path(&anew, &mut room).expect("it was a good path");
    assert_eq!(again.relative, path.relative);
    assert_eq!((again.trailing_slash, again.hidden), (path.trailing_slash, path.hidden));
}

fn check(path: &Path<'_>) {
    let mut hidden = false;
    if !path.relative.is_empty() {
        for (at, segment) in path.relative.split(|&byte| byte == b'/').enumerate() {
            assert!(!matches!(segment, b"" | b"." | b".."), "{}", path.relative.escape_ascii());
            assert!(!segment.contains(&0));
            hidden |= segment[0] == b'.' && !(at == 0 && segment == b".well-known");
        }
    }
    assert_eq!(path.hidden, hidden);
    assert!(path.trailing_slash || !path.relative.is_empty(), "the root is a directory");
    assert!(path.relative.len() <= path.raw.len() && path.raw.iter().all(|byte| is_text(*byte)));
    assert!(path.query.is_none_or(|query| query.iter().all(|byte| is_text(*byte))));
}

/// True for bytes that a target may have: visible ASCII, and bytes beyond ASCII.
fn is_text(byte: u8) -> bool {
    byte.is_ascii_graphic() || !byte.is_ascii()
}
