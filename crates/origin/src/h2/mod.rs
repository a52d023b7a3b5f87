//! HTTP/2: a connection with many requests at once, and the bytes of their replies.
mod budget;
mod encode;
mod session;

pub(crate) use encode::write_fields;
pub use session::Session;
