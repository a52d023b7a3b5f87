//! The simulator: a driver with virtual time, seeded schedules and faults.
