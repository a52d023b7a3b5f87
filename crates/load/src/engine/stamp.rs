//! What a run is worth, in a word.

use serde::{Deserialize, Serialize};

/// What a run is worth. The worst that applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Stamp {
    /// It says something about the server.
    #[default]
    #[serde(rename = "VALID")]
    Valid,
    /// Not every body was compared, or some were wrong.
    #[serde(rename = "UNVERIFIED")]
    Unverified,
    /// It changed while it was measured: a mean of it means nothing.
    #[serde(rename = "NOT-STEADY")]
    NotSteady,
    /// It says something about the generator.
    #[serde(rename = "LIMITED-BY-CLIENT")]
    LimitedByClient,
}

impl Stamp {
    /// As it is printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Valid => "VALID",
            Self::Unverified => "UNVERIFIED",
            Self::NotSteady => "NOT-STEADY",
            Self::LimitedByClient => "LIMITED-BY-CLIENT",
        }
    }
}

/// A reason, and the stamp that it asks for; [`Stamp::Valid`] for what is only good to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reason {
    /// The stamp that it asks for.
    pub stamp: Stamp,
    /// It, in a sentence.
    pub why: String,
}
