//! Variables of the environment in a configuration.
use super::{Location, Said};
use std::fmt::Write as _;

/// Variable in the value of an option or field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedVariable {
    /// Name of the variable.
    pub name: String,
    /// Whether it is not set, or empty, and its default counts.
    pub by_default: bool,
    /// Name of the option or field.
    pub key: &'static str,
    /// Place of the value.
    pub place: Location,
}

impl Said {
    /// Prints the variables of the environment in the files as comments; empty without any.
    #[must_use]
    pub fn print_variables(&self) -> String {
        let mut text = String::new();
        for UsedVariable { name, by_default, key, place } in &self.variables {
            let how = if *by_default { " (not set: its default)" } else { "" };
            let _ = writeln!(text, "# from the environment: {name}{how} in {key}, {place}");
        }
        text
    }
}
