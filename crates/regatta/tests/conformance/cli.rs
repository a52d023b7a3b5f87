//! The command line as product.md promises it: help, exit codes, `architectures`, `explain`.

use crate::harness::uid_of;
use crate::prelude::{common_text as root, *};
use crate::structure::listed;
use regatta_sys::hook::denied::{Call, deny};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use std::process::{Command, Stdio};

/// Fails unless the command failed as bad usage, with a message about it.
#[track_caller]
fn bad_usage(args: &[&str], words: &[&str]) -> Said {
    let said = ends_with(2, args);
    said.names(words);
    said
}

pub(crate) fn help_of_every_command() {
    let said = ends_with(0, &["--help"]);
    for command in ["serve", "architectures", "check", "explain", "top", "film", "password"] {
        assert!(said.stdout.contains(command), "{said:?}");
        let help = ends_with(0, &[command, "--help"]);
        let example = format!("regatta {command}");
        assert!(help.stdout.contains(&example), "no example of {command}: {}", help.stdout);
    }
    let said = ends_with(0, &["--version"]);
    assert!(said.stdout.to_lowercase().starts_with("regatta"), "{said:?}");
}

pub(crate) fn a_bad_start_prints_no_address() {
    for (set, words) in [
        ("limits.nonsense=1", &["limits.nonsense"][..]),
        ("log.access=/no/such/folder/access.log", &["/no/such"]),
        ("server.pid_file=/no/such/folder/regatta.pid", &["server.pid_file", "/no/such"]),
    ] {
        let said = bad_usage(&["serve", root(), "--listen", "127.0.0.1:0", "--set", set], words);
        assert_eq!(said.stdout, "", "{said:?}");
    }
}

/// A kernel that is too old, or a container's filter: reported at start, not with 500 to clients.
pub(crate) fn a_start_without_openat2() {
    for (errno, error) in [(Errno::NOSYS, "Function not implemented"), (Errno::PERM, "Operation")] {
        let errno = u16::try_from(errno.raw_os_error()).expect("a small number");
        // The call is denied to the thread that starts the program.
        let start = move || {
            deny(Call::Openat2, errno).expect("a kernel with filters");
            for command in [&["serve", root(), "--listen", "127.0.0.1:0"][..], &["check", root()]] {
                let said = bad_usage(command, &[root(), error, "openat2(2)", "seccomp", "hint:"]);
                assert!(!said.stdout.contains("listening"), "{said:?}");
            }
        };
        thread::spawn(start).join().expect("said what is wrong");
    }
}

/// A user namespace with one user forbids setting groups: the hint says what to do.
pub(crate) fn a_start_without_setgroups() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let errno = u16::try_from(Errno::PERM.raw_os_error()).expect("a small number");
    let start = move || {
        deny(Call::Setgroups, errno).expect("a kernel with filters");
        bad_usage(&["serve", root(), "--listen", "127.0.0.1:0"], &["cannot become", "hint:"]);
        // A process that stays root sets none.
        assert_eq!(run(&["check", root(), "--user", "0:0"]).code, Some(0));
    };
    thread::spawn(start).join().expect("said what is wrong");
}

/// A container's filter, or `kernel.io_uring_disabled`: nothing takes the place of a ring unasked.
pub(crate) fn a_start_without_io_uring() {
    let errno = u16::try_from(Errno::PERM.raw_os_error()).expect("a small number");
    let start = move || {
        deny(Call::IoUringSetup, errno).expect("a kernel with filters");
        let said = run(&["serve", root(), "--listen", "127.0.0.1:0", "--architecture", "uring"]);
        assert!(said.code.is_some_and(|code| code != 0), "{said:?}");
        said.names(&["the system refuses io_uring: Operation not permitted", "sandbox", "symped"]);
    };
    thread::spawn(start).join().expect("said what is wrong");
}

/// A file made and removed again could be another server's new one.
pub(crate) fn check_makes_no_file() {
    let site = Site::new();
    let folder = site.beside("logs");
    fs::create_dir(&folder).expect("a folder");
    let old = std::time::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    File::open(&folder).and_then(|it| it.set_modified(old)).expect("a time");
    let log = |folder: &str| format!("log.access={}", site.beside(folder).join("x.log").display());
    ends_with(0, &["check", root(), "--set", &log("logs")]);
    let changed = fs::metadata(&folder).and_then(|it| it.modified()).expect("a time");
    assert_eq!(changed, old, "something was made in it");
    bad_usage(&["check", root(), "--set", &log("none")], &["log.access", "none"]);
}

pub(crate) fn every_bad_setting_is_listed() {
    let bad =
        ["limits.head_bytes_max=many", "cache.nonsense=1", "event.poller=magic", "no-equals-sign"];
    let mut args = vec!["serve", root(), "--listen", "127.0.0.1:0"];
    bad.iter().for_each(|setting| args.extend(["--set", *setting]));
    bad_usage(&args, &["limits.head_bytes_max", "cache.nonsense", "event.poller"]);
}

pub(crate) fn nobody_and_other_users() {
    if rustix::process::getuid().is_root() {
        let args = ["serve", root(), "--listen", "127.0.0.1:0", "--user", "no-such-user-here"];
        bad_usage(&args, &["no-such-user-here"]);
    } else {
        // The option is for a server that root starts.
        let launch = Launch::new(Variant::find("sped_epoll"), common());
        let server = launch.arg("--user").arg("root").start();
        let own = rustix::process::getuid().as_raw().to_string();
        for worker in server.workers() {
            assert_eq!(uid_of(worker), [own.as_str(); 4].join(" "), "worker {worker}");
        }
    }
}

/// A name that no program can have is answered with the reason.
pub(crate) fn there_is_no_tux() {
    for name in ["tux", "TUX25"] {
        let args = ["serve", root(), "--listen", "127.0.0.1:0", "--architecture", name];
        bad_usage(&args, &[name, "inside the Linux kernel", "docs/arch/accept-strategies.md"]);
    }
    assert!(!listed().iter().any(|name| name.starts_with("tux")));
    bad_usage(&["architectures", "tux"], &["inside the Linux kernel"]);
    assert!(run(&["architectures"]).stdout.contains("\nNot possible here: tux, tux25."));
}

pub(crate) fn architectures_are_described() {
    let said = ends_with(0, &["architectures"]);
    assert!(said.stdout.contains("\n  sped "), "{}", said.stdout);
    let text = run(&["architectures", "--json"]).stdout;
    assert!(text.contains("\"name\": \"sped\""), "{text}");
    for name in listed() {
        assert!(said.stdout.contains(&name), "{name} is not in {}", said.stdout);
        let one = run(&["architectures", &name]);
        assert!(one.code == Some(0) && one.stdout.starts_with(&format!("{name}: ")), "{one:?}");
    }
    // Options with their defaults.
    assert!(text.contains("event.poller") && text.contains("epoll"), "{text}");
}

fn explain(args: &[&str]) -> Said {
    ends_with(0, &[&["explain"], args].concat())
}

pub(crate) fn explain_says_what_would_be_answered() {
    for (args, word) in [
        (&["GET", "/small.txt", root()][..], "200"),
        (&["GET", "/small.txt", root()], "small.txt"),
        (&["GET", "/small.txt", root()], "text/plain; charset=utf-8"),
        (&["GET", "/", "-H", "accept-encoding: br", root()], "\"index.html\""),
        (&["GET", "/", "-H", "accept-encoding: br", root()], "\n\nHTTP/1.1 200 OK\n"),
        (&["GET", "/small.txt", "-H", "accept-encoding: br", root()], "a file of 6 bytes\n"),
        (&["GET", "/missing.txt", root()], "404"),
        (&["GET", "/.env", root()], "404"),
        (&["GET", "/sub", root()], "301"),
        (&["GET", "/../x", root()], "400"),
        (&["POST", "/small.txt", root()], "405"),
        (&["GET", "/small.txt", "-H", "Range: bytes=0-1", root()], "206"),
        (&["GET", "/small.txt", "-H", "range: bytes=99-", root()], "416"),
        (&["GET", "/small.txt", "-H", "If-None-Match: *", root()], "304"),
        (&["GET", "/page.html", "-H", "Accept-Encoding: br", root()], "ncoding: br"),
        (&["GET", "https://h.example/small.txt?q", root()], "200"),
        (&["GET", "/small.txt", "--https", root()], "200"),
        (&["GET", "/small.txt", "--http2", root()], "\n:status: 200\n"),
        (&["GET", "/small.txt", "--http2", root()], "\ncontent-type: text/plain; charset=utf-8\n"),
        (&["GET", "https://h.example/none", "--http2", root()], "\n:status: 404\n"),
    ] {
        let said = explain(args);
        assert!(said.stdout.contains(word), "{args:?}: no {word} in {}", said.stdout);
    }
    // A proxy may name the client.
    let forwarded = ["--set", "server.forwarded=x-forwarded-for", "--set", "server.trusted=unix:"];
    let named = ["--from", "unix:", "-H", "X-Forwarded-For: 192.0.2.7"];
    let asks = ["GET", "/", root(), "--set", "limits.client_rate=5"];
    let said = explain(&[&asks[..], &forwarded, &named].concat());
    let expect = "client: 192.0.2.7, as X-Forwarded-For says; unix: is trusted\n\
                  limits: limits.client_rate = 5\nrequest: ";
    assert!(said.stdout.starts_with(expect), "{said:?}");
}

pub(crate) fn check_and_explain_speak_json() {
    let json = |args: &[&str], code: i32| -> Value {
        let said = run(args);
        assert_eq!((said.code, said.stderr.as_str()), (Some(code), ""), "{said:?}");
        serde_json::from_str(&said.stdout).unwrap_or_else(|e| panic!("{e}: {said:?}"))
    };
    let (good, none) = (json(&["check", root(), "--json"], 0), Value::Array(Vec::new()));
    assert_eq!([&good["problems"], &good["warnings"]], [&none; 2]);
    assert_eq!(good["ok"], true);
    let chosen = good["chosen"].as_array().expect("a list");
    assert!(chosen.iter().any(|chosen| chosen["key"] == "cache.bytes_max"), "{good}");
    let warned = json(&["check", root(), "--json", "--set", "cache.bytes_max=1TiB"], 0);
    assert_eq!(warned["warnings"][0]["place"], "--set cache.bytes_max=1TiB");
    assert_eq!(warned["warnings"][0]["id"], "cache-too-large");
    let bad = json(&["check", root(), "--json", "--set", "cache.entrys_max=1"], 2);
    assert_eq!(bad["ok"], false);
    let problem = &bad["problems"][0];
    assert_eq!(problem["id"], "unknown-option");
    assert_eq!(problem["message"], "unknown option cache.entrys_max");
    assert_eq!(problem["place"], "--set cache.entrys_max=1");
    assert_eq!(problem["hint"], "did you mean cache.entries_max?");
    let explained = json(&["explain", "GET", "/small.txt", root(), "--json"], 0);
    assert_eq!(explained["status"], 200);
    let fields = explained["fields"].as_array().expect("fields");
    let length = serde_json::json!({"name": "Content-Length", "value": "6"});
    assert!(fields.contains(&length), "{fields:?}");
    assert_eq!(explained["decisions"][0]["about"], "request");
}

pub(crate) fn check_says_that_all_is_well() {
    let said = ends_with(0, &["check", root()]);
    // An event loop for each processor, unless told otherwise.
    let workers = match inspect::processors_at_once() {
        1 => "1 worker".to_owned(),
        more => format!("{more} workers"),
    };
    let expect = format!("nothing is wrong: symped with {workers} would");
    assert!(said.stdout.starts_with(&expect), "{said:?}");
    // Each chosen value, and its source, as when the server starts.
    let chosen: Vec<&str> = said.stdout.lines().skip(1).map(str::trim).collect();
    let keys = ["workers", "cache.bytes_max", "cache.descriptors_max", "limits.connections_max"];
    for key in keys {
        let line = chosen.iter().find(|line| line.starts_with(&format!("{key}=")));
        assert!(line.is_some_and(|line| line.ends_with(')')), "{key}: {said:?}");
    }
    let server = start(&Variant::plain("symped"));
    let begins = format!("symped starts with {}", chosen.join(", "));
    // The server has its own limit on descriptors.
    let until = begins.find("cache.descriptors_max=").expect("it is there");
    server.says(&begins[..until]);
}

/// `explain` and `serve` are the same program: their heads agree.
pub(crate) fn explain_agrees_with_serve() {
    let server = serve(Variant::find("sped_epoll"));
    for (target, fields) in [
        ("/small.txt", vec![]),
        ("/page.html", vec![("Accept-Encoding", "gzip")]),
        ("/missing.txt", vec![]),
        ("/size-4096.bin", vec![("Range", "bytes=5-6")]),
    ] {
        let answer = server.connect().ask("GET", target, &fields);
        let lines: Vec<String> = fields.iter().map(|(n, v)| format!("{n}: {v}")).collect();
        let mut args = vec!["GET", target];
        lines.iter().for_each(|line| args.extend(["-H", line]));
        args.push(root());
        let said = explain(&args);
        for (name, value) in &answer.fields {
            if name.eq_ignore_ascii_case("Date") {
                continue;
            }
            let line = format!("{name}: {value}").to_ascii_lowercase();
            let text = said.stdout.to_ascii_lowercase();
            assert!(text.contains(&line), "{target}: no {line} in {}", said.stdout);
        }
    }
}

/// Started as root, both open files as the serving user.
pub(crate) fn explain_opens_what_serve_may_open() {
    let site = Site::with(&[("mine.txt", "mine")]);
    site.mode("mine.txt", 0o600);
    let server = Launch::new(Variant::find("sped_epoll"), &site.root()).start();
    let status = server.connect().get("/mine.txt").status;
    assert_eq!(status, if rustix::process::geteuid().is_root() { 403 } else { 200 });
    let said = explain(&["GET", "/mine.txt", &site.root_text()]);
    assert!(said.stdout.contains(&format!("HTTP/1.1 {status} ")), "{said:?}");
}

pub(crate) fn explain_of_an_own_site() {
    let site = Site::with(&[("about.html", "about")]);
    let root = &*site.root_text();
    assert!(explain(&["GET", "/about", root]).stdout.contains("404"));
    let said = explain(&["GET", "/about", root, "--set", "content.clean_urls=true"]);
    assert!(said.stdout.contains("200") && said.stdout.contains("about.html"), "{said:?}");
}

/// The certificate is there before anything else can be wrong, and is kept. It never goes below
/// directories of others.
pub(crate) fn a_certificate_for_development_is_kept() {
    let site = Site::with(&[]);
    let state = site.beside("state");
    let serve = |words: &[&str]| {
        let mut command = Command::new(program());
        command.args(["serve", root(), "--https", "--architecture", "nonsense"]);
        let output = command.env("XDG_STATE_HOME", &state).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code().is_some_and(|code| code > 0), "{stderr}");
        assert!(words.iter().all(|word| stderr.contains(word)), "{words:?}: {stderr}");
    };
    let made = state.join("regatta/development-certificate.pem");
    let mut kept = None;
    for _ in 0..2 {
        serve(&["the certificate is", made.to_str().expect("text"), "nonsense"]);
        let text = fs::read_to_string(&made).expect("it was made");
        assert!(text.starts_with("-----BEGIN CERTIFICATE-----\n"), "{text}");
        assert_eq!(kept.get_or_insert_with(|| text.clone()), &text);
    }
    let mode = |name: &str| {
        let found = fs::metadata(state.join(name)).expect("it was made");
        found.permissions().mode() & 0o777
    };
    assert_eq!((mode("regatta"), mode("regatta/development.pem")), (0o700, 0o600));
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&state, Some(65_534), None).expect("root may");
        serve(&["which belongs to user 65534"]);
    }
}

/// Rules in files at the root: `serve` and `explain` read them, and neither serves them.
pub(crate) fn rules_of_an_own_site() {
    let headers = "/*\n  X-A: b\n/**/*.{md,txt}\n  X-C: d\n";
    let redirects = "/old/*  /:splat  302\n";
    let site = Site::with(&[("a.txt", "a"), ("_headers", headers), ("_redirects", redirects)]);
    let set = "content.rules_files=true";
    let server = serve_root(Variant::find("sped_epoll"), &site.root(), &[set]);
    let root = &*site.root_text();
    for (path, status, line) in [
        ("/a.txt", 200, "X-A: b"),
        ("/a.txt", 200, "X-C: d"),
        ("/old//evil.com/%5c", 302, "Location: /evil.com/%5C"),
        ("/_headers", 404, ""),
        ("/_redirects", 404, ""),
    ] {
        let answer = server.connect().ask("GET", path, &[]);
        assert_eq!(answer.status, status, "{path}");
        let said = explain(&["GET", path, root, "--set", set]);
        assert!(said.stdout.contains(&format!("HTTP/1.1 {status} ")), "{said:?}");
        if let Some((name, value)) = line.split_once(": ") {
            assert_eq!(answer.field(name), Some(value), "{path}");
            assert!(said.stdout.contains(line), "{said:?}");
        }
    }
}

/// The siblings of `precompress` are sent; once the file changes, `check` warns about them.
pub(crate) fn siblings_of_an_own_site() {
    let site = Site::with(&[("page.html", &"all work and no play ".repeat(100))]);
    let root = &*site.root_text();
    let made = |written: u64| {
        let made = run(&["precompress", root, "--codings", "gz", "--json"]);
        assert!(made.stdout.contains(&format!("\"written\":{written}}}")), "{made:?}");
        let said = explain(&["GET", "/page.html", "-H", "accept-encoding: gzip", root]);
        assert!(said.stdout.contains("Content-Encoding: gzip"), "{said:?}");
        let checked = run(&["check", root]);
        assert!(checked.code == Some(0) && !checked.stderr.contains("older"), "{checked:?}");
    };
    made(1);
    made(0);
    fs::write(site.path("page.html"), "no play at all ".repeat(100)).expect("ours");
    let checked = ends_with(0, &["check", root]);
    checked.names(&["page.html.gz is older", "hint: regatta precompress /"]);
    made(1);
}

/// A terminal shows that long work is in progress: here a text that takes long to compress.
pub(crate) fn compressing_that_lasts_is_shown() {
    let mut state = 1_u64;
    let letter = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'a' + (state >> 60) as u8)
    };
    let text = (0..2 << 20).map(letter).collect::<String>();
    let site = Site::with(&[("page.html", &text)]);
    let [root, program] = [site.root(), program()].map(|path| path.display().to_string());
    let words = format!("stty rows 24 cols 80; exec '{program}' precompress '{root}' --codings br");
    let mut command = Command::new("script");
    command.args(["-qec", &words, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null());
    let Ok(output) = command.output() else {
        return skip("needs script(1), which has a terminal");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("compressing") && said.contains("1 written"), "{said}");
}

/// A process killed while it writes leaves nothing behind: here by a limit on the size of files.
pub(crate) fn a_sibling_that_is_half_written_has_no_name() {
    let site = Site::with(&[("page.html", &"all work and no play ".repeat(100))]);
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    if open(site.root(), flags, Mode::RUSR).is_err() {
        return skip("needs a file system that has files without a name (O_TMPFILE)");
    }
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c 0 && ulimit -f 0 && exec \"$0\" \"$@\""]).arg(program());
    command.arg("precompress").arg(site.root()).args(["--codings", "gz"]);
    let output = command.output().expect("a shell");
    assert!(!output.status.success(), "{output:?}");
    let entries = fs::read_dir(site.root()).expect("ours");
    let names: Vec<_> = entries.map(|entry| entry.expect("ours").file_name()).collect();
    assert_eq!(names, ["page.html"]);
}

/// Pages are in memory from the start, even if their files are removed.
pub(crate) fn pages_for_errors_of_an_own_site() {
    let site = Site::with(&[("errors/405.html", "our own page"), ("index.html", "home")]);
    let set = "content.error_pages=405=errors/405.html";
    let server = Launch::new(Variant::find("sped_epoll"), &site.root()).set(set).start();
    let page = site.path("errors/405.html");
    fs::remove_file(&page).expect("it is there");
    for _ in 0..2 {
        let answer = server.connect().ask("DELETE", "/", &[]).expect(405);
        assert_eq!(answer.body, b"our own page");
        assert_eq!(answer.must("Content-Type"), "text/html; charset=utf-8");
        assert!(answer.lists("Allow", "GET"), "{answer:?}");
    }
    let args = ["check", &*site.root_text(), "--set", set];
    bad_usage(&args, &["content.error_pages", "errors/405.html", "is not there"]);
    fs::write(&page, vec![b'x'; (64 << 10) + 1]).expect("a file");
    bad_usage(&args, &["is longer than 64 KiB"]);
}

/// Rules in a configuration file: `serve` and `explain` agree on them.
pub(crate) fn users_of_an_own_site() {
    let files = [("private/a.txt", "secret"), ("index.html", "home"), ("pub/b.txt", "public")];
    let site = Site::with(&files);
    // SHA-256 of abc.
    let user = "ann:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let cors = "[[cors]]\npath = \"/private/*\"\norigins = [\"https://a.example\"]\n";
    let auth = format!("[[auth]]\npath = \"/private/*\"\nusers = [\"{user}\"]\n");
    let rewrite = "[[redirects]]\nfrom = \"/in/*\"\nto = \"/pub/..:splat/private/a.txt\"\n\
                   status = 200\nforce = true\n";
    let (root, config) = (site.root(), site.configure(cors.to_owned() + &auth + rewrite));
    let server = Launch::new(Variant::find("sped_epoll"), &root).config(&config).start();
    let [root, config] = [&root, &config].map(|path| path.to_str().expect("text"));
    let (right, wrong) = ("Basic YW5uOmFiYw==", "Basic YW5uOmFiZA==");
    for (path, value, status) in [
        ("/private/a.txt", "", 401),
        ("/private/a.txt", wrong, 401),
        ("/private/a.txt", right, 200),
        ("/private/a.txt", "", 401),
        ("/%70rivate/none", right, 404),
        ("/%70rivate/none", "", 401),
        // The rule makes `..` of the path, and the file's own folder is protected.
        ("/in/", "", 401),
        ("/in/", right, 200),
        ("/", "", 200),
    ] {
        let answer = server.connect().ask("GET", path, &[("Authorization", value)]).expect(status);
        assert_eq!(answer.body == b"secret", path != "/" && status == 200);
        assert_eq!(answer.field("WWW-Authenticate").is_some(), status == 401);
        let field = format!("Authorization: {value}");
        let said = explain(&["GET", path, "-H", &field, root, "--config", config]);
        assert!(said.stdout.contains(&format!("HTTP/1.1 {status} ")), "{said:?}");
    }
    // A browser sends no credentials when it asks what a script may send.
    let origin = ("Origin", "https://a.example");
    let asks = [origin, ("Access-Control-Request-Method", "GET")];
    let mut client = server.connect();
    let granted = client.ask("OPTIONS", "/private/a.txt", &asks).expect(204);
    assert_eq!(granted.must("Access-Control-Allow-Methods"), "GET, HEAD");
    let read = client.ask("GET", "/private/a.txt", &[origin, ("Authorization", right)]).expect(200);
    assert_eq!(read.must("Access-Control-Allow-Origin"), origin.1);
    assert!(read.lists("Vary", "Origin"), "{read:?}");
    assert_eq!(client.ask("GET", "/", &[origin]).expect(200).field("Vary"), None);
    let said = run(&["password", "bob"]);
    assert!(said.stdout.contains("users = [\"bob:"), "{said:?}");
}

/// Wrong words, names and directories are code 2 in every command; a process that is no server
/// is 1.
pub(crate) fn one_kind_of_error_has_one_exit_code() {
    let site = Site::new();
    let none = &*site.beside("none").display().to_string();
    let file = &*format!("{}/small.txt", root());
    for (words, code, part) in [
        (&["no-such-command"][..], 2, "no-such-command"),
        (&["serve", root(), "--no-such-flag"], 2, "--no-such-flag"),
        (&["serve", root(), "--listen", "nonsense"], 2, "nonsense"),
        (&["serve", root(), "--listen", "127.0.0.1:99999"], 2, "99999"),
        (&["serve", root(), "--architecture", "nonsense"], 2, "nonsense"),
        (&["serve", "/no/such/folder", "--listen", "127.0.0.1:0"], 2, "/no/such/folder"),
        (&["serve", file, "--listen", "127.0.0.1:0"], 2, "small.txt"),
        (&["top", "--pid", "nonsense"], 2, "nonsense"),
        (&["explain", "GET", "/", "--from", "nobody", root()], 2, "as in 192.0.2.7, or unix:"),
        (&["password", "a:b"], 2, "no colon"),
        (&["precompress", none], 2, "no such directory"),
        (&["check", none], 2, "no such directory"),
        (&["check", "--config", none], 2, "no such file"),
        (&["explain", "GET", "/", none], 2, "no such directory"),
        (&["top", "--once", "--pid", "1"], 1, "process 1"),
        (&["reload", "--pid", "1"], 1, "process 1"),
    ] {
        ends_with(code, words).names(&[part]);
    }
}

/// `regatta-lab` has the commands that measure, and gets all arguments unchanged. The program's own
/// directory goes before the PATH.
pub(crate) fn commands_that_measure_run_the_other_program() {
    let site = Site::new();
    let folders = ["path", "bin"].map(|name| site.beside(name));
    folders.iter().for_each(|folder| fs::create_dir(folder).expect("a folder"));
    let [path, own] = &folders;
    executables::copy(&program(), &own.join("regatta"));
    let run = |words: &[&str]| {
        let output = Command::new(own.join("regatta")).args(words).env("PATH", path).output();
        let output = output.expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    for command in ["lab", "load", "workload", "null"] {
        let (code, out, said) = run(&[command, "--help"]);
        assert_eq!((code, &*out), (Some(2), ""), "{command}: {said}");
        let folder = format!("neither in {} nor on the PATH", own.display());
        for part in [command, &folder, "`cargo build --release -p regatta-lab`"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    for folder in &folders {
        let text = format!("printf '%s\\n' {} \"$@\"\nexit 7", folder.display());
        executables::script(&folder.join("regatta-lab"), &text);
        let folder = folder.display();
        for (words, lines) in [
            (&["lab", "--help", "a b", "--", "-x"][..], "lab\n--help\na b\n--\n-x"),
            (&["help", "load"], "help\nload"),
        ] {
            let (code, out, said) = run(words);
            assert_eq!((code, out), (Some(7), format!("{folder}\n{lines}\n")), "{said}");
        }
    }
    assert_eq!(run(&["serve", "--help"]).0, Some(0), "its own commands stay its own");
}
