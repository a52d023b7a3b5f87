//! `regatta load`: the model from its flags; the rest are options of the library.
use crate::{USAGE, say};
use clap::{Args, Subcommand};
use regatta_load::engine::merge::{self, MergeOptions};
use regatta_load::engine::{LoadOptions, Model, Rate, cli, parse_time};
use std::{path::PathBuf, time::Duration};

/// Connections of a load that names no model, as in wrk.
const CONNECTIONS: u32 = 10;

#[derive(Debug, Args)]
pub(crate) struct Load {
    #[command(subcommand)]
    command: Option<LoadCommand>,
    /// Closed model: the number of connections; each waits for a reply before its next request. 10
    /// without another model.
    #[arg(long, short = 'c', visible_alias = "connections", value_name = "CONNECTIONS")]
    #[arg(conflicts_with_all = ["rate", "sessions"])]
    closed: Option<u32>,
    /// Open model: requests per second, which do not wait for replies: `R`, `FROM:TO` (a ramp
    /// over the duration), or `R@SECONDS,R@SECONDS...`.
    #[arg(long, short = 'R', value_name = "RATE", conflicts_with = "sessions")]
    rate: Option<String>,
    /// Partly-open model: session logs in httperf's format, one per client; may be repeated. By
    /// default those of the workload.
    #[arg(long, value_name = "LOG")]
    sessions: Vec<PathBuf>,
    /// Partly-open model: sessions per second, as --rate; by default the times in the logs.
    #[arg(long, value_name = "RATE", conflicts_with_all = ["closed", "rate"])]
    session_rate: Option<String>,
    /// The most connections, in the open model.
    #[arg(long, requires = "rate")]
    connections_max: Option<u32>,
    /// Time between a reply and the next request, if no log has it; by default the workload's, or
    /// none.
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "rate")]
    think: Option<Duration>,
    #[command(flatten)]
    options: LoadOptions,
}

#[derive(Debug, Subcommand)]
enum LoadCommand {
    /// Add up the results of the shards of a load.
    #[command(after_help = "Example: regatta load merge 0.json 1.json --html load.html")]
    Merge(MergeOptions),
}

/// Runs the load, or merges the results of shards, and returns the exit code.
pub(crate) fn run(load: Load) -> u8 {
    if let Some(LoadCommand::Merge(options)) = &load.command {
        return merge::run(options);
    }
    match load.model() {
        Ok(model) => cli::run(&LoadOptions { model, ..load.options }),
        Err(problem) => {
            say(&format!("regatta load: {problem}\n"));
            USAGE
        }
    }
}

impl Load {
    fn model(&self) -> Result<Model, String> {
        // A ramp without a length takes the default duration.
        let ramp_s = self.options.duration.unwrap_or(Duration::from_secs(10)).as_secs_f64();
        let rate = |text: &String| Rate::parse(text, ramp_s);
        if let Some(connections) = self.closed {
            return Ok(Model::Closed { connections, think: self.think });
        }
        if let Some(text) = &self.rate {
            return Ok(Model::Open { rate: rate(text)?, connections_max: self.connections_max });
        }
        if self.sessions.is_empty() && self.options.workload.is_none() {
            if self.session_rate.is_some() {
                let what =
                    "--session-rate needs the sessions: give --sessions LOG, or --workload DIR";
                return Err(what.to_owned());
            }
            return Ok(Model::Closed { connections: CONNECTIONS, think: self.think });
        }
        let session_rate = self.session_rate.as_ref().map(rate).transpose()?;
        Ok(Model::PartlyOpen { sessions: self.sessions.clone(), session_rate, think: self.think })
    }
}
