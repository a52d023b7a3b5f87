//! The root is a path. Whatever way another directory gets its name, that is served soon. Each
//! answer meanwhile is of one release, and nothing of the old one stays open.

use crate::prelude::*;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// Promise to users: after this time all answers are of the new release.
const SOON: Duration = Duration::from_secs(2);

/// Time between two requests of a client during a deploy.
const ASK_EVERY: Duration = Duration::from_millis(8);

/// Files of every release: one kept in memory, one sent from its file, and one with a sibling.
const FILES: [(&str, usize); 4] =
    [("small.txt", 700), ("large.bin", 200_000), ("page.html", 3000), ("page.html.gz", 900)];

const RELEASES: usize = 4;

/// Bytes of a file of a release: the first is the release's number. Every answer is compared with
/// them, so they are made once.
fn bytes(release: u8, name: &str) -> &'static [u8] {
    static BYTES: [[OnceLock<Vec<u8>>; FILES.len()]; RELEASES] =
        [const { [const { OnceLock::new() }; FILES.len()] }; RELEASES];
    let file = FILES.iter().position(|(file, _)| *file == name).expect("a file of a release");
    BYTES[usize::from(release) - 1][file].get_or_init(|| {
        let mut bytes = pattern(FILES[file].1, usize::from(release) * 1000 + name.len());
        bytes[0] = release;
        bytes
    })
}

fn release(site: &Site, number: u8) -> PathBuf {
    let path = site.beside(&format!("release-{number}"));
    fs::create_dir(&path).expect("a folder");
    for (name, _) in FILES {
        fs::write(path.join(name), bytes(number, name)).expect("a file");
    }
    fs::write(path.join(format!("only-{number}.txt")), "here").expect("a file");
    path
}

/// A server over `current`, a link to the first release.
fn linked(variant: &Variant, site: &Site) -> Server {
    site.lead("current", release(site, 1));
    Launch::new(variant, &site.beside("current")).start()
}

/// Release that an answer is from, completely.
fn release_of(answer: &Answer, target: &str) -> u8 {
    let coded = answer.field("Content-Encoding").is_some();
    let name = if coded { format!("{target}.gz") } else { target.to_owned() };
    assert_eq!(answer.status, 200, "/{target}: {answer:?}");
    let number = answer.body.first().copied().unwrap_or_default();
    let is_right = (1..=RELEASES).contains(&number.into()) && answer.body == bytes(number, &name);
    assert!(is_right, "/{target} is no release's: {answer:?}");
    number
}

/// Whether a new connection gets a file of this release.
fn serves(server: &Server, release: u8) -> bool {
    ask(&mut server.connect(), "small.txt", "identity") == release
}

/// Kills all workers, and waits until others are there.
fn replace_workers(server: &Server) {
    server.kill_workers();
    soon(|| !server.workers().is_empty());
}

fn ask(client: &mut Client, target: &str, coding: &str) -> u8 {
    let answer = client.ask("GET", &format!("/{target}"), &[("Accept-Encoding", coding)]);
    release_of(&answer, target)
}

const ASKED: [(&str, &str); 4] = [
    ("small.txt", "identity"),
    ("large.bin", "identity"),
    ("page.html", "gzip"),
    ("page.html", "identity"),
];

/// Every process of the server, those of its workers included.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    children(pid).into_iter().for_each(|child| all.extend(family(child)));
    all
}

/// Files of a release no longer served that the server's processes have open.
fn left_open(server: &Server, site: &Site, served: &Path) -> Vec<String> {
    let beside = site.beside("");
    let served = fs::canonicalize(served).expect("a folder");
    let of = |pid| descriptors(pid).into_values().map(move |link| (pid, link));
    let open = family(server.pid()).into_iter().flat_map(of);
    let old = open.filter(|(_, link)| {
        let deleted = link.to_string_lossy().ends_with(" (deleted)");
        link.starts_with(&beside) && (deleted || !link.starts_with(&served))
    });
    old.map(|(pid, link)| format!("{pid}: {}", link.display())).collect()
}

/// Longest time that it takes to make and read a directory, until `over`.
fn longest_of_disk(path: &Path, over: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let begin = Instant::now();
        fs::create_dir(path).expect("a folder");
        assert_eq!(fs::read_dir(path).expect("a folder").count(), 0);
        longest = longest.max(begin.elapsed());
        remove(path);
        thread::sleep(Duration::from_millis(3));
    }
    longest
}

/// Deploys twice while clients ask. `deploy` puts release `number` in the place of the one before,
/// and deletes that. `root` is the name of the served path.
fn twice(variant: &Variant, root: &str, deploy: impl Fn(&Site, u8) + Sync) {
    let site = Site::new();
    let server = if root == "current" {
        linked(variant, &site)
    } else {
        fs::rename(release(&site, 1), site.beside(root)).expect("a rename");
        Launch::new(variant, &site.beside(root)).start()
    };
    let (over, seen) = (AtomicBool::new(false), [(); 4].map(|()| AtomicU8::new(0)));
    thread::scope(|scope| {
        let asker = |((target, coding), seen): ((&'static str, &'static str), _)| {
            let (server, over) = (&server, &over);
            scope.spawn(move || {
                let mut client = server.connect();
                let (mut last_old, mut longest) = ([Instant::now(); 4], Duration::ZERO);
                while !over.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let number = ask(&mut client, target, coding);
                    last_old[usize::from(number)] = asked;
                    AtomicU8::store(seen, number, Ordering::Relaxed);
                    thread::sleep(ASK_EVERY);
                    longest = longest.max(asked.elapsed().saturating_sub(ASK_EVERY));
                }
                (last_old, longest)
            })
        };
        let askers: Vec<_> = ASKED.into_iter().zip(&seen).map(asker).collect();
        let disk = scope.spawn(|| longest_of_disk(&site.beside("probe"), &over));
        let mut switched = Vec::new();
        for number in [2, 3] {
            thread::sleep(Duration::from_millis(100));
            deploy(&site, number);
            switched.push(Instant::now());
            let is_seen = |seen: &AtomicU8| seen.load(Ordering::Relaxed) == number;
            eventually(PATIENCE, || seen.iter().all(is_seen));
            // No client sees the old release again.
            thread::sleep(Duration::from_millis(100));
        }
        over.store(true, Ordering::Relaxed);
        let disk = disk.join().expect("a directory");
        for asker in askers {
            // A machine that is busy delays workers as it delays this client, and a disk that is
            // busy delays the server's check of its path.
            let (last, longest) = asker.join().expect("an asker");
            let limit = SOON + 4 * longest.max(disk);
            for (old, switched) in (1..3).zip(&switched) {
                let took = last[old].saturating_duration_since(*switched);
                assert!(took < limit, "release {old} for {took:?} after the next came");
            }
            assert!(last[3] > switched[1], "release 3 was never seen");
        }
    });
    comes_to(|| left_open(&server, &site, &site.beside(root)), Vec::is_empty);
}

fn remove(path: &Path) {
    fs::remove_dir_all(path).expect("a folder of ours");
}

/// A link is pointed to another release in one step, and the old release is deleted at once.
pub(crate) fn by_a_link(variant: &Variant) {
    twice(variant, "current", |site, number| {
        site.lead("current", release(site, number));
        remove(&site.beside(&format!("release-{}", number - 1)));
    });
}

pub(crate) fn by_moving(variant: &Variant) {
    twice(variant, "www", |site, number| {
        let new = release(site, number);
        fs::rename(site.beside("www"), site.beside("old")).expect("a rename");
        thread::sleep(Duration::from_millis(20));
        fs::rename(new, site.beside("www")).expect("a rename");
        remove(&site.beside("old"));
    });
}

pub(crate) fn by_exchange(variant: &Variant) {
    twice(variant, "www", |site, number| {
        let (new, www) = (release(site, number), site.beside("www"));
        renameat_with(CWD, &new, CWD, &www, RenameFlags::EXCHANGE).expect("a rename");
        remove(&new);
    });
}

/// The parent directory of the root is replaced, too. Confined workers may not read below the new
/// one: new workers that may take over.
pub(crate) fn by_moving_a_whole_tree(variant: &Variant) {
    let site = Site::new();
    let tree = |number: u8| {
        let tree = site.beside(&format!("tree-{number}"));
        fs::create_dir(&tree).expect("a folder");
        fs::rename(release(&site, number), tree.join("www")).expect("a rename");
        tree
    };
    fs::rename(tree(1), site.beside("tree")).expect("a rename");
    let server = Launch::new(variant, &site.beside("tree").join("www")).start();
    assert!(serves(&server, 1));
    let next = tree(2);
    fs::rename(site.beside("tree"), site.beside("old")).expect("a rename");
    fs::rename(next, site.beside("tree")).expect("a rename");
    let says = match landlock_version() {
        0 => "which is served",
        _ => "workers that run may not read",
    };
    server.says(says);
    (0..8).for_each(|_| soon(|| serves(&server, 2)));
}

/// A request for a file of only the new release, which has the name and is not served yet, waits
/// for it. The link is new, and not followed before.
pub(crate) fn what_is_new_is_waited_for(variant: &Variant) {
    let site = Site::new();
    let server = linked(variant, &site);
    let mut client = server.connect();
    assert_eq!(ask(&mut client, "small.txt", "identity"), 1);
    for (number, deleted) in [(2, false), (3, true), (4, false)] {
        site.lead("current", release(&site, number));
        if deleted {
            remove(&site.beside(&format!("release-{}", number - 1)));
        }
        client.get(&format!("/only-{number}.txt")).expect(200);
        client.get("/never.txt").expect(404);
        client.get(&format!("/only-{}.txt", number - 1)).expect(404);
    }
}

pub(crate) fn a_new_worker_has_the_new_root(variant: &Variant) {
    let site = Site::new();
    let server = linked(variant, &site);
    site.lead("current", release(&site, 2));
    soon(|| serves(&server, 2));
    thread::sleep(Duration::from_millis(100));
    replace_workers(&server);
    assert!((0..8).all(|_| serves(&server, 2)));
    site.lead("current", release(&site, 3));
    soon(|| serves(&server, 3));
    comes_to(|| left_open(&server, &site, &site.beside("release-3")), Vec::is_empty);
}

/// A root that is missing, or is no directory, changes nothing but adds a line to the log.
pub(crate) fn a_missing_root_is_said_once(variant: &Variant) {
    let site = Site::new();
    let server = linked(variant, &site);
    fs::remove_file(site.beside("current")).expect("a link");
    let said = |what: &str| server.stderr().matches(what).count();
    soon(|| said("is still served") == 1);
    thread::sleep(Duration::from_millis(1500));
    assert_eq!(said("is still served"), 1, "{}", server.stderr());
    assert!(serves(&server, 1));
    fs::write(site.beside("current"), "no directory").expect("a file");
    soon(|| said("is not a directory") == 1);
    site.lead("current", release(&site, 2));
    soon(|| serves(&server, 2));
}

/// Adds rules and an error page to a release.
fn with_rules(path: &Path, number: u8) {
    fs::write(path.join("_headers"), format!("/*\n  X-Release: {number}\n")).expect("a file");
    fs::write(path.join("_redirects"), format!("/old /to-{number} 302\n")).expect("a file");
    fs::write(path.join("error.html"), format!("error of {number}")).expect("a file");
}

/// The files of a release, their header fields, redirects and error pages change at once: no answer
/// has parts of two. Rules that change in place are followed as well.
pub(crate) fn rules_belong_to_the_root(variant: &Variant) {
    let site = Site::new();
    let releases = [1, 2, 3, 4].map(|number| release(&site, number));
    (1..).zip(&releases).for_each(|(number, path)| with_rules(path, number));
    site.lead("current", &releases[0]);
    let settings = ["content.rules_files=true", "content.error_pages=501=error.html"];
    let server = Launch::new(variant, &site.beside("current")).sets(&settings).start();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for (target, coding) in ASKED {
            let (server, over) = (&server, &over);
            scope.spawn(move || {
                let mut client = server.connect();
                while !over.load(Ordering::Relaxed) {
                    let target = format!("/{target}");
                    let answer = client.ask("GET", &target, &[("Accept-Encoding", coding)]);
                    let number = release_of(&answer, &target[1..]).to_string();
                    assert_eq!(answer.field("X-Release"), Some(&*number), "{target}");
                    thread::sleep(ASK_EVERY);
                }
            });
        }
        let all_serve = |number: u8| {
            let mut client = server.connect();
            let led = client.ask("GET", "/old", &[]).expect(302);
            let refused = client.ask("BREW", "/", &[]).expect(501);
            led.field("Location") == Some(&*format!("/to-{number}"))
                && refused.body == format!("error of {number}").as_bytes()
                && serves(&server, number)
        };
        for (number, path) in (2..).zip(&releases[1..]) {
            site.lead("current", path);
            assert!(eventually(PATIENCE, || all_serve(number)), "{number}");
        }
        over.store(true, Ordering::Relaxed);
    });
    let headers = site.beside("release-4").join("_headers");
    fs::write(&headers, "/*\n  X-Release: in place\n").expect("a file");
    let field = || server.connect().ask("GET", "/small.txt", &[]).expect(200);
    soon(|| field().field("X-Release") == Some("in place"));
    // Unreadable rules remove no field.
    fs::remove_file(&headers).expect("a file");
    fs::create_dir(&headers).expect("a folder");
    server.says("the rules read before stay in force");
    assert_eq!(field().field("X-Release"), Some("in place"));
    // A new worker has the current rules.
    replace_workers(&server);
    assert_eq!(field().field("X-Release"), Some("in place"));
}
