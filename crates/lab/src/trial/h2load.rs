//! h2load as the client of a trial: its command line, and what it prints and logs as the result of
//! a load.

use super::load_command::Asked;
use super::wrk::{COUNT_MAX, health};
use crate::experiment::RequestFields;
use crate::experiment::client::CODINGS;
use crate::units::real;
use regatta_load::engine::{Fate, Fates, Hdr, Outcome};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Most of its log that is read, bytes: some 30 for each request.
const LOG_BYTES_MAX: u64 = 1 << 30;
/// Names of HTTP/2 that it prints: agreed upon over TLS, and by prior knowledge.
const PROTOCOLS: [&str; 2] = ["h2", "h2c"];

/// Arguments: one thread that asks for the addresses in `list`, one after another on each
/// connection. Its windows are as large as they may be, which is its default.
pub(super) fn arguments(
    list: &Path,
    asked: &Asked,
    seconds: f64,
    log: Option<&Path>,
) -> Vec<OsString> {
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
pub(super) fn result(printed: &str, url: &str, asked: &Asked) -> Option<Outcome> {
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
    let good = succeeded.checked_sub(redirected)?;
    let fates: BTreeMap<Fate, u64> = [
        (Fate::Good, good),
        (Fate::Late, late),
        (Fate::Status, status.saturating_add(redirected)),
        (Fate::Reset, errored - late),
    ]
    .into();
    let fates = Fates::from(fates);
    let (offered, seconds) = (fates.total(), asked.window_s.ceil());
    let (connections, streams) = (u64::from(asked.connections), asked.streams);
    let micros = u64::try_from(std::time::Duration::from_secs_f64(seconds).as_micros()).ok()?;
    Some(Outcome {
        load: format!("{connections} connections of {streams} streams, by h2load"),
        seed: asked.seed,
        started_unix_ms: crate::units::unix_ms(),
        seconds,
        offered,
        offered_per_s: real(offered) / seconds,
        fates,
        good_per_s: real(good) / seconds,
        good_mbit_per_s: real(bodies) * 8e-6 / seconds,
        connections_most: connections,
        bytes_received: received,
        workers: health(printed, micros).into_iter().collect(),
        ..Outcome::empty(url)
    })
}

/// Records the times in its log: lines of a start, a status, and microseconds, with tabs between
/// them. The status of a stream that failed is -1. Lines of another form are left out.
///
/// # Errors
/// The log cannot be read.
pub(super) fn read_times(log: impl Read, times: &mut Hdr) -> io::Result<()> {
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

/// The rest of a line that begins like this.
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
            tls: Encryption::Full,
            streams: 10,
        }
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
        let found = result(PRINTED, "https://h/a", &asked()).unwrap();
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
    fn what_is_no_result_is_none() {
        let without = |line: &str| {
            PRINTED.lines().filter(|one| !one.starts_with(line)).collect::<Vec<_>>().join("\n")
        };
        for line in ["Application", "requests", "status", "traffic"] {
            assert!(result(&without(line), "https://h/a", &asked()).is_none(), "{line}");
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
            assert!(result(&printed, "https://h/a", &asked()).is_none(), "{then}");
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
            let words = arguments(Path::new("/s/list"), asked, 2.0, log);
            words.iter().map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        let plain = words(&asked(), None).join(" ");
        assert_eq!(plain, "-t1 -c64 -m10 -D2 -i /s/list");
        let coded = Asked { fields: RequestFields::Codings, ..asked() };
        let coded = words(&coded, Some(Path::new("/s/log"))).join(" ");
        assert!(
            coded.contains("-H accept-encoding: br;q=1, gzip;q=0.8 --log-file=/s/log"),
            "{coded}"
        );
    }
}
