//! A claim's verdict in plain sentences: what the paper says, what was seen, what would settle it.

use super::{Judged, Open, Verdict};
use crate::units::minutes;

impl Judged {
    /// The verdict as people read it, with what hides it where it cannot be told.
    pub fn verdict_words(&self) -> &'static str {
        match (self.verdict, &self.open) {
            (Verdict::Holds, _) => "holds",
            (Verdict::Fails, _) => "fails here",
            (Verdict::CannotTell, Some(Open::Noise { .. })) => "cannot be told: noise",
            (Verdict::CannotTell, Some(Open::Machine { .. })) => "cannot be told: machine",
            (Verdict::CannotTell, Some(Open::NotBuilt { .. })) => "cannot be told: not built",
            (Verdict::CannotTell, Some(Open::Replica { .. })) => "replica differs",
            (Verdict::CannotTell, _) => "not measured",
        }
    }

    /// Three sentences: the claim, what was seen, what settles it.
    pub fn sentences(&self) -> [String; 3] {
        let seen = if self.ours.is_empty() { "nothing of it yet" } else { &self.ours };
        // A claim of the user's own has no paper.
        let says = match self.paper.as_str() {
            "" => ended(self.gist.clone()),
            paper => format!("{} (paper: {paper}).", self.gist),
        };
        [says, ended(format!("Seen: {seen}")), ended(self.settles())]
    }

    /// What would settle the claim; of a settled one, what did.
    fn settles(&self) -> String {
        match &self.open {
            None => {
                let after = self.decided_after.map(|blocks| format!(" after {blocks} blocks"));
                format!("Settled{}: {}", after.unwrap_or_default(), self.why)
            }
            Some(Open::Noise { whether, blocks, enough, seconds }) => {
                let more = match (enough, seconds) {
                    (Some(enough), Some(seconds)) => format!(
                        "About {} more blocks would tell, {} of trials: run it again into another \
                         directory, and give both to `regatta lab verdicts`",
                        enough.saturating_sub(*blocks),
                        minutes(*seconds)
                    ),
                    _ => "How many blocks would tell is not known: a quieter machine might".into(),
                };
                format!("Too noisy: {}. {more}", whether.trim_end_matches('.'))
            }
            Some(Open::Machine { needs }) => format!("It takes another machine: {needs}"),
            Some(Open::NotBuilt { needs }) => format!("It takes {needs}"),
            Some(Open::Replica { differs }) => {
                format!("The replica differs from the paper's machine and load: {differs}")
            }
            Some(Open::Unmeasured { needs }) => format!("To be measured: {needs}"),
        }
    }
}

/// A sentence with its full stop.
fn ended(sentence: String) -> String {
    format!("{}.", sentence.trim_end().trim_end_matches('.'))
}
