//! HTTP/2 on a connection.
#[cfg_attr(not(test), expect(dead_code, reason = "no connection speaks HTTP/2 yet"))]
mod encode;
