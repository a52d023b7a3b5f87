//! The owner's pages for errors, and the fields that they have.
use crate::{ErrorPage, Site, entry::Facts};
use alloc::vec::Vec;
use regatta_http::{
    Status,
    h1::{write_decimal_field, write_field},
};

impl ErrorPage {
    /// Makes the page for an error status from the file of this name. It has the fields that rules
    /// give the file, except those that a 304 repeats, such as those on caching.
    #[must_use]
    pub fn new(status: Status, name: &[u8], body: &[u8], site: &Site) -> Self {
        let facts = Facts::new(name, false, site);
        let mut fields = Vec::new();
        write_decimal_field(&mut fields, "Content-Length", body.len() as u64);
        write_field(&mut fields, "Content-Type", facts.content_type.as_bytes());
        if facts.nosniff {
            write_field(&mut fields, "X-Content-Type-Options", b"nosniff");
        }
        fields.extend_from_slice(&facts.fields[facts.revalidated..]);
        Self { status, fields: fields.into_boxed_slice(), body: body.into() }
    }
}
