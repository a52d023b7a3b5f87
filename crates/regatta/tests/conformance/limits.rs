//! Limits on heads and targets: 431 and 414 (RFC 6585 §5, RFC 9110 §15.5.15), then the end.

use crate::prelude::*;

/// A GET whose head is exactly `len` bytes.
fn head_of(len: usize) -> String {
    let start = "GET /small.txt HTTP/1.1\r\nHost: x\r\nX-Padding: ";
    format!("{start}{}\r\n\r\n", "p".repeat(len - start.len() - 4))
}

fn refused(server: &Server, bytes: &str, status: u16) {
    let mut client = server.connect();
    client.try_send(bytes);
    assert!(client.answer("GET").expect(status).closes(), "{status}");
    client.finish();
}

/// Fails unless a client gets this answer and may continue.
fn answered(server: &Server, bytes: &str, status: u16) {
    let mut client = server.asked(bytes);
    client.answer("GET").expect(status);
    client.get("/small.txt").expect(200);
}

pub(crate) fn head_at_the_limit(variant: &Variant) {
    let server = serve(variant);
    answered(&server, &head_of(16_384), 200);
    refused(&server, &head_of(16_385), 431);
    refused(&server, &head_of(100_000), 431);
}

pub(crate) fn head_limit_is_a_setting(variant: &Variant) {
    let limits = ["limits.head_bytes_max=1024", "limits.target_bytes_max=512"];
    let server = serve_with(variant, &limits);
    answered(&server, &head_of(1024), 200);
    refused(&server, &head_of(1025), 431);
}

pub(crate) fn head_without_end(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send("GET /small.txt HTTP/1.1\r\nHost: x\r\n");
    client.flood("X-Again: and again and again\r\n".repeat(100));
    assert!(client.answer("GET").expect(431).closes());
}

pub(crate) fn too_many_fields(variant: &Variant) {
    let with = |count: usize| {
        let lines: String = (1..count).map(|i| format!("X-{i}: y\r\n")).collect();
        format!("GET /small.txt HTTP/1.1\r\nHost: x\r\n{lines}\r\n")
    };
    let server = serve(variant);
    answered(&server, &with(64), 200);
    refused(&server, &with(65), 431);
    refused(&server, &with(500), 431);
    let server = serve_with(variant, &["limits.fields_max=8"]);
    answered(&server, &with(8), 200);
    refused(&server, &with(9), 431);
    let server = serve_with(variant, &["limits.fields_max=1024"]);
    let mut client = server.connect();
    for count in [1024, 2, 65] {
        client.send(with(count));
        client.answer("GET").expect(200);
    }
    refused(&server, &with(1025), 431);
}

/// A target of exactly `len` bytes, in short segments.
fn target_of(len: usize) -> String {
    let target = "/0123456789abcdef".repeat(len / 17 + 1);
    target[..len].to_owned()
}

pub(crate) fn target_at_the_limit(variant: &Variant) {
    let server = serve(variant);
    let text = |len| format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", target_of(len));
    answered(&server, &text(8192), 404);
    refused(&server, &text(8193), 414);
    refused(&server, &text(12_000), 414);
}

pub(crate) fn query_counts_as_target(variant: &Variant) {
    let server = serve_with(variant, &["limits.target_bytes_max=100"]);
    let text =
        |len: usize| format!("GET /small.txt?{} HTTP/1.1\r\nHost: x\r\n\r\n", "q".repeat(len - 11));
    answered(&server, &text(100), 200);
    refused(&server, &text(101), 414);
}

pub(crate) fn request_line_without_end(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send("GET /");
    client.flood("x".repeat(4096));
    assert!(client.answer("GET").expect_one_of(&[414, 431]).closes());
}

pub(crate) fn empty_lines_without_end(variant: &Variant) {
    let mut client = serve(variant).client();
    client.flood("\r\n".repeat(2048));
    // Servers skip some (RFC 9112 §2.2); without bound they are not a request.
    client.send_nothing_more();
    assert!(client.answer("GET").expect_one_of(&[400, 431]).closes());
}
