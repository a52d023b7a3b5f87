//! What a run is told, and what it tells.

use crate::journal::Run;
use crate::machines::Far;
use crate::programs::OwnPrograms;
use std::sync::atomic::AtomicBool;

/// What [`perform`](super::perform) needs besides the experiment.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The server's program and the lab's.
    pub programs: &'a OwnPrograms,
    /// The machine that has the loads, if that is another one.
    pub far: Option<&'a Far>,
    /// Becomes true when the user or the system asks to stop.
    pub stop: &'a AtomicBool,
    /// Called before each trial and at the end.
    pub tell: &'a dyn Fn(&Progress<'_>),
    /// Called when all blocks are there: how many there are to be instead; None: no more.
    pub more: &'a More<'a>,
}

/// How many blocks a run is to have, of what it has.
pub type More<'a> = dyn Fn(&mut Run) -> Result<Option<u32>, String> + 'a;

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("programs", &self.programs).finish_non_exhaustive()
    }
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Trials made, of those planned.
    pub done: usize,
    /// Trials planned.
    pub all: usize,
    /// Time left, seconds, if nothing has to be made again.
    pub left_s: f64,
    /// What happens now, in a few words.
    pub what: &'a str,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is there.
    Done,
    /// It was told to stop; what it has is usable, and the same command goes on.
    Interrupted,
}
