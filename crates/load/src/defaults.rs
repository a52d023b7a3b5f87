//! Options with the defaults that their command line has.

use clap::{Args, Command};
use std::ffi::OsStr;

/// The options of a command of which nothing is said but these words.
///
/// # Panics
/// If it needs others.
pub fn with_defaults<O: Args>(words: &[&OsStr]) -> O {
    let command = O::augment_args(Command::new("options").no_binary_name(true));
    let said = command.try_get_matches_from(words).expect("it needs no others");
    O::from_arg_matches(&said).expect("it needs no others")
}
