//! Texts of the race: its experiment, and the configuration that it ends with.

use super::START;
use crate::race::Settled;
use crate::race::space::{Candidate, DEFAULT};
use std::fmt::Write;

/// The experiment that the trials of a race belong to, with everybody who took part so far.
pub(super) fn experiment(settled: &Settled, arms: &[Candidate]) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_experiment(settled, arms, &mut out);
    out
}

fn write_experiment(settled: &Settled, arms: &[Candidate], out: &mut String) -> std::fmt::Result {
    let root = quoted(&settled.root);
    writeln!(out, "[experiment]\nname = \"best\"\nbaseline = {}", quoted(DEFAULT))?;
    writeln!(
        out,
        "question = \"Which settings keep the service level up to the highest rate here?\""
    )?;
    writeln!(out, "expect = \"The default, unless another surely keeps it up to a higher one.\"")?;
    writeln!(out, "\n[workload]\nroot = {root}\nverify = false\nloop = \"open\"")?;
    // Until that is known any rate will do.
    let rate = (settled.capacity * START).max(1.0);
    writeln!(out, "rate = {rate:.1}\narrivals = \"poisson\"\nslo = {}", quoted(&settled.slo))?;
    match &settled.log {
        Some(log) => writeln!(out, "ask = \"log\"\nlog = {}", quoted(&log.to_string_lossy()))?,
        None => writeln!(out, "ask = \"files\"")?,
    }
    writeln!(out, "connections = {}", settled.connections)?;
    writeln!(out, "requests_per_connection = {}", settled.requests_per_connection)?;
    writeln!(out, "\n[machine]\nrealtime = {}", settled.realtime)?;
    writeln!(out, "server_cpus = {}", quoted(&settled.server_cpus))?;
    writeln!(out, "client_cpus = {}", quoted(&settled.client_cpus))?;
    let layout = if settled.together { "together" } else { "apart" };
    writeln!(out, "layout = \"{layout}\"\nserver_left = {}", settled.left)?;
    writeln!(out, "\n[measure]\nmode = \"knee\"\nmetric = {}", quoted(&settled.metric))?;
    writeln!(out, "warm_s = {}\nwindow_s = {}", settled.warm_s, settled.window_s)?;
    // What an arm's queues drop costs it, and is no reason to leave it out.
    writeln!(out, "\n[guards]\nclient_busy_max = 0.95\nsyn_drops_max = 1")?;
    writeln!(out, "foreign_max = {}\nsteal_max = {}", settled.foreign_max, settled.foreign_max)?;
    for arm in [Candidate::default()].iter().chain(arms) {
        let name = quoted(&arm.name());
        writeln!(out, "\n[targets.{name}]\nprogram = \"regatta\"")?;
        for (key, value) in &arm.config {
            writeln!(out, "config.{key} = {}", quoted(value))?;
        }
    }
    match &settled.environment {
        Some(environment) => writeln!(out, "\n{environment}"),
        None => Ok(()),
    }
}

/// A TOML string.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
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
