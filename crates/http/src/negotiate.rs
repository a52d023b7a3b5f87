//! Choosing a content coding (RFC 9110 §12.5.3), and weighing media types (§12.5.1).
use crate::{FieldLines, field::members};
use memchr::memchr2;

/// Form of a representation to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormChoice {
    /// The coding at this index of the list of available ones.
    Coding(usize),
    /// The representation unchanged, also if the request refuses all codings and `identity` too. A
    /// server may then answer 406 or disregard the field (RFC 9110 §12.4.1, §15.5.7). The
    /// representation serves a client better than a refusal. nginx and h2o do the same.
    Identity,
}

/// The most codings that can be chosen from.
pub const AVAILABLE_MAX: usize = 8;

/// Chooses by the value of `Accept-Encoding`. `available` names the codings, lower case, best
/// first: this order decides between equal weights. Codings beyond [`AVAILABLE_MAX`] are ignored.
///
/// A coding that the field does not name, or any without the field, is not sent. A member that is
/// malformed is ignored. `x-gzip` is `gzip` (RFC 9110 §8.4.1.3).
#[must_use]
pub fn choose(accept_encoding: FieldLines<'_>, available: &[&str]) -> FormChoice {
    let available = &available[..available.len().min(AVAILABLE_MAX)];
    if let Some(list) = accept_encoding.single()
        && memchr2(b';', b'*', list).is_none()
    {
        return choose_unweighted(list, available);
    }
    choose_weighted(accept_encoding, available)
}

/// [`choose`] by names alone, as browsers ask: all names have the same weight, and none is refused.
fn choose_unweighted(list: &[u8], available: &[&str]) -> FormChoice {
    if available.is_empty() {
        return FormChoice::Identity;
    }
    let named = |coding| available.iter().position(|name| is_coding(coding, name));
    let first = members(list).filter_map(named).min();
    first.map_or(FormChoice::Identity, FormChoice::Coding)
}

fn choose_weighted(accept_encoding: FieldLines<'_>, available: &[&str]) -> FormChoice {
    let mut weights = [None; AVAILABLE_MAX];
    let (mut any, mut identity) = (None, None);
    for member in accept_encoding.values().flat_map(members) {
        let Some((coding, weight)) = weighted(member) else {
            continue;
        };
        let slot = if coding == b"*" {
            &mut any
        } else if coding.eq_ignore_ascii_case(b"identity") {
            &mut identity
        } else if let Some(at) = available.iter().position(|name| is_coding(coding, name)) {
            &mut weights[at]
        } else {
            continue;
        };
        *slot = (*slot).max(Some(weight));
    }
    let (mut best, mut best_weight) = (None, 0);
    for (at, weight) in weights[..available.len()].iter().enumerate() {
        let weight = weight.or(any).unwrap_or(0);
        if weight > best_weight {
            (best, best_weight) = (Some(at), weight);
        }
    }
    let identity = identity.or(any);
    match best {
        Some(at) if best_weight >= identity.unwrap_or(0) => FormChoice::Coding(at),
        _ => FormChoice::Identity,
    }
}

#[inline]
fn is_coding(text: &[u8], name: &str) -> bool {
    match text.len() {
        6 if name == "gzip" => text.eq_ignore_ascii_case(b"x-gzip"),
        len => len == name.len() && text.eq_ignore_ascii_case(name.as_bytes()),
    }
}

/// A member's coding and its weight in thousandths (RFC 9110 §12.4.2).
fn weighted(member: &[u8]) -> Option<(&[u8], u16)> {
    let Some(at) = member.iter().position(|&byte| byte == b';') else {
        return Some((member, 1000));
    };
    match member[at + 1..].trim_ascii() {
        [b'q' | b'Q', b'=', value @ ..] => Some((member[..at].trim_ascii(), weight(value)?)),
        _ => None,
    }
}

/// Weight of a media type in the lines of `Accept`, in thousandths (RFC 9110 §12.5.1): that of the
/// most specific member that matches; 0 if none does. A member that is malformed is ignored.
#[must_use]
pub fn media_weight<'a>(lines: impl Iterator<Item = &'a [u8]>, media_type: &str) -> u16 {
    let kind = media_type.split('/').next().unwrap_or_default().as_bytes();
    let mut best = (0, 0);
    for member in lines.flat_map(members) {
        let mut parts = member.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let range = parts.next().unwrap_or_default();
        let is_of_kind = |of: &[u8]| of.eq_ignore_ascii_case(kind);
        let rank = match range {
            _ if range.eq_ignore_ascii_case(media_type.as_bytes()) => 3,
            b"*/*" => 1,
            _ if range.strip_suffix(b"/*").is_some_and(is_of_kind) => 2,
            _ => continue,
        };
        let weight = parts.find_map(|part| match part {
            [b'q' | b'Q', b'=', value @ ..] => Some(weight(value)),
            _ => None,
        });
        if let Some(weight) = weight.unwrap_or(Some(1000)) {
            best = best.max((rank, weight));
        }
    }
    best.1
}

/// `0` or `1` with up to three decimals, in thousandths.
fn weight(text: &[u8]) -> Option<u16> {
    let (whole, decimals) = match text {
        [whole @ (b'0' | b'1')] => (whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
        _ => return None,
    };
    let mut value = u16::from(whole - b'0');
    for at in 0..3 {
        let digit = *decimals.get(at).unwrap_or(&b'0');
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value * 10 + u16::from(digit - b'0');
    }
    (value <= 1000).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVAILABLE: [&str; 3] = ["br", "zstd", "gzip"];

    #[test]
    fn the_most_specific_range_weighs_a_media_type() {
        for (accept, json, html) in [
            ("", 0, 0),
            ("*/*", 1000, 1000),
            ("application/json", 1000, 0),
            ("Application/JSON;q=0.5, text/html", 500, 1000),
            ("text/*;q=0.3, */*;q=0.1, text/html;level=1;q=0.7", 100, 700),
            ("application/*;q=0.9,application/json;q=0", 0, 0),
            ("application/json;q=2, text/html;q=x", 0, 0),
            ("application/jsonx, text", 0, 0),
        ] {
            let weigh = |of| media_weight([accept.as_bytes()].into_iter(), of);
            assert_eq!((weigh("application/json"), weigh("text/html")), (json, html), "{accept}");
        }
        let lines = [&b"text/html;q=0.2"[..], b"application/json;q=0.4"];
        assert_eq!(media_weight(lines.into_iter(), "application/json"), 400);
    }

    /// `expected` is the coding, or `identity`.
    fn check(value: &str, available: &[&str], expected: &str) {
        let found = match choose(FieldLines::one(value.as_bytes()), available) {
            FormChoice::Coding(at) => available[at],
            FormChoice::Identity => "identity",
        };
        assert_eq!(found, expected, "{value:?} {available:?}");
    }

    #[test]
    fn the_heaviest_coding_wins_and_then_the_first() {
        for (value, expected) in [
            ("", "identity"),
            ("gzip", "gzip"),
            ("GZip", "gzip"),
            ("x-gzip", "gzip"),
            ("gzip, deflate, br, zstd", "br"),
            ("gzip, deflate", "gzip"),
            ("deflate", "identity"),
            ("gzip;q=1.0, br;q=0.9", "gzip"),
            ("gzip;q=0.5, br;q=0.5", "br"),
            ("gzip ; q=0.001", "gzip"),
            ("gzip\t;\tQ=0.5", "gzip"),
            ("br;q=0", "identity"),
            ("br;q=0.000, gzip", "gzip"),
            ("*", "br"),
            ("*;q=0.5", "br"),
            ("*, br;q=0", "zstd"),
            ("gzip, *;q=0.1", "gzip"),
            ("*;q=0, gzip", "gzip"),
            ("gzip;q=0.4, gzip;q=0.6, br;q=0.5", "gzip"),
        ] {
            check(value, &AVAILABLE, expected);
        }
    }

    #[test]
    fn identity_is_acceptable_unless_it_is_excluded() {
        for (value, expected) in [
            ("identity", "identity"),
            ("identity, gzip;q=0.5", "identity"),
            ("identity;q=0.5, gzip", "gzip"),
            ("identity;q=0.5, gzip;q=0.5", "gzip"),
            ("identity;q=0", "identity"),
            ("*;q=0", "identity"),
            ("*;q=0, identity", "identity"),
            ("*;q=0, identity;q=0.001", "identity"),
            ("identity;q=0, br", "br"),
            ("identity;q=0, *", "br"),
            ("identity;q=0, deflate", "identity"),
            ("gzip;q=0", "identity"),
            ("*, gzip;q=0, br;q=0, zstd;q=0", "identity"),
        ] {
            check(value, &AVAILABLE, expected);
        }
        check("gzip, br", &[], "identity");
        check("identity;q=0", &[], "identity");
        check("gzip, br", &["gzip"], "gzip");
        assert_eq!(choose(FieldLines::ABSENT, &AVAILABLE), FormChoice::Identity);
    }

    #[test]
    fn malformed_members_are_ignored() {
        let short = [
            "br;q=", "br;q=2", "br;q=.5", "br;q=-1", "br;q=a", "br;q", "br;", "br q=1", "br;q = 1",
            "\"br\"", "br;q=1.", "b r", "br;q=0,5", ";q=1", "brotli", "b", "br\u{fc}",
        ];
        let long = ["br;q=1.001", "br;q=0.0001", "br;level=1", "br;q=0.5;a=b"];
        for value in short.into_iter().chain(long) {
            // RFC 9110 §12.4.2 allows a point without digits.
            let expected = if value == "br;q=1." { "br" } else { "gzip" };
            check(&alloc::format!("{value}, gzip;q=0.1"), &AVAILABLE, expected);
        }
    }

    #[test]
    fn only_so_many_codings_are_looked_at() {
        let many = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
        check("h", &many, "h");
        check("i", &many, "identity");
    }
}
