//! The fields of answers: RFC 9110 §8, §6.6.1, §10.2, RFC 9111 §5.2.

use crate::client::seconds;
use crate::prelude::*;
use crate::site::TYPES;

pub(crate) fn of_every_file(variant: &Variant) {
    let mut client = serve(variant).client();
    for target in ["/small.txt", "/size-0.bin", "/size-1048577.bin", "/", "/types/file.png"] {
        let answer = client.get(target).expect(200);
        let server_name = answer.must("Server").to_ascii_lowercase();
        assert!(server_name.starts_with("regatta"), "{server_name}");
        assert_eq!(answer.must("Last-Modified"), MODIFIED);
        assert_eq!(answer.must("Accept-Ranges"), "bytes");
        assert_eq!(answer.must("X-Content-Type-Options"), "nosniff");
        assert_eq!(answer.must("Content-Length"), answer.body.len().to_string());
        assert!(answer.field("Cache-Control").is_some(), "{answer:?}");
        check_strong(answer.must("ETag"));
    }
}

/// RFC 9110 §8.8.3: a quoted string of etagc, and strong.
fn check_strong(tag: &str) {
    let inner = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
    let inner = inner.unwrap_or_else(|| panic!("not a strong entity tag: {tag}"));
    let etagc = |b| matches!(b, b'!' | b'#'..=b'~');
    assert!(!inner.is_empty() && inner.bytes().all(etagc), "{tag}");
}

pub(crate) fn tags_tell_files_apart(variant: &Variant) {
    let server = serve_with(variant, &["content.etag=inode"]);
    let mut client = server.connect();
    let mut seen = HashSet::new();
    let targets = SIZES.map(|size| format!("/size-{size}.bin"));
    let more = ["/small.txt", "/a.txt", "/sub/file.txt", "/sub/deep/file.txt"].map(str::to_owned);
    for target in targets.iter().chain(&more) {
        let tag = client.get(target).expect(200).must("ETag").to_owned();
        assert_eq!(client.get(target).must("ETag"), tag, "the tag of {target} is stable");
        assert_eq!(server.connect().get(target).must("ETag"), tag);
        assert!(seen.insert(tag), "the tag of {target} is another's");
    }
}

/// Copies with the same length and time have one tag, on whatever machine, as in nginx.
pub(crate) fn copies_have_equal_tags(variant: &Variant) {
    let mut client = serve(variant).client();
    let tags = ["/a.txt", "/sub/deep/file.txt", "/small.txt"]
        .map(|target| client.get(target).expect(200).must("ETag").to_owned());
    assert_eq!(tags[0], tags[1], "13 bytes each");
    assert_ne!(tags[0], tags[2]);
}

/// Whether the workers have a thread for files after their first use. A process that forks helpers
/// has none, and shared descriptors stay with their loop.
pub(crate) fn has_first_use(variant: &Variant) -> bool {
    let forks = variant.has("amped.helper_kind=processes") || variant.name.starts_with("flash_");
    !(forks || variant.name.starts_with("shared_"))
}

/// Equal bytes have one tag, on whatever machine and with whatever time. Other bytes never have it,
/// even with the same length and time.
pub(crate) fn tags_are_of_the_content(variant: &Variant) {
    const OLD: &str = "\"Vov_oRPAKly1qxGZ7pGSED\"";
    const NEW: &str = "\"y0r.UZyjLdZDJj8ENoEK1B\"";
    let site = Site::with(&[("a.txt", "the old text"), ("copy.txt", "the old text")]);
    let path = site.path("a.txt");
    set_modified(&path, 1_600_000_000);
    crate::site::age();
    let sets = ["content.etag=content", "cache.revalidate_ms=50"];
    let server = serve_root(variant, &site.root(), &sets);
    let ask = |target: &str| {
        let answer = server.connect().get(target).expect(200);
        let tag = answer.must("ETag").to_owned();
        assert!(tag != OLD || answer.body == b"the old text", "{answer:?}");
        assert!(tag != NEW || answer.body == b"the new text", "{answer:?}");
        tag
    };
    check_strong(&ask("/a.txt"));
    // Without a thread tags are made from all facts.
    let is_hashed = has_first_use(variant);
    if is_hashed {
        comes_to(|| ask("/a.txt"), |tag| tag == OLD);
        comes_to(|| ask("/copy.txt"), |tag| tag == OLD);
    }
    let old = ask("/a.txt");
    let fields = [("If-None-Match", &*old)];
    comes_to(|| server.connect().ask("GET", "/a.txt", &fields).status, |status| *status == 304);
    site.put("new.tmp", "the new text");
    set_modified(&site.path("new.tmp"), 1_600_000_000);
    fs::rename(site.path("new.tmp"), path).expect("a rename");
    let new = comes_to(|| ask("/a.txt"), |tag| if is_hashed { tag == NEW } else { *tag != old });
    assert_ne!(new, old);
    let changed = || server.connect().ask("GET", "/a.txt", &fields).status;
    comes_to(changed, |status| *status == 200);
}

pub(crate) fn media_types(variant: &Variant) {
    let mut client = serve(variant).client();
    for (extension, media_type) in TYPES {
        let answer = client.get(&format!("/types/file.{extension}")).expect(200);
        assert_eq!(answer.must("Content-Type"), *media_type, ".{extension}");
    }
    let unknown = "application/octet-stream";
    assert_eq!(client.get("/types/none").expect(200).must("Content-Type"), unknown);
    assert_eq!(client.get("/").must("Content-Type"), "text/html; charset=utf-8");
}

pub(crate) fn charset_is_a_setting(variant: &Variant) {
    let server = serve_with(variant, &["content.charset=iso-8859-1"]);
    let mut client = server.connect();
    let of = |answer: Answer| answer.must("Content-Type").to_owned();
    assert_eq!(of(client.get("/small.txt")), "text/plain; charset=iso-8859-1");
    assert_eq!(of(client.get("/types/file.png")), "image/png");
    let server = serve_with(variant, &["content.charset="]);
    assert_eq!(of(server.connect().get("/small.txt")), "text/plain");
}

pub(crate) fn types_are_a_setting(variant: &Variant) {
    let settings = ["content.types=unheard-of=application/x-heard,txt=text/x-other"];
    let mut client = serve_with(variant, &settings).client();
    let mut of = |target: &str| client.get(target).expect(200).must("Content-Type").to_owned();
    assert_eq!(of("/types/file.unheard-of"), "application/x-heard");
    assert_eq!(of("/small.txt"), "text/x-other; charset=utf-8");
    assert_eq!(of("/types/file.png"), "image/png");
}

pub(crate) fn server_name_is_a_setting(variant: &Variant) {
    for (set, expected) in [("server.name=none", None), ("server.name=a/1", Some("a/1"))] {
        let server = serve_with(variant, &[set]);
        let mut client = server.connect();
        for (target, status) in [("/small.txt", 200), ("/small.txt", 200), ("/missing", 404)] {
            assert_eq!(client.get(target).expect(status).field("Server"), expected, "{set}");
        }
    }
}

pub(crate) fn nosniff_is_a_setting(variant: &Variant) {
    let mut client = serve_with(variant, &["content.nosniff=false"]).client();
    assert_eq!(client.get("/small.txt").expect(200).field("X-Content-Type-Options"), None);
}

pub(crate) fn pages_revalidate_and_hashed_assets_live(variant: &Variant) {
    let mut client = serve(variant).client();
    let mut of =
        |target: &str| client.get(target).expect(200).must("Cache-Control").to_ascii_lowercase();
    for page in ["/", "/page.html", "/sub/"] {
        assert_eq!(of(page), "no-cache", "{page}");
    }
    for asset in ["/app.3f2a9c1b4d5e6f70.js", "/assets/index-BdH3bPq2.js"] {
        let value = of(asset);
        let is_lasting = value.contains("immutable") && value.contains("max-age=31536000");
        assert!(is_lasting, "{asset} {value}");
    }
    for other in ["/plain.css", "/small.txt", "/types/file.png"] {
        assert!(!of(other).contains("immutable"), "{other} has no hash in its name");
    }
}

pub(crate) fn cache_control_is_a_setting(variant: &Variant) {
    let settings = [
        "content.cache_control_page=max-age=1",
        "content.cache_control_asset=max-age=2",
        "content.cache_control_other=max-age=3",
    ];
    let mut client = serve_with(variant, &settings).client();
    for (target, value) in [
        ("/page.html", "max-age=1"),
        ("/app.3f2a9c1b4d5e6f70.js", "max-age=2"),
        ("/types/file.png", "max-age=3"),
    ] {
        assert_eq!(client.get(target).expect(200).must("Cache-Control"), value, "{target}");
    }
}

/// RFC 9110 §8.8.2.1: Last-Modified is never later than Date.
pub(crate) fn no_modification_in_the_future(variant: &Variant) {
    let answer = serve(variant).client().get("/future.txt").expect(200);
    let of = |name: &str| answer.field(name).map(|v| httpdate::parse_http_date(v).expect("date"));
    let date = of("Date").expect("always there");
    if let Some(modified) = of("Last-Modified") {
        assert!(seconds(modified) <= seconds(date), "{answer:?}");
    }
    assert_eq!(answer.body, b"from the future\n");
}

pub(crate) fn modification_at_the_epoch(variant: &Variant) {
    let answer = serve(variant).client().get("/epoch.txt").expect(200);
    if let Some(modified) = answer.field("Last-Modified") {
        assert_eq!(modified, "Thu, 01 Jan 1970 00:00:00 GMT");
    }
    check_strong(answer.must("ETag"));
}

pub(crate) fn error_bodies_are_safe(variant: &Variant) {
    let server = serve(variant);
    let mut client = server.connect();
    for target in ["/%3Cscript%3Ealert(1)%3C/script%3E", "/<script>alert(1)</script>", "/a%22b%26c"]
    {
        let answer = client.get(target).expect_one_of(&[400, 404]);
        let body = answer.text();
        assert!(!body.contains("<script") && !body.contains("a\"b&c"), "reflected: {body}");
        if !answer.body.is_empty() {
            let media_type = answer.must("Content-Type");
            assert!(media_type.starts_with("text/"), "{media_type}");
            assert_eq!(answer.must("X-Content-Type-Options"), "nosniff");
        }
        if answer.closes() {
            client = server.connect();
        }
    }
}

pub(crate) fn errors_carry_no_validators(variant: &Variant) {
    let mut client = serve(variant).client();
    for target in ["/missing.txt", "/.env", "/empty/"] {
        let answer = client.get(target).expect(404);
        for name in ["ETag", "Last-Modified", "Content-Encoding", "Accept-Ranges"] {
            assert_eq!(answer.field(name), None, "{target}: {answer:?}");
        }
        let cached = answer.field("Cache-Control").unwrap_or_default();
        assert!(!cached.contains("immutable"), "{target}: {answer:?}");
    }
}
