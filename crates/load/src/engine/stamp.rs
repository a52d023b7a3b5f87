//! What a run is worth, in a word.

use serde::{Deserialize, Serialize};

crate::named! {
    /// What a run is worth. The worst that applies.
    #[derive(Default, PartialOrd, Ord)]
    pub enum Stamp {
        /// It says something about the server.
        #[default]
        Valid = "VALID",
        /// Not every body was compared, or some were wrong.
        Unverified = "UNVERIFIED",
        /// It changed while it was measured: a mean of it means nothing.
        NotSteady = "NOT-STEADY",
        /// It says something about the generator.
        LimitedByClient = "LIMITED-BY-CLIENT",
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
