//! What the conditions of a request are tested against (RFC 9110 §13).
use crate::Coded;
use regatta_http::conditional::Validators;

/// The validators of one coding of a file.
#[inline]
pub(crate) fn validators<F>(coded: &Coded<F>) -> Validators<'_> {
    Validators { etag: Some(coded.etag()), modified_secs: Some(coded.modified_secs) }
}
