//! Hosts with separate roots: each has its own files, rules and pages, whichever task opens them.

use crate::prelude::*;

/// Files of all hosts, in different versions: one kept in memory, and one sent from its file.
const FILES: [(&str, usize); 2] = [("small.txt", 700), ("large.bin", 200_000)];

const NAMES: [&str; 3] = ["first.example", "one.example", "two.example"];

/// Three roots, and a configuration with the second and the third as separate hosts.
fn hosts() -> (Site, PathBuf) {
    let site = Site::new();
    let mut text = "[limits]\nidle_ms_max = \"1min\"\n".to_owned();
    for (at, name) in NAMES.into_iter().enumerate() {
        let root = if at == 0 { site.root() } else { site.beside(name) };
        fs::create_dir_all(&root).expect("a folder");
        for (file, len) in FILES {
            fs::write(root.join(file), pattern(len, at)).expect("a file");
        }
        fs::write(root.join(format!("only-{at}.txt")), name).expect("a file");
        fs::write(root.join("404.html"), format!("lost at {name}")).expect("a file");
        fs::write(root.join("error.html"), format!("error at {name}")).expect("a file");
        if at > 0 {
            text += &format!(
                "[[hosts]]\nnames = [\"{name}\", \"www.{name}\"]\nroot = \"{}\"\n\
                 [hosts.content]\nerror_pages = [\"501=error.html\"]\n\
                 [[hosts.headers]]\npath = \"/*\"\nset = [\"X-Host: {name}\"]\n\
                 [[hosts.redirects]]\nfrom = \"/old\"\nto = \"/new-{at}\"\n",
                root.display()
            );
        }
    }
    let config = site.configure(text);
    (site, config)
}

fn ask(client: &mut Client, method: &str, target: &str, host: &str) -> Answer {
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    client.answer(method)
}

pub(crate) fn each_has_its_own(variant: &Variant) {
    let (site, config) = hosts();
    let server = Launch::new(variant, &site.root()).config(&config).start();
    let mut client = server.connect();
    // Repeated, from the disk or from memory, whatever another host's file of this name is.
    for _ in 0..3 {
        for (at, name) in NAMES.into_iter().enumerate() {
            for host in [name.to_owned(), format!("{}.:80", name.to_uppercase())] {
                for (file, len) in FILES {
                    let answer = ask(&mut client, "GET", &format!("/{file}"), &host).expect(200);
                    assert!(answer.body == pattern(len, at), "{host} {file}: {answer:?}");
                    assert_eq!(answer.field("X-Host"), (at > 0).then_some(name));
                }
                for other in 0..NAMES.len() {
                    let target = format!("/only-{other}.txt");
                    let answer = ask(&mut client, "GET", &target, &host);
                    let answer = answer.expect(if other == at { 200 } else { 404 });
                    let lost = format!("lost at {name}");
                    let expected = if other == at { name } else { lost.as_str() };
                    assert_eq!(answer.body, expected.as_bytes(), "{host} {target}");
                }
            }
        }
    }
    for (host, target, status, place) in [
        ("www.one.example", "/old", 301, Some("/new-1")),
        ("one.example", "http://two.example:8080/old", 301, Some("/new-2")),
        ("first.example", "/old", 404, None),
        ("none.example", "/old", 404, None),
    ] {
        let answer = ask(&mut client, "GET", target, host).expect(status);
        assert_eq!(answer.field("Location"), place, "{host} {target}");
    }
    for (host, page) in [("one.example", true), ("first.example", false)] {
        let answer = ask(&mut client, "BREW", "/", host).expect(501);
        assert_eq!(answer.body == b"error at one.example", page, "{answer:?}");
    }
}

/// A host whose root is redirected serves the new one soon, and no other host does.
pub(crate) fn each_is_deployed(variant: &Variant) {
    let (site, config) = hosts();
    let links = ["one", "two"];
    let mut text = fs::read_to_string(&config).expect("the configuration");
    for (name, link) in NAMES[1..].iter().zip(links) {
        site.lead(link, site.beside(name));
        let [root, link] = [*name, link].map(|name| format!("{:?}", site.beside(name)));
        text = text.replace(&root, &link);
    }
    site.configure(text);
    let server = Launch::new(variant, &site.root()).config(&config).start();
    let serves = |host: &str, of: usize| {
        let target = format!("/only-{of}.txt");
        ask(&mut server.connect(), "GET", &target, host).body == NAMES[of].as_bytes()
    };
    assert!(serves(NAMES[0], 0) && serves(NAMES[1], 1) && serves(NAMES[2], 2));
    // Each gets the other's root.
    site.lead(links[0], site.beside(NAMES[2]));
    site.lead(links[1], site.beside(NAMES[1]));
    soon(|| serves(NAMES[1], 2) && serves(NAMES[2], 1));
    assert!(serves(NAMES[0], 0) && !serves(NAMES[1], 1) && !serves(NAMES[2], 2));
}

/// The server starts, reloads, and serves the other hosts; `check` reports all faults.
pub(crate) fn a_fault_below_one_root_is_its_hosts_alone() {
    let (site, config) = hosts();
    let mut text = fs::read_to_string(&config).expect("the configuration");
    let roots = ["gone", "closed", "lines", "pages"].map(|name| {
        let root = site.beside(name);
        text += &format!(
            "[[hosts]]\nnames = [\"{name}.example\"]\nroot = {root:?}\n[hosts.content]\n\
             rules_files = true\nerror_pages = [\"501=no-such-page.html\"]\n"
        );
        root
    });
    let fill = |root: &Path| {
        fs::create_dir(root).expect("a folder");
        fs::write(root.join("index.html"), "here").expect("a file");
    };
    roots[1..].iter().for_each(|root| fill(root));
    fs::create_dir(roots[1].join("_headers")).expect("a folder");
    fs::write(roots[2].join("_headers"), "/*\n  X-A: b\n  Date: x\n").expect("a file");
    fs::write(roots[2].join("_redirects"), "/b /c 999\n/old /new 302\n").expect("a file");
    site.configure(text);
    let file = config.to_str().expect("our paths are text");
    let said = ends_with(2, &["check", &site.root_text(), "--config", file]);
    let faults = [
        "gone\"",
        "closed/_headers\" is a directory",
        "lines/_headers:2:3: ",
        "lines/_redirects:1:",
        "\"no-such-page.html\" is not there",
    ];
    said.names(&faults);
    let server = Launch::new(Variant::find("sped_epoll"), &site.root()).config(&config).start();
    let get = |target: &str, host: &str| ask(&mut server.connect(), "GET", target, host);
    let serves = || {
        get("/only-0.txt", NAMES[0]).expect(200);
        get("/only-1.txt", NAMES[1]).expect(200);
        get("/", "pages.example").expect(200);
        let lines = get("/", "lines.example").expect(200);
        assert_eq!(lines.field("X-A"), Some("b"));
        get("/old", "lines.example").expect(302);
        ask(&mut server.connect(), "BREW", "/", "pages.example").expect(501);
        get("/", "closed.example").expect(503);
        get("/", "gone.example").expect(404);
    };
    serves();
    for part in faults {
        assert!(server.stderr().contains(part), "{part}: {}", server.stderr());
    }
    assert!(server.stderr().contains("host gone.example, root"), "{}", server.stderr());
    let begun = server.stderr().matches(" starts with ").count();
    server.signal(Signal::HUP);
    server.says("reload: generation 2 serves");
    assert_eq!(server.stderr().matches(" starts with ").count(), begun + 1);
    serves();
    // Repaired roots are served soon, without a reload.
    fill(&roots[0]);
    fs::remove_dir(roots[1].join("_headers")).expect("a folder");
    let status = |host: &str| get("/", host).status;
    soon(|| status("gone.example") == 200 && status("closed.example") == 200);
    fs::remove_file(roots[2].join("_headers")).expect("a file");
    fs::create_dir(roots[2].join("_headers")).expect("a folder");
    server.signal(Signal::HUP);
    server.says("reload: generation 3 serves");
    assert_eq!(get("/", "lines.example").expect(200).field("X-A"), Some("b"));
    assert!(server.stderr().contains("the rules read before stay in force"), "{}", server.stderr());
}

/// Rules answer without files: on a host with a root, and on one that has only rules.
pub(crate) fn answers_without_files(variant: &Variant) {
    let site = Site::with(&[("index.html", "home"), ("503.html", "closed for a while")]);
    let text = "\
content.error_pages = [\"503=503.html\"]
[[responses]]
path = \"/healthz\"
text = \"ok\"
[[responses]]
path = \"/shop/*\"
status = 503
[[hosts]]
names = [\"old.example\"]
[[hosts.redirects]]
from = \"/*\"
to = \"https://new.example/:splat\"
[[hosts.responses]]
path = \"/gone\"
status = 410
text = \"no more\"
";
    let config = site.configure(text);
    let server = Launch::new(variant, &site.root()).config(&config).start();
    let mut client = server.connect();
    for _ in 0..2 {
        let well = ask(&mut client, "GET", "/healthz", "a").expect(200);
        assert_eq!((&well.body[..], well.field("Cache-Control")), (&b"ok"[..], Some("no-store")));
        assert_eq!(
            ask(&mut client, "HEAD", "/healthz", "a").expect(200).field("Content-Length"),
            Some("2")
        );
        let closed = ask(&mut client, "GET", "/shop/x", "a").expect(503);
        assert_eq!(closed.body, b"closed for a while");
        assert_eq!(closed.field("Retry-After"), Some("60"));
        ask(&mut client, "GET", "/", "a").expect(200);
        let moved = ask(&mut client, "GET", "/a/b?c", "old.example").expect(301);
        assert_eq!(moved.field("Location"), Some("https://new.example/a/b?c"));
        let gone = ask(&mut client, "GET", "/gone", "old.example").expect(410);
        assert_eq!(gone.body, b"no more");
    }
    // The tests' certificate does not have this name.
    let is_due = |line: &str| !line.contains("old.example") || line.contains("[tls-name-missing]");
    assert!(server.stderr().lines().all(is_due), "{}", server.stderr());
}

/// Hosts whose roots are links.
const LINKS: usize = 400;

pub(crate) fn a_lookup_that_hangs_holds_up_no_other_root() {
    const HANGS: usize = 7;
    let site = Site::with(&[("index.html", "first")]);
    let mut text = String::new();
    let lead = |number: usize, release: u8| {
        site.lead(&format!("link-{number}"), site.beside(&format!("{number}-{release}")));
    };
    for number in 0..LINKS {
        for release in [1, 2] {
            let root = site.beside(&format!("{number}-{release}"));
            fs::create_dir(&root).expect("a folder");
            fs::write(root.join("index.html"), format!("{release}")).expect("a file");
        }
        let root = site.beside(&format!("link-{number}"));
        text += &format!("[[hosts]]\nnames = [\"h{number}\"]\nroot = {root:?}\n");
        lead(number, 1);
    }
    let mark = site.beside(&format!("{HANGS}-2")).join("hang");
    fs::write(&mark, "").expect("a file");
    let launch = Launch::new(Variant::find("sped_epoll"), &site.root()).faults("hang_at_mark=1");
    let server = launch.config(&site.configure(text)).start();
    let workers = children(server.pid());
    let mut client = server.connect();
    let mut serves = |number: usize, release: u8| {
        let answer = ask(&mut client, "GET", "/", &format!("h{number}")).expect(200);
        answer.body == release.to_string().as_bytes()
    };
    (0..LINKS).for_each(|number| lead(number, 2));
    for number in (0..LINKS).filter(|number| *number != HANGS) {
        assert!(eventually(PATIENCE, || serves(number, 2)), "{number}");
    }
    let late = || server.stderr().matches("looking it up takes long").count();
    soon(|| late() == 1);
    assert!(serves(HANGS, 1), "what hangs is served");
    fs::remove_file(&mark).expect("a file");
    soon(|| serves(HANGS, 2));
    assert!(late() <= 2, "it is told once for each attempt: {}", server.stderr());
    // No scout is left.
    soon(|| children(server.pid()).iter().all(|child| workers.contains(child)));
}

pub(crate) fn check_and_explain_know_hosts() {
    let (site, config) = hosts();
    let (root, file) = (&*site.root_text(), config.to_str().expect("our paths are text"));
    let said = ends_with(0, &["check", root, "--config", file]);
    assert!(said.stdout.contains("and 2 further hosts on"), "{}", said.stdout);
    let explain = |target| run(&["explain", "GET", target, root, "--config", file]).stdout;
    let said = explain("http://WWW.two.example:80/only-2.txt");
    assert!(said.contains("host: that of two.example ([[hosts]])\n"), "{said}");
    assert!(said.contains("X-Host: two.example\n"), "{said}");
    let said = explain("/only-2.txt");
    assert!(said.contains("host: the first (server.root)") && said.contains("404"), "{said}");
    let mut text = fs::read_to_string(&config).expect("the configuration");
    text += "[[hosts]]\nnames = [\"WWW.one.example\"]\nroot = \"/no/such/root\"\n\
             [[hosts]]\nnames = [\"three.example\"]\n";
    site.configure(text);
    let said = ends_with(2, &["check", root, "--config", file]);
    said.names(&[
        "hosts.names: \"WWW.one.example\" is a name of the host at",
        "hosts.root: there is no \"/no/such/root\"",
        "there is nothing to serve",
    ]);
}
