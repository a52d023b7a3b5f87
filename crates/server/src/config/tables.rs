//! Tables of the configuration file: sections that may occur many times, such as `[[headers]]`.
use regatta_arch::options::{Kind, OptionSpec};

/// Table, and the fields of its rows.
#[derive(Clone, Copy, Debug)]
pub struct TableSpec {
    /// Name of the table.
    pub name: &'static str,
    /// Purpose of its rows, in one sentence.
    pub doc: &'static str,
    /// Fields of a row; keys start with the name of the table.
    pub fields: &'static [OptionSpec],
    /// Limit of rows.
    pub rows_max: usize,
}

const fn field(
    key: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> OptionSpec {
    OptionSpec { key, kind, default, doc, long: "" }
}

/// Table of hosts with their own roots. Each of its rows may have rules and options as well.
pub const HOSTS: &str = "hosts";

/// Fields that hold a pattern of paths.
pub const PATTERNS: [&str; 5] =
    ["headers.path", "redirects.from", "responses.path", "cors.path", "auth.path"];

/// All tables.
pub static TABLES: &[TableSpec] = &[
    TableSpec {
        name: "headers",
        doc: "Fields that files are sent with.",
        fields: &[
            field("headers.path", Kind::Text, "", "A pattern of paths of files, as in *.{js,css}."),
            field("headers.set", Kind::List, "", "Fields, each as Name: value, or as ! Name."),
        ],
        rows_max: 4096,
    },
    TableSpec {
        name: "redirects",
        doc: "Where paths lead that no file answers for.",
        fields: &[
            field("redirects.from", Kind::Text, "", "A pattern of paths, as in /old/*."),
            field("redirects.to", Kind::Text, "", "A path, URL or file, as in /new/:splat."),
            field(
                "redirects.status",
                Kind::Count { min: 200, max: 410 },
                "301",
                "301, 302, 303, 307, 308; 200 sends a file in its place, 404 and 410 none or one.",
            ),
            field("redirects.force", Kind::Bool, "false", "Whether it comes before files."),
        ],
        rows_max: 4096,
    },
    TableSpec {
        name: "responses",
        doc: "Paths that are answered without a file, such as health checks and maintenance.",
        fields: &[
            field("responses.path", Kind::Text, "", "A pattern of paths, as in /healthz or /*."),
            field(
                "responses.status",
                Kind::Count { min: 200, max: 503 },
                "200",
                "200, 204, 410 or 503.",
            ),
            field(
                "responses.text",
                Kind::Text,
                "",
                "The body, of at most 4 KiB; without it 410 and 503 have the page for the error.",
            ),
        ],
        rows_max: 256,
    },
    TableSpec {
        name: "cors",
        doc: "Paths that scripts of other sites may read.",
        fields: &[
            field("cors.path", Kind::Text, "", "A pattern of paths, as in /data/*."),
            field("cors.origins", Kind::List, "", "Who may, as in https://app.example.com."),
            field("cors.headers", Kind::List, "", "Fields that a script may send."),
            field("cors.expose", Kind::List, "", "Fields that a script may read."),
            field(
                "cors.max_age_s",
                Kind::Count { min: 0, max: 86_400 },
                "600",
                "How long a browser remembers that a script may ask, seconds.",
            ),
        ],
        rows_max: 256,
    },
    TableSpec {
        name: "auth",
        doc: "Paths that only users with a password may see.",
        fields: &[
            field("auth.path", Kind::Text, "", "A pattern of paths, as in /private/*."),
            field("auth.realm", Kind::Text, "private", "What a browser says is protected."),
            field("auth.users", Kind::List, "", "Users, as `regatta password NAME` prints them."),
        ],
        rows_max: 256,
    },
    TableSpec {
        name: HOSTS,
        doc: "Hosts with files and rules of their own.",
        fields: &[
            field("hosts.names", Kind::List, "", "Its names, as in www.example.com, without port."),
            field(
                "hosts.root",
                Kind::Text,
                "",
                "The directory whose files it serves; none if it has only redirects or responses.",
            ),
        ],
        rows_max: 4096,
    },
];

/// Finds the table of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static TableSpec> {
    TABLES.iter().find(|table| table.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regatta_arch::options::Settings;

    #[test]
    fn every_field_is_well_formed() {
        for table in TABLES {
            let _ = Settings::defaults(table.fields);
            for field in table.fields {
                let name = field.key.strip_prefix(table.name).unwrap();
                assert!(name.starts_with('.') && field.doc.ends_with('.'), "{}", field.key);
            }
        }
    }
}
