//! Listings as HTML and as JSON. Names are bytes of others, and are escaped in both.
use crate::log::rfc3339_stamp;
use regatta_origin::{LISTING_STYLE, ListingFormat, ListingRequest, write_encoded_name};
use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};
use std::io;

/// Longest rows of a page, bytes: the page ends behind the first row beyond that, and is shorter
/// than 1 MiB as a whole.
const ROWS_BYTES_MAX: usize = 900 << 10;

/// Name in a folder. Folders come first, and then names by their bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListedName {
    pub(super) is_file: bool,
    pub(super) name: Vec<u8>,
}

/// Name with what it stands for.
#[derive(Clone, Debug)]
pub(super) struct ListedRow {
    pub(super) name: ListedName,
    pub(super) len: u64,
    pub(super) modified_secs: i64,
}

/// Renders a page. `next`: the last name of the page, if there are more behind it.
pub(super) fn render(
    wanted: &ListingRequest,
    rows: &[ListedRow],
    next: Option<&ListedName>,
) -> Vec<u8> {
    match wanted.format {
        ListingFormat::Html => html(wanted, rows, next),
        ListingFormat::Json => json(wanted, rows, next),
    }
}

/// Writes rows until there are enough bytes, and returns the last name of the page if there are
/// more behind it.
fn write_rows<'r>(
    out: &mut Vec<u8>,
    rows: &'r [ListedRow],
    next: Option<&'r ListedName>,
    write: impl Fn(&mut Vec<u8>, &ListedRow),
) -> Option<&'r ListedName> {
    let start = out.len();
    for (at, row) in rows.iter().enumerate() {
        write(out, row);
        if out.len() - start > ROWS_BYTES_MAX && at + 1 < rows.len() {
            return Some(&row.name);
        }
    }
    next
}

fn html(wanted: &ListingRequest, rows: &[ListedRow], next: Option<&ListedName>) -> Vec<u8> {
    let mut title = Vec::new();
    escape(&mut title, &shown_path(&wanted.folder));
    let title = String::from_utf8_lossy(&title);
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Index of {title}</title>\n<style>{LISTING_STYLE}</style>\n\
         <main>\n<h1>Index of <bdi>{title}</bdi></h1>\n"
    )
    .into_bytes();
    if !wanted.folder.is_empty() {
        out.extend_from_slice(b"<p><a href=\"../\">Parent folder</a></p>\n");
    }
    let next = if rows.is_empty() {
        out.extend_from_slice(b"<p>There is nothing to show here.</p>\n");
        next
    } else {
        out.extend_from_slice(
            b"<table>\n<thead>\n<tr><th scope=\"col\">Name</th><th scope=\"col\">Size</th>\
              <th scope=\"col\">Modified (UTC)</th></tr>\n</thead>\n<tbody>\n",
        );
        let next = write_rows(&mut out, rows, next, write_html_row);
        out.extend_from_slice(b"</tbody>\n</table>\n");
        next
    };
    if next.is_some() || !wanted.after.is_empty() {
        out.extend_from_slice(b"<nav aria-label=\"Pages\">");
        if !wanted.after.is_empty() {
            out.extend_from_slice(b"<a href=\"./\">First page</a>");
        }
        if let Some(last) = next {
            out.extend_from_slice(b"<a rel=\"next\" href=\"");
            write_next(&mut out, last);
            out.extend_from_slice(b"\">Next page</a>");
        }
        out.extend_from_slice(b"</nav>\n");
    }
    out.extend_from_slice(b"</main>\n</html>\n");
    out
}

fn write_html_row(out: &mut Vec<u8>, row: &ListedRow) {
    let slash = if row.name.is_file { "" } else { "/" };
    let (size, stamp) = (if row.name.is_file { size(row.len) } else { String::new() }, stamp(row));
    out.extend_from_slice(b"<tr><th scope=\"row\"><a href=\"");
    write_href(out, &row.name);
    out.extend_from_slice(b"\"><bdi>");
    escape(out, &row.name.name);
    let (day, time) = (&stamp[..10], &stamp[11..16]);
    let rest = format!(
        "</bdi>{slash}</a></th><td>{size}</td><td><time datetime=\"{stamp}\">{day} {time}</time>\
         </td></tr>\n"
    );
    out.extend_from_slice(rest.as_bytes());
}

fn json(wanted: &ListingRequest, rows: &[ListedRow], next: Option<&ListedName>) -> Vec<u8> {
    let mut out = b"{\"folder\":".to_vec();
    write_json(&mut out, &String::from_utf8_lossy(&shown_path(&wanted.folder)));
    out.extend_from_slice(b",\"entries\":[");
    let next = write_rows(&mut out, rows, next, |out, row| {
        if out.last() != Some(&b'[') {
            out.push(b',');
        }
        let mut href = Vec::new();
        write_href(&mut href, &row.name);
        write_json(
            out,
            &JsonRow {
                name: &String::from_utf8_lossy(&row.name.name),
                href: &String::from_utf8_lossy(&href),
                kind: if row.name.is_file { "file" } else { "folder" },
                size: row.name.is_file.then_some(row.len),
                modified: &stamp(row),
            },
        );
    });
    out.extend_from_slice(b"],\"next\":");
    let next = next.map(|last| {
        let mut href = Vec::new();
        write_next(&mut href, last);
        String::from_utf8_lossy(&href).into_owned()
    });
    write_json(&mut out, &next);
    out.extend_from_slice(b"}\n");
    out
}

/// Entry of a listing for programs.
#[derive(Serialize)]
struct JsonRow<'r> {
    /// Bytes that are not UTF-8 are U+FFFD.
    name: &'r str,
    href: &'r str,
    #[serde(rename = "type")]
    kind: &'r str,
    /// Only of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    modified: &'r str,
}

/// JSON of ASCII alone: no direction mark reaches a terminal.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            if character.is_ascii() && character != '\x7f' {
                CompactFormatter.write_string_fragment(out, character.encode_utf8(&mut [0; 4]))?;
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

fn write_json<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    let written = value.serialize(&mut Serializer::with_formatter(out, Ascii));
    written.expect("memory takes all, and no key is other than text");
}

/// `?after=` and the last name of a page.
fn write_next(out: &mut Vec<u8>, last: &ListedName) {
    out.extend_from_slice(b"?after=");
    write_encoded_name(out, &last.name);
    if !last.is_file {
        write_encoded_name(out, b"/");
    }
}

/// Reference to a name from its folder. It is a path of one segment without a colon.
fn write_href(out: &mut Vec<u8>, name: &ListedName) {
    write_encoded_name(out, &name.name);
    if !name.is_file {
        out.push(b'/');
    }
}

/// Appends a name as text of HTML, and for the value of an attribute. Characters that cannot be
/// seen, or that change the direction of others, are shown by their numbers.
fn escape(out: &mut Vec<u8>, name: &[u8]) {
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '<' => out.extend_from_slice(b"&lt;"),
                '>' => out.extend_from_slice(b"&gt;"),
                '&' => out.extend_from_slice(b"&amp;"),
                '"' => out.extend_from_slice(b"&quot;"),
                '\'' => out.extend_from_slice(b"&#39;"),
                unseen if is_unseen(unseen) => {
                    out.extend_from_slice(unseen.escape_unicode().to_string().as_bytes());
                }
                seen => out.extend_from_slice(seen.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

/// True for control characters, direction marks, and others without a form of their own. Joiners,
/// which some scripts need, are not among them.
fn is_unseen(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Path of a folder with a slash at both ends.
fn shown_path(folder: &[u8]) -> Vec<u8> {
    if folder.is_empty() { b"/".to_vec() } else { [b"/", folder, b"/"].concat() }
}

/// Time of the last change, as in `1994-11-06T08:49:37Z`.
fn stamp(row: &ListedRow) -> String {
    let stamp = rfc3339_stamp(u64::try_from(row.modified_secs).unwrap_or(0));
    String::from_utf8_lossy(&stamp).into_owned()
}

/// Length in a unit that leaves at most four digits.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (mut whole, mut unit) = (bytes, 0);
    while whole >= 1024 * 1024 {
        (whole, unit) = (whole / 1024, unit + 1);
    }
    let tenths = whole % 1024 * 10 / 1024;
    format!("{}.{tenths} {}", whole / 1024, UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::{super::page::tests::wanted, *};
    use serde_json::Value;

    fn row(is_file: bool, name: &[u8]) -> ListedRow {
        let name = ListedName { is_file, name: name.to_vec() };
        ListedRow { name, len: 1_536, modified_secs: 784_111_777 }
    }

    fn page(folder: &str, rows: &[ListedRow], next: bool) -> [String; 2] {
        let next = rows.last().map(|row| &row.name).filter(|_| next);
        [ListingFormat::Html, ListingFormat::Json].map(|format| {
            let wanted = ListingRequest { format, ..wanted(folder, "") };
            String::from_utf8(render(&wanted, rows, next)).expect("UTF-8")
        })
    }

    #[test]
    fn a_page_has_links_sizes_and_times() {
        let [html, json] = page("a b", &[row(false, b"sub"), row(true, b"x y.txt")], true);
        for part in [
            "<title>Index of /a b/</title>",
            "<a href=\"../\">",
            "<a href=\"sub/\"><bdi>sub</bdi>/</a></th><td></td>",
            "<a href=\"x%20y.txt\"><bdi>x y.txt</bdi></a></th><td>1.5 KiB</td>",
            "<time datetime=\"1994-11-06T08:49:37Z\">1994-11-06 08:49</time>",
            "<a rel=\"next\" href=\"?after=x%20y.txt\">",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert_eq!(
            json,
            "{\"folder\":\"/a b/\",\"entries\":[{\"name\":\"sub\",\"href\":\"sub/\",\
             \"type\":\"folder\",\"modified\":\"1994-11-06T08:49:37Z\"},{\"name\":\"x y.txt\",\
             \"href\":\"x%20y.txt\",\"type\":\"file\",\"size\":1536,\
             \"modified\":\"1994-11-06T08:49:37Z\"}],\"next\":\"?after=x%20y.txt\"}\n"
        );
        let [html, json] = page("", &[], false);
        assert!(html.contains("nothing to show"), "{html}");
        assert!(!html.contains("<table") && !html.contains("../"), "{html}");
        assert_eq!(json, "{\"folder\":\"/\",\"entries\":[],\"next\":null}\n");
        let after = wanted("", "a/");
        let last = ListedName { is_file: false, name: b"b".to_vec() };
        let html = self::html(&after, &[row(false, b"b")], Some(&last));
        let html = String::from_utf8(html).expect("UTF-8");
        assert!(html.contains("First page") && html.contains("?after=b%2F\""), "{html}");
    }

    #[test]
    fn names_are_escaped() {
        for (name, shown) in [
            ("<script>", "&lt;script&gt;"),
            ("a\"b'c&d", "a&quot;b&#39;c&amp;d"),
            ("a\nb\tc\u{7f}", "a\\u{a}b\\u{9}c\\u{7f}"),
            ("\u{202e}gpj.exe", "\\u{202e}gpj.exe"),
            ("a\u{2066}b\u{200f}", "a\\u{2066}b\\u{200f}"),
            ("שלום", "שלום"),
            ("می\u{200c}خواهم", "می\u{200c}خواهم"),
        ] {
            let mut out = Vec::new();
            escape(&mut out, name.as_bytes());
            assert_eq!(String::from_utf8(out).expect("UTF-8"), shown);
        }
    }

    /// No name, whatever its bytes are, changes the structure of a page, and each is read back.
    #[test]
    fn no_name_leaves_its_place() {
        let alphabet = [
            "<",
            ">",
            "\"",
            "'",
            "&",
            "\\",
            "/x",
            "\n",
            "\r",
            "\0",
            "%",
            "?",
            "#",
            ":",
            "]]>",
            "-->",
            "&lt;",
            "\u{202e}",
            "\u{2067}",
            "\u{feff}",
            "é",
            "漢",
            "😀",
            "a",
            " ",
            "javascript:",
        ];
        let mut state = 7_u64;
        let mut dice = |sides: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from(state >> 33).unwrap() % sides
        };
        let tags = |html: &str| (html.matches('<').count(), html.matches('"').count());
        let plain = tags(&page("a", &[row(true, b"a")], true)[0]);
        for _ in 0..2_000 {
            let mut name = Vec::new();
            for _ in 0..=dice(12) {
                match dice(8) {
                    0 => name.push(u8::try_from(dice(256)).unwrap()),
                    _ => name.extend_from_slice(alphabet[dice(alphabet.len())].as_bytes()),
                }
            }
            let folder = String::from_utf8_lossy(&name).into_owned();
            let [html, json] = page(&folder, &[row(true, &name)], true);
            assert_eq!(tags(&html), plain, "{name:?}: {html}");
            let unseen = |text: &str| text.chars().any(|it| it != '\n' && is_unseen(it));
            assert!(!unseen(&html) && !unseen(&json) && json.is_ascii(), "{name:?}");
            let found: Value = serde_json::from_str(&json).expect(&json);
            let entry = &found["entries"][0];
            assert_eq!(entry["name"], Value::from(String::from_utf8_lossy(&name)));
            let href = entry["href"].as_str().unwrap();
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
            assert!(href.bytes().all(plain), "{href}");
            assert_eq!(decoded(href), name);
        }
    }

    fn decoded(text: &str) -> Vec<u8> {
        let mut parts = text.split('%');
        let mut out = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            out.push(u8::from_str_radix(&part[..2], 16).unwrap());
            out.extend_from_slice(&part.as_bytes()[2..]);
        }
        out
    }

    #[test]
    fn pages_of_long_names_end_early() {
        let rows: Vec<_> = (0..1_000).map(|_| row(true, &[b'"'; 255])).collect();
        for text in page("", &rows, false) {
            assert!(text.len() < super::super::PAGE_BYTES_MAX, "{}", text.len());
            assert!(text.contains("?after=%22"), "the rest is on another page");
        }
    }

    #[test]
    fn sizes_have_few_digits() {
        for (bytes, expected) in [
            (0, "0 B"),
            (1_023, "1023 B"),
            (1_024, "1.0 KiB"),
            (1_048_575, "1023.9 KiB"),
            (1_048_576, "1.0 MiB"),
            (5_905_580_032, "5.5 GiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(size(bytes), expected);
        }
    }
}
