//! Variables of the environment, in values of configuration files: `${NAME}`, or
//! `${NAME:-default}`.
use regatta_arch::options::ValueFault;
use std::{collections::BTreeMap, env, ffi::OsStr};

/// Start of a variable in a text.
const START: &str = "${";

/// Start of a variable that stays as it is: `$${NAME}` is the text `${NAME}`.
const ESCAPED: &str = "$${";

/// Between the name of a variable and its default.
const DEFAULT: &str = ":-";

/// Variable with the port to listen on, as platforms for containers set it.
pub(crate) const PORT: &str = "PORT";

/// Variables, by name.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Reads the variables of this process. `text_of` makes a text of any bytes.
    #[must_use]
    pub fn read(text_of: fn(&OsStr) -> String) -> Self {
        Self(env::vars_os().map(|(name, value)| (text_of(&name), text_of(&value))).collect())
    }

    /// Replaces the variables in a text; `None` if it has none. Calls `note` with the name of each,
    /// and whether its default counts.
    pub(crate) fn expand(
        &self,
        text: &str,
        note: &mut dyn FnMut(&str, bool),
    ) -> Result<Option<String>, ValueFault> {
        if !text.contains(START) {
            return Ok(None);
        }
        let (mut expanded, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('$') {
            let (before, from) = rest.split_at(at);
            expanded.push_str(before);
            if let Some(after) = from.strip_prefix(ESCAPED) {
                expanded.push_str(START);
                rest = after;
            } else if let Some(after) = from.strip_prefix(START) {
                let (inner, after) = after.split_once('}').ok_or_else(|| fault(from, "no }"))?;
                expanded.push_str(self.value(inner, note)?);
                rest = after;
            } else {
                expanded.push('$');
                rest = &from[1..];
            }
        }
        expanded.push_str(rest);
        Ok(Some(expanded))
    }

    /// Value of the variable that is named between the braces.
    fn value<'t>(
        &'t self,
        inner: &'t str,
        note: &mut dyn FnMut(&str, bool),
    ) -> Result<&'t str, ValueFault> {
        let (name, default) = match inner.split_once(DEFAULT) {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
        let is_name =
            name.starts_with(is_start) && name.chars().all(|c| is_start(c) || c.is_ascii_digit());
        if !is_name {
            return Err(fault(&format!("{START}{inner}}}"), "not the name of a variable"));
        }
        let set = self.0.get(name).map(String::as_str);
        // As in a shell: a default counts for an empty variable too.
        let (value, by_default) = match (set, default) {
            (None | Some(""), Some(default)) => (default, true),
            (Some(value), _) => (value, false),
            (None, None) => {
                return Err(ValueFault(format!(
                    "the variable {name} is not set: set it in the environment, or write \
                     ${{{name}:-default}}"
                )));
            }
        };
        note(name, by_default);
        Ok(value)
    }

    /// Address of the variable [`PORT`], for a server without a configured one. `None`: it is not
    /// set. An error is its value, which is no port.
    pub(crate) fn port(&self) -> Option<Result<String, &str>> {
        let text = self.0.get(PORT).map(String::as_str).filter(|text| !text.is_empty())?;
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        Some(port.map(|port| format!("0.0.0.0:{port}")).ok_or(text))
    }
}

fn fault(text: &str, why: &str) -> ValueFault {
    ValueFault(format!(
        "\"{}\": {why}; write ${{NAME}} or ${{NAME:-default}}, or $${{ for the characters ${{",
        text.escape_debug()
    ))
}

/// Writes variables in a text so that they stay as they are when it is read.
pub(crate) fn escape(text: &str) -> String {
    text.replace(START, ESCAPED)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An environment of these variables.
    pub(crate) fn environment(variables: &[(&str, &str)]) -> Environment {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Environment(variables.iter().map(owned).collect())
    }

    #[test]
    fn variables_are_replaced() {
        let environment = environment(&[("A", "1"), ("EMPTY", ""), ("NESTED", "${A}")]);
        for (text, expected) in [
            ("", Ok(None)),
            ("$A $ {A}", Ok(None)),
            ("${A}", Ok(Some("1"))),
            ("x${A}y${A}$", Ok(Some("x1y1$"))),
            ("${B:-2}${EMPTY:-3}${A:-4}", Ok(Some("231"))),
            ("${EMPTY}|${B:-}", Ok(Some("|"))),
            ("${B:-a:-b/$}", Ok(Some("a:-b/$"))),
            ("${NESTED}", Ok(Some("${A}"))),
            ("$${A} $$${A}", Ok(Some("${A} $${A}"))),
            ("${B}", Err("the variable B is not set: set it")),
            ("a ${A", Err("\"${A\": no }; write ${NAME}")),
            ("${}", Err("\"${}\": not the name of a variable")),
            ("${1A}", Err("\"${1A}\": not the name")),
            ("${A-b}", Err("\"${A-b}\": not the name")),
        ] {
            match (environment.expand(text, &mut |_, _| {}), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{text}"),
                (Err(fault), Err(start)) => assert!(fault.0.starts_with(start), "{fault}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn escaped_texts_are_read_back() {
        for text in ["", "$", "${A}", "$${A}", "a${b", "$$", "$$$${${"] {
            let read = Environment::default().expand(&escape(text), &mut |_, _| {});
            assert_eq!(read, Ok(text.contains(START).then(|| text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_port_is_an_address_on_every_network() {
        let port = |text: &str| {
            let environment = environment(&[("PORT", text)]);
            let port = environment.port();
            port.map(|port| port.map_err(str::to_owned))
        };
        assert_eq!(port("8081"), Some(Ok("0.0.0.0:8081".to_owned())));
        assert_eq!(port(""), None);
        for text in ["0", "65536", "tcp://10.0.0.1:80", "-1"] {
            assert_eq!(port(text), Some(Err(text.to_owned())));
        }
    }
}
