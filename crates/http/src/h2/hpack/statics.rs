//! The static table (RFC 7541, Appendix A).
use crate::h2::known::FieldKind;

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
}
