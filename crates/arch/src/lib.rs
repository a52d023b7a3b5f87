//! Concurrency architectures: who executes operations, where, and how they wait.
