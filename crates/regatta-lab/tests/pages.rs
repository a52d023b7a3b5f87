//! The pages of both programs in a browser, but for the lab's report, which has its own test.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use regatta_testkit::folder::{Folder, ODD_NAMES};
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
        command.args(["--set", "content.listing=true"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut server = Self { child, url: String::new(), admin: String::new() };
        let stderr = server.child.stderr.take().unwrap();
        let mut lines = BufReader::new(stderr).lines().map(Result::unwrap);
        let at = "monitors are answered at ";
        let admin = lines.find_map(|line| Some(line.split_once(at)?.1.to_owned()));
        server.admin = format!("http://{}/", admin.unwrap());
        std::thread::spawn(move || lines.for_each(drop));
        let mut line = String::new();
        BufReader::new(server.child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        line.trim().strip_prefix("listening on ").unwrap().clone_into(&mut server.url);
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn people_can_use_a_listing() {
    let folder = Folder::new("listings");
    let root = folder.join("root");
    fs::create_dir_all(root.join("sub/deeper")).unwrap();
    fs::create_dir(root.join("many")).unwrap();
    ODD_NAMES.iter().for_each(|name| fs::write(root.join(name), "text").unwrap());
    fs::write(root.join("large.bin"), vec![0; 3_000_000]).unwrap();
    (0..1_001).for_each(|at| fs::write(root.join(format!("many/{at}.txt")), "text").unwrap());
    let server = Server::start(&root);
    let listing = |path: &str| format!("{}/{path}", server.url);
    pages::check(&[&listing(""), &listing("sub/deeper/"), &listing("many/")]);
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
