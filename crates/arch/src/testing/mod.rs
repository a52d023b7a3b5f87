//! Helpers of tests.
#[cfg(test)]
pub(crate) mod dice;
#[cfg(test)]
pub(crate) use regatta_testkit::folder;
