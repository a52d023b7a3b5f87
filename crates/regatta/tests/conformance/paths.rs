//! From target to file: decoded once, dot segments removed, never above the root (RFC 3986).

use crate::prelude::*;

fn expect_text(client: &mut Client, target: &str, text: &str) {
    let answer = client.get(target);
    assert_eq!((answer.status, &*answer.text()), (200, text), "{target}: {answer:?}");
}

pub(crate) fn decoded_once(variant: &Variant) {
    let mut client = serve(variant).client();
    for (targets, text) in [
        ("/with%20space.txt", "space\n"),
        ("/caf%C3%A9.txt /caf%c3%a9.txt", "coffee\n"),
        ("/100%25.txt", "percent\n"),
        ("/a+b.txt /a%2Bb.txt", "plus\n"),
        ("/dots..name.txt /dots%2E%2ename%2etxt", "dots\n"),
        ("/%73mall.txt", "small\n"),
        ("/%61.txt", "the letter a\n"),
        ("/%2561.txt", "a percent sign\n"),
        ("/semi;colon:x=y,z.txt /semi%3Bcolon%3ax%3Dy%2cz.txt", "delimiters\n"),
        ("/back%5Cslash.txt", "backslash\n"),
        ("/sp%20ace/", "sp ace\n"),
    ] {
        targets.split(' ').for_each(|target| expect_text(&mut client, target, text));
    }
    for target in ["/with+space.txt", "/%252e%252e/secret.txt", "/caf%E9.txt", "/SMALL.TXT"] {
        client.get(target).expect(404);
    }
}

/// Asks on a new connection: the state of one after a 400 for a path does not matter here.
fn fresh_get(variant: &Variant, target: &str) -> Answer {
    serve(variant).connect().get(target)
}

pub(crate) fn bad_escapes(variant: &Variant) {
    let _running = serve(variant);
    for target in ["/%", "/%2", "/%zz", "/%2x", "/small%", "/a%u0041", "/%-1", "/% 20"] {
        fresh_get(variant, target).expect(400);
    }
    for target in ["/%00", "/small.txt%00", "/small.txt%00.html", "/%00/small.txt"] {
        fresh_get(variant, target).expect_one_of(&[400, 404]);
    }
}

pub(crate) fn encoded_slashes(variant: &Variant) {
    let _running = serve(variant);
    for target in ["/sub%2ffile.txt", "/sub%2Ffile.txt", "/%2fsmall.txt", "/sub%2f", "/sub/%2f"] {
        fresh_get(variant, target).expect_one_of(&[400, 404]);
    }
}

pub(crate) fn dot_segments(variant: &Variant) {
    let mut client = serve(variant).client();
    let targets = "/./small.txt /sub/../small.txt /sub/./../small.txt /missing/../small.txt \
                   /sub/deep/../../small.txt /%2e/small.txt /sub/%2e%2e/small.txt \
                   /sub/%2E./small.txt /sub/.%2e/small.txt";
    for target in targets.split(' ') {
        expect_text(&mut client, target, "small\n");
    }
    for target in ["/sub/.", "/sub/./", "/sub/deep/..", "/sub/deep/../"] {
        let answer = client.get(target).expect_one_of(&[200, 301, 308]);
        if answer.status == 200 {
            assert_eq!(answer.body, b"<!doctype html><title>Sub</title>\n", "{target}");
        } else {
            check_location(&answer, target, "/sub/");
        }
    }
}

pub(crate) fn climbing_above_the_root(variant: &Variant) {
    let _running = serve(variant);
    let climbs = "/../small.txt /.. /../ /sub/../../small.txt /sub/../../root/small.txt \
                  /%2e%2e/secret.txt /%2e%2e/outside/secret.txt /.%2e/secret.txt \
                  /../../../../../../../../etc/passwd /./../secret.txt";
    for target in climbs.split(' ') {
        let answer = fresh_get(variant, target).expect(400);
        assert!(!answer.text().contains(SECRET), "{target}");
    }
}

/// Every disguise of a climb that has deceived a server.
pub(crate) fn disguised_climbs(variant: &Variant) {
    let _running = serve(variant);
    let disguises = "/..%2fsecret.txt /..%2Foutside%2Fsecret.txt /sub/..%2f..%2fsecret.txt \
                     /%2e%2e%2fsecret.txt /..%5csecret.txt /..\\secret.txt \
                     /sub\\..\\..\\secret.txt /%5c..%5csecret.txt /....//secret.txt \
                     /..../secret.txt /..;/secret.txt /..;a=b/secret.txt /%252e%252e/secret.txt \
                     /%c0%ae%c0%ae/secret.txt /%e0%80%ae%e0%80%ae/secret.txt \
                     /%uff0e%uff0e/secret.txt /..%00/secret.txt /.%00./secret.txt \
                     /..%0d/secret.txt /~/secret.txt /sub/../..%2fsecret.txt //../secret.txt \
                     /sub/..//../secret.txt /.//../secret.txt /?/../secret.txt#/../secret.txt";
    for target in disguises.split(' ') {
        let answer = fresh_get(variant, target);
        assert!(!answer.text().contains(SECRET), "{target}: {answer:?}");
        if !target.starts_with("/?") {
            answer.expect_one_of(&[400, 404]);
        }
    }
}

pub(crate) fn empty_segments(variant: &Variant) {
    let mut client = serve(variant).client();
    expect_text(&mut client, "//small.txt", "small\n");
    expect_text(&mut client, "///small.txt", "small\n");
    expect_text(&mut client, "/sub//file.txt", "file in sub\n");
    expect_text(&mut client, "//sub///deep//file.txt", "file in deep\n");
}

pub(crate) fn queries_are_no_path(variant: &Variant) {
    let mut client = serve(variant).client();
    let targets = "/small.txt? /small.txt?a=b /small.txt?../../secret.txt /small.txt?%00%zz \
                   /small.txt??/x /small.txt?http://other.test/";
    for target in targets.split(' ') {
        expect_text(&mut client, target, "small\n");
    }
    client.get("/?q").expect(200);
    client.get("/missing.txt?/small.txt").expect(404);
    client.get("/small.txt%3Fq").expect(404);
}

pub(crate) fn files_are_no_folders(variant: &Variant) {
    let mut client = serve(variant).client();
    for target in ["/small.txt/", "/small.txt/more", "/small.txt/.", "/sub/file.txt//", "/fifo/x"] {
        client.get(target).expect(404);
    }
}

pub(crate) fn long_paths(variant: &Variant) {
    let mut client = serve(variant).client();
    client.get(&format!("/{}", "x".repeat(300))).expect(404);
    client.get(&"/x".repeat(2500)).expect(404);
    client.get(&format!("/{}", "%78".repeat(300))).expect(404);
    expect_text(&mut client, &format!("{}small.txt", "/".repeat(3000)), "small\n");
    expect_text(&mut client, &format!("/{}small.txt", "./".repeat(3000)), "small\n");
    expect_text(&mut client, &format!("/{}small.txt", "x/../".repeat(1000)), "small\n");
}
