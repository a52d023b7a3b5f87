//! HTTP/1.1 and 1.0: one connection, what it reads of requests, and the bytes of its replies.
mod answer;
pub(crate) mod conn;
pub(crate) mod course;
pub(crate) mod heads;
mod inbox;
pub(crate) mod input;
mod multipart;
pub(crate) mod reply;

pub(crate) use answer::Ongoing;
