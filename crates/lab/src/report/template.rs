//! Text made from templates: the pages, and the same as Markdown.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, value::Serde};
use serde::Serialize;

/// A template with these values in it. Into one whose name ends in `.html` they go as text, not as
/// HTML; in one that ends in `.md`, a line of nothing but a tag leaves nothing, and the filter
/// `cell` makes a text fit into a table.
pub(crate) fn filled(name: &str, text: &str, values: &impl Serialize) -> Result<String, String> {
    let fill = || -> Result<String, Error> {
        let mut environment = Environment::new();
        if name.ends_with(".md") {
            let mut syntax = SyntaxConfig::builder();
            environment.set_syntax(syntax.trim_blocks(true).keep_trailing_newline(true).build()?);
        }
        environment.add_filter("cell", |text: String| escaped(&text));
        environment.render_named_str(name, text, Serde(values))
    };
    fill().map_err(|error| error.to_string())
}

/// Text that does not end its cell.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").trim().to_owned()
}
