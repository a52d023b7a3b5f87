//! The pages of both programs in a browser, but for the lab's report, which has its own test.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use regatta_testkit::folder::Folder;
use regatta_testkit::{pages, programs};

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server with an admin process; killed at the end.
struct Server {
    child: Child,
    url: String,
    admin: String,
}

impl Server {
    fn start(root: &Path) -> Self {
        let mut command = Command::new(programs::regatta());
        command.arg("serve").arg(root).args(["--listen", "127.0.0.1:0"]);
        // Stages and helpers: most that the pages can show.
        command.args(["--architecture", "seda", "--set", "admin.listen=127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let at = "monitors are answered at ";
        let admin = lines.find_map(|line| Some(line.split_once(at)?.1.to_owned()));
        std::thread::spawn(move || lines.for_each(drop));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").unwrap().to_owned();
        Self { child, url, admin: format!("http://{}/", admin.unwrap()) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn people_can_use_the_film_the_live_page_and_a_load() {
    let folder = Folder::new("pages");
    fs::create_dir(folder.join("root")).unwrap();
    fs::write(folder.join("root/file.txt"), "text").unwrap();
    let server = Server::start(&folder.join("root"));
    let [film, load] = ["film.html", "load.html"].map(|name| folder.join(name));
    let pid = server.child.id().to_string();
    let mut filmed = Command::new(programs::regatta());
    filmed.args(["film", "--pid", &pid, "--for", "2s", "--out"]).arg(&film);
    let mut filmed = filmed.stdout(Stdio::null()).spawn().unwrap();
    let mut loaded = Command::new(env!("CARGO_BIN_EXE_regatta-lab"));
    loaded.args(["load", &format!("{}/file.txt", server.url), "--rate", "50", "--duration", "3s"]);
    let loaded = loaded.arg("--html").arg(&load).output().unwrap();
    assert!(filmed.wait().unwrap().success() && load.exists(), "{loaded:?}");
    pages::check(&[film.to_str().unwrap(), load.to_str().unwrap(), &server.admin]);
}
