//! A load program that is not ours as the client of a trial: wrk, or h2load.
//!
//! ```text
//!  ours compares a reply, byte by byte │ it, to warm up │ it, watched │ ours compares again
//! ```

use super::load_command::{Asked, Served};
use super::{Bench, PATIENCE, said};
use crate::experiment::client::CODINGS;
use crate::experiment::{Ask, Client, Encryption, Machine, RequestFields};
use crate::units::{At, real, unix_ms};
use crate::watch::Seen;
use crate::watch::perf::Recorder;
use regatta_load::engine::{Fate, Fates, Hdr, Health, Outcome, parse_time};
use regatta_load::workload::presets;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between the start of the watch and the load's, seconds: in it the server's counters are read.
const BEFORE_S: f64 = 0.3;
/// Between the load's end and that of the watch, seconds: wrk checks its clock each 100 ms.
const AFTER_S: f64 = 0.5;
/// The load may end this long after the watch: it is checked each 5 ms.
const LATE_MAX: Duration = Duration::from_millis(50);
/// Time for which one of our own connections compares replies, seconds.
const COMPARED_S: f64 = 0.1;
/// Most of its output that is read, bytes: times of wrk in three digits are some 5,000 lines.
const OUTPUT_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug)]
struct AnotherLoad {
    client: Client,
    program: PathBuf,
    /// Script of wrk, or list of h2load.
    input: PathBuf,
    /// File to which h2load writes the time of each request.
    log: PathBuf,
    /// First address that it asks for.
    url: String,
    timeout: Duration,
    asked: Asked,
}

/// Warm-up and window for which a load is watched, seconds.
pub(super) fn watched_s(asked: &Asked, profiled: bool) -> (f64, f64) {
    let around = if profiled { 0.0 } else { BEFORE_S + AFTER_S };
    (0.0, asked.window_s.ceil() + around)
}

impl Bench<'_> {
    /// Has the program load a server, and watches that: the load's result in our own words, and
    /// what was seen of the server.
    pub(super) fn by_another(
        &self,
        mut served: Served<'_>,
        asked: &Asked,
        machine: &Machine,
        [outcome, errors]: [&Path; 2],
        recorder: Option<&mut Recorder<'_>>,
    ) -> Result<(Outcome, Seen), String> {
        let profiled = recorder.is_some();
        self.compare(&served, asked, machine, [outcome, errors])?;
        let another = self.another(&served, asked)?;
        let name = another.client.name();
        let limit = Duration::from_secs_f64(asked.warm_s + asked.window_s) + PATIENCE;
        let start = |seconds: f64, after_s: f64, is_logged: bool| {
            let words = another.words(seconds, after_s, is_logged);
            self.start_load(words, machine, &served, [outcome, errors])
        };
        if asked.warm_s > 0.0 {
            start(asked.warm_s, 0.0, false)?.wait(limit, self.stop)?;
        }
        let load = start(asked.window_s, if profiled { 0.0 } else { BEFORE_S }, true)?;
        served.watch(recorder)?;
        let watched = Instant::now();
        load.wait(limit, self.stop)?;
        if !profiled && watched.elapsed() > LATE_MAX {
            return Err(format!("{name} took longer than it was told to: the machine is busy"));
        }
        let printed = read(outcome)?;
        self.compare(&served, asked, machine, [outcome, errors])?;
        let mut seen = served.end()?;
        let body_bytes = self.body_bytes(asked);
        let found = another.result(&printed, body_bytes)?.ok_or_else(|| {
            let said = fs::read_to_string(errors).unwrap_or_default();
            format!("{name} said nothing that can be read: {}{printed}", said.trim())
        })?;
        let is_compared = asked.tls == Encryption::Clear && another.client == Client::Wrk;
        if !is_compared && body_bytes.is_some_and(|bytes| is_short(&found, bytes)) {
            return Err(format!("{name} received fewer bytes than its replies have"));
        }
        if !profiled {
            if seen.seconds < found.seconds + AFTER_S {
                return Err(format!("the watch began after {name}: the machine is busy"));
            }
            seen.of_a_load(found.seconds);
        }
        let text = serde_json::to_string(&found).map_err(|error| error.to_string())?;
        fs::write(outcome, text).at(outcome)?;
        Ok((found, seen))
    }

    fn another(&self, served: &Served<'_>, asked: &Asked) -> Result<AnotherLoad, String> {
        let workload = &self.experiment.workload;
        let client = workload.client;
        let program = client.program()?.ok_or("regatta load is a client of its own")?;
        let (scheme, host) = match served.encrypted() {
            Some(host) => ("https", host),
            None if client == Client::H2load => ("http", served.clear_http2()),
            None => ("http", served.host()),
        };
        let targets = self.targets(asked)?;
        let urls: Vec<String> =
            targets.iter().map(|target| format!("{scheme}://{host}{target}")).collect();
        let (input, text) = if client == Client::H2load {
            (self.scratch.join("h2load.txt"), urls.join("\n") + "\n")
        } else {
            let close = workload.requests_per_connection == 1;
            (self.scratch.join("wrk.lua"), wrk_script(&host, &targets, asked.fields, close))
        };
        fs::write(&input, text).at(&input)?;
        let log = self.scratch.join("h2load.log");
        // h2load appends to it.
        match fs::remove_file(&log) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(format!("{}: {error}", log.display()));
            }
            _ => {}
        }
        let timeout = parse_time(&workload.timeout)?;
        let url = urls.into_iter().next().ok_or("a rotation of no files")?;
        Ok(AnotherLoad { client, program, input, log, url, timeout, asked: asked.clone() })
    }

    /// The paths that are asked for, one after another.
    fn targets(&self, asked: &Asked) -> Result<Vec<String>, String> {
        let workload = &self.experiment.workload;
        if workload.ask != Ask::Rotation {
            return Ok(vec![asked.target.clone()]);
        }
        let preset = workload.preset.as_deref().and_then(presets::find);
        let preset = preset.ok_or("a rotation is of the files of a preset")?;
        let set = preset.shape.file_set(1, &["file_set"]).map_err(|fault| fault.to_string())?;
        let own = set.ids().filter(|file| set.weight(*file) > 0.0);
        let target = |file| {
            let mut target = String::new();
            set.uri_into(file, &mut target);
            target
        };
        Ok(own.map(target).collect())
    }

    /// Bytes of the body of each good reply, if all have as many.
    fn body_bytes(&self, asked: &Asked) -> Option<u64> {
        let is_one = self.experiment.workload.ask == Ask::Target;
        if !is_one || asked.fields == RequestFields::Codings {
            return None;
        }
        let body = self.root.join(asked.target.trim_start_matches('/'));
        let file = fs::metadata(body).ok().filter(fs::Metadata::is_file);
        Some(file.map_or(0, |file| file.len()))
    }

    /// Asks as `regatta load` for a moment, over one connection, and compares every byte.
    fn compare(
        &self,
        served: &Served<'_>,
        asked: &Asked,
        machine: &Machine,
        files: [&Path; 2],
    ) -> Result<(), String> {
        let one = Asked { connections: 1, warm_s: 0.0, window_s: COMPARED_S, ..asked.clone() };
        let words = self.words(&served.url(), &one, machine, true);
        let load = self.start_load(words, machine, served, files)?;
        let code = load.wait(PATIENCE, self.stop)?;
        let found = said(files[0], files[1], code)?;
        let wrong = |fate: &Fate| *fate != Fate::Good && found.fates.get(*fate) > 0;
        let wrong: Vec<&str> = Fate::ALL.into_iter().filter(wrong).map(Fate::name).collect();
        if found.fates.errors() == 0 {
            let is_compared = found.fates.get(Fate::Good) > 0;
            let late = || format!("no reply within {COMPARED_S} s: the machine is busy");
            return is_compared.then_some(()).ok_or_else(late);
        }
        Err(format!("{} is not answered as it should be: {}", asked.target, wrong.join(", ")))
    }
}

impl AnotherLoad {
    fn words(&self, seconds: f64, after_s: f64, is_logged: bool) -> Vec<OsString> {
        let shell = format!("sleep {after_s}; setpriv --pdeathsig TERM \"$@\" && times");
        let mut words: Vec<OsString> = ["sh", "-c", &shell, "sh"].map(OsString::from).into();
        words.push(self.program.clone().into());
        let Self { input, asked, .. } = self;
        words.extend(if self.client == Client::H2load {
            let log = Some(self.log.as_path()).filter(|_| is_logged);
            h2load_arguments(input, asked, seconds, log)
        } else {
            wrk_arguments(input, &self.url, asked.connections, seconds, self.timeout)
        });
        words
    }

    /// Result of a load, from what the program printed and logged; `None` if that is not readable.
    fn result(&self, printed: &str, body_bytes: Option<u64>) -> Result<Option<Outcome>, String> {
        if self.client != Client::H2load {
            return Ok(wrk_result(printed, &self.url, &self.asked, body_bytes));
        }
        let Some(mut outcome) = h2load_result(printed, &self.url, &self.asked) else {
            return Ok(None);
        };
        let log = File::open(&self.log).at(&self.log)?;
        read_times(log, &mut outcome.service.times).at(&self.log)?;
        Ok(Some(outcome))
    }
}

fn read(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).at(path)?;
    file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes).at(path)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a load received fewer bytes than the bodies of its good replies have. Nothing else
/// compares replies that are encrypted, or of HTTP/2.
fn is_short(found: &Outcome, body_bytes: u64) -> bool {
    found.bytes_received < found.fates.get(Fate::Good).saturating_mul(body_bytes)
}

/// Largest number in their output that is believed.
const COUNT_MAX: u64 = 1_000_000_000_000_000;

/// The end of every script: a line of counts, and the times, cut to three digits. It has no
/// `response`, so wrk parses no more of a reply than it does without a script.
const WRK_DONE: &str = include_str!("../../assets/wrk_done.lua");

/// The ten fields of Firefox, without the first, `Host`.
const BROWSER: &str = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 \
    Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\
    \r\nAccept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
    Connection: keep-alive\r\nUpgrade-Insecure-Requests: 1\r\nSec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\nSec-Fetch-Site: none\r\n";

/// Arguments of a load by a script.
fn wrk_arguments(
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
fn wrk_script(host: &str, targets: &[String], fields: RequestFields, close: bool) -> String {
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
            lua_string(head)
        ),
        // Made once: wrk then asks Lua for nothing.
        (_, [head]) => {
            format!("wrk.format = function() return {} end\n", lua_string(&format!("{head}\r\n")))
        }
        (_, heads) => {
            let all: Vec<String> =
                heads.iter().map(|head| lua_string(&format!("{head}\r\n"))).collect();
            format!(
                "local all, n = {{{}}}, 0\nrequest = function()\n  n = n % #all + 1\n  \
                 return all[n]\nend\n",
                all.join(", ")
            )
        }
    };
    made + WRK_DONE
}

fn lua_string(text: &str) -> String {
    let letter = |byte: u8| match byte {
        b'"' | b'\\' | 0..32 | 127.. => format!("\\{byte:03}"),
        byte => char::from(byte).to_string(),
    };
    format!("\"{}\"", text.bytes().map(letter).collect::<String>())
}

/// Result of a load, from what wrk printed; `None` if its script prints something else.
/// `body_bytes`: of each good reply, if all have as many.
fn wrk_result(printed: &str, url: &str, asked: &Asked, body_bytes: Option<u64>) -> Option<Outcome> {
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
    let fates = [
        (Fate::Good, requests - status - late),
        (Fate::Late, late),
        (Fate::Status, status),
        (Fate::Refused, connect),
        (Fate::Reset, read.saturating_add(write)),
    ];
    let of_load = outcome_of(url, asked, fates.into(), seconds);
    let mut outcome = Outcome {
        load: format!("{} connections, no think time, by wrk", asked.connections),
        good_mbit_per_s: match body_bytes {
            Some(each) => of_load.good_per_s * real(each) * 8e-6,
            // With their heads.
            None => real(bytes) * 8e-6 / seconds,
        },
        bytes_received: bytes,
        workers: health(printed, micros).into_iter().collect(),
        ..of_load
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

/// Most of its log that is read, bytes: some 30 for each request.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Names of HTTP/2 that it prints: agreed upon over TLS, and by prior knowledge.
const PROTOCOLS: [&str; 2] = ["h2", "h2c"];

/// Arguments: one thread that asks for the addresses in `list`, one after another on each
/// connection. Its windows are as large as they may be, which is its default.
fn h2load_arguments(list: &Path, asked: &Asked, seconds: f64, log: Option<&Path>) -> Vec<OsString> {
    let numbers = [
        "-t1".to_owned(),
        format!("-c{}", asked.connections),
        format!("-m{}", asked.streams),
        format!("-D{:.0}", seconds.ceil()),
    ];
    let mut words: Vec<OsString> = numbers.map(OsString::from).into();
    if asked.fields == RequestFields::Codings {
        words.extend(["-H".into(), format!("accept-encoding: {CODINGS}").into()]);
    }
    if let Some(log) = log {
        let mut word = OsString::from("--log-file=");
        word.push(log);
        words.push(word);
    }
    words.extend(["-i".into(), list.into()]);
    words
}

/// Result of a load, without times, from what h2load printed; `None` if that is not readable, or
/// the protocol was not HTTP/2.
fn h2load_result(printed: &str, url: &str, asked: &Asked) -> Option<Outcome> {
    let protocol = line(printed, "Application protocol: ")?;
    if !PROTOCOLS.contains(&protocol.trim()) {
        return None;
    }
    let requests = line(printed, "requests: ")?;
    let [succeeded, failed, errored, late] =
        ["succeeded", "failed", "errored", "timeout"].map(|word| counted(requests, word));
    let (succeeded, failed, errored, late) = (succeeded?, failed?, errored?, late?);
    let redirected = counted(line(printed, "status codes: ")?, "3xx")?;
    // `(N) total`, `(N) headers` and `(N) data`; among them a percentage in parentheses.
    let traffic = line(printed, "traffic: ")?;
    let in_parentheses = |at: usize| number(traffic.split(['(', ')']).nth(at)?);
    let (received, bodies) = (in_parentheses(1)?, in_parentheses(7)?);
    // Failures that are no errors are statuses. Errors that are late are counted as late alone.
    let (status, late) = (failed.checked_sub(errored)?, late.min(errored));
    let fates = [
        (Fate::Good, succeeded.checked_sub(redirected)?),
        (Fate::Late, late),
        (Fate::Status, status.saturating_add(redirected)),
        (Fate::Reset, errored - late),
    ];
    let seconds = asked.window_s.ceil();
    let micros = u64::try_from(Duration::from_secs_f64(seconds).as_micros()).ok()?;
    Some(Outcome {
        load: format!("{} connections of {} streams, by h2load", asked.connections, asked.streams),
        good_mbit_per_s: real(bodies) * 8e-6 / seconds,
        bytes_received: received,
        workers: health(printed, micros).into_iter().collect(),
        ..outcome_of(url, asked, fates.into(), seconds)
    })
}

/// Result of a load that ended in these ways.
fn outcome_of(url: &str, asked: &Asked, fates: BTreeMap<Fate, u64>, seconds: f64) -> Outcome {
    let fates = Fates::from(fates);
    let (offered, good) = (fates.total(), fates.get(Fate::Good));
    Outcome {
        seed: asked.seed,
        started_unix_ms: unix_ms(),
        seconds,
        offered,
        offered_per_s: real(offered) / seconds,
        good_per_s: real(good) / seconds,
        fates,
        connections_most: u64::from(asked.connections),
        ..Outcome::empty(url)
    }
}

/// Records the times in its log: lines of a start, a status, and microseconds, with tabs between
/// them. The status of a stream that failed is -1. Lines of another form are left out.
///
/// # Errors
/// The log cannot be read.
fn read_times(log: impl Read, times: &mut Hdr) -> io::Result<()> {
    let mut log = BufReader::new(log.take(LOG_BYTES_MAX));
    let mut line = String::new();
    while log.read_line(&mut line)? > 0 {
        if let [_, status, micros, ..] = line.trim_end().split('\t').collect::<Vec<_>>()[..]
            && number(status).is_some()
            && let Some(micros) = number(micros)
        {
            times.record(micros.saturating_mul(1_000));
        }
        line.clear();
    }
    Ok(())
}

fn line<'t>(printed: &'t str, begin: &str) -> Option<&'t str> {
    printed.lines().find_map(|line| line.strip_prefix(begin))
}

/// The number before a word, in `10 total, 12 started`.
fn counted(counts: &str, word: &str) -> Option<u64> {
    let found = |part: &str| number(part.trim().strip_suffix(word)?.trim());
    counts.split(", ").find_map(found)
}

fn number(word: &str) -> Option<u64> {
    word.parse().ok().filter(|number| *number <= COUNT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Encryption, Loop};

    #[test]
    fn replies_have_at_least_the_bytes_of_their_bodies() {
        let fates: BTreeMap<Fate, u64> = [(Fate::Good, 8)].into();
        let found =
            Outcome { bytes_received: 12_345, fates: fates.into(), ..Outcome::empty("http://h/a") };
        assert!(!is_short(&found, 1_543) && is_short(&found, 1_544), "8 replies in 12,345 bytes");
    }

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
        wrk_result(printed, "http://h/a", &asked(), Some(1_000))
    }

    #[test]
    fn what_wrk_prints_is_the_result_of_a_load() {
        let printed = "Running 2s test\nRESULT 10 2000000 12345 1 2 3 1 1\nTIME 250 6\n\
                       TIME 1230 4\n0m0.000000s 0m0.010000s\n0m0.500000s 0m1.000000s\n";
        let found = read(printed).unwrap();
        let fates = [Fate::Good, Fate::Late, Fate::Status, Fate::Refused, Fate::Reset];
        assert_eq!(fates.map(|fate| found.fates.get(fate)), [8, 1, 1, 1, 5]);
        assert_eq!((found.seconds, found.offered, found.good_per_s), (2.0, 16, 4.0));
        let mixed = wrk_result(printed, "http://h/a", &asked(), None).unwrap();
        assert!((mixed.good_mbit_per_s - 0.04938).abs() < 1e-9, "12,345 bytes in 2 s");
        assert_eq!((found.good_mbit_per_s, found.connections_most), (0.032, 64));
        assert_eq!((found.service.times.count(), found.busiest()), (10, (0.75, 0.75)));
        let median = found.service.at(0.5).ns;
        assert!(median.abs_diff(250_000) < 2_500, "{median}");
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), found);
    }

    #[test]
    fn what_is_no_result_of_wrk_is_none() {
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
        let script = |fields, close| wrk_script("h:1", &["/a".to_owned()], fields, close);
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
        let script = wrk_script("h:1", &targets, RequestFields::Host, false);
        assert!(
            script.contains("GET /a HTTP/1.1") && script.contains("GET /b HTTP/1.1"),
            "{script}"
        );
        assert!(script.contains("n = n % #all + 1"), "{script}");
    }

    fn of_h2load() -> Asked {
        Asked { tls: Encryption::Full, streams: 10, ..asked() }
    }

    const PRINTED: &str = "starting benchmark...\n\
        spawning thread #0: 64 total client(s). Timing-based test with 2s of main duration.\n\
        TLS Protocol: TLSv1.3\nCipher: TLS_AES_128_GCM_SHA256\nServer Temp Key: X25519 253 bits\n\
        Application protocol: h2\nMain benchmark duration is started for thread #0.\n\
        Main benchmark duration is over for thread #0. Stopping all clients.\n\n\
        finished in 2.01s, 50.00 req/s, 230.47KB/s\n\
        requests: 106 total, 116 started, 106 done, 100 succeeded, 6 failed, 4 errored, 1 timeout\n\
        status codes: 95 2xx, 5 3xx, 2 4xx, 0 5xx\n\
        traffic: 402.34KB (412000) total, 2.05KB (2100) headers (space savings 91.32%), \
        488.28KB (500000) data\n\
        \x20                    min         max         mean         sd        +/- sd\n\
        time for request:      100us     20.00ms      1.00ms       200us    90.00%\n\
        0m0.000000s 0m0.010000s\n0m0.500000s 0m1.000000s\n";

    #[test]
    fn what_h2load_prints_is_the_result_of_a_load() {
        let found = h2load_result(PRINTED, "https://h/a", &of_h2load()).unwrap();
        let fates = [Fate::Good, Fate::Late, Fate::Status, Fate::Refused, Fate::Reset];
        assert_eq!(fates.map(|fate| found.fates.get(fate)), [95, 1, 7, 0, 3]);
        assert_eq!((found.seconds, found.offered, found.good_per_s), (2.0, 106, 47.5));
        assert_eq!((found.bytes_received, found.connections_most), (412_000, 64));
        assert!((found.good_mbit_per_s - 2.0).abs() < 1e-9, "{}", found.good_mbit_per_s);
        assert_eq!(found.busiest(), (0.75, 0.75));
        let json = serde_json::to_string(&found).unwrap();
        assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), found);
    }

    #[test]
    fn what_is_no_result_of_h2load_is_none() {
        let without = |line: &str| {
            PRINTED.lines().filter(|one| !one.starts_with(line)).collect::<Vec<_>>().join("\n")
        };
        for line in ["Application", "requests", "status", "traffic"] {
            assert!(h2load_result(&without(line), "https://h/a", &of_h2load()).is_none(), "{line}");
        }
        for (now, then) in [
            ("protocol: h2\n", "protocol: http/1.1\n"),
            ("100 succeeded", "x succeeded"),
            ("100 succeeded", "4 succeeded"),
            ("6 failed", "3 failed"),
            ("(500000) data", "500000 data"),
            ("412000", "1000000000000001"),
        ] {
            let printed = PRINTED.replace(now, then);
            assert!(h2load_result(&printed, "https://h/a", &of_h2load()).is_none(), "{then}");
        }
    }

    #[test]
    fn its_log_has_the_time_of_each_request() {
        let log = "1700000000000000\t200\t250\n1700000000000100\t200\t1230\n\
                   1700000000000200\t-1\t9000000\nnothing\n1\t2\n1\t200\tx\n";
        let mut times = Hdr::default();
        read_times(log.as_bytes(), &mut times).unwrap();
        assert_eq!(times.count(), 2, "a failed stream has no time");
        assert!(times.quantile(1.0).abs_diff(1_230_000) < 12_300, "{}", times.quantile(1.0));
    }

    #[test]
    fn arguments_say_how_many_streams_and_what_is_accepted() {
        let words = |asked: &Asked, log| {
            let words = h2load_arguments(Path::new("/s/list"), asked, 2.0, log);
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let plain = words(&of_h2load(), None).join(" ");
        assert_eq!(plain, "-t1 -c64 -m10 -D2 -i /s/list");
        let coded = Asked { fields: RequestFields::Codings, ..of_h2load() };
        let coded = words(&coded, Some(Path::new("/s/log"))).join(" ");
        assert!(
            coded.contains("-H accept-encoding: br;q=1, gzip;q=0.8 --log-file=/s/log"),
            "{coded}"
        );
    }
}
