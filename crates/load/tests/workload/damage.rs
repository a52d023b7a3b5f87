//! Damaged input of every kind is refused or counted, never a panic: lists, logs and manifests
//! come from other programs and other people.
use regatta_load::workload::fault::unwatched;
use regatta_load::workload::files::{self, FileSet};
use regatta_load::workload::popularity::{Purpose, between, stream};
use regatta_load::workload::session::{Reader, write};
use regatta_load::workload::{access_log, content, from_log};
use std::path::Path;

const SESSIONS: &[u8] = b"#! at=1.5 line=400000 client=7\n/a think=0.343\n\t/b\n\
    /c method=POST contents='x\\\ny \"z\"'\n\n#! bytes=9\n/d contents=\"\\\\\" think=3\n";
const ACCESS: &[u8] = b"::1 - a b [10/Oct/2000:20:55:36.5 -0730] \"GET /x%20y?q HTTP/1.1\" 200 17 \
    \"http://r/\" \"Mozilla \\\"q\\\"\"\n{\"ts\":1700000000.25,\"request\":{\
    \"remote_ip\":\"1.2.3.4\",\"method\":\"GET\",\"uri\":\"/c\"},\"status\":200,\"size\":77}\n";
const LIST: &[u8] = b"# list\n12\t0.5\t-\t/a%20b\n7\t1\tabcd\t/c/d\n";

/// Gives `read` 20,000 copies of `text`, each with one to four bytes changed, lost or doubled.
fn check(text: &[u8], read: impl Fn(&[u8])) {
    let mut random = stream(42, 0, Purpose::Size);
    for _ in 0..20_000 {
        let mut damaged = text.to_vec();
        for _ in 0..between(&mut random, 1, 4) {
            let Some(last) = damaged.len().checked_sub(1) else { break };
            let last = u32::try_from(last).unwrap();
            let at = usize::try_from(between(&mut random, 0, last)).unwrap();
            match between(&mut random, 0, 3) {
                0 => damaged[at] = u8::try_from(between(&mut random, 0, 255)).unwrap(),
                1 => drop(damaged.remove(at)),
                2 => damaged.insert(at, damaged[at]),
                _ => damaged.truncate(at + 1),
            }
        }
        read(&damaged);
    }
}

#[test]
fn session_logs() {
    check(SESSIONS, |text| {
        let sessions: Result<Vec<_>, _> = Reader::new(text, Path::new("log")).collect();
        // Accepted sessions survive their own round trip.
        let Ok(sessions) = sessions else { return };
        let mut again = Vec::new();
        sessions.iter().for_each(|session| write(session, &mut again).unwrap());
        let read: Vec<_> =
            Reader::new(&*again, Path::new("log")).collect::<Result<_, _>>().unwrap();
        assert_eq!(read, sessions, "{}", String::from_utf8_lossy(text));
    });
}

#[test]
fn access_logs() {
    let rules = from_log::Rules::default();
    check(ACCESS, |text| {
        text.split(|&b| b == b'\n').for_each(|line| drop(access_log::parse(line)));
        if let Ok(found) = from_log::distil(text, Path::new("log"), rules, &unwatched) {
            found.sessions.drain(&found.set, |_| Ok(())).unwrap();
        }
    });
}

#[test]
fn lists_targets_and_first_lines() {
    check(LIST, |text| {
        if let Ok(set) = FileSet::read_list(text, Path::new("list")) {
            for file in set.ids() {
                let mut target = String::new();
                set.uri_into(file, &mut target);
                assert_eq!(set.find(&target), Some(file));
            }
        }
    });
    check(b"/a%20b/%2e%2e/../c//d/?q#f", |text| {
        if let Some(file) = files::file_of_target(&String::from_utf8_lossy(text)) {
            assert!(!file.split('/').any(|part| ["", ".", ".."].contains(&part)), "{file}");
        }
    });
    let mut altered = vec![0; 64];
    content::Content::at_version("a", 7).fill(0, &mut altered);
    check(&altered, |text| {
        if let Some(version) = content::version_of("a", text) {
            assert!(version.to_string().len() <= 20);
        }
    });
}
