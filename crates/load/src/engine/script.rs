//! What is asked for: every distinct request once, as the bytes that go out, and the sessions that
//! name them.

use super::expect::Expect;
use crate::number::id;
use crate::workload::session::{Request, Session};
use regatta_http::Method;
use std::collections::HashMap;

/// One distinct request.
#[derive(Debug)]
pub(super) struct Target {
    /// The whole request.
    pub(super) bytes: Box<[u8]>,
    /// Its method, which decides whether a reply has content.
    pub(super) method: Method,
    /// Length of the content, when it is known.
    pub(super) size: Option<u64>,
    /// Size class, 0 to 3; [`CLASS_UNKNOWN`] when the size is not known.
    pub(super) class: u8,
    /// Place in the table of sizes.
    pub(super) slot: u32,
    /// What the content should be.
    pub(super) expect: Expect,
}

/// The class of targets whose size is not known.
pub(super) const CLASS_UNKNOWN: u8 = 4;
/// Classes with that one.
pub(super) const CLASSES: usize = 5;

/// One request of a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    /// Which request.
    pub(super) target: u32,
    /// Whether it starts a burst.
    pub(super) starts_burst: bool,
    /// Think time after its burst, microseconds; [`THINK_DEFAULT`] when the log does not say. Only
    /// where a burst starts.
    pub(super) think_us: u32,
}

/// The log gives no think time.
pub(super) const THINK_DEFAULT: u32 = u32::MAX;

/// One session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Its first step.
    pub(super) first: u32,
    /// The step after its last.
    pub(super) end: u32,
    /// The client that it belongs to.
    pub(super) client: u32,
    /// Speed of its line, bit/s; 0 when it has no own.
    pub(super) line_bits_per_s: u32,
    /// When the log says that it starts, microseconds.
    pub(super) at_us: Option<u64>,
}

/// Distinct requests, and sessions made of them.
#[derive(Debug, Default)]
pub(super) struct Script {
    pub(super) targets: Vec<Target>,
    pub(super) steps: Vec<Step>,
    pub(super) sessions: Vec<Part>,
}

/// Makes targets of requests and remembers those that it has made.
pub(super) struct Maker<'a> {
    /// Field lines of every request, the Host first, each with its line end.
    pub(super) fields: String,
    /// Ask with HEAD where the request says GET.
    pub(super) head: bool,
    /// What the content of a request target should be.
    pub(super) expect: &'a dyn Fn(&str, Option<u64>) -> Expected,
    pub(super) made: HashMap<(&'static str, String, Vec<u8>), u32>,
}

/// A content and its length; or what is wrong, in one sentence.
pub(super) type Expected = Result<(Expect, Option<u64>), String>;

impl Script {
    /// Adds the request, if it is new, and answers which it is.
    pub(super) fn target(
        &mut self,
        request: Request<'_>,
        maker: &mut Maker<'_>,
    ) -> Result<u32, String> {
        let method = match request.method {
            Method::Get if maker.head => Method::Head,
            method => method,
        };
        let key = (method.name(), request.target.to_owned(), request.contents.to_vec());
        if let Some(&target) = maker.made.get(&key) {
            return Ok(target);
        }
        let (expect, size) = match method {
            Method::Get | Method::Head => (maker.expect)(request.target, request.reply_bytes)?,
            _ => (Expect::Unknown, request.reply_bytes),
        };
        let class = size.map_or(CLASS_UNKNOWN, crate::workload::files::class_of);
        let mut bytes = Vec::new();
        let line = format!("{} {} HTTP/1.1\r\n", method.name(), request.target);
        bytes.extend_from_slice(line.as_bytes());
        bytes.extend_from_slice(maker.fields.as_bytes());
        if !request.contents.is_empty() {
            let length = format!("Content-Length: {}\r\n", request.contents.len());
            bytes.extend_from_slice(length.as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(request.contents);
        let target = Target { bytes: bytes.into(), method, size, class, slot: 0, expect };
        self.targets.push(target);
        let number = id(self.targets.len() - 1);
        maker.made.insert(key, number);
        Ok(number)
    }

    /// Adds a session.
    ///
    /// # Errors
    /// What is wrong with a request of it, in one sentence.
    pub(super) fn session(
        &mut self,
        session: &Session,
        client: u32,
        maker: &mut Maker<'_>,
    ) -> Result<(), String> {
        let first = id(self.steps.len());
        for burst in session.bursts() {
            let think = burst.think_us().map_or(THINK_DEFAULT, |us| {
                u32::try_from(us).unwrap_or(u32::MAX).min(THINK_DEFAULT - 1)
            });
            for (at, request) in burst.requests().enumerate() {
                let target = self.target(request, maker)?;
                let starts_burst = at == 0;
                self.steps.push(Step { target, starts_burst, think_us: think });
            }
        }
        let hints = session.hints;
        let line = hints.line_bits_per_s.unwrap_or(0);
        self.sessions.push(Part {
            first,
            end: id(self.steps.len()),
            client,
            line_bits_per_s: u32::try_from(line).unwrap_or(u32::MAX),
            at_us: hints.at_us,
        });
        Ok(())
    }

    /// Numbers the distinct sizes, and answers them in order; 0 stands for all that are not known
    /// or come after the first `most`.
    pub(super) fn number_sizes(&mut self, most: usize) -> Vec<u64> {
        let known = self.targets.iter().filter_map(|target| target.size);
        let mut sizes: Vec<u64> = known.chain([0]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes.truncate(most.max(1));
        for target in &mut self.targets {
            let at = target.size.and_then(|size| sizes.binary_search(&size).ok());
            target.slot = at.map_or(0, id);
        }
        sizes
    }
}
