//! Compression at first use, and tags of content: which form and which tag is sent, and from when
//! on.
use crate::rig::{FakeFile, Response, Rig, get, get_with};
use regatta_http::pattern::Pattern;
use regatta_metrics::Counter;
use regatta_op::{File as _, FileId};
use regatta_origin::{
    Cache as _, ContentRules, Deriver, Digest, Forms, HeaderLine, Scratch, Site, TagFacts,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// A source whose forms and digests a test makes.
#[derive(Debug, Default)]
struct Source {
    made: Mutex<HashMap<FileId, Forms>>,
    asked: Mutex<Vec<FileId>>,
    digests: Mutex<HashMap<FileId, Digest>>,
    undigested: Mutex<Vec<FileId>>,
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

    /// Makes the digests of all files that were asked for: one for each length. Returns their
    /// number.
    fn digest_all(&self) -> usize {
        let asked = std::mem::take(&mut *self.undigested.lock().unwrap());
        let count = asked.len();
        let digests = asked.into_iter().map(|id| (id, u128::from(id.len).to_be_bytes()));
        self.digests.lock().unwrap().extend(digests);
        count
    }
}

impl Deriver<FakeFile> for Source {
    fn start(&self) {}

    fn forms(&self, file: &FakeFile) -> Option<Forms> {
        let forms = self.made.lock().unwrap().get(&file.id()).cloned();
        if forms.is_none() {
            self.asked.lock().unwrap().push(file.id());
        }
        forms
    }

    fn digest(&self, file: &FakeFile) -> Option<Digest> {
        let digest = self.digests.lock().unwrap().get(&file.id()).copied();
        if digest.is_none() {
            self.undigested.lock().unwrap().push(file.id());
        }
        digest
    }
}

fn rig(content: ContentRules) -> (Rig, Arc<Source>) {
    let mut rig = Rig::new(Site { content, ..Site::default() });
    let source = Arc::new(Source::default());
    rig.scratch = Scratch::new(7).deriving(Some(source.clone()));
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
    // HEAD has none, and says what GET would.
    let fields = format!("{ACCEPT}Range: bytes=1-2\r\n");
    let head = rig.ask(&get_with("/a.html", &fields).replace("GET", "HEAD"));
    assert!(head.starts_with(b"HTTP/1.1 200 ") && head.windows(6).any(|six| six == b": zstd"));
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

fn tagged() -> ContentRules {
    ContentRules { etag: TagFacts::Content, ..ContentRules::default() }
}

fn tag(answer: &Response) -> String {
    answer.field("etag").unwrap()
}

/// Two copies with other times: their tags differ until the digests are known, and are equal then.
#[test]
fn copies_have_the_tag_of_their_content() {
    let (rig, source) = rig(tagged());
    rig.put("a.html", &[b'a'; 300]);
    rig.put_at("b.html", &[b'a'; 300], 1_500_000_000);
    let ask = |path: &str| rig.respond(&get(path));
    let early = ["/a.html", "/b.html"].map(|path| tag(&ask(path)));
    assert_ne!(early[0], early[1]);
    assert!(early.iter().all(|tag| tag.starts_with('"')), "{early:?}");
    let condition = format!("If-None-Match: {}\r\n", early[0]);
    assert_eq!(rig.respond(&get_with("/a.html", &condition)).status, 304);
    assert_eq!(source.digest_all(), 2);
    assert_eq!(tag(&ask("/a.html")), early[0], "a hit asks for nothing");
    rig.pass(1_000);
    let tags = ["/a.html", "/b.html"].map(|path| tag(&ask(path)));
    assert_eq!(tags[0], tags[1]);
    assert_eq!(tags[0].len(), 24);
    // The early tag is not that of the content: the file is sent once more.
    assert_eq!(rig.respond(&get_with("/a.html", &condition)).status, 200);
    let condition = format!("If-None-Match: {}\r\n", tags[1]);
    assert_eq!(rig.respond(&get_with("/a.html", &condition)).status, 304);
    let whole = ask("/a.html");
    assert_eq!((tag(&whole), whole.body), (tags[0].clone(), vec![b'a'; 300]));
    let range = format!("Range: bytes=1-2\r\nIf-Range: {}\r\n", tags[0]);
    assert_eq!(rig.respond(&get_with("/b.html", &range)).status, 206);
    assert_eq!(source.digest_all(), 0);
    rig.cache.check_invariants();
    let (decisions, _) = rig.explain(&get("/a.html"));
    assert!(decisions.iter().any(|line| line.contains("content.etag")), "{decisions:?}");
}

/// A file that was replaced has a tag of its own at once, even with the same length and time.
#[test]
fn a_file_that_changed_has_not_the_tag_of_the_old_content() {
    let (rig, source) = rig(tagged());
    rig.put("a.html", &[b'a'; 300]);
    let ask = || rig.respond(&get("/a.html"));
    ask();
    source.digest_all();
    rig.pass(1_000);
    let old = tag(&ask());
    rig.put("a.html", &[b'b'; 300]);
    rig.pass(1_000);
    let new = ask();
    assert_eq!(new.body[0], b'b');
    assert_ne!(tag(&new), old);
    assert_eq!(source.digest_all(), 1);
    // One that has just changed is not hashed: it may change again without showing it.
    rig.put_at("a.html", &[b'c'; 300], rig.now().unix.cast_signed());
    rig.pass(1_000);
    assert!(tag(&ask()).starts_with("W/"));
    assert_eq!(source.digest_all(), 0);
    rig.pass(3_000);
    ask();
    assert_eq!(source.digest_all(), 1);
    rig.pass(1_000);
    assert_eq!(tag(&ask()).len(), 24);
}

/// Siblings on disk have tags of their own bytes, and forms those of their file, whichever is ready
/// first.
#[test]
fn each_coding_has_a_tag_of_content() {
    let (rig, source) = rig(ContentRules { compress: true, ..tagged() });
    for name in ["a.html", "b.html", "c.html"] {
        rig.put(name, &[b'a'; 3_000]);
    }
    rig.put("c.html.br", &[b'c'; 40]);
    let ask = |path: &str, coding: &str| {
        tag(&rig.respond(&get_with(path, &format!("Accept-Encoding: {coding}\r\n"))))
    };
    for path in ["/a.html", "/c.html"] {
        ask(path, "identity");
    }
    assert_eq!(source.work(), 1);
    rig.pass(1_000);
    let early = ask("/a.html", "zstd");
    assert!(early.starts_with("W/\"") && early.ends_with("-zstd\""), "{early}");
    // Both of c.html among them.
    ask("/b.html", "identity");
    assert!(source.digest_all() >= 4);
    rig.pass(1_000);
    ask("/b.html", "identity");
    source.work();
    rig.pass(1_000);
    let plain = ask("/a.html", "identity");
    assert_eq!(plain.len(), 24);
    let form = format!("W/{}-zstd\"", &plain[..23]);
    for path in ["/a.html", "/b.html"] {
        assert_eq!((ask(path, "identity"), ask(path, "zstd")), (plain.clone(), form.clone()));
    }
    let sibling = ask("/c.html", "br");
    assert_eq!(ask("/c.html", "identity"), plain);
    assert!(sibling.starts_with('"') && sibling.ends_with("-br\""), "{sibling}");
    assert_eq!(sibling.len(), 27);
    assert_ne!(sibling[..23], plain[..23]);
    rig.cache.check_invariants();
}
