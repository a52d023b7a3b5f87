//! File sets and session logs: made, read, inspected, and predicted from.
//!
//! The workload of the papers is regenerated from first principles (`systems.md` §3). It has a
//! SPECweb99-like [`files::FileSet`], its [`popularity`], session [`think`] patterns, and
//! deterministic traces written as httperf logs of [`session`]s. The [`model`]s predict what a
//! server will do with them. Marks in brackets name the source: \[E\] EuroSys'07, \[S\] SYSTOR'12,
//! \[H\] HPL-2001-314, \[G\] Genevès, \[A\] Azzedin and Issa, \[src\] public source code, \[mem\]
//! not confirmed, \[inf\] computed.

pub mod access_log;
pub mod alter;
pub mod cli;
pub mod content;
pub mod fault;
pub mod files;
pub mod from_dir;
pub mod from_log;
pub mod manifest;
pub mod model;
pub mod popularity;
pub mod presets;
pub mod report;
pub mod rules;
pub mod session;
pub mod specweb;
pub mod think;

pub use fault::write_whole;
pub use from_dir::hash_file;

use sha2::{Digest, Sha256};

/// SHA-256 of `bytes` in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
