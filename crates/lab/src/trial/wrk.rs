//! wrk as the client of a trial: its command line, and what it prints as the result of a load.

use super::load_command::Asked;
use crate::experiment::RequestFields;
use crate::experiment::client::CODINGS;
use crate::units::real;
use regatta_load::engine::{Fate, Fates, Health, Outcome};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// The largest number in its output that is believed.
pub(super) const COUNT_MAX: u64 = 1_000_000_000_000_000;

/// The end of every script: a line of counts, and the times, cut to three digits. It has no
/// `response`, so wrk parses no more of a reply than it does without a script.
const DONE: &str = r#"
done = function(summary, latency)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d %d %d %d\n", summary.requests, summary.duration,
    summary.bytes, e.connect, e.read, e.write, e.status, e.timeout))
  local time, count = 0, 0
  for i = 1, #latency do
    local us, n = latency(i)
    local step = 10 ^ math.max(0, math.floor(math.log10(math.max(us, 1))) - 2)
    local cut = math.floor(us / step) * step
    if cut ~= time and count > 0 then
      io.write(string.format("TIME %d %d\n", time, count))
      count = 0
    end
    time, count = cut, count + n
  end
  io.write(string.format("TIME %d %d\n", time, count))
end
"#;

/// The ten fields of Firefox, without the first, `Host`.
const BROWSER: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 \
    Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\
    \r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n";

/// Arguments of a load by a script.
pub(super) fn arguments(
    script: &Path,
    url: &str,
    connections: u32,
    seconds: f64,
    timeout: Duration,
) -> Vec<OsString> {
    let numbers = [
        "-t1".to_owned(),
        format!("-c{connections}"),
        format!("-d{:.0}s", seconds.ceil()),
        format!("--timeout={:.0}s", timeout.as_secs_f64().ceil()),
    ];
    let mut words: Vec<OsString> = numbers.map(OsString::from).into();
    words.extend(["-s".into(), script.into(), url.into()]);
    words
}

/// The script for requests of one kind, on connections that stay or are closed after each. Several
/// `targets` take turns.
pub(super) fn script(host: &str, targets: &[String], fields: RequestFields, close: bool) -> String {
    let more = match fields {
        RequestFields::Host => String::new(),
        RequestFields::Codings => format!("Accept-Encoding: {CODINGS}\r\n"),
        RequestFields::Browser | RequestFields::Cookie => BROWSER.to_owned(),
    };
    let head = |target: &String| {
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{more}");
        if !close {
            return head;
        }
        head.replace("Connection: keep-alive\r\n", "") + "Connection: close\r\n"
    };
    let heads: Vec<String> = targets.iter().map(head).collect();
    let made = match (fields, heads.as_slice()) {
        // In as many bytes each time.
        (RequestFields::Cookie, [head, ..]) => format!(
            "local n = 0\nrequest = function()\n  n = n + 1\n  \
             return string.format(\"%sCookie: id=%012d\\r\\n\\r\\n\", {}, n)\nend\n",
            quoted(head)
        ),
        // Made once: wrk then asks Lua for nothing.
        (_, [head]) => {
            format!("wrk.format = function() return {} end\n", quoted(&format!("{head}\r\n")))
        }
        (_, heads) => {
            let all: Vec<String> =
                heads.iter().map(|head| quoted(&format!("{head}\r\n"))).collect();
            format!(
                "local all, n = {{{}}}, 0\nrequest = function()\n  n = n % #all + 1\n  \
                 return all[n]\nend\n",
                all.join(", ")
            )
        }
    };
    made + DONE
}

/// As a string of Lua.
fn quoted(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'"' | b'\\' | 0..32 | 127.. => format!("\\{byte:03}"),
        byte => char::from(byte).to_string(),
    };
    format!("\"{}\"", text.bytes().map(letter).collect::<String>())
}

/// Result of a load, from what wrk printed; `None` if its script prints something else.
/// `body_bytes`: of each good reply, if all have as many.
pub(super) fn result(
    printed: &str,
    url: &str,
    asked: &Asked,
    body_bytes: Option<u64>,
) -> Option<Outcome> {
    let number = |word: &str| word.parse().ok().filter(|number| *number <= COUNT_MAX);
    let numbers = |line: &str| -> Vec<u64> { line.split(' ').map_while(number).collect() };
    let counts = printed.lines().find_map(|line| line.strip_prefix("RESULT "))?;
    let [requests, micros, bytes, connect, read, write, status, late] = numbers(counts)[..] else {
        return None;
    };
    let seconds = real(micros) / 1e6;
    if micros == 0 || status.saturating_add(late) > requests {
        return None;
    }
    let fates: BTreeMap<Fate, u64> = [
        (Fate::Good, requests - status - late),
        (Fate::Late, late),
        (Fate::Status, status),
        (Fate::Refused, connect),
        (Fate::Reset, read.saturating_add(write)),
    ]
    .into();
    let fates = Fates::from(fates);
    let offered = fates.total();
    let good_per_s = real(fates.get(Fate::Good)) / seconds;
    let connections = u64::from(asked.connections);
    let mut outcome = Outcome {
        load: format!("{connections} connections, no think time, by wrk"),
        seed: asked.seed,
        started_unix_ms: crate::units::unix_ms(),
        seconds,
        offered,
        offered_per_s: real(offered) / seconds,
        fates,
        good_per_s,
        good_mbit_per_s: match body_bytes {
            Some(each) => good_per_s * real(each) * 8e-6,
            // With their heads.
            None => real(bytes) * 8e-6 / seconds,
        },
        connections_most: connections,
        bytes_received: bytes,
        workers: health(printed, micros).into_iter().collect(),
        ..Outcome::empty(url)
    };
    for line in printed.lines().filter_map(|line| line.strip_prefix("TIME ")) {
        if let [us, count] = numbers(line)[..] {
            outcome.service.times.record_n(us.saturating_mul(1_000), count);
        }
    }
    Some(outcome)
}

/// Processor time of the one thread of a load: `times` of sh(1), whose second line is of what it
/// ran.
pub(super) fn health(printed: &str, wall_us: u64) -> Option<Health> {
    let line = printed.lines().rev().find(|line| !line.trim().is_empty())?;
    let of = |word: &str| -> Option<f64> {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
    };
    let (user, kernel) = line.split_once(' ')?;
    let cpu = Duration::try_from_secs_f64(of(user)? + of(kernel)?).ok()?;
    let wall_ns = wall_us.saturating_mul(1_000);
    let cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX).min(wall_ns);
    Some(Health { wall_ns, available_ns: wall_ns, cpu_ns, ..Health::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Encryption, Loop};

    fn asked() -> Asked {
        Asked {
            model: Loop::Closed,
            rate: String::new(),
            connections: 64,
            warm_s: 1.0,
            window_s: 2.0,
            seed: 1,
            without_think: false,
            target: "/a".to_owned(),
            fields: RequestFields::Host,
            tls: Encryption::Clear,
            streams: 1,
        }
    }

    fn read(printed: &str) -> Option<Outcome> {
        result(printed, "http://h/a", &asked(), Some(1_000))
    }

    #[test]
    fn what_wrk_prints_is_the_result_of_a_load() {
        let printed = "Running 2s test\nRESULT 10 2000000 12345 1 2 3 1 1\nTIME 250 6\n\
                       TIME 1230 4\n0m0.000000s 0m0.010000s\n0m0.500000s 0m1.000000s\n";
        let found = read(printed).unwrap();
        let fates = [Fate::Good, Fate::Late, Fate::Status, Fate::Refused, Fate::Reset];
        assert_eq!(fates.map(|fate| found.fates.get(fate)), [8, 1, 1, 1, 5]);
        assert_eq!((found.seconds, found.offered, found.good_per_s), (2.0, 16, 4.0));
        let mixed = result(printed, "http://h/a", &asked(), None).unwrap();
        assert!((mixed.good_mbit_per_s - 0.04938).abs() < 1e-9, "12,345 bytes in 2 s");
        assert_eq!((found.good_mbit_per_s, found.connections_most), (0.032, 64));
        assert_eq!((found.service.times.count(), found.busiest()), (10, (0.75, 0.75)));
        let median = found.service.at(0.5).ns;
        assert!(median.abs_diff(250_000) < 2_500, "{median}");
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), found);
    }

    #[test]
    fn what_is_no_result_is_none() {
        for printed in [
            "",
            "unable to connect to 127.0.0.1:1 Connection refused",
            "RESULT",
            "RESULT 1 2 3 4 5 6 7",
            "RESULT 1 2 3 4 5 6 7 x",
            "RESULT 10 0 1 0 0 0 0 0",
            "RESULT 1 1 1 0 0 0 1 1",
            "RESULT 1 1 1 0 0 0 1000000000000001 0",
            "RESULT -1 1 1 0 0 0 0 0",
        ] {
            assert!(read(printed).is_none(), "{printed}");
        }
        for more in ["", "TIME", "TIME 5", "TIME x 1", "0m1s", "xm1s 0m1s", "0minfs 0m0s", "0m-1s"]
        {
            let found = read(&format!("RESULT 1 1 1 0 0 0 0 0\n{more}")).unwrap();
            assert_eq!((found.service.times.count(), found.workers.len()), (0, 0), "{more}");
        }
        let most = COUNT_MAX;
        let found =
            read(&format!("RESULT {most} 1 1 {most} {most} {most} 0 0\nTIME {most} {most}"));
        assert!(found.is_some_and(|found| found.service.times.count() == most));
    }

    #[test]
    fn scripts_ask_for_what_is_wanted() {
        let script = |fields, close| script("h:1", &["/a".to_owned()], fields, close);
        let host = script(RequestFields::Host, false);
        let request = "GET /a HTTP/1.1\\013\\010Host: h:1\\013\\010\\013\\010\"";
        assert!(host.contains(request) && !host.contains("request = function"), "{host}");
        let closed = script(RequestFields::Browser, true);
        assert!(closed.contains("Connection: close") && !closed.contains("keep-alive"), "{closed}");
        assert_eq!(closed.matches("\\010").count(), 12, "a request line, ten fields, the end");
        let cookie = script(RequestFields::Cookie, false);
        assert!(cookie.contains("Cookie: id=%012d\\r\\n\\r\\n\"") && cookie.contains("Firefox"));
        let coded = script(RequestFields::Codings, false);
        assert!(
            coded.contains("Accept-Encoding: br;q=1, gzip;q=0.8\\013\\010\\013\\010"),
            "{coded}"
        );
    }

    #[test]
    fn a_rotation_asks_for_one_path_after_another() {
        let targets = ["/a".to_owned(), "/b".to_owned()];
        let script = script("h:1", &targets, RequestFields::Host, false);
        assert!(
            script.contains("GET /a HTTP/1.1") && script.contains("GET /b HTTP/1.1"),
            "{script}"
        );
        assert!(script.contains("n = n % #all + 1"), "{script}");
    }
}
