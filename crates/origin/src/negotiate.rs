//! Which content coding of a file to send (RFC 9110 §12.5.3).
use crate::Representation;
use regatta_http::{
    h1::RequestHead,
    negotiate::{self, Choice},
};
use regatta_op::{Coding, File};

/// The request refuses every coding that there is, and the file as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAcceptable;

/// The coding to send; `None` is the file as it is.
#[inline]
pub(crate) fn coding<F: File>(
    head: &RequestHead<'_>,
    file: &Representation<F>,
) -> Result<Option<Coding>, NotAcceptable> {
    if head.accept_encoding.is_absent() {
        return Ok(None);
    }
    let mut codings = [Coding::Brotli; 3];
    let mut names = [""; 3];
    let mut count = 0;
    for coding in Coding::ALL {
        if file.coded(Some(coding)).is_some() {
            (codings[count], names[count]) = (coding, coding.name());
            count += 1;
        }
    }
    match negotiate::choose(head.accept_encoding, &names[..count]) {
        Choice::Coding(at) => Ok(Some(codings[at])),
        Choice::Identity => Ok(None),
        Choice::NotAcceptable => Err(NotAcceptable),
    }
}
