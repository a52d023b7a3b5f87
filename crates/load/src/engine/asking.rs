//! Requests of a load without a log: protocol, methods, contents, and URLs of a file.

use super::url::Url;
use clap::Args;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::Rng;
use regatta_http::Method;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Options of requests. Where a session log says otherwise, the log goes first.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// Method of the requests, -m or -X; by default GET, or POST with a content.
    #[arg(long, short = 'm', visible_short_alias = 'X', value_parser = parse_method)]
    pub method: Option<Method>,
    /// Send HEAD requests.
    #[arg(long, conflicts_with_all = ["method", "body", "body_file"])]
    pub head: bool,
    /// Content of the requests.
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file")]
    pub body: Option<String>,
    /// File with the content of the requests.
    #[arg(long, value_name = "FILE")]
    pub body_file: Option<PathBuf>,
    /// Content-Type of the requests that have a content.
    #[arg(long, value_name = "TYPE")]
    pub content_type: Option<String>,
    /// File of URLs of the server, one on a line, to request in order and repeatedly.
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["requests_from", "sessions", "workload"])]
    pub urls: Option<PathBuf>,
    /// Shuffle the requests of --urls or --requests-from, by the seed.
    #[arg(long)]
    pub shuffle: bool,
}

/// Options of the protocol.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtocolOptions {
    /// Ask by HTTP/2: over TLS, or in the clear by prior knowledge.
    #[arg(long)]
    pub http2: bool,
    /// Ask by HTTP/1.1; the default.
    #[arg(long, conflicts_with = "http2")]
    pub http1: bool,
    /// HTTP/2: requests that each connection carries at a time; by default 1.
    #[arg(long, value_name = "COUNT", requires = "http2")]
    pub streams: Option<u32>,
}

/// The most streams of a connection.
pub(super) const STREAMS_MOST: u32 = 10_000;

impl ProtocolOptions {
    /// Streams of each connection; 0: HTTP/1.1.
    pub(super) fn streams(&self) -> u32 {
        if self.http2 { self.streams.unwrap_or(1) } else { 0 }
    }
}

/// The largest content of a request, bytes.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// The largest file of URLs, bytes.
const URLS_BYTES_MAX: u64 = 64 << 20;

impl RequestOptions {
    /// Method of requests whose log does not say otherwise.
    pub(super) fn method(&self) -> Method {
        let has_content = self.body.is_some() || self.body_file.is_some();
        self.method.unwrap_or(match (self.head, has_content) {
            (true, _) => Method::Head,
            (_, true) => Method::Post,
            _ => Method::Get,
        })
    }

    /// Content of these requests.
    pub(super) fn content(&self) -> Result<Vec<u8>, String> {
        match &self.body_file {
            None => Ok(self.body.clone().unwrap_or_default().into_bytes()),
            Some(path) => read("--body-file", path, BODY_BYTES_MAX),
        }
    }

    /// Targets of the file of URLs. Each must be on the server of `url`.
    pub(super) fn targets(&self, url: &Url) -> Result<Vec<String>, String> {
        let Some(path) = &self.urls else { return Ok(vec![url.target.clone()]) };
        let text = String::from_utf8(read("--urls", path, URLS_BYTES_MAX)?)
            .map_err(|error| format!("--urls {}: {error}", path.display()))?;
        let mut targets = Vec::new();
        let lines = text.lines().map(str::trim).zip(1..);
        for (line, number) in lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')) {
            let whole = match line.strip_prefix('/') {
                Some(_) => &format!("{}{line}", url.origin()),
                None => line,
            };
            let at = || format!("--urls {}, line {number}", path.display());
            let found = Url::parse(whole).map_err(|problem| format!("{}: {problem}", at()))?;
            if found.origin() != url.origin() {
                return Err(format!("{}: {line} is not on {}", at(), url.origin()));
            }
            targets.push(found.target);
        }
        if targets.is_empty() {
            return Err(format!("--urls {}: the file has no URL", path.display()));
        }
        Ok(targets)
    }

    /// Shuffles the order of requests if that is wanted.
    pub(super) fn arrange(&self, order: &mut [u32], seed: u64) {
        if !self.shuffle {
            return;
        }
        let mut random = Pcg64::new(seed.into(), 0);
        for at in (1..order.len()).rev() {
            // The remainder is biased by less than one in 2^32.
            let other = random.next_u64() % (at as u64 + 1);
            order.swap(at, crate::number::index(other));
        }
    }
}

fn parse_method(text: &str) -> Result<Method, String> {
    if text.parse::<u32>().is_ok() {
        return Err(format!("-m is the method; what is -m in h2load is --streams {text}"));
    }
    match Method::from_text(text.as_bytes()) {
        Method::Other | Method::Connect => {
            Err("the methods are GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS and TRACE".to_owned())
        }
        method => Ok(method),
    }
}

fn read(option: &str, path: &Path, most: u64) -> Result<Vec<u8>, String> {
    let wrong = |problem: &dyn std::fmt::Display| format!("{option} {}: {problem}", path.display());
    let file = File::open(path).map_err(|error| wrong(&error))?;
    if fs::metadata(path).is_ok_and(|found| found.is_dir()) {
        return Err(wrong(&"a directory"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| wrong(&error))?;
    if bytes.len() as u64 > most {
        return Err(wrong(&format_args!("more than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::Folder;

    #[test]
    fn methods_follow_from_contents() {
        let method = |change: fn(&mut RequestOptions)| {
            let mut options = RequestOptions::default();
            change(&mut options);
            options.method()
        };
        assert_eq!(method(|_| {}), Method::Get);
        assert_eq!(method(|o| o.head = true), Method::Head);
        assert_eq!(method(|o| o.body = Some(String::new())), Method::Post);
        assert_eq!(method(|o| o.body_file = Some("x".into())), Method::Post);
        assert_eq!(
            method(|o| (o.body, o.method) = (Some("x".to_owned()), Some(Method::Put))),
            Method::Put
        );
    }

    #[test]
    fn methods_are_those_of_http() {
        assert_eq!(parse_method("PUT"), Ok(Method::Put));
        assert!(parse_method("32").unwrap_err().contains("--streams 32"));
        for text in ["get", "CONNECT", ""] {
            assert!(parse_method(text).unwrap_err().contains("POST"), "{text}");
        }
    }

    #[test]
    fn urls_of_a_file_are_on_the_server() {
        let folder = Folder::new("urls");
        let path = folder.join("urls");
        let url = Url::parse("http://a.test:81/first").unwrap();
        let options = RequestOptions { urls: Some(path.clone()), ..RequestOptions::default() };
        for (text, found) in [
            ("/a\n\n# no\nhttp://a.test:81/b?c\n", Ok(vec!["/a", "/b?c"])),
            ("http://A.test:81\n", Ok(vec!["/"])),
            (
                "/a\nhttp://b.test:81/\n",
                Err("line 2: http://b.test:81/ is not on http://a.test:81"),
            ),
            ("https://a.test:81/\n", Err("line 1")),
            ("/a b\n", Err("line 1")),
            ("# none\n", Err("has no URL")),
        ] {
            fs::write(&path, text).unwrap();
            match (options.targets(&url), found) {
                (Ok(targets), Ok(expected)) => assert_eq!(targets, expected, "{text}"),
                (Err(problem), Err(what)) => assert!(problem.contains(what), "{problem}"),
                (other, _) => panic!("{text}: {other:?}"),
            }
        }
        assert_eq!(RequestOptions::default().targets(&url).unwrap(), ["/first"]);
    }

    #[test]
    fn a_seed_is_an_order() {
        let options = RequestOptions { shuffle: true, ..RequestOptions::default() };
        let order = |seed| {
            let mut order: Vec<u32> = (0..100).collect();
            options.arrange(&mut order, seed);
            order
        };
        let (one, again, two) = (order(1), order(1), order(2));
        assert_eq!(one, again);
        assert_ne!(one, two);
        let mut sorted = one.clone();
        sorted.sort_unstable();
        assert!(sorted != one && sorted == (0..100).collect::<Vec<_>>());
    }
}
