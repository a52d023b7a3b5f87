//! Malformed messages: any doubt about framing is answered 400 once, and the connection ends.
//!
//! Each row is sent with a well-formed request behind it, which must never be answered. An answer
//! would mean a second way to read the bytes, and that is how requests are smuggled.

use crate::prelude::*;

/// Sends the bytes with a request behind them; expects one answer of this status, then the end.
fn refused(server: &Server, bytes: &[u8], statuses: &[u16]) {
    let shown = bytes[..bytes.len().min(160)].escape_ascii().to_string();
    let mut client = server.connect();
    client.try_send([bytes, &get("/a.txt")].concat());
    let answer = client.answer("GET");
    assert!(statuses.contains(&answer.status), "for {shown}: {answer:?}");
    assert!(answer.closes(), "no Connection: close for {shown}: {answer:?}");
    let rest = client.rest();
    assert!(rest.is_empty(), "after {shown} came {}", rest.escape_ascii());
}

fn all_refused(variant: &Variant, rows: impl IntoIterator<Item = String>) {
    let server = serve(variant);
    rows.into_iter().for_each(|row| refused(&server, row.as_bytes(), &[400]));
    server.connect().get("/small.txt").expect(200);
}

/// RFC 9112 §3: method SP request-target SP HTTP-version CRLF, and nothing else.
pub(crate) fn request_lines(variant: &Variant) {
    let lines = "GET  /small.txt HTTP/1.1|GET /small.txt  HTTP/1.1|GET /small.txt HTTP/1.1 |\
                 \x20GET /small.txt HTTP/1.1|GET\t/small.txt\tHTTP/1.1|GET /small.txt|\
                 GET /small .txt HTTP/1.1|GET HTTP/1.1|GET|G(T /small.txt HTTP/1.1|\
                 G\u{e9}T /small.txt HTTP/1.1|: /small.txt HTTP/1.1|GET small.txt HTTP/1.1|\
                 GET /small.txt\0x HTTP/1.1|GET /small.txt\x7f HTTP/1.1|\
                 GET /small.txt\x01 HTTP/1.1|\0GET /small.txt HTTP/1.1";
    let rows = lines.split('|').map(|line| format!("{line}\r\nHost: x\r\n\r\n"));
    let of_tls = "\u{16}\u{3}\u{1}\u{0}\u{a5}\u{1}\u{0}\u{0}\r\n\r\n".to_owned();
    all_refused(variant, rows.chain([of_tls]));
}

/// RFC 9112 §2.3: HTTP-name is case-sensitive, then one digit, a dot, one digit.
pub(crate) fn versions(variant: &Variant) {
    let row = |version: &str| format!("GET /small.txt {version}\r\nHost: x\r\n\r\n");
    let server = serve(variant);
    let malformed = "http/1.1|Http/1.1|HTTP/1|HTTP/1.|HTTP/.1|HTTP/1.10|HTTP/01.1|HTTP/1.1x|\
                     HTTP/1,1|HTTP/-1.1|HTTP /1.1|HTTPS/1.1|ICY/1.1";
    for version in malformed.split('|') {
        refused(&server, row(version).as_bytes(), &[400]);
    }
    for version in ["HTTP/2.0", "HTTP/3.0"] {
        refused(&server, row(version).as_bytes(), &[505]);
    }
    // RFC 9110 §6.2: a later minor version is answered as the latest that is known.
    for version in ["HTTP/1.2", "HTTP/1.9"] {
        let mut client = server.asked(row(version));
        assert_eq!(client.answer("GET").expect(200).body, b"small\n", "{version}");
        client.get("/small.txt").expect(200);
    }
    refused(&server, row("HTTP/0.9").as_bytes(), &[400, 505]);
    // Not quite the preface of HTTP/2 (RFC 9113 §3.4).
    refused(&server, b"PRI * HTTP/2.0\r\nHost: x\r\n\r\n", &[400, 505]);
    // In the clear, this begins a connection of HTTP/2.
    if variant.tls {
        refused(&server, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &[400, 505]);
    }
}

/// RFC 9112 §2.2 and §5: lines end in CRLF; names are tokens next to their colon; no folding.
pub(crate) fn field_lines(variant: &Variant) {
    let lines = "A : b|A\t: b| A: b|\tA: b|A: b\r\n folded|A: b\r\n\tfolded|: b|A|A b: c|A(: b|\
                 \u{e9}: b|A: b\u{0}c|A: b\u{1}c|A: b\u{7f}c|A: b\rc|A: b\nB: c|A\u{0}: b|A: b\r|\
                 \"A\": b";
    let server = serve(variant);
    for line in lines.split('|') {
        // Before, between and after good lines.
        for text in [
            format!("GET /small.txt HTTP/1.1\r\n{line}\r\nHost: x\r\n\r\n"),
            format!("GET /small.txt HTTP/1.1\r\nHost: x\r\n{line}\r\nB: c\r\n\r\n"),
            format!("GET /small.txt HTTP/1.1\r\nHost: x\r\n{line}\r\n\r\n"),
        ] {
            refused(&server, text.as_bytes(), &[400]);
        }
    }
}

/// A bare LF or CR never ends a line: other servers on the way may differ.
pub(crate) fn bare_line_ends(variant: &Variant) {
    let rests = "\nHost: x\r\n\r\n|\nHost: x\n\n|\r\nHost: x\n\r\n|\r\nHost: x\r\n\n|\
                 \rHost: x\r\n\r\n|\r\nHost: x\r\r\n\r\n|\r\r\nHost: x\r\n\r\n|\
                 \r\nHost: x\r\n\rA: b\r\n\r\n";
    all_refused(variant, rests.split('|').map(|rest| format!("GET /small.txt HTTP/1.1{rest}")));
}

fn with_field(field: &str) -> String {
    format!("GET /small.txt HTTP/1.1\r\nHost: x\r\n{field}\r\n\r\n")
}

/// RFC 9112 §6.3 rule 5, RFC 9110 §8.6: one Content-Length of digits only.
pub(crate) fn content_lengths(variant: &Variant) {
    let server = serve(variant);
    let malformed = "|+5|-1|-0|0x5|5x|x5|5 5|5;|5.0|5, 6|5,|,5|\u{b2}|1e1|18446744073709551616|\
                     99999999999999999999999999999999999999999";
    for value in malformed.split('|') {
        let text = with_field(&format!("Content-Length: {value}"));
        refused(&server, text.as_bytes(), &[400]);
    }
    for lines in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 0\r\nContent-Length: 38",
        "Content-Length: 0\r\nContent-Length: 0",
        "Content-Length: 0, 0",
        "Content-Length: 0\r\nA: b\r\ncontent-length: 5",
    ] {
        refused(&server, with_field(lines).as_bytes(), &[400]);
    }
}

/// RFC 9112 §6.1 and §6.3: any coding other than exactly `chunked`, or with a length, is refused.
pub(crate) fn transfer_encodings(variant: &Variant) {
    let server = serve(variant);
    let end = "0\r\n\r\n";
    let refusals = " Transfer-Encoding: chunked|Transfer-Encoding: chunked\r\nContent-Length: 5|\
                    Content-Length: 5\r\nTransfer-Encoding: chunked|\
                    Content-Length: 0\r\nTransfer-Encoding: chunked|Transfer-Encoding: gzip|\
                    Transfer-Encoding: chunked, gzip|Transfer-Encoding: gzip, chunked|\
                    Transfer-Encoding: chunked, chunked|\
                    Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked|\
                    Transfer-Encoding: identity|Transfer-Encoding: chunked, identity|\
                    Transfer-Encoding: xchunked|Transfer-Encoding: chunkedx|\
                    Transfer-Encoding: \"chunked\"|Transfer-Encoding: 'chunked'|\
                    Transfer-Encoding: chunked;q=1|Transfer-Encoding:|\
                    Transfer-Encoding: chunked\u{b}|Transfer-Encoding: \u{b}chunked|\
                    Transfer-Encoding : chunked|Transfer-Encoding\u{b}: chunked";
    for lines in refusals.split('|') {
        let text = with_field(lines) + end;
        // RFC 9112 §6.1 names 501 for a coding that is not understood.
        refused(&server, text.as_bytes(), &[400, 501]);
    }
}

/// RFC 9112 §6.1: Transfer-Encoding in HTTP/1.0 means faulty framing.
pub(crate) fn transfer_encoding_in_the_old_version(variant: &Variant) {
    let fields = "Transfer-Encoding: chunked\r\nConnection: keep-alive";
    let text = format!("GET /small.txt HTTP/1.0\r\nHost: x\r\n{fields}\r\n\r\n0\r\n\r\n");
    refused(&serve(variant), text.as_bytes(), &[400]);
}

/// RFC 9112 §7.1: a chunked body with a fault ends the connection; nothing behind it is read.
pub(crate) fn chunks(variant: &Variant) {
    let server = serve(variant);
    let bodies = " 1\r\na\r\n0\r\n\r\n|g\r\nabc\r\n0\r\n\r\n|\r\n\r\n|-1\r\na\r\n0\r\n\r\n|\
                  +1\r\na\r\n0\r\n\r\n|0x1\r\na\r\n0\r\n\r\n|1\na\r\n0\r\n\r\n|1\r\na\n0\r\n\r\n|\
                  1\r\na0\r\n\r\n|1\r\nab\r\n0\r\n\r\n|2\r\na\r\n0\r\n\r\n|1\ra\r\n0\r\n\r\n|\
                  1;x\ny\r\na\r\n0\r\n\r\n|1;\r\na\r\n0\r\n\r\n|1;=x\r\na\r\n0\r\n\r\n|\
                  1;x=\"y\r\na\r\n0\r\n\r\n|10000000000000000\r\na\r\n0\r\n\r\n|\
                  FFFFFFFFFFFFFFFF0\r\na\r\n0\r\n\r\n|1\r\na\r\n0\r\nA : b\r\n\r\n|\
                  1\r\na\r\n0\r\nA: b\nB: c\r\n\r\n|1\r\na\r\n0\r\n\n|1\r\na\r\n0\n\r\n";
    for body in bodies.split('|') {
        let text = with_field("Transfer-Encoding: chunked") + body;
        let mut client = server.connect();
        client.try_send([text.as_bytes(), &get("/a.txt")].concat());
        // The request itself was good, so an answer sent before the fault was seen may stand.
        let answer = client.answer("GET").expect_one_of(&[400, 200]);
        let rest = client.rest();
        assert!(rest.is_empty(), "after {body:?}: {answer:?} then {}", rest.escape_ascii());
    }
}

/// The same faults, arriving byte by byte: the split of bytes must not matter.
pub(crate) fn faults_in_pieces(variant: &Variant) {
    let server = serve(variant);
    for row in [
        "GET /small.txt HTTP/1.1\r\nHost: x\nA: b\r\n\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: x\r\r\n\r\n",
        "GET /small.txt HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 2\r\n\r\n",
    ] {
        let mut client = server.connect();
        for byte in row.bytes() {
            if !client.try_send([byte]) {
                break;
            }
        }
        assert!(client.answer("GET").expect(400).closes(), "{row:?}");
        client.finish();
    }
}

/// A refusal in the middle of a pipeline answers the requests before it.
pub(crate) fn fault_after_good_requests(variant: &Variant) {
    let mut client: Client = serve(variant).client();
    let bad = b"GET /small.txt HTTP/1.1\r\nHost : x\r\n\r\n".to_vec();
    client.send([get("/small.txt"), get("/a.txt"), bad, get("/a.txt")].concat());
    assert_eq!(client.answer("GET").expect(200).body, b"small\n");
    assert_eq!(client.answer("GET").expect(200).body, b"the letter a\n");
    client.answer("GET").expect(400);
    client.finish();
}
