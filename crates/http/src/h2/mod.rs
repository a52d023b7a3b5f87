//! HTTP/2 (RFC 9113): frames, settings, compression of fields (RFC 7541), and heads of requests.
//!
//! No I/O and no state of a stream. Of a connection there is only the table of the decoder.
//!
//! | step | function |
//! |---|---|
//! | bytes to a frame | [`frame::split_frame`], [`frame::read_frame`] |
//! | settings of the peer | [`PeerSettings::apply`] |
//! | field block of a request | [`decode_request`] |
//! | field block behind its content | [`decode_trailers`] |
//! | field block of no interest | [`hpack::HpackDecoder::skip`] |
//! | content against its announced length | [`ContentTally`] |
//! | head of a response, as HTTP/1 has it, to a field block | [`hpack::write_head`] |
//! | single fields to a field block | [`hpack::write_status`], [`hpack::write_field`] |
//!
//! Each field block of a connection must be decoded, in order and once: the table depends on it.
#[cfg(test)]
mod dice;
pub mod frame;
mod head;
pub mod hpack;
pub mod huffman;
mod known;
mod settings;

pub use head::{
    BlockFault, BlockScratch, ContentTally, MalformedHead, StreamHead, decode_request,
    decode_trailers,
};
pub use settings::{PeerSettings, SettingId, SettingsFault, write_settings, write_settings_ack};
