//! Settings and rules of each host, its own and those for all.
use super::{Location, Problem, ROOT, Row, Said};
use crate::config::{options, tables};
use regatta_arch::options::Settings;
use regatta_origin::RULES_FILES;
use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    iter, mem,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
    sync::Arc,
};

/// Tables whose rows hold for each host without its own. Redirects do not: they name the paths of
/// one site.
const INHERITED: [&str; 4] = ["headers", "responses", "cors", "auth"];

/// First of the characters that stand for bytes of a path that are no text. They are for private
/// use: no alphabet has them.
const BYTES_FROM: u32 = 0x10_ff00;

/// Converts a path of any bytes to the text of an option. Bytes that are no text, or control a
/// terminal, become characters for private use.
#[must_use]
pub fn text_of(path: &OsStr) -> String {
    let byte = |byte: &u8| char::from_u32(BYTES_FROM + u32::from(*byte)).unwrap_or_default();
    let mut text = String::new();
    for chunk in path.as_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match u8::try_from(c) {
                Ok(of) if c.is_ascii_control() => text.push(byte(&of)),
                _ => text.push(c),
            }
        }
        text.extend(chunk.invalid().iter().map(byte));
    }
    text
}

/// Converts a text of [`text_of`] back to the path.
fn path_of(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        let byte = u32::from(c).checked_sub(BYTES_FROM).and_then(|byte| u8::try_from(byte).ok());
        match byte {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    OsString::from_vec(bytes).into()
}

/// Rows of tables that hosts without any of their own have.
pub(crate) type Inherited = BTreeMap<&'static str, Arc<Vec<Row>>>;

impl Said {
    /// True if it has no rows of its own: its rules are those of all such hosts.
    pub(crate) fn has_only(&self, rules: &Inherited) -> bool {
        self.rows.iter().all(|(table, rows)| {
            rows.is_empty() || rules.get(table).is_some_and(|all| Arc::ptr_eq(all, rows))
        })
    }

    /// Prints the options that hosts may set: the same text for hosts with the same options.
    pub(crate) fn of_hosts_text(&self) -> String {
        let mut text = String::new();
        for spec in options::all().filter(|spec| super::is_of_hosts(spec.key)) {
            super::print_value(spec.key, &self.settings, &mut text);
        }
        text
    }

    /// Completes the settings of each host with those for all hosts.
    pub(super) fn complete_hosts(&mut self) {
        let mut hosts = mem::take(&mut self.hosts);
        let base = Arc::new(self.settings.clone());
        for (host, row) in hosts.iter_mut().zip(self.rows(tables::HOSTS)) {
            let own = mem::replace(&mut host.settings, Settings::over(Arc::clone(&base)));
            let root = row.settings.get(ROOT[0]).expect("a row has every field");
            let place = row.places.get(ROOT[0]).unwrap_or(&row.place);
            host.places.insert(ROOT[1], place.clone());
            for key in host.places.keys() {
                let value = if *key == ROOT[1] { Some(root) } else { own.get(key) };
                let (spec, value) = options::find(key).zip(value).expect("it was set as one");
                host.settings.set(spec, value.clone()).expect("it was taken before");
            }
            host.places.insert(ROOT[0], place.clone());
            for (key, place) in &self.places {
                host.places.entry(*key).or_insert_with(|| place.clone());
            }
        }
        self.hosts = hosts;
    }

    /// Gives hosts the rules of all hosts, table by table. A host with its own rules in a table,
    /// also in a file at its root, keeps those alone. Those in files at the first root are that
    /// root's alone.
    pub(crate) fn inherit_rules(&mut self) -> Inherited {
        let rules = self.inherited();
        self.hosts.iter_mut().for_each(|host| host.inherit(&rules));
        rules
    }

    /// Rules for hosts without their own.
    pub(crate) fn inherited(&self) -> Inherited {
        let rows = |table| self.rows(table).iter().filter(|row| !row.of_site).cloned();
        INHERITED.into_iter().map(|table| (table, Arc::new(rows(table).collect()))).collect()
    }

    /// Inherits rules as in [`Said::inherit_rules`], for one host.
    pub(crate) fn inherit(&mut self, rules: &Inherited) {
        for (table, rows) in rules {
            if self.rows(table).is_empty() && !rows.is_empty() {
                self.rows.insert(table, Arc::clone(rows));
            }
        }
    }

    /// Copies the configuration of one host alone: of the first one without the others.
    pub(crate) fn alone(&self) -> Self {
        let rows = self.rows.iter().filter(|(table, _)| **table != tables::HOSTS);
        Self {
            settings: self.settings.clone(),
            places: self.places.clone(),
            rows: rows.map(|(table, rows)| (*table, Arc::clone(rows))).collect(),
            hosts: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Iterates over the configurations of all hosts, by number.
    pub(crate) fn all_hosts(&self) -> impl Iterator<Item = &Self> {
        iter::once(self).chain(&self.hosts)
    }

    /// Names of hosts for messages, by number; a single one needs no name.
    pub(crate) fn host_names(&self) -> Vec<String> {
        let first = if self.hosts.is_empty() { "" } else { "default host" };
        let name = |row: &Row| Some(format!("host {}", row.settings.list("hosts.names").first()?));
        let names = self.rows(tables::HOSTS).iter().map(|row| name(row).unwrap_or_default());
        iter::once(first.to_owned()).chain(names).collect()
    }

    /// Directory that is served.
    pub(crate) fn root(&self) -> PathBuf {
        path_of(self.settings.text(ROOT[1]))
    }

    /// True if it serves files. A host without a root has only redirects and responses.
    pub(crate) fn has_root(&self) -> bool {
        !self.settings.text(ROOT[1]).is_empty()
    }

    /// True for a problem in a file with rules at the root.
    pub(crate) fn is_of_rules_file(&self, problem: &Problem) -> bool {
        let Location::File { name, .. } = &problem.place else { return false };
        let root = self.root();
        RULES_FILES.iter().any(|file| root.join(file).display().to_string() == *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_any_bytes_is_a_text() {
        let all: Vec<u8> = (1..=255).collect();
        for path in [&b"/srv/a b"[..], "/srv/\u{fc}ber".as_bytes(), b"/\xff\xfe/new\nline", &all] {
            let text = text_of(OsStr::from_bytes(path));
            assert!(!text.contains(char::is_control), "{text:?}");
            assert_eq!(path_of(&text).as_os_str().as_bytes(), path);
        }
        assert_eq!(text_of(OsStr::new("/srv/\u{fc}ber")), "/srv/\u{fc}ber");
    }
}
