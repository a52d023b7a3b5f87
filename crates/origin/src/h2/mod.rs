//! HTTP/2 on a connection.
mod rules;

pub use rules::Http2Rules;
