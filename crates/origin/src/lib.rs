//! State machines for the connections of a static origin server, without I/O.
//!
//! A [`Link`] hands out [`regatta_op::Op`] values and takes their outcomes. It decides everything
//! that HTTP defines, and performs nothing. Time enters as an argument and randomness as a seed, so
//! the same input gives the same output.
//!
//! A request ([`Request`]), the search for its answer ([`Exchange`]) and the answer ([`Reply`]) do
//! not depend on a protocol's bytes. HTTP/1 (`h1`) and HTTP/2 (`h2`) are protocols that use them.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod answer;
mod auth;
mod body_files;
mod cache;
mod content;
mod cors;
mod course;
mod derive;
mod entry;
mod exchange;
mod explain;
mod fields;
mod h1;
mod h2;
mod hosts;
mod http2_rules;
mod input;
mod link;
mod listing;
mod location;
mod multi;
mod ongoing;
mod pack;
mod plan;
mod protocol;
mod record;
mod refusal;
mod releases;
mod reply_rules;
mod request;
mod resolve;
mod rules;
mod scratch;
mod seal;
pub mod sieve;
mod site;
mod sweep;
mod table_cache;
mod transport;
mod validator;

pub use auth::{AuthFault, AuthRule};
pub use body_files::BodyFiles;
pub use cache::{Cache, Entry, Lookup};
pub use content::is_compressed;
pub use cors::{CorsFault, CorsOptions, CorsRule};
pub use derive::{COMPRESSED_FILE_BYTES_MAX, DIGESTED_FILE_BYTES_MAX, Deriver, Digest, Forms};
pub use entry::{Body, Coded, Representation};
pub use exchange::{FileReply, Reply, Step, Supply};
pub use explain::{Decision, Explanation, explain};
pub use fields::{HeaderFault, HeaderLine, Merged, RULED_BYTES_MAX, RULED_FIELDS_MAX, RuleFault};
pub use h1::conn::Conn;
pub use h2::Session;
pub use hosts::{HOST_BYTES_MAX, Hosts};
pub use http2_rules::Http2Rules;
#[cfg(feature = "test-seal")]
pub use link::Toy;
pub use link::{Greeting, Link, Sealed};
pub use listing::{
    LISTING_STYLE, Lister, ListingFormat, ListingPage, ListingRequest, ListingRules,
};
pub use location::{TemplateFault, write_encoded_name};
pub use ongoing::Exchange;
pub use pack::{CODINGS, packed_alike};
pub use protocol::{Admission, ClearHttp1, Cx, Links, Protocol};
pub use record::{FileFault, FileOperation, ListenerClass, Log, NoLog, Peer, Record, ReplyOutcome};
pub use refusal::Refusal;
pub use releases::{ReleaseSource, Sites};
pub use request::{Destination, Request};
pub use rules::{AnswerFault, RESPONSE_BYTES_MAX, Redirect, RedirectFault, Rules};
pub use scratch::Scratch;
pub use seal::{
    Handshake, Progress, RECORD_BYTES_MAX, RECORD_PLAIN_BYTES_MAX, Seal, SealFacts, SealFault,
};
pub use sieve::{CacheTotals, EntryCost, Queue, RELIEF_ENTRIES, Rank, STALE_PERIODS_MAX, Use};
pub use site::{
    CachingRules, CommonTypes, ContentRules, Deadlines, ErrorPage, Limits, MediaTypes,
    READ_BYTES_MAX, RULES_FILES, SERVER_NAME, Shared, Site, TagFacts, TransportRules,
};
pub use sweep::{SWEEP_PAUSE_MS, Sweep};
pub use table_cache::{LocalCache, Lock, Locks, OneThread, TableCache};
