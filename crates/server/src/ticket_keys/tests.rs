//! Rotation, inheritance and files of ticket keys.
use super::{FILES_KEY, LIFETIME_S, ROTATE_KEY, Rotation, TicketKeys, problems, refresh};
use crate::{
    Failure,
    certificates::TlsFiles,
    config::raw::{Problem, Said, tests::of_sets},
    folder::Folder,
    handover::TicketMemory,
    log::{ErrorLog, LogDestination},
};
use regatta_op::Tick;
use regatta_origin::ListenerClass;
use regatta_sys::shm;
use regatta_tls::TicketWords;
use std::{
    fs::{self, Permissions},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::fs::PermissionsExt as _,
    },
};

const NOW: Tick = Tick(1_000_000);
const EVERY_MS: u64 = 60_000;
const PLAIN: &[u8] = b"a session";

fn errors() -> ErrorLog {
    ErrorLog::open(LogDestination::Off, None, None).unwrap()
}

fn rotating() -> Said {
    of_sets(&[&format!("{ROTATE_KEY}={}", EVERY_MS / 1_000)])
}

fn found(said: &Said) -> TlsFiles {
    TlsFiles::read(&said.settings)
}

fn faults(said: &Said) -> Vec<Problem> {
    problems(said, &found(said))
}

fn prepared(said: &Said, mut earlier: Option<TicketKeys>) -> TicketKeys {
    refresh(said, &found(said), &mut earlier, NOW, &errors()).unwrap();
    earlier.unwrap()
}

fn sealed(keys: &TicketKeys) -> Vec<u8> {
    keys.ticketer(ListenerClass(1)).encrypt(PLAIN).unwrap()
}

fn opens(keys: &TicketKeys, ticket: &[u8]) -> bool {
    let opened = keys.ticketer(ListenerClass(1)).decrypt(ticket);
    assert!(opened.as_deref().is_none_or(|plain| plain == PLAIN));
    assert!(keys.ticketer(ListenerClass(2)).decrypt(ticket).is_none());
    opened.is_some()
}

/// The keys as the next image of the master adopts them.
fn next_image(keys: &TicketKeys) -> TicketKeys {
    let fd: OwnedFd = keys.as_fd().try_clone_to_owned().unwrap();
    TicketKeys::adopt(fd, &keys.hand_over(0)).unwrap()
}

/// Files with these bytes each, and the configuration that names them.
fn with_files(folder: &Folder, contents: &[&[u8]]) -> Said {
    let paths = contents.iter().enumerate().map(|(at, bytes)| {
        let path = folder.join(format!("key{at}"));
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        path.display().to_string()
    });
    of_sets(&[&format!("{FILES_KEY}={}", paths.collect::<Vec<_>>().join(","))])
}

#[test]
fn each_interval_is_one_rotation() {
    let rotation = Rotation { last: Tick(1_000), every_ms: 100 };
    assert_eq!(rotation.next(), Tick(1_100));
    for (now, rotations, last) in [
        (500, 0, 1_000),
        (1_000, 0, 1_000),
        (1_099, 0, 1_000),
        (1_100, 1, 1_100),
        (1_250, 2, 1_200),
        (1_300, 3, 1_300),
        (9_999, 3, 9_900),
        (u64::MAX, 3, u64::MAX - (u64::MAX - 1_000) % 100),
    ] {
        let after = Rotation { last: Tick(last), ..rotation };
        assert_eq!(rotation.due(Tick(now)), (rotations, after), "{now}");
    }
}

#[test]
fn keys_rotate_when_it_is_time() {
    for (passed_ms, opened) in [
        (EVERY_MS - 1, true),
        (EVERY_MS, true),
        (2 * EVERY_MS, false),
        (3 * EVERY_MS, false),
        (100 * EVERY_MS, false),
    ] {
        let mut keys = prepared(&rotating(), None);
        assert_eq!(keys.rotate_at(), NOW.after(EVERY_MS));
        let ticket = sealed(&keys);
        let now = NOW.after(passed_ms);
        keys.rotate(now, &errors());
        assert_eq!(opens(&keys, &ticket), opened, "{passed_ms}");
        assert!(keys.rotate_at() > now && keys.rotate_at() <= now.after(EVERY_MS));
        assert!(opens(&keys, &sealed(&keys)));
        // All workers see what the master does.
        assert_eq!(opens(&next_image(&keys), &ticket), opened, "{passed_ms}");
    }
}

#[test]
fn the_next_image_continues_with_the_keys() {
    let keys = prepared(&rotating(), None);
    let ticket = sealed(&keys);
    let next = next_image(&keys);
    assert_eq!(next.rotation, keys.rotation);
    let shorter = of_sets(&[&format!("{ROTATE_KEY}=1")]);
    let next = prepared(&shorter, Some(next));
    assert!(opens(&next, &ticket));
    assert_eq!(next.rotation, Some(Rotation { last: NOW, every_ms: 1_000 }));
    assert!(opens(&keys, &sealed(&next)), "workers of the image before");
}

#[test]
fn a_shorter_interval_begins_with_one_rotation() {
    let keys = prepared(&rotating(), None);
    let ticket = sealed(&keys);
    let (shorter, now) = (of_sets(&[&format!("{ROTATE_KEY}=1")]), NOW.after(EVERY_MS - 1));
    let mut next = Some(next_image(&keys));
    refresh(&shorter, &found(&shorter), &mut next, now, &errors()).unwrap();
    let mut next = next.unwrap();
    next.rotate(now, &errors());
    assert!(opens(&next, &ticket), "its key is the previous one");
    assert_eq!(next.rotate_at(), now.after(1_000));
}

#[test]
fn memory_that_is_not_known_is_replaced() {
    let other = || {
        let memory = shm::create_named("regatta-test", TicketWords::WORDS).unwrap();
        memory.as_fd().try_clone_to_owned().unwrap()
    };
    let of = TicketMemory { fd: 0, rotated_ms: 0, rotate_ms: Some(1) };
    assert!(TicketKeys::adopt(other(), &of).is_none());
    let keys = prepared(&rotating(), None);
    let ticket = sealed(&keys);
    assert!(!opens(&prepared(&rotating(), None), &ticket));
    // An interval of 0 would never end.
    let of = TicketMemory { rotate_ms: Some(0), ..keys.hand_over(0) };
    let fd = keys.as_fd().try_clone_to_owned().unwrap();
    assert_eq!(TicketKeys::adopt(fd, &of).unwrap().rotation, None);
}

#[test]
fn keys_of_files_do_not_rotate() {
    let folder = Folder::new("ticket-keys");
    let said = with_files(&folder, &[&[1; 48], &[2; 80]]);
    let mut keys = prepared(&said, None);
    assert_eq!(keys.rotate_at(), Tick::NEVER);
    let ticket = sealed(&keys);
    assert_eq!(ticket[..16], [1; 16]);
    keys.rotate(Tick(u64::MAX - 1), &errors());
    assert!(opens(&keys, &ticket));
    // Another machine with the same files.
    assert!(opens(&prepared(&said, None), &ticket));
    // The files in another order, after a reload.
    let said = with_files(&folder, &[&[2; 80], &[1; 48], &[3; 48]]);
    let keys = prepared(&said, Some(next_image(&keys)));
    assert!(opens(&keys, &ticket));
    assert_eq!(sealed(&keys)[..16], [2; 16]);
    // No file has keys that rotate, and no key of a file rotates.
    let keys = prepared(&rotating(), Some(next_image(&keys)));
    assert!(!opens(&keys, &ticket));
    let ticket = sealed(&keys);
    assert!(opens(&keys, &ticket));
    assert!(!opens(&prepared(&said, Some(next_image(&keys))), &ticket));
}

/// A disk that hangs holds up no image: what was found is enough.
#[test]
fn files_are_not_read_again() {
    let folder = Folder::new("found-ticket-keys");
    let said = with_files(&folder, &[&[1; 48]]);
    let files = found(&said);
    fs::remove_file(folder.join("key0")).unwrap();
    let mut keys = None;
    refresh(&said, &files, &mut keys, NOW, &errors()).unwrap();
    assert_eq!(sealed(&keys.unwrap())[..16], [1; 16]);
    assert_eq!(faults(&said).len(), 1);
}

#[test]
fn faults_of_files_are_reported_where_they_are_named() {
    let folder = Folder::new("bad-ticket-keys");
    let good: &[u8] = &[1; 48];
    for (contents, mode, says) in [
        (&[7; 0][..], 0o600, "has 0 bytes; a key has 48 or 80"),
        (&[7; 47], 0o600, "has 47 bytes; a key has 48 or 80"),
        (&[7; 81], 0o600, "has 81 bytes"),
        (&[7; 128], 0o600, "has 128 bytes"),
        (&[7; 4_000], 0o600, "has 4000 bytes"),
        (good, 0o644, "is open to all users (mode 0644)"),
        (good, 0o642, "is open to all users (mode 0642)"),
    ] {
        let said = with_files(&folder, &[good, contents]);
        let path = folder.join("key1");
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let faults = faults(&said);
        let [problem] = &faults[..] else { panic!("{faults:?}") };
        assert_eq!(problem.kind.id, "bad-ticket-key");
        let text = problem.to_string();
        assert!(text.contains(FILES_KEY) && text.contains(&path.display().to_string()), "{text}");
        assert!(text.contains(says) && problem.hint.is_some(), "{text}");
        let mut keys = None;
        let failure = refresh(&said, &found(&said), &mut keys, NOW, &errors()).unwrap_err();
        assert!(matches!(failure, Failure::Configuration(of) if of == faults));
        assert!(keys.is_none());
    }
    for (path, says) in [("none", "cannot be read: "), (".", "not a regular file")] {
        let faults = faults(&of_sets(&[&format!("{FILES_KEY}={}", folder.join(path).display())]));
        assert!(faults.len() == 1 && faults[0].message.contains(says), "{faults:?}");
    }
}

#[test]
fn lists_of_files_have_limits() {
    let folder = Folder::new("many-ticket-keys");
    let key: &[u8] = &[1; 48];
    assert!(faults(&with_files(&folder, &[key; 3])).is_empty());
    let many = faults(&with_files(&folder, &[key; 4]));
    assert!(many.len() == 1 && many[0].kind.id == "too-many", "{many:?}");
    let path = folder.join("key0").display().to_string();
    let both = faults(&of_sets(&[&format!("{FILES_KEY}={path}"), &format!("{ROTATE_KEY}=0")]));
    assert!(both.len() == 1 && both[0].kind.id == "options-conflict", "{both:?}");
}

#[test]
fn the_default_interval_is_half_of_the_lifetime() {
    assert_eq!(2 * of_sets(&[]).settings.number(ROTATE_KEY), u64::from(LIFETIME_S));
    assert!(faults(&of_sets(&[])).is_empty());
    let shown = format!("{:?}", prepared(&rotating(), None));
    assert!(shown.starts_with("TicketKeys { rotation: ") && shown.ends_with(".. }"), "{shown}");
}
