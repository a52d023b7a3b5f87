//! Tests of the interpretation: which settings are refused, and what is chosen.
use super::*;
use crate::config::{environment::tests::environment, raw::tests::of_sets};
use regatta_arch::layout::ADDRESSES_MAX;
use regatta_sys::{groups::Group, limits::ThreadRoom};

/// A machine with two processors, whose limits are far.
pub(in crate::config) fn roomy() -> Allowance {
    Allowance {
        descriptors_max: 20_000,
        cpus: vec![0, 1],
        machine_bytes: 1 << 34,
        threads: ThreadRoom::NONE,
        group: Group::default(),
    }
}

/// A configuration of `--set` on a machine, or its problems.
pub(in crate::config) fn understood(
    sets: &[&str],
    allowance: &Allowance,
) -> Result<Config, Vec<String>> {
    understand(of_sets(sets), &[], allowance)
        .map_err(|(_, problems)| problems.iter().map(ToString::to_string).collect())
}

fn config(sets: &[&str], descriptors_max: u64) -> Result<Config, Vec<String>> {
    understood(sets, &Allowance { descriptors_max, ..roomy() })
}

#[test]
fn there_are_only_so_many_addresses() {
    let mut listen = format!("server.listen={}", ["127.0.0.1:0"; ADDRESSES_MAX].join(","));
    assert!(config(&[&listen], 4096).is_ok());
    listen.push_str(",127.0.0.1:0");
    let problems = config(&[&listen], 4096).unwrap_err();
    assert_eq!(problems.len(), 1, "{problems:#?}");
    assert!(problems[0].to_string().contains("257 addresses, and there may be 256"));
}

#[test]
fn rules_for_the_clear_need_an_address_with_tls() {
    let tls = "tls.listen=unix:/tls,127.0.0.1:8443";
    for (sets, part) in [
        (&["tls.redirect=true"][..], Some("tls.redirect: there is no address with TLS")),
        (&["tls.redirect=true", "tls.listen=unix:/tls"], Some("to redirect to")),
        (&["tls.redirect=true", "tls.listen=unix:/tls:443"], Some("to redirect to")),
        (&["tls.redirect=true", "tls.listen=/tls:443"], Some("to redirect to")),
        (&["tls.redirect=true", tls], None),
        (&["tls.hsts_s=300"], Some("tls.hsts_s: 300 seconds: there is no address with TLS")),
        (&["tls.hsts_s=300", tls], Some("server.listen serves files in the clear")),
        (&["tls.hsts_s=300", "tls.redirect=true", tls], None),
        (&["tls.hsts_s=300", "server.listen=", tls], None),
        (&["tls.hsts_s=300", "server.listen=", "tls.client_listen=127.0.0.1:0"], None),
        (&["tls.hsts_s=0", tls], None),
    ] {
        let mut problems = Vec::new();
        transport(&of_sets(sets), &mut problems);
        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), part.iter().count(), "{found:?}");
        assert!(found.iter().zip(part).all(|(found, part)| found.contains(part)), "{found:?}");
    }
}

#[test]
fn everything_that_does_not_fit_is_listed() {
    let problems = config(
        &[
            "server.listen=127.0.0.1:1,127.0.0.1:1,127.0.0.1:0,127.0.0.1:0,nope",
            "content.index=a/b,..",
            "content.fallback=/index.html",
            "content.not_found=../x",
            "content.charset=utf 8",
            "content.cache_control_page=é",
            "content.types=log",
            "limits.target_bytes_max=16384",
            "log.skip=healthz",
            "server.name=é",
        ],
        4096,
    )
    .unwrap_err();
    let starts = [
        "--set server.listen=127.0.0.1:1,127.0.0.1:1,127.0.0.1:0,127.0.0.1:0,nope: \
         server.listen: 127.0.0.1:1 is listed twice",
        "--set server.listen=",
        "--set limits.target_bytes_max=16384: limits.target_bytes_max: ",
        "--set log.skip=healthz: log.skip: \"healthz\": a pattern starts",
        "--set server.name=é: server.name: \"é\" cannot be the value",
        "--set content.index=a/b,..: content.index: \"a/b\"",
        "--set content.index=a/b,..: content.index: \"..\"",
        "--set content.fallback=/index.html: content.fallback: ",
        "--set content.not_found=../x: content.not_found: ",
        "--set content.charset=utf 8: content.charset: ",
        "--set content.cache_control_page=é: content.cache_control_page: ",
        "--set content.types=log: content.types: \"log\" is not",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem}\n{start}");
    }
}

#[test]
fn unix_sockets_have_a_mode_and_a_word_for_their_proxies() {
    let with_mode = |mode| config(&[&format!("server.socket_mode={mode}")], 4096);
    assert!(["0660", "600", "0777"].into_iter().all(|mode| with_mode(mode).is_ok()));
    for mode in ["", "66", "0888", "+660", "7777", "rw-"] {
        let problems = with_mode(mode).unwrap_err();
        assert!(problems[0].contains("is no mode of a file"), "{mode}: {problems:?}");
    }
    let warned = |trusted| {
        let sets = ["server.listen=unix:/run/a", "server.proxy_protocol=true", trusted];
        config(&sets, 4096).unwrap().warnings.len()
    };
    assert_eq!(warned("server.trusted=10.0.0.1"), 1);
    assert_eq!(warned("server.trusted=10.0.0.1,unix:"), 0);
}

#[test]
fn addresses_with_tls_are_others_and_need_certificates() {
    let config = |sets: &[&str]| config(&[&["server.architecture=sped"], sets].concat(), 4096);
    let certificate = "tls.certificate=a.pem";
    let good = config(&[
        "server.listen=127.0.0.1:80",
        "tls.listen=127.0.0.1:443,unix:/run/a",
        "tls.client_listen=127.0.0.1:444",
        "tls.client_ca=b.pem",
        certificate,
    ]);
    let listen: Vec<_> = good.unwrap().listen.into_iter().map(|of| of.class.0).collect();
    assert_eq!(listen, [0, 1, 1, 2]);
    let alone = ["server.listen=", "tls.listen=127.0.0.1:443", certificate];
    assert_eq!(config(&alone).unwrap().layout.classes, [listens::TLS]);
    let clients = "tls.client_listen: certificates of clients";
    let in_both = "tls.listen: 127.0.0.1:8080 is in server.listen as well (by default)";
    let twice = "tls.listen: 127.0.0.1:1 is listed twice";
    for (sets, expected) in [
        (&["server.listen="][..], "server.listen: there is no address"),
        (&["tls.listen=127.0.0.1:443"], "tls.listen: connections need a certificate"),
        (&["tls.client_listen=127.0.0.1:443", certificate], clients),
        (&["tls.listen=127.0.0.1:8080", certificate], in_both),
        (&["tls.listen=127.0.0.1:1,127.0.0.1:1", certificate], twice),
    ] {
        let problems = config(sets).unwrap_err();
        let expected = format!("--set {}: {expected}", sets[0]);
        assert!(problems.len() == 1 && problems[0].starts_with(&expected), "{problems:#?}");
    }
}

#[test]
fn given_sockets_are_in_the_clear_unless_they_are_named() {
    let place = |text: &str| place(text).unwrap();
    let all = [place("127.0.0.1:80"), place("127.0.0.1:443")];
    let listens = |sets: &[&str]| {
        let mut said = of_sets(sets);
        given(&mut said, &all);
        said.settings.list(LISTEN_KEY).to_vec()
    };
    assert_eq!(listens(&[]), ["127.0.0.1:80", "127.0.0.1:443"]);
    assert_eq!(listens(&["tls.listen=127.0.0.1:443"]), ["127.0.0.1:80"]);
    assert_eq!(listens(&["tls.listen=127.0.0.1:443,127.0.0.1:80"]), [""; 0]);
    assert_eq!(listens(&["server.listen=127.0.0.1:1"]), ["127.0.0.1:1"]);
}

#[test]
fn a_port_of_the_environment_counts_if_no_address_is_configured() {
    let listens = |sets: &[&str], port: &str| {
        let mut said = of_sets(sets);
        let chosen = super::port(&mut said, &environment(&[("PORT", port)]))?;
        Ok::<_, Problem>((said.settings.list(LISTEN_KEY).join(","), chosen.is_some()))
    };
    assert_eq!(listens(&[], "80"), Ok(("0.0.0.0:80".to_owned(), true)));
    let fault = listens(&[], "http").unwrap_err().to_string();
    assert!(fault.starts_with("PORT in the environment: \"http\" is not a port"), "{fault}");
    let set = "server.listen=127.0.0.1:1";
    assert_eq!(listens(&[set], "http"), Ok(("127.0.0.1:1".to_owned(), false)));
    let set = "tls.listen=127.0.0.1:1";
    assert_eq!(listens(&[set], "80"), Ok(("127.0.0.1:8080".to_owned(), false)));
}

#[test]
fn descriptors_are_shared_out() {
    let helpers =
        ["server.architecture=amped", "amped.helper_kind=processes", "amped.helpers_max=64"];
    let too_many = "--set limits.connections_max=721: limits.connections_max: 721 connections \
                    beside 240 open files exceed the limit of 1024 descriptors \
                    (RLIMIT_NOFILE), of which 64 are reserved\n  hint: raise the limit \
                    (ulimit -n, LimitNOFILE=), or lower limits.connections_max";
    let both = "limits.connections_max: 700 connections beside 300 open files (--set \
                cache.descriptors_max=300) exceed";
    let full = "cache.descriptors_max: 960 open files leave no room for connections within";
    let none = "by default: limits.connections_max: there is no room for a connection within \
                the limit of 64 descriptors";
    for (sets, limit, expect) in [
        (&[][..], 1_000_000, Ok((1_000_000 - 64 - 8192, 8192))),
        (&[], 1024, Ok((720, 240))),
        (&["cache.descriptors_max=100"], 1024, Ok((860, 100))),
        (&["cache.enabled=false"], 1024, Ok((960, 0))),
        (&helpers, 1024, Ok((624, 208))),
        (&["limits.connections_max=10"], 1024, Ok((10, 240))),
        (&["limits.connections_max=720"], 1024, Ok((720, 240))),
        (&["limits.connections_max=721"], 1024, Err(too_many)),
        (&["limits.connections_max=700", "cache.descriptors_max=300"], 1024, Err(both)),
        (&["limits.connections_max=10", "cache.descriptors_max=960"], 1024, Err(full)),
        (&[], 64, Err(none)),
    ] {
        // A single process, however many processors this machine has.
        let sets = [&["server.architecture=sped"], sets].concat();
        match (config(&sets, limit), expect) {
            (Ok(config), Ok((connections, cache))) => {
                assert_eq!(config.layout.shares.len(), 1);
                assert_eq!(config.layout.shares[0].connections_max, connections);
                assert_eq!(config.said.settings.number("cache.descriptors_max"), cache);
            }
            (Err(problems), Err(part)) => assert!(problems[0].contains(part), "{problems:?}"),
            (got, expect) => panic!("{sets:?}: {got:?}, expected {expect:?}"),
        }
    }
}

/// A thread of a pipeline accepts from each address, with its own poller and bell.
#[test]
fn the_addresses_of_a_pipeline_take_descriptors() {
    let room = |architecture: &str, listen: &str| {
        let architecture = format!("server.architecture={architecture}");
        let sets = [&*architecture, listen, "cache.descriptors_max=100"];
        config(&sets, 1024).unwrap().layout.shares[0].connections_max
    };
    let listen = format!("server.listen={}", ["127.0.0.1:0"; 10].join(","));
    assert_eq!(room("sped", &listen), 860);
    assert_eq!(room("watpipe5", &listen), 860 - 2 * 10);
}

#[test]
fn connections_are_a_total_that_workers_split() {
    let symped = |sets: &[&str], limit| {
        let all = [&["server.architecture=symped", "event.processes=3"], sets].concat();
        let config = config(&all, limit).map_err(|problems| problems[0].clone())?;
        let shares = config.layout.shares.iter();
        Ok(shares.map(|share| share.connections_max).collect::<Vec<_>>())
    };
    let each = 1024 - 64 - 240;
    assert_eq!(symped(&[], 1024), Ok(vec![each; 3]), "each has descriptors of its own");
    assert_eq!(symped(&["limits.connections_max=11"], 1024), Ok(vec![4, 4, 3]));
    let exclusive = ["cache.enabled=false", "event.listen=exclusive"];
    assert_eq!(symped(&exclusive, 1024), Ok(vec![1024 - 64 - 2; 3]), "the others' bells");
    assert_eq!(symped(&["limits.connections_max=2160"], 1024), Ok(vec![720; 3]));
    for (number, part) in [
        (2161, "721 connections in each of 3 workers beside 240 open files exceed"),
        (2, "2 connections cannot be split among 3 workers"),
    ] {
        let set = format!("limits.connections_max={number}");
        let problem: String = symped(&[&*set], 1024).unwrap_err();
        assert!(problem.contains(part), "{problem}");
    }
    let shared = "event.share=descriptors-and-cache";
    let each = (1024 - 64 - 3 * 11 - 231) / 3;
    assert_eq!(symped(&[shared], 1024), Ok(vec![each; 3]), "one table for all");
    let most = symped(&[shared, "limits.connections_max=696"], 1024);
    assert_eq!(most, Ok(vec![232; 3]));
    let problem = symped(&[shared, "limits.connections_max=697"], 1024).unwrap_err();
    let part = "697 connections beside 231 open files exceed the limit of 1024 descriptors \
                (RLIMIT_NOFILE), of which 97 are reserved";
    assert!(problem.contains(part), "{problem}");
}

#[test]
fn what_a_name_stands_for_is_bounded_by_the_machine() {
    for (limit, expect) in [(20_000, 15_000), (1024, 960)] {
        let config = config(&["server.architecture=accept25"], limit).unwrap();
        assert_eq!(config.layout.shares[0].connections_max, expect);
        assert_eq!(config.settings().number("limits.connections_max"), expect as u64);
    }
}

#[test]
fn there_are_no_more_workers_than_the_master_has_descriptors_for() {
    for (limit, expect) in [(20_000, 256), (1024, 192)] {
        let config = config(&["server.architecture=mp"], limit).unwrap();
        assert_eq!(config.layout.shares.len(), expect);
        let chosen = config.chosen.iter().find(|one| one.key == CONNECTIONS_KEY).unwrap();
        assert_eq!(chosen.value, expect.to_string());
    }
    for sets in [
        ["server.architecture=mp", "limits.connections_max=193"],
        ["server.architecture=symped", "event.processes=193"],
    ] {
        let problems = config(&sets, 1024).unwrap_err();
        for part in ["193 workers needs 5 descriptors for each", "has room for 192"] {
            assert!(problems[0].contains(part), "{problems:?}");
        }
    }
}

#[test]
fn copies_that_cannot_be_laid_out_are_a_problem() {
    let sets = ["server.architecture=n-copy", "event.copies=2", "server.listen=127.0.0.1:65535"];
    let problems = config(&sets, 4096).unwrap_err();
    assert!(problems[0].starts_with("--set event.copies=2: event.copies: "), "{problems:?}");
}
