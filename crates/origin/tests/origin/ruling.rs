//! The owner's rules: fields of files, and redirects.
use crate::rig::{
    ABC, Client, Expected, Rig, add_auth, add_headers, add_redirect, check, get_with,
};
use crate::soup::Dice;
use regatta_http::{Status, pattern::Pattern};
use regatta_metrics::Counter;
use regatta_op::{OpKind, OpenFault};
use regatta_origin::{ContentRules, CorsOptions, CorsRule, ErrorPage, Redirect, Rules, Site};

fn get(path: &str) -> String {
    get_with(path, "Accept: text/html\r\n")
}

/// A request with a further field.
fn with_field(request: &str, field: &str) -> String {
    request.replace("Accept:", &format!("{field}\r\nAccept:"))
}

/// A request of Ann, whose password is `abc`.
fn of_ann(path: &str) -> String {
    with_field(&get(path), "Authorization: Basic YW5uOmFiYw==")
}

fn rig(content: ContentRules) -> Rig {
    let mut rules = Rules::default();
    for (at, (from, lines)) in [
        ("/*", &["X-All: yes", "! X-Content-Type-Options"][..]),
        ("/docs/*", &["Cache-Control: max-age=60", "Vary: Cookie", "X-All: docs"]),
        ("/ten.txt", &["Content-Type: text/x-ten", "! Cache-Control"]),
    ]
    .into_iter()
    .enumerate()
    {
        add_headers(&mut rules, from, lines, &format!("r.toml:{at}"));
    }
    for (from, to, status, force) in [
        ("/old/*", "/docs/:splat", 301, false),
        ("/docs/*", "/elsewhere", 302, false),
        ("/forced.html", "https://h/x", 308, true),
        ("/app/*", "/docs/guide.html", 200, false),
        ("/gone/*", "", 410, false),
        ("/lost/*", "/docs/index.html", 410, false),
        ("/hole", "/none.html", 200, false),
    ] {
        add_redirect(&mut rules, [from, to], status, force, "r.toml:9:1");
    }
    let rig = Rig::new(Site { content, rules: rules.into(), ..Site::default() });
    rig.put("forced.html", b"never");
    rig
}

#[test]
fn files_are_sent_with_the_fields_of_rules() {
    let rig = rig(ContentRules::default());
    let guide = Expected {
        status: 200,
        fields: &[
            ("cache-control", "max-age=60"),
            ("vary", "Cookie"),
            ("x-all", "docs"),
            ("x-content-type-options", ""),
        ],
        body: Some(b"guide"),
    };
    // The second and third time from memory, the third in one piece.
    for _ in 0..3 {
        check(&rig, &get("/docs/guide.html"), &guide);
    }
    let ten = [("content-type", "text/x-ten"), ("cache-control", ""), ("x-all", "yes")];
    check(&rig, &get("/ten.txt"), &Expected { status: 200, fields: &ten, body: None });
    let lost = [("x-all", "yes"), ("cache-control", "no-cache")];
    check(&rig, &get("/none"), &Expected { status: 404, fields: &lost, body: None });
    let found = check(&rig, &get("/docs/guide.html"), &guide);
    let etag = found.head.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap();
    let request = with_field(&get("/docs/guide.html"), &format!("If-None-Match: {etag}"));
    let same = [("cache-control", "max-age=60"), ("vary", "Cookie"), ("x-all", "")];
    check(&rig, &request, &Expected { status: 304, fields: &same, body: Some(b"") });
}

#[test]
fn redirects_answer_where_no_file_does() {
    let content = ContentRules { fallback: "index.html".into(), ..ContentRules::default() };
    let rig = rig(content);
    let rows: &[(&str, u16, &[(&str, &str)], &[u8])] = &[
        ("/old/a%2eb?q", 301, &[("location", "/docs/a.b?q")], b""),
        ("/old//%5c/%5cevil", 301, &[("location", "/docs/%5C/%5Cevil")], b""),
        ("/docs/guide.html", 200, &[], b"guide"),
        ("/docs/none", 302, &[("location", "/elsewhere")], b""),
        ("/forced.html", 308, &[("location", "https://h/x")], b""),
        // It has the fields of the file that is served.
        ("/app/a/b", 200, &[("x-all", "docs")], b"guide"),
        ("/gone/x", 410, &[], b""),
        ("/lost/x", 410, &[("x-all", "docs"), ("cache-control", "no-cache")], b"docs"),
        ("/hole", 404, &[], b"<h1>lost</h1>\n"),
        // A rule comes before the fallback, which has no fields of the file that was asked for.
        ("/other", 200, &[("x-all", "yes")], b"<h1>home</h1>\n"),
    ];
    for (path, status, fields, body) in rows {
        let body = (!body.is_empty()).then_some(*body);
        for _ in 0..2 {
            check(&rig, &get(path), &Expected { status: *status, fields, body });
        }
    }
}

#[test]
fn the_server_field_is_as_configured() {
    for (server_name, expected) in [(None, "regatta"), (Some(""), ""), (Some("a/1 b"), "a/1 b")] {
        let server_name = server_name.map(Into::into);
        let rig = Rig::new(Site { server_name, ..Site::default() });
        rig.put("a.txt", b"a");
        let fields = [("server", expected)];
        // From the disk, from memory, and in one piece; then a page for an error, and a range.
        for _ in 0..3 {
            check(
                &rig,
                &get("/a.txt"),
                &Expected { status: 200, fields: &fields, body: Some(b"a") },
            );
        }
        check(&rig, &get("/none"), &Expected { status: 404, fields: &fields, body: None });
        let part = with_field(&get("/a.txt"), "Range: bytes=0-0");
        check(&rig, &part, &Expected { status: 206, fields: &fields, body: Some(b"a") });
    }
}

#[test]
fn rules_answer_without_files() {
    let mut rules = Rules::default();
    for (path, status, text) in [
        ("/healthz", 200, "ok"),
        ("/up", 204, ""),
        ("/shop/*", 503, "closed until noon"),
        ("/old/*", 410, ""),
        ("/later", 503, ""),
    ] {
        let pattern = Pattern::parse(path).expect("a pattern");
        let rule = Redirect::response(status, text, "r.toml:9").expect("an answer");
        rules.add_redirect(&pattern, rule).expect("there is room");
    }
    let rig = Rig::new(Site { rules: rules.into(), ..Site::default() });
    rig.put("shop/index.html", b"shop");
    rig.put("healthz", b"a file");
    let fields = [("content-type", "text/plain; charset=utf-8"), ("cache-control", "no-store")];
    check(&rig, &get("/healthz"), &Expected { status: 200, fields: &fields, body: Some(b"ok") });
    let none = [("content-type", ""), ("content-length", ""), ("cache-control", "no-store")];
    check(&rig, &get("/up"), &Expected { status: 204, fields: &none, body: Some(b"") });
    let closed = [("retry-after", "60"), ("cache-control", "")];
    let body = Some(&b"closed until noon"[..]);
    check(&rig, &get("/shop/"), &Expected { status: 503, fields: &closed, body });
    check(&rig, &get("/later"), &Expected { status: 503, fields: &closed, body: None });
    let page = [("content-type", "text/html; charset=utf-8")];
    check(&rig, &get("/old/x"), &Expected { status: 410, fields: &page, body: None });
    rig.decides(&get("/healthz"), "response: the rule at r.toml:9");
    rig.decides(&get("/old/"), "answer: 410 Gone: no text");
}

/// A browser must keep for ever only what it asked for. A page that answers in place of an asset
/// has its own `Cache-Control`, whether a rule or the name sets that of the asset.
#[test]
fn a_page_in_place_of_an_asset_is_never_immutable() {
    let mut rules = Rules::default();
    let kept = "Cache-Control: max-age=31536000, immutable";
    add_headers(&mut rules, "/assets/*", &[kept], "r.toml:1");
    add_redirect(&mut rules, ["/assets/moved/*", "/index.html"], 200, false, "r.toml:2");
    let content = ContentRules { fallback: "index.html".into(), ..ContentRules::default() };
    let rig = Rig::new(Site { content, rules: rules.into(), ..Site::default() });
    rig.put("assets/here.html", b"here");
    let immutable = [("cache-control", "max-age=31536000, immutable")];
    let page = [("cache-control", "no-cache")];
    for (path, status, fields) in [
        ("/assets/here.html", 200, &immutable),
        ("/assets/none", 200, &page),
        ("/assets/app.0123456789abcdef.html", 200, &page),
        ("/assets/moved/app.0123456789abcdef.js", 200, &page),
        ("/assets/app.0123456789abcdef.js", 404, &page),
    ] {
        for _ in 0..2 {
            check(&rig, &get(path), &Expected { status, fields, body: None });
        }
    }
}

#[test]
fn files_with_rules_are_not_served() {
    for (rules_files, status) in [(true, 404), (false, 200)] {
        let mut rules = Rules::default();
        add_redirect(&mut rules, ["/in/*", "/:splat"], 200, false, "r.toml:1");
        let rig = Rig::new(Site {
            content: ContentRules { rules_files, clean_urls: true, ..ContentRules::default() },
            rules: rules.into(),
            ..Site::default()
        });
        for name in ["_headers", "_headers.gz", "_redirects", "_redirects.br", "docs/_headers"] {
            rig.put(name, b"rules");
        }
        let paths = ["/_headers", "/_redirects", "/docs/../%5Fheaders", "/in/_headers"];
        for path in paths.into_iter().chain(["/_headers.gz", "/_redirects.br"]) {
            check(&rig, &get(path), &Expected { status, fields: &[], body: None });
        }
        check(&rig, &get("/_headers/"), &Expected { status: 404, fields: &[], body: None });
        check(&rig, &get("/docs/_headers"), &Expected { status: 200, fields: &[], body: None });
    }
}

#[test]
fn an_explanation_names_the_rules() {
    let rig = rig(ContentRules::default());
    for (path, expected) in [
        ("/docs/guide.html", "headers: the rule at r.toml:1"),
        ("/old/x", "redirect: the rule at r.toml:9:1"),
        ("/forced.html", "redirect: the rule at r.toml:9:1"),
        ("/gone/x", "redirect: the rule at r.toml:9:1"),
        ("/app/x", "redirect: the rule at r.toml:9:1"),
    ] {
        rig.decides(&get(path), expected);
    }
}

#[test]
fn errors_have_pages_of_the_owners() {
    let mut site = Site::default();
    let lines = ["X-All: errors", "Cache-Control: max-age=31536000, immutable"];
    add_headers(&mut site.rules, "/errors/*", &lines, "r.toml:1");
    let long = vec![b'x'; 40_000];
    site.errors = [
        (Status::METHOD_NOT_ALLOWED, "errors/405.html", &b"own"[..]),
        (Status::FORBIDDEN, "errors/403.a1b2c3d4e5f6a7b8.css", &long[..]),
    ]
    .map(|(status, name, body)| ErrorPage::new(status, name.as_bytes(), body, &site))
    .into();
    let rig = Rig::new(site);
    rig.faults.borrow_mut().insert(b"ten.txt".to_vec(), OpenFault::Denied);
    let own = [
        ("allow", "GET, HEAD, OPTIONS"),
        ("content-type", "text/html; charset=utf-8"),
        ("x-content-type-options", "nosniff"),
        ("x-all", "errors"),
        ("cache-control", ""),
    ];
    let post = get("/").replace("GET", "POST");
    check(&rig, &post, &Expected { status: 405, fields: &own, body: Some(b"own") });
    // It is never kept as an asset is, whatever its name.
    let denied = [("content-type", "text/css; charset=utf-8"), ("cache-control", "")];
    let denied = Expected { status: 403, fields: &denied, body: Some(&long) };
    check(&rig, &get("/ten.txt"), &denied);
    let head = get("/ten.txt").replace("GET", "HEAD");
    let found = check(&rig, &head, &Expected { body: Some(b""), ..denied });
    assert_eq!(found.field("content-length").as_deref(), Some("40000"));
    // Others have the server's.
    let put = get("/").replace("GET", "BREW");
    check(&rig, &put, &Expected { status: 501, fields: &[("x-all", "")], body: None });
    rig.decides(&post, "page: one of the site's own (content.error_pages)");
}

#[test]
fn paths_are_shown_to_those_who_are_known() {
    let mut rules = Rules::default();
    let open = ABC.replace("ba", "bb");
    for (path, user, place) in [
        ("/docs/*", format!("ann:{ABC}"), "r.toml:1"),
        ("/docs/guide.html", format!("bob:{ABC}"), "r.toml:2"),
        ("/app.js", format!("ann:{open}"), "r.toml:3"),
    ] {
        add_auth(&mut rules, [path, "docs"], &user, place);
    }
    let content =
        ContentRules { cache_control_page: "public, max-age=5".into(), ..ContentRules::default() };
    let rig = Rig::new(Site { content, rules: rules.into(), ..Site::default() });
    let with = |path: &str, value: &str| with_field(&get(path), &format!("Authorization: {value}"));
    let (ann, bob) = ("Basic YW5uOmFiYw==", "Basic Ym9iOmFiYw==");
    let asks = [("www-authenticate", "Basic realm=\"docs\", charset=\"UTF-8\"")];
    let refused = Expected { status: 401, fields: &asks, body: None };
    let private = [("cache-control", "private, max-age=5"), ("www-authenticate", "")];
    let docs = Expected { status: 200, fields: &private, body: Some(b"docs") };
    for _ in 0..2 {
        for path in ["/docs/", "/docs", "/%64ocs/", "/x/../docs/none", "/docs//guide.html"] {
            check(&rig, &get(path), &refused);
        }
        let head = Expected { body: Some(b""), ..refused };
        check(&rig, &get("/docs/").replace("GET", "HEAD"), &head);
        for field in ["Range: bytes=0-1", "If-None-Match: *", "If-Match: *"] {
            check(&rig, &with_field(&get("/docs/"), field), &refused);
        }
        check(&rig, &with("/docs/", ann), &docs);
        check(&rig, &with("/docs/", bob), &refused);
        check(&rig, &with("/docs/", "Basic YW5uOmFiZA=="), &refused);
        check(&rig, &with("/docs/guide.html", ann), &refused);
        let guide = Expected { body: Some(b"guide"), ..docs };
        check(&rig, &with("/docs/guide.html", bob), &guide);
        check(&rig, &with("/app.js", ann), &refused);
        // A request with two of them says nothing.
        let both = with_field(&with("/docs/", ann), &format!("Authorization: {ann}"));
        check(&rig, &both, &refused);
        let public = [("cache-control", "public, max-age=5")];
        check(&rig, &get("/"), &Expected { status: 200, fields: &public, body: None });
    }
    let allow = [("allow", "GET, HEAD, OPTIONS"), ("www-authenticate", "")];
    let options = get("/docs/").replace("GET", "OPTIONS");
    check(&rig, &options, &Expected { status: 204, fields: &allow, body: None });
    assert!(rig.count(Counter::Unauthorized) > 50);
    let request = with("/docs/", "Basic x");
    rig.decides(&request, "auth: only for the users of the rule at r.toml:1");
    assert!(rig.explain(&request).1.starts_with("HTTP/1.1 401 "));
}

/// By no name does a client without a password get a file that is for some users only.
#[test]
fn protected_files_are_sent_to_nobody_else() {
    let mut rules = Rules::default();
    for path in ["/docs/*", "/app.js", "/clean.html", "/folder/index.html", "/404.html"] {
        add_auth(&mut rules, [path, "docs"], &format!("ann:{ABC}"), "r.toml:1");
    }
    for (from, to, force) in [
        ("/late/*", "/:splat", false),
        ("/early/*", "/:splat", true),
        ("/docs/app/*", "/app.js", true),
        ("/docs/home/*", "/index.html", true),
        ("/docs/in/*", "/docs/guide.html", true),
    ] {
        add_redirect(&mut rules, [from, to], 200, force, "r.toml:9");
    }
    let content = ContentRules { clean_urls: true, ..ContentRules::default() };
    let rig = Rig::new(Site { content, rules: rules.into(), ..Site::default() });
    for name in ["clean.html", "folder/index.html"] {
        rig.put(name, b"protected");
    }
    let asks = [("www-authenticate", "Basic realm=\"docs\", charset=\"UTF-8\"")];
    let refused = Expected { status: 401, fields: &asks, body: None };
    let shown: [(&str, u16, &[u8]); 11] = [
        ("/docs/guide.html", 200, b"guide"),
        ("/docs/in/x", 200, b"guide"),
        ("/docs/home/x", 200, b"<h1>home</h1>\n"),
        ("/clean.html", 200, b"protected"),
        ("/folder/index.html", 200, b"protected"),
        ("/early/ten.txt", 200, b"0123456789"),
        // The password for the file is that for the path, or is asked for.
        ("/docs/app/x", 200, &[b'j'; 3000]),
        ("/late/docs/guide.html", 200, b"guide"),
        ("/early/docs/guide.html", 200, b"guide"),
        ("/clean", 200, b"protected"),
        ("/folder/", 200, b"protected"),
    ];
    // The second time, what may be seen is in memory.
    for _ in 0..2 {
        for path in ["/late/docs/guide.html", "/early/docs/none", "/clean", "/folder/"] {
            check(&rig, &get(path), &refused);
            let bob = with_field(&get(path), "Authorization: Basic Ym9iOmFiYw==");
            check(&rig, &bob, &refused);
        }
        // No password is asked for a page that reports a missing file.
        let lost = check(&rig, &get("/none"), &Expected { status: 404, fields: &[], body: None });
        assert!(lost.body.starts_with(b"<!doctype html><title>404"));
        for (path, status, body) in shown {
            check(&rig, &of_ann(path), &Expected { status, fields: &[], body: Some(body) });
        }
    }
    let why = "auth: \"docs/guide.html\" is only for the users of the rule at r.toml:1";
    rig.decides(&get("/late/docs/guide.html"), why);
}

/// If all is protected, the page for missing files is too.
#[test]
fn a_site_may_be_protected_as_a_whole() {
    let mut rules = Rules::default();
    add_auth(&mut rules, ["/*", "all"], &format!("ann:{ABC}"), "r.toml:1");
    let content =
        ContentRules { cache_control_page: "public, max-age=5".into(), ..ContentRules::default() };
    let rig = Rig::new(Site { content, rules: rules.into(), ..Site::default() });
    let private = [("cache-control", "private, max-age=5")];
    let lost = Expected { status: 404, fields: &private, body: Some(b"<h1>lost</h1>\n") };
    check(&rig, &of_ann("/none"), &lost);
    check(&rig, &get("/none"), &Expected { status: 401, fields: &[], body: None });
}

/// Filled-in text may turn a segment into `..`, or into a name that starts with a dot.
#[test]
fn a_rewrite_makes_no_path_that_a_request_could_not_ask_for() {
    let mut rules = Rules::default();
    add_auth(&mut rules, ["/secret/*", "docs"], &format!("ann:{ABC}"), "r.toml:1");
    for (from, to) in [
        ("/up/*", "/docs/..:splat/secret/a.txt"),
        ("/out/*", "/..:splat/ten.txt"),
        ("/same/*", "/.:splat/ten.txt"),
        ("/dot/:x", "/.:x"),
        ("/known/:x", "/.well-known/:x"),
    ] {
        add_redirect(&mut rules, [from, to], 200, true, "r.toml:9");
    }
    let rig = Rig::new(Site { rules: rules.into(), ..Site::default() });
    rig.put("secret/a.txt", b"secret");
    let lost: &[u8] = b"<h1>lost</h1>\n";
    for (path, status, body) in [
        ("/up/", 401, None),
        ("/up/x", 404, Some(lost)),
        ("/out/", 404, Some(lost)),
        ("/same/", 200, Some(b"0123456789")),
        ("/dot/hidden", 404, Some(lost)),
        ("/known/acme", 200, Some(b"yes")),
    ] {
        check(&rig, &get(path), &Expected { status, fields: &[], body });
    }
}

/// For any rules and any path, files below a protected folder take its password.
#[test]
fn nothing_below_a_protected_folder_is_sent_without_a_password() {
    let pieces = "/ // . .. .% %2e %2E%2e %2f secret Secret secret. secret/ pub pub/ a b.html \
                  index index.html x.js x.js.br .br .html 404.html \\ %00 ? %73ecret : * ~";
    let pieces: Vec<_> = pieces.split_whitespace().collect();
    let parts = [
        &["", "/pub", "/:x", "/a/b"][..],
        &["", "/..:splat", "/.:splat", "/.:splat/..:splat", "/..:x"],
        &["/secret", "/:splat", "/:x", "/.:x", "/secret/deep/..:splat"],
        &["", "/a", "/index.html", "/x.js.br", "/:splat", ".html"],
    ];
    let mut dice = Dice(1);
    let mut below = |count: usize| usize::try_from(dice.below(count as u64)).unwrap();
    let (mut asked, mut sent) = (0, 0);
    for _ in 0..500 {
        let mut rules = Rules::default();
        add_auth(&mut rules, ["/secret/*", "r"], &format!("ann:{ABC}"), "r.toml:1");
        for from in ["/*", "/pub/:x/*", "/:x/*", "/pub/*"] {
            let to = parts.map(|parts| parts[below(parts.len())]).concat();
            let pattern = Pattern::parse(from).unwrap();
            let status = [200, 404, 410][below(3)];
            // Some are none, and are refused at the start.
            if let Ok(redirect) = Redirect::new(&pattern, &to, status, below(2) == 0, "r.toml:9") {
                rules.add_redirect(&pattern, redirect).unwrap();
            }
        }
        let names = ["", "index.html", "secret/index.html", "secret/a", "pub/index.html"];
        let content = ContentRules {
            clean_urls: below(2) == 0,
            fallback: names[below(names.len())].into(),
            not_found: names[below(names.len())].into(),
            dotfiles: below(4) == 0,
            ..ContentRules::default()
        };
        let rig = Rig::new(Site { content, rules: rules.into(), ..Site::default() });
        for name in ["a", "b.html", "index.html", "x.js", "x.js.br", "deep/x.js", ".br"] {
            rig.put(&format!("secret/{name}"), b"SECRET");
            rig.put(&format!("pub/{name}"), b"public");
        }
        rig.put("secret.html", b"public");
        for _ in 0..16 {
            let path: String = (0..below(7)).map(|_| pieces[below(pieces.len())]).collect();
            let request = with_field(&get(&format!("/{path}")), "Accept-Encoding: br");
            // From the disk, and from memory.
            let mut client = rig.connect_with(request.as_bytes());
            client.feed(request.as_bytes());
            for response in client.responses(&[]) {
                let body = String::from_utf8_lossy(&response.body);
                assert!(!body.contains("SECRET"), "{request} {:?}", rig.site.rules);
                asked += u32::from(response.status == 401);
                sent += u32::from(response.status == 200);
            }
        }
    }
    assert!(asked > 500 && sent > 500, "{asked} {sent}");
}

/// A site that lets scripts of an origin read its `/docs/*`.
fn open_to(origin: &str) -> Site {
    let mut site = Site::default();
    let origins = &[origin.to_owned()];
    let options = CorsOptions { origins, headers: &[], expose: &[], max_age_s: 60 };
    let rule = CorsRule::new(options, "r.toml:1").unwrap();
    site.rules.add_cors(&Pattern::parse("/docs/*").unwrap(), rule).unwrap();
    site
}

#[test]
fn scripts_of_other_sites_read_what_they_may() {
    let mut site = open_to("https://a.example");
    // Rules for headers of the same files count for other paths alone.
    let lines = ["Access-Control-Allow-Origin: *", "access-control-allow-credentials: true"];
    add_headers(&mut site.rules, "/docs/:x", &lines, "r.toml:2");
    add_redirect(&mut site.rules, ["/moved", "/docs/guide.html"], 200, false, "r.toml:3");
    let rig = Rig::new(site);
    let from = |request: &str, origin: &str| with_field(request, &format!("Origin: {origin}"));
    let (ours, others) = ("https://a.example", "https://b.example");
    let may = [("vary", "Origin"), ("access-control-allow-origin", ours)];
    let may_not = [("vary", "Origin"), ("access-control-allow-origin", "")];
    let closing = [("connection", "close"), ("access-control-allow-origin", ours)];
    let untouched = [("vary", ""), ("access-control-allow-origin", "")];
    let everybody = [("vary", ""), ("access-control-allow-origin", "*")];
    let guide = |fields| Expected { status: 200, fields, body: Some(&b"guide"[..]) };
    for _ in 0..3 {
        let request = get("/docs/guide.html");
        let found = check(&rig, &from(&request, ours), &guide(&may));
        assert_eq!(found.head.to_ascii_lowercase().matches("access-control-allow").count(), 1);
        check(&rig, &from(&get("/moved"), ours), &guide(&everybody));
        check(&rig, &request, &guide(&may_not));
        check(&rig, &from(&request, others), &guide(&may_not));
        let small = from(&get("/ten.txt"), ours);
        check(&rig, &small, &Expected { status: 200, fields: &untouched, body: None });
        let none = from(&get("/docs/none"), ours);
        check(&rig, &none, &Expected { status: 404, fields: &may, body: None });
        let same = with_field(&from(&request, ours), "If-None-Match: *");
        check(&rig, &same, &Expected { status: 304, fields: &may, body: Some(b"") });
        let part = with_field(&from(&request, ours), "Range: bytes=1-2");
        check(&rig, &part, &Expected { status: 206, fields: &may, body: Some(b"ui") });
        let close = with_field(&from(&request, ours), "Connection: close");
        check(&rig, &close, &guide(&closing));
    }
    let ask = get("/docs/x").replace("GET", "OPTIONS");
    let ask = with_field(&ask, "Access-Control-Request-Method: GET");
    let granted = [
        ("access-control-allow-origin", ours),
        ("access-control-allow-methods", "GET, HEAD"),
        ("access-control-max-age", "60"),
        ("vary", "Origin"),
    ];
    let granted = Expected { status: 204, fields: &granted, body: Some(b"") };
    check(&rig, &from(&ask, ours), &granted);
    let refused = [("access-control-allow-methods", ""), ("access-control-allow-origin", "")];
    let refused = Expected { status: 204, fields: &refused, body: Some(b"") };
    check(&rig, &from(&ask, others), &refused);
    check(&rig, &from(&ask, ours).replace("/docs/x", "/x"), &refused);
    let rule = "cors: scripts of the origin may read it, by the rule at r.toml:1";
    rig.decides(&from(&get("/docs/guide.html"), ours), rule);
}

/// Also why the server ends the connection.
#[test]
fn scripts_of_other_sites_read_every_error() {
    let ours = "https://a.example";
    let rig = Rig::new(open_to(ours));
    let request = |more: &str| {
        let fields = format!("Origin: {ours}\r\n{more}Accept:");
        get("/docs/guide.html").replace("Accept:", &fields)
    };
    let check = |client: &Client<'_>, status: u16| {
        let answer = &client.responses(&[])[0];
        assert_eq!(answer.status, status);
        for (name, value) in
            [("access-control-allow-origin", ours), ("vary", "Origin"), ("connection", "close")]
        {
            assert_eq!(answer.field(name).as_deref(), Some(value), "{}", answer.head);
        }
    };
    for waits in [true, false] {
        let mut client = rig.connect_held(OpKind::Open, request("").as_bytes());
        let gives_up = match waits {
            true => client.expire(rig.site.deadlines.disk_ms_max, 0),
            false => client.turn_away(),
        };
        assert!(gives_up, "the disk is not waited for");
        check(&client, 503);
    }
    let mut next = rig.connect();
    next.turn_away();
    next.feed(request("").as_bytes());
    check(&next, 503);
    for (chunk, status) in [("x\r\n", 400), ("ffffff\r\n", 413), ("5\r\n", 408)] {
        let mut client = rig.connect_with(request("Transfer-Encoding: chunked\r\n").as_bytes());
        client.feed(chunk.as_bytes());
        if status == 413 {
            client.feed(&[b'x'; 100_000]);
        }
        client.expire(rig.site.deadlines.head_ms_max, 0);
        check(&client, status);
    }
}
