//! Text made from templates: pages, Markdown, configurations, pictures.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, value::Serde};
use serde::Serialize;

/// A template with these values in it. Into one whose name ends in `.html` they go as text, not as
/// HTML; in others a line of nothing but a tag leaves nothing, and the filters `cell`, `toml` and
/// `xml` make a text fit into a table, TOML or XML. `fixed` is a number with so many decimals.
pub(crate) fn filled(name: &str, text: &str, values: &impl Serialize) -> Result<String, String> {
    let fill = || -> Result<String, Error> {
        let mut environment = Environment::new();
        if !name.ends_with(".html") {
            let mut syntax = SyntaxConfig::builder();
            environment.set_syntax(syntax.trim_blocks(true).keep_trailing_newline(true).build()?);
        }
        environment.add_filter("cell", |text: String| escaped(&text));
        environment.add_filter("toml", |text: String| quoted(&text));
        environment.add_filter("xml", |text: String| xml(&text));
        environment.add_filter("fixed", |of: f64, digits: usize| format!("{of:.digits$}"));
        environment.render_named_str(name, text, Serde(values))
    };
    fill().map_err(|error| error.to_string())
}

/// Text that does not end its cell.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").trim().to_owned()
}

/// A TOML string.
pub(crate) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// Text within XML.
fn xml(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace(char::is_control, " ")
}
