//! Values of single fields: ranges, conditions, preferences, dates, entity tags.
use regatta_http::{
    FieldLines, Method,
    conditional::{ConditionVerdict, RequestConditions, Validators, evaluate, range_applies},
    date,
    etag::{Comparison, EntityTag, lists},
    negotiate::{FormChoice, choose},
    range::{Selection, select},
};

/// Current time, for dates with two digits of year.
const NOW: u64 = 1_700_000_000;

/// `Range`: the selection is within the representation, and no byte is sent twice.
pub fn range(bytes: &[u8]) {
    let (numbers, value) = bytes.split_at(bytes.len().min(2));
    let len = match numbers {
        [0, small] => u64::from(*small),
        [large, small] => u64::from(*large) << (small & 63),
        _ => 0,
    };
    for (len, ranges_max) in [(len, 16), (len, 2), (len, 0), (100, 5), (u64::MAX, 16)] {
        match select(value, len, ranges_max) {
            Selection::Whole | Selection::Unsatisfiable => {}
            Selection::One(range) => {
                assert!(ranges_max > 0 && range.first <= range.last && range.last < len);
                assert_eq!(range.len() - 1, range.last - range.first);
            }
            Selection::Many(ranges) => {
                assert!(ranges.len() > 1 && ranges.len() <= ranges_max);
                let mut sorted: Vec<_> = ranges.iter().map(|r| (r.first, r.last)).collect();
                sorted.sort_unstable();
                assert!(sorted.iter().all(|(first, last)| first <= last && *last < len));
                assert!(sorted.windows(2).all(|two| two[0].1 + 1 < two[1].0), "{sorted:?}");
                let total: u128 = ranges.iter().map(|range| u128::from(range.len())).sum();
                assert!(total <= u128::from(len));
            }
        }
    }
}

/// The conditional fields: each has its meaning, whatever the others contain.
pub fn conditionals(bytes: &[u8]) {
    let mut lines = bytes.split(|&byte| byte == b'\n');
    let mut next = || lines.next().filter(|line| !line.is_empty());
    let list = |line: Option<_>| line.map_or(FieldLines::ABSENT, FieldLines::one);
    let conditions = RequestConditions {
        if_none_match: list(next()),
        if_match: list(next()),
        if_modified_since: next(),
        if_unmodified_since: next(),
        if_range: next(),
    };
    let ours = EntityTag::strong(b"ours");
    let validators = Validators { etag: Some(ours), modified_secs: Some(784_111_777) };
    for method in [Method::Get, Method::Head, Method::Put] {
        let verdict = evaluate(method, &conditions, &validators, NOW);
        let safe = method.is_get_or_head();
        assert!(safe || verdict != ConditionVerdict::NotModified);
        if conditions.is_empty() {
            assert_eq!(verdict, ConditionVerdict::Proceed);
        }
        // A list with the current tag matches, whatever else it has.
        let text = [
            b"\"a,b\", W/\"\", \"ours\",",
            conditions.if_none_match.values().next().unwrap_or(b""),
        ]
        .concat();
        let with = |if_none_match| RequestConditions { if_none_match, ..conditions };
        let matched = evaluate(method, &with(FieldLines::one(&text)), &validators, NOW);
        let expected =
            if safe { ConditionVerdict::NotModified } else { ConditionVerdict::PreconditionFailed };
        assert!(matched == expected || matched == ConditionVerdict::PreconditionFailed);
        let without = with(FieldLines::ABSENT);
        if verdict == ConditionVerdict::PreconditionFailed && safe {
            assert_eq!(
                evaluate(method, &without, &validators, NOW),
                verdict,
                "step 1 or 2 said so"
            );
        }
    }
    let strong = lists(conditions.if_match, Some(&ours), Comparison::Strong);
    assert!(!strong || lists(conditions.if_match, Some(&ours), Comparison::Weak));
    if range_applies(conditions.if_range, &validators, NOW)
        && let Some(value) = conditions.if_range
    {
        let tag = EntityTag::parse(value).is_some_and(|tag| tag.matches_strongly(&ours));
        assert!(tag || date::parse(value, NOW) == Some(784_111_777));
    }
}

/// `Accept-Encoding`, dates and entity tags: parsed values render as they were written.
pub fn negotiate(bytes: &[u8]) {
    let available = ["br", "zstd", "gzip"];
    let both = FieldLines::one(bytes);
    for count in 0..=available.len() {
        match choose(both, &available[..count]) {
            FormChoice::Coding(at) => {
                assert!(at < count);
                let text = bytes.to_ascii_lowercase();
                let name = available[at].as_bytes();
                let named = text.windows(name.len()).any(|window| window == name);
                assert!(named || bytes.contains(&b'*'), "nobody asked for it");
            }
            FormChoice::Identity => {}
        }
    }
    assert_eq!(choose(FieldLines::ABSENT, &available), FormChoice::Identity);
    if let Some(secs) = date::parse(bytes, NOW) {
        let text = date::format(secs);
        assert_eq!(date::parse(&text, NOW), Some(secs), "{}", text.escape_ascii());
    }
    let number = bytes.iter().take(8).fold(0, |number, &byte| number << 8 | i64::from(byte));
    let text = date::format(number);
    let back = date::parse(&text, NOW).expect("what is formatted is a date");
    assert_eq!(date::format(back), text);
    if let Some(tag) = EntityTag::parse(bytes) {
        let prefix = if tag.weak { "W/" } else { "" };
        assert_eq!([prefix.as_bytes(), b"\"", tag.opaque, b"\""].concat(), bytes);
        assert!(tag.matches_weakly(&tag) && tag.matches_strongly(&tag) != tag.weak);
    }
}
