//! Compression at first use: which form of a file is sent, and until when.
use crate::rig::{FakeFile, Response, Rig, get, get_with};
use regatta_http::pattern::Pattern;
use regatta_metrics::Counter;
use regatta_op::{File as _, FileId};
use regatta_origin::{Cache as _, Compressor, ContentRules, Forms, HeaderLine, Scratch, Site};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// A source whose forms a test makes.
#[derive(Debug, Default)]
struct Source {
    made: Mutex<HashMap<FileId, Forms>>,
    asked: Mutex<Vec<FileId>>,
}

impl Source {
    /// Makes the forms of all files that were asked for; returns their number.
    fn work(&self) -> usize {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let forms = || -> Forms { [None, Some((*b"zstd").into()), Some((*b"gzip").into())] };
        let count = asked.len();
        self.made.lock().unwrap().extend(asked.into_iter().map(|id| (id, forms())));
        count
    }
}

impl Compressor<FakeFile> for Source {
    fn start(&self) {}

    fn forms(&self, file: &FakeFile) -> Option<Forms> {
        let forms = self.made.lock().unwrap().get(&file.id()).cloned();
        if forms.is_none() {
            self.asked.lock().unwrap().push(file.id());
        }
        forms
    }
}

fn rig(content: ContentRules) -> (Rig, Arc<Source>) {
    let mut rig = Rig::new(Site { content, ..Site::default() });
    let source = Arc::new(Source::default());
    rig.scratch = Scratch::new(7).compressing(Some(source.clone()));
    (rig, source)
}

fn on() -> ContentRules {
    ContentRules { compress: true, ..ContentRules::default() }
}

const ACCEPT: &str = "Accept-Encoding: br, gzip, zstd\r\n";

fn coding(answer: &Response) -> String {
    assert_eq!(answer.field("vary").as_deref(), Some("Accept-Encoding"), "{}", answer.head);
    answer.field("content-encoding").unwrap_or_default()
}

#[test]
fn a_text_is_compressed_after_its_first_use() {
    let (rig, source) = rig(on());
    rig.put("a.html", &[b'a'; 3_000]);
    let ask = |fields: &str| rig.respond(&get_with("/a.html", fields));
    assert_eq!(coding(&ask(ACCEPT)), "");
    assert_eq!(source.work(), 1);
    assert_eq!(coding(&ask(ACCEPT)), "", "a hit asks for nothing");
    rig.pass(1_000);
    let first = ask(ACCEPT);
    assert_eq!((&*coding(&first), &*first.body), ("zstd", &b"zstd"[..]));
    let tag = first.field("etag").unwrap();
    assert!(tag.starts_with("W/\"") && tag.ends_with("-zstd\""), "{tag}");
    // From here on it is a hit in each form.
    let opens = rig.opens.get();
    assert_eq!(coding(&ask("Accept-Encoding: gzip\r\n")), "gzip");
    assert_eq!(ask(&format!("{ACCEPT}If-None-Match: {tag}\r\n")).status, 304);
    let plain = rig.respond(&get("/a.html"));
    assert_eq!((&*coding(&plain), plain.body.len()), ("", 3_000));
    assert_eq!(coding(&ask("Accept-Encoding: br\r\n")), "");
    // Ranges are of the file.
    let part = ask(&format!("{ACCEPT}Range: bytes=1-2\r\n"));
    assert_eq!((part.status, &*coding(&part), &*part.body), (206, "", &b"aa"[..]));
    assert_eq!(rig.opens.get(), opens);
    // The forms outlive a look at the disk, and the entry in the cache.
    rig.pass(1_000);
    assert_eq!(coding(&ask(ACCEPT)), "zstd");
    rig.pass(60_000);
    while rig.cache.entries() > 0 {
        rig.pass(1_000);
        let _ = rig.cache.sweep(rig.now().tick, &rig.cx().tally);
    }
    assert_eq!(coding(&ask(ACCEPT)), "zstd", "with the first response");
    assert_eq!(source.work(), 0);
    assert!(rig.count(Counter::CacheHits) >= 4);
    rig.cache.check_invariants();
}

#[test]
fn a_file_that_changed_is_not_sent_in_an_old_form() {
    let (rig, source) = rig(on());
    rig.put("a.html", &[b'a'; 3_000]);
    let ask = || rig.respond(&get_with("/a.html", ACCEPT));
    ask();
    source.work();
    rig.pass(1_000);
    assert_eq!(coding(&ask()), "zstd");
    rig.put("a.html", &[b'b'; 3_000]);
    rig.pass(1_000);
    let new = ask();
    assert_eq!((&*coding(&new), new.body[0]), ("", b'b'));
    // One that has just changed may change again without showing it.
    rig.put_at("a.html", &[b'c'; 3_000], rig.now().unix.cast_signed());
    source.work();
    rig.pass(1_000);
    assert_eq!((&*coding(&ask()), source.work()), ("", 0));
    rig.pass(3_000);
    ask();
    assert_eq!(source.work(), 1);
    rig.pass(1_000);
    assert_eq!(coding(&ask()), "zstd");
}

#[test]
fn what_is_not_compressed_does_not_vary() {
    let (mut rig, source) = rig(on());
    let lines = vec![HeaderLine::parse("Cache-Control: no-transform").unwrap()];
    let pattern = Pattern::parse("/fixed.html").unwrap();
    rig.site.rules.add_headers(&pattern, lines, "").unwrap();
    rig.put("fixed.html", &[b'a'; 3_000]);
    rig.put("short.html", &[b'a'; 1_000]);
    rig.put("a.png", &[b'a'; 3_000]);
    for path in ["/fixed.html", "/short.html", "/a.png"] {
        let answer = rig.respond(&get_with(path, ACCEPT));
        assert_eq!((answer.field("vary"), answer.field("content-encoding")), (None, None));
    }
    // Siblings on disk are better.
    let answer = rig.respond(&get_with("/app.js", "Accept-Encoding: zstd\r\n"));
    assert_eq!(coding(&answer), "");
    assert_eq!(source.work(), 0);
    let (rig, source) = self::rig(ContentRules::default());
    rig.put("a.html", &[b'a'; 3_000]);
    assert_eq!(rig.respond(&get_with("/a.html", ACCEPT)).field("vary"), None);
    assert_eq!(source.work(), 0);
}
