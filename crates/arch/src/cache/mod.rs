//! Caches that threads or processes share.
#[cfg(test)]
mod every_cache;
pub mod shared_cache;
pub mod thread_cache;
