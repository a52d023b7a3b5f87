//! wrk as the client of a trial: what it is told, and what it prints as the result of a load.
//!
//! ```text
//!  ours compares a reply, byte by byte │ wrk, to warm up │ wrk, watched │ ours compares again
//! ```

use super::halves::ServerHalf;
use super::load_command::Asked;
use super::{Bench, PATIENCE, said};
use crate::experiment::{Encryption, Machine, RequestFields};
use crate::programs;
use crate::units::files::At;
use crate::units::real;
use crate::watch::Seen;
use crate::watch::perf::Recorder;
use regatta_load::engine::{Fate, Fates, Health, Outcome, parse_time};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

/// Between the start of the watch and wrk's, seconds: in it the server's counters are read.
const BEFORE_S: f64 = 0.3;
/// Between wrk's end and that of the watch, seconds: wrk looks at its clock each 100 ms.
const AFTER_S: f64 = 0.5;
/// wrk may end so long after the watch: it is looked at each 5 ms.
const LATE_MAX: Duration = Duration::from_millis(50);
/// How long one of our own connections compares replies.
const COMPARED_S: f64 = 0.1;
/// What of wrk's output is read, bytes: its times in three digits are some 5,000 lines.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

/// The largest number in it that is believed.
const COUNT_MAX: u64 = 1_000_000_000_000_000;

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

/// How long a load is watched.
pub(super) fn watched_s(asked: &Asked, profiled: bool) -> (f64, f64) {
    let around = if profiled { 0.0 } else { BEFORE_S + AFTER_S };
    (0.0, asked.window_s.ceil() + around)
}

impl Bench<'_> {
    /// Has wrk load a server, and watches that: the load's result in our own words, and what was
    /// seen of the server.
    pub(super) fn by_wrk(
        &self,
        mut served: ServerHalf<'_>,
        asked: &Asked,
        machine: &Machine,
        [outcome, errors]: [&Path; 2],
        recorder: Option<&mut Recorder<'_>>,
    ) -> Result<(Outcome, Seen), String> {
        let profiled = recorder.is_some();
        self.compare(&served, asked, machine, [outcome, errors])?;
        let script = self.scratch.join("wrk.lua");
        let close = self.experiment.workload.requests_per_connection == 1;
        let (scheme, host) = match served.encrypted() {
            Some(host) => ("https", host),
            None => ("http", served.host()),
        };
        fs::write(&script, self::script(&host, asked, close)).at(&script)?;
        let url = format!("{scheme}://{host}{}", asked.target);
        let limit = Duration::from_secs_f64(asked.warm_s + asked.window_s) + PATIENCE;
        let start = |seconds: f64, after_s: f64| {
            let words = self.wrk(&script, &url, asked.connections, seconds, after_s)?;
            self.start_load(words, machine, &served, [outcome, errors], limit)
        };
        if asked.warm_s > 0.0 {
            start(asked.warm_s, 0.0)?.wait(limit, self.stop)?;
        }
        let load = start(asked.window_s, if profiled { 0.0 } else { BEFORE_S })?;
        served.watch(recorder)?;
        let watched = Instant::now();
        load.wait(limit, self.stop)?;
        if !profiled && watched.elapsed() > LATE_MAX {
            return Err("wrk took longer than it was told to: the machine is busy".to_owned());
        }
        let printed = read(outcome)?;
        self.compare(&served, asked, machine, [outcome, errors])?;
        let mut seen = served.end()?;
        let body = self.root.join(asked.target.trim_start_matches('/'));
        let body_bytes =
            fs::metadata(body).ok().filter(fs::Metadata::is_file).map_or(0, |file| file.len());
        let found = result(&printed, &url, asked, body_bytes).ok_or_else(|| {
            let said = fs::read_to_string(errors).unwrap_or_default();
            format!("wrk said nothing that can be read: {}{printed}", said.trim())
        })?;
        if asked.tls != Encryption::Clear && is_short(&found, body_bytes) {
            return Err("wrk received fewer bytes than its replies have".to_owned());
        }
        if !profiled {
            if seen.seconds < found.seconds + AFTER_S {
                return Err("the watch began after wrk: the machine is busy".to_owned());
            }
            seen.of_a_load(found.seconds);
        }
        let text = serde_json::to_string(&found).map_err(|error| error.to_string())?;
        fs::write(outcome, text).at(outcome)?;
        Ok((found, seen))
    }

    /// Asks as `regatta load` for a moment, over one connection, and compares every byte.
    fn compare(
        &self,
        served: &ServerHalf<'_>,
        asked: &Asked,
        machine: &Machine,
        files: [&Path; 2],
    ) -> Result<(), String> {
        let one = Asked { connections: 1, warm_s: 0.0, window_s: COMPARED_S, ..asked.clone() };
        let words = self.words(&served.url(), &one, machine, true);
        let load = self.start_load(words, machine, served, files, PATIENCE)?;
        let code = load.wait(PATIENCE, self.stop)?;
        let found = said(files[0], files[1], code)?;
        let wrong = |fate: &Fate| *fate != Fate::Good && found.fates.get(*fate) > 0;
        let wrong: Vec<&str> = Fate::ALL.into_iter().filter(wrong).map(Fate::name).collect();
        if found.fates.errors() == 0 && found.fates.get(Fate::Good) > 0 {
            return Ok(());
        }
        Err(format!("{} is not answered as it should be: {}", asked.target, wrong.join(", ")))
    }

    /// wrk's command line, behind a shell that lets it wait and tells what processor time it took.
    fn wrk(
        &self,
        script: &Path,
        url: &str,
        connections: u32,
        seconds: f64,
        after_s: f64,
    ) -> Result<Vec<OsString>, String> {
        let timeout = parse_time(&self.experiment.workload.timeout)?.as_secs_f64();
        let shell = format!("sleep {after_s}; setpriv --pdeathsig TERM \"$@\" && times");
        let mut words: Vec<OsString> = ["sh", "-c", &shell, "sh"].map(OsString::from).into();
        words.push(programs::wrk()?.into());
        let numbers = [
            "-t1".to_owned(),
            format!("-c{connections}"),
            format!("-d{:.0}s", seconds.ceil()),
            format!("--timeout={:.0}s", timeout.ceil()),
        ];
        words.extend(numbers.map(OsString::from));
        words.extend(["-s".into(), script.into(), url.into()]);
        Ok(words)
    }
}

/// The script for requests of one kind, on connections that stay or are closed after each.
fn script(host: &str, asked: &Asked, close: bool) -> String {
    let browser = if asked.fields == RequestFields::Host { "" } else { BROWSER };
    let mut head = format!("GET {} HTTP/1.1\r\nHost: {host}\r\n{browser}", asked.target);
    if close {
        head = head.replace("Connection: keep-alive\r\n", "") + "Connection: close\r\n";
    }
    let made = match asked.fields {
        // In as many bytes each time.
        RequestFields::Cookie => format!(
            "local n = 0\nrequest = function()\n  n = n + 1\n  \
             return string.format(\"%sCookie: id=%012d\\r\\n\\r\\n\", {}, n)\nend\n",
            quoted(&head)
        ),
        // Made once: wrk then asks Lua for nothing.
        _ => format!("wrk.format = function() return {} end\n", quoted(&(head + "\r\n"))),
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

fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).at(path)?;
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).at(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What wrk printed, as the result of a load; None: it is not what its script prints.
fn result(printed: &str, url: &str, asked: &Asked, body_bytes: u64) -> Option<Outcome> {
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
        started_unix_ms: crate::units::date::unix_ms(),
        seconds,
        offered,
        offered_per_s: real(offered) / seconds,
        fates,
        good_per_s,
        good_mbit_per_s: good_per_s * real(body_bytes) * 8e-6,
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

/// Whether a load received fewer bytes than the bodies of its good replies have. Nothing else
/// compares replies that are encrypted.
fn is_short(found: &Outcome, body_bytes: u64) -> bool {
    found.bytes_received < found.fates.get(Fate::Good).saturating_mul(body_bytes)
}

/// How busy wrk's one thread was: `times` of sh(1), whose second line is of what it ran.
fn health(printed: &str, wall_us: u64) -> Option<Health> {
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
    use crate::experiment::Loop;

    fn asked(fields: RequestFields) -> Asked {
        Asked {
            model: Loop::Closed,
            rate: String::new(),
            connections: 64,
            warm_s: 1.0,
            window_s: 2.0,
            seed: 1,
            without_think: false,
            target: "/a".to_owned(),
            fields,
            tls: Encryption::Clear,
        }
    }

    fn read(printed: &str) -> Option<Outcome> {
        result(printed, "http://h/a", &asked(RequestFields::Host), 1_000)
    }

    #[test]
    fn what_wrk_prints_is_the_result_of_a_load() {
        let printed = "Running 2s test\nRESULT 10 2000000 12345 1 2 3 1 1\nTIME 250 6\n\
                       TIME 1230 4\n0m0.000000s 0m0.010000s\n0m0.500000s 0m1.000000s\n";
        let found = read(printed).unwrap();
        let fates = [Fate::Good, Fate::Late, Fate::Status, Fate::Refused, Fate::Reset];
        assert_eq!(fates.map(|fate| found.fates.get(fate)), [8, 1, 1, 1, 5]);
        assert_eq!((found.seconds, found.offered, found.good_per_s), (2.0, 16, 4.0));
        assert!(!is_short(&found, 1_543) && is_short(&found, 1_544), "8 replies in 12,345 bytes");
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
        let host = script("h:1", &asked(RequestFields::Host), false);
        let request = "GET /a HTTP/1.1\\013\\010Host: h:1\\013\\010\\013\\010\"";
        assert!(host.contains(request) && !host.contains("request = function"), "{host}");
        let closed = script("h:1", &asked(RequestFields::Browser), true);
        assert!(closed.contains("Connection: close") && !closed.contains("keep-alive"), "{closed}");
        assert_eq!(closed.matches("\\010").count(), 12, "a request line, ten fields, the end");
        let cookie = script("h:1", &asked(RequestFields::Cookie), false);
        assert!(cookie.contains("Cookie: id=%012d\\r\\n\\r\\n\"") && cookie.contains("Firefox"));
    }
}
