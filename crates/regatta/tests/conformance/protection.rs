//! Files that must not be served, and redirects that must not lead away.

use crate::prelude::*;
use rustix::io::Errno;

/// Fails unless the answer redirects, by a relative reference, from `asked` to the path `to`.
///
/// The reference is resolved as a client does it (RFC 3986 §5.2). Every reading that turns it into
/// another site is ruled out.
#[track_caller]
pub(crate) fn check_location(answer: &Answer, asked: &str, to: &str) {
    assert!(matches!(answer.status, 301 | 308), "{asked}: {answer:?}");
    assert_eq!(answer.field("Cache-Control"), None, "there is no validator to ask with");
    let location = answer.must("Location");
    let second = location.as_bytes().get(1).copied();
    let leads_away = location.starts_with('/') && matches!(second, Some(b'/' | b'\\'));
    assert!(!leads_away && !location.starts_with('\\'), "{asked}: Location {location}");
    let first_segment = location.split(['/', '?', '#']).next().unwrap_or_default();
    assert!(!first_segment.contains(':'), "{asked}: Location {location} has a scheme");
    let resolved = if location.starts_with('/') {
        location.to_owned()
    } else {
        let path = asked.split('?').next().unwrap_or_default();
        let folder = &path[..=path.rfind('/').expect("a path")];
        format!("{folder}{}", location.strip_prefix("./").unwrap_or(location))
    };
    assert_eq!(resolved, to, "{asked}: Location {location}");
}

pub(crate) fn folders_redirect_to_their_slash(variant: &Variant) {
    let mut client = serve(variant).client();
    for (asked, to) in [
        ("/sub", "/sub/"),
        ("/sub?a=b&c=%20", "/sub/?a=b&c=%20"),
        ("/sub/deep", "/sub/deep/"),
        ("/noindex", "/noindex/"),
        ("/sp%20ace", "/sp%20ace/"),
        ("/50%25", "/50%25/"),
        ("/q%3Fm%23h", "/q%3Fm%23h/"),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = client.ask(method, asked, &[]);
            // A folder without an index may be hidden altogether.
            if answer.status != 404 || asked == "/sub" {
                check_location(&answer, asked, to);
            }
        }
    }
    let answer = client.get("/a:b");
    let location = answer.must("Location");
    assert!(["./a:b/", "/a:b/", "/a%3Ab/", "./a%3Ab/", "a%3Ab/"].contains(&location), "{location}");
}

/// Redirects never start with two slashes, and their content is encoded.
pub(crate) fn redirects_do_not_lead_away(variant: &Variant) {
    let server = serve(variant);
    let targets = "//evil.example ///evil.example /.//evil.example /sub/..//evil.example \
                   /%2e//evil.example /\\evil.example //evil.example?//evil.example \
                   /evil.example/..//evil.example /x%0D%0ASet-Cookie:%20a=b \
                   /x%0d%0aSet-Cookie:%20a=b?%0d%0a";
    for asked in targets.split(' ') {
        let answer = server.connect().get(asked);
        assert_eq!(answer.field("Set-Cookie"), None, "{asked}: {answer:?}");
        let Some(location) = answer.field("Location") else { continue };
        let bytes = location.as_bytes();
        let away = matches!(bytes, [b'/' | b'\\', b'/' | b'\\', ..]) || location.contains("://");
        assert!(!away, "{asked}: Location {location}");
    }
    let answer = server.connect().get("//evil.example");
    if answer.status != 404 {
        let location = answer.must("Location");
        let safe = ["/evil.example/", "evil.example/", "./evil.example/"];
        assert!(safe.contains(&location), "{answer:?}");
    }
}

pub(crate) fn hidden_files_do_not_exist(variant: &Variant) {
    let mut client = serve(variant).client();
    let hidden = "/.env /%2eenv /%2Eenv /.git/config /.git/ /.git /..hidden /sub/.hidden \
                  /sub/.d/file.txt /sub/../.env //.env /.well-known/.secret \
                  /sub/.well-known/x.txt /.well-known/../.env";
    for target in hidden.split(' ') {
        let answer = client.get(target).expect(404);
        assert_ne!(answer.body, b"hidden\n", "{target}");
    }
    // Exactly like a missing file.
    let missing = client.get("/missing.txt");
    let hidden = client.get("/.env");
    assert_eq!((missing.status, &missing.body), (hidden.status, &hidden.body));
}

pub(crate) fn well_known_is_served(variant: &Variant) {
    let answer = serve(variant).client().get("/.well-known/security.txt");
    answer.expect(200).has(b"Contact: mailto:x@regatta.test\n");
}

pub(crate) fn hidden_files_are_a_setting(variant: &Variant) {
    let mut client = serve_with(variant, &["content.dotfiles=true"]).client();
    for target in ["/.env", "/.git/config", "/sub/.hidden", "/..hidden"] {
        assert_eq!(client.get(target).expect(200).body, b"hidden\n", "{target}");
    }
}

/// Links that lead out of the root, by any way.
const OUT: [&str; 5] = [
    "/link-out.txt",
    "/link-absolute.txt",
    "/link-outside/secret.txt",
    "/link-proc",
    "/link-outside/../link-out.txt",
];
/// Links that lead nowhere.
const NOWHERE: [&str; 3] = ["/link-loop", "/link-dangling.txt", "/link-loop/x"];

pub(crate) fn no_links_by_default(variant: &Variant) {
    let mut client = serve(variant).client();
    let inside = ["/link-in.txt", "/link-sub/file.txt", "/link-sub/"];
    for target in OUT.iter().chain(&NOWHERE).chain(&inside) {
        let answer = client.get(target).expect_one_of(&[403, 404]);
        assert!(!answer.text().contains(SECRET), "{target}");
    }
}

pub(crate) fn links_inside_are_a_setting(variant: &Variant) {
    let mut client = serve_with(variant, &["content.symlinks=true"]).client();
    client.get("/link-in.txt").expect(200).has(b"small\n");
    client.get("/link-sub/file.txt").expect(200).has(b"file in sub\n");
    for target in OUT.iter().chain(&NOWHERE) {
        let answer = client.get(target).expect_one_of(&[403, 404]);
        assert!(!answer.text().contains(SECRET), "{target}");
    }
    // A precompressed sibling that is a link out of the root still is no sibling.
    let answer = client.ask("GET", "/odd.html", &[("Accept-Encoding", "gzip")]).expect(200);
    assert!(!answer.text().contains(SECRET));
}

/// Anything but a regular file is refused at once: opening a FIFO must not wait for a writer.
pub(crate) fn no_special_files(variant: &Variant) {
    let server = serve(variant);
    for target in ["/fifo", "/socket", "/device", "/unreadable.txt", "/locked/file.txt", "/locked/"]
    {
        let start = Instant::now();
        let mut client = server.connect();
        let answer = client.get(target).expect_one_of(&[403, 404]);
        assert!(start.elapsed() < Duration::from_secs(2), "{target} waited");
        assert_ne!(answer.body, b"nobody reads this\n", "{target}");
        client.get("/small.txt").expect(200);
    }
}

pub(crate) fn no_listings(variant: &Variant) {
    let mut client = serve(variant).client();
    for target in ["/noindex/", "/empty/", "/types/", "/noindex/?", "/sub/deep/"] {
        let body = client.get(target).expect_one_of(&[403, 404]).text();
        assert!(!body.contains("listed-name") && !body.contains("file."), "{target}: {body}");
    }
}

/// Report of a confined process that has tried what it may not.
pub(crate) fn probes_of_confined() -> String {
    let (access, perm) = (Errno::ACCESS.raw_os_error(), Errno::PERM.raw_os_error());
    let since = |version, errno| if landlock_version() < version { 0 } else { errno };
    let (connect, signal) = (since(4, access), since(6, perm));
    format!("probe: open {access}, connect {connect}, signal {signal}, run {access}")
}

/// An attacker who makes a worker run foreign code finds what it serves, and nothing else.
pub(crate) fn a_worker_is_confined(variant: &Variant) {
    if landlock_version() == 0 {
        return skip("needs Landlock (lsm=landlock,…)");
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let launch = Launch::new(variant, common()).set("server.sandbox=required");
    let server = launch.faults(format!("probe_port={port}")).start();
    server.connect().get("/small.txt").expect(200);
    soon(|| server.stderr().lines().any(|line| line.starts_with("probe: ")));
    for line in server.stderr().lines().filter(|line| line.starts_with("probe: ")) {
        assert_eq!(line, probes_of_confined());
    }
    server.says("workers have given up privileges, capabilities, files");
}
