//! Texts of the race: its experiment, and the configuration that it ends with.

use super::START;
use crate::race::Settled;
use crate::race::space::{Candidate, DEFAULT};
use crate::units::template::{filled, quoted};
use serde_json::{Value, json};
use std::fmt::Write;

const EXPERIMENT: &str = include_str!("../../assets/best.toml");

/// The experiment that the trials of a race belong to, with everybody who took part so far. What
/// an arm's queues drop costs it, and is no reason to leave it out.
pub(super) fn experiment(settled: &Settled, arms: &[Candidate]) -> Result<String, String> {
    // Until that is known any rate will do.
    let rate = (settled.capacity * START).max(1.0);
    let target = |arm: &Candidate| json!({ "name": arm.name(), "config": arm.config });
    let targets: Vec<Value> = [Candidate::default()].iter().chain(arms).map(target).collect();
    let [warm_s, window_s, foreign_max] =
        [settled.warm_s, settled.window_s, settled.foreign_max].map(|value| value.to_string());
    let log = settled.log.as_ref().map(|log| log.to_string_lossy());
    let values = json!({ "baseline": DEFAULT, "root": settled.root, "rate": format!("{rate:.1}"),
        "slo": settled.slo, "log": log, "connections": settled.connections,
        "requests_per_connection": settled.requests_per_connection, "realtime": settled.realtime,
        "server_cpus": settled.server_cpus, "client_cpus": settled.client_cpus,
        "together": settled.together, "left": settled.left, "warm_s": warm_s,
        "window_s": window_s, "foreign_max": foreign_max, "targets": targets,
        "environment": settled.environment });
    filled("best.toml", EXPERIMENT, &values)
}

/// The configuration as a file that `regatta serve --config` takes; `lines` stand above it.
pub(super) fn configuration(root: &str, advice: Option<&Candidate>, lines: &[String]) -> String {
    let mut out: String = lines.iter().map(|line| format!("# {line}\n")).collect();
    let mut section = "server".to_owned();
    let _ = writeln!(out, "\n[server]\nroot = {}", quoted(root));
    let config = advice.map(|advice| advice.config.clone()).unwrap_or_default();
    // [server] has been begun already, so what belongs to it comes first.
    let (server, others): (Vec<_>, Vec<_>) =
        config.iter().partition(|(key, _)| key.starts_with("server."));
    for (key, value) in server.into_iter().chain(others) {
        let (at, name) = key.split_once('.').unwrap_or(("server", key));
        if at != section {
            let _ = writeln!(out, "\n[{at}]");
            at.clone_into(&mut section);
        }
        let plain = value.parse::<i64>().is_ok() || ["true", "false"].contains(&value.as_str());
        let value = if plain { value.clone() } else { quoted(value) };
        let _ = writeln!(out, "{name} = {value}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn configurations_are_toml_in_the_servers_words() {
        let advice = Candidate::of(&[
            ("server.architecture", "symped"),
            ("event.processes", "2"),
            ("event.poller", "epoll-edge"),
            ("cache.body_bytes_max", "0"),
            ("accept.defer", "true"),
        ]);
        let lines = ["It beats \"all\".".to_owned()];
        let text = configuration("/a \"b\"", Some(&advice), &lines);
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["server"]["architecture"].as_str(), Some("symped"), "{text}");
        assert_eq!(table["server"]["root"].as_str(), Some("/a \"b\""), "{text}");
        assert_eq!(table["event"]["processes"].as_integer(), Some(2));
        assert_eq!(table["accept"]["defer"].as_bool(), Some(true));
        assert!(text.starts_with("# It beats"));
        let table: toml::Table = configuration("/", None, &[]).parse().unwrap();
        assert_eq!(table.len(), 1);
    }
}
