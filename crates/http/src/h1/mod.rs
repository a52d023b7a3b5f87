//! HTTP/1.1 and 1.0 messages (RFC 9112).
mod encode;
mod framing;
mod parse;
#[cfg(test)]
mod reference;
mod response;
mod scan;
mod seen;

pub use encode::{
    Decimal, end_head, write_date_field, write_decimal, write_decimal_field, write_field,
    write_request_line, write_status_line,
};
pub use framing::{RequestBody, ResponseBody, Version};
pub use parse::{
    Expectation, FIELDS_MAX, FIELDS_USUAL, HeadFault, HeadLimits, RequestHead, parse_first,
    parse_into, parse_request,
};
pub use response::{ResponseFault, ResponseHead, parse_response};
pub use scan::{LEADING_LINES_MAX, Scan, scan_head};
pub use seen::{PLACES, SECTION_BYTES_MAX, Seen};
