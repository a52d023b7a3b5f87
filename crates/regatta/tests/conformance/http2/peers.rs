//! Clients of HTTP/2 that others have written.

use crate::folder::Folder;
use crate::prelude::*;
use crate::tls::{output_of, text_of};

/// Address of a file at a host.
fn url(variant: &Variant, host: &str, size: usize) -> String {
    let scheme = if variant.tls { "https" } else { "http" };
    format!("{scheme}://{host}/size-{size}.bin")
}

/// All sizes over one connection, one after another and at once.
pub(crate) fn curl_is_served(variant: &Variant) {
    let server = serve(variant);
    let host = format!("{NAME}:{}", server.address().port());
    let resolve = format!("{host}:127.0.0.1");
    let authority = text_of(&identity().authority_file);
    let version = if variant.tls { "--http2" } else { "--http2-prior-knowledge" };
    let said = "%{http_version} %{response_code} %{num_connects}\n";
    let common = ["-sS", "--fail", "--noproxy", "*", "--cacert", authority, "--resolve", &resolve];
    // curl 7.88 fails to use a connection by prior knowledge again, also one to nghttpd.
    let per_command = if variant.tls { SIZES.len() } else { 1 };
    let ways: [&[&str]; 2] = [&[], &["--parallel", "--parallel-max", "10"]];
    for (together, sizes) in
        ways.into_iter().flat_map(|way| SIZES.chunks(per_command).map(move |sizes| (way, sizes)))
    {
        let folder = Folder::new("curl-http2");
        let args = [&common[..], &[version, "-w", said], together].concat().into_iter();
        let mut args: Vec<String> = args.map(str::to_owned).collect();
        for size in sizes {
            let to = folder.join(size.to_string());
            args.extend(["-o".to_owned(), text_of(&to).to_owned(), url(variant, &host, *size)]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let Some(said) = output_of("curl", &args, b"") else { return };
        assert!(said.lines().all(|line| line.starts_with("2 200 ")), "{said}");
        let connects = said.lines().filter(|line| line.ends_with(" 1")).count();
        assert!(connects == 1 || !together.is_empty(), "{connects} connections: {said}");
        for size in sizes {
            let got = fs::read(folder.join(size.to_string())).unwrap_or_default();
            assert!(got == sized(*size), "{size}: {} bytes, {together:?}", got.len());
        }
    }
}

pub(crate) fn nghttp_is_served(variant: &Variant) {
    let server = serve(variant);
    let host = server.address().to_string();
    // Twenty streams of one connection. `-n` discards the content, and `-s` lists the streams.
    let url = |at: usize| format!("{}?{at}", url(variant, &host, SIZES[at % SIZES.len()]));
    let urls: Vec<String> = (0..20).map(url).collect();
    let authority = [format!("-H:authority: {NAME}")];
    let args = ["-n", "-s", "--no-verify-peer"].into_iter();
    let args: Vec<&str> = args.chain(authority.iter().chain(&urls).map(String::as_str)).collect();
    let Some(said) = output_of("nghttp", &args, b"") else { return };
    let served = said.lines().filter(|line| line.contains(" 200 ")).count();
    assert_eq!(served, 20, "{said}");
}

/// All tests of h2spec, the strict ones too.
pub(crate) fn h2spec_passes(variant: &Variant) {
    let server = serve(variant);
    let to = server.endpoint();
    let (host, port) = (to.address.ip().to_string(), to.address.port().to_string());
    let mut args = vec!["-S", "-h", host.as_str(), "-p", port.as_str(), "-P", "/size-65537.bin"];
    if to.is_tls {
        args.extend(["-t", "-k"]);
    }
    let Some(said) = output_of("h2spec", &args, b"") else { return };
    assert!(said.contains(" 0 failed"), "{said}");
}
