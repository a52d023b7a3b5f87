//! Time as the core sees it: an argument, read by the driver.

/// Milliseconds on a monotonic clock that only the driver can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The end of time: a deadline that never passes.
    pub const NEVER: Self = Self(u64::MAX);

    /// This tick and `ms` milliseconds; saturates at [`Tick::NEVER`].
    #[must_use]
    pub const fn after(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this tick; 0 if it is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The driver's clocks at the moment when it reports something to the core.
///
/// Both may be up to one turn of a loop old: they serve deadlines and the `Date` field, whose units
/// are milliseconds and seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// The monotonic clock, for deadlines.
    pub tick: Tick,
    /// Whole seconds since 1970-01-01T00:00:00Z, for `Date`, logs and comparing modification dates.
    pub unix: u64,
}
