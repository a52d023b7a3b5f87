//! HTTP/1.1 and 1.0 messages (RFC 9112): heads are scanned and parsed, fields and lines written.
//!
//! No I/O and no state of a connection: those are in `regatta_origin::h1`, the main user. The load
//! generator writes requests and parses responses with the same functions. [`Seen`] keeps field
//! sections of earlier requests, which clients repeat, and saves their parsing.
mod encode;
mod framing;
mod parse;
#[cfg(test)]
mod reference;
mod response;
mod scan;
mod seen;

pub use encode::{
    Decimal, end_head, remove_fields, write_date_field, write_decimal, write_decimal_field,
    write_field, write_request_line, write_status_line,
};
pub use framing::{RequestBody, ResponseBody, Version};
pub use parse::{
    Expectation, FIELDS_MAX, FIELDS_USUAL, HeadFault, HeadLimits, RequestHead, parse_first,
    parse_into, parse_request,
};
pub use response::{ResponseFault, ResponseHead, parse_response};
pub use scan::{LEADING_LINES_MAX, Scan, scan_head};
pub use seen::{PLACES, SECTION_BYTES_MAX, Seen};
