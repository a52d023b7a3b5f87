//! Typical mistakes at the command line: each answer contains words that help.

use crate::folder::Folder;
use crate::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Words of a command, and words of its answer. `ROOT`, `EMPTY` and `BUSY` stand for a site, an
/// empty directory and a port in use.
type Row = (&'static str, &'static [&'static str]);

const ROWS: &[Row] = &[
    ("serv ROOT", &["serve"]),
    ("serve ROOT --lisen 127.0.0.1:1", &["--listen"]),
    ("serve ROOT --port 8080", &["--listen 127.0.0.1:8080"]),
    ("serve ROOT -p 8080", &["--listen"]),
    ("serve ROOT --host 0.0.0.0", &["--listen 0.0.0.0"]),
    ("serve ROOT --listen 20600", &["127.0.0.1:20600"]),
    ("serve ROOT --listen :20600", &["0.0.0.0:20600"]),
    ("serve ROOT --listen 127.0.0.1:BUSY", &["in use", "ss -ltnp"]),
    ("serve ./nope", &["./nope", "no such directory"]),
    ("serve ./nope --architecture simped", &["no such directory", "symped"]),
    ("check ./nope", &["./nope", "no such directory"]),
    ("serve ROOT/index.html", &["not a directory"]),
    ("serve ROOT --architecture epoll", &["event.poller"]),
    ("serve ROOT --architecture simped", &["symped"]),
    ("serve ROOT --architecture flash", &["flash-1999"]),
    ("serve ROOT --architecture haboob", &["haboob-2002", "seda"]),
    ("serve ROOT --set limits.idle_ms_max=abc", &["limits.idle_ms_max", "duration", "abc"]),
    ("serve ROOT --set limits.idl_ms_max=30s", &["limits.idle_ms_max"]),
    ("serve ROOT --set limits.idle_ms_max=3fortnights", &["ms, s, min, h"]),
    ("serve ROOT --set content.clean_urls=yes", &["true", "false"]),
    ("serve ROOT --user nosuchuser", &["nosuchuser", "UID:GID"]),
    ("serve ROOT --https --set tls.certificate=a.pem", &["tls.certificate", "--https"]),
    ("serve --config nope.toml", &["nope.toml", "no such file"]),
    ("serve --config nginx.conf", &["TOML", "docs/from-nginx.md"]),
    ("check --config bracket.toml", &["bracket.toml:1:8", "`]`"]),
    ("check --config option.toml", &["server.architecture"]),
    ("check --config section.toml", &["[limits]"]),
    ("check --config loop.toml", &["loop"]),
    ("check --config variable.toml", &["variable.toml:1:15", "REGATTA_UNSET", "not set", ":-"]),
    ("check --config EMPTY", &["no file in this directory ends in .toml"]),
    ("check --config status.toml", &["301", "302", "307", "308"]),
    ("check --config twice.toml", &["twice.toml:4:1", "twice.toml:9:8"]),
    ("check --config tickets.toml", &["tickets.toml:4:15", "none.key", "umask 077; openssl rand"]),
    ("explain /about ROOT", &["GET /about"]),
    ("explain GET about ROOT", &["/about"]),
    ("top --pid 1", &["not a regatta server"]),
    ("precompress nope", &["nope", "no such directory"]),
    ("load http://127.0.0.1:1/", &["refused"]),
    ("load ftp://x/", &["http"]),
    ("load http://127.0.0.1:BUSY/missing --count 20", &["404"]),
    ("load http://127.0.0.1:BUSY/ --session-rate 5", &["--sessions"]),
    ("workload new nope w", &["quick"]),
    ("workload from-dir nope w", &["nope", "No such file"]),
    ("workload from-log index.html.gz w", &["no usable request", "not compressed"]),
    ("lab run eurosys07fig4", &["eurosys07-fig4"]),
    ("lab list eurosys", &["eurosys07-fig1\n", "eurosys07-table1\n"]),
    ("lab list nope", &["no such experiment", "lab list"]),
    ("lab report /nonexistent", &["no run", "lab run"]),
    ("lab compare a b", &["no run in a", "no run in b"]),
    ("lab verdicts EMPTY", &["no run", "lab run"]),
    ("lab verdicts nonexist", &["no run", "lab run"]),
    ("password", &["NAME"]),
];

/// Files and their texts. `SITE` stands for the section of a server.
const FILES: &[(&str, &str)] = &[
    ("site/index.html", "hello"),
    ("nginx.conf", "server {\n  listen 80;\n}\n"),
    ("bracket.toml", "[server\nroot = \"site\"\n"),
    ("option.toml", "SITEarchitectur = \"symped\"\n"),
    ("section.toml", "SITE[limit]\nidle_ms_max = 3\n"),
    ("variable.toml", "server.root = \"${REGATTA_UNSET}\"\n"),
    ("loop.toml", "SITE[[redirects]]\nfrom = \"/a\"\nto = \"/a\"\n"),
    ("status.toml", "SITE[[redirects]]\nfrom = \"/a\"\nto = \"/b\"\nstatus = 305\n"),
    (
        "twice.toml",
        "SITE\n[[redirects]]\nfrom = \"/a\"\nto = \"/b\"\n\n\
         [[redirects]]\nfrom = \"/a\"\nto = \"/c\"\n",
    ),
    ("tickets.toml", "SITE[tls]\nticket_keys = [\"none.key\"]\n"),
    ("index.html.gz", "\u{1f}\u{8b}\n"),
    ("empty/.keep", ""),
];

/// Answers 404 to all requests, one on a connection, until the test process ends.
fn missing(listener: &TcpListener) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { return };
        let lines = BufReader::new(&stream).lines().map_while(Result::ok);
        lines.take_while(|line| !line.is_empty()).for_each(drop);
        let answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(answer);
    }
}

pub(crate) fn typical_mistakes_are_answered_with_what_to_do() {
    let folder = Folder::new("mistakes");
    for (name, text) in FILES {
        let text = text.replace("SITE", "[server]\nroot = \"site\"\n");
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("the folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("ours").port().to_string();
    thread::spawn(move || missing(&listener));
    let mut wrong = Vec::new();
    for (command, words) in ROWS {
        let words_of = command.split(' ').map(|word| {
            word.replace("ROOT", "site").replace("EMPTY", "empty").replace("BUSY", &port)
        });
        let mut command = Command::new(program());
        command.args(words_of).current_dir(&*folder).stdin(Stdio::null());
        let output = command.output().expect("it runs");
        let said = [output.stdout, output.stderr];
        let said = said.map(|text| String::from_utf8(text).expect("text"));
        let missing: Vec<_> =
            words.iter().filter(|word| !said.iter().any(|text| text.contains(**word))).collect();
        if !missing.is_empty() {
            wrong.push(format!("{command:?} does not say {missing:?}: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
