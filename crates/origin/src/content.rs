//! The fields that describe a file by its name: its type, and how long others may keep it.
use crate::{Site, site::suffix};
use alloc::{boxed::Box, format};
use regatta_op::Codings;

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

/// The codings in which a file at `path` may have a sibling that is worth looking for.
pub(crate) fn siblings(path: &[u8], site: &Site) -> Codings {
    let wanted = site.content.precompressed && !is_compressed(media_type(path, site));
    if wanted { Codings::ALL } else { Codings::NONE }
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

fn is_page(media_type: &str) -> bool {
    matches!(media_type, "text/html" | "application/xhtml+xml")
}

/// True for types whose text has no charset of its own. XML and JSON say or fix theirs.
fn is_text(media_type: &str) -> bool {
    let is_xml = media_type.ends_with("+xml") || media_type.starts_with("text/xml");
    media_type.starts_with("text/") && !is_xml || media_type == "application/javascript"
}

/// True if the name holds a hash of the content, as bundlers make them: `app.3f9c2ab1.js`,
/// `index-BfXy12ab.css`.
///
/// A wrong guess would pin a file in browsers for a year. So only types that bundlers give hashes to
/// count, and of a name the part before the suffix, after a dot or a hyphen. It must be of a length
/// that they use, and must not read as a word, a date, or part of a UUID or of a hardware address.
pub(crate) fn has_hash(path: &[u8]) -> bool {
    let Some(suffix) = suffix(path) else {
        return false;
    };
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or(path);
    let mut stem = &name[..name.len() - suffix.len() - 1];
    if let Some(inner) = stem.strip_suffix(b".min").or_else(|| stem.strip_suffix(b".js")) {
        stem = inner; // app.3f9c2ab1.min.css, app.3f9c2ab1.js.map
    }
    let Some(mark) = stem.iter().rposition(|byte| b".-_".contains(byte)) else {
        return false;
    };
    let part = &stem[mark + 1..];
    let figure = part.iter().any(u8::is_ascii_digit);
    let hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if part.len() >= 8 && part.iter().all(hex) {
        return figure && part.iter().any(u8::is_ascii_lowercase);
    }
    let built = matches!(suffix, b"js" | b"mjs" | b"css" | b"map" | b"wasm");
    let upper = part.iter().any(u8::is_ascii_uppercase);
    built && part.len() == 8 && part.iter().all(u8::is_ascii_alphanumeric) && figure && upper
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
        ];
        for name in hashed {
            assert!(has_hash(name.as_bytes()), "{name}");
        }
        for name in plain {
            assert!(!has_hash(name.as_bytes()), "{name}");
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
