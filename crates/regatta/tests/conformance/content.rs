//! Index files, clean URLs, the fallback of single-page applications, and pages for 404.

use crate::prelude::*;
use regatta_testkit::folder::ODD_NAMES;
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

pub(crate) fn folders_are_listed(variant: &Variant) {
    let site = Site::with(&[
        ("pub/plain.txt", "plain"),
        ("pub/sub/inner.txt", "inner"),
        ("pub/app.js", "code"),
        ("pub/app.js.br", "coded"),
        ("pub/.env", "secret"),
        ("indexed/index.html", "index"),
        ("denied/file", "x"),
    ]);
    ODD_NAMES.iter().for_each(|name| site.put(&format!("pub/{name}"), name));
    site.link("pub/link.txt", "plain.txt");
    site.mode("denied", 0);
    assert!(site.node("pub/fifo", FileType::Fifo, 0), "a FIFO");
    let mut client = serve_root(variant, &site.root(), &["content.listing=true"]).client();
    let json = [("Accept", "application/json")];
    let listing = client.ask("GET", "/pub/", &json).expect(200);
    assert_eq!(listing.must("Content-Type"), "application/json");
    let found: Value = serde_json::from_slice(&listing.body).expect("JSON");
    let mut names: Vec<&str> = ODD_NAMES.into_iter().chain(["app.js", "plain.txt"]).collect();
    names.sort_unstable();
    names.insert(0, "sub");
    let entries = found["entries"].as_array().expect("a list");
    assert!(entries.iter().map(|entry| &entry["name"]).eq(&names), "{found:#}");
    for entry in entries.iter().filter(|entry| entry["type"] == "file") {
        let href = entry["href"].as_str().expect("text");
        let file = client.get(&format!("/pub/{href}")).expect(200);
        assert_eq!(entry["size"].as_u64(), Some(file.body.len() as u64), "{entry}");
    }
    let page = client.get("/pub/").expect(200);
    assert_eq!(page.must("Content-Type"), "text/html; charset=utf-8");
    assert_eq!(page.must("Cache-Control"), "no-cache");
    assert!(page.lists("Vary", "Accept") && page.must("X-Content-Type-Options") == "nosniff");
    assert!(page.must("Content-Security-Policy").starts_with("default-src 'none'"));
    let text = page.text();
    assert!(text.contains("&lt;img src=x&gt;.txt") && !text.contains("<img"), "{text}");
    assert!(text.contains("line\\u{a}break") && !text.contains('\u{202e}'), "{text}");
    assert!(!text.contains("link.txt") && !text.contains("fifo"), "{text}");
    client.ask("GET", "/pub/", &[("If-None-Match", page.must("ETag"))]).expect(304);
    let head = client.ask("HEAD", "/pub/", &[]).expect(200);
    assert_eq!(head.must("Content-Length"), page.body.len().to_string());
    check_location(&client.get("/pub"), "/pub", "/pub/");
    let root = client.get("/").expect(200).text();
    assert!(root.contains("href=\"pub/\"") && !root.contains("denied"), "{root}");
    client.get("/indexed/").expect(200).has(b"index");
    client.get("/denied/").expect(403);
    for target in ["/none/", "/pub/plain.txt/", "/pub/.git/", "/pub/link.txt/"] {
        client.get(target).expect(404);
    }
}

pub(crate) fn long_listings_have_pages(variant: &Variant) {
    let site = Site::new();
    (0..1_003).for_each(|number| site.put(&format!("{number:04} &.txt"), ""));
    site.folder("zz");
    let mut client = serve_root(variant, &site.root(), &["content.listing=true"]).client();
    let (mut target, mut found) = ("/".to_owned(), Vec::new());
    for count in [1_000, 4] {
        let answer = client.ask("GET", &target, &[("Accept", "application/json")]).expect(200);
        let page: Value = serde_json::from_slice(&answer.body).expect("JSON");
        let entries = page["entries"].as_array().expect("a list");
        assert_eq!(entries.len(), count);
        found.extend(entries.iter().map(|entry| entry["name"].as_str().expect("text").to_owned()));
        let link = page["next"].as_str();
        assert_eq!(link.is_some(), count == 1_000);
        let next = format!("/{}", link.unwrap_or_default());
        let html = client.get(&target).expect(200).text();
        let links = html.contains(&format!("rel=\"next\" href=\"{}\"", &next[1..]));
        assert_eq!(links, count == 1_000);
        target = next;
    }
    assert_eq!((found.remove(0).as_str(), found.len()), ("zz", 1_003));
    assert!(found.is_sorted(), "{found:?}");
}

/// A client leaves while a child process builds its listing. The worker soon sees the child's end.
pub(crate) fn a_listing_that_no_client_waits_for_leaves_no_process(variant: &Variant) {
    let site = Site::new();
    (0..3_000).for_each(|number| site.put(&format!("{number}.txt"), ""));
    let server = serve_root(variant, &site.root(), &["content.listing=true"]);
    let ended = || {
        let children = server.workers().into_iter().flat_map(children);
        children.filter(|pid| !alive(*pid)).count()
    };
    for ms in [1, 5, 20] {
        let mut client = server.connect();
        client.send(get("/"));
        thread::sleep(Duration::from_millis(ms));
        client.abort();
    }
    eventually(Duration::from_secs(1), || ended() > 0);
    soon(|| ended() == 0);
}
