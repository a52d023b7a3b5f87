//! A file with everything about its responses that can be known before a request comes.
use core::marker::PhantomData;

/// A regular file in all its content codings, with prebuilt heads.
#[derive(Debug)]
pub struct Representation<F> {
    file: PhantomData<F>,
}
