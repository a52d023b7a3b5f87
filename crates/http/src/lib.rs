//! HTTP wire formats: bytes to heads and back.
