//! The server program: configuration, master, logs, explain, top.
