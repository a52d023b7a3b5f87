//! A load program that is not ours as the client of a trial: wrk, or h2load.
//!
//! ```text
//!  ours compares a reply, byte by byte │ it, to warm up │ it, watched │ ours compares again
//! ```

use super::load_command::{Asked, Served};
use super::{Bench, PATIENCE, h2load, said, wrk};
use crate::experiment::{Ask, Client, Encryption, Machine, RequestFields};
use crate::units::At;
use crate::watch::Seen;
use crate::watch::perf::Recorder;
use regatta_load::engine::{Fate, Outcome, parse_time};
use regatta_load::workload::presets;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
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

/// A load of such a program.
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

    /// Prepares a load of a server.
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
            (self.scratch.join("wrk.lua"), wrk::script(&host, &targets, asked.fields, close))
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
    /// The command line, behind a shell that lets it wait and prints its processor time.
    fn words(&self, seconds: f64, after_s: f64, is_logged: bool) -> Vec<OsString> {
        let shell = format!("sleep {after_s}; setpriv --pdeathsig TERM \"$@\" && times");
        let mut words: Vec<OsString> = ["sh", "-c", &shell, "sh"].map(OsString::from).into();
        words.push(self.program.clone().into());
        let Self { input, asked, .. } = self;
        words.extend(if self.client == Client::H2load {
            let log = Some(self.log.as_path()).filter(|_| is_logged);
            h2load::arguments(input, asked, seconds, log)
        } else {
            wrk::arguments(input, &self.url, asked.connections, seconds, self.timeout)
        });
        words
    }

    /// Result of a load, from what the program printed and logged; `None` if that is not readable.
    fn result(&self, printed: &str, body_bytes: Option<u64>) -> Result<Option<Outcome>, String> {
        if self.client != Client::H2load {
            return Ok(wrk::result(printed, &self.url, &self.asked, body_bytes));
        }
        let Some(mut outcome) = h2load::result(printed, &self.url, &self.asked) else {
            return Ok(None);
        };
        let log = File::open(&self.log).at(&self.log)?;
        h2load::read_times(log, &mut outcome.service.times).at(&self.log)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn replies_have_at_least_the_bytes_of_their_bodies() {
        let fates: BTreeMap<Fate, u64> = [(Fate::Good, 8)].into();
        let found =
            Outcome { bytes_received: 12_345, fates: fates.into(), ..Outcome::empty("http://h/a") };
        assert!(!is_short(&found, 1_543) && is_short(&found, 1_544), "8 replies in 12,345 bytes");
    }
}
