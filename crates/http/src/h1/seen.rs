//! Field sections received before, byte for byte, and the meaning of their lines.
use super::{
    Expectation, HeadFault, HeadLimits, RequestBody, RequestHead, Version,
    parse::{line_into, parse_into},
};
use crate::{FieldLines, Fields, conditional::RequestConditions};
use alloc::vec::Vec;
use memchr::memchr;

/// Places for field sections. Each section has one, which it shares with others.
pub const PLACES: usize = 32;
/// The longest field section that is kept, bytes, with its blank line. Browsers send 300 to 700.
pub const SECTION_BYTES_MAX: usize = 1024;

/// Heads looked up without success in a row, after which only one in [`SELDOM`] is looked up.
const PATIENCE: u32 = 64;
/// Interval at which heads are looked up while nothing repeats: one in this many.
const SELDOM: u32 = 8;

/// Fields that identify a client: sections with one of them are never kept.
const SECRETS: [&str; 3] = ["Cookie", "Authorization", "Proxy-Authorization"];

/// Field sections received before, and the meaning of their lines. For one worker.
///
/// From request to request a client changes the request line and repeats its field lines. A section
/// that is byte for byte the same as a kept one is not parsed again: only the request line is. The
/// result is that of [`parse_into`] on the whole head.
///
/// A section is kept if it is all that follows the request line of an HTTP/1.1 request and has at
/// most [`SECTION_BYTES_MAX`] bytes. It must not have fields on content, conditions, ranges,
/// expectations or the client's identity. It is kept when it comes to its place twice running, so
/// that sections that never repeat displace none that do.
#[derive(Clone, Debug)]
pub struct Seen {
    places: Vec<KeptSection>,
    /// The place of the section that was recalled last.
    recalled: usize,
    /// Heads since then.
    misses: u32,
}

/// Room for a field section.
#[derive(Clone, Debug, Default)]
struct KeptSection {
    /// The section with its blank line; empty if there is none.
    section: Vec<u8>,
    facts: Facts,
    /// The mark of the section that came last without being kept here.
    last: u64,
    /// The mark of the last section that was considered for keeping.
    judged: u64,
}

/// Meaning of the lines of a section.
#[derive(Clone, Copy, Debug, Default)]
struct Facts {
    /// Number of lines.
    lines: usize,
    host: Part,
    referer: Part,
    user_agent: Part,
    accept_encoding: Part,
    persistent: bool,
}

impl Default for Seen {
    fn default() -> Self {
        Self::new()
    }
}

impl Seen {
    /// Nothing has been seen.
    #[must_use]
    pub fn new() -> Self {
        Self { places: alloc::vec![KeptSection::default(); PLACES], recalled: 0, misses: 0 }
    }

    /// [`parse_into`], quicker if the field section has been seen: most of all, last.
    #[inline]
    pub fn parse_into<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &HeadLimits,
        head: &mut RequestHead<'a>,
    ) -> Result<bool, HeadFault> {
        if let Some(place) = self.places.get(self.recalled)
            && place.facts.lines > 0
            && let Some(line) = bytes.strip_suffix(&*place.section)
            && place.facts.recall(line, &bytes[line.len()..], limits, head)
        {
            self.misses = 0;
            return Ok(true);
        }
        self.misses = self.misses.wrapping_add(1);
        if self.misses > PATIENCE && !self.misses.is_multiple_of(SELDOM) {
            return parse_into(bytes, limits, head);
        }
        self.parse_or_recall(bytes, limits, head)
    }

    /// [`Self::parse_into`] for a section other than the last one recalled.
    #[inline(never)]
    fn parse_or_recall<'a>(
        &mut self,
        bytes: &'a [u8],
        limits: &HeadLimits,
        head: &mut RequestHead<'a>,
    ) -> Result<bool, HeadFault> {
        let Some((line, section)) = split(bytes) else {
            return parse_into(bytes, limits, head);
        };
        let mark = mark(section);
        let at = place_of(mark);
        let Some(place) = self.places.get_mut(at) else {
            return parse_into(bytes, limits, head);
        };
        if place.section == section && place.facts.recall(line, section, limits, head) {
            (self.recalled, self.misses) = (at, 0);
            return Ok(true);
        }
        let complete = parse_into(bytes, limits, head)?;
        if complete && head.head_bytes == bytes.len() {
            place.learn(mark, section, head);
        }
        Ok(complete)
    }
}

/// The request line with its line end, and the bytes behind it, if those may be a kept section: the
/// end of a head is the end of `bytes`.
#[inline]
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    if !bytes.ends_with(b"\r\n\r\n") || bytes.starts_with(b"\r") {
        return None;
    }
    let (line, section) = bytes.split_at(memchr(b'\n', bytes)? + 1);
    (line.ends_with(b"\r\n") && section.len() <= SECTION_BYTES_MAX).then_some((line, section))
}

/// A hash of a section: equal sections have the same, and different ones mostly another.
#[inline]
fn mark(section: &[u8]) -> u64 {
    let word = |at: usize| {
        let word = section.get(at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |word| u64::from_le_bytes(*word))
    };
    let len = section.len();
    let words = word(len / 4) ^ word(len / 2).rotate_left(21) ^ word(len - len / 4).rotate_left(42);
    (words ^ len as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The place of a section with this mark: the high bits of a product depend on all of it.
#[inline]
fn place_of(mark: u64) -> usize {
    usize::from(mark.to_be_bytes()[0]) % PLACES
}

impl KeptSection {
    /// Stores the meaning of `section`, which `head` has.
    #[inline(never)]
    fn learn(&mut self, mark: u64, section: &[u8], head: &RequestHead<'_>) {
        if self.last != mark {
            self.last = mark;
            return;
        }
        if self.judged == mark {
            return;
        }
        self.judged = mark;
        if let Some(facts) = Facts::from_head(section, head) {
            self.section.clear();
            self.section.reserve_exact(section.len());
            self.section.extend_from_slice(section);
            self.facts = facts;
        }
    }
}

impl Facts {
    /// Facts to keep of `section`, taken from `head`; `None` if it must not be kept.
    fn from_head(section: &[u8], head: &RequestHead<'_>) -> Option<Self> {
        let plain = head.version == Version::Http11
            && head.body == RequestBody::None
            && head.expectation == Expectation::None
            && head.conditions == RequestConditions::none()
            && head.range.is_none()
            && (head.accept_encoding.is_absent() || head.accept_encoding.single().is_some());
        let secret = |name: &str| SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret));
        if !plain || head.host.is_none() || head.fields.iter().any(|field| secret(field.name)) {
            return None;
        }
        Some(Self {
            lines: head.fields.iter().count(),
            host: Part::locate(section, head.host)?,
            referer: Part::locate(section, head.referer)?,
            user_agent: Part::locate(section, head.user_agent)?,
            accept_encoding: Part::locate(section, head.accept_encoding.single())?,
            persistent: head.persistent,
        })
    }

    /// Reads the request line, and takes the facts of `section` from its first parse. False if the
    /// whole head must be parsed: `line` may be anything that comes before `section`.
    #[inline(always)]
    fn recall<'a>(
        &self,
        line: &'a [u8],
        section: &'a [u8],
        limits: &HeadLimits,
        head: &mut RequestHead<'a>,
    ) -> bool {
        let head_bytes = line.len() + section.len();
        if head_bytes > limits.head_bytes_max
            || self.lines > limits.fields_max
            || !line_into(line, limits, head)
            || head.version != Version::Http11
        {
            return false;
        }
        head.host = head.host.or(self.host.get(section));
        head.persistent = self.persistent;
        head.referer = self.referer.get(section);
        head.user_agent = self.user_agent.get(section);
        if let Some(value) = self.accept_encoding.get(section) {
            head.accept_encoding = FieldLines::one(value);
        }
        head.fields = Fields::new(&section[..section.len() - b"\r\n".len()]);
        head.head_bytes = head_bytes;
        true
    }
}

/// Place of a value in a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Beyond any section if there is no value.
    start: u16,
    end: u16,
}

impl Default for Part {
    fn default() -> Self {
        Self { start: u16::MAX, end: u16::MAX }
    }
}

impl Part {
    /// The part of `section` that is `value`; `None` if `value` lies elsewhere.
    fn locate(section: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let Some(value) = value else { return Some(Self::default()) };
        let start = value.as_ptr().addr().checked_sub(section.as_ptr().addr())?;
        let end = start.checked_add(value.len()).filter(|end| *end <= section.len())?;
        Some(Self { start: u16::try_from(start).ok()?, end: u16::try_from(end).ok()? })
    }

    #[inline]
    fn get(self, section: &[u8]) -> Option<&[u8]> {
        section.get(usize::from(self.start)..usize::from(self.end))
    }
}

const _: () = assert!(SECTION_BYTES_MAX < u16::MAX as usize && PLACES <= 256);

#[cfg(test)]
mod tests;
