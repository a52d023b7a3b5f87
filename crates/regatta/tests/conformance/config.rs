//! Configurations: every error at once with its position; printed ones can be read again.

use crate::prelude::{common_text as root, *};
use regatta_testkit::certificates::{MadeCertificate, PKCS_ECDSA_P256_SHA256};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// Runs a check of this configuration, which must end with this code.
#[track_caller]
fn check(site: &Site, text: &str, code: i32) -> Said {
    let path = site.configure(text);
    ends_with(code, &["check", "--config", path.to_str().expect("text")])
}

/// Every option of the contract, with its default: a section in each line.
const OPTIONS: &str = r#"
server: drain_ms_max=8000
limits: head_bytes_max=16384 target_bytes_max=8192 fields_max=64 head_ms_max=10000 idle_ms_max=60000
limits: send_window_ms=10000 send_rate_min=256 linger_ms_max=2000 discard_body_bytes_max=65536
limits: requests_max=0 ranges_max=16
content: clean_urls=false fallback="" not_found="404.html" precompressed=true dotfiles=false
content: symlinks=false charset="utf-8" nosniff=true
cache: enabled=true revalidate_ms=1000 negative_ms=1000
http2: enabled=true clear=true streams_max=100 table_bytes=4096 exchanges_max=4096
http2: unsent_bytes_max=65536
accept: count=0 events_per_accept=16 eager_read=true eager_write=true on_close=false
accept: full_read=false when_full="close-idle" defer=false
event: poller="epoll-edge" send="nonblocking" turn_bytes_max=2097152 turn_ops_max=64 stall_us=10000
event: handshakes_per_round=8
"#;

/// `--print-config` prints the effective configuration, whole and explicit.
pub(crate) fn printed(args: &[&str]) -> toml::Table {
    let serve = ["serve", root(), "--listen", "127.0.0.1:0", "--print-config"];
    let said = ends_with(0, &[&serve, args].concat());
    said.stdout.parse().unwrap_or_else(|e| panic!("{e}: {}", said.stdout))
}

pub(crate) fn defaults_are_as_promised() {
    let table = printed(&[]);
    for line in OPTIONS.trim().lines() {
        let (section, options) = line.split_once(": ").expect("a section");
        for option in options.split(' ') {
            let (key, default) = option.split_once('=').expect("a default");
            let value = table.get(section).and_then(|section| section.get(key));
            let value = value.unwrap_or_else(|| panic!("no {section}.{key}"));
            assert_eq!(value.to_string(), default, "{section}.{key}");
        }
    }
}

pub(crate) fn settings_are_printed() {
    let table = printed(&["--set", "limits.idle_ms_max=1234", "--set", "content.charset=koi8-r"]);
    assert_eq!(table["limits"]["idle_ms_max"].as_integer(), Some(1234));
    assert_eq!(table["content"]["charset"].as_str(), Some("koi8-r"));
}

pub(crate) fn what_is_printed_is_a_configuration() {
    let site = Site::new();
    let sets = ["--set", "limits.idle_ms_max=3 s", "--set", "content.index=a.html,b.html"];
    for place in [&[] as &[&str], &[root(), "--listen", "127.0.0.1:0"]] {
        let said = ends_with(0, &[&["serve", "--print-config"][..], place, &sets].concat());
        assert!(said.stdout.contains("\nidle_ms_max = 3000\n"), "{}", said.stdout);
        let path = site.configure(&said.stdout);
        let path = path.to_str().expect("text");
        // Without a root there is nothing to serve.
        if !place.is_empty() {
            ends_with(0, &["check", "--config", path]);
        }
        let again = ends_with(0, &["serve", "--config", path, "--print-config"]);
        assert_eq!(again.stdout, said.stdout, "printed again, it is the same");
    }
}

/// Files of a directory with variables; printed, they are a configuration without variables.
pub(crate) fn files_of_a_directory_and_variables() {
    let site = Site::with(&[("index.html", "x")]);
    let folder = site.beside("conf.d");
    fs::create_dir(&folder).expect("a folder");
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).expect("a file");
    write("10-server.toml", "[server]\nroot = \"${SITE}\"\n[limits]\nranges_max = 1\n");
    write("20-limits.toml", "[limits]\nranges_max = \"${RANGES:-2}\"\n");
    write("README", "not TOML");
    let config = folder.to_str().expect("text");
    let serve = |variables: &[(&str, &str)]| {
        let mut command = Command::new(program());
        command.args(["serve", "--config", config, "--print-config"]).env_remove("SITE");
        let done = command.envs(variables.iter().copied()).output().expect("it starts");
        (
            done.status.code(),
            [done.stdout, done.stderr].map(|out| String::from_utf8_lossy(&out).into_owned()),
        )
    };
    let (code, [printed, _]) = serve(&[("SITE", &site.root_text()), ("PORT", "8099")]);
    assert_eq!(code, Some(0), "{printed}");
    let variables = "RANGES (not set: its default) in limits.ranges_max, ";
    for part in ["\nranges_max = 2\n", "listen = [\"0.0.0.0:8099\"]", variables] {
        assert!(printed.contains(part), "{part}: {printed}");
    }
    let again = site.configure(&printed);
    let again = again.to_str().expect("text");
    let said = ends_with(0, &["serve", "--config", again, "--print-config"]);
    assert!(printed.ends_with(&said.stdout), "{}", said.stdout);
    let (code, [_, said]) = serve(&[("PORT", "http")]);
    assert_eq!(code, Some(2), "{said}");
    for part in ["10-server.toml:2:8: server.root: the variable SITE is not set", "\"http\""] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

pub(crate) fn a_good_configuration_passes() {
    let site = Site::with(&[("index.html", "x")]);
    let text = format!(
        "[server]\nroot = {:?}\nlisten = [\"127.0.0.1:0\"]\n[limits]\nidle_ms_max = 5000\n",
        site.root()
    );
    check(&site, &text, 0);
}

pub(crate) fn every_error_at_once() {
    let site = Site::new();
    let text = "\
[server]
root = \"/no/such/folder\"
listen = [\"nonsense\"]

[limits]
head_bytes_max = \"many\"
idle_ms_maxx = 5
ranges_max = -3

[nosection]
x = 1

[event]
poller = \"magic\"
";
    let said = check(&site, text, 2);
    let all = format!("{}{}", said.stdout, said.stderr);
    for (word, line) in [
        ("/no/such/folder", 2),
        ("nonsense", 3),
        ("head_bytes_max", 6),
        ("idle_ms_maxx", 7),
        ("ranges_max", 8),
        ("nosection", 10),
        ("magic", 14),
    ] {
        assert!(all.contains(word), "{word} is not listed: {all}");
        let place = format!(":{line}:");
        assert!(all.contains(&place), "no position {place} for {word}: {all}");
    }
    let path = site.beside("regatta.toml");
    let serve = ends_with(2, &["serve", "--config", path.to_str().expect("text")]);
    serve.names(&["idle_ms_maxx", "magic"]);
}

/// Each finding on the files of HTTPS has its text, its position and its remedy.
pub(crate) fn findings_on_certificates_have_positions() {
    let site = Site::with(&[("index.html", "x")]);
    let made = |names: &[&str], years| MadeCertificate::new(names, years, &PKCS_ECDSA_P256_SHA256);
    let write_made = |name: &str, made: &MadeCertificate| {
        for (kind, text, mode) in [("pem", &made.chain, 0o644), ("key", &made.key, 0o600)] {
            let path = site.beside(&format!("{name}.{kind}"));
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, Permissions::from_mode(mode)).expect("our file");
        }
    };
    write_made("good", &made(&["a.example"], 2020..2100));
    write_made("other", &made(&["b.example"], 2020..2100));
    write_made("old", &made(&["a.example"], 2020..2021));
    write_made("new", &made(&["a.example"], 2099..2100));
    let exposed = site.beside("exposed.key");
    fs::copy(site.beside("good.key"), &exposed).expect("a copy");
    fs::set_permissions(&exposed, Permissions::from_mode(0o644)).expect("our file");
    let home = site.beside("");
    let finds = |lines: &str, code: i32, words: &[&str]| {
        let root = site.root_text();
        let text = format!("server.root = {root:?}\n[tls]\nlisten = \"127.0.0.1:0\"\n{lines}");
        let said = check(&site, &text.replace('@', home.to_str().expect("text")), code);
        said.names(words);
        said
    };
    let said = finds("certificate = \"@good.pem:@good.key\"\n", 0, &[]);
    assert!(said.stdout.contains("https://127.0.0.1:0"), "{said:?}");
    for (value, code, words) in [
        (
            "@none.pem:@good.key",
            2,
            ["regatta.toml:4:15: tls.certificate: ", "none.pem", "can read"],
        ),
        ("@good.key", 2, [":4:15: ", "no certificate in it", "in PEM"]),
        ("@good.pem", 2, [":4:15: ", "no private key in it", "chain.pem:key.pem"]),
        ("@good.pem:@other.key", 2, [":4:15: ", "the key does not fit", "made for it"]),
        ("@old.pem:@old.key", 2, [":4:15: ", "expired on Fri, 01 Jan 2021", "regatta reload"]),
        ("@new.pem:@new.key", 2, [":4:15: ", "not valid before Thu, 01 Jan 2099", "clock"]),
        ("@good.pem:@exposed.key", 0, [":4:15: ", "every user of this machine", "chmod o-rwx"]),
    ] {
        finds(&format!("certificate = {value:?}\n"), code, &words);
    }
    let good = "certificate = \"@good.pem:@good.key\"\n";
    let host = format!("{good}[[hosts]]\nroot = {:?}\nnames = \"c.example\"\n", site.root_text());
    finds(&host, 0, &["regatta.toml:7:9: hosts.names: \"c.example\": no certificate has"]);
    finds("", 2, &["regatta.toml:3:10: tls.listen: connections need a certificate"]);
    let clients = format!("{good}client_listen = \"[::1]:0\"\n");
    finds(&clients, 2, &["regatta.toml:5:17: tls.client_listen: ", "tls.client_ca"]);
}

pub(crate) fn a_server_of_https_alone_says_where_it_listens() {
    let site = Site::with(&[("index.html", "x")]);
    let made = MadeCertificate::new(&["a.example"], 2020..2100, &PKCS_ECDSA_P256_SHA256);
    let path = site.beside("a.pem");
    made.write(&path);
    let certificate = format!("tls.certificate={}", path.display());
    let root = site.root_text();
    let mut server = Command::new(program())
        .args(["serve", &*root, "--set", "server.listen=", "--set", "tls.listen=127.0.0.1:0"])
        .args(["--set", &*certificate])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program starts");
    let mut line = String::new();
    let out = server.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let address = line.trim_end().strip_prefix("listening on https://").map(str::parse);
    let Some(Ok(address)) = address else { panic!("stdout said {line:?}") };
    // A request in the clear has an answer in the clear.
    let answer = Client::connect(address).get("/");
    server.kill().expect("our child");
    server.wait().expect("our child");
    assert_eq!(answer.status, 400, "{answer:?}");
}

pub(crate) fn syntax_errors_have_a_position() {
    let site = Site::new();
    let said = check(&site, "[limits]\nidle_ms_max = = 5\n", 2);
    assert!(format!("{}{}", said.stdout, said.stderr).contains(":2:"), "{said:?}");
    ends_with(2, &["check", "--config", "/no/such/file.toml"]).names(&["/no/such/file.toml"]);
}

/// The command line wins over the file, and the file over the defaults.
pub(crate) fn precedence(variant: &Variant) {
    let site = Site::with(&[("file.txt", "text")]);
    let path = site.configure("[content]\ncharset = \"koi8-r\"\nnosniff = false\n");
    let launch = Launch::new(variant, &site.root()).config(&path);
    let server = launch.set("content.charset=utf-8").start();
    let answer = server.connect().get("/file.txt").expect(200);
    assert_eq!(answer.must("Content-Type"), "text/plain; charset=utf-8");
    assert_eq!(answer.field("X-Content-Type-Options"), None);
}
