//! The client's side of a trial: answers are verified, then asked for by wrk.

use super::process::{Interrupt, Launch, Spawned};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The script that makes wrk print one line of numbers. It has no `response`, so wrk parses no
/// more than it does without a script.
pub(crate) const WRK_SCRIPT: &str = r#"
done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d %d %d %d %d %d %d\n", summary.requests,
    summary.duration, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"#;

/// What wrk says about a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Load {
    /// Answers that arrived whole.
    pub(crate) requests: f64,
    /// How long it ran, in seconds.
    pub(crate) seconds: f64,
    /// Bytes that arrived, heads and bodies.
    pub(crate) bytes: f64,
    /// Half of the answers took at most this long, in microseconds, in a closed loop.
    pub(crate) p50_us: f64,
    /// 99 of 100 answers took at most this long, in microseconds, in a closed loop.
    pub(crate) p99_us: f64,
    /// Why the run does not count, if it does not.
    pub(crate) fault: Option<String>,
}

/// Asks for `path` once and compares status, length and bytes.
///
/// # Errors
/// What was different, in words.
pub(crate) fn verify(address: SocketAddr, path: &str, expect: &[u8]) -> Result<(), String> {
    let answer = ask(address, path).map_err(|error| format!("GET {path}: {error}"))?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let Some(end) = end else { return Err(format!("GET {path}: no end of the head")) };
    let head = String::from_utf8_lossy(&answer[..end]);
    let body = &answer[end + 4..];
    let mut lines = head.lines();
    let status = lines.next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("GET {path}: `{status}`"));
    }
    let length = lines
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .map(|(_, value)| value.trim().to_owned());
    if length.as_deref() != Some(expect.len().to_string().as_str()) {
        return Err(format!("GET {path}: Content-Length {length:?}, expected {}", expect.len()));
    }
    if body != expect {
        return Err(format!("GET {path}: {} bytes that are not the file's", body.len()));
    }
    Ok(())
}

/// One request as wrk makes it, on a connection of its own; reads until the length is there.
fn ask(address: SocketAddr, path: &str) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut piece = vec![0; 1 << 16];
    loop {
        let count = stream.read(&mut piece)?;
        answer.extend_from_slice(&piece[..count]);
        if count == 0 || whole_length(&answer).is_some_and(|length| answer.len() >= length) {
            return Ok(answer);
        }
    }
}

/// The length of head and body together, once the head is there.
fn whole_length(answer: &[u8]) -> Option<usize> {
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let (_, length) = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))?;
    Some(end + 4 + length.trim().parse::<usize>().ok()?)
}

/// How wrk is run.
#[derive(Debug, Clone)]
pub(crate) struct Wrk {
    /// The program.
    pub(crate) program: std::path::PathBuf,
    /// Its script.
    pub(crate) script: std::path::PathBuf,
    /// Connections kept open.
    pub(crate) connections: u64,
    /// The CPU that it runs on.
    pub(crate) cpu: Option<usize>,
}

impl Wrk {
    /// Writes the script into `folder`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn new(
        program: std::path::PathBuf,
        folder: &Path,
        connections: u64,
        cpu: Option<usize>,
    ) -> Result<Self, String> {
        let script = folder.join("result.lua");
        std::fs::write(&script, WRK_SCRIPT).map_err(|e| format!("{}: {e}", script.display()))?;
        Ok(Self { program, script, connections, cpu })
    }

    /// Asks for `path` over and over for some seconds.
    ///
    /// # Errors
    /// If wrk cannot be run or the user interrupts.
    pub(crate) fn run(
        &self,
        address: SocketAddr,
        path: &str,
        seconds: u64,
        interrupt: &Interrupt,
    ) -> Result<Load, String> {
        let mut command = Command::new(&self.program);
        command
            .args(["-t1", &format!("-c{}", self.connections), &format!("-d{seconds}s")])
            .arg("-s")
            .arg(&self.script)
            .arg(format!("http://{address}{path}"));
        let limit = Duration::from_secs(seconds) + Duration::from_secs(10);
        let launch = Launch { command, cpu: self.cpu, errors: None, as_nobody: false };
        let text = Spawned::start(launch)?.output(limit, interrupt)?;
        parse(&text).ok_or_else(|| format!("wrk said nothing that we read:\n{text}"))
    }
}

/// Reads the line that the script printed.
fn parse(text: &str) -> Option<Load> {
    let line = text.lines().find_map(|line| line.strip_prefix("RESULT "))?;
    let numbers: Vec<f64> = line.split(' ').map_while(|number| number.parse().ok()).collect();
    let [requests, micros, bytes, connect, read, write, status, timeout, p50_us, p99_us] =
        numbers[..]
    else {
        return None;
    };
    let faults: Vec<String> = [
        ("connects failed", connect),
        ("reads failed", read),
        ("writes failed", write),
        ("answers of status 400 or more", status),
        ("timeouts", timeout),
    ]
    .iter()
    .filter(|(_, count)| *count > 0.0)
    .map(|(what, count)| format!("{count} {what}"))
    .collect();
    let fault = if requests < 1.0 { Some("no answer".to_owned()) } else { None };
    let fault = fault.or_else(|| (!faults.is_empty()).then(|| faults.join(", ")));
    Some(Load { requests, seconds: micros / 1e6, bytes, p50_us, p99_us, fault })
}

#[cfg(test)]
mod tests {
    use super::{parse, verify};
    use std::io::{Read, Write};
    use std::net::TcpListener;

    #[test]
    fn wrk_s_line_is_read() {
        let good = parse("Running\nRESULT 10 2000000 400 0 0 0 0 0 5 9\n").expect("it is there");
        assert_eq!((good.requests, good.seconds, good.fault), (10.0, 2.0, None));
        let bad = parse("RESULT 10 2000000 400 0 3 0 1 0 5 9").and_then(|load| load.fault);
        assert_eq!(bad.as_deref(), Some("3 reads failed, 1 answers of status 400 or more"));
        assert!(parse("RESULT 0 1 0 0 0 0 0 0 0 0").and_then(|load| load.fault).is_some());
        assert_eq!(parse("unable to connect"), None);
    }

    /// Answers one request with fixed bytes and says what verification makes of it.
    fn verdict(answer: &'static str) -> Result<(), String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
        let address = listener.local_addr().expect("it is bound");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("the client connects");
            let _ = stream.read(&mut [0; 512]);
            let _ = stream.write_all(answer.as_bytes());
        });
        let verdict = verify(address, "/x", b"body");
        server.join().expect("the server ends");
        verdict
    }

    #[test]
    fn wrong_answers_are_seen() {
        assert_eq!(verdict("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody"), Ok(()));
        for wrong in [
            "HTTP/1.1 404 No\r\nContent-Length: 4\r\n\r\nbody",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody!",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbodi",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbo",
            "HTTP/1.1 200 OK\r\n\r\nbody",
            "nonsense",
        ] {
            assert!(verdict(wrong).is_err(), "{wrong}");
        }
    }
}
