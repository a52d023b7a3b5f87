//! Parts that `xtask` and the tools of `regatta-tools` have in common.
#![forbid(unsafe_code)]

pub mod command;
pub mod course;
pub mod task_error;
