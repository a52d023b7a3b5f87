//! The static table (RFC 7541, Appendix A).
use crate::h2::known::FieldKind;
use core::ops::Range;

/// Name and value of each entry, by index; index 0 is none.
pub(super) static FIELDS: [(&str, &str); 62] = ENTRIES;

const ENTRIES: [(&str, &str); 62] = [
    ("", ""),
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// Index of the first entry with a name that has no colon: from there on, names are in the order of
/// their first letters.
const LETTERS_AT: usize = 15;

/// Index of the first entry whose name starts with each letter or a later one; the last is the end.
static STARTS: [usize; 27] = {
    let mut starts = [ENTRIES.len(); 27];
    let mut letter = b'a';
    while letter <= b'z' {
        let mut index = LETTERS_AT;
        while index < ENTRIES.len() && ENTRIES[index].0.as_bytes()[0] < letter {
            index += 1;
        }
        starts[(letter - b'a') as usize] = index;
        letter += 1;
    }
    starts
};

/// Indexes of all entries whose names have the same first letter as this one, in any case. They are
/// nine at most, and fourteen for a colon.
#[inline]
pub(super) fn alike(name: &str) -> Range<usize> {
    match name.as_bytes().first().map(u8::to_ascii_lowercase) {
        Some(b':') => 1..LETTERS_AT,
        Some(letter @ b'a'..=b'z') => {
            let at = usize::from(letter - b'a');
            STARTS[at]..STARTS[at + 1]
        }
        _ => 0..0,
    }
}

/// Facts about a static entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StaticFacts {
    pub(super) kind: FieldKind,
    pub(super) is_valid: bool,
}

/// Facts about each entry, by index.
pub(super) static FACTS: [StaticFacts; ENTRIES.len()] = {
    let mut facts = [StaticFacts { kind: FieldKind::Other, is_valid: true }; ENTRIES.len()];
    let mut index = 1;
    while index < ENTRIES.len() {
        if let Some(kind) = FieldKind::from_known(ENTRIES[index].0.as_bytes()) {
            // Nearly all without a value may be without.
            let is_valid = !matches!(kind, FieldKind::Authority | FieldKind::Te);
            facts[index] = StaticFacts { kind, is_valid };
        }
        index += 1;
    }
    facts
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_those_of_names_and_values() {
        for ((name, value), facts) in FIELDS.iter().zip(&FACTS).skip(1) {
            let kind = FieldKind::from_name(name.as_bytes());
            let is_valid = kind.is_valid(value.as_bytes());
            assert_eq!(*facts, StaticFacts { kind, is_valid }, "{name}");
        }
    }

    #[test]
    fn entries_are_found_by_their_first_letters() {
        for (index, (name, _)) in FIELDS.iter().enumerate().skip(1) {
            for name in [name.to_ascii_uppercase(), (*name).into()] {
                let alike = alike(&name);
                assert!(alike.contains(&index), "{name}");
                assert!(FIELDS[alike].iter().all(|(other, _)| other[..1] == FIELDS[index].0[..1]));
            }
        }
        for name in ["", "b", "x-a", "z", "-", "0", "{", "\u{e9}"] {
            assert!(alike(name).is_empty(), "{name}");
        }
    }
}
