//! Conditional requests: every combination against a model of RFC 9110 §13.2.2.

use crate::prelude::*;

const BEFORE: &str = "Mon, 13 Nov 2023 22:13:20 GMT";
const AFTER: &str = "Wed, 15 Nov 2023 22:13:20 GMT";
const NONSENSE: &str = "yesterday";

/// Value of a field, and whether its condition is true of the file.
type Row = (&'static str, bool);

/// If-Match: strong comparison (§13.1.1). `T` is the file's tag.
const IF_MATCH: &[Row] =
    &[("T", true), ("*", true), ("\"a\", T, \"b\"", true), ("\"other\"", false), ("W/T", false)];
/// If-None-Match: weak comparison (§13.1.2).
const IF_NONE_MATCH: &[Row] = &[
    ("T", false),
    ("*", false),
    ("W/T", false),
    ("\"a\",W/\"b\" ,T", false),
    ("\"other\"", true),
    ("W/\"other\"", true),
];
/// If-Unmodified-Since (§13.1.4); a value that is no date counts as absent.
const IF_UNMODIFIED_SINCE: &[Row] =
    &[(BEFORE, false), (MODIFIED, true), (AFTER, true), (NONSENSE, true)];
/// If-Modified-Since (§13.1.3), which matches only the very date.
const IF_MODIFIED_SINCE: &[Row] =
    &[(BEFORE, true), (MODIFIED, false), (AFTER, true), (NONSENSE, true)];

/// Each row, and the absence of the field.
fn rows_and_none(rows: &'static [Row]) -> impl Iterator<Item = Option<Row>> + Clone {
    std::iter::once(None).chain(rows.iter().copied().map(Some))
}

/// Status that §13.2.2 requires for GET and HEAD.
fn model(m: Option<Row>, us: Option<Row>, nm: Option<Row>, ms: Option<Row>) -> u16 {
    let first = m.or(us);
    if first.is_some_and(|(_, holds)| !holds) {
        return 412;
    }
    let second = nm.or(ms);
    if second.is_some_and(|(_, holds)| !holds) { 304 } else { 200 }
}

pub(crate) fn every_combination(variant: &Variant) {
    let mut client = serve(variant).client();
    let tag = client.get("/small.txt").expect(200).must("ETag").to_owned();
    let mut batch: Vec<(Vec<u8>, &str, u16)> = Vec::new();
    for method in ["GET", "HEAD"] {
        for m in rows_and_none(IF_MATCH) {
            for us in rows_and_none(IF_UNMODIFIED_SINCE) {
                for nm in rows_and_none(IF_NONE_MATCH) {
                    for ms in rows_and_none(IF_MODIFIED_SINCE) {
                        let text = conditional(method, &tag, [m, us, nm, ms]);
                        batch.push((text, method, model(m, us, nm, ms)));
                    }
                }
            }
        }
    }
    for part in batch.chunks(25) {
        check(&mut client, part);
    }
}

fn conditional(method: &str, tag: &str, rows: [Option<Row>; 4]) -> Vec<u8> {
    let names = ["If-Match", "If-Unmodified-Since", "If-None-Match", "If-Modified-Since"];
    let mut fields = Vec::new();
    for (name, row) in names.into_iter().zip(rows) {
        if let Some((value, _)) = row {
            // A date has a T too, but a list of tags has a quote, a star or nothing else.
            let dated = name.ends_with("Since");
            fields.push((name, if dated { value.to_owned() } else { value.replace('T', tag) }));
        }
    }
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    request(method, "/small.txt", &fields)
}

fn check(client: &mut Client, part: &[(Vec<u8>, &str, u16)]) {
    client.send(part.iter().flat_map(|(text, ..)| text.clone()).collect::<Vec<u8>>());
    for (text, method, status) in part {
        let answer = client.answer(method);
        let text = text.escape_ascii();
        assert_eq!(answer.status, *status, "to {text}: {answer:?}");
        assert!(!answer.closes(), "to {text}: {answer:?}");
        match status {
            200 if *method == "GET" => assert_eq!(answer.body, b"small\n", "to {text}"),
            304 => assert!(answer.field("ETag").is_some(), "to {text}: {answer:?}"),
            _ => {}
        }
    }
}

/// RFC 9110 §15.4.5: the fields that a 200 would have had and that matter to a cache.
pub(crate) fn not_modified_has_the_fields_of_ok(variant: &Variant) {
    let mut client = serve(variant).client();
    for (target, fields) in
        [("/small.txt", vec![]), ("/page.html", vec![("Accept-Encoding", "br")])]
    {
        let ok = client.ask("GET", target, &fields).expect(200);
        let conditional = [fields, vec![("If-None-Match", ok.must("ETag"))]].concat();
        let same = client.ask("GET", target, &conditional).expect(304);
        for name in ["ETag", "Cache-Control", "Vary", "Content-Location", "Expires"] {
            assert_eq!(same.field(name), ok.field(name), "{target} {name}");
        }
        if let Some(len) = same.field("Content-Length") {
            assert_eq!(len, ok.must("Content-Length"));
        }
    }
}

pub(crate) fn tags_in_several_lines(variant: &Variant) {
    let mut client = serve(variant).client();
    let tag = client.get("/small.txt").expect(200).must("ETag").to_owned();
    let two = [("If-None-Match", "\"a\""), ("If-None-Match", tag.as_str())];
    client.ask("GET", "/small.txt", &two).expect(304);
    let two = [("If-Match", "\"a\""), ("If-Match", tag.as_str())];
    client.ask("GET", "/small.txt", &two).expect(200);
}

pub(crate) fn odd_lists_of_tags(variant: &Variant) {
    let mut client = serve(variant).client();
    let tag = client.get("/small.txt").expect(200).must("ETag").to_owned();
    // `T` is the tag of the file.
    let same = "\"a,b\", T|, ,T,|T\t,\"x\"|\"x\",T";
    let others = "\"a\\\", b\"|unquoted|\"|W/|";
    for (values, status) in [(same, 304), (others, 200)] {
        for value in values.split('|').map(|value| value.replace('T', &tag)) {
            let answer = client.ask("GET", "/small.txt", &[("If-None-Match", &value)]);
            assert_eq!(answer.status, status, "{value}: {answer:?}");
        }
    }
}

/// RFC 9110 §5.6.7: all three forms of a date are read.
pub(crate) fn every_form_of_date(variant: &Variant) {
    let mut client = serve(variant).client();
    let same = "Tue, 14 Nov 2023 22:13:20 GMT|Tuesday, 14-Nov-23 22:13:20 GMT|\
                Tue Nov 14 22:13:20 2023";
    let others = "Tue, 14 Nov 2023 22:13:19 GMT|Tuesday, 14-Nov-23 22:13:19 GMT|\
                  Tue Nov 14 22:13:19 2023|Tue, 14 Nov 2023 22:13:20|\
                  Tue, 14 Nov 2023 25:13:20 GMT|Tue, 31 Feb 2024 22:13:20 GMT|1700000000|";
    for (dates, status) in [(same, 304), (others, 200)] {
        for date in dates.split('|') {
            let answer = client.ask("GET", "/small.txt", &[("If-Modified-Since", date)]);
            assert_eq!(answer.status, status, "{date}: {answer:?}");
        }
    }
}

/// §13.2.1: conditions count only where the answer would otherwise be a success.
pub(crate) fn no_conditions_on_errors(variant: &Variant) {
    let mut client = serve(variant).client();
    for field in [
        ("If-None-Match", "*"),
        ("If-Match", "*"),
        ("If-Match", "\"x\""),
        ("If-Modified-Since", AFTER),
        ("If-Unmodified-Since", BEFORE),
    ] {
        client.ask("GET", "/missing.txt", &[field]).expect(404);
        client.ask("DELETE", "/small.txt", &[field, ("Content-Length", "0")]).expect(405);
    }
}

/// §14.2 and §13.2.2 step 5: conditions come before ranges.
pub(crate) fn conditions_come_before_ranges(variant: &Variant) {
    let mut client = serve(variant).client();
    let tag = client.get("/small.txt").expect(200).must("ETag").to_owned();
    let range = ("Range", "bytes=0-1");
    client.ask("GET", "/small.txt", &[range, ("If-None-Match", &tag)]).expect(304);
    client.ask("GET", "/small.txt", &[range, ("If-Modified-Since", MODIFIED)]).expect(304);
    client.ask("GET", "/small.txt", &[range, ("If-Match", "\"x\"")]).expect(412);
    client.ask("GET", "/small.txt", &[range, ("If-Unmodified-Since", BEFORE)]).expect(412);
    client.ask("GET", "/small.txt", &[range, ("If-Match", &tag)]).expect(206);
    let unsatisfiable = ("Range", "bytes=100-");
    client.ask("GET", "/small.txt", &[unsatisfiable, ("If-None-Match", &tag)]).expect(304);
    client.ask("GET", "/small.txt", &[unsatisfiable, ("If-Match", "\"x\"")]).expect(412);
}
