//! Foreign logs: access logs of any server, session logs of any player.
use regatta_load::workload::access_log;
use regatta_load::workload::fault::unwatched;
use regatta_load::workload::from_log::{Rules, distil};
use regatta_load::workload::session::{Reader, write};
use std::path::Path;

/// An access log: parsed parts are in the line, and every line of a log is accounted for.
pub fn access_log(bytes: &[u8]) {
    for line in bytes.split(|&byte| byte == b'\n') {
        if let Some(read) = access_log::parse(line) {
            let parts = [&read.client, &read.agent, &read.method, &read.target];
            let longest = parts.into_iter().map(|part| part.len()).max();
            // JSON may write a character in more bytes than it has, never in fewer.
            assert!(longest <= Some(line.len()), "{read:?}");
        }
    }
    let rules =
        Rules { session_gap_s: 1, files_max: 4, session_requests_max: 2, ..Rules::default() };
    let path = Path::new("fuzz.log");
    if let Ok(found) = distil(bytes, path, rules, &unwatched) {
        let seen = &found.observed;
        let ends = usize::from(!bytes.is_empty() && !bytes.ends_with(b"\n"));
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count() + ends;
        assert_eq!(seen.lines, lines as u64, "every line is one");
        let left_out = seen.malformed
            + seen.other_methods
            + seen.other_statuses
            + seen.odd_targets
            + seen.beyond_files_max;
        assert!(seen.requests > 0 && seen.requests + left_out <= seen.lines, "{seen:?}");
        assert!(seen.sessions > 0 && seen.sessions <= seen.requests, "{seen:?}");
    }
}

/// A session log: a parsed session, written and parsed again, is the same.
pub fn session_log(bytes: &[u8]) {
    let path = Path::new("fuzz.log");
    for session in Reader::new(bytes, path).map_while(Result::ok) {
        let mut text = Vec::new();
        write(&session, &mut text).expect("memory takes everything");
        let read = Reader::new(&*text, path).next();
        let Some(Ok(again)) = read else { panic!("{read:?}: {}", text.escape_ascii()) };
        let mut twice = Vec::new();
        write(&again, &mut twice).expect("memory takes everything");
        assert_eq!(text.escape_ascii().to_string(), twice.escape_ascii().to_string());
    }
}
