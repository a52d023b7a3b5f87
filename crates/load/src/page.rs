//! Pages that work offline: templates, style and charts. The lab's reports use the same parts.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error};
use regatta_http::date::civil_from_days;
use serde::Serialize;
use serde_json::Value;

/// Apache ECharts, which draws the charts.
pub const ECHARTS: &str = include_str!("../assets/echarts.min.js");
const STYLE: &str = include_str!("../assets/page/page.css");
/// A figure `f`: title, chart, caption, table.
const FIGURE: &str = include_str!("../assets/page/figure.html");
/// Scripts that all pages share: helpers, and the kinds of charts that both have.
const CHARTS: [&str; 4] = [
    include_str!("../assets/page/base.js"),
    include_str!("../assets/page/curves.js"),
    include_str!("../assets/page/seconds.js"),
    include_str!("../assets/page/spectrum.js"),
];
const START: &str = include_str!("../assets/page/start.js");

/// Renders a page. The template places the style, the scripts and the numbers (`css`, `echarts`,
/// `script`, `data`), and includes `figure.html` for each figure `f`. `kinds` are scripts with
/// further kinds of charts. `data` has `name`, `arms` and `figures`.
///
/// # Errors
/// A fault of the template.
pub fn render(
    name: &str,
    template: &str,
    mut values: Value,
    data: &Value,
    kinds: &[&str],
) -> Result<String, String> {
    values["css"] = STYLE.into();
    values["echarts"] = ECHARTS.into();
    values["script"] = script(kinds).into();
    // `<` would end the script where it stands.
    values["data"] = data.to_string().replace('<', "\\u003c").into();
    filled(name, template, &values)
}

/// The script of a page with further `kinds` of charts.
#[must_use]
pub fn script(kinds: &[&str]) -> String {
    CHARTS.concat() + &kinds.concat() + START
}

/// A template with these values in it. Into one whose name ends in `.html` they go as text, not as
/// HTML; in others a line of nothing but a tag leaves nothing, and the filters `cell`, `toml` and
/// `xml` make a text fit into a table, TOML or XML. `fixed` is a number with that many decimals.
///
/// # Errors
/// A fault of the template.
pub fn filled(name: &str, text: &str, values: &impl Serialize) -> Result<String, String> {
    let fill = || -> Result<String, Error> {
        let mut environment = Environment::new();
        if name.ends_with(".html") {
            environment.add_template("figure.html", FIGURE)?;
        } else {
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

/// Milliseconds since 1970 as `2026-08-21 14:05 UTC`.
#[must_use]
pub fn date(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1_000).unwrap_or(i64::MAX);
    let (year, month, day) = civil_from_days(seconds / 86_400);
    let (hour, minute) = (seconds % 86_400 / 3_600, seconds % 3_600 / 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Text that does not end its cell.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").trim().to_owned()
}

/// Text as a value of TOML.
#[must_use]
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn xml(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;").replace(char::is_control, " ")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        for (ms, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_795_306_796_961, "2026-11-22 00:19 UTC"),
        ] {
            assert_eq!(date(ms), text);
        }
    }
}
