//! Index files, clean URLs, the fallback of single-page applications, and pages for 404.

use crate::prelude::*;
use rustix::fs::FileType;

pub(crate) fn index_of_a_folder(variant: &Variant) {
    let mut client = serve(variant).client();
    client.get("/").expect(200).has(b"<!doctype html><title>Home</title>\n");
    let by_folder = client.get("/sub/").expect(200);
    let by_folder = by_folder.has(b"<!doctype html><title>Sub</title>\n");
    let by_name = client.get("/sub/index.html").expect(200);
    assert_eq!(by_name.must("ETag"), by_folder.must("ETag"));
    let home = serve(variant).connect().get("/").expect(200);
    client.ask("GET", "/", &[("If-None-Match", home.must("ETag"))]).expect(304);
}

pub(crate) fn index_is_a_list(variant: &Variant) {
    let site = Site::with(&[
        ("both/home.html", "home"),
        ("both/index.html", "index"),
        ("second/index.html", "index"),
        ("neither/other.html", "other"),
    ]);
    let settings = ["content.index=home.html,index.html"];
    let mut client = serve_root(variant, &site.root(), &settings).client();
    client.get("/both/").expect(200).has(b"home");
    client.get("/second/").expect(200).has(b"index");
    client.get("/neither/").expect_one_of(&[403, 404]);
}

pub(crate) fn index_that_is_a_folder(variant: &Variant) {
    let site = Site::with(&[("odd/index.html/file.txt", "x")]);
    serve_root(variant, &site.root(), &[]).client().get("/odd/").expect_one_of(&[403, 404]);
}

/// An index, a sibling or a page for 404 that is no readable file does not count.
pub(crate) fn helpers_that_are_no_files(variant: &Variant) {
    let site = Site::with(&[
        ("unreadable/index.html", "secret"),
        ("page.html", "identity"),
        ("page.html.gz", "coded"),
        ("page.html.br", "coded"),
    ]);
    site.mode("unreadable/index.html", 0);
    site.mode("page.html.gz", 0);
    site.folder("fifo");
    assert!(site.node("fifo/index.html", FileType::Fifo, 0), "a FIFO");
    site.folder("linked");
    site.link("linked/index.html", "../page.html");
    site.link("404.html", "/etc/passwd");
    let mut client = serve_root(variant, &site.root(), &[]).client();
    for target in ["/unreadable/", "/fifo/", "/linked/"] {
        client.get(target).expect_one_of(&[403, 404]);
    }
    let missing = client.get("/missing").expect(404);
    assert!(!missing.text().contains("root:"), "{missing:?}");
    client.ask("GET", "/page.html", &[("Accept-Encoding", "gzip")]).expect(200).has(b"identity");
    let coded = client.ask("GET", "/page.html", &[("Accept-Encoding", "gzip, br")]).expect(200);
    assert_eq!(coded.must("Content-Encoding"), "br");
}

pub(crate) fn clean_urls(variant: &Variant) {
    let site = Site::with(&[
        ("about.html", "about"),
        ("docs/guide.html", "guide"),
        ("file", "exact"),
        ("file.html", "with suffix"),
        ("folder/index.html", "folder"),
        (".hidden.html", "hidden"),
    ]);
    let mut client = serve_root(variant, &site.root(), &["content.clean_urls=true"]).client();
    for (target, text) in
        [("/about", "about"), ("/docs/guide", "guide"), ("/file", "exact"), ("/about?q", "about")]
    {
        assert_eq!(client.get(target).expect(200).text(), text, "{target}");
    }
    assert_eq!(client.get("/about").must("Content-Type"), "text/html; charset=utf-8");
    check_location(&client.get("/folder"), "/folder", "/folder/");
    for target in ["/missing", "/about/", "/.hidden", "/docs/about"] {
        client.get(target).expect(404);
    }
    serve_root(variant, &site.root(), &[]).connect().get("/about").expect(404);
}

const NAVIGATION: (&str, &str) =
    ("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8");

pub(crate) fn fallback_for_navigations(variant: &Variant) {
    let site = Site::with(&[("index.html", "the application"), ("app.js", "code")]);
    let mut client = serve_root(variant, &site.root(), &["content.fallback=index.html"]).client();
    for target in ["/route", "/deep/er/route", "/route?q=1", "/users/42"] {
        let answer = client.ask("GET", target, &[NAVIGATION]).expect(200).has(b"the application");
        assert_eq!(answer.must("Content-Type"), "text/html; charset=utf-8");
        let head = client.ask("HEAD", target, &[NAVIGATION]).expect(200);
        assert_eq!(head.must("Content-Length"), answer.body.len().to_string());
    }
    assert_eq!(client.get("/app.js").expect(200).body, b"code");
}

pub(crate) fn fallback_for_all(variant: &Variant) {
    let set = ["content.fallback=index.html", "content.fallback_for=paths-without-extension"];
    let server = serve_with(variant, &set);
    let mut client = server.connect();
    for accept in ["*/*", "text/html"] {
        let answer = client.ask("GET", "/app/view", &[("Accept", accept)]).expect(200);
        assert!(answer.body.starts_with(b"<!doctype html><title>Home"), "{answer:?}");
        assert_eq!(answer.field("Vary"), None, "{answer:?}");
        client.ask("GET", "/app/view.js", &[("Accept", accept)]).expect(404);
    }
}

/// A missing asset answered with a page breaks deployments in ways that take days to find.
pub(crate) fn no_fallback_for_assets(variant: &Variant) {
    let site = Site::with(&[("index.html", "the application")]);
    let mut client = serve_root(variant, &site.root(), &["content.fallback=index.html"]).client();
    for target in ["/missing.js", "/assets/missing.css", "/missing.png", "/missing.json"] {
        client.get(target).expect(404);
        client.ask("GET", target, &[("Accept", "*/*")]).expect(404);
    }
    client.ask("GET", "/route", &[("Accept", "image/avif,image/webp")]).expect(404);
    client.ask("GET", "/route", &[("Accept", "application/json")]).expect(404);
    // A hidden name is neither there nor a route; shown, it is like any other: `.env` has a suffix.
    site.put(".shown/a", "shown");
    for (dotfiles, statuses) in [("false", [404, 404, 404]), ("true", [404, 200, 200])] {
        let sets = ["content.fallback=index.html", &format!("content.dotfiles={dotfiles}")];
        let mut client = serve_root(variant, &site.root(), &sets).client();
        for (target, status) in ["/.env", "/.shown/route", "/.shown/a"].into_iter().zip(statuses) {
            client.ask("GET", target, &[NAVIGATION]).expect(status);
        }
    }
}

pub(crate) fn own_page_for_not_found(variant: &Variant) {
    let site = Site::with(&[("404.html", "our own page"), ("index.html", "home")]);
    let mut client = serve_root(variant, &site.root(), &[]).client();
    let plain = client.get("/missing").expect(404).has(b"our own page");
    assert_eq!(plain.must("Content-Type"), "text/html; charset=utf-8");
    let head = client.ask("HEAD", "/missing", &[]).expect(404);
    assert_eq!(head.must("Content-Length"), "12");
    // The answer is about an error: neither conditions nor ranges apply (RFC 9110 §13.2.1).
    let direct = client.get("/404.html").expect(200);
    for field in [
        ("If-None-Match", "*"),
        ("If-None-Match", direct.must("ETag")),
        ("Range", "bytes=0-1"),
        ("If-Modified-Since", "Wed, 15 Nov 2023 22:13:20 GMT"),
    ] {
        let answer = client.ask("GET", "/missing", &[field]).expect(404);
        assert_eq!(answer.body, b"our own page", "{field:?}");
    }
    assert_eq!(client.get("/.env").expect(404).body, b"our own page");
}

pub(crate) fn page_for_not_found_is_a_setting(variant: &Variant) {
    let site = Site::with(&[("404.html", "the default"), ("gone/lost.html", "lost")]);
    let server = serve_root(variant, &site.root(), &["content.not_found=gone/lost.html"]);
    assert_eq!(server.connect().get("/missing").expect(404).body, b"lost");
    let server = serve_root(variant, &site.root(), &["content.not_found=nowhere.html"]);
    assert_ne!(server.connect().get("/missing").expect(404).body, b"the default");
}
