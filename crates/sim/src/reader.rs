//! A strict reader of responses, independent of the code that wrote them.
use crate::{BrokenCheck, dice::index, trace::Stamp};

/// A response as received.
#[derive(Clone, Debug, Default)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Bytes of body that the head promises.
    pub(crate) promised: u64,
    /// Time at which its first byte was offered to the driver: it had been decided by then.
    pub(crate) offered: Stamp,
    /// Offset in the stream of the byte after it.
    pub(crate) end: u64,
    /// Whether its head has arrived.
    pub(crate) head_done: bool,
}

impl Response {
    /// The value of a field; `None` if it is absent. Only `Vary` may have several lines.
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        let found = self.fields.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| &value[..])
    }

    /// Acts as [`Self::field`], but returns text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.field(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }
}

/// Reads a stream of responses.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    /// Bytes of a head that is not complete.
    pending: Vec<u8>,
    current: Option<Response>,
    /// Bytes read so far.
    pub(crate) offset: u64,
    /// Number of complete responses.
    pub(crate) count: usize,
}

impl Reader {
    /// Reads `bytes`, and passes each complete response with its number to `done`. `is_head` tells
    /// whether a response answers a `HEAD`.
    pub(crate) fn feed(
        &mut self,
        bytes: &[u8],
        offered: Stamp,
        is_head: impl Fn(usize) -> bool,
        mut done: impl FnMut(usize, Response) -> Result<(), BrokenCheck>,
    ) -> Result<(), BrokenCheck> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let before = rest.len();
            let current =
                self.current.get_or_insert_with(|| Response { offered, ..Response::default() });
            if !current.head_done {
                rest = take_head(&mut self.pending, rest);
                if self.pending.ends_with(b"\r\n\r\n") {
                    parse_head(current, &self.pending, is_head(self.count))?;
                    self.pending.clear();
                } else if self.pending.len() > 4096 {
                    return Err("a head has no end".into());
                }
            } else {
                let left = index(current.promised) - current.body.len();
                let (body, after) = rest.split_at(left.min(rest.len()));
                current.body.extend_from_slice(body);
                rest = after;
            }
            self.offset += (before - rest.len()) as u64;
            if current.head_done
                && current.body.len() as u64 == current.promised
                && let Some(mut response) = self.current.take()
            {
                response.end = self.offset;
                self.count += 1;
                done(self.count - 1, response)?;
            }
        }
        Ok(())
    }

    /// The response that has begun and not ended.
    pub(crate) fn unfinished(&self) -> Option<&Response> {
        self.current.as_ref()
    }
}

/// Moves bytes from `bytes` to `pending` up to the end of the head; returns the rest.
fn take_head<'a>(pending: &mut Vec<u8>, bytes: &'a [u8]) -> &'a [u8] {
    for (at, &byte) in bytes.iter().enumerate() {
        pending.push(byte);
        if byte == b'\n' && pending.ends_with(b"\r\n\r\n") {
            return &bytes[at + 1..];
        }
    }
    &[]
}

fn parse_head(response: &mut Response, head: &[u8], is_head: bool) -> Result<(), BrokenCheck> {
    let shown = String::from_utf8_lossy(head);
    let wrong = |what: &str| Err(format!("{what} in {shown:?}").into());
    if head.iter().any(|&byte| byte >= 0x7f || byte < 0x20 && byte != b'\r' && byte != b'\n') {
        return wrong("a control character or a byte outside ASCII");
    }
    let mut lines = shown[..shown.len() - 4].split("\r\n");
    let line = lines.next().unwrap_or_default();
    let Some(rest) = line.strip_prefix("HTTP/1.1 ") else {
        return wrong("no status line");
    };
    let (code, reason) = rest.split_at_checked(3).unwrap_or((rest, ""));
    match code.parse::<u16>() {
        Ok(status @ 100..=599) if reason.starts_with(' ') => response.status = status,
        _ => return wrong("no status"),
    }
    for line in lines {
        if line.contains(['\r', '\n']) {
            return wrong("a bare CR or LF");
        }
        let Some((name, value)) = line.split_once(": ") else {
            return wrong("no field line");
        };
        let token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if name.is_empty() || !name.bytes().all(token) || value.trim() != value || value.is_empty()
        {
            return wrong("no proper field line");
        }
        let name = name.to_ascii_lowercase();
        // Of the fields in these responses, only this is a list (RFC 9110 §5.3).
        if let Some((_, vary)) = response.fields.iter_mut().find(|(other, _)| *other == name) {
            if name != "vary" {
                return wrong("a field twice");
            }
            vary.extend(format!(", {value}").bytes());
            continue;
        }
        response.fields.push((name, value.as_bytes().to_vec()));
    }
    if response.status < 200 {
        return wrong("an interim response");
    }
    if response.field("transfer-encoding").is_some() {
        return wrong("a transfer coding");
    }
    let length = match response.text("content-length").map(|text| text.parse::<u64>()) {
        Some(Err(_)) => return wrong("a Content-Length that is no number"),
        Some(Ok(length)) => Some(length),
        None => None,
    };
    let bodiless = matches!(response.status, 204 | 304);
    if bodiless == length.is_some() {
        return wrong("a Content-Length where none belongs, or none where one does");
    }
    response.promised = if is_head { 0 } else { length.unwrap_or(0) };
    response.head_done = true;
    Ok(())
}

/// A part of a `multipart/byteranges` body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    pub(crate) content_type: String,
    pub(crate) content_range: String,
    pub(crate) bytes: &'a [u8],
}

/// Splits a body of `multipart/byteranges` (RFC 9110 §14.6).
pub(crate) fn parts<'a>(body: &'a [u8], content_type: &str) -> Result<Vec<Part<'a>>, BrokenCheck> {
    let Some(boundary) = content_type.strip_prefix("multipart/byteranges; boundary=") else {
        return Err(format!("no boundary in {content_type:?}").into());
    };
    let (first, end) = (format!("--{boundary}\r\n"), format!("\r\n--{boundary}"));
    let mut rest = body.strip_prefix(first.as_bytes()).ok_or("no first boundary")?;
    let mut parts = Vec::new();
    loop {
        let at = find(rest, b"\r\n\r\n").ok_or("a part's head has no end")?;
        let head = String::from_utf8_lossy(&rest[..at]).into_owned();
        let fields: Vec<_> = head.split("\r\n").filter_map(|line| line.split_once(": ")).collect();
        let [("Content-Type", content_type), ("Content-Range", content_range)] = fields[..] else {
            return Err(format!("a part's head is {head:?}").into());
        };
        rest = &rest[at + 4..];
        let len = length_of(content_range).ok_or(format!("{content_range:?} is no range"))?;
        let bytes = rest.get(..index(len)).ok_or("a part is short")?;
        rest = rest[index(len)..].strip_prefix(end.as_bytes()).ok_or("no boundary after a part")?;
        let (content_type, content_range) = (content_type.to_owned(), content_range.to_owned());
        parts.push(Part { content_type, content_range, bytes });
        match rest {
            b"--\r\n" => return Ok(parts),
            [b'\r', b'\n', after @ ..] => rest = after,
            _ => return Err("a boundary line goes on".into()),
        }
    }
}

/// Number of bytes in `bytes FIRST-LAST/TOTAL`.
fn length_of(content_range: &str) -> Option<u64> {
    let (range, _) = content_range.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::{Reader, parts};
    use crate::{BrokenCheck, trace::Stamp};

    fn read(text: &str, heads: &[usize]) -> Result<Vec<(u16, usize)>, BrokenCheck> {
        let mut reader = Reader::default();
        let mut all = Vec::new();
        for byte in text.bytes() {
            let is_head = |number: usize| heads.contains(&number);
            reader.feed(&[byte], Stamp::default(), is_head, |_, response| {
                all.push((response.status, response.body.len()));
                Ok(())
            })?;
        }
        match reader.unfinished() {
            Some(_) => Err("unfinished".into()),
            None => Ok(all),
        }
    }

    #[test]
    fn only_exact_framing_passes() {
        let ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
        let not = "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n";
        assert_eq!(read(&format!("{ok}{not}{ok}"), &[]), Ok(vec![(200, 2), (304, 0), (200, 2)]));
        assert_eq!(
            read(&format!("{}{ok}", &ok[..ok.len() - 2]), &[0]),
            Ok(vec![(200, 0), (200, 2)])
        );
        assert!(read(&ok[..ok.len() - 1], &[]).is_err());
        assert!(read(&format!("{ok}x{ok}"), &[]).is_err());
        assert!(read(&ok.replace("Length: 2", "Length: 3"), &[]).is_err());
        assert!(read(&ok.replace("Length: 2", "Length:2"), &[]).is_err());
        assert!(read(&ok.replace("Content-Length: 2", "A: b"), &[]).is_err());
        assert!(read(&not.replace("ETag: \"x\"", "Content-Length: 0"), &[]).is_err());
        assert!(read("HTTP/1.1 100 Continue\r\n\r\n", &[]).is_err());
    }

    #[test]
    fn parts_are_as_long_as_they_say() {
        let body = "--b\r\nContent-Type: t\r\nContent-Range: bytes 0-1/9\r\n\r\nab\r\n--b\r\n\
                    Content-Type: t\r\nContent-Range: bytes 4-4/9\r\n\r\ne\r\n--b--\r\n";
        let all = |body: &str| {
            let found = parts(body.as_bytes(), "multipart/byteranges; boundary=b")?;
            Ok::<_, BrokenCheck>(found.iter().map(|part| part.bytes.to_vec()).collect::<Vec<_>>())
        };
        assert_eq!(all(body), Ok(vec![b"ab".to_vec(), b"e".to_vec()]));
        assert!(all(&body.replace("ab", "abc")).is_err());
        assert!(all(&body.replace("--b--", "--b")).is_err());
        assert!(all(&body.replace("0-1", "0-2")).is_err());
    }
}
