//! Helpers of tests.
pub(crate) mod dice;
pub(crate) use regatta_testkit::folder;
