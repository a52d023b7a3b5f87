//! Six configurations of nginx as those of the server: all of them but `proxy_pass`
//! (docs/from-nginx.md). Those without TLS pass `check` without a hint.

use crate::prelude::*;

/// A request with its fields, the status of the answer, and parts of its head and body.
type Asked<'a> = (&'a str, &'a [(&'a str, &'a str)], u16, &'a [&'a str]);

const BROWSER: [(&str, &str); 2] = [("Accept", "text/html"), ("Sec-Fetch-Dest", "document")];

/// Starts a server with a configuration, which must answer as expected, and returns it.
fn answers(site: &Site, config: &str, variant: &Variant, asked: &[Asked<'_>]) -> Server {
    let config = site.configure(config);
    let server = Launch::new(variant, &site.root()).config(&config).start();
    for (target, fields, status, parts) in asked {
        let answer = server.connect().ask("GET", target, fields).expect(*status);
        let head = answer.fields.iter().map(|(name, value)| format!("{name}: {value}\n"));
        let all = head.collect::<String>() + "\n" + &answer.text();
        parts.iter().for_each(|part| assert!(all.contains(part), "{target}: {part}: {all}"));
    }
    if !variant.tls {
        let config = config.to_str().expect("our paths are text");
        let said = ends_with(0, &["check", &site.root_text(), "--config", config]);
        assert!(!said.stderr.contains("hint:"), "{said:?}");
    }
    server
}

fn sped() -> &'static Variant {
    Variant::find("sped_epoll")
}

/// `try_files $uri $uri.html $uri/ =404; error_page 404 /404.html;` and, for `/_next/static/`,
/// `expires 1y; add_header Cache-Control "public, immutable";`.
pub(crate) fn an_export_of_next() {
    let site = Site::with(&[
        ("index.html", "home"),
        ("about.html", "about"),
        ("404.html", "lost"),
        ("_next/static/chunks/main.js", "code"),
    ]);
    let config = r#"
[content]
clean_urls = true
[[headers]]
path = "/_next/static/*"
set = ["Cache-Control: public, max-age=31536000, immutable"]
"#;
    let immutable = "Cache-Control: public, max-age=31536000, immutable\n";
    answers(
        &site,
        config,
        sped(),
        &[
            ("/", &[], 200, &["\nhome"]),
            ("/about", &[], 200, &["\nabout", "text/html"]),
            ("/none", &[], 404, &["\nlost"]),
            ("/_next/static/chunks/main.js", &[], 200, &[immutable]),
        ],
    );
}

/// `location ~* \.(css|js|woff2)$ { expires 30d; }`, `location ~* \.(?:html|xml)$ { add_header
/// Cache-Control no-cache; }`, `location ~* \.pdf$ { add_header Content-Disposition attachment; }`,
/// `gzip_static on; charset utf-8; error_page 404 /de/404.html;`.
pub(crate) fn a_site_of_hugo_with_rules_by_extension() {
    let site = Site::with(&[
        ("index.html", "home"),
        ("de/404.html", "fehlt"),
        ("css/a.css", "a style that is long"),
        ("css/a.css.gz", "coded"),
        ("posts/one/index.html", "one"),
        ("posts/one/paper.pdf", "paper"),
        ("index.xml", "<rss/>"),
    ]);
    let config = r#"
[content]
not_found = "de/404.html"
charset = "utf-8"
[[headers]]
path = "*.{css,js,woff2}"
set = ["Cache-Control: max-age=2592000"]
[[headers]]
path = "**/*.{html,xml}"
set = ["Cache-Control: no-cache"]
[[headers]]
path = "**/*.pdf"
set = ["Content-Disposition: attachment"]
"#;
    let coded = ["Content-Encoding: gzip\n", "Cache-Control: max-age=2592000\n", "\ncoded"];
    answers(
        &site,
        config,
        sped(),
        &[
            ("/css/a.css", &[("Accept-Encoding", "gzip")], 200, &coded),
            ("/posts/one/", &[], 200, &["Cache-Control: no-cache\n", "charset=utf-8", "\none"]),
            ("/posts/one", &[], 301, &["Location: ./one/\n"]),
            ("/posts/one/paper.pdf", &[], 200, &["Content-Disposition: attachment\n"]),
            ("/index.xml", &[], 200, &["Cache-Control: no-cache\n"]),
            ("/none.css", &[], 404, &["\nfehlt"]),
        ],
    );
}

/// `listen 443 ssl; add_header Strict-Transport-Security …; add_header Content-Security-Policy …;
/// try_files $uri /index.html; gzip on;`, and a server on port 80 with `return 301
/// https://$host$request_uri`.
pub(crate) fn an_application_with_a_policy_and_tls() {
    let site = Site::with(&[("index.html", "application"), ("app.js", &*"code ".repeat(500))]);
    let config = r#"
[content]
fallback = "index.html"
compress = true
[tls]
hsts_s = 31536000
redirect = true
[[headers]]
path = "/*"
set = ["Content-Security-Policy: default-src 'self'", "X-Frame-Options: DENY"]
"#;
    let all = [
        "Strict-Transport-Security: max-age=31536000",
        "Content-Security-Policy: default-src 'self'\n",
        "X-Frame-Options: DENY\n",
        "\napplication",
    ];
    let tls = Variant { tls: true, ..*sped() };
    answers(
        &site,
        config,
        &tls,
        &[
            ("/", &BROWSER, 200, &all),
            ("/users/7", &BROWSER, 200, &all),
            ("/app.js", &[], 200, &["Vary: Accept-Encoding\n", "X-Frame-Options: DENY\n"]),
            ("/none.js", &[], 404, &[]),
        ],
    );
    let config = site.beside("regatta.toml");
    let server = Launch::new(&tls, &site.root()).config(&config).listen_in_the_clear().start();
    let moved = Client::connect(server.clear_address()).get("/users/7?a=b").expect(308);
    let place = moved.must("Location");
    assert!(
        place.starts_with("https://regatta.test") && place.ends_with("/users/7?a=b"),
        "{place}"
    );
}

/// Twelve lines of `rewrite … permanent`, `return 301`, `return 302` and `return 410`.
pub(crate) fn documents_with_twelve_redirects() {
    let site = Site::with(&[("v2/start.html", "start"), ("gone.html", "gone for good")]);
    let rows = [
        ("/v1/*", "/v2/:splat", 301),
        ("/docs/:page/edit", "https://git.example/edit/:page", 302),
        ("/latest", "/v2/", 302),
        ("/latest/*", "/v2/:splat", 302),
        ("/start", "/v2/start.html", 301),
        ("/*.php", "/:splat.html", 301),
        ("/api/:version/:name", "/reference/:name?v=:version", 301),
        ("/chat", "https://chat.example/", 307),
        ("/feed", "/index.xml", 308),
        ("/img/*", "https://cdn.example/:splat", 301),
        ("/old-start", "/v2/start.html", 200),
        ("/removed/*", "/gone.html", 410),
    ];
    let row = |(from, to, status): &(&str, &str, u16)| {
        format!("[[redirects]]\nfrom = {from:?}\nto = {to:?}\nstatus = {status}\n")
    };
    let config: String = rows.iter().map(row).collect();
    let config = config.replace("status = 301\n", "status = 301\nforce = true\n");
    answers(
        &site,
        &config,
        sped(),
        &[
            ("/v1/a/b?c=d", &[], 301, &["Location: /v2/a/b?c=d\n"]),
            ("/docs/install/edit", &[], 302, &["Location: https://git.example/edit/install\n"]),
            ("/latest", &[], 302, &["Location: /v2/\n"]),
            ("/latest/x", &[], 302, &["Location: /v2/x\n"]),
            ("/start", &[], 301, &["Location: /v2/start.html\n"]),
            ("/a/b.php", &[], 301, &["Location: /a/b.html\n"]),
            ("/api/3/open", &[], 301, &["Location: /reference/open?v=3\n"]),
            ("/chat", &[], 307, &["Location: https://chat.example/\n"]),
            ("/feed", &[], 308, &["Location: /index.xml\n"]),
            ("/img/a%20b.png", &[], 301, &["Location: https://cdn.example/a%20b.png\n"]),
            ("/old-start", &[], 200, &["\nstart"]),
            ("/removed/x", &[], 410, &["\ngone for good"]),
            ("/v2/start.html", &[], 200, &["\nstart"]),
        ],
    );
}

/// `autoindex on; autoindex_exact_size off; autoindex_format json` by `Accept`, `auth_basic` for
/// `/internal/`, `types { application/pgp-signature sig; }`, `add_header
/// Access-Control-Allow-Origin *`.
pub(crate) fn a_catalogue_with_listings() {
    let site = Site::with(&[
        ("pub/a 1.0.tar.gz", "archive"),
        ("pub/a 1.0.tar.gz.sig", "signature"),
        ("internal/plan.txt", "plan"),
    ]);
    let config = format!(
        r#"
[content]
listing = true
types = ["sig=application/pgp-signature"]
[[headers]]
path = "/pub/*"
set = ["Access-Control-Allow-Origin: *"]
[[auth]]
path = "/internal/*"
realm = "internal"
users = ["{}"]
"#,
        // The password "secret".
        "ann:2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    );
    answers(
        &site,
        &config,
        sped(),
        &[
            ("/", &[], 200, &["href=\"pub/\""]),
            (
                "/pub/",
                &[],
                200,
                &["a%201.0.tar.gz\"", "Content-Security-Policy: default-src 'none'"],
            ),
            ("/pub/", &[("Accept", "application/json")], 200, &["\"href\":\"a%201.0.tar.gz.sig\""]),
            (
                "/pub/a%201.0.tar.gz.sig",
                &[],
                200,
                &["Content-Type: application/pgp-signature\n", "Access-Control-Allow-Origin: *\n"],
            ),
            ("/internal/", &[], 401, &["WWW-Authenticate: Basic"]),
            (
                "/internal/plan.txt",
                &[("Authorization", "Basic YW5uOnNlY3JldA==")],
                200,
                &["\nplan"],
            ),
        ],
    );
}

/// `location = /healthz { access_log off; return 200 "ok"; }`, `try_files $uri /index.html`,
/// `server_tokens off; access_log /dev/stdout; keepalive_timeout 65`. `location /api/ { proxy_pass
/// …; }` has no counterpart: a request for it is no page of the application.
pub(crate) fn an_application_in_a_container() {
    let site = Site::with(&[("index.html", "application"), ("assets/app-4f1cA9_x.js", "code")]);
    let log = site.beside("access.log");
    let config = format!(
        r#"
[server]
name = "none"
[content]
fallback = "index.html"
fallback_for = "paths-without-extension"
[limits]
idle_ms_max = 65000
[log]
access = "{}"
skip = ["/healthz"]
[[responses]]
path = "/healthz"
text = "ok"
[[redirects]]
from = "/api/*"
status = 404
"#,
        log.display()
    );
    let _server = answers(
        &site,
        &config,
        sped(),
        &[
            ("/healthz", &[], 200, &["Cache-Control: no-store\n", "\nok"]),
            ("/users/7", &[], 200, &["\napplication"]),
            ("/api/users", &[], 404, &[]),
            ("/assets/none.js", &[], 404, &[]),
        ],
    );
    let text = comes_to(
        || fs::read_to_string(&log).expect("a log"),
        |text| text.contains("/assets/none.js"),
    );
    assert!(text.contains("/users/7") && !text.contains("healthz"), "{text}");
}
