//! Pipelining: answers arrive whole and in the order of the requests (RFC 9112 §9.3.2).

use crate::prelude::*;
use std::io::Write;

fn requests(sizes: impl Iterator<Item = usize>) -> Vec<u8> {
    sizes.flat_map(|size| get(&format!("/size-{size}.bin"))).collect()
}

fn sizes_in_order(client: &mut Client, sizes: impl Iterator<Item = usize>) {
    for (at, size) in sizes.enumerate() {
        let answer = client.answer("GET").expect(200);
        assert!(answer.body == sized(size), "answer {at}, of {size} bytes: {answer:?}");
    }
}

pub(crate) fn in_order(variant: &Variant) {
    let mut client = serve(variant).client();
    client.send(requests(SIZES.into_iter()));
    sizes_in_order(&mut client, SIZES.into_iter());
}

pub(crate) fn burst_of_a_hundred(variant: &Variant) {
    let mut client = serve(variant).client();
    let sizes = || (0..100).map(|i| SIZES[i % 7]);
    client.send(requests(sizes()));
    sizes_in_order(&mut client, sizes());
}

pub(crate) fn answers_larger_than_buffers(variant: &Variant) {
    let mut client = serve(variant).client();
    let sizes = || (0..12).map(|i| SIZES[i % 2 * 2 + 7]);
    client.send(requests(sizes()));
    thread::sleep(Duration::from_millis(50));
    sizes_in_order(&mut client, sizes());
}

pub(crate) fn requests_without_end_while_reading(variant: &Variant) {
    let mut client = serve(variant).client();
    let mut sender = client.sender();
    let writer = thread::spawn(move || {
        let batch = get("/size-4096.bin").repeat(50);
        for _ in 0..20 {
            sender.write_all(&batch).expect("the server goes on reading");
        }
    });
    sizes_in_order(&mut client, (0..1000).map(|_| 4096));
    writer.join().expect("all sent");
}

/// Two requests, whose answers [`check_pair`] checks.
fn pair() -> Vec<u8> {
    [request("HEAD", "/size-4095.bin", &[]), get("/sub/file.txt")].concat()
}

fn check_pair(client: &mut Client) {
    assert_eq!(client.answer("HEAD").expect(200).must("Content-Length"), "4095");
    assert_eq!(client.answer("GET").expect(200).body, b"file in sub\n");
}

pub(crate) fn split_at_every_byte(variant: &Variant) {
    let mut client = serve(variant).client();
    let pair = pair();
    for at in 1..pair.len() {
        client.send(&pair[..at]);
        thread::sleep(Duration::from_millis(1));
        client.send(&pair[at..]);
        check_pair(&mut client);
    }
}

pub(crate) fn byte_at_a_time(variant: &Variant) {
    let mut client = serve(variant).client();
    for _ in 0..2 {
        for byte in pair() {
            client.send([byte]);
        }
        check_pair(&mut client);
    }
}

pub(crate) fn nothing_after_close(variant: &Variant) {
    let mut client = serve(variant).client();
    let last = request("GET", "/a.txt", &[("Connection", "close")]);
    client.send([get("/small.txt"), last, get("/small.txt").repeat(20)].concat());
    client.answer("GET").expect(200);
    assert!(client.answer("GET").expect(200).closes());
    client.finish();
}

pub(crate) fn all_kinds_of_answers(variant: &Variant) {
    let mut client = serve(variant).client();
    let etag = client.get("/small.txt").expect(200).must("ETag").to_owned();
    let kinds: &[(&str, &str, &[Field], u16)] = &[
        ("GET", "/small.txt", &[], 200),
        ("HEAD", "/size-65537.bin", &[], 200),
        ("GET", "/missing.txt", &[], 404),
        ("GET", "/small.txt", &[("If-None-Match", &etag)], 304),
        ("GET", "/size-65537.bin", &[("Range", "bytes=65530-")], 206),
        ("GET", "/size-65537.bin", &[("Range", "bytes=70000-")], 416),
        ("HEAD", "/missing.txt", &[], 404),
        ("GET", "/small.txt", &[("If-Match", "\"x\"")], 412),
        ("GET", "/size-0.bin", &[], 200),
    ];
    let burst: Vec<u8> = kinds.iter().flat_map(|(m, t, f, _)| request(m, t, f)).collect();
    client.send(burst.repeat(3));
    for (method, target, _, status) in kinds.iter().cycle().take(kinds.len() * 3) {
        let answer: Answer = client.answer(method);
        assert_eq!(answer.status, *status, "{method} {target}: {answer:?}");
    }
}
