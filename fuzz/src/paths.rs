//! Request targets: nothing leads out of the root.
use regatta_http::{
    Method,
    target::{Path, Target, decode_path, is_host, parse},
};

/// Targets and the paths in them: a decoded path stays below its root, and means the same however
/// it is written.
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

fn path(raw: &[u8]) {
    let mut scratch = Vec::new();
    let Ok(path) = decode_path(raw, &mut scratch) else { return };
    check(&path);
    let mut used = b"something left over".to_vec();
    assert_eq!(decode_path(raw, &mut used), Ok(path), "the buffer's past does not matter");
    // Written anew, with every byte encoded, it is the same path and has nothing to resolve.
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
    assert!(path.relative.len() <= path.raw.len() && path.raw.iter().all(u8::is_ascii_graphic));
    assert!(path.query.is_none_or(|query| query.iter().all(u8::is_ascii_graphic)));
}
