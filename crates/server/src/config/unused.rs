//! Options that were set, and have no effect under the chosen architecture or without others.
use crate::{
    config::{
        options,
        raw::{Problem, Said},
    },
    first_use, listens,
    log::SKIP_KEY,
    messages,
};
use regatta_arch::{ARCHITECTURES, Architecture};

/// Options that only encrypted connections use.
const OF_TLS: [&str; 4] =
    ["tls.certificate", "tls.version_min", "tls.ocsp", "tls.handshake_bytes_max"];
/// Options that only connections with session tickets use: those without certificates of clients.
const OF_TICKETS: [&str; 2] = ["tls.ticket_rotate_s", "tls.ticket_keys"];
/// Options that only connections with certificates of clients use.
const OF_CLIENTS: [&str; 2] = ["tls.client_ca", "tls.crl"];
/// Options that only connections of HTTP/2 use.
const OF_HTTP2: [&str; 4] =
    ["http2.streams_max", "http2.table_bytes", "http2.exchanges_max", "http2.unsent_bytes_max"];
const COMPRESS: &str = "content.compress";
const ETAG: &str = "content.etag";
const HTTP2: &str = "http2.enabled";
const HTTP2_CLEAR: &str = "http2.clear";
/// Limit of handshakes, and of PROXY headers.
const HANDSHAKE_MS_MAX: &str = "tls.handshake_ms_max";

/// Warns of each.
pub(super) fn warnings(said: &Said, architecture: &Architecture) -> Vec<Problem> {
    let given = options::all().filter(|spec| said.is_said(spec.key));
    let warn = |key| {
        let unused = || {
            lonely(said, key)
                .or_else(|| without_http2(said, key))
                .or_else(|| without_threads(said, architecture, key))
        };
        warning(said, architecture, key).or_else(unused)
    };
    let found = given.filter_map(|spec| warn(spec.key));
    found.chain(of_hosts(said, architecture)).collect()
}

/// Warns of what hosts set for themselves.
fn of_hosts(said: &Said, architecture: &Architecture) -> impl Iterator<Item = Problem> {
    said.all_hosts().skip(1).flat_map(move |host| {
        let own = [COMPRESS, ETAG].into_iter().filter(|key| host.place(key) != said.place(key));
        own.filter_map(|key| without_threads(host, architecture, key))
    })
}

/// Warns of compression at first use, and of tags of content, where workers cannot have the thread
/// that makes them.
fn without_threads(said: &Said, architecture: &Architecture, key: &str) -> Option<Problem> {
    let instead = match key {
        COMPRESS if said.settings.flag(COMPRESS) => "run `regatta precompress`",
        ETAG if said.settings.text(ETAG) == "content" => "set content.etag = \"inode\"",
        _ => return None,
    };
    let obstacle = first_use::obstacle(&said.settings, architecture.driver)?;
    let message = format!("no effect with {obstacle}");
    let found = said.problem(messages::OPTION_UNUSED, key, &message);
    Some(found.hint(format!("{instead}, or choose another architecture")))
}

/// Warns of an option of HTTP/2 that no connection uses. One that is set to its default is as if
/// unset, but for HTTP/2 in the clear without HTTP/2.
fn without_http2(said: &Said, key: &str) -> Option<Problem> {
    let settings = &said.settings;
    let (enabled, clear) = (settings.flag(HTTP2), settings.flag(HTTP2_CLEAR));
    let is_changed = settings.get(key) != Some(&options::default(key));
    let (lacking, hint) = match key {
        HTTP2_CLEAR if clear && !enabled => {
            (HTTP2, "set http2.enabled = true, or http2.clear = false")
        }
        _ if !OF_HTTP2.contains(&key) || !is_changed => return None,
        _ if !enabled => (HTTP2, "set http2.enabled = true, or leave it out"),
        _ if !clear && !listens::is_wanted(settings) => {
            (HTTP2_CLEAR, "set http2.clear = true, list addresses in tls.listen, or leave it out")
        }
        _ => return None,
    };
    let found = said.problem(messages::OPTION_UNUSED, key, &format!("no effect without {lacking}"));
    Some(found.hint(hint))
}

/// Warns of an option of TLS that no address uses, or of a log that is off. One that is set to its
/// default is as if unset.
fn lonely(said: &Said, key: &str) -> Option<Problem> {
    let settings = &said.settings;
    if settings.get(key) == Some(&options::default(key)) {
        return None;
    }
    let greets = settings.flag("server.proxy_protocol");
    let lacking = match key {
        _ if OF_TLS.contains(&key) && !listens::is_wanted(settings) => "tls.listen",
        HANDSHAKE_MS_MAX if !greets && !listens::is_wanted(settings) => "tls.listen",
        _ if OF_TICKETS.contains(&key) && settings.list("tls.listen").is_empty() => "tls.listen",
        SKIP_KEY if settings.text("log.access") == "off" => "log.access",
        _ if OF_CLIENTS.contains(&key) && settings.list("tls.client_listen").is_empty() => {
            "tls.client_listen"
        }
        _ => return None,
    };
    let message = format!("no effect without {lacking}");
    let found = said.problem(messages::OPTION_UNUSED, key, &message);
    let what = if lacking == "log.access" { "name a file" } else { "list addresses" };
    Some(found.hint(format!("{what} in {lacking}, or leave it out")))
}

fn warning(said: &Said, architecture: &Architecture, key: &str) -> Option<Problem> {
    let Architecture { name, driver, .. } = architecture;
    if driver.ignores.contains(&key) {
        let found = said.problem(messages::OPTION_UNUSED, key, &format!("no effect with {name}"));
        return Some(found.hint(format!("docs/arch/{name}.md says why; leave it out")));
    }
    if driver.takes(key) || options::is_ours(key) {
        return None;
    }
    let (_, last) = key.rsplit_once('.')?;
    let same = driver
        .options
        .iter()
        .find(|spec| spec.key.rsplit_once('.').is_some_and(|(_, name)| name == last));
    let instead = match same {
        Some(spec) => format!("set {}", spec.key),
        None => "leave it out".to_owned(),
    };
    let takes = ARCHITECTURES.iter().find(|other| other.driver.takes(key))?;
    let found = said.problem(messages::OPTION_UNUSED, key, &format!("{name} has no such option"));
    let hint = format!("{instead}, or choose an architecture that has it, such as {}", takes.name);
    Some(found.hint(hint))
}

#[cfg(test)]
mod tests {
    use super::warnings;
    use crate::config::raw::tests::{begin_with, of_good_file, of_sets};

    /// Warnings as text.
    fn warned(architecture: &str, sets: &[&str]) -> Vec<String> {
        let chosen = format!("server.architecture={architecture}");
        let said = of_sets(&[&[&*chosen], sets].concat());
        let architecture = regatta_arch::find(architecture).expect("a name of the table");
        warnings(&said, architecture).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn compression_and_tags_of_content_need_a_thread() {
        for (set, key, instead) in [
            ("content.compress=true", "content.compress", "run `regatta precompress`"),
            ("content.etag=content", "content.etag", "set content.etag = \"inode\""),
        ] {
            assert_eq!(warned("sped", &[set]), [""; 0]);
            assert_eq!(warned("amped", &[set]), [""; 0]);
            let warning = |with: &str| {
                format!(
                    "--set {set}: {key}: no effect with {with}\n  hint: {instead}, or choose \
                     another architecture"
                )
            };
            let helpers = warning("helpers that are processes");
            assert_eq!(warned("flash-1999", &[set]), [&*helpers]);
            assert_eq!(warned("amped", &["amped.helper_kind=processes", set]), [&*helpers]);
            assert_eq!(warned("shared-symped", &[set]), [warning("event.share")]);
        }
        assert_eq!(warned("flash-1999", &["content.etag=inode"]), [""; 0]);
    }

    #[test]
    fn hosts_that_want_compression_need_a_thread_too() {
        let host = "[[hosts]]\nnames = [\"a\"]\nroot = \"/srv\"\ncontent.compress = true\n";
        let all = "content.compress = true\n";
        let text = |more: &str| format!("{more}server.architecture = \"flash-1999\"\n{host}");
        for (more, places) in [("", vec!["r:5:"]), (all, vec!["r:1:", "r:6:"])] {
            let said = of_good_file(&text(more));
            let architecture = regatta_arch::find("flash-1999").expect("a name of the table");
            begin_with(&warnings(&said, architecture), &places);
        }
    }

    #[test]
    fn an_option_of_another_architecture_is_named_with_its_like() {
        let found = "--set event.poller=epoll: event.poller: knot-c has no such option\n  hint: \
                     set fiber.poller, or choose an architecture that has it, such as sped";
        assert_eq!(warned("knot-c", &["event.poller=epoll"]), [found]);
        for (architecture, set) in [
            ("watpipe5", "stages.bucket=7"),
            ("sped", "amped.helpers_max=1"),
            ("watpipe5", "accept.on_close=true"),
            ("bio", "accept.full_read=true"),
        ] {
            assert_eq!(warned(architecture, &[set]).len(), 1, "{architecture} {set}");
        }
        for (architecture, set) in [
            ("knot-c", "fiber.poller=epoll"),
            ("watpipe5", "stages.pool_control=queue"),
            ("seda", "stages.bucket=7"),
            ("sped", "accept.on_close=true"),
            ("mt", "limits.idle_ms_max=1s"),
            ("sped", "tls.listen=127.0.0.1:0"),
        ] {
            assert_eq!(warned(architecture, &[set]), [""; 0], "{architecture} {set}");
        }
    }

    #[test]
    fn an_option_of_http2_is_named_if_no_connection_uses_it() {
        const STREAMS: &str = "http2.streams_max=7";
        let check = |sets: &[&str], expected: &[&str]| assert_eq!(warned("sped", sets), expected);
        check(&[STREAMS, "http2.clear=true"], &[]);
        check(&["http2.enabled=false", "http2.clear=false", "http2.streams_max=100"], &[]);
        check(&[STREAMS, "http2.clear=false", "tls.listen=127.0.0.1:0"], &[]);
        let found = "--set http2.streams_max=7: http2.streams_max: no effect without \
                     http2.enabled\n  hint: set http2.enabled = true, or leave it out";
        check(&["http2.enabled=false", STREAMS], &[found]);
        let found = "--set http2.clear=true: http2.clear: no effect without http2.enabled\n  \
                     hint: set http2.enabled = true, or http2.clear = false";
        check(&["http2.enabled=false", "http2.clear=true"], &[found]);
        let found = "--set http2.streams_max=7: http2.streams_max: no effect without \
                     http2.clear\n  hint: set http2.clear = true, list addresses in tls.listen, \
                     or leave it out";
        check(&["http2.clear=false", STREAMS], &[found]);
    }

    #[test]
    fn paths_that_no_log_has_anyway_are_named() {
        let set = "log.skip=/healthz";
        let found = warned("sped", &[set]);
        assert!(found[0].contains("log.skip: no effect without log.access"), "{found:?}");
        assert!(found[0].ends_with("name a file in log.access, or leave it out"), "{found:?}");
        assert_eq!(warned("sped", &[set, "log.access=-"]), [""; 0]);
    }

    #[test]
    fn an_option_of_tls_is_named_if_no_address_uses_it() {
        let found = "--set tls.certificate=a.pem: tls.certificate: no effect without tls.listen\n  \
                     hint: list addresses in tls.listen, or leave it out";
        assert_eq!(warned("sped", &["tls.certificate=a.pem"]), [found]);
        for set in ["tls.version_min=1.3", "tls.ocsp=a:b", "tls.handshake_ms_max=1s"] {
            let greets = usize::from(set != "tls.handshake_ms_max=1s");
            for (sets, expected) in [
                (&[set][..], 1),
                (&[set, "tls.listen=127.0.0.1:0"], 0),
                (&[set, "tls.client_listen=127.0.0.1:0"], 0),
                (&[set, "server.proxy_protocol=true"], greets),
            ] {
                assert_eq!(warned("sped", sets).len(), expected, "{sets:?}");
            }
        }
        for (set, key) in [
            ("tls.ticket_rotate_s=60", "tls.listen"),
            ("tls.ticket_keys=a.key", "tls.listen"),
            ("tls.client_ca=a.pem", "tls.client_listen"),
            ("tls.crl=a.pem", "tls.client_listen"),
        ] {
            let warned = warned("sped", &[set]);
            assert!(warned[0].contains(&format!("no effect without {key}")), "{warned:?}");
        }
    }
}
