//! The projects own tools.
fn main() {}
