//! From a reply to a field block and a body.
//!
//! All replies are made once, as HTTP/1 sends them: [`Terms::response`] is the only list of their
//! fields. HTTP/2 transcodes the text of a head ([`write_fields`]).
//!
//! | reply | function | cost |
//! |---|---|---|
//! | a cached file, unchanged: a plain 200 | [`write_hit`] | a prebuilt block is copied and dated |
//! | any other | [`Terms::response`], then [`write_response`] | a head is written and transcoded |
//!
//! Blocks refer to the static table only, and their strings are raw: `http::h2::hpack` says why.
//! The first block of a connection must begin with `hpack::write_no_table`.
use crate::{
    Coded,
    entry::heads::BLOCK_DATE_AT,
    h1::reply::{Response, Terms},
    plan::{Plan, Shape},
    resolve::Role,
};
use alloc::vec::Vec;
use regatta_http::h2::hpack;
use regatta_op::File;

/// Body of a hit: a whole file in one of its codings.
pub(crate) struct HitBody<'a, F> {
    /// The coding.
    pub(crate) coded: &'a Coded<F>,
    /// Bytes of body to send: those of the coding, or 0 for `HEAD`.
    pub(crate) body_bytes: u64,
}

/// Appends the field block of a plain 200 with a whole file, and returns its body. Returns `None`
/// and appends nothing if the response depends on the request in another way than by its coding:
/// the caller then uses [`Terms::planned`] and [`write_response`].
///
/// Nothing is allocated if `block` has room and the block of this coding has been used before. A
/// body of any length can be sent behind it; [`Coded::segment`] shares it without a copy.
#[inline]
pub(crate) fn write_hit<'a, F: File>(
    terms: &Terms<'_, F>,
    plan: &Plan<'a, F>,
    role: Role,
    block: &mut Vec<u8>,
) -> Option<HitBody<'a, F>> {
    let rules = &terms.rules;
    let is_plain = plan.shape == Shape::Whole && role == Role::Itself;
    if !is_plain || rules.bare || rules.cors.is_some() {
        return None;
    }
    let (coded, at) = (plan.coded, block.len());
    block.extend_from_slice(coded.block(plan.file.facts()));
    terms.scratch.patch_date(block, at + BLOCK_DATE_AT, terms.now.unix);
    let body_bytes = if rules.head_only { 0 } else { coded.len() };
    Some(HitBody { coded, body_bytes })
}

/// Appends the fields of a response, and leaves only its body in its outbox.
pub(crate) fn write_response<F>(response: &mut Response<F>, block: &mut Vec<u8>) {
    let head_bytes = response.head_bytes();
    let len = usize::try_from(head_bytes).expect("a head is in memory");
    // A small body may follow in the same piece, which may be shared.
    let head = response.outbox.slices().next().and_then(|piece| piece.get(..len));
    write_fields(head.expect("a head is in one piece"), block);
    response.outbox.advance(head_bytes);
}

/// Appends the fields of a response with this head, a status line, field lines and a blank line, as
/// [`Terms::response`] writes it. Fields on the connection are left out (RFC 9113 §8.2.2).
pub(crate) fn write_fields(head: &[u8], block: &mut Vec<u8>) {
    hpack::write_head(block, head);
}

#[cfg(test)]
mod tests;
