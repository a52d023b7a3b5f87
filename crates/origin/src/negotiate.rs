//! Which content coding of a file to send (RFC 9110 §12.5.3).
use crate::{Coded, Representation};
use regatta_http::{
    h1::RequestHead,
    negotiate::{self, Choice},
};
use regatta_op::{Coding, File};

/// The coding to send of a file; the file as it is where the request names none that there is.
pub(crate) fn choose<'a, F: File>(
    head: &RequestHead<'_>,
    file: &'a Representation<F>,
) -> &'a Coded<F> {
    let mut available = [file.identity(); 3];
    let mut names = [""; 3];
    let mut count = 0;
    for coding in Coding::ALL {
        if let Some(coded) = file.coded(Some(coding)) {
            (available[count], names[count]) = (coded, coding.name());
            count += 1;
        }
    }
    match negotiate::choose(head.accept_encoding, &names[..count]) {
        Choice::Coding(at) => available[at],
        Choice::Identity => file.identity(),
    }
}
