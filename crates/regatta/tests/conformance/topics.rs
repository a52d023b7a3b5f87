//! Names of a matrix's cases: a module for each variant and topic, a test for each case.

/// Variants that have cases, each with its sets of them.
macro_rules! variants {
    ($($variant:ident: $($set:ident)+;)*) => {
        /// Names of the variants.
        pub(crate) const NAMES: &[&str] = &[$(stringify!($variant)),*];

        $(mod $variant { $($set! { $variant })+ })*
    };
}

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
