//! Media types by file name: the user's, then ours, then those of `mime_guess`.
use regatta_origin::MediaTypes;

/// Types that `mime_guess` does not know, or knows by a name that has been replaced.
const OURS: [(&str, &str); 24] = [
    ("avif", "image/avif"),
    ("cjs", "text/javascript"),
    ("geojson", "application/geo+json"),
    ("ico", "image/x-icon"),
    ("js", "text/javascript"), // RFC 9239
    ("jxl", "image/jxl"),
    ("m3u8", "application/vnd.apple.mpegurl"), // RFC 8216
    ("m4a", "audio/mp4"),
    ("map", "application/json"), // source maps (ECMA-426)
    ("md", "text/markdown"),     // RFC 7763
    ("mjs", "text/javascript"),
    ("mkv", "video/matroska"), // RFC 9559
    ("otf", "font/otf"),       // RFC 8081
    ("rpm", "application/x-rpm"),
    ("svgz", "application/gzip"), // without Content-Encoding no browser shows it as an image
    ("ts", "video/mp2t"),
    ("ttf", "font/ttf"),   // RFC 8081
    ("vcf", "text/vcard"), // RFC 6350
    ("wasm", "application/wasm"),
    ("webmanifest", "application/manifest+json"),
    ("woff", "font/woff"), // RFC 8081
    ("woff2", "font/woff2"),
    ("yaml", "application/yaml"), // RFC 9512
    ("yml", "application/yaml"),
];

/// The longest extension that is looked up, bytes.
const EXTENSION_BYTES_MAX: usize = 32;

/// Media types by extension, with those that the configuration adds.
#[derive(Debug)]
pub struct Types {
    configured: Vec<(String, &'static str)>,
}

impl Types {
    /// Types with `items`, each as `ext=type/subtype`, before the built-in ones.
    ///
    /// # Errors
    /// If an item is not of that form; all such are named.
    pub fn new(items: &[String]) -> Result<Self, Vec<String>> {
        let (mut configured, mut wrong) = (Vec::new(), Vec::new());
        for item in items {
            match parse(item) {
                // The origin wants types that outlive it; the configuration is read once.
                Some((ext, media)) => {
                    configured.push((ext, &*Box::leak(media.into_boxed_str())));
                }
                None => wrong.push(item.clone()),
            }
        }
        if wrong.is_empty() { Ok(Self { configured }) } else { Err(wrong) }
    }
}

impl MediaTypes for Types {
    fn media_type(&self, path: &[u8]) -> Option<&'static str> {
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        let dot = name.iter().rposition(|byte| *byte == b'.').filter(|at| *at > 0)?;
        let ext = &name[dot + 1..];
        if ext.is_empty() || ext.len() > EXTENSION_BYTES_MAX {
            return None;
        }
        let ext = str::from_utf8(ext).ok()?.to_ascii_lowercase();
        let configured = self.configured.iter().find(|(known, _)| *known == ext);
        let ours = || OURS.iter().find(|(known, _)| *known == ext).map(|(_, media)| *media);
        configured
            .map(|(_, media)| *media)
            .or_else(ours)
            .or_else(|| mime_guess::from_ext(&ext).first_raw())
    }
}

fn parse(item: &str) -> Option<(String, String)> {
    let (ext, media) = item.split_once('=')?;
    let (ext, media) = (ext.trim().trim_start_matches('.'), media.trim());
    let (kind, subtype) = media.split_once('/')?;
    let fits = !ext.is_empty() && ext.len() <= EXTENSION_BYTES_MAX && !ext.contains(['.', '/']);
    (fits && is_token(kind) && is_token(subtype))
        .then(|| (ext.to_ascii_lowercase(), media.to_ascii_lowercase()))
}

/// True if `text` is a token (RFC 9110 §5.6.2).
#[must_use]
pub fn is_token(text: &str) -> bool {
    let tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(tchar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_by_name() {
        let items = ["log=text/plain", ".DAT = application/x-Thing", "html=text/x-mine"];
        let types = Types::new(&items.map(str::to_owned)).unwrap();
        for (path, expect) in [
            ("a/b.html", Some("text/x-mine")),
            ("b.HTM", Some("text/html")),
            ("x.log", Some("text/plain")),
            ("x.dat", Some("application/x-thing")),
            ("x.js", Some("text/javascript")),
            ("x.mjs", Some("text/javascript")),
            ("x.css", Some("text/css")),
            ("x.svg", Some("image/svg+xml")),
            ("x.png", Some("image/png")),
            ("x.avif", Some("image/avif")),
            ("x.wasm", Some("application/wasm")),
            ("x.js.map", Some("application/json")),
            ("site.webmanifest", Some("application/manifest+json")),
            ("README.md", Some("text/markdown")),
            ("x.xml", Some("text/xml")),
            ("x.txt", Some("text/plain")),
            ("x.pdf", Some("application/pdf")),
            ("x.yml", Some("application/yaml")),
            ("x.svgz", Some("application/gzip")),
            ("x.rpm", Some("application/x-rpm")),
            ("x.m3u8", Some("application/vnd.apple.mpegurl")),
            ("x.m4a", Some("audio/mp4")),
            ("x.otf", Some("font/otf")),
            ("x.vcf", Some("text/vcard")),
            ("x.tar.gz", Some("application/gzip")),
            (".html", None),
            ("dir.html/x", None),
            ("x.", None),
            ("x.nobodyknows", None),
        ] {
            assert_eq!(types.media_type(path.as_bytes()), expect, "{path}");
        }
        assert_eq!(types.media_type(b"x.\xff"), None);
    }

    #[test]
    fn all_bad_items_are_named() {
        let items = ["log", "a=b", "=a/b", "a=b/c", "a=b/c; d=e", "a=/c"];
        let wrong = Types::new(&items.map(str::to_owned)).unwrap_err();
        assert_eq!(wrong, ["log", "a=b", "=a/b", "a=b/c; d=e", "a=/c"]);
    }
}
