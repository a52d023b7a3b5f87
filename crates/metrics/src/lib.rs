//! Counters and histograms in shared memory, readable without cooperation.
