//! Parts that several architectures use.
pub mod accept;
pub mod disk;
pub mod event_loop;
pub mod shared_cache;
pub mod slab;
pub mod wheel;
