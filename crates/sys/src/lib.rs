//! Linux, behind owned types: the only crate with unsafe.
