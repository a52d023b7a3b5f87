//! The servers of [A]: threads that take connections from a queue, and read files themselves or
//! have them read.
pub mod decide;
