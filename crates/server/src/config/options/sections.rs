//! Sections of options, in the order of display.

/// Section of the configuration file: the first part of an option's name.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Name of the section.
    pub name: &'static str,
    /// Topic of its options.
    pub doc: &'static str,
}

/// Sections in display order; those of architectures follow.
pub const SECTIONS: &[Section] = &[
    Section { name: "server", doc: "What is served, on which addresses, and as which user." },
    Section {
        name: "limits",
        doc: "Limits on what a client may send and ask for, and on how long it may take.",
    },
    Section { name: "content", doc: "How a request path is answered with a file." },
    Section {
        name: "cache",
        doc: "The cache of open files, their metadata and small bodies, one for each worker.",
    },
    Section {
        name: "tls",
        doc: "HTTPS (docs/tls.md): addresses, certificates, redirects, tickets.",
    },
    Section {
        name: "http2",
        doc: "HTTP/2: where it is spoken, and the limits of its connections.",
    },
    Section { name: "log", doc: "The access log and the error log." },
    Section { name: "admin", doc: "What monitors and service managers ask." },
    Section { name: "lab", doc: "A simulated disk, for tests and measurements." },
    Section { name: "accept", doc: "How connections are accepted." },
];
