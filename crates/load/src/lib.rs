//! The load generator's half of the laboratory: file sets, session logs and what they predict.
//!
//! Nothing here knows the server: the ruler is not made of the thing measured.
#![forbid(unsafe_code)]
#![expect(missing_docs, reason = "fields and functions whose names say it all have none")]

pub mod bare;
pub mod engine;
#[cfg(test)]
use regatta_testkit::folder;
mod number;
pub mod page;
pub mod workload;

use clap::{Args, Command};
use std::ffi::OsStr;

/// Options of a command that are at their defaults, but for `words`.
pub fn with_defaults<O: Args>(words: &[&OsStr]) -> O {
    let command = O::augment_args(Command::new("options").no_binary_name(true));
    let said = command.try_get_matches_from(words).expect("it needs no others");
    O::from_arg_matches(&said).expect("it needs no others")
}

/// Makes an enum whose values are written and read by name: `ALL` values, the `name` of each, and
/// the value that is `named` so.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $enum:ident {
        $($(#[$doc:meta])* $value:ident = $name:literal),+ $(,)?
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        $vis enum $enum {
            $($(#[$doc])* #[serde(rename = $name)] $value),+
        }

        impl $enum {
            /// All of them, in their order.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// Name of the value.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),+
                }
            }

            /// The one of that name.
            #[must_use]
            pub fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }
    };
}
