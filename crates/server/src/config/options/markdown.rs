//! The page of all options, `docs/options.md`.
use super::{FLAGS, SECTIONS, all, sections, toml};
use regatta_arch::{ARCHITECTURES, Architecture, options::OptionSpec};
use std::fmt::Write as _;

/// Options that do what a directive of nginx does, for readers who know that.
const NGINX: &[(&str, &str)] = &[
    ("server.root", "root"),
    ("server.listen", "listen"),
    ("server.user", "user"),
    ("server.drain_ms_max", "worker_shutdown_timeout"),
    ("server.pid_file", "pid"),
    ("limits.head_bytes_max", "large_client_header_buffers"),
    ("limits.head_ms_max", "client_header_timeout"),
    ("limits.idle_ms_max", "keepalive_timeout"),
    ("limits.send_window_ms", "send_timeout"),
    ("limits.linger_ms_max", "lingering_timeout"),
    ("limits.requests_max", "keepalive_requests"),
    ("limits.ranges_max", "max_ranges"),
    ("limits.connections_max", "worker_connections"),
    ("content.index", "index"),
    ("content.fallback", "try_files"),
    ("content.not_found", "error_page"),
    ("content.precompressed", "gzip_static"),
    ("content.symlinks", "disable_symlinks"),
    ("content.charset", "charset"),
    ("content.types", "types"),
    ("cache.enabled", "open_file_cache"),
    ("cache.revalidate_ms", "open_file_cache_valid"),
    ("cache.inactive_ms", "open_file_cache inactive="),
    ("log.access", "access_log"),
    ("log.format", "log_format"),
    ("log.error", "error_log"),
    ("accept.count", "multi_accept"),
    ("accept.backlog", "listen backlog="),
    ("accept.defer", "listen deferred"),
    ("accept.send_buffer_bytes", "listen sndbuf="),
    ("event.poller", "use"),
    ("event.wait_events_max", "epoll_events"),
    ("event.processes", "worker_processes"),
    ("event.pin", "worker_cpu_affinity"),
    ("event.turn_bytes_max", "sendfile_max_chunk"),
    ("amped.helpers_max", "thread_pool threads="),
];

/// The text of `docs/options.md`.
#[must_use]
pub fn markdown() -> String {
    let mut text = String::from(MARKDOWN_HEAD);
    for section in sections() {
        let doc = SECTIONS.iter().find(|known| known.name == section);
        let doc = doc.map_or_else(|| driver_doc(section), |known| known.doc.to_owned());
        let _ = write!(text, "\n## `[{section}]`\n\n{}\n", wrapped(&doc));
        for spec in all().filter(|spec| super::section(spec.key) == section) {
            push_markdown(&mut text, spec);
        }
    }
    text
}

fn driver_doc(section: &str) -> String {
    let takes = |architecture: &&Architecture| {
        architecture.driver.options.iter().any(|spec| super::section(spec.key) == section)
    };
    let names: Vec<_> = ARCHITECTURES.iter().filter(takes).map(|known| known.name).collect();
    format!("For the architecture{} {}.", if names.len() == 1 { "" } else { "s" }, names.join(", "))
}

const MARKDOWN_HEAD: &str = "\
# Options

Generated from the tables in `crates/server/src/config/options.rs` and `crates/arch` by
`cargo run --example options-doc -p regatta-server`; do not edit.

Set an option on the command line, `regatta serve --set limits.idle_ms_max=30s`, or in a file given
with `--config`:

```toml
[limits]
idle_ms_max = \"30 s\"
```

If an option is set more than once, `--set` wins over flags, flags over the file, and the file over
the default. Numbers are in the unit at the end of the option's name. As text they may have another
unit: B, KiB, MiB, GiB, TiB, kB, MB, GB, TB for sizes; us, ms, s, min, h, d for durations; a size
followed by `/s` for rates. Lists are arrays in the file, and separated by commas on the command
line. `regatta check` reports everything that is wrong with a configuration; `regatta serve
--print-config` prints the configuration in effect, with every option written out.

Where nginx has a directive for the same purpose, it is named; the values differ. [E], [S], [H] and
[G] are papers ([STYLE.md](../STYLE.md#the-papers)). A client here is whoever connects, which may be
a proxy.
";

fn push_markdown(text: &mut String, spec: &OptionSpec) {
    let name = spec.key.rsplit_once('.').map_or(spec.key, |(_, name)| name);
    let value = spec.kind.parse(spec.default).map_or_else(|_| String::new(), |value| toml(&value));
    let doc = wrapped(format!("{} {}", spec.doc, spec.long).trim_end());
    let flag = FLAGS.iter().find(|(_, key)| *key == spec.key);
    let flag = flag.map_or_else(String::new, |(flag, _)| format!(" Flag: `{flag}`."));
    let takes = spec.kind.describe();
    let nginx = NGINX.iter().find(|(key, _)| *key == spec.key);
    let nginx = nginx.map_or_else(String::new, |(_, name)| format!(" In nginx: `{name}`."));
    let takes = wrapped(&format!("Takes {takes}.{flag}{nginx} Since {}.", spec.since));
    let _ = write!(text, "\n### `{name} = {value}`\n\n{doc}\n\n{takes}\n");
}

/// The text in lines of at most 100 characters, as far as words are not longer.
fn wrapped(text: &str) -> String {
    let (mut lines, mut width) = (String::new(), 0);
    for word in text.split(' ') {
        let len = word.chars().count();
        if width > 0 && width + 1 + len > 100 {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += len;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_directive_names_an_option() {
        for (key, directive) in NGINX {
            assert!(super::super::find(key).is_some(), "{directive}");
        }
    }

    #[test]
    fn the_committed_page_is_the_table() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page == markdown(), "run cargo run --example options-doc -p regatta-server");
    }
}
