//! Plan of the response for a file: a pure function of request and file.
use crate::{Body, Coded, Representation, Request, resolve::Role};
use alloc::vec::Vec;
use regatta_http::{
    FieldLines, Method, Status,
    conditional::{ConditionVerdict, Validators, evaluate, range_applies},
    negotiate::{self, FormChoice},
    range::{ByteRange, Selection, select},
};
use regatta_op::{Coding, File};

/// Plan of the response for a file, and its coding.
#[derive(Debug)]
pub(crate) struct Plan<'a, F> {
    pub(crate) file: &'a Representation<F>,
    pub(crate) coded: &'a Coded<F>,
    pub(crate) shape: Shape,
}

/// Shape of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of the file: 200, or the status that it is the page for.
    Whole,
    /// A single range: 206.
    One(ByteRange),
    /// Several ranges: 206, `multipart/byteranges`.
    Many(Vec<ByteRange>),
    /// Not modified: 304.
    NotModified,
    /// An error status in its place.
    Refused(Status),
}

/// Plans the response for `file`, in the order of RFC 9110 §13.2.2.
#[inline(always)]
pub(crate) fn plan<'a, F: File>(
    request: &Request<'_>,
    file: &'a Representation<F>,
    role: Role,
    ranges_max: usize,
    now_unix: u64,
) -> Plan<'a, F> {
    if matches!(role, Role::Instead(_)) {
        return Plan { file, coded: file.identity(), shape: Shape::Whole };
    }
    let coded = if request.accept_encoding.is_absent() {
        file.identity()
    } else {
        choose(request.accept_encoding, file)
    };
    if request.conditions.is_empty() && request.range.is_none() {
        return Plan { file, coded, shape: Shape::Whole };
    }
    // Ranges are of bytes that stay the same: those of the file. HEAD has none.
    let has_range = request.range.is_some() && request.method == Method::Get;
    let coded = if has_range && file.has_forms() { file.identity() } else { coded };
    let shape = shape(request, coded, ranges_max, now_unix);
    Plan { file, coded, shape }
}

#[inline(never)]
fn shape<F>(request: &Request<'_>, coded: &Coded<F>, ranges_max: usize, now_unix: u64) -> Shape {
    let validators = Validators { etag: Some(coded.etag()), modified_secs: coded.last_modified() };
    match evaluate(request.method, request.conditions, &validators, now_unix) {
        ConditionVerdict::NotModified => return Shape::NotModified,
        ConditionVerdict::PreconditionFailed => return Shape::Refused(Status::PRECONDITION_FAILED),
        ConditionVerdict::Proceed => {}
    }
    // RFC 9110 §14.2: Range has no meaning in other methods, so HEAD answers as GET without it.
    match request.range {
        Some(value)
            if request.method == Method::Get
                && range_applies(request.conditions.if_range, &validators, now_unix) =>
        {
            match select(value, coded.len(), ranges_max) {
                Selection::Whole => Shape::Whole,
                Selection::Unsatisfiable => Shape::Refused(Status::RANGE_NOT_SATISFIABLE),
                Selection::One(range) => Shape::One(range),
                Selection::Many(ranges) => Shape::Many(ranges),
            }
        }
        _ => Shape::Whole,
    }
}

/// The coding to send; identity if the request accepts none of those that the file has.
fn choose<'a, F: File>(
    accept_encoding: FieldLines<'_>,
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
    match negotiate::choose(accept_encoding, &names[..count]) {
        FormChoice::Coding(at) => available[at],
        FormChoice::Identity => file.identity(),
    }
}

impl<F> Plan<'_, F> {
    /// True if bytes of an open file are about to be sent.
    pub(crate) fn sends_file(&self, method: Method) -> bool {
        let sends = matches!(self.shape, Shape::Whole | Shape::One(_) | Shape::Many(_));
        method == Method::Get && sends && matches!(self.coded.body, Body::File(_))
    }

    /// The coding with a body that must be read into memory first: it is small enough to be kept
    /// there, and some of it is about to be sent.
    pub(crate) fn fill(&self, method: Method, body_bytes_max: u64) -> Option<Option<Coding>> {
        let small = self.coded.len() <= body_bytes_max;
        (small && self.sends_file(method)).then_some(self.coded.coding)
    }
}
