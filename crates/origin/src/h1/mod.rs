//! HTTP/1.1 and 1.0: one connection, and the bytes of its replies.
mod answer;
pub(crate) mod conn;
mod inbox;
mod multipart;
pub(crate) mod preface;
pub(crate) mod reply;
