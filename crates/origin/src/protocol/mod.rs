//! What is said over a wire: exchanges, one after another in HTTP/1.
pub(crate) mod h1;
