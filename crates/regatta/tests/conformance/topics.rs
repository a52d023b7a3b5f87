//! How a matrix names cases: a test for each, in a module for each topic.

/// Tests of a variant, by topic.
macro_rules! topics {
    ($variant:ident $($topic:ident: $($case:ident)*;)*) => {
        $(mod $topic {
            $(#[test]
            fn $case() {
                crate::$topic::$case(crate::harness::Variant::named(stringify!($variant)));
            })*
        })*
    };
}
