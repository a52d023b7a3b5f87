//! The fields that describe a file by its name: its type, and how long others may keep it.
use crate::{Site, site::suffix};
use alloc::{boxed::Box, format, vec::Vec};
use regatta_http::pattern::{Names, PAGE_SUFFIX};
use regatta_op::{Coding, Codings};

/// The value of `Content-Type` for the file at `path`.
pub(crate) fn content_type(path: &[u8], site: &Site) -> Box<str> {
    let media_type = media_type(path, site);
    let charset = &*site.content.charset;
    if is_text(media_type) && !charset.is_empty() {
        format!("{media_type}; charset={charset}").into()
    } else {
        media_type.into()
    }
}

/// The value of `Cache-Control` for the file at `path`; empty for none.
pub(crate) fn cache_control<'a>(path: &[u8], site: &'a Site) -> &'a str {
    let rules = &site.content;
    if is_page(media_type(path, site)) {
        &rules.cache_control_page
    } else if has_hash(path) {
        &rules.cache_control_asset
    } else {
        &rules.cache_control_other
    }
}

/// The paths by which the file of this name can be asked for: its own, and those at which it is
/// found as an index or with its suffix.
pub(crate) fn names<'n>(name: &'n [u8], site: &Site) -> Names<'n> {
    let rules = &site.content;
    let (folder, last) = match name.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&name[..slash], &name[slash + 1..]),
        None => (&b""[..], name),
    };
    let clean = name.strip_suffix(PAGE_SUFFIX.as_bytes());
    let clean = clean.filter(|_| rules.clean_urls && last.len() > PAGE_SUFFIX.len());
    let is_index = rules.index.iter().any(|index| index.as_bytes() == last);
    Names { path: name, clean, folder: is_index.then_some(folder) }
}

/// The codings in which a file at `path` may have a sibling that is worth looking for. A file that
/// is coded itself has none, and neither has a folder.
pub(crate) fn siblings(path: &[u8], site: &Site) -> Codings {
    let is_coded = || {
        let ruled = site.rules.encodes().then(|| site.rules.amend(names(path, site), false));
        let ruled = ruled.and_then(|amended| amended.content_encoding);
        ruled.map_or_else(|| uncoded(path, site).1.is_some(), |coding| !coding.is_empty())
    };
    let wanted = site.content.precompressed
        && !path.ends_with(b"/")
        && !is_compressed(media_type(path, site))
        && !is_coded();
    if wanted { Codings::ALL } else { Codings::NONE }
}

/// The name of what a file at `path` holds, and its coding, if files that are coded by their names
/// are sent as what they hold: `x.js` for `x.js.br`, `x.svg` for `x.svgz`.
///
/// The type of the inner name must be known. Archives are excluded: browsers would save `x.tar.gz`
/// under this name without its coding.
pub(crate) fn uncoded<'n>(path: &'n [u8], site: &Site) -> (&'n [u8], Option<Coding>) {
    let found = suffix(path).filter(|_| site.content.coded_names).and_then(|suffix| {
        let of = |coding: &Coding| coding.suffix().as_bytes()[1..].eq_ignore_ascii_case(suffix);
        if suffix.eq_ignore_ascii_case(b"svgz") {
            return Some((&path[..path.len() - 1], Coding::Gzip));
        }
        let coding = Coding::ALL.into_iter().find(of)?;
        Some((&path[..path.len() - coding.suffix().len()], coding))
    });
    let is_sent = |inner: &[u8]| {
        let known = site.media_types.media_type(inner);
        known.is_some_and(|known| known != "application/x-tar" && !is_compressed(known))
    };
    match found {
        Some((inner, coding)) if is_sent(inner) => (inner, Some(coding)),
        _ => (path, None),
    }
}

/// Whether files of a type are compressed already: no siblings are looked for.
#[must_use]
pub fn is_compressed(media_type: &str) -> bool {
    match media_type {
        "image/svg+xml" | "image/bmp" | "image/x-icon" => false,
        "application/zip" | "application/gzip" | "font/woff" | "font/woff2" => true,
        other => ["image/", "video/", "audio/"].iter().any(|kind| other.starts_with(kind)),
    }
}

fn media_type(path: &[u8], site: &Site) -> &'static str {
    site.media_types.media_type(path).unwrap_or("application/octet-stream")
}

/// True for types of text, with or without a charset.
pub(crate) fn is_textual(path: &[u8], site: &Site) -> bool {
    const TEXTS: [&str; 7] = [
        "application/javascript",
        "application/json",
        "application/toml",
        "application/wasm",
        "application/x-ndjson",
        "application/xml",
        "application/yaml",
    ];
    let of_text = |known: &str| {
        let endings = ["+json", "+xml"].iter().any(|ending| known.ends_with(ending));
        known.starts_with("text/") || endings || TEXTS.contains(&known)
    };
    of_text(media_type(path, site))
}

fn is_page(media_type: &str) -> bool {
    matches!(media_type, "text/html" | "application/xhtml+xml")
}

/// True for types of text without a charset of its own. XML and JSON name or fix theirs.
fn is_text(media_type: &str) -> bool {
    let is_xml = media_type.ends_with("+xml") || media_type.starts_with("text/xml");
    media_type.starts_with("text/") && !is_xml || media_type == "application/javascript"
}

/// True if the name holds a hash of the content, as bundlers make them: `app.3f9c2ab1.js`,
/// `index-BfXy12ab.css`.
///
/// A wrong guess would pin a file in browsers for a year, so the check is strict. Only types to
/// which bundlers give hashes count, and only the part of a name before the suffix, after a dot or
/// a hyphen. It must have a length that they use. It must not read as a word, a date, or part of a
/// UUID or of a hardware address.
pub(crate) fn has_hash(path: &[u8]) -> bool {
    let Some(suffix) = suffix(path) else {
        return false;
    };
    let is_code = matches!(suffix, b"js" | b"mjs" | b"cjs" | b"css" | b"map" | b"wasm");
    if !is_code && !HASHED.contains(&suffix) {
        return false;
    }
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let mut stem = &name[..name.len() - suffix.len() - 1];
    // app.3f9c2ab1.min.css, app.3f9c2ab1.js.map, main.3f9c2ab1.chunk.js
    while let Some(inner) = INNER.iter().find_map(|inner| stem.strip_suffix(*inner)) {
        stem = inner;
    }
    let Some(mark) = stem.iter().rposition(|byte| b".-".contains(byte)) else {
        return false;
    };
    let part = &stem[mark + 1..];
    if part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return is_hex_hash(part, is_code) && !ends_in_uuid(stem);
    }
    let upper = part.iter().any(u8::is_ascii_uppercase);
    let figure = part.iter().any(u8::is_ascii_digit);
    let alphanumeric = part.len() == 8 && part.iter().all(u8::is_ascii_alphanumeric);
    is_code && alphanumeric && figure && upper && !is_words(part)
}

/// Suffixes of further files that bundlers give hashes to: images, fonts, sound and film.
const HASHED: [&[u8]; 22] = [
    b"png", b"jpg", b"jpeg", b"gif", b"svg", b"webp", b"avif", b"ico", b"bmp", b"jxl", b"woff",
    b"woff2", b"ttf", b"otf", b"eot", b"mp4", b"webm", b"mp3", b"ogg", b"wav", b"flac", b"aac",
];

/// Parts of a name between a hash and the suffix.
const INNER: [&[u8]; 5] = [b".min", b".js", b".css", b".chunk", b".bundle"];

/// True for hexadecimal digits that a bundler may have made; of 12, as hardware addresses have,
/// only in the names of scripts and styles.
fn is_hex_hash(part: &[u8], is_code: bool) -> bool {
    let is_length = match part.len() {
        8 | 10 | 16 | 20 | 32 | 40 | 64 => true,
        12 => is_code,
        _ => false,
    };
    let letters = part.iter().filter(|byte| byte.is_ascii_lowercase()).count();
    let mixed = (1..part.len()).contains(&letters);
    is_length && mixed && !is_word_and_number(part, 4) && !is_date(part)
}

/// True for letters and then figures, or figures and then letters: `facade12`.
fn is_word_and_number(part: &[u8], letters_min: usize) -> bool {
    let changes = part.windows(2).filter(|two| two[0].is_ascii_digit() != two[1].is_ascii_digit());
    let letters = part.iter().filter(|byte| byte.is_ascii_alphabetic()).count();
    changes.count() == 1 && letters >= letters_min
}

/// True for dates that are hexadecimal digits as well: `05dec2024`, `20240115a`.
fn is_date(part: &[u8]) -> bool {
    let figures = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let month = part.windows(3).position(|three| matches!(three, b"dec" | b"feb"));
    let in_words = month.is_some_and(|at| figures(&part[..at]) && figures(&part[at + 3..]));
    let in_figures =
        matches!(part, [b'1', b'9', ..] | [b'2', b'0', ..]) && part.get(..8).is_some_and(figures);
    in_words || in_figures
}

/// True for words with figures, each capitalised or of small letters: `Version2`, `Html5App`.
fn is_words(part: &[u8]) -> bool {
    let words = part.split(u8::is_ascii_digit).filter(|word| !word.is_empty());
    let is_word = |word: &[u8]| {
        let starts = word.iter().enumerate().filter(|(_, byte)| byte.is_ascii_uppercase());
        let starts: Vec<_> = starts.map(|(at, _)| at).collect();
        let ends = starts.iter().skip(1).copied().chain([word.len()]);
        let from = starts.first().copied().unwrap_or(0);
        let capitalised = starts.iter().zip(ends).all(|(start, end)| end - start >= 3);
        (from == 0 || from >= 3) && capitalised && word.len() >= 3
    };
    words.clone().all(is_word) || is_word_and_number(part, 5)
}

/// True if the last 36 bytes are a UUID (RFC 9562 §4).
fn ends_in_uuid(stem: &[u8]) -> bool {
    let Some(start) = stem.len().checked_sub(36) else {
        return false;
    };
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    stem[start..].iter().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hashes_look_like_hashes() {
        let hashed = [
            "app.3f9c2ab1.js",
            "assets/index-BfXy12ab.css",
            "chunk-ABCD2345.js",
            "main.0123456789abcdef0123.css",
            "app.3f9c2ab1.min.css",
            "app.3f9c2ab1.js.map",
            "logo.3f9c2ab1.png",
            "main.3f9c2ab1.chunk.js",
            "0.BfXy12ab.js",
            "style.0123456789ab.css",
            "style.min.e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.css",
            "font-3f9c2ab1d2e4f6a8.woff2",
        ];
        let plain = [
            "app.js",
            "jquery-migrated.js",
            "report-20240115.pdf",
            "IMG_20240115T1200.jpg",
            "case-iPhone15.png",
            "deadbeef.txt",
            "a-deadbeef.txt",
            "3f9c2ab1.js",
            "3f9c2ab1/app.js",
            "bootstrap-5.3.2.js",
            ".3f9c2ab1",
            "x.3f9c2ab1",
            "menu_05dec2024.pdf",
            "menu-05dec2024.png",
            "menu-1feb2024.png",
            "plan-20240115a.png",
            "plan-20240115ab.png",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8.json",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8.js",
            "6ba7b810-9dad-11d1-80b4-00c04fd430c8.png",
            "switch-001a2b3c4d5e.png",
            "00-1a-2b-3c-4d-5e.png",
            "download-facade12.zip",
            "download-facade12.png",
            "report.3f9c2ab1.pdf",
            "Report-Version2.js",
            "docs-Release9.css",
            "tour-Day1Menu.js",
            "case-iPhone15.js",
            "page-LESSON23.js",
            "page-Html5App.js",
            "build-20240101.js",
            "case_3f9c2ab1.js",
        ];
        for name in hashed {
            assert!(has_hash(name.as_bytes()), "{name}");
        }
        for name in plain {
            assert!(!has_hash(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_of_coded_files_say_what_they_hold() {
        let mut site = Site::default();
        assert_eq!(uncoded(b"a.js.br", &site), (&b"a.js.br"[..], None));
        site.content.coded_names = true;
        for (path, inner, coding) in [
            ("b/a.js.br", "b/a.js", Some(Coding::Brotli)),
            ("a.wasm.GZ", "a.wasm", Some(Coding::Gzip)),
            ("a.json.zst", "a.json", Some(Coding::Zstd)),
            ("a.svgz", "a.svg", Some(Coding::Gzip)),
            ("a.js", "a.js", None),
            ("a.gz", "a.gz", None),
            ("a.zip.gz", "a.zip.gz", None),
            ("a.png.gz", "a.png.gz", None),
            ("a.unknown.gz", "a.unknown.gz", None),
            ("js.gz", "js.gz", None),
            (".gz", ".gz", None),
            ("gz", "gz", None),
        ] {
            assert_eq!(uncoded(path.as_bytes(), &site), (inner.as_bytes(), coding), "{path}");
            let siblings = if coding.is_some() { Codings::NONE } else { Codings::ALL };
            if !path.ends_with("gz") || coding.is_some() {
                assert_eq!(super::siblings(path.as_bytes(), &site), siblings, "{path}");
            }
        }
    }

    #[test]
    fn types_decide_charset_caching_and_siblings() {
        let site = Site::default();
        let check = |path: &str, expected: &str, caching: &str, siblings: Codings| {
            let bytes = path.as_bytes();
            assert_eq!(&*content_type(bytes, &site), expected, "{path}");
            assert_eq!(cache_control(bytes, &site), caching, "{path}");
            assert_eq!(super::siblings(bytes, &site), siblings, "{path}");
        };
        let immutable = &site.content.cache_control_asset;
        check("a.html", "text/html; charset=utf-8", "no-cache", Codings::ALL);
        check("a.JS", "text/javascript; charset=utf-8", "no-cache", Codings::ALL);
        check("a.3f9c2ab1.js", "text/javascript; charset=utf-8", immutable, Codings::ALL);
        check("a.png", "image/png", "no-cache", Codings::NONE);
        check("a.xml", "application/xml", "no-cache", Codings::ALL);
        check("a.svg", "image/svg+xml", "no-cache", Codings::ALL);
        check("noise", "application/octet-stream", "no-cache", Codings::ALL);
    }
}
