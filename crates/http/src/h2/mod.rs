//! HTTP/2 (RFC 9113).
#[cfg(test)]
mod dice;
pub mod frame;
pub mod huffman;
