//! Places in the text of a file: lines and columns, and keys that are there twice.
use super::FileText;
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// Lines and columns of positions in a text. A search for all positions in ascending order reads
/// the text once.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Offsets at which lines start.
    starts: Vec<usize>,
    /// Position found last, and its column.
    last: (usize, usize),
    /// Bytes read to find columns.
    #[cfg(test)]
    pub(super) steps: usize,
}

impl Places {
    pub(super) fn new(text: &str) -> Self {
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1)).collect();
        Self { starts, ..Self::default() }
    }

    /// Line and column (in characters) of a position; both count from 1.
    pub(super) fn find(&mut self, text: &str, at: usize) -> (usize, usize) {
        let at = if text.is_char_boundary(at) { at } else { text.len() };
        let line = self.starts.partition_point(|start| *start <= at).max(1);
        let start = self.starts.get(line - 1).copied().unwrap_or(0);
        // Values of one long line are found in order.
        let (from, column) = match self.last {
            (last, column) if (start..=at).contains(&last) && column > 0 => (last, column),
            _ => (start, 1),
        };
        #[cfg(test)]
        {
            self.steps += at - from;
        }
        self.last = (at, column + text[from..at].chars().count());
        (line, self.last.1)
    }
}

/// Names a key that is there twice, and its first place if there is only one.
pub(super) fn twice(file: FileText<'_>, table: &DeTable<'_>, again: Range<usize>) -> String {
    let name = file.text.get(again.clone()).unwrap_or_default();
    let before = file.text.get(..again.start).unwrap_or_default();
    let start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = file.text[start..].lines().next().unwrap_or_default().trim();
    if line.starts_with('[') {
        let first = file.text.lines().position(|other| other.trim() == line).unwrap_or(0) + 1;
        return format!("section {line} appears twice, first in line {first}");
    }
    let mut before = Vec::new();
    keys_before(table, "", again.start, name.trim_matches(['"', '\'']), &mut before);
    match before.as_slice() {
        [(key, at)] => {
            let line = file.text[..*at].matches('\n').count() + 1;
            format!("{key} appears twice, first in line {line}")
        }
        _ => format!("{name} appears twice"),
    }
}

/// Finds all keys of this name before a position, in full, and their positions.
fn keys_before(
    table: &DeTable<'_>,
    prefix: &str,
    end: usize,
    name: &str,
    found: &mut Vec<(String, usize)>,
) {
    for (key, value) in table {
        let whole = match prefix {
            "" => key.get_ref().to_string(),
            _ => format!("{prefix}.{}", key.get_ref()),
        };
        let at = key.span().start;
        if key.get_ref() == name && at < end {
            found.push((whole.clone(), at));
        }
        if let DeValue::Table(inner) = value.get_ref() {
            keys_before(inner, &whole, end, name, found);
        }
    }
}
