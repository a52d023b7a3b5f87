//! One connection of a static origin server, without I/O.
