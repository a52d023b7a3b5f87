//! Between the wire and HTTP: whether bytes must pass through memory is known here alone.

/// What carries a connection's bytes.
///
/// `Sealed(Box<dyn Seal>)`, for records sealed in user space, and `Offloaded`, for records that the
/// kernel seals, belong here too: a sealed wire does not pass files, so its exchanges read file
/// ranges with [`regatta_op::Op::Read`] and seal them, and no driver changes. `docs/seam.md` has
/// the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wire {
    /// Plain TCP: what the origin says is what goes out.
    #[default]
    Clear,
}

impl Wire {
    /// True if a file range can go to the socket without passing through memory.
    #[must_use]
    pub const fn passes_files(self) -> bool {
        match self {
            Self::Clear => true,
        }
    }
}
